//! Entry points for fuzzing.

use super::format::{self, FileId, VERSION_40, VERSION_50};
use super::reader::{HintsReader, Next};
use bytes::Bytes;
use env::Env;
use model::{CqlType, TableSchema};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// A file of hints, as it is found: every page of it.
pub fn fuzz_hints_file(bytes: &[u8]) {
    read(bytes);
}

/// What stands behind a header whose checksums hold, which no mutation would find by itself. The first byte:
/// bit 0 for compressed blocks.
pub fn fuzz_hints_body(bytes: &[u8]) {
    let Some((settings, body)) = bytes.split_first() else { return };
    let json = match settings & 1 {
        0 => "{}",
        _ => "{\"compression\":{\"class_name\":\"LZ4Compressor\",\"parameters\":{}}}",
    };
    let id = FileId { host_id: Uuid::nil(), created_millis: 1, version: VERSION_40 };
    read(&[format::encode_header_with(&id, json).as_slice(), body].concat());
}

/// A hint. The first byte: bit 0 for its version. What decodes is encoded to a hint that decodes and is
/// encoded to the same.
pub fn fuzz_hint(bytes: &[u8]) {
    let Some((settings, bytes)) = bytes.split_first() else { return };
    let version = if settings & 1 == 0 { VERSION_40 } else { VERSION_50 };
    let version = FileId { host_id: Uuid::nil(), created_millis: 1, version }.messaging_version();
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .regular("v", CqlType::Int)
        .build();
    let table = Arc::new(table);
    let lookup = |id: Uuid| (id == table.id).then(|| Arc::clone(&table));
    let Ok(hint) = format::decode_hint(Bytes::copy_from_slice(bytes), version, &lookup) else { return };
    let mut encoded = Vec::new();
    if format::encode_hint(&hint, version, &mut encoded).is_ok() {
        let decoded = format::decode_hint(Bytes::copy_from_slice(&encoded), version, &lookup);
        let mut again = Vec::new();
        let is_same = decoded.is_ok_and(|hint| format::encode_hint(&hint, version, &mut again).is_ok());
        assert!(is_same && again == encoded, "a hint changed");
    }
}

fn read(bytes: &[u8]) {
    let env = Env::for_test(1);
    let path = Path::new("/hints");
    if env.fs.write(path, bytes).is_err() {
        return;
    }
    let Ok(reader) = HintsReader::open(env.fs.as_ref(), path, bytes.len() as u64) else { return };
    let mut position = reader.start();
    while let Ok(page) = reader.page(position) {
        for hint in page.hints {
            assert!(hint.next > position, "a hint without bytes");
            position = hint.next;
        }
        let Next::Page(next) = page.next else { return };
        assert!(next >= position, "a page begins before the end of another");
        position = next;
    }
}
