//! Commands and mutations that statements become, and the rows that results are made of.

use super::schema::{NOW_S, bound, bound_with, context, int, prepared, refusal};
use crate::bind::{BindContext, BoundValue, BoundValues};
use crate::plan::{Bound, CasOutcome, RowsRead};
use crate::result::RowVec;
use bytes::Bytes;
use model::cell::Cell;
use model::clustering::Clustering;
use model::command::PartitionSelection;
use model::key::{DecoratedKey, KeyBound, PartitionKey, Token};
use model::mutation::{Mutation, PartitionUpdate};
use model::row::{ResultRow, Row};
use model::{Liveness, TableSchema};

fn write(cql: &str, values: Vec<BoundValue>) -> Mutation {
    write_with(cql, values, &RowsRead::new())
}

fn write_with(cql: &str, values: Vec<BoundValue>, rows: &RowsRead) -> Mutation {
    match bound_with(cql, values) {
        Ok(Bound::Write(write)) => match write.mutations(rows) {
            Ok(mut mutations) if mutations.len() == 1 => mutations.remove(0),
            other => panic!("{cql}: {other:?}"),
        },
        other => panic!("{cql}: {other:?}"),
    }
}

fn update(cql: &str) -> PartitionUpdate {
    write(cql, Vec::new()).updates.remove(0)
}

fn cells_of<'r>(update: &'r PartitionUpdate, row: &'r Row, column: &str) -> &'r [Cell] {
    row.cells_of(update.table.column(column).expect("a column").id)
}

fn key(v: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&v.to_be_bytes())))
}

#[test]
fn an_insert_has_liveness_and_an_update_has_none() {
    let insert = update("INSERT INTO t (k, c, v) VALUES (1, 2, 3)");
    assert_eq!(insert.key, key(1));
    assert_eq!(insert.rows[0].liveness, Liveness::new(1000));
    assert_eq!(cells_of(&insert, &insert.rows[0], "v")[0].value.as_ref(), 3i32.to_be_bytes());
    let update = update("UPDATE t SET v = null, s = 5 WHERE k = 1 AND c = 2");
    assert!(update.rows[0].liveness.is_none());
    assert!(cells_of(&update, &update.rows[0], "v")[0].is_tombstone());
    assert_eq!(update.static_row.as_ref().map(|s| s.cells.len()), Some(1));
}

#[test]
fn a_ttl_expires_cells_and_liveness() {
    let insert = update("INSERT INTO t (k, c, v) VALUES (1, 2, 3) USING TTL 10 AND TIMESTAMP 77");
    assert_eq!(insert.rows[0].liveness, Liveness::expiring(77, 10, NOW_S + 10));
    let cell = &insert.rows[0].cells[0];
    assert_eq!((cell.timestamp, cell.ttl, cell.local_deletion_time), (77, 10, NOW_S + 10));
}

#[test]
fn unset_values_leave_columns_alone() {
    let insert = write("INSERT INTO t (k, c, v) VALUES (?, ?, ?)", vec![int(1), int(2), BoundValue::Unset]);
    assert!(insert.updates[0].rows[0].cells.is_empty());
    assert_eq!(
        refusal("INSERT INTO t (k, c, v) VALUES (?, ?, 1)", vec![int(1), BoundValue::Unset]),
        "Invalid unset value for column c"
    );
}

#[test]
fn a_deletion_of_an_unset_element_leaves_the_row_alone() {
    for cql in ["DELETE l[?] FROM co WHERE k = 1", "DELETE st[?] FROM co WHERE k = 1"] {
        let update = write(cql, vec![BoundValue::Unset]).updates.remove(0);
        assert!(update.rows.is_empty() && update.deletion.is_none(), "{cql}");
    }
}

#[test]
fn increments_of_one_counter_in_one_statement_add_up() {
    let update = update("UPDATE cnt SET n = n + 1, n = n - 4, n = n + 10 WHERE k = 1 AND c = 1");
    assert_eq!(cells_of(&update, &update.rows[0], "n")[0].value.as_ref(), 7i64.to_be_bytes());
}

#[test]
fn writes_do_not_look_at_what_a_collection_contains() {
    for (cql, message) in [
        ("UPDATE co SET l = [1] WHERE k = 1 AND l CONTAINS 1", "Cannot use UPDATE with CONTAINS"),
        ("DELETE FROM co WHERE k = 1 AND m CONTAINS KEY 'a'", "Cannot use DELETE with CONTAINS KEY"),
    ] {
        assert_eq!(refusal(cql, Vec::new()), message);
    }
}

#[test]
fn setting_a_collection_deletes_what_was_there_just_before() {
    let update = update("UPDATE co SET st = {2, 1}, m = {'a': 1}, l = [5, 6] WHERE k = 1");
    let row = &update.rows[0];
    assert!(row.complex_deletions.iter().all(|(_, d)| d.timestamp == 999));
    assert_eq!(row.complex_deletions.len(), 3);
    let paths: Vec<&[u8]> = cells_of(&update, row, "st").iter().map(|c| c.path.as_ref()).collect();
    assert_eq!(paths, [1i32.to_be_bytes(), 2i32.to_be_bytes()]);
    let list: Vec<&[u8]> = cells_of(&update, row, "l").iter().map(|c| c.value.as_ref()).collect();
    assert_eq!(list, [5i32.to_be_bytes(), 6i32.to_be_bytes()]);
    let deleted = self::update("DELETE st FROM co WHERE k = 1");
    assert_eq!(deleted.rows[0].complex_deletions[0].1.timestamp, 1000);
}

#[test]
fn what_is_prepended_comes_first_and_in_order() {
    let ty = model::CqlType::list(model::CqlType::Int, true);
    let value = |cell: &Cell| i32::from_be_bytes(*cell.value.as_array().expect("an int"));
    let prepended = update("UPDATE co SET l = [1, 2] + l WHERE k = 1");
    let cells = cells_of(&prepended, &prepended.rows[0], "l");
    assert_eq!(cells.iter().map(value).collect::<Vec<_>>(), [1, 2]);
    let appended = update("UPDATE co SET l = l + [3] WHERE k = 1");
    let later = &cells_of(&appended, &appended.rows[0], "l")[0];
    assert!(cells.iter().all(|c| ty.compare_paths(&c.path, &later.path).is_lt()));
}

fn list_row(table: &TableSchema, values: &[i32]) -> Row {
    let column = table.column("l").expect("l").id;
    let mut row = Row::new(Clustering::empty());
    for (i, v) in values.iter().enumerate() {
        let path = uuid::Uuid::from_fields(i as u32, 0, 0x11f0, &[0x80; 8]);
        let path = Bytes::copy_from_slice(path.as_bytes());
        row.cells.push(Cell::live(column, 1, Bytes::copy_from_slice(&v.to_be_bytes())).with_path(path));
    }
    row
}

#[test]
fn elements_of_lists_are_found_by_what_was_read() {
    let Ok(Bound::Write(plan)) = bound("UPDATE co SET l[1] = 9 WHERE k = 1") else { panic!() };
    let read = plan.read_before.as_ref().expect("a read");
    assert_eq!(read.columns.columns.len(), 1);
    let (key, row) = (key(1), list_row(&plan.table, &[5, 6, 5]));
    let mut rows = RowsRead::new();
    rows.push(&ResultRow { key: &key, static_row: None, row: Some(&row), now_s: NOW_S });
    let set = write_with("UPDATE co SET l[1] = 9 WHERE k = 1", vec![], &rows);
    assert_eq!(set.updates[0].rows[0].cells[0].path, row.cells[1].path);
    let discarded = write_with("UPDATE co SET l = l - [5] WHERE k = 1", vec![], &rows);
    assert_eq!(discarded.updates[0].rows[0].cells.len(), 2);
    let failed = |cql: &str, rows: &RowsRead| match bound(cql) {
        Ok(Bound::Write(write)) => write.mutations(rows).map(|_| ()).map_err(|e| e.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        failed("UPDATE co SET l[3] = 9 WHERE k = 1", &rows),
        Err("List index 3 out of bound, list has size 3".to_owned())
    );
    assert_eq!(
        failed("UPDATE co SET l[0] = 9 WHERE k = 1", &RowsRead::new()),
        Err("Attempted to set an element on a list which is null".to_owned())
    );
}

#[test]
fn deletions_reach_as_far_as_the_key_that_is_given() {
    assert!(!update("DELETE FROM t WHERE k = 1").deletion.is_none());
    assert!(!update("DELETE FROM t WHERE k = 1 AND c = 2").rows[0].deletion.is_none());
    assert_eq!(update("DELETE FROM t WHERE k = 1 AND c > 2").range_tombstones.len(), 1);
    assert_eq!(update("DELETE FROM t2 WHERE k1 = 1 AND k2 = 'a' AND a IN (1, 2)").range_tombstones.len(), 2);
    assert!(!update("DELETE FROM co WHERE k = 1").deletion.is_none());
}

#[test]
fn increments_add_up_in_a_batch() {
    let cql = "BEGIN COUNTER BATCH UPDATE cnt SET n = n + 5 WHERE k = 1 AND c = 1; \
               UPDATE cnt SET n = n - 2 WHERE k = 1 AND c = 1; UPDATE cnt SET n = n + 1 WHERE k = 2 AND c = 1 APPLY BATCH";
    let Ok(Bound::Batch(batch)) = bound(cql) else { panic!() };
    assert!(batch.writes.iter().all(|w| w.is_counter));
    let mutations = batch.mutations(&[]).expect("mutations");
    assert_eq!(mutations.len(), 2);
    assert_eq!(mutations[0].updates[0].rows[0].cells[0].value.as_ref(), 3i64.to_be_bytes());
}

#[test]
fn tokens_bound_the_range() {
    let Ok(Bound::Select(select)) = bound("SELECT k FROM t WHERE token(k) > 5 AND token(k) <= 9") else {
        panic!()
    };
    let PartitionSelection::Range(range) = &select.command.partitions else { panic!() };
    assert_eq!(range.start, KeyBound::Token { token: Token(5), inclusive: false });
    assert_eq!(range.end, KeyBound::Token { token: Token(9), inclusive: true });
}

/// The rows of a SELECT from rows `(k, c, v)` of `t`.
fn select(cql: &str, rows: &[(i32, i32, Option<i32>)]) -> Vec<Vec<String>> {
    let prepared = prepared(cql).unwrap_or_else(|e| panic!("{cql}: {e}"));
    let ctx = BindContext { page_size: None, ..context() };
    let Ok(Bound::Select(select)) = prepared.bind(&BoundValues::NONE, &ctx) else { panic!("{cql}") };
    let v = select.command.table.column("v").expect("v").id;
    let (mut shaper, mut out) = (select.shaper(), RowVec::default());
    for (k, c, value) in rows {
        let mut row = Row::new(Clustering::from_values([c.to_be_bytes().as_slice()]));
        row.liveness = Liveness::new(7);
        row.cells.extend(value.map(|x| Cell::live(v, 7, Bytes::copy_from_slice(&x.to_be_bytes()))));
        let row = ResultRow { key: &key(*k), static_row: None, row: Some(&row), now_s: NOW_S };
        if !shaper.push(&row, &mut out).unwrap_or_else(|e| panic!("{cql}: {e}")) {
            break;
        }
    }
    shaper.finish(&mut out).unwrap_or_else(|e| panic!("{cql}: {e}"));
    let types: Vec<_> = prepared.result_columns.iter().map(|c| c.ty.clone()).collect();
    out.rows
        .iter()
        .map(|row| row.iter().zip(&types).map(|(v, ty)| ty.to_literal(v.as_deref())).collect())
        .collect()
}

#[test]
fn rows_are_projected_computed_grouped_and_sorted() {
    let rows = [(1, 1, Some(10)), (1, 2, Some(20)), (2, 1, None), (2, 3, Some(30))];
    let one = |cql: &str| select(cql, &rows).into_iter().map(|r| r.join(",")).collect::<Vec<_>>().join(" ");
    for (cql, expected) in [
        ("SELECT k, c, v FROM t", "1,1,10 1,2,20 2,1,null 2,3,30"),
        (
            "SELECT v + 1, v * 2.5, -v FROM t WHERE k = 1 AND c = 1",
            "11,25.0,-10 21,50.0,-20 null,null,null 31,75.0,-30",
        ),
        ("SELECT count(*), count(v), sum(v), avg(v), min(v), max(c) FROM t", "4,3,60,20,10,3"),
        ("SELECT k, sum(v) FROM t GROUP BY k", "1,30 2,30"),
        ("SELECT k, c, sum(v) FROM t GROUP BY k, c LIMIT 3", "1,1,10 1,2,20 2,1,0"),
        ("SELECT k, c FROM t GROUP BY k, c PER PARTITION LIMIT 1", "1,1 2,1"),
        ("SELECT sum(v) + 1, abs(sum(v)) FROM t", "61,60"),
        ("SELECT writetime(v), ttl(v) FROM t", "7,null 7,null null,null 7,null"),
        ("SELECT k, c FROM t WHERE k IN (1, 2) ORDER BY c DESC LIMIT 3", "2,3 1,2 1,1"),
    ] {
        assert_eq!(one(cql), expected, "{cql}");
    }
    let first = [(1, 1, Some(10))];
    let cell = |cql: &str| select(cql, &first)[0].join(",");
    assert_eq!(cell(r#"SELECT JSON k, v AS "Val" FROM t"#), r#"'{"k": 1, "\"Val\"": 10}'"#);
    assert_eq!(cell("SELECT [c, k], {v}, (k, c) FROM t"), "[1, 1],{10},(1, 1)");
    assert_eq!(cell("SELECT cast(v as text), blob_as_int(int_as_blob(v)) FROM t"), "'10',10");
    assert_eq!(select("SELECT count(*), sum(v), min(v) FROM t", &[])[0].join(","), "0,0,null");
    assert!(select("SELECT k, count(*) FROM t GROUP BY k", &[]).is_empty());
}

#[test]
fn conditions_decide_and_show_why_not() {
    let Ok(Bound::Cas(plan)) = bound("UPDATE t SET v = 1 WHERE k = 1 AND c = 2 IF v = 5 AND s = null") else {
        panic!()
    };
    let v = plan.table.column("v").expect("v").id;
    let found = |value: i32| {
        let mut row = Row::new(Clustering::from_values([2i32.to_be_bytes().as_slice()]));
        row.cells.push(Cell::live(v, 1, Bytes::copy_from_slice(&value.to_be_bytes())));
        let mut rows = RowsRead::new();
        rows.push(&ResultRow { key: &key(1), static_row: None, row: Some(&row), now_s: NOW_S });
        rows
    };
    let outcome = plan.evaluate(&found(5), 42).expect("an outcome");
    let CasOutcome::Applied(mutation) = &outcome else { panic!() };
    assert_eq!(mutation.updates[0].rows[0].cells[0].timestamp, 42);
    let rows = found(6);
    let outcome = plan.evaluate(&rows, 42).expect("an outcome");
    assert!(!outcome.is_applied());
    let names: Vec<String> = plan.result_columns(&outcome, &rows).into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["[applied]", "v", "s"]);
    let mut out = RowVec::default();
    plan.write_result(&outcome, &rows, true, &mut out).expect("a result");
    assert_eq!(out.rows, [vec![Some(vec![0]), Some(6i32.to_be_bytes().to_vec()), None]]);
    let none = RowsRead::new();
    let outcome = plan.evaluate(&none, 42).expect("an outcome");
    assert_eq!(plan.result_columns(&outcome, &none).len(), 1);
}

#[test]
fn a_conditional_batch_deletes_what_was_there_before_it() {
    let Ok(Bound::Cas(plan)) = bound(
        "BEGIN BATCH UPDATE t SET s = 5 WHERE k = 1 IF s = null; DELETE FROM t WHERE k = 1 AND c > 0; \
         DELETE FROM t WHERE k = 1; DELETE FROM t WHERE k = 1 AND c = 3; INSERT INTO t (k, c, v) VALUES (1, 2, 2); \
         APPLY BATCH",
    ) else {
        panic!()
    };
    let outcome = plan.evaluate(&RowsRead::new(), 42).expect("an outcome");
    let CasOutcome::Applied(mutation) = &outcome else { panic!() };
    let update = &mutation.updates[0];
    assert_eq!((update.deletion.timestamp, update.range_tombstones[0].deletion.timestamp), (41, 41));
    let stamps: Vec<_> = update.rows.iter().map(|r| (r.deletion.timestamp, r.liveness.timestamp)).collect();
    assert_eq!(stamps, [(i64::MIN, 42), (41, i64::MIN)]);
}

#[test]
fn the_row_of_a_table_without_clustering_is_deleted_if_it_exists() {
    let Ok(Bound::Cas(plan)) = bound("DELETE FROM me WHERE k = 1 IF EXISTS") else { panic!() };
    let row = Row { liveness: Liveness::new(1), ..Row::new(Clustering::empty()) };
    let mut rows = RowsRead::new();
    rows.push(&ResultRow { key: &key(1), static_row: None, row: Some(&row), now_s: NOW_S });
    let outcome = plan.evaluate(&rows, 42).expect("an outcome");
    let CasOutcome::Applied(mutation) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(mutation.updates[0].deletion.timestamp, 41);
    assert!(!plan.evaluate(&RowsRead::new(), 42).expect("an outcome").is_applied());
}

#[test]
fn an_empty_range_deletes_nothing() {
    match bound("DELETE FROM t WHERE k = 1 AND c >= 2 AND c < 2") {
        Ok(Bound::Write(write)) => {
            let mutations = write.mutations(&RowsRead::new()).expect("mutations");
            assert!(
                mutations.iter().flat_map(|m| &m.updates).all(|update| update.is_empty()),
                "{mutations:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let null = || vec![BoundValue::Null];
    let unset = || vec![BoundValue::Unset];
    for (cql, values, message) in [
        ("SELECT k FROM t WHERE k = ?", null(), "Invalid null value in condition for column k"),
        ("SELECT k FROM t WHERE k IN ?", null(), "Invalid null value for column k"),
        ("SELECT k FROM t WHERE k = 1 AND c > ?", unset(), "Invalid unset value for column c"),
        ("SELECT k FROM t LIMIT ?", null(), "Invalid null value of limit"),
        ("SELECT k FROM t LIMIT ?", vec![int(0)], "LIMIT must be strictly positive"),
        ("SELECT k FROM t WHERE v = ? ALLOW FILTERING", unset(), "Unsupported unset value for column v"),
        ("SELECT k FROM t WHERE token(k) > ?", null(), "Invalid null token value"),
        ("UPDATE co SET m[?] = 1 WHERE k = 1", unset(), "Invalid unset map key"),
        (
            "UPDATE cnt SET n = n + ? WHERE k = 1 AND c = 1",
            null(),
            "Invalid null value for counter increment",
        ),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = ?", unset(), "Invalid 'unset' value in condition"),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v > ?",
            null(),
            "Invalid comparison with null for operator \">\"",
        ),
        ("INSERT INTO t JSON ?", null(), "Got null for INSERT JSON values"),
        (
            "DELETE FROM t WHERE k = 1 AND c > ?",
            null(),
            "Invalid null value in condition for a range of rows to delete",
        ),
        (
            "SELECT k FROM t WHERE k = ?",
            vec![BoundValue::Bytes(Bytes::from_static(b"abc"))],
            "Expected 4 or 0 byte int (3)",
        ),
        ("SELECT k FROM t WHERE k = ?", vec![], "there were 1 markers(?) in CQL but 0 bound variables"),
    ] {
        assert_eq!(refusal(cql, values), message, "{cql}");
    }
    let long = |n: usize| vec![BoundValue::Bytes(vec![b'x'; n].into())];
    assert_eq!(
        refusal("INSERT INTO sk (k, c) VALUES (?, 'c')", long(65536)),
        "Key length of 65536 is longer than maximum of 65535"
    );
    assert_eq!(
        refusal("INSERT INTO sk (k, c) VALUES ('k', ?)", long(65536)),
        "Key length of 65536 is longer than maximum of 65535"
    );
}
