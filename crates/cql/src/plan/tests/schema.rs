//! The schema that the tests speak of, and shorthands.

use crate::bind::{BindContext, BoundValue, BoundValues, UuidSource};
use crate::error::CqlError;
use crate::parser::parse_statement;
use crate::plan::{Bound, Prepared, prepare};
use model::schema::{KeyspaceSchema, Replication};
use model::types::{CqlType, UserType};
use model::{Schema, TableSchema};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Uuids that count.
#[derive(Debug, Default)]
pub(super) struct Counting(AtomicU64);

impl UuidSource for Counting {
    fn time_uuid(&self) -> Uuid {
        let ticks = 0x1f0_0000_0000_0000u64 + self.0.fetch_add(1, Ordering::Relaxed);
        let (low, mid, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 & 0x0fff);
        Uuid::from_fields(low, mid, high | 0x1000, &[0x80, 0, 0, 0, 0, 0, 0, 1])
    }

    fn random_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(0x4000, 0x8000_0000_0000_0000 | self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// 2026-11-21, a date on which a TTL of twenty years passes 2038.
pub(super) const NOW_S: u32 = 1_795_253_000;

pub(super) fn context() -> BindContext {
    BindContext {
        now_s: NOW_S,
        now_micros: i64::from(NOW_S) * 1_000_000,
        timestamp_micros: 1000,
        page_size: Some(5000),
        expiration_max_s: i32::MAX as u32 - 1,
        unmasks: true,
        guard: None,
        uuids: Arc::new(Counting::default()),
    }
}

fn table(name: &str) -> model::schema::TableBuilder {
    let id = name.bytes().fold(0u128, |id, b| id * 251 + u128::from(b));
    TableSchema::builder("dml", name, Uuid::from_u128(id))
}

pub(super) fn schema() -> Schema {
    use CqlType::*;
    let ut = Arc::new(UserType {
        keyspace: "dml".into(),
        name: "ut".into(),
        fields: vec![("a".into(), Int), ("b".into(), Text)],
    });
    let udt = |multi_cell| Udt { definition: Arc::clone(&ut), multi_cell };
    let mut tables = vec![
        table("t")
            .partition_key("k", Int)
            .clustering("c", Int, false)
            .regular("v", Int)
            .static_column("s", Int)
            .regular("txt", Text)
            .build(),
        table("t2")
            .partition_key("k1", Int)
            .partition_key("k2", Text)
            .clustering("a", Int, false)
            .clustering("b", Int, true)
            .clustering("c", Int, false)
            .clustering("d", Int, true)
            .regular("v", Int)
            .static_column("s", Int)
            .build(),
        table("co")
            .partition_key("k", Int)
            .regular("l", CqlType::list(Int, true))
            .regular("st", CqlType::set(Int, true))
            .regular("m", CqlType::map(Text, Int, true))
            .regular("fl", CqlType::list(Int, false))
            .regular("fm", CqlType::map(Text, Int, false))
            .regular("fs", CqlType::set(Int, false))
            .regular("tp", Tuple([Int, Text].into()))
            .regular("u", udt(true))
            .regular("fu", udt(false))
            .regular("ve", Vector { element: Arc::new(Float), dimension: 3 })
            .build(),
        table("cnt")
            .partition_key("k", Int)
            .clustering("c", Int, false)
            .regular("n", Counter)
            .static_column("sn", Counter)
            .build(),
        table("me").partition_key("k", Int).regular("m", CqlType::map(Text, Int, true)).build(),
        table("sk").partition_key("k", Text).clustering("c", Text, false).regular("v", Blob).build(),
    ];
    let types: [(&str, CqlType); 19] = [
        ("a", Ascii),
        ("bi", BigInt),
        ("bl", Blob),
        ("bo", Boolean),
        ("da", Date),
        ("de", Decimal),
        ("dbl", Double),
        ("du", Duration),
        ("fl", Float),
        ("i", Inet),
        ("sm", SmallInt),
        ("tx", Text),
        ("ti", Time),
        ("ts", Timestamp),
        ("tu", TimeUuid),
        ("ty", TinyInt),
        ("uu", Uuid),
        ("va", Varint),
        ("zz", Empty),
    ];
    let mut ty = table("ty").partition_key("k", Int);
    for (name, kind) in types.into_iter().filter(|(name, _)| *name != "zz") {
        ty = ty.regular(name, kind);
    }
    tables.push(ty.build());
    let mut dt = table("dt").partition_key("k", Int).regular("v", Int).regular("l", CqlType::list(Int, true));
    let options = model::schema::TableOptions {
        default_time_to_live: 630_720_000,
        ..model::schema::TableOptions::default()
    };
    dt = dt.options(options);
    tables.push(dt.build());

    let mut keyspace = KeyspaceSchema::new("dml", Replication::simple(1));
    keyspace.types.insert("ut".into(), ut);
    for table in tables {
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    Schema::default().with_keyspace(keyspace)
}

pub(super) fn prepared(cql: &str) -> Result<Prepared, CqlError> {
    let parsed = parse_statement(cql).map_err(|e| CqlError::Syntax(e.to_string()))?;
    prepare(parsed, &schema(), Some("dml"))
}

pub(super) fn bound_with(cql: &str, values: Vec<BoundValue>) -> Result<Bound, CqlError> {
    prepared(cql)?.bind(&BoundValues::Positional(values), &context())
}

pub(crate) fn bound(cql: &str) -> Result<Bound, CqlError> {
    bound_with(cql, Vec::new())
}

/// The message of the refusal.
pub(super) fn refusal(cql: &str, values: Vec<BoundValue>) -> String {
    match bound_with(cql, values) {
        Ok(_) => panic!("{cql} was accepted"),
        Err(e) => e.to_string(),
    }
}

pub(super) fn int(v: i32) -> BoundValue {
    BoundValue::Bytes(bytes::Bytes::copy_from_slice(&v.to_be_bytes()))
}
