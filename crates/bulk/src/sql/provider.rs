//! A table of CQL in a plan.

use super::conditions::{condition, quoted};
use super::{Scope, TableName, external, waiting};
use crate::stream::stream;
use crate::{BulkError, ScanOptions, ScanRequest, Select, Split, Table};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Result as PlanResult, Statistics, tree_node::TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, expressions};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Bytes of a split, before compression, below which another thread is of no use.
const SPLIT_BYTES_MIN: u64 = 1 << 20;

/// A table in a plan.
#[derive(Debug)]
pub(super) struct CqlTable {
    scope: Arc<Scope>,
    table: Arc<dyn Table>,
    schema: SchemaRef,
}

/// Conditions of a plan, as a table takes them over.
struct TakenOver {
    /// In CQL.
    words: Vec<String>,
    /// For each condition what it is.
    each: Vec<TableProviderFilterPushDown>,
}

impl CqlTable {
    pub fn open(scope: Arc<Scope>, keyspace: &str, name: &str) -> Result<CqlTable, BulkError> {
        let table = scope.table(keyspace, name)?;
        let now_s = scope.now_s;
        let schema = ScanRequest::of_table(table.definition(), None, now_s, ScanOptions::default())?.schema();
        Ok(CqlTable { scope, table, schema })
    }

    /// Its names.
    pub fn name(&self) -> TableName {
        let definition = self.table.definition();
        TableName { keyspace: definition.keyspace.clone(), table: definition.name.clone() }
    }

    /// The request with these conditions in CQL.
    fn request(
        &self,
        words: &[String],
        columns: Option<Vec<String>>,
        limit: Option<usize>,
    ) -> Result<ScanRequest, BulkError> {
        let definition = self.table.definition();
        let select = Select {
            filter: (!words.is_empty()).then(|| words.join(" AND ")),
            columns,
            limit: limit.map(|limit| limit as u64),
            ..Select::of(&definition.keyspace, &definition.name)
        };
        let mut request = select.request(&self.scope.env, &self.scope.schema)?;
        Arc::make_mut(&mut request.command).now_s = self.scope.now_s;
        Ok(request)
    }

    /// What the table takes over of some conditions: each that CQL has and allows together with those before.
    fn take_over(&self, filters: &[&Expr]) -> TakenOver {
        let mut out = TakenOver { words: Vec::new(), each: Vec::with_capacity(filters.len()) };
        for filter in filters {
            out.each.push(TableProviderFilterPushDown::Unsupported);
            let Some(condition) = condition(filter, self.table.definition()) else { continue };
            out.words.push(condition.words);
            if self.request(&out.words, None, None).is_err() {
                out.words.pop();
                continue;
            }
            if let Some(last) = out.each.last_mut() {
                *last = match condition.is_exact {
                    true => TableProviderFilterPushDown::Exact,
                    false => TableProviderFilterPushDown::Inexact,
                };
            }
        }
        out
    }

    /// Splits of what these conditions leave, at most as many as `parts` says of the bytes of the table.
    pub async fn splits(
        &self,
        filters: &[Expr],
        parts: impl FnOnce(u64) -> u64 + Send + 'static,
    ) -> Result<Vec<Split>, DataFusionError> {
        let taken = self.take_over(&filters.iter().collect::<Vec<_>>());
        let request = self.request(&taken.words, None, None).map_err(external)?;
        let table = Arc::clone(&self.table);
        let only = self.scope.split.clone();
        waiting(move || match only {
            Some(split) => Ok(vec![split]),
            None => {
                let bytes = table.data_bytes()?;
                let wanted = (bytes / SPLIT_BYTES_MIN).clamp(1, parts(bytes).max(1));
                table.splits(&request, wanted)
            }
        })
        .await
    }
}

#[tonic::async_trait]
impl TableProvider for CqlTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        Ok(self.take_over(filters).each)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let filters: Vec<&Expr> = filters.iter().collect();
        let taken = self.take_over(&filters);
        // Conditions come one by one, and not all that are allowed alone are allowed together.
        let left = filters.iter().zip(&taken.each);
        let left = left.filter(|(_, how)| **how == TableProviderFilterPushDown::Unsupported);
        let left: Vec<Expr> = left.map(|(filter, _)| (*filter).clone()).collect();
        let filters: Vec<Expr> = filters.into_iter().cloned().collect();
        let partitions = self.scope.partitions as u64;
        let splits = self.splits(&filters, move |_| partitions).await?;
        let name_of = |i: &usize| self.schema.fields().get(*i).map(|field| field.name().clone());
        let names = projection.map(|projection| projection.iter().filter_map(name_of).collect::<Vec<_>>());
        // Who asks for no column counts rows.
        let counts = names.as_ref().is_some_and(Vec::is_empty) && filters.is_empty() && limit.is_none();
        let table = Arc::clone(&self.table);
        let known_rows = match counts && self.scope.split.is_none() {
            true => waiting(move || table.known_rows()).await?,
            false => None,
        };
        let scan = |columns, limit| -> PlanResult<Arc<dyn ExecutionPlan>> {
            let request = self.request(&taken.words, columns, limit).map_err(external)?;
            let scan = CqlScan::new(
                Arc::clone(&self.scope),
                Arc::clone(&self.table),
                request,
                splits.clone(),
                known_rows,
            );
            Ok(Arc::new(scan))
        };
        let Some(left) = conjunction(left) else { return scan(names, limit) };
        let whole = scan(None, None)?;
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let left = state.create_physical_expr(left, &schema)?;
        let filtered: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(left, whole)?);
        let Some(names) = names else { return Ok(filtered) };
        let columns = names.into_iter().map(|name| {
            let column: Arc<dyn PhysicalExpr> = expressions::col(&name, &self.schema)?;
            Ok((column, name))
        });
        Ok(Arc::new(ProjectionExec::try_new(columns.collect::<PlanResult<Vec<_>>>()?, filtered)?))
    }
}

/// Splits of a table, each a partition of the plan.
struct CqlScan {
    scope: Arc<Scope>,
    table: Arc<dyn Table>,
    request: ScanRequest,
    splits: Vec<Split>,
    /// Of all splits together, where that is known before.
    known_rows: Option<u64>,
    properties: Arc<PlanProperties>,
}

impl CqlScan {
    fn new(
        scope: Arc<Scope>,
        table: Arc<dyn Table>,
        request: ScanRequest,
        splits: Vec<Split>,
        known_rows: Option<u64>,
    ) -> CqlScan {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(request.schema()),
            Partitioning::UnknownPartitioning(splits.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        CqlScan { scope, table, request, splits, known_rows, properties }
    }
}

impl fmt::Debug for CqlScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CqlScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let definition = self.table.definition();
        let names: Vec<String> = self.request.columns.iter().map(|column| quoted(&column.name)).collect();
        write!(f, "CqlScan: {}.{}, columns=[{}]", definition.keyspace, definition.name, names.join(", "))?;
        if let Some(filter) = self.request.words.as_ref().and_then(|words| words.filter.as_ref()) {
            write!(f, ", where=[{filter}]")?;
        }
        if let Some(limit) = self.request.limit() {
            write!(f, ", limit={limit}")?;
        }
        write!(f, ", splits={}", self.splits.len())
    }
}

impl ExecutionPlan for CqlScan {
    fn name(&self) -> &str {
        "CqlScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> PlanResult<TreeNodeRecursion>,
    ) -> PlanResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// With the number of rows, `count(*)` is a constant.
    fn partition_statistics(&self, partition: Option<usize>) -> PlanResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.request.schema());
        if let (None, Some(rows)) = (partition, self.known_rows) {
            statistics.num_rows = Precision::Exact(usize::try_from(rows).unwrap_or(usize::MAX));
        }
        Ok(Arc::new(statistics))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
        let Some(split) = self.splits.get(partition).cloned() else {
            return Err(DataFusionError::Internal(format!("there is no split {partition}")));
        };
        let (tasks, table) = (self.scope.env.tasks.clone(), Arc::clone(&self.table));
        let batches = stream(tasks, table, &self.request, split, |_| ());
        let schema = self.request.schema();
        let batches = batches.map(|batch: Result<RecordBatch, BulkError>| batch.map_err(external));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
