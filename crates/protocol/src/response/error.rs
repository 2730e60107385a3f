//! ERROR: why a request failed.
//!
//! ```text
//! i32 code | string message | what the code adds:
//!
//! 1000 unavailable     consistency | i32 required | i32 alive
//! 1100 write timeout   consistency | i32 received | i32 block for | string write type | v5, CAS: u16 contentions
//! 1200 read timeout    consistency | i32 received | i32 block for | u8 data present
//! 1300 read failure    consistency | i32 received | i32 block for | failures | u8 data present
//! 1400 function        string keyspace | string name | string list of argument types
//! 1500 write failure   consistency | i32 received | i32 block for | failures | string write type
//! 1700 CAS unknown     consistency | i32 received | i32 block for
//! 2400 already exists  string keyspace | string table, empty for a keyspace
//! 2500 unprepared      short bytes id
//!
//! failures   v3, v4: i32 n      v5: i32 n | n * (inetaddr | u16 reason)
//! ```
//!
//! Older clients get what they know. Before v4 a read or write failure becomes a timeout, and a function or
//! CDC failure an invalid request. Before v5 an unknown CAS outcome becomes a write timeout of type CAS, and
//! such a timeout says nothing of contention.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};

#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::{put_consistency, put_inet_addr, put_short_bytes, put_string, put_string_list};
use crate::version::ProtocolVersion;
use model::{Consistency, WriteType};

/// Why a replica failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum FailureReason {
    /// It did not say.
    Unknown = 0,
    /// A read met more tombstones than `tombstone_failure_threshold`.
    ReadTooManyTombstones = 1,
    /// It gave up in time.
    Timeout = 2,
    /// Its schema does not know the request.
    IncompatibleSchema = 3,
    /// A read grew over its size limit.
    ReadSize = 4,
    /// It is down.
    NodeDown = 5,
    /// An index is not built.
    IndexNotAvailable = 6,
    /// An index read touches too many index files.
    ReadTooManyIndexes = 7,
}

impl FailureReason {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::ReadTooManyTombstones,
        Self::Timeout,
        Self::IncompatibleSchema,
        Self::ReadSize,
        Self::NodeDown,
        Self::IndexNotAvailable,
        Self::ReadTooManyIndexes,
    ];

    /// The reason of a code; codes nobody knows are [`FailureReason::Unknown`].
    pub fn from_code(code: u16) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unknown)
    }
}

/// How far a request got before it timed out or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The consistency level of the phase in question.
    pub consistency: Consistency,
    /// Replicas that answered.
    pub received: i32,
    /// Replicas that had to.
    pub block_for: i32,
}

/// The replicas that failed, and why.
pub type Failures = Vec<(IpAddr, FailureReason)>;

/// The kind of an error, with what drivers act upon.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ErrorKind {
    /// 0000: a bug, or a state nobody foresaw.
    Server,
    /// 000A: the client does not keep to the protocol.
    Protocol,
    /// 0100: who are you?
    BadCredentials,
    /// 1000: too few live replicas; nothing was tried.
    Unavailable { consistency: Consistency, required: i32, alive: i32 },
    /// 1001: try later, or elsewhere.
    Overloaded,
    /// 1002: the node is joining.
    Bootstrapping,
    /// 1003: a truncation failed.
    Truncate,
    /// 1100: replicas did not acknowledge a write in time. `contentions`: of a conditional update, in v5.
    WriteTimeout { progress: Progress, write_type: WriteType, contentions: u16 },
    /// 1200: replicas did not answer a read in time.
    ReadTimeout { progress: Progress, data_present: bool },
    /// 1300: replicas failed a read.
    ReadFailure { progress: Progress, failures: Failures, data_present: bool },
    /// 1400: a user-defined function failed.
    FunctionFailure { keyspace: String, function: String, argument_types: Vec<String> },
    /// 1500: replicas failed a write.
    WriteFailure { progress: Progress, failures: Failures, write_type: WriteType },
    /// 1600: no space for change capture.
    CdcWriteFailure,
    /// 1700: a conditional update may or may not have happened.
    CasWriteUnknown { progress: Progress },
    /// 2000: not CQL.
    Syntax,
    /// 2100: not allowed.
    Unauthorized,
    /// 2200: CQL that makes no sense.
    Invalid,
    /// 2300: the configuration forbids it.
    Config,
    /// 2400: a keyspace (empty table) or table that exists.
    AlreadyExists { keyspace: String, table: String },
    /// 2500: prepare it again.
    Unprepared { id: Bytes },
}

/// An error as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The kind and its details.
    pub kind: ErrorKind,
    /// The text for people.
    pub message: String,
}

impl std::fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[code={:04x}] {}", self.kind.code(), self.message)
    }
}

impl std::error::Error for ErrorResponse {}

impl ErrorKind {
    /// The code in v5; see the module's words on older versions.
    pub const fn code(&self) -> u32 {
        match self {
            Self::Server => 0x0000,
            Self::Protocol => 0x000A,
            Self::BadCredentials => 0x0100,
            Self::Unavailable { .. } => 0x1000,
            Self::Overloaded => 0x1001,
            Self::Bootstrapping => 0x1002,
            Self::Truncate => 0x1003,
            Self::WriteTimeout { .. } => 0x1100,
            Self::ReadTimeout { .. } => 0x1200,
            Self::ReadFailure { .. } => 0x1300,
            Self::FunctionFailure { .. } => 0x1400,
            Self::WriteFailure { .. } => 0x1500,
            Self::CdcWriteFailure => 0x1600,
            Self::CasWriteUnknown { .. } => 0x1700,
            Self::Syntax => 0x2000,
            Self::Unauthorized => 0x2100,
            Self::Invalid => 0x2200,
            Self::Config => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
            Self::Unprepared { .. } => 0x2500,
        }
    }
}

impl ErrorResponse {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// 0000.
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Server, message)
    }

    /// 000A.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    /// 1001.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Overloaded, message)
    }

    /// 2200.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// 2500, in Cassandra's words.
    pub fn unprepared(id: &[u8]) -> Self {
        let id = Bytes::copy_from_slice(id);
        let message = format!(
            "Prepared query with ID {id:x} not found (either the query was not prepared on this host (maybe the \
             host has been restarted?) or you have prepared too many queries and it has been evicted from the \
             internal cache)"
        );
        Self::new(ErrorKind::Unprepared { id }, message)
    }

    /// The error as a client of `version` can understand it, if that differs.
    fn down_converted(&self, version: ProtocolVersion) -> Option<Self> {
        let v3 = version < ProtocolVersion::V4;
        let timed_out = |received: i32| format!("Operation timed out - received only {received} responses.");
        match &self.kind {
            ErrorKind::ReadFailure { progress, data_present, .. } if v3 => {
                let kind = ErrorKind::ReadTimeout { progress: *progress, data_present: *data_present };
                Some(Self::new(kind, timed_out(progress.received)))
            }
            ErrorKind::WriteFailure { progress, write_type, .. } if v3 => {
                let kind =
                    ErrorKind::WriteTimeout { progress: *progress, write_type: *write_type, contentions: 0 };
                Some(Self::new(kind, timed_out(progress.received)))
            }
            ErrorKind::FunctionFailure { .. } if v3 => {
                Some(Self::invalid(format!("ERROR FUNCTION_FAILURE: {}", self.message)))
            }
            ErrorKind::CdcWriteFailure if v3 => {
                Some(Self::invalid(format!("ERROR CDC_WRITE_FAILURE: {}", self.message)))
            }
            ErrorKind::CasWriteUnknown { progress } if version < ProtocolVersion::V5 => {
                let kind = ErrorKind::WriteTimeout {
                    progress: *progress,
                    write_type: WriteType::Cas,
                    contentions: 0,
                };
                Some(Self::new(kind, timed_out(progress.received)))
            }
            // What is said of contention is news of v5.
            ErrorKind::WriteTimeout { progress, write_type: WriteType::Cas, .. }
                if version < ProtocolVersion::V5 =>
            {
                Some(Self::new(self.kind.clone(), timed_out(progress.received)))
            }
            _ => None,
        }
    }

    /// Appends the body.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self.down_converted(version) {
            Some(error) => error.encode_as_is(version, out),
            None => self.encode_as_is(version, out),
        }
    }

    fn encode_as_is(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let v5 = version >= ProtocolVersion::V5;
        out.put_u32(self.kind.code());
        put_string(out, &self.message);
        match &self.kind {
            ErrorKind::Server
            | ErrorKind::Protocol
            | ErrorKind::BadCredentials
            | ErrorKind::Overloaded
            | ErrorKind::Bootstrapping
            | ErrorKind::Truncate
            | ErrorKind::CdcWriteFailure
            | ErrorKind::Syntax
            | ErrorKind::Unauthorized
            | ErrorKind::Invalid
            | ErrorKind::Config => {}
            ErrorKind::Unavailable { consistency, required, alive } => {
                put_consistency(out, *consistency);
                out.put_i32(*required);
                out.put_i32(*alive);
            }
            ErrorKind::WriteTimeout { progress, write_type, contentions } => {
                put_progress(out, progress);
                put_string(out, write_type.name());
                if v5 && *write_type == WriteType::Cas {
                    out.put_u16(*contentions);
                }
            }
            ErrorKind::ReadTimeout { progress, data_present } => {
                put_progress(out, progress);
                out.put_u8(u8::from(*data_present));
            }
            ErrorKind::ReadFailure { progress, failures, data_present } => {
                put_progress(out, progress);
                put_failures(out, failures, v5);
                out.put_u8(u8::from(*data_present));
            }
            ErrorKind::WriteFailure { progress, failures, write_type } => {
                put_progress(out, progress);
                put_failures(out, failures, v5);
                put_string(out, write_type.name());
            }
            ErrorKind::CasWriteUnknown { progress } => put_progress(out, progress),
            ErrorKind::FunctionFailure { keyspace, function, argument_types } => {
                put_string(out, keyspace);
                put_string(out, function);
                put_string_list(out, argument_types);
            }
            ErrorKind::AlreadyExists { keyspace, table } => {
                put_string(out, keyspace);
                put_string(out, table);
            }
            ErrorKind::Unprepared { id } => put_short_bytes(out, id),
        }
    }

    /// Reads the body. The addresses of failures are not in v3 and v4, which leaves them out.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let v5 = version >= ProtocolVersion::V5;
        let code = reader.u32("an error code")?;
        let message = reader.string()?;
        let kind = match code {
            0x0000 => ErrorKind::Server,
            0x000A => ErrorKind::Protocol,
            0x0100 => ErrorKind::BadCredentials,
            0x1000 => ErrorKind::Unavailable {
                consistency: reader.consistency()?,
                required: reader.i32("required")?,
                alive: reader.i32("alive")?,
            },
            0x1001 => ErrorKind::Overloaded,
            0x1002 => ErrorKind::Bootstrapping,
            0x1003 => ErrorKind::Truncate,
            0x1100 => {
                let (progress, write_type) = (progress(reader)?, write_type(reader)?);
                let with_contentions = v5 && write_type == WriteType::Cas;
                let contentions = if with_contentions { reader.u16("contentions")? } else { 0 };
                ErrorKind::WriteTimeout { progress, write_type, contentions }
            }
            0x1200 => ErrorKind::ReadTimeout {
                progress: progress(reader)?,
                data_present: reader.u8("data present")? != 0,
            },
            0x1300 => ErrorKind::ReadFailure {
                progress: progress(reader)?,
                failures: failures(reader, v5)?,
                data_present: reader.u8("data present")? != 0,
            },
            0x1400 => ErrorKind::FunctionFailure {
                keyspace: reader.string()?,
                function: reader.string()?,
                argument_types: reader.string_list()?,
            },
            0x1500 => ErrorKind::WriteFailure {
                progress: progress(reader)?,
                failures: failures(reader, v5)?,
                write_type: write_type(reader)?,
            },
            0x1600 => ErrorKind::CdcWriteFailure,
            0x1700 => ErrorKind::CasWriteUnknown { progress: progress(reader)? },
            0x2000 => ErrorKind::Syntax,
            0x2100 => ErrorKind::Unauthorized,
            0x2200 => ErrorKind::Invalid,
            0x2300 => ErrorKind::Config,
            0x2400 => ErrorKind::AlreadyExists { keyspace: reader.string()?, table: reader.string()? },
            0x2500 => ErrorKind::Unprepared { id: reader.short_bytes()? },
            code => return Err(BodyError::Tag { what: "error code", tag: format!("{code:04x}") }),
        };
        Ok(Self { kind, message })
    }
}

fn put_progress(out: &mut BytesMut, progress: &Progress) {
    put_consistency(out, progress.consistency);
    out.put_i32(progress.received);
    out.put_i32(progress.block_for);
}

fn put_failures(out: &mut BytesMut, failures: &Failures, v5: bool) {
    out.put_i32(i32::try_from(failures.len()).unwrap_or(i32::MAX));
    for (address, reason) in failures.iter().filter(|_| v5) {
        put_inet_addr(out, *address);
        out.put_u16(*reason as u16);
    }
}

#[cfg(any(test, feature = "client"))]
fn progress(reader: &mut Reader) -> Result<Progress, BodyError> {
    Ok(Progress {
        consistency: reader.consistency()?,
        received: reader.i32("received")?,
        block_for: reader.i32("block for")?,
    })
}

#[cfg(any(test, feature = "client"))]
fn failures(reader: &mut Reader, v5: bool) -> Result<Failures, BodyError> {
    let count = reader.i32("the number of failures")?;
    let count = if v5 { count } else { 0 };
    (0..count)
        .map(|_| Ok((reader.inet_addr()?, FailureReason::from_code(reader.u16("a failure's reason")?))))
        .collect()
}

#[cfg(any(test, feature = "client"))]
fn write_type(reader: &mut Reader) -> Result<WriteType, BodyError> {
    let name = reader.string()?;
    WriteType::from_name(&name).ok_or(BodyError::Tag { what: "write type", tag: name })
}
