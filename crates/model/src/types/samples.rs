//! Random types and valid values of them, for property tests. The alphabets are small, so that values often
//! share prefixes or are equal.

use super::collection::{encode_list, encode_map, encode_set, encode_tuple, encode_vector};
use super::{Aliases, Component, CqlType, Duration, OldClass, UserType, numbers};
use num_bigint::BigInt;
use proptest::prelude::*;
use std::sync::Arc;

const SCALARS: [CqlType; 20] = [
    CqlType::Ascii,
    CqlType::BigInt,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Duration,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::LexicalUuid,
    CqlType::SmallInt,
    CqlType::Text,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::TimeUuid,
    CqlType::TinyInt,
    CqlType::Uuid,
    CqlType::Varint,
];

/// Any type, nested up to two levels, all frozen.
pub fn ty() -> BoxedStrategy<CqlType> {
    prop::sample::select(SCALARS.to_vec())
        .prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|e| CqlType::list(e, false)),
                inner.clone().prop_map(|e| CqlType::set(e, false)),
                (inner.clone(), inner.clone()).prop_map(|(k, v)| CqlType::map(k, v, false)),
                prop::collection::vec(inner.clone(), 1..4).prop_map(|types| CqlType::Tuple(types.into())),
                prop::collection::vec(inner.clone(), 1..4).prop_map(|types| {
                    let fields = types.into_iter().enumerate().map(|(i, t)| (format!("f{i}"), t)).collect();
                    let definition = UserType { keyspace: "ks".into(), name: "u".into(), fields };
                    CqlType::Udt { definition: Arc::new(definition), multi_cell: false }
                }),
                prop::collection::vec((inner.clone(), any::<bool>()), 1..4).prop_map(|types| {
                    let component = |(ty, reversed)| component(ty, reversed);
                    CqlType::Composite(types.into_iter().map(component).collect())
                }),
                prop::collection::vec((inner.clone(), any::<bool>()), 0..4).prop_map(|types| {
                    let component = |(ty, reversed)| component(ty, reversed);
                    let aliases = Aliases::new(b"aAbx".iter().copied().zip(types.into_iter().map(component)));
                    CqlType::DynamicComposite(Arc::new(aliases))
                }),
                (inner, 1u32..4)
                    .prop_map(|(e, dimension)| CqlType::Vector { element: Arc::new(e), dimension }),
            ]
        })
        .boxed()
}

/// A value that validates. Empty values of types that allow them come only outermost: nested ones share their
/// encoding with nulls.
pub fn value(ty: &CqlType) -> BoxedStrategy<Vec<u8>> {
    let full = non_empty(ty);
    match ty {
        CqlType::Tuple(_) | CqlType::Udt { .. } => full,
        _ if ty.allows_empty() => prop_oneof![9 => full, 1 => Just(Vec::new())].boxed(),
        _ => full,
    }
}

fn bytes_of(max: usize) -> BoxedStrategy<Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff), any::<u8>()], 0..=max)
        .boxed()
}

fn integer() -> BoxedStrategy<i64> {
    (any::<i64>(), 0u32..64).prop_map(|(v, shift)| v >> shift).boxed()
}

fn big_integer() -> BoxedStrategy<BigInt> {
    prop_oneof![integer().prop_map(BigInt::from), bytes_of(20).prop_map(|b| BigInt::from_signed_bytes_be(&b))]
        .boxed()
}

fn non_empty(ty: &CqlType) -> BoxedStrategy<Vec<u8>> {
    match ty {
        CqlType::Ascii | CqlType::Text => "[\u{0}ab]{0,4}".prop_map(String::into_bytes).boxed(),
        CqlType::Blob | CqlType::Custom(_) => bytes_of(5),
        CqlType::Boolean => (0u8..3).prop_map(|b| vec![b]).boxed(),
        CqlType::TinyInt => any::<i8>().prop_map(|v| v.to_be_bytes().to_vec()).boxed(),
        CqlType::SmallInt => any::<i16>().prop_map(|v| v.to_be_bytes().to_vec()).boxed(),
        CqlType::Int => integer().prop_map(|v| (v as i32).to_be_bytes().to_vec()).boxed(),
        CqlType::Date => any::<u32>().prop_map(|v| v.to_be_bytes().to_vec()).boxed(),
        CqlType::Time => (0..86_400_000_000_000i64).prop_map(|v| v.to_be_bytes().to_vec()).boxed(),
        CqlType::BigInt | CqlType::Timestamp | CqlType::Counter => {
            integer().prop_map(|v| v.to_be_bytes().to_vec()).boxed()
        }
        CqlType::Float => {
            let special = prop::sample::select(vec![
                0.0f32,
                -0.0,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::NAN,
                -f32::NAN,
            ]);
            prop_oneof![any::<f32>(), special, (-3i8..3).prop_map(f32::from)]
                .prop_map(|v| v.to_be_bytes().to_vec())
                .boxed()
        }
        CqlType::Double => {
            let special = prop::sample::select(vec![
                0.0f64,
                -0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                -f64::NAN,
            ]);
            prop_oneof![any::<f64>(), special, (-3i8..3).prop_map(f64::from)]
                .prop_map(|v| v.to_be_bytes().to_vec())
                .boxed()
        }
        CqlType::Varint => big_integer().prop_map(|v| v.to_signed_bytes_be()).boxed(),
        CqlType::Decimal => {
            let scale = prop_oneof![-4i32..6, any::<i32>()];
            let unscaled = prop_oneof![big_integer(), (-2000i64..2000).prop_map(BigInt::from)];
            (unscaled, scale).prop_map(|(v, scale)| numbers::encode_decimal(&v, scale)).boxed()
        }
        CqlType::Duration => (any::<bool>(), 0..=i32::MAX, 0..=i32::MAX, 0..=i64::MAX)
            .prop_map(|(negative, months, days, nanoseconds)| {
                let duration = match negative {
                    true => Duration { months: -months, days: -days, nanoseconds: -nanoseconds },
                    false => Duration { months, days, nanoseconds },
                };
                duration.encode()
            })
            .boxed(),
        CqlType::Inet => {
            prop_oneof![any::<[u8; 4]>().prop_map(|b| b.to_vec()), any::<[u8; 16]>().prop_map(|b| b.to_vec())]
                .boxed()
        }
        CqlType::LexicalUuid | CqlType::Uuid => {
            (any::<u128>(), prop::sample::select(vec![1u8, 4, 7])).prop_map(uuid).boxed()
        }
        CqlType::TimeUuid => (any::<u128>(), Just(1)).prop_map(uuid).boxed(),
        CqlType::Empty => Just(Vec::new()).boxed(),
        CqlType::List { element, .. } => prop::collection::vec(non_empty(element), 0..4)
            .prop_map(|items| encode_list(items).to_vec())
            .boxed(),
        CqlType::Set { element, .. } => {
            let of = Arc::clone(element);
            prop::collection::vec(non_empty(element), 0..4)
                .prop_map(move |items| encode_set(&of, items).to_vec())
                .boxed()
        }
        CqlType::Map { key, value, .. } => {
            let of = Arc::clone(key);
            prop::collection::vec((non_empty(key), non_empty(value)), 0..3)
                .prop_map(move |pairs| encode_map(&of, pairs).to_vec())
                .boxed()
        }
        CqlType::Composite(components) => {
            let prefixes = prop::sample::select(vec![vec![], vec![], vec![0xff, 0xff]]);
            let parts: Vec<_> = components.iter().map(|c| (Just(vec![]), of_component(&c.ty))).collect();
            let len = parts.len();
            (prefixes, parts, 1..=len, end())
                .prop_map(|(prefix, parts, len, end)| composite(prefix, parts.into_iter().take(len), end))
                .boxed()
        }
        CqlType::DynamicComposite(aliases) => {
            let named = [("UTF8Type", CqlType::Text), ("ReversedType(Int32Type)", CqlType::Int)]
                .map(|(class, ty)| (([&[0, class.len() as u8], class.as_bytes()].concat()), ty));
            let known = aliases.iter().map(|(alias, c)| (vec![0x80, *alias], c.ty.clone()));
            let parts: Vec<_> = named
                .into_iter()
                .chain(known)
                .map(|(head, ty)| (Just(head), of_component(&ty)).boxed())
                .collect();
            (prop::collection::vec(prop::strategy::Union::new(parts), 1..4), end())
                .prop_map(|(parts, end)| composite(vec![], parts.into_iter(), end))
                .boxed()
        }
        CqlType::Tuple(types) => fields(types.iter()),
        CqlType::Udt { definition, .. } => fields(definition.fields.iter().map(|(_, t)| t)),
        CqlType::Vector { element, dimension } => {
            let of = Arc::clone(element);
            prop::collection::vec(non_empty(element), *dimension as usize)
                .prop_map(move |items| encode_vector(&of, items).to_vec())
                .boxed()
        }
    }
}

/// A component of an old class, where there is one for the type.
fn component(ty: CqlType, reversed: bool) -> Component {
    let old_class = match ty {
        CqlType::Timestamp => Some(OldClass::Date),
        CqlType::TimeUuid => Some(OldClass::LegacyTimeUuid),
        _ => None,
    };
    Component { ty, reversed, old_class }
}

/// A component of a composite may have no bytes.
fn of_component(ty: &CqlType) -> BoxedStrategy<Vec<u8>> {
    let full = non_empty(ty);
    if !ty.allows_empty() { full } else { prop_oneof![5 => full, 1 => Just(vec![])].boxed() }
}

fn end() -> BoxedStrategy<u8> {
    prop_oneof![4 => Just(0u8), 1 => Just(1), 1 => Just(0xff)].boxed()
}

fn composite(prefix: Vec<u8>, parts: impl Iterator<Item = (Vec<u8>, Vec<u8>)>, end: u8) -> Vec<u8> {
    let mut out = prefix;
    for (head, value) in parts {
        out.extend(head);
        out.extend((value.len() as u16).to_be_bytes());
        out.extend(value);
        out.push(0);
    }
    if let Some(last) = out.last_mut() {
        *last = end;
    }
    out
}

/// One field at least, or the value would be empty. None of them is empty: to the encodings that is a null.
fn fields<'t>(types: impl Iterator<Item = &'t CqlType>) -> BoxedStrategy<Vec<u8>> {
    let fields: Vec<_> = types.map(|t| prop::option::weighted(0.8, non_empty(t))).collect();
    let len = fields.len();
    (fields, 1..=len).prop_map(|(fields, len)| encode_tuple(fields.into_iter().take(len)).to_vec()).boxed()
}

fn uuid((bits, version): (u128, u8)) -> Vec<u8> {
    let mut bytes = bits.to_be_bytes();
    bytes[6] = bytes[6] & 15 | version << 4;
    // Few different times and nodes, so that ties are met.
    bytes.iter_mut().enumerate().filter(|(i, _)| !matches!(i, 6 | 7 | 15)).for_each(|(_, b)| *b &= 0x81);
    bytes.to_vec()
}
