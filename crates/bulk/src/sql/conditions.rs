//! Conditions of SQL as conditions of CQL, where both mean the same.
//!
//! What CQL judges must let every row through that SQL would let through; [`Condition::is_exact`] says that
//! it lets no other through, either. Not all conditions that have words in CQL are allowed there: who uses
//! them asks `cql`.
//!
//! | type | conditions | |
//! |---|---|---|
//! | text, ascii, blob | `=`, IN, ranges | exact |
//! | integers, boolean, timestamp, date, time | `=`, IN, ranges | values of no bytes are null in SQL |
//! | uuid, timeuuid | `=`, IN | SQL orders them by bytes, CQL does not |
//! | varint, decimal, inet | `=`, IN | SQL compares their text |
//! | float, double | none | zeros and NaNs are equal to others in SQL and in CQL |

use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;
use model::{CqlType, TableSchema};
use std::fmt::Write as _;
use uuid::Uuid;

/// A condition in CQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub words: String,
    /// Whether no row passes that SQL would not let pass.
    pub is_exact: bool,
}

/// What an expression is in CQL.
pub(super) fn condition(expr: &Expr, table: &TableSchema) -> Option<Condition> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Literal(value, _)) => compared(&column.name, *op, value, table),
            (Expr::Literal(value, _), Expr::Column(column)) => {
                compared(&column.name, op.swap()?, value, table)
            }
            _ => None,
        },
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = expr.as_ref() else { return None };
            let ty = &table.column(&column.name)?.ty;
            let literal_of = |item: &Expr| match item {
                Expr::Literal(value, _) => literal(value, ty),
                _ => None,
            };
            let values = list.iter().map(literal_of).collect::<Option<Vec<String>>>()?;
            let words = format!("{} IN ({})", quoted(&column.name), values.join(", "));
            Some(Condition { words, is_exact: !ty.is_null_when_empty() })
        }
        // `WHERE b` of a boolean column.
        Expr::Column(column) if table.column(&column.name)?.ty == CqlType::Boolean => {
            Some(Condition { words: format!("{} = true", quoted(&column.name)), is_exact: false })
        }
        _ => None,
    }
}

fn compared(name: &str, op: Operator, value: &ScalarValue, table: &TableSchema) -> Option<Condition> {
    let sign = match op {
        Operator::Eq => "=",
        Operator::Lt => "<",
        Operator::LtEq => "<=",
        Operator::Gt => ">",
        Operator::GtEq => ">=",
        _ => return None,
    };
    let ty = &table.column(name)?.ty;
    if op != Operator::Eq && !has_the_same_order(ty) {
        return None;
    }
    let words = format!("{} {sign} {}", quoted(name), literal(value, ty)?);
    Some(Condition { words, is_exact: !ty.is_null_when_empty() })
}

/// Whether SQL and CQL order values of a type alike.
fn has_the_same_order(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Text
            | CqlType::Ascii
            | CqlType::Blob
            | CqlType::TinyInt
            | CqlType::SmallInt
            | CqlType::Int
            | CqlType::BigInt
            | CqlType::Boolean
            | CqlType::Timestamp
            | CqlType::Date
            | CqlType::Time
    )
}

/// The name of a column in CQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value of a type in CQL; `None` where SQL has the value as something else.
fn literal(value: &ScalarValue, ty: &CqlType) -> Option<String> {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    Some(match (ty, value) {
        (
            CqlType::Text,
            ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)),
        ) => text(v),
        (
            CqlType::Ascii,
            ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)),
        ) if v.is_ascii() => text(v),
        (CqlType::Blob, ScalarValue::Binary(Some(v)) | ScalarValue::LargeBinary(Some(v))) => {
            v.iter().fold("0x".to_owned(), |mut hex, byte| {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            })
        }
        (CqlType::TinyInt, ScalarValue::Int8(Some(v))) => v.to_string(),
        (CqlType::SmallInt, ScalarValue::Int16(Some(v))) => v.to_string(),
        (CqlType::Int, ScalarValue::Int32(Some(v))) => v.to_string(),
        (CqlType::BigInt, ScalarValue::Int64(Some(v))) => v.to_string(),
        (CqlType::Boolean, ScalarValue::Boolean(Some(v))) => v.to_string(),
        (CqlType::Timestamp, ScalarValue::TimestampMillisecond(Some(v), _)) => v.to_string(),
        (CqlType::Time, ScalarValue::Time64Nanosecond(Some(v))) => v.to_string(),
        // Days since the epoch, which lies in the middle.
        (CqlType::Date, ScalarValue::Date32(Some(v))) => (i64::from(*v) + (1 << 31)).to_string(),
        (CqlType::Uuid | CqlType::TimeUuid, ScalarValue::FixedSizeBinary(16, Some(v))) => {
            Uuid::from_slice(v).ok()?.to_string()
        }
        (CqlType::Inet, ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v))) => text(v),
        (CqlType::Varint | CqlType::Decimal, ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)))
            if !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) =>
        {
            v.clone()
        }
        _ => return None,
    })
}
