//! What a read of rows may have seen.
//!
//! A read is as many pages as it took, and each page is held to what was acknowledged before that page began:
//! a read of several pages is no snapshot.
//!
//! 1. The rows of a read come in order, so none comes twice. No page has more than was asked for.
//! 2. A page knows all from where the page before it ended up to where it ends itself, unless a limit was
//!    reached there. Each row in between was seen, or something explains that it was not.
//! 3. What is seen is not older than what was acknowledged, or was seen, before the page began, by requests
//!    which it meets ([`super::levels`]). Older means by timestamp, as writes of nodes whose clocks differ
//!    are ordered so. A row that is not there has a deletion that explains it. So a row that is deleted does
//!    not come back.
//! 4. A row that was written with a TTL is not seen from the second on at which that ends. It may be missing
//!    from that second on, by the clock of the node that was asked, or of a node that compacted it away: by
//!    the true time and what clocks of this life were ahead. What it has replaced does not come back.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Did, History, Operation};
use super::levels::Meetings;
use super::pages::{Order, Position, Seen, Until};
use super::tables::{Change, Found, Register, Wanted};

/// A row.
pub type Place = (i32, i32);

/// What a page has to see of a row at least.
struct Evidence<'a> {
    /// By a write; else by a page.
    of: &'a Operation,
    page: Option<&'a Seen>,
}

impl Evidence<'_> {
    /// The timestamp of what was written to a row, or seen of it.
    fn timestamp(&self, place: Place) -> Option<i64> {
        match (&self.of.did, self.page) {
            (Did::Wrote { table, timestamp, .. }, _) => self.of.touches(*table, place).then_some(*timestamp),
            (_, Some(page)) => page.rows.iter().find(|row| (row.k, row.c) == place).map(|row| row.timestamp),
            _ => None,
        }
    }
}

impl History {
    /// Holds all reads to what they may see. `rows` are those of a partition.
    pub fn check_reads(&self, rows: i32) {
        for read in &self.operations {
            if matches!(read.did, Did::Read { .. }) {
                self.check_read(read, rows);
            }
        }
    }

    /// Holds a read to what it may see.
    pub fn check_read(&self, read: &Operation, rows: i32) {
        let Did::Read { table, wanted, pages, page_rows_max, .. } = &read.did else { return };
        let order = self.order(*table);
        let order = Order { is_descending: order.is_descending != wanted.is_backwards };
        let places: BTreeMap<Position, Place> =
            self.places(*table, rows).into_iter().map(|(k, c)| (order.of_row(k, c), (k, c))).collect();
        let mut tally = Tally { wanted: *wanted, rows: 0, of_partition: BTreeMap::new(), last: None };
        let mut begin = Position::default();
        begin.0 = i64::MIN;
        for page in pages {
            assert!(page.rows.len() as u64 <= *page_rows_max, "a page is too long: {page:?}\nof {read:?}");
            let end = order.until(page.until);
            assert!(begin < end, "a page leads nowhere: {page:?}\nof {read:?}");
            let mut found: BTreeMap<Position, Found> = BTreeMap::new();
            for row in &page.rows {
                let position = order.of_row(row.k, row.c);
                let is_behind = tally.last.is_none_or(|last| last < position) && begin < position;
                assert!(is_behind && position <= end, "{row:?} is out of order in {page:?}\nof {read:?}");
                tally.last = Some(position);
                found.insert(position, *row);
            }
            let evidence = self.evidence(read, page);
            for (position, place) in places.range(begin..=end).filter(|(position, _)| **position > begin) {
                let row = found.remove(position);
                if tally.is_wanted(*place, row.is_some()) {
                    self.check_row(*place, row.as_ref(), (read, page), &evidence);
                }
            }
            assert!(found.is_empty(), "nobody wrote {found:?}, which {read:?} saw");
            begin = end;
        }
        let is_over = pages.last().is_some_and(|page| page.until == Until::End);
        assert!(is_over || read.end.is_none(), "a read ended before its end: {read:?}");
    }

    fn places(&self, register: Register, rows: i32) -> BTreeSet<Place> {
        let written = self.operations.iter().filter_map(|operation| match &operation.did {
            Did::Wrote { table, k, .. } if *table == register => Some(*k),
            _ => None,
        });
        written.flat_map(|k| (0..rows).map(move |c| (k, c))).collect()
    }

    /// What was acknowledged or seen before a page, by requests that it meets.
    fn evidence(&self, read: &Operation, page: &Seen) -> Vec<Evidence<'_>> {
        let Did::Read { table: register, level, .. } = &read.did else { return Vec::new() };
        let mut meetings = Meetings::of(&self.layout, *level, page.node);
        let mut out = Vec::new();
        for of in &self.operations {
            match &of.did {
                Did::Wrote { table, level, .. } if table == register => {
                    let is_before = of.end.is_some_and(|end| end < page.begin);
                    let stays = is_before && self.stays(*table, of.begin, page.end);
                    if stays && meetings.has(*level, of.node) {
                        out.push(Evidence { of, page: None });
                    }
                }
                Did::Read { table, level, wanted, pages, .. } if table == register && !wanted.is_distinct => {
                    for earlier in pages.iter().filter(|earlier| earlier.end < page.begin) {
                        let stays = self.stays(*table, earlier.begin, page.end);
                        if stays && meetings.has(*level, earlier.node) {
                            out.push(Evidence { of, page: Some(earlier) });
                        }
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// The latest second that the clock of a node has shown before a page ended.
    fn seconds_max(&self, page: &Seen) -> u32 {
        let ahead = self.micros(page.end).saturating_add(self.skew_micros_max);
        page.now_s.max(u32::try_from(ahead / 1_000_000).unwrap_or(u32::MAX))
    }

    fn check_row(
        &self,
        place: Place,
        found: Option<&Found>,
        (read, page): (&Operation, &Seen),
        evidence: &[Evidence<'_>],
    ) {
        // The least that it has to see, and who says so.
        let (mut least, mut because) = (i64::MIN, None);
        for evidence in evidence {
            if let Some(timestamp) = evidence.timestamp(place).filter(|timestamp| *timestamp > least) {
                (least, because) = (timestamp, Some(evidence.of));
            }
        }
        let Did::Read { table, .. } = read.did else { return };
        let now_s_max = self.seconds_max(page);
        let explains = |operation: &&Operation| {
            operation.begin < page.end
                && operation.touches(table, place)
                && !self.is_emptied(table, operation, page)
                && match (&operation.did, found) {
                    (Did::Wrote { change: Change::Put(_, value, life), timestamp, .. }, Some(row)) => {
                        let lives = life.is_none_or(|life| page.now_s < life.end_s);
                        // Values are not asked for where partitions are, and may have expired elsewhere.
                        lives && *timestamp == row.timestamp && (*value == row.value || row.value == 0)
                    }
                    (Did::Wrote { change: Change::Put(_, _, life), timestamp, .. }, None) => {
                        life.is_some_and(|life| life.end_s <= now_s_max) && *timestamp >= least
                    }
                    (Did::Wrote { timestamp, .. }, None) => *timestamp >= least,
                    _ => false,
                }
        };
        let explanation = self.operations.iter().find(explains);
        match found {
            Some(row) => {
                assert!(
                    row.timestamp >= least,
                    "row {place:?}: {page:?}\nsaw {row:?}, which is older than {because:?}\n{read:?}"
                );
                assert!(
                    explanation.is_some(),
                    "row {place:?}: nobody wrote {row:?}, which {page:?} saw\n{read:?}"
                );
            }
            None => assert!(
                least == i64::MIN || explanation.is_some(),
                "row {place:?}: {page:?}\ndid not see {because:?}\n{read:?}"
            ),
        }
    }
}

/// How far a read has come.
struct Tally {
    wanted: Wanted,
    rows: u64,
    of_partition: BTreeMap<i32, u64>,
    last: Option<Position>,
}

impl Tally {
    /// Whether the next row is asked for: what is asked for in part is so up to the limit. Counts it.
    fn is_wanted(&mut self, (k, _): Place, is_found: bool) -> bool {
        let of_partition = self.of_partition.entry(k).or_default();
        let is_wanted = self.wanted.partition.is_none_or(|of| of == k)
            && self.rows < self.wanted.rows
            && *of_partition < self.wanted.rows_of_each();
        assert!(is_wanted || !is_found, "row of partition {k} was not asked for: {:?}", self.wanted);
        self.rows += u64::from(is_found);
        *of_partition += u64::from(is_found);
        is_wanted
    }
}
