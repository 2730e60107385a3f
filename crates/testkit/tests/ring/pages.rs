//! Reads, page by page, as a driver does them: each page of a node of its own, which knows of the pages
//! before only what the paging state says.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Page, PagingState, PagingVersion, ReadRequest, RowMark, Scope};
use env::random::Random;
use model::{Consistency, TableSchema};
use partition::{PageLimits, ReadContext};
use testkit::sim::member::{RingNode, Timeouts};

use super::client::Shared;
use super::history::Moment;
use super::tables::{Found, Wanted, c_of, first_rows, key, read_of, rows};

/// As many bytes a page has at most, in the server.
const PAGE_BYTES_MAX: u64 = 2 << 20;
/// More pages than a table has rows, deletions and partitions.
const PAGES_MAX: usize = 60;
/// How often a page is asked for that did not come.
const TRIES: usize = 3;

/// A page that came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub node: u8,
    pub begin: Moment,
    pub end: Moment,
    /// At which second rows were judged to live.
    pub now_s: u32,
    pub rows: Vec<Found>,
    pub until: Until,
}

/// Up to where a page knows all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// That row.
    Row(i32, i32),
    /// The end of that partition.
    Partition(i32),
    /// The end of the result.
    End,
}

/// How a read is cut into pages.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    /// Rows of a page at most.
    rows: u64,
    /// Tombstones of a page at most.
    tombstones: u64,
    version: PagingVersion,
}

impl Paging {
    pub fn drawn(random: &Random) -> Paging {
        Paging {
            rows: 1 + random.below(3),
            tombstones: [1, 3, 100_000][random.below(3) as usize],
            version: if random.below(4) == 0 { PagingVersion::V3 } else { PagingVersion::V4 },
        }
    }

    pub fn rows(self) -> u64 {
        self.rows
    }
}

impl Wanted {
    /// What a client of `plain` may want.
    pub fn drawn(k: i32, rows_max: u64, random: &Random) -> Wanted {
        let of = match random.below(8) {
            0 | 1 => Wanted::EVERYTHING,
            2 => Wanted { rows: 1 + random.below(3 * rows_max), ..Wanted::EVERYTHING },
            3 => return Wanted { is_distinct: true, ..Wanted::EVERYTHING },
            4 => Wanted { rows: 1 + random.below(rows_max - 1), ..Wanted::partition(k) },
            _ => Wanted::partition(k),
        };
        let is_backwards = of.partition.is_some() && random.below(4) == 0;
        let rows_per_partition = if random.below(5) == 0 { 1 + random.below(rows_max) } else { u64::MAX };
        Wanted { is_backwards, rows_per_partition, ..of }
    }
}

/// What a client asks, of whichever node.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub table: &'a Arc<TableSchema>,
    pub wanted: Wanted,
    pub consistency: Consistency,
    /// `None`: all at once.
    pub paging: Option<Paging>,
}

impl Shared {
    /// Reads, all at once or in pages. The pages that came, and whether those are all.
    pub fn read_pages(
        &self,
        (number, node): (u8, &Arc<RingNode>),
        asked: Asked<'_>,
        random: &Random,
    ) -> (Vec<Seen>, bool) {
        let mut seen: Vec<Seen> = Vec::new();
        let (mut next_node, mut tries) = (Some((number, Arc::clone(node))), 0);
        let mut state: Option<Bytes> = None;
        loop {
            assert!(seen.len() < PAGES_MAX, "a read does not end: {seen:?}");
            if let Some((number, node)) = &next_node
                && let Some((page, next)) = self.read_page((*number, node), asked, state.as_ref())
            {
                seen.push(page);
                tries = 0;
                if next.is_none() {
                    return (seen, true);
                }
                state = next;
            } else {
                tries += 1;
                // What is read at once is asked for once: who wants it again begins another operation.
                if tries >= TRIES || asked.paging.is_none() {
                    return (seen, false);
                }
            }
            let number = self.numbers[random.below(self.numbers.len() as u64) as usize];
            next_node = self.nodes.get(number).map(|node| (number, node));
        }
    }

    /// A page, and the state that the next one is asked for with.
    fn read_page(
        &self,
        (number, node): (u8, &Arc<RingNode>),
        Asked { table, wanted, consistency, paging }: Asked<'_>,
        state: Option<&Bytes>,
    ) -> Option<(Seen, Option<Bytes>)> {
        let begin = self.moment();
        let deadline = node.deadline(Timeouts::default().read);
        let now_s = node.env().now_seconds() as u32;
        let command = Arc::new(read_of(table, wanted, now_s));
        let version = paging.map_or(PagingVersion::V4, |paging| paging.version);
        let decoded = |bytes| PagingState::decode(bytes, version).expect("a paging state that a node made");
        let request = ReadRequest {
            command: Arc::clone(&command),
            consistency,
            page: paging.map_or(PageLimits::NONE, |paging| PageLimits {
                rows: paging.rows,
                bytes: PAGE_BYTES_MAX,
                tombstones: paging.tombstones,
            }),
            after: state.map(decoded),
            context: ReadContext { deadline: Some(deadline.clone()), ..ReadContext::default() },
            scope: Scope::Ring,
        };
        let coordinator = Arc::clone(&node.coordinator);
        let take = move |page: &mut Page| {
            let found = if wanted.is_distinct { first_rows(page)? } else { rows(page, false)? };
            Ok((found, page.mark().and_then(|mark| PagingState::of(&command, &mark))))
        };
        let answer = self.ask(number, node, async move {
            coordinator.collect(&request, take, Some(&deadline), &mut ()).await
        });
        let (rows, next) = answer?;
        let end = self.moment();
        let until = next.as_ref().map_or(Until::End, |state| until(state, wanted));
        let next = next.map(|state| state.encode(version));
        Some((Seen { node: number, begin, end, now_s, rows, until }, next))
    }
}

/// Up to where the page before a state knows all.
fn until(state: &PagingState, wanted: Wanted) -> Until {
    let k_of = |bytes: &Bytes| i32::from_be_bytes(bytes.as_ref().try_into().expect("the key of a partition"));
    let k = wanted.partition.unwrap_or_else(|| k_of(&state.key));
    match &state.row {
        Some(RowMark::Clustering { clustering, .. }) => Until::Row(k, c_of(clustering)),
        Some(RowMark::CellName(_)) => panic!("a state as it is encoded, and no page has ended there"),
        None => Until::Partition(k),
    }
}

/// Where a row stands in a result.
pub type Position = (i64, i32, i32);

/// Where rows stand in what is wanted of a table.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Whether larger clusterings come first.
    pub is_descending: bool,
}

impl Order {
    pub fn of_row(self, k: i32, c: i32) -> Position {
        (key(k).token.0, k, if self.is_descending { -c } else { c })
    }

    /// Behind all that a page knows.
    pub fn until(self, until: Until) -> Position {
        match until {
            Until::Row(k, c) => self.of_row(k, c),
            Until::Partition(k) => (key(k).token.0, k, i32::MAX),
            Until::End => (i64::MAX, i32::MAX, i32::MAX),
        }
    }
}
