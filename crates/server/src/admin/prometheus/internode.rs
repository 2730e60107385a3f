//! What is counted of other nodes: messages, hints, reads whose replicas did not agree. A node that is alone
//! has none of it.

use super::Page;
use crate::membership::RingView;
use cluster::messaging::counters::{Outbound, Sum};
use cluster::messaging::{ConnectionKind, Verb};
use coordinator::Coordinator;

/// Messages that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Gossip,
    Schema,
    Read,
    Write,
    Hint,
    ReadRepair,
    Batch,
    Counter,
    Paxos,
    Truncate,
    Failure,
    Other,
}

impl Group {
    const ALL: [Group; 12] = [
        Group::Gossip,
        Group::Schema,
        Group::Read,
        Group::Write,
        Group::Hint,
        Group::ReadRepair,
        Group::Batch,
        Group::Counter,
        Group::Paxos,
        Group::Truncate,
        Group::Failure,
        Group::Other,
    ];

    fn name(self) -> &'static str {
        match self {
            Group::Gossip => "gossip",
            Group::Schema => "schema",
            Group::Read => "read",
            Group::Write => "write",
            Group::Hint => "hint",
            Group::ReadRepair => "read_repair",
            Group::Batch => "batch",
            Group::Counter => "counter",
            Group::Paxos => "paxos",
            Group::Truncate => "truncate",
            Group::Failure => "failure",
            Group::Other => "other",
        }
    }

    /// That of a verb: requests and their answers are of one.
    fn of(verb: Verb) -> Group {
        let name = verb.name();
        let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        match () {
            () if is(&["GOSSIP_", "ECHO_"]) => Group::Gossip,
            () if is(&["SCHEMA_"]) => Group::Schema,
            () if is(&["READ_REPAIR_"]) => Group::ReadRepair,
            () if is(&["READ_", "RANGE_"]) => Group::Read,
            () if is(&["MUTATION_"]) => Group::Write,
            () if is(&["HINT_"]) => Group::Hint,
            () if is(&["BATCH_"]) => Group::Batch,
            () if is(&["COUNTER_"]) => Group::Counter,
            () if is(&["PAXOS"]) => Group::Paxos,
            () if is(&["TRUNCATE_"]) => Group::Truncate,
            () if is(&["FAILURE_"]) => Group::Failure,
            () => Group::Other,
        }
    }
}

/// Adds all of it.
pub(super) fn numbers(page: &mut Page, ring: &RingView, coordinator: &Coordinator) {
    let (live, lost) = ring.live_and_lost();
    page.family("ilion_ring_nodes", "gauge", "Nodes of the ring, this one among them, by state.");
    page.sample("ilion_ring_nodes", &[("state", "up")], live);
    page.sample("ilion_ring_nodes", &[("state", "down")], lost);
    by_group(page, ring);
    by_connection(page, ring);
    let name = "ilion_internode_calls_waiting";
    page.gauge(name, "Requests to other nodes that wait for an answer.", ring.calls_waiting());
    hints(page, ring);
    let repairs = coordinator.read_repairs();
    let name = "ilion_read_mismatches_total";
    page.counter(name, "Reads whose replicas did not agree.", repairs.attempted());
    let name = "ilion_read_repairs_total";
    let help = "Reads that were answered when the replicas had what they lacked.";
    page.counter(name, help, repairs.blocking());
}

fn by_group(page: &mut Page, ring: &RingView) {
    let mut counted = Group::ALL.map(|group| (group, [0u64; 3]));
    for (verb, counts) in ring.verbs() {
        if let Some((_, sums)) = counted.iter_mut().find(|(group, _)| *group == Group::of(verb)) {
            let [sent, received, dropped] = sums;
            *sent += counts.sent;
            *received += counts.received;
            *dropped += counts.dropped;
        }
    }
    let mut family = |name: &str, help: &str, of: fn(&[u64; 3]) -> u64| {
        page.family(name, "counter", help);
        counted.iter().for_each(|(group, sums)| page.sample(name, &[("verbs", group.name())], of(sums)));
    };
    let (sent, received) = ("ilion_internode_sent_total", "ilion_internode_received_total");
    family(sent, "Messages to other nodes that were taken for sending.", |[sent, ..]| *sent);
    family(received, "Messages of other nodes that arrived.", |[_, received, _]| *received);
    let name = "ilion_internode_dropped_total";
    family(name, "Messages that arrived, and were too late to be carried out.", |[.., dropped]| *dropped);
}

fn by_connection(page: &mut Page, ring: &RingView) {
    let mut sums = ConnectionKind::ALL.map(|kind| (kind, Outbound::default()));
    for (_, by_kind) in ring.outbound() {
        for ((_, sum), one) in sums.iter_mut().zip(by_kind) {
            let add = |to: &mut Sum, of: Sum| {
                to.count += of.count;
                to.bytes += of.bytes;
            };
            add(&mut sum.sent, one.sent);
            add(&mut sum.expired, one.expired);
            add(&mut sum.error, one.error);
            add(&mut sum.overload, one.overload);
            add(&mut sum.pending, one.pending);
            sum.active_connections += one.active_connections;
        }
    }
    let mut family = |name: &str, kind: &str, help: &str, of: fn(&Outbound) -> u64| {
        page.family(name, kind, help);
        for (connection, sum) in &sums {
            page.sample(name, &[("connection", &connection.to_string())], of(sum));
        }
    };
    let help = "Connections to other nodes that are open.";
    family("ilion_internode_connections", "gauge", help, |sum| sum.active_connections);
    let help = "Messages to other nodes that are not written yet.";
    family("ilion_internode_pending", "gauge", help, |sum| sum.pending.count);
    let help = "Bytes of these.";
    family("ilion_internode_pending_bytes", "gauge", help, |sum| sum.pending.bytes);
    let help = "Bytes of messages that were written to other nodes.";
    family("ilion_internode_sent_bytes_total", "counter", help, |sum| sum.sent.bytes);
    let help = "Messages to other nodes that waited for too long, and were not sent.";
    family("ilion_internode_expired_total", "counter", help, |sum| sum.expired.count);
    let help = "Messages to other nodes that found no room.";
    family("ilion_internode_overloaded_total", "counter", help, |sum| sum.overload.count);
    let help = "Messages to other nodes that were lost with a connection.";
    family("ilion_internode_errors_total", "counter", help, |sum| sum.error.count);
    let name = "ilion_internode_received_bytes_total";
    let bytes = ring.inbound().iter().map(|(_, inbound)| inbound.received.bytes).sum();
    page.counter(name, "Bytes of messages of other nodes that arrived.", bytes);
}

fn hints(page: &mut Page, ring: &RingView) {
    let counts = ring.hint_counts();
    let (on_disk, in_memory) = ring.hint_bytes();
    page.counter("ilion_hints_created_total", "Hints that were kept.", counts.created);
    page.counter(
        "ilion_hints_not_stored_total",
        "Writes for which no hint was kept: the node was down for too long, or there was no room.",
        counts.not_stored,
    );
    page.counter("ilion_hints_delivered_total", "Hints that their nodes acknowledged.", counts.dispatched);
    page.counter("ilion_hints_timed_out_total", "Hints not acknowledged in time.", counts.timed_out);
    page.counter("ilion_hints_failed_total", "Hints that their nodes refused.", counts.failed);
    page.counter("ilion_hints_expired_total", "Hints older than gc_grace_seconds.", counts.expired);
    page.counter(
        "ilion_hints_unreadable_total",
        "Hints left out because they are damaged, or of tables that are gone.",
        counts.unreadable,
    );
    page.gauge("ilion_hints_files_bytes", "Bytes of hints that wait in files.", on_disk);
    page.gauge("ilion_hints_buffered_bytes", "Bytes of hints that wait in memory.", in_memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_of_the_group_of_its_answer() {
        for verb in Verb::ALL {
            if let Some(answer) = verb.answer() {
                // Paxos may commit with a write.
                let is_paxos = Group::of(*verb) == Group::Paxos;
                assert!(is_paxos || Group::of(*verb) == Group::of(answer), "{verb}");
            }
        }
        for (verb, group) in [
            (Verb::ReadRepairReq, Group::ReadRepair),
            (Verb::RangeRsp, Group::Read),
            (Verb::EchoReq, Group::Gossip),
            (Verb::Paxos2PrepareReq, Group::Paxos),
            (Verb::PingReq, Group::Other),
        ] {
            assert_eq!(Group::of(verb), group, "{verb}");
        }
    }
}
