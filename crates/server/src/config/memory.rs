//! How much memory the node may use: that of the machine, or of its control group when that is less.

use super::{ByteSize, Settings};
use env::fs::FileSystem;
use std::path::Path;

/// Taken when the machine does not say.
const MEMORY_BYTES_UNKNOWN: u64 = 2 << 30;

/// Bytes of memory that this process may use.
pub fn memory_bytes(fs: &dyn FileSystem) -> u64 {
    let read = |path: &str| read_unsized(fs, Path::new(path));
    let machine = read("/proc/meminfo").as_deref().and_then(meminfo_total);
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = limits.iter().find_map(|path| read(path)?.trim().parse::<u64>().ok());
    machine.into_iter().chain(group).min().unwrap_or(MEMORY_BYTES_UNKNOWN)
}

/// `MemTotal:       16384256 kB`
fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The first page of a file of the kernel, which says that it has no length.
fn read_unsized(fs: &dyn FileSystem, path: &Path) -> Option<String> {
    let mut page = [0; 4096];
    let got = fs.open_read(path).ok()?.read_at(0, &mut page).ok()?;
    Some(String::from_utf8_lossy(page.get(..got)?).into_owned())
}

/// Memory shares of what the node keeps, in bytes, when nobody sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// All that this process may use.
    pub total: u64,
    /// Memtables.
    pub memtables: u64,
    /// Pages of indexes and data.
    pub page_cache: u64,
    /// Prepared statements.
    pub prepared: u64,
    /// Requests in flight.
    pub requests: u64,
    /// Requests in flight of one address.
    pub requests_per_ip: u64,
    /// Answers that are made or not sent.
    pub answers: u64,
    /// Those of one address.
    pub answers_per_ip: u64,
}

impl MemoryShares {
    /// Shares of `total` bytes. They leave half of it to the operating system, whose own page cache serves
    /// flushes and compactions.
    pub fn of(total: u64) -> MemoryShares {
        let share = |part: u64, low: u64, high: u64| (total / part).clamp(low, high);
        MemoryShares {
            total,
            memtables: share(8, 16 << 20, 4 << 30),
            page_cache: share(4, 16 << 20, 32 << 30),
            prepared: share(256, 10 << 20, 256 << 20),
            requests: share(20, 16 << 20, 4 << 30),
            requests_per_ip: share(40, 8 << 20, 2 << 30),
            answers: share(20, 16 << 20, 4 << 30),
            answers_per_ip: share(40, 8 << 20, 2 << 30),
        }
    }

    /// Bytes of requests that may be in flight: of all clients, and of one address.
    pub fn requests_in_flight(&self, settings: &Settings) -> (u64, u64) {
        (
            settings.native_transport_max_request_data_in_flight.map_or(self.requests, |size| size.0),
            settings
                .native_transport_max_request_data_in_flight_per_ip
                .map_or(self.requests_per_ip, |size| size.0),
        )
    }
}

/// Refuses messages that are longer than what may be in flight: they could never be carried out.
pub(super) fn fits_messages(settings: &Settings, memory: &MemoryShares) -> Result<(), String> {
    let Some(longest) = settings.native_transport_max_message_size else { return Ok(()) };
    let (all, of_address) = memory.requests_in_flight(settings);
    let limits = [
        ("native_transport_max_request_data_in_flight", all),
        ("native_transport_max_request_data_in_flight_per_ip", of_address),
    ];
    match limits.into_iter().find(|(_, bytes)| longest.0 > *bytes) {
        Some((key, bytes)) => Err(format!(
            "native_transport_max_message_size must not exceed {key}, but is {longest} of {}",
            ByteSize(bytes)
        )),
        None => Ok(()),
    }
}

/// Refuses memory that the machine does not have: what is set aside for it would end the process.
pub(super) fn fits(settings: &Settings, memtable_bytes_max: u64, total: u64) -> Result<(), String> {
    let sizes = [
        ("memtable_heap_space and memtable_offheap_space", memtable_bytes_max),
        ("file_cache_size", settings.file_cache_size.map_or(0, |size| size.0)),
        ("row_cache_size", settings.row_cache_size.0),
        ("prepared_statements_cache_size", settings.prepared_statements_cache_size.map_or(0, |size| size.0)),
    ];
    match sizes.into_iter().find(|(_, bytes)| *bytes > total) {
        Some((key, bytes)) => Err(format!(
            "{key} must not exceed the {} of memory that this process may use, but is {}",
            ByteSize(total),
            ByteSize(bytes)
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::fs::memory::MemoryFileSystem;

    fn machine(files: &[(&str, &str)]) -> u64 {
        let fs = MemoryFileSystem::new();
        for (path, text) in files {
            fs.create_dir_all(env::fs::parent(Path::new(path))).unwrap();
            fs.write(Path::new(path), text.as_bytes()).unwrap();
        }
        memory_bytes(&fs)
    }

    #[test]
    fn the_smaller_of_machine_and_group_counts() {
        let meminfo = ("/proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\n");
        assert_eq!(machine(&[]), MEMORY_BYTES_UNKNOWN);
        assert_eq!(machine(&[meminfo]), 8 << 30);
        assert_eq!(machine(&[meminfo, ("/sys/fs/cgroup/memory.max", "max\n")]), 8 << 30);
        assert_eq!(machine(&[meminfo, ("/sys/fs/cgroup/memory.max", "1073741824\n")]), 1 << 30);
        let old = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(machine(&[meminfo, old]), 8 << 30);
    }

    #[test]
    fn shares_fit_into_small_machines() {
        for total in [512 << 20, 2 << 30, 24 << 30, 1 << 40] {
            let shares = MemoryShares::of(total);
            let sum =
                shares.memtables + shares.page_cache + shares.prepared + shares.requests + shares.answers;
            assert!(sum <= total / 2, "{total}: {shares:?}");
        }
    }
}
