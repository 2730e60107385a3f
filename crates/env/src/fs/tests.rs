//! What every file system promises, run against each of them.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use std::io::ErrorKind;

use super::disk::DiskFileSystem;
use super::faulty::FaultyFileSystem;
use super::memory::MemoryFileSystem;
use super::*;

/// Runs a body on the disk, in memory, and behind a fault layer without faults; `dir` exists and is empty.
fn on_each(body: impl Fn(&dyn FileSystem, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    body(&DiskFileSystem, dir.path());
    for fs in [
        Arc::new(MemoryFileSystem::new()) as Arc<dyn FileSystem>,
        Arc::new(FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()))),
    ] {
        fs.create_dir_all("/node/data".as_ref()).unwrap();
        body(fs.as_ref(), Path::new("/node/data"));
    }
}

fn names(fs: &dyn FileSystem, dir: &Path) -> Vec<String> {
    fs.read_dir(dir).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

#[test]
fn written_bytes_are_read_back() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        file.write_all(b"hello ").unwrap();
        file.write_all(b"world").unwrap();
        assert_eq!(file.position(), 11);
        file.flush().unwrap();
        assert_eq!(fs.read(&path).unwrap(), b"hello world");
        assert_eq!(fs.read_to_string(&path).unwrap(), "hello world");
        assert_eq!(fs.file_len(&path).unwrap(), 11);
        assert_eq!(file.path(), path);
    });
}

#[test]
fn reads_are_short_only_at_the_end() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        fs.write(&path, b"0123456789").unwrap();
        let file = fs.open_read(&path).unwrap();
        assert_eq!((file.len(), file.is_empty()), (10, false));
        let mut buf = [0; 4];
        assert_eq!((file.read_at(3, &mut buf).unwrap(), &buf), (4, b"3456"));
        assert_eq!((file.read_at(8, &mut buf).unwrap(), &buf[..2]), (2, &b"89"[..]));
        assert_eq!(file.read_at(10, &mut buf).unwrap(), 0);
        assert_eq!(file.read_at(1 << 40, &mut buf).unwrap(), 0);
        file.read_exact_at(6, &mut buf).unwrap();
        let error = file.read_exact_at(7, &mut buf).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("wanted 4 bytes at 7"), "{error}");
        for advice in [Advice::Sequential, Advice::Random, Advice::WillNeed, Advice::DontNeed] {
            file.advise(0, 0, advice);
        }
    });
}

#[test]
fn a_read_at_once_gets_what_a_read_gets_or_nothing() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        fs.write(&path, &bytes).unwrap();
        for access in [Access::Buffered, Access::Direct, Access::Mapped] {
            let file = fs.open_read_by(&path, access).unwrap();
            for (offset, len) in
                [(0, 100_000), (1, 4_096), (65_530, 20), (99_990, 20), (100_000, 1), (1 << 40, 1)]
            {
                let (mut buf, mut expected) = (vec![0; len], vec![0; len]);
                let got = file.read_at(offset, &mut expected).unwrap();
                let at_once = file.read_at_once(offset, &mut buf).unwrap();
                assert!(at_once.is_none_or(|len| len == got && buf == expected), "{access:?} {offset} {len}");
                assert!(at_once.is_none() || file.access() != Access::Direct);
            }
        }
    });
}

#[test]
fn a_read_into_new_memory_gets_what_a_read_gets() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        fs.write(&path, &bytes).unwrap();
        for access in [Access::Buffered, Access::Direct, Access::Mapped] {
            let file = fs.open_read_by(&path, access).unwrap();
            for (offset, len, after_len) in
                [(0, 99_996, 4), (7, 16_384, 4), (65_530, 20, 0), (3, 0, 4), (100_000, 0, 0)]
            {
                let (head, behind) = bytes[offset..offset + len + after_len].split_at(len);
                for may_wait in [true, false] {
                    let mut after = vec![0; after_len];
                    let got = file.read_vec_at(offset as u64, len, &mut after, may_wait).unwrap();
                    assert!(got.is_some() || !may_wait);
                    let Some(got) = got else { continue };
                    assert!(
                        got == head && after == behind,
                        "{access:?} {offset} {len} {after_len} {may_wait}"
                    );
                    assert_eq!(got.capacity(), len);
                }
            }
            for (offset, len, after_len) in
                [(99_990, 8, 4), (99_990, 11, 0), (99_990, 12, 4), (1 << 40, 1, 0)]
            {
                let mut after = vec![0; after_len];
                assert_eq!(file.read_vec_at(offset, len, &mut after, false).unwrap(), None);
                let error = file.read_vec_at(offset, len, &mut after, true).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
            }
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_just_written_is_read_at_once_where_the_file_system_can_tell() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    DiskFileSystem.write(&path, b"0123456789").unwrap();
    let refuses = {
        #[allow(clippy::disallowed_methods)]
        let file = std::fs::File::open(&path).unwrap();
        let mut into = [0; 4];
        let mut into = [io::IoSliceMut::new(&mut into)];
        rustix::io::preadv2(&file, &mut into, 0, rustix::io::ReadWriteFlags::NOWAIT).is_err()
    };
    let file = DiskFileSystem.open_read(&path).unwrap();
    let mut buf = [0; 4];
    for _ in 0..2 {
        let got = file.read_at_once(3, &mut buf).unwrap();
        assert_eq!(got, (!refuses).then_some(4));
        let mut after = [0; 2];
        let got = file.read_vec_at(3, 4, &mut after, false).unwrap();
        assert_eq!(got.map(|bytes| (bytes, after)), (!refuses).then(|| (b"3456".to_vec(), *b"78")));
    }
    assert!(refuses || &buf == b"3456");
}

#[test]
fn bytes_that_were_not_flushed_are_lost_with_the_handle() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        file.write_all(b"kept").unwrap();
        file.flush().unwrap();
        file.write_all(b"lost").unwrap();
        drop(file);
        assert_eq!(fs.read(&path).unwrap(), b"kept");
    });
}

#[test]
fn a_full_buffer_and_large_writes_keep_their_order() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        let mut expected = Vec::new();
        for (byte, len) in
            [(1, 10), (2, WRITE_BUFFER_BYTES), (3, 7), (4, WRITE_BUFFER_BYTES - 3), (5, 200_000)]
        {
            file.write_all(&vec![byte; len]).unwrap();
            expected.resize(expected.len() + len, byte);
            assert_eq!(file.position(), expected.len() as u64);
        }
        file.sync_data().unwrap();
        assert!(fs.read(&path).unwrap() == expected);
    });
}

#[test]
fn create_empties_and_create_new_refuses() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        fs.write(&path, b"old").unwrap();
        assert_eq!(fs.create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(fs.create(&path).unwrap());
        assert_eq!(fs.file_len(&path).unwrap(), 0);
        fs.create_new(&dir.join("b")).unwrap();
        assert_eq!(names(fs, dir), ["a", "b"]);
    });
}

#[test]
fn append_goes_on_at_the_end() {
    on_each(|fs, dir| {
        let path = dir.join("log");
        for part in [b"ab", b"cd"] {
            let mut file = fs.open_append(&path).unwrap();
            file.write_all(part).unwrap();
            file.flush().unwrap();
        }
        let mut file = fs.open_append(&path).unwrap();
        assert_eq!(file.position(), 4);
        file.write_at(0, b"X").unwrap();
        assert_eq!(fs.read(&path).unwrap(), b"Xbcd", "a positional write is not sent to the end");
    });
}

#[test]
fn an_allocated_file_is_overwritten_in_place() {
    on_each(|fs, dir| {
        let path = dir.join("segment");
        assert_eq!(fs.open_rw(&path).unwrap_err().kind(), ErrorKind::NotFound);
        fs.create(&path).unwrap().allocate(8).unwrap();
        assert_eq!(fs.read(&path).unwrap(), [0; 8]);

        let mut file = fs.open_rw(&path).unwrap();
        file.allocate(4).unwrap();
        file.write_all(b"ab").unwrap();
        file.write_at(6, b"yz").unwrap();
        assert_eq!(file.position(), 2);
        file.write_all(b"c").unwrap();
        file.flush().unwrap();
        assert_eq!(fs.read(&path).unwrap(), b"abc\0\0\0yz", "allocating less does not shrink");
    });
}

#[test]
fn truncate_cuts_grows_and_moves_the_position() {
    on_each(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        file.truncate(4).unwrap();
        assert_eq!(file.position(), 4);
        file.write_all(b"x").unwrap();
        file.truncate(7).unwrap();
        assert_eq!(file.position(), 5);
        assert_eq!(fs.read(&path).unwrap(), b"0123x\0\0");
        file.seek(8).unwrap();
        file.write_all(b"y").unwrap();
        file.flush().unwrap();
        assert_eq!(fs.read(&path).unwrap(), b"0123x\0\0\0y");
    });
}

#[test]
fn a_syncer_works_beside_the_writer() {
    on_each(|fs, dir| {
        let mut file = fs.create(&dir.join("a")).unwrap();
        let syncer = file.syncer();
        file.write_all(b"ab").unwrap();
        file.flush().unwrap();
        std::thread::spawn(move || syncer.sync_data()).join().unwrap().unwrap();
        file.write_all(b"cd").unwrap();
        file.flush().unwrap();
        assert_eq!(fs.read(&dir.join("a")).unwrap(), b"abcd");
    });
}

#[test]
fn directories_list_their_names_in_order() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir.join("b/c")).unwrap();
        fs.create_dir_all(&dir.join("b/c")).unwrap();
        fs.write(&dir.join("a"), b"").unwrap();
        fs.write(&dir.join("c"), b"").unwrap();
        let entry = |name: &str, kind| DirEntry { name: name.into(), kind };
        let expected = [entry("a", EntryKind::File), entry("b", EntryKind::Dir), entry("c", EntryKind::File)];
        assert_eq!(fs.read_dir(dir).unwrap(), expected);
        assert_eq!(fs.read_dir(&dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs.read_dir(&dir.join("a")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(fs.exists(&dir.join("b/c")).unwrap() && !fs.exists(&dir.join("b/d")).unwrap());
    });
}

#[test]
fn rename_replaces_files_and_moves_directories() {
    on_each(|fs, dir| {
        fs.write(&dir.join("a"), b"new").unwrap();
        fs.write(&dir.join("b"), b"old").unwrap();
        fs.rename(&dir.join("a"), &dir.join("b")).unwrap();
        assert_eq!(
            (names(fs, dir), fs.read(&dir.join("b")).unwrap()),
            (vec!["b".to_owned()], b"new".to_vec())
        );

        fs.create_dir_all(&dir.join("d/inner")).unwrap();
        fs.write(&dir.join("d/inner/f"), b"1").unwrap();
        fs.rename(&dir.join("d"), &dir.join("e")).unwrap();
        assert_eq!(fs.read(&dir.join("e/inner/f")).unwrap(), b"1");
        fs.rename(&dir.join("e/inner/f"), &dir.join("f")).unwrap();
        assert_eq!(
            (fs.read(&dir.join("f")).unwrap(), names(fs, &dir.join("e/inner")).len()),
            (b"1".to_vec(), 0)
        );

        assert_eq!(fs.rename(&dir.join("x"), &dir.join("y")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs.rename(&dir.join("b"), &dir.join("e")).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(fs.rename(&dir.join("e"), &dir.join("b")).unwrap_err().kind(), ErrorKind::NotADirectory);
        let inside = fs.rename(&dir.join("e"), &dir.join("e/inner/e")).unwrap_err();
        assert_eq!(inside.kind(), ErrorKind::InvalidInput);
        fs.create_dir_all(&dir.join("g")).unwrap();
        let full = fs.rename(&dir.join("g"), &dir.join("e")).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
        fs.rename(&dir.join("e"), &dir.join("g")).unwrap();
        assert!(fs.exists(&dir.join("g/inner")).unwrap(), "an empty directory may be replaced");
    });
}

#[test]
fn a_removed_file_lives_on_in_its_handles_and_links() {
    on_each(|fs, dir| {
        let (a, b) = (dir.join("a"), dir.join("b"));
        fs.write(&a, b"bytes").unwrap();
        fs.hard_link(&a, &b).unwrap();
        assert_eq!(fs.hard_link(&a, &b).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let open = fs.open_read(&a).unwrap();
        fs.remove_file(&a).unwrap();
        assert_eq!(fs.read(&b).unwrap(), b"bytes");
        fs.remove_file(&b).unwrap();
        let mut buf = [0; 5];
        open.read_exact_at(0, &mut buf).unwrap();
        assert_eq!(&buf, b"bytes");
        assert_eq!(fs.remove_file(&a).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_link_shares_the_bytes_of_its_file() {
    on_each(|fs, dir| {
        fs.write(&dir.join("a"), b"12").unwrap();
        fs.hard_link(&dir.join("a"), &dir.join("b")).unwrap();
        fs.open_rw(&dir.join("a")).unwrap().write_at(1, b"x").unwrap();
        assert_eq!(fs.read(&dir.join("b")).unwrap(), b"1x");
    });
}

#[test]
fn remove_dir_all_takes_what_is_inside() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir.join("d/e")).unwrap();
        fs.write(&dir.join("d/e/f"), b"").unwrap();
        fs.remove_dir_all(&dir.join("d")).unwrap();
        assert_eq!(names(fs, dir).len(), 0);
        assert_eq!(fs.remove_dir_all(&dir.join("d")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn remove_dir_leaves_one_that_holds_something() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir.join("d/e")).unwrap();
        assert_eq!(fs.remove_dir(&dir.join("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs.remove_dir(&dir.join("d/e")).unwrap();
        fs.remove_dir(&dir.join("d")).unwrap();
        assert_eq!(fs.remove_dir(&dir.join("d")).unwrap_err().kind(), ErrorKind::NotFound);
        fs.write(&dir.join("f"), b"").unwrap();
        assert_eq!(fs.remove_dir(&dir.join("f")).unwrap_err().kind(), ErrorKind::NotADirectory);
    });
}

#[test]
fn errors_name_the_operation_and_the_path() {
    on_each(|fs, dir| {
        let path = dir.join("missing/file");
        for error in [
            fs.open_read(&path).unwrap_err(),
            fs.create(&path).unwrap_err(),
            fs.file_len(&path).unwrap_err(),
            fs.rename(&path, &dir.join("a")).unwrap_err(),
            fs.remove_file(&path).unwrap_err(),
            fs.sync_dir(&path).unwrap_err(),
            fs.hard_link(&path, &dir.join("a")).unwrap_err(),
            fs.read(&path).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            let text = error.to_string();
            assert!(text.starts_with("cannot ") && text.contains(path.to_str().unwrap()), "{text}");
        }
        let error = fs.open_read(dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory, "{error}");
    });
}

#[test]
fn the_path_is_added_once() {
    let inner = with_path("sync", Path::new("/a"), io::Error::from_raw_os_error(5));
    let outer = with_path("write", Path::new("/b"), inner);
    let cause = outer.get_ref().and_then(|e| e.downcast_ref::<PathError>()).unwrap();
    assert_eq!((cause.operation, cause.path.as_path()), ("sync", Path::new("/a")));
    assert_eq!(cause.source.raw_os_error(), Some(5));
}

#[test]
fn text_that_is_not_utf8_is_invalid_data() {
    on_each(|fs, dir| {
        fs.write(&dir.join("a"), &[0xff]).unwrap();
        assert_eq!(fs.read_to_string(&dir.join("a")).unwrap_err().kind(), ErrorKind::InvalidData);
    });
}

#[test]
fn one_holder_has_the_lock_at_a_time() {
    on_each(|fs, dir| {
        let path = dir.join("LOCK");
        let held = fs.lock_exclusive(&path).unwrap();
        let error = fs.lock_exclusive(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        assert!(error.to_string().contains("another process holds it"), "{error}");
        drop(held);
        fs.lock_exclusive(&path).unwrap();
        assert!(fs.exists(&path).unwrap());

        let below = dir.join("directory");
        fs.create_dir_all(&below).unwrap();
        let held = fs.lock_exclusive(&below).unwrap();
        assert_eq!(fs.lock_exclusive(&below).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(held);
        fs.lock_exclusive(&below).unwrap();
        assert!(fs.read_dir(&below).unwrap().is_empty(), "a locked directory is as it was");
    });
}

#[test]
fn an_atomic_write_replaces_and_leaves_nothing_beside() {
    on_each(|fs, dir| {
        let path = dir.join("state");
        fs.write_atomic(&path, b"one").unwrap();
        fs.write_atomic(&path, b"two").unwrap();
        assert_eq!((names(fs, dir), fs.read(&path).unwrap()), (vec!["state".to_owned()], b"two".to_vec()));
    });
}

#[test]
fn the_device_has_space() {
    on_each(|fs, dir| {
        let space = fs.space(dir).unwrap();
        assert!(0 < space.free_bytes && space.free_bytes <= space.total_bytes, "{space:?}");
    });
}

#[test]
fn the_parent_of_a_bare_name_is_the_working_directory() {
    let above = |path| parent(Path::new(path)).to_owned();
    assert_eq!([above("/a/b"), above("a"), above("/")], ["/a", ".", "/"].map(PathBuf::from));
}

#[test]
fn only_full_devices_and_quotas_are_out_of_space() {
    assert!(is_out_of_space(&with_path("write", Path::new("/a"), io::Error::from_raw_os_error(28))));
    assert!(!is_out_of_space(&io::Error::from_raw_os_error(5)));
}

#[test]
fn every_access_reads_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let random = crate::random::Random::from_seed(1);
    let path = dir.path().join("a");
    for len in [0, 1, 511, 4096, 4097, 300_000, 1 << 20] {
        let mut bytes = vec![0; len];
        random.fill(&mut bytes);
        DiskFileSystem.write(&path, &bytes).unwrap();
        for access in [Access::Buffered, Access::Direct, Access::Mapped] {
            let file = DiskFileSystem.open_read_by(&path, access).unwrap();
            assert_eq!(file.len(), len as u64);
            // A file system may have no direct reads, and nothing is no mapping.
            assert!(file.access() == access || access == Access::Direct || len == 0);
            for _ in 0..50 {
                let offset = random.below(len as u64 + 10_000);
                let mut buf = vec![7; random.below(600_000) as usize];
                let got = file.read_at(offset, &mut buf).unwrap();
                let expected = bytes.get(offset as usize..).unwrap_or_default();
                let expected = &expected[..expected.len().min(buf.len())];
                assert!(buf[..got] == *expected, "{len} {access:?} {offset} {got}");
            }
            let error = file.read_exact_at(len as u64, &mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    }
}

#[test]
fn what_a_read_takes_is_what_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let random = crate::random::Random::from_seed(2);
    let path = dir.path().join("a");
    let taken_of = |len: u64, range: Range<u64>| {
        let file = DiskFileSystem.open_read_by(&path, Access::Direct).unwrap();
        let before = disk::direct::TAKEN.get();
        file.read_exact_at(range.start, &mut vec![0; (range.end - range.start) as usize]).unwrap();
        let after = disk::direct::TAKEN.get();
        // A file system may have no direct reads.
        if file.access() == Access::Direct {
            assert_eq!(
                Access::Direct.taken(&range, len),
                (after.0 - before.0, after.1 - before.1),
                "{range:?}"
            );
        }
    };
    for len in [1, 511, 4096, 4097, 300_000, 2_000_001] {
        DiskFileSystem.write(&path, &vec![7; len as usize]).unwrap();
        for _ in 0..50 {
            let start = random.below(len);
            taken_of(len, start..start + 1 + random.below(len - start));
        }
    }
    assert_eq!(Access::Direct.taken(&(100..4_097), 1 << 20), (1, 8_192));
    assert_eq!(Access::Direct.taken(&(100..4_097), 5_000), (1, 5_000));
    assert_eq!(Access::Direct.taken(&(4_095..4_095 + (256 << 10)), 1 << 20), (2, (256 << 10) + 4_096));
    for access in [Access::Buffered, Access::Mapped] {
        assert_eq!(access.taken(&(100..4_097), 5_000), (1, 3_997));
    }
}

#[test]
fn a_mapped_file_that_was_cut_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    DiskFileSystem.write(&path, &[7; 20_000]).unwrap();
    let file = DiskFileSystem.open_read_by(&path, Access::Mapped).unwrap();
    DiskFileSystem.open_rw(&path).unwrap().truncate(5_000).unwrap();
    let mut buf = [0; 200];
    file.read_exact_at(4_800, &mut buf).unwrap();
    for offset in [4_801, 12_000, 19_900] {
        let error = file.read_at(offset, &mut buf).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("was cut to 5000"), "{error}");
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_file_that_others_may_change_is_not_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("f"), dir.path().join("l"));
    DiskFileSystem.write(&path, b"x").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for (mode, is_private) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(DiskFileSystem.is_private(&path).unwrap(), is_private, "{mode:o}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!DiskFileSystem.is_private(&link).unwrap());
    assert!(!DiskFileSystem.is_private(dir.path()).unwrap());
    assert!(DiskFileSystem.is_private(&dir.path().join("none")).is_err());
}

#[test]
fn a_clone_has_the_bytes_or_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("f"), dir.path().join("t"));
    DiskFileSystem.write(&from, b"some bytes").unwrap();
    let cloned = DiskFileSystem.clone_file(&from, &to).unwrap();
    assert_eq!(DiskFileSystem.exists(&to).unwrap(), cloned);
    if cloned {
        DiskFileSystem.write(&from, b"others").unwrap();
        assert_eq!(DiskFileSystem.read(&to).unwrap(), b"some bytes");
    }
}
