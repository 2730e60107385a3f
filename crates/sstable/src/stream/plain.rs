//! Plain rows, handed on where they lie in the page at hand.

use super::forward::{Forward, row_flags};
use super::{SsTableStream, State, Walker};
use crate::pages::{Cursor, NotInPage};
use partition::codec::{Input, Layout, PlainParts, Wanted};
use partition::{PlainRow, ReadError, TakePlain};

impl SsTableStream {
    /// [`partition::PartitionStream::plain_rows`]: of partitions that are read as a whole, forwards.
    pub(super) fn take_plain(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        if !self.whole || self.is_reversed() {
            return Ok(());
        }
        if self.state == State::Static && !self.layout.has_statics() {
            self.begin_rows()?;
        }
        let (State::Rows, Walker::Forward(walker)) = (self.state, &mut self.walker) else { return Ok(()) };
        // Within a range deletion nothing is plain.
        if !self.open.is_none() {
            return Ok(());
        }
        let (rows, cells) = walker.plain_in_page(&mut self.data, &self.layout, &self.wanted, take);
        if rows > 0 {
            self.taken_start = walker.head_start().unwrap_or(self.taken_start);
            self.counted.plain(rows, cells);
        }
        Ok(())
    }
}

impl Forward {
    /// Hands on the rows at hand that are plain, under the conditions of [`Forward::take_in_page`]. Returns
    /// how many they were, and how many of their cells were looked at.
    fn plain_in_page(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        wanted: &Wanted,
        take: &mut TakePlain<'_>,
    ) -> (u64, u64) {
        let (mut rows, mut cells) = (0, 0);
        if self.head.is_some() {
            return (rows, cells);
        }
        let (places, present) = (&self.places, &mut self.present);
        let (mut before, mut last) = (self.before, None);
        let _ = data.decode_in_page(|page| {
            let mut parts = PlainParts::new(layout, wanted);
            loop {
                let mut next = page.clone();
                let start = next.position();
                let read = || {
                    let flags = row_flags(&mut next, layout)?;
                    layout.read_plain_clustering(&mut next, &mut parts)?;
                    let (end, says) = layout.read_sizes(&mut next)?;
                    let follows = before.is_none_or(|before| start.checked_sub(says) == Some(before));
                    if !follows || places.is_new(start) || places.is_new_behind(end) {
                        return Err(NotInPage);
                    }
                    layout.read_plain_body(&mut next, flags, end, wanted, present, &mut parts)?;
                    Ok(end)
                };
                let Ok(end) = { read }() else { return Ok(()) };
                *page = next;
                (before, last) = (Some(start), Some((start, end)));
                rows += 1;
                cells += parts.cells.len() as u64;
                if !take(PlainRow { clustering: &parts.clustering, cells: &parts.cells }) {
                    return Ok(());
                }
            }
        });
        if let Some((start, end)) = last {
            (self.before, self.head_start, self.head_end) = (before, Some(start), end);
        }
        (rows, cells)
    }
}
