//! Snapshots of tables.

use super::QualifiedTable;
use serde::{Deserialize, Serialize};

/// Question to `POST /snapshots`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TakeSnapshot {
    /// Name of the snapshot.
    pub name: String,
    /// Keyspaces, or all.
    #[serde(default)]
    pub keyspaces: Vec<String>,
    /// Tables instead of whole keyspaces.
    #[serde(default)]
    pub tables: Vec<QualifiedTable>,
    /// Whether what is in memory is left out.
    #[serde(default)]
    pub skip_flush: bool,
    /// How long it is to live, as [`ttl_seconds`] reads it; for ever without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

/// Answer of `GET /backups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncrementalBackups {
    /// Whether new SSTables are linked into `backups/` of their tables.
    pub running: bool,
}

/// Question to `PUT /backups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetIncrementalBackups {
    /// Whether they are to be, until the node starts again.
    pub enabled: bool,
}

/// Seconds of the shortest TTL of a snapshot.
const TTL_SECONDS_MIN: u64 = 60;

/// The seconds of a snapshot's TTL: `90s`, `10m`, `5h`, `7d`.
///
/// # Errors
/// What is wrong with it, in Cassandra's words.
pub fn ttl_seconds(text: &str) -> Result<u32, String> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        _ if number.is_empty() => None,
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        "ms" | "us" | "µs" | "ns" => {
            return Err(format!("Invalid duration: {text} Accepted units:[SECONDS, MINUTES, HOURS, DAYS]"));
        }
        _ => None,
    };
    let Some(seconds) = seconds else {
        return Err(format!(
            "Invalid duration: {text} Accepted units:[NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS, \
             DAYS] where case matters and only non-negative values."
        ));
    };
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    match total {
        Some(total) if total < TTL_SECONDS_MIN => {
            Err(format!("ttl for snapshot must be at least {TTL_SECONDS_MIN} seconds"))
        }
        Some(total) if total < i32::MAX as u64 => Ok(total as u32),
        _ => Err(format!("Invalid duration: {text}. It shouldn't be more than {} in seconds", i32::MAX - 1)),
    }
}

/// Question to `DELETE /snapshots`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClearSnapshots {
    /// Name; all snapshots without one.
    #[serde(default)]
    pub name: Option<String>,
    /// Keyspaces, or all.
    #[serde(default)]
    pub keyspaces: Vec<String>,
}

/// A snapshot of one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Name.
    pub name: String,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Bytes that nothing but the snapshot holds.
    pub true_bytes: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// When it was made, as its manifest says: `2026-11-21T09:12:53.793Z`; empty without a manifest.
    pub created_at: String,
    /// When it is removed, as its manifest says; never without one.
    #[serde(default)]
    pub expires_at: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::ttl_seconds;

    #[test]
    fn ttls_are_read_and_refused_in_cassandras_way() {
        let read = ["60s", "1m", "5h", "7d"].map(|text| ttl_seconds(text).unwrap());
        assert_eq!(read, [60, 60, 18_000, 604_800]);
        for text in ["abc", "5", "-5h", "1d12h", "", "h", "5H", " 5h"] {
            let said = ttl_seconds(text).unwrap_err();
            assert!(said.ends_with("where case matters and only non-negative values."), "{said}");
        }
        assert_eq!(ttl_seconds("30s").unwrap_err(), "ttl for snapshot must be at least 60 seconds");
        let said = ttl_seconds("60000ms").unwrap_err();
        assert_eq!(said, "Invalid duration: 60000ms Accepted units:[SECONDS, MINUTES, HOURS, DAYS]");
        for text in ["2147483647s", "99999999999999999999d", "18446744073709551615d"] {
            assert!(ttl_seconds(text).unwrap_err().contains("shouldn't be more than 2147483646"), "{text}");
        }
    }
}
