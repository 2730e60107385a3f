//! Table `inserts`: new rows in new partitions, keys and values of 16 characters as in `base`.

use protocol::primitives::Value;

use super::{KEYSPACE, Operation, Random, Share, Statement, Workload, mix, set, text16};

/// The table's CQL.
pub fn schema() -> String {
    format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.inserts (pk text, ck text, v text, PRIMARY KEY (pk, ck))")
}

/// Inserts without end.
#[derive(Debug)]
pub struct Inserts {
    random: Random,
}

impl Inserts {
    /// Inserts of keys that no other thread and no other seed makes, but for chance.
    pub fn new(share: Share) -> Self {
        Self { random: Random::new(share) }
    }
}

impl Workload for Inserts {
    fn statements(&self) -> Vec<Statement> {
        vec![Statement::Write(format!("INSERT INTO {KEYSPACE}.inserts (pk, ck, v) VALUES (?, ?, ?)"))]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let key = self.random.next();
        for number in [key, mix(!key), mix(key)] {
            values.push(set(&text16(number)));
        }
        Some(Operation { statement: 0, subject: key })
    }
}
