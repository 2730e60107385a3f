//! Masks: what is shown of a column that is masked, and who may ask about it.
//!
//! A masked column is two expressions, its value and what its mask makes of it. [`Expr::Masked`] holds both,
//! and each execution says which of them its role sees. So one plan serves everybody, and functions,
//! aggregates, elements and JSON see what the role sees. Keys, filters, orders and groups of plain columns
//! look at values as they are, as in Cassandra.
//!
//! A mask that cannot be applied (by a function of the user's, which came with the directory of a Cassandra)
//! refuses whoever would see it, and hides nothing from the others.

use super::expr::Expr;
use crate::error::Result;
use crate::functions::{self, Mask, Scalar, ScalarFunction};
use crate::result::ColumnRef;
use bytes::Bytes;
use model::schema::ColumnMask;
use model::types::{CqlType, InvalidValue};
use model::{ColumnDef, ColumnId, TableSchema};
use std::sync::Arc;

/// A column of a row, as the role of an execution sees it.
pub(crate) fn shown(table: &TableSchema, column: &ColumnDef) -> Expr {
    let clear = Expr::Column(ColumnRef::of(column));
    match table.mask_of(&column.name) {
        None => clear,
        Some(mask) => {
            let masked = applied(mask, column, &clear).unwrap_or_else(|| refusing(mask, column));
            Expr::Masked { clear: clear.into(), masked: masked.into() }
        }
    }
}

/// Names of the masked columns among `columns`, in the order in which they are selected.
pub(crate) fn masked_among(table: &TableSchema, columns: &[ColumnId]) -> Vec<String> {
    let all = if table.masks.is_empty() { Vec::new() } else { table.select_star() };
    let is_masked =
        |column: &Arc<ColumnDef>| columns.contains(&column.id) && table.mask_of(&column.name).is_some();
    all.into_iter().filter(is_masked).map(|column| column.name.clone()).collect()
}

/// The arguments of a mask after the column's value, as constants; `None` where the function is not
/// Cassandra's own or does not take them.
pub(crate) fn literals(mask: &ColumnMask, column: &CqlType) -> Option<Vec<String>> {
    let function = function(mask, column)?;
    let arguments = mask.arguments.iter().zip(function.arguments.iter().skip(1));
    arguments
        .map(|(text, ty)| {
            let value = text.as_deref().map(|text| parse(ty, text)).transpose().ok()?;
            Some(ty.to_literal(value.as_deref()))
        })
        .collect()
}

/// The value of a text that [`CqlType::to_text`] makes.
pub(crate) fn parse(ty: &CqlType, text: &str) -> Result<Bytes, InvalidValue> {
    let value = match ty {
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } | CqlType::Vector { .. } => {
            CqlType::Blob.parse_text(text, 0)?
        }
        CqlType::Udt { definition, .. } => {
            CqlType::Tuple(definition.fields.iter().map(|(_, ty)| ty.clone()).collect())
                .parse_text(text, 0)?
        }
        other => other.parse_text(text, 0)?,
    };
    ty.validate(&value)?;
    Ok(value)
}

fn function(mask: &ColumnMask, column: &CqlType) -> Option<ScalarFunction> {
    if mask.function_keyspace != "system" {
        return None;
    }
    let (name, count) = (&mask.function_name, mask.arguments.len() + 1);
    functions::masking_function(name, column.clone(), column, count).ok()??.into_scalar()
}

/// What the mask makes of the value that `clear` is.
fn applied(mask: &ColumnMask, column: &ColumnDef, clear: &Expr) -> Option<Expr> {
    let function = function(mask, &column.ty)?;
    let mut arguments = vec![match function.op {
        // They do not look at the value, which then need not be read.
        Scalar::Mask(Mask::Null | Mask::Default | Mask::Replace) => Expr::NULL,
        _ => clear.clone(),
    }];
    for (text, ty) in mask.arguments.iter().zip(function.arguments.iter().skip(1)) {
        let value = text.as_deref().map(|text| parse(ty, text)).transpose().ok()?;
        arguments.push(Expr::Constant(value));
    }
    Some(Expr::Call { function: Arc::new(function), arguments })
}

fn refusing(mask: &ColumnMask, column: &ColumnDef) -> Expr {
    let function = ScalarFunction {
        name: format!("{}.{}", mask.function_keyspace, mask.function_name),
        arguments: vec![column.ty.clone()],
        returns: column.ty.clone(),
        op: Scalar::Mask(Mask::Foreign),
    };
    Expr::Call { function: Arc::new(function), arguments: vec![Expr::NULL] }
}
