//! How many keys or rows the INs of a statement multiply to: counted before they are made.
//!
//! Two bounds hold. The guardrail `in_select_cartesian_product` warns and refuses where the operator set it,
//! in Cassandra's words; it counts values as they were given, twice if they were given twice. A bound of our
//! own holds always: a request of a few hundred bytes must not become gigabytes.

use super::context::BindInput;
use crate::error::{Result, bail};
use crate::plan::BoundWrite;

/// What several INs may multiply to, in one statement, and what the statements of a batch may add up to.
pub(crate) const COMBINATIONS_MAX: usize = 1 << 16;
/// Values that a single IN may have, which multiplies nothing.
const VALUES_MAX: usize = 1 << 20;

/// Checks what INs multiply to. `what` is "partition key" or "clustering key"; `given` has the number of
/// values of each restriction, in the order of the columns.
pub(crate) fn check(what: &str, given: impl Iterator<Item = usize>, input: &BindInput<'_>) -> Result<()> {
    let guard = input.ctx.guard.as_deref();
    let (mut count, mut longest) = (1usize, 0);
    for values in given {
        count = count.saturating_mul(values);
        longest = longest.max(values);
        if let Some(guard) = guard {
            guard.refuse_product(what, count)?;
        }
    }
    let max = if count > longest { COMBINATIONS_MAX } else { VALUES_MAX };
    if count > max {
        bail!("IN restrictions on {what} produce {count} values, a statement may have {max}");
    }
    if let Some(guard) = guard {
        guard.warn_of_product(what, count);
    }
    Ok(())
}

/// Checks what the keys and the rows of a write multiply to.
pub(crate) fn check_write(keys: usize, rows: usize) -> Result<()> {
    let count = keys.saturating_mul(rows);
    if keys > 1 && rows > 1 && count > COMBINATIONS_MAX {
        bail!("IN restrictions produce {count} rows, a statement may write {COMBINATIONS_MAX}");
    }
    Ok(())
}

/// Adds up what the statements of a batch multiply to: each is counted before the next one is bound.
#[derive(Debug, Default)]
pub struct BatchProduct {
    count: usize,
}

impl BatchProduct {
    /// Counts a write that was bound.
    ///
    /// # Errors
    /// When the statements so far write too many rows.
    pub fn count(&mut self, write: &BoundWrite) -> Result<()> {
        self.add(write.keys.len(), write.target.count())
    }

    /// Counts a statement that names so many keys and so many rows of each.
    fn add(&mut self, keys: usize, rows: usize) -> Result<()> {
        let count = keys.saturating_mul(rows.max(1));
        if count > 1 {
            self.count = self.count.saturating_add(count);
            if self.count > COMBINATIONS_MAX {
                bail!(
                    "IN restrictions of a batch produce more than the {COMBINATIONS_MAX} rows that it may write"
                );
            }
        }
        Ok(())
    }
}
