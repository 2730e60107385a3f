//! All checksums of a file, in one pass from start to end, around the page cache.

use super::file::{PageLayout, PagedFile};
use crc32fast::Hasher;
use env::fs::ReadFile;
use partition::ReadError;

/// Bytes that are read at once; a page more where they end inside of one.
const RUN_BYTES: u64 = 256 << 10;

/// What a file sums up to.
#[derive(Debug)]
pub(crate) struct Sums {
    /// The CRC-32 of the whole file.
    pub digest: u32,
    /// The checksums that stand behind the chunks of a compressed file.
    pub chunks: Vec<u32>,
    /// The error of the first page that does not fit its own checksum.
    pub damage: Option<ReadError>,
}

impl PagedFile {
    /// Reads the file by way of `file`. `pace` is told of the bytes of each run of pages, and ends the pass
    /// by `false`; then there is no sum.
    ///
    /// # Errors
    /// When the file cannot be read, or its pages do not fill it one behind the other.
    pub fn sum_up(
        &self,
        file: &dyn ReadFile,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Sums>, ReadError> {
        let (mut digest, mut chunks, mut damage) = (Hasher::new(), Vec::new(), None);
        let (mut buffer, mut stored) = (Vec::new(), Vec::new());
        let (mut page, mut at) = (0, 0);
        // Cassandra may have ended a file by a chunk of nothing.
        let pages = self.page_count().max(self.chunks());
        while page < pages {
            let start = at;
            stored.clear();
            while page + (stored.len() as u64) < pages && at - start < RUN_BYTES {
                let place = self.stored(page + stored.len() as u64)?;
                if place.start != at {
                    let detail = format!("a chunk that begins at {} of the file", place.start);
                    return Err(self.corrupt(at, detail));
                }
                at = place.end;
                stored.push(place.end - place.start);
            }
            buffer.resize((at - start) as usize, 0);
            file.read_exact_at(start, &mut buffer)?;
            digest.update(&buffer);
            let (mut rest, mut from) = (&buffer[..], start);
            for len in &stored {
                let (bytes, behind) = rest.split_at(*len as usize);
                let sum = self.check_stored(page, from, bytes);
                damage = damage.or(sum.err());
                chunks.extend(self.seal_of_chunk(bytes));
                (rest, from, page) = (behind, from + len, page + 1);
            }
            if !pace(at - start) {
                return Ok(None);
            }
        }
        if at != file.len() {
            return Err(self.corrupt(at, format!("{} bytes that belong to no chunk", file.len() - at)));
        }
        Ok(Some(Sums { digest: digest.finalize(), chunks, damage }))
    }

    /// The checksum that stands behind a chunk; `None` in a file of another layout.
    fn seal_of_chunk(&self, stored: &[u8]) -> Option<u32> {
        let sum = stored.last_chunk::<4>().filter(|_| matches!(self.layout, PageLayout::Compressed(_)));
        sum.map(|sum| u32::from_be_bytes(*sum))
    }
}
