//! `ilion sstable verify`: whether every component is sound.

use super::output::Output;
use super::progress::Progress;
use super::source;
use super::{Failure, Outcome};
use crate::format::columns;
use clap::Args;
use env::Env;
use serde_json::json;
use sstable::{Descriptor, Verified, verify};
use std::path::PathBuf;

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Components of SSTables, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// A JSON array with an object for each SSTable
    #[arg(long)]
    json: bool,
}

fn document(descriptor: &Descriptor, verified: &Verified) -> serde_json::Value {
    let findings = verified.findings.iter().map(|f| {
        json!({
            "component": f.component.file_part(),
            "offset": f.offset,
            "expected": f.expected,
            "found": f.found,
        })
    });
    json!({
        "sstable": descriptor.to_string(),
        "sound": verified.findings.is_empty(),
        "partitions": verified.partitions,
        "rows": verified.rows,
        "bytes": verified.bytes,
        "findings": findings.collect::<Vec<_>>(),
    })
}

fn counted(findings: usize) -> String {
    match findings {
        1 => "1 finding".to_owned(),
        n => format!("{n} findings"),
    }
}

fn print(descriptor: &Descriptor, verified: &Verified, out: &mut Output) -> std::io::Result<()> {
    let Verified { findings, partitions, rows, bytes } = verified;
    if findings.is_empty() {
        return out
            .line(&format!("{descriptor}: sound, {partitions} partitions, {rows} rows, {bytes} bytes"));
    }
    let count = counted(findings.len());
    out.line(&format!("{descriptor}: {count}, {partitions} partitions and {rows} rows can be read"))?;
    let mut lines = vec![["component", "offset", "expected", "found"].map(str::to_owned).to_vec()];
    for finding in findings {
        let offset = finding.offset.map_or("-".to_owned(), |offset| offset.to_string());
        lines.push(vec![
            finding.component.to_string(),
            offset,
            finding.expected.clone(),
            finding.found.clone(),
        ]);
    }
    for line in columns(&lines, "  ").lines() {
        out.line(&format!("  {}", line.trim_end()))?;
    }
    Ok(())
}

pub(super) fn run(env: &Env, args: &VerifyArgs, out: &mut Output) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Sound;
    let mut documents = Vec::new();
    for descriptor in source::find(env, &args.paths)? {
        let what = format!("verify {}", descriptor.prefix().trim_end_matches('-'));
        let verified = {
            let progress = Progress::new(&what, Some(0));
            verify(env.fs.as_ref(), &descriptor, &|work| progress.tell(work))?
        };
        if !verified.findings.is_empty() {
            outcome = Outcome::Findings;
        }
        match args.json {
            true => documents.push(document(&descriptor, &verified)),
            false => print(&descriptor, &verified, out)?,
        }
    }
    if args.json {
        out.json(&documents)?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_finding_is_counted_as_one() {
        assert_eq!([1, 2].map(super::counted), ["1 finding", "2 findings"]);
    }
}
