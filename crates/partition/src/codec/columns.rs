//! Which columns of a list are present (docs/formats/sstable-big.md).
//!
//! ```text
//! all:      uvint 0
//! n < 64:   uvint bitmap of missing columns, bit i = column i
//! n >= 64:  uvint (n - present), then uvint index of each: of the present ones when present < n / 2,
//!           of the missing ones else; ascending
//! ```

use super::input::Input;
use model::vint;
use smallvec::SmallVec;

/// A set of positions in a list of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSet {
    words: SmallVec<[u64; 2]>,
}

impl ColumnSet {
    /// Empties the set and makes room for `len` columns.
    pub fn reset(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len.div_ceil(64), 0);
    }

    /// Adds column `index`.
    #[inline]
    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Whether column `index` is in the set.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Number of columns in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Makes the set all of `len` columns.
    pub fn fill(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len / 64, u64::MAX);
        if !len.is_multiple_of(64) {
            self.words.push((1 << (len % 64)) - 1);
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Appends the set as a subset of `len` columns.
    pub fn encode(&self, out: &mut Vec<u8>, len: usize) {
        if len < 64 {
            let present = self.words.first().copied().unwrap_or(0);
            let all = (1u64 << len) - 1;
            vint::write_unsigned(out, all & !present);
            return;
        }
        let present = self.len();
        vint::write_unsigned(out, (len - present) as u64);
        if present == len {
            return;
        }
        let listed = present < len / 2;
        for index in (0..len).filter(|i| self.contains(*i) == listed) {
            vint::write_unsigned(out, index as u64);
        }
    }

    /// Reads a subset of `len` columns into this set.
    pub fn decode<I: Input>(&mut self, input: &mut I, len: usize) -> Result<(), I::Error> {
        let head = input.uvint()?;
        self.fill(len);
        if head == 0 {
            return Ok(());
        }
        if len < 64 {
            if head >> len != 0 {
                return Err(input.malformed(format!("bitmap {head:#x} of {len} columns")));
            }
            if let Some(word) = self.words.first_mut() {
                *word &= !head;
            }
            return Ok(());
        }
        let Some(present) = usize::try_from(head).ok().and_then(|missing| len.checked_sub(missing)) else {
            return Err(input.malformed(format!("{head} of {len} columns are missing")));
        };
        let listed_are_present = present < len / 2;
        let count = if listed_are_present { present } else { len - present };
        if listed_are_present {
            self.reset(len);
        }
        for _ in 0..count {
            let index = input.uvint()?;
            match usize::try_from(index).ok().filter(|i| *i < len) {
                Some(index) if listed_are_present => self.insert(index),
                Some(index) => self.remove(index),
                None => return Err(input.malformed(format!("column {index} of {len}"))),
            }
        }
        Ok(())
    }
}
