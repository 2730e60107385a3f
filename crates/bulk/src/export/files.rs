//! One file of an export.

use crate::json::with_text_keys;
use crate::{BulkError, Form};
use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::Schema;
use env::fs::WriteFile;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as ParquetCompression, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// Bytes that are written by one call.
const CALL_BYTES: usize = 1 << 20;
/// Bytes of a row group of Parquet, before it is compressed: what a writer holds in memory.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// The format of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Format {
    #[default]
    Parquet,
    Arrow,
    Csv,
    Json,
}

/// How files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Compression {
    Zstd,
    Snappy,
    Lz4,
    None,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::Zstd => "zstd",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::None => "none",
        })
    }
}

impl Format {
    /// The end of the files' names.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }

    /// How its files are compressed when nothing is said.
    pub fn default_compression(self) -> Compression {
        match self {
            Format::Parquet => Compression::Zstd,
            Format::Arrow => Compression::Lz4,
            Format::Csv | Format::Json => Compression::None,
        }
    }

    /// The form of the columns that fit into its files.
    pub fn form(self) -> Form {
        match self {
            Format::Parquet | Format::Arrow => Form::Arrow,
            Format::Csv => Form::Flat,
            Format::Json => Form::Json,
        }
    }

    /// Whether its files can be compressed like that.
    ///
    /// # Errors
    /// When they cannot.
    pub fn check(self, compression: Compression) -> Result<(), BulkError> {
        let can = match self {
            Format::Parquet => true,
            Format::Arrow => compression != Compression::Snappy,
            Format::Csv | Format::Json => compression == Compression::None,
        };
        match can {
            true => Ok(()),
            false => {
                Err(BulkError::Request(format!("files of {self} are not compressed with {compression}")))
            }
        }
    }
}

/// A file of the file system, as the writers of formats want it.
struct Output {
    file: Box<dyn WriteFile>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

type Buffered = BufWriter<Output>;

enum Kind {
    Parquet(Box<ArrowWriter<Buffered>>),
    Arrow(Box<FileWriter<Buffered>>),
    /// With the schema: its names are in files without rows, too.
    Csv(Box<arrow_csv::Writer<Buffered>>, Arc<Schema>),
    Json(Box<arrow_json::LineDelimitedWriter<Buffered>>),
}

/// A file that is being written.
pub(super) struct Writer {
    kind: Kind,
    rows: u64,
}

impl Writer {
    /// Begins a file. Rows ascend by column `sorted_by`, if there is one.
    pub fn new(
        file: Box<dyn WriteFile>,
        schema: &Arc<Schema>,
        format: Format,
        compression: Compression,
        sorted_by: Option<usize>,
    ) -> Result<Writer, BulkError> {
        let out = BufWriter::with_capacity(CALL_BYTES, Output { file });
        let kind = match format {
            Format::Parquet => {
                let properties = parquet_properties(compression, sorted_by)?;
                Kind::Parquet(Box::new(ArrowWriter::try_new(out, Arc::clone(schema), Some(properties))?))
            }
            Format::Arrow => {
                let compression = match compression {
                    Compression::Zstd => Some(CompressionType::ZSTD),
                    Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
                    Compression::None | Compression::Snappy => None,
                };
                let options = IpcWriteOptions::default().try_with_compression(compression)?;
                Kind::Arrow(Box::new(FileWriter::try_new_with_options(out, schema, options)?))
            }
            Format::Csv => {
                let writer = arrow_csv::WriterBuilder::new().with_header(true).build(out);
                Kind::Csv(Box::new(writer), Arc::clone(schema))
            }
            Format::Json => {
                let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
                Kind::Json(Box::new(builder.build(out)))
            }
        };
        Ok(Writer { kind, rows: 0 })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), BulkError> {
        self.rows += batch.num_rows() as u64;
        match &mut self.kind {
            Kind::Parquet(writer) => {
                writer.write(batch)?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush()?;
                }
            }
            Kind::Arrow(writer) => writer.write(batch)?,
            Kind::Csv(writer, _) => writer.write(batch)?,
            Kind::Json(writer) => writer.write(&with_text_keys(batch)?)?,
        }
        Ok(())
    }

    /// Ends and syncs the file; returns its rows and bytes.
    pub fn finish(self) -> Result<(u64, u64), BulkError> {
        let out = match self.kind {
            Kind::Parquet(writer) => writer.into_inner()?,
            Kind::Arrow(writer) => writer.into_inner()?,
            Kind::Csv(mut writer, schema) => {
                writer.write(&RecordBatch::new_empty(schema))?;
                writer.into_inner()
            }
            Kind::Json(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
        };
        let mut file = out.into_inner().map_err(|error| error.into_error())?.file;
        file.flush()?;
        file.sync_data()?;
        Ok((self.rows, file.position()))
    }
}

fn parquet_properties(
    compression: Compression,
    sorted_by: Option<usize>,
) -> Result<WriterProperties, BulkError> {
    let sorting = sorted_by.map(|column| {
        let column_idx = i32::try_from(column).unwrap_or_default();
        vec![SortingColumn { column_idx, descending: false, nulls_first: false }]
    });
    let compression = match compression {
        Compression::Zstd => ParquetCompression::ZSTD(ZstdLevel::try_new(1)?),
        Compression::Snappy => ParquetCompression::SNAPPY,
        Compression::Lz4 => ParquetCompression::LZ4_RAW,
        Compression::None => ParquetCompression::UNCOMPRESSED,
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(sorting)
        .set_created_by(format!("ilion {}", env!("CARGO_PKG_VERSION")));
    Ok(properties.build())
}
