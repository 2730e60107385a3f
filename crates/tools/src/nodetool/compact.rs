//! `compact`: all of the tables, or the part of them that its flags mean.

use super::{Failure, selection};
use crate::api::{Compact, TokenRange};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(super) struct CompactArgs {
    /// The keyspace followed by one or many tables, or Data.db files with --user-defined
    keyspace_tables: Vec<String>,
    /// Use -s to not create a single big file
    #[arg(short = 's', long)]
    split_output: bool,
    /// Submit listed files for user-defined compaction
    #[arg(long)]
    user_defined: bool,
    /// Use -st to specify a token at which the compaction range starts (inclusive)
    #[arg(long, allow_hyphen_values = true)]
    start_token: Option<String>,
    /// Use -et to specify a token at which compaction range ends (inclusive)
    #[arg(long, allow_hyphen_values = true)]
    end_token: Option<String>,
    /// String representation of the partition key
    #[arg(long, value_name = "PARTITION_KEY", allow_hyphen_values = true)]
    partition: Option<String>,
}

impl CompactArgs {
    /// What to ask the node for.
    pub(super) fn question(&self) -> Result<Compact, Failure> {
        let is_range = self.start_token.is_some() || self.end_token.is_some();
        if self.split_output && (self.user_defined || self.partition.is_some() || is_range) {
            let refusal = "Invalid option combination: Can not use split-output here";
            return Err(Failure::Node(refusal.to_owned()));
        }
        if self.user_defined {
            let files: Vec<PathBuf> = self.keyspace_tables.iter().map(PathBuf::from).collect();
            let name = |file: &PathBuf| file.file_name().map(|name| name.to_string_lossy().into_owned());
            let is_sstable = |name: &Option<String>| {
                name.as_ref().is_some_and(|name| name.ends_with(".db") && name.split('-').count() == 4)
            };
            let names: Vec<Option<String>> = files.iter().map(name).collect();
            match names.iter().find(|name| !is_sstable(name)) {
                Some(wrong) => {
                    return Err(Failure::Node(format!(
                        "Invalid sstable file {}: the name doesn't look like a supported sstable file name",
                        wrong.as_deref().unwrap_or_default()
                    )));
                }
                None if files.is_empty() => {
                    return Err(Failure::Usage("--user-defined wants the paths of Data.db files".to_owned()));
                }
                None => return Ok(Compact { files, ..Compact::default() }),
            }
        }
        let range = match is_range && self.partition.is_none() {
            true => Some(TokenRange { start: token(&self.start_token)?, end: token(&self.end_token)? }),
            false => None,
        };
        Ok(Compact {
            selection: selection(&self.keyspace_tables),
            split: self.split_output,
            range,
            partition: self.partition.clone(),
            files: Vec::new(),
        })
    }
}

fn token(text: &Option<String>) -> Result<i64, Failure> {
    let text = text.as_deref().unwrap_or_default();
    text.parse().map_err(|_| {
        Failure::Node(format!(
            "Invalid token for Murmur3Partitioner. Got {text} but expected a long value (unsigned 8 bytes integer)."
        ))
    })
}
