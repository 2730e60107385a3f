//! Each rule refuses what it should, on small made-up workspaces.

use serde_json::json;

use super::*;

const TABLE: &str = "\
# Rooms

| crate | what lives there | may use |
|---|---|---|
| `env` | the world | - |
| `model` | the words | - |
| `engine` | tables | env, model |
| `tools` | beside it | any but server |
| `server` | the binary | all |
| `testkit` | generators | any, for tests only |

| `other` | a table | that is not it |
";

fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
    let dependencies: Vec<Value> =
        dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
    json!({
        "id": name, "name": name, "version": "1.0.0", "license": "MIT", "description": "something",
        "dependencies": dependencies,
    })
}

fn member<'a>(package: &'a Value, text: &str) -> Member<'a> {
    let name = string(&package["name"]);
    Member { id: name, name, manifest: format!("crates/{name}/Cargo.toml"), text: text.to_owned(), package }
}

/// The findings of the table check for an `engine` with these dependencies.
fn engine(dependencies: &[(&str, Option<&str>)]) -> Vec<Finding> {
    with("engine", dependencies)
}

/// The findings of the table check for a crate with these dependencies, beside others that have none.
fn with(name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<Finding> {
    let packages = [
        package("env", &[]),
        package("model", &[]),
        package("engine", &[]),
        package("tools", &[]),
        package("server", &[]),
        package("testkit", &[]),
    ];
    let packages = packages.map(|one| if one["name"] == name { package(name, dependencies) } else { one });
    let text =
        "[dependencies]\nenv = 1\nmodel = 1\nserver = { workspace = true }\ntestkit.workspace = true\n";
    let members: Vec<_> = packages.iter().map(|package| member(package, text)).collect();
    rooms(TABLE, &members)
}

#[test]
fn the_table_is_read_with_its_lines() {
    let rows = parse_table(TABLE);
    assert_eq!(rows.len(), 6);
    assert_eq!(rows["env"], (5, Row::Only(BTreeSet::new())));
    assert_eq!(rows["engine"].1, Row::Only(["env", "model"].map(str::to_owned).into()));
    assert_eq!(rows["tools"].1, Row::AnyBut(["server".to_owned()].into()));
    assert_eq!((&rows["server"].1, &rows["testkit"].1), (&Row::Any, &Row::Any));
}

#[test]
fn a_crate_within_its_row_is_fine() {
    assert_eq!(engine(&[("env", None), ("model", None), ("serde", None), ("testkit", Some("dev"))]), []);
}

#[test]
fn a_crate_outside_its_row_is_found_with_its_line() {
    let findings = engine(&[("env", None), ("server", None)]);
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].file.as_str(), findings[0].line), ("crates/engine/Cargo.toml", 4));
    assert!(
        findings[0].message.starts_with("`engine` may not use `server`, only env, model"),
        "{}",
        findings[0]
    );
    assert_eq!(engine(&[("server", Some("build"))]).len(), 1);
    assert_eq!(engine(&[("server", Some("dev"))]).len(), 1);
}

#[test]
fn a_crate_may_use_any_but_those_it_may_not() {
    assert_eq!(with("tools", &[("env", None), ("engine", None)]), []);
    let findings = with("tools", &[("server", None)]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.starts_with("`tools` may not use `server`"), "{}", findings[0]);
}

#[test]
fn testkit_is_for_tests() {
    let findings = engine(&[("testkit", None)]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].to_string().starts_with("crates/engine/Cargo.toml:5: `testkit` is for tests"));
}

#[test]
fn rows_and_crates_must_match() {
    let packages = [package("env", &[]), package("new", &[])];
    let members: Vec<_> = packages.iter().map(|package| member(package, "")).collect();
    let findings = rooms(TABLE, &members);
    let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.starts_with("no crate is called `model`")));
    assert!(messages.iter().any(|message| message.starts_with("`new` has no row")));
}

#[test]
fn a_crate_needs_a_description() {
    let mut nameless = package("env", &[]);
    nameless["description"] = json!(" ");
    let findings = descriptions(&[member(&nameless, "[package]\nname = \"env\"\ndescription = \" \"\n")]);
    assert_eq!((findings.len(), findings[0].line), (1, 3));
    assert_eq!(descriptions(&[member(&package("env", &[]), "")]), []);
}

#[test]
fn the_way_to_arrow_is_named() {
    let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
    let packages = [package("engine", &[]), package("lance", &[]), package("arrow-array", &[])];
    let metadata = |kind: Value| {
        json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "engine", "deps": [edge("lance", kind)] },
                { "id": "lance", "deps": [edge("arrow-array", Value::Null)] },
                { "id": "arrow-array", "deps": [] },
            ]},
        })
    };
    let members = [member(&packages[0], "[dependencies]\nlance = \"1\"\n")];
    let findings = arrow(&metadata(Value::Null), &members);
    assert_eq!((findings.len(), findings[0].line), (1, 2));
    assert!(findings[0].message.contains("(by way of lance -> arrow-array)"), "{}", findings[0]);
    assert_eq!(arrow(&metadata(json!("dev")), &members), [], "tests may");
}

#[test]
fn a_foreign_licence_is_found() {
    let mut foreign = package("foreign", &[]);
    foreign["license"] = json!("GPL-3.0");
    let findings = dependency_licences(&json!({ "packages": [package("fine", &[]), foreign] }));
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.starts_with("foreign 1.0.0 is licensed as \"GPL-3.0\""), "{}", findings[0]);
    let none = json!({ "packages": [{ "name": "none", "license": null }] });
    assert_eq!(dependency_licences(&none).len(), 1);
}
