//! Which block of a partition's index to look at next in a search.
//!
//! A partition of ten million rows has millions of blocks, and halving takes twenty looks at as many pages.
//! But clusterings often lie evenly: times, counters, random ids. So a look is taken where the bound would be
//! if they did, between the nearest edges known on either side.
//!
//! 1. What counts is the first component in which the two edges differ: by how much, as numbers or as text.
//! 2. After a look the bound often lies just beyond it, with the other edge far away. The next look goes a
//!    little too far on purpose, each time eight times as far, until the bound is surrounded.
//! 3. The first edges are those of the whole SSTable. When looks do not get nearer, the partition's own is
//!    looked at.
//! 4. Few blocks are halved, and so are all where this does not help: a search takes at most [`GUESSES_MAX`]
//!    looks more than halving.
//! 5. Where an index has fences ([`super::fences`]), and a guess does not lie between those that the bound
//!    lies between, the blocks there are halved instead.
//!
//! What is guessed here decides only where to look, never what is found.

use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringComparator, Component, CqlType, Slice};
use std::cmp::Ordering;
use std::ops::Range;

/// Looks that may be guessed.
const GUESSES_MAX: u32 = 6;
/// So many blocks are halved: they are mostly described in one page.
const HALVED: u64 = 4;
/// Bytes of a text that a guess is made of.
const LETTERS: usize = 12;
/// From so many letters of one kind on bytes are taken for text.
const LETTERS_MIN: usize = 4;

/// A search among the blocks of a partition. It can be started again, and keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The first block that the bound can lie in, and the one behind the last.
    low: u64,
    high: u64,
    /// The nearest edges before and behind the bound, of those that were looked at.
    before: Clustering,
    behind: Clustering,
    /// Whether there are such.
    knows_before: bool,
    knows_behind: bool,
    /// How often in a row the bound lay on the same side of a look, and whether behind it.
    same_side: u32,
    is_behind: bool,
    guesses: u32,
    first_guess: Option<u64>,
    /// Where the fences have the bound, and whether that is gone by.
    within: Option<Range<u64>>,
    is_narrowed: bool,
}

impl Search {
    /// Begins a search among `count` blocks for `bound`. The SSTable has rows only in `covered`. Yields the
    /// block where the bound would be if clusterings lay evenly, if that can be said.
    pub fn start(
        &mut self,
        comparator: &ClusteringComparator,
        bound: Position<'_>,
        covered: &Slice,
        count: u64,
    ) -> Option<u64> {
        (self.low, self.high) = (0, count);
        (self.knows_before, self.knows_behind) = (false, false);
        (self.same_side, self.guesses) = (0, 0);
        (self.within, self.is_narrowed) = (None, false);
        self.first_guess = (count > HALVED).then(|| self.guess(comparator, bound, covered, count)).flatten();
        self.first_guess
    }

    /// Says that the fences have the bound within these blocks.
    pub fn set_within(&mut self, blocks: Range<u64>) {
        self.within = Some(blocks.start..blocks.end.min(self.high)).filter(|blocks| !blocks.is_empty());
    }

    /// The blocks between two fences that the search has turned to, because a guess did not lie there.
    pub fn narrowed(&self) -> Option<&Range<u64>> {
        self.within.as_ref().filter(|_| self.is_narrowed)
    }

    /// The block to look at for `bound`; `None` when [`Search::found`] is known. `covered` is where the
    /// SSTable has rows at all.
    pub fn next(
        &mut self,
        comparator: &ClusteringComparator,
        bound: Position<'_>,
        covered: &Slice,
    ) -> Option<u64> {
        let blocks = self.high.checked_sub(self.low).filter(|blocks| *blocks > 0)?;
        if self.is_narrowed
            && let Some(block) = self.between_fences()
        {
            return Some(block);
        }
        let halved = self.low + blocks / 2;
        if blocks <= HALVED || self.guesses >= GUESSES_MAX {
            return Some(halved);
        }
        let guess = match self.guesses {
            0 => self.first_guess,
            _ => self.guess(comparator, bound, covered, blocks),
        };
        self.guesses += 1;
        if let Some(within) = &self.within
            && guess.is_none_or(|guess| !within.contains(&guess))
        {
            self.is_narrowed = true;
            self.guesses = GUESSES_MAX;
            return self.between_fences().or(Some(halved));
        }
        Some(guess.unwrap_or(halved))
    }

    /// Where the bound would be if clusterings lay evenly.
    fn guess(
        &self,
        comparator: &ClusteringComparator,
        bound: Position<'_>,
        covered: &Slice,
        blocks: u64,
    ) -> Option<u64> {
        let last = self.high.saturating_sub(1);
        let knows_far = if self.is_behind { self.knows_behind } else { self.knows_before };
        if self.same_side >= 2 && !knows_far {
            return Some(if self.is_behind { last } else { self.low });
        }
        let before = if self.knows_before { &self.before } else { &covered.start.prefix };
        let behind = if self.knows_behind { &self.behind } else { &covered.end.prefix };
        let part = proportion(comparator, before, bound, behind)?;
        let guess = self.low + (part * blocks as f64) as u64;
        let extra = self.same_side.checked_sub(1).map_or(0, |times| 1 << (3 * times));
        Some(match self.is_behind {
            true => guess.saturating_add(extra).min(last),
            false => guess.min(last).saturating_sub(extra).max(self.low),
        })
    }

    /// The middle of the blocks between the two fences around the bound, as far as the bound may lie there.
    /// If it can only lie at one end of them, the block on the other side there. `None`, once and for all, if
    /// it lies elsewhere.
    fn between_fences(&mut self) -> Option<u64> {
        let within = self.within.as_ref()?;
        let (low, high) = (self.low.max(within.start), self.high.min(within.end));
        if low < high {
            return Some(low + (high - low) / 2);
        }
        if self.high == within.start {
            return Some(self.high - 1);
        }
        if self.low == within.end {
            return Some(self.low);
        }
        self.within = None;
        None
    }

    /// Says whether the edge of `block`, the last one that [`Search::next`] named, lies before the bound. The
    /// edge is kept, and something of no account left in its place.
    pub fn answer(&mut self, block: u64, edge: &mut Clustering, is_before: bool) {
        self.same_side = if self.is_behind == is_before { self.same_side + 1 } else { 1 };
        self.is_behind = is_before;
        if is_before {
            self.low = block + 1;
            self.knows_before = true;
            std::mem::swap(&mut self.before, edge);
        } else {
            self.high = block;
            self.knows_behind = true;
            std::mem::swap(&mut self.behind, edge);
        }
    }

    /// The first block whose edge does not lie before the bound; the number of blocks if there is none.
    pub fn found(&self) -> u64 {
        self.low
    }
}

/// Which part of the way from `low` to `high` lies before `bound`, from 0 to 1; `None` where that cannot be
/// said.
fn proportion(
    comparator: &ClusteringComparator,
    low: &Clustering,
    bound: Position<'_>,
    high: &Clustering,
) -> Option<f64> {
    for at in 0..comparator.len() {
        let (ty, _) = comparator.column(at)?;
        if at >= bound.prefix.len() {
            let is_after = matches!(bound.kind, BoundKind::ExclStart | BoundKind::InclEnd);
            return Some(f64::from(u8::from(is_after)));
        }
        let (Component::Value(first), Component::Value(last)) = (low.get(at), high.get(at)) else {
            return None;
        };
        let here = bound.prefix.get(at);
        if first != last {
            let Component::Value(here) = here else { return Some(0.0) };
            let part = part_of_way(ty, first, here, last)?;
            return part.is_finite().then(|| part.clamp(0.0, 1.0));
        }
        // Out of the edges' reach: all of the way lies on one side.
        let order = comparator.compare_component(at, here, Component::Value(first));
        if order.is_ne() {
            return Some(f64::from(u8::from(order.is_gt())));
        }
    }
    None
}

/// How far `here` lies on the way from `first` to `last`, in either direction.
fn part_of_way(ty: &CqlType, first: &[u8], here: &[u8], last: &[u8]) -> Option<f64> {
    let ratio = |number: fn(&[u8]) -> Option<u64>| {
        let (first, here, last) = (number(first)?, number(here)?, number(last)?);
        Some(way(first, here) / way(first, last))
    };
    match ty {
        CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt | CqlType::Timestamp => {
            ratio(signed)
        }
        CqlType::Date | CqlType::Time => ratio(unsigned),
        CqlType::TimeUuid => ratio(time_of_uuid),
        CqlType::Double => {
            let number = |bytes: &[u8]| Some(f64::from_be_bytes(bytes.try_into().ok()?));
            Some((number(here)? - number(first)?) / (number(last)? - number(first)?))
        }
        CqlType::Text | CqlType::Ascii | CqlType::Blob | CqlType::Inet | CqlType::Uuid => {
            let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            // A shorter text is less than those that it begins.
            match here.get(..shared).unwrap_or(here).cmp(first.get(..shared).unwrap_or_default()) {
                Ordering::Equal => {}
                order => return Some(f64::from(u8::from(order.is_gt() == (first < last)))),
            }
            let tails = [first, here, last].map(|text| text.get(shared..).unwrap_or_default());
            let (letter, base) = alphabet(&tails);
            let [first, here, last] = tails.map(|tail| {
                let digit = |byte: &u8| f64::from(byte.saturating_sub(letter)).min(base - 1.0);
                tail.iter().take(LETTERS).rev().fold(0.0, |sum, byte| (sum + digit(byte)) / base)
            });
            Some((here - first) / (last - first))
        }
        _ => None,
    }
}

/// How far it is from one number to another, which may lie before it.
fn way(from: u64, to: u64) -> f64 {
    let distance = from.abs_diff(to) as f64;
    if to < from { -distance } else { distance }
}

fn unsigned(bytes: &[u8]) -> Option<u64> {
    if let Some(eight) = bytes.as_array::<8>() {
        return Some(u64::from_be_bytes(*eight));
    }
    (bytes.len() < 8).then(|| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// As many above the middle of all numbers as the number is above zero.
fn signed(bytes: &[u8]) -> Option<u64> {
    let unused = 64_u32.checked_sub(u32::try_from(bytes.len()).ok()?.checked_mul(8)?).filter(|n| *n < 64)?;
    let number = (unsigned(bytes)? << unused) as i64 >> unused;
    Some(number as u64 ^ 1 << 63)
}

/// The time of a UUID of version 1: its last bits lead.
fn time_of_uuid(bytes: &[u8]) -> Option<u64> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    let (low, middle, high) = (number >> 96, number >> 80 & 0xffff, number >> 64 & 0x0fff);
    Some((high << 48 | middle << 32 | low) as u64)
}

/// The bytes that texts consist of: the first, and how many there are. Numbers and words use few.
fn alphabet(tails: &[&[u8]; 3]) -> (u8, f64) {
    let (mut first, mut last) = (u8::MAX, 0);
    for tail in tails {
        let letters = tail.iter().take(LETTERS).take_while(|byte| matches!(byte, 0x20..=0x7f));
        if letters.clone().count() < LETTERS_MIN {
            return (0, 256.0);
        }
        for byte in letters {
            first = first.min(*byte);
            last = last.max(*byte);
        }
    }
    (first, f64::from(last.saturating_sub(first)) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ClusteringBound;

    /// Searches for each of the bounds among blocks whose edges are given; the most and the mean number of
    /// looks.
    fn looks(ty: &CqlType, descending: bool, edges: &[Vec<u8>], covered: [&[u8]; 2]) -> (u64, f64) {
        let comparator = ClusteringComparator::new([(ty.clone(), descending)]);
        let clusterings: Vec<Clustering> = edges.iter().map(|e| Clustering::from_values([&e[..]])).collect();
        let bound = |value: &[u8]| Clustering::from_values([value]);
        let covered = Slice {
            start: ClusteringBound::start_at(bound(covered[0])),
            end: ClusteringBound::end_at(bound(covered[1])),
        };
        let mut search = Search::default();
        let (mut most, mut sum, mut searches) = (0, 0, 0);
        for at in (0..edges.len()).step_by(edges.len() / 500 + 1).chain([edges.len() - 1]) {
            let sought = Position::row(&clusterings[at]);
            search.start(&comparator, sought, &covered, edges.len() as u64);
            let mut looks = 0;
            while let Some(block) = search.next(&comparator, sought, &covered) {
                looks += 1;
                let edge = Position::row(&clusterings[block as usize]);
                let is_before = comparator.compare_positions(edge, sought) == Ordering::Less;
                search.answer(block, &mut edge.prefix.clone(), is_before);
            }
            assert_eq!(search.found(), at as u64);
            (most, sum, searches) = (most.max(looks), sum + looks, searches + 1);
        }
        (most, sum as f64 / searches as f64)
    }

    #[test]
    fn even_numbers_are_found_where_they_are_looked_for() {
        let edges: Vec<Vec<u8>> = (0..200_000u64).map(|i| (i * 4 + 3).to_be_bytes().to_vec()).collect();
        let whole = [&edges[0][..], &edges[edges.len() - 1]];
        let (most, mean) = looks(&CqlType::BigInt, false, &edges, whole);
        assert!(most <= 4 && mean < 3.0, "{most}, {mean}");
        let everything = [&[0u8; 8][..], &[0x7f; 8]];
        let (most, mean) = looks(&CqlType::BigInt, false, &edges, everything);
        assert!(most <= 8 && mean < 6.0, "{most}, {mean}, in a table of wider numbers");
    }

    #[test]
    fn text_is_searched_in_its_own_alphabet() {
        let mut edges: Vec<Vec<u8>> = (0..200_000).map(|i| format!("{:010}", i * 50).into_bytes()).collect();
        for descending in [false, true] {
            let whole = [&edges[0][..], &edges[edges.len() - 1]];
            let (most, mean) = looks(&CqlType::Text, descending, &edges, whole);
            assert!(most <= 8 && mean < 5.0, "{most}, {mean}, descending {descending}");
            edges.reverse();
        }
    }

    #[test]
    fn uneven_clusterings_take_few_looks_more_than_halving() {
        let powers = (0..30_000u64).map(|i| (i * i * i * i).to_be_bytes().to_vec()).collect();
        let clump = |i: u64| ((i % 10) << 56 | i << (i % 30)).to_be_bytes().to_vec();
        let mut clumps: Vec<Vec<u8>> = (0..30_000).map(clump).collect();
        clumps.sort();
        clumps.dedup();
        for edges in [powers, clumps] {
            let whole = [&edges[0][..], &edges[edges.len() - 1]];
            let (most, mean) = looks(&CqlType::BigInt, false, &edges, whole);
            assert!(most <= 15 + u64::from(GUESSES_MAX), "{most}, {mean}");
        }
    }

    #[test]
    fn proportions_follow_the_order_of_the_type() {
        let part = |ty: CqlType, values: [&[u8]; 3]| part_of_way(&ty, values[0], values[1], values[2]);
        let int = |n: i32| n.to_be_bytes();
        assert_eq!(part(CqlType::Int, [&int(-10), &int(0), &int(30)]), Some(0.25));
        assert_eq!(part(CqlType::Int, [&int(30), &int(0), &int(-10)]), Some(0.75));
        let big = |n: i64| n.to_be_bytes();
        assert_eq!(part(CqlType::BigInt, [&big(i64::MIN), &big(0), &big(i64::MAX)]), Some(0.5));
        assert_eq!(part(CqlType::BigInt, [&big(2), &big(-4), &big(6)]), Some(-1.5));
        assert_eq!(part(CqlType::TinyInt, [&[0x80], &[0xff], &[0x7e]]), Some(0.5));
        assert_eq!(part(CqlType::Time, [&[0; 8], &big(1), &big(4)]), Some(0.25));
        let double = |n: f64| n.to_be_bytes();
        assert_eq!(part(CqlType::Double, [&double(-1.0), &double(0.5), &double(1.0)]), Some(0.75));
        let time = |n: u64| {
            let (low, middle, high) = (n as u32, (n >> 32) as u16, (n >> 48) as u16 | 0x1000);
            [&low.to_be_bytes()[..], &middle.to_be_bytes(), &high.to_be_bytes(), &[7; 8]].concat()
        };
        let times = [time(1 << 50), time(1 << 51), time(5 << 50)];
        assert_eq!(part(CqlType::TimeUuid, [&times[0], &times[1], &times[2]]), Some(0.25));
        assert_eq!(
            part(CqlType::Text, [b"row-0000", b"row-5000", b"row-9999"]).map(|p| p.round()),
            Some(1.0)
        );
        // Before and behind what the edges share.
        assert_eq!(part(CqlType::Text, [b"row-0000", b"ro", b"row-9999"]), Some(0.0));
        assert_eq!(part(CqlType::Text, [b"row-9999", b"ro", b"row-0000"]), Some(1.0));
        assert_eq!(part(CqlType::Text, [b"row-0000", b"sow", b"row-9999"]), Some(1.0));
        // Nothing to count with.
        assert_eq!(part(CqlType::Int, [&[], &int(0), &int(1)]), None);
        assert_eq!(part(CqlType::Varint, [&[1], &[2], &[3]]), None);
    }
}
