//! Sending hints to nodes that are back.
//!
//! Each [`HintsOptions::flush_period`](super::HintsOptions), when a node comes back, and when sending goes on
//! behind a pause, a delivery begins for each node that is alive and has hints, as far as there may be more.
//! A delivery
//! 1. closes the file that is written, so that all hints up to now can be sent;
//! 2. sends files in the order of their age, hints in the order of the file, at most [`IN_FLIGHT_MAX`] of
//!    them without an answer, and not faster than the throttle says;
//! 3. removes a file when all of it is acknowledged, and ends behind the last;
//! 4. ends early when the node is down again, when sending is paused, and at the first hint that is not
//!    acknowledged: all hints from that one on are sent again, behind the next period at the earliest.
//!
//! A node may get a hint several times, therefore. It does no harm: writes have the timestamps of their time.

use super::HintStore;
use super::counters::Counted;
use super::page::{HintPage, QueuedHint, Reached};
use super::throttle::Throttle;
use crate::endpoint::Endpoint;
use crate::ring::{Member, Members};
use crate::serve::Spawn;
use coordinator::{Answer, Node, ReplicaError};
use env::background::looks;
use env::sync::Mutex;
use partition::{Deadline, NanoClock};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use uuid::Uuid;

/// Hints of a delivery that are not acknowledged.
pub const IN_FLIGHT_MAX: usize = 128;

/// Who waits for the throttle looks as often whether sending goes on.
const LOOK_UP: Duration = Duration::from_secs(1);

/// Sends hints.
pub struct Dispatcher {
    this: Weak<Dispatcher>,
    store: Arc<HintStore>,
    members: Box<dyn Fn() -> Arc<Members> + Send + Sync>,
    spawn: Spawn,
    clock: NanoClock,
    is_paused: AtomicBool,
    is_stopped: AtomicBool,
    /// When the next period begins.
    period_nanos: AtomicU64,
    /// Whether the last hints could not be written.
    is_failing: AtomicBool,
    deliveries: Mutex<Deliveries>,
}

/// Nodes, by their ids.
#[derive(Debug, Default)]
struct Deliveries {
    running: BTreeSet<Uuid>,
    /// Those that had a delivery in this period.
    done: BTreeSet<Uuid>,
}

/// What waits for one node, as `nodetool listpendinghints` and `system_views.pending_hints` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingHints {
    /// Its id.
    pub host_id: Uuid,
    /// The node, while it is in the ring.
    pub node: Option<PendingNode>,
    /// Files, that which is written included.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of hints that are in memory.
    pub buffered_bytes: u64,
    /// When the oldest file was begun, in milliseconds since the epoch.
    pub oldest_millis: Option<i64>,
    /// When the newest was.
    pub newest_millis: Option<i64>,
    /// Files besides that cannot be read here.
    pub left_alone: usize,
}

/// A node that hints wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNode {
    /// Its address.
    pub endpoint: Endpoint,
    /// Its rack.
    pub rack: Arc<str>,
    /// Its data center.
    pub datacenter: Arc<str>,
    /// Whether it is thought alive.
    pub is_alive: bool,
}

impl Dispatcher {
    /// Sends the hints of `store` to the nodes of a ring.
    pub fn new(
        store: Arc<HintStore>,
        members: impl Fn() -> Arc<Members> + Send + Sync + 'static,
        spawn: Spawn,
    ) -> Arc<Dispatcher> {
        let clock = Arc::clone(&store.env.clock);
        Arc::new_cyclic(|this| Dispatcher {
            this: Weak::clone(this),
            store,
            members: Box::new(members),
            spawn,
            clock: Arc::new(move || clock.monotonic_nanos()),
            is_paused: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            period_nanos: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            deliveries: Mutex::default(),
        })
    }

    /// Starts the thread of the files. Hints that were found are sent from now on.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        self.begin_period();
        // Each nudge begins a wait anew, so a wait is shorter than a period.
        let tick = (self.store.options.flush_period / 10).max(Duration::from_millis(1));
        let look = looks(self, Dispatcher::look);
        self.store.background.start(&self.store.env.tasks, ["hints".to_owned()], tick, look)?;
        self.deliver_to_all();
        Ok(())
    }

    /// Ends all deliveries and the thread, writes what is in memory, and closes all files.
    ///
    /// # Errors
    /// When the hints in memory cannot be written.
    pub fn stop(&self) -> io::Result<()> {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.store.background.stop();
        self.store.shut()
    }

    /// A node is back: its hints are sent.
    pub fn is_back(&self, node: &Arc<Node>) {
        self.store.came_back(node.id);
        self.deliveries.lock().done.remove(&node.id);
        self.deliver_to_all();
    }

    /// Sends nothing for now (`nodetool pausehandoff`).
    pub fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
    }

    /// Sends again (`nodetool resumehandoff`).
    pub fn resume(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
        self.deliveries.lock().done.clear();
        self.deliver_to_all();
    }

    /// Whether nothing is sent for now.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    /// Drops the hints of one node, or of all (`nodetool truncatehints`). It waits for the disk.
    pub fn truncate(&self, host_id: Option<Uuid>) {
        self.store.truncate(host_id);
    }

    /// A node was removed from the ring for good: its hints are dropped.
    pub fn excise(&self, host_id: Uuid) {
        self.store.excise(host_id);
    }

    /// What waits for which node.
    pub fn pending(&self) -> Vec<PendingHints> {
        let members = (self.members)();
        let node = |member: &Member| PendingNode {
            endpoint: member.endpoint,
            rack: Arc::clone(&member.node.rack),
            datacenter: Arc::clone(&member.node.datacenter),
            is_alive: member.node.is_alive(),
        };
        let pending =
            self.store.pending().into_iter().map(|(host_id, on_disk, buffered_bytes)| PendingHints {
                host_id,
                node: members.by_id(host_id).map(node),
                files: on_disk.files,
                bytes: on_disk.bytes,
                buffered_bytes,
                oldest_millis: on_disk.oldest_millis,
                newest_millis: on_disk.newest_millis,
                left_alone: on_disk.left_alone,
            });
        pending.collect()
    }

    fn begin_period(&self) {
        let period = self.store.options.flush_period.as_nanos() as u64;
        self.period_nanos.store((self.clock)().saturating_add(period), Ordering::SeqCst);
    }

    /// What the thread does now and then, and when it is nudged.
    fn look(&self) {
        self.store.work();
        let is_over = (self.clock)() >= self.period_nanos.load(Ordering::SeqCst);
        let is_failing = self.is_failing.load(Ordering::SeqCst);
        if is_over || self.store.is_half_full() && !is_failing {
            // It was told of. What was not written is tried again in the next period.
            self.is_failing.store(self.store.flush().is_err(), Ordering::SeqCst);
        }
        if is_over {
            self.begin_period();
            self.deliveries.lock().done.clear();
            self.deliver_to_all();
        }
    }

    /// Begins a delivery for each node that is alive and has hints, as many as there may be.
    fn deliver_to_all(&self) {
        let (members, deliveries_max) = ((self.members)(), self.store.settings().deliveries_max.max(1));
        for host_id in self.store.waiting() {
            let may_be_sent = members.by_id(host_id).is_some_and(|member| self.goes_on(&member.node));
            let Some(this) = self.this.upgrade().filter(|_| may_be_sent) else { continue };
            {
                let mut deliveries = self.deliveries.lock();
                if deliveries.running.len() >= deliveries_max {
                    return;
                }
                if deliveries.done.contains(&host_id) || !deliveries.running.insert(host_id) {
                    continue;
                }
                deliveries.done.insert(host_id);
            }
            (self.spawn)(Box::pin(async move {
                this.deliver(host_id).await;
                this.deliveries.lock().running.remove(&host_id);
                this.deliver_to_all();
            }));
        }
    }

    /// Whether hints may be sent to a node at the moment.
    fn goes_on(&self, node: &Node) -> bool {
        let is_ended = self.is_stopped.load(Ordering::SeqCst) || self.is_paused();
        node.is_alive() && node.replica.as_local().is_none() && !is_ended
    }

    /// Sends what a node missed up to now.
    async fn deliver(&self, host_id: Uuid) {
        self.store.on_disk(move |store| store.close(host_id)).await;
        let (mut throttle, mut sent) = (Throttle::default(), 0u64);
        while let Some(page) = self.store.on_disk(move |store| store.next_page(host_id)).await.flatten() {
            // The ring may know it as another one by now, under another address.
            let node = (self.members)().by_id(host_id).map(|member| Arc::clone(&member.node));
            let Some(node) = node.filter(|node| self.goes_on(node)) else { break };
            let (acknowledged, reached) = self.send(&node, &page, &mut throttle).await;
            sent += acknowledged;
            let is_whole = reached == Some(page.end);
            if let Some(reached) = reached {
                self.store.on_disk(move |store| store.reached(&page, reached)).await;
            }
            if !is_whole {
                break;
            }
        }
        if sent > 0 {
            tracing::info!(%host_id, sent, "hints were sent");
        }
    }

    /// Sends a page. How many of its hints were acknowledged, and up to where all of them were; nothing where
    /// the first one was not.
    async fn send(&self, node: &Node, page: &HintPage, throttle: &mut Throttle) -> (u64, Option<Reached>) {
        let mut waiting: VecDeque<(&QueuedHint, Answer<()>)> = VecDeque::new();
        let (mut acknowledged, mut reached, mut unsent) = (0, None, page.hints.iter().peekable());
        let bytes_per_second = self.bytes_per_second();
        loop {
            let has_room = waiting.len() < IN_FLIGHT_MAX && self.goes_on(node);
            if let Some(next) = unsent.peek().copied().filter(|_| has_room)
                && self.waited(node, throttle.take((self.clock)(), next.bytes, bytes_per_second)).await
            {
                unsent.next();
                let timeout_nanos = self.store.options.ack_timeout.as_nanos() as u64;
                let deadline = Deadline::new(&self.clock, (self.clock)().saturating_add(timeout_nanos));
                waiting.push_back((next, node.replica.hint(next.hint.clone(), Some(&deadline))));
                continue;
            }
            let Some((hint, answer)) = waiting.pop_front() else { break };
            if !self.is_acknowledged(node, answer).await {
                return (acknowledged, reached);
            }
            acknowledged += 1;
            reached = Some(Reached::Position(hint.next));
        }
        match unsent.next() {
            None => (acknowledged, Some(page.end)),
            Some(_) => (acknowledged, reached),
        }
    }

    /// Waits as the throttle says. Whether hints may be sent afterwards.
    async fn waited(&self, node: &Node, mut left: Duration) -> bool {
        while !left.is_zero() && self.goes_on(node) {
            let part = left.min(LOOK_UP);
            self.store.env.tasks.sleep(part).await;
            left -= part;
        }
        self.goes_on(node)
    }

    /// Whether the node has a hint, or never will.
    async fn is_acknowledged(&self, node: &Node, answer: Answer<()>) -> bool {
        let timeout = self.store.options.ack_timeout;
        let outcome = self.store.env.tasks.timeout(timeout, answer).await;
        let (counted, goes_on) = match &outcome {
            Ok(Ok(())) => (Counted::Dispatched, true),
            Ok(Err(ReplicaError::TooLarge(_) | ReplicaError::Write(_))) => (Counted::Failed, true),
            Err(_) | Ok(Err(ReplicaError::TimedOut)) => (Counted::TimedOut, false),
            Ok(Err(_)) => (Counted::Failed, false),
        };
        self.store.counters.count(counted);
        if let Ok(Err(error)) = outcome {
            tracing::warn!(host_id = %node.id, %error, is_given_up = goes_on, "a hint is not taken");
        }
        goes_on
    }

    /// What a delivery may send: the nodes of the ring share what one of them takes.
    fn bytes_per_second(&self) -> u64 {
        let throttle = self.store.settings().throttle_bytes;
        let members = (self.members)();
        let others = members.iter().filter(|member| member.node.replica.as_local().is_none()).count();
        match throttle {
            0 => 0,
            throttle => (throttle / (others as u64).max(1)).max(1),
        }
    }
}
