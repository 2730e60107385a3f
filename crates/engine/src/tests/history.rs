//! Random histories with flushes and restarts, against the naive model.

use super::{create, env_on, options};
use crate::{Engine, WriteOptions};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::Mutation;
use partition::ReadContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::{SourceReader, check_source};

#[test]
fn an_engine_is_a_source_whatever_is_flushed_and_restarted() {
    let histories = AtomicU64::new(0);
    check_source(|table, updates| {
        let random = Random::from_seed(histories.fetch_add(1, Ordering::SeqCst));
        let fs = Arc::new(MemoryFileSystem::new());
        let env = env_on(fs, 1);
        let mut engine = Engine::open(options(), env.clone()).unwrap();
        create(&engine, &[table]);
        for update in updates {
            let ticket = engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap();
            ticket.wait().unwrap();
            match random.below(12) {
                0 | 1 => engine.flush("check", Some(&table.name)).unwrap(),
                2 => {
                    engine.close();
                    engine = Engine::open(options(), env.clone()).unwrap();
                }
                _ => {}
            }
        }
        let reader: SourceReader =
            Box::new(move |command| engine.read(command, &ReadContext::default()).unwrap());
        reader
    });
}
