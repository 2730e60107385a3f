//! Which calls fail, how, and what they leave behind.

use std::io::ErrorKind;

use super::*;
use crate::fs::is_out_of_space;
use crate::fs::memory::{Crash, MemoryFileSystem};

fn p(path: &str) -> &Path {
    Path::new(path)
}

fn faulty() -> FaultyFileSystem {
    let fs = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    fs.create_dir_all(p("/log")).unwrap();
    fs.create_dir_all(p("/data")).unwrap();
    fs
}

#[test]
fn the_nth_call_fails_and_no_other() {
    let fs = faulty();
    let id = fs.add(Fault::on(Op::Sync).path("log/").nth(3));
    let mut data = fs.create(p("/data/a")).unwrap();
    let mut log = fs.create(p("/log/1")).unwrap();
    let outcomes: Vec<bool> = (0..5)
        .map(|_| {
            data.sync_data().unwrap();
            log.sync_data().is_ok()
        })
        .collect();
    assert_eq!(outcomes, [true, true, false, true, true]);
    assert_eq!(fs.struck(id), 1);
}

#[test]
fn an_error_looks_like_the_real_one() {
    let fs = faulty();
    fs.add(Fault::on(Op::Write).nth(1));
    fs.add(Fault::on(Op::Write).nth(2).no_space());
    let mut file = fs.create(p("/log/1")).unwrap();
    let device = file.write_all(b"x").unwrap_err();
    assert_eq!(device.kind(), io::Error::from_raw_os_error(5).kind());
    assert!(device.to_string().contains("/log/1") && !is_out_of_space(&device), "{device}");
    let full = file.write_all(b"x").unwrap_err();
    assert!(is_out_of_space(&full), "{full}");
    file.write_all(b"x").unwrap();
}

type Call<'a> = Box<dyn Fn() -> io::Result<()> + 'a>;

#[test]
fn every_kind_of_call_can_fail_alone() {
    let fs = faulty();
    fs.write(p("/data/a"), b"1234").unwrap();
    let calls: Vec<(Op, Call)> = vec![
        (Op::CreateDir, Box::new(|| fs.create_dir_all(p("/data/d")))),
        (Op::ReadDir, Box::new(|| fs.read_dir(p("/data")).map(drop))),
        (Op::Open, Box::new(|| fs.open_read(p("/data/a")).map(drop))),
        (Op::Open, Box::new(|| fs.open_rw(p("/data/a")).map(drop))),
        (Op::Open, Box::new(|| fs.open_append(p("/data/a")).map(drop))),
        (Op::Create, Box::new(|| fs.open_append(p("/data/new")).map(drop))),
        (Op::Create, Box::new(|| fs.create(p("/data/b")).map(drop))),
        (Op::Create, Box::new(|| fs.create_new(p("/data/c")).map(drop))),
        (Op::Rename, Box::new(|| fs.rename(p("/data/a"), p("/data/z")))),
        (Op::Remove, Box::new(|| fs.remove_file(p("/data/a")))),
        (Op::Remove, Box::new(|| fs.remove_dir_all(p("/data")))),
        (Op::Link, Box::new(|| fs.hard_link(p("/data/a"), p("/data/l")))),
        (Op::SyncDir, Box::new(|| fs.sync_dir(p("/data")))),
        (Op::Lock, Box::new(|| fs.lock_exclusive(p("/data/LOCK")).map(drop))),
        (Op::Read, Box::new(|| fs.read(p("/data/a")).map(drop))),
        (Op::Write, Box::new(|| fs.open_rw(p("/data/a"))?.write_at(0, b"x"))),
        (Op::Flush, Box::new(|| fs.open_rw(p("/data/a"))?.flush())),
        (Op::Sync, Box::new(|| fs.open_rw(p("/data/a"))?.sync_data())),
        (Op::Sync, Box::new(|| fs.open_rw(p("/data/a"))?.syncer().sync_data())),
        (Op::Truncate, Box::new(|| fs.open_rw(p("/data/a"))?.truncate(0))),
        (Op::Allocate, Box::new(|| fs.open_rw(p("/data/a"))?.allocate(10))),
    ];
    for (op, call) in calls {
        let id = fs.add(Fault::on(op));
        let error = call().unwrap_err();
        assert!(error.to_string().starts_with("cannot "), "{op:?}: {error}");
        assert_eq!(fs.struck(id), 1, "{op:?}");
        fs.remove(id);
    }
    let names: Vec<_> = fs.read_dir(p("/data")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a"], "no failed call left anything");
    assert_eq!(fs.read(p("/data/a")).unwrap(), b"1234");
}

#[test]
fn a_short_write_leaves_its_first_bytes() {
    let fs = faulty();
    fs.add(Fault::on(Op::Write).nth(2).short_write(3).no_space());
    let mut file = fs.create(p("/log/1")).unwrap();
    file.write_all(b"one").unwrap();
    assert!(is_out_of_space(&file.write_all(b"second").unwrap_err()));
    file.flush().unwrap();
    assert_eq!(fs.read(p("/log/1")).unwrap(), b"onesec");
    assert_eq!(file.position(), 6);
}

#[test]
fn a_call_may_do_its_work_and_still_fail() {
    let fs = faulty();
    fs.write(p("/data/a"), b"1").unwrap();
    fs.add(Fault::on(Op::Rename).after_effect());
    fs.rename(p("/data/a"), p("/data/b")).unwrap_err();
    assert_eq!(fs.read(p("/data/b")).unwrap(), b"1");
}

#[test]
fn a_failed_sync_leaves_the_bytes_to_the_next_crash() {
    let memory = MemoryFileSystem::new();
    let fs = FaultyFileSystem::new(Arc::new(memory.clone()));
    let mut file = fs.create(p("/a")).unwrap();
    fs.sync_dir(p("/")).unwrap();
    file.write_all(b"x").unwrap();
    file.flush().unwrap();
    fs.add(Fault::on(Op::Sync));
    file.sync_data().unwrap_err();
    assert_eq!(memory.crash(Crash::LoseUnsynced).read(p("/a")).unwrap(), b"");
    fs.heal();
    file.sync_data().unwrap();
    assert_eq!(memory.crash(Crash::LoseUnsynced).read(p("/a")).unwrap(), b"x");
}

#[test]
fn a_disk_dies_at_a_chosen_change() {
    let fs = faulty();
    let id = fs.add(Fault::on_any_change().after(2));
    fs.write(p("/data/a"), b"1").unwrap_err();
    assert_eq!(fs.struck(id), 1, "created and written, the flush failed");
    fs.create(p("/data/b")).unwrap_err();
    assert!(fs.exists(p("/data/a")).unwrap());
    fs.read(p("/data/a")).unwrap();
    fs.add(Fault::on_any());
    fs.read(p("/data/a")).unwrap_err();
}

#[test]
fn rules_are_switched_at_run_time() {
    let fs = faulty();
    let mut file = fs.create(p("/log/1")).unwrap();
    let id = fs.add(Fault::on(Op::Write).times(2));
    assert!(file.write_all(b"x").is_err());
    fs.remove(id);
    file.write_all(b"x").unwrap();
    assert_eq!(fs.struck(id), 1);
    fs.add(Fault::on(Op::Write));
    assert!(file.write_all(b"x").is_err());
    fs.heal();
    file.write_all(b"x").unwrap();
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    let fs = faulty();
    fs.write(p("/data/old"), b"0123456789").unwrap();
    fs.set_free_bytes(Some(8));
    assert_eq!(fs.space(p("/data")).unwrap().free_bytes, 8);
    let mut file = fs.create(p("/data/a")).unwrap();
    file.write_all(b"12345").unwrap();
    let error = file.write_all(b"67890").unwrap_err();
    assert!(is_out_of_space(&error), "{error}");
    file.flush().unwrap();
    assert_eq!(fs.read(p("/data/a")).unwrap(), b"12345678", "what fits is written");
    assert_eq!(fs.space(p("/data")).unwrap().free_bytes, 0);

    file.write_at(0, b"xyz").unwrap();
    file.sync_data().unwrap();
    fs.rename(p("/data/a"), p("/data/b")).unwrap();
    assert_eq!(fs.read(p("/data/b")).unwrap(), b"xyz45678");
    assert!(is_out_of_space(&file.allocate(9).unwrap_err()));
    assert_eq!(fs.file_len(p("/data/b")).unwrap(), 8);
}

#[test]
fn removing_and_truncating_give_space_back() {
    let fs = faulty();
    fs.create_dir_all(p("/data/d/e")).unwrap();
    for path in ["/data/one", "/data/two", "/data/d/three", "/data/d/e/four", "/data/five"] {
        fs.write(p(path), b"0123456789").unwrap();
    }
    fs.set_free_bytes(Some(0));
    let free = || fs.space(p("/")).unwrap().free_bytes;
    fs.remove_file(p("/data/one")).unwrap();
    assert_eq!(free(), 10);
    fs.remove_dir_all(p("/data/d")).unwrap();
    assert_eq!(free(), 30);
    fs.rename(p("/data/two"), p("/data/five")).unwrap();
    assert_eq!(free(), 40, "the file that was renamed over is gone");
    fs.open_rw(p("/data/five")).unwrap().truncate(4).unwrap();
    assert_eq!(free(), 46);
    fs.create(p("/data/five")).unwrap().allocate(40).unwrap();
    assert_eq!(free(), 10);
    fs.remove_file(p("/data/none")).unwrap_err();
    assert_eq!((free(), fs.remove_file(p("/data/none")).unwrap_err().kind()), (10, ErrorKind::NotFound));
}

#[test]
fn clones_share_rules_and_space() {
    let fs = faulty();
    let other = fs.clone();
    other.add(Fault::on(Op::Create));
    other.set_free_bytes(Some(3));
    fs.create(p("/data/a")).unwrap_err();
    assert_eq!(fs.space(p("/")).unwrap().free_bytes, 3);
}

#[test]
fn held_calls_wait_and_others_do_not() {
    let fs = faulty();
    let mut log = fs.create(p("/log/1")).unwrap();
    let mut data = fs.create(p("/data/a")).unwrap();
    fs.hold(Op::Sync, "log/");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || log.sync_data());
        data.sync_data().unwrap();
        fs.create(p("/log/2")).unwrap();
        fs.release();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_rule_that_never_strikes_counts() {
    let fs = faulty();
    fs.write(p("/data/a"), &[7; 100]).unwrap();
    let reads = fs.add(Fault::on(Op::Read).path("data/").never());
    let file = fs.open_read(p("/data/a")).unwrap();
    file.read_exact_at(0, &mut [0; 60]).unwrap();
    file.read_exact_at(60, &mut [0; 40]).unwrap();
    assert_eq!((fs.seen(reads), fs.struck(reads)), (Seen { calls: 2, bytes: 100 }, 0));
}
