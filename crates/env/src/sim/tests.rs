use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::fs::memory::MemoryFileSystem;
use crate::sync;
use crate::tasks::{block_on, step, yield_now};

/// Three tasks that take a lock and write down their number, again and again.
fn history(seed: u64) -> (Vec<u64>, u64) {
    Simulation::run(seed, |simulation| {
        let tasks = simulation.tasks();
        let written = Arc::new(sync::Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..3)
            .map(|n| {
                let written = Arc::clone(&written);
                let work = move || {
                    for _ in 0..10 {
                        let mut written = written.lock();
                        yield_now();
                        written.push(n);
                        drop(written);
                        step();
                    }
                };
                tasks.spawn(format!("task {n}"), work).unwrap()
            })
            .collect();
        handles.into_iter().for_each(crate::tasks::TaskHandle::join);
        let out = written.lock().clone();
        (out, simulation.fingerprint())
    })
}

#[test]
fn a_seed_repeats_its_turns_and_others_differ() {
    let all: Vec<_> = (0..20).map(history).collect();
    for (seed, first) in all.iter().enumerate() {
        assert_eq!(&history(seed as u64), first, "seed {seed}");
        assert_eq!(first.0.len(), 30);
    }
    let different: std::collections::BTreeSet<_> = all.iter().map(|(order, _)| order).collect();
    assert!(different.len() > 15, "{} orders of 20 seeds", different.len());
}

#[test]
fn time_jumps_to_the_next_moment_that_somebody_waits_for() {
    Simulation::run(1, |simulation| {
        let env = simulation.env(&FaultyFileSystem::new(Arc::new(MemoryFileSystem::new())));
        let before = env.clock.monotonic_nanos();
        block_on(env.tasks.sleep(Duration::from_secs(3_600)));
        let slept = env.clock.monotonic_nanos() - before;
        assert!((3_600_000_000_000..3_600_000_100_000).contains(&slept), "{slept} ns");
        let never = std::future::pending::<()>();
        assert!(block_on(env.tasks.timeout(Duration::from_secs(1), never)).is_err());
        assert_eq!(block_on(env.tasks.timeout(Duration::from_secs(1), async { 7 })), Ok(7));
        let (mut ticks, before) = (env.tasks.ticks(Duration::from_secs(10)), env.clock.now_seconds());
        block_on(ticks.next());
        block_on(env.tasks.sleep(Duration::from_secs(25)));
        block_on(ticks.next());
        assert_eq!(env.clock.now_seconds() - before, 35, "two ticks that nobody waited for are one");
        block_on(ticks.next());
        assert_eq!(env.clock.now_seconds() - before, 45);
    });
}

#[test]
fn a_notification_wakes_who_waits_and_a_timeout_the_others() {
    for seed in 0..100 {
        Simulation::run(seed, |simulation| {
            let tasks = simulation.tasks();
            let shared = Arc::new((sync::Mutex::new(0), sync::Condvar::new()));
            let notified = Arc::new(AtomicU64::new(0));
            let waiting: Vec<_> = (0..4)
                .map(|_| {
                    let (shared, notified) = (Arc::clone(&shared), Arc::clone(&notified));
                    let work = move || {
                        let mut ready = shared.0.lock();
                        *ready += 1;
                        let waited = shared.1.wait_for(&mut ready, Duration::from_secs(5));
                        notified.fetch_add(u64::from(!waited.timed_out()), Ordering::SeqCst);
                    };
                    tasks.spawn("waits", work).unwrap()
                })
                .collect();
            block_on(tasks.sleep(Duration::from_secs(1)));
            assert_eq!(*shared.0.lock(), 4, "all wait without the lock");
            shared.1.notify_one();
            waiting.into_iter().for_each(crate::tasks::TaskHandle::join);
            assert_eq!(notified.load(Ordering::SeqCst), 1);
        });
    }
}

#[test]
#[should_panic(expected = "all tasks wait for each other")]
fn tasks_that_wait_for_each_other_are_named() {
    Simulation::run(1, |simulation| {
        let tasks = simulation.tasks();
        let never = Arc::new((sync::Mutex::new(()), sync::Condvar::new()));
        let stuck = tasks.spawn("stuck", move || never.1.wait(&mut never.0.lock())).unwrap();
        stuck.join();
    });
}

#[test]
#[should_panic(expected = "broken panicked")]
fn a_panic_of_a_task_ends_the_simulation() {
    Simulation::run(1, |simulation| {
        let tasks = simulation.tasks();
        let broken = tasks.spawn("broken", || panic!("on purpose")).unwrap();
        broken.join();
        block_on(tasks.sleep(Duration::from_secs(1)));
    });
}
