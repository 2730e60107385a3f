//! Conditional writes, as nodes agree on them (the first version of Cassandra's Paxos).
//!
//! ```text
//! commit  := ballot, 16 bytes | update
//! promise := u8 whether it is one | commit in progress | commit, the last one
//! ```

use super::{Lookup, PayloadError, UnsentError, deletion_times};
use bytes::Bytes;
use coordinator::{Ballot, Promise, Proposal};
use partition::codec::mutation::{decode_update, encode_update};
use partition::codec::{Input, SliceInput};
use std::sync::Arc;
use uuid::Uuid;

/// No ballot, as nodes say it: the first time uuid of 1970. Cassandra 4.0 takes no other kind of uuid for a
/// ballot (`Commit.emptyCommit`).
const NO_BALLOT: Ballot = Ballot(Uuid::from_u128(0x1381_4000_1dd2_11b2_8080_8080_8080_8080));

/// Appends a ballot and what is written with it.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_proposal(proposal: &Proposal, version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    let ballot = if proposal.ballot == Ballot::NONE { NO_BALLOT } else { proposal.ballot };
    out.extend_from_slice(ballot.0.as_bytes());
    Ok(encode_update(&proposal.update, deletion_times(version), out)?)
}

/// Decodes a ballot and what is written with it.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_proposal(bytes: Bytes, version: u32, lookup: Lookup<'_>) -> Result<Proposal, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let proposal = read_proposal(input, version, lookup)?;
    end(input).map(|()| proposal)
}

fn read_proposal(input: &mut SliceInput, version: u32, lookup: Lookup<'_>) -> Result<Proposal, PayloadError> {
    let ballot = Ballot(Uuid::from_bytes(input.array()?));
    let ballot = if ballot == NO_BALLOT { Ballot::NONE } else { ballot };
    let update = Arc::new(decode_update(input, deletion_times(version), lookup)?);
    Ok(Proposal { ballot, update })
}

fn end(input: &SliceInput) -> Result<(), PayloadError> {
    match input.remaining() {
        0 => Ok(()),
        rest => Err(input.malformed(format!("{rest} bytes too many")).into()),
    }
}

/// Appends a promise.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_promise(promise: &Promise, version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    out.push(u8::from(promise.is_promised));
    encode_proposal(&promise.in_progress, version, out)?;
    encode_proposal(&promise.committed, version, out)
}

/// Decodes a promise.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_promise(bytes: Bytes, version: u32, lookup: Lookup<'_>) -> Result<Promise, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let is_promised = input.u8()? != 0;
    let in_progress = read_proposal(input, version, lookup)?;
    let committed = read_proposal(input, version, lookup)?;
    end(input).map(|()| Promise { is_promised, in_progress, committed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{CqlType, DecoratedKey, PartitionKey, TableSchema};

    #[test]
    fn no_ballot_travels_as_a_time_uuid_and_comes_back() {
        let table = TableSchema::builder("ks", "t", Uuid::from_u128(5)).partition_key("k", CqlType::Int);
        let table = Arc::new(table.build());
        let key = DecoratedKey::new(PartitionKey::from_components(&[1i32.to_be_bytes()]));
        let nothing = Proposal::empty(Ballot::NONE, &table, &key);
        let mut bytes = Vec::new();
        encode_proposal(&nothing, 12, &mut bytes).unwrap();
        let sent = Uuid::from_slice(&bytes[..16]).unwrap();
        assert_eq!((sent.get_version_num(), Ballot(sent).micros()), (1, 0));
        let arrived = decode_proposal(bytes.into(), 12, &|_| Some(Arc::clone(&table))).unwrap();
        assert_eq!(arrived.ballot, Ballot::NONE);
    }
}
