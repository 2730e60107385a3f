//! `toppartitions` and `profileload`: the most active partitions while somebody looks.

use super::{Failure, Show, cells, usage};
use crate::api::{Profile, Sample, Sampler, SamplerResult};
use crate::client::ClientError;
use crate::format::columns;
use clap::{Args, Subcommand};
use std::fmt::Write;

const DURATION_DEFAULT: i32 = 10_000;

/// Verbs that sample.
#[derive(Debug, Subcommand)]
pub(super) enum ProfileVerb {
    /// Sample and print the most active partitions
    Toppartitions(ProfileArgs),
    /// Low footprint profiling of activity for a period of time
    Profileload(ProfileArgs),
}

/// Arguments of both.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    /// Comma separated list of samplers to use (Default: all)
    #[arg(short = 'a', value_name = "samplers")]
    samplers: Option<String>,
    /// Schedule a new job that samples every interval milliseconds (there are no jobs)
    #[arg(short = 'i', long, value_name = "intervalMillis")]
    interval: Option<String>,
    /// Number of the top samples to list (Default: 10)
    #[arg(short = 'k', value_name = "topCount", allow_negative_numbers = true, default_value = "10")]
    top_count: String,
    /// List the scheduled sampling jobs
    #[arg(short = 'l', long)]
    list: bool,
    /// Capacity of the sampler, higher for more accuracy (Default: 256)
    #[arg(short = 's', value_name = "capacity", allow_negative_numbers = true, default_value = "256")]
    capacity: String,
    /// Stop the scheduled sampling job identified by <keyspace> and <cfname>
    #[arg(short = 't', long)]
    stop: bool,
    /// The keyspace, column family name, and duration in milliseconds (Default: 10000)
    #[arg(allow_negative_numbers = true)]
    words: Vec<String>,
}

impl ProfileVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let (ProfileVerb::Toppartitions(args) | ProfileVerb::Profileload(args)) = self;
        let question = args.question()?;
        if args.list {
            return show.still(serde_json::json!([]), "KEYSPACE TABLE\n");
        }
        if args.stop {
            return show.still(serde_json::json!([]), &no_job(&question));
        }
        if args.interval.is_some() {
            return usage("jobs that sample every now and then are not supported: call it without -i");
        }
        let found: Result<Vec<SamplerResult>, ClientError> =
            show.client.post_for("/api/v1/profile", &question);
        let found = found.map_err(|error| match error {
            ClientError::Refused(words) => Failure::Partial(format!("{words}\n")),
            other => other.into(),
        })?;
        show.print(&found, |found| profile_text(found))
    }
}

impl ProfileArgs {
    /// What to ask the node for.
    fn question(&self) -> Result<Profile, Failure> {
        let refused = |words: String| Err(Failure::Usage(words));
        let option = |name: &str, text: &str| {
            let words = || Failure::Usage(format!("{name}: can not convert \"{text}\" to a int"));
            text.parse::<i32>().map_err(|_| words())
        };
        let (count, capacity) = (option("topCount", &self.top_count)?, option("capacity", &self.capacity)?);
        let interval = self.interval.as_deref().map(|text| option("intervalMillis", text)).transpose()?;
        if count <= 0 {
            return refused("TopK count (-k) option must have positive value".to_owned());
        }
        if count >= capacity {
            return refused(
                "TopK count (-k) option must be smaller then the summary capacity (-s)".to_owned(),
            );
        }
        let (names, duration) = match self.words.as_slice() {
            [] => (None, None),
            [duration] => (None, Some(duration)),
            [keyspace, table] => (Some((keyspace, table)), None),
            [keyspace, table, duration] => (Some((keyspace, table)), Some(duration)),
            _ => {
                return refused(
                    "Invalid arguments, either [keyspace table/* duration] or [keyspace table/*] or [duration] or no \
                     args.\nOptionally, use * to represent all tables under the keyspace."
                        .to_owned(),
                );
            }
        };
        let millis = match duration.map(|text| (text, text.parse::<i32>())) {
            None => DURATION_DEFAULT,
            Some((_, Ok(millis))) => millis,
            Some((text, Err(_))) => return refused(format!("For input string: \"{text}\"")),
        };
        if millis <= 0 {
            return refused(format!("Duration: {millis} must be positive"));
        }
        if let Some(interval) = interval.filter(|interval| *interval < millis) {
            return refused(format!(
                "Invalid scheduled sampling interval. Expecting interval >= duration, but interval: {interval} ms; \
                 duration: {millis} ms"
            ));
        }
        let named = |name: &String| Some(name.clone()).filter(|name| name != "*");
        Ok(Profile {
            keyspace: names.and_then(|(keyspace, _)| named(keyspace)),
            table: names.and_then(|(_, table)| named(table)),
            duration_millis: millis as u64,
            capacity: capacity as u64,
            count: count as u64,
            samplers: samplers(self.samplers.as_deref())?,
        })
    }
}

fn samplers(words: Option<&str>) -> Result<Vec<Sampler>, Failure> {
    let Some(words) = words else { return Ok(Sampler::ALL.into()) };
    let one = |word: &str| {
        let name = word.trim().to_uppercase();
        Sampler::ALL.into_iter().find(|sampler| sampler.name() == name).ok_or_else(|| {
            let known = Sampler::ALL.map(Sampler::name).join(", ");
            Failure::Usage(format!("'{word}' sampler is not available from: [{known}]"))
        })
    };
    words.split(',').map(one).collect()
}

/// What `--stop` says: there is no job.
fn no_job(question: &Profile) -> String {
    match (&question.keyspace, &question.table) {
        (None, None) => String::new(),
        (keyspace, table) => format!(
            "Unable to stop the non-existent scheduled sampling for keyspace: {}, table: {}\n",
            keyspace.as_deref().unwrap_or("*"),
            table.as_deref().unwrap_or("*")
        ),
    }
}

/// The head of a sampler's part, the names of its columns, and the cells of a sample.
type Part = (&'static str, &'static [&'static str], fn(&Sample) -> Vec<String>);

fn part(sampler: Sampler) -> Part {
    let frequency: fn(&Sample) -> Vec<String> =
        |s| vec![s.table.clone(), s.value.clone(), s.count.to_string(), s.error.to_string()];
    let amount: fn(&Sample) -> Vec<String> = |s| vec![s.table.clone(), s.value.clone(), s.count.to_string()];
    let query: fn(&Sample) -> Vec<String> = |s| vec![s.value.clone(), s.count.to_string()];
    const FREQUENCY: &[&str] = &["Table", "Partition", "Count", "+/-"];
    match sampler {
        Sampler::Reads => ("Frequency of reads by partition:", FREQUENCY, frequency),
        Sampler::Writes => ("Frequency of writes by partition:", FREQUENCY, frequency),
        Sampler::LocalReadTime => ("Longest read query times:", &["Query", "Microseconds"], query),
        Sampler::ReadRowCount => {
            ("Partitions read with the most rows:", &["Table", "Partition", "Rows"], amount)
        }
        Sampler::ReadTombstoneCount => {
            ("Partitions read with the most tombstones:", &["Table", "Partition", "Tombstones"], amount)
        }
        Sampler::ReadSstableCount => {
            ("Partitions read with the most sstables:", &["Table", "Partition", "SSTables"], amount)
        }
        Sampler::WriteSize => ("Max mutation size by partition:", &["Table", "Partition", "Bytes"], amount),
        Sampler::CasContentions => ("Frequency of CAS contention by partition:", FREQUENCY, frequency),
    }
}

/// `toppartitions`.
pub(super) fn profile_text(found: &[SamplerResult]) -> String {
    let mut out = String::new();
    for result in found {
        let (head, names, line) = part(result.sampler);
        let _ = writeln!(out, "{head}");
        if result.samples.is_empty() {
            out.push_str("   Nothing recorded during sampling period...\n");
        } else {
            let rows: Vec<Vec<String>> =
                std::iter::once(cells(names)).chain(result.samples.iter().map(line)).collect();
            columns(&rows, " ").lines().for_each(|line| {
                let _ = writeln!(out, "   {line}");
            });
        }
        out.push('\n');
    }
    out
}
