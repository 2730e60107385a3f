//! The files of the full query log, in bytes: `docs/formats/full-query-log.md`. The node writes them, and
//! `ilion fqltool` reads them.
//!
//! ```text
//! file    "ILIONFQL" u32 version | record*
//! record  u32 length of the body | u32 CRC-32 of the body | body
//! body    u8 kind                  0 query, 1 batch
//!         u8 version               of the native protocol
//!         i64 start                milliseconds since 1970
//!         i64 timestamp            that the node gave, microseconds; i64::MIN: the client gave one
//!         i64 now                  that the node gave, seconds
//!         bytes keyspace           in use; i32 length, -1 for none
//!         the body of QUERY or BATCH in that version, each statement as text
//! ```
//! Everything is big-endian. A file may end inside a record, where its node was killed: that is its end.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::BodyError;
use crate::primitives::{Reader, put_bytes};
use crate::request::{Batch, Query, StatementText};
use crate::version::ProtocolVersion;
use bytes::{BufMut, Bytes, BytesMut};

/// What files are called behind the last dot.
pub const EXTENSION: &str = "fql";
/// How a file begins.
pub const HEAD: &[u8] = b"ILIONFQL\x00\x00\x00\x01";
/// Bytes of the longest body: longer ones are not written.
pub const BODY_BYTES_MAX: usize = 512 << 20;
/// Bytes of a record before its body.
const FRAME_BYTES: usize = 8;

/// A request that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it came, in milliseconds since 1970.
    pub started_ms: i64,
    /// The version of the protocol in which it came.
    pub version: ProtocolVersion,
    /// The timestamp that the node gave its writes, in microseconds; `i64::MIN` where the client gave one.
    pub generated_timestamp: i64,
    /// The instant for TTLs that the node took, in seconds.
    pub generated_now_s: i64,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// What was asked.
    pub request: Logged,
}

/// A request of a record. No statement of a batch is named by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A statement, whether it came as text or was prepared.
    Query(Query),
    /// A batch.
    Batch(Batch),
}

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It is something else.
    #[error("{}: it is no full query log of this version: it does not begin with ILIONFQL and version 1", .0.display())]
    Head(PathBuf),
    /// A record was changed.
    #[error("{}: the record at {offset} has the checksum {found:08x}, not {expected:08x}", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// The checksum that is written.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },
    /// A record is not what it should be.
    #[error("{}: the record at {offset} is malformed: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Record {
    /// Appends the record; nothing, and `false`, for one that is too long.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let mut body = BytesMut::new();
        body.put_u8(match self.request {
            Logged::Query(_) => 0,
            Logged::Batch(_) => 1,
        });
        body.put_u8(self.version.number());
        body.put_i64(self.started_ms);
        body.put_i64(self.generated_timestamp);
        body.put_i64(self.generated_now_s);
        put_bytes(&mut body, self.keyspace.as_ref().map(String::as_bytes));
        match &self.request {
            Logged::Query(query) => query.encode(self.version, &mut body),
            Logged::Batch(batch) => batch.encode(self.version, &mut body),
        }
        if body.len() > BODY_BYTES_MAX {
            return false;
        }
        out.put_u32(body.len() as u32);
        out.put_u32(crc32fast::hash(&body));
        out.put_slice(&body);
        true
    }

    /// Reads a body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(body: Bytes) -> Result<Record, String> {
        let wrong = |error: BodyError| error.to_string();
        let mut reader = Reader::new(body);
        let kind = reader.u8("a kind").map_err(wrong)?;
        let number = reader.u8("a version").map_err(wrong)?;
        let known = ProtocolVersion::ALL.into_iter().find(|version| version.number() == number);
        let version = known.ok_or_else(|| format!("{number} is no version of the protocol"))?;
        let started_ms = reader.i64("a start").map_err(wrong)?;
        let generated_timestamp = reader.i64("a timestamp").map_err(wrong)?;
        let generated_now_s = reader.i64("an instant").map_err(wrong)?;
        let keyspace = reader.bytes("a keyspace").map_err(wrong)?;
        let keyspace = keyspace.map(|name| String::from_utf8(name.to_vec()).map_err(|e| e.to_string()));
        let keyspace = keyspace.transpose()?;
        let request = match kind {
            0 => Logged::Query(Query::decode(version, &mut reader).map_err(wrong)?),
            1 => Logged::Batch(Batch::decode(version, &mut reader).map_err(wrong)?),
            other => return Err(format!("{other} is no kind of record")),
        };
        if let Logged::Batch(batch) = &request
            && batch.statements.iter().any(|part| matches!(part.text, StatementText::Prepared(_)))
        {
            return Err("a statement of a batch has no text".to_owned());
        }
        if reader.remaining() > 0 {
            return Err(format!("{} bytes are left", reader.remaining()));
        }
        Ok(Record { started_ms, version, generated_timestamp, generated_now_s, keyspace, request })
    }
}

/// The records of a file, one after the other, in memory one at a time. After an error there are no more.
///
/// `read` gives the bytes of the file from an offset on: as many as are asked for, fewer where it ends.
#[derive(Debug)]
pub struct Records<R> {
    path: PathBuf,
    read: R,
    offset: u64,
    file_bytes: u64,
}

impl<R: FnMut(u64, usize) -> io::Result<Bytes>> Records<R> {
    /// Those of a file of so many bytes.
    ///
    /// # Errors
    /// When it is something else, or cannot be read. One that ends inside its head has no records.
    pub fn new(path: &Path, file_bytes: u64, mut read: R) -> Result<Records<R>, LogError> {
        let head = read(0, HEAD.len())?;
        if !HEAD.starts_with(&head) {
            return Err(LogError::Head(path.to_owned()));
        }
        Ok(Records { path: path.to_owned(), read, offset: head.len() as u64, file_bytes })
    }

    fn next_record(&mut self) -> Result<Option<Record>, LogError> {
        let offset = self.offset;
        let mut frame = Reader::new((self.read)(offset, FRAME_BYTES)?);
        let (Ok(length), Ok(expected)) = (frame.u32("a length"), frame.u32("a checksum")) else {
            return Ok(None);
        };
        let begin = offset.saturating_add(FRAME_BYTES as u64);
        let end = begin.saturating_add(u64::from(length));
        // What is not there is not allocated for.
        if end > self.file_bytes {
            return Ok(None);
        }
        let path = || self.path.clone();
        let length = length as usize;
        if length > BODY_BYTES_MAX {
            let reason = format!("{length} bytes are more than a body has");
            return Err(LogError::Malformed { path: path(), offset, reason });
        }
        let body = (self.read)(begin, length)?;
        if body.len() < length {
            return Ok(None);
        }
        let found = crc32fast::hash(&body);
        if found != expected {
            return Err(LogError::Checksum { path: path(), offset, expected, found });
        }
        let malformed = |reason| LogError::Malformed { path: path(), offset, reason };
        let record = Record::decode(body).map_err(malformed)?;
        self.offset = end;
        Ok(Some(record))
    }
}

impl<R: FnMut(u64, usize) -> io::Result<Bytes>> Iterator for Records<R> {
    type Item = Result<Record, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.offset = self.file_bytes;
        }
        next
    }
}

/// The records of a file that is in memory.
///
/// # Errors
/// As [`Records::new`].
pub fn records_of(
    path: &Path,
    bytes: Bytes,
) -> Result<Records<impl FnMut(u64, usize) -> io::Result<Bytes> + use<>>, LogError> {
    let file_bytes = bytes.len() as u64;
    Records::new(path, file_bytes, move |offset, length| {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.slice(start..start.saturating_add(length).min(bytes.len())))
    })
}

/// Reads a whole file; for the fuzz target.
pub fn fuzz_query_log(data: &[u8]) {
    let Ok(records) = records_of(Path::new("f"), Bytes::copy_from_slice(data)) else { return };
    for record in records.flatten() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
    }
    // A body whose checksum nobody has computed.
    drop(Record::decode(Bytes::copy_from_slice(data)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::Value;
    use crate::request::{BatchKind, BatchStatement, QueryParams};
    use model::Consistency;

    /// One of either kind.
    fn records() -> Vec<Record> {
        let params = QueryParams {
            values: vec![Value::Set(Bytes::from_static(&[0, 0, 0, 7])), Value::Null, Value::Unset],
            page_size: Some(100),
            ..QueryParams::new(Consistency::Quorum)
        };
        let query = Query { statement: "SELECT * FROM t WHERE k = ?".to_owned(), params };
        let part =
            |text: &str, values| BatchStatement { text: StatementText::Query(text.to_owned()), values };
        let batch = Batch {
            kind: BatchKind::Unlogged,
            statements: vec![
                part("DELETE FROM t WHERE k = 1", Vec::new()),
                part("INSERT INTO t (k) VALUES (?)", vec![Value::Set(Bytes::from_static(b"abc"))]),
            ],
            params: QueryParams::new(Consistency::One),
        };
        let record = |request, keyspace: Option<&str>| Record {
            started_ms: 1_764_120_600_123,
            version: ProtocolVersion::V5,
            generated_timestamp: 1_764_120_600_123_000,
            generated_now_s: 1_764_120_600,
            keyspace: keyspace.map(str::to_owned),
            request,
        };
        vec![record(Logged::Query(query), Some("ks")), record(Logged::Batch(batch), None)]
    }

    fn file(records: &[Record]) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        assert!(records.iter().all(|record| record.encode(&mut bytes)));
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Result<Record, LogError>> {
        records_of(Path::new("f"), Bytes::copy_from_slice(bytes)).unwrap().collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let read: Vec<Record> = read(&file(&records())).into_iter().map(Result::unwrap).collect();
        assert_eq!(read, records());
    }

    #[test]
    fn a_torn_file_ends_before_the_tear() {
        let bytes = file(&records());
        let first = file(&records()[..1]).len();
        for end in 0..bytes.len() {
            let whole = usize::from(end >= first);
            assert_eq!(read(&bytes[..end]).into_iter().filter(Result::is_ok).count(), whole, "{end}");
        }
    }

    #[test]
    fn a_changed_byte_is_an_error_or_an_end() {
        let bytes = file(&records());
        for at in HEAD.len()..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let read = read(&changed);
            assert!(read.len() < 2 || read.iter().any(Result::is_err), "{at}");
        }
        assert!(records_of(Path::new("f"), Bytes::from_static(b"SOMETHING")).is_err());
    }

    #[test]
    fn a_body_that_lies_is_refused() {
        for body in [&b""[..], &[9, 5], &[0, 9], &[7; 40]] {
            assert!(Record::decode(Bytes::copy_from_slice(body)).is_err(), "{body:?}");
        }
    }
}
