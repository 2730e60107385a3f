use super::*;
use crate::clustering::{Clustering, ClusteringComparator};
use crate::key::PartitionKey;
use crate::types::samples;
use proptest::prelude::*;
use std::cmp::Ordering;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap())
        .collect()
}

/// Type, value and what Cassandra's own code makes of it; "null" for nothing.
const ENCODINGS: &[(&str, &str, &str)] = &[
    ("int", "", "null"),
    ("int", "00000000", "80000000"),
    ("int", "ffffffff", "7fffffff"),
    ("int", "7fffffff", "ffffffff"),
    ("bigint", "", "null"),
    ("bigint", "0000000000000000", "80"),
    ("bigint", "0000000000000001", "81"),
    ("bigint", "ffffffffffffffff", "7f"),
    ("bigint", "000000000000003f", "bf"),
    ("bigint", "0000000000000040", "c040"),
    ("bigint", "ffffffffffffffc0", "40"),
    ("bigint", "ffffffffffffffbf", "3fbf"),
    ("bigint", "00000000000fffff", "efffff"),
    ("bigint", "0000000000100000", "f0100000"),
    ("bigint", "7fffffffffffffff", "ffffffffffffffffff"),
    ("bigint", "8000000000000000", "000000000000000000"),
    ("bigint", "007fffffffffffff", "ff7fffffffffffff"),
    ("bigint", "0080000000000000", "ff8080000000000000"),
    ("bigint", "3fffffffffffffff", "ffbfffffffffffffff"),
    ("bigint", "4000000000000000", "ffc000000000000000"),
    ("bigint", "ff7fffffffffffff", "007f7fffffffffffff"),
    ("smallint", "fffe", "7ffe"),
    ("smallint", "012c", "812c"),
    ("tinyint", "fe", "7e"),
    ("tinyint", "1e", "9e"),
    ("varint", "", "null"),
    ("varint", "00", "80"),
    ("varint", "ff", "7f"),
    ("varint", "40", "c040"),
    ("varint", "00ffffffffffff", "feffffffffffff"),
    ("varint", "01000000000000", "ff0001000000000000"),
    ("varint", "ff000000000000", "01000000000000"),
    ("varint", "feffffffffffff", "00fffeffffffffffff"),
    ("varint", "ff000000000001", "01000000000001"),
    ("varint", "0100000000000000", "ff010100000000000000"),
    ("varint", "018ee90ff6c373e0ee4e3f0ad2", "ff06018ee90ff6c373e0ee4e3f0ad2"),
    ("varint", "fe7116f0093c8c1f11b1c0f52e", "00f9fe7116f0093c8c1f11b1c0f52e"),
    ("varint", "7fffffffffffffff", "ff017fffffffffffffff"),
    ("varint", "ff7fffffffffffffff", "00fe7fffffffffffffff"),
    ("varint", "0001", "81"),
    ("varint", "ffff", "7f"),
    ("varint", "00000000000000ff", "c0ff"),
    ("varint", "00ffffffffffffff", "ff00ffffffffffffff"),
    ("varint", "ff00000000000000", "00ff00000000000000"),
    (
        "varint",
        "0308c0e2c9f071b16916c59aa31f0dcd6db6eced5a6e7baa9748f814e5e4c68a22ab01988f7f8d0020198736133ba7cbb9788bbb283a21a4fefaa6e4c643ebff34ed959c6eae9a5265f4da019b7ddf79c0802358ac0d16761fca55f51d6ebbb68402cd964c22e7993fdc305a83730e794635aa11571c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71",
        "ff80a00308c0e2c9f071b16916c59aa31f0dcd6db6eced5a6e7baa9748f814e5e4c68a22ab01988f7f8d0020198736133ba7cbb9788bbb283a21a4fefaa6e4c643ebff34ed959c6eae9a5265f4da019b7ddf79c0802358ac0d16761fca55f51d6ebbb68402cd964c22e7993fdc305a83730e794635aa11571c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71c71",
    ),
    (
        "varint",
        "fcf73f1d360f8e4e96e93a655ce0f23292491312a591845568b707eb1a1b3975dd54fe67708072ffdfe678c9ecc4583446877444d7c5de5b0105591b39bc1400cb126a63915165ad9a0b25fe648220863f7fdca753f2e989e035aa0ae29144497bfd3269b3dd1866c023cfa57c8cf186b9ca55eea8e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38f",
        "007f5ffcf73f1d360f8e4e96e93a655ce0f23292491312a591845568b707eb1a1b3975dd54fe67708072ffdfe678c9ecc4583446877444d7c5de5b0105591b39bc1400cb126a63915165ad9a0b25fe648220863f7fdca753f2e989e035aa0ae29144497bfd3269b3dd1866c023cfa57c8cf186b9ca55eea8e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38e38f",
    ),
    ("decimal", "", "null"),
    ("decimal", "0000000000", "80"),
    ("decimal", "0000000200", "80"),
    ("decimal", "0000000001", "c1018100"),
    ("decimal", "00000000ff", "3fff7f00"),
    ("decimal", "0000000101", "c08a00"),
    ("decimal", "00000001ff", "407600"),
    ("decimal", "0000000064", "c1028100"),
    ("decimal", "0000000204d2", "c1018ca200"),
    ("decimal", "00000002fb2e", "3fff73c200"),
    ("decimal", "0000000104d2", "c1028197a800"),
    ("decimal", "00000001fb2e", "3ffe7eccbc00"),
    ("decimal", "fffffff601", "c1068100"),
    ("decimal", "0000000a01", "bffc8100"),
    ("decimal", "fffffff6ff", "3ffa7f00"),
    ("decimal", "8000000101", "c4400000008a00"),
    ("decimal", "80000001ff", "3cc00000007600"),
    ("decimal", "7fffffff01", "bcc00000018a00"),
    ("decimal", "00000002270f", "c101e3e300"),
    ("decimal", "00000002d8f1", "3fff1c8100"),
    ("decimal", "0000000301", "bfff8a00"),
    ("decimal", "000000000a", "c1018a00"),
    ("decimal", "0000000003e8", "c1028a00"),
    ("decimal", "0000000a00ab54a98cdc6770b1", "c1058ca2b8ceda89d7c1ab9500"),
    ("decimal", "00000002d8ef", "3ffe7ee3e300"),
    ("decimal", "fffffda801", "c2012d8100"),
    ("decimal", "00000258ff", "42012b7f00"),
    ("decimal", "00000004ff", "41017f00"),
    ("float", "", "null"),
    ("float", "00000000", "80000000"),
    ("float", "80000000", "7fffffff"),
    ("float", "3fc00000", "bfc00000"),
    ("float", "bfc00000", "403fffff"),
    ("float", "7fc00000", "ffc00000"),
    ("double", "", "null"),
    ("double", "0000000000000000", "8000000000000000"),
    ("double", "8000000000000000", "7fffffffffffffff"),
    ("double", "3ff8000000000000", "bff8000000000000"),
    ("double", "bff8000000000000", "4007ffffffffffff"),
    ("double", "7ff8000000000000", "fff8000000000000"),
    ("double", "fff0000000000000", "000fffffffffffff"),
    ("boolean", "", "null"),
    ("boolean", "00", "00"),
    ("boolean", "01", "01"),
    ("boolean", "02", "01"),
    ("date", "800040ae", "800040ae"),
    ("time", "00002c4024630c00", "00002c4024630c00"),
    ("timestamp", "", "null"),
    ("timestamp", "0000014d17128800", "8000014d17128800"),
    ("timestamp", "fffffffffffffffb", "7ffffffffffffffb"),
    ("uuid", "", "null"),
    ("uuid", "123e4567e89b12d3a456426614174000", "12d3e89b123e4567a456426614174000"),
    ("uuid", "123e4567e89b42d3a456426614174000", "4123e4567e89b2d3a456426614174000"),
    ("uuid", "f23e4567e89b72d3f456426614174000", "7f23e4567e89b2d3f456426614174000"),
    ("timeuuid", "", "null"),
    ("timeuuid", "123e4567e89b12d3a456426614174000", "12d3e89b123e456724d6c2e69497c080"),
    ("timeuuid", "f23e4567e89b12d3f456426614174080", "12d3e89bf23e456774d6c2e69497c000"),
    ("inet", "", "00"),
    ("inet", "01000000", "0100fefefe"),
    ("inet", "00000000000000000000000000000001", "00fefefefefefefefefefefefefefeff0100"),
    ("text", "", "00"),
    ("text", "4142", "414200"),
    ("text", "410042", "4100ff4200"),
    ("text", "41000042", "4100feff4200"),
    ("text", "4100", "4100fe"),
    ("text", "00", "00fe"),
    ("text", "0000", "00fefe"),
    ("text", "0041", "00ff4100"),
    ("ascii", "", "00"),
    ("ascii", "4142", "414200"),
    ("blob", "", "00"),
    ("blob", "00ff00fe", "00ffff00fffe00"),
    ("blob", "ff", "ff00"),
    ("duration", "1c06fc1ac003cfe800", "1c06fc1ac003cfe800fe"),
    ("frozen<list<int>>", "0000000200000004000000010000000400000002", "4080000001408000000238"),
    ("frozen<list<int>>", "00000000", "38"),
    ("frozen<list<int>>", "0000000100000000", "3e38"),
    ("frozen<list<text>>", "00000002000000000000000161", "400040610038"),
    ("frozen<set<text>>", "0000000200000001610000000178", "40610040780038"),
    (
        "frozen<map<int, text>>",
        "0000000200000004000000010000000178000000040000000200000000",
        "40800000014078004080000002400038",
    ),
    ("frozen<tuple<int, text, int>>", "", "null"),
    ("frozen<tuple<int, text, int>>", "0000000400000001", "408000000138"),
    ("frozen<tuple<int, text, int>>", "0000000400000001ffffffff", "408000000138"),
    ("frozen<tuple<int, text, int>>", "ffffffff0000000161", "3e40610038"),
    ("frozen<tuple<int, text, int>>", "00000004000000010000000161ffffffff", "408000000140610038"),
    ("frozen<tuple<int, text, int>>", "00000000", "3e38"),
    ("frozen<tuple<int, text, int>>", "00000004000000010000000000000000", "408000000140003e38"),
    ("frozen<tuple<int, text, int>>", "000000040000000100000000", "4080000001400038"),
    ("frozen<tuple<int, text, int>>", "0000000400000001ffffffff0000000400000002", "40800000013e408000000238"),
    ("vector<float, 2>", "3f800000bf800000", "40bf80000040407fffff38"),
    ("vector<text, 2>", "01610162", "40610040620038"),
    ("vector<text, 2>", "0000", "4000400038"),
];

#[test]
fn encodings_are_cassandras() {
    for (name, value, expected) in ENCODINGS {
        let ty = CqlType::parse_cql(name, &|_| None).unwrap();
        let mut out = Vec::new();
        let encoded = match encode_value(&ty, &unhex(value), &mut out) {
            true => hex(&out),
            false => "null".to_owned(),
        };
        assert_eq!(encoded, *expected, "{name} {value}");
    }
}

/// The same for composites, whose types are written as classes. `~` stands for the package, escaped.
const COMPOSITES: &[(&str, &str, &str)] = &[
    ("CompositeType(Int32Type)", "", "null"),
    ("CompositeType(Int32Type,ReversedType(UTF8Type))", "00040000000100", "404080000001408038"),
    (
        "CompositeType(Int32Type,ReversedType(UTF8Type))",
        "000400000001000003666f6f00",
        "404080000001408040999090ff408038",
    ),
    (
        "CompositeType(Int32Type,ReversedType(UTF8Type))",
        "ffff000400000001000003666f6f00",
        "3e4080000001408040999090ff408038",
    ),
    ("CompositeType(Int32Type,ReversedType(UTF8Type))", "000400000001000000ff", "404080000001408040ff407f38"),
    (
        "CompositeType(LexicalUUIDType)",
        "0010123e4567e89b12d3a45642661417400000",
        "4040923e4567e89b12d32456426614174000408038",
    ),
    (
        "CompositeType(LexicalUUIDType)",
        "0010fffe4567e89b12d3745642661417400000",
        "40407ffe4567e89b12d3f456426614174000408038",
    ),
    ("CompositeType(DateType)", "0008ff0001000000000000", "4040ff00010000000000408038"),
    (
        "CompositeType(LegacyTimeUUIDType)",
        "0010123e4567e89b12d3a45642661417400000",
        "404012d3e89b123e456724d6c2e69497c080408038",
    ),
    ("CompositeType(Int32Type)", "ffff", "3e38"),
    ("CompositeType(Int32Type)", "000000", "403e408038"),
    (
        "CompositeType(CompositeType(Int32Type),ListType(Int32Type))",
        "00070004000000010000000c00000001000000040000000500",
        "4040404080000001408038408040408000000538408038",
    ),
    ("CompositeType(UTF8Type,UTF8Type)", "0003613a620000022121ff", "4040613a6200408040212100407f38"),
    ("DynamicCompositeType", "", "4038"),
    (
        "DynamicCompositeType(s=>UTF8Type,i=>ReversedType(Int32Type))",
        "8073000161008069000400000001ff",
        "40405554463854797065004~5554463854797065004061004080405265766572736564547970650040496e743332547970\
         65004~496e743332547970650040\
         7ffffffe407f38",
    ),
    (
        "DynamicCompositeType(s=>UTF8Type)",
        "000855544638547970650003003a6100",
        "40405554463854797065004~5554463854797065004000ff3a6100408038",
    ),
    (
        "DynamicCompositeType",
        "000000016100",
        "40404279746573547970650\
         04~42797465735479706500406100408038",
    ),
];

#[test]
fn encodings_of_composites_are_cassandras() {
    let package = hex(b"org.apache.cassandra.db.marshal.");
    for (class, value, expected) in COMPOSITES {
        let ty = CqlType::parse_class(class).unwrap().ty;
        let mut out = Vec::new();
        let encoded = match encode_value(&ty, &unhex(value), &mut out) {
            true => hex(&out),
            false => "null".to_owned(),
        };
        assert_eq!(encoded, expected.replace('~', &format!("0{package}")), "{class} {value}");
    }
}

#[test]
fn positions_have_markers_and_ends() {
    let comparator = ClusteringComparator::new([(CqlType::Int, false), (CqlType::Text, true)]);
    let encode = |kind, values: &[Option<&[u8]>]| {
        let mut prefix = Clustering::empty();
        values.iter().for_each(|v| prefix.push(v.map_or(Component::Null, Component::Value)));
        let mut out = Vec::new();
        encode_position(&comparator, Position { kind, prefix: &prefix }, &mut out);
        hex(&out)
    };
    let one = 1i32.to_be_bytes();
    assert_eq!(encode(BoundKind::Row, &[Some(&one), Some(b"a")]), "4080000001409eff38");
    assert_eq!(encode(BoundKind::InclEnd, &[Some(b"")]), "3f60");
    assert_eq!(encode(BoundKind::InclStart, &[None]), "3e20");
    assert_eq!(encode(BoundKind::Static, &[]), "18");
    let key = DecoratedKey::new(PartitionKey(b"k".as_slice().into()));
    let mut out = Vec::new();
    encode_key(&key, &mut out);
    assert_eq!(out.len(), 13);
    assert_eq!((out[0], out[9], &out[10..]), (0x40, 0x40, &b"k\0\x38"[..]));
}

fn position(comparator: &ClusteringComparator) -> BoxedStrategy<(BoundKind, Clustering)> {
    let columns: Vec<CqlType> =
        (0..comparator.len()).filter_map(|i| comparator.column(i)).map(|(ty, _)| ty.clone()).collect();
    // The static row is left out: its encoding comes first, while in memory it sorts after the start of all.
    let kinds = [0u8, 1, 2, 4, 5, 6, 7].map(|o| BoundKind::from_ordinal(o).unwrap());
    (prop::sample::select(kinds.to_vec()), 0..=columns.len())
        .prop_flat_map(move |(kind, len)| {
            let len = if kind == BoundKind::Row { columns.len() } else { len };
            let values: Vec<_> =
                columns.iter().take(len).map(|ty| prop::option::weighted(0.9, samples::value(ty))).collect();
            values.prop_map(move |values| {
                let mut prefix = Clustering::empty();
                for value in &values {
                    prefix.push(value.as_deref().map_or(Component::Null, Component::Value));
                }
                (kind, prefix)
            })
        })
        .boxed()
}

fn two_values() -> impl Strategy<Value = (CqlType, Vec<u8>, Vec<u8>)> {
    samples::ty().prop_flat_map(|ty| (Just(ty.clone()), samples::value(&ty), samples::value(&ty)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn values_order_as_their_encodings((ty, a, b) in two_values()) {
        // A marker takes the place of an encoding that is not there, as in a sequence.
        let encode = |value: &[u8]| {
            let mut out = vec![NEXT];
            if !encode_value(&ty, value, &mut out) {
                out[0] = NEXT_EMPTY;
            }
            out.push(TERMINATOR);
            out
        };
        prop_assert_eq!(encode(&a).cmp(&encode(&b)), ty.compare(&a, &b), "{} {} {}", ty, hex(&a), hex(&b));
    }

    #[test]
    fn positions_order_as_their_encodings(
        (comparator, a, b) in prop::collection::vec((samples::ty(), any::<bool>()), 1..4).prop_flat_map(|columns| {
            let comparator = ClusteringComparator::new(columns);
            (Just(comparator.clone()), position(&comparator), position(&comparator))
        })
    ) {
        let encode = |(kind, prefix): &(BoundKind, Clustering)| {
            let mut out = Vec::new();
            encode_position(&comparator, Position { kind: *kind, prefix }, &mut out);
            out
        };
        let in_memory = comparator.compare_positions(
            Position { kind: a.0, prefix: &a.1 },
            Position { kind: b.0, prefix: &b.1 },
        );
        prop_assert_eq!(encode(&a).cmp(&encode(&b)), in_memory, "{:?} {:?} {:?}", comparator, a, b);
    }

    #[test]
    fn keys_order_as_their_encodings(a: Vec<u8>, b: Vec<u8>) {
        let [a, b] = [a, b].map(|k| DecoratedKey::new(PartitionKey(k.into())));
        let encode = |key: &DecoratedKey| {
            let mut out = Vec::new();
            encode_key(key, &mut out);
            out
        };
        prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
        prop_assert_eq!(encode(&a).cmp(&encode(&a.clone())), Ordering::Equal);
    }
}
