//! User types that a header does not call frozen, though they are: what the rows say of them.
//!
//! Cassandra 3.0 knows user types only as frozen ones, and does not say so in the headers of its SSTables
//! (CASSANDRA-15035). A node knows better from the table; tools that have no schema read some rows both ways.

use crate::data_walk::{DataFile, DataPages, Unfiltered};
use crate::descriptor::Descriptor;
use crate::header_table::table_of_header;
use crate::statistics::Statistics;
use env::fs::FileSystem;
use model::{CqlType, TableSchema};
use partition::codec::SerializationHeader;
use partition::{Fragment, ReadError};

/// Partitions and rows that are read to find out.
const READ_MAX: u64 = 1_000;

/// The table of an SSTable's header with its user types frozen, where its rows can be read further so.
///
/// `None` where the header says all, and where nothing can be read: opening it as usual tells why.
pub fn table_with_frozen_types(fs: &dyn FileSystem, descriptor: &Descriptor) -> Option<TableSchema> {
    if !descriptor.version.is_supported() || descriptor.version.has_metadata_checksums() {
        return None;
    }
    let statistics = Statistics::read(fs, descriptor).ok()?;
    let frozen = with_frozen_types(&statistics.header)?;
    let read = |header: SerializationHeader| {
        let pages = DataPages::of(fs, descriptor).ok()?;
        let data = DataFile::with(fs, descriptor, pages, Statistics { header, ..statistics.clone() }).ok()?;
        Some(readable(&data))
    };
    let is_frozen = read(frozen.clone())? > read(statistics.header.clone())?;
    is_frozen.then(|| table_of_header(&frozen).ok()).flatten()
}

/// A header with its user types frozen; `None` where it has no others.
fn with_frozen_types(header: &SerializationHeader) -> Option<SerializationHeader> {
    let mut frozen = header.clone();
    for column in frozen.static_columns.iter_mut().chain(&mut frozen.regular_columns) {
        if matches!(column.ty, CqlType::Udt { .. }) {
            column.ty = column.ty.frozen();
        }
    }
    (frozen != *header).then_some(frozen)
}

/// Partitions and rows from the start of the data up to the first that cannot be read.
fn readable(data: &DataFile) -> u64 {
    let mut read = 0;
    let mut count = || -> Result<(), ReadError> {
        let (mut walk, mut fragment) = (data.walk(), Fragment::default());
        while read < READ_MAX && walk.position() < data.file.len {
            walk.start_partition(walk.position(), &mut fragment)?;
            walk.static_row(&mut fragment.row)?;
            read += 1;
            while read < READ_MAX && walk.next(&mut fragment)? != Unfiltered::End {
                read += 1;
            }
        }
        Ok(())
    };
    // Why it ended does not matter: whoever reads on is told.
    let _ = count();
    read
}
