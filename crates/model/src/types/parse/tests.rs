use super::*;

/// Type, text, and the bytes that a real node makes of it.
const TAKEN: &[(&str, &str, &str)] = &[
    ("timestamp", "2015-05-03 13:30:54.234+0100", "0000014d19c2011a"),
    ("timestamp", "2015-05-03", "0000014d17128800"),
    ("timestamp", "2015-05-03T13:30", "0000014d19f81bc0"),
    ("timestamp", "2015-05-03 13:30:54", "0000014d19f8eeb0"),
    ("timestamp", "2015-05-03T13:30:54.1Z", "0000014d19f8ef14"),
    ("timestamp", "2015-05-03T13:30:54.12Z", "0000014d19f8ef28"),
    ("timestamp", "2015-05-03 13:30 UTC", "0000014d19f81bc0"),
    ("timestamp", "2015-05-03 13:30:54 +01:00", "0000014d19c20030"),
    ("timestamp", "2015-05-03 13:30:54.234567Z", "0000014d19f8ef9a"),
    ("timestamp", "2015-05-03 13:30:54.234567891Z", "0000014d19f8ef9a"),
    ("timestamp", "2015-05-03+01", "0000014d16db9980"),
    ("timestamp", "2015-05-03+0130", "0000014d16c02240"),
    ("timestamp", "2015-05-03 GMT", "0000014d17128800"),
    ("timestamp", "1430659854234", "0000014d19f8ef9a"),
    ("timestamp", "-5", "fffffffffffffffb"),
    ("timestamp", "2015-02-30", "0000014bcd7b8800"),
    ("timestamp", "-0001-01-01", "ffffc76e394a7400"),
    ("timestamp", "", ""),
    ("timestamp", "5", "0000000000000005"),
    ("timestamp", "-5", "fffffffffffffffb"),
    ("timestamp", "2015-05-03 1:30:54", "0000014d1765c0b0"),
    ("timestamp", "2015-05-03 24:00:00", "0000014d1c38e400"),
    ("timestamp", "0000-01-01", "ffffc77590fba000"),
    ("timestamp", "2015-05-03 13:30:54.1234Z", "0000014d19f8ef2b"),
    ("date", "2015-05-03", "800040ae"),
    ("date", "-5877641-06-23", "00000000"),
    ("date", "0", "00000000"),
    ("date", "2147483648", "80000000"),
    ("date", "2147483648", "80000000"),
    ("date", "4294967295", "ffffffff"),
    ("date", "0000-01-01", "7ff50558"),
    ("date", "-0044-03-15", "7ff4c6db"),
    ("date", "+12015-05-03", "8037fbf7"),
    ("time", "13:30:54", "00002c4024630c00"),
    ("time", "13:30:54.123456789", "00002c402bbed915"),
    ("time", "1:2:3", "00000362d417ae00"),
    ("time", "0", "0000000000000000"),
    ("time", "86399999999999", "00004e94914effff"),
    ("time", "1234", "00000000000004d2"),
    ("time", "13:30:54.12", "00002c402b8a1a00"),
    ("time", "+13:30:54", "00002c4024630c00"),
    ("time", " 13:30:54", "00002c4024630c00"),
    ("int", "5", "00000005"),
    ("int", "-2147483648", "80000000"),
    ("bigint", "5", "0000000000000005"),
    ("smallint", "-32768", "8000"),
    ("smallint", "5", "0005"),
    ("tinyint", "-128", "80"),
    ("varint", "123456789012345678901234567890", "018ee90ff6c373e0ee4e3f0ad2"),
    ("decimal", "1.50", "000000020096"),
    ("decimal", "1e10", "fffffff601"),
    ("decimal", "1E-10", "0000000a01"),
    ("decimal", "-0.0", "0000000100"),
    ("decimal", "5", "0000000005"),
    ("decimal", "0e10", "fffffff600"),
    ("decimal", "100", "0000000064"),
    ("float", "1.5", "3fc00000"),
    ("float", "1e10", "501502f9"),
    ("float", "NaN", "7fc00000"),
    ("float", "Infinity", "7f800000"),
    ("float", "-Infinity", "ff800000"),
    ("float", "-NaN", "7fc00000"),
    ("float", "1e40", "7f800000"),
    ("float", "5", "40a00000"),
    ("float", "3.4028235e38", "7f7fffff"),
    ("float", "1.17549435E-38", "00800000"),
    ("double", "1.5", "3ff8000000000000"),
    ("double", "5", "4014000000000000"),
    ("double", "NaN", "7ff8000000000000"),
    ("double", "1e-400", "0000000000000000"),
    ("double", "123456789.123456789", "419d6f34547e6b75"),
    ("double", "100", "4059000000000000"),
    ("double", "1e7", "416312d000000000"),
    ("double", "1e6", "412e848000000000"),
    ("double", "0.001", "3f50624dd2f1a9fc"),
    ("double", "0.0001", "3f1a36e2eb1c432d"),
    ("double", "-0.0", "8000000000000000"),
    ("double", "4.9e-324", "0000000000000001"),
    ("double", "2e-3", "3f60624dd2f1a9fc"),
    ("double", "1.0E23", "44b52d02c7e14af6"),
    ("double", "2.2250738585072014E-308", "0010000000000000"),
    ("double", "9007199254740993", "4340000000000000"),
    ("boolean", "true", "01"),
    ("boolean", "FALSE", "00"),
    ("ascii", "abc", "616263"),
    ("ascii", "", ""),
    ("blob", "", ""),
    ("blob", "AB", "ab"),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
    ("uuid", "123e4567-e89b-42d3-a456-426614174000", "123e4567e89b42d3a456426614174000"),
    ("timeuuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
    ("inet", "127.0.0.1", "7f000001"),
    ("inet", "::1", "00000000000000000000000000000001"),
    ("inet", "", ""),
    ("inet", "fe80::1%eth0", "fe800000000000000000000000000001"),
    ("inet", "2001:db8::0:1", "20010db8000000000000000000000001"),
    ("inet", "::ffff:1.2.3.4", "01020304"),
    ("inet", "1.2.3", "01020003"),
    ("inet", "1", "00000001"),
    ("inet", "2001:db8:0:0:1:0:0:1", "20010db8000000000001000000000001"),
    ("duration", "1y2mo3w4d5h6m7s8ms9us10ns", "1c32fc2168cdf9d664"),
    ("duration", "P1Y2M3DT4H5M6S", "1c06fc1ac003cfe800"),
    ("duration", "-1mo", "010000"),
    ("duration", "P0001-02-03T04:05:06", "1c06fc1ac003cfe800"),
    ("duration", "P1W", "000e00"),
    ("duration", "-P1D", "000100"),
    ("duration", "1µs", "000087d0"),
    ("duration", "89h4m48s", "0000fe024753fca5c000"),
    ("duration", "0s", "000000"),
    ("duration", "PT36H", "0000fcebbdb3ed0000"),
    ("duration", "1us", "000087d0"),
    ("duration", "1d24h", "0002fc9d29229e0000"),
    ("duration", "999ms", "0000f077170f80"),
    ("duration", "1000ms", "0000f077359400"),
    ("duration", "-2d3h", "0003fc13a52453bfff"),
    ("duration", "9223372036854775807ns", "0000fffffffffffffffffe"),
];

/// Type, text, and what a real node says to it.
const REFUSED: &[(&str, &str, &str)] = &[
    ("timestamp", "12-05-03", "Unable to parse a date/time from '12-05-03'"),
    ("timestamp", "2015-13-03", "Unable to parse a date/time from '2015-13-03'"),
    ("timestamp", "10000-01-01", "Unable to parse a date/time from '10000-01-01'"),
    ("timestamp", "x", "Unable to parse a date/time from 'x'"),
    ("timestamp", "2015-5-3", "Unable to parse a date/time from '2015-5-3'"),
    ("timestamp", "2015-05-03  13:30", "Unable to parse a date/time from '2015-05-03  13:30'"),
    ("timestamp", "9223372036854775808", "Unable to make long (for date) from: '9223372036854775808'"),
    (
        "timestamp",
        "2015-05-03 13:30:54Europe/Berlin",
        "Unable to parse a date/time from '2015-05-03 13:30:54Europe/Berlin'",
    ),
    ("timestamp", "2015-05-03t13:30z", "Unable to parse a date/time from '2015-05-03t13:30z'"),
    ("date", "5881580-07-11", "Unable to coerce '5881580-07-11' to a formatted date (long)"),
    ("date", "5881580-07-12", "Unable to coerce '5881580-07-12' to a formatted date (long)"),
    ("date", "-1", "Unable to make unsigned int (for date) from: '-1'"),
    ("date", "4294967296", "Unable to make unsigned int (for date) from: '4294967296'"),
    ("date", "x", "Unable to coerce 'x' to a formatted date (long)"),
    ("date", "", "Unable to coerce '' to a formatted date (long)"),
    ("date", "2015-5-3", "Unable to coerce '2015-5-3' to a formatted date (long)"),
    ("date", "2015-02-30", "Unable to coerce '2015-02-30' to a formatted date (long)"),
    ("date", "+2015-05-03", "Unable to coerce '+2015-05-03' to a formatted date (long)"),
    ("date", "12015-05-03", "Unable to coerce '12015-05-03' to a formatted date (long)"),
    ("date", "15-05-03", "Unable to coerce '15-05-03' to a formatted date (long)"),
    ("date", "4294967296", "Unable to make unsigned int (for date) from: '4294967296'"),
    ("date", "-1", "Unable to make unsigned int (for date) from: '-1'"),
    ("time", "13:30", "(TimeType) Unable to coerce '13:30' to a formatted time (long)"),
    ("time", "24:00:00", "(TimeType) Unable to coerce '24:00:00' to a formatted time (long)"),
    ("time", "23:59:60", "(TimeType) Unable to coerce '23:59:60' to a formatted time (long)"),
    ("time", "13:60:00", "(TimeType) Unable to coerce '13:60:00' to a formatted time (long)"),
    (
        "time",
        "13:30:54.1234567890",
        "(TimeType) Unable to coerce '13:30:54.1234567890' to a formatted time (long)",
    ),
    ("time", "13:30:54.", "(TimeType) Unable to coerce '13:30:54.' to a formatted time (long)"),
    ("time", "x", "(TimeType) Unable to coerce 'x' to a formatted time (long)"),
    ("time", "", "(TimeType) Unable to coerce '' to a formatted time (long)"),
    ("time", "86400000000000", "Unable to make long (for time) from: '86400000000000'"),
    ("time", "-1", "Unable to make long (for time) from: '-1'"),
    ("time", "86400000000000", "Unable to make long (for time) from: '86400000000000'"),
    ("time", "0x10", "(TimeType) Unable to coerce '0x10' to a formatted time (long)"),
    ("time", "-1", "Unable to make long (for time) from: '-1'"),
    ("int", "2147483648", "Unable to make int from '2147483648'"),
    ("bigint", "9223372036854775808", "Unable to make long from '9223372036854775808'"),
    ("smallint", "32768", "Unable to make short from '32768'"),
    ("tinyint", "128", "Unable to make byte from '128'"),
    ("decimal", "NaN", "unable to make BigDecimal from 'NaN'"),
    (
        "ascii",
        "é",
        "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1",
    ),
    ("blob", "a", "cannot parse 'a' as hex bytes"),
    ("timeuuid", "123e4567-e89b-42d3-a456-426614174000", "TimeUUID supports only version 1 UUIDs"),
    ("inet", "x.y", "Unable to make inet address from 'x.y'"),
    ("inet", "256.1.1.1", "Unable to make inet address from '256.1.1.1'"),
    ("duration", "5", "Unable to convert '5' to a duration"),
    ("duration", "1d1y", "Invalid duration. The days should be after years"),
    ("duration", "1mo1mo", "Invalid duration. The months are specified multiple times"),
    (
        "duration",
        "2147483648mo",
        "Invalid duration. The total number of months must be less or equal to 2147483647",
    ),
    (
        "duration",
        "1y2147483647mo",
        "Invalid duration. The total number of months must be less or equal to 2147483647",
    ),
    (
        "duration",
        "2562047788015216h",
        "Invalid duration. The total number of nanoseconds must be less or equal to 2147483647",
    ),
];

/// Timestamps and how a real node shows them again; "" where it refuses them.
const TIMESTAMPS: &[(&str, &str)] = &[
    ("+10000-01-01", "+10000-01-01 00:00:00.000Z"),
    ("2015-05-03 13:30:54+0100", "2015-05-03 12:30:54.000Z"),
    ("2015-05-03 13:30:54+01:00:00", ""),
    ("2015-05-03 13:30:54-08", "2015-05-03 21:30:54.000Z"),
    ("2015-05-03 13:30:54 utc", ""),
    ("2015-05-03 13:30:54UTC", ""),
    ("2015-05-03 13:30:54 Etc/UTC", "2015-05-03 13:30:54.000Z"),
    ("2015-05-03 13:30.5", ""),
    ("2015-05-03T", ""),
    ("2015-05-03 13:30 ", ""),
    (" 2015-05-03 13:30", ""),
    ("2015-05-03 13:3", "2015-05-03 13:03:00.000Z"),
    ("2015-05-03 13", ""),
    ("2015-05-03 13:30:5", "2015-05-03 13:30:05.000Z"),
    ("2015-05-03 13:30:54.1234567891", ""),
    ("2015-05-03 13:30:54.", "2015-05-03 13:30:54.000Z"),
    ("2015-05-03 25:00", ""),
    ("2015-05-03 13:60", ""),
    ("2015-05-03 13:30:60", ""),
    ("2015-05-03 24:00:01", ""),
    ("2015-04-31", "2015-04-30 00:00:00.000Z"),
    ("2015-02-32", ""),
    ("2015-00-10", ""),
    ("2015-05-03 Z", "2015-05-03 00:00:00.000Z"),
    ("2015-05-03Z", "2015-05-03 00:00:00.000Z"),
    ("2015-05-03 +01", "2015-05-02 23:00:00.000Z"),
    ("2015-05-03 +0100", "2015-05-02 23:00:00.000Z"),
    ("2015-05-03+01:00", "2015-05-02 23:00:00.000Z"),
    ("2015-05-03 UTC", "2015-05-03 00:00:00.000Z"),
    ("2015-05-03 13:30:54,5", ""),
    ("2015-05-03 13:30:54.5 +0100", "2015-05-03 12:30:54.500Z"),
    ("2015-05-03 13:30:54+19:00", ""),
    ("2015-05-03 13:30:54+1", ""),
    ("2015-05-03 13:30:54+18:00", "2015-05-02 19:30:54.000Z"),
    ("2015-05-03 13:30:54 GMT+1", ""),
    ("2015-05-03 13:30:54 GMT+01:00", "2015-05-03 12:30:54.000Z"),
    ("2015-05-03 13:30:54-0000", "2015-05-03 13:30:54.000Z"),
    ("20150503", "1970-01-01 05:35:50.503Z"),
    ("2015-05", ""),
    ("2015", "1970-01-01 00:00:02.015Z"),
    ("99999999999999999", "+3170843-11-07 09:46:39.999Z"),
    ("2015-05-03t13:30", ""),
    ("2015-05-03T13:30z", ""),
    ("2015-05-03 13:30:54 UT", "2015-05-03 13:30:54.000Z"),
    ("2015-05-03 13:30+05:30", "2015-05-03 08:00:00.000Z"),
    ("2015-05-03 13:30 +0530", "2015-05-03 08:00:00.000Z"),
    ("+5", ""),
    ("2015-005-03", ""),
    ("02015-05-03", ""),
];

fn ty(name: &str) -> CqlType {
    CqlType::from_native_name(name).unwrap()
}

#[test]
fn texts_mean_what_they_mean_to_a_real_node() {
    for (name, text, hex) in TAKEN {
        let value = ty(name).parse_text(text, 0);
        assert_eq!(value, Ok(hex_bytes(hex).unwrap().into()), "{name} {text}");
        assert_eq!(ty(name).validate(&value.unwrap()), Ok(()), "{name} {text}");
    }
}

#[test]
fn errors_are_those_of_a_real_node() {
    for (name, text, message) in REFUSED {
        let error = ty(name).parse_text(text, 0).unwrap_err();
        assert_eq!(error.0, *message, "{name} {text}");
    }
}

#[test]
fn timestamps_of_all_forms() {
    for (text, shown) in TIMESTAMPS {
        let json = CqlType::Timestamp.parse_text(text, 0).map(|v| CqlType::Timestamp.to_json(Some(&v)));
        assert_eq!(json.unwrap_or_default().trim_matches('"'), *shown, "{text}");
    }
    assert_eq!(CqlType::Timestamp.parse_text("Now", 258).unwrap().as_ref(), 258i64.to_be_bytes());
}

/// Strings of JSON reach more forms than the constants of CQL.
#[test]
fn numbers_in_strings() {
    for (name, text, json) in [
        ("int", "+5", "5"),
        ("double", "1d", "1.0"),
        ("double", " 1 ", "1.0"),
        ("double", "", "\"\""),
        ("boolean", "TRUE", "true"),
        ("boolean", "", "false"),
        ("decimal", "1e400", "1E+400"),
        ("decimal", "+1.5", "1.5"),
        ("decimal", ".5", "0.5"),
        ("decimal", "5.", "5"),
        ("decimal", "1e+5", "1E+5"),
        ("decimal", "1e2147483647", "1E+2147483647"),
        ("decimal", "0.0000001", "1E-7"),
        ("decimal", "-0.00", "0.00"),
        ("varint", "+5", "5"),
    ] {
        let value = ty(name).parse_text(text, 0).unwrap();
        assert_eq!(ty(name).to_json(Some(&value)), json, "{name} {text}");
    }
    for (name, text) in [
        ("int", " 5"),
        ("decimal", "1_0"),
        ("decimal", "."),
        ("decimal", "1.-5"),
        ("varint", "-"),
        ("varint", " 5"),
        ("varint", "1_0"),
        ("double", "inf"),
        ("double", "nan"),
        ("double", "1e"),
        ("uuid", "1-1-1-1-1"),
        ("uuid", "123e4567e89b12d3a456426614174000"),
    ] {
        assert!(ty(name).parse_text(text, 0).is_err(), "{name} {text}");
    }
}

#[test]
fn a_tuple_is_its_fields_with_colons_between_them() {
    let ty = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
    for (text, literal) in [
        ("1:a", "(1, 'a')"),
        ("1", "(1)"),
        ("@:b", "(null, 'b')"),
        ("1:a\\:b", "(1, 'a:b')"),
        ("1:a\\@b", "(1, 'a@b')"),
        ("1:", "(1, '')"),
    ] {
        let value = ty.parse_text(text, 0).unwrap();
        let fields: Vec<Option<&[u8]>> = crate::types::collection::tuple_fields(&value).collect();
        let shown: Vec<String> = fields
            .iter()
            .zip([CqlType::Int, CqlType::Text])
            .map(|(field, ty)| ty.to_literal(*field))
            .collect();
        assert_eq!(format!("({})", shown.join(", ")), literal, "{text}");
    }
    assert_eq!(ty.parse_text("", 0).unwrap(), Bytes::new());
    let nested = CqlType::Tuple([CqlType::list(CqlType::Int, false)].into());
    assert_eq!(nested.parse_text("00000000", 0).unwrap().as_ref(), b"\0\0\0\x04\0\0\0\0");
    assert_eq!(nested.parse_text("[1]", 0).unwrap_err().0, "cannot parse '[1]' as hex bytes");
    assert!(nested.parse_text("00000001", 0).is_err());
    assert_eq!(ty.parse_text("a:b", 0).unwrap_err().0, "Unable to make int from 'a'");
    assert_eq!(
        ty.parse_text("1:a:b", 0).unwrap_err().0,
        "Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 but got 3"
    );
}

/// Digit by digit this would take minutes.
#[test]
fn long_numbers_are_parsed_in_pieces() {
    let number = |text: &str| BigInt::from_signed_bytes_be(&CqlType::Varint.parse_text(text, 0).unwrap());
    let ten = BigInt::from(10);
    for zeros in [1_023, 1_024, 1_025, 3_000, 2_000_000] {
        let text = format!("-1{}7", "0".repeat(zeros));
        let expected: BigInt = ten.pow(zeros as u32 + 1) + 7;
        assert!(number(&text) == -expected, "{zeros} zeros");
    }
    let text = "1234567890".repeat(700);
    assert_eq!(number(&text).to_string(), text);
    assert_eq!(number(&format!("+{}{text}", "0".repeat(5_000))).to_string(), text);
    let decimal =
        CqlType::Decimal.parse_text(&format!("{}.{}e3", "1".repeat(1_500), "2".repeat(500)), 0).unwrap();
    assert_eq!(decimal[..4], 497i32.to_be_bytes());
}
