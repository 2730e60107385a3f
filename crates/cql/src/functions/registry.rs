//! Which functions there are, under which names, for which types.
//!
//! Most have a fixed list of overloads. Those that take any type (`count`, `min`, `to_json`, `token`, the
//! functions of collections, vectors and masks) make the one overload that fits the arguments of the call.

use super::aggregate::Aggregate;
use super::arithmetic::{self, NUMERIC};
use super::mask_kind;
use super::math;
use super::scalar::{Mask, Moment, Scalar};
use super::vector::Similarity;
use super::{Body, Function, cast};
use crate::analysis::Analyzer;
use crate::analysis::raw::Raw;
use crate::analysis::types::display;
use crate::ast::{ArithmeticOperator, FunctionName};
use crate::error::{Result, bail};
use model::types::CqlType;
use std::sync::LazyLock;

/// The overloads in the order in which Cassandra's messages list them.
const MATH_TYPES: [CqlType; 9] = [
    CqlType::BigInt,
    CqlType::TinyInt,
    CqlType::Float,
    CqlType::Varint,
    CqlType::Decimal,
    CqlType::Counter,
    CqlType::Int,
    CqlType::Double,
    CqlType::SmallInt,
];
const SUM_TYPES: [CqlType; 9] = [
    CqlType::TinyInt,
    CqlType::BigInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::Varint,
    CqlType::Float,
    CqlType::Decimal,
    CqlType::Counter,
    CqlType::Double,
];
const NEGATION_TYPES: [CqlType; 9] = [
    CqlType::Double,
    CqlType::SmallInt,
    CqlType::Float,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
    CqlType::Int,
    CqlType::TinyInt,
    CqlType::BigInt,
];

/// The types between which and `blob` functions convert; `varchar` is another name of `text`.
const BLOB_TYPES: [&str; 20] = [
    "ascii",
    "bigint",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
];

/// Names of functions that make their overload for the call, and those with fixed lists.
const NAMES: [&str; 55] = [
    "abs",
    "avg",
    "collection_avg",
    "collection_count",
    "collection_max",
    "collection_min",
    "collection_sum",
    "count",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_timeuuid",
    "currentdate",
    "currenttime",
    "currenttimestamp",
    "currenttimeuuid",
    "exp",
    "floor",
    "from_json",
    "fromjson",
    "log",
    "log10",
    "map_keys",
    "map_values",
    "mask_default",
    "mask_hash",
    "mask_inner",
    "mask_null",
    "mask_outer",
    "mask_replace",
    "max",
    "max_timeuuid",
    "maxtimeuuid",
    "min",
    "min_timeuuid",
    "mintimeuuid",
    "now",
    "round",
    "similarity_cosine",
    "similarity_dot_product",
    "similarity_euclidean",
    "sum",
    "to_date",
    "to_json",
    "to_timestamp",
    "to_unix_timestamp",
    "todate",
    "tojson",
    "token",
    "totimestamp",
    "tounixtimestamp",
    "uuid",
    "maxwritetime",
    "writetime",
    "ttl",
];

/// Whether Cassandra has a function of that name.
pub(crate) fn is_native(name: &str) -> bool {
    NAMES.contains(&name) || blob_conversion(name).is_some()
}

/// Whether a call decodes JSON, into whatever type is wanted.
pub(crate) fn is_from_json(name: &FunctionName) -> bool {
    name.keyspace.as_ref().is_none_or(|ks| ks.as_str() == "system")
        && matches!(name.name.as_str(), "from_json" | "fromjson")
}

fn scalar(name: &str, arguments: &[CqlType], returns: CqlType, op: Scalar) -> Function {
    Function {
        name: format!("system.{name}"),
        arguments: arguments.to_vec(),
        returns,
        body: Body::Scalar(op),
    }
}

fn aggregate(name: &str, argument: CqlType, returns: CqlType, op: Aggregate) -> Function {
    Function { name: format!("system.{name}"), arguments: vec![argument], returns, body: Body::Aggregate(op) }
}

/// `count(*)`.
pub(super) fn count_rows() -> Function {
    Function {
        name: "system.count".to_owned(),
        arguments: Vec::new(),
        returns: CqlType::BigInt,
        body: Body::Aggregate(Aggregate::CountRows),
    }
}

/// `xasblob`, `x_as_blob`, `blobasx`, `blob_as_x`: the type and whether the blob is the argument.
fn blob_conversion(name: &str) -> Option<(CqlType, bool)> {
    let (ty, from_blob) =
        if let Some(ty) = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas")) {
            (ty, true)
        } else {
            (name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob"))?, false)
        };
    let ty = BLOB_TYPES.contains(&ty).then(|| CqlType::from_native_name(ty))??;
    Some((ty, from_blob))
}

/// The candidates for a call; `None` when there is no function of that name.
pub(super) fn candidates(
    analyzer: &Analyzer<'_>,
    name: &str,
    arguments: &[&Raw<'_>],
    receiver: Option<&CqlType>,
) -> Result<Option<Vec<Function>>> {
    if let Some((ty, from_blob)) = blob_conversion(name) {
        return Ok(Some(vec![if from_blob {
            scalar(name, &[CqlType::Blob], ty, Scalar::FromBlob)
        } else {
            scalar(name, &[ty], CqlType::Blob, Scalar::Identity)
        }]));
    }
    if let Some((_, op)) = math::ALL.iter().find(|(known, _)| *known == name) {
        return Ok(Some(
            MATH_TYPES
                .iter()
                .map(|ty| scalar(name, std::slice::from_ref(ty), ty.clone(), Scalar::Math(*op)))
                .collect(),
        ));
    }
    let one = |function: Function| Ok(Some(vec![function]));
    match name {
        "now" | "current_timeuuid" | "currenttimeuuid" => {
            one(scalar(name, &[], CqlType::TimeUuid, Scalar::Moment(Moment::TimeUuid)))
        }
        "uuid" => one(scalar(name, &[], CqlType::Uuid, Scalar::Moment(Moment::Random))),
        "current_timestamp" | "currenttimestamp" => {
            one(scalar(name, &[], CqlType::Timestamp, Scalar::Moment(Moment::Timestamp)))
        }
        "current_date" | "currentdate" => one(scalar(name, &[], CqlType::Date, Scalar::Moment(Moment::Date))),
        "current_time" | "currenttime" => one(scalar(name, &[], CqlType::Time, Scalar::Moment(Moment::Time))),
        "min_timeuuid" | "mintimeuuid" | "max_timeuuid" | "maxtimeuuid" => one(scalar(
            name,
            &[CqlType::Timestamp],
            CqlType::TimeUuid,
            Scalar::BoundUuid { is_max: name.starts_with("max") },
        )),
        "to_date" | "todate" => Ok(Some(time_conversions(name, CqlType::Date))),
        "to_timestamp" | "totimestamp" => Ok(Some(time_conversions(name, CqlType::Timestamp))),
        "to_unix_timestamp" | "tounixtimestamp" => Ok(Some(time_conversions(name, CqlType::BigInt))),
        "floor" => Ok(Some(floors())),
        "sum" | "avg" => {
            let op = if name == "sum" { Aggregate::Sum } else { Aggregate::Avg };
            Ok(Some(SUM_TYPES.iter().map(|ty| aggregate(name, ty.clone(), ty.clone(), op)).collect()))
        }
        "count" | "min" | "max" => {
            let ty = match arguments {
                // What is counted is of no interest.
                [Raw::Marker(_) | Raw::Null] if name == "count" => CqlType::Blob,
                _ => any_argument(analyzer, name, arguments)?,
            };
            let (op, returns) = match name {
                "count" => (Aggregate::Count, CqlType::BigInt),
                "min" => (Aggregate::Min, ty.frozen()),
                _ => (Aggregate::Max, ty.frozen()),
            };
            one(aggregate(name, ty, returns, op))
        }
        "to_json" | "tojson" => {
            let ty = any_argument(analyzer, name, arguments)?;
            one(scalar(name, &[ty], CqlType::Text, Scalar::ToJson))
        }
        "from_json" | "fromjson" => match receiver {
            Some(ty) => one(scalar(name, &[CqlType::Text], ty.frozen(), Scalar::FromJson)),
            None => bail!("Cannot infer the type of {name}()"),
        },
        "token" => {
            let types: Vec<CqlType> = analyzer.table.partition_key().iter().map(|c| c.ty.clone()).collect();
            one(scalar(name, &types, CqlType::BigInt, Scalar::Token))
        }
        _ if name.starts_with("mask_") => mask_kind::candidates(analyzer, name, arguments),
        _ if name.starts_with("map_") || name.starts_with("collection_") => {
            collection_candidates(analyzer, name, arguments)
        }
        _ if name.starts_with("similarity_") => similarity_candidates(analyzer, name, arguments),
        _ => Ok(None),
    }
}

/// The type of the only argument of a function that takes any.
fn any_argument(analyzer: &Analyzer<'_>, name: &str, arguments: &[&Raw<'_>]) -> Result<CqlType> {
    let [argument] = arguments else {
        if name == "count" {
            bail!(
                "Invalid number of arguments in call to function system.count: 1 required but {} provided",
                arguments.len()
            );
        }
        bail!("Invalid number of arguments for function system.{name}(any)")
    };
    argument_type(analyzer, name, "any", argument)
}

/// The type of an argument that can be of any. `parameters` are those of the function, for words.
pub(super) fn argument_type(
    analyzer: &Analyzer<'_>,
    name: &str,
    parameters: &str,
    argument: &Raw<'_>,
) -> Result<CqlType> {
    if let Raw::Column(column) = argument {
        return Ok(analyzer.column(column)?.ty.clone());
    }
    match analyzer.compatible_type(argument) {
        Some(ty) => Ok(ty),
        None => {
            if !super::arguments_of(argument).is_empty() {
                super::resolve(analyzer, argument, None)?;
            }
            bail!(
                "Cannot infer type of argument {argument} in call to function system.{name}({parameters}): use type \
                 casts to disambiguate"
            )
        }
    }
}

fn time_conversions(name: &str, to: CqlType) -> Vec<Function> {
    let from: &[CqlType] = match to {
        CqlType::Date => &[CqlType::TimeUuid, CqlType::Timestamp],
        CqlType::Timestamp => &[CqlType::TimeUuid, CqlType::Date],
        _ => &[CqlType::TimeUuid, CqlType::Timestamp, CqlType::Date],
    };
    from.iter().map(|ty| scalar(name, std::slice::from_ref(ty), to.clone(), Scalar::Time)).collect()
}

fn floors() -> Vec<Function> {
    use CqlType::{Date, Duration, Time, TimeUuid, Timestamp};
    let floor = |arguments: &[CqlType], returns| scalar("floor", arguments, returns, Scalar::Floor);
    vec![
        floor(&[Date, Duration], Date),
        floor(&[Timestamp, Duration], Timestamp),
        floor(&[Date, Duration, Date], Date),
        floor(&[Timestamp, Duration, Timestamp], Timestamp),
        floor(&[TimeUuid, Duration, Timestamp], Timestamp),
        floor(&[TimeUuid, Duration], Timestamp),
        floor(&[Time, Duration], Time),
    ]
}

fn collection_candidates(
    analyzer: &Analyzer<'_>,
    name: &str,
    arguments: &[&Raw<'_>],
) -> Result<Option<Vec<Function>>> {
    let (wanted, is_fold) = match name {
        "map_keys" | "map_values" => ("map", false),
        "collection_count" => ("collection", false),
        "collection_min" | "collection_max" => ("set or list", true),
        "collection_sum" | "collection_avg" => ("numeric set/list", true),
        _ => return Ok(None),
    };
    let parameters = if is_fold { "numeric_set_or_list" } else { wanted };
    let [argument] = arguments else {
        bail!("Invalid number of arguments for function system.{name}({parameters})");
    };
    let ty = argument_type(analyzer, name, parameters, argument)?;
    let refuse = || -> Result<Option<Vec<Function>>> {
        bail!(
            "Function system.{name} requires a {wanted} argument, but found argument {argument} of type {}",
            display(&ty)
        )
    };
    let (returns, op) = match (name, &ty) {
        ("map_keys", CqlType::Map { key, .. }) => {
            (CqlType::set(key.as_ref().clone(), false), Scalar::MapKeys)
        }
        ("map_values", CqlType::Map { value, .. }) => {
            (CqlType::list(value.as_ref().clone(), false), Scalar::MapValues)
        }
        ("collection_count", ty) if ty.is_collection() => (CqlType::Int, Scalar::CollectionCount),
        (_, CqlType::List { element, .. } | CqlType::Set { element, .. }) if is_fold => {
            let aggregate = match name {
                "collection_min" => Aggregate::Min,
                "collection_max" => Aggregate::Max,
                "collection_sum" => Aggregate::Sum,
                _ => Aggregate::Avg,
            };
            if matches!(aggregate, Aggregate::Sum | Aggregate::Avg) && !NUMERIC.contains(element) {
                return refuse();
            }
            (element.as_ref().clone(), Scalar::Fold(aggregate))
        }
        _ => return refuse(),
    };
    Ok(Some(vec![scalar(name, &[ty], returns, op)]))
}

fn similarity_candidates(
    analyzer: &Analyzer<'_>,
    name: &str,
    arguments: &[&Raw<'_>],
) -> Result<Option<Vec<Function>>> {
    let kind = match name {
        "similarity_cosine" => Similarity::Cosine,
        "similarity_euclidean" => Similarity::Euclidean,
        "similarity_dot_product" => Similarity::DotProduct,
        _ => return Ok(None),
    };
    let [left, right] = arguments else {
        bail!("Invalid number of arguments for function system.{name}(vector<float, n>, vector<float, n>)");
    };
    let vector = |raw: &Raw<'_>| match raw {
        Raw::List(items) => u32::try_from(items.len()).ok(),
        _ => match analyzer.known_type(raw) {
            Some(CqlType::Vector { element, dimension }) if *element == CqlType::Float => Some(dimension),
            _ => None,
        },
    };
    let (a, b) = (vector(left), vector(right));
    for (raw, dimension) in [(left, a), (right, b)] {
        if dimension.is_none() && !matches!(raw, Raw::Marker(_) | Raw::Null) {
            let shown = analyzer.known_type(raw).map_or_else(|| "unknown type".to_owned(), |ty| display(&ty));
            bail!(
                "Function system.{name} requires a float vector argument, but found argument {raw} of type {shown}"
            );
        }
    }
    let dimension = match (a, b) {
        (Some(a), Some(b)) if a != b => bail!("All arguments must have the same vector dimensions"),
        (Some(n), _) | (None, Some(n)) => n,
        (None, None) => bail!(
            "Cannot infer type of argument {left} in call to function system.{name}(vector<float, n>, vector<float, n>): \
             use type casts to disambiguate"
        ),
    };
    let ty = CqlType::Vector { element: CqlType::Float.into(), dimension };
    Ok(Some(vec![scalar(name, &[ty.clone(), ty], CqlType::Float, Scalar::Similarity(kind))]))
}

/// The overloads of an arithmetic operator. There are some eighty: they are made once.
pub(super) fn operations(operator: ArithmeticOperator) -> &'static [Function] {
    use ArithmeticOperator::{Add, Divide, Modulo, Multiply, Subtract};
    static ADD: LazyLock<Vec<Function>> = LazyLock::new(|| overloads(Add));
    static SUBTRACT: LazyLock<Vec<Function>> = LazyLock::new(|| overloads(Subtract));
    static MULTIPLY: LazyLock<Vec<Function>> = LazyLock::new(|| overloads(Multiply));
    static DIVIDE: LazyLock<Vec<Function>> = LazyLock::new(|| overloads(Divide));
    static MODULO: LazyLock<Vec<Function>> = LazyLock::new(|| overloads(Modulo));
    match operator {
        Add => &ADD,
        Subtract => &SUBTRACT,
        Multiply => &MULTIPLY,
        Divide => &DIVIDE,
        Modulo => &MODULO,
    }
}

fn overloads(operator: ArithmeticOperator) -> Vec<Function> {
    use CqlType::{Ascii, Date, Duration, Text, Timestamp};
    let name = match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    };
    let op = Scalar::Operation(operator);
    let mut out = Vec::with_capacity(100);
    for left in &NUMERIC {
        for right in &NUMERIC {
            let returns = arithmetic::result_type(left, right);
            out.push(scalar(name, &[left.clone(), right.clone()], returns, op.clone()));
        }
    }
    if matches!(operator, ArithmeticOperator::Add | ArithmeticOperator::Subtract) {
        for ty in [Timestamp, Date] {
            out.push(scalar(name, &[ty.clone(), Duration], ty, op.clone()));
        }
    }
    if operator == ArithmeticOperator::Add {
        for (left, right) in [(Text, Text), (Ascii, Ascii), (Ascii, Text), (Text, Ascii)] {
            let returns = if left == Ascii && right == Ascii { Ascii } else { Text };
            out.push(scalar(name, &[left, right], returns, op.clone()));
        }
    }
    out
}

/// The overloads of unary minus.
pub(super) fn negations() -> Vec<Function> {
    NEGATION_TYPES
        .iter()
        .map(|ty| scalar("_negate", std::slice::from_ref(ty), ty.clone(), Scalar::Negate))
        .collect()
}

/// The casts to a type.
pub(super) fn casts(target: &CqlType) -> Vec<Function> {
    let name = format!("cast_as_{target}");
    cast::sources(target)
        .into_iter()
        .map(|from| scalar(&name, &[from], target.clone(), Scalar::Cast))
        .collect()
}

/// A cast that changes nothing.
pub(super) fn identity_cast(ty: CqlType) -> Function {
    scalar(&format!("cast_as_{ty}"), std::slice::from_ref(&ty), ty.clone(), Scalar::Identity)
}

/// A masking function of the given signature.
pub(super) fn mask_function(name: &str, arguments: &[CqlType], returns: CqlType, mask: Mask) -> Function {
    scalar(name, arguments, returns, Scalar::Mask(mask))
}
