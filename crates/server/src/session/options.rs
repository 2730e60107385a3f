//! What comes with a statement besides its text: consistency levels, values, page, timestamps.

use bytes::Bytes;
use coordinator::{PagingState, PagingVersion};
use cql::ColumnSpec;
use cql::bind::{BindContext, BoundValue, BoundValues};
use model::Consistency;
use protocol::ProtocolVersion;
use protocol::primitives::Value;
use protocol::request::QueryParams;
use protocol::response::error::ErrorResponse;
use std::collections::HashSet;
use std::sync::Arc;

use super::Sessions;

/// The words for a paging state that is none.
pub(super) const PAGING_STATE_REFUSAL: &str = "Invalid value for the paging state";

/// The parameters of one execution, checked.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) consistency: Consistency,
    pub(super) serial_consistency: Consistency,
    /// Rows of a page; `None`: one page for all.
    pub(super) page_rows: Option<u32>,
    /// Where the page before ended, as the client sent it back.
    pub(super) paging_state: Option<Bytes>,
    pub(super) skip_metadata: bool,
    pub(super) bind: BindContext,
}

impl Options {
    /// Checks the parameters of a request. What only reads (`is_read`) needs no timestamp of the node's.
    pub(super) fn of(
        sessions: &Sessions,
        params: &QueryParams,
        is_read: bool,
    ) -> Result<Options, ErrorResponse> {
        let serial_consistency = allowed(params.serial_consistency.unwrap_or(Consistency::Serial))?;
        let env = &sessions.node.env;
        let now_micros = env.now_micros();
        let page_rows = params.page_size.and_then(|rows| u32::try_from(rows).ok());
        // Reads write nothing that could expire.
        let expiration_max_s = if is_read { u32::MAX } else { sessions.node.expiration_max_s() };
        Ok(Options {
            consistency: allowed(params.consistency)?,
            serial_consistency,
            page_rows,
            paging_state: params.paging_state.clone(),
            skip_metadata: params.skip_metadata,
            bind: BindContext {
                // The format has no later moment for what is deleted.
                now_s: params.now_in_seconds.unwrap_or_else(|| seconds(now_micros)).min(expiration_max_s),
                now_micros,
                timestamp_micros: match params.timestamp_us {
                    Some(timestamp) => timestamp,
                    None if is_read => now_micros,
                    None => sessions.coordinator.next_timestamp(),
                },
                page_size: page_rows,
                expiration_max_s,
                // Until the statement and who sends it are known.
                unmasks: false,
                guard: None,
                uuids: Arc::clone(&sessions.uuids),
            },
        })
    }
}

impl Options {
    /// Where the page before ended, of a read.
    pub(super) fn after(&self, version: ProtocolVersion) -> Result<Option<PagingState>, ErrorResponse> {
        let Some(bytes) = &self.paging_state else { return Ok(None) };
        let state = PagingState::decode(bytes, paging_version(version));
        state.map(Some).ok_or_else(|| ErrorResponse::protocol(PAGING_STATE_REFUSAL))
    }
}

/// Seconds since the epoch.
pub(super) fn seconds(micros: i64) -> u32 {
    u32::try_from(micros.div_euclid(1_000_000)).unwrap_or_default()
}

/// How many of a statement's markers get a value: where values are named, those whose name is given.
pub(super) fn count_of_values(params: &QueryParams, markers: &[ColumnSpec]) -> usize {
    let Some(names) = &params.names else { return params.values.len() };
    let names: HashSet<&str> = names.iter().map(String::as_str).collect();
    markers.iter().filter(|marker| names.contains(marker.name.as_str())).count()
}

/// The values of a request.
pub(super) fn values(params: QueryParams) -> BoundValues {
    match params.names {
        None => positional(params.values),
        Some(names) => {
            BoundValues::Named(names.into_iter().zip(params.values.into_iter().map(bound)).collect())
        }
    }
}

/// Values in the order of the markers.
pub(super) fn positional(values: Vec<Value>) -> BoundValues {
    BoundValues::Positional(values.into_iter().map(bound).collect())
}

fn bound(value: Value) -> BoundValue {
    match value {
        Value::Null => BoundValue::Null,
        Value::Unset => BoundValue::Unset,
        Value::Set(bytes) => BoundValue::Bytes(bytes),
    }
}

/// The form of paging states in a protocol version.
pub(super) fn paging_version(version: ProtocolVersion) -> PagingVersion {
    if version < ProtocolVersion::V4 { PagingVersion::V3 } else { PagingVersion::V4 }
}

/// The level, if it is one that clients may ask for.
fn allowed(level: Consistency) -> Result<Consistency, ErrorResponse> {
    match level {
        Consistency::NodeLocal => Err(ErrorResponse::invalid(
            "NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes",
        )),
        level => Ok(level),
    }
}
