//! The trace that work belongs to, here and on the nodes that are asked for it.
//!
//! A request that is traced runs [`within`] its trace. Whatever sends a message meanwhile finds it there
//! ([`current`]), tells the other node its id, and notes what is sent and what comes back. Who is not traced
//! pays nothing.

use env::Env;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// A step of a trace.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// A time-based id, made at that instant.
    pub id: Uuid,
    /// What was done.
    pub activity: String,
    /// How long after the start of the trace on this node, in nanoseconds.
    pub elapsed_nanos: u64,
    /// On which thread.
    pub thread: String,
}

/// What a node does for a traced request.
#[derive(Debug)]
pub struct TraceSession {
    /// The id, which all nodes that take part know.
    pub id: Uuid,
    started_nanos: u64,
    env: Env,
    events: Mutex<Vec<TraceEvent>>,
}

impl TraceSession {
    /// A trace that begins here, at this instant.
    pub fn start(env: &Env, id: Uuid) -> Arc<TraceSession> {
        let started_nanos = env.clock.monotonic_nanos();
        Arc::new(TraceSession { id, started_nanos, env: env.clone(), events: Mutex::default() })
    }

    /// Notes a step.
    pub fn note(&self, activity: String) {
        let thread = std::thread::current();
        self.note_as(
            self.env.time_uuid(),
            activity,
            self.env.clock.monotonic_nanos(),
            thread.name().unwrap_or_default(),
        );
    }

    /// Notes what happened on `thread` at an instant of the clock; `id` was made then.
    pub fn note_as(&self, id: Uuid, activity: String, at_nanos: u64, thread: &str) {
        let elapsed_nanos = at_nanos.saturating_sub(self.started_nanos);
        let event = TraceEvent { id, activity, elapsed_nanos, thread: thread.to_owned() };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// How long it has been going on.
    pub fn elapsed_nanos(&self) -> u64 {
        self.env.clock.monotonic_nanos().saturating_sub(self.started_nanos)
    }

    /// Takes the steps that were noted.
    pub fn take_events(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<TraceSession>>> = const { RefCell::new(None) };
}

/// The trace that what runs on this thread now belongs to.
pub fn current() -> Option<Arc<TraceSession>> {
    CURRENT.with_borrow(Clone::clone)
}

/// What runs on this thread belongs to a trace until this is dropped.
struct Entered {
    before: Option<Arc<TraceSession>>,
}

impl Entered {
    fn enter(session: &Arc<TraceSession>) -> Entered {
        Entered { before: CURRENT.replace(Some(Arc::clone(session))) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// Runs `work` as part of a trace, if there is one.
pub fn during<T>(session: Option<&Arc<TraceSession>>, work: impl FnOnce() -> T) -> T {
    let _entered = session.map(Entered::enter);
    work()
}

/// Runs `work` to its end as part of a trace. In a box: what runs without a trace shall not be longer for it.
pub fn within<F: Future>(session: Arc<TraceSession>, work: F) -> impl Future<Output = F::Output> + use<F> {
    let mut work = Box::pin(work);
    poll_fn(move |cx| during(Some(&session), || work.as_mut().poll(cx)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn work_belongs_to_its_trace_whenever_it_is_polled() {
        let env = Env::for_test(1);
        let [one, two] = [1, 2].map(|id| TraceSession::start(&env, Uuid::from_u128(id)));
        let id = || current().map(|session| session.id.as_u128());
        // Pending once, as what waits for another node.
        let work = || async move {
            let before = id();
            let mut is_first = true;
            poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
            (before, id())
        };
        let mut tasks = [one, two].map(|session| within(session, work()));
        let mut cx = Context::from_waker(Waker::noop());
        for task in &mut tasks {
            assert!(Pin::new(task).poll(&mut cx).is_pending());
            assert_eq!(id(), None);
        }
        let seen = tasks.map(|mut task| Pin::new(&mut task).poll(&mut cx));
        assert_eq!(seen, [(Some(1), Some(1)), (Some(2), Some(2))].map(Poll::Ready));
        assert_eq!(id(), None);
    }

    #[test]
    fn steps_are_taken_once() {
        let session = TraceSession::start(&Env::for_test(1), Uuid::from_u128(7));
        session.note("one".to_owned());
        session.note_as(Uuid::from_u128(8), "two".to_owned(), 0, "a thread");
        let events = session.take_events();
        let told: Vec<&str> = events.iter().map(|event| event.activity.as_str()).collect();
        assert_eq!(told, ["one", "two"]);
        assert_eq!((events[1].elapsed_nanos, events[1].thread.as_str()), (0, "a thread"));
        assert!(session.take_events().is_empty());
    }
}
