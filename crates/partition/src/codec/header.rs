//! The serialization header of an SSTable: what its rows are relative to, and which columns they have
//! (docs/formats/sstable-big.md).
//!
//! ```text
//! stats | vbytes key type | uvint n, n * vbytes clustering type
//!       | uvint n, n * { vbytes name, vbytes type } statics | the same for regulars
//! ```

use super::input::Input;
use super::stats::{DeletionTimes, EncodingStats};
use model::{CqlType, TableSchema, vint};

/// A column of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// Its name.
    pub name: String,
    /// The type of its values in the file.
    pub ty: CqlType,
}

/// What an SSTable says about its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializationHeader {
    /// What deltas are relative to.
    pub stats: EncodingStats,
    /// How deletion times are held; the version of the file says so.
    pub times: DeletionTimes,
    /// Class string of the partition key.
    pub key_type: String,
    /// Clustering columns: type and whether it is descending.
    pub clustering: Vec<(CqlType, bool)>,
    /// Static columns in column order.
    pub static_columns: Vec<HeaderColumn>,
    /// Regular columns in column order.
    pub regular_columns: Vec<HeaderColumn>,
}

/// Columns of a table are far fewer; a file that claims more is damaged.
const COLUMNS_MAX: u64 = 1 << 20;

impl SerializationHeader {
    /// A header with all columns of a table.
    pub fn of_table(table: &TableSchema, stats: EncodingStats, times: DeletionTimes) -> SerializationHeader {
        let columns = |defs: &[std::sync::Arc<model::ColumnDef>]| {
            defs.iter().map(|c| HeaderColumn { name: c.name.clone(), ty: c.ty.clone() }).collect()
        };
        SerializationHeader {
            stats: stats.held_as(times),
            times,
            key_type: table.partition_key_class(),
            clustering: table.clustering_columns().iter().map(|c| (c.ty.clone(), c.descending)).collect(),
            static_columns: columns(table.static_columns()),
            regular_columns: columns(table.regular_columns()),
        }
    }

    /// Takes user types for frozen ones where the table has them frozen: Cassandra 3.0, which has no others,
    /// does not say so (CASSANDRA-15035).
    pub fn freeze_as(&mut self, table: &TableSchema) {
        for column in self.static_columns.iter_mut().chain(&mut self.regular_columns) {
            let is_frozen = |def: &std::sync::Arc<model::ColumnDef>| !def.is_multi_cell();
            if matches!(column.ty, CqlType::Udt { .. }) && table.column(&column.name).is_none_or(is_frozen) {
                column.ty = column.ty.frozen();
            }
        }
    }

    /// The smallest deletion time, as far as it is known.
    pub fn min_local_deletion_time(&self) -> u32 {
        self.times.of_bits(self.stats.min_local_deletion_time)
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.stats.encode(out);
        write_text(out, &self.key_type);
        vint::write_unsigned(out, self.clustering.len() as u64);
        for (ty, descending) in &self.clustering {
            write_text(out, &ty.clustering_class_name(*descending));
        }
        for columns in [&self.static_columns, &self.regular_columns] {
            vint::write_unsigned(out, columns.len() as u64);
            for column in columns {
                write_text(out, &column.name);
                write_text(out, &column.ty.class_name());
            }
        }
    }

    /// Reads a header.
    pub fn decode<I: Input>(input: &mut I, times: DeletionTimes) -> Result<SerializationHeader, I::Error> {
        let stats = EncodingStats::decode(input)?;
        let key_type = input.vtext()?;
        let mut clustering = Vec::new();
        for _ in 0..count(input)? {
            let class = input.vtext()?;
            let parsed = CqlType::parse_class(&class).map_err(|e| input.malformed(e.to_string()))?;
            // A clustering is frozen. Of user types Cassandra 3.0 does not say so (CASSANDRA-15035).
            clustering.push((parsed.ty.frozen(), parsed.reversed));
        }
        Ok(SerializationHeader {
            stats,
            times,
            key_type,
            clustering,
            static_columns: columns(input)?,
            regular_columns: columns(input)?,
        })
    }
}

fn columns<I: Input>(input: &mut I) -> Result<Vec<HeaderColumn>, I::Error> {
    let mut out = Vec::new();
    for _ in 0..count(input)? {
        let name = input.vtext()?;
        let class = input.vtext()?;
        let ty = CqlType::parse_class(&class).map_err(|e| input.malformed(e.to_string()))?.ty;
        out.push(HeaderColumn { name, ty });
    }
    Ok(out)
}

fn count<I: Input>(input: &mut I) -> Result<u64, I::Error> {
    let count = input.uvint()?;
    if count > COLUMNS_MAX { Err(input.malformed(format!("{count} columns"))) } else { Ok(count) }
}

pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    vint::write_unsigned(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}
