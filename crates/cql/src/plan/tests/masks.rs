//! What statements show of masked columns, and which they ask about.

use super::schema::{NOW_S, context, schema};
use crate::bind::{BindContext, BoundValues};
use crate::error::Result;
use crate::parser::parse_statement;
use crate::plan::{Bound, BoundSelect, CasOutcome, Prepared, RowsRead, prepare};
use crate::result::RowVec;
use bytes::Bytes;
use model::clustering::Clustering;
use model::key::{DecoratedKey, PartitionKey};
use model::row::{ResultRow, Row};
use model::schema::{ColumnMask, KeyspaceSchema};
use model::types::CqlType;
use model::{Cell, Liveness, Schema, TableSchema};
use std::sync::Arc;
use uuid::Uuid;

fn mask(column: &str, keyspace: &str, name: &str, arguments: &[&str]) -> ColumnMask {
    ColumnMask {
        column: column.to_owned(),
        function_keyspace: keyspace.to_owned(),
        function_name: name.to_owned(),
        argument_types: vec!["int".to_owned(); arguments.len()],
        arguments: arguments.iter().map(|text| Some((*text).to_owned())).collect(),
    }
}

fn masked_schema() -> Schema {
    let mut table = TableSchema::builder("dml", "mk", Uuid::from_u128(77))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Text)
        .regular("m", CqlType::map(CqlType::Text, CqlType::Int, true))
        .regular("f", CqlType::Int)
        .regular("open", CqlType::Int);
    let masks = [
        mask("c", "system", "mask_default", &[]),
        mask("v", "system", "mask_inner", &["1", "1"]),
        mask("m", "system", "mask_null", &[]),
        mask("f", "dml", "mine", &["1"]),
    ];
    for mask in masks {
        table = table.mask_column(&mask.column.clone(), Some(mask));
    }
    let schema = schema();
    let mut keyspace = KeyspaceSchema::clone(schema.keyspace("dml").unwrap());
    keyspace.tables.insert("mk".to_owned(), Arc::new(table.build()));
    schema.with_keyspace(keyspace)
}

fn prepared(cql: &str) -> Prepared {
    prepare(parse_statement(cql).unwrap(), &masked_schema(), Some("dml")).unwrap()
}

fn bound(cql: &str, unmasks: bool) -> Bound {
    prepared(cql).bind(&BoundValues::NONE, &BindContext { unmasks, ..context() }).unwrap()
}

fn row(table: &TableSchema) -> Row {
    let mut row = Row::new(Clustering::from_values([5i32.to_be_bytes().as_slice()]));
    row.liveness = Liveness::new(1);
    for (name, value) in [("v", &b"secret"[..]), ("f", &7i32.to_be_bytes()), ("open", &8i32.to_be_bytes())] {
        let column = table.column(name).unwrap().id;
        row.cells.push(Cell::live(column, 1, Bytes::copy_from_slice(value)));
    }
    row.cells.sort_by_key(|cell| cell.column);
    row
}

fn key() -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&1i32.to_be_bytes())))
}

fn shown_by(select: &BoundSelect) -> Result<Vec<String>> {
    let (row, key) = (row(&select.command.table), key());
    let (mut shaper, mut out) = (select.shaper(), RowVec::default());
    let row = ResultRow { key: &key, static_row: None, row: Some(&row), now_s: NOW_S };
    shaper.push(&row, &mut out)?;
    shaper.finish(&mut out)?;
    let values = out.rows[0].iter().zip(select.columns());
    Ok(values.map(|(value, column)| column.ty.to_literal(value.as_deref())).collect())
}

fn shown(cql: &str, unmasks: bool) -> Vec<String> {
    let Bound::Select(select) = bound(cql, unmasks) else { panic!("{cql} is no SELECT") };
    shown_by(&select).unwrap()
}

#[test]
fn who_may_not_unmask_sees_masks_wherever_a_column_stands() {
    for (selection, clear, masked) in [
        ("k, c, v, open", ["1", "5", "'secret'", "8"], ["1", "0", "'s****t'", "8"]),
        (
            "c + 1, v + 'x', to_json(v), [c]",
            ["6", "'secretx'", "'\"secret\"'", "[5]"],
            ["1", "'s****tx'", "'\"s****t\"'", "[0]"],
        ),
        ("max(c), max(v), count(m), sum(open)", ["5", "'secret'", "0", "8"], ["0", "'s****t'", "0", "8"]),
        (
            "CAST(c AS text), mask_outer(v, 1, 1), k, (c, k)",
            ["'5'", "'*ecre*'", "1", "(5, 1)"],
            ["'0'", "'******'", "1", "(0, 1)"],
        ),
    ] {
        let cql = format!("SELECT {selection} FROM mk");
        assert_eq!(shown(&cql, true), clear, "{cql}");
        assert_eq!(shown(&cql, false), masked, "{cql}");
    }
    assert_eq!(shown("SELECT JSON k, v FROM mk", false), ["'{\"k\": 1, \"v\": \"s****t\"}'"]);
}

#[test]
fn an_element_of_a_masked_collection_is_all_that_is_read() {
    let Bound::Select(select) = bound("SELECT m['a'] FROM mk", false) else { panic!() };
    let elements = select.command.columns.elements.as_ref().expect("elements");
    assert_eq!(elements.len(), 1);
    assert_eq!(shown_by(&select).unwrap(), ["null"]);
}

#[test]
fn a_mask_that_cannot_be_applied_refuses_who_would_see_it() {
    assert_eq!(shown("SELECT f FROM mk", true), ["7"]);
    let Bound::Select(select) = bound("SELECT f FROM mk", false) else { panic!() };
    let refusal = shown_by(&select).unwrap_err().to_string();
    assert!(refusal.contains("dml.mine"), "{refusal}");
}

#[test]
fn conditions_name_the_masked_columns_that_they_look_at() {
    for (cql, asked) in [
        ("SELECT k FROM mk WHERE k = 1", &[][..]),
        ("SELECT v FROM mk WHERE token(k) > 0", &[]),
        ("SELECT k FROM mk WHERE k = 1 AND c > 1", &["c"]),
        ("SELECT k FROM mk WHERE (c) > (1) AND v = 'x' AND open = 1 ALLOW FILTERING", &["c", "v"]),
        ("SELECT k FROM mk WHERE m['a'] = 1 ALLOW FILTERING", &["m"]),
        ("EXPLAIN ANALYZE SELECT k FROM mk WHERE v = 'x' ALLOW FILTERING", &["v"]),
        ("UPDATE mk SET v = 'x' WHERE k = 1 AND c = 1", &[]),
        ("UPDATE mk SET v = 'x' WHERE k = 1 AND c = 1 IF v = 'y' AND open = 1", &["v"]),
        ("BEGIN BATCH DELETE FROM mk WHERE k = 1 AND c = 1 IF f > 1 APPLY BATCH", &["f"]),
        ("INSERT INTO mk (k, c) VALUES (1, 1) IF NOT EXISTS", &[]),
    ] {
        let prepared = prepared(cql);
        assert_eq!(prepared.masked_conditions, asked, "{cql}");
        assert!(prepared.has_masks, "{cql}");
    }
}

#[test]
fn a_refused_write_shows_masks_too() {
    let Bound::Cas(plan) =
        bound("UPDATE mk SET v = 'x' WHERE k = 1 AND c = 5 IF v = 'y' AND open = 8", false)
    else {
        panic!()
    };
    let (row, key) = (row(&plan.table), key());
    let mut rows = RowsRead::new();
    rows.push(&ResultRow { key: &key, static_row: None, row: Some(&row), now_s: NOW_S });
    let outcome = plan.evaluate(&rows, 42).unwrap();
    assert!(matches!(outcome, CasOutcome::NotApplied));
    for (unmasks, v) in [(true, &b"secret"[..]), (false, b"s****t")] {
        let mut out = RowVec::default();
        plan.write_result(&outcome, &rows, unmasks, &mut out).unwrap();
        assert_eq!(out.rows[0][1].as_deref(), Some(v));
        assert_eq!(out.rows[0][2].as_deref(), Some(&8i32.to_be_bytes()[..]));
    }
}
