//! Table `counters`: one counter in each of many partitions, each equally likely to be the next.
//!
//! A counter is read before it is written, so this is what a write that has to read costs.

use protocol::primitives::Value;

use super::{KEYSPACE, Operation, Random, Scale, Share, Statement, Workload, set};

/// The table's CQL.
pub fn schema() -> String {
    format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.counters (pk bigint PRIMARY KEY, n counter)")
}

/// Adds one to a counter, without end.
#[derive(Debug)]
pub struct Counts {
    partitions: u64,
    random: Random,
}

impl Counts {
    /// Of any partition.
    pub fn new(scale: Scale, share: Share) -> Self {
        Self { partitions: scale.partitions, random: Random::new(share) }
    }
}

impl Workload for Counts {
    fn statements(&self) -> Vec<Statement> {
        vec![Statement::Write(format!("UPDATE {KEYSPACE}.counters SET n = n + 1 WHERE pk = ?"))]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let partition = self.random.below(self.partitions);
        values.push(set(&partition.to_be_bytes()));
        Some(Operation { statement: 0, subject: partition })
    }
}
