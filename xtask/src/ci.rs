//! Everything that must hold before a change lands and needs nothing but Rust, cheapest first: formatting,
//! `tidy`, lints and the tests, the stored fuzz corpora, the benchmarks' client. Stops at the first step that
//! fails, and tells what each step took.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::{tidy, times};

/// Workspaces of their own: the fuzz targets, and the benchmarks' client.
const FUZZ: &str = "fuzz/Cargo.toml";
const BENCH_CLIENT: &str = "bench/client/Cargo.toml";
/// What makes cargo compile the crates of a workspace with Clippy, which lints them on the way; `cargo
/// clippy` would check all dependencies a second time. The arguments are written as `cargo clippy` hands
/// them on.
const LINTED: [(&str, &str); 2] = [
    ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"),
    ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
];

/// Runs every step, the corpora if they are wanted; the error says which one failed and how to run it alone.
pub fn run(root: &Path, with_corpora: bool) -> Result<(), String> {
    cargo(root, "fmt", &["fmt", "--all", "--check"])?;
    for manifest in [FUZZ, BENCH_CLIENT] {
        cargo(root, "fmt", &["fmt", "--manifest-path", manifest, "--check"])?;
    }
    step("tidy", "cargo xtask tidy", || tidy::run(root))?;
    linted(root, "test builds", &["test", "--locked", "--workspace", "--all-targets", "--no-run"])?;
    linted(root, "tests", &["--config", &times::runner()?, "test", "--locked", "--workspace"])?;
    // They share the build directory: what others wrote is not compiled twice.
    let own = ["--locked", "--target-dir", "target", "--manifest-path"];
    let test = |manifest| [&["test"][..], &own[..], &[manifest][..]].concat();
    if with_corpora {
        cargo(root, "fuzz corpora", &test(FUZZ))?;
    }
    linted(root, "bench client", &test(BENCH_CLIENT))
}

fn cargo(root: &Path, name: &str, arguments: &[&str]) -> Result<(), String> {
    run_cargo(root, name, arguments, &[])
}

/// With lints, a warning being an error.
fn linted(root: &Path, name: &str, arguments: &[&str]) -> Result<(), String> {
    run_cargo(root, name, arguments, &LINTED)
}

fn run_cargo(root: &Path, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let set: String = variables.iter().map(|(variable, value)| format!("{variable}={value} ")).collect();
    let shown = format!("{set}cargo {}", arguments.join(" "));
    step(name, &shown, || {
        let status = Command::new(env!("CARGO"))
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(root)
            .status();
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
