//! Parameters of statements, and the values that are bound to them.
//!
//! `?` and `$1` both stand for a parameter; a statement has one kind. DataFusion knows the second, so the
//! n-th `?` becomes `$n`.

use crate::handle::Value;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use datafusion::common::{ParamValues, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Parameters of a statement at most.
const PARAMETERS_MAX: usize = 400;

impl Value {
    /// The value of a row of an array.
    ///
    /// # Errors
    /// When parameters have no such type, or not that value.
    fn of(array: &dyn Array, row: usize) -> Result<Value, String> {
        let scalar = ScalarValue::try_from_array(array, row).map_err(|error| error.to_string())?;
        let unfit = || format!("a parameter of type {} is not supported", array.data_type());
        let exact = |value: i64, per_milli: i64| match value % per_milli {
            0 => Ok(Value::Timestamp(value / per_milli)),
            _ => Err("a timestamp of CQL has milliseconds, and the value is finer".to_owned()),
        };
        if scalar.is_null() {
            return Ok(Value::Null);
        }
        Ok(match scalar {
            ScalarValue::Boolean(Some(v)) => Value::Boolean(v),
            ScalarValue::Int8(Some(v)) => Value::Integer(v.into()),
            ScalarValue::Int16(Some(v)) => Value::Integer(v.into()),
            ScalarValue::Int32(Some(v)) => Value::Integer(v.into()),
            ScalarValue::Int64(Some(v)) => Value::Integer(v),
            ScalarValue::UInt8(Some(v)) => Value::Integer(v.into()),
            ScalarValue::UInt16(Some(v)) => Value::Integer(v.into()),
            ScalarValue::UInt32(Some(v)) => Value::Integer(v.into()),
            ScalarValue::UInt64(Some(v)) => {
                Value::Integer(i64::try_from(v).map_err(|_| format!("{v} is larger than a bigint"))?)
            }
            ScalarValue::Float32(Some(v)) => Value::Double(f64::from(v).to_bits()),
            ScalarValue::Float64(Some(v)) => Value::Double(v.to_bits()),
            ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)) => {
                Value::Text(v)
            }
            ScalarValue::Binary(Some(v))
            | ScalarValue::LargeBinary(Some(v))
            | ScalarValue::BinaryView(Some(v))
            | ScalarValue::FixedSizeBinary(_, Some(v)) => Value::Bytes(v),
            ScalarValue::Date32(Some(v)) => Value::Date(v),
            ScalarValue::Time32Second(Some(v)) => Value::Time(i64::from(v) * 1_000_000_000),
            ScalarValue::Time32Millisecond(Some(v)) => Value::Time(i64::from(v) * 1_000_000),
            ScalarValue::Time64Microsecond(Some(v)) => Value::Time(v.checked_mul(1000).ok_or_else(unfit)?),
            ScalarValue::Time64Nanosecond(Some(v)) => Value::Time(v),
            ScalarValue::TimestampSecond(Some(v), _) => {
                Value::Timestamp(v.checked_mul(1000).ok_or_else(unfit)?)
            }
            ScalarValue::TimestampMillisecond(Some(v), _) => Value::Timestamp(v),
            ScalarValue::TimestampMicrosecond(Some(v), _) => exact(v, 1000)?,
            ScalarValue::TimestampNanosecond(Some(v), _) => exact(v, 1_000_000)?,
            _ => return Err(unfit()),
        })
    }

    fn scalar(&self) -> ScalarValue {
        match self {
            Value::Null => ScalarValue::Null,
            Value::Boolean(v) => ScalarValue::Boolean(Some(*v)),
            Value::Integer(v) => ScalarValue::Int64(Some(*v)),
            Value::Double(bits) => ScalarValue::Float64(Some(f64::from_bits(*bits))),
            Value::Text(v) => ScalarValue::Utf8(Some(v.clone())),
            Value::Bytes(v) => ScalarValue::Binary(Some(v.clone())),
            Value::Date(v) => ScalarValue::Date32(Some(*v)),
            Value::Time(v) => ScalarValue::Time64Nanosecond(Some(*v)),
            Value::Timestamp(v) => ScalarValue::TimestampMillisecond(Some(*v), Some("UTC".into())),
        }
    }
}

/// The values of the one row that batches have, in the order of the columns.
///
/// # Errors
/// In words, when there is not one row, or a value is of a type that parameters have not.
pub fn values_of(batches: &[RecordBatch]) -> Result<Vec<Value>, String> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).filter(|_| rows == 1);
    let batch = batch.ok_or_else(|| {
        format!("values of {rows} rows are bound; a statement that reads takes one row of values at a time")
    })?;
    batch.columns().iter().map(|column| Value::of(column.as_ref(), 0)).collect()
}

/// A text with each `?` as `$1`, `$2` and so on.
///
/// # Errors
/// When it has parameters of both kinds, or too many.
pub(super) fn numbered(text: &str) -> Result<String, DataFusionError> {
    // What cannot be read is told by the parser.
    let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize() else {
        return Ok(text.to_owned());
    };
    let mut marks = 0;
    let mut numbers = 0;
    for token in &mut tokens {
        match token {
            Token::Placeholder(name) if name == "?" => {
                marks += 1;
                *name = format!("${marks}");
            }
            Token::Placeholder(_) => numbers += 1,
            _ => {}
        }
    }
    if marks + numbers > PARAMETERS_MAX {
        return plan_err!("the statement has {} parameters, {PARAMETERS_MAX} are the most", marks + numbers);
    }
    match (marks, numbers) {
        (0, _) => Ok(text.to_owned()),
        (_, 0) => Ok(tokens.iter().map(ToString::to_string).collect()),
        _ => plan_err!("the statement has parameters of two kinds, ? and $1"),
    }
}

/// The types of a plan's parameters, in order; `Null` where nothing tells.
pub(super) fn types_of(plan: &LogicalPlan) -> Result<Vec<DataType>, DataFusionError> {
    let found = plan.get_parameter_types()?;
    let mut types = Vec::with_capacity(found.len());
    for number in 1..=found.len() {
        match found.get(&format!("${number}")) {
            Some(ty) => types.push(ty.clone().unwrap_or(DataType::Null)),
            None => return plan_err!("parameter ${number} is missing: parameters are $1, $2 and so on"),
        }
    }
    Ok(types)
}

/// The plan with values for its parameters.
pub(super) fn bind(plan: LogicalPlan, values: &[Value]) -> Result<LogicalPlan, DataFusionError> {
    let wanted = types_of(&plan)?.len();
    if wanted != values.len() {
        return plan_err!("the statement has {wanted} parameters, and {} values are bound", values.len());
    }
    if values.is_empty() {
        return Ok(plan);
    }
    let scalars: Vec<ScalarValue> = values.iter().map(Value::scalar).collect();
    plan.with_param_values(ParamValues::from(scalars))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_become_numbers_but_not_in_text_and_comments() {
        let all = [
            ("SELECT * FROM t WHERE k = ? AND v > ?", "SELECT * FROM t WHERE k = $1 AND v > $2"),
            ("SELECT '?' FROM t WHERE \"a?\" = ?", "SELECT '?' FROM t WHERE \"a?\" = $1"),
            ("SELECT 1 WHERE a = $2 AND b = $1", "SELECT 1 WHERE a = $2 AND b = $1"),
        ];
        for (text, expected) in all {
            assert_eq!(numbered(text).unwrap(), expected);
        }
        assert!(numbered("SELECT ? WHERE a = $1").is_err());
        assert!(numbered(&format!("SELECT {}", vec!["?"; 500].join(", "))).is_err());
    }
}
