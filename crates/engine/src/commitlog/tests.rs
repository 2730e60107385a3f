use super::format;
use super::replay::{ReplayReport, Segments};
use super::{CommitLog, CommitLogOptions, LogPosition};
use crate::error::{EngineError, WriteError};
use crate::options::{FailurePolicy, SyncMode};
use env::Env;
use env::clock::ManualClock;
use env::fs::memory::{Crash, MemoryFileSystem};
use sstable::compression::Compressor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use uuid::Uuid;

const DIR: &str = "/log";
const TABLE: Uuid = Uuid::from_u128(1);

fn env_on(fs: &MemoryFileSystem) -> Env {
    Env::for_test(1).with_fs(Arc::new(fs.clone()))
}

fn log_options(sync: SyncMode) -> CommitLogOptions {
    CommitLogOptions { dir: DIR.into(), sync, segment_bytes: 8192, policy: FailurePolicy::Ignore, version: 7 }
}

fn open(fs: &MemoryFileSystem, sync: SyncMode) -> Arc<CommitLog> {
    let env = env_on(fs);
    env.fs.create_dir_all_durable(DIR.as_ref()).unwrap();
    let log = Arc::new(CommitLog::new(env, log_options(sync), 0));
    log.start().unwrap();
    log
}

fn append(log: &CommitLog, payload: &str) -> (LogPosition, u64) {
    let mut section = format::section(|out| out.extend_from_slice(payload.as_bytes()));
    log.append(&mut section, [TABLE].into_iter()).unwrap()
}

/// Appends and waits for the device.
fn keep(log: &CommitLog, payload: &str) -> LogPosition {
    let (position, number) = append(log, payload);
    log.ticket(number).wait().unwrap();
    position
}

fn payload(n: usize) -> String {
    format!("payload {n:03} {}", "x".repeat(n % 50))
}

fn read(fs: &MemoryFileSystem, ignore: bool) -> (Vec<String>, Result<ReplayReport, EngineError>) {
    let env = env_on(fs);
    let mut out = Vec::new();
    let mut segments = Segments::list(&env, DIR.as_ref(), 1 << 20).unwrap();
    let report = segments.replay(ignore, |logged| {
        out.push(String::from_utf8_lossy(logged.mutation).into_owned());
        Ok(())
    });
    (out, report)
}

fn segment_paths(fs: &MemoryFileSystem) -> Vec<PathBuf> {
    let segments = Segments::list(&env_on(fs), DIR.as_ref(), 0).unwrap();
    segments.files().iter().map(|s| s.path.clone()).collect()
}

fn flip(fs: &MemoryFileSystem, path: &Path, offset: usize) {
    let env = env_on(fs);
    let mut bytes = env.fs.read(path).unwrap();
    bytes[offset] ^= 0x10;
    env.fs.write(path, &bytes).unwrap();
}

#[test]
fn what_was_appended_is_replayed_in_order_over_several_segments() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Batch);
    let expected: Vec<String> = (0..400).map(payload).collect();
    let mut last = LogPosition::NONE;
    for text in &expected {
        let position = append(&log, text).0;
        assert!(position > last);
        last = position;
    }
    assert!(log.position() >= last);
    // Nothing was synced or closed: the process died here.
    let (found, report) = read(&fs, false);
    assert_eq!(found, expected);
    assert_eq!(report.unwrap(), ReplayReport { mutations: 400, ..ReplayReport::default() });
    assert!(segment_paths(&fs).len() > 2);
    log.close();
}

#[test]
fn kept_appends_survive_every_kind_of_crash() {
    for seed in 0..30 {
        let fs = MemoryFileSystem::new();
        let log = open(&fs, SyncMode::Batch);
        let mut expected = Vec::new();
        for n in 0..150 {
            if (n + seed as usize).is_multiple_of(7) {
                keep(&log, &payload(n));
                expected = (0..=n).map(payload).collect();
            } else {
                append(&log, &payload(n));
            }
        }
        for crash in [Crash::LoseUnsynced, Crash::TornPrefix(seed), Crash::ScatteredPages(seed)] {
            let (found, report) = read(&fs.crash(crash), false);
            report.unwrap_or_else(|e| panic!("seed {seed}, {crash:?}: {e}"));
            assert!(found.len() >= expected.len(), "seed {seed}, {crash:?}");
            assert_eq!(found[..expected.len()], expected, "seed {seed}, {crash:?}");
        }
        log.close();
    }
}

#[test]
fn a_flipped_bit_in_what_was_synced_is_an_error_with_file_and_offset() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Batch);
    let mut ends = vec![format::HEADER_BYTES as u32];
    for n in 0..20 {
        ends.push(keep(&log, &payload(n)).offset);
    }
    log.close();
    let path = segment_paths(&fs)[0].clone();
    let last = *ends.last().unwrap() as usize;
    for offset in 0..last {
        let damaged = fs.crash(Crash::TornPrefix(u64::MAX));
        let whole = env_on(&fs).fs.read(&path).unwrap();
        env_on(&damaged).fs.write(&path, &whole).unwrap();
        flip(&damaged, &path, offset);
        let (found, report) = read(&damaged, false);
        match report {
            Err(EngineError::CommitLog { path: named, offset: at, .. }) => {
                assert_eq!(named, path);
                // A flipped end of a section shows where the section really ended.
                assert!(at.abs_diff(offset as u64) <= 128, "{at} for a flip at {offset}");
            }
            // A flipped marker of a fence damages nothing that is needed, but is reported all the same.
            other => panic!("flip at {offset}: {other:?}, {} found", found.len()),
        }
        let (found, report) = read(&damaged, true);
        assert!(report.unwrap().ignored > 0);
        assert!(offset < format::HEADER_BYTES || found.len() >= 19, "one entry is lost at most");
    }
}

#[test]
fn damage_in_an_older_segment_is_found_through_later_ones() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Batch);
    for n in 0..300 {
        append(&log, &payload(n));
    }
    keep(&log, "sync");
    keep(&log, "and again");
    log.close();
    let paths = segment_paths(&fs);
    flip(&fs, &paths[0], 4_000);
    assert!(matches!(read(&fs, false).1, Err(EngineError::CommitLog { .. })));
}

#[test]
fn a_segment_that_lost_its_header_is_an_error_unless_it_is_the_last() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Batch);
    let expected: Vec<String> = (0..400).map(payload).collect();
    expected.iter().for_each(|text| _ = keep(&log, text));
    log.close();
    let paths = segment_paths(&fs);
    let whole = env_on(&fs).fs.read(&paths[1]).unwrap();
    for left in [0, 20, format::HEADER_BYTES - 1] {
        env_on(&fs).fs.write(&paths[1], &whole[..left]).unwrap();
        let (_, refused) = read(&fs, false);
        let refused = refused.unwrap_err().to_string();
        let name = paths[1].file_name().unwrap().to_str().unwrap();
        assert!(refused.contains(name) && refused.contains("has no header"), "{refused}");
        let (read_anyway, report) = read(&fs, true);
        assert_eq!(report.unwrap().ignored, 1);
        assert!(read_anyway.len() < expected.len() && read_anyway.last() == expected.last());
    }
    env_on(&fs).fs.write(&paths[1], &whole).unwrap();
    assert_eq!(read(&fs, false).0, expected);

    // One that was being made when the machine stopped.
    let spare = paths.last().unwrap();
    for content in [&b""[..], &[0; 4096], &whole[..20]] {
        env_on(&fs).fs.write(spare, content).unwrap();
        let (replayed, report) = read(&fs, false);
        assert_eq!(report.unwrap().ignored, 0);
        assert!(expected.starts_with(&replayed) && replayed.len() > 300, "{}", replayed.len());
    }
}

#[test]
fn a_tail_that_was_never_synced_may_be_torn_anywhere() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Periodic { period_ms: 1_000_000 });
    let mut ends = Vec::new();
    for n in 0..20 {
        ends.push(append(&log, &payload(n)).0.offset as usize);
    }
    let path = segment_paths(&fs)[0].clone();
    let whole = env_on(&fs).fs.read(&path).unwrap();
    for cut in format::HEADER_BYTES..*ends.last().unwrap() {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        let copy = MemoryFileSystem::new();
        env_on(&copy).fs.create_dir_all(DIR.as_ref()).unwrap();
        env_on(&copy).fs.write(&path, &torn).unwrap();
        let (found, report) = read(&copy, false);
        report.unwrap();
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert!(found.len() == complete || found.len() == complete + 1, "cut at {cut}");
        assert!(found.iter().enumerate().all(|(n, text)| *text == payload(n)));
    }
    log.close();
}

#[test]
fn periodic_writers_do_not_wait_and_batch_writers_share_syncs() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Periodic { period_ms: 1_000_000 });
    let (_, number) = append(&log, &payload(1));
    assert!(matches!(log.ticket(number).poll(), Some(Ok(()))));
    log.close();

    let log = open(&MemoryFileSystem::new(), SyncMode::Batch);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (log, sender) = (&log, sender.clone());
            scope.spawn(move || {
                for n in 0..50 {
                    let (_, number) = append(log, &payload(thread * 50 + n));
                    let sender = sender.clone();
                    log.ticket(number).on_synced(Box::new(move |fate| sender.send(fate).unwrap()));
                }
            });
        }
    });
    let fates: Vec<_> = (0..200).map(|_| receiver.recv().unwrap()).collect();
    assert!(fates.iter().all(Result::is_ok));
    assert!(log.stats().syncs <= 200);
    log.close();
}

#[test]
fn a_periodic_writer_has_an_overdue_sync_made_at_once() {
    let clock = Arc::new(ManualClock::default());
    let random = Arc::new(env::random::Random::from_seed(1));
    let env = Env::new(clock.clone(), random, Arc::new(MemoryFileSystem::new()));
    env.fs.create_dir_all_durable(DIR.as_ref()).unwrap();
    // No tick comes while the test runs.
    let log = Arc::new(CommitLog::new(env, log_options(SyncMode::Periodic { period_ms: 1_000_000 }), 0));
    log.start().unwrap();
    append(&log, &payload(1));
    // The first segment has the log look once.
    while !log.has_spare() {
        env::tasks::yield_now();
    }
    // The process stood still, or the device did.
    clock.advance(Duration::from_secs(2_000));
    let (_, number) = append(&log, &payload(2));
    let (sender, receiver) = mpsc::channel();
    log.ticket(number).on_synced(Box::new(move |fate| sender.send(fate).unwrap()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it waits for the next period").unwrap();
    let (_, number) = append(&log, &payload(3));
    assert!(matches!(log.ticket(number).poll(), Some(Ok(()))));
    log.close();
}

#[test]
fn a_group_window_settles_its_writers() {
    let log = open(&MemoryFileSystem::new(), SyncMode::Group { window_ms: 1 });
    keep(&log, "one");
    keep(&log, "two");
    assert!(log.stats().syncs >= 2);
    log.close();
}

#[test]
fn segments_go_when_their_tables_are_flushed() {
    let fs = MemoryFileSystem::new();
    let log = open(&fs, SyncMode::Batch);
    let mut middle = LogPosition::NONE;
    for n in 0..600 {
        let position = append(&log, &payload(n)).0;
        if n == 300 {
            middle = position;
        }
    }
    let before = log.stats().segments;
    log.discard(TABLE, middle);
    let after = log.stats().segments;
    assert!(after < before && after > 1, "{before} {after}");
    let (found, _) = read(&fs, false);
    assert!(found.contains(&payload(301)) && !found.contains(&payload(0)));
    log.discard_table(TABLE);
    assert_eq!(log.stats().segments, 1);
    log.close();
}

#[test]
fn a_failed_write_leaves_nothing_that_replay_could_stumble_over() {
    use env::fs::faulty::{Fault, FaultyFileSystem, Op};
    for short in [0, 3, 8, 15, 40] {
        let fs = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let env = Env::for_test(1).with_fs(Arc::new(faulty.clone()));
        env.fs.create_dir_all_durable(DIR.as_ref()).unwrap();
        let log = Arc::new(CommitLog::new(env, log_options(SyncMode::Batch), 0));
        log.start().unwrap();
        keep(&log, &payload(0));
        // Made in the background, it would meet the fault.
        crate::tests::wait_until(|| log.has_spare());
        // Twice: the write, and the first attempt to wipe what it left.
        faulty.add(Fault::on(Op::Write).path("CommitLog-").short_write(short).times(2));
        for _ in 0..2 {
            let mut section = format::section(|out| out.extend_from_slice(payload(40).as_bytes()));
            let failed = log.append(&mut section, [TABLE].into_iter());
            assert!(matches!(failed, Err(WriteError::CommitLog(_))));
        }
        keep(&log, &payload(1));
        keep(&log, &payload(2));
        log.close();
        let (found, report) = read(&fs.crash(Crash::LoseUnsynced), false);
        assert_eq!(found, [payload(0), payload(1), payload(2)], "short write of {short}");
        assert_eq!(report.unwrap().torn, 0);
    }
}

/// What Cassandra would have written: sections of several entries each, then entries without a section, in a
/// file of zeroes.
struct Foreign {
    bytes: Vec<u8>,
    id: i64,
    compressor: Option<Compressor>,
}

#[test]
fn a_full_disk_is_not_asked_for_a_spare_segment_at_every_sync() {
    use env::fs::faulty::{Fault, FaultyFileSystem, Op};
    let faulty = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let clock = Arc::new(env::clock::ManualClock::default());
    let random = Arc::new(env::random::Random::from_seed(1));
    let env = Env::new(Arc::clone(&clock) as _, random, Arc::new(faulty.clone()));
    env.fs.create_dir_all_durable(DIR.as_ref()).unwrap();
    let log = Arc::new(CommitLog::new(env, log_options(SyncMode::Batch), 0));
    // The first segment is the writer's own.
    let fault = faulty.add(Fault::on(Op::Create).after(1).no_space());
    log.start().unwrap();
    for n in 0..20 {
        keep(&log, &payload(n));
    }
    assert_eq!(faulty.struck(fault), 1);
    clock.advance(std::time::Duration::from_millis(1_100));
    for n in 20..40 {
        keep(&log, &payload(n));
    }
    assert_eq!(faulty.struck(fault), 2);
    log.close();
}

fn entry(payload: &str) -> Vec<u8> {
    format::section(|out| out.extend_from_slice(payload.as_bytes()))[format::MARKER_BYTES..].to_vec()
}

impl Foreign {
    fn new(id: i64, compressor: Option<Compressor>) -> Foreign {
        let json = match compressor {
            None => "{}".to_owned(),
            Some(c) => format!("{{\"compressionClass\":\"{}\",\"compressionParameters\":{{}}}}", c.class()),
        };
        Foreign { bytes: format::header_with(7, id, &json), id, compressor }
    }

    /// Where the section starts.
    fn section(&mut self, entries: &[String]) -> usize {
        let at = self.bytes.len();
        let plain: Vec<u8> = entries.iter().flat_map(|e| entry(e)).collect();
        let content = match self.compressor {
            None => plain,
            Some(compressor) => {
                let mut packed = Vec::new();
                compressor.compress(&plain, &mut packed).unwrap();
                [&(plain.len() as u32).to_be_bytes()[..], &packed].concat()
            }
        };
        let end = at + format::MARKER_BYTES + content.len();
        self.bytes.extend_from_slice(&format::marker(self.id, at as u32, end as u32));
        self.bytes.extend_from_slice(&content);
        at
    }

    fn unmarked(&mut self, entries: &[String]) {
        self.bytes.extend_from_slice(&[0; format::MARKER_BYTES]);
        entries.iter().for_each(|e| self.bytes.extend(entry(e)));
    }

    fn write_to(&self, fs: &MemoryFileSystem, zeroes: usize) {
        let env = env_on(fs);
        env.fs.create_dir_all(DIR.as_ref()).unwrap();
        let bytes = [&self.bytes[..], &vec![0; zeroes]].concat();
        env.fs.write(&Path::new(DIR).join(format::file_name(7, self.id)), &bytes).unwrap();
    }
}

fn payloads(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(payload).collect()
}

#[test]
fn a_segment_of_cassandra_is_read_to_the_last_entry_that_was_acknowledged() {
    let all =
        [Compressor::Lz4, Compressor::Snappy, Compressor::Deflate, Compressor::Zstd { level: 3 }].map(Some);
    for compressor in all.into_iter().chain([None]) {
        let fs = MemoryFileSystem::new();
        let mut segment = Foreign::new(1, compressor);
        segment.section(&payloads(0..20));
        segment.section(&payloads(20..25));
        let mut count = 25;
        if compressor.is_none() {
            segment.unmarked(&payloads(25..28));
            // One that was not finished before the next was.
            let mut half = entry(&payload(28));
            half[20..].fill(0);
            segment.bytes.extend(half);
            segment.bytes.extend(entry(&payload(28)));
            count = 29;
        }
        segment.write_to(&fs, if compressor.is_none() { 5_000 } else { 0 });
        let (found, report) = read(&fs, false);
        assert_eq!(found, payloads(0..count), "{compressor:?}");
        let report = report.unwrap();
        assert_eq!(report.torn, u64::from(compressor.is_none()));
        assert_eq!(report.unmarked, if compressor.is_none() { 4 } else { 0 });
    }
}

#[test]
fn positions_in_a_compressed_segment_count_what_was_compressed() {
    let fs = MemoryFileSystem::new();
    let mut segment = Foreign::new(1, Some(Compressor::Zstd { level: 3 }));
    let header = segment.bytes.len();
    segment.section(&payloads(0..2));
    segment.section(&payloads(2..3));
    segment.write_to(&fs, 0);
    let mut positions = Vec::new();
    let mut segments = Segments::list(&env_on(&fs), DIR.as_ref(), 0).unwrap();
    let report = segments.replay(false, |logged| {
        positions.push(logged.position.offset as usize);
        Ok(())
    });
    assert_eq!(report.unwrap().mutations, 3);
    let sizes: Vec<usize> = payloads(0..3).iter().map(|p| entry(p).len()).collect();
    let first = header + 8 + sizes[0];
    assert_eq!(positions, [first, first + sizes[1], first + sizes[1] + 8 + sizes[2]]);
}

#[test]
fn what_a_compressed_section_claims_is_checked_before_memory_is_taken_for_it() {
    // A payload of 64 KiB cannot become as much, whatever it is; a segment is not as long as that.
    for (compressor, claims) in [
        (Compressor::Lz4, 256 << 16),
        (Compressor::Snappy, 23 << 16),
        (Compressor::Deflate, 1033 << 16),
        (Compressor::Zstd { level: 3 }, (256 << 20) + 1),
        (Compressor::Zstd { level: 3 }, i32::MAX as u32),
    ] {
        let mut segment = Foreign::new(1, Some(compressor));
        segment.section(&payloads(0..2));
        let at = segment.bytes.len();
        let end = at + format::MARKER_BYTES + 4 + (1 << 16);
        segment.bytes.extend_from_slice(&format::marker(1, at as u32, end as u32));
        segment.bytes.extend_from_slice(&claims.to_be_bytes());
        segment.bytes.extend_from_slice(&vec![0x55; 1 << 16]);
        let fs = MemoryFileSystem::new();
        segment.write_to(&fs, 0);
        let (found, report) = read(&fs, false);
        assert_eq!(found, payloads(0..2));
        match report {
            Err(EngineError::CommitLog { path, offset, detail }) => {
                assert!(path.ends_with(format::file_name(7, 1)));
                assert_eq!(offset, (at + format::MARKER_BYTES) as u64);
                assert_eq!(detail, format!("a section of 65540 bytes claims to hold {claims}"));
            }
            other => panic!("{compressor:?}: {other:?}"),
        }
    }
}

#[test]
fn a_flipped_bit_in_a_segment_of_cassandra_is_an_error_and_lost_sectors_at_its_end_are_not() {
    for compressor in [None, Some(Compressor::Lz4)] {
        let mut segment = Foreign::new(1, compressor);
        segment.section(&payloads(0..60));
        let last = segment.section(&payloads(60..140));
        for offset in 0..segment.bytes.len() {
            let fs = MemoryFileSystem::new();
            let mut damaged = Foreign { bytes: segment.bytes.clone(), ..segment };
            damaged.bytes[offset] ^= 0x10;
            damaged.write_to(&fs, 0);
            let (found, report) = read(&fs, false);
            match report {
                Err(EngineError::CommitLog { .. }) => assert!(read(&fs, true).1.unwrap().ignored > 0),
                // The last section ends where the file does, whatever its marker says, and compressed bytes
                // may differ and mean the same.
                Ok(_) => assert!(found == payloads(0..140), "flip at {offset}"),
                other => panic!("flip at {offset}: {other:?}, {} found", found.len()),
            }
        }
        // Power was lost before some sectors of the last section reached the device.
        let sector = (last / 512 + 1) * 512;
        let mut torn = Foreign { bytes: segment.bytes.clone(), ..segment };
        torn.bytes[sector..sector + 512].fill(0);
        let fs = MemoryFileSystem::new();
        torn.write_to(&fs, 0);
        let (found, report) = read(&fs, false);
        assert_eq!(report.unwrap().torn, 1, "{compressor:?}");
        assert!(found.len() >= 60 && (compressor.is_some() || found.len() > 100), "{}", found.len());
        // In a segment with another behind it that is damage.
        let mut next = Foreign::new(2, compressor);
        next.section(&payloads(0..1));
        next.write_to(&fs, 0);
        assert!(matches!(read(&fs, false).1, Err(EngineError::CommitLog { .. })));
        // The file ends early.
        let fs = MemoryFileSystem::new();
        let cut = segment.bytes.len() - 9;
        Foreign { bytes: segment.bytes[..cut].to_vec(), ..segment }.write_to(&fs, 0);
        let (found, report) = read(&fs, false);
        assert!(report.unwrap().torn > 0 && found.len() >= 60, "{compressor:?}");
    }
}
