//! Samplers of the most active partitions, for `nodetool toppartitions` and `profileload`.
//!
//! 1. An operator begins a profile of some tables. Profiles run beside each other unless they have a table in
//!    common. [`Jobs`] begin them again and again.
//! 2. Reads and writes ask [`Profiler::is_running`] first: an atomic load, which is all that they cost while
//!    nobody samples. Then they offer what they came to.
//! 3. The profile ends with its [`Running`], also when the operator hangs up. Frequencies are estimated by a
//!    [`Frequencies`] of bounded size for each table, the largest values are kept as they are.

mod frequencies;
mod jobs;
mod largest;

pub use jobs::{Job, Jobs};

use frequencies::Frequencies;
use largest::Largest;
use model::{Mutation, PartitionKey, TableSchema};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tools::api::{Sample, Sampler, SamplerResult};
use uuid::Uuid;

/// What a read of one partition came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadNumbers {
    /// Live rows.
    pub rows: u64,
    /// Tombstones that were left after the merge.
    pub tombstones: u64,
    /// SSTables that it opened.
    pub sstables: u64,
}

/// Takes samples while a profile runs.
#[derive(Debug, Default)]
pub struct Profiler {
    /// Those that begin again and again.
    pub jobs: Jobs,
    is_running: AtomicBool,
    /// How many have begun.
    begun: AtomicU64,
    profiles: Mutex<Vec<Profile>>,
}

/// The samples of one table.
#[derive(Debug)]
struct TableSamples {
    table: Arc<TableSchema>,
    reads: Frequencies,
    writes: Frequencies,
    rows: Largest<PartitionKey>,
    tombstones: Largest<PartitionKey>,
    sstables: Largest<PartitionKey>,
    write_bytes: Largest<PartitionKey>,
    read_micros: Largest<String>,
    contentions: Frequencies,
}

impl TableSamples {
    fn new(table: Arc<TableSchema>, capacity: usize, count: usize) -> TableSamples {
        TableSamples {
            table,
            reads: Frequencies::new(capacity),
            writes: Frequencies::new(capacity),
            rows: Largest::new(count),
            tombstones: Largest::new(count),
            sstables: Largest::new(count),
            write_bytes: Largest::new(count),
            read_micros: Largest::new(count),
            contentions: Frequencies::new(capacity),
        }
    }
}

#[derive(Debug)]
struct Profile {
    /// The one that has it.
    number: u64,
    tables: HashMap<Uuid, TableSamples>,
    count: usize,
}

/// A profile that runs until this is dropped.
#[derive(Debug)]
pub struct Running<'p> {
    profiler: &'p Profiler,
    number: u64,
}

impl Profiler {
    /// Whether samples are wanted.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// Begins a profile of tables, which keeps so many partitions of each to tell of the `count` first.
    /// `None` while another one of some of the tables runs.
    pub fn begin(
        &self,
        tables: impl IntoIterator<Item = Arc<TableSchema>>,
        capacity: usize,
        count: usize,
    ) -> Option<Running<'_>> {
        let mut profiles = self.profiles.lock();
        let tables = tables.into_iter().map(|table| (table.id, TableSamples::new(table, capacity, count)));
        let tables: HashMap<_, _> = tables.collect();
        if profiles.iter().any(|profile| tables.keys().any(|id| profile.tables.contains_key(id))) {
            return None;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        profiles.push(Profile { number, tables, count });
        self.is_running.store(true, Ordering::Relaxed);
        Some(Running { profiler: self, number })
    }

    fn with(&self, table: Uuid, take: impl FnOnce(&mut TableSamples)) {
        if let Some(samples) = self.profiles.lock().iter_mut().find_map(|p| p.tables.get_mut(&table)) {
            take(samples);
        }
    }

    /// Takes a read of single partitions. Numbers are told of one that was read alone; one of which nothing
    /// was found does not count.
    #[cold]
    pub fn take_read(&self, table: &TableSchema, keys: &[&PartitionKey], numbers: ReadNumbers) {
        if numbers.rows + numbers.tombstones == 0 {
            return;
        }
        self.with(table.id, |samples| {
            keys.iter().for_each(|key| samples.reads.count(key));
            if let [key] = keys {
                samples.rows.offer(numbers.rows, || owned(key));
                samples.tombstones.offer(numbers.tombstones, || owned(key));
                samples.sstables.offer(numbers.sstables, || owned(key));
            }
        });
    }

    /// Takes the time of a read; `text` writes it down.
    #[cold]
    pub fn take_read_time(&self, table: &TableSchema, micros: u64, text: impl FnOnce() -> String) {
        self.with(table.id, |samples| samples.read_micros.offer(micros, text));
    }

    /// Takes a write.
    #[cold]
    pub fn take_write(&self, mutation: &Mutation) {
        for update in &mutation.updates {
            let key = &update.key.key;
            self.with(update.table.id, |samples| {
                samples.writes.count(key);
                samples.write_bytes.offer(update.data_size() as u64, || owned(key));
            });
        }
    }

    /// Takes a conditional write that met so many others of its partition.
    #[cold]
    pub fn take_contention(&self, table: &TableSchema, key: &PartitionKey, times: u32) {
        self.with(table.id, |samples| (0..times).for_each(|_| samples.contentions.count(key)));
    }
}

/// The bytes of a key alone: they may be part of a whole request.
fn owned(key: &PartitionKey) -> PartitionKey {
    PartitionKey(bytes::Bytes::copy_from_slice(&key.0))
}

impl Running<'_> {
    /// What was sampled until now; `show` writes a key down.
    pub fn results(
        &self,
        samplers: &[Sampler],
        show: impl Fn(&TableSchema, &PartitionKey) -> String,
    ) -> Vec<SamplerResult> {
        let profiles = self.profiler.profiles.lock();
        let Some(profile) = profiles.iter().find(|profile| profile.number == self.number) else {
            return Vec::new();
        };
        let result = |sampler: &Sampler| {
            let mut samples: Vec<Sample> =
                profile.tables.values().flat_map(|of| samples_of(of, *sampler, &show)).collect();
            samples.sort_by(|a, b| (b.count, &a.table, &a.value).cmp(&(a.count, &b.table, &b.value)));
            samples.truncate(profile.count);
            SamplerResult { sampler: *sampler, samples }
        };
        Sampler::ALL.iter().filter(|sampler| samplers.contains(sampler)).map(result).collect()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut profiles = self.profiler.profiles.lock();
        profiles.retain(|profile| profile.number != self.number);
        self.profiler.is_running.store(!profiles.is_empty(), Ordering::Relaxed);
    }
}

fn samples_of(
    of: &TableSamples,
    sampler: Sampler,
    show: impl Fn(&TableSchema, &PartitionKey) -> String,
) -> Vec<Sample> {
    let table = of.table.as_ref();
    let sample = |value: String, count: u64, error: u64| Sample {
        table: format!("{}.{}", table.keyspace, table.name),
        value,
        count,
        error,
    };
    let frequent = |found: &Frequencies| -> Vec<Sample> {
        found.all().map(|(key, count, error)| sample(show(table, key), count, error)).collect()
    };
    let largest = |found: &Largest<PartitionKey>| -> Vec<Sample> {
        found.all().map(|(value, key)| sample(show(table, key), value, 0)).collect()
    };
    match sampler {
        Sampler::Reads => frequent(&of.reads),
        Sampler::Writes => frequent(&of.writes),
        Sampler::LocalReadTime => {
            of.read_micros.all().map(|(micros, text)| sample(text.clone(), micros, 0)).collect()
        }
        Sampler::ReadRowCount => largest(&of.rows),
        Sampler::ReadTombstoneCount => largest(&of.tombstones),
        Sampler::ReadSstableCount => largest(&of.sstables),
        Sampler::WriteSize => largest(&of.write_bytes),
        Sampler::CasContentions => frequent(&of.contentions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;

    fn table(name: &str) -> Arc<TableSchema> {
        let id = Uuid::from_u128(name.len() as u128);
        Arc::new(TableSchema::builder("ks", name, id).partition_key("k", CqlType::Int).build())
    }

    fn key(k: i32) -> PartitionKey {
        PartitionKey(k.to_be_bytes().to_vec().into())
    }

    fn show(_: &TableSchema, key: &PartitionKey) -> String {
        i32::from_be_bytes(key.0.as_ref().try_into().unwrap()).to_string()
    }

    fn told(result: &SamplerResult) -> Vec<(&str, u64)> {
        result.samples.iter().map(|sample| (sample.value.as_str(), sample.count)).collect()
    }

    #[test]
    fn reads_are_sampled_while_a_profile_of_their_table_runs() {
        let (profiler, table, other) = (Profiler::default(), table("t"), table("other"));
        let read = |table: &TableSchema, k: i32, rows: u64| {
            profiler.take_read(table, &[&key(k)], ReadNumbers { rows, tombstones: 0, sstables: 2 });
        };
        read(&table, 1, 1);
        assert!(!profiler.is_running());
        let running = profiler.begin([Arc::clone(&table)], 8, 2).unwrap();
        assert!(profiler.is_running());
        assert!(profiler.begin([Arc::clone(&other), Arc::clone(&table)], 8, 2).is_none());
        drop(profiler.begin([Arc::clone(&other)], 8, 2).unwrap());
        assert!(profiler.is_running());
        for (k, rows) in [(1, 3), (2, 9), (1, 4), (3, 0)] {
            read(&table, k, rows);
        }
        read(&other, 7, 1);
        profiler.take_read(&table, &[&key(1), &key(2)], ReadNumbers { rows: 50, ..ReadNumbers::default() });
        profiler.take_read_time(&table, 30, || "slow".to_owned());
        profiler.take_contention(&table, &key(5), 3);
        let results = running.results(&[Sampler::ReadRowCount, Sampler::Reads, Sampler::LocalReadTime], show);
        let kinds: Vec<Sampler> = results.iter().map(|result| result.sampler).collect();
        assert_eq!(kinds, [Sampler::Reads, Sampler::LocalReadTime, Sampler::ReadRowCount]);
        assert_eq!(told(&results[0]), [("1", 3), ("2", 2)]);
        assert_eq!(told(&results[1]), [("slow", 30)]);
        assert_eq!(told(&results[2]), [("2", 9), ("1", 4)]);
        assert_eq!(told(&running.results(&[Sampler::CasContentions], show)[0]), [("5", 3)]);
        assert_eq!(results[0].samples[0].table, "ks.t");
        drop(running);
        assert!(!profiler.is_running());
        let next = profiler.begin([table], 8, 2).unwrap();
        assert!(next.results(&Sampler::ALL, show).iter().all(|result| result.samples.is_empty()));
    }
}
