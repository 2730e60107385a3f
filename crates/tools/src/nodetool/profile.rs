//! `toppartitions` and `profileload`: the most active partitions while somebody looks.

use super::{Failure, Show, cells};
use crate::api::{self, Profile, ProfileJob, Sample, Sampler, SamplerResult, ScheduledProfile};
use crate::client::ClientError;
use crate::format::columns;
use clap::{Args, Subcommand};
use std::fmt::Write;

const DURATION_DEFAULT: i32 = 10_000;
const JOBS: &str = "/api/v1/profile/jobs";

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
    /// Schedule a new job that samples every interval milliseconds; the node's log tells what it found
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
        let (question, interval) = args.question()?;
        if interval.is_some() || args.stop {
            return scheduled(show, question, interval.filter(|_| !args.stop));
        }
        if args.list {
            let jobs: Vec<ProfileJob> = show.client.get(JOBS, &[])?;
            return show.print(&jobs, |jobs| jobs_text(jobs));
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
    /// What to ask the node for, and how often, in milliseconds.
    fn question(&self) -> Result<(Profile, Option<u64>), Failure> {
        let refused = |words: String| Err(Failure::Usage(words));
        let option = |name: &str, text: &str| {
            let words = || Failure::Usage(format!("{name}: can not convert \"{text}\" to a int"));
            text.parse::<i32>().map_err(|_| words())
        };
        let (count, capacity) = (option("topCount", &self.top_count)?, option("capacity", &self.capacity)?);
        let interval = self.interval.as_deref().map(|text| option("intervalMillis", text)).transpose()?;
        let interval = interval.filter(|interval| *interval != -1);
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
        let profile = Profile {
            keyspace: names.and_then(|(keyspace, _)| named(keyspace)),
            table: names.and_then(|(_, table)| named(table)),
            duration_millis: millis as u64,
            capacity: capacity as u64,
            count: count as u64,
            samplers: samplers(self.samplers.as_deref())?,
        };
        Ok((profile, interval.map(|interval| interval as u64)))
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

/// Starts a job that samples every `interval` milliseconds, or stops it where there is no interval.
fn scheduled(show: &Show<'_>, profile: Profile, interval: Option<u64>) -> Result<String, Failure> {
    let Profile { keyspace, table, .. } = profile.clone();
    // As Java writes what is not there.
    let shown = |name: &Option<String>| name.clone().unwrap_or_else(|| "null".to_owned());
    let of = format!("keyspace: {}, table: {}", shown(&keyspace), shown(&table));
    let (answer, refusal) = match interval {
        Some(interval_millis) => (
            show.client.post(JOBS, &ScheduledProfile { profile, interval_millis }),
            format!(
                "Unable to schedule sampling for {of} due to existing samplings. Stop the existing sampling jobs \
                 first.\n"
            ),
        ),
        None => (
            show.client.delete(JOBS, &ProfileJob { keyspace, table }),
            format!("Unable to stop the non-existent scheduled sampling for {of}\n"),
        ),
    };
    match answer {
        Ok(()) => Ok(String::new()),
        Err(ClientError::Refused(words)) if words == api::JOB_REFUSED => Ok(refusal),
        Err(error) => Err(error.into()),
    }
}

/// The jobs, as wide as the longest keyspace.
pub(super) fn jobs_text(jobs: &[ProfileJob]) -> String {
    let or_all = |name: &Option<String>| name.clone().unwrap_or_else(|| "*".to_owned());
    let all = jobs.iter().map(|job| (or_all(&job.keyspace), or_all(&job.table)));
    let lines: Vec<_> = [("KEYSPACE".to_owned(), "TABLE".to_owned())].into_iter().chain(all).collect();
    let width = lines.iter().map(|(keyspace, _)| keyspace.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (keyspace, table) in lines {
        let _ = writeln!(out, "{keyspace:>width$} {table:>5}");
    }
    out
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

/// What `toppartitions` prints, and the node's log tells of a job.
pub fn profile_text(found: &[SamplerResult]) -> String {
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
