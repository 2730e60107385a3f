//! How fast cqlite makes record batches of a table, for `bench/bulk`.
//!
//! ```text
//! bench-cqlite DATA_DIRECTORY SCHEMA.cql KEYSPACE.TABLE
//! ```
//! The directory has `KEYSPACE/TABLE-ID` with the SSTables in it. One scan of all columns goes over the
//! table. A line of JSON is printed: rows, bytes of the batches, seconds. Rows come as `execute_streaming`
//! gives them, and each `ROWS` of them become one batch.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use cqlite_core::Config;
use cqlite_core::export::arrow_convert::rows_to_record_batch;
use cqlite_core::ingestion::{IngestionConfig, ingest};
use cqlite_core::query::result::StreamingConfig;

/// Rows of a batch, as many as Ilion's of short rows have.
const ROWS: usize = 8192;

async fn scan(directory: &str, schema: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let ingested = ingest(IngestionConfig {
        schema_paths: vec![PathBuf::from(schema)],
        data_dir: PathBuf::from(directory),
        version_hint: Some("5.0".to_owned()),
        core_config: Config::default(),
        table_directory_filter: None,
    })
    .await?;
    let began = Instant::now();
    let statement = format!("SELECT * FROM {table}");
    let mut rows = ingested.database.execute_streaming(&statement, StreamingConfig::default()).await?;
    let columns = rows.metadata.columns.clone();
    let (mut count, mut bytes, mut kept) = (0, 0, Vec::with_capacity(ROWS));
    loop {
        let row = rows.next_async().await.transpose()?;
        let ended = row.is_none();
        kept.extend(row);
        if kept.len() == ROWS || ended && !kept.is_empty() {
            let batch = rows_to_record_batch(&columns, &kept)?;
            count += batch.num_rows();
            bytes += batch.get_array_memory_size();
            kept.clear();
        }
        if ended {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(r#"{{"rows": {count}, "bytes": {bytes}, "seconds": {seconds:.4}}}"#);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, schema, table] = arguments.as_slice() else {
        return Err("DATA_DIRECTORY SCHEMA.cql KEYSPACE.TABLE".into());
    };
    tokio::runtime::Runtime::new()?.block_on(scan(directory, schema, table))
}
