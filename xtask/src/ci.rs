//! Everything that must hold before a change lands and needs nothing but Rust, cheapest first: formatting,
//! lints, `tidy`, the tests, the stored fuzz corpora, the benchmarks' client. Stops at the first step that
//! fails.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::tidy;

/// Workspaces of their own: the fuzz targets, and the benchmarks' client.
const OTHER_WORKSPACES: [&str; 2] = ["fuzz/Cargo.toml", "bench/client/Cargo.toml"];

/// Runs every step; the error says which one failed and how to run it alone.
pub fn run(root: &Path) -> Result<(), String> {
    cargo(root, &["fmt", "--all", "--check"])?;
    for manifest in OTHER_WORKSPACES {
        cargo(root, &["fmt", "--manifest-path", manifest, "--check"])?;
    }
    cargo(root, &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    step("cargo xtask tidy", || tidy::run(root))?;
    cargo(root, &["test", "--locked", "--workspace"])?;
    // They share the build directory, so that little is compiled twice.
    let own = ["--locked", "--target-dir", "target", "--manifest-path"];
    for manifest in OTHER_WORKSPACES {
        cargo(root, &[&["test"][..], &own[..], &[manifest][..]].concat())?;
    }
    let lints = ["--all-targets", "--", "-D", "warnings"];
    cargo(root, &[&["clippy"][..], &own[..], &["bench/client/Cargo.toml"][..], &lints[..]].concat())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    step(&shown, || {
        let status = Command::new(env!("CARGO")).args(arguments).current_dir(root).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("it ended with {status}")),
            Err(error) => Err(format!("it did not start: {error}")),
        }
    })
}

fn step(shown: &str, body: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    eprintln!("== {shown}");
    let started = Instant::now();
    body().map_err(|error| format!("{error}\nfailed: {shown}"))?;
    eprintln!("   {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}
