//! Asks a node's admin API, over TCP or its Unix socket: what nodetool and `top` have in common.
//!
//! A request is built from a path and query pairs or a body. The answer is one of [`crate::api`]'s types, or
//! a [`ClientError`] with words for whoever typed the command.

pub(crate) mod access;
mod secure;
mod unix;

use crate::api::{ADMIN_PORT_DEFAULT, ErrorBody, HEADER};
use access::{Access, Secret};
use env::sync::Mutex;
use rustls::pki_types::ServerName;
use secure::SecureConnector;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use unix::UnixConnector;
use ureq::http::Response;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, RequestBuilder};

/// Where a node on this machine listens unless it was told otherwise.
pub(crate) fn default_admin() -> String {
    format!("127.0.0.1:{ADMIN_PORT_DEFAULT}")
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// What was asked for does not exist, or cannot be any more.
    #[error("{0}")]
    Refused(String),
    /// The node failed, or does not answer.
    #[error("{0}")]
    Node(String),
}

/// Where a node's admin API listens.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// `HOST:PORT`.
    Tcp(String),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Place {
    /// The socket, if there is one, and the address otherwise.
    pub(crate) fn of(admin: &str, socket: Option<&PathBuf>) -> Place {
        socket.map_or_else(|| Place::Tcp(admin.to_owned()), |path| Place::Socket(path.clone()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => f.write_str(address),
            Place::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Speaks to one node.
pub(crate) struct Client {
    agent: Agent,
    place: Place,
    /// The `authorization` header: a password, then the token that the node gave for it.
    authorization: Mutex<Option<Secret>>,
}

type Answer = Result<Response<ureq::Body>, ureq::Error>;

impl Client {
    /// For verbs, which may take as long as a compaction: no timeout.
    ///
    /// # Errors
    /// As [`Client::with_timeout`].
    pub(crate) fn new(place: Place, access: Access) -> Result<Client, String> {
        Client::with_timeout(place, access, None)
    }

    /// With a bound for each request, from the connection to the end of the answer.
    ///
    /// # Errors
    /// When TLS is asked for with a node that has no name.
    pub(crate) fn with_timeout(
        place: Place,
        access: Access,
        timeout: Option<Duration>,
    ) -> Result<Client, String> {
        // Errors carry a body that says what is wrong.
        let config =
            Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(timeout).build();
        let agent = match (&place, access.tls) {
            (Place::Socket(path), _) => {
                Agent::with_parts(config, UnixConnector::new(path.clone()), DefaultResolver::default())
            }
            (Place::Tcp(_), None) => config.new_agent(),
            (Place::Tcp(address), Some(tls)) => {
                let name = ServerName::try_from(access::host(address).to_owned());
                let name = name.map_err(|error| format!("{address}: {error}"))?;
                let connector = ().chain(TcpConnector::default()).chain(SecureConnector::new(tls, name));
                Agent::with_parts(config, connector, DefaultResolver::default())
            }
        };
        Ok(Client { agent, place, authorization: Mutex::new(access.authorization) })
    }

    /// A request with what each has.
    fn asked<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        let request = request.header(HEADER, "1");
        match &*self.authorization.lock() {
            Some(shown) => request.header("authorization", shown.reveal()),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        match &self.place {
            // TLS is below that: the connector's business.
            Place::Tcp(address) => format!("http://{address}{path}"),
            // Nobody looks at the address.
            Place::Socket(_) => format!("http://127.0.0.1{path}"),
        }
    }

    fn judge(&self, answer: Answer) -> Result<ureq::Body, ClientError> {
        let response = answer.map_err(|error| {
            ClientError::Node(format!(
                "Failed to connect to '{}' - {error}. Is the node running?",
                self.place
            ))
        })?;
        let status = response.status();
        if let Some(token) = response.headers().get("authorization").and_then(|value| value.to_str().ok()) {
            *self.authorization.lock() = Some(Secret::from(token.to_owned()));
        }
        let mut body = response.into_body();
        if status.is_success() {
            return Ok(body);
        }
        let text = body.read_to_string().unwrap_or_default();
        Err(match serde_json::from_str::<ErrorBody>(&text) {
            Ok(error) if matches!(error.error.as_str(), "not_found" | "refused") => {
                ClientError::Refused(error.message)
            }
            Ok(error) => ClientError::Node(error.message),
            Err(_) => ClientError::Node(format!("{} answered {status}", self.place)),
        })
    }

    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let request = self.asked(self.agent.get(self.url(path))).query_pairs(query.iter().copied());
        let mut body = self.judge(request.call())?;
        body.read_json()
            .map_err(|e| ClientError::Node(format!("{} does not answer as an admin API: {e}", self.place)))
    }

    pub(crate) fn post(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.judge(self.asked(self.agent.post(self.url(path))).send_json(body)).map(|_| ())
    }

    /// As [`Client::post`], for what answers with more than that it is done.
    pub(crate) fn post_for<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let mut body = self.judge(self.asked(self.agent.post(self.url(path))).send_json(body))?;
        body.read_json()
            .map_err(|e| ClientError::Node(format!("{} does not answer as an admin API: {e}", self.place)))
    }

    pub(crate) fn put(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.judge(self.asked(self.agent.put(self.url(path))).send_json(body)).map(|_| ())
    }

    pub(crate) fn delete(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.judge(self.asked(self.agent.delete(self.url(path))).force_send_body().send_json(body))
            .map(|_| ())
    }
}
