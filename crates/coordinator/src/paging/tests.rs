//! Paging states and what is left behind a mark.

use super::*;
use model::command::{ColumnSelection, DataLimits};
use model::{CqlType, Slice};
use std::sync::Arc;

fn table() -> Arc<TableSchema> {
    Arc::new(
        TableSchema::builder("ks", "t", uuid::Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("a", CqlType::Int, false)
            .clustering("b", CqlType::Text, true)
            .regular("v", CqlType::Int)
            .build(),
    )
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

fn clustering(a: i32, b: &str) -> Clustering {
    Clustering::from_values([&a.to_be_bytes()[..], b.as_bytes()])
}

fn command(partitions: PartitionSelection, clusterings: ClusteringFilter) -> ReadCommand {
    ReadCommand {
        columns: ColumnSelection::all(&table()),
        table: table(),
        partitions,
        clusterings,
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    }
}

fn mark(k: i32, clustering: Option<Clustering>) -> PageMark {
    PageMark {
        key: key(k),
        is_before: false,
        clustering,
        remaining: u64::MAX,
        remaining_in_partition: u64::MAX,
    }
}

fn row_mark(clustering: Clustering) -> RowMark {
    RowMark::of(clustering, &table())
}

#[test]
fn the_form_is_that_of_a_real_node() {
    let state = PagingState {
        key: Bytes::new(),
        row: Some(row_mark(Clustering::from_values([&951i32.to_be_bytes()[..]]))),
        remaining: UNLIMITED - 20,
        remaining_in_partition: UNLIMITED - 20,
    };
    let bytes = state.encode(PagingVersion::V4);
    assert_eq!(
        bytes.as_ref(),
        [
            0x00, 0x06, 0x00, 0x04, 0, 0, 0x03, 0xb7, 0xf0, 0x7f, 0xff, 0xff, 0xeb, 0xf0, 0x7f, 0xff, 0xff,
            0xeb
        ]
    );
    assert_eq!(PagingState::decode(&bytes, PagingVersion::V4), Some(state));
}

/// States of v3 that a Cassandra 5.0.5 gave, and the rows that they stand at.
#[test]
fn states_of_v3_have_the_names_of_cells() {
    let compact = |columns: &[&str]| {
        let builder = TableSchema::builder("ks", "t", uuid::Uuid::nil()).partition_key("k", CqlType::Int);
        let builder = columns.iter().fold(builder, |b, column| b.clustering(column, CqlType::Int, false));
        let mut builder = builder.regular("v", CqlType::Int);
        builder.compact = Some(model::schema::CompactStorage::Dense { compound: columns.len() > 1 });
        Arc::new(builder.build())
    };
    let (one, two) = (compact(&["a"]), compact(&["a", "b"]));
    let of = |a: i32, b: &[u8]| Clustering::from_values([&a.to_be_bytes()[..], b]);
    let mut short = Clustering::from_values([&2i32.to_be_bytes()[..]]);
    short.push(Component::Null);
    let single = Clustering::from_values([&3i32.to_be_bytes()[..]]);
    for (table, state, clustering) in [
        (&table(), "0000 0010 0004 00000000 00 0003 6e6f76 00 0000 00 7ffffffe 7ffffffe", of(0, b"nov")),
        (&table(), "0000 000f 0004 00000001 00 0001 78 00 0001 76 00 7ffffffd 7ffffffd", of(1, b"x")),
        (&table(), "0000 000e 0004 00000001 00 0000 00 0001 76 00 7ffffffc 7ffffffc", of(1, b"")),
        (&one, "0004 00000001 0004 00000003 7ffffffe 7ffffffe", single),
        (&two, "0004 00000001 0007 0004 00000002 00 7ffffffe 7ffffffe", short),
        (
            &two,
            "0004 00000001 0012 0004 00000003 00 0004 00000007 00 0001 76 00 7ffffffd 7ffffffd",
            of(3, &7i32.to_be_bytes()),
        ),
    ] {
        let bytes = Bytes::from(from_hex(state));
        let decoded = PagingState::decode(&bytes, PagingVersion::V3).unwrap();
        let command = ReadCommand {
            table: Arc::clone(table),
            ..command(PartitionSelection::Keys(vec![key(1)]), ClusteringFilter::all())
        };
        let mark = decoded.mark(&command).unwrap();
        assert_eq!(mark.clustering.as_ref(), Some(&clustering), "{state}");
        // Written here it has no column, as that of a row without cells.
        let own = PagingState { row: Some(RowMark::of(clustering.clone(), table)), ..decoded };
        let again = PagingState::decode(&own.encode(PagingVersion::V3), PagingVersion::V3).unwrap();
        assert_eq!(again.mark(&command).unwrap().clustering, Some(clustering), "{state}");
        let own = own.encode(PagingVersion::V3);
        assert!(own.len() == bytes.len() || own.len() + 1 == bytes.len(), "{state} is {own:x?} here");
    }
}

#[test]
fn names_of_cells_that_are_none_are_refused() {
    let command = command(PartitionSelection::Keys(vec![key(1)]), ClusteringFilter::all());
    let state = |name: &[u8]| PagingState {
        key: Bytes::new(),
        row: Some(RowMark::CellName(Bytes::copy_from_slice(name))),
        remaining: 1,
        remaining_in_partition: 1,
    };
    let whole = cell_name(&clustering(1, "ab"));
    assert!(state(&whole).mark(&command).is_some());
    for cut in 0..whole.len() - 3 {
        assert_eq!(state(&whole[..cut]).mark(&command), None, "{cut}");
    }
    // That of a static row: nothing of the partition's rows was read.
    let of_static = [&[0xff, 0xff][..], &[0; 6], b"\0\x01s\0"].concat();
    assert_eq!(state(&of_static).mark(&command).unwrap().clustering, None);
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|digit| *digit != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn states_survive_both_forms_and_a_change_of_protocol() {
    let mut odd = Clustering::empty();
    odd.push(Component::Value(&[]));
    odd.push(Component::Null);
    odd.push(Component::Value(b"x"));
    odd.push(Component::Value(&[]));
    for row in [None, Some(odd), Some(clustering(-1, "é"))] {
        for version in [PagingVersion::V3, PagingVersion::V4] {
            let row = row.clone().map(|row| match version {
                PagingVersion::V3 => RowMark::CellName(cell_name(&row).into()),
                PagingVersion::V4 => row_mark(row),
            });
            let state = PagingState {
                key: Bytes::from_static(b"key"),
                row,
                remaining: 17,
                remaining_in_partition: UNLIMITED,
            };
            let bytes = state.encode(version);
            assert_eq!(PagingState::decode(&bytes, version).as_ref(), Some(&state));
            for cut in 0..bytes.len() {
                assert_ne!(PagingState::decode(&bytes.slice(..cut), version).as_ref(), Some(&state));
            }
        }
    }
    assert_eq!(PagingState::decode(&Bytes::from_static(b"nonsense"), PagingVersion::V4), None);
}

#[test]
fn a_state_of_another_table_is_refused() {
    let command = command(PartitionSelection::Range(KeyRange::FULL), ClusteringFilter::all());
    let state = PagingState {
        key: key(1).key.0,
        row: Some(row_mark(Clustering::from_values([&b"one"[..]]))),
        remaining: 1,
        remaining_in_partition: 1,
    };
    assert_eq!(state.mark(&command), None);
}

/// A Cassandra 5.0 answers these with rows that the statement does not ask for, or with a server error.
#[test]
fn a_state_that_was_made_up_leads_nowhere_else() {
    let mut keys: Vec<DecoratedKey> = (0..9).map(key).collect();
    keys.sort();
    let range = KeyRange {
        start: KeyBound::Token { token: keys[3].token, inclusive: true },
        end: KeyBound::Token { token: keys[5].token, inclusive: false },
    };
    let part = command(PartitionSelection::Range(range), ClusteringFilter::all());
    let state = |key: Bytes, row: Option<Clustering>| PagingState {
        key,
        row: row.map(row_mark),
        remaining: UNLIMITED,
        remaining_in_partition: UNLIMITED,
    };
    for row in [None, Some(clustering(1, "x"))] {
        for (at, key) in keys.iter().enumerate() {
            let mark = state(key.key.0.clone(), row.clone()).mark(&part);
            assert_eq!(mark.is_some(), (3..5).contains(&at), "key {at}");
        }
    }
    let whole = command(PartitionSelection::Range(KeyRange::FULL), ClusteringFilter::all());
    assert_eq!(state(Bytes::new(), None).mark(&whole), None);
    let several = command(PartitionSelection::Keys(keys[..2].to_vec()), ClusteringFilter::all());
    assert_eq!(state(keys[7].key.0.clone(), None).mark(&several), None);
    let bad_row = Clustering::from_values([&b"abc"[..], b"x"]);
    assert_eq!(state(keys[3].key.0.clone(), Some(bad_row)).mark(&part), None);
    // A row before the rows that are asked for leaves these as they are; so does a larger limit.
    let slices = vec![Slice::of_prefix(clustering(3, "a").prefix(1))];
    let mut few =
        command(PartitionSelection::Keys(vec![key(1)]), ClusteringFilter::Slices { slices, reversed: false });
    few.limits.rows = 2;
    let mark = state(Bytes::new(), Some(clustering(-7, "z"))).mark(&few).unwrap();
    assert_eq!(mark.remaining, 2);
    let legs = behind(&few, &mark);
    let selects = |a: i32| legs[0].clusterings.selects(table().comparator(), &clustering(a, "q"));
    assert_eq!([selects(2), selects(3), selects(4)], [false, true, false]);
}

#[test]
fn a_range_goes_on_in_the_marks_partition_and_then_behind_it() {
    let command = command(PartitionSelection::Range(KeyRange::FULL), ClusteringFilter::all());
    let legs = behind(&command, &mark(1, Some(clustering(5, "x"))));
    assert_eq!(legs.len(), 2);
    assert!(matches!(&legs[0].partitions, PartitionSelection::Keys(keys) if *keys == [key(1)]));
    let selects = |c: Clustering| legs[0].clusterings.selects(table().comparator(), &c);
    assert!(!selects(clustering(5, "x")) && !selects(clustering(5, "y")) && !selects(clustering(4, "a")));
    assert!(selects(clustering(5, "w")) && selects(clustering(6, "z")));
    let PartitionSelection::Range(rest) = &legs[1].partitions else { panic!("a range") };
    assert!(!rest.contains(&key(1)));
    assert!(legs[1].clusterings.is_all());
    assert_eq!(behind(&command, &mark(1, None)).len(), 1);
}

#[test]
fn keys_go_on_with_the_keys_that_follow() {
    let keys = PartitionSelection::Keys(vec![key(3), key(1), key(2)]);
    let command = command(keys, ClusteringFilter::all());
    let legs = behind(&command, &mark(1, None));
    assert_eq!(legs.len(), 1);
    assert!(matches!(&legs[0].partitions, PartitionSelection::Keys(keys) if *keys == [key(2)]));
    assert!(behind(&command, &mark(2, None)).is_empty());
}

#[test]
fn names_and_slices_narrow_in_both_directions() {
    let keys = || PartitionSelection::Keys(vec![key(1)]);
    let names = vec![clustering(1, "a"), clustering(2, "a"), clustering(3, "a")];
    for (reversed, expected) in [(false, 3), (true, 1)] {
        let filter = ClusteringFilter::Names { names: names.clone(), reversed };
        let legs = behind(&command(keys(), filter), &mark(1, Some(clustering(2, "a"))));
        let ClusteringFilter::Names { names, .. } = &legs[0].clusterings else { panic!("names") };
        assert_eq!(*names, [clustering(expected, "a")]);
        let slices = vec![
            Slice::of_prefix(clustering(1, "a").prefix(1)),
            Slice::of_prefix(clustering(3, "a").prefix(1)),
        ];
        let filter = ClusteringFilter::Slices { slices, reversed };
        let legs = behind(&command(keys(), filter), &mark(1, Some(clustering(2, "a"))));
        let selects = |a: i32| legs[0].clusterings.selects(table().comparator(), &clustering(a, "q"));
        assert_eq!([selects(1), selects(3)], [reversed, !reversed]);
    }
}

fn bytes_of(command: &ReadCommand, mark: &PageMark) -> Option<String> {
    let bytes = PagingState::of(command, mark)?.encode(PagingVersion::V4);
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a Cassandra 4.1.10 gives and understands: of listed keys the next one, of which nothing was read;
/// of a scan the last one.
#[test]
fn behind_a_partition_the_state_is_at_the_next_key_that_is_listed() {
    let of = |keys: &[i32]| {
        let keys = keys.iter().map(|k| key(*k)).collect();
        command(PartitionSelection::Keys(keys), ClusteringFilter::all())
    };
    let several = of(&[2, 3]);
    let done = PageMark { remaining: UNLIMITED - 1, ..mark(2, None) };
    let state = bytes_of(&several, &done).unwrap();
    assert_eq!(state, "040000000300f07ffffffef07fffffff");
    assert_eq!(bytes_of(&several, &PageMark { key: key(3), ..done.clone() }), None);
    for limits in [
        DataLimits { rows_per_partition: 1, ..DataLimits::NONE },
        DataLimits { distinct: true, ..DataLimits::NONE },
    ] {
        let limited = ReadCommand { limits, ..several.clone() };
        assert_eq!(bytes_of(&limited, &done).unwrap(), "040000000300f07ffffffe01");
    }
    assert_eq!(bytes_of(&of(&[2]), &done), None);
    let scan = command(PartitionSelection::Range(KeyRange::FULL), ClusteringFilter::all());
    assert_eq!(bytes_of(&scan, &done).unwrap(), "040000000200f07ffffffe00");
    // The row is the last one that its partition may give.
    let full = PageMark { clustering: Some(clustering(1, "x")), remaining_in_partition: 0, ..done.clone() };
    assert_eq!(bytes_of(&several, &full).unwrap(), state);
    let within = PageMark { remaining_in_partition: 1, ..full.clone() };
    assert!(bytes_of(&several, &within).unwrap().starts_with("040000000208"));
    assert!(bytes_of(&of(&[2]), &within).unwrap().starts_with("0008"));
}

#[test]
fn a_page_goes_on_at_the_start_of_a_listed_key_of_which_nothing_was_read() {
    let keys: Vec<DecoratedKey> = [2, 3, 4].map(key).to_vec();
    let several = command(PartitionSelection::Keys(keys.clone()), ClusteringFilter::all());
    let state = |k: i32, row, remaining_in_partition| PagingState {
        key: key(k).key.0,
        row,
        remaining: UNLIMITED,
        remaining_in_partition,
    };
    let left = |state: PagingState| {
        let legs = behind(&several, &state.mark(&several).unwrap());
        let of_leg = |leg: &ReadCommand| match &leg.partitions {
            PartitionSelection::Keys(keys) => keys.len(),
            PartitionSelection::Range(_) => 0,
        };
        legs.iter().map(of_leg).collect::<Vec<_>>()
    };
    assert_eq!(left(state(2, None, UNLIMITED)), [3]);
    assert_eq!(left(state(3, None, UNLIMITED)), [2]);
    assert_eq!(left(state(3, None, 1)), [2]);
    assert_eq!(left(state(3, None, 0)), [1]);
    assert_eq!(left(state(3, Some(row_mark(clustering(1, "x"))), 0)), [1]);
    assert_eq!(left(state(3, Some(row_mark(clustering(1, "x"))), 5)), [1, 1]);
    let single = command(PartitionSelection::Keys(keys[..1].to_vec()), ClusteringFilter::all());
    let from_the_start = PagingState { key: Bytes::new(), ..state(2, None, UNLIMITED) };
    assert_eq!(behind(&single, &from_the_start.mark(&single).unwrap()).len(), 1);
    let scan = command(PartitionSelection::Range(KeyRange::FULL), ClusteringFilter::all());
    assert!(!state(2, None, UNLIMITED).mark(&scan).unwrap().is_before);
}
