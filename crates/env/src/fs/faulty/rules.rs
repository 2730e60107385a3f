//! Which calls fail, and how.

use std::io;
use std::path::Path;

/// A call of a file system or of one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `create_dir_all`.
    CreateDir,
    /// `read_dir`.
    ReadDir,
    /// `open_read`, `open_rw`, and `open_append` of a file that exists.
    Open,
    /// `create`, `create_new`, and `open_append` of a file that does not exist.
    Create,
    /// `rename`; its path is the old name.
    Rename,
    /// `remove_file`, `remove_dir` and `remove_dir_all`.
    Remove,
    /// `hard_link`; its path is the new name.
    Link,
    /// `sync_dir`.
    SyncDir,
    /// `lock_exclusive`.
    Lock,
    /// `read_at` of a file.
    Read,
    /// `write_all` and `write_at` of a file.
    Write,
    /// `flush` of a file.
    Flush,
    /// `sync_data` of a file, by its writer or by a syncer.
    Sync,
    /// `truncate` of a file.
    Truncate,
    /// `allocate` of a file.
    Allocate,
}

impl Op {
    /// The word for the call in an error message.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::CreateDir => "create directory",
            Self::ReadDir => "list",
            Self::Open => "open",
            Self::Create => "create",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Link => "link",
            Self::SyncDir => "sync directory",
            Self::Lock => "lock",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Sync => "sync",
            Self::Truncate => "truncate",
            Self::Allocate => "allocate",
        }
    }

    /// Whether the call changes what the device holds.
    fn changes(self) -> bool {
        !matches!(self, Self::ReadDir | Self::Open | Self::Lock | Self::Read)
    }
}

/// The error that a struck call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Device,
    NoSpace,
}

impl FaultKind {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Device => io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()),
            Self::NoSpace => io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strikes {
    One(Op),
    Changes,
    All,
}

/// A rule: which calls fail, and how. Unless told otherwise it fails every matching call with EIO.
///
/// ```
/// use env::fs::faulty::{Fault, Op};
/// // The third sync of a commit log segment finds the disk full; later ones work.
/// let fault = Fault::on(Op::Sync).path("commitlog/").nth(3).no_space();
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    strikes: Strikes,
    path_parts: Vec<String>,
    skip: u64,
    times: u64,
    kind: FaultKind,
    short: usize,
    after_effect: bool,
}

impl Fault {
    fn new(strikes: Strikes) -> Self {
        Self {
            strikes,
            path_parts: Vec::new(),
            skip: 0,
            times: u64::MAX,
            kind: FaultKind::Device,
            short: 0,
            after_effect: false,
        }
    }

    /// Strikes one kind of call.
    pub fn on(op: Op) -> Self {
        Self::new(Strikes::One(op))
    }

    /// Strikes every call that changes the device: with [`Fault::after`], a disk that dies at a chosen
    /// moment.
    pub fn on_any_change() -> Self {
        Self::new(Strikes::Changes)
    }

    /// Strikes every call, reads included.
    pub fn on_any() -> Self {
        Self::new(Strikes::All)
    }

    /// Only paths that contain `part`; said again, those that contain both.
    pub fn path(mut self, part: &str) -> Self {
        self.path_parts.push(part.to_owned());
        self
    }

    /// Lets the first `calls` matching calls pass and fails those that follow.
    pub fn after(self, calls: u64) -> Self {
        Self { skip: calls, ..self }
    }

    /// Fails at most `calls` calls.
    pub fn times(self, calls: u64) -> Self {
        Self { times: calls, ..self }
    }

    /// Fails none: the rule only counts, see [`FaultyFileSystem::seen`](super::FaultyFileSystem::seen).
    pub fn never(self) -> Self {
        self.times(0)
    }

    /// Fails the `n`th matching call, counted from 1, and no other.
    pub fn nth(self, n: u64) -> Self {
        self.after(n.saturating_sub(1)).times(1)
    }

    /// The error is `StorageFull` (ENOSPC) instead of EIO.
    pub fn no_space(self) -> Self {
        Self { kind: FaultKind::NoSpace, ..self }
    }

    /// A struck write leaves its first `bytes` bytes before it fails.
    pub fn short_write(self, bytes: usize) -> Self {
        Self { short: bytes, ..self }
    }

    /// A struck call does its work and then reports the error all the same.
    pub fn after_effect(self) -> Self {
        Self { after_effect: true, ..self }
    }

    fn matches(&self, op: Op, path: &Path) -> bool {
        let op_matches = match self.strikes {
            Strikes::One(struck) => struck == op,
            Strikes::Changes => op.changes(),
            Strikes::All => true,
        };
        let path = path.to_string_lossy();
        op_matches && self.path_parts.iter().all(|part| path.contains(part))
    }
}

/// Names a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(usize);

/// What a rule has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Calls that matched.
    pub calls: u64,
    /// Bytes that they wanted to read or to write.
    pub bytes: u64,
}

/// What becomes of a call.
pub(super) enum Verdict {
    Go,
    Fail { kind: FaultKind, after_effect: bool, short: usize },
}

#[derive(Debug)]
struct Rule {
    id: FaultId,
    fault: Fault,
    active: bool,
    seen: Seen,
    struck: u64,
}

#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    added: usize,
}

impl Rules {
    pub(super) fn add(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.added);
        self.added += 1;
        self.rules.push(Rule { id, fault, active: true, seen: Seen::default(), struck: 0 });
        id
    }

    pub(super) fn remove(&mut self, id: FaultId) {
        self.rules.iter_mut().filter(|rule| rule.id == id).for_each(|rule| rule.active = false);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn struck(&self, id: FaultId) -> u64 {
        self.rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.struck)
    }

    pub(super) fn seen(&self, id: FaultId) -> Seen {
        self.rules.iter().find(|rule| rule.id == id).map_or_else(Seen::default, |rule| rule.seen)
    }

    /// Counts the call, of so many bytes, on every rule it matches; the first rule that is due decides.
    pub(super) fn judge(&mut self, op: Op, path: &Path, bytes: usize) -> Verdict {
        let mut verdict = Verdict::Go;
        for rule in &mut self.rules {
            if !rule.active || !rule.fault.matches(op, path) {
                continue;
            }
            rule.seen.calls += 1;
            rule.seen.bytes += bytes as u64;
            let due = rule.seen.calls > rule.fault.skip && rule.struck < rule.fault.times;
            if due && matches!(verdict, Verdict::Go) {
                rule.struck += 1;
                let Fault { kind, after_effect, short, .. } = rule.fault;
                verdict = Verdict::Fail { kind, after_effect, short };
            }
        }
        verdict
    }
}
