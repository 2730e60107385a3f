//! One schema for all nodes.
//!
//! 1. A node that changes its schema pushes the change to all that are alive, and gossips its new version.
//! 2. A node that hears of another version pulls the whole schema from who has it, one node at a time. It
//!    waits a little first: the push may be on its way.
//! 3. Nodes of another release, or of another version of messages, are left alone: their schemas have other
//!    columns.

use super::Member;
use crate::endpoint::Endpoint;
use crate::gossip::{AppState, EndpointState, values};
use crate::messaging::{FailureReason, Message, Request, Verb};
use crate::verbs::schema::{decode_schema, encode_schema};
use model::Mutation;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// How long a push may take until a pull begins.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a schema may take to come.
const PULL_TIMEOUT: Duration = Duration::from_secs(10);

/// Release without its patch level.
fn line_of(release: &str) -> &str {
    let mut dots = release.match_indices('.').skip(1);
    dots.next().map_or(release, |(at, _)| release.get(..at).unwrap_or(release))
}

/// The messaging version that a node tells of itself.
fn messaging_version(state: &EndpointState) -> Option<u32> {
    state.text(AppState::NET_VERSION)?.parse().ok()
}

impl Member {
    /// The least of the messaging versions that this node and all that it knows speak. A node that did not
    /// say what it speaks counts as this one.
    pub fn messaging_version_min(&self) -> u32 {
        let own = self.options.messaging_version;
        self.with_gossip(|gossiper| {
            gossiper.states().filter_map(|(_, state)| messaging_version(state)).fold(own, u32::min)
        })
    }

    /// Whether a node's schema has the columns of this one's.
    fn speaks_alike(&self, state: &EndpointState) -> bool {
        let release = state.text(AppState::RELEASE_VERSION).map(line_of);
        release == Some(line_of(&self.options.release_version))
            && messaging_version(state) == Some(self.options.messaging_version)
    }

    /// Nodes that are alive and have another schema.
    fn ahead(&self) -> Vec<(Endpoint, Uuid)> {
        let own = self.host.schema_version();
        self.with_gossip(|gossiper| {
            let live = gossiper.live().into_iter();
            let ahead = live.filter_map(|endpoint| {
                let state = gossiper.state(&endpoint).filter(|state| self.speaks_alike(state))?;
                state.schema().filter(|version| *version != own).map(|version| (endpoint, version))
            });
            ahead.collect()
        })
    }

    /// This node has changed its schema.
    pub fn schema_changed(&self, mutations: &[Mutation], version: Uuid) {
        self.gossiper.lock().set(AppState::SCHEMA, values::uuid(version));
        let live = self.with_gossip(|gossiper| {
            let speaks = |to: &Endpoint| gossiper.state(to).is_some_and(|state| self.speaks_alike(state));
            gossiper.live().into_iter().filter(speaks).collect::<Vec<_>>()
        });
        for to in live {
            let version = self.messenger.version(to);
            let mut payload = Vec::new();
            if let Err(error) = encode_schema(mutations, version, &mut payload) {
                tracing::error!(%error, "a change of the schema cannot be sent");
                return;
            }
            let message = Message::new(Verb::SchemaPushReq, payload).encoded_for(version);
            if let Err(error) = self.messenger.send(to, message, PULL_TIMEOUT) {
                tracing::warn!(%to, %error, "a change of the schema is not sent; it will be asked for");
            }
        }
    }

    /// Pulls the schema of another node, if one that is alive has another and none is being pulled.
    pub(super) fn pull_if_behind(&self) {
        if self.ahead().is_empty() || self.is_pulling.swap(true, Ordering::SeqCst) {
            return;
        }
        let (weak, tasks) = (Weak::clone(&self.this), self.env.tasks.clone());
        (self.spawn)(Box::pin(async move {
            tasks.sleep(PATIENCE).await;
            if let Some(member) = weak.upgrade() {
                for (endpoint, _) in member.ahead() {
                    match member.pull(endpoint).await {
                        Ok(()) => break,
                        Err(error) => {
                            tracing::warn!(from = %endpoint, %error, "the schema cannot be had");
                        }
                    }
                }
                member.is_pulling.store(false, Ordering::SeqCst);
            }
        }));
    }

    async fn pull(&self, from: Endpoint) -> Result<(), String> {
        let version = self.messenger.version(from);
        let request = Message::new(Verb::SchemaPullReq, Vec::new());
        let answer = self.messenger.call(from, request, PULL_TIMEOUT).await;
        let payload = answer.map_err(|error| error.to_string())?.payload;
        let schema = self.host.schema();
        let lookup = |id: Uuid| schema.table_by_id(id).cloned();
        let mutations = decode_schema(payload, version, &lookup).map_err(|error| error.to_string())?;
        self.merge(mutations).await
    }

    async fn merge(&self, mutations: Vec<Mutation>) -> Result<(), String> {
        let version = self.host.merge_schema(mutations).await?;
        let mut gossiper = self.gossiper.lock();
        if gossiper.own().schema() != Some(version) {
            gossiper.set(AppState::SCHEMA, values::uuid(version));
        }
        Ok(())
    }

    /// Another node asks for the schema.
    pub(super) fn hand_out_schema(&self, request: Request) {
        let (weak, rows) = (Weak::clone(&self.this), self.host.schema_mutations());
        (self.spawn)(Box::pin(async move {
            let rows = rows.await;
            let Some(member) = weak.upgrade() else { return };
            let mut payload = Vec::new();
            let encoded = rows.and_then(|rows| {
                encode_schema(&rows, request.version, &mut payload).map_err(|error| error.to_string())
            });
            match encoded {
                Ok(()) => member.answer(&request, payload),
                Err(error) => {
                    tracing::error!(%error, "the schema cannot be handed out");
                    // Who does not hear of it waits in vain.
                    let _ = member.messenger.fail(&request.reply_to(), FailureReason::Unknown);
                }
            }
        }));
    }

    /// Another node has changed its schema.
    pub(super) fn take_schema(&self, request: Request) {
        let schema = self.host.schema();
        let lookup = |id: Uuid| schema.table_by_id(id).cloned();
        let mutations = match decode_schema(request.message.payload.clone(), request.version, &lookup) {
            Ok(mutations) => mutations,
            Err(error) => {
                tracing::error!(from = %request.from, %error, "a change of the schema cannot be taken");
                return;
            }
        };
        let weak = Weak::clone(&self.this);
        (self.spawn)(Box::pin(async move {
            let Some(member) = weak.upgrade() else { return };
            match member.merge(mutations).await {
                Ok(()) => member.answer(&request, Vec::new()),
                Err(error) => {
                    tracing::error!(from = %request.from, %error, "a change of the schema cannot be taken");
                }
            }
        }));
    }

    /// Waits until all nodes that this one knows are alive and have its schema, for a few seconds.
    pub async fn agree(&self) {
        let mut ticks = self.env.tasks.ticks(PATIENCE / 5);
        for _ in 0..100 {
            // Who was not heard yet since the start is about to be, and would refuse what it does not know.
            if self.with_gossip(|gossiper| gossiper.unreachable().is_empty()) && self.ahead().is_empty() {
                return;
            }
            ticks.next().await;
        }
    }

    /// Waits until the schema is that of the others, for some time.
    pub(super) async fn await_schema(&self) {
        let mut ticks = self.env.tasks.ticks(super::ROUND);
        for _ in 0..super::SCHEMA_SECONDS {
            if self.ahead().is_empty() {
                return;
            }
            self.pull_if_behind();
            ticks.next().await;
        }
        let behind = self.ahead();
        tracing::warn!(?behind, "the schema of other nodes is still another one");
    }
}
