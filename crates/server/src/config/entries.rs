//! The keys of cassandra.yaml in their order, each as often as it stands there: Cassandra takes the last of
//! them.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_norway::Value;
use std::fmt;

/// Keys and values of a file.
#[derive(Debug, Default)]
pub(super) struct Entries(pub(super) Vec<(Value, Value)>);

impl Entries {
    /// Parses a file. An empty one has no entries.
    ///
    /// # Errors
    /// What the parser says.
    pub(super) fn parse(text: &str) -> Result<Entries, serde_norway::Error> {
        serde_norway::from_str::<Option<Entries>>(text).map(Option::unwrap_or_default)
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
