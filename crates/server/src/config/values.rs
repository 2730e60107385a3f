//! Values of settings: how each type is read from YAML, and how it is shown.

use super::units::{ByteRate, ByteSize, Millis, OldUnit, parse_duration, parse_rate, parse_size};
use engine::{SsTableFormat, StorageCompatibility};
use env::fs::Access;
use model::Consistency;
use serde_norway::Value;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;

/// A value of cassandra.yaml.
pub(super) trait Setting: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String>;

    /// The value as `system_views.settings` shows it; `None` for one that is not set.
    fn print(&self) -> Option<String>;

    /// The value as it stands behind an old key: a bare number of its unit.
    fn print_old(&self, _: OldUnit) -> Option<String> {
        self.print()
    }
}

/// `commitlog_sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitlogSync {
    /// Acknowledged at once, synced every period.
    Periodic,
    /// Acknowledged when synced.
    Batch,
    /// Acknowledged when synced, and syncs wait for a window.
    Group,
}

/// `commit_failure_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Cassandra's words")]
pub enum CommitFailurePolicy {
    Stop,
    Die,
    StopCommit,
    Ignore,
}

/// `disk_access_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Cassandra's words")]
pub enum DiskAccessMode {
    Auto,
    Mmap,
    MmapIndexOnly,
    Standard,
    Legacy,
    Direct,
}

impl DiskAccessMode {
    /// How data and indexes are read. `auto` and `legacy` mean what they mean in 5.0 (`DatabaseDescriptor`).
    pub fn accesses(self) -> (Access, Access) {
        match self {
            DiskAccessMode::Standard => (Access::Buffered, Access::Buffered),
            DiskAccessMode::Auto | DiskAccessMode::MmapIndexOnly => (Access::Buffered, Access::Mapped),
            DiskAccessMode::Mmap | DiskAccessMode::Legacy => (Access::Mapped, Access::Mapped),
            DiskAccessMode::Direct => (Access::Direct, Access::Direct),
        }
    }
}

/// `sstable_unproven_reads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnprovenReads {
    /// They wait until it was compared with its digest.
    Wait,
    /// They are answered.
    Serve,
}

/// `slow_query_values`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowQueryValues {
    /// They are told.
    Shown,
    /// Question marks stand for them.
    Redacted,
}

/// `disk_failure_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Cassandra's words")]
pub enum DiskFailurePolicy {
    Stop,
    StopParanoid,
    BestEffort,
    Ignore,
    Die,
}

impl Setting for StorageCompatibility {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        match scalar(value)?.to_ascii_uppercase().as_str() {
            "CASSANDRA_4" => Ok(StorageCompatibility::Cassandra4),
            "UPGRADING" => Ok(StorageCompatibility::Upgrading),
            "NONE" => Ok(StorageCompatibility::None),
            _ => Err("it must be one of CASSANDRA_4 UPGRADING NONE".to_owned()),
        }
    }

    fn print(&self) -> Option<String> {
        let word = match self {
            StorageCompatibility::Cassandra4 => "CASSANDRA_4",
            StorageCompatibility::Upgrading => "UPGRADING",
            StorageCompatibility::None => "NONE",
        };
        Some(word.to_owned())
    }
}

impl Setting for Consistency {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let name = scalar(value)?;
        let level =
            Consistency::ALL_LEVELS.into_iter().find(|level| level.name().eq_ignore_ascii_case(&name));
        level.ok_or_else(|| format!("{name:?} is no consistency level"))
    }

    fn print(&self) -> Option<String> {
        Some(self.name().to_owned())
    }
}

/// `sstable`: a map of which `selected_format` counts, or the format alone.
impl Setting for SsTableFormat {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        let name = match value {
            Value::Mapping(map) => match map.get("selected_format") {
                None | Some(Value::Null) => return Ok(SsTableFormat::default()),
                Some(name) => String::parse(name, old)?,
            },
            name => String::parse(name, old)?,
        };
        match name.trim() {
            "" | "big" => Ok(SsTableFormat::Big),
            "bti" => Ok(SsTableFormat::Bti),
            other => Err(format!("Selected sstable format '{other}' is not available.")),
        }
    }

    fn print(&self) -> Option<String> {
        self.print_old(OldUnit::None).map(|name| format!("{{selected_format: {name}}}"))
    }

    fn print_old(&self, _: OldUnit) -> Option<String> {
        let name = match self {
            SsTableFormat::Big => "big",
            SsTableFormat::Bti => "bti",
        };
        Some(name.to_owned())
    }
}

macro_rules! words {
    ($type:ident: $($word:literal => $variant:ident),+) => {
        impl Setting for $type {
            fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
                match scalar(value)?.to_ascii_lowercase().as_str() {
                    $($word => Ok($type::$variant),)+
                    _ => Err(concat!("it must be one of", $(" ", $word),+).to_owned()),
                }
            }

            fn print(&self) -> Option<String> {
                Some(match self { $($type::$variant => $word),+ }.to_owned())
            }
        }
    };
}

words!(CommitlogSync: "periodic" => Periodic, "batch" => Batch, "group" => Group);
words!(CommitFailurePolicy: "stop" => Stop, "die" => Die, "stop_commit" => StopCommit, "ignore" => Ignore);
words!(DiskAccessMode: "auto" => Auto, "mmap" => Mmap, "mmap_index_only" => MmapIndexOnly, "standard" => Standard,
    "legacy" => Legacy, "direct" => Direct);
words!(UnprovenReads: "wait" => Wait, "serve" => Serve);
words!(SlowQueryValues: "shown" => Shown, "redacted" => Redacted);
words!(DiskFailurePolicy: "stop" => Stop, "stop_paranoid" => StopParanoid, "best_effort" => BestEffort,
    "ignore" => Ignore, "die" => Die);

/// The text of a scalar.
pub(super) fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err("it must be a single value".to_owned()),
    }
}

impl Setting for String {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        scalar(value)
    }

    fn print(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Setting for PathBuf {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        match String::parse(value, old)? {
            text if text.is_empty() => Err("it must be a path".to_owned()),
            text => Ok(PathBuf::from(text)),
        }
    }

    fn print(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

impl Setting for Vec<PathBuf> {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        match value {
            Value::Sequence(items) => items.iter().map(|item| PathBuf::parse(item, old)).collect(),
            single => Ok(vec![PathBuf::parse(single, old)?]),
        }
    }

    fn print(&self) -> Option<String> {
        let shown: Vec<String> = self.iter().map(|p| p.display().to_string()).collect();
        Some(format!("[{}]", shown.join(", ")))
    }
}

impl Setting for Vec<String> {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        match value {
            Value::Sequence(items) => items.iter().map(|item| String::parse(item, old)).collect(),
            _ => Err("it must be a list".to_owned()),
        }
    }

    fn print(&self) -> Option<String> {
        Some(format!("[{}]", self.join(", ")))
    }
}

impl Setting for Vec<Consistency> {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        match value {
            Value::Sequence(items) => items.iter().map(|item| Consistency::parse(item, old)).collect(),
            _ => Err("it must be a list of consistency levels".to_owned()),
        }
    }

    fn print(&self) -> Option<String> {
        let names: Vec<&str> = self.iter().map(|level| level.name()).collect();
        Some(format!("[{}]", names.join(", ")))
    }
}

impl Setting for IpAddr {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let text = scalar(value)?;
        resolve(&text).map_err(|error| format!("{text:?} is no IP address and no known host: {error}"))
    }

    fn print(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// The address of a host, given by address or name; an IPv4 one if there is any, as Java has it.
///
/// # Errors
/// What the resolver says.
pub(super) fn resolve(host: &str) -> io::Result<IpAddr> {
    let host = host.trim();
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let found: Vec<IpAddr> = (host, 0).to_socket_addrs()?.map(|address| address.ip()).collect();
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

impl Setting for bool {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        match scalar(value)?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Ok(true),
            "false" | "no" | "off" => Ok(false),
            other => Err(format!("{other:?} is neither true nor false")),
        }
    }

    fn print(&self) -> Option<String> {
        Some(self.to_string())
    }
}

macro_rules! numbers {
    ($($type:ty: $what:literal),+) => {$(
        impl Setting for $type {
            fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
                let text = scalar(value)?;
                text.parse().map_err(|_| format!("{text:?} is no {}", $what))
            }

            fn print(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}

numbers!(u16: "port number", u32: "whole number", i64: "whole number", f64: "number");

macro_rules! quantities {
    ($($type:ty: $parse:ident),+) => {$(
        impl Setting for $type {
            fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
                $parse(&scalar(value)?, old)
            }

            fn print(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn print_old(&self, unit: OldUnit) -> Option<String> {
                Some((self.0 / unit.size()).to_string())
            }
        }
    )+};
}

quantities!(Millis: parse_duration, ByteSize: parse_size, ByteRate: parse_rate);

impl<T: Setting> Setting for Option<T> {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        if value.is_null() { Ok(None) } else { T::parse(value, old).map(Some) }
    }

    fn print(&self) -> Option<String> {
        self.as_ref().and_then(T::print)
    }

    fn print_old(&self, unit: OldUnit) -> Option<String> {
        self.as_ref().and_then(|value| value.print_old(unit))
    }
}

/// Bytes from one look to the next, or never: null, and a negative number under the old key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Option<ByteSize>);

impl Setting for Interval {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        if value.is_null() || (old != OldUnit::None && value.as_i64().is_some_and(|n| n < 0)) {
            return Ok(Interval(None));
        }
        ByteSize::parse(value, old).map(|size| Interval(Some(size)))
    }

    fn print(&self) -> Option<String> {
        self.0.as_ref().and_then(ByteSize::print)
    }

    fn print_old(&self, unit: OldUnit) -> Option<String> {
        self.0.as_ref().and_then(|size| size.print_old(unit))
    }
}

/// Time after which something is looked up anew, or a share of how long it is believed: null, and a negative
/// number under the old key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh(pub Option<Millis>);

impl Setting for Refresh {
    fn parse(value: &Value, old: OldUnit) -> Result<Self, String> {
        if value.is_null() || (old != OldUnit::None && value.as_i64().is_some_and(|n| n < 0)) {
            return Ok(Refresh(None));
        }
        Millis::parse(value, old).map(|time| Refresh(Some(time)))
    }

    fn print(&self) -> Option<String> {
        self.0.as_ref().and_then(Millis::print)
    }

    fn print_old(&self, unit: OldUnit) -> Option<String> {
        Some(self.0.as_ref().and_then(|time| time.print_old(unit)).unwrap_or_else(|| "-1".to_owned()))
    }
}
