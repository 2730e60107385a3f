//! The bytes of files, and which files there are.

use super::*;
use crate::hints::format::{
    Encoding, HintsError, VERSION_50, encode_header, encode_header_with, read_header,
};

const ID: FileId = FileId {
    host_id: Uuid::from_u128(0x1122_3344_5566_4778_899a_abbc_cdde_eff0),
    created_millis: 1_700_000_000_000,
    version: VERSION_40,
};
const HEADER: &str = "000000020000018bcfe568001122334455664778899aabbccddeeff00000000214bd369c7b7db1e8fb71";
const ENTRY: &str = "00000006c8277a29612068696e7497b172f8";
const CRC: &str = "3d8c40d3";
const LZ4: &str =
    "{\"compression\":{\"class_name\":\"org.apache.cassandra.io.compress.LZ4Compressor\",\"parameters\":{}}}";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_are_those_of_cassandra() {
    // As the rules of FORMATS make them, which were tried on files of Cassandra 5.0.5.
    assert_eq!(hex(&encode_header(&ID)), HEADER);
    let mut entry = Vec::new();
    append_entry(&mut entry, |out| {
        out.extend_from_slice(b"a hint");
        Ok(())
    })
    .unwrap();
    assert_eq!(hex(&entry), ENTRY);
    let world = World::new();
    world.env.fs.create_dir_all(Path::new(DIR)).unwrap();
    let mut writer = HintsWriter::create(world.env.fs.as_ref(), Path::new(DIR), ID).unwrap();
    writer.append(&entry).unwrap();
    writer.close(world.env.fs.as_ref(), Path::new(DIR)).unwrap();
    let name = "11223344-5566-4778-899a-abbccddeeff0-1700000000000-2";
    assert_eq!(world.names(), [format!("{name}.crc32"), format!("{name}.hints")]);
    let crc = world.env.fs.read_to_string(&Path::new(DIR).join(format!("{name}.crc32"))).unwrap();
    assert_eq!(crc, CRC);
}

#[test]
fn names_of_files_come_back_and_others_are_none() {
    assert_eq!(FileId::of_name(&ID.to_string()), Some(ID));
    for name in [
        ID.checksum_name(),
        ID.damaged_name(),
        "x.hints".into(),
        ID.to_string().to_uppercase(),
        ID.to_string().replace("-2.", "-+2."),
        "11223344-5566-4778-899a-abbccddeeff0-1.hints".into(),
    ] {
        assert_eq!(FileId::of_name(&name), None, "{name}");
    }
}

#[test]
fn a_header_says_what_is_not_read_here() {
    let read = |id: &FileId, json: &str| read_header(&encode_header_with(id, json), Path::new("/f"));
    assert_eq!(read(&ID, "{}").unwrap().encoding, Encoding::Plain);
    assert_eq!(read(&ID, LZ4).unwrap().encoding, Encoding::Lz4);
    assert_eq!(read(&FileId { version: VERSION_50, ..ID }, "{}").unwrap().id.messaging_version(), 13);
    for (version, json, why) in [
        (1, "{}", "3.x"),
        (4, "{}", "newer"),
        (2, "[", "no JSON object"),
        (2, "{\"encryption\":{}}", "encrypted"),
        (2, "{\"compression\":{\"class_name\":\"SnappyCompressor\"}}", "SnappyCompressor"),
    ] {
        match read(&FileId { version, ..ID }, json) {
            Err(error @ HintsError::Unsupported { .. }) => {
                assert!(error.to_string().contains(why), "{error}")
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn hints_come_back_in_both_versions() {
    for version in [VERSION_40, VERSION_50] {
        let id = FileId { version, ..ID };
        let entries = (0..10).flat_map(|v| entry_of(v, version));
        let bytes: Vec<u8> = encode_header(&id).into_iter().chain(entries).collect();
        assert_eq!(read_all(&bytes), Some(((0..10).collect(), true)));
    }
}

#[test]
fn compressed_blocks_are_read_and_positions_lie_inside_them() {
    let mut bytes = encode_header_with(&ID, LZ4);
    for block in [0..3, 3..7] {
        let plain: Vec<u8> = block.flat_map(|v| entry_of(v, VERSION_40)).collect();
        let mut packed = (plain.len() as u32).to_le_bytes().to_vec();
        packed.extend(lz4_flex::block::compress(&plain));
        bytes.extend((plain.len() as u32).to_be_bytes());
        bytes.extend((packed.len() as u32).to_be_bytes());
        bytes.extend(packed);
    }
    assert_eq!(read_all(&bytes), Some(((0..7).collect(), true)));
    let fs = MemoryFileSystem::new();
    fs.write(Path::new("/f"), &bytes).unwrap();
    let reader = HintsReader::open(&fs, Path::new("/f"), bytes.len() as u64).unwrap();
    let first = reader.page(reader.start()).unwrap();
    let from = first.hints[1].next;
    assert_eq!(reader.page(from).unwrap().hints.len(), 1, "one is left of the block");
    assert!(matches!(first.next, Next::Page(next) if next == first.hints[2].next));
    for len in 0..bytes.len() {
        let read = read_all(&bytes[..len]).map(|(hints, _)| hints).unwrap_or_default();
        assert!(read.iter().copied().eq(0..read.len() as i32), "{read:?}");
    }
    bytes.extend([0x7f; 16]);
    assert_eq!(read_all(&bytes), Some(((0..7).collect(), false)), "a block that claims too much");
}

#[test]
fn a_hint_that_is_longer_than_a_page_is_read() {
    let mut bytes = encode_header(&ID);
    let long = vec![7u8; super::super::reader::PAGE_BYTES * 2];
    for hint in [&b"short"[..], &long, b"short"] {
        append_entry(&mut bytes, |out| {
            out.extend_from_slice(hint);
            Ok(())
        })
        .unwrap();
    }
    let fs = MemoryFileSystem::new();
    fs.write(Path::new("/f"), &bytes).unwrap();
    let reader = HintsReader::open(&fs, Path::new("/f"), bytes.len() as u64).unwrap();
    let (mut lens, mut position) = (Vec::new(), reader.start());
    loop {
        let page = reader.page(position).unwrap();
        lens.extend(page.hints.iter().map(|read| read.hint.as_ref().unwrap().len()));
        match page.next {
            Next::Page(next) => position = next,
            Next::End => break,
            Next::Lost(error) => panic!("{error}"),
        }
    }
    assert_eq!(lens, [5, long.len(), 5]);
}

#[test]
fn damaged_empty_and_strange_files_are_put_out_of_the_way_at_a_start() {
    let world = World::new();
    let fs = world.env.fs.as_ref();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let put = |id: &FileId, bytes: &[u8]| fs.write(&Path::new(DIR).join(id.to_string()), bytes).unwrap();
    let of = |host_id, version| FileId { host_id, version, ..ID };
    let (damaged, empty, old, other, good) =
        (of(host(1), 2), of(host(2), 2), of(host(3), 1), of(host(4), 2), of(host(5), 2));
    let mut bytes = encode_header(&damaged);
    bytes[5] ^= 1;
    put(&damaged, &bytes);
    put(&empty, b"");
    put(&old, &encode_header(&old));
    put(&other, &encode_header(&good));
    put(&good, &[encode_header(&good), entry_of(1, VERSION_40)].concat());
    let store = world.store();
    assert_eq!(store.waiting(), [good.host_id]);
    let expected = [damaged.damaged_name(), old.to_string(), other.damaged_name(), good.to_string()];
    let mut names = world.names();
    names.sort();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(names, expected);
    let left_alone = store.pending().into_iter().find(|(id, ..)| *id == old.host_id).unwrap();
    assert_eq!((left_alone.1.left_alone, left_alone.1.files), (1, 0));
}
