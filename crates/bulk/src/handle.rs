//! Handles of prepared statements. They are all that is kept of one, by the client.
//!
//! A handle is the text of the statement. With values it is the four bytes `ILP1` and JSON, so it is as good
//! after a restart. It grants nothing: whoever makes one up asks for no more than a statement could. Values
//! are of few types: those that conditions compare with.

use serde::{Deserialize, Serialize};

/// How a handle with values begins.
const MAGIC: &[u8; 4] = b"ILP1";
/// Bytes of a handle at most: a ticket has to hold what it says.
const HANDLE_BYTES_MAX: usize = 512 << 10;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// An integer of any size.
    Integer(i64),
    /// The bits of a double.
    Double(u64),
    /// Text; that of a uuid, a decimal or an address, too.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Days since 1970.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Milliseconds since 1970, UTC.
    Timestamp(i64),
}

/// A statement and the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// The statement.
    pub sql: String,
    /// The values, in order; none where none are bound.
    pub values: Vec<Value>,
}

impl Prepared {
    /// Its handle.
    ///
    /// # Errors
    /// In words, when the values are too long.
    pub fn to_handle(&self) -> Result<Vec<u8>, String> {
        if self.values.is_empty() {
            return Ok(self.sql.clone().into_bytes());
        }
        let mut out = MAGIC.to_vec();
        // A map with keys that are strings, in memory: that cannot fail.
        out.extend(serde_json::to_vec(self).unwrap_or_default());
        match out.len() > HANDLE_BYTES_MAX {
            true => Err(format!(
                "the statement and its values take {} bytes, {HANDLE_BYTES_MAX} are the most",
                out.len()
            )),
            false => Ok(out),
        }
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// In words, when the bytes are none.
    pub fn of_handle(bytes: &[u8]) -> Result<Prepared, String> {
        let wrong = "the handle is not one of a prepared statement";
        if bytes.len() > HANDLE_BYTES_MAX {
            return Err(format!("{wrong}: it has {} bytes", bytes.len()));
        }
        match bytes.strip_prefix(MAGIC) {
            Some(json) => serde_json::from_slice(json).map_err(|error| format!("{wrong}: {error}")),
            None => {
                let sql = std::str::from_utf8(bytes).map_err(|_| wrong.to_owned())?.to_owned();
                Ok(Prepared { sql, values: Vec::new() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_again_and_no_bytes_harm() {
        let all = [
            Value::Null,
            Value::Boolean(true),
            Value::Integer(i64::MIN),
            Value::Double(f64::NAN.to_bits()),
            Value::Text("ä'\"\0".to_owned()),
            Value::Bytes(vec![0, 255]),
            Value::Date(-1),
            Value::Time(5),
            Value::Timestamp(-7),
        ];
        for values in [Vec::new(), all.to_vec()] {
            let prepared = Prepared { sql: "SELECT * FROM t WHERE k = ?".to_owned(), values };
            let handle = prepared.to_handle().unwrap();
            assert_eq!(Prepared::of_handle(&handle).unwrap(), prepared);
            for at in 0..handle.len() {
                let mut bytes = handle.clone();
                bytes[at] ^= 0x41;
                let _ = Prepared::of_handle(&bytes);
                let _ = Prepared::of_handle(&handle[..at]);
            }
        }
        let long = Prepared { sql: String::new(), values: vec![Value::Text("x".repeat(600 << 10))] };
        assert!(long.to_handle().unwrap_err().contains("are the most"));
        assert!(Prepared::of_handle(&vec![b' '; 600 << 10]).is_err());
        assert!(Prepared::of_handle(&[0xff, 0xfe]).is_err());
    }
}
