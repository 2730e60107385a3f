//! Picks of the strategies, one behaviour a test.

use super::unified::{parse_bytes, parse_scaling};
use super::*;
use model::{PartitionKey, Token};

const MIB: u64 = 1 << 20;
const DAY: i64 = 86_400_000_000;

fn key(token: i64) -> DecoratedKey {
    let key = PartitionKey(bytes::Bytes::copy_from_slice(&token.to_be_bytes()));
    DecoratedKey { token: Token(token), key }
}

fn sstable(id: u64, bytes: u64) -> Candidate {
    Candidate {
        id,
        bytes,
        level: 0,
        timestamps: (0, id as i64),
        keys: (key(i64::MIN + 1), key(i64::MAX)),
        max_local_deletion_time: u32::MAX,
        droppable_ratio: 0.0,
        age_s: 0,
    }
}

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn in_level(id: u64, level: u32, from: i64, to: i64) -> Candidate {
    Candidate { level, keys: (key(from), key(to)), ..sstable(id, 160 * MIB) }
}

#[test]
fn size_tiered_takes_the_bucket_of_the_smallest_that_is_full() {
    let strategy = SizeTiered::new(&options(&[]));
    let mut candidates: Vec<_> = (0..4).map(|i| sstable(i, 1000 * MIB + i)).collect();
    candidates.extend((4..7).map(|i| sstable(i, 60 * MIB)));
    assert_eq!(strategy.pick(&candidates).map(|p| p.inputs), Some(vec![0, 1, 2, 3]));
    candidates.push(sstable(7, 60 * MIB));
    assert_eq!(strategy.pick(&candidates).map(|p| p.inputs), Some(vec![4, 5, 6, 7]));
    assert_eq!(strategy.pending(&candidates), 2);
    assert_eq!(strategy.pick(&candidates[..3]), None);
}

#[test]
fn size_tiered_puts_all_small_ones_together_and_takes_no_more_than_the_maximum() {
    let strategy = SizeTiered::new(&options(&[("max_threshold", "5")]));
    let candidates: Vec<_> = (0..9).map(|i| sstable(i, 1 << (2 * i))).collect();
    assert_eq!(strategy.pick(&candidates).map(|p| p.inputs), Some(vec![0, 1, 2, 3, 4]));
}

#[test]
fn an_sstable_of_tombstones_is_rewritten_unless_they_may_shadow_older_data() {
    let mut full = sstable(1, MIB);
    full.droppable_ratio = 0.5;
    full.age_s = 100_000;
    full.timestamps = (50, 60);
    let strategy = SizeTiered::new(&options(&[]));
    assert_eq!(strategy.pick(std::slice::from_ref(&full)).map(|p| p.inputs), Some(vec![1]));
    let mut older = sstable(2, MIB);
    older.timestamps = (10, 20);
    assert_eq!(strategy.pick(&[full.clone(), older.clone()]), None);
    let unchecked = SizeTiered::new(&options(&[("unchecked_tombstone_compaction", "true")]));
    assert_eq!(unchecked.pick(&[full.clone(), older]).map(|p| p.inputs), Some(vec![1]));
    full.age_s = 10;
    assert_eq!(strategy.pick(&[full]), None);
}

#[test]
fn windows_that_are_over_are_compacted_with_nothing_else() {
    let strategy = TimeWindow::new(&options(&[]));
    let at = |id: u64, day: i64| Candidate { timestamps: (0, day * DAY + 5), ..sstable(id, 60 * MIB) };
    let candidates = [at(1, 3), at(2, 3), at(3, 3), at(4, 2), at(5, 1), at(6, 1)];
    assert_eq!(strategy.pick(&candidates).map(|p| p.inputs), Some(vec![5, 6]));
    assert_eq!(strategy.pending(&candidates), 1);
    assert_eq!(strategy.major(&candidates).len(), 2);
    let hours = TimeWindow::new(&options(&[("compaction_window_unit", "HOURS")]));
    assert_eq!(hours.window(2 * 3_600_000_000 + 1), 2);
    assert_eq!(hours.window(-1), -1);
}

#[test]
fn everything_expired_goes_whole_unless_it_shadows_what_lives() {
    let dead = |id: u64, newest: i64| Candidate {
        max_local_deletion_time: 499,
        timestamps: (0, newest),
        ..sstable(id, MIB)
    };
    let mut living = sstable(9, MIB);
    living.timestamps = (100, 200);
    let candidates = [dead(1, 99), dead(2, 100), living];
    let gone: Vec<u64> = fully_expired(&candidates, &[], i64::MAX, 500).iter().map(|c| c.id).collect();
    assert_eq!(gone, [1]);
    assert!(fully_expired(&candidates, &[], 50, 500).is_empty());
    assert!(fully_expired(&candidates, &[], i64::MAX, 499).is_empty());
}

#[test]
fn level_zero_goes_down_with_everything_it_overlaps() {
    let strategy = Leveled::new(&options(&[]));
    let mut candidates: Vec<_> = (0..4).map(|i| in_level(i, 0, 0, 100)).collect();
    candidates.extend([in_level(10, 1, 50, 60), in_level(11, 1, 200, 300)]);
    let pick = strategy.pick(&candidates).unwrap();
    assert_eq!(pick.inputs, [0, 1, 2, 3, 10]);
    assert_eq!((pick.output.level, pick.output.sstable_bytes), (1, 160 * MIB));
    assert_eq!(strategy.pick(&candidates[1..]), None);
}

#[test]
fn a_level_over_its_size_moves_the_cheapest_sstable_down() {
    let strategy = Leveled::new(&options(&[]));
    let mut candidates: Vec<_> = (0..11).map(|i| in_level(i as u64, 1, i * 100, i * 100 + 99)).collect();
    candidates.extend((0..10).map(|i| in_level(100 + i as u64, 2, i * 100, i * 100 + 50)));
    let pick = strategy.pick(&candidates).unwrap();
    assert_eq!(pick.inputs, [10]);
    assert_eq!(pick.output.level, 2);
}

#[test]
fn a_crowded_level_zero_is_tiered_first() {
    let strategy = Leveled::new(&options(&[]));
    let candidates: Vec<_> = (0..40).map(|i| in_level(i, 0, 0, 100)).collect();
    let pick = strategy.pick(&candidates).unwrap();
    assert_eq!((pick.inputs.len(), pick.output.level), (32, 0));
}

#[test]
fn unified_compacts_where_enough_overlap_on_a_level() {
    let strategy = Unified::new(&options(&[]));
    let candidates: Vec<_> = (0..4).map(|i| sstable(i, 90 * MIB)).collect();
    assert_eq!(strategy.pick(&candidates).map(|p| p.inputs), Some(vec![0, 1, 2, 3]));
    assert_eq!(strategy.pick(&candidates[..3]), None);
    let leveled = Unified::new(&options(&[("scaling_parameters", "L4")]));
    assert_eq!(leveled.pick(&candidates[..2]).map(|p| p.inputs), Some(vec![0, 1]));
    // Four SSTables side by side overlap nowhere.
    let quarter = i64::MAX / 2;
    let apart: Vec<_> = [i64::MIN + 1, -quarter, 0, quarter]
        .iter()
        .enumerate()
        .map(|(i, from)| Candidate {
            keys: (key(*from), key(from + quarter - 5)),
            ..sstable(i as u64, 90 * MIB)
        })
        .collect();
    assert_eq!(strategy.pick(&apart), None);
}

#[test]
fn unified_shards_keep_sstables_near_their_target() {
    let strategy = Unified::new(&options(&[("sstable_growth", "0")]));
    assert_eq!(strategy.shards_for(50.0 * MIB as f64), 1);
    assert_eq!(strategy.shards_for(1024.0 * MIB as f64), 4);
    assert_eq!(strategy.shards_for(32.0 * 1024.0 * MIB as f64), 32);
    assert_eq!(parse_scaling("T4"), Some(2));
    assert_eq!(parse_scaling("L10"), Some(-8));
    assert_eq!(parse_scaling("N"), Some(0));
    assert_eq!(parse_bytes("1GiB"), Some(1024.0 * MIB as f64));
}
