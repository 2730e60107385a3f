//! Properties after WITH: their kinds, and the numbers and booleans in them, as Cassandra reads them.

use crate::ast::{Property, PropertyValue};
use crate::error::{CqlError, Result};

/// The properties of a statement.
#[derive(Clone, Copy)]
pub(in crate::ddl) struct Properties<'a>(pub &'a [Property]);

impl<'a> Properties<'a> {
    fn get(self, name: &str) -> Option<&'a PropertyValue> {
        self.0.iter().find(|p| p.name == name).map(|p| &p.value)
    }

    /// A constant.
    pub fn text(self, name: &str) -> Result<Option<&'a str>> {
        match self.get(name) {
            None => Ok(None),
            Some(PropertyValue::Text(text)) => Ok(Some(text)),
            Some(PropertyValue::Map(_)) => {
                syntax(format!("Invalid value for property '{name}'. It should be a string"))
            }
        }
    }

    /// A map.
    pub fn map(self, name: &str) -> Result<Option<&'a [(String, String)]>> {
        match self.get(name) {
            None => Ok(None),
            Some(PropertyValue::Map(entries)) => Ok(Some(entries)),
            Some(PropertyValue::Text(_)) => {
                syntax(format!("Invalid value for property '{name}'. It should be a map."))
            }
        }
    }

    /// A boolean.
    pub fn boolean(self, name: &str) -> Result<Option<bool>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" => Ok(Some(true)),
            "0" | "false" | "no" => Ok(Some(false)),
            _ => syntax(format!(
                "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative \
                 values can be '0', 'false' or 'no'."
            )),
        }
    }

    /// A 32-bit integer.
    pub fn int(self, name: &str) -> Result<Option<i32>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => syntax(format!("Invalid integer value {text} for '{name}'")),
        }
    }

    /// A double.
    pub fn double(self, name: &str) -> Result<Option<f64>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match parse_double(text) {
            Some(value) => Ok(Some(value)),
            None => syntax(format!("Invalid double value {text} for '{name}'")),
        }
    }

    /// Refuses properties that are not among `known`.
    pub fn check_known(self, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|p| !known.contains(&p.name.as_str())) {
            Some(unknown) => syntax(format!("Unknown property '{}'", unknown.name)),
            None => Ok(()),
        }
    }
}

fn syntax<T>(message: String) -> Result<T> {
    Err(CqlError::Syntax(message))
}

/// `Err(CqlError::Config(format!(...)))`.
macro_rules! config {
    ($($arg:tt)*) => {
        return Err($crate::error::CqlError::Config(format!($($arg)*)))
    };
}
pub(in crate::ddl) use config;

/// A double as Java reads it: blanks around it and a type suffix may stand; no hexadecimal.
pub(in crate::ddl) fn parse_double(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    match digits.trim_start_matches(['+', '-']) {
        "Infinity" | "NaN" => digits.parse().ok(),
        plain if plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') => digits.parse().ok(),
        _ => None,
    }
}

/// A double as Java shows it.
pub(in crate::ddl) fn show_double(value: f64) -> String {
    let mut out = String::new();
    model::types::numbers::write_double(&mut out, value);
    out
}
