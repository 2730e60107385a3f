//! Where the rows of a partition begin.
//!
//! For partitions with an index of their rows, a page of the index whose checksum was verified says what the
//! head of the partition says: key, deletion and where the first row is. So a read of some rows begins at
//! these rows. It does not read the page of the head, unless there are static rows, which lie behind the
//! head. A scan reads each head, as it needs the keys. The index of rows that it takes is that of Blocks.db
//! where the partition is described there.

use super::{Partitions, SsTableStream, State, Walker};
use crate::index::RowIndex;
use model::Deletion;
use partition::codec::Input;
use partition::{Fragment, ReadError};

impl SsTableStream {
    fn needs_index(&self) -> bool {
        matches!(self.walker, Walker::Reverse(_)) || !self.whole
    }

    /// Starts the partition from its entry in the index, if that says everything.
    pub(super) fn start_by_index(&mut self, out: &mut Fragment) -> Result<bool, ReadError> {
        if !self.is_proven || !self.needs_index() || self.layout.has_statics() {
            return Ok(false);
        }
        let Partitions::One { key, entry } = &mut self.partitions else { return Ok(false) };
        let Some(mut rows) = entry.take_rows(&self.layout)? else { return Ok(false) };
        out.key = key.clone();
        out.deletion = rows.deletion();
        let first_at = self.partition_start.checked_add(rows.header_len()?);
        match first_at.filter(|at| *at < self.data.len()) {
            Some(at) => self.data.seek(at),
            None => return Err(self.data.malformed("the index points behind the end".to_owned())),
        }
        self.rows = Some(rows);
        Ok(true)
    }

    pub(super) fn begin_rows(&mut self) -> Result<(), ReadError> {
        let (start, needs_index) = (self.partition_start, self.needs_index());
        let mut rows: Option<RowIndex> = match &mut self.partitions {
            _ if self.rows.is_some() => self.rows.take(),
            Partitions::One { entry, .. } if needs_index => entry.take_rows(&self.layout)?,
            Partitions::Range { walk, .. } if needs_index => walk.rows(&self.layout, start)?,
            _ => None,
        };
        let first_at = self.data.position();
        self.rows_start = first_at;
        self.taken_start = first_at;
        let end = match (&self.partitions, &mut rows) {
            (Partitions::Range { .. }, Some(rows)) => rows.end()?,
            _ => None,
        };
        if let Some(aside) = &mut self.aside {
            aside.partition_end = end;
        }
        let mut is_proven = self.is_proven;
        if rows.is_some()
            && let Some(key) = self.last_key()
            && let Some(adopted) = self.sstable.adopted_rows(key, start, &self.layout, self.data.context())?
        {
            rows = Some(adopted);
            is_proven = self.sstable.data.crc_checks.are_all_due();
        }
        if rows.as_mut().is_some_and(|rows| !rows.fits_header(first_at.saturating_sub(start))) {
            return Err(self.data.malformed("the first row is not where the index has it".to_owned()));
        }
        let may_delete = self.sstable.may_have_tombstones();
        if let Some(rows) = rows.as_mut().filter(|_| is_proven) {
            rows.believe(may_delete);
        }
        self.walker.begin(&self.data, start, first_at, rows, may_delete, is_proven);
        self.state = State::Rows;
        self.slice = 0;
        self.sought = false;
        self.entered = false;
        self.open = Deletion::NONE;
        Ok(())
    }
}
