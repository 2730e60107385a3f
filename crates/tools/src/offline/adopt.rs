//! `ilion sstable adopt`: describes large partitions of what another program wrote, as a node does in the
//! background (docs/formats/blocks.md).
//!
//! The lock of the data directory is taken, so that no node runs on it: a node does the same by itself.

use super::output::Output;
use super::progress::Progress;
use super::source;
use super::{Failure, Outcome, lock};
use clap::Args;
use env::Env;
use serde_json::json;
use sstable::{Adoption, Descriptor, NewProof, Proved, SsTable, Uncached, WorkDone, table_with_frozen_types};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `adopt`.
#[derive(Debug, Args)]
pub(super) struct AdoptArgs {
    /// Components of SSTables, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// A JSON array with an object for each SSTable
    #[arg(long)]
    json: bool,
}

/// What became of an SSTable.
enum Adopted {
    /// Large partitions are described: how many, and in how many bytes.
    Now {
        partitions: u64,
        bytes: u64,
    },
    Before {
        partitions: u64,
        bytes: u64,
    },
    /// It is sound, and there is nothing to describe.
    Nothing,
    /// It is sound, and its large partitions cannot be described.
    Failed(String),
    /// It cannot be compared with anything.
    NoDigest,
    Damaged(String),
}

impl Adopted {
    fn is_finding(&self) -> bool {
        matches!(self, Adopted::Failed(_) | Adopted::NoDigest | Adopted::Damaged(_))
    }

    fn text(&self) -> String {
        match self {
            Adopted::Now { partitions, bytes } => {
                format!("{partitions} partitions described in {bytes} bytes")
            }
            Adopted::Before { partitions, bytes } => {
                format!("{partitions} partitions were described before, in {bytes} bytes")
            }
            Adopted::Nothing => "no partition needs a description".to_owned(),
            Adopted::Failed(why) => format!("not described: {why}"),
            Adopted::NoDigest => "not described: there is no Digest.crc32 to compare it with".to_owned(),
            Adopted::Damaged(why) => format!("damaged: {why}"),
        }
    }

    fn document(&self, descriptor: &Descriptor) -> serde_json::Value {
        let (partitions, bytes) = match self {
            Adopted::Now { partitions, bytes } | Adopted::Before { partitions, bytes } => {
                (*partitions, *bytes)
            }
            _ => (0, 0),
        };
        json!({
            "sstable": descriptor.to_string(),
            "partitions": partitions,
            "bytes": bytes,
            "new": matches!(self, Adopted::Now { .. }),
            "error": self.is_finding().then(|| self.text()),
        })
    }
}

fn adopt(env: &Env, descriptor: &Descriptor, progress: &Progress) -> Result<Adopted, Failure> {
    let fs = env.fs.as_ref();
    let known = table_with_frozen_types(fs, descriptor);
    let sstable = match SsTable::open_as(fs, descriptor, 1, Arc::new(Uncached), known.as_ref()) {
        Ok(sstable) => sstable,
        Err(error) => return Ok(Adopted::Damaged(error.to_string())),
    };
    let of = sstable.data_file_bytes();
    let mut done = 0;
    let mut tell = |bytes: u64| {
        done += bytes;
        progress.tell(WorkDone { done, of });
        true
    };
    let described = |sstable: &SsTable, proof: Option<&NewProof>| {
        if let Some(failure) = proof.and_then(NewProof::adoption_failure) {
            return Adopted::Failed(failure.to_owned());
        }
        match (sstable.adopted(), proof.and_then(NewProof::adopted_partitions)) {
            (Some((0, _)) | None, _) => Adopted::Nothing,
            (Some((partitions, bytes)), Some(_)) => Adopted::Now { partitions, bytes },
            (Some((partitions, bytes)), None) => Adopted::Before { partitions, bytes },
        }
    };
    match sstable.prove(&env.fs, Some(Adoption::default()), &mut tell) {
        Ok(Proved::Sound(proof) | Proved::Adopted(proof)) => {
            sstable.keep_proof(fs, &proof)?;
            Ok(described(&sstable, Some(&proof)))
        }
        Ok(Proved::Known | Proved::Stopped) => Ok(described(&sstable, None)),
        Ok(Proved::NoDigest) => Ok(Adopted::NoDigest),
        Err(error) => Ok(Adopted::Damaged(error.to_string())),
    }
}

pub(super) fn run(env: &Env, args: &AdoptArgs, out: &mut Output) -> Result<Outcome, Failure> {
    let advice = "it describes its SSTables by itself, in the background";
    let _locks = lock::all(env, &source::directories(env, &args.paths)?, advice)?;
    let mut outcome = Outcome::Sound;
    let mut documents = Vec::new();
    for descriptor in source::find(env, &args.paths)? {
        let adopted = {
            let what = format!("adopt {}", descriptor.prefix().trim_end_matches('-'));
            adopt(env, &descriptor, &Progress::new(&what, Some(0)))?
        };
        if adopted.is_finding() {
            outcome = Outcome::Findings;
        }
        match args.json {
            true => documents.push(adopted.document(&descriptor)),
            false => out.line(&format!("{descriptor}: {}", adopted.text()))?,
        }
    }
    if args.json {
        out.json(&documents)?;
    }
    Ok(outcome)
}
