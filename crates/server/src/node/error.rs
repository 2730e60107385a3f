//! Why a node does not start, or what ends it.

use crate::system::local::IdentityError;
use crate::tls::TlsError;
use engine::EngineError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the node did not start, or what ended it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process has the data directory.
    #[error("another node is running on this data directory: {} is locked by it", .0.display())]
    Locked(PathBuf),
    /// The engine did not open.
    #[error("the data cannot be opened: {0}")]
    Engine(#[from] EngineError),
    /// The data is another node's.
    #[error("{0}")]
    Identity(#[from] IdentityError),
    /// TLS cannot be had as the configuration wants it.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The admin API may not listen where the configuration wants it.
    #[error("{0}")]
    Admin(String),
    /// A port cannot be had.
    #[error("cannot listen on {address} for {purpose}: {cause}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What for.
        purpose: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// The Unix socket cannot be had.
    #[error("cannot listen on {} for the admin API: {cause}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The node cannot be a member of its ring.
    #[error("{0}")]
    Membership(#[from] crate::membership::MembershipError),
    /// The operating system refused something else.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Unfinished batches, sample data or a log of requests could not be written.
    #[error("{what}: {cause}")]
    Prepare {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        cause: String,
    },
    /// A failure of the disk after which the configuration wants the process to end.
    #[error("the commit log failed and commit_failure_policy is die: {0}")]
    CommitFailure(String),
    /// A damaged file or a failing disk after which the configuration wants the process to end.
    #[error("disk_failure_policy is die: {0}")]
    DiskFailure(String),
}
