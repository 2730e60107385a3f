//! Who may use whom.
//!
//! The table of rooms in ARCHITECTURE.md is the rule itself: this check reads it there, so the document
//! cannot drift from the code. A crate's `[dependencies]` and `[build-dependencies]` stay within its row; its
//! `[dev-dependencies]` may add `testkit`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;

use super::{Finding, Source, licences, line_of, relative};

const TABLE_FILE: &str = "ARCHITECTURE.md";

/// Crates of the bulk boundary and those that may use it; for all others Arrow must be out of reach.
const ARROW_USERS: &[&str] = &["bulk", "tools", "server", "testkit", "xtask"];

/// Beginnings of the package names that stand for Arrow.
const ARROW: &[&str] = &["arrow", "parquet", "datafusion"];

/// What a row of the table allows.
#[derive(Debug, PartialEq, Eq)]
enum Row {
    Any,
    AnyBut(BTreeSet<String>),
    Only(BTreeSet<String>),
}

/// A crate of the workspace, as far as this check looks at it.
struct Member<'a> {
    id: &'a str,
    name: &'a str,
    /// Path of its Cargo.toml from the root.
    manifest: String,
    /// The text of its Cargo.toml.
    text: String,
    package: &'a Value,
}

pub fn check(root: &Path, metadata: &Value, files: &[Source]) -> Result<Vec<Finding>, String> {
    let members = members(root, metadata, files)?;
    let table = files.iter().find(|file| file.path == TABLE_FILE);
    let table = table.ok_or_else(|| format!("{TABLE_FILE} is missing; it holds the table of crates"))?;
    let mut findings = rooms(&table.text, &members);
    findings.extend(descriptions(&members));
    findings.extend(arrow(metadata, &members));
    findings.extend(dependency_licences(metadata));
    Ok(findings)
}

fn members<'a>(root: &Path, metadata: &'a Value, files: &[Source]) -> Result<Vec<Member<'a>>, String> {
    let ids: BTreeSet<&str> = array(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
    let mut members = Vec::new();
    for package in array(&metadata["packages"]).filter(|package| ids.contains(string(&package["id"]))) {
        let manifest = relative(root, Path::new(string(&package["manifest_path"])));
        let text = files.iter().find(|file| file.path == manifest).map(|file| file.text.clone());
        let text = text.ok_or_else(|| format!("{manifest} is ignored by git"))?;
        members.push(Member {
            id: string(&package["id"]),
            name: string(&package["name"]),
            manifest,
            text,
            package,
        });
    }
    Ok(members)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// The rows of the table: crate name to what it may use. A row begins with the crate's name in backquotes and
/// its last column lists names, `-`, `any`, `any but` and names, or `all`.
fn parse_table(text: &str) -> BTreeMap<String, (usize, Row)> {
    let mut rows = BTreeMap::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if !line.trim_start().starts_with('|') || cells.len() != 3 {
            inside = false;
            continue;
        }
        if cells[0] == "crate" && cells[2] == "may use" {
            inside = true;
            continue;
        }
        let Some(name) = cells[0].strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        if inside {
            let names = |text: &str| -> BTreeSet<String> {
                text.split([',', ' ']).filter(|word| !matches!(*word, "" | "-")).map(str::to_owned).collect()
            };
            let words = names(cells[2]);
            let row = match cells[2].strip_prefix("any but ") {
                Some(refused) => Row::AnyBut(names(refused)),
                None if words.contains("any") || words.contains("all") => Row::Any,
                None => Row::Only(words),
            };
            rows.insert(name.to_owned(), (index + 1, row));
        }
    }
    rows
}

fn rooms(table: &str, members: &[Member<'_>]) -> Vec<Finding> {
    let rows = parse_table(table);
    let names: BTreeSet<&str> = members.iter().map(|member| member.name).collect();
    let mut findings = Vec::new();
    for (name, (line, _)) in &rows {
        if !names.contains(name.as_str()) {
            let message = format!("no crate is called `{name}`: remove the row, or add it with the crate");
            findings.push(Finding::new(TABLE_FILE, *line, message));
        }
    }
    for member in members {
        let Some((_, row)) = rows.get(member.name) else {
            let line = line_of(table, "| crate |");
            let message = format!("`{}` has no row: say what lives there and what it may use", member.name);
            findings.push(Finding::new(TABLE_FILE, line, message));
            continue;
        };
        for dependency in array(&member.package["dependencies"]) {
            let used = string(&dependency["name"]);
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if names.contains(used)
                && let Some(message) = refuse(member.name, row, used, for_tests)
            {
                findings.push(Finding::new(&member.manifest, dependency_line(&member.text, used), message));
            }
        }
    }
    findings
}

/// Why `user` may not use `used`, if it may not.
fn refuse(user: &str, row: &Row, used: &str, for_tests: bool) -> Option<String> {
    if used == "testkit" {
        return (!for_tests).then(|| "`testkit` is for tests: move it to [dev-dependencies]".to_owned());
    }
    match row {
        Row::Any => None,
        Row::AnyBut(refused) if !refused.contains(used) => None,
        Row::AnyBut(_) => Some(format!(
            "`{user}` may not use `{used}` ({TABLE_FILE}): move what both need into `{user}`, or pass it in from \
             above"
        )),
        Row::Only(allowed) if allowed.contains(used) => None,
        Row::Only(allowed) => {
            let listed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            let listed =
                if listed.is_empty() { "no crate of the workspace".into() } else { listed.join(", ") };
            Some(format!(
                "`{user}` may not use `{used}`, only {listed} ({TABLE_FILE}): move the code to where both are \
                 allowed, or pass what it needs in from above"
            ))
        }
    }
}

/// The line of a manifest that names a dependency.
fn dependency_line(manifest: &str, name: &str) -> usize {
    let named =
        |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
    manifest.lines().position(named).map_or(1, |index| index + 1)
}

fn descriptions(members: &[Member<'_>]) -> Vec<Finding> {
    let empty = |member: &&Member<'_>| string(&member.package["description"]).trim().is_empty();
    let finding = |member: &Member<'_>| {
        let message = "no description: say in one line what lives in this crate";
        Finding::new(&member.manifest, line_of(&member.text, "description"), message)
    };
    members.iter().filter(empty).map(finding).collect()
}

/// Walks what each crate below the bulk boundary is built from and names the way to Arrow.
fn arrow(metadata: &Value, members: &[Member<'_>]) -> Vec<Finding> {
    let names: HashMap<&str, &str> = array(&metadata["packages"])
        .map(|package| (string(&package["id"]), string(&package["name"])))
        .collect();
    let edges: HashMap<&str, Vec<&str>> = array(&metadata["resolve"]["nodes"])
        .map(|node| {
            let built_in = |dep: &&Value| array(&dep["dep_kinds"]).any(|kind| kind["kind"] != "dev");
            let deps = array(&node["deps"]).filter(built_in).map(|dep| string(&dep["pkg"])).collect();
            (string(&node["id"]), deps)
        })
        .collect();
    let mut findings = Vec::new();
    for member in members.iter().filter(|member| !ARROW_USERS.contains(&member.name)) {
        let mut from: HashMap<&str, &str> = HashMap::new();
        let mut open = vec![member.id];
        while let Some(id) = open.pop() {
            let name = names.get(id).copied().unwrap_or_default();
            if ARROW.iter().any(|arrow| name.starts_with(arrow)) {
                findings.push(arrow_finding(member, &way(member.id, id, &from, &names)));
                break;
            }
            for next in edges.get(id).into_iter().flatten() {
                if *next != member.id && !from.contains_key(next) {
                    from.insert(next, id);
                    open.push(next);
                }
            }
        }
    }
    findings
}

/// The names on the way from `start` to `end`, without `start`.
fn way<'a>(
    start: &str,
    end: &'a str,
    from: &HashMap<&str, &'a str>,
    names: &HashMap<&str, &'a str>,
) -> Vec<&'a str> {
    let (mut id, mut way) = (end, Vec::new());
    while id != start {
        way.push(names.get(id).copied().unwrap_or(id));
        let Some(previous) = from.get(id) else { break };
        id = previous;
    }
    way.reverse();
    way
}

fn arrow_finding(member: &Member<'_>, way: &[&str]) -> Finding {
    let line = way.first().map_or(1, |first| dependency_line(&member.text, first));
    let message = format!(
        "`{}` is built with Arrow (by way of {}): only {} may be; move the code to `bulk`",
        member.name,
        way.join(" -> "),
        ARROW_USERS.join(", "),
    );
    Finding::new(&member.manifest, line, message)
}

fn dependency_licences(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in array(&metadata["packages"]) {
        let (name, licence) = (string(&package["name"]), string(&package["license"]));
        if !licences::accepted(licence) {
            let message = format!(
                "{name} {} is licensed as \"{licence}\", which xtask/src/tidy/licences.rs does not accept: \
                 choose another crate (`cargo tree --invert {name}` shows who brings it)",
                string(&package["version"]),
            );
            findings.push(Finding::new("Cargo.lock", 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
