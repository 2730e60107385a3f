//! Partition keys and their tokens (Murmur3Partitioner).
//!
//! The bytes of a partition key are the raw value for a single column, and for several columns, each
//! component as `u16 length, bytes, 0x00` (CompositeType; docs/formats/sstable-big.md). Partitions are
//! ordered by token, then by key bytes.

use bytes::Bytes;
use std::cmp::Ordering;

/// A position on the ring of the Murmur3 partitioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Smaller than the token of every non-empty key; bound of an unrestricted range.
    pub const MIN: Token = Token(i64::MIN);
    /// The largest token.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a key's bytes: the first half of the hash; the minimum only for the empty key.
    pub fn of(key: &[u8]) -> Token {
        if key.is_empty() {
            return Token::MIN;
        }
        match crate::murmur3::hash(key).0 {
            i64::MIN => Token::MAX,
            token => Token(token),
        }
    }
}

/// The raw bytes of a partition key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey(pub Bytes);

impl PartitionKey {
    /// Builds the key from its components, in key order.
    pub fn from_components<C: AsRef<[u8]>>(components: &[C]) -> PartitionKey {
        if let [single] = components {
            return PartitionKey(Bytes::copy_from_slice(single.as_ref()));
        }
        let mut out = Vec::with_capacity(components.iter().map(|c| c.as_ref().len() + 3).sum());
        for component in components.iter().map(C::as_ref) {
            out.extend_from_slice(&(component.len() as u16).to_be_bytes());
            out.extend_from_slice(component);
            out.push(0);
        }
        PartitionKey(out.into())
    }

    /// The component at `index` of a key of `count` components; `None` when the bytes do not have that shape.
    pub fn component(&self, count: usize, index: usize) -> Option<&[u8]> {
        if count == 1 {
            return (index == 0).then_some(self.0.as_ref());
        }
        let mut rest = self.0.as_ref();
        for at in 0..=index {
            let (len, tail) = rest.split_first_chunk::<2>()?;
            let (value, tail) = tail.split_at_checked(u16::from_be_bytes(*len) as usize)?;
            rest = tail.strip_prefix(&[0])?;
            if at == index {
                return Some(value);
            }
        }
        None
    }

    /// Splits the key into `count` components; `None` when the bytes do not have that shape.
    pub fn components(&self, count: usize) -> Option<Vec<Bytes>> {
        if count == 1 {
            return Some(vec![self.0.clone()]);
        }
        let mut at = 0usize;
        let mut out = Vec::with_capacity(count);
        for _ in 0..count {
            let len = u16::from_be_bytes([*self.0.get(at)?, *self.0.get(at + 1)?]) as usize;
            let end = at + 2 + len;
            if *self.0.get(end)? != 0 {
                return None;
            }
            out.push(self.0.slice(at + 2..end));
            at = end + 1;
        }
        (at == self.0.len()).then_some(out)
    }
}

/// A partition key with its token: the unit of order on disk and in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    /// Where the key lies on the ring.
    pub token: Token,
    /// The key.
    pub key: PartitionKey,
}

impl DecoratedKey {
    /// Hashes `key`.
    pub fn new(key: PartitionKey) -> DecoratedKey {
        DecoratedKey { token: Token::of(&key.0), key }
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token.cmp(&other.token).then_with(|| self.key.0.cmp(&other.key.0))
    }
}

impl PartialOrd for DecoratedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One end of a range of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyBound {
    /// No limit on this side.
    Unbounded,
    /// Every key of `token`: included or not.
    Token {
        /// The token.
        token: Token,
        /// Whether keys with that token belong to the range.
        inclusive: bool,
    },
    /// One key (used by paging, which resumes after the last key returned).
    Key {
        /// The key.
        key: DecoratedKey,
        /// Whether the key itself belongs to the range.
        inclusive: bool,
    },
}

/// A contiguous range of partitions in ring order; it does not wrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where the range starts.
    pub start: KeyBound,
    /// Where the range ends.
    pub end: KeyBound,
}

impl KeyRange {
    /// The whole ring.
    pub const FULL: KeyRange = KeyRange { start: KeyBound::Unbounded, end: KeyBound::Unbounded };

    /// Whether `key` lies before the start of the range.
    pub fn is_before_start(&self, key: &DecoratedKey) -> bool {
        match &self.start {
            KeyBound::Unbounded => false,
            KeyBound::Token { token, inclusive } => {
                if *inclusive {
                    key.token < *token
                } else {
                    key.token <= *token
                }
            }
            KeyBound::Key { key: start, inclusive } => {
                if *inclusive {
                    key < start
                } else {
                    key <= start
                }
            }
        }
    }

    /// Whether `key` lies after the end of the range.
    pub fn is_after_end(&self, key: &DecoratedKey) -> bool {
        match &self.end {
            KeyBound::Unbounded => false,
            KeyBound::Token { token, inclusive } => {
                if *inclusive {
                    key.token > *token
                } else {
                    key.token >= *token
                }
            }
            KeyBound::Key { key: end, inclusive } => {
                if *inclusive {
                    key > end
                } else {
                    key >= end
                }
            }
        }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &DecoratedKey) -> bool {
        !self.is_before_start(key) && !self.is_after_end(key)
    }
}
