//! A process that may have few files open reads many. It has a process, and so a limit, of its own.

#![allow(clippy::disallowed_methods, reason = "the test looks at a real disk")]

use env::fs::disk::{DiskFileSystem, raise_open_files_limit};
use env::fs::{Access, FileSystem, ReadFile};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::Arc;

const OPEN_MAX: u64 = 64;
const FILES: usize = 200;

fn read(file: &Arc<dyn ReadFile>) -> std::io::Result<String> {
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes).map(|()| String::from_utf8(bytes).unwrap())
}

#[test]
fn more_files_are_read_than_may_be_open() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.maximum = Some(OPEN_MAX);
    limit.current = Some(OPEN_MAX / 2);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(raise_open_files_limit().unwrap(), OPEN_MAX);
    let dir = tempfile::tempdir().unwrap();
    let fs = DiskFileSystem;
    let path = |i: usize| dir.path().join(i.to_string());
    let text = |i: usize| format!("file {i}");
    (0..FILES).for_each(|i| fs.write(&path(i), text(i).as_bytes()).unwrap());
    let accesses = [Access::Buffered, Access::Mapped, Access::Direct];
    let files: Vec<_> = (0..FILES).map(|i| fs.open_read_by(&path(i), accesses[i % 3]).unwrap()).collect();
    let open_now = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    for i in (0..FILES).chain([7, FILES - 1, 7, 8]) {
        assert_eq!(read(&files[i]).unwrap(), text(i));
        assert!(open_now() <= OPEN_MAX * 3 / 4 + 8, "{} are open", open_now());
    }

    // What loses its name is read on, whether it is open at that moment or not.
    fs.remove_file(&path(FILES - 1)).unwrap();
    fs.remove_file(&path(20)).unwrap();
    fs.rename(&path(3), &path(21)).unwrap();
    (0..FILES).for_each(|i| assert_eq!(read(&files[i]).unwrap(), text(i)));

    // One that was replaced by somebody else while it was closed is not taken for what it was.
    std::fs::rename(path(40), path(9)).unwrap();
    let error = read(&files[9]).unwrap_err().to_string();
    assert!(
        error.contains("another file has its name") && error.contains(&*path(9).to_string_lossy()),
        "{error}"
    );

    let before = open_now();
    drop(files);
    assert!(open_now() + OPEN_MAX / 2 < before, "{before} were open, {} still are", open_now());
    assert_eq!(fs.read_to_string(&path(50)).unwrap(), text(50));
}
