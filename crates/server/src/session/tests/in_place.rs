//! Reads on the network thread of pages that the page cache has not.

use super::*;
use env::clock::ManualClock;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;

#[test]
fn what_the_system_has_in_memory_is_read_where_it_was_asked_for() {
    run(async {
        let fs = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
        let random = Arc::new(Random::from_seed(1));
        let db = Db::open(&Env::new(Arc::new(ManualClock::default()), random, Arc::new(fs.clone()))).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        // Rows that nothing compresses, a page of which is short and all of which are long.
        let noise = Random::from_seed(2);
        for c in 0..100 {
            let value: String = (0..8_000).map(|_| char::from(b' ' + noise.below(90) as u8)).collect();
            let insert = "INSERT INTO ks.t (k, c, v) VALUES (1, ?, ?)";
            result(client.call(query(insert, with_values(vec![int(c), text(&value)]))).await);
        }
        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("ks", Some("t"))).await.unwrap().unwrap();

        let state = &db.node.state;
        let one = "SELECT c FROM ks.t WHERE k = 1 AND c = 50";
        let long = "SELECT c, v FROM ks.t WHERE k = 1";
        for (is_in_memory, statement, moved) in [(false, one, 1), (true, one, 0), (true, long, 1)] {
            state.engine.page_cache().clear();
            fs.set_in_memory(is_in_memory);
            let before = (state.metrics.reads_moved.get(), state.engine.stats().page_cache.misses);
            let rows = ints(&select(client, statement).await, 0);
            assert!(rows == [50] || rows == (0..100).collect::<Vec<_>>(), "{rows:?}");
            assert_eq!(state.metrics.reads_moved.get() - before.0, moved, "{is_in_memory} {statement}");
            assert!(state.engine.stats().page_cache.misses > before.1);
        }

        // A read that fails there is carried out once more where it may wait.
        state.engine.page_cache().clear();
        let before = state.metrics.reads_moved.get();
        let once = fs.add(Fault::on(Op::Read).path("-Data.db").nth(1));
        assert_eq!(ints(&select(client, one).await, 0), [50]);
        assert_eq!((fs.struck(once), state.metrics.reads_moved.get() - before), (1, 1));
        fs.add(Fault::on(Op::Read).path("-Data.db"));
        state.engine.page_cache().clear();
        let (kind, _) = error(client.call(query(one, params())).await);
        assert!(matches!(kind, ErrorKind::ReadFailure { .. }), "{kind:?}");
        fs.heal();
        db.stop().await;
    });
}
