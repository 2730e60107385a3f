//! Every fixture answers as the Cassandra that wrote it: all of it, single keys, slices, names, single columns, in
//! either direction.

use super::recorded::*;
use super::support::Rng;
use model::command::{ClusteringFilter, ColumnSelection, PartitionSelection, ReadCommand};
use model::{ClusteringBound, Slice};

/// `rows` with those of each partition in reverse.
fn reversed(fixture: &Fixture, rows: &[FoundRow]) -> Vec<FoundRow> {
    let partitions = fixture.partitions().into_iter();
    partitions.flat_map(|(_, range)| rows[range].iter().rev().cloned()).collect()
}

fn check_table(set: &str, name: &str) {
    let fixture = Fixture::load(set, name);
    let sstables = fixture.open().unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
    assert!(!sstables.is_empty(), "{}", fixture.name);
    let table = fixture.table(&sstables);
    let expected = &fixture.recorded.rows;
    let ask = |command: &ReadCommand| {
        fixture.select(&sstables, command).unwrap_or_else(|e| panic!("{}: {e}", fixture.name))
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
    check(&ReadCommand { clusterings: whole(true), ..all.clone() }, &reversed(&fixture, expected));
    for column in table.static_columns().iter().chain(table.regular_columns()) {
        let Some(at) = fixture.recorded.columns.iter().position(|(name, _)| *name == column.name) else {
            continue;
        };
        for clusterings in [whole(false), whole(true)] {
            let is_reversed = clusterings.is_reversed();
            let columns = ColumnSelection::of(vec![column.id]);
            let found = ask(&ReadCommand { columns, clusterings, ..all.clone() });
            let only = |rows: &[FoundRow]| rows.iter().map(|row| vec![row[at].clone()]).collect::<Vec<_>>();
            let wanted = if is_reversed { reversed(&fixture, expected) } else { expected.clone() };
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
            check(&of_key(&key, ClusteringFilter::Names { names, reversed: false }), &named);
        }
    }
}

fn check_set(set: &str) {
    let tables = tables_of(set);
    assert!(tables.len() >= 7, "{set}: {tables:?}");
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
