//! From frames to whole messages, still as bytes.
//!
//! 1. A self-contained frame is cut where its messages end; nothing may be left over.
//! 2. A large message begins with the first frame that is not self-contained, which tells its length.
//!    [`Unpacker::announced`] is that length, so that there is room for it before it is collected.
//! 3. Its last frame ends where it does. Meanwhile no self-contained frame may come.

use super::frame::Frame;
use super::message::Message;
use bytes::{Buf, Bytes, BytesMut};
use partition::codec::DecodeError;

/// Frames out of which no messages can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// A message's lengths make no sense.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// A message is longer than allowed.
    #[error("a message of {bytes} bytes, at most {max} are taken")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A frame ends inside of a message, or of what tells the message's length.
    #[error("a frame ends inside of a message")]
    CutOff,
    /// A frame goes on behind the end of a large message, or another message comes before its end.
    #[error("a frame does not go on with the message before it")]
    OutOfStep,
}

#[derive(Debug)]
enum State {
    /// What is left of a self-contained frame.
    Small(Bytes),
    /// What is there of a large message.
    Large { bytes: BytesMut, len: usize },
}

/// Makes messages out of the frames of one connection.
#[derive(Debug)]
pub struct Unpacker {
    message_bytes_max: usize,
    state: State,
}

impl Unpacker {
    /// One that takes messages of up to so many bytes.
    pub fn new(message_bytes_max: usize) -> Unpacker {
        Unpacker { message_bytes_max, state: State::Small(Bytes::new()) }
    }

    /// Takes a frame. The one before it has to have been used up by [`Unpacker::next_message`].
    ///
    /// # Errors
    /// When it cannot follow those before it.
    pub fn push(&mut self, frame: Frame) -> Result<(), UnpackError> {
        match &mut self.state {
            State::Small(rest) if !rest.is_empty() => return Err(UnpackError::OutOfStep),
            State::Large { bytes, len } => {
                if frame.is_self_contained || bytes.len() + frame.payload.len() > *len {
                    return Err(UnpackError::OutOfStep);
                }
                // It grows with what arrived, not with what was announced.
                bytes.extend_from_slice(&frame.payload);
            }
            small if frame.is_self_contained => *small = State::Small(frame.payload),
            small => {
                let len = measured(&frame.payload, self.message_bytes_max)?;
                if frame.payload.len() > len {
                    return Err(UnpackError::OutOfStep);
                }
                *small = State::Large { bytes: BytesMut::from(frame.payload), len };
            }
        }
        Ok(())
    }

    /// The length of the large message that is being collected, in bytes; 0 for none.
    pub fn announced(&self) -> usize {
        match &self.state {
            State::Small(_) => 0,
            State::Large { len, .. } => *len,
        }
    }

    /// The next whole message; `None` until another frame is there.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, UnpackError> {
        match &mut self.state {
            State::Small(rest) if rest.is_empty() => Ok(None),
            State::Small(rest) => {
                let len = measured(rest, self.message_bytes_max)?;
                if len > rest.len() {
                    return Err(UnpackError::CutOff);
                }
                Ok(Some(rest.split_to(len)))
            }
            State::Large { bytes, len } => {
                if bytes.len() < *len {
                    return Ok(None);
                }
                let message = bytes.copy_to_bytes(*len);
                self.state = State::Small(Bytes::new());
                Ok(Some(message))
            }
        }
    }
}

fn measured(bytes: &[u8], max: usize) -> Result<usize, UnpackError> {
    match Message::measure(bytes)? {
        Some(len) if len > max => Err(UnpackError::TooLarge { bytes: len, max }),
        Some(len) => Ok(len),
        None => Err(UnpackError::CutOff),
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{
        Decoded, Framing, LargeFrames, PAYLOAD_BYTES_MAX, Packer, SMALL_MESSAGE_BYTES_MAX,
    };
    use super::super::verb::Verb;
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 1 << 20;

    fn encoded(payload_len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Message::new(Verb::MutationReq, vec![7; payload_len]).encode(&mut out);
        out
    }

    fn frame(payload: &[u8], is_self_contained: bool) -> Frame {
        Frame { payload: Bytes::copy_from_slice(payload), is_self_contained }
    }

    #[test]
    fn a_self_contained_frame_has_whole_messages() {
        let mut unpacker = Unpacker::new(MAX);
        let (first, second) = (encoded(0), encoded(500));
        unpacker.push(frame(&[&first[..], &second].concat(), true)).unwrap();
        assert_eq!(unpacker.next_message().unwrap().unwrap(), first);
        assert_eq!(unpacker.push(frame(&first, true)), Err(UnpackError::OutOfStep), "one is left");
        assert_eq!(unpacker.next_message().unwrap().unwrap(), second);
        assert_eq!(unpacker.next_message(), Ok(None));
        for cut in [1, 5, second.len() - 1] {
            let mut unpacker = Unpacker::new(MAX);
            unpacker.push(frame(&second[..cut], true)).unwrap();
            assert_eq!(unpacker.next_message(), Err(UnpackError::CutOff));
        }
    }

    #[test]
    fn a_large_message_is_collected_from_its_frames() {
        let mut unpacker = Unpacker::new(MAX);
        let message = encoded(2 * PAYLOAD_BYTES_MAX);
        for _ in 0..2 {
            for piece in message.chunks(PAYLOAD_BYTES_MAX) {
                assert_eq!(unpacker.next_message(), Ok(None));
                unpacker.push(frame(piece, false)).unwrap();
                assert_eq!(unpacker.announced(), message.len());
            }
            assert_eq!(unpacker.next_message().unwrap().unwrap(), message);
            assert_eq!(unpacker.announced(), 0);
        }
    }

    #[test]
    fn frames_that_do_not_go_on_are_refused() {
        let message = encoded(1_000);
        let begun = || {
            let mut unpacker = Unpacker::new(MAX);
            unpacker.push(frame(&message[..500], false)).unwrap();
            unpacker
        };
        assert_eq!(begun().push(frame(&encoded(1), true)), Err(UnpackError::OutOfStep));
        let too_long = [&message[500..], &[0]].concat();
        assert_eq!(begun().push(frame(&too_long, false)), Err(UnpackError::OutOfStep));
        let mut unpacker = Unpacker::new(MAX);
        assert_eq!(unpacker.push(frame(&message[..5], false)), Err(UnpackError::CutOff));
        let followed = [&message[..], &[0]].concat();
        assert_eq!(unpacker.push(frame(&followed, false)), Err(UnpackError::OutOfStep));
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_when_it_begins() {
        let message = encoded(1_000);
        let refused = Err(UnpackError::TooLarge { bytes: message.len(), max: 999 });
        let mut unpacker = Unpacker::new(999);
        assert_eq!(unpacker.push(frame(&message[..20], false)), refused);
        let mut unpacker = Unpacker::new(999);
        unpacker.push(frame(&message, true)).unwrap();
        assert_eq!(unpacker.next_message().map(|_| ()), refused);
    }

    /// Messages as a connection sends them.
    fn sent(framing: Framing, messages: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut packer) = (Vec::new(), Packer::new(framing));
        for message in messages {
            if message.len() <= SMALL_MESSAGE_BYTES_MAX {
                packer.push(message.len(), |payload| payload.extend_from_slice(message), &mut out);
            } else {
                packer.finish(&mut out);
                let mut frames = LargeFrames::new(framing, &message[..20], &message[20..]);
                while frames.next(&mut out) {}
            }
        }
        packer.finish(&mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn messages_arrive_in_order_however_their_bytes_do(
            number in 0..3_u8, lens in proptest::collection::vec(0..200_000_usize, 1..6),
            piece in 1..100_000_usize,
        ) {
            let framing = Framing::from_number(number).unwrap();
            let messages: Vec<Vec<u8>> = lens.into_iter().map(encoded).collect();
            let (mut input, mut unpacker) = (BytesMut::new(), Unpacker::new(MAX));
            let mut arrived = Vec::new();
            for piece in sent(framing, &messages).chunks(piece) {
                input.extend_from_slice(piece);
                while let Decoded::Frame(frame) = framing.decode(&mut input).unwrap() {
                    unpacker.push(frame).unwrap();
                    while let Some(message) = unpacker.next_message().unwrap() {
                        arrived.push(message.to_vec());
                    }
                }
            }
            prop_assert_eq!(arrived, messages);
        }
    }
}
