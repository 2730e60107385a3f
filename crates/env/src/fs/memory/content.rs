//! The bytes of one file, twice: as processes see them and as the device holds them, with the writes between.

use super::Crash;
use crate::random::Random;

/// The unit in which a page cache writes back.
const PAGE_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Content {
    /// As processes see it.
    bytes: Vec<u8>,
    /// As the device holds it.
    durable: Vec<u8>,
    /// What leads from `durable` to `bytes`, in order.
    unsynced: Vec<Write>,
    /// When it was made, in milliseconds since 1970.
    pub(super) made_ms: i64,
}

#[derive(Debug)]
enum Write {
    At(u64, Vec<u8>),
    Len(u64),
}

impl Write {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::At(offset, written) => {
                let start = *offset as usize;
                let end = start + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(written);
            }
            // Zeros that nobody touches cost no memory: the segments of a commit log are long.
            Self::Len(len) if bytes.is_empty() => *bytes = vec![0; *len as usize],
            Self::Len(len) => bytes.resize(*len as usize, 0),
        }
    }
}

impl Content {
    /// Nothing, at that moment.
    pub(super) fn made_at(made_ms: i64) -> Content {
        Content { made_ms, ..Content::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let len = buf.len().min(self.bytes.len() - start);
        buf[..len].copy_from_slice(&self.bytes[start..start + len]);
        len
    }

    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) {
        self.change(Write::At(offset, bytes.to_vec()));
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.change(Write::Len(len));
    }

    fn change(&mut self, write: Write) {
        write.apply(&mut self.bytes);
        self.unsynced.push(write);
    }

    pub(super) fn sync(&mut self) {
        for write in self.unsynced.drain(..) {
            write.apply(&mut self.durable);
        }
    }

    /// What a crash leaves of this file; all of it durable.
    pub(super) fn after_crash(&self, crash: Crash, random: &Random) -> Self {
        let bytes = match crash {
            Crash::LoseUnsynced => self.durable.clone(),
            Crash::TornPrefix(_) => self.torn_prefix(random),
            Crash::ScatteredPages(_) => self.scattered_pages(random),
        };
        Self { durable: bytes.clone(), bytes, unsynced: Vec::new(), made_ms: self.made_ms }
    }

    fn torn_prefix(&self, random: &Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let whole = random.below(self.unsynced.len() as u64 + 1) as usize;
        self.unsynced[..whole].iter().for_each(|write| write.apply(&mut bytes));
        if let Some(Write::At(offset, written)) = self.unsynced.get(whole) {
            let part = random.below(written.len() as u64) as usize;
            if part > 0 {
                Write::At(*offset, written[..part].to_vec()).apply(&mut bytes);
            }
        }
        bytes
    }

    fn scattered_pages(&self, random: &Random) -> Vec<u8> {
        let (short, long) =
            (self.durable.len().min(self.bytes.len()), self.durable.len().max(self.bytes.len()));
        let len = short + random.below((long - short) as u64 + 1) as usize;
        let mut bytes = self.durable.clone();
        bytes.resize(len, 0);
        for start in (0..len.min(self.bytes.len())).step_by(PAGE_BYTES) {
            let end = (start + PAGE_BYTES).min(len).min(self.bytes.len());
            if bytes[start..end] != self.bytes[start..end] && random.below(2) == 1 {
                bytes[start..end].copy_from_slice(&self.bytes[start..end]);
            }
        }
        bytes
    }
}
