//! Clients that go away while their scan waits.
#![allow(clippy::disallowed_methods, reason = "waits of a test")]

use super::parameters::{Client, run_with};
use super::running::engine_on;
use super::sql::{fill, table};
use crate::sql::SqlLimits;
use crate::ticket::{Asked, Ticket};
use crate::work::Work;
use crate::{BulkError, ScanOptions, ScanRequest, Select, Source, Split, Table, Tables};
use arrow_flight::Ticket as WireTicket;
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use env::Env;
use env::clock::ManualClock;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::Schema;
use prost::Message;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Tables whose scans are watched.
#[derive(Debug)]
struct Watched {
    tables: Arc<dyn Tables>,
    work: Arc<Work>,
}

impl Tables for Watched {
    fn schema(&self) -> Arc<Schema> {
        self.tables.schema()
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        Ok(self.work.watch(self.tables.table(keyspace, name)?, "test"))
    }

    fn names(&self) -> Vec<(String, String)> {
        self.tables.names()
    }
}

/// Work that may take a byte a second, by a clock that stands still: what has begun goes on never.
fn stuck() -> Arc<Work> {
    let fs = Arc::new(MemoryFileSystem::new());
    let env = Env::new(Arc::new(ManualClock::default()), Arc::new(Random::from_seed(1)), fs);
    Arc::new(Work::new(env, 1))
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn wire(asked: Asked) -> WireTicket {
    let ticket = Ticket { asked, now_s: 1, split: None };
    let handle = TicketStatementQuery { statement_handle: ticket.to_bytes().into() };
    WireTicket::new(handle.as_any().encode_to_vec())
}

#[test]
fn a_client_that_goes_while_its_scan_is_throttled_leaves_nothing_behind() {
    let sql = |text: &str| Asked::Sql(text.to_owned());
    for asked in [
        Asked::Scan(Select::of("ks", "t")),
        sql("SELECT * FROM t"),
        sql("SELECT k, count(*) FROM t GROUP BY k ORDER BY k"),
        sql("SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.c > b.c"),
    ] {
        let work = stuck();
        let watched = |tables| Arc::new(Watched { tables, work: Arc::clone(&work) }) as Arc<dyn Tables>;
        let client = Client::with(SqlLimits::default(), watched);
        let held = Arc::strong_count(&work);
        run_with(client, async |client| {
            let mut answer = client.0.do_get(wire(asked)).await.unwrap().into_inner();
            // The schema comes without a row.
            let reader = tokio::spawn(async move { while let Ok(Some(_)) = answer.message().await {} });
            until(|| work.running().iter().any(|scan| scan.bytes > 0)).await;
            assert!(!reader.is_finished());
            reader.abort();
            until(|| work.running().is_empty() && Arc::strong_count(&work) == held).await;
            assert_eq!(work.stats().failures, 0, "nothing has failed");
        });
    }
}

#[test]
fn a_scan_that_nobody_wants_reads_nothing_more() {
    let table = table();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    fill(&engine, &table, &Random::from_seed(5));
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let request = ScanRequest::of_table(&table, None, 1, ScanOptions::default()).unwrap();
    let mut scan = source.scan(&request, &Split::FULL);
    request.cancel.cancel();
    assert!(matches!(scan.next(), Some(Err(BulkError::Cancelled))) && scan.next().is_none());
    assert_eq!(scan.cost().rows_scanned, 0);
    let work = stuck();
    let mut scan = work.watch(Arc::new(source), "test").scan(&request, &Split::FULL).unwrap();
    assert!(matches!(scan.next(), Some(Err(BulkError::Cancelled))));
    let of_work: Weak<Work> = Arc::downgrade(&work);
    drop((scan, work));
    assert_eq!(of_work.strong_count(), 0, "what waits for a cancel holds nothing");
}
