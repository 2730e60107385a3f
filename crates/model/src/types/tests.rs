#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]
use super::*;
use crate::byte_comparable::encode_value;
use proptest::prelude::*;
use std::cmp::Ordering;

/// A class string does not say what the keyspace's user types are called in CQL, so names are looked up in
/// the type.
fn find_in(ty: &CqlType, name: &str) -> Option<Arc<UserType>> {
    match ty {
        CqlType::Udt { definition, .. } if definition.name == name => Some(Arc::clone(definition)),
        other => other.inner().into_iter().find_map(|part| find_in(part, name)),
    }
}

fn three_values() -> impl Strategy<Value = (CqlType, [Vec<u8>; 3])> {
    samples::ty().prop_flat_map(|ty| {
        let values = [samples::value(&ty), samples::value(&ty), samples::value(&ty)];
        (Just(ty), values)
    })
}

/// Whether text keeps the value. An IPv6 address that holds an IPv4 one becomes that, and the year of a
/// timestamp before Christ loses its era; an empty boolean reads as false.
fn is_text_exact(ty: &CqlType) -> bool {
    ty.is_scalar() && !matches!(ty, CqlType::Inet | CqlType::Boolean | CqlType::Timestamp)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn class_strings_round_trip(ty in samples::ty()) {
        let class = ty.class_name();
        let parsed = CqlType::parse_class(&class).unwrap().ty;
        prop_assert_eq!(parsed.frozen(), ty, "{}", class);
    }

    #[test]
    fn names_round_trip(ty in samples::ty()) {
        // Types of one name may differ in a random type; a keyspace has one of each name.
        let name = ty.to_string();
        if name.matches("frozen<u>").count() + name.matches("UserType(").count() <= 1 {
            prop_assert_eq!(CqlType::parse_cql(&name, &|n| find_in(&ty, n)).unwrap(), ty, "{}", name);
        }
    }

    #[test]
    fn valid_values_are_valid_and_have_one_order((ty, [a, b, c]) in three_values()) {
        prop_assert_eq!(ty.validate(&a), Ok(()));
        prop_assert_eq!(ty.compare(&a, &a), Ordering::Equal);
        prop_assert_eq!(ty.compare(&a, &b), ty.compare(&b, &a).reverse());
        if ty.compare(&a, &b).is_le() && ty.compare(&b, &c).is_le() {
            prop_assert!(ty.compare(&a, &c).is_le(), "{} {:?} {:?} {:?}", ty, a, b, c);
        }
        let normal = normal::normalize(&ty, &a.into());
        prop_assert_eq!(ty.validate(&normal), Ok(()));
        prop_assert_eq!(normal::normalize(&ty, &normal), normal);
    }

    #[test]
    fn text_of_scalars_is_understood_again((ty, [value, _, _]) in three_values()) {
        if is_text_exact(&ty) {
            let text = ty.to_text(&value);
            let again = ty.parse_text(&text, 0);
            let order = again.as_ref().map(|v| ty.compare(v, &value));
            prop_assert_eq!(order, Ok(Ordering::Equal), "{} {}", ty, text);
        }
    }

    /// What matters is that nothing panics.
    #[test]
    fn bytes_from_outside_do_no_harm(
        ty in samples::ty(),
        a in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => 0u8..5, 1 => any::<u8>()], 0..40),
        b: Vec<u8>,
        text: String,
    ) {
        let valid = ty.validate(&a).is_ok();
        let _ = (ty.compare(&a, &b), ty.to_text(&a), ty.to_literal(Some(&a)), ty.parse_text(&text, 0));
        let json = ty.to_json(Some(&a));
        prop_assert!(!valid || !json.is_empty());
        let _ = encode_value(&ty, &a, &mut Vec::new());
        let normal = normal::normalize(&ty, &a.into());
        prop_assert!(!valid || ty.validate(&normal).is_ok());
        let _ = (CqlType::parse_class(&text), CqlType::parse_cql(&text, &|_| None));
    }

    #[test]
    fn text_from_outside_does_no_harm(
        ty in samples::ty(),
        text in "[-+]?[0-9PT:. ZeE]{0,12}|[0-9]{1,10}-[0-9]{2}-[0-9]{2}[ T]?[0-9:.+Z -]{0,14}",
    ) {
        if let Ok(value) = ty.parse_text(&text, 0) {
            prop_assert_eq!(ty.validate(&value), Ok(()), "{} {}", ty, text);
        }
    }
}

#[test]
fn years_beyond_what_a_timestamp_holds_are_refused() {
    assert!(CqlType::Timestamp.parse_text("+999999999-01-01", 0).is_err());
    assert!(CqlType::Timestamp.parse_text("-999999999-01-01 00:00", 0).is_err());
}

/// A type as deep as one that is read back may be, on the stack that a thread has by default.
#[test]
fn the_deepest_type_that_is_read_back_is_walked_on_a_small_stack() {
    let walk = || {
        let depth = TypeBounds::STORED.depth_max;
        let mut deep = CqlType::Int;
        let mut value = vec![0, 0, 0, 7];
        for level in 1..depth {
            let element = Arc::new(deep);
            let mut outer = Vec::new();
            deep = if level % 3 == 0 {
                let definition = UserType {
                    keyspace: "ks".into(),
                    name: format!("u{level}"),
                    fields: vec![("f".into(), element.as_ref().clone())],
                };
                CqlType::Udt { definition: Arc::new(definition), multi_cell: false }
            } else {
                outer.extend_from_slice(&1i32.to_be_bytes());
                CqlType::List { element, multi_cell: false }
            };
            outer.extend_from_slice(&(value.len() as i32).to_be_bytes());
            outer.extend_from_slice(&value);
            value = outer;
        }
        assert_eq!(TypeBounds::STORED.measure(&deep).unwrap().depth, depth);
        let class = deep.class_name();
        assert_eq!(CqlType::parse_class(&class).unwrap().ty, deep);
        deep.validate(&value).unwrap();
        assert!(deep.compare(&value, &value).is_eq());
        let lists = format!("{}int{}", "frozen<list<".repeat(depth - 1), ">>".repeat(depth - 1));
        let read = CqlType::parse_cql(&lists, &|_| None).unwrap();
        assert_eq!(read.to_string(), lists);
        drop((deep.clone(), deep.to_string()));
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(walk).unwrap();
    thread.join().unwrap();
}
