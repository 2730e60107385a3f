//! Names and how trees print.

use super::*;

#[test]
fn identifiers_quote_only_where_cql_needs_it() {
    for (name, cql) in [
        ("a1_b", "a1_b"),
        ("Name", "\"Name\""),
        ("select", "\"select\""),
        ("key", "key"),
        ("1a", "\"1a\""),
        ("_a", "\"_a\""),
        ("a\"b", "\"a\"\"b\""),
        ("", "\"\""),
    ] {
        assert_eq!(Identifier::quoted(name).to_cql(), cql);
    }
    assert_eq!(Identifier::unquoted("NaMe").as_str(), "name");
}

#[test]
fn types_print_as_cql() {
    let int = || Box::new(RawType::Native(NativeType::Int));
    let text = || Box::new(RawType::Native(NativeType::Text));
    let user = RawType::User(QualifiedName {
        keyspace: Some(Identifier::unquoted("Ks")),
        name: Identifier::unquoted("Address"),
    });
    for (ty, cql) in [
        (RawType::Frozen(Box::new(RawType::List(int()))), "frozen<list<int>>"),
        (RawType::Map(text(), Box::new(RawType::Set(int()))), "map<text, set<int>>"),
        (RawType::Tuple(vec![*int(), *text()]), "tuple<int, text>"),
        (
            RawType::Vector { element: Box::new(RawType::Native(NativeType::Float)), dimensions: 3 },
            "vector<float, 3>",
        ),
        (user, "ks.address"),
        (RawType::Custom("a.B".into()), "'a.B'"),
    ] {
        assert_eq!(ty.to_string(), cql);
    }
}
