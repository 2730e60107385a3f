//! The bytes of a file of hints (docs/formats/hints.md).
//!
//! ```text
//! file   := header entry*  |  header block*                        name: <host id>-<created>-<version>.hints
//! header := i32 version | i64 created, ms | 16 bytes host id | i32 n | u32 crc | n bytes JSON
//!           | u32 the crc, continued
//! entry  := i32 size | u32 crc of size | size bytes hint | u32 the crc, continued
//! hint   := i64 written, ms | uvint gc grace, s | mutation            mutation: docs/formats/commit-log.md
//! block  := i32 n | i32 m | m bytes: n bytes of whole entries, compressed
//! ```
//! All numbers are big-endian. Those of 64 bits go into the header's crc low half first.
//!
//! Source: `HintsDescriptor`, `HintsBuffer`, `CompressedHintsWriter` and `Hint` of Cassandra 4.0 to 5.0.

use crate::verbs::{Lookup, PayloadError, UnsentError, write};
use bytes::Bytes;
use coordinator::Hint;
use crc32fast::Hasher;
use model::vint;
use partition::codec::{Input, SliceInput};
use serde_json::Value;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// Version of files whose mutations are those of messaging version 12: Cassandra 4.0 to 5.0.
pub const VERSION_40: i32 = 2;
/// Version of files whose mutations are those of messaging version 13: Cassandra 5.0 that need not go back to
/// 4.x.
pub const VERSION_50: i32 = 3;
/// Bytes of a header before its parameters.
pub const HEADER_BYTES_MIN: usize = 36;
/// Parameters that are longer are not believed.
pub const JSON_BYTES_MAX: usize = 4 << 10;
/// Bytes around the hint of an entry.
pub const ENTRY_OVERHEAD_BYTES: usize = 12;
/// Entries and blocks that claim to be longer are not believed: a mutation of Cassandra's is at most half a
/// segment of its commit log, 16 MiB unless that was set.
pub const HINT_BYTES_MAX: u32 = 256 << 20;

/// Why a file of hints, or a part of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HintsError {
    /// The bytes are not what was written.
    #[error("{path} is damaged at byte {offset}: {damage}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// The file is of a kind that is not read here. It is left as it is.
    #[error("{path}: {why}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A call of the file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl HintsError {
    pub(super) fn damaged(path: &Path, offset: u64, damage: Damage) -> HintsError {
        HintsError::Damaged { path: path.to_owned(), offset, damage }
    }
}

/// What is wrong with bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A checksum does not match.
    #[error("the checksum of {of} is {found:#010x}, {expected:#010x} is stored")]
    Checksum {
        /// What it covers.
        of: &'static str,
        /// As stored.
        expected: u32,
        /// As computed.
        found: u32,
    },
    /// Something ends too early.
    #[error("{wanted} bytes wanted, {left} are left")]
    CutOff {
        /// Bytes that it claims to have.
        wanted: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// The checksums match, but the content makes no sense.
    #[error("{0}")]
    Content(String),
}

/// Names a file: for whom it is, when it was begun, and its version. Those of one node are ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The node that missed what is in it.
    pub host_id: Uuid,
    /// When it was begun, in milliseconds since the epoch.
    pub created_millis: i64,
    /// [`VERSION_40`] or [`VERSION_50`]; others are not read.
    pub version: i32,
}

impl FileId {
    /// The file that a name stands for; `None` if it is none of a file of hints.
    pub fn of_name(name: &str) -> Option<FileId> {
        let (host_id, rest) = name.strip_suffix(".hints")?.split_at_checked(36)?;
        let (created_millis, version) = rest.strip_prefix('-')?.split_once('-')?;
        let id = FileId {
            host_id: Uuid::try_parse(host_id).ok()?,
            created_millis: created_millis.parse().ok()?,
            version: version.parse().ok()?,
        };
        (id.to_string() == name).then_some(id)
    }

    /// The name of its checksum's file.
    pub fn checksum_name(&self) -> String {
        format!("{}-{}-{}.crc32", self.host_id, self.created_millis, self.version)
    }

    /// The name that it gets when it cannot be read on. No node takes such a file for one of hints.
    pub fn damaged_name(&self) -> String {
        format!("{}-{}-{}.corrupt.hints", self.host_id, self.created_millis, self.version)
    }

    /// Version of the messages that hold mutations in the same way.
    pub fn messaging_version(&self) -> u32 {
        if self.version >= VERSION_50 { 13 } else { 12 }
    }
}

impl fmt::Display for FileId {
    /// The name of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}.hints", self.host_id, self.created_millis, self.version)
    }
}

/// How the entries of a file lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One behind the other.
    Plain,
    /// In blocks that LZ4 has compressed.
    Lz4,
}

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose file it is. The version need not be one that is read here.
    pub id: FileId,
    /// How its entries lie in it.
    pub encoding: Encoding,
    /// Bytes of the header: where the first entry starts.
    pub len: usize,
}

fn hash_long(hasher: &mut Hasher, value: u64) {
    hasher.update(&(value as u32).to_be_bytes());
    hasher.update(&((value >> 32) as u32).to_be_bytes());
}

/// The checksum of a header without its parameters; it is continued over them.
fn header_hasher(id: &FileId, json_len: u32) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(&id.version.to_be_bytes());
    hash_long(&mut hasher, id.created_millis as u64);
    let (high, low) = id.host_id.as_u64_pair();
    hash_long(&mut hasher, high);
    hash_long(&mut hasher, low);
    hasher.update(&json_len.to_be_bytes());
    hasher
}

/// The header of a file whose entries are not compressed.
pub fn encode_header(id: &FileId) -> Vec<u8> {
    encode_header_with(id, "{}")
}

/// A header with the given parameters.
pub fn encode_header_with(id: &FileId, json: &str) -> Vec<u8> {
    let mut hasher = header_hasher(id, json.len() as u32);
    let mut out = Vec::with_capacity(HEADER_BYTES_MIN + json.len() + 4);
    out.extend_from_slice(&id.version.to_be_bytes());
    out.extend_from_slice(&id.created_millis.to_be_bytes());
    out.extend_from_slice(id.host_id.as_bytes());
    out.extend_from_slice(&(json.len() as u32).to_be_bytes());
    out.extend_from_slice(&hasher.clone().finalize().to_be_bytes());
    hasher.update(json.as_bytes());
    out.extend_from_slice(json.as_bytes());
    out.extend_from_slice(&hasher.finalize().to_be_bytes());
    out
}

/// Reads the header at the start of `bytes`, which are as many of the file as a header can have, or all.
///
/// # Errors
/// `Damaged`, and `Unsupported` for versions and parameters that are not known here.
pub fn read_header(bytes: &[u8], path: &Path) -> Result<Header, HintsError> {
    let at = |offset: usize, damage| HintsError::damaged(path, offset as u64, damage);
    let cut_off = |wanted: usize| at(0, Damage::CutOff { wanted: wanted as u64, left: bytes.len() as u64 });
    let Some((fixed, rest)) = bytes.split_first_chunk::<HEADER_BYTES_MIN>() else {
        return Err(cut_off(HEADER_BYTES_MIN));
    };
    let input = &mut SliceInput::new(Bytes::copy_from_slice(fixed));
    let malformed = |error: partition::codec::DecodeError| at(0, Damage::Content(error.to_string()));
    let version = input.i32().map_err(malformed)?;
    let created_millis = input.i64().map_err(malformed)?;
    let host_id = Uuid::from_bytes(input.array().map_err(malformed)?);
    let json_len = u32::from_be_bytes(input.array().map_err(malformed)?);
    let expected = u32::from_be_bytes(input.array().map_err(malformed)?);
    let id = FileId { host_id, created_millis, version };
    let mut hasher = header_hasher(&id, json_len);
    let found = hasher.clone().finalize();
    if expected != found {
        return Err(at(32, Damage::Checksum { of: "the header", expected, found }));
    }
    let json_len = json_len as usize;
    if json_len > JSON_BYTES_MAX {
        return Err(at(28, Damage::Content(format!("{json_len} bytes of parameters"))));
    }
    let len = HEADER_BYTES_MIN + json_len + 4;
    let Some((json, crc)) = rest.get(..json_len + 4).and_then(|part| part.split_last_chunk::<4>()) else {
        return Err(cut_off(len));
    };
    hasher.update(json);
    let (expected, found) = (u32::from_be_bytes(*crc), hasher.finalize());
    if expected != found {
        return Err(at(len - 4, Damage::Checksum { of: "the parameters", expected, found }));
    }
    let encoding =
        encoding(&id, json).map_err(|why| HintsError::Unsupported { path: path.to_owned(), why })?;
    Ok(Header { id, encoding, len })
}

fn encoding(id: &FileId, json: &[u8]) -> Result<Encoding, String> {
    match id.version {
        VERSION_40 | VERSION_50 => {}
        ..VERSION_40 => {
            return Err(format!("the hints have version {}, of Cassandra 3.x or older", id.version));
        }
        newer => return Err(format!("the hints have version {newer}, of a Cassandra newer than 5.0")),
    }
    let Ok(Value::Object(parameters)) = serde_json::from_slice(json) else {
        return Err("the parameters of the hints are no JSON object".to_owned());
    };
    if parameters.contains_key("encryption") {
        return Err("the hints are encrypted".to_owned());
    }
    let Some(compression) = parameters.get("compression") else { return Ok(Encoding::Plain) };
    let class = compression.get("class_name").and_then(Value::as_str).unwrap_or_default();
    match class.rsplit('.').next() {
        Some("LZ4Compressor") => Ok(Encoding::Lz4),
        _ => Err(format!("the hints are compressed with {class}, which is not read here")),
    }
}

/// Appends an entry around the hint that `encode` appends. Nothing is appended when it fails.
///
/// # Errors
/// Those of `encode`.
pub fn append_entry(
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), UnsentError>,
) -> Result<(), UnsentError> {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    if let Err(error) = encode(out) {
        out.truncate(start);
        return Err(error);
    }
    let (head, hint) = out.split_at_mut(start + 8);
    let size = (hint.len() as u32).to_be_bytes();
    let mut hasher = Hasher::new();
    hasher.update(&size);
    if let Some((size_slot, crc_slot)) = head.get_mut(start..).and_then(|head| head.split_at_mut_checked(4)) {
        size_slot.copy_from_slice(&size);
        crc_slot.copy_from_slice(&hasher.clone().finalize().to_be_bytes());
    }
    hasher.update(hint);
    out.extend_from_slice(&hasher.finalize().to_be_bytes());
    Ok(())
}

/// What stands where an entry could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Bytes of this size, whether their checksum matches or not. They start 8 bytes behind the entry's
    /// start, and end 4 before the next.
    Hint(usize, Result<(), Damage>),
    /// The bytes end inside an entry that has so many.
    CutOff(usize),
    /// The size cannot be believed, so nobody knows where the next entry is.
    Lost(Damage),
}

/// Reads the entry at the start of `bytes`, of which there are some.
pub fn read_entry(bytes: &[u8]) -> Entry {
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return Entry::CutOff(8) };
    let (size, expected) = halves(head);
    let mut hasher = Hasher::new();
    hasher.update(&size.to_be_bytes());
    let found = hasher.clone().finalize();
    if expected != found {
        return Entry::Lost(Damage::Checksum { of: "a hint's size", expected, found });
    }
    if size > HINT_BYTES_MAX {
        return Entry::Lost(Damage::Content(format!("a hint of {size} bytes")));
    }
    let size = size as usize;
    let Some((hint, crc)) = rest.get(..size + 4).and_then(|part| part.split_last_chunk::<4>()) else {
        return Entry::CutOff(size + ENTRY_OVERHEAD_BYTES);
    };
    hasher.update(hint);
    let (expected, found) = (u32::from_be_bytes(*crc), hasher.finalize());
    let is_whole =
        if expected == found { Ok(()) } else { Err(Damage::Checksum { of: "a hint", expected, found }) };
    Entry::Hint(size, is_whole)
}

/// Two numbers of 32 bits.
pub fn halves(bytes: &[u8; 8]) -> (u32, u32) {
    let number = u64::from_be_bytes(*bytes);
    ((number >> 32) as u32, number as u32)
}

/// Appends a hint.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_hint(hint: &Hint, messaging_version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    out.extend_from_slice(&hint.written_millis.to_be_bytes());
    vint::write_unsigned(out, u64::from(hint.gc_grace_s));
    write::encode_mutation(&hint.mutation, messaging_version, out)
}

/// Decodes a hint.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_hint(bytes: Bytes, messaging_version: u32, lookup: Lookup<'_>) -> Result<Hint, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let written_millis = input.i64()?;
    let gc_grace_s = u32::try_from(input.uvint()?).unwrap_or(u32::MAX);
    let mutation = input.bytes(input.remaining() as u64)?;
    let mutation = write::decode_mutation(&mutation, messaging_version, lookup)?;
    Ok(Hint { mutation: Arc::new(mutation), written_millis, gc_grace_s })
}
