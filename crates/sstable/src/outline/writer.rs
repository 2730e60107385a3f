//! Writing of outlines, beside the data: what is kept in memory is the run that is not over yet, one page,
//! and 8 bytes for each leaf.

use super::{FAN_OUT, LEAF_HEAD_BYTES, MAGIC, RUN_BYTES_MAX};
use crate::checksum::{SEALED_BYTES, seal_page};
use crate::error::WriteError;
use env::fs::{FileSystem, WriteFile};
use model::vint;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// An Outline.db that is being written. There is no file as long as there are no long values.
#[derive(Debug)]
pub(crate) struct OutlineWriter {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    file: Option<Box<dyn WriteFile>>,
    /// The run that is not over yet: bytes up to where the data ends now.
    run: Vec<u8>,
    /// Whether the run begins where a long value ends.
    follows_long: bool,
    leaf: Vec<u8>,
    leaf_runs: u16,
    /// Where the last run of the leaf ends in the data.
    leaf_end: u64,
    /// Where the first run of each leaf starts in the data.
    firsts: Vec<u64>,
    pages: u64,
}

impl OutlineWriter {
    pub fn new(fs: Arc<dyn FileSystem>, path: PathBuf) -> OutlineWriter {
        OutlineWriter {
            fs,
            path,
            file: None,
            run: Vec::new(),
            follows_long: false,
            leaf: Vec::new(),
            leaf_runs: 0,
            leaf_end: 0,
            firsts: Vec::new(),
            pages: 0,
        }
    }

    /// Takes the next bytes of the data, which lie at `position`: the head of a partition, a row, a marker or
    /// an end. `long` are the long values in them.
    pub fn add(&mut self, position: u64, bytes: &[u8], long: &[Range<usize>]) -> Result<(), WriteError> {
        let part = |range: Range<usize>| bytes.get(range).unwrap_or_default();
        let mut from = 0;
        for value in long {
            self.extend(position + from as u64, part(from..value.start))?;
            self.long_value(position + value.start as u64)?;
            from = value.end;
        }
        self.extend(position + from as u64, part(from..bytes.len()))
    }

    /// Whether what comes next is of no interest unless a long value follows it closely.
    pub fn is_idle(&self) -> bool {
        self.run.is_empty() && !self.follows_long
    }

    /// Takes a long value, which starts at `position`.
    pub fn long_value(&mut self, position: u64) -> Result<(), WriteError> {
        self.end_run(position)?;
        self.follows_long = true;
        Ok(())
    }

    /// Leaves out what comes next, from `position` on.
    pub fn leave_out(&mut self, position: u64) -> Result<(), WriteError> {
        match self.follows_long {
            true => self.end_run(position),
            false => {
                self.run.clear();
                Ok(())
            }
        }
    }

    /// Makes `bytes` part of the run, or of a new one that starts with them, at `position`.
    pub fn extend(&mut self, position: u64, bytes: &[u8]) -> Result<(), WriteError> {
        if self.run.len() + bytes.len() > RUN_BYTES_MAX {
            self.leave_out(position)?;
        }
        if bytes.len() <= RUN_BYTES_MAX {
            self.run.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes the run, which ends at `end`.
    fn end_run(&mut self, end: u64) -> Result<(), WriteError> {
        self.follows_long = false;
        if self.run.is_empty() {
            return Ok(());
        }
        let start = end - self.run.len() as u64;
        let len = vint::unsigned_len(start - self.leaf_end) + 2 + self.run.len();
        if self.leaf.len() + len > SEALED_BYTES {
            self.end_leaf()?;
        }
        if self.leaf_runs == 0 {
            self.leaf.resize(LEAF_HEAD_BYTES, 0);
            self.leaf_end = start;
            self.firsts.push(start);
        }
        vint::write_unsigned(&mut self.leaf, start - self.leaf_end);
        vint::write_unsigned(&mut self.leaf, self.run.len() as u64);
        self.leaf.append(&mut self.run);
        self.leaf_runs += 1;
        self.leaf_end = end;
        Ok(())
    }

    fn end_leaf(&mut self) -> Result<(), WriteError> {
        let Some(first) = self.firsts.last().filter(|_| self.leaf_runs > 0) else { return Ok(()) };
        let head = [&self.leaf_runs.to_be_bytes()[..], &first.to_be_bytes()].concat();
        for (byte, value) in self.leaf.iter_mut().zip(head) {
            *byte = value;
        }
        let mut leaf = std::mem::take(&mut self.leaf);
        self.write_page(&mut leaf)?;
        self.leaf = leaf;
        self.leaf_runs = 0;
        Ok(())
    }

    /// Writes `content` as the next page and empties it.
    fn write_page(&mut self, content: &mut Vec<u8>) -> Result<(), WriteError> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.fs.create_new(&self.path)?),
        };
        seal_page(content, self.pages);
        file.write_all(content)?;
        self.pages += 1;
        content.clear();
        Ok(())
    }

    /// Where the complete leaves start. All of them are in the file now. There are none as long as there is
    /// no file.
    pub fn so_far(&mut self) -> Result<Vec<u64>, WriteError> {
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        file.flush()?;
        Ok(self.firsts.get(..self.pages as usize).unwrap_or_default().to_vec())
    }

    /// Completes the file and syncs it, if there is one. `digest` is the checksum of Data.db, `data_len` the
    /// number of its bytes before compression.
    pub fn finish(mut self, digest: u32, data_len: u64) -> Result<bool, WriteError> {
        if self.follows_long {
            self.end_run(data_len)?;
        }
        self.end_leaf()?;
        if self.firsts.is_empty() {
            return Ok(false);
        }
        let leaves = self.firsts.len() as u64;
        let mut level = std::mem::take(&mut self.firsts);
        let mut page = Vec::new();
        while level.len() > FAN_OUT {
            for entries in level.chunks(FAN_OUT) {
                write_directory(&mut page, entries);
                self.write_page(&mut page)?;
            }
            level = level.chunks(FAN_OUT).filter_map(|entries| entries.first().copied()).collect();
        }
        page.extend_from_slice(MAGIC);
        page.extend_from_slice(&digest.to_be_bytes());
        page.extend_from_slice(&data_len.to_be_bytes());
        page.extend_from_slice(&leaves.to_be_bytes());
        write_directory(&mut page, &level);
        self.write_page(&mut page)?;
        if let Some(file) = &mut self.file {
            file.sync_data()?;
        }
        Ok(true)
    }
}

fn write_directory(out: &mut Vec<u8>, firsts: &[u64]) {
    out.extend_from_slice(&(firsts.len() as u16).to_be_bytes());
    firsts.iter().for_each(|first| out.extend_from_slice(&first.to_be_bytes()));
}
