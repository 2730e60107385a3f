//! The entry points of every decoder of untrusted bytes, each a function from bytes to nothing: it must
//! return, soon, without a panic and without taking memory out of proportion.
//!
//! One list, [`TARGETS`], serves both uses: `fuzz_targets/decoders.rs` hands an entry point to libFuzzer, and
//! `tests/corpus.rs` replays `corpus/<name>` on the stable compiler. A new decoder adds its function, its
//! line in the list and a seed in `corpus`; `cargo xtask tidy` names what was forgotten.

use bytes::{Bytes, BytesMut};
use model::CqlType;
use model::byte_comparable::{encode_value, is_exact};
use model::types::normal::normalize;
use protocol::segment;

/// A decoder under its name.
pub struct Target {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// Feeds it.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "cluster_hint", run: cluster::hints::fuzz::fuzz_hint },
    Target { name: "cluster_hints_body", run: cluster::hints::fuzz::fuzz_hints_body },
    Target { name: "cluster_hints_file", run: cluster::hints::fuzz::fuzz_hints_file },
    Target { name: "commit_log_mutation", run: sstable::fuzz::fuzz_mutation },
    Target { name: "commit_log_segment", run: engine::fuzz_commit_log },
    Target { name: "cql_parse", run: cql_parse },
    Target { name: "flight_handle", run: bulk::fuzz::fuzz_handle },
    Target { name: "flight_scan_command", run: bulk::fuzz::fuzz_scan_command },
    Target { name: "flight_ticket", run: bulk::fuzz::fuzz_ticket },
    Target { name: "gossip", run: cluster::gossip::fuzz::fuzz_gossip },
    Target { name: "internode_framed", run: cluster::messaging::fuzz::fuzz_framed },
    Target { name: "internode_frames", run: cluster::messaging::fuzz::fuzz_frames },
    Target { name: "internode_handshake", run: cluster::messaging::fuzz::fuzz_handshake },
    Target { name: "internode_message", run: cluster::messaging::fuzz::fuzz_message },
    Target { name: "keystore_certificate", run: keystore_certificate },
    Target { name: "keystore_store", run: keystore_store },
    Target { name: "protocol_frames", run: protocol_frames },
    Target { name: "protocol_query_log", run: protocol::query_log::fuzz_query_log },
    Target { name: "protocol_requests", run: protocol_requests },
    Target { name: "protocol_responses", run: protocol_responses },
    Target { name: "protocol_sasl", run: protocol::sasl::fuzz_plain },
    Target { name: "protocol_segments", run: protocol_segments },
    Target { name: "sstable_blocks", run: sstable::fuzz::fuzz_blocks },
    Target { name: "sstable_compressed_chunk", run: sstable::fuzz::fuzz_compressed_chunk },
    Target { name: "sstable_compression_info", run: sstable::fuzz::fuzz_compression_info },
    Target { name: "sstable_crc", run: sstable::fuzz::fuzz_crc },
    Target { name: "sstable_data", run: sstable::fuzz::fuzz_data_partition },
    Target { name: "sstable_digest", run: sstable::fuzz::fuzz_digest },
    Target { name: "sstable_filter", run: sstable::fuzz::fuzz_filter },
    Target { name: "sstable_index", run: sstable::fuzz::fuzz_index_entry },
    Target { name: "sstable_outline", run: sstable::fuzz::fuzz_outline },
    Target { name: "sstable_partitions", run: sstable::fuzz::fuzz_partitions },
    Target { name: "sstable_proof", run: sstable::fuzz::fuzz_proof },
    Target { name: "sstable_rows", run: sstable::fuzz::fuzz_rows },
    Target { name: "sstable_statistics", run: sstable::fuzz::fuzz_statistics },
    Target { name: "sstable_summary", run: sstable::fuzz::fuzz_summary },
    Target { name: "sstable_toc", run: sstable::fuzz::fuzz_toc },
    Target { name: "sstable_txn_log", run: sstable::fuzz::fuzz_txn_log },
    Target { name: "type_class", run: type_class },
    Target { name: "type_value", run: type_value },
];

/// The text of a statement.
pub fn cql_parse(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        drop(cql::parser::parse_statement(text));
    }
}

/// A certificate.
pub fn keystore_certificate(data: &[u8]) {
    drop(keystore::Certificate::parse(data));
}

/// A key store of any kind. Without a password no digest ends it early, and nothing is derived many times.
pub fn keystore_store(data: &[u8]) {
    drop(keystore::read(data, None));
}

/// What a connection sends, in pieces. The first byte is the settings of
/// [`protocol::decoder::fuzz_decoder`].
pub fn protocol_frames(data: &[u8]) {
    if let Some((settings, bytes)) = data.split_first() {
        protocol::decoder::fuzz_decoder(*settings, bytes);
    }
}

/// The body of a request. The first byte is the settings of [`protocol::request::fuzz_request`].
pub fn protocol_requests(data: &[u8]) {
    if let Some((settings, bytes)) = data.split_first() {
        protocol::request::fuzz_request(*settings, bytes);
    }
}

/// The body of a response. The first two bytes are the settings of [`protocol::response::fuzz_response`].
pub fn protocol_responses(data: &[u8]) {
    if let [settings, bits, bytes @ ..] = data {
        protocol::response::fuzz_response(*settings, *bits, bytes);
    }
}

/// What a v5 connection sends inside segments whose checksums hold, which no mutation would find by itself.
/// The first byte: bit 0 for LZ4, bit 1 for self-contained segments, the rest for their length.
pub fn protocol_segments(data: &[u8]) {
    const V5: u8 = 3;
    const LZ4: u8 = 1 << 2;
    let Some((settings, bytes)) = data.split_first() else { return };
    let (lz4, self_contained) = (settings & 1 != 0, settings & 2 != 0);
    let mut framed = BytesMut::new();
    for payload in bytes.chunks(9 + usize::from(settings >> 2) * 16) {
        match lz4 {
            true => segment::encode_lz4(payload, self_contained, &mut framed),
            false => segment::encode_plain(payload, self_contained, &mut framed),
        }
    }
    let pieces_of_a_hundred = 0xF0;
    protocol::decoder::fuzz_decoder(V5 | if lz4 { LZ4 } else { 0 } | pieces_of_a_hundred, &framed);
}

/// The class name of a type, as statistics files and schema tables hold it.
pub fn type_class(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        drop(CqlType::parse_class(text));
        drop(CqlType::parse_key_class(text));
    }
}

/// Two values of a type, sound or not: the type's class name, a line end, the first value's length in a byte,
/// and the values. Each can be checked, shown and ordered, and the orders of two sound values agree.
pub fn type_value(data: &[u8]) {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (name, rest) = data.split_at(end);
    let Ok(Ok(parsed)) = std::str::from_utf8(name).map(CqlType::parse_class) else { return };
    let ty = parsed.ty;
    let [_, a_len, values @ ..] = rest else { return };
    let (a, b) = values.split_at(usize::from(*a_len).min(values.len()));
    for value in [a, b] {
        drop((ty.to_text(value), ty.to_literal(Some(value)), ty.to_json(Some(value))));
        let normal = normalize(&ty, &Bytes::copy_from_slice(value));
        if ty.validate(value).is_ok() {
            assert!(ty.validate(&normal).is_ok(), "{name:?}: the normal form of {value:02x?} is not sound");
        }
    }
    let order = ty.compare(a, b);
    let (mut a_key, mut b_key) = (Vec::new(), Vec::new());
    let comparable = encode_value(&ty, a, &mut a_key) && encode_value(&ty, b, &mut b_key);
    if ty.validate(a).is_ok() && ty.validate(b).is_ok() {
        assert_eq!(ty.compare(b, a), order.reverse(), "{name:?}: {a:02x?} and {b:02x?}");
        let same_order = !comparable || !is_exact(&ty) || a_key.cmp(&b_key) == order;
        assert!(same_order, "{name:?}: {a:02x?} and {b:02x?} as bytes");
    }
}
