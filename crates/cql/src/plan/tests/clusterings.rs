//! Restrictions of clustering columns select exactly the rows that the WHERE clause says.

use super::schema::bound;
use crate::plan::Bound;
use model::clustering::{Clustering, ClusteringComparator};
use model::command::ClusteringFilter;
use proptest::prelude::*;
use std::cmp::Ordering;

/// A row of `t2`: its columns a, b (descending), c, d (descending).
type Key = [i32; 4];

fn filter(cql_where: &str) -> Option<(ClusteringFilter, ClusteringComparator)> {
    let cql = format!("SELECT v FROM t2 WHERE k1 = 1 AND k2 = 'a'{cql_where}");
    match bound(&cql) {
        Ok(Bound::Select(select)) => {
            Some((select.command.clusterings.clone(), select.command.table.comparator().clone()))
        }
        Ok(_) => panic!("{cql} is no SELECT"),
        Err(e) => panic!("{cql}: {e}"),
    }
}

fn clustering(key: &Key) -> Clustering {
    let values: Vec<[u8; 4]> = key.iter().map(|v| v.to_be_bytes()).collect();
    Clustering::from_values(values.iter().map(|v| v.as_slice()))
}

/// What the restrictions of one statement say, naively.
#[derive(Clone, Debug)]
enum Relation {
    /// Columns from..from+values.len(), compared as a tuple.
    Compare {
        from: usize,
        operator: &'static str,
        values: Vec<i32>,
    },
    In {
        from: usize,
        values: Vec<Vec<i32>>,
    },
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Relation {
    fn cql(&self) -> String {
        let columns = |from: usize, n: usize| format!("({})", NAMES[from..from + n].join(", "));
        let tuple = |values: &[i32]| {
            format!("({})", values.iter().map(i32::to_string).collect::<Vec<_>>().join(", "))
        };
        match self {
            Relation::Compare { from, operator, values } if values.len() == 1 => {
                format!(" AND {} {operator} {}", NAMES[*from], values[0])
            }
            Relation::Compare { from, operator, values } => {
                format!(" AND {} {operator} {}", columns(*from, values.len()), tuple(values))
            }
            Relation::In { from, values } => {
                let list: Vec<String> = values.iter().map(|v| tuple(v)).collect();
                format!(" AND {} IN ({})", columns(*from, values[0].len()), list.join(", "))
            }
        }
    }

    fn holds(&self, key: &Key) -> bool {
        match self {
            Relation::Compare { from, operator, values } => {
                let order = key[*from..from + values.len()].cmp(values.as_slice());
                match *operator {
                    "=" => order == Ordering::Equal,
                    "<" => order == Ordering::Less,
                    "<=" => order != Ordering::Greater,
                    ">" => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }
            }
            Relation::In { from, values } => values.iter().any(|v| key[*from..from + v.len()] == **v),
        }
    }
}

fn values(n: usize) -> impl Strategy<Value = Vec<i32>> {
    proptest::collection::vec(0..4i32, n)
}

/// Equalities and INs on the first columns, then perhaps a slice with one or two ends.
fn relations() -> impl Strategy<Value = Vec<Relation>> {
    let covered =
        prop_oneof![Just(vec![]), Just(vec![1]), Just(vec![2]), Just(vec![1, 1]), Just(vec![1, 2, 1])];
    covered.prop_flat_map(|widths| {
        let mut from = 0;
        let mut fixed = Vec::new();
        for width in widths {
            let at = from;
            from += width;
            let equal =
                values(width).prop_map(move |values| Relation::Compare { from: at, operator: "=", values });
            let within = proptest::collection::vec(values(width), 1..4)
                .prop_map(move |values| Relation::In { from: at, values });
            fixed.push(prop_oneof![equal, within].boxed());
        }
        let rest = 4 - from;
        let end = |operators: [&'static str; 2]| {
            (1..=rest.max(1), any::<bool>()).prop_flat_map(move |(n, strict)| {
                let operator = operators[usize::from(strict)];
                values(n).prop_map(move |values| Relation::Compare { from, operator, values })
            })
        };
        let ends = (proptest::option::of(end([">", ">="])), proptest::option::of(end(["<", "<="])));
        (fixed, ends).prop_map(move |(mut all, (start, end))| {
            if rest > 0 {
                all.extend(start);
                all.extend(end);
            }
            all
        })
    })
}

proptest! {
    #[test]
    fn filters_select_what_the_where_clause_says(relations in relations()) {
        let cql: String = relations.iter().map(Relation::cql).collect();
        let Some((filter, comparator)) = filter(&cql) else { unreachable!() };
        let mut keys = Vec::new();
        for i in 0..256 {
            keys.push([i & 3, (i >> 2) & 3, (i >> 4) & 3, (i >> 6) & 3]);
        }
        for key in keys {
            let expected = relations.iter().all(|r| r.holds(&key));
            let got = filter.selects(&comparator, &clustering(&key));
            prop_assert_eq!(got, expected, "{} of {:?} by {:?}", cql, key, filter);
        }
        if let ClusteringFilter::Slices { slices, .. } = &filter {
            for slice in slices {
                prop_assert!(!slice.is_empty(&comparator));
            }
            for pair in slices.windows(2) {
                let order = comparator.compare_positions(pair[0].end.position(), pair[1].start.position());
                prop_assert_ne!(order, Ordering::Greater, "slices overlap: {:?}", slices);
            }
        }
        if let ClusteringFilter::Names { names, .. } = &filter {
            prop_assert!(names.is_sorted_by(|a, b| comparator.compare(a, b).is_lt()));
        }
    }
}

#[test]
fn a_slice_in_one_direction_is_one_range() {
    let Some((filter, _)) = filter(" AND a > 1 AND a <= 3") else { unreachable!() };
    assert_eq!(filter.to_slices().len(), 1);
    let cql = "SELECT v FROM t WHERE k = 1 AND c >= 1 ORDER BY c DESC";
    let Ok(Bound::Select(select)) = bound(cql) else { panic!("{cql}") };
    assert!(select.command.clusterings.is_reversed());
    assert_eq!(select.command.clusterings.to_slices().len(), 1);
}

#[test]
fn null_bounds_and_empty_lists_match_nothing() {
    for cql in ["SELECT v FROM t WHERE k = 1 AND c > null", "SELECT v FROM t WHERE k = 1 AND c IN ()"] {
        let Ok(Bound::Select(select)) = bound(cql) else { panic!("{cql}") };
        assert!(
            matches!(&select.command.partitions, model::command::PartitionSelection::Keys(k) if k.is_empty())
        );
    }
}
