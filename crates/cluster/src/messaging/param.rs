//! Parameters: what travels with a message besides its payload.
//!
//! ```text
//! number  name                             value
//! 0       FORWARD_TO                       uvint count, for each: address, uvint id
//! 1       RESPOND_TO                       address
//! 5       TRACE_SESSION                    16 bytes of a uuid
//! 6       TRACE_TYPE                       u8: 0 none, 1 query, 2 repair
//! 8, 9    TOMBSTONE_FAIL, _WARNING         i32
//! 10, 11  LOCAL_READ_SIZE_FAIL, _WARN      i64
//! 12, 13  ROW_INDEX_READ_SIZE_FAIL, _WARN  i64
//! 16, 17  TOO_MANY_REFERENCED_INDEXES_WARN, _FAIL  i32
//! ```
//! Others are stepped over: flags of nodes before 4.0 (2, 3, 4, 7), CUSTOM (14), SNAPSHOT_RANGES (15), and
//! what later versions may add. A value that does not end where its length says is an error.
//!
//! Source: `ParamType` and `ForwardingInfo` of Cassandra 4.0 to 5.0.

use crate::endpoint::Endpoint;
use bytes::Bytes;
use model::vint;
use partition::codec::{DecodeError, Input, SliceInput};
use uuid::Uuid;

/// The shortest entry of FORWARD_TO, in bytes.
const FORWARD_BYTES_MIN: usize = 8;

/// One of the nodes to which a message is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The node.
    pub to: Endpoint,
    /// The id that the message has there.
    pub id: u64,
}

/// What is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceType {
    /// Something else.
    None = 0,
    /// A query.
    Query = 1,
    /// A repair.
    Repair = 2,
}

/// A threshold that a read crossed on a replica. `Warn` ones were answered, `Fail` ones were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// `tombstone_failure_threshold`, with the number of tombstones.
    TombstoneFail = 8,
    /// `tombstone_warn_threshold`, with the number of tombstones.
    TombstoneWarn = 9,
    /// `local_read_size_fail_threshold`, with bytes.
    LocalReadSizeFail = 10,
    /// `local_read_size_warn_threshold`, with bytes.
    LocalReadSizeWarn = 11,
    /// `row_index_read_size_fail_threshold`, with bytes.
    RowIndexReadSizeFail = 12,
    /// `row_index_read_size_warn_threshold`, with bytes.
    RowIndexReadSizeWarn = 13,
    /// `sai_sstable_indexes_per_query_warn_threshold`, with the number of indexes.
    IndexesWarn = 16,
    /// `sai_sstable_indexes_per_query_fail_threshold`, with the number of indexes.
    IndexesFail = 17,
}

impl Threshold {
    const ALL: [Threshold; 8] = [
        Threshold::TombstoneFail,
        Threshold::TombstoneWarn,
        Threshold::LocalReadSizeFail,
        Threshold::LocalReadSizeWarn,
        Threshold::RowIndexReadSizeFail,
        Threshold::RowIndexReadSizeWarn,
        Threshold::IndexesWarn,
        Threshold::IndexesFail,
    ];

    /// Whether its value has four bytes, not eight.
    fn is_short(self) -> bool {
        matches!(
            self,
            Threshold::TombstoneFail
                | Threshold::TombstoneWarn
                | Threshold::IndexesWarn
                | Threshold::IndexesFail
        )
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// The receiver passes the message on to these.
    ForwardTo(Vec<Forward>),
    /// The answer goes there, not to who sent the message.
    RespondTo(Endpoint),
    /// The trace that the work belongs to.
    TraceSession(Uuid),
    /// What that trace is about.
    TraceType(TraceType),
    /// A read crossed a threshold, with what it came to.
    Crossed(Threshold, i64),
}

impl Param {
    fn number(&self) -> u64 {
        match self {
            Param::ForwardTo(_) => 0,
            Param::RespondTo(_) => 1,
            Param::TraceSession(_) => 5,
            Param::TraceType(_) => 6,
            Param::Crossed(threshold, _) => *threshold as u64,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Param::ForwardTo(forwards) => {
                let of_one = |f: &Forward| address_len(&f.to) + vint::unsigned_len(f.id);
                vint::unsigned_len(forwards.len() as u64) + forwards.iter().map(of_one).sum::<usize>()
            }
            Param::RespondTo(endpoint) => address_len(endpoint),
            Param::TraceSession(_) => 16,
            Param::TraceType(_) => 1,
            Param::Crossed(threshold, _) => {
                if threshold.is_short() {
                    4
                } else {
                    8
                }
            }
        }
    }

    /// The length of what [`Param::encode`] appends, in bytes.
    pub(super) fn encoded_len(&self) -> usize {
        let len = self.value_len();
        vint::unsigned_len(self.number()) + vint::unsigned_len(len as u64) + len
    }

    /// Appends number, length and value.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(out, self.number());
        vint::write_unsigned(out, self.value_len() as u64);
        match self {
            Param::ForwardTo(forwards) => {
                vint::write_unsigned(out, forwards.len() as u64);
                for forward in forwards {
                    forward.to.encode(out);
                    vint::write_unsigned(out, forward.id);
                }
            }
            Param::RespondTo(endpoint) => endpoint.encode(out),
            Param::TraceSession(session) => out.extend_from_slice(session.as_bytes()),
            Param::TraceType(kind) => out.push(*kind as u8),
            Param::Crossed(threshold, value) if threshold.is_short() => {
                let value = i32::try_from(*value).unwrap_or(i32::MAX);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Param::Crossed(_, value) => out.extend_from_slice(&value.to_be_bytes()),
        }
    }

    /// The parameter of that number and value; `None` for one that is not known here.
    ///
    /// # Errors
    /// When the value is none of that parameter.
    pub(super) fn decode(number: u64, value: Bytes) -> Result<Option<Param>, DecodeError> {
        let mut input = SliceInput::new(value);
        let param = match number {
            0 => Param::ForwardTo(decode_forwards(&mut input)?),
            1 => Param::RespondTo(Endpoint::decode(&mut input)?),
            5 => Param::TraceSession(Uuid::from_bytes(input.array()?)),
            6 => Param::TraceType(match input.u8()? {
                1 => TraceType::Query,
                2 => TraceType::Repair,
                _ => TraceType::None,
            }),
            other => match Threshold::ALL.into_iter().find(|threshold| *threshold as u64 == other) {
                Some(threshold) if threshold.is_short() => Param::Crossed(threshold, i64::from(input.i32()?)),
                Some(threshold) => Param::Crossed(threshold, input.i64()?),
                None => return Ok(None),
            },
        };
        match input.remaining() {
            0 => Ok(Some(param)),
            left => Err(input.malformed(format!("parameter {number} goes on for {left} bytes"))),
        }
    }
}

fn decode_forwards(input: &mut SliceInput) -> Result<Vec<Forward>, DecodeError> {
    let count = input.uvint()?;
    let possible = input.remaining() / FORWARD_BYTES_MIN;
    if count > possible as u64 {
        return Err(input.malformed(format!("{count} nodes in {} bytes", input.remaining())));
    }
    (0..count).map(|_| Ok(Forward { to: Endpoint::decode(input)?, id: input.uvint()? })).collect()
}

fn address_len(endpoint: &Endpoint) -> usize {
    if endpoint.ip.is_ipv4() { 7 } else { 19 }
}
