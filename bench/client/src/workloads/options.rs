//! OPTIONS over and over: what a request costs in which nothing is done.

use protocol::primitives::Value;

use super::{Operation, Statement, Workload};

/// The workload.
#[derive(Debug)]
pub struct Options;

impl Workload for Options {
    fn statements(&self) -> Vec<Statement> {
        vec![Statement::Options]
    }

    fn next(&mut self, _: &mut Vec<Value>) -> Option<Operation> {
        Some(Operation { statement: 0, subject: 0 })
    }
}
