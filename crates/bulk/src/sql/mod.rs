//! SQL over tables, by DataFusion.
//!
//! ```text
//! text ──▶ logical plan ──▶ physical plan ──▶ batches          all DataFusion's
//!              │                  │
//!        conditions.rs        provider.rs                       what the tables do of it
//!     (what CQL can judge)  (columns, conditions, limit)
//! ```
//!
//! A table takes over the columns, the conditions that mean the same in CQL, and the limit; the rest is
//! DataFusion's. All tables of a statement are read as of one moment. Statements only read: what would change
//! or store something is refused.

mod catalog;
mod conditions;
mod parameters;
mod provider;
mod uuids;

pub use parameters::values_of;

use crate::handle::Value;
use crate::sql::catalog::Keyspaces;
use crate::sql::provider::CqlTable;
use crate::{BulkError, Split, Table, Tables};
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{
    SendableRecordBatchStream, disk_manager::DiskManagerBuilder, disk_manager::DiskManagerMode,
};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use env::Env;
use env::sync::Mutex;
use model::Schema;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The name of the one catalog.
pub const CATALOG: &str = "ilion";
/// Bytes of a statement at most.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Operators of a statement at most.
const OPERATORS_MAX: usize = 400;
/// The schema in which names without a keyspace are looked up: all tables whose name only one keyspace has.
pub const ANY_KEYSPACE: &str = "any";

/// What statements may take.
#[derive(Clone, Copy, Debug)]
pub struct SqlLimits {
    /// Bytes that joins, sorts and aggregates of all statements may hold.
    pub memory_bytes: usize,
    /// Threads of one statement.
    pub partitions: usize,
}

impl Default for SqlLimits {
    fn default() -> Self {
        SqlLimits { memory_bytes: 256 << 20, partitions: 2 }
    }
}

/// Runs statements on tables.
#[derive(Clone)]
pub struct Sql {
    env: Env,
    tables: Arc<dyn Tables>,
    limits: SqlLimits,
    runtime: Arc<RuntimeEnv>,
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sql").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What all tables of one statement share.
#[derive(Debug)]
pub(crate) struct Scope {
    env: Env,
    tables: Arc<dyn Tables>,
    schema: Arc<Schema>,
    /// The moment at which TTLs and deletions are judged.
    now_s: u32,
    /// The only part of the ring that is read.
    split: Option<Split>,
    partitions: usize,
    /// Tables that were opened: who is named twice is the same both times.
    opened: Mutex<HashMap<(String, String), Arc<dyn Table>>>,
}

impl Scope {
    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        let key = (keyspace.to_owned(), name.to_owned());
        if let Some(table) = self.opened.lock().get(&key) {
            return Ok(Arc::clone(table));
        }
        let table = self.tables.table(keyspace, name)?;
        self.opened.lock().insert(key, Arc::clone(&table));
        Ok(table)
    }
}

/// A table, by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
}

/// A statement that can be run.
pub struct Query {
    context: SessionContext,
    plan: LogicalPlan,
    tables: Vec<TableName>,
    now_s: u32,
}

/// What is known of a statement without the values of its parameters.
#[derive(Clone, Debug)]
pub struct Described {
    /// What it answers.
    pub schema: SchemaRef,
    /// Its parameters.
    pub parameters: Vec<DataType>,
    /// The tables that it reads, each once.
    pub tables: Vec<TableName>,
}

/// A part of the rows of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPart {
    /// The part of the ring; `None` for everything.
    pub split: Option<Split>,
}

impl Sql {
    /// Statements on these tables.
    ///
    /// # Errors
    /// When DataFusion cannot be set up.
    pub fn new(env: Env, tables: Arc<dyn Tables>, limits: SqlLimits) -> Result<Sql, DataFusionError> {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(limits.memory_bytes)))
            .with_disk_manager_builder(disk)
            .build_arc()?;
        Ok(Sql { env, tables, limits, runtime })
    }

    /// The same on other tables, such as those of a caller. What statements may take is shared.
    #[must_use]
    pub fn with_tables(&self, tables: Arc<dyn Tables>) -> Sql {
        Sql { tables, ..self.clone() }
    }

    /// The tables.
    pub fn tables(&self) -> &Arc<dyn Tables> {
        &self.tables
    }

    /// The current moment, at which a statement judges TTLs.
    pub fn now_s(&self) -> u32 {
        u32::try_from(self.env.now_seconds()).unwrap_or(0)
    }

    /// Plans a statement as of `now_s`; of a part of the ring if one is given, which must be one of
    /// [`Query::parts`] of the same statement.
    ///
    /// # Errors
    /// When the statement makes no sense, or does more than read.
    pub async fn plan(&self, text: &str, now_s: u32, split: Option<Split>) -> Result<Query, DataFusionError> {
        self.plan_with(text, &[], now_s, split).await
    }

    /// As [`Sql::plan`], of a statement with parameters, with their values.
    ///
    /// # Errors
    /// When the statement makes no sense, does more than read, or has another number of parameters.
    pub async fn plan_with(
        &self,
        text: &str,
        values: &[Value],
        now_s: u32,
        split: Option<Split>,
    ) -> Result<Query, DataFusionError> {
        let (context, plan) = self.read_text(text, now_s, split).await?;
        // The optimizer may leave out tables that were asked for.
        let tables = tables_of(&plan)?;
        let plan = context.state().optimize(&parameters::bind(plan, values)?)?;
        Ok(Query { context, plan, tables, now_s })
    }

    /// What a statement is, as far as that is known without values.
    ///
    /// # Errors
    /// When the statement makes no sense, or does more than read.
    pub async fn describe(&self, text: &str) -> Result<Described, DataFusionError> {
        let (_, plan) = self.read_text(text, self.now_s(), None).await?;
        Ok(Described {
            schema: Arc::clone(plan.schema().inner()),
            parameters: parameters::types_of(&plan)?,
            tables: tables_of(&plan)?,
        })
    }

    /// The plan of a statement as it is written.
    async fn read_text(
        &self,
        text: &str,
        now_s: u32,
        split: Option<Split>,
    ) -> Result<(SessionContext, LogicalPlan), DataFusionError> {
        check_size(text)?;
        let text = parameters::numbered(text)?;
        let scope = Arc::new(Scope {
            env: self.env.clone(),
            tables: Arc::clone(&self.tables),
            schema: self.tables.schema(),
            now_s,
            split,
            partitions: self.limits.partitions,
            opened: Mutex::new(HashMap::new()),
        });
        let config = SessionConfig::new()
            .with_default_catalog_and_schema(CATALOG, ANY_KEYSPACE)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true)
            .with_target_partitions(self.limits.partitions);
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(&self.runtime))
            .with_default_features()
            .with_analyzer_rules(analyzer_rules())
            .build();
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(Keyspaces::new(scope)));
        let plan = context.state().create_logical_plan(&text).await?;
        let only_reads =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        only_reads.verify_plan(&plan)?;
        Ok((context, plan))
    }
}

impl Query {
    /// The schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.plan.schema().inner())
    }

    /// The tables that it reads, each once.
    pub fn tables(&self) -> &[TableName] {
        &self.tables
    }

    /// The moment at which it judges TTLs.
    pub fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Parts that together are its rows: several only where each row of the answer comes from one row of one
    /// table, and then at most as many as `parts` says of the bytes of that table, before compression.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub async fn parts(&self, parts: fn(u64) -> u64) -> Result<Vec<QueryPart>, DataFusionError> {
        let whole = vec![QueryPart { split: None }];
        let Some((provider, filters)) = sole_table(&self.plan) else { return Ok(whole) };
        let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<CqlTable>() else {
            return Ok(whole);
        };
        let splits = table.splits(&filters, parts).await?;
        Ok(splits.into_iter().map(|split| QueryPart { split: Some(split) }).collect())
    }

    /// Runs it.
    ///
    /// # Errors
    /// When it cannot be run. Errors of tables come in the stream.
    pub async fn run(&self) -> Result<SendableRecordBatchStream, DataFusionError> {
        execute_stream(self.physical_plan().await?, self.context.task_ctx())
    }

    /// How it will be run.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn physical_plan(&self) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let state = self.context.state();
        // It was optimized already.
        state.query_planner().create_physical_plan(&self.plan, &state).await
    }
}

/// Refuses what would be nested too deeply. What the parser itself nests has a bound there; a chain of
/// operators has none, and each is a level of the tree that the planner walks.
fn check_size(text: &str) -> Result<(), DataFusionError> {
    if text.len() > TEXT_BYTES_MAX {
        return plan_err!("the statement has {} bytes, {TEXT_BYTES_MAX} are the most", text.len());
    }
    // What cannot be read is told by the parser.
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap_or_default();
    let is_operator = |token: &&Token| match token {
        Token::Word(word) => {
            matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::UNION)
        }
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Comma
        | Token::LParen
        | Token::RParen
        | Token::Period
        | Token::SemiColon
        | Token::EOF => false,
        _ => true,
    };
    let operators = tokens.iter().filter(is_operator).count();
    if operators > OPERATORS_MAX {
        return plan_err!("the statement has {operators} operators, {OPERATORS_MAX} are the most");
    }
    Ok(())
}

/// DataFusion's own, behind ours.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(uuids::UuidLiterals)];
    rules.extend(Analyzer::new().rules);
    rules
}

/// The only table of a plan each of whose rows is made of one row of that table, with the conditions that the
/// table takes over.
fn sole_table(plan: &LogicalPlan) -> Option<(Arc<dyn TableProvider>, Vec<Expr>)> {
    let is_plain = |expr: &Expr| {
        let mut is_plain = true;
        let walked = expr.apply(|node| {
            let is_other = matches!(
                node,
                Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::AggregateFunction(_)
                    | Expr::WindowFunction(_)
                    | Expr::Unnest(_)
                    | Expr::OuterReferenceColumn(..)
            );
            is_plain &= !is_other;
            Ok(if is_other { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        walked.is_ok() && is_plain
    };
    match plan {
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_plain) => {
            sole_table(&projection.input)
        }
        LogicalPlan::Filter(filter) if is_plain(&filter.predicate) => sole_table(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => sole_table(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() && scan.filters.iter().all(is_plain) => {
            Some((source_as_provider(&scan.source).ok()?, scan.filters.clone()))
        }
        _ => None,
    }
}

/// The tables that a plan reads, each once.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<TableName>, DataFusionError> {
    let mut out: Vec<TableName> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<CqlTable>()
        {
            let name = table.name();
            if !out.contains(&name) {
                out.push(name);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(out)
}

/// Does work that may wait for a disk or a node.
async fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BulkError> + Send + 'static,
) -> Result<T, DataFusionError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(external),
        Err(error) => Err(DataFusionError::External(Box::new(error))),
    }
}

/// An error of a table, as DataFusion hands it on.
pub(crate) fn external(error: BulkError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
