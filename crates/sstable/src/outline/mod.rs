//! Outline.db: the bytes of Data.db that lie between long values (docs/formats/outline.md). A read that steps
//! over a value finds there what comes behind it, and need not read the chunk.
//!
//! ```text
//! file    := leaf page* | directory page* | root page         pages of 4096 bytes
//! page    := content, zeroes | u32 CRC32 of the page's number as u64 and of the bytes before
//! leaf    := u16 n | u64 position of the first run | n * run
//! run     := uvint bytes of Data.db between it and the run before; of the first 0 | uvint length | bytes
//! directory := u16 n | n * u64 position of the first run below each page of the level before, in order
//! root    := "Outline1" | u32 checksum in Digest.crc32 | u64 bytes of data | u64 number of leaves | directory
//! ```
//! Positions are those of the uncompressed data. All runs of a leaf lie before those of the next. A level of
//! directory pages lies over the leaves, another over that one, until one page, the root, is enough.
//!
//! A run is a copy: heads of cells, and where two rows meet, the end of one and the beginning of the next. So
//! a reader with an outline decodes the same bytes as one without, only from elsewhere. It finds in Data.db
//! whatever a run leaves out. Two things tie the file to its Data.db. The root repeats the checksum in
//! Digest.crc32. And the bytes before each value that is read have to be those of the run.
//!
//! Cassandra does not know the component, and what it compacts has none; then reads go without.

mod reader;
mod writer;

pub(crate) use reader::{Outline, OutlineReader};
pub(crate) use writer::OutlineWriter;

const MAGIC: &[u8; 8] = b"Outline1";
/// Bytes of a leaf before its runs.
const LEAF_HEAD_BYTES: usize = 10;
/// Bytes of the root before its directory.
const ROOT_HEAD_BYTES: usize = 28;
/// Entries of a directory; the root has room for as many.
const FAN_OUT: usize = 500;
/// A stretch between two long values that is longer than this is not copied: a chunk more does not matter
/// there.
pub(crate) const RUN_BYTES_MAX: usize = 512;

/// Numbers of pages in each level of directories, from the leaves' to the root's, for so many leaves.
fn levels(leaves: u64) -> impl Iterator<Item = u64> {
    let fan_out = FAN_OUT as u64;
    let over = move |pages: u64| pages.div_ceil(fan_out).max(1);
    std::iter::successors(Some(over(leaves)), move |pages| (*pages > 1).then(|| over(*pages)))
}
