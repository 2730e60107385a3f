//! From a parsed statement to a plan.

use super::batch::{BatchPlan, check_kinds};
use super::json_insert::JsonSource;
use super::roles;
use super::select::SelectPlan;
use super::write::{Conditions, WriteKind, WritePlan};
use super::{Plan, Prepared, StatementKind, TableRef};
use crate::analysis::context::MarkerSpecs;
use crate::analysis::modification::{Operation, OperationKind};
use crate::analysis::raw::Raw;
use crate::analysis::relation::{Restriction, Sorted, Test};
use crate::analysis::restrictions::Verb;
use crate::analysis::{Analyzer, Expr, Receiver};
use crate::ast::{
    Batch, BatchKind, Delete, Identifier, Insert, InsertJson, JsonValue, Literal, LiteralKind, Modification,
    ModificationCondition, ParsedStatement, QualifiedName, Statement, Term, Update, Using,
};
use crate::error::{Result, bail};
use crate::explain;
use model::schema::KeyspaceSchema;
use model::types::CqlType;
use model::{ColumnDef, ColumnKind, Schema, TableSchema};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// Prepares a statement for a schema. `keyspace` is the one in use, for names without a keyspace.
pub fn prepare(parsed: ParsedStatement, schema: &Schema, keyspace: Option<&str>) -> Result<Prepared> {
    let ParsedStatement { statement, markers: names } = parsed;
    let markers = MarkerSpecs::new(names.len());
    let preparer = Preparer { schema, keyspace, names: &names, markers: &markers };
    let mut prepared = match statement {
        Statement::Select(select) => {
            let analyzer = preparer.analyzer(&select.table)?;
            let (plan, columns) = SelectPlan::new(&analyzer, &select)?;
            let masked_conditions = plan.masked_conditions();
            let mut prepared = blank(StatementKind::Select, Plan::Select(Box::new(plan)));
            prepared.masked_conditions = masked_conditions;
            prepared.result_columns = columns;
            prepared.for_table(&analyzer.table, &select.table);
            prepared
        }
        Statement::Explain { analyze, select } => {
            let analyzer = preparer.analyzer(&select.table)?;
            let (plan, _) = SelectPlan::new(&analyzer, &select)?;
            let table = &analyzer.table;
            let masked_conditions = plan.masked_conditions();
            let plan = Plan::Explain { analyze, select: Box::new(plan) };
            let mut prepared = blank(StatementKind::Explain, plan);
            prepared.masked_conditions = masked_conditions;
            prepared.result_columns = explain::columns(&table.keyspace, &table.name, analyze);
            prepared.for_table(table, &select.table);
            prepared
        }
        Statement::Insert(insert) => preparer.modification(&Modification::Insert(insert))?,
        Statement::InsertJson(insert) => preparer.modification(&Modification::InsertJson(insert))?,
        Statement::Update(update) => preparer.modification(&Modification::Update(update))?,
        Statement::Delete(delete) => preparer.modification(&Modification::Delete(delete))?,
        Statement::Batch(batch) => preparer.batch(&batch)?,
        Statement::Truncate(name) => {
            let table = preparer.table(&name)?;
            if preparer.is_virtual(&table) {
                bail!("Truncation is not supported by table {}.{}", table.keyspace, table.name);
            }
            if preparer.schema.keyspace(&table.keyspace).is_some_and(|k| k.views.contains_key(&table.name)) {
                bail!("Cannot TRUNCATE materialized view directly; must truncate base table instead");
            }
            preparer.check_derived(&table, KeyspaceSchema::truncate_obstacle)?;
            let mut prepared = blank(StatementKind::Truncate, Plan::Truncate(Arc::clone(&table)));
            prepared.for_table(&table, &name);
            prepared
        }
        Statement::Use(keyspace) => {
            if schema.keyspace(keyspace.as_str()).is_none() {
                bail!("Keyspace '{keyspace}' does not exist");
            }
            blank(StatementKind::Use, Plan::Use(keyspace.as_str().to_owned()))
        }
        Statement::Describe(describe) => blank(StatementKind::Describe, Plan::Describe(Arc::new(*describe))),
        other if roles::is_about_roles(&other) => blank(StatementKind::Role, Plan::Role(Arc::new(other))),
        other => {
            if let Some(name) = other.changed_name() {
                preparer.keyspace_of(name)?;
            }
            blank(StatementKind::Schema, Plan::Schema(Arc::new(other)))
        }
    };
    let specs = markers.borrow();
    prepared.bind_variables = specs.finish()?;
    if let [only] = prepared.tables.as_slice()
        && let Some(table) = schema.table(&only.keyspace, &only.table)
    {
        prepared.partition_key_binds = specs.partition_key_binds(table);
    }
    Ok(prepared)
}

fn blank(kind: StatementKind, plan: Plan) -> Prepared {
    let names_tables = !matches!(
        kind,
        StatementKind::Use | StatementKind::Describe | StatementKind::Schema | StatementKind::Role
    );
    Prepared {
        kind,
        bind_variables: Vec::new(),
        partition_key_binds: Vec::new(),
        result_columns: Vec::new(),
        tables: Vec::new(),
        is_qualified: names_tables,
        is_conditional: false,
        masked_conditions: Vec::new(),
        has_masks: false,
        plan,
    }
}

impl Prepared {
    fn for_table(&mut self, table: &TableSchema, name: &QualifiedName) {
        let reference =
            TableRef { keyspace: table.keyspace.clone(), table: table.name.clone(), id: table.id };
        if !self.tables.contains(&reference) {
            self.tables.push(reference);
        }
        self.is_qualified &= name.keyspace.is_some();
        self.has_masks |= !table.masks.is_empty();
    }
}

struct Preparer<'a> {
    schema: &'a Schema,
    keyspace: Option<&'a str>,
    names: &'a [Option<Identifier>],
    markers: &'a RefCell<MarkerSpecs>,
}

impl<'a> Preparer<'a> {
    fn keyspace_of<'n>(&self, name: &'n QualifiedName) -> Result<&'n str>
    where
        'a: 'n,
    {
        match (&name.keyspace, self.keyspace) {
            (Some(keyspace), _) => Ok(keyspace.as_str()),
            (None, Some(keyspace)) => Ok(keyspace),
            (None, None) => {
                bail!(
                    "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
                )
            }
        }
    }

    fn table(&self, name: &QualifiedName) -> Result<Arc<TableSchema>> {
        let keyspace = self.keyspace_of(name)?;
        if self.schema.keyspace(keyspace).is_none() {
            bail!("keyspace {keyspace} does not exist");
        }
        match self.schema.table(keyspace, name.name.as_str()) {
            Some(table) => Ok(Arc::clone(table)),
            None => bail!("table {} does not exist", name.name),
        }
    }

    /// Refuses writes that something else of Cassandra's would have to follow, and those to what the node
    /// relies on.
    fn check_derived(
        &self,
        table: &TableSchema,
        obstacle: fn(&KeyspaceSchema, &TableSchema) -> Option<String>,
    ) -> Result<()> {
        match self.schema.keyspace(&table.keyspace).and_then(|keyspace| obstacle(keyspace, table)) {
            Some(obstacle) => bail!("{obstacle}"),
            None => Ok(()),
        }
    }

    fn is_virtual(&self, table: &TableSchema) -> bool {
        self.schema.keyspace(&table.keyspace).is_some_and(|k| k.is_virtual)
    }

    fn analyzer(&self, name: &QualifiedName) -> Result<Analyzer<'a>> {
        Ok(Analyzer::new(self.schema, &self.table(name)?, self.names, self.markers))
    }

    fn modification(&self, modification: &Modification) -> Result<Prepared> {
        let (kind, name) = match modification {
            Modification::Insert(insert) => (StatementKind::Insert, &insert.table),
            Modification::InsertJson(insert) => (StatementKind::Insert, &insert.table),
            Modification::Update(update) => (StatementKind::Update, &update.table),
            Modification::Delete(delete) => (StatementKind::Delete, &delete.table),
        };
        let plan = self.write(modification)?;
        let table = Arc::clone(&plan.table);
        let (is_conditional, masked_conditions) = (plan.is_conditional(), plan.masked_conditions());
        let mut prepared = blank(kind, Plan::Write(Box::new(plan)));
        prepared.for_table(&table, name);
        prepared.is_conditional = is_conditional;
        prepared.masked_conditions = masked_conditions;
        Ok(prepared)
    }

    fn write(&self, modification: &Modification) -> Result<WritePlan> {
        let plan = match modification {
            Modification::Insert(insert) => self.insert(insert)?,
            Modification::InsertJson(insert) => self.insert_json(insert)?,
            Modification::Update(update) => self.update(update)?,
            Modification::Delete(delete) => self.delete(delete)?,
        };
        if self.is_virtual(&plan.table) {
            bail!("Modification is not supported by table {}.{}", plan.table.keyspace, plan.table.name);
        }
        self.check_derived(&plan.table, KeyspaceSchema::write_obstacle)?;
        if plan.is_conditional() && plan.table.is_counter {
            bail!("Conditional updates are not supported on counter tables");
        }
        check_counter(&plan)?;
        if plan.is_conditional() && plan.timestamp.is_some() {
            bail!("Cannot provide custom timestamp for conditional updates");
        }
        Ok(plan)
    }

    fn insert(&self, insert: &Insert) -> Result<WritePlan> {
        let analyzer = self.analyzer(&insert.table)?;
        if analyzer.table.is_counter {
            bail!("INSERT statements are not allowed on counter tables, use UPDATE instead");
        }
        if insert.columns.len() != insert.values.len() {
            bail!("Unmatched column names/values");
        }
        let mut names = HashSet::with_capacity(insert.columns.len());
        if !insert.columns.iter().all(|column| names.insert(column)) {
            bail!("The column names contains duplicates");
        }
        let mut sorted = Vec::new();
        let mut operations = Vec::new();
        let mut names_clustering = false;
        for (name, value) in insert.columns.iter().zip(&insert.values) {
            let column = analyzer.column(name)?;
            match column.kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => {
                    names_clustering |= column.kind == ColumnKind::Clustering;
                    let value = analyzer.term(value, &Receiver::of(&column))?;
                    sorted.push(equality(&column, value));
                }
                _ => operations.push(analyzer.set_column(&column, value)?),
            }
        }
        let only_static = is_only_static(&operations) && !names_clustering;
        let (timestamp, ttl) = using(&analyzer, &insert.using)?;
        Ok(WritePlan {
            table: Arc::clone(&analyzer.table),
            kind: WriteKind::Insert,
            restrictions: analyzer.restrictions_of(Verb::Insert, sorted.into_iter().map(Ok), only_static)?,
            operations,
            only_static,
            timestamp,
            ttl,
            conditions: if insert.if_not_exists { Conditions::NotExists } else { Conditions::None },
            json: None,
        })
    }

    fn insert_json(&self, insert: &InsertJson) -> Result<WritePlan> {
        let analyzer = self.analyzer(&insert.table)?;
        if analyzer.table.is_counter {
            bail!("INSERT statements are not allowed on counter tables, use UPDATE instead");
        }
        // Cassandra wants a value of the clustering column that is not shown, too, and does not find the
        // column.
        for column in analyzer.table.clustering_columns() {
            analyzer.column(&Identifier::quoted(column.name.as_str()))?;
        }
        let receiver = Receiver::new("[json]", CqlType::Text);
        let document = match &insert.value {
            JsonValue::Marker(index) => analyzer.term(Raw::Marker(*index), &receiver)?,
            JsonValue::Literal(text) => {
                let literal = Literal { kind: LiteralKind::String, text: text.clone() };
                analyzer.term(Raw::Literal(&literal), &receiver)?
            }
        };
        let json = JsonSource { document, default_unset: insert.default_unset, markers: self.names.len() };
        json.check(&analyzer.table)?;
        let (mut sorted, mut operations) = (Vec::new(), Vec::new());
        for (i, column) in analyzer.table.select_star().iter().enumerate() {
            // The document's values come behind those of the statement's markers.
            let value = Expr::Marker { index: self.names.len() + i, ty: column.ty.clone() };
            match column.kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => sorted.push(equality(column, value)),
                _ => {
                    operations.push(Operation { column: Arc::clone(column), kind: OperationKind::Set(value) })
                }
            }
        }
        let (timestamp, ttl) = using(&analyzer, &insert.using)?;
        Ok(WritePlan {
            table: Arc::clone(&analyzer.table),
            kind: WriteKind::Insert,
            restrictions: analyzer.restrictions_of(Verb::Insert, sorted.into_iter().map(Ok), false)?,
            operations,
            only_static: false,
            timestamp,
            ttl,
            conditions: if insert.if_not_exists { Conditions::NotExists } else { Conditions::None },
            json: Some(json),
        })
    }

    fn update(&self, update: &Update) -> Result<WritePlan> {
        let analyzer = self.analyzer(&update.table)?;
        let (timestamp, ttl) = using(&analyzer, &update.using)?;
        // Conditions come last in the text but decide what WHERE has to name; markers are numbered by the
        // text.
        let conditions = conditions(&analyzer, &update.condition)?;
        let operations: Vec<Operation> =
            update.assignments.iter().map(|a| analyzer.assignment(a)).collect::<Result<_>>()?;
        let only_static = is_only_static(&operations) && conditions_are_static(&conditions);
        let restrictions = analyzer.restrictions(Verb::Update, &update.filter, only_static)?;
        Ok(WritePlan {
            table: Arc::clone(&analyzer.table),
            kind: WriteKind::Update,
            restrictions,
            operations,
            only_static,
            timestamp,
            ttl,
            conditions,
            json: None,
        })
    }

    fn delete(&self, delete: &Delete) -> Result<WritePlan> {
        let analyzer = self.analyzer(&delete.table)?;
        let timestamp = timestamp(&analyzer, delete.timestamp.as_ref())?;
        let conditions = conditions(&analyzer, &delete.condition)?;
        let operations: Vec<Operation> =
            delete.deletions.iter().map(|d| analyzer.deletion(d)).collect::<Result<_>>()?;
        let only_static = is_only_static(&operations) && conditions_are_static(&conditions);
        let restrictions = analyzer.restrictions(Verb::Delete, &delete.filter, only_static)?;
        let plan = WritePlan {
            table: Arc::clone(&analyzer.table),
            kind: WriteKind::Delete,
            restrictions,
            operations,
            only_static,
            timestamp,
            ttl: None,
            conditions,
            json: None,
        };
        let has_condition = plan.is_conditional() && !plan.table.is_counter;
        if has_condition && !plan.restrictions.clustering.names_rows() {
            if !is_only_static(&plan.operations) {
                bail!(
                    "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to \
                     delete non static columns"
                );
            }
            if !conditions_are_static(&plan.conditions) {
                bail!(
                    "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to use \
                     IF condition on non static columns"
                );
            }
        }
        Ok(plan)
    }

    fn batch(&self, batch: &Batch) -> Result<Prepared> {
        let mut writes = Vec::with_capacity(batch.statements.len());
        let mut prepared = blank(
            StatementKind::Batch,
            Plan::Batch(Box::new(BatchPlan { kind: batch.kind, writes: Vec::new(), timestamp: None })),
        );
        let mut timestamp_expr = None;
        for statement in &batch.statements {
            let write = self.write(statement)?;
            let name = match statement {
                Modification::Insert(insert) => &insert.table,
                Modification::InsertJson(insert) => &insert.table,
                Modification::Update(update) => &update.table,
                Modification::Delete(delete) => &delete.table,
            };
            prepared.for_table(&write.table, name);
            if timestamp_expr.is_none() && batch.using.timestamp.is_some() {
                let analyzer = self.analyzer(name)?;
                timestamp_expr = timestamp(&analyzer, batch.using.timestamp.as_ref())?;
            }
            writes.push(write);
        }
        if let Some(Term::Marker(index)) = batch.using.timestamp {
            self.markers.borrow_mut().belongs_to_batch(index);
        }
        check_batch(batch, &writes)?;
        if batch.statements.is_empty()
            && let Some(Term::Marker(_)) = batch.using.timestamp
        {
            bail!("A BATCH without statements cannot have markers");
        }
        prepared.is_conditional = writes.iter().any(WritePlan::is_conditional);
        // Conditions are of one table.
        let conditions = writes.iter().flat_map(WritePlan::masked_conditions);
        prepared.masked_conditions = conditions.collect();
        prepared.plan =
            Plan::Batch(Box::new(BatchPlan { kind: batch.kind, writes, timestamp: timestamp_expr }));
        Ok(prepared)
    }
}

fn equality(column: &Arc<ColumnDef>, value: Expr) -> Sorted {
    Sorted::Columns(Restriction { columns: vec![Arc::clone(column)], is_multi: false, test: Test::Eq(value) })
}

fn is_only_static(operations: &[Operation]) -> bool {
    !operations.is_empty() && operations.iter().all(|o| o.column.kind == ColumnKind::Static)
}

fn conditions_are_static(conditions: &Conditions) -> bool {
    match conditions {
        Conditions::Columns(plans) => plans.iter().all(|p| p.column.kind == ColumnKind::Static),
        _ => true,
    }
}

fn conditions(analyzer: &Analyzer<'_>, condition: &ModificationCondition) -> Result<Conditions> {
    Ok(match condition {
        ModificationCondition::None => Conditions::None,
        ModificationCondition::Exists => Conditions::Exists,
        ModificationCondition::Columns(columns) => {
            Conditions::Columns(columns.iter().map(|c| analyzer.condition(c)).collect::<Result<_>>()?)
        }
    })
}

fn timestamp(analyzer: &Analyzer<'_>, term: Option<&Term>) -> Result<Option<Expr>> {
    term.map(|t| analyzer.term(t, &Receiver::new("[timestamp]", CqlType::BigInt))).transpose()
}

fn using(analyzer: &Analyzer<'_>, using: &Using) -> Result<(Option<Expr>, Option<Expr>)> {
    let ttl =
        using.ttl.as_ref().map(|t| analyzer.term(t, &Receiver::new("[ttl]", CqlType::Int))).transpose()?;
    Ok((timestamp(analyzer, using.timestamp.as_ref())?, ttl))
}

fn check_counter(plan: &WritePlan) -> Result<()> {
    if !plan.table.is_counter {
        return Ok(());
    }
    if plan.timestamp.is_some() {
        bail!("Cannot provide custom timestamp for counter updates");
    }
    if plan.ttl.is_some() {
        bail!("Cannot provide custom TTL for counter updates");
    }
    Ok(())
}

fn check_batch(batch: &Batch, writes: &[WritePlan]) -> Result<()> {
    if batch.using.ttl.is_some() {
        bail!("Global TTL on the BATCH statement is not supported.");
    }
    let has_counters = writes.iter().any(|w| w.table.is_counter);
    let is_conditional = writes.iter().any(WritePlan::is_conditional);
    if batch.using.timestamp.is_some() {
        if writes.iter().any(|w| w.timestamp.is_some()) {
            bail!("Timestamp must be set either on BATCH or individual statements");
        }
        if has_counters || batch.kind == BatchKind::Counter {
            bail!("Cannot provide custom timestamp for counter BATCH");
        }
        if is_conditional {
            bail!("Cannot provide custom timestamp for conditional BATCH");
        }
    }
    check_kinds(batch.kind, has_counters, writes.iter().any(|w| !w.table.is_counter))?;
    if is_conditional
        && let Some(first) = writes.first()
        && writes.iter().any(|w| w.table.id != first.table.id)
    {
        bail!("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}
