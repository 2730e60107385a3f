//! What a SELECT clause refuses before the first row, once its markers are bound.
//!
//! These are arguments that are unset, keys of elements that are null or unset, ends of slices that are null,
//! and constants that a function does not take.

use super::expr::{Expr, Scope};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use crate::functions::ScalarFunction;
use crate::result::{CellPart, GroupBy, Keys, Output, Shape};

impl Shape {
    /// Checks the values that are bound to the selection.
    pub(crate) fn precheck(&self, scope: &Scope<'_>) -> Result<()> {
        let outputs = self.outputs.iter().filter_map(|output| match output {
            Output::Expr(expr) => Some(expr),
            Output::Column(_) => None,
        });
        let groups = self.group_by.iter().filter_map(|by| match by {
            GroupBy::Expr(expr) => Some(expr),
            GroupBy::Column(_) => None,
        });
        let arguments = self.aggregates.iter().flat_map(|call| &call.arguments);
        outputs.chain(groups).chain(arguments).try_for_each(|expr| expr.precheck(scope))
    }
}

impl Expr {
    fn precheck(&self, scope: &Scope<'_>) -> Result<()> {
        match self {
            Expr::Call { function, arguments } => call(function, arguments, scope),
            Expr::List(items)
            | Expr::Tuple(items)
            | Expr::UserType { fields: items, .. }
            | Expr::Set { items, .. }
            | Expr::Vector { items, .. } => items.iter().try_for_each(|item| item.precheck(scope)),
            Expr::Map { entries, .. } => {
                entries.iter().flat_map(|(k, v)| [k, v]).try_for_each(|item| item.precheck(scope))
            }
            Expr::Field { of, .. } => of.precheck(scope),
            Expr::Elements { of, part, .. } => {
                of.precheck(scope)?;
                keys(part, scope)
            }
            Expr::Part(of) => keys(&of.part, scope),
            // Whoever asks: a mask that does not work is to be seen.
            Expr::Masked { clear, masked } => {
                clear.precheck(scope)?;
                masked.precheck(scope)
            }
            Expr::Constant(_)
            | Expr::Now
            | Expr::Marker { .. }
            | Expr::Column(_)
            | Expr::CellInfo(_)
            | Expr::Aggregate(_) => Ok(()),
        }
    }
}

fn call(function: &ScalarFunction, arguments: &[Expr], scope: &Scope<'_>) -> Result<()> {
    for (index, argument) in arguments.iter().enumerate() {
        argument.precheck(scope)?;
        if argument.is_unset(scope) {
            bail!("{}", function.unset_argument());
        }
        if let Expr::Constant(_) | Expr::Marker { .. } = argument
            && let Some(value) = argument.eval_or_null(scope)?
        {
            function.check_fixed(index, &value)?;
        }
    }
    Ok(())
}

fn keys(part: &CellPart, scope: &Scope<'_>) -> Result<()> {
    let refuse = |kind: &str, what: &str| -> Result<()> {
        bail!("Invalid {kind} value for {what} selection on {}", part.shown)
    };
    match &part.keys {
        Keys::One(key) if key.is_unset(scope) => refuse("unset", "element"),
        Keys::One(key) => match key.eval(scope)? {
            BoundValue::Null => refuse("null", "element"),
            BoundValue::Unset | BoundValue::Bytes(_) => Ok(()),
        },
        Keys::Slice { from, to } => from.iter().chain(to).try_for_each(|end| {
            if !end.is_unset(scope) && matches!(end.eval(scope)?, BoundValue::Null) {
                return refuse("null", "slice");
            }
            Ok(())
        }),
    }
}
