//! Everything in a node that could differ between two runs of the same history comes in through this crate:
//! the clock, randomness, generated uuids, files, threads and timers. The rest of the node holds an [`Env`]
//! and is a function of its input.
//!
//! * [`Env::real`] is the machine: the system clock, the kernel's randomness, the disk.
//! * [`Env::for_test`] is a small world of its own: a clock that moves when the test moves it, an in-memory
//!   file system that can lose power, randomness that starts from a seed.
//! * [`sim::Simulation`] is such a world whose threads take turns, drawn from the seed.
//! * [`fs::faulty::FaultyFileSystem`] stands in front of either file system and makes calls fail on demand.
//! * [`tasks`] are the threads of a node, [`sync`] the locks and conditions between them, [`timer`] the waits
//!   of asynchronous code, [`background`] the loop of all background work.
//! * [`socket`] makes sockets that lie in the file system, for their owner alone.
//! * [`thread`] tells the kernel which threads somebody waits for.
//!
//! `clippy.toml` bans the standard library's clock, files, threads and random numbers everywhere else; only
//! [`clock`], [`random`], [`tasks`], [`timer`], [`socket`] and [`fs::disk`] may call them.

pub mod background;
pub mod clock;
pub mod fs;
pub mod memory;
pub mod random;
pub mod sim;
pub mod socket;
pub mod sync;
pub mod tasks;
pub mod thread;
pub mod time_uuid;
pub mod timer;

use std::sync::Arc;

use uuid::Uuid;

use crate::clock::{Clock, ManualClock, SystemClock};
use crate::fs::FileSystem;
use crate::fs::disk::DiskFileSystem;
use crate::fs::memory::MemoryFileSystem;
use crate::random::Random;
use crate::tasks::Tasks;
use crate::time_uuid::TimeUuids;

/// The world as a node sees it. Cheap to clone: every clone shares the same clock, randomness and files.
#[derive(Clone, Debug)]
pub struct Env {
    /// Wall time and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers and bytes.
    pub random: Arc<Random>,
    /// Files and directories.
    pub fs: Arc<dyn FileSystem>,
    /// Threads and timers.
    pub tasks: Tasks,
    time_uuids: Arc<TimeUuids>,
}

impl Env {
    /// The machine itself.
    pub fn real() -> Self {
        Self::new(Arc::new(SystemClock::new()), Arc::new(Random::from_kernel()), Arc::new(DiskFileSystem))
    }

    /// A world for one test. The clock stands at [`ManualClock::START_MICROS`], the file system is empty and
    /// the same `seed` gives the same random numbers and uuids. A test that wants to move the clock or cut
    /// the power keeps its own [`ManualClock`] or [`MemoryFileSystem`] and calls [`Env::new`].
    pub fn for_test(seed: u64) -> Self {
        Self::new(
            Arc::new(ManualClock::default()),
            Arc::new(Random::from_seed(seed)),
            Arc::new(MemoryFileSystem::new()),
        )
    }

    /// A world made of the given parts.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<Random>, fs: Arc<dyn FileSystem>) -> Self {
        let time_uuids = Arc::new(TimeUuids::new(&random));
        Self { clock, random, fs, tasks: Tasks::default(), time_uuids }
    }

    /// The same world with other threads.
    pub(crate) fn with_tasks(self, tasks: Tasks) -> Self {
        Self { tasks, ..self }
    }

    /// The same clock and randomness over other files: the way to put a faulty file system in front, or to go
    /// on after [`MemoryFileSystem::crash`].
    pub fn with_fs(&self, fs: Arc<dyn FileSystem>) -> Self {
        Self { fs, ..self.clone() }
    }

    /// Wall time in microseconds since 1970, the unit of write timestamps.
    pub fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    /// Wall time in whole seconds since 1970, the unit of expirations and local deletion times.
    pub fn now_seconds(&self) -> i64 {
        self.clock.now_seconds()
    }

    /// A version 1 uuid for now: later than every earlier one of this `Env`, even within one clock tick or
    /// after the clock has been set back.
    pub fn time_uuid(&self) -> Uuid {
        self.time_uuids.next(self.clock.now_micros())
    }

    /// As [`Env::time_uuid`], for `micros` since 1970 at the earliest.
    pub fn time_uuid_from(&self, micros: i64) -> Uuid {
        self.time_uuids.next(self.clock.now_micros().max(micros))
    }

    /// A version 4 uuid.
    pub fn random_uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_test_worlds_of_one_seed_agree() {
        let (a, b, c) = (Env::for_test(7), Env::for_test(7), Env::for_test(8));
        let (from_a, from_b) = ((a.time_uuid(), a.random_uuid()), (b.time_uuid(), b.random_uuid()));
        assert_eq!(from_a, from_b);
        assert_ne!(from_a.1, c.random_uuid());
        assert_eq!(a.now_micros(), b.now_micros());
    }

    #[test]
    fn a_random_uuid_is_of_version_four() {
        let env = Env::for_test(1);
        let id = env.random_uuid();
        assert_eq!((id.get_version_num(), id.get_variant()), (4, uuid::Variant::RFC4122));
        assert_ne!(id, env.random_uuid());
    }

    #[test]
    fn clones_share_their_time_uuids() {
        let env = Env::for_test(1);
        let clone = env.clone();
        let ids = [env.time_uuid(), clone.time_uuid(), env.time_uuid()];
        assert!(
            ids[0] < ids[1] && ids[1] < ids[2],
            "the manual clock stands still, so only the tick differs"
        );
    }

    #[test]
    fn with_fs_changes_only_the_files() {
        let env = Env::for_test(1);
        env.fs.write("/a".as_ref(), b"1").unwrap();
        let other = env.with_fs(Arc::new(MemoryFileSystem::new()));
        assert!(!other.fs.exists("/a".as_ref()).unwrap());
        assert!(env.time_uuid() < other.time_uuid());
    }
}
