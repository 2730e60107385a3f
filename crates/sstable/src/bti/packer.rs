//! Writing a trie whose nodes lie in as few pages as a search will touch.
//!
//! Keys come in order. A node is complete when a key comes that does not pass through it; then the bytes of
//! its branch are known. As long as node and branch are smaller than a page nothing is written. When they are
//! not, the branches of the node's children are put into pages. The largest branch that still fits in the
//! rest of the page comes first, or the largest of all in a new page. So every page holds whole branches, and
//! only the nodes above them point out of their page. This is Cassandra's packing
//! (`IncrementalTrieWriterPageAware`), down to the byte.
//!
//! Branches that are not written yet are smaller than a page, which bounds memory and the depth of recursion
//! here.

use crate::pages::{INDEX_PAGE_BYTES, PageLayout};
use crate::proof::{PageSummer, PageSums};
use env::fs::WriteFile;
use std::io;

/// Bytes that are collected before they go to the file.
const BUFFER_BYTES: usize = 64 << 10;

/// A file that knows its pages.
#[derive(Debug)]
pub(crate) struct PageFile {
    /// `None` for an end that stays in memory.
    file: Option<Box<dyn WriteFile>>,
    buffer: Vec<u8>,
    flushed: u64,
    /// The checksums of the pages that were flushed.
    sums: PageSummer,
}

impl PageFile {
    pub fn new(file: Box<dyn WriteFile>) -> PageFile {
        PageFile { file: Some(file), buffer: Vec::new(), flushed: 0, sums: PageSummer::default() }
    }

    /// Hands all to the file, and yields another one that goes on from there in memory.
    pub fn fork(&mut self) -> io::Result<PageFile> {
        self.flush()?;
        if let Some(file) = &mut self.file {
            file.flush()?;
        }
        let (flushed, sums) = (self.flushed, PageSummer::default());
        Ok(PageFile { file: None, buffer: Vec::new(), flushed, sums })
    }

    /// What was written since [`PageFile::fork`].
    pub fn into_forked(self) -> Vec<u8> {
        self.buffer
    }

    /// Bytes so far.
    pub fn position(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    fn left_in_page(&self) -> u64 {
        INDEX_PAGE_BYTES - self.position() % INDEX_PAGE_BYTES
    }

    fn pad_page(&mut self) {
        let padding = (INDEX_PAGE_BYTES - self.position() % INDEX_PAGE_BYTES) % INDEX_PAGE_BYTES;
        self.buffer.resize(self.buffer.len() + padding as usize, 0);
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(&self.buffer)?;
        self.sums.add(&self.buffer);
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// How the full pages lie of what was handed to the file.
    pub fn pages_so_far(&self) -> PageLayout {
        self.sums.so_far()
    }

    /// Writes and syncs all; yields the checksums of the pages.
    pub fn finish(mut self) -> io::Result<PageSums> {
        self.flush()?;
        if let Some(file) = &mut self.file {
            file.sync_data()?;
        }
        Ok(self.sums.finish())
    }
}

/// What a key leads to: four bits, not all 0, and some bytes.
#[derive(Clone, Debug)]
pub(crate) struct PackedPayload {
    pub bits: u8,
    pub bytes: Vec<u8>,
}

/// Which layout a node is written in: the ordinal of its type and the bits of its distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Leaf,
    Single { ordinal: u8, bits: u32 },
    Sparse { ordinal: u8, bits: u32 },
    Dense { ordinal: u8, bits: u32 },
}

/// For each number of bits that a distance can need, the types with room for it.
const WIDTHS: [(u32, Shape, Shape, Shape); 8] = {
    use Shape::{Dense, Single, Sparse};
    const fn single(ordinal: u8, bits: u32) -> Shape {
        Single { ordinal, bits }
    }
    const fn sparse(ordinal: u8, bits: u32) -> Shape {
        Sparse { ordinal, bits }
    }
    const fn dense(ordinal: u8, bits: u32) -> Shape {
        Dense { ordinal, bits }
    }
    [
        (4, single(1, 4), sparse(5, 8), dense(10, 12)),
        (8, single(2, 8), sparse(5, 8), dense(10, 12)),
        (12, single(3, 12), sparse(6, 12), dense(10, 12)),
        (16, single(4, 16), sparse(7, 16), dense(11, 16)),
        (24, dense(12, 24), sparse(8, 24), dense(12, 24)),
        (32, dense(13, 32), sparse(9, 40), dense(13, 32)),
        (40, dense(14, 40), sparse(9, 40), dense(14, 40)),
        (64, dense(15, 64), dense(15, 64), dense(15, 64)),
    ]
};

#[derive(Clone, Debug)]
struct PackedNode {
    byte: u8,
    payload: Option<PackedPayload>,
    children: Vec<PackedNode>,
    /// Where it was written; `None` before.
    position: Option<u64>,
    /// Bytes of what is below it and not yet written; less than they will be while `branch_reaches_out`.
    branch_len: u64,
    /// Bytes of the node; less than they will be while a child of it is in another page.
    node_len: u64,
    /// Whether a child was written already; taken for true until the node is complete.
    reaches_out: bool,
    /// Whether something further below was.
    branch_reaches_out: bool,
}

impl PackedNode {
    fn new(byte: u8) -> PackedNode {
        PackedNode {
            byte,
            payload: None,
            children: Vec::new(),
            position: None,
            branch_len: 0,
            node_len: 0,
            reaches_out: true,
            branch_reaches_out: false,
        }
    }

    fn total(&self) -> u64 {
        self.branch_len + self.node_len
    }

    /// The greatest distance to a child from a node at `at`, as far as it is known.
    fn reach(&self, at: u64) -> u64 {
        if !self.reaches_out {
            return self.branch_len - self.children.first().map_or(0, |child| child.branch_len);
        }
        let placed = self.children.iter().filter_map(|child| child.position);
        let placed = placed.map(|position| at.saturating_sub(position)).max().unwrap_or(0);
        let unplaced = self.children.iter().find(|child| child.position.is_none());
        placed.max(unplaced.map_or(0, |child| self.branch_len.saturating_sub(child.branch_len)))
    }

    fn shape(&self, at: u64) -> Shape {
        let (Some(first), Some(last)) = (self.children.first(), self.children.last()) else {
            return Shape::Leaf;
        };
        let reach = self.reach(at);
        let needed = WIDTHS.iter().position(|(bits, ..)| *bits == 64 || reach >> bits == 0).unwrap_or(7);
        let width = |i: usize| WIDTHS.get(i).unwrap_or(&WIDTHS[7]);
        let (_, single, sparse, dense) = *width(needed);
        if self.children.len() == 1 {
            return match single {
                // A single node whose distance shares a byte with the payload bits has no payload.
                Shape::Single { bits: 4 | 12, .. } if self.payload.is_some() => width(needed + 1).1,
                single => single,
            };
        }
        let span = (last.byte - first.byte) as usize + 1;
        let len = |shape| body_len(shape, self.children.len(), span);
        if len(sparse) < len(dense) { sparse } else { dense }
    }

    /// Bytes of the node with its payload, at a place.
    fn len_at(&self, at: u64) -> u64 {
        let span = match (self.children.first(), self.children.last()) {
            (Some(first), Some(last)) => (last.byte - first.byte) as usize + 1,
            _ => 0,
        };
        let payload = self.payload.as_ref().map_or(0, |payload| payload.bytes.len());
        (body_len(self.shape(at), self.children.len(), span) + payload) as u64
    }

    /// Works the lengths out anew for a branch that would end with this node, and begin at `start`.
    fn measure(&mut self, start: u64) -> u64 {
        if self.branch_reaches_out {
            let mut len = 0;
            for child in &mut self.children {
                len += child.measure(start + len);
            }
            self.branch_len = len;
        }
        if self.reaches_out || self.branch_reaches_out {
            self.node_len = self.len_at(start + self.branch_len);
        }
        self.total()
    }

    fn place(&mut self, at: u64) {
        self.position = Some(at);
        self.branch_len = 0;
        self.node_len = 0;
        self.reaches_out = false;
        self.branch_reaches_out = false;
        self.children = Vec::new();
        self.payload = None;
    }

    fn serialize(&self, at: u64, out: &mut Vec<u8>) {
        let shape = self.shape(at);
        let payload_bits = self.payload.as_ref().map_or(0, |payload| payload.bits);
        let distances = |child: &PackedNode| at - child.position.unwrap_or(at);
        match shape {
            Shape::Leaf => out.push(payload_bits),
            Shape::Single { ordinal, bits } => {
                let Some(child) = self.children.first() else { return };
                let distance = distances(child);
                match bits {
                    4 => out.extend([ordinal << 4 | distance as u8, child.byte]),
                    8 => out.extend([ordinal << 4 | payload_bits, child.byte, distance as u8]),
                    12 => out.extend([ordinal << 4 | (distance >> 8) as u8, distance as u8, child.byte]),
                    _ => {
                        out.extend([ordinal << 4 | payload_bits, child.byte]);
                        out.extend_from_slice(&(distance as u16).to_be_bytes());
                    }
                }
            }
            Shape::Sparse { ordinal, bits } => {
                out.extend([ordinal << 4 | payload_bits, self.children.len() as u8]);
                out.extend(self.children.iter().map(|child| child.byte));
                write_distances(out, bits, self.children.iter().map(distances));
            }
            Shape::Dense { ordinal, bits } => {
                let (Some(first), Some(last)) = (self.children.first(), self.children.last()) else { return };
                out.extend([ordinal << 4 | payload_bits, first.byte, last.byte - first.byte]);
                let mut children = self.children.iter().peekable();
                let slots = (first.byte..=last.byte)
                    .map(|byte| children.next_if(|child| child.byte == byte).map_or(0, distances));
                write_distances(out, bits, slots);
            }
        }
        if let Some(payload) = &self.payload {
            out.extend_from_slice(&payload.bytes);
        }
    }
}

/// Bytes of a node without payload.
fn body_len(shape: Shape, children: usize, span: usize) -> usize {
    match shape {
        Shape::Leaf => 1,
        Shape::Single { bits: 4, .. } => 2,
        Shape::Single { bits: 8 | 12, .. } => 3,
        Shape::Single { .. } => 4,
        Shape::Sparse { bits, .. } => 2 + (children * (8 + bits as usize)).div_ceil(8),
        Shape::Dense { bits, .. } => 3 + (span * bits as usize).div_ceil(8),
    }
}

/// Appends numbers of so many bits, most significant bits first; half a byte that is left over is 0.
fn write_distances(out: &mut Vec<u8>, bits: u32, distances: impl Iterator<Item = u64>) {
    if bits != 12 {
        let len = bits as usize / 8;
        distances.for_each(|distance| out.extend(distance.to_be_bytes().iter().skip(8 - len)));
        return;
    }
    let mut half: Option<u8> = None;
    for distance in distances {
        match half.take() {
            None => {
                out.push((distance >> 4) as u8);
                half = Some((distance << 4) as u8);
            }
            Some(high) => out.extend([high | (distance >> 8) as u8, distance as u8]),
        }
    }
    out.extend(half);
}

/// Writes a trie.
#[derive(Clone, Debug)]
pub(crate) struct TriePacker {
    /// The nodes on the way to the last key, the root first.
    path: Vec<PackedNode>,
    /// The last key.
    last: Vec<u8>,
    scratch: Vec<u8>,
}

impl Default for TriePacker {
    fn default() -> Self {
        TriePacker { path: vec![PackedNode::new(0)], last: Vec::new(), scratch: Vec::new() }
    }
}

impl TriePacker {
    /// Forgets what was added since the last trie.
    pub fn clear(&mut self) {
        self.path.clear();
        self.path.push(PackedNode::new(0));
        self.last.clear();
    }

    /// Adds a key, which is greater than the one before.
    pub fn add(&mut self, key: &[u8], payload: PackedPayload, out: &mut PageFile) -> io::Result<()> {
        let common = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        while self.path.len() > common + 1 {
            self.complete_last(out)?;
        }
        self.path.extend(key.iter().skip(common).map(|byte| PackedNode::new(*byte)));
        self.last.clear();
        self.last.extend_from_slice(key);
        if let Some(node) = self.path.last_mut() {
            node.payload = Some(payload);
        }
        Ok(())
    }

    fn complete_last(&mut self, out: &mut PageFile) -> io::Result<()> {
        let Some(mut node) = self.path.pop() else { return Ok(()) };
        self.complete(&mut node, out)?;
        if let Some(parent) = self.path.last_mut() {
            parent.children.push(node);
        }
        Ok(())
    }

    fn complete(&mut self, node: &mut PackedNode, out: &mut PageFile) -> io::Result<()> {
        node.branch_len = node.children.iter().map(PackedNode::total).sum();
        let node_len = node.len_at(out.position());
        if node_len + node.branch_len >= INDEX_PAGE_BYTES {
            return self.lay_out_children(node, out);
        }
        node.node_len = node_len;
        node.reaches_out = node.children.iter().any(|child| child.position.is_some());
        node.branch_reaches_out = node
            .children
            .iter()
            .any(|child| child.position.is_none() && (child.reaches_out || child.branch_reaches_out));
        Ok(())
    }

    /// Writes the branches below a node.
    fn lay_out_children(&mut self, node: &mut PackedNode, out: &mut PageFile) -> io::Result<()> {
        loop {
            let left = out.left_in_page();
            let pending = |most: u64| {
                let waiting = node.children.iter().enumerate();
                let waiting = waiting.filter(|(_, c)| c.position.is_none() && c.total() <= most);
                waiting.max_by_key(|(_, child)| (child.total(), child.byte)).map(|(i, _)| i)
            };
            let next = match pending(left) {
                Some(next) => Some(next),
                None => {
                    let largest = pending(u64::MAX);
                    if largest.is_some() {
                        out.pad_page();
                    }
                    largest
                }
            };
            let Some(child) = next.and_then(|i| node.children.get_mut(i)) else { break };
            let left = out.left_in_page();
            if (child.reaches_out || child.branch_reaches_out) && child.measure(out.position()) > left {
                // What it points to is farther away than was thought. It is tried again with a new page, and
                // if that was new already, without the branches below it.
                if left == INDEX_PAGE_BYTES {
                    self.lay_out_children(child, out)?;
                }
                continue;
            }
            let position = self.write(child, out)?;
            child.place(position);
        }
        node.branch_len = 0;
        node.reaches_out = true;
        node.branch_reaches_out = false;
        node.node_len = node.len_at(out.position());
        Ok(())
    }

    /// Writes what is not yet written below a node, and the node; yields where that is.
    fn write(&mut self, node: &mut PackedNode, out: &mut PageFile) -> io::Result<u64> {
        for child in &mut node.children {
            if child.position.is_none() {
                child.position = Some(self.write(child, out)?);
            }
        }
        let position = out.position();
        self.scratch.clear();
        node.serialize(position, &mut self.scratch);
        out.write(&self.scratch)?;
        Ok(position)
    }

    /// Completes the trie and gets ready for another one. Yields where the root is.
    pub fn finish(&mut self, out: &mut PageFile) -> io::Result<u64> {
        while self.path.len() > 1 {
            self.complete_last(out)?;
        }
        let mut root = self.path.pop().unwrap_or_else(|| PackedNode::new(0));
        self.complete(&mut root, out)?;
        let mut left = out.left_in_page();
        let mut len = root.measure(out.position());
        if len > left {
            if len <= INDEX_PAGE_BYTES {
                out.pad_page();
                left = INDEX_PAGE_BYTES;
                len = root.measure(out.position());
            }
            if len > left {
                self.lay_out_children(&mut root, out)?;
                if root.node_len > out.left_in_page() {
                    out.pad_page();
                    root.measure(out.position());
                }
            }
        }
        let position = self.write(&mut root, out)?;
        self.clear();
        Ok(position)
    }
}
