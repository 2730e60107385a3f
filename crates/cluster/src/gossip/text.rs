//! A text as Java's `writeUTF` writes it: modified UTF-8 with its length before it.
//!
//! ```text
//! text := u16 length in bytes | characters
//!         U+0000           c0 80
//!         U+0001..U+007f   one byte
//!         ..U+07ff         two bytes, as UTF-8
//!         ..U+ffff         three bytes, as UTF-8
//!         beyond           two surrogates of three bytes each
//! ```
//! Decoding is as lenient as Java's `readUTF`: longer forms of a character are taken. A surrogate without its
//! other half is refused, because it is no character.

use partition::codec::{DecodeError, Input, SliceInput};
use std::fmt;
use std::sync::Arc;

/// Most bytes that a text may have when it is encoded.
pub const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// A text that is short enough for gossip. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

/// A text that is too long for gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {bytes} bytes, gossip carries {TEXT_BYTES_MAX} at most")]
pub struct TextTooLong {
    /// Length in modified UTF-8.
    pub bytes: usize,
}

impl Text {
    /// A text, if it is short enough.
    ///
    /// # Errors
    /// When it is not.
    pub fn new(text: impl AsRef<str>) -> Result<Text, TextTooLong> {
        let text = text.as_ref();
        match encoded_len(text) {
            bytes if bytes > TEXT_BYTES_MAX => Err(TextTooLong { bytes }),
            _ => Ok(Text(text.into())),
        }
    }

    /// A text made here out of numbers and addresses, far below the limit.
    pub(super) fn made(text: impl fmt::Display) -> Text {
        let text = text.to_string();
        debug_assert!(encoded_len(&text) <= TEXT_BYTES_MAX);
        Text(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Length in modified UTF-8, without the length itself.
    pub fn encoded_len(&self) -> usize {
        encoded_len(&self.0)
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.encoded_len() as u16).to_be_bytes());
        if is_plain(self.0.as_bytes()) {
            return out.extend_from_slice(self.0.as_bytes());
        }
        for c in self.0.chars() {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                encode_unit(*unit, out);
            }
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the bytes are no text, or are cut off.
    pub fn decode(input: &mut SliceInput) -> Result<Text, DecodeError> {
        let len = input.u16()?;
        let decoded = input.with_slice(u64::from(len), decode_text)?;
        match decoded.map(Text::new) {
            Some(Ok(text)) => Ok(text),
            Some(Err(e)) => Err(input.malformed(e.to_string())),
            None => Err(input.malformed(format!("{len} bytes that are no modified UTF-8"))),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether each byte is a character, in either encoding. Nearly all that gossip carries is.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.is_ascii() && !bytes.contains(&0)
}

fn encoded_len(text: &str) -> usize {
    if is_plain(text.as_bytes()) {
        return text.len();
    }
    text.chars()
        .map(|c| match c {
            '\u{1}'..='\u{7f}' => 1,
            '\0' | '\u{80}'..='\u{7ff}' => 2,
            '\u{800}'..='\u{ffff}' => 3,
            _ => 6,
        })
        .sum()
}

fn encode_unit(unit: u16, out: &mut Vec<u8>) {
    let low = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
    match unit {
        0x01..=0x7f => out.push(unit as u8),
        0 | 0x80..=0x7ff => out.extend([0xc0 | (unit >> 6) as u8, low(0)]),
        _ => out.extend([0xe0 | (unit >> 12) as u8, low(6), low(0)]),
    }
}

fn decode_text(bytes: &[u8]) -> Option<String> {
    if is_plain(bytes) {
        return String::from_utf8(bytes.to_vec()).ok();
    }
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().map(|byte| u16::from(*byte));
    while let Some(first) = rest.next() {
        let mut low = || rest.next().filter(|byte| byte & 0xc0 == 0x80).map(|byte| byte & 0x3f);
        units.push(match first {
            0..=0x7f => first,
            0xc0..=0xdf => (first & 0x1f) << 6 | low()?,
            0xe0..=0xef => (first & 0x0f) << 12 | low()? << 6 | low()?,
            _ => return None,
        });
    }
    String::from_utf16(&units).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn bytes_of(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Text::new(text).unwrap().encode(&mut out);
        out
    }

    fn decoded(bytes: &[u8]) -> Result<Text, DecodeError> {
        Text::decode(&mut SliceInput::new(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn characters_are_written_as_java_writes_them() {
        assert_eq!(bytes_of("a\0\u{7f}"), b"\x00\x04a\xc0\x80\x7f");
        assert_eq!(bytes_of("\u{80}\u{ff}\u{7ff}"), b"\x00\x06\xc2\x80\xc3\xbf\xdf\xbf");
        assert_eq!(bytes_of("\u{800}\u{20ac}"), b"\x00\x06\xe0\xa0\x80\xe2\x82\xac");
        assert_eq!(bytes_of("\u{1f600}"), b"\x00\x06\xed\xa0\xbd\xed\xb8\x80");
    }

    #[test]
    fn longer_forms_are_taken_as_java_takes_them() {
        assert_eq!(decoded(b"\x00\x01\x00").unwrap().as_str(), "\0");
        assert_eq!(decoded(b"\x00\x02\xc1\xa1").unwrap().as_str(), "a");
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        for bad in [
            &b"\x00\x01\x80"[..],
            b"\x00\x01\xf0",
            b"\x00\x01\xc2",
            b"\x00\x02\xc2a",
            b"\x00\x03\xed\xa0\xbd",
        ] {
            assert!(decoded(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_text_that_does_not_fit_is_refused() {
        assert!(Text::new("a".repeat(TEXT_BYTES_MAX)).is_ok());
        assert_eq!(Text::new("é".repeat(32_768)), Err(TextTooLong { bytes: 65_536 }));
        let zeros = [&b"\xff\xff"[..], &[0; TEXT_BYTES_MAX]].concat();
        assert!(decoded(&zeros).is_err(), "it could not be passed on");
    }

    proptest! {
        #[test]
        fn texts_come_back_whole_or_not_at_all(text in "\\PC{0,40}|[\u{0}-\u{200}]{0,40}") {
            let bytes = bytes_of(&text);
            let back = decoded(&bytes).unwrap();
            prop_assert_eq!(back.as_str(), &text);
            for len in 0..bytes.len() {
                prop_assert!(decoded(&bytes[..len]).is_err());
            }
        }
    }
}
