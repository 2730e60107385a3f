//! Samples of the most active partitions.

use serde::{Deserialize, Serialize};

/// What is sampled: names and order are Cassandra's `SamplerType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Sampler {
    /// How often partitions are read.
    Reads,
    /// How often partitions are written.
    Writes,
    /// The slowest reads.
    LocalReadTime,
    /// Rows of a read.
    ReadRowCount,
    /// Tombstones of a read.
    ReadTombstoneCount,
    /// SSTables of a read.
    ReadSstableCount,
    /// Bytes of a write.
    WriteSize,
    /// How often conditional writes of a partition met.
    CasContentions,
}

impl Sampler {
    /// All of them.
    pub const ALL: [Sampler; 8] = [
        Sampler::Reads,
        Sampler::Writes,
        Sampler::LocalReadTime,
        Sampler::ReadRowCount,
        Sampler::ReadTombstoneCount,
        Sampler::ReadSstableCount,
        Sampler::WriteSize,
        Sampler::CasContentions,
    ];

    /// Cassandra's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Sampler::Reads => "READS",
            Sampler::Writes => "WRITES",
            Sampler::LocalReadTime => "LOCAL_READ_TIME",
            Sampler::ReadRowCount => "READ_ROW_COUNT",
            Sampler::ReadTombstoneCount => "READ_TOMBSTONE_COUNT",
            Sampler::ReadSstableCount => "READ_SSTABLE_COUNT",
            Sampler::WriteSize => "WRITE_SIZE",
            Sampler::CasContentions => "CAS_CONTENTIONS",
        }
    }
}

/// Question to `/profile`, which is answered after its duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Keyspace, or all.
    #[serde(default)]
    pub keyspace: Option<String>,
    /// Table of it, or all.
    #[serde(default)]
    pub table: Option<String>,
    /// Milliseconds to sample.
    pub duration_millis: u64,
    /// Partitions that are kept of each table to estimate frequencies.
    pub capacity: u64,
    /// Samples of each sampler in the answer.
    pub count: u64,
    /// What is wanted.
    pub samplers: Vec<Sampler>,
}

/// A question to `/profile` that is asked again and again, of `/profile/jobs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduledProfile {
    /// What is sampled, and for how long each time.
    #[serde(flatten)]
    pub profile: Profile,
    /// Milliseconds from one time to the next.
    pub interval_millis: u64,
}

/// The words of a refusal to start or stop a job because of those that are there.
pub const JOB_REFUSED: &str = "the jobs that are there do not allow it";

/// The tables of a job of `/profile/jobs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileJob {
    /// Keyspace, or all.
    #[serde(default)]
    pub keyspace: Option<String>,
    /// Table of it, or all.
    #[serde(default)]
    pub table: Option<String>,
}

/// What a sampler found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplerResult {
    /// The sampler.
    pub sampler: Sampler,
    /// The largest first.
    pub samples: Vec<Sample>,
}

/// A partition, or a read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// `keyspace.table`.
    pub table: String,
    /// The key; of [`Sampler::LocalReadTime`] the read as CQL.
    pub value: String,
    /// How often, or how much.
    pub count: u64,
    /// How much of a frequency may be that of others.
    pub error: u64,
}
