//! What the kernel says a process has used: `/proc/PID/{stat,status,io}`, and the whole machine:
//! `/proc/stat`.
//!
//! Two [`Sample`]s, one at either end of the measured window, give what was [`Spent`]; what was spent in
//! several windows can be added up, and gives a [`Usage`]. CPU time comes in clock ticks (10 ms), so seconds
//! are needed for figures of one percent.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::Error;

/// Counters of a process at one moment; they only grow, except for memory.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    user_ticks: u64,
    system_ticks: u64,
    major_faults: u64,
    rss_kib: u64,
    rss_peak_kib: u64,
    read_syscalls: u64,
    read_syscall_bytes: u64,
    read_disk_bytes: u64,
    write_disk_bytes: u64,
}

/// Counters of the server, the client and the machine at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    at: Instant,
    server: Option<Process>,
    client: Process,
    busy_ticks: u64,
    steal_ticks: u64,
}

/// What was used in one window or several.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    window: Duration,
    server: Option<Process>,
    client: Process,
    busy_ticks: u64,
    steal_ticks: u64,
}

/// What a process used in a window.
#[derive(Debug, Clone, Serialize)]
pub struct ProcessUsage {
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// The part of `cpu_s` spent in the kernel.
    pub cpu_system_s: f64,
    /// CPU microseconds for each operation completed in the window.
    pub cpu_us_per_operation: f64,
    /// Resident memory at the end of the window.
    pub rss_bytes: u64,
    /// The most that was ever resident.
    pub rss_peak_bytes: u64,
    /// Calls of `read` and its kin; see `read_syscall_bytes`.
    pub read_syscalls: u64,
    /// Bytes from `read` and its kin: files, cached or not, and sockets only if they are read in this way.
    /// Memory-mapped reads do not show here.
    pub read_syscall_bytes: u64,
    /// Bytes that had to come from the disk.
    pub read_disk_bytes: u64,
    /// Bytes that were or will be written to the disk.
    pub write_disk_bytes: u64,
    /// Page faults that had to wait for the disk.
    pub major_faults: u64,
}

/// What a window cost.
#[derive(Debug, Clone, Serialize)]
pub struct Usage {
    /// The time between the samples.
    pub window_s: f64,
    /// The server.
    pub server: Option<ProcessUsage>,
    /// This process.
    pub client: ProcessUsage,
    /// CPU seconds of everybody else on the machine: the noise.
    pub others_cpu_s: f64,
    /// CPU seconds that the hypervisor gave to somebody else.
    pub steal_cpu_s: f64,
}

impl Sample {
    /// Reads the counters now, those of all processes of the server together.
    pub fn take(server_pids: &[u32]) -> Result<Self, Error> {
        let mut server = None;
        for pid in server_pids {
            let process = Process::read(&pid.to_string())?;
            server = Some(server.map_or(process, |others: Process| others.beside(&process)));
        }
        let client = Process::read("self")?;
        let (busy_ticks, steal_ticks) = machine(&text("/proc/stat")?);
        Ok(Self { at: Instant::now(), server, client, busy_ticks, steal_ticks })
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Self) -> Spent {
        Spent {
            window: self.at.duration_since(earlier.at),
            server: self.server.zip(earlier.server).map(|(now, then)| now.since(&then)),
            client: self.client.since(&earlier.client),
            busy_ticks: self.busy_ticks.saturating_sub(earlier.busy_ticks),
            steal_ticks: self.steal_ticks.saturating_sub(earlier.steal_ticks),
        }
    }
}

impl Spent {
    /// Adds what was used in a later window.
    pub fn add(&mut self, later: &Self) {
        self.window += later.window;
        self.server = match (self.server, later.server) {
            (Some(before), Some(more)) => Some(before.and(&more)),
            (before, more) => before.or(more),
        };
        self.client = self.client.and(&later.client);
        self.busy_ticks += later.busy_ticks;
        self.steal_ticks += later.steal_ticks;
    }

    /// The figures, for `operations` that completed meanwhile.
    pub fn usage(&self, operations: u64) -> Usage {
        let server = self.server.map(|server| server.usage(operations));
        let client = self.client.usage(operations);
        let ours = client.cpu_s + server.as_ref().map_or(0.0, |server| server.cpu_s);
        Usage {
            window_s: self.window.as_secs_f64(),
            server,
            client,
            others_cpu_s: (seconds(self.busy_ticks) - ours).max(0.0),
            steal_cpu_s: seconds(self.steal_ticks),
        }
    }
}

impl Process {
    fn read(pid: &str) -> Result<Self, Error> {
        let mut process = Self::default();
        process.parse_stat(&text(&format!("/proc/{pid}/stat"))?);
        process.parse_status(&text(&format!("/proc/{pid}/status"))?);
        process.parse_io(&text(&format!("/proc/{pid}/io"))?);
        Ok(process)
    }

    /// The process's name stands in brackets and may hold spaces and brackets itself.
    fn parse_stat(&mut self, text: &str) {
        let behind_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
        let field = |index: usize| fields.get(index).and_then(|field| field.parse().ok()).unwrap_or(0);
        // proc(5) counts from 1 and these begin with its third.
        self.major_faults = field(12 - 3);
        self.user_ticks = field(14 - 3);
        self.system_ticks = field(15 - 3);
    }

    fn parse_status(&mut self, text: &str) {
        self.rss_kib = value(text, "VmRSS:");
        self.rss_peak_kib = value(text, "VmHWM:");
    }

    fn parse_io(&mut self, text: &str) {
        self.read_syscall_bytes = value(text, "rchar:");
        self.read_syscalls = value(text, "syscr:");
        self.read_disk_bytes = value(text, "read_bytes:");
        self.write_disk_bytes = value(text, "write_bytes:");
    }

    /// What it used since `then`. Memory does not grow only: it is what it is now.
    fn since(&self, then: &Self) -> Self {
        Self {
            user_ticks: self.user_ticks.saturating_sub(then.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(then.system_ticks),
            major_faults: self.major_faults.saturating_sub(then.major_faults),
            read_syscalls: self.read_syscalls.saturating_sub(then.read_syscalls),
            read_syscall_bytes: self.read_syscall_bytes.saturating_sub(then.read_syscall_bytes),
            read_disk_bytes: self.read_disk_bytes.saturating_sub(then.read_disk_bytes),
            write_disk_bytes: self.write_disk_bytes.saturating_sub(then.write_disk_bytes),
            ..*self
        }
    }

    /// What it used in two windows, of which the other is the later one.
    fn and(&self, later: &Self) -> Self {
        Self {
            user_ticks: self.user_ticks + later.user_ticks,
            system_ticks: self.system_ticks + later.system_ticks,
            major_faults: self.major_faults + later.major_faults,
            read_syscalls: self.read_syscalls + later.read_syscalls,
            read_syscall_bytes: self.read_syscall_bytes + later.read_syscall_bytes,
            read_disk_bytes: self.read_disk_bytes + later.read_disk_bytes,
            write_disk_bytes: self.write_disk_bytes + later.write_disk_bytes,
            ..*later
        }
    }

    /// What two processes use together: memory, too.
    fn beside(&self, other: &Self) -> Self {
        Self {
            rss_kib: self.rss_kib + other.rss_kib,
            rss_peak_kib: self.rss_peak_kib + other.rss_peak_kib,
            ..self.and(other)
        }
    }

    fn usage(&self, operations: u64) -> ProcessUsage {
        let cpu_s = seconds(self.user_ticks + self.system_ticks);
        ProcessUsage {
            cpu_s,
            cpu_system_s: seconds(self.system_ticks),
            cpu_us_per_operation: cpu_s * 1e6 / operations.max(1) as f64,
            rss_bytes: self.rss_kib << 10,
            rss_peak_bytes: self.rss_peak_kib << 10,
            read_syscalls: self.read_syscalls,
            read_syscall_bytes: self.read_syscall_bytes,
            read_disk_bytes: self.read_disk_bytes,
            write_disk_bytes: self.write_disk_bytes,
            major_faults: self.major_faults,
        }
    }
}

/// Busy and stolen ticks of all processors: user, nice, system, irq and softirq; steal.
fn machine(text: &str) -> (u64, u64) {
    let first = text.lines().next().unwrap_or_default();
    let fields: Vec<u64> =
        first.split_ascii_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    let sum = |indexes: &[usize]| indexes.iter().filter_map(|&index| fields.get(index)).sum();
    (sum(&[0, 1, 2, 5, 6]), sum(&[7]))
}

/// The number behind a label at the start of a line.
fn value(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn text(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Proc { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_brackets_does_not_shift_the_fields() {
        let mut process = Process::default();
        process.parse_stat("42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14");
        assert_eq!((process.major_faults, process.user_ticks, process.system_ticks), (9, 111, 222));
    }

    #[test]
    fn labelled_numbers_are_found_at_the_start_of_a_line() {
        let text = "cancelled_write_bytes: 1\nwrite_bytes: 2\nread_bytes: 3\nrchar: 4\nsyscr: 5\n";
        let mut process = Process::default();
        process.parse_io(text);
        assert_eq!(process.write_disk_bytes, 2);
        assert_eq!(process.read_disk_bytes, 3);
        assert_eq!(process.read_syscall_bytes, 4);
        assert_eq!(process.read_syscalls, 5);
        process.parse_status("VmHWM:\t  300 kB\nVmRSS:\t  200 kB\n");
        assert_eq!((process.rss_kib, process.rss_peak_kib), (200, 300));
    }

    #[test]
    fn what_two_windows_used_is_added_up_but_for_memory() {
        let window = |n| {
            let server =
                Process { user_ticks: n, read_syscalls: 10 * n, rss_kib: 100 * n, ..Process::default() };
            Spent { window: Duration::from_secs(n), server: Some(server), busy_ticks: n, ..Spent::default() }
        };
        let mut spent = Spent::default();
        spent.add(&window(1));
        spent.add(&window(2));
        let usage = spent.usage(6);
        let server = usage.server.unwrap();
        assert_eq!((usage.window_s, server.read_syscalls, server.rss_bytes), (3.0, 30, 200 << 10));
        assert_eq!(server.cpu_s, seconds(3));
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(machine("cpu  1 2 4 1000 2000 8 16 32 0 0\ncpu0 9 9"), (31, 32));
    }

    #[test]
    fn a_busy_loop_shows_as_the_clients_own_time() {
        let before = Sample::take(&[]).unwrap();
        let mut spun = 0u64;
        while before.at.elapsed().as_millis() < 300 {
            spun = std::hint::black_box(spun + 1);
        }
        let usage = Sample::take(&[std::process::id()]).unwrap().since(&before).usage(10);
        assert!(usage.server.is_none(), "there was no sample of it before");
        assert!(usage.client.cpu_s > 0.0 && usage.client.rss_bytes > 0);
    }
}
