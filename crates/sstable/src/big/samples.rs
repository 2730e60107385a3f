//! Places of Index.db that a lookup can begin at, between those that Summary.db has.
//!
//! Summary.db has one place for 128 partitions or so, however long their entries are. Entries of large
//! partitions lie on pages of their own, and a search from the summary's place looks at one after another. So
//! the writer picks more entries: each that is longer than a page, and each that lies a page or more behind
//! the one that was picked last. Entries of partitions without an index of rows are short, so most tables
//! have no samples. Samples are kept in Proof.db (docs/formats/proof.md), because Cassandra takes the number
//! of entries in Summary.db as a measure of how many partitions there are.
//!
//! A sample is a hint: keys are compared, and a key that is not found is looked for as if there were no
//! samples.

use crate::pages::INDEX_PAGE_BYTES;
use model::key::Token;

/// An entry of Index.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub token: Token,
    /// Where it starts.
    pub position: u64,
}

/// Picks samples of an index that is written from start to end.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    samples: Vec<Sample>,
    /// Where the entry starts that was picked last, here or by the summary.
    last: u64,
}

impl Sampler {
    /// Takes the next entry, which takes `len` bytes.
    pub fn add(&mut self, entry: Sample, len: u64, is_in_summary: bool) {
        let is_far = entry.position - self.last >= INDEX_PAGE_BYTES;
        if is_in_summary {
            self.last = entry.position;
        } else if is_far || len > INDEX_PAGE_BYTES {
            self.last = entry.position;
            self.samples.push(entry);
        }
    }

    /// The samples of the entries so far.
    pub fn so_far(&self) -> Vec<Sample> {
        self.samples.clone()
    }

    pub fn finish(self) -> Vec<Sample> {
        self.samples
    }
}
