//! The admin API from the other side.

use super::Failure;
use crate::admin::model::ErrorBody;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use ureq::Agent;
use ureq::http::Response;

/// Speaks to one node.
pub(crate) struct Client {
    agent: Agent,
    address: String,
}

type Answer = Result<Response<ureq::Body>, ureq::Error>;

impl Client {
    /// For verbs, which may take as long as a compaction: no timeout.
    pub(super) fn new(address: &str) -> Client {
        Client::with_timeout(address, None)
    }

    /// With a bound for each request, from the connection to the end of the answer.
    pub(crate) fn with_timeout(address: &str, timeout: Option<Duration>) -> Client {
        // Errors carry a body that says what is wrong.
        let config =
            Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(timeout).build();
        Client { agent: config.new_agent(), address: address.to_owned() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn judge(&self, answer: Answer) -> Result<ureq::Body, Failure> {
        let response = answer.map_err(|error| {
            Failure::Node(format!("Failed to connect to '{}' - {error}. Is the node running?", self.address))
        })?;
        let status = response.status();
        let mut body = response.into_body();
        if status.is_success() {
            return Ok(body);
        }
        let text = body.read_to_string().unwrap_or_default();
        Err(match serde_json::from_str::<ErrorBody>(&text) {
            // What does not exist is the caller's mistake, as in nodetool.
            Ok(error) if error.error == "not_found" => Failure::Usage(error.message),
            Ok(error) => Failure::Node(error.message),
            Err(_) => Failure::Node(format!("{} answered {status}", self.address)),
        })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, Failure> {
        let request = self.agent.get(self.url(path)).query_pairs(query.iter().copied());
        let mut body = self.judge(request.call())?;
        body.read_json()
            .map_err(|e| Failure::Node(format!("{} does not answer as an admin API: {e}", self.address)))
    }

    pub(super) fn post(&self, path: &str, body: &impl Serialize) -> Result<String, Failure> {
        self.judge(self.agent.post(self.url(path)).send_json(body)).map(|_| String::new())
    }

    /// As [`Client::post`], for what answers with more than that it is done.
    pub(super) fn post_for<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let mut body = self.judge(self.agent.post(self.url(path)).send_json(body))?;
        body.read_json()
            .map_err(|e| Failure::Node(format!("{} does not answer as an admin API: {e}", self.address)))
    }

    pub(super) fn put(&self, path: &str, body: &impl Serialize) -> Result<String, Failure> {
        self.judge(self.agent.put(self.url(path)).send_json(body)).map(|_| String::new())
    }

    pub(super) fn delete(&self, path: &str, body: &impl Serialize) -> Result<String, Failure> {
        self.judge(self.agent.delete(self.url(path)).force_send_body().send_json(body)).map(|_| String::new())
    }
}
