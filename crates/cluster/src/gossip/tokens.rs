//! The tokens of a node, as the text under `TOKENS`.
//!
//! ```text
//! tokens := (i32 8, i64 token)* | i32 0        big-endian
//! ```
//! Each byte is the character of that number (ISO 8859-1). Gossip then writes the text as modified UTF-8,
//! where 00 becomes `c0 80` and what is above 7f two bytes. Source: `TokenSerializer`,
//! `VersionedValue.tokens` of 4.0.

use super::text::{Text, TextTooLong};
use bytes::Bytes;
use partition::codec::{DecodeError, Input, SliceInput};

/// The text of tokens.
///
/// # Errors
/// When there are too many: about 2,700 always fit.
pub fn encode(tokens: &[i64]) -> Result<Text, TextTooLong> {
    let mut bytes = Vec::with_capacity(12 * tokens.len() + 4);
    for token in tokens {
        bytes.extend_from_slice(&8i32.to_be_bytes());
        bytes.extend_from_slice(&token.to_be_bytes());
    }
    bytes.extend_from_slice(&0i32.to_be_bytes());
    Text::new(bytes.into_iter().map(char::from).collect::<String>())
}

/// The tokens of a text.
///
/// # Errors
/// When the text holds none, or tokens that are no numbers of 64 bits.
pub fn decode(text: &Text) -> Result<Vec<i64>, DecodeError> {
    let bytes: Result<Vec<u8>, _> = text.as_str().chars().map(u8::try_from).collect();
    let mut input = SliceInput::new(Bytes::from(bytes.unwrap_or_default()));
    let mut tokens = Vec::new();
    loop {
        match input.i32()? {
            8 => tokens.push(input.i64()?),
            ..1 => return Ok(tokens),
            len => return Err(input.malformed(format!("a token of {len} bytes"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_are_written_as_cassandra_writes_them() {
        let mut bytes = Vec::new();
        encode(&[-1, 0x7f]).unwrap().encode(&mut bytes);
        let length = b"\xc0\x80\xc0\x80\xc0\x80\x08";
        let minus_one = b"\xc3\xbf".repeat(8);
        let positive = [&b"\xc0\x80".repeat(7)[..], b"\x7f"].concat();
        let end = b"\xc0\x80".repeat(4);
        let text = [&length[..], &minus_one, length, &positive, &end].concat();
        assert_eq!(bytes, [&(text.len() as u16).to_be_bytes()[..], &text].concat());
    }

    #[test]
    fn texts_that_hold_no_tokens_are_refused() {
        for bad in ["", "\0\0\0", "\0\0\0\u{8}\0", "\0\0\0\u{4}abcd\0\0\0\0", "\u{100}"] {
            assert!(decode(&Text::new(bad).unwrap()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn too_many_tokens_are_refused() {
        assert!(encode(&vec![i64::MIN; 2_700]).is_ok());
        assert!(encode(&vec![i64::MIN; 4_000]).is_err());
    }

    proptest! {
        #[test]
        fn tokens_come_back(tokens in proptest::collection::vec(any::<i64>(), 0..300)) {
            prop_assert_eq!(decode(&encode(&tokens).unwrap()).unwrap(), tokens);
        }
    }
}
