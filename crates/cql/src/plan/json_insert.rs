//! INSERT JSON: a document becomes one value for each column.
//!
//! The plan is an INSERT of all columns whose values are markers. Binding parses the document and puts its
//! values behind those of the statement's own markers.

use crate::analysis::{BindInput, Expr};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use crate::functions::json::{self, Json};
use bytes::Bytes;
use model::TableSchema;
use std::collections::HashMap;
use std::sync::Arc;

/// Where a document comes from, and what absent columns become.
#[derive(Debug)]
pub(crate) struct JsonSource {
    pub(crate) document: Expr,
    /// DEFAULT UNSET.
    pub(crate) default_unset: bool,
    /// How many markers the statement itself has.
    pub(crate) markers: usize,
}

impl JsonSource {
    /// The values of the statement's markers, and those of the columns in the order of `SELECT *`.
    pub(crate) fn values(&self, table: &TableSchema, input: &BindInput<'_>) -> Result<Vec<BoundValue>> {
        let text = match self.document.eval(&input.scope())? {
            BoundValue::Bytes(bytes) => bytes,
            BoundValue::Null => bail!("Got null for INSERT JSON values"),
            BoundValue::Unset => Bytes::new(),
        };
        let mut values: Vec<BoundValue> = input.values.iter().take(self.markers).cloned().collect();
        values.extend(self.decode(table, &text)?);
        Ok(values)
    }

    /// Decodes a document that stands in the statement, so that PREPARE tells its mistakes. The values are
    /// not kept: they may be larger than the text, by which a prepared statement is weighed.
    pub(crate) fn check(&self, table: &TableSchema) -> Result<()> {
        match &self.document {
            Expr::Constant(Some(text)) => self.decode(table, text).map(drop),
            _ => Ok(()),
        }
    }

    /// The values of the columns in the order of `SELECT *`.
    fn decode(&self, table: &TableSchema, text: &[u8]) -> Result<Vec<BoundValue>> {
        let text = String::from_utf8_lossy(text);
        let entries: Vec<(String, Json)> = match Json::parse(&text) {
            Ok(Json::Object(entries)) => {
                entries.into_iter().map(|(name, value)| (json::folded(&name), value)).collect()
            }
            Ok(Json::Null) => bail!("Got null for INSERT JSON values"),
            Ok(other) => bail!(
                "Could not decode JSON string as a map: it is a {}. (String was: {text})",
                other.java_class()
            ),
            Err(reason) => bail!("Could not decode JSON string as a map: {reason}. (String was: {text})"),
        };
        let (mut by_name, mut entries) = placed(entries);
        let mut values = Vec::new();
        for column in table.select_star() {
            let at = by_name.remove(column.name.as_str());
            let value = match at.and_then(|at| entries.get_mut(at)?.1.take()) {
                None if self.default_unset => BoundValue::Unset,
                None => BoundValue::Null,
                Some(json) => match json::encode(&column.ty, &json) {
                    Ok(Some(bytes)) => BoundValue::Bytes(bytes),
                    Ok(None) => BoundValue::Null,
                    Err(reason) => bail!("Error decoding JSON value for {}: {reason}", column.name),
                },
            };
            values.push(value);
        }
        if let Some((name, _)) = entries.iter().find(|(_, value)| value.is_some()) {
            bail!("JSON values map contains unrecognized column: {name}");
        }
        Ok(values)
    }
}

/// Names in the order of the document; a value is taken from its place.
type Entries = Vec<(Arc<str>, Option<Json>)>;

/// The first place of each name.
fn placed(entries: Vec<(String, Json)>) -> (HashMap<Arc<str>, usize>, Entries) {
    let mut places = HashMap::with_capacity(entries.len());
    let mut out = Vec::with_capacity(entries.len());
    for (at, (name, value)) in entries.into_iter().enumerate() {
        let name: Arc<str> = name.into();
        places.entry(Arc::clone(&name)).or_insert(at);
        out.push((name, Some(value)));
    }
    (places, out)
}
