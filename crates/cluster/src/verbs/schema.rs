//! Rows of `system_schema`, as nodes push them to and pull them from each other.
//!
//! ```text
//! schema := i32 n, n * mutation
//! ```

use super::{Lookup, PayloadError, UnsentError, deletion_times, write::encode_mutation};
use bytes::Bytes;
use model::Mutation;
use partition::codec::mutation::read_mutation;
use partition::codec::{Input, SliceInput};

/// Appends mutations of `system_schema`.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_schema(mutations: &[Mutation], version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    let count = i32::try_from(mutations.len()).map_err(|_| UnsentError::TooLong(mutations.len()))?;
    out.extend_from_slice(&count.to_be_bytes());
    mutations.iter().try_for_each(|mutation| encode_mutation(mutation, version, out))
}

/// Decodes mutations of `system_schema`.
///
/// # Errors
/// [`PayloadError::Schema`] for tables and columns of another release.
pub fn decode_schema(bytes: Bytes, version: u32, lookup: Lookup<'_>) -> Result<Vec<Mutation>, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let count = input.i32()?;
    let mut mutations = Vec::new();
    for _ in 0..count {
        mutations.push(read_mutation(input, deletion_times(version), lookup)?);
    }
    match input.remaining() {
        0 => Ok(mutations),
        rest => Err(input.malformed(format!("{rest} bytes after the schema")).into()),
    }
}
