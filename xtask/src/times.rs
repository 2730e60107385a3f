//! How long the steps and test binaries of `cargo xtask ci` take: printed, and appended to the file that
//! `ILION_TIMES` names, from which `conformance/times.py` makes the table of `make test`.
//!
//! A stable libtest tells no times of single tests, so cargo is given [`binary`] as its runner: each test
//! binary becomes a child of a process of its own, whose time is known. Times are told and decide nothing: a
//! line that cannot be written is passed over.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The variable that names the file.
const FILE: &str = "ILION_TIMES";

/// Of the CPU times in `/proc`, on every Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the seconds since it was made.
pub struct Watch {
    started: Instant,
    cpu_s: f64,
}

impl Watch {
    /// Starts it.
    pub fn new() -> Self {
        Self { started: Instant::now(), cpu_s: cpu_of_children_s() }
    }

    /// Prints what went by, and records it under `named`: a step, or a step's group and test.
    pub fn record(&self, shown: &str, named: Value) {
        let wall_s = self.started.elapsed().as_secs_f64();
        let cpu_s = cpu_of_children_s() - self.cpu_s;
        eprintln!("   {shown}{wall_s:.1} s, CPU {cpu_s:.1} s");
        if let Some(path) = std::env::var_os(FILE) {
            append(Path::new(&path), line(named, wall_s, cpu_s));
        }
    }
}

fn line(mut named: Value, wall_s: f64, cpu_s: f64) -> String {
    let ended_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    named["wall_s"] = json!(wall_s);
    named["cpu_s"] = json!(cpu_s);
    named["ended_s"] = json!(ended_s);
    format!("{named}\n")
}

/// In one piece: other processes write to the same file.
fn append(path: &Path, line: String) {
    let written = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("times: {}: {error}", path.display());
    }
}

/// CPU seconds of the children that have ended, and of theirs; zero where the kernel does not tell.
fn cpu_of_children_s() -> f64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| children_s(&stat)).unwrap_or(0.0)
}

/// The fields `cutime` and `cstime` of proc(5).
fn children_s(stat: &str) -> Option<f64> {
    // The name before the last parenthesis may hold anything; the state behind it is the third field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// What makes [`binary`] cargo's runner of tests, as an argument of `--config`.
pub fn runner() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| format!("where xtask is: {error}"))?;
    Ok(format!("target.'cfg(all())'.runner=[{:?}, \"timed\"]", own.to_string_lossy()))
}

/// Runs a test binary of cargo's, and records it.
pub fn binary(command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        eprintln!("timed: no command");
        return ExitCode::FAILURE;
    };
    let watch = Watch::new();
    let status = match Command::new(program).args(arguments).status() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{}: {error}", PathBuf::from(program).display());
            return ExitCode::FAILURE;
        }
    };
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    if let Some(test) = test_of(Path::new(program)) {
        watch.record(
            &format!("{package}, {test}: "),
            json!({ "step": "tests", "group": package, "test": test }),
        );
    }
    if !status.success() {
        eprintln!("{}: {status}", PathBuf::from(program).display());
    }
    match status.code() {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => ExitCode::FAILURE,
    }
}

/// The target of a binary in `deps`, whose name ends with cargo's hash. Examples in documents are elsewhere.
fn test_of(program: &Path) -> Option<String> {
    (program.parent()?.file_name()? == "deps").then_some(())?;
    let name = program.file_stem()?.to_str()?;
    Some(name.rsplit_once('-').map_or(name, |(target, _)| target).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_stands_behind_a_name_with_anything_in_it() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 0 1 2 3 4 50 60 150 275 20 0 1 0 99";
        assert_eq!(children_s(stat), Some(4.25));
        assert_eq!(children_s("7 (a) S 1"), None);
        assert_eq!(children_s(""), None);
    }

    #[test]
    fn a_binary_is_named_after_its_target() {
        let named = |path| test_of(Path::new(path));
        assert_eq!(named("/t/debug/deps/bench-client-0a1b").as_deref(), Some("bench-client"));
        assert_eq!(named("/tmp/rustdoctest/rust_out"), None);
    }

    #[test]
    fn lines_are_added_and_an_unwritable_file_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("times.jsonl");
        for step in ["one", "two"] {
            append(&path, line(json!({ "step": step }), 1.5, 2.5));
        }
        let text = std::fs::read_to_string(&path).expect("both lines");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.iter().map(|line| &line["step"]).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(lines[1]["cpu_s"], json!(2.5));
        append(&folder.path().join("no/times.jsonl"), String::new());
    }
}
