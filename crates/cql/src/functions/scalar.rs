//! What scalar functions compute.

use super::aggregate::Aggregate;
use super::digest::Algorithm;
use super::math::Math;
use super::number::decode_integer;
use super::vector::Similarity;
use super::{ScalarFunction, arithmetic, cast, collections, json, mask, math, time, vector};
use crate::analysis::Scope;
use crate::analysis::types::display;
use crate::ast::ArithmeticOperator;
use crate::error::{CqlError, Result, bail};
use bytes::Bytes;
use model::key::{PartitionKey, Token};
use model::types::{CqlType, collection};

/// A function of the present moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    TimeUuid,
    Random,
    Timestamp,
    Date,
    Time,
}

/// A masking function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    Null,
    Default,
    Replace,
    Characters {
        outer: bool,
    },
    Hash,
    /// A function that only Cassandra can run.
    Foreign,
}

/// What a function does with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Moment(Moment),
    BoundUuid {
        is_max: bool,
    },
    /// Conversions between types of time.
    Time,
    Floor,
    Token,
    /// The bytes as they are.
    Identity,
    FromBlob,
    ToJson,
    FromJson,
    Math(Math),
    Operation(ArithmeticOperator),
    Negate,
    Cast,
    MapKeys,
    MapValues,
    CollectionCount,
    Fold(Aggregate),
    Similarity(Similarity),
    Mask(Mask),
}

/// A failure of a function's execution.
fn failure(function: &ScalarFunction, message: impl Into<String>) -> CqlError {
    let (keyspace, name) = function.name.split_once('.').unwrap_or(("system", &function.name));
    let name = if function.op == Scalar::FromJson { "from_json" } else { name };
    CqlError::FunctionFailure {
        keyspace: keyspace.to_owned(),
        function: name.to_owned(),
        argument_types: function.arguments.iter().map(display).collect(),
        message: message.into(),
    }
}

pub(super) fn call(
    function: &ScalarFunction,
    arguments: &[Option<Bytes>],
    scope: &Scope<'_>,
) -> Result<Option<Bytes>> {
    // Functions for which null is something to work on.
    match &function.op {
        Scalar::Moment(moment) => return Ok(present(*moment, scope)),
        Scalar::ToJson => {
            let ty = function.arguments.first().unwrap_or(&CqlType::Blob);
            let value = arguments.first().and_then(Option::as_deref);
            let value = value.filter(|bytes| !bytes.is_empty() || !ty.is_null_when_empty());
            let text = ty.to_json(value);
            return Ok(Some(text.into_bytes().into()));
        }
        Scalar::Mask(kind) => return masked(function, *kind, arguments),
        Scalar::Token => return token(arguments),
        _ => {}
    }
    let mut present = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            Some(bytes) => present.push(bytes),
            None => return Ok(None),
        }
    }
    match present.as_slice() {
        [value] => unary(function, value),
        [left, right] => binary(function, left, right),
        [value, duration, start] => floor(function, value, duration, Some(start)),
        _ => Ok(None),
    }
}

fn present(moment: Moment, scope: &Scope<'_>) -> Option<Bytes> {
    Some(match moment {
        Moment::TimeUuid => Bytes::copy_from_slice(scope.uuids?.time_uuid().as_bytes()),
        Moment::Random => Bytes::copy_from_slice(scope.uuids?.random_uuid().as_bytes()),
        Moment::Timestamp => time::timestamp(scope.now_micros.div_euclid(1000)),
        Moment::Date => {
            time::from_millis(&CqlType::Date, scope.now_micros.div_euclid(1000)).unwrap_or_default()
        }
        Moment::Time => time::time_of_day(scope.now_micros),
    })
}

fn token(arguments: &[Option<Bytes>]) -> Result<Option<Bytes>> {
    let components: Option<Vec<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
    Ok(components.map(|components| {
        let key = PartitionKey::from_components(&components);
        Bytes::copy_from_slice(&Token::of(&key.0).0.to_be_bytes())
    }))
}

fn unary(function: &ScalarFunction, value: &Bytes) -> Result<Option<Bytes>> {
    let Some(ty) = function.arguments.first() else { return Ok(None) };
    match &function.op {
        Scalar::Identity => Ok(Some(value.clone())),
        Scalar::FromBlob => match function.returns.validate(value) {
            Ok(()) => Ok(Some(value.clone())),
            Err(_) => bail!(
                "In call to function {}, value {} is not a valid binary representation for type {}",
                function.name,
                CqlType::Blob.to_literal(Some(value)),
                display(&function.returns)
            ),
        },
        Scalar::FromJson => from_json(function, value),
        Scalar::BoundUuid { is_max } => {
            Ok(time::millis(&CqlType::Timestamp, value).map(|millis| time::bound_uuid(millis, *is_max)))
        }
        Scalar::Time => {
            Ok(time::millis(ty, value).and_then(|millis| time::from_millis(&function.returns, millis)))
        }
        Scalar::Math(op) => math::call(*op, ty, value),
        Scalar::Negate => Ok(arithmetic::negate(ty, value)),
        Scalar::Cast => cast::cast(ty, &function.returns, value).map_err(|e| failure(function, e)),
        Scalar::MapKeys => Ok(Some(collections::map_keys(value))),
        Scalar::MapValues => Ok(Some(collections::map_values(value))),
        Scalar::CollectionCount => Ok(Some(collections::count(value))),
        Scalar::Fold(aggregate) => collections::fold(aggregate, ty, &function.returns, value),
        _ => Ok(None),
    }
}

fn binary(function: &ScalarFunction, left: &Bytes, right: &Bytes) -> Result<Option<Bytes>> {
    match &function.op {
        Scalar::Operation(operator) => {
            arithmetic::operate(*operator, &function.arguments, &function.returns, left, right)
        }
        Scalar::Similarity(kind) => match vector::similarity(*kind, left, right) {
            Ok(value) => Ok(Some(value)),
            Err(message) => bail!("{message}"),
        },
        Scalar::Floor => floor(function, left, right, None),
        _ => Ok(None),
    }
}

fn from_json(function: &ScalarFunction, text: &Bytes) -> Result<Option<Bytes>> {
    let text = String::from_utf8_lossy(text);
    match json::Json::parse(&text) {
        Ok(value) => json::encode(&function.returns, &value).map_err(|e| failure(function, e)),
        Err(reason) => Err(failure(function, format!("Could not decode JSON string '{text}': {reason}"))),
    }
}

fn floor(
    function: &ScalarFunction,
    value: &Bytes,
    duration: &Bytes,
    start: Option<&Bytes>,
) -> Result<Option<Bytes>> {
    let Some(ty) = function.arguments.first() else { return Ok(None) };
    if *ty == CqlType::Time {
        let Some(nanos) = decode_integer(value) else { return Ok(None) };
        let nanos = time::floor_time(nanos, duration).map_err(CqlError::Invalid)?;
        return Ok(Some(Bytes::copy_from_slice(&nanos.to_be_bytes())));
    }
    if *ty == CqlType::Date {
        time::check_floor_date(duration).map_err(CqlError::Invalid)?;
    }
    let Some(millis) = time::millis(ty, value) else { return Ok(None) };
    let start = match (start, function.arguments.get(2)) {
        (Some(start), Some(ty)) => time::millis(ty, start).unwrap_or(0),
        _ => 0,
    };
    let floored = time::floor(millis, duration, start).map_err(CqlError::Invalid)?;
    Ok(time::from_millis(&function.returns, floored))
}

fn masked(function: &ScalarFunction, kind: Mask, arguments: &[Option<Bytes>]) -> Result<Option<Bytes>> {
    let first = arguments.first().cloned().flatten();
    let ty = function.arguments.first().unwrap_or(&CqlType::Blob);
    match kind {
        Mask::Null => Ok(None),
        Mask::Default => Ok(Some(masked_default(ty))),
        Mask::Replace => Ok(arguments.get(1).cloned().flatten()),
        Mask::Characters { outer } => {
            let Some(text) = first else { return Ok(None) };
            let argument = |i: usize| arguments.get(i).cloned().flatten();
            let count = |i: usize| argument(i).map_or(0, |bytes| decode_integer(&bytes).unwrap_or(0) as i32);
            let padding = argument(3).map_or(Ok('*'), |bytes| mask_padding(function, &bytes))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(Some(mask::mask(&text, count(1), count(2), padding, outer).into_bytes().into()))
        }
        Mask::Hash => {
            let Some(value) = first else { return Ok(None) };
            let algorithm = match arguments.get(1).cloned().flatten() {
                Some(name) => algorithm(&name)?,
                None => Algorithm::DEFAULT,
            };
            Ok(Some(algorithm.digest(&value)))
        }
        Mask::Foreign => {
            bail!(
                "The masking function {} cannot be run here, so only who may UNMASK reads the column",
                function.name
            )
        }
    }
}

/// Checks an argument that is the same for every row.
pub(super) fn check_fixed(function: &ScalarFunction, index: usize, value: &[u8]) -> Result<()> {
    match (&function.op, index) {
        (Scalar::Mask(Mask::Characters { .. }), 3) => mask_padding(function, value).map(drop),
        (Scalar::Mask(Mask::Hash), 1) => algorithm(value).map(drop),
        _ => Ok(()),
    }
}

fn mask_padding(function: &ScalarFunction, bytes: &[u8]) -> Result<char> {
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(c),
        _ => bail!(
            "The padding argument for function {} should be single-character, but '{text}' has {} characters.",
            function.name,
            text.chars().count()
        ),
    }
}

fn algorithm(name: &[u8]) -> Result<Algorithm> {
    let name = String::from_utf8_lossy(name);
    match Algorithm::of(&name) {
        Some(algorithm) => Ok(algorithm),
        None => bail!("Hash algorithm not found: {name}"),
    }
}

/// The fixed value that hides every value of a type.
fn masked_default(ty: &CqlType) -> Bytes {
    match ty {
        CqlType::Ascii | CqlType::Text => Bytes::from_static(b"****"),
        CqlType::Blob
        | CqlType::Composite(_)
        | CqlType::Custom(_)
        | CqlType::DynamicComposite(_)
        | CqlType::Empty => Bytes::new(),
        CqlType::Boolean => Bytes::from_static(&[0]),
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
            collection::encode_list(std::iter::empty::<&[u8]>())
        }
        CqlType::Tuple(types) => collection::encode_tuple(types.iter().map(|ty| Some(masked_default(ty)))),
        CqlType::Udt { definition, .. } => {
            collection::encode_tuple(definition.fields.iter().map(|(_, ty)| Some(masked_default(ty))))
        }
        CqlType::Vector { element, dimension } => {
            collection::encode_vector(element, (0..*dimension).map(|_| masked_default(element)))
        }
        // The words are read as their types understand them.
        CqlType::Inet => Bytes::from_static(&[0, 0, 0, 0]),
        CqlType::LexicalUuid | CqlType::Uuid => Bytes::from_static(&[0; 16]),
        CqlType::TimeUuid => time::bound_uuid(0, false),
        CqlType::Timestamp | CqlType::Date => time::from_millis(ty, 0).unwrap_or_default(),
        CqlType::Time => Bytes::from_static(&[0; 8]),
        CqlType::Duration => Bytes::from_static(&[0; 3]),
        number => number.parse_text("0", 0).unwrap_or_default(),
    }
}
