//! What parses, into what, and what is refused in which words.
//!
//! The files in `testdata` were checked against Cassandra 5.0.5's own parser: it accepts every statement of
//! `accepted.txt`, and the messages in `errors.txt` are its own.

use proptest::prelude::*;

use super::*;
use crate::ast::*;

fn unescape(text: &str) -> String {
    let mut result = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        result.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    result
}

fn parse(text: &str) -> Statement {
    parse_statement(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement
}

fn select(text: &str) -> Select {
    match parse(text) {
        Statement::Select(select) => *select,
        other => panic!("not a SELECT: {other:?}"),
    }
}

fn name(text: &str) -> Identifier {
    Identifier::quoted(text)
}

fn table(text: &str) -> QualifiedName {
    QualifiedName { keyspace: None, name: name(text) }
}

fn integer(text: &str) -> Term {
    Term::Literal(Literal { kind: LiteralKind::Integer, text: text.to_owned() })
}

fn string(text: &str) -> Term {
    Term::Literal(Literal { kind: LiteralKind::String, text: text.to_owned() })
}

#[test]
fn what_cassandra_accepts_is_accepted() {
    let mut count = 0;
    for line in include_str!("../../testdata/accepted.txt").lines() {
        parse(&unescape(line));
        count += 1;
    }
    assert!(count >= 350);
}

#[test]
fn errors_are_cassandras() {
    let mut lines = include_str!("../../testdata/errors.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    while let (Some(statement), Some(message)) = (lines.next(), lines.next()) {
        let error = parse_statement(&unescape(statement)).expect_err(statement);
        assert_eq!(error.message, unescape(message.trim_start()), "{statement}");
        count += 1;
    }
    assert!(count >= 500);
}

#[test]
fn result_columns_are_named_as_by_cassandra() {
    for line in include_str!("../../testdata/column_names.txt").lines().filter(|line| !line.starts_with('#'))
    {
        let (selector, expected) = line.split_once('\t').unwrap();
        let Selection::Selectors(selectors) = select(&format!("SELECT {selector} FROM t")).selection else {
            panic!("{selector}");
        };
        let named = selectors[0]
            .selectable
            .column_name(&|function, _| Some(FunctionName::native(function.name.as_str())));
        assert_eq!(named, expected, "{selector}");
    }
}

#[test]
fn markers_are_numbered_in_the_order_of_the_text() {
    let parsed = parse_statement(
        "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (a) VALUES ([:Low, ?]); \
         UPDATE t SET m[:\"K\"] = ? WHERE k IN ? IF a = :low APPLY BATCH",
    )
    .unwrap();
    let names: Vec<_> = parsed.markers.iter().map(|name| name.as_ref().map(Identifier::as_str)).collect();
    assert_eq!(names, [None, Some("low"), None, Some("K"), None, None, Some("low")]);
    let Statement::Batch(batch) = parsed.statement else { panic!() };
    assert_eq!(batch.using.timestamp, Some(Term::Marker(0)));
    let Modification::Update(update) = &batch.statements[1] else { panic!() };
    assert_eq!(
        update.filter,
        [WherePredicate::Relation(Relation::In { column: name("k"), values: InValues::Marker(5) })]
    );
}

#[test]
fn a_type_hint_parses_its_markers_once() {
    let parsed =
        parse_statement("SELECT (int) ?, (a) FROM t WHERE a = (list<int>) [?] AND b = ('x', ?)").unwrap();
    assert_eq!(parsed.markers.len(), 3);
}

#[test]
fn bypass_cache_ends_a_select() {
    let heads = [
        "SELECT * FROM t",
        "SELECT * FROM ks.t",
        "SELECT * FROM t WHERE k = 1",
        "SELECT * FROM t WHERE k = ?",
        "SELECT * FROM t WHERE k IN (1, 2)",
        "SELECT * FROM t WHERE k = fn(1)",
        "SELECT * FROM t WHERE k = 'x' AND token(k) > -5",
        "SELECT * FROM t WHERE k = 1 GROUP BY k",
        "SELECT * FROM t WHERE k = 1 ORDER BY c",
        "SELECT * FROM t WHERE k = 1 ORDER BY c DESC PER PARTITION LIMIT 1",
        "SELECT * FROM t LIMIT 10",
        "SELECT * FROM t LIMIT :n ALLOW FILTERING",
    ];
    for head in heads {
        assert!(!select(head).bypass_cache, "{head}");
        for tail in ["BYPASS CACHE", "bypass cache;"] {
            let bypassing = select(&format!("{head} {tail}"));
            assert!(bypassing.bypass_cache, "{head} {tail}");
            assert_eq!(Select { bypass_cache: false, ..bypassing }.table, select(head).table);
        }
    }
    for text in [
        "SELECT * FROM t BYPASS",
        "SELECT * FROM t BYPASS CACHE BYPASS CACHE",
        "SELECT * FROM t BYPASS CACHE ALLOW FILTERING",
        "SELECT * FROM t \"BYPASS\" CACHE",
        "INSERT INTO t BYPASS CACHE (k) VALUES (1)",
        "TRUNCATE t BYPASS CACHE",
    ] {
        assert!(parse_statement(text).is_err(), "{text}");
    }
    assert!(
        !select("SELECT bypass, cache AS bypass FROM cache").bypass_cache,
        "the words are names as before"
    );
}

#[test]
fn select_keeps_every_clause() {
    let text = "SELECT JSON DISTINCT a AS \"B\", m['k'] FROM \"Ks\".T WHERE k = 1 GROUP BY k ORDER BY c DESC \
                PER PARTITION LIMIT 2 LIMIT ? ALLOW FILTERING";
    let select = select(text);
    assert!(select.json && select.distinct && select.allow_filtering);
    assert_eq!(select.table, QualifiedName { keyspace: Some(name("Ks")), name: name("t") });
    let Selection::Selectors(selectors) = &select.selection else { panic!() };
    assert_eq!(selectors[0].alias, Some(name("B")));
    assert_eq!(selectors[1].text.of(text), Some("m['k']"));
    assert_eq!(
        selectors[1].selectable,
        Selectable::Part {
            of: Box::new(Selectable::Column(name("m"))),
            part: Subselection::Element(string("k")),
        }
    );
    assert_eq!(select.group_by, [Selectable::Column(name("k"))]);
    assert_eq!(
        select.order_by,
        [OrderBy { expression: OrderByExpression::Column(name("c")), descending: true }]
    );
    assert_eq!(select.per_partition_limit, Some(integer("2")));
    assert_eq!(select.limit, Some(Term::Marker(0)));
}

#[test]
fn json_and_distinct_may_be_columns() {
    for (text, json, distinct) in [
        ("SELECT json FROM t", false, false),
        ("SELECT json AS j FROM t", false, false),
        ("SELECT json AS AS j FROM t", true, false),
        ("SELECT json, distinct FROM t", false, false),
        ("SELECT json.f FROM t", false, false),
        ("SELECT JSON json FROM t", true, false),
        ("SELECT DISTINCT distinct FROM t", false, true),
        ("SELECT JSON - json FROM t", true, false),
    ] {
        let select = select(text);
        assert_eq!((select.json, select.distinct), (json, distinct), "{text}");
    }
}

#[test]
fn arithmetic_binds_as_usual() {
    let select = select("SELECT a FROM t WHERE a = 1 - 2 * -f() - 3");
    let WherePredicate::Relation(Relation::Column { value, .. }) = &select.filter[0] else { panic!() };
    assert_eq!(value.to_string(), "1 - 2 * -f() - 3");
    let Term::Operation { operator: ArithmeticOperator::Subtract, left, right } = value else { panic!() };
    assert_eq!(**right, integer("3"));
    assert!(matches!(**left, Term::Operation { operator: ArithmeticOperator::Subtract, .. }));
}

#[test]
fn each_form_of_assignment_is_told_apart() {
    let Statement::Update(update) = parse(
        "UPDATE t SET a = 1, b = b + 2, c = c - 3, d = d -4, e = [5] + e, f += 6, g -= 7, h['k'] = 8, i.j = 9 \
         WHERE k = 1",
    ) else {
        panic!()
    };
    let operations: Vec<_> = update.assignments.into_iter().map(|assignment| assignment.operation).collect();
    assert_eq!(
        operations,
        [
            UpdateOperation::Set(integer("1")),
            UpdateOperation::Add(integer("2")),
            UpdateOperation::Subtract(integer("3")),
            UpdateOperation::Add(integer("-4")),
            UpdateOperation::Prepend(Term::List(vec![integer("5")])),
            UpdateOperation::Add(integer("6")),
            UpdateOperation::Subtract(integer("7")),
            UpdateOperation::SetElement { key: string("k"), value: integer("8") },
            UpdateOperation::SetField { field: name("j"), value: integer("9") },
        ]
    );
}

#[test]
fn tables_keep_columns_keys_and_properties() {
    let Statement::CreateTable(create) = parse(
        "CREATE TABLE IF NOT EXISTS t (a int, \"B\" frozen<map<text, u>> STATIC, c vector<float, 3> \
         MASKED WITH DEFAULT, PRIMARY KEY ((a, d), e)) WITH CLUSTERING ORDER BY (e DESC) AND comment = 'x' \
         AND compaction = {'class': 'C', 'n': 1}",
    ) else {
        panic!()
    };
    assert!(create.if_not_exists && !create.compact_storage);
    assert_eq!(create.table, table("t"));
    assert_eq!(create.columns.len(), 3);
    assert!(create.columns[1].is_static);
    assert_eq!(create.columns[1].column_type.to_string(), "frozen<map<text, u>>");
    assert_eq!(create.columns[2].mask.as_ref().unwrap().function, FunctionName::native("mask_default"));
    assert_eq!(
        create.primary_keys,
        [PrimaryKey { partition_key: vec![name("a"), name("d")], clustering: vec![name("e")] }]
    );
    assert_eq!(create.clustering_order, [(name("e"), true)]);
    assert_eq!(create.properties[0].value, PropertyValue::Text("x".to_owned()));
    assert_eq!(
        create.properties[1].value,
        PropertyValue::Map(vec![("class".to_owned(), "C".to_owned()), ("n".to_owned(), "1".to_owned())])
    );
}

#[test]
fn describe_tells_its_targets_apart() {
    let target = |text: &str| match parse(text) {
        Statement::Describe(describe) => describe.target,
        other => panic!("{other:?}"),
    };
    assert_eq!(target("DESC CLUSTER"), DescribeTarget::Cluster);
    assert_eq!(target("DESCRIBE FULL SCHEMA"), DescribeTarget::Schema { full: true });
    assert_eq!(target("DESCRIBE KEYSPACE"), DescribeTarget::Keyspace { name: None, only: false });
    assert_eq!(
        target("DESCRIBE ONLY KEYSPACE ks"),
        DescribeTarget::Keyspace { name: Some(name("ks")), only: true }
    );
    assert_eq!(target("DESCRIBE TYPE u"), DescribeTarget::Type(table("u")));
    assert_eq!(target("DESCRIBE type"), DescribeTarget::Generic(table("type")));
}

#[test]
fn permissions_and_roles_are_told_apart() {
    assert!(matches!(parse("GRANT unmask TO r"), Statement::GrantRole(_)));
    assert!(matches!(parse("GRANT UNMASK ON t TO r"), Statement::Grant(_)));
    assert!(matches!(parse("REVOKE all FROM r"), Statement::RevokeRole(_)));
}

#[test]
fn nesting_is_bounded_not_fatal() {
    let long = 100_000;
    for text in [
        format!("SELECT {} FROM t", "(".repeat(long)),
        format!("SELECT {}a FROM t", "- ".repeat(long)),
        format!("SELECT a{} FROM t", ".b".repeat(long)),
        format!("SELECT a{} FROM t", " + a".repeat(long)),
        format!("SELECT writetime(a{}) FROM t", ".b".repeat(long)),
        format!("SELECT {}1 FROM t", "(int)".repeat(long)),
        format!("SELECT a FROM t WHERE a = {}", "[".repeat(long)),
        format!("SELECT a FROM t WHERE a = {}", "{1:".repeat(long)),
        format!("SELECT a FROM t WHERE a = {}1", "(int)".repeat(long)),
        format!("SELECT a FROM t WHERE a = {}1", "cast(".repeat(long)),
        format!("SELECT a FROM t WHERE a = {}1", "f(".repeat(long)),
        format!("SELECT a FROM t WHERE a = 1{}", " + 1".repeat(long)),
        format!("SELECT a FROM t WHERE {}", "(".repeat(long)),
        format!("CREATE TABLE t (a {}", "list<".repeat(long)),
    ] {
        assert!(parse_statement(&text).is_err());
    }
    let depth = NESTING_MAX - 5;
    parse(&format!("SELECT a FROM t WHERE a = {}1{}", "[".repeat(depth), "]".repeat(depth)));
    parse(&format!("SELECT a{} FROM t", " + a".repeat(OPERATORS_MAX)));
}

#[test]
fn long_statements_parse() {
    let values = vec!["1"; 50_000].join(", ");
    let WherePredicate::Relation(Relation::In { values: InValues::Terms(terms), .. }) =
        &select(&format!("SELECT a FROM t WHERE a IN ({values})")).filter[0]
    else {
        panic!()
    };
    assert_eq!(terms.len(), 50_000);
}

/// Words of the language, so that random statements get past the first token.
fn any_piece() -> impl Strategy<Value = String> {
    let words: Vec<&str> = "SELECT INSERT UPDATE DELETE CREATE ALTER DROP TABLE KEYSPACE TYPE INDEX FROM WHERE \
        INTO VALUES SET AND IN NOT NULL IF EXISTS a b \"C\" ks . , ; ( ) [ ] { } < > = != + - * / % ? :x 1 -2 \
        1.5 'x' $$y$$ 0xca true int list map frozen PRIMARY KEY WITH token count CAST AS JSON DISTINCT BATCH \
        BEGIN APPLY USING TTL TIMESTAMP GRANT ON TO ROLE LIST DESCRIBE CONTAINS LIKE IS ORDER BY GROUP LIMIT .. \
        expr( \n ' \" $ é"
        .split(' ')
        .collect();
    prop_oneof![9 => proptest::sample::select(words).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = parse_statement(&text);
    }

    #[test]
    fn arbitrary_words_never_panic(pieces in proptest::collection::vec(any_piece(), 0..40)) {
        let _ = parse_statement(&pieces.join(" "));
        let _ = parse_statement(&pieces.concat());
    }
}

#[test]
fn the_time_of_a_parse_grows_with_the_text() {
    // Quadratic work on this many items would take minutes.
    let items = |item: &dyn Fn(usize) -> String, separator: &str| {
        (0..200_000).map(item).collect::<Vec<_>>().join(separator)
    };
    parse(&format!("UPDATE t SET {} WHERE k = 1", items(&|i| format!("c{i} = 1"), ", ")));
    parse(&format!("ALTER TABLE t WITH {}", items(&|i| format!("p{i} = 1"), " AND ")));
    parse(&format!("ALTER TABLE t WITH p = {{{}}}", items(&|i| format!("{i}: 1"), ", ")));
}
