//! Where encoded bytes come from.

use bytes::Bytes;
use model::vint;

/// Bytes that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed at byte {offset}: {detail}")]
pub struct DecodeError {
    /// Offset in the buffer that was decoded.
    pub offset: u64,
    /// What was expected and what was found.
    pub detail: String,
}

/// A sequence of bytes that is read from front to back. All methods check bounds; a length that the bytes
/// claim is checked against what is left before anything is allocated for it.
pub trait Input {
    /// What reading may fail with.
    type Error;

    /// The error for bytes that are not what they should be, at the current position.
    fn malformed(&self, detail: String) -> Self::Error;

    /// Offset of the next byte.
    fn position(&self) -> u64;

    /// The next byte.
    fn u8(&mut self) -> Result<u8, Self::Error>;

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Self::Error>;

    /// The next unsigned vint.
    fn uvint(&mut self) -> Result<u64, Self::Error>;

    /// The next `len` bytes, as a slice of the buffer where they lie in one.
    fn bytes(&mut self, len: u64) -> Result<Bytes, Self::Error>;

    /// Hands the next `len` bytes to `f`, for callers that copy them anyway.
    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;

    /// Steps over `len` bytes without touching them.
    fn skip(&mut self, len: u64) -> Result<(), Self::Error>;

    /// The next zig-zag vint.
    fn vint(&mut self) -> Result<i64, Self::Error> {
        let raw = self.uvint()?;
        Ok(((raw >> 1) as i64) ^ -((raw & 1) as i64))
    }

    /// The next big-endian `u16`.
    fn u16(&mut self) -> Result<u16, Self::Error> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// The next big-endian `i32`.
    fn i32(&mut self) -> Result<i32, Self::Error> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// The next big-endian `i64`.
    fn i64(&mut self) -> Result<i64, Self::Error> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// The next big-endian `f64`.
    fn f64(&mut self) -> Result<f64, Self::Error> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// The next bytes with their length as a vint before them.
    fn vbytes(&mut self) -> Result<Bytes, Self::Error> {
        let len = self.uvint()?;
        self.bytes(len)
    }

    /// The next UTF-8 text with its length as a vint before it.
    fn vtext(&mut self) -> Result<String, Self::Error> {
        let bytes = self.vbytes()?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(e) => Err(self.malformed(format!("a name is not UTF-8: {e}"))),
        }
    }
}

/// An [`Input`] over one buffer.
#[derive(Clone, Debug)]
pub struct SliceInput {
    bytes: Bytes,
    at: usize,
}

impl SliceInput {
    /// Reads `bytes` from the front.
    pub fn new(bytes: Bytes) -> SliceInput {
        SliceInput { bytes, at: 0 }
    }

    /// Number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn end_of(&self, len: u64) -> Result<usize, DecodeError> {
        match usize::try_from(len).ok().filter(|len| *len <= self.remaining()) {
            Some(len) => Ok(self.at + len),
            None => Err(self.malformed(format!("{len} bytes wanted, {} are left", self.remaining()))),
        }
    }
}

impl Input for SliceInput {
    type Error = DecodeError;

    #[cold]
    fn malformed(&self, detail: String) -> DecodeError {
        DecodeError { offset: self.at as u64, detail }
    }

    fn position(&self) -> u64 {
        self.at as u64
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest().first_chunk::<N>() {
            Some(chunk) => {
                let chunk = *chunk;
                self.at += N;
                Ok(chunk)
            }
            None => Err(self.malformed(format!("{N} bytes wanted, {} are left", self.remaining()))),
        }
    }

    fn uvint(&mut self) -> Result<u64, DecodeError> {
        match vint::read_unsigned(self.rest()) {
            Some((value, len)) => {
                self.at += len;
                Ok(value)
            }
            None => Err(self.malformed("a vint is cut off".to_owned())),
        }
    }

    fn bytes(&mut self, len: u64) -> Result<Bytes, DecodeError> {
        let end = self.end_of(len)?;
        let out = self.bytes.slice(self.at..end);
        self.at = end;
        Ok(out)
    }

    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, DecodeError> {
        let end = self.end_of(len)?;
        let out = f(self.bytes.get(self.at..end).unwrap_or_default());
        self.at = end;
        Ok(out)
    }

    fn skip(&mut self, len: u64) -> Result<(), DecodeError> {
        self.at = self.end_of(len)?;
        Ok(())
    }
}
