//! A node that was looked at, for tests.

use super::app::{App, Event};
use super::palette::Colors;
use super::poll::Look;
use crate::api::{Band, BulkStats, HeatColumns, Info, ReadSample, ReadsByTable, TableReads};
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// A second at which a minute begins: 09:27:00 UTC.
pub(super) const MINUTE: u64 = 1_795_253_220;

/// The sums of a table with `reads` reads of `micros`.
pub(super) fn table(name: &str, reads: u64, micros: u64) -> TableReads {
    let (keyspace, table) = name.split_once('.').unwrap_or((name, ""));
    TableReads {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
        reads,
        rows: reads * 3,
        tombstones: reads / 2,
        sstables: reads * 2,
        ios: reads / 4,
        disk_bytes: reads * 4_096,
        returned_bytes: reads * 1_000,
        page_hits: reads * 9,
        page_misses: reads,
        request_buckets: vec![(micros, reads - reads / 50), (micros * 10, reads / 50)],
    }
}

/// A look at a node that is up for so many seconds. Its heat map has a slow band between :20 and :30 of each
/// minute.
pub(super) fn look(up_seconds: u64, tables: Vec<TableReads>) -> Look {
    let bounds = [0, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000];
    let tops = bounds[1..].iter().copied().map(Some).chain([None]);
    let bands: Vec<Band> =
        bounds.iter().zip(tops).map(|(from, to)| Band { from_micros: *from, to_micros: to }).collect();
    let last_second = MINUTE + up_seconds;
    let counts = (MINUTE..=last_second).map(|second| {
        let mut counts = vec![0; bands.len()];
        (counts[2], counts[3], counts[4]) = (1_000, 200, 10);
        if (20..30).contains(&(second % 60)) {
            (counts[9], counts[10]) = (40, 3);
        }
        counts
    });
    let heat = HeatColumns { last_second, counts: counts.collect(), bands };
    let mut info: Info = serde_json::from_str(INFO).unwrap();
    info.uptime_seconds = up_seconds;
    Look {
        cluster: "Test Cluster".to_owned(),
        info,
        reads: ReadsByTable { uptime_millis: up_seconds * 1_000, tables },
        heat,
        bulk: Some(BulkStats::default()),
    }
}

const INFO: &str = r#"{"host_id": "", "native_transport_active": true, "load_bytes": 0, "generation": 1,
    "uptime_seconds": 0, "resident_bytes": 104857600, "memtable_bytes": 0, "memtable_bytes_max": 0,
    "data_center": "", "rack": "", "exceptions": 0, "tokens": [], "drained": false,
    "page_cache": {"capacity_bytes": 268435456, "used_bytes": 67108864, "entries": 0, "hits": 0, "misses": 0, "insertions": 0, "evictions": 0},
    "row_cache": {"capacity_bytes": 0, "used_bytes": 0, "entries": 0, "hits": 0, "misses": 0, "insertions": 0, "evictions": 0}}"#;

/// A terminal of a size, after two looks at a node, 40 s after the minute.
pub(super) fn app(width: u16, height: u16) -> App {
    let mut app = App::new("127.0.0.1:9180".to_owned(), Colors::Never, false);
    app.handle(Event::Resize(width, height));
    let before =
        [table("shop.orders", 5_000, 90), table("shop.carts", 300, 40), table("system.local", 9, 20)];
    let now = [table("shop.orders", 9_000, 90), table("shop.carts", 320, 40), table("system.local", 19, 20)];
    app.handle(Event::Look(Ok(Box::new(look(39, before.to_vec())))));
    app.handle(Event::Look(Ok(Box::new(look(40, now.to_vec())))));
    app
}

/// A read of the slow band.
pub(super) fn sample(second: u64, micros: u64, disk_bytes: u64) -> ReadSample {
    let cost = [("sstables_read", 3), ("ios", 7), ("disk_bytes", disk_bytes), ("returned_bytes", 2_048)];
    ReadSample {
        at_millis: second as i64 * 1_000 + 17,
        second,
        micros,
        reader_wait_micros: micros / 2,
        proof_wait_micros: 0,
        keyspace: "shop".to_owned(),
        table: "orders".to_owned(),
        statement: "SELECT item, price FROM shop.orders WHERE customer = ? AND day > ? LIMIT 50".to_owned(),
        restriction: "customer = 'c-4711' AND day > '2026-11-01' LIMIT 50".to_owned(),
        client: "10.0.0.7:53012".to_owned(),
        cost: cost.map(|(name, count)| (name.to_owned(), count)).into_iter().collect(),
        failure: None,
    }
}

/// Presses keys.
pub(super) fn press(app: &mut App, keys: &[KeyCode]) {
    for key in keys {
        app.handle(Event::Key(KeyEvent::from(*key)));
    }
}
