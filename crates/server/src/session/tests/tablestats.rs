//! The numbers of a table that operators see.

use super::*;
use crate::storage;
use tools::api::TableReport;

async fn report(db: &Db, table: &'static str) -> TableReport {
    let state = Arc::clone(&db.node.state);
    let all = tokio::task::spawn_blocking(move || storage::tables_with_times(&state)).await.unwrap();
    all.into_iter().find(|report| report.keyspace == "ks" && report.table == table).unwrap()
}

#[test]
fn a_table_counts_what_is_written_to_it_and_read_of_it() {
    run(async {
        let db = Db::open(&Env::for_test(1)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let batch = "BEGIN UNLOGGED BATCH \
                     INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a'); \
                     INSERT INTO ks.t (k, c, v) VALUES (1, 2, 'b'); \
                     INSERT INTO ks.t (k, c, v) VALUES (1, 3, 'c'); APPLY BATCH";
        cql(&mut client, batch).await;
        cql(&mut client, "DELETE FROM ks.t WHERE k = 1 AND c = 2").await;
        let before = report(&db, "t").await;
        assert_eq!((before.memtable_operations, before.memtable_switches), (4, 0));
        assert!(before.memtable_data_bytes > 100 && before.memtable_data_bytes < before.memtable_bytes);
        assert_eq!((before.rows_per_read_mean, before.rows_per_read_max), (None, 0));

        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("ks", None)).await.unwrap().unwrap();
        select(&mut client, "SELECT * FROM ks.t WHERE k = 1").await;
        let after = report(&db, "t").await;
        assert_eq!((after.memtable_operations, after.memtable_switches, after.sstables), (0, 1, 1));
        assert_eq!((after.rows_per_read_mean, after.rows_per_read_max), (Some(2.0), 2));
        assert_eq!((after.tombstones_per_read_mean, after.tombstones_per_read_max), (Some(1.0), 1));
        assert!(after.partition_min_bytes > 20 && after.partition_min_bytes < after.partition_max_bytes);
        assert!(after.unrepaired_bytes > 0 && after.repaired_bytes + after.pending_repair_bytes == 0);
        assert_eq!((after.old_sstables, after.bloom_false_positives), (0, 0));
        assert_eq!(after.droppable_tombstone_ratio, 0.0, "its grace is not over");
        assert!(after.levels.is_empty() && after.time_window.is_none());

        let window = "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', \
                      'compaction_window_size': 2}";
        for (table, compaction) in [("w", window), ("l", "{'class': 'LeveledCompactionStrategy'}")] {
            let create =
                format!("CREATE TABLE ks.{table} (k int PRIMARY KEY) WITH compaction = {compaction}");
            cql(&mut client, &create).await;
        }
        assert_eq!(report(&db, "w").await.time_window.as_deref(), Some("2 HOURS"));
        assert_eq!(report(&db, "l").await.levels, [0; 9]);
        db.stop().await;
    });
}
