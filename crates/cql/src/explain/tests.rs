//! Plans as text, against `testdata/explain.txt`. Where they differ, the test prints the whole file as it
//! would be.

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

fn restriction_of(cql: &str) -> String {
    match bound(cql).unwrap() {
        Bound::Select(select) => super::restriction(&select.command),
        other => panic!("{other:?}"),
    }
}

#[test]
fn restrictions_have_the_values_of_all_conditions() {
    for (cql, restriction) in [
        ("SELECT * FROM t", ""),
        ("SELECT DISTINCT k FROM t", ""),
        ("SELECT v FROM t WHERE k = 1 AND c = 2", "k = 1 AND c = 2"),
        ("SELECT v FROM t WHERE k = 1 AND c > 2 AND c <= 5 LIMIT 3", "k = 1 AND c > 2 AND c <= 5 LIMIT 3"),
        ("SELECT v FROM t WHERE k = 1 AND c >= 2 ORDER BY c DESC", "k = 1 AND c >= 2"),
        ("SELECT v FROM t WHERE k IN (3, 1) AND c IN (4, 2)", "k IN (1, 3) AND c IN (2, 4)"),
        (
            "SELECT v FROM t WHERE k = 1 AND c < 9 AND v > 3 AND txt IN ('a', 'b') ALLOW FILTERING",
            "k = 1 AND c < 9 AND v > 3 AND txt IN ('a', 'b')",
        ),
        (
            "SELECT v FROM t WHERE token(k) > 5 PER PARTITION LIMIT 2 LIMIT 10",
            "token(k) > 5 PER PARTITION LIMIT 2 LIMIT 10",
        ),
        ("SELECT v FROM t2 WHERE k1 = 1 AND k2 = 'it''s' AND a = 1", "k1 = 1 AND k2 = 'it''s' AND a = 1"),
        ("SELECT v FROM t2 WHERE k1 = 1 AND k2 IN ('a', 'b')", "(k1, k2) IN ((1, 'a'), (1, 'b'))"),
        // `b` is stored in descending order.
        (
            "SELECT v FROM t2 WHERE k1 = 1 AND k2 = 'a' AND a = 1 AND b > 2 AND b <= 7",
            "k1 = 1 AND k2 = 'a' AND a = 1 AND b <= 7 AND b > 2",
        ),
        (
            "SELECT v FROM t2 WHERE k1 = 1 AND k2 = 'a' AND (a, b) > (1, 2)",
            "k1 = 1 AND k2 = 'a' AND (a = 1 AND b > 2 OR a > 1)",
        ),
        (
            "SELECT k FROM co WHERE l CONTAINS 3 AND m CONTAINS KEY 'a' AND m['b'] = 4 ALLOW FILTERING",
            "l CONTAINS 3 AND m CONTAINS KEY 'a' AND m['b'] = 4",
        ),
    ] {
        assert_eq!(restriction_of(cql), restriction, "{cql}");
    }
}

#[test]
fn long_restrictions_are_cut() {
    let many: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let (many, long) = (many.join(", "), "ž".repeat(10_000));
    let text = restriction_of(&format!(
        "SELECT v FROM t WHERE k IN ({many}) AND c IN ({many}) AND txt = '{long}' ALLOW FILTERING"
    ));
    assert!(text.starts_with("k IN (") && text.matches("… 500 in all) AND").count() == 2, "{text}");
    assert!(text.contains("txt = 'žžž") && text.ends_with('…') && text.len() < 400, "{text}");
    let values: Vec<String> = (0..100).map(|n| format!("'{n:->60}'")).collect();
    let filters: Vec<String> = (0..50).map(|n| format!("st CONTAINS {n}")).collect();
    let text = restriction_of(&format!("SELECT k FROM co WHERE {} ALLOW FILTERING", filters.join(" AND ")));
    assert!(text.len() <= 1_024, "{}", text.len());
    let text =
        restriction_of(&format!("SELECT v FROM sk WHERE k IN ({0}) AND c IN ({0})", values.join(", ")));
    assert!(text.ends_with('…') && text.len() <= 1_024, "{}", text.len());
}
