use super::*;
use crate::cache::{CacheStats, PageCache};
use env::random::Random;
use foldhash::fast::FixedState;
use partition::{ReadContext, ReadError};
use sstable::{FileId, FilePart, PageSource};

type Cache = TinyLfu<u64, u64, FixedState>;

/// One shard of a hundred entries, each of weight 10.
fn cache() -> Cache {
    let cache = Cache::new(1_000, 10, FixedState::default());
    assert_eq!(cache.shards.len(), 1);
    cache
}

fn ask(cache: &Cache, key: u64) -> bool {
    let found = cache.get(&key);
    match found {
        Some(value) => assert_eq!(value, key),
        None => cache.insert(key, key, 10, 1),
    }
    found.is_some()
}

fn hits(cache: &Cache, keys: std::ops::Range<u64>) -> usize {
    keys.filter(|key| ask(cache, *key)).count()
}

#[test]
fn used_entries_outlive_thirty_times_the_cache_that_is_asked_for_once() {
    let cache = cache();
    for _ in 0..3 {
        hits(&cache, 0..60);
    }
    hits(&cache, 1_000..4_000);
    assert!(hits(&cache, 0..60) >= 57);
}

#[test]
fn uses_right_after_the_entry_came_do_not_count() {
    let cache = cache();
    for _ in 0..3 {
        hits(&cache, 0..60);
    }
    for key in 1_000..4_000 {
        hits(&cache, key..key + 1);
        assert_eq!((0..9).filter(|_| ask(&cache, key)).count(), 9);
    }
    assert!(hits(&cache, 0..60) >= 57);
}

#[test]
fn what_is_needed_often_outlives_what_is_needed_now_and_then() {
    let cache = cache();
    let random = Random::from_seed(1);
    let mut missed = 0;
    // The rare ones are ten times what fits; one of them is needed a tenth as often as a hot one.
    for n in 0..100_000 {
        ask(&cache, 1_000 + random.below(1_000));
        if n % 2 == 0 {
            missed += usize::from(!ask(&cache, random.below(50)) && n > 10_000);
        }
    }
    assert!(missed < 45_000 / 50, "{missed}");
}

#[test]
fn entries_that_are_only_looked_at_make_room_for_known_ones() {
    let cache = cache();
    hits(&cache, 0..80);
    for _ in 0..20 {
        assert!((0..80).all(|key| cache.read(&key, false, |_| ()).is_some()));
    }
    (100..180).for_each(|key| cache.insert(key, key, 10, 4));
    hits(&cache, 1_000..1_100);
    assert_eq!((100..180).filter(|key| cache.read(key, false, |_| ()).is_some()).count(), 80);
}

#[test]
fn a_new_working_set_takes_the_place_of_the_old_one() {
    let cache = cache();
    for _ in 0..20 {
        hits(&cache, 0..80);
    }
    for _ in 0..20 {
        hits(&cache, 100..180);
    }
    assert_eq!(hits(&cache, 100..180), 80);
}

/// As [`ask`], of what the cache may pass by.
fn ask_by_offer(cache: &Cache, key: u64) -> bool {
    let found = cache.get(&key).is_some();
    if !found {
        cache.offer(key, key, 10);
    }
    found
}

#[test]
fn what_would_leave_unused_is_mostly_passed_by() {
    let (choosy, other) = (cache(), cache());
    let random = Random::from_seed(5);
    let (mut kept, mut expected) = (0, 0);
    for _ in 0..50_000 {
        let key = random.below(400);
        kept += usize::from(ask_by_offer(&choosy, key));
        expected += usize::from(ask(&other, key));
    }
    let (insertions, misses) = (choosy.usage().insertions as usize, 50_000 - kept);
    assert!(insertions > misses / 5 && insertions < misses * 3 / 10, "{insertions} of {misses}");
    assert!(kept * 50 > expected * 49, "{kept}, {expected}");
    // A hot one among them does not wait for its turn for long.
    let misses = (0..1_000).filter(|_| {
        ask_by_offer(&choosy, random.below(400));
        !ask_by_offer(&choosy, 500)
    });
    assert!(misses.count() < 20);
}

#[test]
fn what_is_asked_for_again_soon_is_let_in_again() {
    let cache = cache();
    let random = Random::from_seed(6);
    (0..5_000).for_each(|_| {
        ask_by_offer(&cache, random.below(400));
    });
    // A walk over pages of four rows, while the others go on.
    let walk = |pages: std::ops::Range<u64>| {
        let asked = pages.flat_map(|page| [page; 4]).filter(|page| {
            ask_by_offer(&cache, random.below(400));
            !ask_by_offer(&cache, *page)
        });
        asked.count()
    };
    walk(1_000..1_300);
    let misses = walk(2_000..2_100);
    assert!(misses < 110, "{misses}");
}

#[test]
fn the_weight_is_bounded_and_counted_whatever_is_done() {
    let random = Random::from_seed(3);
    let cache = cache();
    for step in 0..20_000 {
        let key = random.below(150);
        match random.below(100) {
            0 => cache.clear(),
            n if n < 50 => drop(cache.get(&key)),
            n if n % 2 == 0 => cache.offer(key, key, n * n / 10),
            n => cache.insert(key, key, n * n / 10, 1),
        }
        let shard = cache.shards[0].read();
        let mut seen = (0, 0, 0);
        for (queue, place) in [(&shard.window, Place::Window), (&shard.main, Place::Main)] {
            let (mut at, mut weight, mut older) = (queue.oldest, 0, NONE);
            while at != NONE {
                let slot = &shard.slots[at as usize];
                let entry = slot.entry.as_ref().unwrap();
                assert_eq!((entry.place, slot.older), (place, older), "{step}");
                assert_eq!(shard.find(entry.hash, &entry.key), Some(at));
                weight += entry.weight;
                seen.0 += 1;
                (older, at) = (at, slot.newer);
            }
            assert_eq!((queue.weight, queue.newest), (weight, older));
            seen.1 += weight;
        }
        let mut free = shard.free;
        while free != NONE {
            assert!(shard.slots[free as usize].entry.is_none());
            seen.2 += 1;
            free = shard.slots[free as usize].older;
        }
        assert_eq!(seen.0, shard.by_key.len());
        assert_eq!(seen.0 + seen.2, shard.slots.len());
        assert!(seen.1 <= 1_000, "{step}: {seen:?}");
    }
}

#[test]
fn what_is_too_large_is_not_kept_and_takes_nothing_with_it() {
    let cache = cache();
    hits(&cache, 0..100);
    cache.insert(7, 7, 501, 1);
    assert_eq!((cache.get(&7), cache.usage().entries), (None, 99));
    assert_eq!(cache.usage().weight, 990);
}

#[test]
fn a_cleared_cache_is_empty_and_keeps_its_counters() {
    let cache = cache();
    hits(&cache, 0..50);
    assert_eq!(hits(&cache, 0..50), 50);
    cache.clear();
    let usage = cache.usage();
    assert_eq!((usage.entries, usage.weight, usage.capacity), (0, 0, 1_000));
    assert_eq!((usage.hits, usage.insertions), (50, 50));
    assert_eq!(hits(&cache, 0..50), 0);
}

#[test]
fn what_is_not_retained_is_gone_and_the_rest_is_found() {
    let cache = cache();
    hits(&cache, 0..80);
    cache.retain(|key| key % 2 == 0);
    let usage = cache.usage();
    assert_eq!((usage.entries, usage.weight, usage.evictions), (40, 400, 0));
    assert!((0..80).all(|key| cache.read(&key, false, |_| ()).is_some() == (key % 2 == 0)));
    assert_eq!(hits(&cache, 0..100), 40);
    assert_eq!(cache.usage().entries, 100);
}

#[test]
fn what_is_not_retained_goes_by_and_by() {
    // Several shards, and steps in each.
    let cache = Cache::new(100_000, 10, FixedState::default());
    for key in 0..9_000 {
        ask(&cache, key);
    }
    let before = cache.usage();
    cache.retain_by_and_by(|key| key % 3 == 0);
    let usage = cache.usage();
    assert_eq!((usage.entries, usage.evictions), ((0..9_000).step_by(3).count() as u64, before.evictions));
    assert!((0..9_000).all(|key| cache.contains(&key) == (key % 3 == 0)));
    cache.retain_by_and_by(|_| false);
    assert_eq!((cache.usage().entries, cache.usage().weight), (0, 0));
}

#[test]
fn what_is_removed_by_and_by_is_as_if_it_was_not_retained() {
    let [by_key, by_walk] = [(); 2].map(|()| {
        let cache = Cache::new(100_000, 10, FixedState::default());
        (0..9_000).for_each(|key| assert!(!ask(&cache, key)));
        (0..5_000).for_each(|key| assert!(ask(&cache, key)));
        cache
    });
    let before = by_key.usage();
    // Some of the keys are not there.
    by_key.remove_by_and_by((0..20_000).step_by(3));
    by_walk.retain_by_and_by(|key| key % 3 != 0);
    let entries = before.entries - 3_000;
    assert_eq!(by_key.usage(), Usage { entries, weight: entries * 10, ..before });
    assert_eq!(by_walk.usage(), by_key.usage());
    for key in 0..9_000 {
        assert_eq!((by_key.contains(&key), by_walk.contains(&key)), (key % 3 != 0, key % 3 != 0), "{key}");
    }
    // What comes now takes the places that are free.
    let slots = by_key.slots();
    assert_eq!(hits(&by_key, 0..9_000), 6_000);
    assert_eq!((by_key.slots(), by_key.usage().entries), (slots, before.entries));
    by_key.remove_by_and_by(0..9_000);
    assert_eq!((by_key.usage().entries, by_key.usage().weight), (0, 0));
}

#[test]
fn keys_that_are_not_there_are_looked_for_beside_readers() {
    let cache = cache();
    hits(&cache, 0..50);
    let reader = cache.shards[0].read();
    cache.remove_by_and_by(50..1_000);
    drop(reader);
    assert_eq!(cache.usage().entries, 50);
}

#[test]
fn pages_of_gone_sstables_leave_the_page_cache_by_the_shorter_way() {
    let file = |sstable, part| FileId { sstable, part };
    let gone = [file(2, FilePart::Data), file(2, FilePart::Index), file(4, FilePart::Data)];
    let pages = || gone.iter().flat_map(|file| (0..40).map(|page| (*file, page)));
    for others in [200, 20_000] {
        let cache = PageCache::new(1 << 30);
        for page in 0..others {
            cache.keep(file(page % 2 * 2 + 1, FilePart::Data), page, b"stays", 1);
        }
        pages().for_each(|(file, page)| cache.keep(file, page, b"goes", 1));
        let unlisted = (file(4, FilePart::Rows), 0);
        cache.keep(unlisted.0, unlisted.1, b"is in no file", 1);
        let before = cache.stats();
        cache.forget(&[4, 2], pages().count() as u64, &mut pages());
        assert!(pages().all(|(file, page)| !cache.has(file, page)));
        // Only who goes over everything finds what is in no list.
        let by_key = others > 200;
        assert_eq!(cache.has(unlisted.0, unlisted.1), by_key);
        let bytes = cache.stats().bytes;
        assert_eq!(cache.stats(), CacheStats { entries: others + u64::from(by_key), bytes, ..before });
        assert!(bytes < before.bytes && bytes > others * 96);
        for page in 0..others {
            assert!(cache.has(file(page % 2 * 2 + 1, FilePart::Data), page));
        }
    }
}

#[test]
fn shards_share_the_capacity() {
    let cache = Cache::new(100_000, 10, FixedState::default());
    assert_eq!(cache.shards.len(), 16);
    for key in 0..50_000 {
        ask(&cache, key);
    }
    let usage = cache.usage();
    assert_eq!(usage.capacity, 100_000);
    assert!(usage.weight > 99_000 && usage.weight <= 100_000, "{usage:?}");
    assert_eq!(usage.insertions - usage.evictions, usage.entries);
}

#[test]
fn a_smaller_capacity_leaves_what_is_needed_and_a_larger_one_everything() {
    let cache = cache();
    hits(&cache, 0..100);
    for _ in 0..5 {
        hits(&cache, 40..60);
    }
    cache.set_capacity(300);
    let usage = cache.usage();
    assert!(usage.weight <= 300 && usage.entries >= 20, "{usage:?}");
    assert_eq!((usage.capacity, usage.evictions), (300, 100 - usage.entries));
    let stayed = (40..60).filter(|key| cache.contains(key)).count();
    assert!(stayed >= 18, "{stayed} of 20 stayed");
    hits(&cache, 1_000..2_000);
    assert!(cache.usage().weight <= 300);
    let before = cache.usage();
    cache.set_capacity(10_000);
    assert_eq!(cache.usage().entries, before.entries);
    hits(&cache, 0..500);
    assert!(cache.usage().entries >= 500, "{:?}", cache.usage());
}

#[test]
fn who_may_not_wait_finds_what_is_there_unless_the_shard_is_being_changed() {
    let cache = cache();
    cache.insert(1, 1, 10, 1);
    let found = [
        cache.try_read(&1, true, u64::clone),
        cache.try_read(&1, false, u64::clone),
        cache.try_read(&2, true, u64::clone),
    ];
    assert_eq!(found, [Ok(Some(1)), Ok(Some(1)), Ok(None)]);
    assert_eq!(cache.usage().hits, 2);
    let other_reader = cache.shards[0].read();
    assert_eq!(cache.try_read(&1, true, u64::clone), Ok(Some(1)));
    drop(other_reader);
    let writer = cache.shards[0].write();
    assert_eq!(cache.try_read(&1, true, u64::clone), Err(Busy));
    drop(writer);
    assert_eq!(cache.try_read(&1, true, u64::clone), Ok(Some(1)));
}

#[test]
fn a_read_that_may_not_block_does_not_wait_for_a_thread_that_changes_the_page_cache() {
    let pages = PageCache::new(1 << 20);
    let file = FileId { sstable: 1, part: FilePart::Data };
    pages.keep(file, 0, b"page", 1);
    let at_once = ReadContext { may_block: false, ..ReadContext::default() };
    let mut load = || panic!("it is there");
    assert_eq!(pages.page(file, 0, &at_once, &mut load).unwrap(), "page");
    let writers: Vec<_> = pages.cache.shards.iter().map(|shard| shard.write()).collect();
    let busy = pages.page(file, 0, &at_once, &mut load);
    assert!(matches!(busy, Err(ReadError::WouldBlock)), "{busy:?}");
    drop(writers);
    assert_eq!(pages.page(file, 0, &at_once, &mut load).unwrap(), "page");
}

#[test]
fn a_look_at_a_page_counts_as_one_that_is_kept_does_and_loads_nothing() {
    let cache = PageCache::new(1 << 20);
    let file = FileId { sstable: 1, part: FilePart::Index };
    let context = ReadContext::default();
    let look = |page| {
        let mut seen = None;
        let found = cache.look(file, page, &context, &mut |content| seen = Some(content.to_vec())).unwrap();
        assert_eq!(found, seen.is_some());
        seen
    };
    assert_eq!(look(7), None);
    let cost = context.cost.snapshot();
    assert_eq!((cost.index_page_hits, cost.index_page_misses, cache.stats().misses), (0, 0, 0));
    cache.page(file, 7, &context, &mut || Ok(bytes::Bytes::from_static(b"page"))).unwrap();
    assert_eq!(look(7).as_deref(), Some(&b"page"[..]));
    assert_eq!((context.cost.index_page_hits.get(), cache.stats().hits), (1, 1));
    let writer = cache.cache.shards.iter().map(|shard| shard.write()).collect::<Vec<_>>();
    let hurried = ReadContext { may_block: false, ..context.clone() };
    let found = cache.look(file, 7, &hurried, &mut |_| panic!("the shard is being changed"));
    assert!(matches!(found, Err(ReadError::WouldBlock)), "{found:?}");
    drop(writer);
}
