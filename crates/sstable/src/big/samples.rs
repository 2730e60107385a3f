//! Places of Index.db that a lookup can begin at, between those that Summary.db has.
//!
//! Summary.db has one for 128 partitions or so, however long their entries are, and of large partitions each
//! lies on pages of its own: a search from there looks at one after another. The writer picks, beside those
//! of the summary, each entry that is longer than a page and each that lies a page or more behind the one
//! that was picked last. Entries of partitions without an index of rows are short: of them there is none in
//! most tables. They are kept in Proof.db (docs/formats/proof.md), since Cassandra takes the number of
//! entries in Summary.db for a measure of how many partitions there are.
//!
//! All of it is a hint: keys are compared, and one that is not found is looked for as if there were none.

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

    /// Those of the entries so far.
    pub fn so_far(&self) -> Vec<Sample> {
        self.samples.clone()
    }

    pub fn finish(self) -> Vec<Sample> {
        self.samples
    }
}
