//! Everything that must hold before a change lands and needs nothing but Rust, cheapest first: formatting,
//! lints, `tidy`, the tests, the stored fuzz corpora, the benchmarks' client. Stops at the first step that
//! fails, and tells what each step took.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::{tidy, times};

/// Workspaces of their own: the fuzz targets, and the benchmarks' client.
const FUZZ: &str = "fuzz/Cargo.toml";
const BENCH_CLIENT: &str = "bench/client/Cargo.toml";

/// Runs every step, the corpora if they are wanted; the error says which one failed and how to run it alone.
pub fn run(root: &Path, with_corpora: bool) -> Result<(), String> {
    cargo(root, "fmt", &["fmt", "--all", "--check"])?;
    for manifest in [FUZZ, BENCH_CLIENT] {
        cargo(root, "fmt", &["fmt", "--manifest-path", manifest, "--check"])?;
    }
    cargo(root, "clippy", &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    step("tidy", "cargo xtask tidy", || tidy::run(root))?;
    cargo(root, "test builds", &["test", "--locked", "--workspace", "--no-run"])?;
    cargo(root, "tests", &["--config", &times::runner()?, "test", "--locked", "--workspace"])?;
    // They share the build directory, so that little is compiled twice.
    let own = ["--locked", "--target-dir", "target", "--manifest-path"];
    let test = |manifest| [&["test"][..], &own[..], &[manifest][..]].concat();
    if with_corpora {
        cargo(root, "fuzz corpora", &test(FUZZ))?;
    }
    cargo(root, "bench client", &test(BENCH_CLIENT))?;
    let lints = ["--all-targets", "--", "-D", "warnings"];
    cargo(root, "bench client", &[&["clippy"][..], &own[..], &[BENCH_CLIENT], &lints[..]].concat())
}

fn cargo(root: &Path, name: &str, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    step(name, &shown, || {
        let status = Command::new(env!("CARGO")).args(arguments).current_dir(root).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("it ended with {status}")),
            Err(error) => Err(format!("it did not start: {error}")),
        }
    })
}

fn step(name: &str, shown: &str, body: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    eprintln!("== {shown}");
    let watch = times::Watch::new();
    let outcome = body().map_err(|error| format!("{error}\nfailed: {shown}"));
    watch.record("", json!({ "step": name }));
    outcome
}
