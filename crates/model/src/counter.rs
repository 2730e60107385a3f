//! Counter contexts: the value of a counter cell (docs/formats/sstable-big.md).
//!
//! ```text
//! i16 n | n * i16 index of a non-remote shard (>= 0 local, negative: global, index + 32768) | shards
//! shard: 16 bytes counter id | i64 clock | i64 count        sorted by id
//! ```
//! A negative `n` stands for `-n`, and says that the local shards were another node's: they count as remote
//! ones. Today's writes make only global shards: one for each node that led an increment, with a clock that
//! counts the increments and the running total of that node. Local and remote shards come from old releases.

use bytes::Bytes;
use std::cmp::Ordering;

const SHARD: usize = 32;

/// What a shard may be trusted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShardKind {
    /// A copy of another node's shard.
    Remote,
    /// A delta of this node (before 2.1).
    Local,
    /// A running total; beats the others.
    Global,
}

/// One node's part of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The node (its host id).
    pub id: [u8; 16],
    /// Number of increments so far.
    pub clock: i64,
    /// Their total.
    pub count: i64,
    /// What kind of shard.
    pub kind: ShardKind,
}

/// Bytes of a context before its shards.
pub fn header_len(context: &[u8]) -> usize {
    let count = context.first_chunk::<2>().map_or(0, |bytes| i16::from_be_bytes(*bytes).unsigned_abs());
    2 + 2 * usize::from(count)
}

/// Decodes a context; `None` when the bytes are not one.
pub fn shards(context: &[u8]) -> Option<Vec<Shard>> {
    let n = i16::from_be_bytes([*context.first()?, *context.get(1)?]);
    let (is_copy, n) = (n < 0, n.unsigned_abs());
    let body_at = 2 + 2 * n as usize;
    let header = context.get(2..body_at)?;
    let (bodies, rest) = context.get(body_at..)?.as_chunks::<SHARD>();
    if !rest.is_empty() {
        return None;
    }
    let mut out: Vec<Shard> = bodies
        .iter()
        .map(|b| {
            let (id, numbers) = b.split_at(16);
            let (clock, count) = numbers.split_at(8);
            Shard {
                id: id.try_into().unwrap_or_default(),
                clock: i64::from_be_bytes(clock.try_into().unwrap_or_default()),
                count: i64::from_be_bytes(count.try_into().unwrap_or_default()),
                kind: ShardKind::Remote,
            }
        })
        .collect();
    let (elements, _) = header.as_chunks::<2>();
    for element in elements {
        let raw = i16::from_be_bytes(*element);
        let (index, kind) = if raw >= 0 {
            (raw as usize, if is_copy { ShardKind::Remote } else { ShardKind::Local })
        } else {
            ((raw as i32 + 32768) as usize, ShardKind::Global)
        };
        out.get_mut(index)?.kind = kind;
    }
    Some(out)
}

/// Encodes shards, which must be sorted by id.
pub fn encode(shards: &[Shard]) -> Bytes {
    let marked: Vec<i16> = shards
        .iter()
        .enumerate()
        .filter_map(|(i, s)| match s.kind {
            ShardKind::Remote => None,
            ShardKind::Local => Some(i as i16),
            ShardKind::Global => Some((i as i32 - 32768) as i16),
        })
        .collect();
    let mut out = Vec::with_capacity(2 + 2 * marked.len() + SHARD * shards.len());
    out.extend_from_slice(&(marked.len() as i16).to_be_bytes());
    for element in marked {
        out.extend_from_slice(&element.to_be_bytes());
    }
    for shard in shards {
        out.extend_from_slice(&shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out.into()
}

/// A context of one global shard.
pub fn global(id: [u8; 16], clock: i64, count: i64) -> Bytes {
    encode(&[Shard { id, clock, count, kind: ShardKind::Global }])
}

/// The value of the counter: the sum of all counts. Bytes that are no context count as zero.
pub fn total(context: &[u8]) -> i64 {
    shards(context).unwrap_or_default().iter().fold(0i64, |sum, s| sum.wrapping_add(s.count))
}

/// Merges two contexts, shard by shard. Bytes that are no context lose.
pub fn merge(a: &Bytes, b: &Bytes) -> Bytes {
    if a == b {
        return a.clone();
    }
    let (Some(left), Some(right)) = (shards(a), shards(b)) else {
        return if shards(a).is_some() { a.clone() } else { b.clone() };
    };
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let order = match (l.peek(), r.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => x.id.cmp(&y.id),
        };
        match order {
            Ordering::Less => out.extend(l.next()),
            Ordering::Greater => out.extend(r.next()),
            Ordering::Equal => {
                if let (Some(x), Some(y)) = (l.next(), r.next()) {
                    out.push(merge_shards(x, y));
                }
            }
        }
    }
    encode(&out)
}

/// Global beats the rest; among globals and remotes the larger clock wins, then the larger count; local
/// shards are deltas and add up.
fn merge_shards(a: Shard, b: Shard) -> Shard {
    if a.kind != b.kind {
        return if a.kind > b.kind { a } else { b };
    }
    if a.kind == ShardKind::Local {
        return Shard { clock: a.clock.wrapping_add(b.clock), count: a.count.wrapping_add(b.count), ..a };
    }
    if (a.clock, a.count) >= (b.clock, b.count) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_shards_merge_by_clock_and_sum_over_nodes() {
        let a = global([1; 16], 2, 10);
        let b = global([1; 16], 3, 7);
        let c = global([2; 16], 1, 5);
        assert_eq!(merge(&a, &b), b);
        assert_eq!(total(&merge(&merge(&a, &c), &b)), 12);
        assert_eq!(merge(&a, &c), merge(&c, &a));
    }

    #[test]
    fn shards_of_old_releases_are_told_apart() {
        let shard = |id, count, kind| Shard { id: [id; 16], clock: 1, count, kind };
        let mixed = encode(&[
            shard(1, 10, ShardKind::Global),
            shard(2, 20, ShardKind::Local),
            shard(3, 30, ShardKind::Remote),
        ]);
        assert_eq!(total(&mixed), 60);
        let kinds = |bytes: &[u8]| shards(bytes).unwrap().iter().map(|s| s.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&mixed), [ShardKind::Global, ShardKind::Local, ShardKind::Remote]);
        // As another node's copy: its local shards are nobody's here.
        let mut copy = mixed.to_vec();
        copy[..2].copy_from_slice(&(-2i16).to_be_bytes());
        assert_eq!(kinds(&copy), [ShardKind::Global, ShardKind::Remote, ShardKind::Remote]);
        assert_eq!(total(&copy), 60);
        // Deltas add up, copies do not, and a running total beats them all.
        assert_eq!(total(&merge(&mixed, &encode(&[shard(2, 5, ShardKind::Local)]))), 65);
        assert_eq!(total(&merge(&mixed, &encode(&[shard(3, 40, ShardKind::Remote)]))), 70);
        assert_eq!(total(&merge(&mixed, &encode(&[shard(2, 1, ShardKind::Global)]))), 41);
    }

    #[test]
    fn hostile_bytes_are_no_context() {
        for bytes in [&b""[..], b"\x00", b"\xff\xff", b"\x00\x01\x80\x00", b"\x00\x00\x01"] {
            assert!(shards(bytes).is_none());
            assert_eq!(total(bytes), 0);
        }
    }
}
