//! A member of a ring: what gossip tells becomes the ring that the coordinator asks for.
//!
//! Start:
//! 1. The shadow round ([`Member::look_around`]): who is there, and may this node join under its address and
//!    its id?
//! 2. The node gossips ([`Member::begin`]). It waits until it has heard of those that it knows, and until the
//!    schema is that of the others. Then it takes its part ([`Member::take_tokens`]).
//! 3. It says that clients are let in ([`Member::set_ready`]).
//!
//! Meanwhile, each second, it gossips. What it hears
//! - changes who holds what ([`events`]), and the peers that the node remembers;
//! - has the schema of others pulled where it is another one ([`schema`]);
//! - is told to clients.
//!
//! End: [`Member::announce_shutdown`] tells the others, so that they need not find out.

mod events;
mod host;
mod operator;
mod schema;
#[cfg(test)]
mod tests;

pub use host::{Host, PeerRecord, Pending, RingEvent};

use crate::endpoint::Endpoint;
use crate::gossip::join::{JoinError, Joiner, check_host_id, check_join};
use crate::gossip::{
    AppState, Effects, EndpointState, Event, Gossiper, Now, Saved, Settings, ShadowEnd, Status, Text, tokens,
    values,
};
use crate::messaging::{Handler, Messenger, Request, Verb};
use crate::remote::RemoteTimeouts;
use crate::ring::RingTopology;
use crate::ring::allocation::Neighbour;
use crate::serve::Spawn;
use coordinator::{DiskUsage, Node};
use env::Env;
use env::sync::Mutex;
use events::Known;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use uuid::Uuid;

/// Between two rounds of gossip.
const ROUND: Duration = Duration::from_secs(1);
/// How long a node waits at least for those that it knows before it goes on without them, as Cassandra does.
const SETTLE_SECONDS: u32 = 5;
/// And until nobody has answered for so long.
const QUIET_SECONDS: u32 = 3;
/// How long a node that joins waits until its schema is that of the others.
const SCHEMA_SECONDS: u32 = 30;
/// Given to messages that say farewell (`cassandra.shutdown_announce_in_ms`).
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a message of gossip is worth its while.
const GOSSIP_TIMEOUT: Duration = Duration::from_secs(10);

/// Who a member is.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// How it gossips.
    pub gossip: Settings,
    /// Its id.
    pub host_id: Uuid,
    /// Number of this start; larger than that of any before.
    pub generation: i32,
    /// Whether it has once owned tokens.
    pub has_bootstrapped: bool,
    /// Release of Cassandra whose words it speaks.
    pub release_version: String,
    /// Largest version of messages that it speaks.
    pub messaging_version: u32,
    /// Where clients find it.
    pub native: Endpoint,
    /// Its own address in its network.
    pub internal: IpAddr,
    /// Whether it reaches nodes of its data center at their addresses there (`prefer_local`).
    pub prefers_local: bool,
    /// Versions of SSTables that it writes and reads, such as `big-nb`.
    pub sstable_versions: Vec<String>,
    /// How long other nodes may take.
    pub timeouts: RemoteTimeouts,
}

/// Why a node cannot be a member.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// Nobody answers.
    #[error("Unable to gossip with any peers")]
    Alone,
    /// Its address or its id is another's.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A text that it would say of itself is too long.
    #[error("{0} is too long to be told to other nodes")]
    TooLong(&'static str),
}

/// What a shadow round found.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The other nodes, as far as anybody knows them.
    pub others: BTreeMap<Endpoint, EndpointState>,
}

/// A member of a ring.
pub struct Member {
    env: Env,
    options: MemberOptions,
    messenger: Arc<Messenger>,
    topology: Arc<RingTopology>,
    host: Arc<dyn Host>,
    spawn: Spawn,
    gossiper: Mutex<Gossiper>,
    known: Mutex<Known>,
    shadow: Mutex<Option<ShadowEnd>>,
    /// Its tokens, since it took them.
    tokens: Mutex<Vec<i64>>,
    /// Whether it has told its tokens.
    has_joined: AtomicBool,
    is_stopped: AtomicBool,
    is_pulling: AtomicBool,
    this: Weak<Member>,
}

impl Member {
    /// A member that says nothing yet. `saved` are the nodes that it remembers.
    pub fn new(
        env: Env,
        options: MemberOptions,
        messenger: Arc<Messenger>,
        topology: Arc<RingTopology>,
        host: Arc<dyn Host>,
        spawn: Spawn,
        saved: Vec<PeerRecord>,
    ) -> Arc<Member> {
        let now = Now::of(&env);
        let mut gossiper = Gossiper::new(options.gossip.clone(), Arc::clone(&env.random), now);
        for peer in &saved {
            let host_id = Some(values::uuid(peer.host_id));
            let saved = Saved { host_id, tokens: tokens::encode(&peer.tokens).ok() };
            gossiper.add_saved(peer.endpoint, saved, now);
        }
        let member = Arc::new_cyclic(|this| Member {
            env,
            known: Mutex::new(Known::new(saved)),
            options,
            messenger,
            topology,
            host,
            spawn,
            gossiper: Mutex::new(gossiper),
            shadow: Mutex::new(None),
            tokens: Mutex::default(),
            has_joined: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            is_pulling: AtomicBool::new(false),
            this: Weak::clone(this),
        });
        for verb in VERBS {
            // The messenger keeps the handler for ever, and would keep the member alive.
            let weak = Weak::clone(&member.this);
            let handler = move |_: &Arc<Messenger>, request: Request| {
                if let Some(member) = weak.upgrade() {
                    member.hear(request);
                }
            };
            member.messenger.handle(*verb, Arc::new(handler) as Arc<dyn Handler>);
        }
        member.refresh_members();
        member
    }

    /// The ring.
    pub fn topology(&self) -> &Arc<RingTopology> {
        &self.topology
    }

    /// The messages between nodes.
    pub fn messenger(&self) -> &Arc<Messenger> {
        &self.messenger
    }

    /// What is known of each node, for people to see.
    pub fn with_gossip<T>(&self, look: impl FnOnce(&Gossiper) -> T) -> T {
        look(&self.gossiper.lock())
    }

    /// Asks seeds and remembered nodes who is there.
    ///
    /// # Errors
    /// [`MemberError::Alone`] when nobody answers a node that is no seed; [`MemberError::Join`].
    pub async fn look_around(&self) -> Result<Surroundings, MemberError> {
        let peers: BTreeSet<Endpoint> = self.known.lock().saved_endpoints();
        let is_seed = self.options.gossip.seeds.contains(&self.options.gossip.endpoint);
        let begun = self.gossiper.lock().start_shadow_round(peers, Now::of(&self.env));
        self.carry_out(begun);
        let mut ticks = self.env.tasks.ticks(Duration::from_millis(100));
        let end = loop {
            if let Some(end) = self.shadow.lock().take() {
                break end;
            }
            ticks.next().await;
            let step = self.gossiper.lock().tick(Now::of(&self.env));
            self.carry_out(step);
        };
        let mut others = match end {
            ShadowEnd::Answered(states) => states,
            ShadowEnd::Failed if is_seed || self.options.has_bootstrapped => BTreeMap::new(),
            ShadowEnd::Failed => return Err(MemberError::Alone),
        };
        let joiner = Joiner {
            endpoint: self.options.gossip.endpoint,
            host_id: self.options.host_id,
            bootstraps: false,
            has_bootstrapped: self.options.has_bootstrapped,
            needs_quiet_ring: true,
        };
        check_join(&joiner, &others)?;
        others.remove(&self.options.gossip.endpoint);
        Ok(Surroundings { others })
    }

    /// Begins to gossip. Returns when the node has heard of those that it knows and has their schema, or has
    /// waited for that in vain.
    ///
    /// # Errors
    /// [`MemberError::Join`] when another node that is alive has its id.
    pub async fn begin(&self) -> Result<(), MemberError> {
        {
            let mut gossiper = self.gossiper.lock();
            for (key, value) in self.own_states()? {
                gossiper.set(key, value);
            }
            gossiper.start(self.options.generation);
        }
        self.keep_gossiping();
        self.settle().await;
        check_host_id(&self.gossiper.lock(), self.options.host_id)?;
        self.await_schema().await;
        Ok(())
    }

    /// The other nodes of this one's data center, for whoever chooses tokens.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let (own, members) = (self.topology.this(), self.topology.members());
        let near = members
            .iter()
            .filter(|member| member.node.datacenter == own.datacenter && member.node.id != own.id);
        near.map(|member| Neighbour {
            rack: member.node.rack.to_string(),
            tokens: member.tokens.iter().map(|token| token.0).collect(),
        })
        .collect()
    }

    /// Takes the node's part of the ring.
    ///
    /// # Errors
    /// [`MemberError::TooLong`].
    pub fn take_tokens(&self, tokens: Vec<i64>) -> Result<(), MemberError> {
        let told = {
            let mut gossiper = self.gossiper.lock();
            let text = tokens::encode(&tokens).map_err(|_| MemberError::TooLong("tokens"))?;
            gossiper.set(AppState::TOKENS, text);
            let token = tokens.first().copied().unwrap_or_default();
            gossiper.set_status(Status::Normal { token });
            gossiper.announce()
        };
        // Before clients are let in: a write at ALL shall not miss a node that is there.
        self.carry_out(told);
        *self.tokens.lock() = tokens;
        self.has_joined.store(true, Ordering::SeqCst);
        self.refresh_members();
        Ok(())
    }

    /// Says whether clients are let in.
    pub fn set_ready(&self, is_ready: bool) {
        self.gossiper.lock().set(AppState::RPC_READY, values::rpc_ready(is_ready));
    }

    /// Says how full the disks of this node are.
    pub fn set_disk_usage(&self, usage: DiskUsage) {
        self.topology.this().set_disk_usage(usage);
        // The words are short enough.
        if let Ok(word) = Text::new(usage.word()) {
            self.gossiper.lock().set(AppState::DISK_USAGE, word);
        }
    }

    /// Tells the others that this node stops, and gives that time to arrive.
    pub async fn announce_shutdown(&self) {
        if self.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        let farewell = self.gossiper.lock().shutdown();
        let tells_somebody = !farewell.messages.is_empty();
        self.carry_out(farewell);
        if tells_somebody {
            self.env.tasks.sleep(FAREWELL).await;
        }
    }

    /// What the node says of itself from the first round on.
    fn own_states(&self) -> Result<Vec<(AppState, Text)>, MemberError> {
        let options = &self.options;
        let node = self.topology.this();
        let text = |value: &str, what| Text::new(value).map_err(|_| MemberError::TooLong(what));
        let versions: Vec<&str> = options.sstable_versions.iter().map(String::as_str).collect();
        let versions =
            values::sstable_versions(&versions).map_err(|_| MemberError::TooLong("versions of SSTables"))?;
        Ok(vec![
            (AppState::NET_VERSION, values::net_version(options.messaging_version)),
            (AppState::HOST_ID, values::uuid(options.host_id)),
            (AppState::NATIVE_ADDRESS_AND_PORT, values::address_and_port(options.native)),
            (AppState::RPC_ADDRESS, values::ip(options.native.ip)),
            (AppState::RELEASE_VERSION, text(&options.release_version, "the release")?),
            (AppState::SSTABLE_VERSIONS, versions),
            (AppState::INTERNAL_ADDRESS_AND_PORT, {
                values::address_and_port(Endpoint::new(options.internal, options.gossip.endpoint.port))
            }),
            (AppState::INTERNAL_IP, values::ip(options.internal)),
            (AppState::DC, text(&node.datacenter, "the data center")?),
            (AppState::RACK, text(&node.rack, "the rack")?),
            (AppState::LOAD, values::load(self.host.data_bytes())),
            (AppState::SCHEMA, values::uuid(self.host.schema_version())),
            (AppState::RPC_READY, values::rpc_ready(false)),
        ])
    }

    fn keep_gossiping(&self) {
        let (weak, tasks) = (Weak::clone(&self.this), self.env.tasks.clone());
        (self.spawn)(Box::pin(async move {
            let (mut ticks, mut round) = (tasks.ticks(ROUND), 0u32);
            loop {
                ticks.next().await;
                let Some(member) = weak.upgrade() else { return };
                if member.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                round = round.wrapping_add(1);
                member.round(round);
            }
        }));
    }

    fn round(&self, round: u32) {
        let effects = {
            let mut gossiper = self.gossiper.lock();
            // As often as Cassandra does.
            if round.is_multiple_of(60) {
                gossiper.set(AppState::LOAD, values::load(self.host.data_bytes()));
            }
            gossiper.tick(Now::of(&self.env))
        };
        self.carry_out(effects);
        self.pull_if_behind();
    }

    /// Waits until all nodes that may be there have answered. Those that do not are given up after some
    /// seconds in which nobody else did.
    async fn settle(&self) {
        let mut ticks = self.env.tasks.ticks(ROUND);
        let (mut live, mut quiet_seconds) = (0, 0);
        for second in 0.. {
            let (now_live, is_waited_for, is_alone) = self.with_gossip(|gossiper| {
                let (live, lost) = (gossiper.live().len(), gossiper.unreachable().len());
                (live, lost > 0, gossiper.seeds().is_empty() && lost == 0 && live == 0)
            });
            quiet_seconds = if now_live == live { quiet_seconds + 1 } else { 0 };
            live = now_live;
            let is_whole = live > 0 && !is_waited_for;
            if is_alone || is_whole || second >= SETTLE_SECONDS && quiet_seconds >= QUIET_SECONDS {
                return;
            }
            ticks.next().await;
        }
    }

    /// Sends what is to be sent, and takes note of what happened.
    fn carry_out(&self, effects: Effects) {
        for outgoing in effects.messages {
            self.send(outgoing);
        }
        let mut events = effects.events;
        events.retain(|event| match event {
            Event::ShadowRoundEnded(end) => {
                *self.shadow.lock() = Some(end.clone());
                false
            }
            _ => true,
        });
        if !events.is_empty() {
            self.take_note(events);
        }
    }

    fn send(&self, outgoing: crate::gossip::Outgoing) {
        use crate::gossip::Verb as Said;
        use crate::messaging::Message;
        let to = outgoing.to;
        let verb = match outgoing.verb {
            Said::Syn => Verb::GossipDigestSyn,
            Said::Ack => Verb::GossipDigestAck,
            Said::Ack2 => Verb::GossipDigestAck2,
            Said::Shutdown => Verb::GossipShutdown,
            Said::Echo => {
                let answer = self.messenger.call(to, Message::new(Verb::EchoReq, Vec::new()), GOSSIP_TIMEOUT);
                let weak = Weak::clone(&self.this);
                (self.spawn)(Box::pin(async move {
                    if answer.await.is_ok()
                        && let Some(member) = weak.upgrade()
                    {
                        let effects = member.gossiper.lock().on_echo_response(to, Now::of(&member.env));
                        member.carry_out(effects);
                    }
                }));
                return;
            }
        };
        // Nodes of version 12 expect nothing with it.
        let is_empty = verb == Verb::GossipShutdown && self.messenger.version(to) < 13;
        let payload = if is_empty { Vec::new() } else { outgoing.payload.to_vec() };
        if let Err(error) = self.messenger.send(to, Message::new(verb, payload), GOSSIP_TIMEOUT) {
            tracing::debug!(%to, %error, "gossip is not sent");
        }
    }

    /// A request of another node.
    fn hear(&self, request: Request) {
        let (from, payload, now) = (request.from, request.message.payload.clone(), Now::of(&self.env));
        let effects = match request.message.verb {
            Verb::GossipDigestSyn => self.gossiper.lock().on_syn(from, payload),
            Verb::GossipDigestAck => self.gossiper.lock().on_ack(from, payload, now),
            Verb::GossipDigestAck2 => self.gossiper.lock().on_ack2(from, payload, now),
            Verb::GossipShutdown => self.gossiper.lock().on_shutdown(from, payload, now),
            Verb::EchoReq => {
                if self.gossiper.lock().answers_echo() {
                    self.answer(&request, Vec::new());
                }
                return;
            }
            Verb::SchemaVersionReq => {
                return self.answer(&request, self.host.schema_version().as_bytes().to_vec());
            }
            Verb::SchemaPullReq => return self.hand_out_schema(request),
            Verb::SchemaPushReq => return self.take_schema(request),
            _ => return,
        };
        match effects {
            Ok(effects) => self.carry_out(effects),
            Err(error) => {
                tracing::warn!(%from, verb = %request.message.verb, %error, "gossip cannot be read");
            }
        }
    }

    fn answer(&self, request: &Request, payload: Vec<u8>) {
        let reply = request.reply_to();
        if let Some(answer) = reply.answer(payload)
            && let Err(error) = self.messenger.respond(&reply, answer)
        {
            tracing::debug!(to = %reply.to, %error, "an answer is not sent");
        }
    }

    /// This node.
    pub fn node(&self) -> &Arc<Node> {
        self.topology.this()
    }
}

/// What a member listens to.
const VERBS: &[Verb] = &[
    Verb::GossipDigestSyn,
    Verb::GossipDigestAck,
    Verb::GossipDigestAck2,
    Verb::GossipShutdown,
    Verb::EchoReq,
    Verb::SchemaVersionReq,
    Verb::SchemaPullReq,
    Verb::SchemaPushReq,
];
