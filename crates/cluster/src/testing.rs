//! What tests of several rooms share.

use coordinator::{Answer, DataRequest, Hint, Promise, Proposal, Replica, ReplicaError};
use model::{Mutation, TableSchema};
use partition::{Deadline, Digest, Recording};
use std::sync::Arc;

/// A node that nobody asks.
#[derive(Debug)]
pub(crate) struct Nobody;

fn nothing<T>() -> Answer<T> {
    Answer::ready(Err(ReplicaError::TimedOut))
}

impl Replica for Nobody {
    fn read_data(&self, _: &DataRequest) -> Answer<Recording> {
        nothing()
    }
    fn read_digest(&self, _: &DataRequest) -> Answer<Digest> {
        nothing()
    }
    fn mutate(&self, _: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        nothing()
    }
    fn repair(&self, _: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        nothing()
    }
    fn hint(&self, _: Hint, _: Option<&Deadline>) -> Answer<()> {
        nothing()
    }
    fn prepare(&self, _: Proposal, _: Option<&Deadline>) -> Answer<Promise> {
        nothing()
    }
    fn propose(&self, _: Proposal, _: Option<&Deadline>) -> Answer<bool> {
        nothing()
    }
    fn commit(&self, _: Proposal, _: Option<&Deadline>) -> Answer<()> {
        nothing()
    }
    fn truncate(&self, _: Arc<TableSchema>) -> Answer<()> {
        nothing()
    }
    fn truncated_millis(&self, _: &TableSchema) -> Answer<Option<i64>> {
        nothing()
    }
}
