//! What one node has said of itself.
//!
//! ```text
//! endpoint state := i32 generation | i32 heartbeat | i32 n | n * (i32 number, text value, i32 version)
//! ```
//! A node counts its versions with one counter, for its heartbeat and for all it says. So of two texts of one
//! generation the one with the larger version is the later one, and the largest version of all tells how much
//! of a node one has heard. Source: `EndpointState`, `HeartBeatState`, `VersionedValue` of Cassandra 4.0.

use super::app_state::AppState;
use super::status::{Status, StatusKind};
use super::text::Text;
use super::tokens;
use partition::codec::{DecodeError, Input, SliceInput};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The heartbeat of a node that has not been heard in this process.
pub const NEVER_HEARD: i32 = -1;

/// A value and the version under which its node published it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedValue {
    /// What was said.
    pub value: Text,
    /// When, by the counter of the node.
    pub version: i32,
}

/// What one node has said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    /// Which start of the node it was; about the seconds since 1970 of that start.
    pub generation: i32,
    /// The version of its last heartbeat.
    pub heartbeat: i32,
    values: BTreeMap<AppState, VersionedValue>,
}

impl EndpointState {
    /// A node that has said nothing.
    pub fn new(generation: i32, heartbeat: i32) -> EndpointState {
        EndpointState { generation, heartbeat, values: BTreeMap::new() }
    }

    /// A node of which only the address is known.
    pub fn never_heard() -> EndpointState {
        EndpointState::new(0, NEVER_HEARD)
    }

    /// What was said under `key`.
    pub fn get(&self, key: AppState) -> Option<&VersionedValue> {
        self.values.get(&key)
    }

    /// The text that was said under `key`.
    pub fn text(&self, key: AppState) -> Option<&str> {
        self.get(key).map(|said| said.value.as_str())
    }

    /// All that was said, by number.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (AppState, &VersionedValue)> {
        self.values.iter().map(|(key, said)| (*key, said))
    }

    /// Sets a value, whatever was there before.
    pub fn put(&mut self, key: AppState, value: Text, version: i32) {
        self.values.insert(key, VersionedValue { value, version });
    }

    /// The largest version of the heartbeat and of everything said.
    pub fn max_version(&self) -> i32 {
        self.values.values().map(|said| said.version).fold(self.heartbeat, i32::max)
    }

    /// What is newer than `version`, with the heartbeat; nothing when nothing is newer.
    pub fn newer_than(&self, version: i32) -> Option<EndpointState> {
        if self.max_version() <= version {
            return None;
        }
        let newer = self.values.iter().filter(|(_, said)| said.version > version);
        let values = newer.map(|(key, said)| (*key, said.clone())).collect();
        Some(EndpointState { values, ..*self })
    }

    /// Takes from `other`, of the same generation, all that is newer. Returns the states that changed.
    pub(super) fn take_newer(&mut self, other: EndpointState) -> Vec<AppState> {
        self.heartbeat = self.heartbeat.max(other.heartbeat);
        let mut changed = Vec::new();
        for (key, said) in other.values {
            if self.values.get(&key).is_none_or(|own| own.version < said.version) {
                self.values.insert(key, said);
                changed.push(key);
            }
        }
        changed
    }

    /// Whether nobody has heard the node in this process, and nobody gave it a status.
    pub fn is_unheard(&self) -> bool {
        self.heartbeat == NEVER_HEARD && self.status_text().is_none()
    }

    /// Whether the value under `key` is replaced by one that has a port.
    pub fn is_superseded(&self, key: AppState) -> bool {
        key.with_port().is_some_and(|newer| self.values.contains_key(&newer))
    }

    fn status_text(&self) -> Option<&str> {
        self.text(AppState::STATUS_WITH_PORT).or_else(|| self.text(AppState::STATUS))
    }

    /// The first word of the status.
    pub fn status_kind(&self) -> StatusKind {
        self.status_text().map_or(StatusKind::Absent, StatusKind::of)
    }

    /// The status, if there is one that can be read.
    pub fn status(&self) -> Option<Status> {
        self.status_text().and_then(Status::parse)
    }

    /// The node's id.
    pub fn host_id(&self) -> Option<Uuid> {
        self.text(AppState::HOST_ID).and_then(|id| id.parse().ok())
    }

    /// The version of the schema.
    pub fn schema(&self) -> Option<Uuid> {
        self.text(AppState::SCHEMA).and_then(|id| id.parse().ok())
    }

    /// Whether clients can connect.
    pub fn is_rpc_ready(&self) -> bool {
        self.text(AppState::RPC_READY).is_some_and(|ready| ready.eq_ignore_ascii_case("true"))
    }

    /// The tokens, if there are some that can be read.
    pub fn tokens(&self) -> Option<Vec<i64>> {
        self.get(AppState::TOKENS).and_then(|said| tokens::decode(&said.value).ok())
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        const OWN: usize = size_of::<EndpointState>();
        const EACH: usize = size_of::<(AppState, VersionedValue)>() + 2 * size_of::<usize>();
        self.values.values().map(|said| EACH + said.value.as_str().len()).fold(OWN, usize::saturating_add)
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.generation, self.heartbeat, self.values.len() as i32] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for (key, said) in &self.values {
            out.extend_from_slice(&key.number().to_be_bytes());
            said.value.encode(out);
            out.extend_from_slice(&said.version.to_be_bytes());
        }
    }

    /// Reads it. Values under numbers that cannot be passed on are left out.
    ///
    /// # Errors
    /// When the bytes are no state, or are cut off.
    pub fn decode(input: &mut SliceInput) -> Result<EndpointState, DecodeError> {
        let mut state = EndpointState::new(input.i32()?, input.i32()?);
        let count = input.i32()?;
        if count < 0 {
            return Err(input.malformed(format!("{count} values")));
        }
        for _ in 0..count {
            let key = AppState::from_number(input.i32()?);
            let (value, version) = (Text::decode(input)?, input.i32()?);
            if let Some(key) = key {
                state.put(key, value, version);
            }
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Text {
        Text::new(text).unwrap()
    }

    fn state() -> EndpointState {
        let mut state = EndpointState::new(7, 5);
        state.put(AppState::DC, text("dc1"), 2);
        state.put(AppState::RACK, text("r1"), 9);
        state
    }

    #[test]
    fn what_is_newer_comes_with_the_heartbeat() {
        assert_eq!(state().max_version(), 9);
        assert_eq!(state().newer_than(-1), Some(state()));
        assert_eq!(state().newer_than(9), None);
        let newer = state().newer_than(5).unwrap();
        assert_eq!((newer.heartbeat, newer.values().len()), (5, 1));
        assert_eq!(newer.text(AppState::RACK), Some("r1"));
    }

    #[test]
    fn the_larger_version_wins() {
        let mut own = state();
        let mut other = EndpointState::new(7, 4);
        other.put(AppState::DC, text("dc2"), 3);
        other.put(AppState::RACK, text("r2"), 8);
        assert_eq!(own.take_newer(other), [AppState::DC]);
        assert_eq!(
            (own.heartbeat, own.text(AppState::DC), own.text(AppState::RACK)),
            (5, Some("dc2"), Some("r1"))
        );
    }

    #[test]
    fn the_status_with_a_port_hides_the_other() {
        let mut state = state();
        state.put(AppState::STATUS, text("BOOT,1"), 10);
        assert_eq!(state.status_kind(), StatusKind::Boot);
        state.put(AppState::STATUS_WITH_PORT, text("NORMAL,1"), 11);
        assert_eq!(state.status_kind(), StatusKind::Normal);
        assert!(state.is_superseded(AppState::STATUS) && !state.is_superseded(AppState::RPC_ADDRESS));
    }
}
