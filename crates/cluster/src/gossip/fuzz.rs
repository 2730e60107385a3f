//! Entry points for fuzzing.

use super::message::{Ack, Ack2, Syn, decode_shutdown, encode_shutdown};
use bytes::Bytes;

/// A message of gossip; the first byte says which. What can be read comes back the same from its own bytes.
pub fn fuzz_gossip(bytes: &[u8]) {
    let Some((verb, payload)) = bytes.split_first() else { return };
    let payload = Bytes::copy_from_slice(payload);
    match verb % 4 {
        0 => {
            if let Ok(syn) = Syn::decode(payload) {
                assert_eq!(Syn::decode(syn.encode().into()).ok(), Some(syn));
            }
        }
        1 => {
            if let Ok(ack) = Ack::decode(payload) {
                assert_eq!(Ack::decode(ack.encode().into()).ok(), Some(ack));
            }
        }
        2 => {
            if let Ok(ack2) = Ack2::decode(payload) {
                assert_eq!(Ack2::decode(ack2.encode().into()).ok(), Some(ack2));
            }
        }
        _ => {
            if let Ok(Some(state)) = decode_shutdown(payload) {
                assert_eq!(decode_shutdown(encode_shutdown(&state).into()), Ok(Some(state)));
            }
        }
    }
}
