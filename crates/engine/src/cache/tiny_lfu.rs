//! A bounded map that keeps what is used most: W-TinyLFU, in shards, weighted by bytes.
//!
//! ```text
//! new ──▶ window, a tenth ──needed more often than main's oldest──▶ main ──used: once more around──┐
//!              │                                                    ▲  │  ◀──────────────────────┘
//!              ▼                                                    └──┘
//!            gone, its count stays in the sketch                      ▼ needed less often: gone
//! ```
//!
//! 1. What is new enters the window and passes through it once. At its end it is held against the oldest of
//!    `main`: of the two, the one that was needed less often leaves, and always one that was needed but once.
//!    So a flood of entries that are needed once, or now and then, never displaces those that are needed more
//!    often, whatever either of them holds.
//! 2. How often a key was needed, resident or not, is counted in a [`Sketch`] that forgets: all counts are
//!    halved now and then, so a new working set takes the place of an old one. Hits are counted in the entry
//!    and added to the sketch when the entry's turn comes.
//! 3. The exception: a hit soon after the entry came is not counted. One read looks several times at a page
//!    that it has just loaded, and a client that walks through a table row by row does so to each chunk;
//!    neither will come again. Soon means: before the shard saw a quarter as many hits and insertions as it
//!    holds entries.
//! 4. Taking in what leaves unused costs more than finding it missing: memory for it, and places in memory
//!    that the processor does not have at hand. So while what is in the window is hardly asked for there, as
//!    with single rows out of twice what fits, a full cache takes in only one in four that [`TinyLfu::offer`]
//!    offers it ([`AdmissionFilter`]); all are counted.
//!
//! A hit takes a shard's lock shared and writes two counters. Who may not wait does not do so for the lock
//! either ([`TinyLfu::try_read`]): a thread that puts something in may lose its processor in the middle of
//! it. After: Einziger et al., *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM ToS 2017; rule 3 is
//! the correlated reference period of LRU-K (O'Neil et al., SIGMOD 1993).

mod sketch;

use crate::turns::give_way;
use env::sync::RwLock;
use hashbrown::HashTable;
use sketch::{COUNT_MAX, Sketch};
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The part of the weight that the window has: one in so many.
const WINDOW_PART: u64 = 10;
/// The part of its entries that a shard has to see as hits and insertions before the use of a new one counts:
/// one in so many.
const CORRELATED_PART: u64 = 4;
/// Shards, at most.
const SHARDS_MAX: u64 = 16;
/// Entries that a shard should hold.
const SHARD_ENTRIES_MIN: u64 = 256;
/// Entries that leave under one lock when the cache becomes smaller, or others are to stay.
const LEAVE_AT_ONCE: usize = 64;
/// Slots that are looked at under one lock, which readers share.
const LOOK_AT_ONCE: usize = 128;
/// How often a shard's lock is tried by who may not wait for it: a few microseconds, as much as an insertion
/// takes.
const TRIES: u32 = 64;
/// Offers after which a shard looks whether its window is of use.
const OFFERS_LOOKED_AT: u32 = 256;
/// It is if at least one in so many is asked for in it, for each offer.
const USE_PART: u32 = 8;
/// Of the others one in so many is taken in.
const SAMPLE_PART: u32 = 4;
/// No slot.
const NONE: u32 = u32::MAX;

/// A shard is being changed, and whoever does that is not done soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Counters of a cache since it was made, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub entries: u64,
    pub weight: u64,
    pub capacity: u64,
    pub hits: u64,
    pub insertions: u64,
    pub evictions: u64,
}

/// The cache.
pub(crate) struct TinyLfu<K, V, S> {
    shards: Box<[RwLock<Shard<K, V>>]>,
    typical_weight: u64,
    hasher: S,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Window,
    Main,
}

/// A hit looks at the first half, which is one line of the processor's cache, where key and value are short
/// as those of pages are.
#[repr(C, align(64))]
struct Slot<K, V> {
    /// `None` in a free slot.
    entry: Option<Entry<K, V>>,
    /// Towards the end at which entries leave; in a free slot, the next free one.
    older: u32,
    newer: u32,
}

#[repr(C)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// The shard's clock when the entry came, as far as that fits.
    came: u32,
    /// Hits that are not in the sketch yet.
    uses: AtomicU8,
    place: Place,
    hash: u64,
    weight: u64,
}

/// A queue through the slots.
#[derive(Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
    weight: u64,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { oldest: NONE, newest: NONE, weight: 0 }
    }
}

/// Whether what is offered is taken in.
#[derive(Debug, Default)]
struct AdmissionFilter {
    /// Since it was last looked whether the window is of use.
    offers: u32,
    window_hits: AtomicU32,
    is_shut: bool,
}

impl AdmissionFilter {
    /// Counts an offer, and says whether it is to be taken in.
    fn lets_in(&mut self) -> bool {
        if self.offers == OFFERS_LOOKED_AT {
            let hits = std::mem::take(self.window_hits.get_mut());
            (self.offers, self.is_shut) = (0, hits < OFFERS_LOOKED_AT / USE_PART);
        }
        self.offers += 1;
        !self.is_shut || self.offers.is_multiple_of(SAMPLE_PART)
    }
}

struct Shard<K, V> {
    by_key: HashTable<u32>,
    slots: Vec<Slot<K, V>>,
    free: u32,
    window: Queue,
    main: Queue,
    door: AdmissionFilter,
    sketch: Sketch,
    capacity: u64,
    /// How many it is expected to hold.
    entries: u64,
    hits: AtomicU64,
    insertions: u64,
    evictions: u64,
}

impl<K: Hash + Eq, V: Clone, S: BuildHasher> TinyLfu<K, V, S> {
    /// A cache of entries that weigh at most `capacity` together, each about `typical_weight`.
    pub fn new(capacity: u64, typical_weight: u64, hasher: S) -> Self {
        let typical_weight = typical_weight.max(1);
        let entries = capacity / typical_weight;
        let shards = (entries / SHARD_ENTRIES_MIN).clamp(1, SHARDS_MAX).next_power_of_two();
        let shard = || RwLock::new(Shard::new(capacity / shards, (entries / shards).max(1)));
        TinyLfu { shards: (0..shards).map(|_| shard()).collect(), typical_weight, hasher }
    }

    /// Gives it another capacity; what is too much then leaves as it would for something new. How often keys
    /// were needed is forgotten. It has as many shards as before.
    pub fn set_capacity(&self, capacity: u64) {
        let capacity = capacity / self.shards.len() as u64;
        let entries = (capacity / self.typical_weight).max(1);
        for shard in &self.shards {
            let mut changed = shard.write();
            (changed.capacity, changed.entries) = (capacity, entries);
            changed.sketch = Sketch::new(entries);
            drop(changed);
            // Who looks something up meanwhile waits for a few of them only.
            loop {
                let mut shard = shard.write();
                let gone: Vec<_> = (0..LEAVE_AT_ONCE).map_while(|_| shard.shrink()).collect();
                drop(shard);
                if gone.is_empty() {
                    break;
                }
            }
        }
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard<K, V>> {
        // The table takes its buckets from the low bits and its tags from the highest seven.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)]
    }

    /// The value, if it is here; a hit counts for its staying.
    pub fn get(&self, key: &K) -> Option<V> {
        self.read(key, true, V::clone)
    }

    /// What `read` makes of the value under the shard's lock, if it is here; a hit counts for its
    /// staying if it `counts`, and otherwise for nothing but [`Usage::hits`].
    pub fn read<R>(&self, key: &K, counts: bool, read: impl FnOnce(&V) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).read().hit(hash, key, counts, read)
    }

    /// As [`Self::read`], but without waiting for a thread that has a shard's lock and perhaps no processor.
    pub fn try_read<R>(&self, key: &K, counts: bool, read: impl FnOnce(&V) -> R) -> Result<Option<R>, Busy> {
        let hash = self.hasher.hash_one(key);
        let lock = self.shard(hash);
        let shard = (0..TRIES).find_map(|_| {
            let shard = lock.try_read();
            if shard.is_none() {
                std::hint::spin_loop();
            }
            shard
        });
        Ok(shard.ok_or(Busy)?.hit(hash, key, counts, read))
    }

    /// Whether a value is there. Counts nothing.
    pub fn contains(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).read().find(hash, key).is_some()
    }

    /// Puts a value in, in place of one that is there, as needed `count` times more. What would take more
    /// than [`Self::weight_max`] is not kept.
    pub fn insert(&self, key: K, value: V, weight: u64, count: u8) {
        self.insert_if(key, value, weight, count, || true);
    }

    /// As [`Self::insert`] for what is needed now, but a full cache may pass it by: most of it, while what
    /// came in lately was hardly needed again soon.
    pub fn offer(&self, key: K, value: V, weight: u64) {
        let hash = self.hasher.hash_one(&key);
        let mut gone = Vec::new();
        let mut shard = self.shard(hash).write();
        shard.sketch.add(hash, 1);
        if !shard.is_full(weight) || shard.door.lets_in() {
            shard.insert(hash, key, value, weight, &mut gone);
        }
    }

    /// As [`Self::insert`], if the value is still good when nobody else can put it in or take it out
    /// ([`Self::remove`]).
    pub fn insert_if(&self, key: K, value: V, weight: u64, count: u8, is_good: impl FnOnce() -> bool) {
        let hash = self.hasher.hash_one(&key);
        // What leaves is dropped after the lock was let go.
        let mut gone = Vec::new();
        let mut shard = self.shard(hash).write();
        if is_good() {
            shard.sketch.add(hash, count);
            shard.insert(hash, key, value, weight, &mut gone);
        }
    }

    /// Takes a value out.
    pub fn remove(&self, key: &K) {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).write();
        let gone = shard.find(hash, key).and_then(|slot| shard.remove(slot));
        drop(shard);
        drop(gone);
    }

    /// The weight above which a value is not kept: half of a shard's.
    pub fn weight_max(&self) -> u64 {
        self.shards[0].read().capacity / 2
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().by_key.is_empty())
    }

    /// Empties the cache; how often keys were needed is forgotten, too.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.write();
            let mut empty = Shard::new(shard.capacity, shard.entries);
            (empty.insertions, empty.evictions) = (shard.insertions, shard.evictions);
            empty.hits = AtomicU64::new(*shard.hits.get_mut());
            let full = std::mem::replace(&mut *shard, empty);
            drop(shard);
            drop(full);
        }
    }

    /// Takes out the entries whose keys are not to stay. Looks at all of them.
    pub fn retain(&self, stays: impl Fn(&K) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.write();
            let goes = |slot: &u32| shard.entry(*slot).is_some_and(|entry| !stays(&entry.key));
            let going: Vec<u32> = (0..shard.slots.len() as u32).filter(goes).collect();
            let gone: Vec<_> = going.into_iter().filter_map(|slot| shard.remove(slot)).collect();
            drop(shard);
            drop(gone);
        }
    }

    /// As [`Self::retain`], in short steps, for who has time: others wait for a lock no longer than for an
    /// insertion, and the processor is offered to them in between. What comes in meanwhile may be missed.
    pub fn retain_by_and_by(&self, stays: impl Fn(&K) -> bool) {
        for shard in &self.shards {
            let mut from = 0;
            while from < shard.read().slots.len() {
                let some = from..from + LOOK_AT_ONCE;
                let goes = |slot: &Slot<K, V>| slot.entry.as_ref().is_some_and(|entry| !stays(&entry.key));
                let looked = shard.read();
                let going = some.clone().filter(|at| looked.slots.get(*at).is_some_and(goes));
                let going: Vec<usize> = going.collect();
                drop(looked);
                for going in going.chunks(LEAVE_AT_ONCE) {
                    let mut shard = shard.write();
                    // Others may have been there.
                    let leave = |at: &usize| match shard.slots.get(*at).is_some_and(goes) {
                        true => shard.remove(*at as u32),
                        false => None,
                    };
                    let gone: Vec<_> = going.iter().filter_map(leave).collect();
                    drop(shard);
                    drop(gone);
                }
                from = some.end;
                give_way();
            }
        }
    }

    /// Takes out the entries of these keys, those of them that are there, in steps as short as those of
    /// [`Self::retain_by_and_by`].
    pub fn remove_by_and_by(&self, keys: impl Iterator<Item = K>) {
        let mut looked = 0;
        for key in keys {
            // Readers share the lock with who only looks.
            if self.contains(&key) {
                self.remove(&key);
            }
            looked += 1;
            if looked == LOOK_AT_ONCE {
                looked = 0;
                give_way();
            }
        }
    }

    /// How many entries [`Self::retain_by_and_by`] goes over, and places for such.
    pub fn slots(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().slots.len() as u64).sum()
    }

    /// What the cache holds, and its counters.
    pub fn usage(&self) -> Usage {
        let mut out = Usage::default();
        for shard in &self.shards {
            let shard = shard.read();
            out.entries += shard.by_key.len() as u64;
            out.weight += shard.window.weight + shard.main.weight;
            out.capacity += shard.capacity;
            out.hits += shard.hits.load(Ordering::Relaxed);
            out.insertions += shard.insertions;
            out.evictions += shard.evictions;
        }
        out
    }
}

impl<K: Eq, V: Clone> Shard<K, V> {
    fn hit<R>(&self, hash: u64, key: &K, counts: bool, read: impl FnOnce(&V) -> R) -> Option<R> {
        let entry = self.entry(self.find(hash, key)?)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        if entry.place == Place::Window {
            self.door.window_hits.fetch_add(1, Ordering::Relaxed);
        }
        if counts {
            self.count_use(entry);
        }
        Some(read(&entry.value))
    }
}

impl<K: Eq, V> Shard<K, V> {
    fn new(capacity: u64, entries: u64) -> Self {
        Shard {
            by_key: HashTable::new(),
            slots: Vec::new(),
            free: NONE,
            window: Queue::default(),
            main: Queue::default(),
            door: AdmissionFilter::default(),
            sketch: Sketch::new(entries),
            capacity,
            entries,
            hits: AtomicU64::new(0),
            insertions: 0,
            evictions: 0,
        }
    }

    fn entry(&self, slot: u32) -> Option<&Entry<K, V>> {
        self.slots[slot as usize].entry.as_ref()
    }

    fn find(&self, hash: u64, key: &K) -> Option<u32> {
        let is_it = |slot: &u32| self.entry(*slot).is_some_and(|e| e.key == *key);
        self.by_key.find(hash, is_it).copied()
    }

    /// Hits and insertions so far: what happened to the shard.
    fn clock(&self) -> u64 {
        self.hits.load(Ordering::Relaxed) + self.insertions
    }

    fn count_use(&self, entry: &Entry<K, V>) {
        let uses = entry.uses.load(Ordering::Relaxed);
        let age = (self.clock() as u32).wrapping_sub(entry.came);
        if uses < COUNT_MAX && u64::from(age) > self.entries / CORRELATED_PART {
            // A use that gets lost between two threads is no loss.
            entry.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    fn insert(&mut self, hash: u64, key: K, value: V, weight: u64, gone: &mut Vec<Entry<K, V>>) {
        gone.extend(self.find(hash, &key).and_then(|slot| self.remove(slot)));
        if weight > self.capacity / 2 {
            return;
        }
        while self.is_full(weight) {
            match self.evict(weight) {
                Some(entry) => gone.push(entry),
                None => break,
            }
        }
        let (place, came) = (Place::Window, self.clock() as u32);
        let entry = Entry { key, value, hash, weight, place, came, uses: AtomicU8::new(0) };
        let slot = self.occupy(entry);
        self.push_newest(slot);
        let slots = &self.slots;
        let hash_of = |slot: &u32| slots[*slot as usize].entry.as_ref().map_or(0, |e| e.hash);
        self.by_key.insert_unique(hash, slot, hash_of);
        self.insertions += 1;
    }

    /// Whether something has to leave for what weighs so much.
    fn is_full(&self, weight: u64) -> bool {
        self.window.weight + self.main.weight + weight > self.capacity
    }

    /// Takes an entry out if there are too many.
    fn shrink(&mut self) -> Option<Entry<K, V>> {
        self.is_full(0).then(|| self.evict(0))?
    }

    /// Takes an entry out, for the sake of one that will weigh `coming`; `None` when there is none.
    fn evict(&mut self, coming: u64) -> Option<Entry<K, V>> {
        let window_max = self.capacity / WINDOW_PART;
        let leaves = loop {
            let (newcomer, victim) = (self.window.oldest, self.main.oldest);
            if newcomer == NONE || self.window.weight + coming <= window_max {
                if self.settle_uses(victim)? == 0 {
                    break victim;
                }
                self.enter_main(victim);
                continue;
            }
            self.settle_uses(newcomer)?;
            let weight = self.entry(newcomer)?.weight;
            if victim == NONE || self.main.weight + weight <= self.capacity - window_max {
                self.enter_main(newcomer);
                continue;
            }
            if self.settle_uses(victim)? > 0 {
                self.enter_main(victim);
                continue;
            }
            if self.count_of(newcomer) > self.count_of(victim).max(1) {
                break victim;
            }
            // The next newcomer meets another one, so that one old count does not keep the door shut.
            self.enter_main(victim);
            break newcomer;
        };
        self.evictions += 1;
        self.remove(leaves)
    }

    /// Adds an entry's hits to the sketch; how many they were.
    fn settle_uses(&mut self, slot: u32) -> Option<u8> {
        let entry = self.slots.get_mut(slot as usize)?.entry.as_mut()?;
        let uses = std::mem::take(entry.uses.get_mut());
        self.sketch.add(entry.hash, uses);
        Some(uses)
    }

    fn count_of(&self, slot: u32) -> u8 {
        self.entry(slot).map_or(0, |entry| self.sketch.count(entry.hash))
    }

    /// Makes an entry the newest of `main`.
    fn enter_main(&mut self, slot: u32) {
        self.unlink(slot);
        if let Some(entry) = &mut self.slots[slot as usize].entry {
            entry.place = Place::Main;
        }
        self.push_newest(slot);
    }

    fn remove(&mut self, slot: u32) -> Option<Entry<K, V>> {
        self.unlink(slot);
        let at = &mut self.slots[slot as usize];
        let entry = at.entry.take()?;
        at.older = self.free;
        self.free = slot;
        if let Ok(found) = self.by_key.find_entry(entry.hash, |other| *other == slot) {
            found.remove();
        }
        Some(entry)
    }

    fn occupy(&mut self, entry: Entry<K, V>) -> u32 {
        let slot = Slot { entry: Some(entry), older: NONE, newer: NONE };
        let at = self.free;
        if at == NONE {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        }
        self.free = std::mem::replace(&mut self.slots[at as usize], slot).older;
        at
    }

    fn queue_of(&mut self, slot: u32) -> (&mut Queue, u64) {
        match self.slots[slot as usize].entry.as_ref() {
            Some(Entry { place: Place::Main, weight, .. }) => (&mut self.main, *weight),
            other => (&mut self.window, other.map_or(0, |e| e.weight)),
        }
    }

    fn push_newest(&mut self, slot: u32) {
        let (queue, weight) = self.queue_of(slot);
        queue.weight += weight;
        let older = std::mem::replace(&mut queue.newest, slot);
        if older == NONE {
            queue.oldest = slot;
        } else {
            self.slots[older as usize].newer = slot;
        }
        let at = &mut self.slots[slot as usize];
        (at.older, at.newer) = (older, NONE);
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { older, newer, .. } = self.slots[slot as usize];
        let (queue, weight) = self.queue_of(slot);
        queue.weight -= weight;
        if older == NONE {
            queue.oldest = newer;
        }
        if newer == NONE {
            queue.newest = older;
        }
        if let Some(at) = self.slots.get_mut(older as usize) {
            at.newer = newer;
        }
        if let Some(at) = self.slots.get_mut(newer as usize) {
            at.older = older;
        }
    }
}

#[cfg(test)]
mod tests;
