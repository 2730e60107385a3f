//! Opening an SSTable from its files.

use super::{OnDisk, SsTable, Standing};
use crate::adopted::Adopted;
use crate::big::fences::Fences;
use crate::big::lookup::{BigIndex, SummaryError};
use crate::bloom::BloomFilter;
use crate::bti::partitions::BtiIndex;
use crate::data_walk::DataPages;
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, corrupt, file_name, read_component, read_optional};
use crate::index::Index;
use crate::key_filter::KeyFilter;
use crate::minima::Minima;
use crate::outline::Outline;
use crate::pages::{FileId, FilePart, PageLayout, PageSource, PagedFile};
use crate::proof::{Found, IndexProof, PageSums, Proof, proven};
use crate::statistics::Statistics;
use arc_swap::{ArcSwap, ArcSwapOption};
use env::fs::FileSystem;
use model::TableSchema;
use partition::ReadError;
use std::io;
use std::sync::{Arc, OnceLock};

fn crc(bytes: &bytes::Bytes) -> u32 {
    crc32fast::hash(bytes)
}

/// Fails when Statistics.db certainly belongs to another SSTable. Then it names other keys than the index,
/// counts other keys, or counts partitions that do not fill the data.
fn check_statistics(
    descriptor: &Descriptor,
    statistics: &Statistics,
    index: &Index,
    data_len: u64,
) -> Result<(), ReadError> {
    let failed = |detail: String| {
        let name = file_name(&descriptor.path(Component::Statistics));
        Err(ReadError::corrupt(&name, 0, detail))
    };
    let (first, last) = (index.first_key(), index.last_key());
    let stats = &statistics.stats;
    if stats.key_range.as_ref().is_some_and(|range| (&range.0, &range.1) != (&first.key.0, &last.key.0)) {
        return failed("the first and last key are not those of the index".to_owned());
    }
    if statistics.denies(index.known_keys()) {
        return failed(
            "partition keys of the index are not counted here, as if of another SSTable".to_owned(),
        );
    }
    if !stats.partition_sizes.may_sum_to(data_len) {
        let count = stats.partition_sizes.count();
        return failed(format!(
            "{count} partitions, as large as they are here, have not {data_len} bytes of data"
        ));
    }
    Ok(())
}

impl SsTable {
    /// Opens an SSTable. `number` tells it apart in the page cache and is never used twice in a process.
    ///
    /// # Errors
    /// When its version is not supported, or a component is missing or damaged.
    pub fn open(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        number: u64,
        pages: Arc<dyn PageSource>,
    ) -> Result<SsTable, OpenError> {
        SsTable::open_as(fs, descriptor, number, pages, None)
    }

    /// As [`SsTable::open`], of a table whose columns say what the header may not
    /// ([`partition::codec::SerializationHeader::freeze_as`]).
    ///
    /// # Errors
    /// As [`SsTable::open`]. Whether it is one of that table is not looked at.
    pub fn open_as(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        number: u64,
        pages: Arc<dyn PageSource>,
        table: Option<&TableSchema>,
    ) -> Result<SsTable, OpenError> {
        if !descriptor.version.is_supported() {
            return Err(OpenError::UnsupportedVersion(descriptor.to_string()));
        }
        let read = |component| read_component(fs, descriptor, component);
        let failed = |component, e| corrupt(&descriptor.path(component), e);
        let mut statistics = Statistics::decode(read(Component::Statistics)?, descriptor.version)
            .map_err(|e| failed(Component::Statistics, e))?;
        if let Some(table) = table {
            statistics.header.freeze_as(table);
        }
        let data_pages = DataPages::of(fs, descriptor)?;
        let paged = |component, part, layout| -> Result<PagedFile, OpenError> {
            let path = descriptor.path(component);
            let file = match fs.open_read_by(&path, pages.access(part)) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(OpenError::MissingComponent { table: descriptor.to_string(), component });
                }
                Err(e) => return Err(ReadError::from(e).into()),
            };
            let id = FileId { sstable: number, part };
            Ok(PagedFile::new(id, file_name(&path), file, layout))
        };
        let data = paged(Component::Data, FilePart::Data, data_pages.layout)?;
        let found = Proof::find(fs, descriptor, &data, data_pages.table_crc)?;
        let standing = Standing::of(&found, data_pages.table_crc);
        let (data, index_proof, adopted) = match found {
            Found::Fit(proof) => (data.with_places(proof.chunks), proof.index, proof.adopted),
            Found::Nothing | Found::Unfit(_) | Found::Damaged(_) => (data, None, None),
        };
        let adopted = match adopted {
            Some(proof) => Adopted::open(fs, descriptor, number, pages.as_ref(), proof)?,
            None => None,
        };
        let summary_crc = index_proof.as_ref().map(|proof| proof.summary_crc);
        let (index_sums, rows_sums, samples, fences) = match index_proof {
            Some(IndexProof { index, rows, samples, fences, .. }) => {
                (Some(index), Some(rows), samples, fences)
            }
            None => (None, None, Vec::new(), Fences::default()),
        };
        let indexed = |component, part, sums: Option<PageSums>| -> Result<Arc<PagedFile>, OpenError> {
            let file = paged(component, part, PageLayout::Plain)?;
            Ok(Arc::new(match sums {
                Some(sums) => proven(file, sums)?,
                None => file,
            }))
        };
        let outline = Outline::open(fs, descriptor, number, data.len)?;
        let times = descriptor.version.deletion_times();
        let filter_bytes = read_optional(fs, descriptor, Component::Filter)?;
        let has_proven_filter =
            filter_bytes.as_ref().map(crc).is_some_and(|crc| statistics.filter_crc == Some(crc));
        let bloom = match filter_bytes {
            Some(bytes) => Some(
                BloomFilter::decode(bytes, descriptor.version).map_err(|e| failed(Component::Filter, e))?,
            ),
            None => None,
        };
        let with_doubt = |bloom, intervals| match has_proven_filter {
            true => KeyFilter::proven(bloom),
            false => KeyFilter::unproven(bloom, intervals),
        };
        let mut is_proven = summary_crc.is_some();
        let (index, filter) = if descriptor.version.is_bti() {
            let partitions = indexed(Component::Partitions, FilePart::Index, index_sums)?;
            let rows = indexed(Component::Rows, FilePart::Rows, rows_sums)?;
            let index = BtiIndex::open(partitions, rows, Arc::clone(&pages), times)?;
            let filter = bloom.map(|bloom| with_doubt(bloom, index.intervals()));
            (Index::Bti(Arc::new(index)), filter)
        } else {
            let file = indexed(Component::Index, FilePart::Index, index_sums)?;
            let summary = read_optional(fs, descriptor, Component::Summary)?;
            // Cassandra may have made it anew.
            is_proven &= summary.as_ref().is_none_or(|bytes| summary_crc == Some(crc(bytes)));
            let index = BigIndex::open(summary, samples, fences, file, Arc::clone(&pages), times).map_err(
                |e| match e {
                    SummaryError::Decode(e) => failed(Component::Summary, e),
                    SummaryError::Read(e) => e,
                },
            )?;
            let filter = match bloom {
                Some(bloom) => {
                    let filter = with_doubt(bloom, index.intervals());
                    if !has_proven_filter {
                        index.prove_if_small(&filter)?;
                    }
                    Some(filter)
                }
                None => {
                    let keys = statistics.stats.partition_sizes.count().max(1) as u64;
                    index.make_filter(keys, statistics.bloom_fp_chance)?.map(KeyFilter::proven)
                }
            };
            (Index::Big(Box::new(index)), filter)
        };
        check_statistics(descriptor, &statistics, &index, data.len)?;
        let minima = Minima::of(descriptor, &statistics);
        statistics.shrink();
        let (row_bytes, partition_bytes) = statistics.stats.mean_bytes(data.len);
        Ok(SsTable {
            row_bytes,
            partition_bytes,
            descriptor: descriptor.clone(),
            minima,
            statistics,
            index,
            filter,
            data: Arc::new(data),
            outline: outline.map_or_else(OnceLock::new, OnceLock::from),
            adopted: adopted.map_or_else(OnceLock::new, OnceLock::from),
            is_proven,
            pages,
            layout: ArcSwapOption::empty(),
            on_disk: ArcSwap::from_pointee(OnDisk::list(fs, descriptor)),
            standing,
        })
    }
}
