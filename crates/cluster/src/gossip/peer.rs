//! What a node keeps in mind of another.

use super::state::EndpointState;
use super::text::Text;

/// Another node.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub state: EndpointState,
    /// Since when it cannot be reached: monotonic nanoseconds. Nothing while it is alive.
    pub down_since_nanos: Option<u64>,
    /// When something new of it was last heard: monotonic nanoseconds.
    pub updated_nanos: u64,
    /// When it was last asked whether it is there: monotonic nanoseconds. Nothing once it answered.
    pub echo_sent_nanos: Option<u64>,
    /// When it is forgotten, after it left: milliseconds since 1970.
    pub expires_millis: Option<i64>,
    /// Whether it owns tokens, as far as is known. A restart does not change that, another status may.
    pub is_member: bool,
    /// Whether it left for good, and is neither asked nor listened to.
    pub has_left: bool,
    /// What is known of it from an earlier life of this node.
    pub saved: Option<Saved>,
}

/// A node of an earlier life: what the system tables remember. It is told in shadow rounds alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// `HOST_ID`
    pub host_id: Option<Text>,
    /// `TOKENS`
    pub tokens: Option<Text>,
}

impl Peer {
    /// A node that was just heard of, and not reached yet.
    pub(super) fn new(state: EndpointState, now_nanos: u64) -> Peer {
        Peer {
            state,
            down_since_nanos: Some(now_nanos),
            updated_nanos: now_nanos,
            echo_sent_nanos: None,
            expires_millis: None,
            is_member: false,
            has_left: false,
            saved: None,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.down_since_nanos.is_none()
    }

    /// Whether it may be gossiped to in the hope that it is back.
    pub(super) fn is_worth_trying(&self) -> bool {
        !self.is_alive() && !self.state.status_kind().is_dead()
    }
}
