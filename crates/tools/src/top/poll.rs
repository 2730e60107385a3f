//! Asks the node: its sums, its heat map, reads.

use crate::api::{
    BulkStats, Cluster, HEAT_SECONDS, HeatColumns, Info, ReadSample, ReadsByTable, SampleQuery,
};
use crate::client::access::Access;
use crate::client::{Client, ClientError, Place};
use env::clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take. The admin API answers from memory.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds of the heat map that are asked for again: reads in flight still count in them.
const AGAIN_SECONDS: u64 = 5;

/// One look at a node.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Name of the cluster.
    pub(super) cluster: String,
    /// The node.
    pub(super) info: Info,
    /// Sums of reads since its start.
    pub(super) reads: ReadsByTable,
    /// Counts of its last seconds.
    pub(super) heat: HeatColumns,
    /// Its bulk reads; `None` where it was built without them.
    pub(super) bulk: Option<BulkStats>,
}

/// The node did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// Why.
    pub(super) why: String,
    /// Seconds since the first of the failures in a row.
    pub(super) seconds: u64,
}

/// Looks at one node.
pub(super) struct Poller {
    client: Client,
    clock: Arc<dyn Clock>,
    /// When the last look succeeded.
    last_nanos: Option<u64>,
    failing_since_nanos: Option<u64>,
}

impl Poller {
    /// For the node whose admin API is at `place`.
    ///
    /// # Errors
    /// When it cannot be spoken to as `access` says.
    pub(super) fn new(place: Place, access: Access, clock: Arc<dyn Clock>) -> Result<Poller, String> {
        let client = Client::with_timeout(place, access, Some(TIMEOUT))?;
        Ok(Poller { client, clock, last_nanos: None, failing_since_nanos: None })
    }

    /// Looks at the node.
    ///
    /// # Errors
    /// Why there is no answer, and for how long there was none.
    pub(super) fn look(&mut self) -> Result<Look, Failed> {
        let now = self.clock.monotonic_nanos();
        let seconds_since = |then: u64| now.saturating_sub(then) / 1_000_000_000;
        let seconds = match self.last_nanos {
            Some(last) => (seconds_since(last) + AGAIN_SECONDS).min(HEAT_SECONDS as u64),
            None => HEAT_SECONDS as u64,
        };
        match self.ask(seconds) {
            Ok(look) => {
                (self.last_nanos, self.failing_since_nanos) = (Some(now), None);
                Ok(look)
            }
            Err(why) => {
                let since = *self.failing_since_nanos.get_or_insert(now);
                Err(Failed { why, seconds: seconds_since(since) })
            }
        }
    }

    fn ask(&self, heat_seconds: u64) -> Result<Look, String> {
        let get = "/api/v1/reads/heat";
        let said = |error: ClientError| error.to_string();
        let bulk = match self.client.get("/api/v1/bulk", &[]) {
            Ok(stats) => Some(stats),
            Err(ClientError::Refused(_)) => None,
            Err(error) => return Err(said(error)),
        };
        let cluster: Cluster = self.client.get("/api/v1/cluster", &[]).map_err(said)?;
        Ok(Look {
            cluster: cluster.name,
            info: self.client.get("/api/v1/info", &[]).map_err(said)?,
            reads: self.client.get("/api/v1/reads/tables", &[]).map_err(said)?,
            heat: self.client.get(get, &[("seconds", &heat_seconds.to_string())]).map_err(said)?,
            bulk,
        })
    }

    /// Asks for reads.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) fn reads(&self, query: &SampleQuery) -> Result<Vec<ReadSample>, String> {
        let number = |value: Option<u64>| value.map(|n| n.to_string());
        let band = |value: Option<usize>| number(value.map(|n| n as u64));
        let pairs = [
            ("from_band", band(query.from_band)),
            ("to_band", band(query.to_band)),
            ("from_second", number(query.from_second)),
            ("to_second", number(query.to_second)),
            ("keyspace", query.keyspace.clone()),
            ("table", query.table.clone()),
            ("limit", band(query.limit)),
        ];
        let pairs: Vec<(&str, &str)> =
            pairs.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        self.client.get("/api/v1/reads/samples", &pairs).map_err(|error| error.to_string())
    }
}
