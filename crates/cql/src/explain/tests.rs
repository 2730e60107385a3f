//! Plans as text, against `testdata/explain.txt`. Where they differ, the test prints the whole file as it would be.

use crate::plan::Bound;
use crate::plan::tests::schema::bound;
use std::fmt::Write;

const CASES: &str = include_str!("../../testdata/explain.txt");

fn explained(cql: &str) -> String {
    let (analyze, select) = match bound(cql) {
        Ok(Bound::Explain(explain)) => (explain.analyze, explain.select),
        Ok(_) => return "  no EXPLAIN\n".to_owned(),
        Err(error) => return format!("  ! {error}\n"),
    };
    let mut out = String::new();
    for step in super::plan(&select, Some(5000)) {
        assert_eq!((step.micros, step.figures.len()), (None, 0));
        let head = format!("{} {}", step.operation, step.target);
        writeln!(out, "  {}: {}", head.trim_end(), step.detail).unwrap();
    }
    if analyze {
        out.push_str("  and reads\n");
    }
    out
}

#[test]
fn plans_say_what_is_read_and_how() {
    let mut text = String::new();
    for line in CASES.lines() {
        if line.starts_with('#') || line.is_empty() {
            writeln!(text, "{line}").unwrap();
        } else if let Some(cql) = line.strip_prefix("> ") {
            writeln!(text, "> {cql}\n{}", explained(cql).trim_end()).unwrap();
        }
    }
    assert!(CASES.matches("\n> ").count() > 20);
    assert!(text == CASES, "plans changed; they are now:\n{text}");
}

#[test]
fn values_are_shown_in_part() {
    let long = "x".repeat(10_000);
    let many: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let (keys, names) = (many.join(", "), many.join(", "));
    let cql = format!(
        "EXPLAIN SELECT * FROM t WHERE k IN ({keys}) AND c IN ({names}) AND txt = '{long}' ALLOW FILTERING"
    );
    let text = explained(&cql);
    assert!(text.contains("500 partitions") && text.contains("and 497 more"), "{text}");
    assert!(text.len() < 1_500, "{}", text.len());
}

#[test]
fn a_page_of_one_row_is_in_the_singular() {
    let Ok(Bound::Explain(explain)) = bound("EXPLAIN SELECT v FROM t") else { panic!() };
    let page = |rows| super::plan(&explain.select, Some(rows)).pop().unwrap().detail;
    assert_eq!(page(1), "at most 1 row, as the client asked");
    assert_eq!(page(2), "at most 2 rows, as the client asked");
}
