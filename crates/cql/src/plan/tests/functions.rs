//! Expressions of `testdata/functions.txt`, whose values are Cassandra's.

use super::schema::{NOW_S, bound, prepared};
use crate::plan::Bound;
use crate::result::RowVec;
use bytes::Bytes;
use model::Liveness;
use model::clustering::Clustering;
use model::key::{DecoratedKey, PartitionKey};
use model::row::{ResultRow, Row};

const CASES: &str = include_str!("../../../testdata/functions.txt");

fn evaluate(expression: &str) -> String {
    let cql = format!("SELECT to_json({expression}) FROM sk");
    if let Err(e) = prepared(&cql) {
        return format!("! {e}");
    }
    let Ok(Bound::Select(select)) = bound(&cql) else { return "! cannot be bound".to_owned() };
    let key = DecoratedKey::new(PartitionKey(Bytes::from_static(b"k")));
    let mut row = Row::new(Clustering::from_values([b"c".as_slice()]));
    row.liveness = Liveness::new(1);
    let (mut shaper, mut out) = (select.shaper(), RowVec::default());
    let row = ResultRow { key: &key, static_row: None, row: Some(&row), now_s: NOW_S };
    match shaper.push(&row, &mut out) {
        Ok(_) => format!("= {}", String::from_utf8_lossy(out.rows[0][0].as_deref().unwrap_or_default())),
        Err(e) => format!("! {e}"),
    }
}

#[test]
fn functions_give_what_cassandra_gives() {
    let mut wrong = Vec::new();
    let mut expression = None;
    let mut count = 0;
    for line in CASES.lines().filter(|l| !l.starts_with('#')) {
        if let Some(text) = line.strip_prefix("> ") {
            expression = Some(text);
            continue;
        }
        let Some(text) = expression.take() else { continue };
        // The token of a partition key depends on the table.
        if text.starts_with("token(") {
            continue;
        }
        count += 1;
        let got = evaluate(text);
        if got != line {
            wrong.push(format!("> {text}\n  Cassandra {line}\n  here      {got}"));
        }
    }
    assert!(count > 100, "only {count} cases");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn masking_functions_refuse_in_cassandras_words() {
    for (call, words) in [
        (
            "mask_inner((text)'a')",
            "Invalid number of arguments for function system.mask_inner([text|varchar|ascii], int, int, [text])",
        ),
        (
            "mask_inner((text)'a', 'a', 1)",
            "Function system.mask_inner requires an argument of type int, but found argument 'a' of type ascii",
        ),
        (
            "mask_inner((bigint)1, 1, 1)",
            "Function system.mask_inner requires an argument of type [text|varchar|ascii], but found argument \
             (bigint)1 of type bigint",
        ),
        (
            "mask_replace((text)'a', 1)",
            "Type error: 1 cannot be passed as argument 1 of function system.mask_replace of type text",
        ),
        (
            "mask_hash((text)'a', 1)",
            "Function system.mask_hash requires an argument of type text, but found argument 1 of type int",
        ),
    ] {
        assert_eq!(evaluate(call), format!("! {words}"));
    }
}
