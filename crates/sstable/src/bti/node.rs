//! Trie nodes, as they lie in a page (docs/formats/sstable-bti.md).
//!
//! ```text
//! byte 0: type << 4 | payload bits           a payload follows the node when the bits are not 0
//!  0 payload only   -
//!  1 single 4       u8 char                  distance in the low half of byte 0, so no payload
//!  2 single 8       u8 char, u8 distance
//!  3 single 12      u8, u8 char              distance: low half of byte 0, then the first byte; no payload
//!  4 single 16      u8 char, u16 distance
//!  5..9 sparse      u8 n, n chars, n distances of 8, 12, 16, 24, 40 bits
//!  10..15 dense     u8 first char, u8 n - 1, n distances of 12, 16, 24, 32, 40, 64 bits; 0 where there is no child
//! ```
//! A child lies before its parent by the distance. So every way down a trie ends, whatever the bytes are.

/// What is wrong with the bytes of a node.
pub(crate) type Flaw = &'static str;

const CUT_OFF: Flaw = "a trie node is cut off by the end of its page";
const NO_CHILD: Flaw = "a trie node points nowhere";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Leaf,
    Single,
    Sparse,
    Dense,
}

/// A node, in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'p> {
    /// The page from the node's first byte on.
    bytes: &'p [u8],
    position: u64,
    kind: Kind,
    /// Slots for children; those of a dense node may be empty.
    slots: usize,
    /// Bits of a distance.
    bits: usize,
    payload_at: usize,
}

/// A way from a node to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub slot: usize,
    /// The byte that leads there.
    pub byte: u8,
    /// Where the child lies in the file.
    pub child: u64,
}

/// Where a byte's child is, or would be, among the slots of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In this slot.
    Slot(usize),
    /// Not there; slots before this one are for lesser bytes.
    Before(usize),
}

/// Where a key leads from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Down {
    /// To a child, by the key's next byte.
    Child(u64),
    /// Nowhere, for the node has no children. Its payload bits, and where the payload lies in the file.
    Leaf { bits: u8, payload: u64 },
    /// Nowhere, though there are children.
    Apart,
}

impl<'p> Node<'p> {
    /// Reads the head of the node at `position`, whose page goes on with `bytes`.
    #[inline]
    pub fn parse(bytes: &'p [u8], position: u64) -> Result<Node<'p>, Flaw> {
        let first = *bytes.first().ok_or(CUT_OFF)?;
        let ordinal = first >> 4;
        let count = |at: usize| bytes.get(at).map(|b| *b as usize).ok_or(CUT_OFF);
        let (kind, slots, bits, payload_at) = match ordinal {
            0 => (Kind::Leaf, 0, 0, 1),
            1 => (Kind::Single, 1, 4, 2),
            2 => (Kind::Single, 1, 8, 3),
            3 => (Kind::Single, 1, 12, 3),
            4 => (Kind::Single, 1, 16, 4),
            5..=9 => {
                let n = count(1)?;
                let bits = [8, 12, 16, 24, 40].get(ordinal as usize - 5).copied().unwrap_or(40);
                (Kind::Sparse, n, bits, 2 + n + (n * bits).div_ceil(8))
            }
            _ => {
                let n = count(2)? + 1;
                let bits = [12, 16, 24, 32, 40, 64].get(ordinal as usize - 10).copied().unwrap_or(64);
                (Kind::Dense, n, bits, 3 + (n * bits).div_ceil(8))
            }
        };
        if payload_at > bytes.len() {
            return Err(CUT_OFF);
        }
        if kind == Kind::Sparse && slots == 0 {
            return Err(NO_CHILD);
        }
        Ok(Node { bytes, position, kind, slots, bits, payload_at })
    }

    /// The four bits that say whether there is a payload, and of which kind.
    pub fn payload_bits(&self) -> u8 {
        match (self.kind, self.bits) {
            (Kind::Single, 4 | 12) => 0,
            _ => self.bytes.first().map_or(0, |b| b & 0x0f),
        }
    }

    /// Where the payload lies in the file.
    pub fn payload_position(&self) -> u64 {
        self.position + self.payload_at as u64
    }

    /// Number of slots for children.
    pub fn slots(&self) -> usize {
        self.slots
    }

    fn byte_at(&self, at: usize) -> usize {
        self.bytes.get(at).map_or(0, |b| *b as usize)
    }

    /// Finds a byte's child.
    #[inline]
    pub fn find(&self, byte: u8) -> Found {
        match self.kind {
            Kind::Leaf => Found::Before(0),
            Kind::Single => match self.byte_of(0).cmp(&byte) {
                std::cmp::Ordering::Equal => Found::Slot(0),
                std::cmp::Ordering::Less => Found::Before(1),
                std::cmp::Ordering::Greater => Found::Before(0),
            },
            Kind::Sparse => {
                let chars = self.bytes.get(2..2 + self.slots).unwrap_or_default();
                chars.binary_search(&byte).map_or_else(Found::Before, Found::Slot)
            }
            Kind::Dense => match (byte as usize).checked_sub(self.byte_at(1)) {
                None => Found::Before(0),
                Some(slot) if slot >= self.slots => Found::Before(self.slots),
                Some(slot) if self.distance(slot) == 0 => Found::Before(slot),
                Some(slot) => Found::Slot(slot),
            },
        }
    }

    /// Follows a key, whose next byte is taken if there are children.
    #[inline]
    pub fn down(&self, key: &mut impl Iterator<Item = u8>) -> Result<Down, Flaw> {
        if self.slots == 0 {
            return Ok(Down::Leaf { bits: self.payload_bits(), payload: self.payload_position() });
        }
        let slot = match key.next().map(|byte| self.find(byte)) {
            Some(Found::Slot(slot)) => slot,
            Some(Found::Before(_)) | None => return Ok(Down::Apart),
        };
        Ok(self.child(slot)?.map_or(Down::Apart, Down::Child))
    }

    #[inline]
    fn distance(&self, slot: usize) -> u64 {
        let base = match self.kind {
            Kind::Leaf => return 0,
            Kind::Single if self.bits == 4 => return self.byte_at(0) as u64 & 0x0f,
            Kind::Single if self.bits == 12 => {
                return (self.byte_at(0) as u64 & 0x0f) << 8 | self.byte_at(1) as u64;
            }
            Kind::Single => 2,
            Kind::Sparse => 2 + self.slots,
            Kind::Dense => 3,
        };
        if self.bits == 12 {
            let at = base + slot * 3 / 2;
            let word = self.byte_at(at) << 8 | self.byte_at(at + 1);
            return (if slot.is_multiple_of(2) { word >> 4 } else { word & 0xfff }) as u64;
        }
        let len = self.bits / 8;
        let start = base + slot * len;
        // Most nodes have so many bytes behind them in their page.
        if let Some(word) = self.bytes.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
            return u64::from_be_bytes(*word) >> (64 - 8 * len);
        }
        let bytes = self.bytes.get(start..start + len).unwrap_or_default();
        bytes.iter().fold(0, |n, b| n << 8 | *b as u64)
    }

    /// The position of a slot's child; `None` where there is none.
    #[inline]
    fn child(&self, slot: usize) -> Result<Option<u64>, Flaw> {
        match (self.distance(slot), self.kind) {
            (0, Kind::Dense) => Ok(None),
            (0, _) => Err(NO_CHILD),
            (distance, _) => self.position.checked_sub(distance).map(Some).ok_or(NO_CHILD),
        }
    }

    /// The byte that leads to a slot's child.
    fn byte_of(&self, slot: usize) -> u8 {
        let byte = match self.kind {
            Kind::Leaf => 0,
            Kind::Single => self.byte_at(if self.bits == 12 { 2 } else { 1 }),
            Kind::Sparse => self.byte_at(2 + slot),
            Kind::Dense => self.byte_at(1) + slot,
        };
        byte as u8
    }

    /// The way to the child in a slot; `None` where there is none.
    pub fn branch(&self, slot: usize) -> Result<Option<Branch>, Flaw> {
        Ok(self.child(slot)?.map(|child| Branch { slot, byte: self.byte_of(slot), child }))
    }

    /// Whether there is a child before slot `end`.
    #[inline]
    pub fn has_child_before(&self, end: usize) -> bool {
        let end = end.min(self.slots);
        match self.kind {
            Kind::Dense => (0..end).any(|slot| self.distance(slot) != 0),
            Kind::Leaf | Kind::Single | Kind::Sparse => end > 0,
        }
    }

    /// The way to the last child before slot `end`.
    pub fn child_before(&self, end: usize) -> Result<Option<Branch>, Flaw> {
        for slot in (0..end.min(self.slots)).rev() {
            if let Some(branch) = self.branch(slot)? {
                return Ok(Some(branch));
            }
        }
        Ok(None)
    }

    /// The way to the first child from slot `start` on.
    pub fn child_from(&self, start: usize) -> Result<Option<Branch>, Flaw> {
        for slot in start..self.slots {
            if let Some(branch) = self.branch(slot)? {
                return Ok(Some(branch));
            }
        }
        Ok(None)
    }
}
