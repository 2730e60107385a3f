//! Verbs that read whole SSTables, or write each of them anew.

use super::{Failure, Show, number, of_tables, selection, silently, silently_of_tables, usage};
use crate::api::{
    CollectGarbage, ForceCompact, Granularity, ScrubSstables, SstableFinding, UpgradeSstables, VerifySstables,
};
use crate::client::ClientError;
use clap::Subcommand;
use std::fmt::Write;

/// Verbs about each SSTable of tables.
#[derive(Debug, Subcommand)]
pub(super) enum RewritingVerb {
    /// Rewrite SSTables that are not on the current version
    Upgradesstables {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
        /// Use -a to include all SSTables, even those already on the current version
        #[arg(short = 'a', long)]
        include_all_sstables: bool,
        /// Number of SSTables to upgrade simultaneously: it is one, whatever is said
        #[arg(short = 'j', long, default_value_t = 2)]
        jobs: u32,
        /// Only SSTables that have a local creation time older than the given timestamp
        #[arg(short = 't', long)]
        max_timestamp: Option<i64>,
    },
    /// Verify (check every component of the SSTables of) one or more tables
    Verify {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
        /// Verify each cell, beyond checksums: it is always done
        #[arg(short = 'e', long)]
        extended_verify: bool,
        /// Also check that all SSTables are the latest version
        #[arg(short = 'c', long)]
        check_version: bool,
        /// Invoke the disk failure policy if a corrupt SSTable is found
        #[arg(short = 'd', long)]
        dfp: bool,
        /// Mutate the repair status on corrupt SSTables: there are no repairs
        #[arg(short = 'r', long)]
        rsc: bool,
        /// Verify that all tokens in SSTables are owned by this node: it owns all
        #[arg(short = 't', long)]
        check_tokens: bool,
        /// Do a quick check: all data are read all the same
        #[arg(short = 'q', long)]
        quick: bool,
        /// Really verify
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Rewrite the SSTables of one or more tables after a check
    Scrub {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
        /// Number of SSTables to scrub simultaneously: it is one, whatever is said
        #[arg(short = 'j', long, default_value_t = 2)]
        jobs: u32,
        /// Do not validate columns: they are validated all the same
        #[arg(short = 'n', long)]
        no_validate: bool,
        /// Take no snapshot before
        #[arg(long)]
        no_snapshot: bool,
        /// Rewrite rows with overflowed expiration dates: there are none here
        #[arg(short = 'r', long)]
        reinsert_overflowed_ttl: bool,
        /// Skip corrupted partitions: `ilion sstable scrub` does, without a node
        #[arg(short = 's', long)]
        skip_corrupted: bool,
    },
    /// Remove deleted data from one or more tables
    Garbagecollect {
        /// Granularity of garbage removal. ROW (default) removes deleted partitions and rows, CELL also
        /// removes overwritten or deleted cells.
        #[arg(short = 'g', long, default_value = "ROW")]
        granularity: String,
        /// Number of SSTables to look at simultaneously: it is one, whatever is said
        #[arg(short = 'j', long, default_value = "1")]
        jobs: String,
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
    },
    /// Force a (major) compaction on a table
    Forcecompact {
        /// The keyspace, table, and a list of partition keys ignoring the gc_grace_seconds
        #[arg(allow_negative_numbers = true)]
        keyspace_table_keys: Vec<String>,
    },
}

impl RewritingVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            RewritingVerb::Upgradesstables {
                keyspace_tables, include_all_sstables, max_timestamp, ..
            } => {
                let wanted = UpgradeSstables {
                    selection: selection(keyspace_tables),
                    all: *include_all_sstables,
                    older_than_millis: *max_timestamp,
                };
                silently(client.post("/api/v1/upgradesstables", &wanted))
            }
            RewritingVerb::Verify { force: false, .. } => {
                Err(Failure::Partial(VERIFY_IS_DISABLED.to_owned()))
            }
            RewritingVerb::Verify { check_tokens: true, extended_verify: false, .. } => {
                Err(Failure::Partial("Token verification requires --extended-verify\n".to_owned()))
            }
            RewritingVerb::Verify { keyspace_tables, check_version, dfp, .. } => {
                let wanted = VerifySstables {
                    selection: selection(keyspace_tables),
                    check_version: *check_version,
                    apply_disk_failure_policy: *dfp,
                };
                let found: Result<_, ClientError> = client.post_for("/api/v1/verify", &wanted);
                told(show, found.map_err(|error| of_tables(error.into()))?, "")
            }
            RewritingVerb::Scrub { keyspace_tables, no_snapshot, .. } => {
                let selection = selection(keyspace_tables);
                let wanted = ScrubSstables { selection, no_snapshot: *no_snapshot };
                told(show, client.post_for("/api/v1/scrub", &wanted)?, LEFT_ALONE)
            }
            RewritingVerb::Garbagecollect { granularity, jobs, keyspace_tables } => {
                number::<i32>("jobs", jobs, "int")?;
                let wanted = CollectGarbage {
                    selection: selection(keyspace_tables),
                    granularity: match granularity.as_str() {
                        "ROW" => Granularity::Row,
                        "CELL" => Granularity::Cell,
                        other => {
                            return Err(Failure::Node(format!("{other} is no granularity: ROW or CELL")));
                        }
                    },
                };
                silently_of_tables(client.post("/api/v1/garbagecollect", &wanted))
            }
            RewritingVerb::Forcecompact { keyspace_table_keys } => match keyspace_table_keys.as_slice() {
                [keyspace, table, keys @ ..] if !keys.is_empty() => {
                    let (keyspace, table) = (keyspace.clone(), table.clone());
                    let wanted = ForceCompact { keyspace, table, keys: keys.to_vec() };
                    silently(client.post("/api/v1/forcecompact", &wanted))
                }
                _ => usage("forcecompact requires keyspace, table and keys args"),
            },
        }
    }
}

const VERIFY_IS_DISABLED: &str = "verify is disabled unless a [-f|--force] override flag is provided. See \
                                  CASSANDRA-9947 and CASSANDRA-17017 for details.\n";
const LEFT_ALONE: &str = "\
Tables with damaged SSTables were left as they are. `ilion sstable scrub` saves their rows, while no node runs.
";

/// What is wrong, if anything is.
fn told(show: &Show<'_>, findings: Vec<SstableFinding>, rest: &str) -> Result<String, Failure> {
    if show.json {
        return show.print(&findings, |_| String::new());
    }
    if findings.is_empty() {
        return Ok(String::new());
    }
    Err(Failure::Node(findings_text(&findings, rest)))
}

/// Findings, and what follows of them.
pub(super) fn findings_text(findings: &[SstableFinding], rest: &str) -> String {
    let mut out = String::from("SSTables are damaged\n");
    for SstableFinding { keyspace, table, sstable, finding } in findings {
        let _ = writeln!(out, "{keyspace}.{table} {sstable}: {finding}");
    }
    out.push_str(rest);
    out.trim_end().to_owned()
}
