//! Plain rows of a merge: of one source after the other, as long as no other source has the row.
//!
//! The sources inside the partition stand in line, by where they stand. The first one's row is handed on, and
//! the source goes to its new place. What has to be merged, or decides what holds for rows, ends that.

use super::{Known, Merge, Phase};
use crate::error::ReadError;
use crate::plain::TakePlain;
use std::cmp::Ordering;

/// A source in line.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    index: usize,
    /// Whether it stands where the one before it does.
    is_equal: bool,
}

impl Merge {
    /// Puts the sources inside the partition in line. Says whether all of them know what they have next.
    pub(super) fn line_up(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        for source in self.sources.iter_mut().filter(|s| s.taking_part) {
            if source.peek()? {
                continue;
            }
            // A static row comes before all others.
            if self.phase == Phase::Static {
                return Ok(false);
            }
            source.refresh()?;
        }
        self.phase = Phase::Rows;
        for i in 0..self.sources.len() {
            self.place(i, 0);
        }
        Ok(true)
    }

    /// Puts a source into the line, at `from` or behind, if it is inside the partition.
    fn place(&mut self, index: usize, from: usize) {
        let Some(source) = self.sources.get(index).filter(|source| source.is_inside()) else { return };
        let (mut at, mut end) = (from, self.line.len());
        let mut is_equal = false;
        // The first one is most often right: runs of rows lie in one source.
        let mut middle = at;
        while at < end {
            let Some(other) = self.line.get(middle).and_then(|placed| self.sources.get(placed.index)) else {
                break;
            };
            match self.order(source, other) {
                Ordering::Less => end = middle,
                Ordering::Greater => at = middle + 1,
                Ordering::Equal => {
                    (at, is_equal) = (middle + 1, true);
                    break;
                }
            }
            middle = at + (end - at) / 2;
        }
        self.line.insert(at, Placed { index, is_equal });
    }

    /// Hands on plain rows while they stand first and alone.
    pub(super) fn take_plain(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        while let Some(&Placed { index, .. }) = self.line.first() {
            let is_alone = self.line.get(1).is_none_or(|second| !second.is_equal);
            let Some(source) = self.sources.get_mut(index).filter(|s| s.known == Known::Plain && is_alone)
            else {
                return Ok(());
            };
            let goes_on = take(source.plain.row());
            source.stream.leave_plain();
            source.known = Known::Nothing;
            if !goes_on {
                return Ok(());
            }
            if !source.peek()? {
                source.refresh()?;
            }
            self.line.remove(0);
            self.place(index, 0);
        }
        Ok(())
    }
}
