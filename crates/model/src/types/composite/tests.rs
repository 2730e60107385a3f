use super::*;
use crate::types::parse::hex_bytes;

const STATIC: &str = "CompositeType(Int32Type,UTF8Type)";
const NESTED: &str = "CompositeType(CompositeType(Int32Type),ListType(Int32Type))";
const DYNAMIC: &str =
    "DynamicCompositeType(s=>UTF8Type,i=>ReversedType(Int32Type),z=>CompositeType(Int32Type))";

fn parse(class: &str) -> CqlType {
    CqlType::parse_class(class).unwrap().ty
}

fn text(class: &str, text: &str) -> Vec<u8> {
    parse(class).parse_text(text, 0).unwrap().to_vec()
}

/// Type, bytes, and what a real node says to them ("" when it takes them).
const ANSWERS: &[(&str, &str, &str)] = &[
    (STATIC, "", ""),
    (STATIC, "ffff", ""),
    (STATIC, "00040000000101", ""),
    (STATIC, "000400000001000001617f", ""),
    (STATIC, "00", "Not enough bytes to read value size of component 0"),
    (STATIC, "0004", "Not enough bytes to read value of component 0"),
    (STATIC, "000400000001", "Not enough bytes to read the end-of-component byte of component0"),
    (STATIC, "0004000000010100", "Invalid bytes remaining after an end-of-component at component0"),
    (STATIC, "0003000001", "Expected 4 or 0 byte int (3)"),
    (STATIC, "00040000000100000161000000", "Too many bytes for comparator"),
    (NESTED, "00070004000000010000000c00000001000000040000000500", ""),
    (NESTED, "000700040000000101000000040000000000", "Not enough bytes to read a list"),
    (DYNAMIC, "", ""),
    (DYNAMIC, "000000016100", ""),
    (DYNAMIC, "80", "Not enough bytes to header of the comparator part of component 0"),
    (DYNAMIC, "0008", "Not enough bytes to read comparator name of component 0"),
    (DYNAMIC, "8078000000", "Cannot find comparator for component 0"),
    (DYNAMIC, "0001710000", "Cannot find comparator for component 0"),
    (DYNAMIC, "8073", "Not enough bytes to read value size of component 0"),
    (DYNAMIC, "80730005", "Not enough bytes to read value of component 0"),
    (DYNAMIC, "8073000161", "Not enough bytes to read the end-of-component byte of component0"),
    (DYNAMIC, "8073000161017373", "Invalid bytes remaining after an end-of-component at component0"),
];

#[test]
fn values_are_judged_as_a_real_node_judges_them() {
    for (class, value, answer) in ANSWERS {
        let said = parse(class).validate(&hex_bytes(value).unwrap());
        assert_eq!(said.map_or_else(|e| e.0, |()| String::new()), *answer, "{class} {value}");
    }
}

/// Type, bytes, what a real node shows of them; `<` where that text does not mean these bytes.
const TEXTS: &[(&str, &str, &str)] = &[
    (STATIC, "", ""),
    (STATIC, "000400000001000003666f6f00", "1:foo"),
    (STATIC, "00040000000100", "1"),
    (STATIC, "00040000000100000000", "1:"),
    (STATIC, "0000000000017f00", "<"),
    (STATIC, "000400000001000003666f6f01", "1:foo:!"),
    (STATIC, "000400000001ff", "1:_"),
    (STATIC, "ffff00040000000100", "<1"),
    (STATIC, "000400000001000003613a6200", "1:a\\:b"),
    (STATIC, "0004000000010000015c00", "1:\\!"),
    (STATIC, "000400000001000002212100", "1:!!!"),
    (STATIC, "0003", "<0003"),
    (NESTED, "00070004000000010000000c00000001000000040000000500", "1:000000010000000400000005"),
    (DYNAMIC, "80730003666f6f00806900040000002000", "s@foo:i@32"),
    (DYNAMIC, "000855544638547970650003003a6100", "UTF8Type@\0\\:a"),
    (DYNAMIC, "0000000161008069000000", "@61:i@"),
    (DYNAMIC, "807a000700040000000200ff", "z@2:_"),
    (DYNAMIC, "00165265766572736564547970652855544638547970652900017800", "ReversedType(UTF8Type)@x"),
    (DYNAMIC, "80730003666f6f000000000000", "<s@foo:@"),
];

#[test]
fn texts_are_those_of_a_real_node_and_mean_the_value() {
    for (class, value, shown) in TEXTS {
        let (ty, value) = (parse(class), hex_bytes(value).unwrap());
        match shown.strip_prefix('<') {
            Some("") => {}
            Some(shown) => assert_eq!(ty.to_text(&value), shown, "{class}"),
            None => {
                assert_eq!(ty.to_text(&value), *shown, "{class}");
                assert_eq!(ty.parse_text(shown, 0).unwrap(), value, "{class} {shown}");
            }
        }
    }
}

#[test]
fn texts_that_a_real_node_takes_mean_what_they_mean_to_it() {
    for (class, text, value) in [
        (STATIC, "1:foo!", "000400000001000003666f6f00"),
        (STATIC, ":foo", "0000000003666f6f00"),
        (STATIC, "1:_:more", "000400000001ff"),
        (DYNAMIC, "s@", "8073000000"),
        (DYNAMIC, "s", "8073000000"),
        (DYNAMIC, "s@foo:", "80730003666f6f000000000000"),
        (DYNAMIC, "s@foo@", "80730003666f6f00"),
        (DYNAMIC, "UTF8Type(reversed=true)@1", "001755544638547970652872657665727365643d747275652900013100"),
    ] {
        assert_eq!(parse(class).parse_text(text, 0).unwrap(), hex_bytes(value).unwrap(), "{text}");
    }
}

#[test]
fn texts_that_mean_no_value_are_refused() {
    let long = format!("1:{}", "x".repeat(65_536));
    let class = format!("{}@x", " ".repeat(32_768));
    for (ty, text) in [
        (STATIC, "x:foo"),
        (STATIC, "1:foo:bar"),
        (STATIC, "!"),
        (STATIC, "_"),
        (STATIC, long.as_str()),
        (DYNAMIC, "q@foo"),
        (DYNAMIC, "s@foo@bar"),
        (DYNAMIC, "@"),
        (DYNAMIC, "@foo"),
        (DYNAMIC, "DynamicCompositeType(a=>Int32Type)@a"),
        (DYNAMIC, class.as_str()),
    ] {
        assert!(parse(ty).parse_text(text, 0).is_err(), "{text:.20}");
    }
}

#[test]
fn components_are_compared_one_by_one_then_their_ends() {
    let rising = ["", "0", "1:_", "1", "1:a", "1:a:!", "1:b", "1:!", "2"].map(|t| text(STATIC, t));
    let name = hex_bytes("ffff00040000000900").unwrap();
    let broken = hex_bytes("000400").unwrap();
    let ty = parse(STATIC);
    let all: Vec<&Vec<u8>> = [&rising[0], &name].into_iter().chain(&rising[1..]).chain([&broken]).collect();
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(ty.compare(a, b), i.cmp(&j), "{a:02x?} {b:02x?}");
        }
    }
    let reversed = "CompositeType(ReversedType(Int32Type),UTF8Type)";
    assert!(parse(reversed).compare(&text(reversed, "1:a"), &text(reversed, "2:a")).is_gt());
}

#[test]
fn components_of_different_types_are_ordered_by_class() {
    let ty = parse(DYNAMIC);
    let compare = |a: &str, b: &str| ty.compare(&text(DYNAMIC, a), &text(DYNAMIC, b));
    assert!(compare("BytesType@ff", "LongType@0").is_lt());
    assert!(compare("i@1", "s@a").is_lt(), "ReversedType is before UTF8Type");
    assert!(compare("i@1", "i@2").is_gt());
    assert!(compare("i@1", "Int32Type@1").is_gt());
    assert!(compare("s@a:i@1", "org.apache.cassandra.db.marshal.UTF8Type@a:i@1").is_eq());
    assert!(compare("org.apache.cassandra.db.marshal.UTF8Type@a:i@2", "s@a:i@1").is_lt());
}

#[test]
fn aliases_stand_in_the_order_of_a_hash_map() {
    let class = "DynamicCompositeType(Z=>ReversedType(Int32Type),a=>ReversedType(UTF8Type),9=>LongType,_=>BytesType,\
                 &=>BytesType,+=>AsciiType,9=>ShortType)";
    let printed = parse(class).class_name().replace("org.apache.cassandra.db.marshal.", "");
    assert_eq!(
        printed,
        "DynamicCompositeType(a=>ReversedType(UTF8Type),&=>BytesType,9=>ShortType,Z=>ReversedType(Int32Type),\
         +=>AsciiType,_=>BytesType)"
    );
    // Cassandra keeps the one that it saw first.
    let (ab, ba) = (
        parse("DynamicCompositeType(a=>UTF8Type,A=>LongType)"),
        parse("DynamicCompositeType(A=>LongType,a=>UTF8Type)"),
    );
    assert_eq!(ab, ba);
    let hash = |ty: &CqlType| {
        std::hash::BuildHasher::hash_one(
            &std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default(),
            ty,
        )
    };
    assert_eq!(hash(&ab), hash(&ba));
    assert_ne!(ab, parse("DynamicCompositeType(A=>LongType)"));
}

/// A value cannot make the walk over it deeper than its type.
#[test]
fn what_a_value_names_is_bounded() {
    let ty = parse("DynamicCompositeType");
    let mut value = b"\0\0\0\x01a\0".to_vec();
    for _ in 0..1000 {
        let class = b"DynamicCompositeType()";
        let len = |bytes: &[u8]| (bytes.len() as u16).to_be_bytes();
        value = [&len(class)[..], class, &len(&value), &value, b"\0"].concat();
    }
    let _ = (ty.compare(&value, &value.clone()), ty.to_text(&value));
    assert_eq!(ty.validate(&value).unwrap_err().0, "Cannot find comparator for component 0");
    for class in [
        "FrozenType(".repeat(20_000),
        "com.example.Mine".to_owned(),
        format!("CompositeType({})", "Int32Type,".repeat(200)),
    ] {
        assert!(parse_named(&class).is_none());
    }
}
