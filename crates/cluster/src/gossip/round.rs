//! What a node does each second.
//!
//! 1. It counts its heartbeat.
//! 2. It sends what it knows of each node, as digests in random order, to a random node that is alive.
//! 3. With the probability `unreachable / (alive + 1)` it sends them to one that is not, in case it is back.
//! 4. If the first was no seed, or fewer nodes are alive than there are seeds, it sends them to a seed as
//!    well: always when nobody is alive, else with the probability `seeds / (alive + unreachable)`. So two
//!    halves of a cluster, each with its seeds, find each other again.
//! 5. It judges who is dead, and forgets those who are to be forgotten:
//!    - who owns no tokens and was silent for the ring delay, or ten times as long while it was joining;
//!    - who has left and is past its time.
//!
//! A node that is forgotten stays in quarantine for twice the ring delay. Until then others may still tell of
//! it. Source: `Gossiper.GossipTask`, `doStatusCheck` of Cassandra 4.0 to 5.0.

use super::effects::{Effects, Event};
use super::gossiper::{Gossiper, Now, Phase};
use super::message::{Syn, Verb};
use super::shadow::{ShadowEnd, ShadowStep};
use super::status::StatusKind;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use std::collections::BTreeMap;

const NANOS_PER_MILLI: u64 = 1_000_000;

impl Gossiper {
    /// A second has passed.
    pub fn tick(&mut self, now: Now) -> Effects {
        let mut out = Effects::default();
        match self.phase {
            Phase::Idle => {}
            Phase::Shadow(_) => self.step_shadow_round(now, &mut out),
            Phase::Running => {
                self.own.heartbeat = self.next_version();
                self.gossip(&mut out);
                self.judge(now, &mut out);
            }
        }
        out
    }

    /// Opens a round with everybody who is alive: nobody hears a second later what has changed here.
    pub fn announce(&mut self) -> Effects {
        let mut out = Effects::default();
        if matches!(self.phase, Phase::Running) {
            let syn = self.syn(true);
            let live = self.live();
            self.has_sent_syn |= !live.is_empty();
            live.into_iter().for_each(|to| out.send(to, Verb::Syn, syn.clone()));
        }
        out
    }

    pub(super) fn step_shadow_round(&mut self, now: Now, out: &mut Effects) {
        let Phase::Shadow(round) = &mut self.phase else { return };
        match round.step(&self.seeds, now.monotonic_nanos) {
            ShadowStep::Wait => {}
            ShadowStep::Ask(whom) => {
                let syn = self.syn(false);
                whom.into_iter().for_each(|to| out.send(to, Verb::Syn, syn.clone()));
            }
            ShadowStep::Begin => {
                self.phase = Phase::Idle;
                out.tell(Event::ShadowRoundEnded(ShadowEnd::Answered(BTreeMap::new())));
            }
            ShadowStep::GiveUp => {
                self.phase = Phase::Idle;
                let end = match self.is_seed() {
                    true => ShadowEnd::Answered(BTreeMap::new()),
                    false => ShadowEnd::Failed,
                };
                out.tell(Event::ShadowRoundEnded(end));
            }
        }
    }

    fn syn(&self, with_digests: bool) -> Bytes {
        let mut digests = if with_digests { self.digests() } else { Vec::new() };
        for at in (1..digests.len()).rev() {
            digests.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        let (cluster_name, partitioner) =
            (self.settings.cluster_name.clone(), self.settings.partitioner.clone());
        Syn { cluster_name, partitioner, digests }.encode().into()
    }

    fn gossip(&mut self, out: &mut Effects) {
        let syn = self.syn(true);
        let (live, unreachable) = (self.live(), self.unreachable());
        let mut send = |among: &[Endpoint]| {
            let to = among.get(self.random.below(among.len() as u64) as usize).copied();
            to.into_iter().for_each(|to| out.send(to, Verb::Syn, syn.clone()));
            self.has_sent_syn |= to.is_some();
            to.is_some_and(|to| self.seeds.contains(&to))
        };
        let was_seed = send(&live);

        let (alive, lost) = (live.len() as f64, unreachable.len() as f64);
        if self.random.unit() < lost / (alive + 1.0) {
            let is_worth_trying =
                |lost: &&Endpoint| self.peers.get(lost).is_some_and(|p| p.is_worth_trying());
            send(&unreachable.iter().filter(is_worth_trying).copied().collect::<Vec<_>>());
        }

        let seeds: Vec<Endpoint> = self.seeds.iter().copied().collect();
        let needs_seed = !was_seed || live.len() < seeds.len();
        if needs_seed && (live.is_empty() || self.random.unit() <= seeds.len() as f64 / (alive + lost)) {
            send(&seeds);
        }
    }

    fn judge(&mut self, now: Now, out: &mut Effects) {
        let may_convict = self.detector.begin_round(now.monotonic_nanos);
        let everybody: Vec<Endpoint> = self.peers.keys().copied().collect();
        for endpoint in everybody {
            if may_convict && self.detector.is_convicted(&endpoint, now.monotonic_nanos) {
                self.mark_dead(endpoint, now, out);
            }
            if self.is_to_be_forgotten(&endpoint, now) {
                self.evict(endpoint, now, out);
            }
        }
        let quarantine = self.quarantine_millis();
        self.quarantine.retain(|_, since| now.wall_millis.saturating_sub(*since) <= quarantine);
    }

    fn is_to_be_forgotten(&self, endpoint: &Endpoint, now: Now) -> bool {
        let Some(peer) = self.peers.get(endpoint).filter(|peer| !peer.is_member) else { return false };
        let status = peer.state.status_kind();
        let silent_millis = now.monotonic_nanos.saturating_sub(peer.updated_nanos) / NANOS_PER_MILLI;
        let patience = match status {
            StatusKind::Boot | StatusKind::BootReplace => self.settings.ring_delay_millis.saturating_mul(10),
            _ => self.settings.ring_delay_millis,
        };
        let is_silent = !status.is_dead() && silent_millis > patience;
        let is_expired = !peer.is_alive() && peer.expires_millis.is_some_and(|at| now.wall_millis > at);
        is_silent || is_expired
    }

    fn quarantine_millis(&self) -> i64 {
        i64::try_from(self.settings.ring_delay_millis.saturating_mul(2)).unwrap_or(i64::MAX)
    }

    /// Forgets a node, and what is said of it for a while.
    pub(super) fn evict(&mut self, endpoint: Endpoint, now: Now, out: &mut Effects) {
        self.mark_dead(endpoint, now, out);
        if let Some(peer) = self.peers.remove(&endpoint) {
            self.states_bytes = self.states_bytes.saturating_sub(peer.state.bytes());
            out.tell(Event::Removed(endpoint));
        }
        self.detector.remove(&endpoint);
        self.seeds.remove(&endpoint);
        self.quarantine.insert(endpoint, now.wall_millis);
    }

    /// Forgets a node whose tokens or id another address has taken over.
    pub fn replace(&mut self, endpoint: Endpoint, now: Now) -> Effects {
        let mut out = Effects::default();
        self.evict(endpoint, now, &mut out);
        out
    }
}
