//! Reads: from a command to a page of rows.
//!
//! ```text
//! request ─> legs ─┬─ this node answers alone ─> local: read where the data are ──────┬─> page
//!                  └─ otherwise ───────────────> gathered: asked of several, merged ──┘
//! ```
//! 1. A paging state narrows the command to what lies behind it; each part of the ring is a leg of its own
//!    ([`legs`]).
//! 2. A read that this node answers alone is *local*. It is tried in place; what cannot be answered so is
//!    carried out by a thread that may wait ([`run`], [`crate::local`]).
//! 3. Any other read is *gathered* ([`gather`]): one replica answers with what it has, the others with a
//!    digest of that ([`asked`]). Where these differ, all answer with what they have. The answers are merged,
//!    and who is behind is brought up to date ([`repair`]). Replicas filter rows as far as that is safe
//!    ([`filter`]).
//! 4. Either way its rows are a [`Page`].

mod asked;
mod filter;
mod gather;
mod legs;
mod page;
mod repair;
mod run;
mod speculation;

pub use page::{Interruption, Page, PullError};
pub use repair::ReadRepairs;
pub use run::{Pages, ReadWork, Worked};
pub(crate) use speculation::Latencies;

use crate::paging::PagingState;
use model::Consistency;
use model::command::ReadCommand;
use partition::{PageLimits, ReadContext};
use std::sync::Arc;

/// One page of a query.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The query.
    pub command: Arc<ReadCommand>,
    /// Replicas that must answer.
    pub consistency: Consistency,
    /// When the page is full.
    pub page: PageLimits,
    /// Where the page before ended; `None` for the first.
    pub after: Option<PagingState>,
    /// Where the cost is counted, and the deadline.
    pub context: ReadContext,
    /// Whose data are asked for.
    pub scope: Scope,
}

/// Whose data a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the replicas, as many as the consistency level wants.
    Ring,
    /// What this node has, whoever else holds it: its own shards of a counter.
    ThisNode,
}

impl ReadRequest {
    /// Whether all rows have to be in one page.
    fn is_whole(&self) -> bool {
        self.page.rows == u64::MAX && self.page.bytes == u64::MAX
    }

    /// All rows of a command, in one page.
    pub fn all(command: Arc<ReadCommand>, consistency: Consistency, context: ReadContext) -> ReadRequest {
        ReadRequest { command, consistency, page: PageLimits::NONE, after: None, context, scope: Scope::Ring }
    }

    /// The same of what this node has, whoever else holds it.
    pub fn of_this_node(self) -> ReadRequest {
        ReadRequest { scope: Scope::ThisNode, ..self }
    }
}
