//! Uuids in the text of a statement: `id = '123e4567-...'` compares a uuid with a uuid.
//!
//! For Arrow a uuid is sixteen bytes, and DataFusion would compare these with the characters of the text:
//! never equal, and no error. So text that is compared with a uuid column becomes its bytes before anything
//! else looks at the types.

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, plan_datafusion_err};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use uuid::Uuid;

#[derive(Debug)]
pub(super) struct UuidLiterals;

impl AnalyzerRule for UuidLiterals {
    fn name(&self) -> &str {
        "uuid_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            plan.map_expressions(|expr| expr.transform_up(|expr| rewritten(expr, &schema)))
        })?;
        Ok(rewritten.data)
    }
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_uuid = |expr: &Expr| {
        matches!(expr, Expr::Column(_))
            && expr.get_type(schema).is_ok_and(|found| found == DataType::FixedSizeBinary(16))
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_uuid(&left) => {
            let right = Box::new(literal(*right)?);
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_uuid(&right) => {
            let left = Box::new(literal(*left)?);
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated }) if is_uuid(&expr) => {
            let list = list.into_iter().map(literal).collect::<Result<_>>()?;
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_uuid(&expr) => {
            let (low, high) = (Box::new(literal(*low)?), Box::new(literal(*high)?));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        other => Transformed::no(other),
    })
}

/// The bytes of a uuid in a text; anything else as it is.
fn literal(expr: Expr) -> Result<Expr> {
    let Expr::Literal(value, metadata) = expr else { return Ok(expr) };
    let text = match &value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text,
        _ => return Ok(Expr::Literal(value, metadata)),
    };
    let uuid = Uuid::parse_str(text).map_err(|_| plan_datafusion_err!("'{text}' is no uuid"))?;
    Ok(Expr::Literal(ScalarValue::FixedSizeBinary(16, Some(uuid.as_bytes().to_vec())), metadata))
}
