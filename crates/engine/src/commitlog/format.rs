//! The bytes of a segment (docs/formats/commit-log.md).
//!
//! ```text
//! segment := header section* zeroes
//! header  := i32 version | i64 id | u16 n | n bytes JSON | u32 crc
//! section := u32 end of section | u32 crc of (id, offset of this marker) | content
//! content := entry* | u32 length of the entries | the entries, compressed as the JSON says
//! entry   := i32 size | u32 crc of size | size bytes mutation | u32 the same crc, continued
//! ```
//! All numbers are big-endian; an id goes into a crc low half first.
//!
//! In segments that this node writes, each append is a section of its own, so that it can be found without
//! anything being written later. A section without entries is a *fence*: the log writes one when it starts to
//! sync, so that the second fence behind some bytes says that those bytes had reached the device. Damage
//! before it is no torn tail. The JSON says who wrote a segment, for Cassandra's have neither.

use crc32fast::Hasher;
use partition::codec::DeletionTimes;
use serde_json::Value;
use sstable::compression::Compressor;
use std::collections::BTreeMap;

/// Version of segments whose mutations are those of messaging version 12: Cassandra 4.0 to 5.0.
pub const VERSION_40: i32 = 7;
/// Version of segments whose mutations are those of messaging version 13: Cassandra 5.0 that need not go back
/// to 4.x.
pub const VERSION_50: i32 = 8;
/// The JSON of the segments that are written here; Cassandra passes over names that it does not know.
const WRITTEN_HERE: &str = "{\"writer\":\"ilion\"}";
/// Bytes of the header that is written.
pub const HEADER_BYTES: usize = 18 + WRITTEN_HERE.len();
/// Bytes of a section's marker.
pub const MARKER_BYTES: usize = 8;
/// Smaller entries are never written.
const ENTRY_SIZE_MIN: u32 = 10;

/// How mutations in segments of a version hold local deletion times.
pub fn deletion_times(version: i32) -> DeletionTimes {
    if version < VERSION_50 { DeletionTimes::Signed } else { DeletionTimes::Unsigned }
}

/// The name of a segment's file.
pub fn file_name(version: i32, id: i64) -> String {
    format!("CommitLog-{version}-{id}.log")
}

/// The version and id in the name of a segment's file.
pub fn parse_file_name(name: &str) -> Option<(i32, i64)> {
    let (version, id) = name.strip_prefix("CommitLog-")?.strip_suffix(".log")?.split_once('-')?;
    Some((version.parse().ok()?, id.parse().ok()?))
}

fn hash_id(hasher: &mut Hasher, id: i64) {
    hasher.update(&(id as u32).to_be_bytes());
    hasher.update(&((id >> 32) as u32).to_be_bytes());
}

fn header_crc(version: i32, id: i64, json: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&version.to_be_bytes());
    hash_id(&mut hasher, id);
    hasher.update(&(json.len() as u32).to_be_bytes());
    hasher.update(json);
    hasher.finalize()
}

/// The header of a segment.
pub fn header(version: i32, id: i64) -> Vec<u8> {
    header_with(version, id, WRITTEN_HERE)
}

/// A header with the given parameters.
pub fn header_with(version: i32, id: i64, json: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(18 + json.len());
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&(json.len() as u16).to_be_bytes());
    out.extend_from_slice(json.as_bytes());
    out.extend_from_slice(&header_crc(version, id, json.as_bytes()).to_be_bytes());
    out
}

/// A header that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub version: i32,
    /// Segment id.
    pub id: i64,
    /// Parameters as JSON.
    pub parameters: String,
    /// Bytes of the header: where the first section starts.
    pub len: usize,
}

/// Reads a header; `None` when the bytes are not one or its checksum is wrong.
pub fn read_header(bytes: &[u8]) -> Option<Header> {
    let version = u32_at(bytes, 0)? as i32;
    let id = i64::from_be_bytes(bytes.get(4..12)?.try_into().ok()?);
    let json_len = u16::from_be_bytes(bytes.get(12..14)?.try_into().ok()?) as usize;
    let json = bytes.get(14..14 + json_len)?;
    let crc = u32_at(bytes, 14 + json_len)?;
    if crc != header_crc(version, id, json) {
        return None;
    }
    let parameters = std::str::from_utf8(json).ok()?.to_owned();
    Some(Header { version, id, parameters, len: 18 + json_len })
}

/// Who wrote a segment and how, as its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This node: a section for each append, and fences.
    Ilion,
    /// Cassandra, which compresses sections or does not.
    Cassandra(Option<Compressor>),
}

impl Header {
    /// What the parameters say.
    ///
    /// # Errors
    /// Why the segment cannot be read: its version, encryption, an unknown compressor.
    pub fn writer(&self) -> Result<Writer, String> {
        match self.version {
            VERSION_40 | VERSION_50 => {}
            ..VERSION_40 => {
                return Err(format!(
                    "the segment has version {}, of Cassandra 3.x or older: start that Cassandra once more and stop \
                     it behind `nodetool drain`",
                    self.version
                ));
            }
            newer => return Err(format!("the segment has version {newer}, of a Cassandra newer than 5.0")),
        }
        if self.parameters == WRITTEN_HERE {
            return Ok(Writer::Ilion);
        }
        let Ok(Value::Object(map)) = serde_json::from_str(&self.parameters) else {
            return Err(format!("its parameters {} are no JSON object", self.parameters));
        };
        if let Some(cipher) = map.get("encCipher").filter(|cipher| !cipher.is_null()) {
            return Err(format!(
                "the segment is encrypted ({cipher}): start the Cassandra that wrote it once more and stop it behind \
                 `nodetool drain`"
            ));
        }
        let Some(class) = map.get("compressionClass").and_then(Value::as_str) else {
            return Ok(Writer::Cassandra(None));
        };
        match Compressor::of_class(class, &BTreeMap::new()) {
            Some(compressor) => Ok(Writer::Cassandra(Some(compressor))),
            None => Err(format!("the segment is compressed with {class}, which is not known here")),
        }
    }
}

fn marker_crc(id: i64, offset: u32) -> u32 {
    let mut hasher = Hasher::new();
    hash_id(&mut hasher, id);
    hasher.update(&offset.to_be_bytes());
    hasher.finalize()
}

/// The marker at `offset` of a section that ends at `end`.
pub fn marker(id: i64, offset: u32, end: u32) -> [u8; MARKER_BYTES] {
    let mut out = [0; MARKER_BYTES];
    let (first, second) = out.split_at_mut(4);
    first.copy_from_slice(&end.to_be_bytes());
    second.copy_from_slice(&marker_crc(id, offset).to_be_bytes());
    out
}

/// What stands where a marker could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A section that ends at this offset.
    Section(u32),
    /// A section that ends behind the end of the file.
    CutOff,
    /// Zeroes, or no room: the segment ends.
    End,
    /// Neither.
    Damaged,
}

/// Reads the marker at `offset`.
pub fn read_marker(bytes: &[u8], id: i64, offset: u32) -> Marker {
    let at = offset as usize;
    let (Some(end), Some(crc)) = (u32_at(bytes, at), u32_at(bytes, at.saturating_add(4))) else {
        return Marker::End;
    };
    if end == 0 && crc == 0 {
        return Marker::End;
    }
    match crc == marker_crc(id, offset) && end as usize >= at + MARKER_BYTES {
        true if end as usize <= bytes.len() => Marker::Section(end),
        true => Marker::CutOff,
        false => Marker::Damaged,
    }
}

/// Whether a fence stands at `offset`.
pub fn is_fence(bytes: &[u8], id: i64, offset: u32) -> bool {
    // The cheap half of the test first: this runs at every offset behind a damaged place.
    u32_at(bytes, offset as usize) == offset.checked_add(MARKER_BYTES as u32)
        && matches!(read_marker(bytes, id, offset), Marker::Section(_))
}

/// A section of one entry, without its marker's content, around the mutation that `encode` appends.
pub fn section(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; MARKER_BYTES + 8];
    encode(&mut out);
    let (head, mutation) = out.split_at_mut(MARKER_BYTES + 8);
    let size = (mutation.len() as u32).to_be_bytes();
    let mut hasher = Hasher::new();
    hasher.update(&size);
    let size_crc = hasher.clone().finalize();
    hasher.update(mutation);
    let crc = hasher.finalize();
    if let Some(slot) = head.get_mut(MARKER_BYTES..MARKER_BYTES + 4) {
        slot.copy_from_slice(&size);
    }
    if let Some(slot) = head.get_mut(MARKER_BYTES + 4..) {
        slot.copy_from_slice(&size_crc.to_be_bytes());
    }
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

/// Puts the marker into a section that will lie at `offset`.
pub fn place_section(section: &mut [u8], id: i64, offset: u32) {
    let end = offset.saturating_add(section.len() as u32);
    if let Some(slot) = section.get_mut(..MARKER_BYTES) {
        slot.copy_from_slice(&marker(id, offset, end));
    }
}

/// What stands where an entry could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A mutation, and the offset of what follows the entry.
    Mutation(&'a [u8], usize),
    /// No more entries in this section.
    End,
    /// Something that is none; why.
    Damaged(&'static str),
}

/// Reads the entry at `at` of the bytes of a section (or of a segment up to the section's end).
pub fn read_entry(bytes: &[u8], at: usize) -> Entry<'_> {
    if at >= bytes.len() {
        return Entry::End;
    }
    let Some(size) = u32_at(bytes, at) else { return Entry::Damaged("the section ends inside an entry") };
    if size == 0 {
        // Only padding may follow; anything else means that the size itself is damaged.
        let padding = bytes.get(at..).is_some_and(|rest| rest.iter().all(|b| *b == 0));
        return if padding { Entry::End } else { Entry::Damaged("bytes follow the last entry of a section") };
    }
    if size < ENTRY_SIZE_MIN || size > i32::MAX as u32 {
        return Entry::Damaged("the size of an entry is out of range");
    }
    let mut hasher = Hasher::new();
    hasher.update(&size.to_be_bytes());
    if u32_at(bytes, at + 4) != Some(hasher.clone().finalize()) {
        return Entry::Damaged("the checksum of an entry's size does not match");
    }
    let body = at + 8;
    let end = body.saturating_add(size as usize);
    let (Some(mutation), Some(crc)) = (bytes.get(body..end), u32_at(bytes, end)) else {
        return Entry::Damaged("an entry reaches beyond its section");
    };
    hasher.update(mutation);
    if crc != hasher.finalize() {
        return Entry::Damaged("the checksum of an entry does not match");
    }
    Entry::Mutation(mutation, end + 4)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips_and_every_flipped_bit_shows() {
        let bytes = header(VERSION_40, 0x1_0000_0002);
        assert_eq!(bytes.len(), HEADER_BYTES);
        let read = read_header(&bytes).unwrap();
        assert_eq!((read.version, read.id, read.len), (7, 0x1_0000_0002, HEADER_BYTES));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_header(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn a_header_says_who_wrote_the_segment_and_what_is_not_read() {
        let writer = |version, json: &str| read_header(&header_with(version, 1, json)).unwrap().writer();
        assert_eq!(writer(7, WRITTEN_HERE), Ok(Writer::Ilion));
        assert_eq!(writer(8, "{}"), Ok(Writer::Cassandra(None)));
        let compressed =
            |class| format!("{{\"compressionClass\":\"{class}\",\"compressionParameters\":{{}}}}");
        assert_eq!(
            writer(7, &compressed("SnappyCompressor")),
            Ok(Writer::Cassandra(Some(Compressor::Snappy)))
        );
        let encrypted = "{\"encCipher\":\"AES/CBC/PKCS5Padding\",\"encIV\":\"x\"}";
        for (version, json, why) in [
            (6, "{}", "nodetool drain"),
            (9, "{}", "newer than 5.0"),
            (7, encrypted, "encrypted"),
            (7, &compressed("a.b.C"), "a.b.C"),
            (7, "[", "no JSON object"),
        ] {
            let error = writer(version, json).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_section_round_trips_and_every_flipped_bit_shows() {
        let mutation = b"a mutation of some bytes";
        let mut segment = header(VERSION_50, 5);
        let mut bytes = section(|out| out.extend_from_slice(mutation));
        place_section(&mut bytes, 5, HEADER_BYTES as u32);
        segment.extend_from_slice(&bytes);
        let read = |segment: &[u8]| match read_marker(segment, 5, HEADER_BYTES as u32) {
            Marker::Section(end) => match read_entry(&segment[..end as usize], HEADER_BYTES + MARKER_BYTES) {
                Entry::Mutation(m, next) if next == end as usize => Some(m.to_vec()),
                _ => None,
            },
            _ => None,
        };
        assert_eq!(read(&segment).as_deref(), Some(&mutation[..]));
        for bit in HEADER_BYTES * 8..segment.len() * 8 {
            let mut bad = segment.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bad), None, "bit {bit}");
        }
        assert_eq!(read_marker(&segment, 6, HEADER_BYTES as u32), Marker::Damaged, "of another segment");
        assert_eq!(read_marker(&segment, 5, segment.len() as u32), Marker::End);
    }

    #[test]
    fn names_carry_version_and_id() {
        assert_eq!(parse_file_name(&file_name(8, 1795252762405)), Some((8, 1795252762405)));
        assert_eq!(parse_file_name("CommitLog-7-12_cdc.idx"), None);
    }
}
