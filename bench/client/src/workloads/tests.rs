use std::collections::HashSet;

use bytes::Bytes;

use super::*;

const SCALE: Scale = Scale { partitions: 30, wide_rows: 130 };

fn share(index: u64, of: u64) -> Share {
    Share { index, of, seed: 7 }
}

fn bytes(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.as_bytes().unwrap().to_vec()).collect()
}

fn take(workload: &mut dyn Workload, count: usize) -> Vec<(Operation, Vec<Vec<u8>>)> {
    let mut values = Vec::new();
    let mut taken = Vec::new();
    while taken.len() < count {
        values.clear();
        let Some(operation) = workload.next(&mut values) else { break };
        taken.push((operation, bytes(&values)));
    }
    taken
}

fn loaded(name: &str, threads: u64) -> Vec<Vec<Vec<u8>>> {
    let parts = (0..threads).map(|index| {
        let mut part = open(name, SCALE, share(index, threads)).unwrap();
        take(part.as_mut(), usize::MAX).into_iter().map(|(_, values)| values)
    });
    parts.flatten().collect()
}

fn answer(rows: Vec<Vec<Vec<u8>>>) -> Rows {
    let rows: Vec<Vec<Option<Bytes>>> =
        rows.into_iter().map(|row| row.into_iter().map(|value| Some(value.into())).collect()).collect();
    let column_count = rows.first().map_or(0, Vec::len);
    Rows { columns: None, column_count, new_metadata_id: None, paging_state: None, rows }
}

#[test]
fn threads_load_every_row_once() {
    for (name, rows) in [("load-base", 300), ("load-wide", 130)] {
        let all = loaded(name, 3);
        assert_eq!(all.len(), rows, "{name}");
        let keys: HashSet<_> = all.iter().map(|row| (&row[0], &row[1])).collect();
        assert_eq!(keys.len(), rows, "{name}");
    }
}

#[test]
fn base_has_ten_rows_in_each_partition_and_texts_of_16() {
    let all = loaded("load-base", 1);
    let partitions: HashSet<_> = all.iter().map(|row| &row[0]).collect();
    assert_eq!(partitions.len(), 30);
    assert!(all.iter().flatten().all(|text| text.len() == 16));
}

#[test]
fn point_reads_ask_for_rows_that_were_loaded_and_know_their_values() {
    let all = loaded("load-base", 1);
    let mut reads = open("point-read", SCALE, share(0, 1)).unwrap();
    for (operation, key) in take(reads.as_mut(), 500) {
        let row = all.iter().find(|row| row[..2] == key[..]).expect("a loaded row");
        assert_eq!(reads.check(operation, &answer(vec![vec![row[2].clone()]])), Ok(()));
        assert!(reads.check(operation, &answer(vec![vec![b"another".to_vec()]])).is_err());
        assert!(reads.check(operation, &answer(vec![])).is_err());
    }
}

#[test]
fn slices_know_their_hundred_rows() {
    let all = loaded("load-wide", 1);
    let mut slices = open("wide-slice", SCALE, share(0, 1)).unwrap();
    for (operation, key) in take(slices.as_mut(), 100) {
        let from = all.iter().position(|row| row[..2] == key[..]).expect("a loaded row");
        let mut rows: Vec<_> = all[from..from + 100].iter().map(|row| row[1..].to_vec()).collect();
        assert_eq!(slices.check(operation, &answer(rows.clone())), Ok(()));
        rows.pop();
        assert!(slices.check(operation, &answer(rows)).is_err());
    }
}

#[test]
fn a_slice_needs_a_hundred_rows() {
    let scale = Scale { partitions: 1, wide_rows: 99 };
    assert!(open("wide-slice", scale, share(0, 1)).is_err());
    let scale = Scale { partitions: 1, wide_rows: 100 };
    let mut slices = open("wide-slice", scale, share(0, 1)).unwrap();
    assert!(take(slices.as_mut(), 10).iter().all(|(operation, _)| operation.subject == 0));
}

#[test]
fn mixed_is_about_half_writes_of_the_values_that_are_there() {
    let all: HashSet<_> = loaded("load-base", 1).into_iter().collect();
    let mut mixed = open("mixed", SCALE, share(0, 1)).unwrap();
    let taken = take(mixed.as_mut(), 10_000);
    let writes: Vec<_> = taken.iter().filter(|(operation, _)| operation.statement == 1).collect();
    assert!((4_500..5_500).contains(&writes.len()), "{}", writes.len());
    assert!(writes.iter().all(|(_, values)| all.contains(values)));
}

#[test]
fn threads_and_seeds_insert_different_rows() {
    let shares = [share(0, 2), share(1, 2), Share { seed: 8, ..share(0, 2) }];
    let all: HashSet<_> = shares
        .into_iter()
        .flat_map(|share| take(open("insert", SCALE, share).unwrap().as_mut(), 1_000))
        .map(|(_, values)| values)
        .collect();
    assert_eq!(all.len(), 3_000);
}

#[test]
fn reads_are_spread_over_all_rows() {
    let mut reads = open("point-read", SCALE, share(0, 1)).unwrap();
    let subjects: HashSet<_> =
        take(reads.as_mut(), 6_000).into_iter().map(|(operation, _)| operation.subject).collect();
    assert_eq!(subjects.len(), 300);
}

#[test]
fn every_name_opens_and_others_do_not() {
    for name in NAMES {
        assert!(open(name, SCALE, share(0, 1)).is_ok(), "{name}");
    }
    assert!(open("none", SCALE, share(0, 1)).is_err());
}
