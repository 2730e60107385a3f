//! From tokens to the tree: a recursive descent over the grammar of Cassandra 5.0.
//!
//! Contract:
//! 1. [`parse_statement`] accepts what Cassandra 5.0's parser accepts and refuses what it refuses, with the
//!    same words where that is feasible: see [`error`] for their form. Where Cassandra decides between
//!    alternatives by looking a token ahead, it names that token and points at the one where it stood; so
//!    does this parser.
//! 2. A few refusals carry no position (`Multiple incompatible setting of column a`). Like Cassandra, the
//!    parser goes on after one, and the first error of any kind is what the client sees.
//! 3. Hostile text costs at most memory in proportion to its length. Nesting beyond [`NESTING_MAX`] and
//!    expressions of more than [`OPERATORS_MAX`] operators are errors. So neither this parser nor anything
//!    that walks a tree exhausts the stack.

mod cursor;
mod describe;
mod dml;
mod error;
mod name;
mod object;
mod property;
mod relation;
mod role;
mod select;
mod selectable;
mod statement;
mod table;
mod term;
mod types;

#[cfg(test)]
mod tests;

pub use cursor::{NESTING_MAX, OPERATORS_MAX};
pub use error::SyntaxError;

use crate::ast::{ParsedStatement, RawType};
use cursor::Parser;

/// Parses one statement, which any number of semicolons may follow.
///
/// # Errors
/// The text is not one statement of CQL.
pub fn parse_statement(text: &str) -> Result<ParsedStatement, SyntaxError> {
    let mut parser = Parser::new(text);
    let outcome = parser.whole();
    parser.finish(outcome)
}

/// Parses a type, as the tables of the schema hold it.
///
/// # Errors
/// The text is not a type of CQL.
pub(crate) fn parse_type(text: &str) -> Result<RawType, SyntaxError> {
    let mut parser = Parser::new(text);
    let outcome = parser.whole_type();
    parser.finish(outcome)
}
