//! A part of a source: a range of tokens.

use model::Token;
use model::command::PartitionSelection;
use model::key::{KeyBound, KeyRange};
use serde::{Deserialize, Serialize};

/// A part of a source. It says nothing of who scans it or when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Tokens of the split are greater; `None` where it begins with the ring.
    pub after: Option<i64>,
    /// Tokens of the split are not greater; `None` where it ends with the ring.
    pub through: Option<i64>,
    /// About how many bytes the SSTables have in it, before compression.
    pub bytes_estimate: u64,
    /// About how many rows they have in it, those among them that are deleted or several times there.
    #[serde(default)]
    pub rows_estimate: u64,
}

impl Split {
    /// The whole ring.
    pub const FULL: Split = Split { after: None, through: None, bytes_estimate: 0, rows_estimate: 0 };

    /// Its partitions.
    pub fn range(&self) -> KeyRange {
        let bound = |token: Option<i64>, inclusive| match token {
            None => KeyBound::Unbounded,
            Some(token) => KeyBound::Token { token: Token(token), inclusive },
        };
        KeyRange { start: bound(self.after, false), end: bound(self.through, true) }
    }

    /// What a selection has in the split.
    pub(crate) fn of(&self, selection: &PartitionSelection) -> PartitionSelection {
        let range = self.range();
        match selection {
            PartitionSelection::Range(asked) => match intersection(asked, &range) {
                Some(range) => PartitionSelection::Range(range),
                None => PartitionSelection::Keys(Vec::new()),
            },
            PartitionSelection::Keys(keys) => {
                PartitionSelection::Keys(keys.iter().filter(|key| range.contains(key)).cloned().collect())
            }
        }
    }
}

/// The part of the ring that two ranges share, `None` when there is none.
fn intersection(a: &KeyRange, b: &KeyRange) -> Option<KeyRange> {
    let start = match (place(&a.start, true), place(&b.start, true)) {
        (x, y) if x >= y => a.start.clone(),
        _ => b.start.clone(),
    };
    let end = match (place(&a.end, false), place(&b.end, false)) {
        (x, y) if x <= y => a.end.clone(),
        _ => b.end.clone(),
    };
    (place(&start, true) < place(&end, false)).then_some(KeyRange { start, end })
}

/// Where a bound lies among keys: the token, the key if it names one, and the side of it.
fn place(bound: &KeyBound, is_start: bool) -> (i128, Option<&model::DecoratedKey>, bool) {
    // Before all keys of a token is behind all those of the token before.
    let behind = |inclusive: bool| inclusive != is_start;
    match bound {
        KeyBound::Unbounded if is_start => (i128::MIN, None, false),
        KeyBound::Unbounded => (i128::MAX, None, true),
        KeyBound::Token { token, inclusive } => {
            (2 * i128::from(token.0) + if behind(*inclusive) { 1 } else { -1 }, None, false)
        }
        KeyBound::Key { key, inclusive } => (2 * i128::from(key.token.0), Some(key), behind(*inclusive)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_the_same_after_its_way_through_text() {
        let split = Split { after: Some(i64::MIN + 1), through: None, bytes_estimate: 5, rows_estimate: 1 };
        let text = serde_json::to_string(&split).unwrap();
        assert_eq!(serde_json::from_str::<Split>(&text).unwrap(), split);
    }

    #[test]
    fn ranges_meet_in_what_both_hold() {
        let of = |after, through| Split { after, through, ..Split::FULL }.range();
        assert_eq!(intersection(&of(Some(3), Some(9)), &of(Some(5), None)), Some(of(Some(5), Some(9))));
        assert_eq!(intersection(&of(None, Some(5)), &of(Some(5), None)), None);
        assert_eq!(intersection(&of(None, None), &KeyRange::FULL), Some(KeyRange::FULL));
        // A token that belongs to the first and begins the second.
        let from = |token, inclusive| KeyRange {
            start: KeyBound::Token { token: Token(token), inclusive },
            end: KeyBound::Unbounded,
        };
        let only = KeyRange {
            start: KeyBound::Token { token: Token(5), inclusive: true },
            end: KeyBound::Token { token: Token(5), inclusive: true },
        };
        assert_eq!(intersection(&of(None, Some(5)), &from(5, true)), Some(only));
    }
}
