//! The files of hints in their directory.
//!
//! Life of a file:
//! 1. *Written*: one for each node that misses something; synced whenever it grows.
//! 2. *Closed*: full, or about to be sent. Its checksum lies beside it.
//! 3. *Gone*: sent, or dropped with the node. Where nothing more can be read of it, it is *set aside* under
//!    another name.
//!
//! Files that are not read here, such as encrypted ones, and files that the device does not give are *left
//! alone*: they stay, and are looked at again at the next start.

use super::format::{FileId, HintsError};
use super::reader::{HintsReader, Position};
use super::writer::HintsWriter;
use env::Env;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A file that nobody writes any more.
#[derive(Clone, Debug)]
pub(super) struct ClosedFile {
    /// Which one.
    pub id: FileId,
    /// Its bytes that count.
    pub bytes: u64,
    /// Where the first hint is that was not sent; the first of all if it is not known.
    pub position: Option<Position>,
}

/// What there is for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnDisk {
    /// Number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest was begun, in milliseconds since the epoch.
    pub oldest_millis: Option<i64>,
    /// When the newest was.
    pub newest_millis: Option<i64>,
    /// Files besides that are left alone.
    pub left_alone: usize,
}

#[derive(Debug, Default)]
struct HostFiles {
    /// Oldest first.
    closed: VecDeque<ClosedFile>,
    writer: Option<HintsWriter>,
    left_alone: Vec<FileId>,
    /// When the last one was begun: the next is younger.
    last_millis: i64,
}

/// The files in a directory.
#[derive(Debug)]
pub(super) struct HintFiles {
    env: Env,
    dir: PathBuf,
    version: i32,
    hosts: BTreeMap<Uuid, HostFiles>,
}

impl HintFiles {
    /// Makes the directory if it is missing, and finds the files in it. New ones will have this version.
    pub fn open(env: &Env, dir: &Path, version: i32) -> io::Result<HintFiles> {
        env.fs.create_dir_all_durable(dir)?;
        let (env, dir) = (env.clone(), dir.to_owned());
        let mut files = HintFiles { env, dir, version, hosts: BTreeMap::new() };
        for entry in files.env.fs.read_dir(&files.dir)? {
            if let Some(id) = entry.name.to_str().and_then(FileId::of_name) {
                files.add(id);
            }
        }
        for host in files.hosts.values_mut() {
            host.closed.make_contiguous().sort_by_key(|file| file.id);
        }
        Ok(files)
    }

    fn add(&mut self, id: FileId) {
        let path = self.path(id);
        let host = self.hosts.entry(id.host_id).or_default();
        host.last_millis = host.last_millis.max(id.created_millis);
        let bytes = self.env.fs.file_len(&path);
        let opened = bytes.map_err(HintsError::from).and_then(|bytes| match bytes {
            0 => Ok(None),
            bytes => {
                HintsReader::open(self.env.fs.as_ref(), &path, bytes).map(|reader| Some((reader, bytes)))
            }
        });
        match opened {
            Ok(None) => {
                tracing::warn!(path = %path.display(), "an empty file of hints is removed");
                self.delete(id);
            }
            Ok(Some((reader, bytes))) if reader.id() == id => {
                host.closed.push_back(ClosedFile { id, bytes, position: None });
            }
            Ok(Some((reader, _))) => {
                let (path, header) = (path.display(), reader.id());
                tracing::error!(%path, %header, "a file of hints has the name of another; it is set aside");
                self.rename(id);
            }
            Err(error @ HintsError::Damaged { .. }) => {
                tracing::error!(%error, "a file of hints is set aside");
                self.rename(id);
            }
            Err(error) => {
                tracing::error!(%error, "a file of hints is left alone");
                host.left_alone.push(id);
            }
        }
    }

    /// Where a file lies.
    pub fn path(&self, id: FileId) -> PathBuf {
        self.dir.join(id.to_string())
    }

    /// The nodes that files are for.
    pub fn hosts(&self) -> Vec<Uuid> {
        self.hosts.keys().copied().collect()
    }

    /// What there is for a node.
    pub fn on_disk(&self, host_id: Uuid) -> OnDisk {
        let Some(host) = self.hosts.get(&host_id) else { return OnDisk::default() };
        let written = host.writer.as_ref().map(|writer| (writer.id(), writer.synced_bytes()));
        let all = host.closed.iter().map(|file| (file.id, file.bytes)).chain(written);
        let mut out = OnDisk { left_alone: host.left_alone.len(), ..OnDisk::default() };
        for (id, bytes) in all {
            out.files += 1;
            out.bytes += bytes;
            out.oldest_millis.get_or_insert(id.created_millis);
            out.newest_millis = Some(id.created_millis);
        }
        out
    }

    /// Appends entries for a node. Those that are on the device are taken off `entries`.
    pub fn append(&mut self, host_id: Uuid, entries: &mut &[u8], file_bytes_max: u64) -> io::Result<()> {
        while !entries.is_empty() {
            let host = self.hosts.entry(host_id).or_default();
            let mut writer = match host.writer.take() {
                Some(writer) => writer,
                None => {
                    let created_millis = self.env.clock.now_millis().max(host.last_millis.saturating_add(1));
                    host.last_millis = created_millis;
                    let id = FileId { host_id, created_millis, version: self.version };
                    HintsWriter::create(self.env.fs.as_ref(), &self.dir, id)?
                }
            };
            let room = file_bytes_max.saturating_sub(writer.synced_bytes());
            let (part, rest) = entries.split_at(len_to_fill(entries, room));
            if let Err(error) = writer.append(part) {
                let (id, bytes) = (writer.id(), writer.synced_bytes());
                writer.give_up();
                host.closed.push_back(ClosedFile { id, bytes, position: None });
                return Err(error);
            }
            *entries = rest;
            let is_full = writer.synced_bytes() >= file_bytes_max;
            host.writer = Some(writer);
            if is_full {
                self.close(host_id);
            }
        }
        Ok(())
    }

    /// Closes the file that is written for a node.
    pub fn close(&mut self, host_id: Uuid) {
        let Some(host) = self.hosts.get_mut(&host_id) else { return };
        let Some(writer) = host.writer.take() else { return };
        let (id, bytes) = (writer.id(), writer.synced_bytes());
        if let Err(error) = writer.close(self.env.fs.as_ref(), &self.dir) {
            tracing::warn!(%error, "a file of hints is left without its checksum");
        }
        host.closed.push_back(ClosedFile { id, bytes, position: None });
    }

    /// The oldest file for a node.
    pub fn first(&self, host_id: Uuid) -> Option<ClosedFile> {
        self.hosts.get(&host_id)?.closed.front().cloned()
    }

    /// Remembers what of a file was sent.
    pub fn mark(&mut self, id: FileId, position: Position) {
        let files = self.hosts.get_mut(&id.host_id).map(|host| host.closed.iter_mut());
        if let Some(file) = files.into_iter().flatten().find(|file| file.id == id) {
            file.position = Some(position);
        }
    }

    /// Takes a file off the list; whether it was on it.
    fn forget(&mut self, id: FileId) -> bool {
        let Some(host) = self.hosts.get_mut(&id.host_id) else { return false };
        let before = host.closed.len();
        host.closed.retain(|file| file.id != id);
        host.closed.len() < before
    }

    /// Removes a file that was closed.
    pub fn remove(&mut self, id: FileId) {
        if self.forget(id) {
            self.delete(id);
        }
    }

    fn delete(&self, id: FileId) {
        // A file that comes back after a loss of power is sent once more, which does no harm.
        let removed = self.env.fs.remove_file(&self.path(id));
        self.remove_checksum(id);
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(%error, "a file of hints cannot be removed: it will be sent again after a start");
        }
    }

    fn remove_checksum(&self, id: FileId) {
        // Files that were not closed have none.
        let _ = self.env.fs.remove_file(&self.dir.join(id.checksum_name()));
    }

    /// Gives a file, of which nothing more can be read, another name.
    pub fn set_aside(&mut self, id: FileId) {
        if self.forget(id) {
            self.rename(id);
        }
    }

    fn rename(&self, id: FileId) {
        let renamed = self.env.fs.rename(&self.path(id), &self.dir.join(id.damaged_name()));
        self.remove_checksum(id);
        if let Err(error) = renamed {
            tracing::error!(%error, "a damaged file of hints cannot be set aside");
        }
    }

    /// Takes no more notice of a file, which stays.
    pub fn leave_alone(&mut self, id: FileId) {
        self.forget(id);
        self.hosts.entry(id.host_id).or_default().left_alone.push(id);
    }

    /// Removes all that there is for a node.
    pub fn remove_host(&mut self, host_id: Uuid) {
        let Some(host) = self.hosts.get_mut(&host_id) else { return };
        let written = host.writer.take().map(|writer| writer.id());
        let left_alone = std::mem::take(&mut host.left_alone);
        let closed = std::mem::take(&mut host.closed).into_iter().map(|file| file.id);
        closed.chain(written).chain(left_alone).for_each(|id| self.delete(id));
    }
}

/// Bytes of the entries that fill `room`, the last of which may reach beyond it; one at least.
fn len_to_fill(entries: &[u8], room: u64) -> usize {
    let mut len = 0usize;
    loop {
        let Some(size) = entries.get(len..).and_then(|rest| rest.first_chunk::<4>()) else {
            return entries.len();
        };
        len += u32::from_be_bytes(*size) as usize + super::format::ENTRY_OVERHEAD_BYTES;
        if len as u64 >= room {
            return len.min(entries.len());
        }
    }
}
