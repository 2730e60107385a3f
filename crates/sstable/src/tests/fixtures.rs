//! Every fixture answers as the Cassandra that wrote it: all of it, single keys, slices, names, single
//! columns, in either direction. And each of its SSTables keeps the grammar of streams when it is asked in
//! these ways. This takes the place of `testkit::check_source` for versions that are not written here,
//! because its random histories need a writer.

use super::recorded::*;
use super::support::Rng;
use crate::SsTable;
use model::command::{ClusteringFilter, ColumnSelection, PartitionSelection, ReadCommand};
use model::{BoundKind, ClusteringBound, Slice};
use partition::ReadContext;
use std::sync::Arc;
use testkit::source::grammar;

/// `rows` with those of each partition in reverse.
fn reversed(fixture: &Fixture, rows: &[FoundRow]) -> Vec<FoundRow> {
    let partitions = fixture.partitions().into_iter();
    partitions.flat_map(|(_, range)| rows[range].iter().rev().cloned()).collect()
}

/// Whether what each SSTable answers is a stream as all sources yield it.
fn check_grammar(fixture: &Fixture, sstables: &[Arc<SsTable>], command: &ReadCommand) {
    let ReadCommand { table, clusterings, columns, .. } = command;
    let ctx = ReadContext::default();
    for sstable in sstables {
        let streams: Vec<_> = match &command.partitions {
            PartitionSelection::Range(range) => {
                vec![sstable.scan(range, clusterings, columns, table, &ctx).unwrap()]
            }
            PartitionSelection::Keys(keys) => {
                let streams =
                    keys.iter().map(|key| sstable.read(key, clusterings, columns, table, &ctx).unwrap());
                streams.flatten().collect()
            }
        };
        for stream in streams {
            grammar::collect(command, Box::new(stream), &format!("{} {command:?}", fixture.name));
        }
    }
}

fn check_table(set: &str, name: &str) {
    let fixture = Fixture::load(set, name);
    let sstables = fixture.open().unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
    check_fixture(&fixture, &sstables);
}

/// Compares what the SSTables of a fixture answer with what Cassandra answered.
pub(super) fn check_fixture(fixture: &Fixture, sstables: &[Arc<SsTable>]) {
    assert!(!sstables.is_empty(), "{}", fixture.name);
    let table = fixture.table(sstables);
    let expected = &fixture.recorded.rows;
    let ask = |command: &ReadCommand| {
        check_grammar(fixture, sstables, command);
        fixture.select(sstables, command).unwrap_or_else(|e| panic!("{}: {e}", fixture.name))
    };
    let check = |command: &ReadCommand, expected: &[FoundRow]| {
        let found = ask(command);
        assert!(
            same(&found, expected),
            "{}: {:?} {:?}\nfound {found:#?}\nexpected {expected:#?}",
            fixture.name,
            command.partitions,
            command.clusterings
        );
    };
    let all = fixture.command(&table);
    let of_key = |key: &model::DecoratedKey, clusterings: ClusteringFilter| ReadCommand {
        partitions: PartitionSelection::Keys(vec![key.clone()]),
        clusterings,
        ..all.clone()
    };
    let whole = |reversed| ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed };
    check(&all, expected);
    check(&ReadCommand { clusterings: whole(true), ..all.clone() }, &reversed(fixture, expected));
    for column in table.static_columns().iter().chain(table.regular_columns()) {
        let Some(at) = fixture.recorded.columns.iter().position(|(name, _)| *name == column.name) else {
            continue;
        };
        for clusterings in [whole(false), whole(true)] {
            let is_reversed = clusterings.is_reversed();
            let columns = ColumnSelection::of(vec![column.id]);
            let found = ask(&ReadCommand { columns, clusterings, ..all.clone() });
            let only = |rows: &[FoundRow]| rows.iter().map(|row| vec![row[at].clone()]).collect::<Vec<_>>();
            let wanted = if is_reversed { reversed(fixture, expected) } else { expected.clone() };
            assert!(same(&only(&found), &only(&wanted)), "{}: only {}", fixture.name, column.name);
        }
    }
    let mut rng = Rng::new(7);
    for (key, range) in fixture.partitions() {
        let rows = &expected[range];
        check(&of_key(&key, whole(false)), rows);
        check(&of_key(&key, whole(true)), &rows.iter().rev().cloned().collect::<Vec<_>>());
        let clusterings: Option<Vec<_>> = rows.iter().map(|row| fixture.clustering(row, &table)).collect();
        let Some(clusterings) = clusterings.filter(|_| !table.clustering_columns().is_empty()) else {
            continue;
        };
        let count = rows.len() as u64;
        for _ in 0..count.min(12) {
            let (a, b) = (rng.below(count) as usize, rng.below(count) as usize);
            let (first, last) = (a.min(b), a.max(b));
            let slice = Slice {
                start: ClusteringBound::start_at(clusterings[first].clone()),
                end: ClusteringBound::end_at(clusterings[last].clone()),
            };
            let inside = &rows[first..=last];
            let slices = |reversed| ClusteringFilter::Slices { slices: vec![slice.clone()], reversed };
            check(&of_key(&key, slices(false)), inside);
            check(&of_key(&key, slices(true)), &inside.iter().rev().cloned().collect::<Vec<_>>());
            let mut ends = vec![first, last];
            ends.dedup();
            let names = ends.iter().map(|i| clusterings[*i].clone()).collect();
            let named: Vec<FoundRow> = ends.iter().map(|i| rows[*i].clone()).collect();
            let names = |reversed| ClusteringFilter::Names { names: Clone::clone(&names), reversed };
            check(&of_key(&key, names(false)), &named);
            check(&of_key(&key, names(true)), &named.iter().rev().cloned().collect::<Vec<_>>());
            // Between the two, and of a prefix.
            let bound = |at: usize, kind| ClusteringBound::new(kind, clusterings[at].clone());
            let between =
                Slice { start: bound(first, BoundKind::ExclStart), end: bound(last, BoundKind::ExclEnd) };
            if first < last {
                let slices = |reversed| ClusteringFilter::Slices { slices: vec![between.clone()], reversed };
                check(&of_key(&key, slices(false)), &rows[first + 1..last]);
                let backwards: Vec<_> = rows[first + 1..last].iter().rev().cloned().collect();
                check(&of_key(&key, slices(true)), &backwards);
            }
        }
        check_grammar(
            fixture,
            sstables,
            &of_key(&key, ClusteringFilter::Names { names: Vec::new(), reversed: false }),
        );
    }
}

fn check_set(set: &str) {
    let tables = tables_of(set);
    assert!(tables.len() >= 6, "{set}: {tables:?}");
    for table in tables {
        check_table(set, &table);
    }
}

macro_rules! sets {
    ($($test:ident: $set:literal;)*) => {
        $(#[test] fn $test() { check_set($set); })*

        #[test]
        fn every_set_is_read() {
            let mut read = vec![$($set),*];
            read.sort_unstable();
            assert_eq!(sets(), read);
        }
    };
}

sets! {
    ma_of_3_5: "3.5-ma";
    mb_of_3_0_7: "3.0.7-mb";
    mc_of_3_11_3: "3.11.3-mc";
    md_of_3_11_10: "3.11.10-md";
    me_of_3_11_19: "3.11.19-me";
    na_of_4_0_rc1: "4.0-rc1-na";
    nb_of_4_0_17: "4.0.17-nb";
    nb_of_4_1_10: "4.1.10-nb";
    nb_of_5_0_5: "5.0.5-nb";
    oa_of_5_0_5: "5.0.5-oa";
    da_of_5_0_5: "5.0.5-da";
}
