//! A message: what one node tells another, and its bytes.
//!
//! ```text
//! message := uvint id                    that of the call, which an answer repeats
//!            u32   created               low 32 bits of milliseconds since 1970
//!            uvint milliseconds from then until nobody waits for it any more
//!            uvint verb
//!            uvint flags                 see `Flags`
//!            uvint count, for each parameter: uvint number, uvint length, value
//!            uvint length, payload
//! ```
//! 1. What `created` lacks is that of the receiver's clock, so that both lie as near as 32 bits allow.
//! 2. A parameter of an unknown number is stepped over, as is a message of an unknown verb.
//! 3. The payload's encoding follows from verb and messaging version; here it is bytes.
//!
//! Source: `Message.Serializer` of Cassandra 4.0.

use super::failure::FailureReason;
use super::frame::SMALL_MESSAGE_BYTES_MAX;
use super::handshake::ConnectionKind;
use super::param::{Forward, Param, TraceType};
use super::verb::Verb;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use model::vint;
use partition::codec::{DecodeError, Input, SliceInput};
use std::ops::BitOr;
use std::time::Duration;
use uuid::Uuid;

/// Bits of a message. Those without a name here are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// Who asks wants to hear of a failure.
    pub const CALL_BACK_ON_FAILURE: Flags = Flags(1);
    /// A read is to digest what it takes from repaired SSTables.
    pub const TRACK_REPAIRED_DATA: Flags = Flags(2);
    /// A read is to tell when it crosses a threshold, see [`super::param::Threshold`].
    pub const TRACK_WARNINGS: Flags = Flags(4);

    /// Whether all of `others` are set.
    pub fn has(self, others: Flags) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The number of the call. The messenger chooses it, but for answers.
    pub id: u64,
    /// When it was made: milliseconds since 1970. The messenger sets it.
    pub created_millis: i64,
    /// Nobody waits for it so many milliseconds after that. The messenger sets it.
    pub expires_after_millis: u64,
    /// What it is about.
    pub verb: Verb,
    /// Bits.
    pub flags: Flags,
    /// What else travels with it.
    pub params: Vec<Param>,
    /// What the verb is about.
    pub payload: Bytes,
    /// The messaging version in which the payload is encoded; `None` where all versions agree. Never sent.
    pub version: Option<u32>,
    /// The connection it has to take, if not the one that follows from verb and size. Never sent.
    pub connection: Option<ConnectionKind>,
}

/// What the front of the input is.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// A message.
    Message(Message),
    /// A message of a verb that is not known here.
    UnknownVerb {
        /// Its number.
        number: u64,
    },
}

impl Message {
    /// A message without an id, which whoever sends it sets with the times.
    pub fn new(verb: Verb, payload: impl Into<Bytes>) -> Message {
        Message {
            id: 0,
            created_millis: 0,
            expires_after_millis: 0,
            verb,
            flags: Flags::NONE,
            params: Vec::new(),
            payload: payload.into(),
            version: None,
            connection: None,
        }
    }

    /// The same with a payload that is encoded for one messaging version.
    pub fn encoded_for(self, version: u32) -> Message {
        Message { version: Some(version), ..self }
    }

    /// Whether it may take a connection of that messaging version.
    pub fn suits(&self, version: u32) -> bool {
        self.payload.is_empty() || self.version.is_none_or(|wanted| wanted == version)
    }

    /// The same with more flags.
    pub fn with_flags(self, flags: Flags) -> Message {
        Message { flags: self.flags | flags, ..self }
    }

    /// The same with one more parameter.
    pub fn with_param(mut self, param: Param) -> Message {
        self.params.push(param);
        self
    }

    /// With what tells the receiver that its work belongs to a trace, if it does.
    pub fn of_trace(self, id: Option<Uuid>) -> Message {
        let Some(id) = id else { return self };
        self.with_param(Param::TraceSession(id)).with_param(Param::TraceType(TraceType::Query))
    }

    /// Where the answer is to go, if not to who sent it.
    pub fn respond_to(&self) -> Option<Endpoint> {
        self.params.iter().find_map(|param| match param {
            Param::RespondTo(endpoint) => Some(*endpoint),
            _ => None,
        })
    }

    /// To whom the receiver is to pass it on.
    pub fn forward_to(&self) -> &[Forward] {
        let forwards = self.params.iter().find_map(|param| match param {
            Param::ForwardTo(forwards) => Some(forwards.as_slice()),
            _ => None,
        });
        forwards.unwrap_or_default()
    }

    /// The trace that its work belongs to.
    pub fn trace_session(&self) -> Option<Uuid> {
        self.params.iter().find_map(|param| match param {
            Param::TraceSession(session) => Some(*session),
            _ => None,
        })
    }

    /// Why a call failed, for the answer that says so.
    pub fn failure(&self) -> Option<FailureReason> {
        (self.verb == Verb::FailureRsp).then(|| FailureReason::decode(&self.payload))
    }

    /// When nobody waits for it any more: milliseconds since 1970.
    pub fn expires_at_millis(&self) -> i64 {
        self.created_millis.saturating_add_unsigned(self.expires_after_millis)
    }

    /// How long somebody waits for it, from `now_millis` on.
    pub fn left(&self, now_millis: i64) -> Duration {
        let left = self.expires_at_millis().saturating_sub(now_millis);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// The connection that it takes, given its length in bytes.
    pub fn connection_for(&self, len: usize) -> ConnectionKind {
        match self.connection {
            _ if len > SMALL_MESSAGE_BYTES_MAX => ConnectionKind::Large,
            Some(kind) => kind,
            None if self.verb.is_urgent() => ConnectionKind::Urgent,
            None => ConnectionKind::Small,
        }
    }

    /// Appends all of it but the payload.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(out, self.id);
        out.extend_from_slice(&(self.created_millis as u32).to_be_bytes());
        vint::write_unsigned(out, self.expires_after_millis);
        vint::write_unsigned(out, u64::from(self.verb.number()));
        vint::write_unsigned(out, u64::from(self.flags.0));
        vint::write_unsigned(out, self.params.len() as u64);
        self.params.iter().for_each(|param| param.encode(out));
        vint::write_unsigned(out, self.payload.len() as u64);
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        out.extend_from_slice(&self.payload);
    }

    /// The length of what [`Message::encode`] appends, in bytes.
    pub fn encoded_len(&self) -> usize {
        let fixed = 4 + vint::unsigned_len(self.payload.len() as u64) + self.payload.len();
        let numbers = [
            self.id,
            self.expires_after_millis,
            u64::from(self.verb.number()),
            u64::from(self.flags.0),
            self.params.len() as u64,
        ];
        let numbers: usize = numbers.into_iter().map(vint::unsigned_len).sum();
        fixed + numbers + self.params.iter().map(Param::encoded_len).sum::<usize>()
    }

    /// Reads what is at the front of `input`. `now_millis` is the receiver's clock.
    ///
    /// # Errors
    /// When the bytes are no message.
    pub fn decode(input: &mut SliceInput, now_millis: i64) -> Result<Parsed, DecodeError> {
        let id = input.uvint()?;
        let created = u32::from_be_bytes(input.array()?);
        let expires_after_millis = input.uvint()?;
        let number = input.uvint()?;
        let flags = input.uvint()?;
        let count = input.uvint()?;
        let mut params = Vec::new();
        for _ in 0..count {
            let number = input.uvint()?;
            let value = input.vbytes()?;
            params.extend(Param::decode(number, value)?);
        }
        let payload = input.vbytes()?;
        let Some(verb) = Verb::from_number(number) else { return Ok(Parsed::UnknownVerb { number }) };
        Ok(Parsed::Message(Message {
            id,
            created_millis: unwrapped(created, now_millis),
            expires_after_millis,
            verb,
            flags: Flags(u32::try_from(flags).map_err(|_| input.malformed(format!("flags {flags:#x}")))?),
            params,
            payload,
            version: None,
            connection: None,
        }))
    }

    /// The length of the message at the front of `bytes`; `None` where they end before they tell it.
    ///
    /// # Errors
    /// When no message is that long.
    pub fn measure(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
        let mut walk = Walk { bytes, at: 0 };
        match walk.message() {
            Some(len) => match usize::try_from(len) {
                Ok(len) if len <= isize::MAX as usize => Ok(Some(len)),
                _ => Err(DecodeError { offset: 0, detail: format!("a message of {len} bytes") }),
            },
            None => Ok(None),
        }
    }
}

/// The moment of that number of low bits that is nearest to now.
fn unwrapped(created: u32, now_millis: i64) -> i64 {
    let ahead = created.wrapping_sub(now_millis as u32) as i32;
    now_millis.saturating_add(i64::from(ahead))
}

/// Goes over a message whose end need not be there.
struct Walk<'a> {
    bytes: &'a [u8],
    at: u128,
}

impl Walk<'_> {
    /// The message's length, if its last length is there.
    fn message(&mut self) -> Option<u128> {
        self.number()?;
        self.at += 4;
        for _expiry_verb_flags in 0..3 {
            self.number()?;
        }
        let count = self.number()?;
        for _ in 0..count {
            self.number()?;
            self.value()?;
        }
        self.value()?;
        Some(self.at)
    }

    fn number(&mut self) -> Option<u64> {
        let rest = self.bytes.get(usize::try_from(self.at).ok()?..)?;
        let (number, len) = vint::read_unsigned(rest)?;
        self.at += len as u128;
        Some(number)
    }

    fn value(&mut self) -> Option<()> {
        let len = self.number()?;
        self.at += u128::from(len);
        Some(())
    }
}

#[cfg(test)]
mod tests;
