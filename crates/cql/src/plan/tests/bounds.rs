//! What no statement may do: multiply to more than memory holds, or take time that grows with the square of
//! its length.
//!
//! The long inputs here end at once where the work grows with their length; they would take minutes
//! otherwise.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use super::schema::{bound, context, int, prepared, refusal};
use crate::bind::{BindContext, BoundValues};
use crate::guardrails::{Guard, Guardrails, Thresholds};
use crate::plan::{BatchProduct, Bound, CasOutcome, RowsRead};
use bytes::Bytes;
use model::command::{ClusteringFilter, PartitionSelection};
use std::sync::Arc;

/// `0, 1, ..., n - 1`.
fn numbers(n: usize) -> String {
    (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

/// `'0', '1', ..., 'n - 1'`.
fn texts(n: usize) -> String {
    (0..n).map(|i| format!("'{i}'")).collect::<Vec<_>>().join(", ")
}

#[test]
fn keys_are_counted_before_they_are_made() {
    let of = |a, b| format!("SELECT v FROM t2 WHERE k1 IN ({}) AND k2 IN ({})", numbers(a), texts(b));
    assert_eq!(
        refusal(&of(1000, 1000), vec![]),
        "IN restrictions on partition key produce 1000000 values, a statement may have 65536"
    );
    let Ok(Bound::Select(select)) = bound(&of(256, 256)) else { panic!("a SELECT") };
    let PartitionSelection::Keys(keys) = &select.command.partitions else { panic!("keys") };
    assert_eq!(keys.len(), 65_536);
}

#[test]
fn a_single_in_multiplies_nothing() {
    let Ok(Bound::Select(select)) = bound(&format!("SELECT v FROM t WHERE k IN ({})", numbers(70_000)))
    else {
        panic!("a SELECT")
    };
    let PartitionSelection::Keys(keys) = &select.command.partitions else { panic!("keys") };
    assert_eq!(keys.len(), 70_000);
}

#[test]
fn clusterings_are_counted_before_they_are_made() {
    let n = numbers(100);
    let key = "k1 = 1 AND k2 = 'x'";
    let four = format!("{key} AND a IN ({n}) AND b IN ({n}) AND c IN ({n}) AND d IN ({n})");
    let refused = "IN restrictions on clustering key produce 100000000 values, a statement may have 65536";
    for statement in [
        format!("SELECT v FROM t2 WHERE {four}"),
        format!("UPDATE t2 SET v = 1 WHERE {four}"),
        format!("DELETE FROM t2 WHERE {four}"),
    ] {
        assert_eq!(refusal(&statement, vec![]), refused, "{statement:.30}");
    }
    let pairs: Vec<String> = (0..300).map(|i| format!("({i}, {i})")).collect();
    let pairs = pairs.join(", ");
    assert_eq!(
        refusal(
            &format!("SELECT v FROM t2 WHERE {key} AND (a, b) IN ({pairs}) AND (c, d) IN ({pairs})"),
            vec![]
        ),
        "IN restrictions on clustering key produce 90000 values, a statement may have 65536"
    );
    let Ok(Bound::Select(select)) =
        bound(&format!("SELECT v FROM t2 WHERE {key} AND a IN ({n}) AND b IN ({n})"))
    else {
        panic!("a SELECT")
    };
    let ClusteringFilter::Slices { slices, .. } = &select.command.clusterings else { panic!("slices") };
    assert_eq!(slices.len(), 10_000);
}

#[test]
fn keys_and_rows_of_a_write_multiply_too() {
    let statement = format!("DELETE FROM t WHERE k IN ({0}) AND c IN ({0})", numbers(300));
    assert_eq!(
        refusal(&statement, vec![]),
        "IN restrictions produce 90000 rows, a statement may write 65536"
    );
}

#[test]
fn the_statements_of_a_batch_add_up() {
    let one = format!("DELETE FROM t WHERE k IN ({0}) AND c IN ({0});", numbers(200));
    let batch = |n| format!("BEGIN BATCH {} APPLY BATCH", one.repeat(n));
    assert!(bound(&batch(1)).is_ok());
    let refused = "IN restrictions of a batch produce more than the 65536 rows that it may write";
    assert_eq!(refusal(&batch(2), vec![]), refused);
    let mut product = BatchProduct::default();
    let Ok(Bound::Write(statement)) = bound(one.trim_end_matches(';')) else { panic!() };
    assert!(product.count(&statement).is_ok());
    assert_eq!(product.count(&statement).unwrap_err().to_string(), refused);
}

#[test]
fn the_guardrail_warns_and_refuses() {
    let rules =
        Guardrails { in_select_cartesian_product: Thresholds { warn: 4, fail: 8 }, ..Guardrails::default() };
    let guard = Arc::new(Guard::new(Arc::new(rules)));
    let ctx = || BindContext { guard: Some(Arc::clone(&guard)), ..context() };
    let keys = |a: &str, b: &str| format!("SELECT v FROM t2 WHERE k1 IN ({a}) AND k2 IN ({b})");
    let ask = |cql: &str| prepared(cql).unwrap().bind(&BoundValues::NONE, &ctx()).map_err(|e| e.to_string());
    assert!(ask(&keys("1, 2", "'a', 'b'")).is_ok());
    assert_eq!(guard.take_warnings(), Vec::<String>::new());
    assert!(ask(&keys("1, 2, 3", "'a', 'b'")).is_ok());
    assert_eq!(
        guard.take_warnings(),
        [
            "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on partition \
          key produces 6 values, this exceeds warning threshold of 4."
        ]
    );
    // Values that are given twice count twice.
    assert_eq!(
        ask(&keys("1, 2, 3", "'a', 'a', 'b'")).unwrap_err(),
        "Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN \
         restrictions on partition key produces 9 values, this exceeds fail threshold of 8."
    );
    assert_eq!(
        ask("UPDATE t SET v = 1 WHERE k = 1 AND c IN (1, 2, 3, 4, 5, 6, 7, 8, 9)").unwrap_err(),
        "Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN \
         restrictions on clustering key produces 9 values, this exceeds fail threshold of 8."
    );
}

/// `piece` for each number, with commas between them.
fn joined(n: usize, separator: &str, piece: impl Fn(usize) -> String) -> String {
    (0..n).map(piece).collect::<Vec<_>>().join(separator)
}

const MANY: usize = 10_000;

#[test]
fn many_names_of_an_insert() {
    let names = joined(MANY, ", ", |i| format!("v{i}"));
    let statement = format!("INSERT INTO t ({names}) VALUES ({})", numbers(MANY));
    assert_eq!(refusal(&statement, vec![]), "Undefined column name v0 in table dml.t");
    let statement = format!("INSERT INTO t ({names}, v0) VALUES ({})", numbers(MANY + 1));
    assert_eq!(refusal(&statement, vec![]), "The column names contains duplicates");
}

#[test]
fn many_keys_of_a_document() {
    let entries = joined(MANY, ", ", |i| format!("\"k{i}\": {i}"));
    let statement = format!("INSERT INTO co JSON '{{\"k\": 1, \"m\": {{{entries}, \"k7\": 0}}}}'");
    let Ok(Bound::Write(write)) = bound(&statement) else { panic!("a write") };
    let mutations = write.mutations(&RowsRead::new()).unwrap();
    let cells = &mutations[0].updates[0].rows[0].cells;
    assert_eq!(cells.iter().filter(|c| !c.path.is_empty()).count(), MANY);
    assert_eq!(cells.iter().find(|c| c.path.as_ref() == b"k7").unwrap().value.as_ref(), [0; 4]);
    assert_eq!(
        refusal(&format!("INSERT INTO co JSON '{{\"k\": 1, {entries}}}'"), vec![]),
        "JSON values map contains unrecognized column: k0"
    );
    assert_eq!(
        refusal(&format!("INSERT INTO co JSON '{{\"k\": 1, \"u\": {{{entries}}}}}'"), vec![]),
        "Error decoding JSON value for u: Unknown field 'k0' in value of user defined type ut"
    );
}

#[test]
fn many_named_values() {
    let markers = joined(60_000, ", ", |i| format!(":n{i}"));
    let plan = prepared(&format!("SELECT v FROM t WHERE k IN ({markers})")).unwrap();
    let values = (0..60_000).rev().map(|i| (format!("n{i}"), int(i))).collect();
    assert!(plan.bind(&BoundValues::Named(values), &context()).is_ok());
}

#[test]
fn many_changes_of_a_list() {
    use model::{Cell, Clustering, Row, row::ResultRow};
    let sets = joined(MANY, ", ", |i| format!("l[{i}] = {i}"));
    let discards = joined(MANY, ", ", |i| format!("l = l - [{i}]"));
    let Ok(Bound::Write(write)) = bound(&format!("UPDATE co SET {sets}, {discards} WHERE k = 1")) else {
        panic!("a write")
    };
    let list = write.table.column("l").unwrap().id;
    let mut row = Row::new(Clustering::empty());
    row.cells = (0..MANY as u32)
        .map(|i| {
            let path = Bytes::copy_from_slice(
                uuid::Uuid::from_u64_pair(0x1000 | u64::from(i) << 32, 1 << 63).as_bytes(),
            );
            Cell::live(list, 1, Bytes::copy_from_slice(&i.to_be_bytes())).with_path(path)
        })
        .collect();
    let mut rows = RowsRead::new();
    rows.push(&ResultRow { key: &write.keys()[0], static_row: None, row: Some(&row), now_s: 1 });
    let mutations = write.mutations(&rows).unwrap();
    assert_eq!(mutations[0].updates[0].rows[0].cells.len(), MANY);
}

#[test]
fn many_conditions_on_one_row() {
    use model::{Cell, Clustering, Row, row::ResultRow};
    let conditions =
        joined(10_000, " AND ", |i| format!("m['{i:05}'] = {i} AND m CONTAINS {i} AND l[{i}] = {i}"));
    let Ok(Bound::Cas(plan)) = bound(&format!("UPDATE co SET fl = [1] WHERE k = 1 IF {conditions}")) else {
        panic!("a conditional write")
    };
    let [list, map] = ["l", "m"].map(|name| plan.table.column(name).unwrap().id);
    let mut row = Row::new(Clustering::empty());
    let value = |i: u32| Bytes::copy_from_slice(&i.to_be_bytes());
    for i in 0..10_000u32 {
        row.cells.push(Cell::live(list, 1, value(i)).with_path(value(i)));
    }
    for i in 0..10_000u32 {
        row.cells.push(Cell::live(map, 1, value(i)).with_path(format!("{i:05}").into()));
    }
    row.cells.sort_by_key(|cell| cell.column);
    let mut rows = RowsRead::new();
    rows.push(&ResultRow { key: &plan.key, static_row: None, row: Some(&row), now_s: 1 });
    assert!(matches!(plan.evaluate(&rows, 5), Ok(CasOutcome::Applied(_))));
    row.cells.retain(|cell| cell.path.as_ref() != b"09999");
    let mut rows = RowsRead::new();
    rows.push(&ResultRow { key: &plan.key, static_row: None, row: Some(&row), now_s: 1 });
    assert!(matches!(plan.evaluate(&rows, 5), Ok(CasOutcome::NotApplied)));
}

#[test]
fn many_statements_of_a_batch() {
    for (statement, rows, cells) in [
        // Each row before all that came before it.
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = {};", MANY, 1),
        // All into one row.
        ("UPDATE me SET m['{}'] = 1 WHERE k = 1;", 1, MANY),
        ("UPDATE cnt SET n = n + 1 WHERE k = 1 AND c = {};", MANY, 1),
    ] {
        let statements: String = (0..MANY).rev().map(|i| statement.replace("{}", &i.to_string())).collect();
        let kind = if statement.contains("cnt") { "COUNTER" } else { "" };
        let Ok(Bound::Batch(batch)) = bound(&format!("BEGIN {kind} BATCH {statements} APPLY BATCH")) else {
            panic!("a batch")
        };
        let mutations = batch.mutations(&[]).unwrap();
        assert_eq!(mutations.len(), 1);
        let update = &mutations[0].updates[0];
        assert_eq!((update.rows.len(), update.rows[0].cells.len()), (rows, cells));
        let comparator = update.table.comparator();
        assert!(update.rows.is_sorted_by(|a, b| comparator.compare(&a.clustering, &b.clustering).is_lt()));
    }
}

#[test]
fn many_conditional_statements_of_a_batch() {
    let statements = joined(MANY, "", |i| format!("UPDATE t SET v = 1 WHERE k = 1 AND c = {i} IF v = 1;"));
    assert!(matches!(bound(&format!("BEGIN BATCH {statements} APPLY BATCH")), Ok(Bound::Cas(_))));
    let mixed = "UPDATE t SET v = 1 WHERE k = 1 AND c = 9 IF EXISTS;";
    assert_eq!(
        refusal(&format!("BEGIN BATCH {statements} {mixed} APPLY BATCH"), vec![]),
        "Cannot mix IF conditions and IF EXISTS for the same row"
    );
}

#[test]
fn many_things_to_select() {
    let both = joined(MANY, ", ", |i| format!("m['{i}'], st"));
    assert!(bound(&format!("SELECT {both} FROM co WHERE k = 1")).is_ok());
    let fields = joined(MANY, ", ", |i| format!("f{i}: {i}"));
    assert_eq!(
        refusal(&format!("UPDATE co SET fu = {{{fields}}} WHERE k = 1"), vec![]),
        "Unknown field 'f0' in value of user defined type ut"
    );
    let again = joined(MANY, ", ", |_| "a: 1".to_owned());
    assert!(bound(&format!("UPDATE co SET fu = {{{again}}} WHERE k = 1")).is_ok());
}

/// Every overload asks for the types of the arguments.
#[test]
fn deep_calls_and_long_sums() {
    // What is built for tests takes several times the stack.
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(ask_deep_and_long);
    thread.unwrap().join().unwrap();
}

fn ask_deep_and_long() {
    let sum = joined(200, " + ", |_| "v".to_owned());
    assert!(bound(&format!("SELECT {sum} FROM t WHERE k = 1")).is_ok());
    let constants = joined(200, " + ", |_| "1".to_owned());
    assert!(bound(&format!("UPDATE t SET v = {constants} WHERE k = 1 AND c = 1")).is_ok());
    let calls = |of: &str| format!("{}{of}{}", "abs(".repeat(90), ")".repeat(90));
    assert!(bound(&format!("SELECT {} FROM t WHERE k = 1", calls("v"))).is_ok());
    assert!(bound(&format!("SELECT {} FROM t WHERE k = 1", calls("txt"))).is_err());
    assert!(bound(&format!("SELECT {} FROM t WHERE k = 1", calls("nothing"))).is_err());
    assert!(bound(&format!("SELECT {sum} + txt FROM t WHERE k = 1")).is_err());
    assert!(bound(&format!("SELECT {}v{} FROM t WHERE k = 1", "-(".repeat(45), ")".repeat(45))).is_ok());
    let casts = format!("{}v{}", "cast(".repeat(90), " as text)".repeat(90));
    assert!(bound(&format!("SELECT {casts} FROM t WHERE k = 1")).is_ok());
}

#[test]
fn long_collections_and_relations() {
    let entries = joined(MANY, ", ", |i| format!("'{}': {i}", MANY - i));
    assert!(bound(&format!("UPDATE co SET m = {{{entries}}} WHERE k = 1")).is_ok());
    let same = joined(MANY, ", ", |_| "1".to_owned());
    assert!(bound(&format!("UPDATE co SET st = {{{same}}} WHERE k = 1")).is_ok());
    let elements = joined(MANY, ", ", |i| format!("m['{i}']"));
    assert!(bound(&format!("DELETE {elements} FROM co WHERE k = 1")).is_ok());
    let contains = joined(MANY, " AND ", |i| format!("m CONTAINS {i}"));
    assert!(bound(&format!("SELECT k FROM co WHERE {contains} ALLOW FILTERING")).is_ok());
    let using = joined(MANY, " AND ", |i| format!("TTL {i}"));
    assert!(bound(&format!("UPDATE t USING {using} SET v = 1 WHERE k = 1 AND c = 1")).is_ok());
    let number = "7".repeat(500_000);
    assert!(bound(&format!("UPDATE ty SET va = {number} WHERE k = 1")).is_ok());
    assert!(bound(&format!("UPDATE ty SET de = {number}.5 WHERE k = 1")).is_err());
    assert!(
        bound(&format!("INSERT INTO ty JSON '{{\"k\": 1, \"va\": {number}, \"de\": {number}}}'")).is_ok()
    );
}
