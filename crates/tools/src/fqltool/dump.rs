//! `fqltool dump`: every record as text, as Cassandra's prints them.
//!
//! ```text
//! Type: single-query
//! Query start time: 1764120600123
//! Protocol version: 5
//! Generated timestamp:1764120600123000
//! Generated nowInSeconds:1764120600
//! Query: INSERT INTO t (k) VALUES (?)
//! Values:
//! 00000000 00 00 00 07                                      ····
//! -----
//! ```
//! Of a value at most 1,024 bytes are printed. An empty line ends a record.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use env::Env;
use protocol::primitives::Value;
use protocol::query_log::{Logged, Record};
use protocol::request::{BatchKind, StatementText};

use super::{Failure, files, print, records};

/// Bytes of a value that are printed.
const VALUE_BYTES_MAX: usize = 1_024;
/// Bytes of a line.
const WIDTH: usize = 16;

pub(super) fn run(env: &Env, paths: &[PathBuf], out: &mut dyn Write) -> Result<(), Failure> {
    for file in files(env, paths)? {
        for record in records(env, &file)? {
            if !print(out, &text(&record?))? {
                return Ok(());
            }
        }
    }
    match out.flush() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A record as text.
fn text(record: &Record) -> String {
    let kind = match record.request {
        Logged::Query(_) => "single-query",
        Logged::Batch(_) => "batch",
    };
    // Writing to a String does not fail.
    let mut out = format!(
        "Type: {kind}\nQuery start time: {}\nProtocol version: {}\nGenerated timestamp:{}\n\
         Generated nowInSeconds:{}\n",
        record.started_ms,
        record.version.number(),
        record.generated_timestamp,
        record.generated_now_s
    );
    match &record.request {
        Logged::Query(query) => statement(&mut out, &query.statement, &query.params.values),
        Logged::Batch(batch) => {
            let kind = match batch.kind {
                BatchKind::Logged => "LOGGED",
                BatchKind::Unlogged => "UNLOGGED",
                BatchKind::Counter => "COUNTER",
            };
            let _ = writeln!(out, "Batch type: {kind}");
            for part in &batch.statements {
                if let StatementText::Query(text) = &part.text {
                    statement(&mut out, text, &part.values);
                }
            }
        }
    }
    out.push('\n');
    out
}

fn statement(out: &mut String, text: &str, values: &[Value]) {
    let _ = writeln!(out, "Query: {text}\nValues: ");
    for value in values {
        match value {
            Value::Null => out.push_str("null\n"),
            // Cassandra has no word for it.
            Value::Unset => out.push_str("unset\n"),
            Value::Set(bytes) => {
                hex(out, bytes.get(..bytes.len().min(VALUE_BYTES_MAX)).unwrap_or_default());
                if bytes.len() > VALUE_BYTES_MAX {
                    out.push_str("... truncated\n");
                }
            }
        }
        out.push_str("-----\n");
    }
}

/// Sixteen bytes a line, as numbers and as characters. Lines that repeat the one before are dots, but for the
/// last.
fn hex(out: &mut String, bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.chunks(WIDTH).collect();
    let mut skipped = false;
    for (at, line) in lines.iter().enumerate() {
        let is_last = at + 1 == lines.len();
        if !is_last && at > 0 && lines.get(at - 1) == Some(line) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push_str("........\n");
        }
        let _ = write!(out, "{:08x}", at * WIDTH);
        for column in 0..WIDTH {
            if column == WIDTH / 2 {
                out.push(' ');
            }
            match line.get(column) {
                Some(byte) => drop(write!(out, " {byte:02X}")),
                None => out.push_str("   "),
            }
        }
        out.push(' ');
        for column in 0..WIDTH {
            if column == WIDTH / 2 {
                out.push(' ');
            }
            out.push(match line.get(column) {
                Some(byte @ 0x20..=0x7e) => char::from(*byte),
                Some(_) => '\u{b7}',
                None => ' ',
            });
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use protocol::query_log::HEAD;
    use protocol::request::{Batch, BatchStatement, Query, QueryParams};
    use protocol::{Consistency, ProtocolVersion};

    /// One of either kind.
    fn records() -> Vec<Record> {
        let record = |request| Record {
            started_ms: 1_764_120_600_123,
            version: ProtocolVersion::V5,
            generated_timestamp: 1_764_120_600_123_000,
            generated_now_s: 1_764_120_600,
            keyspace: Some("ks".to_owned()),
            request,
        };
        let values = vec![Value::Set(Bytes::from_static(&[0, 0, 0, 7])), Value::Null, Value::Unset];
        let params = QueryParams::new(Consistency::One);
        let part =
            |text: &str, values| BatchStatement { text: StatementText::Query(text.to_owned()), values };
        let statements = vec![
            part("DELETE FROM t WHERE k = 1", Vec::new()),
            part("INSERT INTO t (k) VALUES (?)", vec![Value::Set(Bytes::from_static(b"abc"))]),
        ];
        let query = Query {
            statement: "SELECT * FROM t WHERE k = ?".to_owned(),
            params: QueryParams { values, ..params.clone() },
        };
        let batch = Batch { kind: BatchKind::Unlogged, statements, params };
        vec![record(Logged::Query(query)), record(Logged::Batch(batch))]
    }

    fn file(records: &[Record]) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        assert!(records.iter().all(|record| record.encode(&mut bytes)));
        bytes
    }

    fn dumped(env: &Env, path: &str) -> Result<String, Failure> {
        let mut out = Vec::new();
        run(env, &[PathBuf::from(path)], &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn records_are_printed_as_cassandras_tool_prints_them() {
        let env = Env::for_test(1);
        env.fs.create_dir_all("/fql".as_ref()).unwrap();
        env.fs.write("/fql/queries-20261126T010000Z-0.fql".as_ref(), &file(&records())).unwrap();
        env.fs.write("/fql/other".as_ref(), b"x").unwrap();
        let expected = "\
Type: single-query
Query start time: 1764120600123
Protocol version: 5
Generated timestamp:1764120600123000
Generated nowInSeconds:1764120600
Query: SELECT * FROM t WHERE k = ?
Values:\u{20}
00000000 00 00 00 07                                      \u{b7}\u{b7}\u{b7}\u{b7}             \n\
-----
null
-----
unset
-----

Type: batch
Query start time: 1764120600123
Protocol version: 5
Generated timestamp:1764120600123000
Generated nowInSeconds:1764120600
Batch type: UNLOGGED
Query: DELETE FROM t WHERE k = 1
Values:\u{20}
Query: INSERT INTO t (k) VALUES (?)
Values:\u{20}
00000000 61 62 63                                         abc              \n\
-----

";
        assert_eq!(dumped(&env, "/fql").unwrap(), expected);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let env = Env::for_test(1);
        let mut bytes = file(&records());
        *bytes.last_mut().unwrap() ^= 1;
        env.fs.write("/log.fql".as_ref(), &bytes).unwrap();
        match dumped(&env, "/log.fql") {
            Err(Failure::Damaged(error)) => assert!(error.to_string().contains("/log.fql"), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(dumped(&env, "/nothing.fql"), Err(Failure::Other(_))));
    }

    #[test]
    fn repeated_lines_are_dots_and_long_values_are_cut() {
        let mut out = String::new();
        hex(&mut out, &[0; 64]);
        let lines: Vec<&str> = out.lines().map(|line| &line[..8]).collect();
        assert_eq!(lines, ["00000000", "........", "00000030"]);
        let mut out = String::new();
        statement(&mut out, "q", &[Value::Set(vec![7; 2_000].into())]);
        assert!(out.ends_with("... truncated\n-----\n"), "{out}");
    }
}
