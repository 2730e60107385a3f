use std::collections::HashSet;

use bytes::Bytes;

use super::*;

const SCALE: Scale = Scale { partitions: 30, wide_rows: 130, large_rows: 40 };

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
    for (name, rows) in [("load-base", 300), ("load-wide", 130), ("load-large", 40), ("load-plain", 40)] {
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
    let scale = Scale { wide_rows: 99, ..SCALE };
    assert!(open("wide-slice", scale, share(0, 1)).is_err());
    let scale = Scale { wide_rows: 100, ..SCALE };
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
fn counters_are_spread_over_all_partitions() {
    let mut counts = open("count", SCALE, share(0, 1)).unwrap();
    let taken = take(counts.as_mut(), 2_000);
    let partitions: HashSet<_> = taken.iter().map(|(operation, _)| operation.subject).collect();
    assert_eq!(partitions.len() as u64, SCALE.partitions);
    let keys: HashSet<_> = taken.iter().map(|(_, values)| values).collect();
    assert_eq!(keys.len(), partitions.len());
}

#[test]
fn reads_are_spread_over_all_rows() {
    let mut reads = open("point-read", SCALE, share(0, 1)).unwrap();
    let subjects: HashSet<_> =
        take(reads.as_mut(), 6_000).into_iter().map(|(operation, _)| operation.subject).collect();
    assert_eq!(subjects.len(), 300);
}

/// Every workload of a family, from its entry in `NAMES`.
fn spelled_out(name: &str) -> Vec<String> {
    let places = |of: &str| -> &[&str] {
        match of {
            "names" => &["start", "end", "blocks-50", "blocks-100"],
            "slice" => &["none", "first", "second-block", "half", "last-block", "reversed"],
            "rows" => &["start", "middle", "before-middle"],
            _ => &["first", "middle", "last"],
        }
    };
    let mut all = vec![String::new()];
    for (index, word) in name.split(':').enumerate() {
        let choices: &[&str] = match word {
            "PLACE" => places(name.split(':').next().unwrap()),
            "TABLE" => &["large", "plain"],
            "COLUMNS" => &["10", "50", "100"],
            "COUNT" | "READ" => &["1", "16"],
            "SKIP" => &["1", "20"],
            fixed => &[fixed],
        };
        let between = if index > 0 { ":" } else { "" };
        all = all
            .iter()
            .flat_map(|begun| choices.iter().map(move |c| format!("{begun}{between}{c}")))
            .collect();
    }
    all
}

#[test]
fn every_name_opens_and_others_do_not() {
    for name in NAMES.iter().flat_map(|name| spelled_out(name)) {
        let mut workload = open(&name, SCALE, share(0, 1)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (operation, values) = take(workload.as_mut(), 1).pop().expect("an operation");
        let Some(statement) = workload.statements().get(operation.statement).cloned() else {
            panic!("{name}: no statement {}", operation.statement)
        };
        let markers = match statement {
            Statement::Options => 0,
            Statement::Write(text) | Statement::Read(text, _) | Statement::Whole(text, _) => {
                text.matches('?').count()
            }
        };
        assert_eq!(values.len(), markers, "{name}");
    }
    for name in ["none", "slice", "slice:nowhere", "row:base", "column:7:first", "rows:large:0:start"] {
        assert!(open(name, SCALE, share(0, 1)).is_err(), "{name}");
    }
}

/// The rows of one table as they were loaded, by number.
fn table(load: &str, scale: Scale) -> Vec<Vec<Vec<u8>>> {
    take(open(load, scale, share(0, 1)).unwrap().as_mut(), usize::MAX)
        .into_iter()
        .map(|(_, row)| row)
        .collect()
}

#[test]
fn names_are_a_hundred_different_rows_in_order_and_know_their_values() {
    for rows in [100, 130, 10_000, 200_000] {
        let scale = Scale { wide_rows: rows, ..SCALE };
        let all = table("load-wide", scale);
        for name in spelled_out("names:PLACE") {
            let mut names = open(&name, scale, share(0, 1)).unwrap();
            for (operation, values) in take(names.as_mut(), 5) {
                assert_eq!(values[0], rows.to_string().into_bytes());
                let asked: Vec<&[u8]> = values[1][4..].chunks(14).map(|item| &item[4..]).collect();
                assert!(
                    asked.is_sorted() && asked.windows(2).all(|pair| pair[0] != pair[1]),
                    "{name} {rows}"
                );
                let found: Vec<Vec<Vec<u8>>> = asked
                    .iter()
                    .map(|asked| {
                        all[all.binary_search_by(|row| row[1].as_slice().cmp(asked)).unwrap()][1..].to_vec()
                    })
                    .collect();
                assert_eq!(found.len(), 100, "{name} {rows}");
                assert_eq!(names.check(operation, &answer(found)), Ok(()), "{name} {rows}");
            }
        }
    }
}

#[test]
fn slices_by_place_know_their_rows() {
    for rows in [100, 1_500, 5_000] {
        let scale = Scale { wide_rows: rows, ..SCALE };
        let all = table("load-wide", scale);
        for name in spelled_out("slice:PLACE") {
            let mut slice = open(&name, scale, share(0, 1)).unwrap();
            let (operation, values) = take(slice.as_mut(), 1).pop().unwrap();
            let from = values.get(1).map_or(0, |name| all.iter().position(|row| row[1] == *name).unwrap());
            let mut expected: Vec<_> = all[from..].iter().map(|row| row[1..].to_vec()).collect();
            if name == "slice:reversed" {
                expected.reverse();
            }
            expected.truncate(100);
            assert_eq!(expected.len(), 100, "{name} {rows}");
            assert_eq!(slice.check(operation, &answer(expected)), Ok(()), "{name} {rows}");
        }
    }
}

#[test]
fn rows_of_the_large_tables_know_their_values() {
    let all = table("load-large", SCALE);
    assert!(all.iter().all(|row| row[2].len() == 1_024));
    for name in ["row:large", "rows:large:16:start", "rows:plain:16:before-middle", "skip:plain:3:5"] {
        let mut reads = open(name, SCALE, share(0, 1)).unwrap();
        let [Statement::Whole(_, count)] = reads.statements()[..] else { panic!("{name}") };
        for (operation, values) in take(reads.as_mut(), 20) {
            let at = all.iter().position(|row| row[1] == values[1]).unwrap();
            let count = count as usize;
            let rows: Vec<_> = match name.ends_with("before-middle") {
                true => all[at - count..at].iter().rev().map(|row| vec![row[2].clone()]).collect(),
                false => all[at..at + count].iter().map(|row| vec![row[2].clone()]).collect(),
            };
            assert_eq!(reads.check(operation, &answer(rows)), Ok(()), "{name}");
        }
    }
}

#[test]
fn a_walk_goes_round_unless_it_is_made_once() {
    // Steps of 8 in 40 rows.
    let starts = |name: &str| -> Vec<u64> {
        let mut walk = open(name, SCALE, share(0, 1)).unwrap();
        take(walk.as_mut(), 7).iter().map(|(operation, _)| operation.subject).collect()
    };
    assert_eq!(starts("skip:plain:3:5"), [0, 8, 16, 24, 32, 0, 8]);
    assert_eq!(starts("skip:plain:3:5:once"), [0, 8, 16, 24, 32]);
    assert!(open("skip:plain:3:5:twice", SCALE, share(0, 1)).is_err());
}

#[test]
fn a_column_is_read_until_the_time_is_up_or_once() {
    let reads = |name: &str, thread: u64| {
        let mut reads = open(name, SCALE, share(thread, 2)).unwrap();
        take(reads.as_mut(), 3).len()
    };
    assert_eq!(reads("column:10:last", 1), 3);
    assert_eq!([reads("column:10:last:once", 0), reads("column:10:last:once", 1)], [1, 0]);
}

#[test]
fn a_column_is_found_in_every_row() {
    let all = table("load-columns:10", SCALE);
    assert_eq!(all.len(), 100);
    for (place, column) in [("first", 0), ("middle", 5), ("last", 9)] {
        let mut reads = open(&format!("column:10:{place}"), SCALE, share(0, 1)).unwrap();
        let (operation, _) = take(reads.as_mut(), 1).pop().unwrap();
        let rows = all.iter().map(|row| vec![row[2 + column].clone()]).collect();
        assert_eq!(reads.check(operation, &answer(rows)), Ok(()), "{place}");
    }
}
