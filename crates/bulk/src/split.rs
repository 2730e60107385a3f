//! A part of a source: a range of tokens, which may begin and end inside a partition.
//!
//! ```text
//!        after, from_row                            through, until_row
//! ───────────┬─────────────────────────────────────────────┬───────────▶ ring
//!      rows of│one      partitions with tokens between   rows of
//!      partition, from                                 another, up to
//!      a row on: Rest            Whole                 a row: Head
//! ```
//! A split that is cut at rows is read in up to three steps. The rows before the first cut of a partition are
//! its head: with them come its deletion, what is deleted in its static row, and the row that it is if it has
//! live static values and no live row at all.

use crate::BulkError;
use model::command::{ClusteringFilter, PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange};
use model::{BoundKind, Clustering, ClusteringBound, DecoratedKey, PartitionKey, Slice, TableSchema, Token};
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
    /// Where it begins with rows of the partition with the token `after`: it has those behind the cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_row: Option<RowCut>,
    /// Where it ends with rows of the partition with the token `through`: it has those before the cut, and no
    /// partition behind that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_row: Option<RowCut>,
}

/// A place between two rows of a partition, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCut {
    /// The partition key, as it is stored.
    pub key: String,
    /// Values of the first clustering columns: the cut is in front of all rows that begin with them.
    pub before: Vec<String>,
}

/// Which rows of its partitions a step of a scan has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All.
    Whole,
    /// Those of one partition before a cut.
    Head(ClusteringBound),
    /// Those of one partition behind a cut, and before another one if there is one.
    Rest,
    /// The row that one partition is with its static values alone.
    Statics,
}

impl RowCut {
    /// A cut in front of the rows that begin with a prefix; `None` where nothing stands for this: it is
    /// empty, or has values that are null.
    pub(crate) fn of(key: &DecoratedKey, prefix: &Clustering, table: &TableSchema) -> Option<RowCut> {
        let before = (0..prefix.len()).map(|i| prefix.value(i).map(to_hex)).collect::<Option<_>>()?;
        let cut = RowCut { key: to_hex(&key.key.0), before };
        cut.place(table).is_ok().then_some(cut)
    }

    fn place(&self, table: &TableSchema) -> Result<(DecoratedKey, Clustering), BulkError> {
        let wrong = || BulkError::Request("a split is cut at a row that the table cannot have".to_owned());
        let key = DecoratedKey::new(PartitionKey(of_hex(&self.key).ok_or_else(wrong)?.into()));
        let columns = table.clustering_columns();
        if self.before.is_empty() || self.before.len() > columns.len() {
            return Err(wrong());
        }
        let value = |(text, column): (&String, &std::sync::Arc<model::ColumnDef>)| {
            of_hex(text).filter(|value| column.ty.validate(value).is_ok())
        };
        let values = self.before.iter().zip(columns).map(value).collect::<Option<Vec<_>>>();
        let values = values.ok_or_else(wrong)?;
        Ok((key, Clustering::from_values(values.iter().map(Vec::as_slice))))
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

impl Split {
    /// The whole ring.
    pub const FULL: Split = Split {
        after: None,
        through: None,
        bytes_estimate: 0,
        rows_estimate: 0,
        from_row: None,
        until_row: None,
    };

    /// Its partitions, those aside that it is cut in.
    pub fn range(&self) -> KeyRange {
        let bound = |token: Option<i64>, inclusive| match token {
            None => KeyBound::Unbounded,
            Some(token) => KeyBound::Token { token: Token(token), inclusive },
        };
        KeyRange { start: bound(self.after, false), end: bound(self.through, true) }
    }

    /// What a command reads of the split, step by step.
    pub(crate) fn steps(&self, command: &ReadCommand) -> Result<Vec<(ReadCommand, Part)>, BulkError> {
        let of = |partitions| ReadCommand { partitions, ..command.clone() };
        if self.from_row.is_none() && self.until_row.is_none() {
            return Ok(vec![(of(self.of(&command.partitions)), Part::Whole)]);
        }
        if !can_be_cut(command) {
            let message = "a split that is cut at a row is for whole partitions, without conditions on rows";
            return Err(BulkError::Request(message.to_owned()));
        }
        let place = |cut: &Option<RowCut>| cut.as_ref().map(|cut| cut.place(&command.table)).transpose();
        let (from, until) = (place(&self.from_row)?, place(&self.until_row)?);
        let before = |prefix: &Clustering| ClusteringBound::new(BoundKind::ExclEnd, prefix.clone());
        let behind = |prefix: &Clustering| ClusteringBound::start_at(prefix.clone());
        let is_asked = |key: &DecoratedKey| match &command.partitions {
            PartitionSelection::Range(range) => range.contains(key),
            PartitionSelection::Keys(keys) => keys.contains(key),
        };
        let rows = |key: &DecoratedKey, slice: Slice| ReadCommand {
            partitions: PartitionSelection::Keys(vec![key.clone()]),
            clusterings: ClusteringFilter::Slices { slices: vec![slice], reversed: false },
            ..command.clone()
        };
        let mut steps = Vec::new();
        let is_one = matches!((&from, &until), (Some((a, _)), Some((b, _))) if a == b);
        if let Some((key, prefix)) = from.as_ref().filter(|(key, _)| is_asked(key)) {
            let end = match &until {
                Some((_, end)) if is_one => before(end),
                _ => ClusteringBound::TOP,
            };
            let slice = Slice { start: behind(prefix), end };
            if !slice.is_empty(command.table.comparator()) {
                steps.push((rows(key, slice), Part::Rest));
            }
        }
        if is_one {
            return Ok(steps);
        }
        let mut between = self.range();
        let beside = |(key, _): (DecoratedKey, Clustering)| KeyBound::Key { key, inclusive: false };
        between.start = from.map_or(between.start, beside);
        between.end = until.clone().map_or(between.end, beside);
        steps.push((of(selected(&between, &command.partitions)), Part::Whole));
        if let Some((key, prefix)) = until.as_ref().filter(|(key, _)| is_asked(key)) {
            let slice = Slice { start: ClusteringBound::BOTTOM, end: before(prefix) };
            steps.push((rows(key, slice), Part::Head(behind(prefix))));
        }
        Ok(steps)
    }

    /// What a selection has in the split.
    pub(crate) fn of(&self, selection: &PartitionSelection) -> PartitionSelection {
        selected(&self.range(), selection)
    }
}

/// A cut inside a partition, in a split.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The token of the partition.
    pub token: i64,
    pub row: RowCut,
    /// About how many bytes of the split lie before it.
    pub bytes_before: u64,
}

impl Split {
    /// Its parts between these cuts, which are in order.
    pub(crate) fn cut_at(self, cuts: Vec<Cut>) -> Vec<Split> {
        let (mut out, mut rest, mut done) = (Vec::with_capacity(cuts.len() + 1), self, 0);
        for Cut { token, row, bytes_before } in cuts {
            let bytes = bytes_before.saturating_sub(done).min(rest.bytes_estimate);
            done = bytes_before;
            let mut part = rest.clone();
            (part.through, part.until_row, part.bytes_estimate) = (Some(token), Some(row.clone()), bytes);
            out.push(part);
            (rest.after, rest.from_row) = (Some(token), Some(row));
            rest.bytes_estimate -= bytes;
        }
        out.push(rest);
        out
    }
}

/// Whether a partition that a command reads may be cut into parts.
pub(crate) fn can_be_cut(command: &ReadCommand) -> bool {
    command.clusterings.is_all()
        && command.limits.rows_per_partition == u64::MAX
        && !command.limits.distinct
        && !command.table.clustering_columns().is_empty()
}

/// What a selection has in a range.
fn selected(range: &KeyRange, selection: &PartitionSelection) -> PartitionSelection {
    match selection {
        PartitionSelection::Range(asked) => match intersection(asked, range) {
            Some(range) => PartitionSelection::Range(range),
            None => PartitionSelection::Keys(Vec::new()),
        },
        PartitionSelection::Keys(keys) => {
            PartitionSelection::Keys(keys.iter().filter(|key| range.contains(key)).cloned().collect())
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
        let cut = RowCut { key: "00ff".to_owned(), before: vec![String::new(), "01".to_owned()] };
        let split = Split {
            after: Some(i64::MIN + 1),
            bytes_estimate: 5,
            rows_estimate: 1,
            from_row: Some(cut),
            ..Split::FULL
        };
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
