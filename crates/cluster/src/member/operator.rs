//! What operators ask of a member, and have it do.

use super::{GOSSIP_TIMEOUT, Member, MemberError};
use crate::endpoint::Endpoint;
use crate::gossip::{AppState, Now, Status, next_generation, tokens, values};
use crate::messaging::{Message, Verb};
use std::sync::atomic::Ordering;
use uuid::Uuid;

impl Member {
    /// The version of the schema of each node that was heard of, as the node itself says; `None` for one that
    /// does not answer (`StorageProxy.describeSchemaVersions` of Cassandra 5.0).
    pub async fn schema_versions(&self) -> Vec<(Endpoint, Option<Uuid>)> {
        let (live, lost) = self.with_gossip(|gossiper| (gossiper.live(), gossiper.unreachable()));
        let calls: Vec<_> = live
            .into_iter()
            .map(|to| {
                let question = Message::new(Verb::SchemaVersionReq, Vec::new());
                (to, self.messenger.call(to, question, GOSSIP_TIMEOUT))
            })
            .collect();
        let mut found = vec![(self.options.gossip.endpoint, Some(self.host.schema_version()))];
        for (from, call) in calls {
            let answer = call.await.ok();
            found.push((from, answer.and_then(|answer| Uuid::from_slice(&answer.payload).ok())));
        }
        found.extend(lost.into_iter().map(|endpoint| (endpoint, None)));
        found.sort_by_key(|(endpoint, _)| *endpoint);
        found
    }

    /// Whether it gossips.
    pub fn gossips(&self) -> bool {
        self.with_gossip(|gossiper| gossiper.is_running())
    }

    /// Stops to gossip, and tells the others so: they take the node for one that is down. What it knows of
    /// them stays as it is. Whether it did so: only a node that has taken its part of the ring does.
    pub fn stop_gossip(&self) -> bool {
        if !self.has_joined.load(Ordering::SeqCst) || self.is_stopped.load(Ordering::SeqCst) {
            return false;
        }
        let farewell = self.gossiper.lock().shutdown();
        self.carry_out(farewell);
        true
    }

    /// Gossips again, as after a new start. `is_ready` says whether clients are let in; `keep` writes the
    /// number of the start down before it is said.
    ///
    /// # Errors
    /// That of `keep`, and [`MemberError::TooLong`].
    pub fn start_gossip<E: From<MemberError>>(
        &self,
        is_ready: bool,
        keep: impl FnOnce(i32) -> Result<(), E>,
    ) -> Result<(), E> {
        let own = self.with_gossip(|gossiper| gossiper.own().generation);
        if self.gossips() || self.is_stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        let generation = next_generation(Some(own), Now::of(&self.env));
        keep(generation)?;
        let (text, token) = {
            let tokens = self.tokens.lock();
            (tokens::encode(&tokens), tokens.first().copied().unwrap_or_default())
        };
        let text = text.map_err(|_| MemberError::TooLong("tokens"))?;
        let mut gossiper = self.gossiper.lock();
        gossiper.set(AppState::TOKENS, text);
        gossiper.set_status(Status::Normal { token });
        gossiper.set(AppState::RPC_READY, values::rpc_ready(is_ready));
        gossiper.start(generation);
        Ok(())
    }

    /// Whether it has left: it says and hears nothing any more.
    pub fn has_left(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}
