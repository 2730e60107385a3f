use super::*;
use crate::types::UserType;
use crate::types::parse::hex_bytes;
use std::sync::Arc;

fn parse(name: &str) -> CqlType {
    CqlType::parse_cql(name, &|_| {
        let fields = vec![("a".to_owned(), CqlType::Int), ("b".to_owned(), CqlType::Text)];
        Some(Arc::new(UserType { keyspace: "ks".into(), name: "uv".into(), fields }))
    })
    .unwrap()
}

/// Type, bytes, and what a real node says to them ("" when it takes them).
const ANSWERS: &[(&str, &str, &str)] = &[
    ("int", "", ""),
    ("int", "00", "Expected 4 or 0 byte int (1)"),
    ("bigint", "00", "Expected 8 or 0 byte long (1)"),
    ("smallint", "", "Expected 2 bytes for a smallint (0)"),
    ("tinyint", "0000", "Expected 1 byte for a tinyint (2)"),
    ("varint", "", ""),
    ("varint", "0001", ""),
    ("decimal", "00", "Expected 0 or at least 4 bytes (1)"),
    ("float", "00", "Expected 4 or 0 byte value for a float (1)"),
    ("double", "00", "Expected 8 or 0 byte value for a double (1)"),
    ("boolean", "02", ""),
    ("boolean", "0000", "Expected 1 or 0 byte value (2)"),
    ("ascii", "4180", "Invalid byte for ascii: -128"),
    ("text", "c0", "String didn't validate."),
    ("uuid", "00", "UUID should be 16 or 0 bytes (1)"),
    ("timeuuid", "", ""),
    ("timeuuid", "123e4567e89b42d3a456426614174000", "Invalid version for TimeUUID type: 0x1"),
    ("timeuuid", "123e4567e89b12d3a456426614174000", ""),
    ("inet", "", ""),
    ("inet", "0000000000", "Expected 4 or 16 byte inetaddress; got 0000000000"),
    ("date", "", "Expected 4 byte long for date (0)"),
    ("time", "00", "Expected 8 byte long for time (1)"),
    ("timestamp", "00", "Expected 8 or 0 byte long for date (1)"),
    ("duration", "0000", "Expected at least 3 bytes for a duration (2)"),
    ("duration", "00000000", ""),
    (
        "duration",
        "020101",
        "The duration months, days and nanoseconds must be all of the same sign (1, -1, -1)",
    ),
    ("frozen<list<int>>", "", "Not enough bytes to read a list"),
    ("frozen<list<int>>", "00000001", "Not enough bytes to read a list"),
    ("frozen<list<int>>", "0000000100000000", ""),
    ("frozen<list<int>>", "0000000100000001ff", "Expected 4 or 0 byte int (1)"),
    ("frozen<list<int>>", "000000010000000400000001ff", "Unexpected extraneous bytes after list value"),
    ("frozen<list<int>>", "ffffffff", "The data cannot be deserialized as a list"),
    ("frozen<list<int>>", "7fffffff", "Not enough bytes to read a list"),
    ("frozen<set<int>>", "00000001ffffffff", "Null value read when not allowed"),
    ("frozen<map<int, text>>", "0000000100000004000000010000000161", ""),
    ("frozen<map<int, text>>", "000000010000000400000001ffffffff", "Null value read when not allowed"),
    ("frozen<map<int, text>>", "000000010000000400000001", "Not enough bytes to read a map"),
    ("frozen<map<int, text>>", "00000001000000040000000100000001ff", "String didn't validate."),
    ("tuple<int, text>", "", ""),
    ("tuple<int, text>", "0000000400000001", ""),
    ("tuple<int, text>", "ffffffffffffffff", ""),
    ("tuple<int, text>", "00", "Not enough bytes to read size of 0th component"),
    ("tuple<int, text>", "00000004", "Not enough bytes to read 0th component"),
    (
        "tuple<int, text>",
        "00000004000000010000000161ffffffff",
        "Invalid remaining data after end of tuple value",
    ),
    ("frozen<uv>", "", ""),
    ("frozen<uv>", "00", "Not enough bytes to read size of 0th field a"),
    ("frozen<uv>", "00000001ff", "Failure validating the 0th field a; Expected 4 or 0 byte int (1)"),
    ("vector<float, 2>", "", "Invalid empty vector value"),
    ("vector<float, 2>", "00000000", "Not enough bytes to read a vector<float, 2>"),
    ("vector<float, 2>", "000000000000000000", "Unexpected 1 extraneous bytes after vector<float, 2> value"),
    ("vector<text, 2>", "01610162", ""),
    ("vector<text, 2>", "0000", ""),
    ("vector<text, 2>", "00", "Not enough bytes to read a vector<text, 2>"),
    ("vector<text, 2>", "0161016200", "Unexpected 1 extraneous bytes after vector<text, 2> value"),
    ("vector<text, 2>", "01ff0161", "String didn't validate."),
];

#[test]
fn values_are_judged_as_a_real_node_judges_them() {
    for (ty, hex, expected) in ANSWERS {
        let answer = parse(ty).validate(&hex_bytes(hex).unwrap());
        assert_eq!(answer.err().map(|e| e.0).unwrap_or_default(), *expected, "{ty} {hex}");
    }
}

#[test]
fn empty_values_are_allowed_where_validation_says_so() {
    for name in [
        "int",
        "smallint",
        "tinyint",
        "date",
        "time",
        "duration",
        "text",
        "timestamp",
        "inet",
        "uuid",
        "frozen<list<int>>",
        "frozen<map<int, int>>",
        "tuple<int>",
        "frozen<uv>",
        "vector<float, 2>",
    ] {
        let ty = parse(name);
        assert_eq!(ty.allows_empty(), ty.validate(b"").is_ok(), "{name}");
    }
}
