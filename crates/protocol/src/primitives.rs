//! The notations every body is made of: a bounds-checked [`Reader`] and the `put_*` functions that mirror it.
//!
//! All integers are big-endian.
//!
//! ```text
//! string          u16 length | UTF-8
//! long string     i32 length | UTF-8
//! bytes           i32 length | data             length < 0: null
//! value           i32 length | data             length -1: null, -2: unset (v4 and later)
//! short bytes     u16 length | data
//! uuid            16 bytes
//! string list     u16 n | n * string
//! string map      u16 n | n * (string, string)
//! string multimap u16 n | n * (string, string list)
//! bytes map       u16 n | n * (string, bytes)
//! inet            u8 4 or 16 | address | i32 port
//! inetaddr        u8 4 or 16 | address
//! consistency     u16 code
//! ```
//!
//! A reader never allocates by a count it was told: lists grow as their elements are found to exist.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::error::BodyError;
use crate::version::ProtocolVersion;
use model::Consistency;

/// A bound value as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The column is to be null (a deletion).
    Null,
    /// The column is to be left alone; v4 and later.
    Unset,
    /// The value's serialized form, a slice of the request's body.
    Set(Bytes),
}

impl Value {
    /// The bytes of a value that is set.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Set(bytes) => Some(bytes),
            Self::Null | Self::Unset => None,
        }
    }
}

/// Short bytes that are the id of a statement or of metadata: 16 of them, if a server gave it. They are
/// copied, which costs less than to share the body's memory.
pub type ShortId = SmallVec<[u8; 16]>;

/// A custom payload: names and their bytes (`None`: null).
pub type CustomPayload = Vec<(String, Option<Bytes>)>;

/// Takes a body apart. Slices share the body's memory.
#[derive(Debug, Clone)]
pub struct Reader {
    body: Bytes,
    /// Where the next field begins; never behind the end of the body.
    at: usize,
}

impl Reader {
    /// Starts at the beginning of `body`.
    pub fn new(body: Bytes) -> Self {
        Self { body, at: 0 }
    }

    /// The number of bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.body.len() - self.at
    }

    #[cold]
    fn truncated(&self, what: &'static str, needed: usize) -> BodyError {
        BodyError::Truncated { what, needed, remaining: self.remaining() }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.body.get(self.at..)?.first_chunk::<N>().copied()?;
        self.at += N;
        Some(array)
    }

    #[inline]
    fn number<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], BodyError> {
        match self.array() {
            Some(array) => Ok(array),
            None => Err(self.truncated(what, N)),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Option<Bytes> {
        if length > self.remaining() {
            return None;
        }
        let slice = self.body.slice(self.at..self.at + length);
        self.at += length;
        Some(slice)
    }

    /// Reads one byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, BodyError> {
        self.number(what).map(u8::from_be_bytes)
    }

    /// Reads a u16.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, BodyError> {
        self.number(what).map(u16::from_be_bytes)
    }

    /// Reads an i32.
    pub fn i32(&mut self, what: &'static str) -> Result<i32, BodyError> {
        self.number(what).map(i32::from_be_bytes)
    }

    /// Reads a u32.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, BodyError> {
        self.number(what).map(u32::from_be_bytes)
    }

    /// Reads an i64.
    pub fn i64(&mut self, what: &'static str) -> Result<i64, BodyError> {
        self.number(what).map(i64::from_be_bytes)
    }

    /// Reads a uuid.
    pub fn uuid(&mut self, what: &'static str) -> Result<Uuid, BodyError> {
        self.number(what).map(Uuid::from_bytes)
    }

    fn slice(&mut self, length: usize, what: &'static str) -> Result<Bytes, BodyError> {
        match self.take(length) {
            Some(slice) => Ok(slice),
            None => Err(self.truncated(what, length)),
        }
    }

    fn text(bytes: &[u8]) -> Result<String, BodyError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(BodyError::utf8(bytes)),
        }
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<String, BodyError> {
        let length = self.array().map(u16::from_be_bytes).ok_or(BodyError::ShortString)?;
        let bytes = self.take(usize::from(length)).ok_or(BodyError::ShortString)?;
        Self::text(&bytes)
    }

    /// Reads a long string. A negative length is refused.
    pub fn long_string(&mut self) -> Result<String, BodyError> {
        let length = self.array().map(i32::from_be_bytes).ok_or(BodyError::LongString)?;
        let length = usize::try_from(length).map_err(|_| BodyError::LongString)?;
        let bytes = self.take(length).ok_or(BodyError::LongString)?;
        Self::text(&bytes)
    }

    /// Reads bytes; any negative length is null.
    pub fn bytes(&mut self, what: &'static str) -> Result<Option<Bytes>, BodyError> {
        match usize::try_from(self.i32(what)?) {
            Ok(length) => self.slice(length, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads short bytes.
    pub fn short_bytes(&mut self) -> Result<Bytes, BodyError> {
        let length = self.array().map(u16::from_be_bytes).ok_or(BodyError::ShortBytes)?;
        self.take(usize::from(length)).ok_or(BodyError::ShortBytes)
    }

    /// Reads short bytes that are an id.
    pub fn short_id(&mut self) -> Result<ShortId, BodyError> {
        let length = self.array().map(u16::from_be_bytes).ok_or(BodyError::ShortBytes)?;
        let end = self.at + usize::from(length);
        let id = self.body.get(self.at..end).ok_or(BodyError::ShortBytes)?;
        self.at = end;
        Ok(ShortId::from_slice(id))
    }

    /// Reads a bound value. In v3 every negative length is null; later -2 is unset and the others are
    /// refused.
    pub fn value(&mut self, version: ProtocolVersion) -> Result<Value, BodyError> {
        let length = self.i32("a value")?;
        match usize::try_from(length) {
            Ok(length) => self.slice(length, "a value").map(Value::Set),
            Err(_) if length == -1 || version == ProtocolVersion::V3 => Ok(Value::Null),
            Err(_) if length == -2 => Ok(Value::Unset),
            Err(_) => Err(BodyError::ValueLength { length }),
        }
    }

    /// Reads a u16 count and that many values.
    pub fn values(&mut self, version: ProtocolVersion) -> Result<Vec<Value>, BodyError> {
        let count = usize::from(self.u16("the number of values")?);
        // Each value takes at least its length, which bounds what a lying count can reserve.
        let mut values = Vec::with_capacity(count.min(self.remaining() / 4));
        for _ in 0..count {
            values.push(self.value(version)?);
        }
        Ok(values)
    }

    /// Reads a string list.
    pub fn string_list(&mut self) -> Result<Vec<String>, BodyError> {
        let count = self.u16("the length of a string list")?;
        (0..count).map(|_| self.string()).collect()
    }

    /// Reads a string map, in the order sent.
    pub fn string_map(&mut self) -> Result<Vec<(String, String)>, BodyError> {
        let count = self.u16("the size of a string map")?;
        (0..count).map(|_| Ok((self.string()?, self.string()?))).collect()
    }

    /// Reads a string multimap, in the order sent.
    pub fn string_multimap(&mut self) -> Result<Vec<(String, Vec<String>)>, BodyError> {
        let count = self.u16("the size of a string multimap")?;
        (0..count).map(|_| Ok((self.string()?, self.string_list()?))).collect()
    }

    /// Reads a bytes map, in the order sent.
    pub fn bytes_map(&mut self) -> Result<CustomPayload, BodyError> {
        let count = self.u16("the size of a bytes map")?;
        (0..count).map(|_| Ok((self.string()?, self.bytes("a bytes map's value")?))).collect()
    }

    /// Reads an address without a port.
    pub fn inet_addr(&mut self) -> Result<IpAddr, BodyError> {
        match self.u8("the size of an address")? {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(self.number::<4>("an IPv4 address")?))),
            16 => Ok(IpAddr::V6(Ipv6Addr::from(self.number::<16>("an IPv6 address")?))),
            size => Err(BodyError::AddressSize { size }),
        }
    }

    /// Reads an address and its port.
    pub fn inet(&mut self) -> Result<SocketAddr, BodyError> {
        let address = self.inet_addr()?;
        let port = self.i32("a port")?;
        let port = u16::try_from(port).map_err(|_| BodyError::Port { port })?;
        Ok(SocketAddr::new(address, port))
    }

    /// Reads a consistency level.
    pub fn consistency(&mut self) -> Result<Consistency, BodyError> {
        let code = self.u16("a consistency level")?;
        Consistency::from_code(code).ok_or(BodyError::Consistency { code })
    }
}

/// The count of a list whose length is a u16; callers cut the list to it.
pub(crate) fn count_u16(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// The length of `bytes` and `value`. A body over 2 GiB is refused when its envelope is closed.
pub(crate) fn length_i32(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Writes a string. Text over 65,535 bytes, which only messages for people can be, is cut at a character.
pub fn put_string(out: &mut BytesMut, text: &str) {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default();
    out.put_u16(count_u16(text.len()));
    out.put_slice(text.as_bytes());
}

/// Writes a long string.
pub fn put_long_string(out: &mut BytesMut, text: &str) {
    out.put_i32(length_i32(text.len()));
    out.put_slice(text.as_bytes());
}

/// Writes bytes, or null.
#[inline]
pub fn put_bytes(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.put_i32(length_i32(bytes.len()));
            out.put_slice(bytes);
        }
        None => out.put_i32(-1),
    }
}

/// Writes short bytes; they are ids of 16 bytes, or echoes of short bytes that were read.
pub fn put_short_bytes(out: &mut BytesMut, bytes: &[u8]) {
    let bytes = bytes.get(..usize::from(u16::MAX)).unwrap_or(bytes);
    out.put_u16(count_u16(bytes.len()));
    out.put_slice(bytes);
}

/// Writes a bound value.
pub fn put_value(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Unset => out.put_i32(-2),
        value => put_bytes(out, value.as_bytes()),
    }
}

/// Writes a uuid.
pub fn put_uuid(out: &mut BytesMut, id: Uuid) {
    out.put_u128(id.as_u128());
}

/// Writes a string list, at most 65,535 of them.
pub fn put_string_list<S: AsRef<str>>(out: &mut BytesMut, list: &[S]) {
    let count = count_u16(list.len());
    out.put_u16(count);
    for text in list.iter().take(usize::from(count)) {
        put_string(out, text.as_ref());
    }
}

/// Writes a string map, at most 65,535 entries.
pub fn put_string_map(out: &mut BytesMut, map: &[(String, String)]) {
    let count = count_u16(map.len());
    out.put_u16(count);
    for (name, value) in map.iter().take(usize::from(count)) {
        put_string(out, name);
        put_string(out, value);
    }
}

/// Writes a string multimap, at most 65,535 entries.
pub fn put_string_multimap(out: &mut BytesMut, map: &[(String, Vec<String>)]) {
    let count = count_u16(map.len());
    out.put_u16(count);
    for (name, values) in map.iter().take(usize::from(count)) {
        put_string(out, name);
        put_string_list(out, values);
    }
}

/// Writes a bytes map, at most 65,535 entries.
pub fn put_bytes_map(out: &mut BytesMut, map: &[(String, Option<Bytes>)]) {
    let count = count_u16(map.len());
    out.put_u16(count);
    for (name, value) in map.iter().take(usize::from(count)) {
        put_string(out, name);
        put_bytes(out, value.as_deref());
    }
}

/// Writes an address without a port.
pub fn put_inet_addr(out: &mut BytesMut, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.put_u8(4);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_u8(16);
            out.put_slice(&address.octets());
        }
    }
}

/// Writes an address and its port.
pub fn put_inet(out: &mut BytesMut, address: SocketAddr) {
    put_inet_addr(out, address.ip());
    out.put_i32(i32::from(address.port()));
}

/// Writes a consistency level.
pub fn put_consistency(out: &mut BytesMut, level: Consistency) {
    out.put_u16(level.code());
}

#[cfg(test)]
mod tests;
