//! Limits as nodes of Cassandra's send them.

use super::*;

fn types() -> [ValueLen; 1] {
    [ValueLen::of(&CqlType::Int)]
}

fn read(bytes: &[u8]) -> Result<Limits, PayloadError> {
    let mut input = SliceInput::new(Bytes::copy_from_slice(bytes));
    let limits = read_limits(&mut input, &types())?;
    assert_eq!(input.remaining(), 0, "all of it was read");
    Ok(limits)
}

/// Cassandra's "no limit", as a number of variable length.
const NONE: [u8; 5] = [0xf0, 0x7f, 0xff, 0xff, 0xff];

#[test]
fn a_page_says_what_is_left_of_the_partition_that_it_begins_with() {
    let limits = read(&[1, 10, 3, 0, 4, b'k', b'e', b'y', b'1', 2]).unwrap();
    assert_eq!(limits.rows, DataLimits { rows: 10, rows_per_partition: 3, distinct: false });
    assert_eq!(limits.begun, Some((Bytes::from_static(b"key1"), 2)));
    assert_eq!(limits.groups, None);
}

#[test]
fn limits_of_groups_say_where_the_last_group_stands() {
    let first = [&[4, 2][..], &NONE, &[100, 1, 1, 0]].concat();
    let limits = read(&first).unwrap();
    assert_eq!(limits.rows, DataLimits { rows: 100, ..DataLimits::NONE });
    let groups = limits.groups.unwrap();
    assert_eq!((groups.groups, groups.per_partition, groups.prefix), (2, u64::MAX, Some(1)));
    assert_eq!((groups.last_key, groups.is_open), (None, false));

    // The clustering: a header that says that its value is there, then an int.
    let state = [1, 1, b'k', 1, 0, 0, 0, 0, 7];
    let next = [&[5, 2, 3, 100, 0][..], &state, &[1, b'k', 1]].concat();
    let groups = read(&next).unwrap().groups.unwrap();
    let row = Clustering::from_values([&7i32.to_be_bytes()[..]]);
    assert_eq!((groups.prefix, groups.last_row, groups.is_open), (None, Some(row), true));
    assert_eq!(groups.begun, Some((Bytes::from_static(b"k"), 1)));
}

#[test]
fn groups_by_functions_are_those_of_what_precedes_them() {
    // floor(c, 10) with its second argument given, of a column.
    let function = [
        &[9, 0, 6][..],
        b"system",
        &[0, 5],
        b"floor",
        &[2, 0, 3],
        b"int",
        &[0, 3],
        b"int",
        &[1, 2, 4, 0, 0, 0, 10, 1],
        &[0, 1, b'c', 0, 0, 0, 1],
    ]
    .concat();
    let of_function = [&[4, 2, 3, 100, 2, 1][..], &function, &[0]].concat();
    assert_eq!(read(&of_function).unwrap().groups.unwrap().prefix, Some(0));
    // Cut anywhere, it is an error.
    for len in 0..of_function.len() {
        assert!(read(&of_function[..len]).is_err(), "{len} bytes");
    }
    let nested = [&[4, 2, 3, 100, 2, 1][..], &[9, 0, 0, 0, 0, 0, 0, 1].repeat(64)].concat();
    assert!(matches!(read(&nested), Err(PayloadError::Unsupported(_))));
}
