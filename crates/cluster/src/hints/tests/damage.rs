//! Bytes that were changed or lost.

use super::*;
use crate::hints::format::encode_header;
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

const COUNT: i32 = 12;

/// A file of hints, and where each of them ends.
fn file() -> (Vec<u8>, Vec<usize>) {
    let mut bytes = encode_header(&FileId { host_id: host(1), created_millis: 1, version: VERSION_40 });
    let mut ends = Vec::new();
    for v in 0..COUNT {
        bytes.extend(entry_of(v, VERSION_40));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_torn_file_has_the_hints_before_its_end(len in 0usize..2000) {
        let (bytes, ends) = file();
        let len = len % (bytes.len() + 1);
        match read_all(&bytes[..len]) {
            Some((hints, is_end)) => {
                prop_assert!(is_end, "a torn end is an end");
                let whole = ends.iter().filter(|end| **end <= len).count();
                prop_assert_eq!(hints, (0..whole as i32).collect::<Vec<_>>());
            }
            None => prop_assert!(len < ends[0]),
        }
    }

    #[test]
    fn a_flipped_bit_costs_its_hint_and_makes_no_wrong_one(bit in 0usize..100_000) {
        let (mut bytes, ends) = file();
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let hit = ends.iter().filter(|end| **end <= bit / 8).count() as i32;
        match read_all(&bytes) {
            // A changed size hides what follows; a changed hint is passed over.
            Some((hints, false)) => prop_assert_eq!(hints, (0..hit).collect::<Vec<_>>()),
            Some((hints, true)) => {
                prop_assert_eq!(hints, (0..COUNT).filter(|v| *v != hit).collect::<Vec<_>>());
            }
            None => prop_assert_eq!(hit, 0),
        }
    }

    #[test]
    fn bytes_that_were_written_over_make_no_wrong_hint(
        at in 0usize..2000,
        junk in proptest::collection::vec(0u8.., 1..40),
    ) {
        let (mut bytes, _) = file();
        let at = at % bytes.len();
        let len = junk.len().min(bytes.len() - at);
        bytes[at..at + len].copy_from_slice(&junk[..len]);
        if let Some((hints, _)) = read_all(&bytes) {
            prop_assert!(hints.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", hints);
        }
    }
}

#[test]
fn a_file_that_ends_in_zeroes_ends_there() {
    let (mut bytes, ends) = file();
    bytes.resize(bytes.len() + 5000, 0);
    assert_eq!(read_all(&bytes), Some(((0..COUNT).collect(), true)));
    let middle = ends[3]..ends[5];
    bytes[middle].fill(0);
    assert_eq!(read_all(&bytes), Some(((0..4).collect(), false)), "others follow");
}

#[test]
fn after_a_crash_what_was_flushed_is_there() {
    for seed in 0..60 {
        let crash = match seed % 3 {
            0 => Crash::LoseUnsynced,
            1 => Crash::TornPrefix(seed),
            _ => Crash::ScatteredPages(seed),
        };
        let world = World::new();
        let store = world.store();
        store.change(|settings| settings.file_bytes_max = 400);
        let (node, _) = dead_node(1, &world.env);
        let flushed = (0..3i32).map(|round| {
            (round * 4..round * 4 + 4).for_each(|v| _ = store.missed(&node, &write(v)));
            store.flush().unwrap();
        });
        flushed.for_each(drop);
        // Not flushed: the disk refuses it in the middle, as when the power fails.
        store.missed(&node, &write(99));
        world.faulty.add(Fault::on(Op::Sync).path("hints"));
        assert!(store.flush().is_err());
        let after = World::over(world.memory.crash(crash), Arc::clone(&world.clock));
        let store = after.store();
        assert_eq!(store.waiting(), [node.id]);
        let mut hints: Vec<i32> = after
            .contents()
            .iter()
            .filter_map(|bytes| read_all(bytes))
            .flat_map(|(hints, _)| hints)
            .collect();
        hints.retain(|v| *v != 99);
        assert_eq!(hints, (0..12).collect::<Vec<_>>(), "{crash:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_bytes_come_they_are_decoded_or_refused(
        mut bytes in proptest::collection::vec(0u8.., 0..200),
        flips in proptest::collection::vec((0usize..1000, 0u8..), 0..4),
    ) {
        fuzz::fuzz_hints_file(&bytes);
        fuzz::fuzz_hints_body(&bytes);
        fuzz::fuzz_hint(&bytes);
        bytes = [&[0][..], &entry_of(1, VERSION_40)].concat();
        for (at, byte) in flips {
            let at = at % bytes.len();
            bytes[at] ^= byte;
        }
        fuzz::fuzz_hint(&[&bytes[..1], &bytes[9..bytes.len() - 4]].concat());
        fuzz::fuzz_hints_body(&bytes);
    }
}
