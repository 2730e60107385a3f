//! Conditional writes of partitions that several replicas hold: Paxos, as the first version of Cassandra's
//! protocol has it.
//!
//! 1. **Prepare.** A quorum promises to accept nothing before a new ballot. It tells of what was accepted and
//!    not decided, and of the last decision. Both are finished first, for the new ballot would hide them.
//! 2. **Read and decide.** A quorum knows every decision now.
//! 3. **Propose.** Once a quorum has accepted, the proposal is decided, whoever finishes it. A decision to
//!    write nothing is proposed, too: what was accepted by fewer before can then come back no more.
//! 4. **Commit.** The replicas write what was decided.
//!
//! Who is overtaken by another ballot waits for a random time and begins anew. A proposal that some have
//! accepted and others have not answered is not proposed anew: it may be decided already.

mod ballot;
mod rounds;

pub use ballot::{Ballot, Promise, Proposal};
pub(crate) use rounds::Round;
