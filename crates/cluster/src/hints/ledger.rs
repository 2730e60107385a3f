//! What is known of the hints of each node, and those that are not written yet.

use super::files::OnDisk;
use super::settings::HintsSettings;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Why a hint is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The node has been down for too long.
    PastWindow,
    /// There are enough for it.
    HostIsFull,
    /// There is no room in memory.
    BufferIsFull,
    /// It cannot be encoded.
    Unencodable,
}

/// What is known of one node.
#[derive(Debug, Default)]
struct HostLedger {
    /// Whole entries.
    buffered: Vec<u8>,
    /// When the first of them came, in milliseconds since the epoch.
    buffered_millis: Option<i64>,
    on_disk: OnDisk,
    /// When it was found to be down, by the clock that never goes back.
    down_nanos: Option<u64>,
}

/// What is known of the hints of each node.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    hosts: BTreeMap<Uuid, HostLedger>,
    /// Bytes in memory, those that are being written included.
    held_bytes: usize,
}

/// The time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub millis: i64,
    pub nanos: u64,
}

impl Ledger {
    /// Whether a hint for this node may be kept.
    pub fn admit(&self, host_id: Uuid, now: Now, settings: &HintsSettings) -> Result<(), Refused> {
        let Some(host) = self.hosts.get(&host_id) else { return Ok(()) };
        let is_over = |nanos: u64| Duration::from_nanos(now.nanos.saturating_sub(nanos)) > settings.window;
        if host.down_nanos.is_some_and(is_over) {
            return Err(Refused::PastWindow);
        }
        let window_millis = i64::try_from(settings.window.as_millis()).unwrap_or(i64::MAX);
        let oldest = [host.on_disk.oldest_millis, host.buffered_millis].into_iter().flatten().min();
        let is_over = |oldest: i64| oldest.saturating_add(window_millis) < now.millis;
        if settings.is_window_persistent && oldest.is_some_and(is_over) {
            return Err(Refused::PastWindow);
        }
        let bytes = host.on_disk.bytes.saturating_add(host.buffered.len() as u64);
        if settings.host_bytes_max > 0 && bytes > settings.host_bytes_max {
            return Err(Refused::HostIsFull);
        }
        Ok(())
    }

    /// Keeps an entry for this node in memory, where `max` bytes may be.
    pub fn push(&mut self, host_id: Uuid, entry: &[u8], now: Now, max: usize) -> Result<(), Refused> {
        if self.held_bytes.saturating_add(entry.len()) > max {
            return Err(Refused::BufferIsFull);
        }
        let host = self.hosts.entry(host_id).or_default();
        host.buffered.extend_from_slice(entry);
        host.buffered_millis.get_or_insert(now.millis);
        self.held_bytes += entry.len();
        Ok(())
    }

    /// Bytes in memory.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The nodes that something is known of.
    pub fn hosts(&self) -> Vec<Uuid> {
        self.hosts.keys().copied().collect()
    }

    /// The entries for a node, to be written. They count as held until [`Ledger::written`].
    pub fn take(&mut self, host_id: Uuid) -> Vec<u8> {
        self.hosts.get_mut(&host_id).map(|host| std::mem::take(&mut host.buffered)).unwrap_or_default()
    }

    /// Entries that were taken are written but for `left`.
    pub fn written(&mut self, host_id: Uuid, taken_bytes: usize, left: &[u8], on_disk: OnDisk) {
        let host = self.hosts.entry(host_id).or_default();
        host.buffered.splice(..0, left.iter().copied());
        host.buffered_millis = host.buffered_millis.filter(|_| !host.buffered.is_empty());
        host.on_disk = on_disk;
        self.held_bytes = self.held_bytes.saturating_sub(taken_bytes.saturating_sub(left.len()));
    }

    /// What is on the disk for a node has changed.
    pub fn set_on_disk(&mut self, host_id: Uuid, on_disk: OnDisk) {
        self.hosts.entry(host_id).or_default().on_disk = on_disk;
    }

    /// Drops the entries for a node.
    pub fn clear(&mut self, host_id: Uuid) {
        if let Some(host) = self.hosts.get_mut(&host_id) {
            self.held_bytes = self.held_bytes.saturating_sub(host.buffered.len());
            (host.buffered, host.buffered_millis) = (Vec::new(), None);
        }
    }

    /// Forgets a node.
    pub fn remove(&mut self, host_id: Uuid) {
        self.clear(host_id);
        self.hosts.remove(&host_id);
    }

    /// A node is down, since now if it was not before.
    pub fn set_down(&mut self, host_id: Uuid, now: Now) {
        self.hosts.entry(host_id).or_default().down_nanos.get_or_insert(now.nanos);
    }

    /// A node is back.
    pub fn set_up(&mut self, host_id: Uuid) {
        if let Some(host) = self.hosts.get_mut(&host_id) {
            host.down_nanos = None;
        }
    }

    /// The nodes for which there is something to send.
    pub fn waiting(&self) -> Vec<Uuid> {
        let has_hints = |host: &HostLedger| host.on_disk.files > 0 || !host.buffered.is_empty();
        self.hosts.iter().filter(|(_, host)| has_hints(host)).map(|(id, _)| *id).collect()
    }

    /// What is pending for each node: on disk, and bytes in memory.
    pub fn pending(&self) -> Vec<(Uuid, OnDisk, u64)> {
        let of = |(id, host): (&Uuid, &HostLedger)| (*id, host.on_disk, host.buffered.len() as u64);
        let is_some = |(_, on_disk, buffered): &(Uuid, OnDisk, u64)| {
            on_disk.files > 0 || on_disk.left_alone > 0 || *buffered > 0
        };
        self.hosts.iter().map(of).filter(is_some).collect()
    }
}
