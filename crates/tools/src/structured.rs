//! Answers for programs, as nodetool prints them with `-F`: JSON as Jackson lays it out, and YAML in blocks.

use serde_json::Value;
use std::fmt::Write;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Format {
    /// The format of a name; none without a name.
    ///
    /// # Errors
    /// What to say of another name.
    pub(crate) fn of(name: &str) -> Result<Option<Format>, &'static str> {
        match name {
            "" => Ok(None),
            "json" => Ok(Some(Format::Json)),
            "yaml" => Ok(Some(Format::Yaml)),
            _ => Err("arguments for -F are json,yaml only."),
        }
    }
}

/// The text of an object.
pub(crate) fn print(value: &Value, format: Format) -> String {
    let mut out = String::new();
    match format {
        Format::Json => json(&mut out, value, 0),
        Format::Yaml => yaml(&mut out, value, 0, false),
    }
    out.push('\n');
    out
}

fn indent(out: &mut String, depth: usize) {
    (0..depth).for_each(|_| out.push_str("  "));
}

fn json(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if map.is_empty() => out.push_str("{ }"),
        Value::Object(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                out.push_str(if at == 0 { "\n" } else { ",\n" });
                indent(out, depth + 1);
                let _ = write!(out, "{} : ", Value::from(key.as_str()));
                json(out, value, depth + 1);
            }
            out.push('\n');
            indent(out, depth);
            out.push('}');
        }
        Value::Array(items) if items.is_empty() => out.push_str("[ ]"),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "[ " } else { ", " });
                json(out, item, depth);
            }
            out.push_str(" ]");
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

/// Fields of an object, or items of a list, a line each; `begun`: the first line is indented already.
fn yaml(out: &mut String, value: &Value, depth: usize, mut begun: bool) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if !std::mem::take(&mut begun) {
                    indent(out, depth);
                }
                let _ = write!(out, "{}:", plain(key));
                match value {
                    Value::Object(map) if !map.is_empty() => {
                        out.push('\n');
                        yaml(out, value, depth + 1, false);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        yaml(out, value, depth, false);
                    }
                    scalar => {
                        let _ = writeln!(out, " {}", yaml_scalar(scalar));
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                indent(out, depth);
                out.push_str("- ");
                match item {
                    Value::Object(map) if !map.is_empty() => yaml(out, item, depth + 1, true),
                    scalar => {
                        let _ = writeln!(out, "{}", yaml_scalar(scalar));
                    }
                }
            }
        }
        scalar => {
            let _ = writeln!(out, "{}", yaml_scalar(scalar));
        }
    }
}

fn yaml_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

/// A text as it is, or in quotes where it would be taken for something else.
fn plain(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/')
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_lowercase().as_str());
    let is_uuid = text.len() == 36 && text.parse::<uuid::Uuid>().is_ok();
    let is_safe = !text.contains(": ") && !text.contains(" #") && !text.ends_with([' ', ':']);
    match (is_word || is_uuid) && is_safe && !text.contains(char::is_control) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_formats_are_nodetools() {
        assert_eq!(Format::of(""), Ok(None));
        assert_eq!(Format::of("yaml"), Ok(Some(Format::Yaml)));
        assert_eq!(Format::of("xml"), Err("arguments for -F are json,yaml only."));
    }

    /// As 5.0.5 prints its history of compactions, but for the order of the fields.
    #[test]
    fn layouts_are_cassandras() {
        let value = json!({"CompactionHistory": [
            {"bytes_in": 3440, "compacted_at": "2026-11-25T07:14:10.568", "rows_merged": "{1:3, 2:1}"},
            {"bytes_in": 649, "id": "cf877080-e89f-11f1-863e-97aab3e79cfb"},
        ], "none": {}, "nothing": []});
        let expected = "{
  \"CompactionHistory\" : [ {
    \"bytes_in\" : 3440,
    \"compacted_at\" : \"2026-11-25T07:14:10.568\",
    \"rows_merged\" : \"{1:3, 2:1}\"
  }, {
    \"bytes_in\" : 649,
    \"id\" : \"cf877080-e89f-11f1-863e-97aab3e79cfb\"
  } ],
  \"none\" : { },
  \"nothing\" : [ ]
}
";
        assert_eq!(print(&value, Format::Json), expected);
        let expected = "CompactionHistory:
- bytes_in: 3440
  compacted_at: '2026-11-25T07:14:10.568'
  rows_merged: '{1:3, 2:1}'
- bytes_in: 649
  id: cf877080-e89f-11f1-863e-97aab3e79cfb
none: {}
nothing: []

";
        assert_eq!(print(&value, Format::Yaml), expected);
    }
}
