//! Constants: which types take them and what they become.

use super::compat::Fit;
use super::context::Receiver;
use super::expr::Expr;
use super::types::display;
use crate::ast::{Literal, LiteralKind};
use crate::error::{CqlError, Result, bail};
use model::types::{CqlType, InvalidValue};

/// The name of a constant's kind in messages.
fn kind_name(kind: LiteralKind) -> &'static str {
    match kind {
        LiteralKind::String => "STRING",
        LiteralKind::Integer => "INTEGER",
        LiteralKind::Float => "FLOAT",
        LiteralKind::Boolean => "BOOLEAN",
        LiteralKind::Uuid => "UUID",
        LiteralKind::Hex => "HEX",
        LiteralKind::Duration => "DURATION",
    }
}

/// The type that a constant has where nothing else is asked for.
pub(crate) fn preferred_type(literal: &Literal) -> CqlType {
    match literal.kind {
        LiteralKind::String if literal.text.is_ascii() => CqlType::Ascii,
        LiteralKind::String => CqlType::Text,
        LiteralKind::Integer => match literal.text.parse::<i64>() {
            Ok(v) if i32::try_from(v).is_ok() => CqlType::Int,
            Ok(_) => CqlType::BigInt,
            Err(_) => CqlType::Varint,
        },
        LiteralKind::Float => match literal.text.parse::<f64>() {
            Ok(v) if v.is_finite() || !literal.text.chars().any(|c| c.is_ascii_digit()) => CqlType::Double,
            _ => CqlType::Decimal,
        },
        LiteralKind::Boolean => CqlType::Boolean,
        LiteralKind::Uuid if literal.text.as_bytes().get(14) == Some(&b'1') => CqlType::TimeUuid,
        LiteralKind::Uuid => CqlType::Uuid,
        LiteralKind::Hex => CqlType::Blob,
        LiteralKind::Duration => CqlType::Duration,
    }
}

/// How a constant fits a type.
pub(crate) fn fit(literal: &Literal, wanted: &CqlType) -> Fit {
    use CqlType::*;
    if *wanted == preferred_type(literal) {
        return Fit::Exact;
    }
    let fits = match literal.kind {
        LiteralKind::String => matches!(wanted, Ascii | Text | Inet | Date | Time | Timestamp),
        LiteralKind::Integer => matches!(
            wanted,
            BigInt
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | SmallInt
                | Time
                | Timestamp
                | TinyInt
                | Varint
        ),
        LiteralKind::Float => matches!(wanted, Decimal | Double | Float),
        LiteralKind::Boolean => matches!(wanted, Boolean),
        LiteralKind::Uuid => matches!(wanted, Uuid | TimeUuid),
        LiteralKind::Hex => matches!(wanted, Blob),
        LiteralKind::Duration => matches!(wanted, Duration),
    };
    // A tuple is written as text, too, and numbers and the like are taken for that.
    let is_text = matches!(wanted, Tuple(_)) && literal.kind != LiteralKind::Hex;
    if fits || is_text || matches!(wanted, Composite(_) | Custom(_) | DynamicComposite(_) | LexicalUuid) {
        Fit::Weak
    } else {
        Fit::No
    }
}

/// The constant as a value of the receiver's type.
pub(crate) fn lower(literal: &Literal, receiver: &Receiver) -> Result<Expr> {
    if !fit(literal, &receiver.ty).is_assignable() {
        bail!(
            "Invalid {} constant ({}) for \"{}\" of type {}",
            kind_name(literal.kind),
            literal.text,
            receiver.name,
            display(&receiver.ty)
        );
    }
    // 'now' means the moment of the execution, not that of the preparation.
    if receiver.ty == CqlType::Timestamp && literal.text.eq_ignore_ascii_case("now") {
        return Ok(Expr::Now);
    }
    let text = match literal.kind {
        LiteralKind::Hex => literal.text.get(2..).unwrap_or_default(),
        _ => literal.text.as_str(),
    };
    // An integer may stand for the days of a date, which have an offset; the parser of dates knows that.
    let invalid = |e: InvalidValue| CqlError::invalid(e.to_string());
    let bytes = match (literal.kind, &receiver.ty) {
        // Cassandra takes any bytes, and fails when it reads them.
        (
            LiteralKind::Hex,
            custom @ (CqlType::Composite(_) | CqlType::DynamicComposite(_) | CqlType::LexicalUuid),
        ) => {
            let bytes = CqlType::Blob.parse_text(text, 0).map_err(invalid)?;
            custom.validate(&bytes).map_err(invalid)?;
            bytes
        }
        (_, ty) => ty.parse_text(text, 0).map_err(invalid)?,
    };
    Ok(Expr::Constant(Some(bytes)))
}
