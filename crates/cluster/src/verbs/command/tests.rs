//! Requests that come back, and bytes that no request has.

use super::*;
use model::clustering::Slice;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::Token;
use model::{BoundKind, ClusteringBound, Component};
use proptest::prelude::*;

/// `k int, c int, d text, s int static, v int, m map<int, int>, PRIMARY KEY (k, c, d)`.
fn table() -> Arc<TableSchema> {
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(7))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .clustering("d", CqlType::Text, true)
        .static_column("s", CqlType::Int)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Int, true))
        .regular("v", CqlType::Int);
    Arc::new(table.build())
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

fn clustering(c: i32, d: Option<&str>) -> Clustering {
    let mut out = Clustering::empty();
    out.push(Component::Value(&c.to_be_bytes()));
    if let Some(d) = d {
        out.push(Component::Value(d.as_bytes()));
    }
    out
}

fn decoded(bytes: &[u8]) -> Result<AskedFor, PayloadError> {
    let lookup = |id: Uuid| Some(table()).filter(|table| table.id == id);
    decode_command(Bytes::copy_from_slice(bytes), &lookup)
}

fn key_bound() -> impl Strategy<Value = KeyBound> {
    prop_oneof![
        Just(KeyBound::Unbounded),
        (-9i64..9, any::<bool>())
            .prop_map(|(token, inclusive)| KeyBound::Token { token: Token(token), inclusive }),
        (0..9, any::<bool>()).prop_map(|(k, inclusive)| KeyBound::Key { key: key(k), inclusive }),
    ]
}

fn partitions() -> impl Strategy<Value = PartitionSelection> {
    prop_oneof![
        (0..9).prop_map(|k| PartitionSelection::Keys(vec![key(k)])),
        (key_bound(), key_bound())
            .prop_map(|(start, end)| PartitionSelection::Range(KeyRange { start, end })),
    ]
}

fn rows() -> impl Strategy<Value = ClusteringFilter> {
    let slices = prop_oneof![
        Just(vec![Slice::ALL]),
        Just(Vec::new()),
        (0..5, 5..9, any::<bool>()).prop_map(|(from, to, is_open)| {
            let start = if is_open { BoundKind::ExclStart } else { BoundKind::InclStart };
            vec![
                Slice {
                    start: ClusteringBound::new(start, clustering(from, None)),
                    end: ClusteringBound::new(BoundKind::InclEnd, clustering(to, Some("b"))),
                },
                Slice {
                    start: ClusteringBound::new(BoundKind::InclStart, clustering(to + 1, None)),
                    end: ClusteringBound::TOP,
                },
            ]
        }),
    ];
    prop_oneof![
        (slices, any::<bool>()).prop_map(|(slices, reversed)| ClusteringFilter::Slices { slices, reversed }),
        (proptest::collection::btree_set(0..9, 0..4), any::<bool>()).prop_map(|(names, reversed)| {
            let names = names.into_iter().map(|c| clustering(c, Some("x"))).collect();
            ClusteringFilter::Names { names, reversed }
        }),
    ]
}

fn columns() -> impl Strategy<Value = ColumnSelection> {
    let table = table();
    let ids = ["s", "m", "v"].map(|name| table.column(name).unwrap().id);
    prop_oneof![
        Just(ColumnSelection::all(&table)),
        proptest::sample::subsequence(ids.to_vec(), 0..=3).prop_map(ColumnSelection::of),
    ]
}

fn filter() -> impl Strategy<Value = Vec<FilterExpression>> {
    let value = |number: i32| Bytes::copy_from_slice(&number.to_be_bytes());
    let column = |name: &str| table().column(name).unwrap().id;
    let operators = [
        Operator::Eq,
        Operator::NotEq,
        Operator::Lt,
        Operator::LtEq,
        Operator::Gt,
        Operator::GtEq,
        Operator::Contains,
        Operator::ContainsKey,
    ];
    let simple = (
        proptest::sample::select(operators.to_vec()),
        0..9i32,
        proptest::sample::select(vec!["v", "s", "c"]),
    )
        .prop_map(move |(operator, number, name)| FilterExpression {
            column: column(name),
            operator,
            map_key: None,
            values: vec![value(number)],
        });
    let of_several = proptest::collection::vec(0..9i32, 1..4).prop_map(move |numbers| FilterExpression {
        column: column("v"),
        operator: Operator::In,
        map_key: None,
        values: numbers.into_iter().map(value).collect(),
    });
    let of_entry = (0..9i32, 0..9i32).prop_map(move |(key, number)| FilterExpression {
        column: column("m"),
        operator: Operator::Eq,
        map_key: Some(value(key)),
        values: vec![value(number)],
    });
    proptest::collection::vec(prop_oneof![3 => simple, 1 => of_several, 1 => of_entry], 0..4)
}

fn command() -> impl Strategy<Value = ReadCommand> {
    let limit = || prop_oneof![Just(u64::MAX), 1u64..100];
    let limits = (limit(), limit(), any::<bool>())
        .prop_map(|(rows, rows_per_partition, distinct)| DataLimits { rows, rows_per_partition, distinct });
    (partitions(), rows(), columns(), filter(), limits, 0..=i32::MAX as u32).prop_map(
        |(partitions, clusterings, columns, row_filter, limits, now_s)| ReadCommand {
            table: table(),
            partitions,
            clusterings,
            columns,
            row_filter,
            limits,
            now_s,
        },
    )
}

fn encoded(command: &ReadCommand, rows_max: u64, is_digest: bool) -> Vec<u8> {
    let part = match &command.partitions {
        PartitionSelection::Keys(keys) => Partitions::Key(&keys[0]),
        PartitionSelection::Range(range) => Partitions::Range(range),
    };
    let mut out = Vec::new();
    encode_command(command, part, rows_max, is_digest, 12, &mut out).unwrap();
    out
}

fn selects(command: &ReadCommand) -> String {
    let ReadCommand { table, partitions, clusterings, columns, row_filter, limits, now_s } = command;
    let ColumnSelection { columns, all, elements, .. } = columns;
    let statics = table.static_columns().iter().map(|column| command.fetches_static(column.id));
    let regulars = table.regular_columns().iter().map(|column| command.fetches_regular(column.id));
    let fetched: Vec<bool> = statics.chain(regulars).collect();
    format!(
        "{partitions:?} {clusterings:?} {columns:?} {all} {elements:?} {fetched:?} {row_filter:?} {limits:?} {now_s}"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn requests_come_back(command in command(), is_digest in any::<bool>()) {
        let bytes = encoded(&command, u64::MAX, is_digest);
        let asked = decoded(&bytes).unwrap();
        prop_assert_eq!(asked.is_digest, is_digest);
        prop_assert_eq!(asked.commands.len(), 1);
        prop_assert_eq!(selects(&asked.commands[0]), selects(&command));
        for len in 0..bytes.len() {
            prop_assert!(decoded(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn damaged_requests_do_not_end_the_node(
        command in command(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encoded(&command, u64::MAX, false);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decoded(&bytes);
    }
}

#[test]
fn an_answer_has_at_most_as_many_rows_as_its_page() {
    let mut read = whole();
    read.limits.rows = 50;
    assert_eq!(decoded(&encoded(&read, 7, false)).unwrap().commands[0].limits.rows, 7);
    assert_eq!(decoded(&encoded(&read, 70, false)).unwrap().commands[0].limits.rows, 50);
}

fn whole() -> ReadCommand {
    ReadCommand {
        table: table(),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(&table()),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 9,
    }
}

#[test]
fn a_page_goes_on_in_the_middle_of_a_partition() {
    let start = KeyBound::Key { key: key(1), inclusive: true };
    let mut read = whole();
    read.partitions = PartitionSelection::Range(KeyRange { start, end: KeyBound::Unbounded });
    let mut bytes = encoded(&read, u64::MAX, false);
    assert_eq!(bytes.pop(), Some(0));
    bytes.push(1);
    let types = clustering_types(&table());
    partition::codec::write_clustering(&mut bytes, &types, &clustering(4, Some("x"))).unwrap();
    bytes.push(0);
    let asked = decoded(&bytes).unwrap();
    let [rest, behind] = asked.commands.as_slice() else { panic!("{asked:?}") };
    assert!(matches!(&rest.partitions, PartitionSelection::Keys(keys) if keys == &[key(1)]));
    let ClusteringFilter::Slices { slices, .. } = &rest.clusterings else { panic!("{rest:?}") };
    assert_eq!(slices[0].start, ClusteringBound::new(BoundKind::ExclStart, clustering(4, Some("x"))));
    let PartitionSelection::Range(range) = &behind.partitions else { panic!("{behind:?}") };
    assert_eq!(range.start, KeyBound::Key { key: key(1), inclusive: false });
}

#[test]
fn unknown_tables_and_columns_are_named() {
    let mut bytes = encoded(&whole(), u64::MAX, false);
    let at = bytes.windows(2).position(|pair| pair == [1, b'v']).unwrap() + 1;
    bytes[at] = b'z';
    assert!(matches!(decoded(&bytes), Err(PayloadError::Schema(text)) if text.contains('z')));
    bytes[2] = 9;
    assert!(matches!(decoded(&bytes), Err(PayloadError::Schema(text)) if text.contains("no table")));
}
