//! Bounds of what clients make the node keep in memory.

use super::*;
use crate::config::ByteSize;
use env::clock::ManualClock;
use env::fs::faulty::{FaultyFileSystem, Op};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;

#[test]
fn answers_that_nobody_reads_do_not_pile_up() {
    run(async {
        let fs = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_secs(1));
        let env = Env::new(clock, Arc::new(Random::from_seed(1)), Arc::new(fs.clone()));
        let db = Db::open_with(&env, |config| config.settings.concurrent_reads = 1).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        create(&mut client).await;
        let value = "x".repeat(64 << 10);
        for c in 0..16 {
            cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, '{value}')")).await;
        }
        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("ks", Some("t"))).await.unwrap().unwrap();
        let connection = db.node.state.connections.connections().remove(0);
        // All reads wait for the thread when its first one goes on: none of them knows how much there will
        // be.
        fs.hold(Op::Read, "-Data.db");
        let read = query("SELECT v FROM ks.t WHERE k = 1", params());
        let requests: Vec<_> = (0..64).map(|stream| (stream, read.clone())).collect();
        client.send(&requests).await;
        let metrics = &db.node.state.metrics;
        while metrics.reader_tasks.get() < 64 {
            tokio::task::yield_now().await;
        }
        fs.release();
        let mut highest = 0;
        while metrics.answers_without_room.get() == 0 || metrics.reader_tasks.get() > 0 {
            highest = highest.max(connection.answers_used()[0]);
            tokio::task::yield_now().await;
        }
        // They may have come that far between two looks; nobody reads what they hold.
        highest = highest.max(connection.answers_used()[0]);
        // What a connection may have, and the one answer that goes on without room.
        assert!((8 << 20..=36 << 20).contains(&highest), "{highest}");
        for _ in 0..64 {
            let (_, response) = client.receive().await;
            assert_eq!(rows(response).rows.len(), 16);
        }
        while connection.answers_used() != [0; 3] {
            tokio::task::yield_now().await;
        }
        db.stop().await;
    });
}

/// How many of the statements are in a cache of 16 MiB when all were prepared.
async fn kept(table: &str, statements: impl Iterator<Item = String>) -> i64 {
    let db = Db::open_with(&Env::for_test(32), |config| {
        config.settings.prepared_statements_cache_size = Some(ByteSize(16 << 20));
    })
    .await;
    let mut client = db.client(ProtocolVersion::V5).await;
    create(&mut client).await;
    cql(&mut client, table).await;
    for statement in statements {
        prepare(&mut client, &statement).await;
    }
    let kept = db.node.state.metrics.prepared_statements.get();
    db.stop().await;
    kept
}

#[test]
fn prepared_statements_weigh_what_they_hold() {
    run(async {
        let columns: String = (0..1_000).map(|n| format!(", column_{n} int")).collect();
        let wide = format!("CREATE TABLE ks.wide (k int PRIMARY KEY{columns})");
        // Each holds some 240 KiB, 16 KiB of it in each encoding of its columns.
        let of_wide = kept(&wide, (0..150).map(|k| format!("SELECT * FROM ks.wide WHERE k = {k}"))).await;
        assert!((20..=80).contains(&of_wide), "{of_wide}");
        let usual = (0..1_000).map(|k| format!("SELECT v FROM ks.t WHERE k = {k}"));
        let of_usual = kept("CREATE TABLE ks.u (k int PRIMARY KEY)", usual).await;
        assert_eq!(of_usual, 1_000, "usual ones are small");
    });
}
