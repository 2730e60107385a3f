//! The statements of `testdata/prepare.txt`, whose answers are Cassandra's.

use super::schema::{context, prepared};
use crate::bind::BoundValues;
use crate::error::CqlError;
use crate::plan::{Bound, RowsRead, StatementKind};

const CASES: &str = include_str!("../../../testdata/prepare.txt");

/// What a case expects, or what happened, in the words of the file.
fn answer(cql: &str, wants_binds: bool) -> String {
    let refused = |e: CqlError| match e.code() {
        0x2200 => format!("! {e}"),
        code => format!("! {code:04x} {e}"),
    };
    let prepared = match prepared(cql) {
        Ok(prepared) => prepared,
        Err(e) => return refused(e),
    };
    if wants_binds {
        let names: Vec<String> = prepared.bind_variables.iter().map(|v| v.name.replace(' ', "_")).collect();
        let key: Vec<String> = prepared.partition_key_binds.iter().map(u16::to_string).collect();
        return format!("? {} | {}", names.join(" "), key.join(" ")).trim_end().to_owned();
    }
    let mut ctx = context();
    if prepared.kind != StatementKind::Select {
        ctx.page_size = None;
    }
    // Some mistakes come to light when the change is made.
    let bound = prepared.bind(&BoundValues::NONE, &ctx).and_then(|bound| match &bound {
        Bound::Write(write) if write.read_before.is_none() => write.mutations(&RowsRead::new()).map(|_| ()),
        _ => Ok(()),
    });
    match bound {
        Err(e) => refused(e),
        Ok(_) if prepared.kind == StatementKind::Select => {
            let names: Vec<&str> = prepared.result_columns.iter().map(|c| c.name.as_str()).collect();
            format!("= {}", names.join(" ; "))
        }
        Ok(_) => "=".to_owned(),
    }
}

#[test]
fn statements_are_answered_as_cassandra_answers_them() {
    let mut wrong = Vec::new();
    let mut statement = None;
    let mut count = 0;
    for line in CASES.lines().filter(|l| !l.starts_with('#')) {
        if let Some(cql) = line.strip_prefix("> ") {
            statement = Some(cql);
            continue;
        }
        let Some(cql) = statement.take() else { continue };
        count += 1;
        let got = answer(cql, line.starts_with('?'));
        if got.trim_end() != line.trim_end() {
            wrong.push(format!("> {cql}\n  Cassandra {line}\n  here      {got}"));
        }
    }
    assert!(count > 300, "only {count} cases");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
