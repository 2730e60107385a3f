//! What a real node made of these values is in conformance/cql/nested_values.cqltest.

use super::*;
use crate::types::collection::encode_tuple;
use std::sync::Arc;

fn int(v: i32) -> [u8; 4] {
    v.to_be_bytes()
}

fn ints(items: &[i32]) -> Bytes {
    encode_list(items.iter().copied().map(int))
}

fn set_of_int() -> CqlType {
    CqlType::set(CqlType::Int, false)
}

fn vector(element: CqlType) -> CqlType {
    CqlType::Vector { element: Arc::new(element), dimension: 1 }
}

#[test]
fn sets_are_put_in_order_and_what_is_in_order_is_not_copied() {
    let set = set_of_int();
    let sorted = ints(&[1, 2]);
    assert_eq!(normalize(&set, &sorted).as_ptr(), sorted.as_ptr());
    assert_eq!(normalize(&set, &ints(&[2, 1])), sorted);
    assert_eq!(normalize(&set, &ints(&[2, 1, 2])), sorted);
    let unsorted = ints(&[2, 1]);
    assert_eq!(normalize(&CqlType::list(CqlType::Int, false), &unsorted).as_ptr(), unsorted.as_ptr());
}

#[test]
fn sets_inside_of_collections_are_put_in_order_through_vectors_too() {
    let (sent, sorted) = (ints(&[2, 1, 2]), ints(&[1, 2]));
    let list = CqlType::list(set_of_int(), false);
    assert_eq!(normalize(&list, &encode_list([&sent])), encode_list([&sorted]));
    let list = CqlType::list(vector(set_of_int()), false);
    let one = |set: &Bytes| encode_list([encode_vector(&set_of_int(), [set])]);
    assert_eq!(normalize(&list, &one(&sent)), one(&sorted));
    let map = CqlType::map(set_of_int(), set_of_int(), false);
    let sent = map_of(&[(Cow::Borrowed(&sent), &sent)]);
    assert_eq!(normalize(&map, &sent.into()), map_of(&[(Cow::Borrowed(&sorted), &sorted)]));
}

#[test]
fn a_list_keeps_its_nulls_whatever_else_is_put_in_order() {
    let sets = |first: &[i32]| encode_nullable_list([None, Some(ints(first))]);
    let list = CqlType::list(set_of_int(), false);
    assert_eq!(normalize(&list, &sets(&[2, 1])), sets(&[1, 2]));
}

#[test]
fn sets_inside_of_tuples_user_types_and_bare_vectors_are_kept() {
    let sent = ints(&[2, 1, 2]);
    let tuple = CqlType::Tuple([set_of_int()].into());
    let vector_of_lists = vector(CqlType::list(set_of_int(), false));
    for (ty, value) in [
        (tuple.clone(), encode_tuple([Some(&sent)])),
        (vector(set_of_int()), encode_vector(&set_of_int(), [&sent])),
        (vector_of_lists, encode_vector(&set_of_int(), [encode_list([&sent])])),
        (CqlType::list(tuple.clone(), false), encode_list([encode_tuple([Some(&sent)])])),
    ] {
        assert_eq!(normalize(&ty, &value).as_ptr(), value.as_ptr(), "{ty}");
    }
    // Those that differ in bytes differ, and are in the order of their bytes.
    let set = CqlType::set(tuple, false);
    let (short, long) = (encode_tuple([Some(ints(&[1, 2]))]), encode_tuple([Some(sent)]));
    let normal = encode_list([&short, &long]);
    assert_eq!(normalize(&set, &encode_list([&long, &short, &long])), normal);
}

#[test]
fn numbers_and_addresses_are_written_anew_inside_of_collections_only() {
    for (ty, sent, stored) in [
        (CqlType::Varint, b"\0\x01".as_slice(), b"\x01".as_slice()),
        (CqlType::Varint, b"\0\0\0\xff", b"\0\xff"),
        (CqlType::Varint, b"\xff\xff\x80", b"\x80"),
        (CqlType::Varint, b"\0", b"\0"),
        (CqlType::Decimal, b"\0\0\0\x01\0\0", b"\0\0\0\x01\0"),
        (CqlType::Decimal, b"\0\0\0\0\xff", b"\0\0\0\0\xff"),
        (CqlType::Boolean, b"\x05", b"\x01"),
        (CqlType::Boolean, b"\0", b"\0"),
        (CqlType::Inet, b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x01\x02\x03\x04", b"\x01\x02\x03\x04"),
        (
            CqlType::Inet,
            b"\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04",
            b"\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04",
        ),
    ] {
        let value = Bytes::copy_from_slice(sent);
        assert_eq!(normalize(&ty, &value), value, "{ty}");
        let list = encode_list([stored, b""]);
        assert_eq!(normalize(&CqlType::list(ty.clone(), true), &encode_list([sent, b""])), list, "{ty}");
        let vector = vector(ty.clone());
        let value = encode_vector(&ty, [sent]);
        assert_eq!(normalize(&vector, &value), value, "{vector}");
        let set = encode_list([encode_vector(&ty, [stored])]);
        assert_eq!(normalize(&CqlType::set(vector, true), &encode_list([value])), set);
    }
}

#[test]
fn inner_sets_and_maps_keep_what_only_compares_as_equal() {
    let decimal = |scale: i32, digits: i8| [&scale.to_be_bytes()[..], &digits.to_be_bytes()].concat();
    let (one, long) = (decimal(0, 1), decimal(1, 10));
    let sent = encode_list([&long, &one, &long]);
    let set = CqlType::set(CqlType::Decimal, false);
    assert_eq!(normalize(&set, &sent), encode_list([&long]));
    let list = CqlType::list(set, false);
    assert_eq!(normalize(&list, &encode_list([sent])), encode_list([encode_list([&long, &one])]));

    let map = CqlType::map(CqlType::Decimal, CqlType::Int, false);
    let values = [int(1), int(2), int(3)];
    let entry = |key: &Vec<u8>, value: usize| (Cow::Owned(key.clone()), values[value - 1].as_slice());
    let sent: Bytes = map_of(&[entry(&long, 1), entry(&one, 2), entry(&long, 3)]).into();
    // The third value takes the place of the first one, before the second one does.
    assert_eq!(normalize(&map, &sent), map_of(&[entry(&long, 2)]));
    let list = CqlType::list(map, false);
    let inner = map_of(&[entry(&long, 3), entry(&one, 2)]);
    assert_eq!(normalize(&list, &encode_list([sent])), encode_list([inner]));
}

#[test]
fn a_nan_is_in_an_inner_set_once() {
    let float = |v: f32| v.to_be_bytes();
    let (nan, other) = (0x7fc0_0001_u32.to_be_bytes(), 0xffc0_0000_u32.to_be_bytes());
    let list = CqlType::list(CqlType::set(CqlType::Float, false), false);
    let sent = encode_list([encode_list([nan, float(0.0), float(-0.0), other])]);
    let stored = encode_list([encode_list([float(-0.0), float(0.0), nan])]);
    assert_eq!(normalize(&list, &sent), stored);
}
