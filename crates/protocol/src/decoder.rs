//! From the bytes of one connection to whole envelopes.
//!
//! 1. A connection begins *unframed*: envelopes follow each other, nothing is compressed.
//! 2. When STARTUP has been accepted the caller says so with [`Decoder::negotiate`], before asking for
//!    the next envelope. v3 and v4 stay unframed, their bodies may be compressed; v5 goes on in segments
//!    (see [`crate::segment`]).
//! 3. The version is judged from the first byte alone: v1 and v2 have shorter headers, which may never grow
//!    to the nine bytes of ours.
//! 4. An envelope over the limit is skipped to its end, and only then reported, so that the client is done
//!    writing and reads the answer.
//! 5. After an error that is not fatal the next call goes on behind the envelope in question. After a fatal
//!    one the decoder yields nothing any more.
//!
//! The same machine reads responses for clients; only the direction differs.

use bytes::{Buf, Bytes, BytesMut};

use crate::compression::{Compression, decompress_body};
use crate::envelope::{Envelope, HEADER, Opcode, RESPONSE_BIT, RawHeader, flags};
use crate::error::{FrameError, FrameErrorKind};
use crate::segment::{self, Layout};
use crate::version::ProtocolVersion;

/// `native_transport_max_frame_size` as it is set by default: 16 MiB.
pub const DEFAULT_ENVELOPE_BYTES_MAX: usize = 16 << 20;

/// The opcode that v1 had for what SASL does since.
const CREDENTIALS: u8 = 0x04;

/// The number of the version that exists as a draft only.
const BETA_VERSION: u8 = 6;

/// An input buffer that held more bytes than this for one envelope is not kept.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Who wrote the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    #[cfg(any(test, feature = "client"))]
    Responses,
}

#[derive(Debug)]
enum State {
    /// Envelopes follow each other.
    Unframed,
    /// As `Unframed`, inside an envelope that nobody will see.
    Skipping { left: u64, error: FrameError },
    /// Envelopes come in segments.
    Segments(Layout),
    /// The bytes are out of step.
    Dead,
}

/// A message that spans several segments.
#[derive(Debug)]
enum Large {
    Collecting(BytesMut),
    /// Too long: the rest of it is dropped.
    Skipping {
        left: u64,
    },
}

/// Makes room for a body of `total` bytes that has begun to arrive. It never makes room for more than as much
/// again as is here: an announcement alone gets no memory.
fn reserve_towards(buffer: &mut BytesMut, total: usize) {
    let missing = total.saturating_sub(buffer.len());
    buffer.reserve(missing.min(buffer.len().max(64 << 10)));
}

/// Turns what a connection delivers into envelopes.
#[derive(Debug)]
pub struct Decoder {
    input: BytesMut,
    envelope_bytes_max: usize,
    message_bytes_max: usize,
    direction: Direction,
    state: State,
    version: Option<ProtocolVersion>,
    compression: Option<Compression>,
    /// What is left of the current self-contained segment.
    segment: Bytes,
    large: Option<Large>,
}

impl Decoder {
    /// A decoder of requests that refuses what is longer than `bytes_max`: envelopes of v3 and v4 (header and
    /// body, uncompressed) and messages of several segments (their bodies).
    pub fn new(bytes_max: usize) -> Self {
        Self {
            input: BytesMut::new(),
            envelope_bytes_max: bytes_max,
            message_bytes_max: bytes_max,
            direction: Direction::Requests,
            state: State::Unframed,
            version: None,
            compression: None,
            segment: Bytes::new(),
            large: None,
        }
    }

    /// A decoder of responses.
    #[cfg(any(test, feature = "client"))]
    pub fn of_responses(bytes_max: usize) -> Self {
        Self { direction: Direction::Responses, ..Self::new(bytes_max) }
    }

    /// STARTUP was accepted: what follows is in this version, compressed if asked for.
    pub fn negotiate(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.version = Some(version);
        self.compression = compression;
        if version >= ProtocolVersion::V5 {
            self.state = State::Segments(match compression {
                Some(Compression::Lz4) => Layout::Lz4,
                _ => Layout::Plain,
            });
        }
    }

    /// Refuses longer envelopes of v3 and v4, and longer messages of several segments, from the next one on.
    pub fn set_bytes_max(&mut self, envelope: usize, message: usize) {
        (self.envelope_bytes_max, self.message_bytes_max) = (envelope, message);
    }

    /// The buffer that a socket reads into, behind what has not been decoded yet.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Appends bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The number of bytes held back for an envelope that is not complete.
    pub fn buffered_bytes(&self) -> usize {
        let large = match &self.large {
            Some(Large::Collecting(bytes)) => bytes.len(),
            _ => 0,
        };
        self.input.len() + self.segment.len() + large
    }

    /// The next whole envelope, or `None` until more bytes have been fed.
    pub fn next_envelope(&mut self) -> Result<Option<Envelope>, FrameError> {
        let result = match self.state {
            State::Unframed | State::Skipping { .. } => self.next_unframed(),
            State::Segments(layout) => self.next_framed(layout),
            State::Dead => {
                self.input.clear();
                return Ok(None);
            }
        };
        if let Err(FrameError { fatal: true, .. }) = &result {
            self.state = State::Dead;
            self.input.clear();
            self.segment.clear();
            self.large = None;
        }
        result
    }

    /// The version number for the header of an answer.
    fn answer_version(&self) -> u8 {
        self.version.unwrap_or(ProtocolVersion::HIGHEST).number()
    }

    fn error(&self, kind: impl Into<FrameErrorKind>, stream: i16, fatal: bool) -> FrameError {
        FrameError { kind: kind.into(), stream, version_number: self.answer_version(), fatal }
    }

    fn next_unframed(&mut self) -> Result<Option<Envelope>, FrameError> {
        if let State::Skipping { left, error } = &mut self.state {
            let skipped = (*left).min(self.input.len() as u64);
            self.input.advance(skipped as usize);
            *left -= skipped;
            if *left > 0 {
                return Ok(None);
            }
            let error = error.clone();
            self.state = State::Unframed;
            return Err(error);
        }
        let Some(&first) = self.input.first() else { return Ok(None) };
        if let Err(mut error) = self.judge_version(first, self.input.get(1).copied()) {
            if matches!(error.kind, FrameErrorKind::BetaVersion) && self.input.len() < 2 {
                return Ok(None);
            }
            // Where the next envelope starts is anyone's guess; what came along is dropped.
            self.input.clear();
            error.stream = 0;
            return Err(error);
        }
        let Some(header) = RawHeader::read(&self.input) else { return Ok(None) };
        let total = header.total();
        let skip = match self.judge_opcode(header) {
            Err(error) => Some(error),
            Ok(_) if total > self.envelope_bytes_max as u64 => {
                let kind = FrameErrorKind::TooBig { length: total, max: self.envelope_bytes_max };
                Some(self.error(kind, header.stream, false))
            }
            Ok(_) => None,
        };
        if let Some(error) = skip {
            self.state = State::Skipping { left: total, error };
            return self.next_unframed();
        }
        if (self.input.len() as u64) < total {
            reserve_towards(&mut self.input, total as usize);
            return Ok(None);
        }
        let mut whole = self.input.split_to(total as usize).freeze();
        whole.advance(HEADER);
        if self.input.is_empty() && whole.len() > KEPT_BYTES_MAX {
            self.input = BytesMut::new();
        }
        self.open(header, whole).map(Some)
    }

    fn next_framed(&mut self, layout: Layout) -> Result<Option<Envelope>, FrameError> {
        loop {
            if !self.segment.is_empty() {
                return self.next_in_segment().map(Some);
            }
            let decoded = segment::decode(&mut self.input, layout);
            let Some(segment) = decoded.map_err(|error| self.error(error, 0, true))? else {
                return Ok(None);
            };
            if segment.self_contained {
                self.segment = segment.payload;
            } else if let Some(envelope) = self.continue_large(&segment.payload)? {
                return Ok(Some(envelope));
            }
        }
    }

    fn next_in_segment(&mut self) -> Result<Envelope, FrameError> {
        let remaining = self.segment.len();
        let Some(header) = RawHeader::read(&self.segment) else {
            let kind = FrameErrorKind::EnvelopeOverrun { needed: HEADER as u64, remaining };
            return Err(self.error(kind, 0, true));
        };
        self.judge_length(header)?;
        if header.total() > remaining as u64 {
            let kind = FrameErrorKind::EnvelopeOverrun { needed: header.total(), remaining };
            return Err(self.error(kind, 0, true));
        }
        let mut whole = self.segment.split_to(header.total() as usize);
        whole.advance(HEADER);
        self.judge_version(header.first, Some(header.flags))
            .map_err(|error| FrameError { stream: header.stream, ..error })?;
        self.judge_opcode(header)?;
        self.open(header, whole)
    }

    /// Adds one segment's payload to the message that spans several.
    fn continue_large(&mut self, payload: &[u8]) -> Result<Option<Envelope>, FrameError> {
        let mut collected = match self.large.take() {
            Some(Large::Skipping { left }) => {
                let left = left.saturating_sub(payload.len() as u64);
                self.large = (left > 0).then_some(Large::Skipping { left });
                return Ok(None);
            }
            Some(Large::Collecting(collected)) => collected,
            None => BytesMut::new(),
        };
        let starting = collected.len() < HEADER;
        collected.extend_from_slice(payload);
        let Some(header) = RawHeader::read(&collected) else {
            self.large = Some(Large::Collecting(collected));
            return Ok(None);
        };
        let total = header.total();
        if starting {
            self.judge_length(header)?;
            let judged = self
                .judge_version(header.first, Some(header.flags))
                .map_err(|error| FrameError { stream: header.stream, ..error })
                .and_then(|()| self.judge_opcode(header).map(drop))
                .and_then(|()| {
                    let (length, max) = (u64::from(header.body_length), self.message_bytes_max);
                    if length <= max as u64 {
                        return Ok(());
                    }
                    let kind = FrameErrorKind::MessageTooBig { length, max };
                    Err(self.error(kind, header.stream, false))
                });
            if let Err(error) = judged {
                let left = total.saturating_sub(collected.len() as u64);
                self.large = (left > 0).then_some(Large::Skipping { left });
                return Err(error);
            }
        }
        let total = total as usize;
        if collected.len() < total {
            reserve_towards(&mut collected, total);
            self.large = Some(Large::Collecting(collected));
            return Ok(None);
        }
        if collected.len() > total {
            let kind = FrameErrorKind::TrailingBytes { extra: collected.len() - total };
            return Err(self.error(kind, header.stream, true));
        }
        collected.advance(HEADER);
        self.open(header, collected.freeze()).map(Some)
    }

    fn judge_version(&self, first: u8, flag_bits: Option<u8>) -> Result<(), FrameError> {
        let number = first & !RESPONSE_BIT;
        if ProtocolVersion::from_number(number).is_some() {
            return Ok(());
        }
        if number == BETA_VERSION && flag_bits.is_none_or(|bits| bits & flags::USE_BETA == 0) {
            let error = self.error(FrameErrorKind::BetaVersion, 0, false);
            return Err(FrameError { version_number: number, ..error });
        }
        let error = self.error(FrameErrorKind::UnsupportedVersion { number }, 0, false);
        // The clients of v1 and v2 cannot read a header of nine bytes.
        let version_number = if matches!(number, 1 | 2) { number } else { error.version_number };
        Err(FrameError { version_number, ..error })
    }

    fn judge_opcode(&self, header: RawHeader) -> Result<Opcode, FrameError> {
        let code = header.opcode;
        if code == CREDENTIALS {
            return Err(self.error(FrameErrorKind::Credentials, header.stream, false));
        }
        let Some(opcode) = Opcode::from_code(code) else {
            return Err(self.error(FrameErrorKind::UnknownOpcode { code }, header.stream, false));
        };
        let word = |request| if request { "REQUEST" } else { "RESPONSE" };
        let is_request = header.first & RESPONSE_BIT == 0;
        let wanted = self.direction == Direction::Requests;
        if opcode.is_request() != is_request || is_request != wanted {
            let kind = FrameErrorKind::Direction {
                expected: word(opcode.is_request()),
                got: word(is_request),
                code,
                name: opcode.name(),
            };
            return Err(self.error(kind, header.stream, false));
        }
        Ok(opcode)
    }

    /// Inside segments a body length is signed, and a negative one leaves no way to go on.
    fn judge_length(&self, header: RawHeader) -> Result<(), FrameError> {
        let length = header.body_length as i32;
        if length < 0 {
            return Err(self.error(FrameErrorKind::NegativeLength { length }, header.stream, true));
        }
        Ok(())
    }

    /// Makes an envelope of a header and its body: the checks that need both.
    fn open(&self, header: RawHeader, body: Bytes) -> Result<Envelope, FrameError> {
        let opcode = self.judge_opcode(header)?;
        let got = ProtocolVersion::from_number(header.version_number());
        let Some(version) = got else {
            let kind = FrameErrorKind::UnsupportedVersion { number: header.version_number() };
            return Err(self.error(kind, header.stream, false));
        };
        if let Some(expected) = self.version.filter(|&expected| expected != version) {
            let kind = FrameErrorKind::VersionChanged { got: version, expected };
            return Err(self.error(kind, header.stream, false));
        }
        let mut flag_bits = header.flags;
        let mut body = body;
        if flag_bits & flags::COMPRESSED != 0 {
            flag_bits &= !flags::COMPRESSED;
            // Without a negotiated algorithm, and in segments, Cassandra does not look at the flag.
            if let Some(algorithm) = self.compression.filter(|_| version < ProtocolVersion::V5) {
                let max = self.envelope_bytes_max;
                body = decompress_body(algorithm, &body, max).map_err(|error| {
                    let reason = error.to_string();
                    self.error(FrameErrorKind::Decompression { algorithm, reason }, header.stream, false)
                })?;
            }
        }
        Ok(Envelope { version, flags: flag_bits, stream: header.stream, opcode, body })
    }
}

/// Feeds arbitrary bytes to a decoder of requests and decodes every request found: an entry point for
/// fuzzing. `settings` picks version, compression and the size of the pieces the bytes arrive in.
pub fn fuzz_decoder(settings: u8, bytes: &[u8]) {
    let mut decoder = Decoder::new(1 << 20);
    let compression = match settings >> 2 & 3 {
        1 => Some(Compression::Lz4),
        2 => Some(Compression::Snappy),
        _ => None,
    };
    match settings & 3 {
        1 => decoder.negotiate(ProtocolVersion::V3, compression),
        2 => decoder.negotiate(ProtocolVersion::V4, compression),
        3 => decoder.negotiate(ProtocolVersion::V5, compression),
        _ => {}
    }
    for piece in bytes.chunks(1 + usize::from(settings >> 4) * 7) {
        decoder.feed(piece);
        decode_all(&mut decoder);
    }
}

fn decode_all(decoder: &mut Decoder) {
    loop {
        match decoder.next_envelope() {
            Ok(Some(envelope)) => drop(crate::request::Message::decode(envelope)),
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
