//! An entry of the audit log, and how it is written: as Cassandra's `FileAuditLogger` has it, or as a line
//! of JSON.
//!
//! ```text
//! user:bob|host:/127.0.0.1:7000|source:/127.0.0.1|port:51234|timestamp:1764120600123|type:SELECT|category:QUERY
//! |ks:ks|scope:t|operation:SELECT * FROM ks.t
//! {"timestamp":1764120600123,"type":"SELECT","category":"QUERY","user":"bob","host":"127.0.0.1:7000",
//! "source":"127.0.0.1","port":51234,"ks":"ks","scope":"t","operation":"SELECT * FROM ks.t"}
//! ```
//! Each is one line. A field without a value is left out, but for the user, who is `null`. The awkward
//! exception to Cassandra's text: a control character of a statement is written as an escape, so that a
//! statement cannot forge a line.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::kind::Kind;

/// Bytes that an entry takes besides its texts.
const FIXED_BYTES: u64 = 256;

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Whose login it was; `None` where nobody has logged in.
    pub(crate) user: Option<Arc<str>>,
    /// The client's end.
    pub(crate) source: SocketAddr,
    pub(crate) at_ms: i64,
    pub(crate) kind: Kind,
    /// The batch that it is a part of.
    pub(crate) batch: Option<Uuid>,
    pub(crate) keyspace: Option<Arc<str>>,
    pub(crate) scope: Option<String>,
    /// Statement or event, and why it failed. Without passwords.
    pub(crate) operation: Arc<str>,
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: i64,
    r#type: &'a str,
    category: &'a str,
    user: Option<&'a str>,
    host: SocketAddr,
    source: IpAddr,
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ks: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
}

/// What says something; Cassandra leaves out what is blank.
fn told(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

impl Entry {
    /// Memory that it takes.
    pub(super) fn weight(&self) -> u64 {
        let texts = self.operation.len()
            + self.scope.as_ref().map_or(0, String::len)
            + self.keyspace.as_ref().map_or(0, |keyspace| keyspace.len());
        texts as u64 + FIXED_BYTES
    }

    /// Appends it as a line of JSON.
    pub(super) fn write_json(&self, host: SocketAddr, out: &mut Vec<u8>) {
        let line = Line {
            timestamp: self.at_ms,
            r#type: self.kind.name(),
            category: self.kind.category().name(),
            user: self.user.as_deref(),
            host,
            source: self.source.ip(),
            port: self.source.port(),
            batch: self.batch.map(|batch| batch.to_string()),
            ks: told(self.keyspace.as_deref()),
            scope: told(self.scope.as_deref()),
            operation: told(Some(&self.operation)),
        };
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut *out, &line);
        out.push(b'\n');
    }

    /// Appends it as Cassandra's text.
    pub(super) fn write_text(&self, host: SocketAddr, out: &mut Vec<u8>) {
        let mut text = String::with_capacity(160 + self.operation.len());
        let mut field = |name: &str, value: &dyn std::fmt::Display| {
            let bar = if text.is_empty() { "" } else { "|" };
            let _ = write!(text, "{bar}{name}:{value}");
        };
        field("user", &self.user.as_deref().unwrap_or("null"));
        field("host", &java_address(host));
        field("source", &format_args!("/{}", JavaIp(self.source.ip())));
        if self.source.port() > 0 {
            field("port", &self.source.port());
        }
        field("timestamp", &self.at_ms);
        field("type", &self.kind.name());
        field("category", &self.kind.category().name());
        if let Some(batch) = &self.batch {
            field("batch", batch);
        }
        if let Some(keyspace) = told(self.keyspace.as_deref()) {
            field("ks", &keyspace);
        }
        if let Some(scope) = told(self.scope.as_deref()) {
            field("scope", &scope);
        }
        if let Some(operation) = told(Some(&self.operation)) {
            field("operation", &operation);
        }
        for c in text.chars() {
            match c {
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.push(b'\t'),
                c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                    out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.push(b'\n');
    }
}

/// An address and a port as Java prints those of nodes.
fn java_address(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => format!("/{ip}:{}", address.port()),
        IpAddr::V6(_) => format!("/[{}]:{}", JavaIp(address.ip()), address.port()),
    }
}

/// An address as Java prints it: one of version 6 with all its groups.
struct JavaIp(IpAddr);

impl std::fmt::Display for JavaIp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => write!(f, "{ip}"),
            IpAddr::V6(ip) => f.write_str(&ip.segments().map(|group| format!("{group:x}")).join(":")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            user: Some("bob".into()),
            source: "127.0.0.1:51234".parse().unwrap(),
            at_ms: 1_764_120_600_123,
            kind: Kind::Select,
            batch: None,
            keyspace: Some("ks".into()),
            scope: Some("t".to_owned()),
            operation: "SELECT * FROM ks.t".into(),
        }
    }

    fn text(entry: &Entry, host: &str) -> String {
        let mut out = Vec::new();
        entry.write_text(host.parse().unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_text_is_cassandras() {
        assert_eq!(
            text(&entry(), "127.0.0.1:7000"),
            "user:bob|host:/127.0.0.1:7000|source:/127.0.0.1|port:51234|timestamp:1764120600123|type:SELECT\
             |category:QUERY|ks:ks|scope:t|operation:SELECT * FROM ks.t\n"
        );
        let failed = Entry {
            user: None,
            source: "[::1]:51234".parse().unwrap(),
            kind: Kind::LoginError,
            keyspace: None,
            scope: None,
            operation: "LOGIN FAILURE; no".into(),
            ..entry()
        };
        assert_eq!(
            text(&failed, "[fe80::1]:7000"),
            "user:null|host:/[fe80:0:0:0:0:0:0:1]:7000|source:/0:0:0:0:0:0:0:1|port:51234\
             |timestamp:1764120600123|type:LOGIN_ERROR|category:AUTH|operation:LOGIN FAILURE; no\n"
        );
    }

    #[test]
    fn a_statement_stays_on_its_line() {
        let forged = Entry { operation: "SELECT 1\nuser:root|\u{85}x\r\u{2028}".into(), ..entry() };
        let text = text(&forged, "127.0.0.1:7000");
        assert_eq!(text.lines().count(), 1);
        assert!(text.ends_with("operation:SELECT 1\\nuser:root|\\u0085x\\r\\u2028\n"), "{text}");
        let mut json = Vec::new();
        forged.write_json("127.0.0.1:7000".parse().unwrap(), &mut json);
        assert_eq!(json.iter().filter(|byte| **byte == b'\n').count(), 1);
        let line: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(line["operation"], "SELECT 1\nuser:root|\u{85}x\r\u{2028}");
    }

    #[test]
    fn json_has_the_fields_that_say_something() {
        let mut out = Vec::new();
        Entry { user: None, scope: None, ..entry() }.write_json("127.0.0.1:7000".parse().unwrap(), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"timestamp\":1764120600123,\"type\":\"SELECT\",\"category\":\"QUERY\",\"user\":null,\
             \"host\":\"127.0.0.1:7000\",\"source\":\"127.0.0.1\",\"port\":51234,\"ks\":\"ks\",\
             \"operation\":\"SELECT * FROM ks.t\"}\n"
        );
    }
}
