//! Rows of a statement, as they are written.

use super::FormatArg;
use crate::tables::Failure;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatch, StringArray};
use arrow_cast::pretty::pretty_format_batches;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use bulk::json::with_text_keys;
use env::Env;
use env::fs::WriteFile;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Rows of a table on the screen: a longer one is cut into several, each as wide as its own rows need.
const TABLE_ROWS_MAX: usize = 10_000;

/// Where rows go.
enum Sink {
    Stdout,
    File(Box<dyn WriteFile>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout => io::stdout().write(bytes),
            Sink::File(file) => file.write_all(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout => io::stdout().flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

/// Writes rows in a format.
pub(super) struct Output {
    schema: SchemaRef,
    writer: Writer,
    /// Whether a table was printed already.
    was_printed: bool,
}

type Buffered = BufWriter<Sink>;

enum Writer {
    Table(Buffered, Vec<RecordBatch>, usize),
    Csv(Box<arrow_csv::Writer<Buffered>>),
    Json(arrow_json::LineDelimitedWriter<Buffered>),
    Parquet(Box<ArrowWriter<Buffered>>),
}

impl Output {
    pub fn open(
        env: &Env,
        format: FormatArg,
        path: Option<&Path>,
        schema: &SchemaRef,
    ) -> Result<Output, Failure> {
        let sink = match path {
            Some(path) => Sink::File(env.fs.create(path).map_err(Failure::usage)?),
            None if format == FormatArg::Parquet && io::stdout().is_terminal() => {
                return Err(Failure::Usage("Parquet is no text: --out FILE says where it goes".to_owned()));
            }
            None => Sink::Stdout,
        };
        let sink = BufWriter::with_capacity(1 << 20, sink);
        let schema = match format {
            FormatArg::Parquet => Arc::clone(schema),
            _ => readable_schema(schema),
        };
        let writer = match format {
            FormatArg::Table => Writer::Table(sink, Vec::new(), 0),
            FormatArg::Csv => {
                Writer::Csv(Box::new(arrow_csv::WriterBuilder::new().with_header(true).build(sink)))
            }
            FormatArg::Json => {
                Writer::Json(arrow_json::WriterBuilder::new().with_explicit_nulls(true).build(sink))
            }
            FormatArg::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                let writer = ArrowWriter::try_new(sink, Arc::clone(&schema), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(Failure::work)?))
            }
        };
        Ok(Output { schema, writer, was_printed: false })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        match &mut self.writer {
            Writer::Table(_, waiting, rows) => {
                *rows += batch.num_rows();
                waiting.push(readable(batch, &self.schema)?);
                match *rows >= TABLE_ROWS_MAX {
                    true => self.print_table(),
                    false => Ok(()),
                }
            }
            Writer::Csv(writer) => writer.write(&readable(batch, &self.schema)?).map_err(Failure::work),
            Writer::Json(writer) => {
                let rows = with_text_keys(&readable(batch, &self.schema)?).map_err(Failure::work)?;
                writer.write(&rows).map_err(Failure::work)
            }
            Writer::Parquet(writer) => writer.write(batch).map_err(Failure::work),
        }
    }

    fn print_table(&mut self) -> Result<(), Failure> {
        let Writer::Table(sink, waiting, rows) = &mut self.writer else { return Ok(()) };
        self.was_printed = true;
        let mut batches = std::mem::take(waiting);
        let count = std::mem::take(rows);
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let text = pretty_format_batches(&batches).map_err(Failure::work)?;
        let noun = if count == 1 { "row" } else { "rows" };
        writeln!(sink, "{text}\n({count} {noun})").or_else(unless_closed)
    }

    pub fn finish(mut self) -> Result<(), Failure> {
        if let Writer::Table(_, _, rows) = &self.writer
            && (*rows > 0 || !self.was_printed)
        {
            self.print_table()?;
        }
        match self.writer {
            Writer::Table(mut sink, ..) => sink.flush().or_else(unless_closed),
            Writer::Csv(mut writer) => {
                // An answer without rows has names, too.
                match writer.write(&RecordBatch::new_empty(self.schema)) {
                    Ok(()) => writer.into_inner().flush().or_else(unless_closed),
                    Err(ArrowError::IoError(_, error)) => unless_closed(error),
                    Err(error) => Err(Failure::work(error)),
                }
            }
            Writer::Json(mut writer) => {
                writer.finish().map_err(Failure::work)?;
                writer.into_inner().flush().or_else(unless_closed)
            }
            Writer::Parquet(writer) => {
                let mut sink = writer.into_inner().map_err(Failure::work)?;
                sink.flush().or_else(unless_closed)
            }
        }
    }
}

/// A reader that has seen enough is no failure.
fn unless_closed(error: io::Error) -> Result<(), Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::work(error)),
    }
}

fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.uuid") && *field.data_type() == DataType::FixedSizeBinary(16)
}

/// The schema with uuids as text.
fn readable_schema(schema: &SchemaRef) -> SchemaRef {
    let of = |field: &FieldRef| match is_uuid(field) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())),
        false => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(of).collect::<Vec<FieldRef>>()))
}

/// A batch with uuids as text.
fn readable(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
    let of = |(column, field): (&ArrayRef, &FieldRef)| -> ArrayRef {
        match column.as_any().downcast_ref::<FixedSizeBinaryArray>() {
            Some(binary) if *field.data_type() == DataType::Utf8 => {
                let text = |value: Option<&[u8]>| Uuid::from_slice(value?).ok().map(|uuid| uuid.to_string());
                Arc::new(binary.iter().map(text).collect::<StringArray>())
            }
            _ => Arc::clone(column),
        }
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(of).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(Failure::work)
}
