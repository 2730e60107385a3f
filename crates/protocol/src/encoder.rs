//! From responses to the bytes of one connection.
//!
//! An envelope is opened with [`Encoder::begin`], its body is written in place, and
//! [`EnvelopeWriter::finish`] fills in the header. [`Encoder::unsent`] shows what the socket is to get.
//! [`Encoder::sent`] lets go of what the socket took, and the memory is used again.
//!
//! ```text
//! unframed           out:   envelope | envelope | ...
//! v3, v4 compressed  stage: envelope                      finish: out gets the header and the compressed body
//! v5                 out:   [header] envelope | envelope  unsent, or a full segment: header and trailer filled in
//! v5 with lz4        stage: envelope | envelope           unsent, or a full segment: out gets the LZ4 segment
//! ```
//!
//! A long body that comes in blocks ([`Encoder::push_blocks`]) queues up as it is, behind what `out` held
//! then.
//!
//! In v5 envelopes share a segment while they fit. One that does not fit beside its predecessors is moved
//! behind their trailer; one that fits in no segment is cut up where it lies, from the back. Both move each
//! byte once, and only results over 128 KiB pay for the cutting.

#[cfg(any(test, feature = "client"))]
use bytes::Bytes;
use bytes::{Buf, BufMut, BytesMut};
use model::checksum::crc32;
use thiserror::Error;
use uuid::Uuid;

use crate::compression::{Compression, compress_body};
use crate::envelope::{EVENT_STREAM, HEADER, Opcode, RESPONSE_BIT, RawHeader, flags};
use crate::error::FrameError;
use crate::primitives::{CustomPayload, put_bytes_map, put_string_list, put_uuid};
use crate::response::Response;
use crate::response::blocks::Blocks;
use crate::response::error::ErrorResponse;
use crate::response::event::Event;
use crate::segment::{self, PAYLOAD_MAX, PLAIN_HEADER, TRAILER};
use crate::version::ProtocolVersion;
use queue::{Piece, Queue};

/// What leads the body of a response besides its own content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    /// The session in `system_traces` of a traced request.
    pub tracing_id: Option<Uuid>,
    /// Warnings for the client's log; v3 clients do not get them.
    pub warnings: Vec<String>,
    /// Custom payload; v3 clients do not get it.
    pub payload: CustomPayload,
}

impl Extras {
    fn is_empty(&self) -> bool {
        self.tracing_id.is_none() && self.warnings.is_empty() && self.payload.is_empty()
    }

    /// The flags and the bytes in front of the body.
    fn encode(&self, version: ProtocolVersion) -> (u8, BytesMut) {
        let mut bits = 0;
        let mut prefix = BytesMut::new();
        if let Some(id) = self.tracing_id {
            bits |= flags::TRACING;
            put_uuid(&mut prefix, id);
        }
        if version >= ProtocolVersion::V4 && !self.warnings.is_empty() {
            bits |= flags::WARNING;
            put_string_list(&mut prefix, &self.warnings);
        }
        if version >= ProtocolVersion::V4 && !self.payload.is_empty() {
            bits |= flags::CUSTOM_PAYLOAD;
            put_bytes_map(&mut prefix, &self.payload);
        }
        (bits, prefix)
    }
}

/// A body longer than its header can say; nothing of it was written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a body of {length} bytes exceeds the 2147483647 of an envelope")]
pub struct BodyTooLong {
    /// The body's length in bytes.
    pub length: usize,
}

/// The most memory that an idle encoder keeps, in bytes; one large result does not stay with its connection.
const KEPT_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unframed,
    Compressed(Compression),
    PlainSegments,
    Lz4Segments,
}

/// Bytes of a body from which on it is not copied behind the other answers.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// Collects the envelopes that go out on a connection.
#[derive(Debug)]
pub struct Encoder {
    version: ProtocolVersion,
    mode: Mode,
    direction_bit: u8,
    /// What goes out before `out`.
    queue: Queue,
    out: BytesMut,
    stage: BytesMut,
    /// Where in `out` the header of the segment stands that can still grow.
    open_segment: Option<usize>,
}

impl Encoder {
    /// An encoder of responses for a connection that has not begun its session; answers to OPTIONS and
    /// STARTUP are in the version of the request, see [`Encoder::set_version`].
    pub fn new() -> Self {
        Self {
            version: ProtocolVersion::HIGHEST,
            mode: Mode::Unframed,
            direction_bit: RESPONSE_BIT,
            queue: Queue::default(),
            out: BytesMut::new(),
            stage: BytesMut::new(),
            open_segment: None,
        }
    }

    /// An encoder of requests.
    #[cfg(any(test, feature = "client"))]
    pub fn of_requests() -> Self {
        Self { direction_bit: 0, ..Self::new() }
    }

    /// The version of the envelopes that follow, until [`Encoder::negotiate`] settles it.
    pub fn set_version(&mut self, version: ProtocolVersion) {
        self.version = version;
    }

    /// The version in which envelopes are written.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The answer to STARTUP has been written: what follows is in this version, in segments from v5 on,
    /// compressed if asked for.
    pub fn negotiate(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.close_segment();
        self.version = version;
        self.mode = match (version, compression) {
            (ProtocolVersion::V5, Some(Compression::Lz4)) => Mode::Lz4Segments,
            (ProtocolVersion::V5, _) => Mode::PlainSegments,
            (_, Some(algorithm)) => Mode::Compressed(algorithm),
            (_, None) => Mode::Unframed,
        };
    }

    /// The number of bytes that are not sent yet, before compression of what is staged.
    pub fn pending_bytes(&self) -> usize {
        self.queue.bytes() + self.out.len() + self.stage.len()
    }

    /// The next bytes for the socket, all of finished envelopes; none where all has been sent.
    pub fn unsent(&mut self) -> &[u8] {
        if self.queue.bytes() > 0 {
            return self.queue.front();
        }
        self.close_segment();
        if self.stage.is_empty() && self.stage.capacity() > KEPT_BYTES_MAX {
            self.stage = BytesMut::new();
        }
        &self.out
    }

    /// Lets go of the first `count` bytes of [`Encoder::unsent`].
    pub fn sent(&mut self, count: usize) {
        if self.queue.bytes() > 0 {
            self.queue.advance(count);
        } else if count < self.out.len() {
            self.out.advance(count);
        } else if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = BytesMut::new();
        } else {
            self.out.clear();
        }
    }

    /// Hands out what is not sent yet.
    #[cfg(any(test, feature = "client"))]
    pub fn take(&mut self) -> Bytes {
        let mut all = BytesMut::with_capacity(self.pending_bytes());
        while self.pending_bytes() > 0 {
            let length = self.unsent().len();
            all.put_slice(self.unsent());
            self.sent(length);
        }
        all.freeze()
    }

    /// Opens an envelope. Dropping the writer without finishing it leaves no trace.
    pub fn begin(&mut self, stream: i16, opcode: Opcode) -> EnvelopeWriter<'_> {
        if self.mode == Mode::PlainSegments && self.open_segment.is_none() {
            self.open_segment = Some(self.out.len());
            self.out.put_bytes(0, PLAIN_HEADER);
        }
        let work = self.work();
        let start = work.len();
        work.put_bytes(0, HEADER);
        EnvelopeWriter { encoder: self, start, stream, opcode, finished: false }
    }

    /// Writes a response.
    pub fn push(&mut self, stream: i16, response: &Response, extras: &Extras) -> Result<(), BodyTooLong> {
        let version = self.version;
        let mut envelope = self.begin(stream, response.opcode());
        response.encode(version, envelope.body());
        envelope.finish(extras)
    }

    /// Writes a response whose body was written elsewhere. A long one is taken over as it lies, where nothing
    /// has to be compressed.
    pub fn push_blocks(
        &mut self,
        stream: i16,
        opcode: Opcode,
        body: Blocks,
        extras: &Extras,
    ) -> Result<(), BodyTooLong> {
        let length = body.length();
        let is_copied = match self.mode {
            Mode::Compressed(_) | Mode::Lz4Segments => true,
            Mode::Unframed | Mode::PlainSegments => length < COPIED_BYTES_MAX || !extras.is_empty(),
        };
        if is_copied {
            let mut envelope = self.begin(stream, opcode);
            body.parts().for_each(|part| envelope.body().put_slice(part));
            return envelope.finish(extras);
        }
        let header = self.header(stream, opcode, self.version.number(), 0, length)?;
        self.close_segment();
        if !self.out.is_empty() {
            self.queue.push(Piece::whole(std::mem::take(&mut self.out)));
        }
        let blocks = body.into_blocks(header.to_bytes());
        let self_contained = blocks.len() == 1;
        for block in blocks {
            self.queue.push(match self.mode {
                Mode::PlainSegments => Piece::segment(block, self_contained),
                _ => Piece::behind(block, PLAIN_HEADER),
            });
        }
        Ok(())
    }

    /// Writes an event.
    pub fn push_event(&mut self, event: &Event) -> Result<(), BodyTooLong> {
        let version = self.version;
        let mut envelope = self.begin(EVENT_STREAM, Opcode::Event);
        event.encode(version, envelope.body());
        envelope.finish(&Extras::default())
    }

    /// Answers an envelope that could not be decoded, in the shape that its sender understands.
    pub fn push_frame_error(&mut self, error: &FrameError) {
        let version = self.version;
        let response = ErrorResponse::from(error);
        if self.mode == Mode::Unframed && matches!(error.version_number, 1 | 2) {
            let mut body = BytesMut::new();
            response.encode(version, &mut body);
            let stream = error.stream as u8;
            self.out.put_slice(&[error.version_number | RESPONSE_BIT, 0, stream, Opcode::Error.code()]);
            self.out.put_u32(body.len() as u32);
            self.out.put_slice(&body);
            return;
        }
        let mut envelope = self.begin(error.stream, Opcode::Error);
        response.encode(version, envelope.body());
        let (number, bits) = match error.version_number {
            1 | 2 => (version.number(), 0),
            // A draft version is marked as such in answers too.
            number if number > ProtocolVersion::HIGHEST.number() => (number, flags::USE_BETA),
            number => (number, 0),
        };
        // An error's message is at most 64 KiB, so the body is never too long.
        let _ = envelope.close(number, bits);
    }

    /// Writes a request.
    #[cfg(any(test, feature = "client"))]
    pub fn push_request(
        &mut self,
        stream: i16,
        message: &crate::request::Message,
    ) -> Result<(), BodyTooLong> {
        let version = self.version;
        let mut bits = if message.tracing { flags::TRACING } else { 0 };
        let mut envelope = self.begin(stream, message.request.opcode());
        if let Some(payload) = &message.payload {
            bits |= flags::CUSTOM_PAYLOAD;
            put_bytes_map(envelope.body(), payload);
        }
        message.request.encode(version, envelope.body());
        envelope.close(version.number(), bits)
    }

    fn header(
        &self,
        stream: i16,
        opcode: Opcode,
        version_number: u8,
        flags: u8,
        length: usize,
    ) -> Result<RawHeader, BodyTooLong> {
        let first = version_number | self.direction_bit;
        let body_length = i32::try_from(length).map_err(|_| BodyTooLong { length })? as u32;
        Ok(RawHeader { first, flags, stream, opcode: opcode.code(), body_length })
    }

    /// The buffer in which envelopes are written.
    fn work(&mut self) -> &mut BytesMut {
        match self.mode {
            Mode::Unframed | Mode::PlainSegments => &mut self.out,
            Mode::Compressed(_) | Mode::Lz4Segments => &mut self.stage,
        }
    }

    /// Gives the segment in progress its header and trailer.
    fn close_segment(&mut self) {
        if self.mode == Mode::Lz4Segments && !self.stage.is_empty() {
            segment::encode_lz4(&self.stage, true, &mut self.out);
            self.stage.clear();
        }
        if let Some(start) = self.open_segment.take() {
            let payload = start + PLAIN_HEADER;
            seal_plain(&mut self.out, payload, true);
        }
    }

    /// Places the envelope that begins at `start` of the work buffer and is complete.
    fn place(&mut self, start: usize) {
        match self.mode {
            Mode::Unframed => {}
            Mode::Compressed(algorithm) => self.place_compressed(algorithm),
            Mode::PlainSegments => self.place_in_plain_segment(start),
            Mode::Lz4Segments => self.place_in_lz4_segment(start),
        }
    }

    fn place_compressed(&mut self, algorithm: Compression) {
        let at = self.out.len();
        let (header, body) = self.stage.split_at_checked(HEADER).unwrap_or_default();
        self.out.put_slice(header);
        compress_body(algorithm, body, &mut self.out);
        let compressed = self.out.len() - at - HEADER;
        if compressed < body.len() {
            if let Some(bits) = self.out.get_mut(at + 1) {
                *bits |= flags::COMPRESSED;
            }
            patch_u32(&mut self.out, at + HEADER - 4, compressed as u32);
        } else {
            self.out.truncate(at + HEADER);
            self.out.put_slice(body);
        }
        self.stage.clear();
    }

    fn place_in_plain_segment(&mut self, start: usize) {
        let Some(mut segment) = self.open_segment else { return };
        if self.out.len() - segment - PLAIN_HEADER <= PAYLOAD_MAX {
            return;
        }
        let mut start = start;
        if start > segment + PLAIN_HEADER {
            // Close the segment before this envelope and begin another with it.
            let gap = TRAILER + PLAIN_HEADER;
            insert_gap(&mut self.out, start, gap);
            let before = start - segment - PLAIN_HEADER;
            seal_plain_range(&mut self.out, segment + PLAIN_HEADER, before, true);
            segment = start + TRAILER;
            start += gap;
            self.open_segment = Some(segment);
        }
        let length = self.out.len() - start;
        if length <= PAYLOAD_MAX {
            return;
        }
        self.open_segment = None;
        let pieces = length.div_ceil(PAYLOAD_MAX);
        let stride = PLAIN_HEADER + PAYLOAD_MAX + TRAILER;
        self.out.resize(start + length + (pieces - 1) * (PLAIN_HEADER + TRAILER) + TRAILER, 0);
        for piece in (0..pieces).rev() {
            let from = start + piece * PAYLOAD_MAX;
            let piece_length = PAYLOAD_MAX.min(start + length - from);
            let to = start + piece * stride;
            self.out.copy_within(from..from + piece_length, to);
            seal_plain_range(&mut self.out, to, piece_length, false);
        }
    }

    fn place_in_lz4_segment(&mut self, start: usize) {
        if self.stage.len() <= PAYLOAD_MAX {
            return;
        }
        if start > 0 {
            let before = self.stage.split_to(start);
            segment::encode_lz4(&before, true, &mut self.out);
        }
        if self.stage.len() > PAYLOAD_MAX {
            for piece in self.stage.chunks(PAYLOAD_MAX) {
                segment::encode_lz4(piece, false, &mut self.out);
            }
            self.stage.clear();
        }
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// An envelope being written.
#[derive(Debug)]
#[must_use = "an envelope that is not finished is not sent"]
pub struct EnvelopeWriter<'a> {
    encoder: &'a mut Encoder,
    start: usize,
    stream: i16,
    opcode: Opcode,
    finished: bool,
}

impl EnvelopeWriter<'_> {
    /// The buffer to append the body to; what it already holds belongs to others.
    pub fn body(&mut self) -> &mut BytesMut {
        self.encoder.work()
    }

    /// The version of the envelope.
    pub fn version(&self) -> ProtocolVersion {
        self.encoder.version
    }

    /// Completes a response. Extras are put in front of the body, which is moved for them.
    pub fn finish(self, extras: &Extras) -> Result<(), BodyTooLong> {
        let version = self.encoder.version;
        let mut bits = 0;
        if !extras.is_empty() {
            let (extra_bits, prefix) = extras.encode(version);
            bits = extra_bits;
            insert(self.encoder.work(), self.start + HEADER, &prefix);
        }
        self.close(version.number(), bits)
    }

    fn close(mut self, version_number: u8, bits: u8) -> Result<(), BodyTooLong> {
        let start = self.start;
        let length = self.encoder.work().len() - start - HEADER;
        let header = self.encoder.header(self.stream, self.opcode, version_number, bits, length)?;
        if let Some(place) = self.encoder.work().get_mut(start..start + HEADER) {
            place.copy_from_slice(&header.to_bytes());
        }
        self.finished = true;
        self.encoder.place(start);
        Ok(())
    }
}

impl Drop for EnvelopeWriter<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let start = self.start;
        self.encoder.work().truncate(start);
        let segment = self.encoder.open_segment;
        if let Some(segment) = segment.filter(|segment| segment + PLAIN_HEADER == start) {
            self.encoder.out.truncate(segment);
            self.encoder.open_segment = None;
        }
    }
}

/// Gives the segment whose payload runs from `payload` to the end of `out` its header and trailer.
fn seal_plain(out: &mut BytesMut, payload: usize, self_contained: bool) {
    let length = out.len() - payload;
    out.put_bytes(0, TRAILER);
    seal_plain_range(out, payload, length, self_contained);
}

/// Fills in the header before and the trailer behind a payload that lies in `out`, room for both included.
fn seal_plain_range(out: &mut BytesMut, payload: usize, length: usize, self_contained: bool) {
    let header = segment::plain_header(length, self_contained);
    if let Some(place) = out.get_mut(payload - PLAIN_HEADER..payload) {
        place.copy_from_slice(&header);
    }
    let end = payload + length;
    let crc = crc32(out.get(payload..end).unwrap_or_default());
    if let Some(place) = out.get_mut(end..end + TRAILER) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Moves everything from `at` on back by `length` bytes.
fn insert_gap(out: &mut BytesMut, at: usize, length: usize) {
    let end = out.len();
    out.put_bytes(0, length);
    out.copy_within(at..end, at + length);
}

/// Puts `bytes` at `at`, moving what follows.
pub(crate) fn insert(out: &mut BytesMut, at: usize, bytes: &[u8]) {
    insert_gap(out, at, bytes.len());
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Overwrites four bytes at `at`.
pub(crate) fn patch_u32(out: &mut BytesMut, at: usize, number: u32) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

mod queue;
#[cfg(test)]
mod tests;
