//! Damage to each component of SSTables that real Cassandras wrote: bits flipped, files cut, stretches and
//! chunks swapped.
//!
//! Whatever is damaged, an answer is the one that the sound files gave, or an error that names a file of the
//! SSTable and the place in it. Never a panic, never a row wrong or missing. Asked are a whole scan in either
//! direction, each key, keys that are not there, slices in either direction, and names.
//!
//! `FLIPS=1000 cargo test -p sstable --lib damage -- --nocapture` does as many to each component and prints
//! what came of them; without it there are fewer. `COMPONENT=Rows.db` does them to one component.

use super::recorded::Fixture;
use super::support::{
    Item, Partition, Rng, forget_proof, key, options, wide_partitions, wide_table, write_version,
};
use crate::compression::{CompressionInfo, CompressionParams};
use crate::{Component, Descriptor, OpenError, SsTable, Uncached, Version};
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::{KeyBound, KeyRange};
use model::{
    Cell, Clustering, ClusteringBound, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey, Row, Slice,
    TableSchema,
};
use partition::{Event, Fragment, PartitionStream, RangeChange, ReadContext, ReadError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Flips of each component when nobody asks for more.
const FLIPS: u64 = 40;

/// Partitions that are asked for by key; of more of them every second, third and so on.
const ASKED_MAX: usize = 48;

fn flips() -> u64 {
    std::env::var("FLIPS").map_or(FLIPS, |n| n.parse().unwrap())
}

pub(super) enum Ask {
    Scan {
        reversed: bool,
    },
    /// A scan of a part of the partitions.
    Range(KeyRange),
    Read {
        key: DecoratedKey,
        filter: ClusteringFilter,
    },
    /// Until a first row was met, as a read with LIMIT 1.
    First {
        key: DecoratedKey,
        filter: ClusteringFilter,
    },
}

/// What a stream holds. Nothing is asserted here: the stream may come from a damaged file.
fn gather(stream: &mut dyn PartitionStream, rows_max: usize) -> Result<Vec<Partition>, ReadError> {
    let mut out: Vec<Partition> = Vec::new();
    let mut fragment = Fragment::default();
    let mut rows = 0;
    loop {
        let event = stream.next(&mut fragment)?;
        rows += (event == Event::Row) as usize;
        match (event, out.last_mut()) {
            (Event::End, _) => return Ok(out),
            (Event::PartitionStart, _) => {
                let (key, deletion) = (fragment.key.clone(), fragment.deletion);
                out.push(Partition { key, deletion, static_row: None, items: Vec::new() });
            }
            (Event::StaticRow, Some(last)) => last.static_row = Some(fragment.row.clone()),
            (Event::Row, Some(last)) => last.items.push(Item::Row(fragment.row.clone())),
            (Event::RangeChange, Some(last)) => last.items.push(Item::Change(fragment.change.clone())),
            (Event::PartitionEnd, _) | (_, None) => {}
        }
        if rows >= rows_max {
            return Ok(out);
        }
    }
}

/// The answer of one SSTable, as a node would ask it: first whether it may have anything, then the files.
fn answer(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    columns: &ColumnSelection,
    ask: &Ask,
) -> Result<Vec<Partition>, ReadError> {
    let context = ReadContext::default();
    match ask {
        Ask::Scan { reversed } => {
            let filter = ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: *reversed };
            gather(&mut sstable.scan(&KeyRange::FULL, &filter, columns, table, &context)?, usize::MAX)
        }
        Ask::Range(range) => {
            gather(&mut sstable.scan(range, &ClusteringFilter::all(), columns, table, &context)?, usize::MAX)
        }
        Ask::Read { key, filter } | Ask::First { key, filter } => {
            let rows_max = if matches!(ask, Ask::First { .. }) { 1 } else { usize::MAX };
            if !sstable.may_contain(key)
                || !(sstable.has_statics() || sstable.overlaps_clusterings(filter, table))
            {
                return Ok(Vec::new());
            }
            match sstable.read(key, filter, columns, table, &context)? {
                Some(mut stream) => gather(&mut stream, rows_max),
                None => Ok(Vec::new()),
            }
        }
    }
}

/// Everything that is asked of a table with these partitions.
fn asks(sound: &[Partition], table: &TableSchema) -> Vec<Ask> {
    let mut rng = Rng::new(3);
    let mut out = vec![Ask::Scan { reversed: false }, Ask::Scan { reversed: true }];
    let at = |key: &DecoratedKey, inclusive| KeyBound::Key { key: key.clone(), inclusive };
    let whole = || ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: false };
    for (i, partition) in sound.iter().enumerate().step_by(sound.len().div_ceil(ASKED_MAX).max(1)) {
        let key = &partition.key;
        let until = sound.get(i + 2).map_or(KeyBound::Unbounded, |last| at(&last.key, true));
        let start = if i % 3 == 0 {
            KeyBound::Token { token: key.token, inclusive: true }
        } else {
            at(key, i % 3 == 1)
        };
        out.push(Ask::Range(KeyRange { start, end: until }));
        out.push(Ask::Read { key: key.clone(), filter: whole() });
        let mut absent = key.key.0.to_vec();
        if let Some(byte) = absent.get_mut(3) {
            *byte ^= 0x40;
        }
        out.push(Ask::Read { key: DecoratedKey::new(PartitionKey(absent.into())), filter: whole() });
        let rows = partition.items.iter().filter_map(|item| match item {
            Item::Row(row) => Some(&row.clustering),
            Item::Change(_) => None,
        });
        let rows: Vec<&Clustering> = rows.collect();
        if rows.len() < 2 || table.clustering_columns().is_empty() {
            continue;
        }
        for i in 0..4 {
            let (a, b) = (rng.below(rows.len() as u64) as usize, rng.below(rows.len() as u64) as usize);
            let slice = Slice {
                start: ClusteringBound::start_at(rows[a.min(b)].clone()),
                end: ClusteringBound::end_at(rows[a.max(b)].clone()),
            };
            let filter = ClusteringFilter::Slices { slices: vec![slice], reversed: i % 2 == 1 };
            out.push(Ask::Read { key: key.clone(), filter });
            let filter = ClusteringFilter::Names { names: vec![rows[a].clone()], reversed: false };
            out.push(Ask::Read { key: key.clone(), filter });
        }
    }
    out
}

/// Each row of a partition by its name, and the first one of each short slice; in both directions.
pub(super) fn short_asks(partition: &Partition) -> Vec<Ask> {
    let rows = partition.items.iter().filter_map(|item| match item {
        Item::Row(row) => Some(&row.clustering),
        Item::Change(_) => None,
    });
    let rows: Vec<&Clustering> = rows.collect();
    let key = || partition.key.clone();
    let mut out = Vec::new();
    for (i, name) in rows.iter().enumerate() {
        let reversed = i % 2 == 1;
        for reversed in [reversed, !reversed] {
            let filter = ClusteringFilter::Names { names: vec![(*name).clone()], reversed };
            out.push(Ask::First { key: key(), filter });
            let slice = Slice {
                start: ClusteringBound::start_at((*name).clone()),
                end: ClusteringBound::end_at(rows[(i + 2).min(rows.len() - 1)].clone()),
            };
            let filter = ClusteringFilter::Slices { slices: vec![slice], reversed };
            out.push(Ask::First { key: key(), filter: filter.clone() });
            out.push(Ask::Read { key: key(), filter });
        }
    }
    out
}

/// What came of the damages to one component.
#[derive(Default)]
pub(super) struct Tally {
    refused: u64,
    pub failed: u64,
    pub same: u64,
}

pub(super) struct Damage {
    pub fs: MemoryFileSystem,
    pub descriptor: Descriptor,
    table: Arc<TableSchema>,
    columns: ColumnSelection,
    asks: Vec<Ask>,
    sound: Vec<Vec<Partition>>,
    pub tallies: BTreeMap<(Component, &'static str), Tally>,
    /// Whether each SSTable is compared with its digest before it is asked.
    pub proves: bool,
    /// Damages after which an answer was wrong, or an error said too little.
    pub wrong: Vec<String>,
}

impl Damage {
    pub fn new(set: &str, name: &str) -> Damage {
        let fixture = Fixture::load(set, name);
        let sstables = fixture.open().unwrap();
        let table = fixture.table(&sstables);
        let descriptor = fixture.descriptors[0].clone();
        let columns = ColumnSelection::all(&table);
        Damage::to(fixture.fs, descriptor, table, columns, asks)
    }

    /// Damage to the SSTable in `fs`, of whose columns is asked what `asks` says.
    pub fn to(
        fs: MemoryFileSystem,
        descriptor: Descriptor,
        table: Arc<TableSchema>,
        columns: ColumnSelection,
        asks: fn(&[Partition], &TableSchema) -> Vec<Ask>,
    ) -> Damage {
        let sstable = Arc::new(SsTable::open(&fs, &descriptor, 1, Arc::new(Uncached)).unwrap());
        let all = answer(&sstable, &table, &columns, &Ask::Scan { reversed: false }).unwrap();
        let asks = asks(&all, &table);
        let sound = asks.iter().map(|ask| answer(&sstable, &table, &columns, ask).unwrap()).collect();
        let (tallies, wrong) = (BTreeMap::new(), Vec::new());
        Damage { fs, descriptor, table, columns, asks, sound, tallies, proves: false, wrong }
    }

    /// An error has to say which file it is about, and where.
    fn check_error(&mut self, what: &str, error: &dyn std::error::Error, says_place: bool) {
        let text = error.to_string();
        if !says_place || !text.contains(&self.descriptor.to_string()) {
            self.wrong.push(format!("{what}: the error says too little: {text}"));
        }
    }

    pub fn ask_all(&mut self, component: Component, kind: &'static str, what: &str) {
        let opened = SsTable::open(&self.fs, &self.descriptor, 1, Arc::new(Uncached));
        let sstable = match opened {
            Ok(sstable) => Arc::new(sstable),
            Err(error) => {
                let says_place = match &error {
                    OpenError::Read(inner) => matches!(inner, ReadError::Corrupt { .. }),
                    OpenError::MissingComponent { .. } | OpenError::UnsupportedVersion(_) => true,
                };
                self.check_error(what, &error, says_place);
                self.tallies.entry((component, kind)).or_default().refused += 1;
                return;
            }
        };
        if self.proves
            && let Err(error) = sstable.prove(&super::support::shared(&self.fs), None, &mut |_| true)
        {
            self.check_error(what, &error, matches!(error, ReadError::Corrupt { .. }));
        }
        let mut failed = false;
        for i in 0..self.asks.len() {
            match answer(&sstable, &self.table, &self.columns, &self.asks[i]) {
                Ok(found) if found == self.sound[i] => {}
                Ok(found) => {
                    let ask = match &self.asks[i] {
                        Ask::Scan { reversed } => format!("scan, reversed {reversed}"),
                        Ask::Range(range) => format!("scan of {range:?}"),
                        Ask::Read { key, filter } => format!("read of {key:?} with {filter:?}"),
                        Ask::First { key, filter } => format!("first row of {key:?} with {filter:?}"),
                    };
                    self.wrong.push(format!("{what}: {ask}: found {found:?}, expected {:?}", self.sound[i]));
                    return;
                }
                Err(error) => {
                    failed = true;
                    self.check_error(what, &error, matches!(error, ReadError::Corrupt { .. }));
                }
            }
        }
        let tally = self.tallies.entry((component, kind)).or_default();
        if failed {
            tally.failed += 1;
        } else {
            tally.same += 1;
        }
    }

    fn component(&mut self, component: Component, rng: &mut Rng) {
        let path = self.descriptor.path(component);
        let Ok(bytes) = self.fs.read(&path) else { return };
        if bytes.is_empty() {
            return;
        }
        let (bits, count) = (bytes.len() as u64 * 8, flips());
        for i in 0..count.min(bits) {
            let bit = if bits <= count { i } else { rng.below(bits) };
            let mut damaged = bytes.clone();
            damaged[bit as usize / 8] ^= 1 << (bit % 8);
            self.fs.write(&path, &damaged).unwrap();
            self.ask_all(component, "flipped", &format!("{component}, bit {bit}"));
        }
        let cuts =
            [0, 1, 2, 4, bytes.len() / 2, bytes.len() - 1].into_iter().filter(|cut| *cut < bytes.len());
        let more = (0..count / 10).map(|_| rng.below(bytes.len() as u64) as usize);
        for cut in cuts.chain(more.collect::<Vec<_>>()) {
            self.fs.write(&path, &bytes[..cut]).unwrap();
            self.ask_all(component, "cut", &format!("{component}, cut at {cut}"));
        }
        for (a, b, len) in self.swaps(component, &bytes, rng) {
            let mut damaged = bytes.clone();
            damaged[a..a + len].copy_from_slice(&bytes[b..b + len]);
            damaged[b..b + len].copy_from_slice(&bytes[a..a + len]);
            if damaged != bytes {
                self.fs.write(&path, &damaged).unwrap();
                self.ask_all(
                    component,
                    "swapped",
                    &format!("{component}, {len} bytes at {a} and {b} swapped"),
                );
            }
        }
        self.fs.write(&path, &bytes).unwrap();
    }

    /// Stretches to swap: anywhere, and pairs of neighbouring chunks as far as the shorter one goes.
    fn swaps(&self, component: Component, bytes: &[u8], rng: &mut Rng) -> Vec<(usize, usize, usize)> {
        let mut out = Vec::new();
        let half = bytes.len() as u64 / 2;
        for _ in 0..if half > 0 { flips() / 10 } else { 0 } {
            let len = 1 + rng.below(half.min(512));
            let a = rng.below(half - len + 1);
            out.push((
                a as usize,
                (half + rng.below(bytes.len() as u64 - half - len + 1)) as usize,
                len as usize,
            ));
        }
        let info = self.fs.read(&self.descriptor.path(Component::CompressionInfo));
        if let (Component::Data, Ok(info)) = (component, info) {
            let info = CompressionInfo::decode(info.into(), self.descriptor.version).unwrap();
            let chunks: Vec<_> = (0..).map_while(|i| info.chunk(i, bytes.len() as u64)).collect();
            for pair in chunks.windows(2) {
                let len = pair[0].1.min(pair[1].1) as usize;
                out.push((pair[0].0 as usize, pair[1].0 as usize, len));
            }
        }
        out
    }
}

fn damage(set: &str, name: &str) {
    let damage = Damage::new(set, name);
    damage.everywhere(&format!("{set} {name}"), Component::ALL);
}

impl Damage {
    pub fn everywhere(mut self, name: &str, components: &[Component]) {
        let mut rng = Rng::new(11);
        let only = std::env::var("COMPONENT").ok();
        for component in components {
            if only.as_ref().is_none_or(|only| *only == component.to_string()) {
                self.component(*component, &mut rng);
            }
        }
        for ((component, kind), tally) in &self.tallies {
            let Tally { refused, failed, same } = tally;
            println!("{name} {component} {kind}: refused {refused}, errors {failed}, same {same}");
        }
        let wrong: Vec<_> =
            self.wrong.iter().map(|line| line.chars().take(1500).collect::<String>()).collect();
        let first = wrong[..wrong.len().min(12)].join("\n");
        assert!(wrong.is_empty(), "{name}: {} wrong\n{first}", wrong.len());
        self.ask_all(Component::Data, "sound", "sound");
        assert_eq!(self.tallies[&(Component::Data, "sound")].same, 1);
    }
}

/// A partition of many blocks: range deletions that begin and end inside of blocks, at their edges, and reach
/// over several.
fn deleted_ranges() -> (Arc<TableSchema>, Partition) {
    let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Blob)
        .build();
    let v = table.column("v").unwrap().id;
    let at = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    let change = |c: i32, deletion| Item::Change(RangeChange::at(ClusteringBound::start_at(at(c)), deletion));
    let deletion = |n: i64| Deletion::new(1_700_000_000_000_000 + n, 1_700_000_000);
    let mut items = Vec::new();
    for c in 0..64i32 {
        match c {
            5 => items.push(change(5, deletion(1))),
            30 => items.push(change(30, deletion(4))),
            45 | 50 | 58 => items.push(change(c, Deletion::NONE)),
            47 => items.push(change(47, deletion(1))),
            52 => items.push(change(52, deletion(2))),
            _ => {}
        }
        let mut row = Row::new(at(c));
        row.liveness = Liveness::new(1_700_000_000_000_002);
        row.cells.push(Cell::live(v, 1_700_000_000_000_002, vec![c as u8; 20 + c as usize % 7].into()));
        items.push(Item::Row(row));
    }
    (Arc::new(table), Partition { key: key(1), deletion: Deletion::NONE, static_row: None, items })
}

/// No bit of an index brings back a row that a range deletion covers, or hides one, however little of a block
/// is read.
#[test]
fn open_range_deletions_are_proven_before_a_row_is_yielded() {
    let (table, partition) = deleted_ranges();
    let partitions = [partition];
    let versions = [Version::NB, Version::OA, Version::DA];
    for (version, is_proven) in versions.into_iter().flat_map(|version| [(version, true), (version, false)]) {
        let memory = MemoryFileSystem::new();
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let options = options(&partitions, None, 150);
        let meta = write_version(&fs, &table, &partitions, options, version).unwrap();
        if !is_proven {
            forget_proof(&memory, version);
        }
        let columns = ColumnSelection::all(&table);
        let damage =
            Damage::to(memory, meta.descriptor, table.clone(), columns, |sound, _| short_asks(&sound[0]));
        let index = [Component::Index, Component::Partitions, Component::Rows];
        damage.everywhere(&format!("deleted ranges {version}, proven {is_proven}"), &index);
    }
}

/// The other components are damaged at random; of a summary of several samples it is one bit in ten that
/// leads elsewhere.
#[test]
fn no_bit_of_a_summary_hides_a_partition() {
    let mut damage = Damage::new("3.11.19-me", "many");
    let path = damage.descriptor.path(Component::Summary);
    let bytes = damage.fs.read(&path).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        damage.fs.write(&path, &damaged).unwrap();
        damage.ask_all(Component::Summary, "flipped", &format!("bit {bit}"));
    }
    assert!(damage.wrong.is_empty(), "{}", damage.wrong.join("\n"));
}

/// Before `na` nothing in Statistics.db has a checksum: no bit of it changes an answer in tables of any kind.
#[test]
fn statistics_of_3_x_are_proven() {
    for set in ["3.11.19-me", "3.11.10-md", "3.11.3-mc", "3.0.7-mb", "3.5-ma"] {
        for name in super::recorded::tables_of(set) {
            let damage = Damage::new(set, &name);
            damage.everywhere(&format!("{set} {name}"), &[Component::Statistics]);
        }
    }
}

/// One column of rows of long values, which is found by the outline.
#[test]
fn an_outline_leads_to_no_other_value() {
    let table = wide_table(3);
    let mut partitions = wide_partitions(&table, 2, 5, 9 << 10);
    for partition in &mut partitions {
        for item in &mut partition.items {
            let Item::Row(row) = item else { continue };
            for cell in &mut row.cells {
                // Values that compress well are written in long chunks. No chunk lies inside of such a value.
                let mut value = cell.value.to_vec();
                value[1 << 10..].fill(0);
                cell.value = value.into();
            }
        }
    }
    for (version, compression) in
        [(Version::NB, None), (Version::OA, Some(CompressionParams::lz4())), (Version::DA, None)]
    {
        let memory = MemoryFileSystem::new();
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let options = options(&partitions, compression, 4096);
        let meta = write_version(&fs, &table, &partitions, options, version).unwrap();
        let columns = ColumnSelection::of(vec![table.regular_columns()[1].id]);
        let damage = Damage::to(memory, meta.descriptor, table.clone(), columns, asks);
        let components = [Component::Outline, Component::Data, Component::Digest];
        damage.everywhere(&format!("outline {version}"), &components);
    }
}

/// All components of files that were written here, the proof among them.
#[test]
fn what_a_proof_is_believed_for_is_so() {
    let (table, partition) = deleted_ranges();
    let partitions: Vec<Partition> =
        [1, 2].map(|k| Partition { key: key(k), ..partition.clone() }).into_iter().collect();
    let chunks = CompressionParams { chunk_len: 512, ..CompressionParams::lz4() };
    for (version, compression) in
        [(Version::NB, Some(chunks.clone())), (Version::OA, None), (Version::DA, Some(chunks))]
    {
        let memory = MemoryFileSystem::new();
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let options = options(&partitions, compression, 150);
        let meta = write_version(&fs, &table, &partitions, options, version).unwrap();
        let damage = Damage::to(memory, meta.descriptor, table.clone(), ColumnSelection::all(&table), asks);
        damage.everywhere(&format!("proven {version}"), Component::ALL);
    }
}

macro_rules! damaged {
    ($($(#[$attribute:meta])* $test:ident: $set:literal $name:literal;)*) => {
        $($(#[$attribute])* #[test] fn $test() { damage($set, $name); })*
    };
}

damaged! {
    nb_compressed: "5.0.5-nb" "mix_lz4";
    nb_uncompressed: "5.0.5-nb" "mix_plain";
    oa_compressed: "5.0.5-oa" "mix_lz4";
    oa_uncompressed: "5.0.5-oa" "mix_plain";
    da_compressed: "5.0.5-da" "mix_lz4";
    da_uncompressed: "5.0.5-da" "mix_plain";
    me_compressed: "3.11.19-me" "mix_lz4";
    me_uncompressed: "3.11.19-me" "mix_plain";
    md_compressed: "3.11.10-md" "mix_lz4";
    md_uncompressed: "3.11.10-md" "mix_plain";
    ma_compressed: "3.5-ma" "mix_lz4";
    mc_compressed: "3.11.3-mc" "mix_lz4";
    mc_uncompressed: "3.11.3-mc" "mix_plain";
    na_compressed: "4.0-rc1-na" "mix_lz4";
    na_uncompressed: "4.0-rc1-na" "mix_plain";
    me_samples: "3.11.19-me" "many";
    nb_samples: "4.1.10-nb" "many";
    oa_samples: "5.0.5-oa" "many";
    da_samples: "5.0.5-da" "many";
    mc_indexed: "3.11.3-mc" "indexed";
    na_indexed: "4.0-rc1-na" "indexed";
    nb_indexed: "5.0.5-nb" "indexed_reversed";
    da_indexed: "5.0.5-da" "indexed";
}
