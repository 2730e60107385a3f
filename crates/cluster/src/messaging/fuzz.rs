//! Entry points for fuzzing.

use super::frame::{Decoded, Framing};
use super::handshake::{Accept, Initiate};
use super::message::Message;
use super::unpack::Unpacker;
use bytes::{Bytes, BytesMut};
use partition::codec::SliceInput;

const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A handshake, from either side. What decodes is encoded to the same bytes.
pub fn fuzz_handshake(bytes: &[u8]) {
    if let Ok(Some((initiate, len))) = Initiate::decode(bytes) {
        let mut again = Vec::new();
        initiate.encode(&mut again);
        assert_eq!(Initiate::decode(&again), Ok(Some((initiate, len))), "an Initiate changed");
    }
    if let Ok(Some(accept)) = Accept::decode(bytes) {
        assert_eq!(bytes.get(..12), Some(&accept.encode()[..]), "an Accept changed");
    }
}

/// What a connection sends behind its handshake. The first byte is the framing.
pub fn fuzz_frames(bytes: &[u8]) {
    let Some((framing, bytes)) = bytes.split_first() else { return };
    let Some(framing) = Framing::from_number(framing % 3) else { return };
    read(framing, bytes);
}

/// What a connection sends in frames whose checksums hold, which no mutation would find by itself. The first
/// byte: the framing, bit 2 for self-contained frames, the rest for their length.
pub fn fuzz_framed(bytes: &[u8]) {
    let Some((settings, bytes)) = bytes.split_first() else { return };
    let Some(framing) = Framing::from_number((settings & 3) % 3) else { return };
    let mut framed = Vec::new();
    for payload in bytes.chunks(9 + usize::from(settings >> 3) * 16) {
        framing.encode(payload, settings & 4 != 0, &mut framed);
    }
    read(framing, &framed);
}

/// A message. What decodes is encoded to a message that decodes to the same.
pub fn fuzz_message(bytes: &[u8]) {
    decode(Bytes::copy_from_slice(bytes));
}

fn read(framing: Framing, bytes: &[u8]) {
    let mut input = BytesMut::from(bytes);
    let mut unpacker = Unpacker::new(MESSAGE_BYTES_MAX);
    loop {
        match framing.decode(&mut input) {
            Ok(Decoded::Frame(frame)) => {
                if unpacker.push(frame).is_err() {
                    return;
                }
            }
            Ok(Decoded::Corrupt { is_self_contained: true, .. }) => continue,
            Ok(Decoded::Needs(_) | Decoded::Corrupt { .. }) | Err(_) => return,
        }
        loop {
            match unpacker.next_message() {
                Ok(Some(message)) => decode(message),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

fn decode(bytes: Bytes) {
    const NOW_MILLIS: i64 = 1_600_000_000_000;
    use super::message::Parsed;
    let _ = Message::measure(&bytes);
    if let Ok(Parsed::Message(message)) = Message::decode(&mut SliceInput::new(bytes), NOW_MILLIS) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again.len(), message.encoded_len(), "a message has another length");
        let decoded = Message::decode(&mut SliceInput::new(Bytes::from(again)), NOW_MILLIS);
        assert_eq!(decoded, Ok(Parsed::Message(message)), "a message changed");
    }
}
