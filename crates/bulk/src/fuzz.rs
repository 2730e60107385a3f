//! Entry points for fuzzing: what clients of Flight send that Ilion itself reads. None may panic, whatever
//! the bytes, and what is sound is the same after it was written and read again.

use crate::handle::Prepared;
use crate::losses::{self, Losses};
use crate::ticket::{Asked, ScanCommand, Ticket};
use crate::{Select, Split};
use env::Env;
use model::schema::Replication;
use model::{CqlType, KeyspaceSchema, Schema, TableSchema};
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// Something to ask for: a table with a key and a clustering of two columns each, and a static column.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let table = TableSchema::builder("ks", "t", Uuid::nil())
        .partition_key("k", CqlType::Int)
        .partition_key("k2", CqlType::Text)
        .clustering("c", CqlType::Int, true)
        .clustering("c2", CqlType::Text, false)
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Double)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Text, true))
        .build();
    let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
    keyspace.tables.insert("t".to_owned(), Arc::new(table));
    Schema::default().with_keyspace(keyspace)
});

/// A ticket, up to the reads that it stands for.
pub fn fuzz_ticket(bytes: &[u8]) {
    let Ok(ticket) = Ticket::of_bytes(bytes) else { return };
    assert_eq!(Ticket::of_bytes(&ticket.to_bytes()).ok().as_ref(), Some(&ticket));
    if let Asked::Scan(select) = &ticket.asked {
        plan(select, ticket.split.as_ref());
    }
}

/// The command by which `ilion` asks for a scan, or what a node tells it of losses.
pub fn fuzz_scan_command(bytes: &[u8]) {
    let mut losses = Losses::default();
    if losses.read(bytes).is_ok() {
        let mut again = Losses::default();
        let messages = losses::messages(losses.all().to_vec());
        assert!(messages.iter().all(|message| again.read(message).is_ok()));
        assert_eq!(again.all(), losses.all());
    }
    if let Ok(command) = ScanCommand::of_json(bytes) {
        plan(&command.select, None);
    }
}

/// The handle of a prepared statement.
pub fn fuzz_handle(bytes: &[u8]) {
    let Ok(prepared) = Prepared::of_handle(bytes) else { return };
    if let Ok(handle) = prepared.to_handle() {
        assert_eq!(Prepared::of_handle(&handle).as_ref(), Ok(&prepared));
    }
}

fn plan(select: &Select, split: Option<&Split>) {
    drop(select.to_cql(&SCHEMA));
    let Ok(request) = select.request(&Env::for_test(1), &SCHEMA) else { return };
    if let Some(split) = split {
        drop(split.steps(&request.command));
    }
}
