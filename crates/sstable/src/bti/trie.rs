//! A trie in a file: finding an entry, and going to its neighbours.
//!
//! Entries are in the order of their keys: a node's own payload before its children, children by their bytes.
//! Every leaf has a payload; a walk that meets one without fails, so a damaged trie cannot lead it around for
//! long.

use super::node::{Branch, Down, Flaw, Found, Node};
use crate::pages::Cursor;
use partition::ReadError;
use partition::codec::Input;

/// Nodes on the way to an entry, of nearly all tries.
const DEPTH_USUAL: usize = 16;
/// Longer keys than any that a node makes.
const DEPTH_MAX: usize = 4 << 20;

/// A node on the way from the root, and the slot and byte by which it was left.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: u64,
    slot: u16,
    byte: u8,
}

/// A place in a trie: an entry, or nothing before it was sought.
#[derive(Clone, Debug)]
pub(crate) struct TrieCursor {
    pub input: Cursor,
    root: u64,
    /// The nodes above the current one.
    path: Vec<Step>,
    /// The node whose payload is the current entry.
    current: Option<u64>,
    /// Whether a step to a next entry loads no page, but ends with [`ReadError::WouldBlock`] where it takes
    /// one, which leaves the cursor anywhere.
    pub in_memory_only: bool,
}

/// What the current entry holds: the payload bits, and where the payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub bits: u8,
    pub position: u64,
}

/// The greatest entry that is less than a key, as far as a search has come.
#[derive(Clone, Copy, Debug)]
struct Lesser {
    /// How many nodes lie above `node`.
    depth: usize,
    node: u64,
    /// The last entry below the slots before this one is meant; `None` for the node's own.
    before: Option<usize>,
}

impl TrieCursor {
    pub fn new(input: Cursor, root: u64) -> TrieCursor {
        TrieCursor { input, root, path: Vec::new(), current: None, in_memory_only: false }
    }

    /// Goes to the entry of another cursor in the same trie.
    pub fn stand_at(&mut self, other: &TrieCursor) {
        self.input.stand_at(&other.input);
        self.path.clear();
        self.path.extend_from_slice(&other.path);
        self.current = other.current;
    }

    /// Reads the node at `position`, which has to lie in one page with its payload.
    fn node<R>(
        input: &mut Cursor,
        position: u64,
        f: impl FnOnce(&Node<'_>) -> Result<R, Flaw>,
    ) -> Result<R, ReadError> {
        input.seek(position);
        let result = Node::parse(input.page()?, position).and_then(|node| f(&node));
        result.map_err(|flaw| input.malformed(flaw.to_owned()))
    }

    /// Notes that `node` is left by a branch; yields the child.
    fn push(&mut self, node: u64, branch: Branch) -> Result<u64, ReadError> {
        if self.path.len() >= DEPTH_MAX {
            return Err(self.input.malformed("the trie is too deep".to_owned()));
        }
        // A node has 256 slots at most.
        self.path.push(Step { node, slot: branch.slot as u16, byte: branch.byte });
        Ok(branch.child)
    }

    /// The key of the current entry.
    pub fn key(&self) -> impl Iterator<Item = u8> {
        self.path.iter().map(|step| step.byte)
    }

    /// The payload of the current entry.
    pub fn payload(&mut self) -> Result<Option<Payload>, ReadError> {
        let Some(node) = self.current else { return Ok(None) };
        let payload = |n: &Node<'_>| Ok(Payload { bits: n.payload_bits(), position: n.payload_position() });
        Self::node(&mut self.input, node, payload).map(Some)
    }

    /// Follows a key down to a leaf, and yields what the leaf holds. The leaf belongs to the key, or to
    /// another one that begins alike. `None` where the way ends elsewhere. The cursor is at no entry
    /// afterwards.
    pub fn leaf(&mut self, mut key: impl Iterator<Item = u8>) -> Result<Option<Payload>, ReadError> {
        self.current = None;
        let mut at = self.root;
        loop {
            self.input.seek(at);
            let (start, page) = self.input.whole_page()?;
            let found = loop {
                let here = at.checked_sub(start).and_then(|at| page.get(usize::try_from(at).ok()?..));
                // Children lie before their parents, and most of them in the same page.
                let Some(here) = here else { break Ok(None) };
                match Node::parse(here, at).and_then(|node| node.down(&mut key)) {
                    Ok(Down::Child(child)) => at = child,
                    Ok(Down::Apart | Down::Leaf { bits: 0, .. }) => return Ok(None),
                    Ok(Down::Leaf { bits, payload }) => break Ok(Some(Payload { bits, position: payload })),
                    Err(flaw) => break Err(flaw),
                }
            };
            match found {
                Ok(None) => {}
                Ok(payload) => return Ok(payload),
                Err(flaw) => {
                    self.input.seek(at);
                    return Err(self.input.malformed(flaw.to_owned()));
                }
            }
        }
    }

    /// Goes to the last entry whose key is not greater than `key`; to none when all are.
    pub fn seek_floor(&mut self, key: &[u8]) -> Result<(), ReadError> {
        self.path.clear();
        self.path.reserve(DEPTH_USUAL);
        self.current = None;
        let mut at = self.root;
        let mut lesser: Option<Lesser> = None;
        let mut bytes = key.iter();
        loop {
            let byte = bytes.next();
            let (payload, before, branch) = Self::node(&mut self.input, at, |node| {
                let found = byte.map_or(Found::Before(0), |byte| node.find(*byte));
                let (end, branch) = match found {
                    Found::Slot(slot) => (slot, node.branch(slot)?),
                    Found::Before(end) => (end, None),
                };
                Ok((node.payload_bits(), node.has_child_before(end).then_some(end), branch))
            })?;
            if payload != 0 || before.is_some() {
                lesser = Some(Lesser { depth: self.path.len(), node: at, before });
            }
            match branch {
                Some(branch) => at = self.push(at, branch)?,
                None => break,
            }
        }
        if let Some(Lesser { depth, node, before }) = lesser {
            self.path.truncate(depth);
            let branch = match before {
                Some(end) => Self::node(&mut self.input, node, |node| node.child_before(end))?,
                None => None,
            };
            match branch {
                None => self.current = Some(node),
                Some(branch) => {
                    let child = self.push(node, branch)?;
                    self.descend_last(child)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the way to the current entry is the beginning of a key.
    pub fn leads_to(&mut self, key: &[u8]) -> Result<bool, ReadError> {
        for (i, Step { node, slot, .. }) in self.path.iter().enumerate() {
            let Some(byte) = key.get(i) else { return Ok(false) };
            let found = Self::node(&mut self.input, *node, |node| Ok(node.find(*byte)))?;
            if found != Found::Slot(usize::from(*slot)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes to the first entry.
    pub fn seek_first(&mut self) -> Result<(), ReadError> {
        self.path.clear();
        self.descend_first(self.root)
    }

    /// Goes to the last entry.
    pub fn seek_last(&mut self) -> Result<(), ReadError> {
        self.path.clear();
        self.descend_last(self.root)
    }

    fn check_in_memory(&mut self, node: u64) -> Result<(), ReadError> {
        if !self.in_memory_only {
            return Ok(());
        }
        self.input.seek(node);
        if self.input.is_in_memory() { Ok(()) } else { Err(ReadError::WouldBlock) }
    }

    fn descend_first(&mut self, mut at: u64) -> Result<(), ReadError> {
        loop {
            self.check_in_memory(at)?;
            let child = Self::node(&mut self.input, at, |node| match node.payload_bits() {
                0 => node.child_from(0),
                _ => Ok(None),
            })?;
            match child {
                Some(branch) => at = self.push(at, branch)?,
                None => return self.arrive(at),
            }
        }
    }

    fn descend_last(&mut self, mut at: u64) -> Result<(), ReadError> {
        loop {
            let child = Self::node(&mut self.input, at, |node| node.child_before(node.slots()))?;
            match child {
                Some(branch) => at = self.push(at, branch)?,
                None => return self.arrive(at),
            }
        }
    }

    fn arrive(&mut self, at: u64) -> Result<(), ReadError> {
        self.current = Some(at);
        match Self::node(&mut self.input, at, |node| Ok(node.payload_bits()))? {
            0 => Err(self.input.malformed("a trie node with neither children nor payload".to_owned())),
            _ => Ok(()),
        }
    }

    /// Goes to the next entry; from none at all, to the first. False at the end, which is again none at all.
    pub fn next(&mut self) -> Result<bool, ReadError> {
        let Some(at) = self.current else {
            self.seek_first()?;
            return Ok(true);
        };
        self.check_in_memory(at)?;
        if let Some(branch) = Self::node(&mut self.input, at, |node| node.child_from(0))? {
            let child = self.push(at, branch)?;
            self.descend_first(child)?;
            return Ok(true);
        }
        while let Some(Step { node: above, slot, .. }) = self.path.pop() {
            self.check_in_memory(above)?;
            let next = Self::node(&mut self.input, above, |node| node.child_from(usize::from(slot) + 1))?;
            if let Some(branch) = next {
                let child = self.push(above, branch)?;
                self.descend_first(child)?;
                return Ok(true);
            }
        }
        self.current = None;
        Ok(false)
    }

    /// Goes to the entry before; false, with none at all, before the first.
    pub fn previous(&mut self) -> Result<bool, ReadError> {
        while let Some(Step { node: above, slot, .. }) = self.path.pop() {
            let (payload, before) = Self::node(&mut self.input, above, |node| {
                Ok((node.payload_bits(), node.child_before(usize::from(slot))?))
            })?;
            if let Some(branch) = before {
                let child = self.push(above, branch)?;
                self.descend_last(child)?;
                return Ok(true);
            }
            if payload != 0 {
                self.current = Some(above);
                return Ok(true);
            }
        }
        self.current = None;
        Ok(false)
    }
}
