//! Reads that wait for an SSTable to be compared with its digest.
//!
//! 1. A read that needs such an SSTable ends with [`ReadError::Unproven`] before it reads anything of it. Who
//!    may wait demands the comparison ([`crate::Engine::demand_proof`]), holding no thread, and reads once
//!    more when it is told to.
//! 2. The prover takes what is demanded first, the smallest of it before the others: it turns to one in the
//!    middle of another whose rest is longer, and goes on with that afterwards. It keeps no pace while
//!    anybody waits.
//! 3. Everybody is told once: when it is known what the SSTable is, when it is no part of its table any more,
//!    when a reading that began after they came failed, and when nothing is compared any more.
//!
//! What was demanded once stays first in line though nobody waits any more: the client of a read that was
//! late will ask again.

use crate::background::Background;
use crate::background::prover::Prover;
use crate::table::TableStore;
use env::sync::Mutex;
use partition::ReadError;
use sstable::SsTable;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of an SSTable that a read waits for.
#[derive(Clone, Debug)]
pub enum Compared {
    /// It is known what it is, or it is gone: the read is to be carried out once more.
    Known,
    /// It could not be read.
    Failed(ReadError),
    /// Nothing is compared any more: the engine is drained or closed.
    Ended,
}

/// Told what became of it, on any thread, which it may not hold up.
pub type TellCompared = Box<dyn FnOnce(Compared) + Send>;

/// An SSTable that is demanded, and the table that has it.
pub(crate) type Demanded = (Arc<TableStore>, Arc<SsTable>);

/// The names of Data.db that reads need.
#[derive(Default)]
pub(crate) struct Demands {
    state: Mutex<State>,
    /// Grows with every demand.
    made: AtomicU64,
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<Arc<str>, Vec<(u64, TellCompared)>>,
    /// What the prover reads, the last one above the others.
    readings: Vec<Arc<str>>,
    next_number: u64,
}

impl State {
    fn waiting(&self) -> usize {
        self.wanted.values().map(Vec::len).sum()
    }
}

/// A demand: dropped, nobody waits any more.
#[must_use = "nobody is told once it is dropped"]
pub struct ProofDemand {
    prover: Arc<Prover>,
    name: Arc<str>,
    number: u64,
}

impl fmt::Debug for ProofDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofDemand").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for ProofDemand {
    fn drop(&mut self) {
        let mut state = self.prover.demands.state.lock();
        if let Some(waiting) = state.wanted.get_mut(&self.name) {
            waiting.retain(|(number, _)| *number != self.number);
        }
        drop(state);
        self.prover.keep_pace();
    }
}

impl Demands {
    /// How many demands there were; another number says that somebody came.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    /// Whether anybody waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.state.lock().waiting() > 0
    }

    /// Tells those who wait for an SSTable.
    pub(crate) fn settle(&self, name: &Arc<str>, news: &Compared) {
        let told = self.state.lock().wanted.remove(name);
        told.into_iter().flatten().for_each(|(_, tell)| tell(news.clone()));
    }

    /// Tells those who were there `before` that an SSTable could not be read; for the others it is read once
    /// more, for the reason may have gone before they came.
    pub(crate) fn fail(&self, name: &Arc<str>, before: u64, error: &ReadError) {
        let mut state = self.state.lock();
        let Some(waiting) = state.wanted.remove(name) else { return };
        let (told, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(number, _)| *number < before);
        if !later.is_empty() {
            state.wanted.insert(Arc::clone(name), later);
        }
        drop(state);
        told.into_iter().for_each(|(_, tell)| tell(Compared::Failed(error.clone())));
    }

    /// Tells everybody that nothing is compared any more.
    pub(crate) fn end(&self) {
        let told = std::mem::take(&mut self.state.lock().wanted);
        told.into_values().flatten().for_each(|(_, tell)| tell(Compared::Ended));
    }

    /// Forgets what nobody waits for at the moment.
    pub(crate) fn forget_idle(&self) {
        self.state.lock().wanted.retain(|_, waiting| !waiting.is_empty());
    }

    /// Whether an SSTable was demanded and is not settled.
    fn is_wanted(&self, name: &Arc<str>) -> bool {
        self.state.lock().wanted.contains_key(name)
    }

    /// Begins a reading. Demands with a smaller number than the one that is returned were made before.
    pub(crate) fn begin(&self, name: &Arc<str>) -> u64 {
        let mut state = self.state.lock();
        state.readings.push(Arc::clone(name));
        state.next_number
    }

    /// Ends the reading that was begun last.
    pub(crate) fn finish(&self) {
        self.state.lock().readings.pop();
    }

    /// The smallest SSTable that is demanded and is not being read; those who wait for one that is gone are
    /// told.
    pub(crate) fn next(&self, background: &Background) -> Option<Demanded> {
        let mut gone = Vec::new();
        let next = {
            let mut state = self.state.lock();
            if state.wanted.is_empty() {
                return None;
            }
            let mut found: BTreeMap<Arc<str>, Demanded> = BTreeMap::new();
            for table in background.catalog.tables() {
                for sstable in table.view().sstables.iter() {
                    if sstable.is_awaited() && state.wanted.contains_key(sstable.data_name()) {
                        let demanded = (Arc::clone(&table), Arc::clone(sstable));
                        found.insert(Arc::clone(sstable.data_name()), demanded);
                    }
                }
            }
            let lost: Vec<_> =
                state.wanted.keys().filter(|name| !found.contains_key(*name)).map(Arc::clone).collect();
            gone.extend(lost.iter().filter_map(|name| state.wanted.remove(name)).flatten());
            let idle = found.into_iter().filter(|(name, _)| !state.readings.contains(name));
            idle.map(|(_, demanded)| demanded).min_by_key(|(_, sstable)| sstable.data_file_bytes())
        };
        gone.into_iter().for_each(|(_, tell)| tell(Compared::Known));
        next
    }

    /// As [`Demands::next`], where that is worth turning to in the middle of `sstable`, of which `rest` bytes
    /// are left.
    pub(crate) fn next_before(
        &self,
        background: &Background,
        sstable: &SsTable,
        rest: u64,
    ) -> Option<Demanded> {
        let next = self.next(background)?;
        let bytes = next.1.data_file_bytes();
        // Of two that are demanded each halves what is left at least, so that few are ever begun at once.
        let is_worth_it = match self.is_wanted(sstable.data_name()) {
            true => bytes <= rest / 2,
            false => bytes <= rest,
        };
        is_worth_it.then_some(next)
    }
}

impl Prover {
    /// Reads what is demanded; whether to go on.
    pub(crate) fn meet_demands(&self, background: &Background) -> bool {
        while let Some((table, sstable)) = self.demands.next(background) {
            if !self.read(background, &table, &sstable, true) {
                return false;
            }
        }
        true
    }

    /// Spends bytes, and turns away for what is demanded meanwhile; whether to go on.
    pub(crate) fn spend_between(
        &self,
        bytes: u64,
        is_over: &impl Fn() -> bool,
        mut turn_to_demands: impl FnMut() -> Option<u64>,
    ) -> bool {
        loop {
            let Some(seen) = turn_to_demands() else { return false };
            if self.spend(bytes, || is_over() || self.demands.made() != seen) {
                return true;
            }
            if is_over() {
                return false;
            }
        }
    }

    /// Reads what was demanded since `seen` and is worth turning to in the middle of an SSTable of which
    /// `rest` bytes are left. How many demands were considered; `None` when nothing is to be read any more.
    pub(crate) fn turn_to_demands(
        &self,
        background: &Background,
        sstable: &SsTable,
        rest: u64,
        seen: &mut u64,
    ) -> Option<u64> {
        let made = self.demands.made();
        if made != *seen {
            *seen = made;
            while let Some((table, next)) = self.demands.next_before(background, sstable, rest) {
                if !self.read(background, &table, &next, true) {
                    return None;
                }
            }
        }
        Some(made)
    }
}

impl Background {
    /// [`crate::Engine::demand_proof`].
    pub(crate) fn demand_proof(&self, name: &Arc<str>, tell: TellCompared) -> ProofDemand {
        let demands = &self.prover.demands;
        let mut state = demands.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let demand = ProofDemand { prover: Arc::clone(&self.prover), name: Arc::clone(name), number };
        // Whoever ends the comparisons, or knows more of the SSTable, tells those who are here by then.
        let known = if self.prover.has_ended(self) {
            Some(Compared::Ended)
        } else if !self.awaits(name) {
            Some(Compared::Known)
        } else {
            None
        };
        match known {
            Some(news) => {
                drop(state);
                tell(news);
            }
            None => {
                state.wanted.entry(Arc::clone(name)).or_default().push((number, tell));
                // Not before the prover would find it.
                demands.made.fetch_add(1, Ordering::AcqRel);
                drop(state);
                self.prover.keep_pace();
                self.prover.wake();
            }
        }
        demand
    }

    /// Tells those who wait for SSTables that are no part of any table any more.
    pub(crate) fn release_demands(&self) {
        self.prover.demands.next(self);
    }

    fn awaits(&self, name: &Arc<str>) -> bool {
        let is_it = |sstable: &Arc<SsTable>| sstable.is_awaited() && sstable.data_name() == name;
        self.catalog.tables().iter().any(|table| table.view().sstables.iter().any(is_it))
    }
}
