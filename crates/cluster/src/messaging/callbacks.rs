//! Calls that wait for their answers.
//!
//! A call is known by its id and by the node asked: the nodes to which a message is forwarded answer with one
//! id. It is forgotten when it is answered, and when nobody waits for it any more.

use super::message::Message;
use super::messenger::CallError;
use super::verb::Verb;
use crate::endpoint::Endpoint;
use env::sync::Mutex;
use foldhash::{HashMap, HashMapExt};
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::sync::oneshot;

type Outcome = Result<Message, CallError>;
type Key = (u64, Endpoint);

/// The calls of a node.
#[derive(Debug)]
pub(super) struct Callbacks {
    waiting: Mutex<HashMap<Key, Callback>>,
}

#[derive(Debug)]
struct Callback {
    /// The verb of the answer.
    answer: Verb,
    outcome: oneshot::Sender<Outcome>,
}

/// A call until its end.
#[derive(Debug)]
pub(super) struct Waiting {
    callbacks: Arc<Callbacks>,
    key: Key,
    outcome: oneshot::Receiver<Outcome>,
}

impl Callbacks {
    pub(super) fn new() -> Arc<Callbacks> {
        Arc::new(Callbacks { waiting: Mutex::new(HashMap::new()) })
    }

    /// Begins a call; `None` when one with this id waits for the same node.
    pub(super) fn begin(self: &Arc<Self>, id: u64, to: Endpoint, answer: Verb) -> Option<Waiting> {
        let (sender, outcome) = oneshot::channel();
        match self.waiting.lock().entry((id, to)) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(vacant) => vacant.insert(Callback { answer, outcome: sender }),
        };
        Some(Waiting { callbacks: Arc::clone(self), key: (id, to), outcome })
    }

    /// An answer came. Whether somebody waited for one of this kind.
    pub(super) fn answer(&self, from: Endpoint, message: Message) -> bool {
        let mut waiting = self.waiting.lock();
        let Entry::Occupied(call) = waiting.entry((message.id, from)) else { return false };
        let failure = message.failure();
        if failure.is_none() && call.get().answer != message.verb {
            return false;
        }
        let callback = call.remove();
        drop(waiting);
        let outcome = failure.map_or(Ok(message), |reason| Err(CallError::Failed(reason)));
        callback.outcome.send(outcome).is_ok()
    }

    /// A call has failed here.
    pub(super) fn fail(&self, id: u64, to: Endpoint, error: CallError) {
        let callback = self.waiting.lock().remove(&(id, to));
        if let Some(callback) = callback {
            // Nobody waits any more.
            let _ = callback.outcome.send(Err(error));
        }
    }

    /// Number of calls that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().len()
    }
}

impl Waiting {
    /// The end of the call.
    pub(super) async fn outcome(&mut self) -> Outcome {
        // The sender goes with the callback alone, which this call removes.
        (&mut self.outcome).await.unwrap_or(Err(CallError::TimedOut))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.callbacks.waiting.lock().remove(&self.key);
    }
}
