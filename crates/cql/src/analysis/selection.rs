//! The SELECT clause and GROUP BY.

use super::context::Analyzer;
use super::expr::{Expr, Scope};
use super::filter::FilterPlan;
use super::lower::Place;
use super::masks;
use super::raw::Raw;
use super::restrictions::Restrictions;
use super::types::{self, native};
use crate::ast::{Select, Selectable, Selection};
use crate::bind::ColumnSpec;
use crate::error::{Result, bail};
use crate::functions::AggregateCall;
use crate::result::{CellPart, ColumnRef, GroupBy, JsonShape, Output};
use model::command::ColumnSelection;
use model::elements::ElementSelection;
use model::types::CqlType;
use model::{ColumnDef, ColumnId, ColumnKind, TableSchema};
use std::sync::Arc;

/// What is selected.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) outputs: Vec<Output>,
    pub(crate) aggregates: Vec<AggregateCall>,
    pub(crate) json: Option<JsonShape>,
    /// The columns of the result.
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) is_wildcard: bool,
}

impl Analyzer<'_> {
    /// Looks up the columns that are selected; the answer is whether static ones are among them, and none
    /// that belong to rows. What is done with them is checked only after the WHERE clause; but where there
    /// are static columns Cassandra resolves functions to find out.
    pub(crate) fn selects_only_static(&self, select: &Select) -> Result<bool> {
        let Selection::Selectors(selectors) = &select.selection else { return Ok(false) };
        let mut names = Vec::new();
        let (mut has_static, mut has_rows) = (false, false);
        for selector in selectors {
            let raw = Raw::from(&selector.selectable);
            // What names are in a map or a user type is not looked at: they may be of rows.
            has_rows |= raw.has_entries();
            raw.for_each_column(&mut |name| names.push(name));
        }
        for name in names {
            match self.column(name)?.kind {
                ColumnKind::Static => has_static = true,
                ColumnKind::PartitionKey => {}
                ColumnKind::Clustering | ColumnKind::Regular => has_rows = true,
            }
        }
        if self.table.has_statics() {
            for selector in selectors {
                let raw = Raw::from(&selector.selectable);
                if matches!(raw, Raw::Function { .. } | Raw::Operation { .. }) {
                    self.selected(&raw, &mut Place::Selection(&mut Vec::new()))?;
                }
            }
        }
        Ok(has_static && !has_rows)
    }

    pub(crate) fn selection(&self, select: &Select) -> Result<Selected> {
        let mut aggregates = Vec::new();
        let mut outputs = Vec::new();
        let mut columns = Vec::new();
        let output = |expr| match expr {
            Expr::Column(column) => Output::Column(column),
            other => Output::Expr(other),
        };
        match &select.selection {
            Selection::Wildcard => {
                for column in self.table.select_star() {
                    outputs.push(output(masks::shown(&self.table, &column)));
                    columns.push(self.spec(column.name.clone(), column.ty.clone()));
                }
            }
            Selection::Selectors(selectors) => {
                for selector in selectors {
                    let raw = Raw::from(&selector.selectable);
                    let (expr, ty) = self.selected(&raw, &mut Place::Selection(&mut aggregates))?;
                    let name = match &selector.alias {
                        Some(alias) => alias.as_str().to_owned(),
                        None => self.column_name(&selector.selectable),
                    };
                    outputs.push(output(expr));
                    columns.push(self.spec(name, ty));
                }
            }
        }
        let json = select.json.then(|| {
            let fields = columns.drain(..).map(|c: ColumnSpec| (c.name, c.ty)).collect();
            columns.push(self.spec("[json]", CqlType::Text));
            JsonShape { fields }
        });
        let is_wildcard = matches!(select.selection, Selection::Wildcard);
        Ok(Selected { outputs, aggregates, json, columns, is_wildcard })
    }

    /// The name of a result column. User types of type hints are printed with their keyspace.
    fn column_name(&self, selectable: &Selectable) -> String {
        let raw = Raw::from(selectable);
        match selectable {
            Selectable::Cast { selectable, target } => {
                let inner = self.column_name(selectable);
                // A cast to the type that is there already leaves no trace. A column in descending order has
                // another type.
                let is_there = self.known_type(&Raw::from(&**selectable)) == Some(native(*target));
                let is_descending = matches!(&**selectable, Selectable::Column(name)
                    if self.table.column(name.as_str()).is_some_and(|column| column.descending));
                match is_there && !is_descending {
                    true => inner,
                    false => format!("cast({inner} as {target})"),
                }
            }
            _ => {
                let mut name = raw.to_string();
                raw.for_each_hint(&mut |target| {
                    let shown = format!("({})", types::hint_name(target, &self.table.keyspace));
                    name = name.replace(&format!("({target})"), &shown);
                });
                name
            }
        }
    }

    /// GROUP BY.
    pub(crate) fn group_by(&self, select: &Select, restrictions: &Restrictions) -> Result<Vec<GroupBy>> {
        const ORDER: &str = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY";
        let mut out = Vec::new();
        let mut next = 0;
        let key = self.table.partition_key();
        let primary: Vec<&Arc<ColumnDef>> = key.iter().chain(self.table.visible_clustering()).collect();
        let fixed = restrictions.clustering.fixed();
        let is_fixed = |column: &ColumnDef| match column.kind {
            ColumnKind::PartitionKey => {
                !restrictions.partition.is_range() && !restrictions.partition.has_in()
            }
            _ => fixed.contains(&column.position),
        };
        for selectable in &select.group_by {
            if matches!(out.last(), Some(GroupBy::Expr(_))) {
                bail!("Functions are only supported on the last element of the GROUP BY clause");
            }
            let (column, by) = self.group_item(selectable)?;
            loop {
                let Some(candidate) = primary.get(next) else { bail!("{ORDER}") };
                next += 1;
                if **candidate == column {
                    break;
                }
                if !is_fixed(candidate) {
                    bail!("{ORDER}");
                }
                out.push(GroupBy::Column(ColumnRef::of(candidate)));
            }
            out.push(by);
        }
        if out.is_empty() {
            return Ok(out);
        }
        if next < key.len() {
            bail!("Group by is not supported on only a part of the partition key");
        }
        if next > key.len() && select.distinct {
            bail!("Grouping on clustering columns is not allowed for SELECT DISTINCT queries");
        }
        Ok(out)
    }

    fn group_item(&self, selectable: &Selectable) -> Result<(Arc<ColumnDef>, GroupBy)> {
        let refuse = |column: &ColumnDef| -> Result<()> {
            if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
                return Ok(());
            }
            bail!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                column.name
            )
        };
        match selectable {
            Selectable::Column(name) => {
                let column = self.column(name)?;
                refuse(&column)?;
                let by = GroupBy::Column(ColumnRef::of(&column));
                Ok((column, by))
            }
            Selectable::Operation { left, .. } if matches!(**left, Selectable::Column(_)) => {
                bail!("Group by functions are only supported on clustering columns, got {left}")
            }
            Selectable::Function { arguments, .. } => {
                let raw = Raw::from(selectable);
                let mut aggregates = Vec::new();
                let (expr, _) = self.selected(&raw, &mut Place::Selection(&mut aggregates))?;
                let columns: Vec<Arc<ColumnDef>> = arguments
                    .iter()
                    .filter_map(|argument| match argument {
                        Selectable::Column(name) => self.table.visible_column(name.as_str()).cloned(),
                        _ => None,
                    })
                    .collect();
                let [column] = columns.as_slice() else {
                    bail!("GROUP BY functions must have one clustering column name as parameter")
                };
                let is_floor =
                    matches!(&expr, Expr::Call { function, .. } if function.name == "system.floor");
                if column.kind != ColumnKind::Clustering {
                    bail!("Group by functions are only supported on clustering columns, got {}", column.name);
                }
                if !aggregates.is_empty() || !is_floor {
                    bail!("Only monotonic functions are supported in the GROUP BY clause. Got: {raw}");
                }
                Ok((Arc::clone(column), GroupBy::Expr(expr)))
            }
            other => bail!(
                "Only column names and monotonic scalar functions are supported in the GROUP BY clause. Got: {}",
                Raw::from(other)
            ),
        }
    }
}

impl Selected {
    /// The columns of any kind that the selection names, and the part of each if only a part is looked at.
    pub(crate) fn for_each_column(&self, visit: &mut dyn FnMut(&ColumnRef, Option<&CellPart>)) {
        for output in &self.outputs {
            match output {
                Output::Column(column) => visit(column, None),
                Output::Expr(expr) => columns_of(expr, visit),
            }
        }
        for argument in self.aggregates.iter().flat_map(|call| &call.arguments) {
            columns_of(argument, visit);
        }
    }
}

fn columns_of(expr: &Expr, visit: &mut dyn FnMut(&ColumnRef, Option<&CellPart>)) {
    match expr {
        Expr::Column(column) => visit(column, None),
        Expr::Part(of) => visit(&of.column, Some(&of.part)),
        Expr::Masked { clear, masked } => {
            columns_of(clear, visit);
            columns_of(masked, visit);
        }
        Expr::CellInfo(info) => visit(&info.column, info.part.as_ref()),
        Expr::Call { arguments: items, .. }
        | Expr::List(items)
        | Expr::Tuple(items)
        | Expr::UserType { fields: items, .. }
        | Expr::Set { items, .. }
        | Expr::Vector { items, .. } => items.iter().for_each(|item| columns_of(item, visit)),
        Expr::Map { entries, .. } => entries.iter().for_each(|(k, v)| {
            columns_of(k, visit);
            columns_of(v, visit);
        }),
        // Keys are terms, without columns.
        Expr::Field { of, .. } | Expr::Elements { of, .. } => columns_of(of, visit),
        Expr::Constant(_) | Expr::Now | Expr::Marker { .. } | Expr::Aggregate(_) => {}
    }
}

/// The columns that a statement reads: of some maybe only elements that its values name.
#[derive(Debug)]
pub(crate) struct ColumnsRead {
    columns: ColumnSelection,
    /// Elements of columns that no more is read of.
    parts: Vec<(ColumnId, CellPart)>,
}

impl ColumnsRead {
    /// What a selection and the conditions on rows look at.
    pub(crate) fn of(table: &TableSchema, selected: &Selected, filter: &FilterPlan) -> ColumnsRead {
        if selected.is_wildcard {
            return ColumnsRead { columns: ColumnSelection::all(table), parts: Vec::new() };
        }
        let (mut ids, mut whole, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |id, part: Option<&CellPart>| {
            if !table
                .column_by_id(id)
                .is_some_and(|c| matches!(c.kind, ColumnKind::Static | ColumnKind::Regular))
            {
                return;
            }
            ids.push(id);
            match part.filter(|part| part.is_fixed()) {
                Some(part) => parts.push((id, part.clone())),
                None => whole.push(id),
            }
        };
        selected.for_each_column(&mut |column, part| add(column.id, part));
        filter.for_each_column(&mut add);
        whole.sort_unstable();
        parts.retain(|(id, _)| whole.binary_search(id).is_err());
        parts.sort_by_key(|(id, _)| *id);
        ColumnsRead { columns: ColumnSelection::of(ids), parts }
    }

    /// With the values of an execution.
    pub(crate) fn bind(&self, scope: &Scope<'_>) -> Result<ColumnSelection> {
        let mut columns = self.columns.clone();
        if self.parts.is_empty() {
            return Ok(columns);
        }
        let of_column = |of: &[(ColumnId, CellPart)]| -> Result<Option<ElementSelection>> {
            let Some((column, first)) = of.first() else { return Ok(None) };
            let paths = of.iter().filter_map(|(_, part)| part.paths(scope).transpose());
            let paths = paths.collect::<Result<Vec<_>>>()?;
            Ok(Some(ElementSelection::new(*column, first.path_type.clone(), paths)))
        };
        let by_column = self.parts.chunk_by(|(a, _), (b, _)| a == b);
        let elements = by_column.filter_map(|of| of_column(of).transpose()).collect::<Result<Vec<_>>>()?;
        columns.elements = Some(Arc::new(elements));
        Ok(columns)
    }
}
