//! The WHERE clause as a whole: relations that belong together are merged, and what cannot be answered is
//! refused.

use super::clustering::ClusteringPlan;
use super::context::Analyzer;
use super::filter::FilterPlan;
use super::keys::PartitionPlan;
use super::relation::{Restriction, Sorted, Test};
use crate::ast::{ComparisonOperator, Relation, WherePredicate};
use crate::error::{Result, bail};
use model::{ColumnDef, ColumnId, ColumnKind};
use std::sync::Arc;

/// What Cassandra says when a query would have to look at more than it returns.
pub(crate) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may \
     have unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
     ALLOW FILTERING";

/// The statement that a WHERE clause belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Select { allow_filtering: bool },
    Insert,
    Update,
    Delete,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Select { .. } => "SELECT",
            Verb::Insert => "INSERT",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        }
    }

    fn is_select(self) -> bool {
        matches!(self, Verb::Select { .. })
    }

    fn allows_filtering(self) -> bool {
        matches!(self, Verb::Select { allow_filtering: true })
    }
}

/// A WHERE clause, checked.
#[derive(Debug)]
pub(crate) struct Restrictions {
    pub(crate) partition: PartitionPlan,
    pub(crate) clustering: ClusteringPlan,
    pub(crate) filter: FilterPlan,
    /// Whether any clustering column is restricted.
    pub(crate) has_clustering: bool,
    /// Whether any regular column is restricted.
    pub(crate) has_regular: bool,
    /// Whether rows of all partitions are filtered by clustering columns, without being allowed to.
    pub(crate) scans_unasked: bool,
    /// All columns that are restricted, alone or in a token.
    pub(crate) columns: Vec<ColumnId>,
}

impl Analyzer<'_> {
    /// Checks a WHERE clause. `only_static` says that a write changes, or a SELECT
    /// shows, static columns only.
    pub(crate) fn restrictions(
        &self,
        verb: Verb,
        predicates: &[WherePredicate],
        only_static: bool,
    ) -> Result<Restrictions> {
        let sorted = predicates.iter().map(|predicate| {
            refuse_contains(verb, predicate)?;
            self.relation(predicate)
        });
        self.restrictions_of(verb, sorted, only_static)
    }

    /// The same for relations that are sorted already.
    pub(crate) fn restrictions_of(
        &self,
        verb: Verb,
        sorted: impl IntoIterator<Item = Result<Sorted>>,
        only_static: bool,
    ) -> Result<Restrictions> {
        let mut partition: Vec<Restriction> = Vec::new();
        let mut token = None;
        let mut clustering: Vec<Restriction> = Vec::new();
        let mut others: Vec<Restriction> = Vec::new();
        let mut columns: Vec<ColumnId> = Vec::new();
        for relation in sorted {
            let relation = relation?;
            let restricted = match &relation {
                Sorted::Token(_) => self.table.partition_key(),
                Sorted::Columns(restriction) => restriction.columns.as_slice(),
            };
            columns.extend(restricted.iter().map(|column| column.id));
            match relation {
                Sorted::Token(test) => token = Some(self.merge_token(token, test)?),
                Sorted::Columns(restriction) => match restriction.columns.first().map(|c| c.kind) {
                    Some(ColumnKind::PartitionKey) => merge_into(&mut partition, restriction)?,
                    Some(ColumnKind::Clustering) => {
                        if !verb.allows_filtering() {
                            check_order(&clustering, &restriction, &self.table)?;
                        }
                        merge_into(&mut clustering, restriction)?;
                    }
                    _ => merge_into(&mut others, restriction)?,
                },
            }
        }
        clustering.sort_by_key(Restriction::first_position);
        partition.sort_by_key(Restriction::first_position);

        let partition = PartitionPlan::new(&self.table, partition, token);
        self.check_partition(verb, &partition)?;
        let has_clustering = !clustering.is_empty();
        if only_static && has_clustering {
            match verb {
                Verb::Select { .. } => {
                    bail!("Cannot restrict clustering columns when selecting only static columns")
                }
                Verb::Insert => {}
                Verb::Update | Verb::Delete => bail!(
                    "Invalid restrictions on clustering columns since the {} statement modifies only static columns",
                    verb.name()
                ),
            }
        }
        let clustering = ClusteringPlan::new(&self.table, clustering);
        self.check_clustering(verb, &clustering, only_static)?;
        if !others.is_empty() && !verb.is_select() {
            let mut names: Vec<&str> =
                others.iter().flat_map(|r| &r.columns).map(|c| c.name.as_str()).collect();
            names.sort_unstable();
            bail!("Non PRIMARY KEY columns found in where clause: {} ", names.join(", "));
        }
        let filters = partition.needs_filtering() || clustering.needs_filtering() || !others.is_empty();
        if filters && verb.is_select() && !verb.allows_filtering() {
            bail!("{NEEDS_FILTERING}");
        }
        let has_regular = others.iter().flat_map(|r| &r.columns).any(|c| c.kind == ColumnKind::Regular);
        let filter = FilterPlan::new(partition.filtered(), clustering.filtered(), others)?;
        let scans_unasked = has_clustering && partition.is_range() && !verb.allows_filtering();
        Ok(Restrictions {
            partition,
            clustering,
            filter,
            has_clustering,
            has_regular,
            scans_unasked,
            columns,
        })
    }

    fn check_partition(&self, verb: Verb, partition: &PartitionPlan) -> Result<()> {
        if verb.is_select() {
            if partition.needs_filtering() && !verb.allows_filtering() {
                bail!("{NEEDS_FILTERING}");
            }
            return Ok(());
        }
        if partition.is_on_token() {
            bail!("The token function cannot be used in WHERE clauses for {} statements", verb.name());
        }
        let missing = partition.missing();
        if !missing.is_empty() {
            bail!("Some partition key parts are missing: {}", missing.join(", "));
        }
        if partition.has_slice() {
            bail!(
                "Only EQ and IN relation are supported on the partition key (unless you use the token() function) \
                 for {} statements",
                verb.name()
            );
        }
        Ok(())
    }

    fn check_clustering(&self, verb: Verb, clustering: &ClusteringPlan, only_static: bool) -> Result<()> {
        match verb {
            Verb::Insert | Verb::Update => {
                if clustering.has_slice() {
                    bail!(
                        "Slice restrictions are not supported on the clustering columns in {} statements",
                        verb.name()
                    );
                }
                let missing = clustering.missing();
                if !only_static && !missing.is_empty() {
                    // Only rows of dense tables may lack components, and only the last ones.
                    if clustering.is_empty() || self.table.compact.is_none() {
                        bail!("Some clustering keys are missing: {}", missing.join(", "));
                    }
                    clustering.check_gap()?;
                }
            }
            Verb::Select { allow_filtering: true } => {}
            Verb::Select { .. } | Verb::Delete => {
                if clustering.has_contains() {
                    bail!(
                        "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
                    );
                }
                if clustering.needs_filtering() {
                    clustering.check_gap()?;
                }
            }
        }
        Ok(())
    }

    fn merge_token(&self, before: Option<Test>, test: Test) -> Result<Test> {
        let names: Vec<&str> = self.table.partition_key().iter().map(|c| c.name.as_str()).collect();
        let names = names.join(", ");
        match (before, test) {
            (None, test) => Ok(test),
            (Some(Test::Slice { start, end }), Test::Slice { start: other_start, end: other_end }) => {
                if start.is_some() && other_start.is_some() {
                    bail!("More than one restriction was found for the start bound on {names}");
                }
                if end.is_some() && other_end.is_some() {
                    bail!("More than one restriction was found for the end bound on {names}");
                }
                Ok(Test::Slice { start: start.or(other_start), end: end.or(other_end) })
            }
            (Some(Test::Slice { .. }), _) => {
                bail!(
                    "Columns \"{names}\" cannot be restricted by both an equality and an inequality relation"
                )
            }
            _ => bail!("{names} cannot be restricted by more than one relation if it includes an Equal"),
        }
    }
}

/// Writes name their rows: what a row contains does not.
fn refuse_contains(verb: Verb, predicate: &WherePredicate) -> Result<()> {
    if let WherePredicate::Relation(Relation::Column { operator, .. }) = predicate
        && matches!(operator, ComparisonOperator::Contains | ComparisonOperator::ContainsKey)
        && matches!(verb, Verb::Update | Verb::Delete)
    {
        bail!("Cannot use {} with {operator}", verb.name());
    }
    Ok(())
}

/// Columns of both, as Cassandra lists them.
fn shared(a: &Restriction, b: &Restriction) -> String {
    let names: Vec<&str> =
        a.columns.iter().rev().filter(|c| b.columns.contains(c)).map(|c| c.name.as_str()).collect();
    names.join(" ,")
}

/// Adds a restriction to those of the same kind of columns.
fn merge_into(known: &mut Vec<Restriction>, new: Restriction) -> Result<()> {
    let overlaps = |r: &Restriction| r.columns.iter().any(|c| new.columns.contains(c));
    let Some(at) = known.iter().position(overlaps) else {
        known.push(new);
        return Ok(());
    };
    let old = known.remove(at);
    let merged = merge(old, new)?;
    if let Some(other) = known.iter().find(|r| r.columns.iter().any(|c| merged.columns.contains(c))) {
        bail!(
            "{} cannot be restricted by more than one relation if it includes an Equal",
            shared(other, &merged)
        );
    }
    known.push(merged);
    Ok(())
}

fn merge(old: Restriction, new: Restriction) -> Result<Restriction> {
    let names = shared(&old, &new);
    match (old.test, new.test) {
        (Test::Slice { start, end }, Test::Slice { start: new_start, end: new_end }) => {
            if old.columns.first() != new.columns.first() {
                let name = new.columns.first().map_or("", |c| c.name.as_str());
                bail!(
                    "Column \"{name}\" cannot be restricted by two inequalities not starting with the same column"
                );
            }
            if start.is_some() && new_start.is_some() {
                bail!("More than one restriction was found for the start bound on {names}");
            }
            if end.is_some() && new_end.is_some() {
                bail!("More than one restriction was found for the end bound on {names}");
            }
            let columns = if old.columns.len() >= new.columns.len() { old.columns } else { new.columns };
            Ok(Restriction {
                columns,
                is_multi: old.is_multi || new.is_multi,
                test: Test::Slice { start: start.or(new_start), end: end.or(new_end) },
            })
        }
        (Test::Slice { .. }, _) => {
            let name = new.columns.first().map_or("", |c| c.name.as_str());
            bail!("Column \"{name}\" cannot be restricted by both an equality and an inequality relation")
        }
        (
            Test::Contains { mut values, mut keys, mut entries },
            Test::Contains { values: new_values, keys: new_keys, entries: new_entries },
        ) => {
            values.extend(new_values);
            keys.extend(new_keys);
            entries.extend(new_entries);
            Ok(Restriction {
                test: Test::Contains { values, keys, entries },
                ..old_shell(old.columns, old.is_multi)
            })
        }
        (Test::Contains { .. }, _) => bail!(
            "Collection column {names} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
        ),
        (Test::Eq(_), _) => {
            bail!("{names} cannot be restricted by more than one relation if it includes an Equal")
        }
        (Test::In(_), _) => {
            bail!("{names} cannot be restricted by more than one relation if it includes a IN")
        }
    }
}

fn old_shell(columns: Vec<Arc<ColumnDef>>, is_multi: bool) -> Restriction {
    Restriction { columns, is_multi, test: Test::Slice { start: None, end: None } }
}

/// Refuses a restriction behind or before a slice, in the order in which relations are written.
fn check_order(known: &[Restriction], new: &Restriction, table: &model::TableSchema) -> Result<()> {
    let Some(last) = known.iter().max_by_key(|r| r.first_position()) else { return Ok(()) };
    let (last_start, new_start) = (last.first_position(), new.first_position());
    let name = |position: usize| table.clustering_columns().get(position).map_or("", |c| c.name.as_str());
    let overlaps = known.iter().any(|r| r.columns.iter().any(|c| new.columns.contains(c)));
    if overlaps {
        return Ok(());
    }
    if last.is_slice() && new_start > last_start {
        bail!(
            "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(new_start),
            name(last_start)
        );
    }
    if new_start < last_start && new.is_slice() {
        bail!(
            "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ \
             relation)",
            name(new_start + 1),
            name(new_start)
        );
    }
    Ok(())
}
