//! `fqltool compare`: whether the results of a replay are the same on all targets.
//!
//! Each directory has the results of one target, line by line for the same queries. A query whose columns,
//! rows or failure differ is told once, with the first line in which they do.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use env::Env;

use super::replay::{RESULTS_FILE, statement_of};
use super::results::Line;
use super::{Failure, print, records, stored_at};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes of the longest line: a row of large values.
const LINE_BYTES_MAX: usize = 1 << 30;

/// Arguments of `fqltool compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The queries that were replayed, as --store-queries wrote them
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Directories with the results of the targets
    #[arg(required = true, num_args = 2..)]
    paths: Vec<PathBuf>,
}

/// The lines of a file.
struct Lines {
    path: PathBuf,
    file: std::sync::Arc<dyn env::fs::ReadFile>,
    offset: u64,
    buffer: Vec<u8>,
    /// The line that comes next.
    next: Option<Line>,
}

impl Lines {
    fn open(env: &Env, directory: &Path) -> Result<Lines, Failure> {
        let path = directory.join(RESULTS_FILE);
        let file = env.fs.open_read(&path)?;
        let mut lines = Lines { path, file, offset: 0, buffer: Vec::new(), next: None };
        lines.advance()?;
        Ok(lines)
    }

    /// Takes the next line and reads the one behind it.
    fn advance(&mut self) -> Result<Option<Line>, Failure> {
        let text = self.read_line()?;
        let malformed = |error| Failure::Other(format!("{}: {error}", self.path.display()));
        let line = text.map(|text| serde_json::from_slice(&text).map_err(malformed)).transpose()?;
        Ok(std::mem::replace(&mut self.next, line))
    }

    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let tail = self.buffer.split_off(searched + at + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, tail)));
            }
            searched = self.buffer.len();
            if searched > LINE_BYTES_MAX {
                return Err(io::Error::other(format!("{}: a line has no end", self.path.display())));
            }
            self.buffer.resize(searched + READ_BYTES, 0);
            let got = self.file.read_at(self.offset, self.buffer.get_mut(searched..).unwrap_or_default())?;
            self.buffer.truncate(searched + got);
            self.offset += got as u64;
            if got == 0 {
                let rest = std::mem::take(&mut self.buffer);
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
        }
    }

    /// The next row of the query at hand.
    fn row(&mut self) -> Result<Option<Line>, Failure> {
        match &self.next {
            Some(Line::Row { .. } | Line::Broken { .. }) => self.advance(),
            _ => Ok(None),
        }
    }
}

/// Compares; the number of queries that differ.
pub(super) fn run(env: &Env, args: &CompareArgs, out: &mut dyn Write) -> Result<u64, Failure> {
    let mut targets: Vec<Lines> =
        args.paths.iter().map(|path| Lines::open(env, path)).collect::<Result<_, _>>()?;
    let mut different = 0;
    for record in records(env, &stored_at(env, &args.queries))? {
        let query = statement_of(&record?);
        let heads = targets.iter_mut().map(Lines::advance).collect::<Result<Vec<_>, _>>()?;
        let mut mismatch = difference(&heads);
        let what = if mismatch.is_some() { "COLUMN DEFINITION MISMATCH" } else { "MISMATCH" };
        loop {
            let rows = targets.iter_mut().map(Lines::row).collect::<Result<Vec<_>, _>>()?;
            if rows.iter().all(Option::is_none) {
                break;
            }
            // The rows of this query are read to their end all the same.
            mismatch = mismatch.or_else(|| difference(&rows));
        }
        if let Some(lines) = mismatch {
            different += 1;
            let sides = args.paths.iter().zip(&lines).enumerate();
            let sides = sides.map(|(at, (path, line))| format!("mismatch{at}=\"{}:{line}\"", path.display()));
            let sides = sides.collect::<Vec<_>>().join(",");
            print(out, &format!("{what} Query = {query} {sides}\n"))?;
        }
    }
    Ok(different)
}

/// The lines as text, if they are not all the same.
fn difference(lines: &[Option<Line>]) -> Option<Vec<String>> {
    let first = lines.first()?;
    let text = |line: &Option<Line>| match line {
        Some(line) => serde_json::to_string(line).unwrap_or_default(),
        None => "none".to_owned(),
    };
    lines.iter().any(|line| line != first).then(|| lines.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::query_log::{HEAD, Logged, Record};
    use protocol::request::{Query, QueryParams};
    use protocol::{Consistency, ProtocolVersion};

    fn compared(left: &str, right: &str) -> (u64, String) {
        let env = Env::for_test(1);
        let mut queries = HEAD.to_vec();
        for statement in ["SELECT 1", "SELECT 2"] {
            let params = QueryParams::new(Consistency::One);
            let record = Record {
                started_ms: 1,
                version: ProtocolVersion::V5,
                generated_timestamp: 1,
                generated_now_s: 1,
                keyspace: None,
                request: Logged::Query(Query { statement: statement.to_owned(), params }),
            };
            record.encode(&mut queries);
        }
        env.fs.write("/queries.fql".as_ref(), &queries).unwrap();
        for (directory, text) in [("/left", left), ("/right", right)] {
            env.fs.create_dir_all(directory.as_ref()).unwrap();
            env.fs.write(&Path::new(directory).join(RESULTS_FILE), text.as_bytes()).unwrap();
        }
        let args =
            CompareArgs { queries: "/queries.fql".into(), paths: vec!["/left".into(), "/right".into()] };
        let mut out = Vec::new();
        let different = run(&env, &args, &mut out).unwrap();
        (different, String::from_utf8(out).unwrap())
    }

    const SAME: &str = "{\"query\":0,\"columns\":[[\"k\",\"int\"]]}\n{\"row\":[\"00\"]}\n{\"query\":1}\n";

    #[test]
    fn the_same_results_are_the_same() {
        assert_eq!(compared(SAME, SAME), (0, String::new()));
    }

    #[test]
    fn rows_columns_and_failures_that_differ_are_told() {
        let (different, text) = compared(SAME, &SAME.replace("\"00\"", "\"01\""));
        assert_eq!(different, 1);
        let row = |value: &str| format!("{{\"row\":[\"{value}\"]}}");
        let told = format!(
            "MISMATCH Query = SELECT 1 mismatch0=\"/left:{}\",mismatch1=\"/right:{}\"\n",
            row("00"),
            row("01")
        );
        assert_eq!(text, told);
        let failed = SAME.replace("{\"query\":1}", "{\"query\":1,\"failed\":\"no\"}");
        let (different, text) = compared(SAME, &failed);
        assert!(different == 1 && text.starts_with("COLUMN DEFINITION MISMATCH Query = SELECT 2"), "{text}");
        let more = SAME.replace("{\"query\":1}", "{\"row\":[null]}\n{\"query\":1}");
        let (different, text) = compared(SAME, &more);
        assert!(different == 1 && text.contains("mismatch0=\"/left:none\""), "{text}");
    }
}
