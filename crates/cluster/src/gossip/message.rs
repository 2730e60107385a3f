//! The messages of gossip, as payloads.
//!
//! ```text
//! SYN      := text cluster | text partitioner | digests    no digest: a shadow round, answered with everything
//! ACK      := digests: send me these | states: you lack these
//! ACK2     := states
//! SHUTDOWN := nothing (version 12) | endpoint state (version 13)
//! ECHO     := nothing
//!
//! digests  := i32 n | n * (endpoint, i32 generation, i32 max version)
//! states   := i32 n | n * (endpoint, endpoint state)
//! ```
//! Bytes that are left over are an error, as they are to Cassandra. A message takes memory in proportion to
//! its bytes, and names at most [`ENDPOINTS_MAX`] nodes. Source: `GossipDigestSyn`, `GossipDigestAck`,
//! `GossipDigestAck2` of Cassandra 4.0, `GossipShutdown` of 5.0.

use super::state::EndpointState;
use super::text::Text;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use partition::codec::{DecodeError, Input, SliceInput};

/// Most nodes that a message may name, and that a node keeps in mind.
pub const ENDPOINTS_MAX: usize = 10_000;

/// What a message of gossip is. All of them are urgent: they go before those of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// "I know so much of each node."
    Syn = 14,
    /// "Send me these, and you lack those."
    Ack = 15,
    /// "Here they are."
    Ack2 = 16,
    /// "I stop."
    Shutdown = 29,
    /// "Are you there?" It has to be answered, with an empty message.
    Echo = 31,
}

impl Verb {
    /// The number of the verb in messages.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// How much somebody knows of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The node.
    pub endpoint: Endpoint,
    /// Which start of it.
    pub generation: i32,
    /// The largest version that is known; of a request, the largest that need not be sent.
    pub max_version: i32,
}

/// Opens a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syn {
    /// The sender's name of the cluster.
    pub cluster_name: Text,
    /// The class of the sender's partitioner.
    pub partitioner: Text,
    /// What the sender knows of each node; empty in a shadow round.
    pub digests: Vec<Digest>,
}

/// Answers a [`Syn`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// What the sender wants to hear.
    pub requests: Vec<Digest>,
    /// What the sender knows and the other does not.
    pub states: Vec<(Endpoint, EndpointState)>,
}

/// Answers an [`Ack`], and closes the round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack2 {
    /// What was asked for.
    pub states: Vec<(Endpoint, EndpointState)>,
}

impl Syn {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.cluster_name.encode(&mut out);
        self.partitioner.encode(&mut out);
        encode_digests(&self.digests, &mut out);
        out
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(payload: Bytes) -> Result<Syn, DecodeError> {
        whole(payload, |input| {
            Ok(Syn {
                cluster_name: Text::decode(input)?,
                partitioner: Text::decode(input)?,
                digests: decode_digests(input)?,
            })
        })
    }
}

impl Ack {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_digests(&self.requests, &mut out);
        encode_states(&self.states, &mut out);
        out
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(payload: Bytes) -> Result<Ack, DecodeError> {
        whole(payload, |input| Ok(Ack { requests: decode_digests(input)?, states: decode_states(input)? }))
    }
}

impl Ack2 {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_states(&self.states, &mut out);
        out
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(payload: Bytes) -> Result<Ack2, DecodeError> {
        whole(payload, |input| Ok(Ack2 { states: decode_states(input)? }))
    }
}

/// The payload of a shutdown of version 13; of version 12 it is empty.
pub fn encode_shutdown(state: &EndpointState) -> Vec<u8> {
    let mut out = Vec::new();
    state.encode(&mut out);
    out
}

/// Reads the payload of a shutdown: the last state of its sender, if it told it.
///
/// # Errors
/// When the payload is none.
pub fn decode_shutdown(payload: Bytes) -> Result<Option<EndpointState>, DecodeError> {
    if payload.is_empty() {
        return Ok(None);
    }
    whole(payload, EndpointState::decode).map(Some)
}

fn whole<T>(
    payload: Bytes,
    decode: impl FnOnce(&mut SliceInput) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut input = SliceInput::new(payload);
    let message = decode(&mut input)?;
    match input.remaining() {
        0 => Ok(message),
        left => Err(input.malformed(format!("{left} bytes are left over"))),
    }
}

fn encode_digests(digests: &[Digest], out: &mut Vec<u8>) {
    out.extend_from_slice(&(digests.len() as i32).to_be_bytes());
    for digest in digests {
        digest.endpoint.encode(out);
        out.extend_from_slice(&digest.generation.to_be_bytes());
        out.extend_from_slice(&digest.max_version.to_be_bytes());
    }
}

fn decode_digests(input: &mut SliceInput) -> Result<Vec<Digest>, DecodeError> {
    decode_each(input, |input| {
        Ok(Digest { endpoint: Endpoint::decode(input)?, generation: input.i32()?, max_version: input.i32()? })
    })
}

fn encode_states(states: &[(Endpoint, EndpointState)], out: &mut Vec<u8>) {
    out.extend_from_slice(&(states.len() as i32).to_be_bytes());
    for (endpoint, state) in states {
        endpoint.encode(out);
        state.encode(out);
    }
}

fn decode_states(input: &mut SliceInput) -> Result<Vec<(Endpoint, EndpointState)>, DecodeError> {
    decode_each(input, |input| Ok((Endpoint::decode(input)?, EndpointState::decode(input)?)))
}

/// Reads a list. The count is not trusted: the list grows with what is really there.
fn decode_each<T>(
    input: &mut SliceInput,
    mut decode: impl FnMut(&mut SliceInput) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = input.i32()?;
    if usize::try_from(count).is_ok_and(|count| count <= ENDPOINTS_MAX) {
        (0..count).map(|_| decode(input)).collect()
    } else {
        Err(input.malformed(format!("{count} nodes, a message names {ENDPOINTS_MAX} at most")))
    }
}

#[cfg(test)]
mod tests;
