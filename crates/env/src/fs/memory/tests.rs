//! What a loss of power takes and what it spares.

use std::collections::BTreeSet;

use super::*;

fn p(path: &str) -> &Path {
    Path::new(path)
}

/// A file system whose directory `/d` is durable.
fn with_dir() -> MemoryFileSystem {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all_durable(p("/d")).unwrap();
    fs
}

/// A durable file `/d/f` with the given synced bytes, open for more.
fn with_file(bytes: &[u8]) -> (MemoryFileSystem, Box<dyn WriteFile>) {
    let fs = with_dir();
    let mut file = fs.create(p("/d/f")).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(p("/d")).unwrap();
    (fs, file)
}

fn names(fs: &MemoryFileSystem, dir: &str) -> Vec<String> {
    fs.read_dir(p(dir)).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

/// Every content of `/d/f` that 300 seeds produce.
fn contents(fs: &MemoryFileSystem, crash: fn(u64) -> Crash) -> BTreeSet<Vec<u8>> {
    (0..300).map(|seed| fs.crash(crash(seed)).read(p("/d/f")).unwrap()).collect()
}

#[test]
fn synced_bytes_survive_and_flushed_ones_do_not() {
    let (fs, mut file) = with_file(b"synced");
    file.write_all(b" flushed").unwrap();
    file.flush().unwrap();
    assert_eq!(fs.read(p("/d/f")).unwrap(), b"synced flushed");
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"synced");
}

#[test]
fn overwriting_and_truncating_are_undone_unless_synced() {
    let (fs, mut file) = with_file(b"0123456789");
    file.write_at(2, b"xx").unwrap();
    file.truncate(5).unwrap();
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"0123456789");
    file.sync_data().unwrap();
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"01xx4");
    drop(fs.create(p("/d/f")).unwrap());
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"01xx4", "emptying is a write too");
}

#[test]
fn a_syncer_makes_bytes_durable() {
    let (fs, mut file) = with_file(b"");
    let syncer = file.syncer();
    file.write_all(b"ab").unwrap();
    file.flush().unwrap();
    syncer.sync_data().unwrap();
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"ab");
}

#[test]
fn a_synced_file_without_a_synced_name_is_gone() {
    let fs = with_dir();
    let mut file = fs.create(p("/d/f")).unwrap();
    file.write_all(b"x").unwrap();
    file.sync_data().unwrap();
    assert!(!fs.crash(Crash::LoseUnsynced).exists(p("/d/f")).unwrap());
}

#[test]
fn a_synced_name_without_synced_bytes_is_an_empty_file() {
    let fs = with_dir();
    fs.write(p("/d/f"), b"x").unwrap();
    fs.sync_dir(p("/d")).unwrap();
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"");
}

#[test]
fn an_unsynced_rename_is_undone() {
    let (fs, _file) = with_file(b"x");
    fs.rename(p("/d/f"), p("/d/g")).unwrap();
    assert_eq!(names(&fs.crash(Crash::LoseUnsynced), "/d"), ["f"]);
    fs.sync_dir(p("/d")).unwrap();
    let after = fs.crash(Crash::LoseUnsynced);
    assert_eq!((names(&after, "/d"), after.read(p("/d/g")).unwrap()), (vec!["g".to_owned()], b"x".to_vec()));
}

#[test]
fn an_unsynced_removal_is_undone() {
    let (fs, _file) = with_file(b"x");
    fs.remove_file(p("/d/f")).unwrap();
    assert!(!fs.exists(p("/d/f")).unwrap());
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"x");

    fs.remove_dir_all(p("/d")).unwrap();
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"x");
    fs.sync_dir(p("/")).unwrap();
    assert!(!fs.crash(Crash::LoseUnsynced).exists(p("/d")).unwrap());
}

#[test]
fn a_directory_needs_its_parent_synced() {
    let fs = with_dir();
    fs.create_dir_all(p("/d/a/b")).unwrap();
    fs.sync_dir(p("/d/a")).unwrap();
    assert_eq!(names(&fs.crash(Crash::LoseUnsynced), "/d").len(), 0);
    fs.sync_dir(p("/d")).unwrap();
    assert!(fs.crash(Crash::LoseUnsynced).exists(p("/d/a/b")).unwrap());
    fs.create_dir_all_durable(p("/d/x/y/z")).unwrap();
    assert!(fs.crash(Crash::LoseUnsynced).exists(p("/d/x/y/z")).unwrap());
}

#[test]
fn links_are_names_like_others_and_stay_links() {
    let (fs, _file) = with_file(b"x");
    fs.hard_link(p("/d/f"), p("/d/g")).unwrap();
    assert_eq!(names(&fs.crash(Crash::LoseUnsynced), "/d"), ["f"]);
    fs.sync_dir(p("/d")).unwrap();
    let after = fs.crash(Crash::LoseUnsynced);
    after.open_rw(p("/d/g")).unwrap().write_at(0, b"y").unwrap();
    assert_eq!(after.read(p("/d/f")).unwrap(), b"y");
}

#[test]
fn an_atomic_write_leaves_the_old_or_the_new_at_every_seed() {
    let fs = with_dir();
    fs.write_atomic(p("/d/f"), b"old").unwrap();
    fs.write_atomic(p("/d/f"), b"new").unwrap();
    assert_eq!(fs.crash(Crash::LoseUnsynced).read(p("/d/f")).unwrap(), b"new", "durable when it returns");

    // The same steps by hand, cut off before the last one.
    let mut file = fs.create(p("/d/f.tmp")).unwrap();
    file.write_all(b"newer").unwrap();
    file.sync_data().unwrap();
    fs.rename(p("/d/f.tmp"), p("/d/f")).unwrap();
    assert_eq!(contents(&fs, Crash::TornPrefix), BTreeSet::from([b"new".to_vec(), b"newer".to_vec()]));
}

#[test]
fn a_torn_prefix_is_a_prefix_of_the_writes() {
    let (fs, mut file) = with_file(b"--");
    for part in [b"aa", b"bb", b"cc"] {
        file.write_all(part).unwrap();
        file.flush().unwrap();
    }
    let all = b"--aabbcc";
    let expected: BTreeSet<Vec<u8>> = (2..=all.len()).map(|len| all[..len].to_vec()).collect();
    assert_eq!(contents(&fs, Crash::TornPrefix), expected, "every length that begins with what was synced");
}

#[test]
fn names_survive_a_torn_crash_in_the_order_of_their_changes() {
    let fs = with_dir();
    for name in ["/d/1", "/d/2", "/d/3"] {
        fs.write(p(name), b"").unwrap();
    }
    let seen: BTreeSet<_> = (0..100).map(|seed| names(&fs.crash(Crash::TornPrefix(seed)), "/d")).collect();
    let expected = [&[][..], &["1"], &["1", "2"], &["1", "2", "3"]];
    let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn scattered_pages_survive_in_no_order_but_whole() {
    let (fs, mut file) = with_file(&[b'-'; 3 * 4096]);
    for (page, byte) in [(0, b'a'), (1, b'b'), (2, b'c')] {
        file.write_at(page * 4096, &[byte; 4096]).unwrap();
    }
    let seen = contents(&fs, Crash::ScatteredPages);
    assert_eq!(seen.len(), 8, "each page by itself");
    for content in seen {
        assert_eq!(content.len(), 3 * 4096);
        assert!(content.chunks(4096).all(|page| page.iter().all(|byte| *byte == page[0])));
    }
}

#[test]
fn scattered_pages_may_leave_holes_in_a_grown_file() {
    let (fs, mut file) = with_file(b"");
    file.write_at(0, &[b'a'; 4096]).unwrap();
    file.write_at(4096, &[b'b'; 4096]).unwrap();
    let seen = contents(&fs, Crash::ScatteredPages);
    assert!(seen.iter().any(|bytes| bytes.len() > 4096 && bytes[0] == 0 && bytes[4096] == b'b'), "a hole");
    assert!(seen.iter().any(|bytes| bytes.len() < 4096), "a short length");
    assert!(seen.iter().all(|bytes| bytes.len() <= 8192));
}

#[test]
fn a_seed_repeats_its_crash() {
    let (fs, mut file) = with_file(b"synced");
    for _ in 0..20 {
        file.write_all(b"more").unwrap();
        file.flush().unwrap();
    }
    for crash in [Crash::TornPrefix(9), Crash::ScatteredPages(9)] {
        assert_eq!(fs.crash(crash).read(p("/d/f")).unwrap(), fs.crash(crash).read(p("/d/f")).unwrap());
    }
}

#[test]
fn the_dead_process_cannot_reach_the_next_one() {
    let (fs, mut file) = with_file(b"x");
    let lock = fs.lock_exclusive(p("/d/LOCK")).unwrap();
    let after = fs.crash(Crash::LoseUnsynced);
    file.write_all(b"zombie").unwrap();
    file.sync_data().unwrap();
    fs.write(p("/d/g"), b"").unwrap();
    assert_eq!((names(&after, "/d"), after.read(p("/d/f")).unwrap()), (vec!["f".to_owned()], b"x".to_vec()));
    after.lock_exclusive(p("/d/LOCK")).unwrap();
    drop(lock);
}

#[test]
fn what_survived_is_durable() {
    let (fs, mut file) = with_file(b"ab");
    file.write_all(b"cd").unwrap();
    file.flush().unwrap();
    let once = fs.crash(Crash::TornPrefix(3));
    let twice = once.crash(Crash::LoseUnsynced);
    assert_eq!(once.read(p("/d/f")).unwrap(), twice.read(p("/d/f")).unwrap());
}

#[test]
fn relative_paths_and_dots_start_at_the_root() {
    let fs = with_dir();
    fs.write(p("d/./x/../f"), b"1").unwrap();
    assert_eq!(fs.read(p("/d/f")).unwrap(), b"1");
    assert!(fs.exists(p("/")).unwrap() && fs.exists(p(".")).unwrap());
}
