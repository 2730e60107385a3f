//! MASKED WITH: from a function as written to the mask of a column.
//!
//! A mask is a function with all its arguments but the first, which is the column's value. It is judged in
//! Cassandra's order: whether there is such a function, whether it masks, its arguments, and whether it
//! returns what the column holds. The arguments are kept as text, as `system_schema.column_masks` has them.

use super::DdlContext;
use crate::analysis::compat::same;
use crate::analysis::context::MarkerSpecs;
use crate::analysis::raw::Raw;
use crate::analysis::types::display;
use crate::analysis::{Analyzer, Receiver, Scope, masks};
use crate::ast::{self, ColumnDefinition, Identifier};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use crate::functions::{self, Body, Function};
use model::schema::{ColumnMask, View};
use model::types::CqlType;
use model::{KeyspaceSchema, TableSchema};
use std::sync::Arc;

/// Refuses a mask where cassandra.yaml does not allow any.
pub(super) fn check_enabled(mask: Option<&ast::ColumnMask>, ctx: &DdlContext<'_>) -> Result<()> {
    if mask.is_none() || ctx.masking_enabled {
        return Ok(());
    }
    bail!(
        "Cannot mask columns because dynamic data masking is not enabled. You can enable it with the \
         dynamic_data_masking_enabled property on cassandra.yaml"
    )
}

/// The masks of columns that `table` has, in the order of the columns' names.
pub(super) fn of_columns(
    columns: &[ColumnDefinition],
    table: &TableSchema,
    ctx: &DdlContext<'_>,
) -> Result<Vec<ColumnMask>> {
    let masked = columns.iter().filter_map(|column| Some((&column.name, column.mask.as_ref()?)));
    let mut out: Vec<ColumnMask> =
        masked.map(|(name, mask)| of_column(mask, name, table, ctx)).collect::<Result<_>>()?;
    out.sort_by(|a, b| a.column.cmp(&b.column));
    Ok(out)
}

/// The mask of a column of `table`.
pub(super) fn of_column(
    mask: &ast::ColumnMask,
    name: &Identifier,
    table: &TableSchema,
    ctx: &DdlContext<'_>,
) -> Result<ColumnMask> {
    let Some(column) = table.column(name.as_str()) else {
        bail!("Column with name '{name}' doesn't exist on table '{}'", table.name);
    };
    let markers = MarkerSpecs::new(0);
    let analyzer = Analyzer::new(ctx.schema, &Arc::new(table.clone()), &[], &markers);
    let given: Vec<Raw<'_>> = mask.arguments.iter().map(Raw::from).collect();
    let shown = shown(mask, &given);
    let function = find(mask, name, &column.ty, &analyzer, &given, ctx)?;
    check_arguments(&analyzer, &function, &given)?;
    if !same(&function.returns, &column.ty) {
        bail!(
            "Masking function {shown} return type is {}. This is different to the type of the masked column {name} of \
             type {}. Masking functions can only be attached to table columns if they return the same data type as \
             the masked column.",
            display(&function.returns),
            display(&column.ty)
        );
    }
    let types = function.arguments.get(1..).unwrap_or_default();
    let arguments = mask.arguments.iter().zip(types).map(|(term, ty)| {
        let value = analyzer.term(term, &Receiver::new(name.as_str(), ty.clone()))?;
        text_of(value.eval(&scope(ctx))?, ty)
    });
    Ok(ColumnMask {
        column: name.as_str().to_owned(),
        function_keyspace: "system".to_owned(),
        function_name: mask.function.name.as_str().to_owned(),
        argument_types: types.iter().map(CqlType::to_string).collect(),
        arguments: arguments.collect::<Result<_>>()?,
    })
}

/// The keyspace in which the views of a table have its masks.
pub(super) fn shown_by_views(keyspace: &KeyspaceSchema, table: &TableSchema) -> KeyspaceSchema {
    let mut keyspace = keyspace.clone();
    for view in keyspace.views.values_mut().filter(|view| view.base_id == table.id) {
        let has = |mask: &&ColumnMask| view.table.column(&mask.column).is_some();
        let masks: Vec<ColumnMask> = table.masks.iter().filter(has).cloned().collect();
        if view.table.masks != masks {
            let mut shown = view.table.as_ref().clone();
            shown.masks = masks;
            *view = Arc::new(View { table: Arc::new(shown), ..view.as_ref().clone() });
        }
    }
    keyspace
}

fn shown(mask: &ast::ColumnMask, given: &[Raw<'_>]) -> String {
    let arguments: Vec<String> = given.iter().map(Raw::to_string).collect();
    format!("{}({})", mask.function, arguments.join(", "))
}

/// The function of a mask.
fn find(
    mask: &ast::ColumnMask,
    column: &Identifier,
    ty: &CqlType,
    analyzer: &Analyzer<'_>,
    given: &[Raw<'_>],
    ctx: &DdlContext<'_>,
) -> Result<Function> {
    let name = mask.function.name.as_str();
    let keyspace = mask.function.keyspace.as_ref().map(Identifier::as_str);
    if keyspace.is_none_or(|keyspace| keyspace == "system") {
        // Cassandra shows the class of the column's type where a call shows its argument.
        if let Some(function) =
            functions::masking_function(name, ty.clone(), &ty.class_name(), given.len() + 1)?
        {
            return Ok(function);
        }
        if functions::is_native(name) {
            let arguments = [Raw::Column(column)].into_iter().chain(given.iter().cloned()).collect();
            let call = Raw::Function { name: &mask.function, arguments };
            match functions::resolve(analyzer, &call, Some(ty))?.body {
                Body::Aggregate(_) => {
                    bail!(
                        "Aggregate function {} cannot be used for masking table columns",
                        shown(mask, given)
                    )
                }
                Body::Scalar(_) => {
                    bail!(
                        "Not-masking function {} cannot be used for masking table columns",
                        shown(mask, given)
                    )
                }
            }
        }
    }
    let of_user = ctx.schema.keyspace(keyspace.unwrap_or(&analyzer.table.keyspace));
    if of_user.is_some_and(|keyspace| keyspace.functions.iter().any(|function| function.name == name)) {
        bail!("Function {} is kept for Cassandra; Ilion cannot mask columns with it", shown(mask, given));
    }
    bail!(
        "Unable to find masking function for {column}, no declared function matches the signature {}",
        shown(mask, given)
    )
}

fn check_arguments(analyzer: &Analyzer<'_>, function: &Function, given: &[Raw<'_>]) -> Result<()> {
    let arguments: Vec<&Raw<'_>> = given.iter().collect();
    functions::check_fixed_types(analyzer, function, &arguments)?;
    for (i, (argument, ty)) in given.iter().zip(function.arguments.iter().skip(1)).enumerate() {
        if !analyzer.fit(argument, ty).is_assignable() {
            bail!(
                "Type error: {argument} cannot be passed as argument {} of function {} of type {}",
                i + 1,
                function.name,
                display(ty)
            );
        }
    }
    Ok(())
}

/// The text under which a value is kept. One that would be read back as another value is refused.
fn text_of(value: BoundValue, ty: &CqlType) -> Result<Option<String>> {
    let BoundValue::Bytes(value) = value else { return Ok(None) };
    let text = ty.to_text(&value);
    if masks::parse(ty, &text).is_ok_and(|read| read == value) {
        return Ok(Some(text));
    }
    bail!("A mask cannot keep the value {} of type {}", ty.to_literal(Some(&value)), display(ty))
}

fn scope(ctx: &DdlContext<'_>) -> Scope<'static> {
    Scope {
        values: &[],
        now_micros: ctx.now_micros,
        uuids: None,
        table: None,
        row: None,
        aggregates: &[],
        unmasks: true,
    }
}
