//! What SSTables are said to hold of parts of the ring.

use super::{create, env_on, insert, options, simple_table, write};
use crate::table::RangeEstimate;
use crate::{Engine, EngineOptions, SsTableFormat, StorageCompatibility};
use env::fs::memory::MemoryFileSystem;
use model::Token;
use model::key::{KeyBound, KeyRange};
use std::sync::Arc;

fn range(start: i64, end: i64) -> KeyRange {
    let bound = |token, inclusive| KeyBound::Token { token: Token(token), inclusive };
    KeyRange { start: bound(start, false), end: bound(end, true) }
}

#[test]
fn partitions_of_a_range_are_estimated_in_either_format() {
    for (format, most_off) in [(SsTableFormat::Big, 128), (SsTableFormat::Bti, 40)] {
        let table = simple_table("t");
        let wanted = EngineOptions {
            sstable_format: format,
            storage_compatibility: StorageCompatibility::None,
            ..options()
        };
        let engine = Engine::open(wanted, env_on(Arc::new(MemoryFileSystem::new()), 5)).unwrap();
        create(&engine, std::slice::from_ref(&table));
        let estimate = |range: &KeyRange| engine.table(table.id).unwrap().estimate(range).unwrap();
        assert_eq!(estimate(&KeyRange::FULL), RangeEstimate::default());
        let mut tokens = Vec::new();
        for k in 0..2_000 {
            write(&engine, &insert(&table, k, 0, "value", 1)).unwrap();
            tokens.push(super::key(k).token.0);
        }
        assert_eq!(estimate(&KeyRange::FULL), RangeEstimate::default(), "memtables do not count");
        engine.flush("ks", None).unwrap();
        let quarter = i64::MAX / 2;
        let parts =
            [range(i64::MIN, -quarter), range(-quarter, 0), range(0, quarter), range(quarter, i64::MAX)];
        for part in parts {
            let exact = tokens.iter().filter(|token| {
                let (KeyBound::Token { token: start, .. }, KeyBound::Token { token: end, .. }) =
                    (&part.start, &part.end)
                else {
                    unreachable!()
                };
                **token > start.0 && **token <= end.0
            });
            let (exact, found) = (exact.count() as i64, estimate(&part));
            let off = found.partitions as i64 - exact;
            assert!(off.abs() <= most_off, "{format:?} {part:?}: {} of {exact}", found.partitions);
            assert!((20..60).contains(&found.partition_bytes_mean), "{found:?}");
        }
        // A range between two neighbours has none, and an SSTable that reaches over it counts for one.
        tokens.sort_unstable();
        assert_eq!(estimate(&range(tokens[1_000], tokens[1_001] - 1)).partitions, 1);
    }
}
