//! What a message is about: the verbs of Cassandra 4.0 to 5.0, which share one numbering.
//!
//! A verb says how its message travels ([`Verb::is_urgent`]), how long an answer is worth waiting for
//! ([`Verb::timeout`]), and with which verb it is answered ([`Verb::answer`]). Verbs of Paxos v2 are known
//! from 4.1 on. Messages of other numbers are stepped over.
//!
//! Source: `org.apache.cassandra.net.Verb`.

use std::fmt;

/// Which of the configured timeouts bounds an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutKind {
    /// `read_request_timeout`.
    Read,
    /// `range_request_timeout`.
    Range,
    /// `write_request_timeout`.
    Write,
    /// `counter_write_request_timeout`.
    CounterWrite,
    /// `truncate_request_timeout`.
    Truncate,
    /// `request_timeout`.
    Request,
    /// `repair_request_timeout`, or `request_timeout` before 5.0.
    Repair,
    /// `request_timeout`, at least five minutes: gossip, which is of use however late it comes.
    Long,
    /// The time that nodes have to answer at start-up (`block_for_peers_timeout`).
    Ping,
    /// That of the request which failed.
    OfRequest,
}

macro_rules! verbs {
    ($($number:literal $verb:ident $name:literal $urgency:ident $timeout:ident $answer:tt;)*) => {
        /// The kind of a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Verb {
            $(
                #[doc = concat!("`", $name, "`.")]
                $verb = $number,
            )*
        }

        impl Verb {
            /// Every verb.
            pub const ALL: &'static [Verb] = &[$(Verb::$verb),*];

            /// The verb of that number.
            pub fn from_number(number: u64) -> Option<Verb> {
                match number {
                    $($number => Some(Verb::$verb),)*
                    _ => None,
                }
            }

            /// Cassandra's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Verb::$verb => $name,)*
                }
            }

            /// Whether it goes before everything else, on a connection of its own.
            pub fn is_urgent(self) -> bool {
                match self {
                    $(Verb::$verb => verbs!(@urgent $urgency),)*
                }
            }

            /// Which timeout bounds the exchange.
            pub fn timeout(self) -> TimeoutKind {
                match self {
                    $(Verb::$verb => TimeoutKind::$timeout,)*
                }
            }

            /// The verb of the answer; `None` for what is not answered.
            pub fn answer(self) -> Option<Verb> {
                match self {
                    $(Verb::$verb => verbs!(@answer $answer),)*
                }
            }

            /// Whether a message of it answers a call of the receiver.
            pub fn is_answer(self) -> bool {
                match self {
                    $(Verb::$verb => verbs!(@is_answer $answer),)*
                }
            }
        }
    };
    (@urgent urgent) => { true };
    (@urgent usual) => { false };
    (@answer -) => { None };
    (@answer <) => { None };
    (@answer $answer:ident) => { Some(Verb::$answer) };
    (@is_answer <) => { true };
    (@is_answer $other:tt) => { false };
}

// The last column: the verb of the answer, `-` for what is not answered, `<` for an answer.
verbs! {
    0 MutationReq "MUTATION_REQ" usual Write MutationRsp;
    1 HintReq "HINT_REQ" usual Write HintRsp;
    2 ReadRepairReq "READ_REPAIR_REQ" usual Write ReadRepairRsp;
    3 ReadReq "READ_REQ" usual Read ReadRsp;
    5 BatchStoreReq "BATCH_STORE_REQ" usual Write BatchStoreRsp;
    6 BatchRemoveReq "BATCH_REMOVE_REQ" usual Write BatchRemoveRsp;
    9 RangeReq "RANGE_REQ" usual Range RangeRsp;
    14 GossipDigestSyn "GOSSIP_DIGEST_SYN" urgent Long -;
    15 GossipDigestAck "GOSSIP_DIGEST_ACK" urgent Long -;
    16 GossipDigestAck2 "GOSSIP_DIGEST_ACK2" urgent Long -;
    18 SchemaPushReq "SCHEMA_PUSH_REQ" usual Request SchemaPushRsp;
    19 TruncateReq "TRUNCATE_REQ" urgent Truncate TruncateRsp;
    20 SchemaVersionReq "SCHEMA_VERSION_REQ" usual Request SchemaVersionRsp;
    22 ReplicationDoneReq "REPLICATION_DONE_REQ" urgent Request ReplicationDoneRsp;
    24 CounterMutationReq "COUNTER_MUTATION_REQ" usual CounterWrite CounterMutationRsp;
    27 SnapshotReq "SNAPSHOT_REQ" urgent Request SnapshotRsp;
    28 SchemaPullReq "SCHEMA_PULL_REQ" usual Request SchemaPullRsp;
    29 GossipShutdown "GOSSIP_SHUTDOWN" urgent Request -;
    31 EchoReq "ECHO_REQ" urgent Request EchoRsp;
    33 PaxosPrepareReq "PAXOS_PREPARE_REQ" usual Write PaxosPrepareRsp;
    34 PaxosProposeReq "PAXOS_PROPOSE_REQ" usual Write PaxosProposeRsp;
    35 PaxosCommitReq "PAXOS_COMMIT_REQ" usual Write PaxosCommitRsp;
    37 PingReq "PING_REQ" usual Ping PingRsp;
    38 Paxos2CommitRemoteReq "PAXOS2_COMMIT_REMOTE_REQ" usual Write MutationRsp;
    39 Paxos2CommitRemoteRsp "PAXOS2_COMMIT_REMOTE_RSP" usual Write <;
    40 Paxos2PrepareReq "PAXOS2_PREPARE_REQ" usual Write Paxos2PrepareRsp;
    41 Paxos2PrepareRefreshReq "PAXOS2_PREPARE_REFRESH_REQ" usual Write Paxos2PrepareRefreshRsp;
    42 Paxos2ProposeReq "PAXOS2_PROPOSE_REQ" usual Write Paxos2ProposeRsp;
    43 Paxos2CommitAndPrepareReq "PAXOS2_COMMIT_AND_PREPARE_REQ" usual Write Paxos2CommitAndPrepareRsp;
    44 Paxos2RepairReq "PAXOS2_REPAIR_REQ" usual Write Paxos2RepairRsp;
    45 Paxos2CleanupStartPrepareReq "PAXOS2_CLEANUP_START_PREPARE_REQ" usual Repair
        Paxos2CleanupStartPrepareRsp;
    46 Paxos2CleanupReq "PAXOS2_CLEANUP_REQ" usual Repair Paxos2CleanupRsp;
    47 Paxos2CleanupFinishPrepareReq "PAXOS2_CLEANUP_FINISH_PREPARE_REQ" usual Repair
        Paxos2CleanupFinishPrepareRsp;
    48 Paxos2CleanupCompleteReq "PAXOS2_CLEANUP_COMPLETE_REQ" usual Repair Paxos2CleanupCompleteRsp;
    50 Paxos2PrepareRsp "PAXOS2_PREPARE_RSP" usual Write <;
    51 Paxos2PrepareRefreshRsp "PAXOS2_PREPARE_REFRESH_RSP" usual Write <;
    52 Paxos2ProposeRsp "PAXOS2_PROPOSE_RSP" usual Write <;
    53 Paxos2CommitAndPrepareRsp "PAXOS2_COMMIT_AND_PREPARE_RSP" usual Write <;
    54 Paxos2RepairRsp "PAXOS2_REPAIR_RSP" usual Write <;
    55 Paxos2CleanupStartPrepareRsp "PAXOS2_CLEANUP_START_PREPARE_RSP" usual Repair <;
    56 Paxos2CleanupRsp "PAXOS2_CLEANUP_RSP" usual Repair <;
    57 Paxos2CleanupRsp2 "PAXOS2_CLEANUP_RSP2" usual Repair -;
    58 Paxos2CleanupFinishPrepareRsp "PAXOS2_CLEANUP_FINISH_PREPARE_RSP" usual Repair <;
    59 Paxos2CleanupCompleteRsp "PAXOS2_CLEANUP_COMPLETE_RSP" usual Repair <;
    60 MutationRsp "MUTATION_RSP" usual Write <;
    61 HintRsp "HINT_RSP" usual Write <;
    62 ReadRepairRsp "READ_REPAIR_RSP" usual Write <;
    63 ReadRsp "READ_RSP" usual Read <;
    65 BatchStoreRsp "BATCH_STORE_RSP" usual Write <;
    66 BatchRemoveRsp "BATCH_REMOVE_RSP" usual Write <;
    69 RangeRsp "RANGE_RSP" usual Range <;
    79 TruncateRsp "TRUNCATE_RSP" urgent Truncate <;
    80 SchemaVersionRsp "SCHEMA_VERSION_RSP" usual Request <;
    82 ReplicationDoneRsp "REPLICATION_DONE_RSP" urgent Request <;
    84 CounterMutationRsp "COUNTER_MUTATION_RSP" usual CounterWrite <;
    87 SnapshotRsp "SNAPSHOT_RSP" urgent Request <;
    88 SchemaPullRsp "SCHEMA_PULL_RSP" usual Request <;
    91 EchoRsp "ECHO_RSP" urgent Request <;
    93 PaxosPrepareRsp "PAXOS_PREPARE_RSP" usual Write <;
    94 PaxosProposeRsp "PAXOS_PROPOSE_RSP" usual Write <;
    95 PaxosCommitRsp "PAXOS_COMMIT_RSP" usual Write <;
    97 PingRsp "PING_RSP" usual Ping <;
    98 SchemaPushRsp "SCHEMA_PUSH_RSP" usual Request <;
    99 FailureRsp "FAILURE_RSP" urgent OfRequest <;
    100 RepairRsp "REPAIR_RSP" usual Repair <;
    101 ValidationReq "VALIDATION_REQ" usual Repair RepairRsp;
    102 ValidationRsp "VALIDATION_RSP" usual Repair RepairRsp;
    103 SyncReq "SYNC_REQ" usual Repair RepairRsp;
    104 SyncRsp "SYNC_RSP" usual Repair RepairRsp;
    105 PrepareMsg "PREPARE_MSG" usual Repair RepairRsp;
    106 SnapshotMsg "SNAPSHOT_MSG" usual Repair RepairRsp;
    107 CleanupMsg "CLEANUP_MSG" usual Repair RepairRsp;
    108 PrepareConsistentReq "PREPARE_CONSISTENT_REQ" usual Repair RepairRsp;
    109 PrepareConsistentRsp "PREPARE_CONSISTENT_RSP" usual Repair RepairRsp;
    110 FinalizeProposeMsg "FINALIZE_PROPOSE_MSG" usual Repair RepairRsp;
    111 FinalizePromiseMsg "FINALIZE_PROMISE_MSG" usual Repair RepairRsp;
    112 FinalizeCommitMsg "FINALIZE_COMMIT_MSG" usual Repair RepairRsp;
    113 FailedSessionMsg "FAILED_SESSION_MSG" usual Repair RepairRsp;
    114 StatusReq "STATUS_REQ" usual Repair RepairRsp;
    115 StatusRsp "STATUS_RSP" usual Repair RepairRsp;
}

impl Verb {
    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Verb {
    /// Cassandra's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_their_verbs() {
        for verb in Verb::ALL {
            assert_eq!(Verb::from_number(u64::from(verb.number())), Some(*verb));
        }
        assert_eq!(Verb::from_number(4), None, "an answer of Cassandra 3");
        assert_eq!(Verb::from_number(1 << 40), None);
    }

    #[test]
    fn an_answer_is_known_as_one() {
        for verb in Verb::ALL {
            if let Some(answer) = verb.answer() {
                assert!(answer.is_answer(), "{verb} is answered with {answer}");
                assert!(!verb.is_answer());
            }
        }
        assert!(Verb::FailureRsp.is_answer());
        assert!(!Verb::ValidationRsp.is_answer(), "repair answers with requests");
    }
}
