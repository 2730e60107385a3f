//! Names of SSTables and their files, and what their versions hold (docs/formats/sstable-big.md).
//!
//! ```text
//! <directory>/<version>-<id>-<format>-<Component>       nb-12-big-Data.db
//! ```
//! The id is a sequence number or a time uuid of 28 characters: base 36, `dddd_ssss_nnnnn` (days since
//! 1582-10-15, second of the day, 100 ns units) and 13 characters of the uuid's lower half.

use crate::txn_log::{self, RecoverError};
use env::fs::{EntryKind, FileSystem};
use partition::codec::DeletionTimes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The version of an SSTable's files: two letters and the layout of its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    letters: [u8; 2],
    bti: bool,
}

/// The versions that this crate reads, in words.
pub(crate) const SUPPORTED: &str = "ma, mb, mc, md, me, na, nb and oa of big, and da of bti";

impl Version {
    const fn big(letters: &[u8; 2]) -> Version {
        Version { letters: *letters, bti: false }
    }

    /// Cassandra 3.0.0 to 3.0.6, and 3.1 to 3.6.
    pub const MA: Version = Version::big(b"ma");
    /// Cassandra 3.0.7 and 3.7.
    pub const MB: Version = Version::big(b"mb");
    /// Cassandra 3.0.8 to 3.11.3.
    pub const MC: Version = Version::big(b"mc");
    /// Cassandra 3.11.4 to 3.11.10.
    pub const MD: Version = Version::big(b"md");
    /// Cassandra 3.11.11 and later.
    pub const ME: Version = Version::big(b"me");
    /// Candidates of Cassandra 4.0.
    pub const NA: Version = Version::big(b"na");
    /// Cassandra 4.0, 4.1, and 5.0 where it stays compatible with 4.x.
    pub const NB: Version = Version::big(b"nb");
    /// Cassandra 5.0.
    pub const OA: Version = Version::big(b"oa");
    /// Cassandra 5.0 with the trie index.
    pub const DA: Version = Version { letters: *b"da", bti: true };

    /// Whether this crate can read the version.
    pub fn is_supported(self) -> bool {
        const BIG: [Version; 8] = [
            Version::MA,
            Version::MB,
            Version::MC,
            Version::MD,
            Version::ME,
            Version::NA,
            Version::NB,
            Version::OA,
        ];
        self == Version::DA || BIG.contains(&self)
    }

    /// Whether this crate writes the version.
    pub fn is_written(self) -> bool {
        matches!(self, Version::NB | Version::OA | Version::DA)
    }

    /// Whether the version is this version of `big` or a later one, or `bti`, whose first version came after
    /// them.
    fn is_from(self, first: Version) -> bool {
        self.bti || self.letters >= first.letters
    }

    /// Whether the bytes of each word of Filter.db stand in reverse.
    pub fn has_old_bloom_layout(self) -> bool {
        !self.is_from(Version::NA)
    }

    /// Whether CompressionInfo.db says from which length on chunks are stored raw.
    pub fn has_max_compressed_len(self) -> bool {
        self.is_from(Version::NA)
    }

    /// Whether Statistics.db carries checksums.
    pub fn has_metadata_checksums(self) -> bool {
        self.is_from(Version::NA)
    }

    /// Whether Statistics.db says where in the commit log the data begins.
    pub fn has_commit_log_lower_bound(self) -> bool {
        self.is_from(Version::MB)
    }

    /// Whether Statistics.db lists the parts of the commit log that the data comes from.
    pub fn has_commit_log_intervals(self) -> bool {
        self.is_from(Version::MC)
    }

    /// Whether Statistics.db names a pending repair, and says whether the data is of a transient replica.
    pub fn has_pending_repair(self) -> bool {
        self.is_from(Version::NA)
    }

    /// Whether Statistics.db names the node that wrote the SSTable.
    pub fn has_host_id(self) -> bool {
        self.is_from(Version::NB) || (self.is_from(Version::ME) && !self.is_from(Version::NA))
    }

    /// Whether Statistics.db bounds clusterings by a slice, not by two lists of values.
    pub fn has_covered_slice(self) -> bool {
        self.is_from(Version::OA)
    }

    /// Whether what Statistics.db says about clusterings can be relied on (not before CASSANDRA-14861).
    pub fn has_accurate_clusterings(self) -> bool {
        self.is_from(Version::MD)
    }

    /// Whether Statistics.db says if partitions are deleted.
    pub fn has_partition_deletions_flag(self) -> bool {
        self.is_from(Version::OA)
    }

    /// Whether Statistics.db holds the first and the last key.
    pub fn has_key_range(self) -> bool {
        self.is_from(Version::OA)
    }

    /// Whether Statistics.db holds the part of the ring that the SSTable covers.
    pub fn has_token_space_coverage(self) -> bool {
        self.is_from(Version::OA)
    }

    /// How local deletion times and full width deletions are held.
    pub fn deletion_times(self) -> DeletionTimes {
        if self.is_from(Version::OA) { DeletionTimes::Unsigned } else { DeletionTimes::Signed }
    }

    /// Whether the index is a trie: layout `bti`, not `big`.
    pub fn is_bti(self) -> bool {
        self.bti
    }

    fn parse(letters: &str, format: &str) -> Option<Version> {
        let letters: [u8; 2] = letters.as_bytes().try_into().ok()?;
        let bti = match format {
            "big" => false,
            "bti" => true,
            _ => return None,
        };
        letters.iter().all(u8::is_ascii_lowercase).then_some(Version { letters, bti })
    }

    /// `big` or `bti`.
    pub fn format(self) -> &'static str {
        if self.bti { "bti" } else { "big" }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.letters;
        write!(f, "{}{}", a as char, b as char)
    }
}

/// What tells the SSTables of a table apart. Sequence numbers sort before uuids, uuids by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SsTableId {
    /// A number that counts up.
    Sequence(u64),
    /// A version 1 uuid.
    Uuid(Uuid),
}

const DAY_TICKS: u64 = 86_400 * 10_000_000;
const UUID_CHARS: usize = 28;

impl SsTableId {
    /// Reads an id, upper case or lower.
    pub fn parse(text: &str) -> Option<SsTableId> {
        if text.len() != UUID_CHARS {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            return digits.then(|| text.parse().ok()).flatten().map(SsTableId::Sequence);
        }
        let part = |from: usize, to: usize| u64::from_str_radix(text.get(from..to)?, 36).ok();
        if text.get(4..5) != Some("_") || text.get(9..10) != Some("_") || text.contains(['+', '-']) {
            return None;
        }
        let (days, seconds, ticks, low) = (part(0, 4)?, part(5, 9)?, part(10, 15)?, part(15, 28)?);
        let ticks = days
            .checked_mul(DAY_TICKS)?
            .checked_add(seconds.checked_mul(10_000_000)?)?
            .checked_add(ticks)
            .filter(|t| t >> 60 == 0)?;
        let high = (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | 0x1000 | (ticks >> 48);
        Some(SsTableId::Uuid(Uuid::from_u64_pair(high, low)))
    }

    fn sort_key(&self) -> (u8, u64, u64) {
        match self {
            SsTableId::Sequence(n) => (0, *n, 0),
            SsTableId::Uuid(id) => (1, uuid_ticks(id), id.as_u64_pair().1),
        }
    }
}

fn uuid_ticks(id: &Uuid) -> u64 {
    let high = id.as_u64_pair().0;
    (high >> 32) | ((high & 0xffff_0000) << 16) | ((high & 0x0fff) << 48)
}

fn base36(mut value: u64, width: usize) -> String {
    let mut digits = Vec::with_capacity(width);
    while value > 0 || digits.len() < width {
        digits.push(char::from_digit((value % 36) as u32, 36).unwrap_or('0'));
        value /= 36;
    }
    digits.iter().rev().collect()
}

impl fmt::Display for SsTableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SsTableId::Sequence(n) => write!(f, "{n}"),
            SsTableId::Uuid(id) => {
                let ticks = uuid_ticks(id);
                let (day, rest) = (ticks / DAY_TICKS, ticks % DAY_TICKS);
                let (second, tick) = (rest / 10_000_000, rest % 10_000_000);
                let low = id.as_u64_pair().1;
                write!(f, "{}_{}_{}{}", base36(day, 4), base36(second, 4), base36(tick, 5), base36(low, 13))
            }
        }
    }
}

impl Ord for SsTableId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for SsTableId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

macro_rules! components {
    ($($(#[$doc:meta])* $name:ident = $file:literal),* $(,)?) => {
        /// One file of an SSTable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Component { $($(#[$doc])* $name),* }

        impl Component {
            /// All of them.
            pub const ALL: &'static [Component] = &[$(Component::$name),*];

            /// The last part of the file's name.
            pub fn file_part(self) -> &'static str {
                match self { $(Component::$name => $file),* }
            }
        }
    };
}

components! {
    /// The rows.
    Data = "Data.db",
    /// Positions of partitions and of blocks in large partitions.
    Index = "Index.db",
    /// Every 128th key of the index.
    Summary = "Summary.db",
    /// Positions of partitions, in a trie.
    Partitions = "Partitions.db",
    /// Positions of blocks in large partitions, in tries.
    Rows = "Rows.db",
    /// The bloom filter.
    Filter = "Filter.db",
    /// Metadata, the columns among them.
    Statistics = "Statistics.db",
    /// The chunks of a compressed data file.
    CompressionInfo = "CompressionInfo.db",
    /// Checksums of an uncompressed data file.
    Crc = "CRC.db",
    /// What lies between long values, so that they can be stepped over; Cassandra has no such component.
    Outline = "Outline.db",
    /// Where rows lie in large partitions of a file that another program wrote; Cassandra has no such
    /// component.
    Blocks = "Blocks.db",
    /// Checksums of the index and the places of chunks; Cassandra has no such component.
    Proof = "Proof.db",
    /// Checksum of the whole data file.
    Digest = "Digest.crc32",
    /// List of the components; written last.
    Toc = "TOC.txt",
}

impl Component {
    fn parse(text: &str) -> Option<Component> {
        Component::ALL.iter().copied().find(|c| c.file_part() == text)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_part())
    }
}

/// An SSTable by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor {
    /// The directory of its files.
    pub directory: PathBuf,
    /// What tells it apart.
    pub id: SsTableId,
    /// The version of its files.
    pub version: Version,
}

impl Descriptor {
    /// The name of an SSTable.
    pub fn new(directory: impl Into<PathBuf>, id: SsTableId, version: Version) -> Descriptor {
        Descriptor { directory: directory.into(), id, version }
    }

    /// Its name without the directory: `nb-7-big`.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.version, self.id, self.version.format())
    }

    /// What the names of all its files begin with, the last `-` included.
    pub fn prefix(&self) -> String {
        self.name() + "-"
    }

    /// The path of a component.
    pub fn path(&self, component: Component) -> PathBuf {
        self.directory.join(format!("{}{component}", self.prefix()))
    }

    /// Splits the name of a file. The component is `None` when it is none of [`Component`]'s.
    pub fn parse(directory: &Path, name: &str) -> Option<(Descriptor, Option<Component>)> {
        let mut parts = name.splitn(4, '-');
        let (letters, id, format) = (parts.next()?, parts.next()?, parts.next()?);
        let component = parts.next()?;
        let version = Version::parse(letters, format)?;
        let descriptor = Descriptor { directory: directory.to_owned(), id: SsTableId::parse(id)?, version };
        Some((descriptor, Component::parse(component)))
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.directory.join(self.name()).display())
    }
}

/// What a table's directory holds.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// SSTables with the names of their files, ordered by id. Files of other components (secondary indexes)
    /// are among the names.
    pub tables: BTreeMap<Descriptor, Vec<PathBuf>>,
    /// Data files of names that are no SSTable's: those of versions before 3.0.
    pub unknown: Vec<PathBuf>,
    /// Leftovers that may be removed (`*.tmp`).
    pub temporary: Vec<PathBuf>,
    /// Transaction logs, to be honoured before any SSTable is opened ([`crate::txn_log::understand`]).
    pub txn_logs: Vec<PathBuf>,
}

/// The SSTables of a table's directory that the next start of a node would find. Those that a transaction
/// which did not end will remove are left out. Nothing is changed.
///
/// # Errors
/// When a log of a transaction is not understood, so that it is not known which of them count.
pub fn live(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Descriptor>, RecoverError> {
    let listing = list(fs, directory)?;
    let leftovers = match listing.txn_logs.is_empty() {
        true => Vec::new(),
        false => txn_log::understand(fs, &[directory.to_owned()])?,
    };
    let gone: HashSet<PathBuf> = leftovers.into_iter().flat_map(|leftover| leftover.gone).collect();
    let stays = |(_, files): &(Descriptor, Vec<PathBuf>)| !files.iter().any(|file| gone.contains(file));
    Ok(listing.tables.into_iter().filter(stays).map(|(descriptor, _)| descriptor).collect())
}

/// Lists a table's directory; directories in it (backups, snapshots) are not looked into.
pub fn list(fs: &dyn FileSystem, directory: &Path) -> io::Result<Listing> {
    let mut out = Listing::default();
    for entry in fs.read_dir(directory)? {
        let Some(name) = entry.name.to_str().filter(|_| entry.kind != EntryKind::Dir) else { continue };
        let path = directory.join(name);
        if name.ends_with(".tmp") {
            out.temporary.push(path);
        } else if txn_log::is_log_name(name) {
            out.txn_logs.push(path);
        } else if let Some((descriptor, _)) = Descriptor::parse(directory, name) {
            out.tables.entry(descriptor).or_default().push(path);
        } else if name.ends_with("-Data.db") {
            out.unknown.push(path);
        }
    }
    Ok(out)
}

/// Removes the components of an SSTable as far as they are there: first TOC.txt, so that what a crash leaves
/// is seen to be incomplete.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove_files(fs: &dyn FileSystem, descriptor: &Descriptor) -> io::Result<()> {
    for component in Component::ALL.iter().rev() {
        match fs.remove_file(&descriptor.path(*component)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs.sync_dir(&descriptor.directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_ids_are_cassandras() {
        let text = "3h5p_0c6m_0l06i2gbigyaprq1l3";
        let id = SsTableId::parse(text).unwrap();
        assert_eq!(id, SsTableId::Uuid(uuid::uuid!("423c7f2a-e563-11f1-a153-99453223a987")));
        assert_eq!(id.to_string(), text);
        assert_eq!(SsTableId::parse(&text.to_uppercase()), Some(id));
        assert!(SsTableId::Sequence(u64::MAX) < id);
        assert_eq!(SsTableId::parse("12"), Some(SsTableId::Sequence(12)));
        for bad in ["", "-1", "+1", "x", "3h5p-0c6m_0l06i2gbigyaprq1l3", "zzzz_zzzz_zzzzzzzzzzzzzzzzzz"] {
            assert_eq!(SsTableId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_of_files_are_split() {
        let dir = Path::new("/d");
        let (descriptor, component) = Descriptor::parse(dir, "nb-7-big-Data.db").unwrap();
        assert_eq!(component, Some(Component::Data));
        assert!(descriptor.version.is_supported());
        assert_eq!(descriptor.path(Component::Toc), Path::new("/d/nb-7-big-TOC.txt"));
        let (other, component) = Descriptor::parse(dir, "db-7-bti-SAI+aa.db").unwrap();
        assert_eq!(component, None);
        assert!(!other.version.is_supported());
        assert_eq!(other.to_string(), "/d/db-7-bti");
        assert!(Descriptor::parse(dir, "nb_txn_compaction_1.log").is_none());
    }
}
