//! What can go wrong in the engine: one enum for each kind of operation.

use partition::ReadError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// Why the engine did not open, or an operation on tables, schema or snapshots failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting cannot be.
    #[error("{0}")]
    Options(String),
    /// Another process uses the directory.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// An SSTable could not be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// An SSTable could not be opened.
    #[error("{0}")]
    Open(#[from] sstable::OpenError),
    /// An SSTable could not be written.
    #[error("{0}")]
    WriteSsTable(Arc<sstable::WriteError>),
    /// What a crash left could not be put in order.
    #[error("{0}")]
    Recover(Arc<sstable::txn_log::RecoverError>),
    /// A write that is part of the operation failed.
    #[error("{0}")]
    Write(#[from] WriteError),
    /// The commit log is damaged where data had been kept.
    #[error(
        "{} is corrupt at offset {offset}: {detail}; --ignore-replay-errors skips it, and what it held",
        path.display()
    )]
    CommitLog {
        /// The segment.
        path: PathBuf,
        /// Offset of the damaged section or entry.
        offset: u64,
        /// What was expected and what was found.
        detail: String,
    },
    /// The directory is that of a Cassandra whose system tables are not known here.
    #[error(
        "the directory is of Cassandra {0}; those of 4.0, 4.1 and 5.0 are opened in place, others have to be upgraded to one \
         of them by Cassandra first"
    )]
    Release(String),
    /// What hangs by the table would not follow.
    #[error("{0}")]
    NotWritable(String),
    /// The commit log has writes to a table whose views Cassandra had not brought up to date.
    #[error(
        "the commit log holds writes to {keyspace}.{table}, which has materialized views: Ilion cannot bring these up to \
         date; start Cassandra on the directory once more and drain it"
    )]
    UndrainedViews {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// The tables of system_schema do not hold a schema.
    #[error("the stored schema is damaged: {0}")]
    Schema(String),
    /// A change of the schema would not outlive a restart as it is, and is not made.
    #[error("the schema cannot be stored: {0}")]
    Unstorable(String),
    /// Another node has changed the schema since the change was made of it.
    #[error("the schema has changed meanwhile")]
    SchemaMoved,
    /// A table of the stored schema is of a kind that is not read here.
    #[error(
        "table {keyspace}.{table} is a super column family, which is not supported; ALTER TABLE {keyspace}.{table} DROP \
         COMPACT STORAGE on Cassandra 3.11 first"
    )]
    SuperColumns {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// A column whose name is no text: Thrift named the columns of some tables by numbers and the like.
    #[error(
        "table {keyspace}.{table} has the column {column}, whose name is stored as other bytes: this is not supported"
    )]
    ColumnName {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
        /// Column, as the schema shows it.
        column: String,
    },
    /// A transaction on the table's files failed in a way that only the next start can tell whether it
    /// counts.
    #[error(
        "{keyspace}.{table} is neither compacted nor truncated until the node was started again: a transaction log could not be written"
    )]
    InDoubt {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// The device has no room for what a compaction would write.
    #[error(
        "Not enough space for compaction of {keyspace}.{table}, estimated sstables = {sstables}, expected write size = \
         {expected_bytes}; {room_bytes} bytes may be used (min_free_space_per_drive, \
         max_space_usable_for_compactions_in_percentage)"
    )]
    NoRoom {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
        /// SSTables that were to be compacted.
        sstables: usize,
        /// Their size on disk.
        expected_bytes: u64,
        /// Bytes that compactions may still write there.
        room_bytes: u64,
    },
    /// There is no such table.
    #[error("unknown keyspace/cf pair ({keyspace}.{table})")]
    UnknownTable {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// There is no such keyspace.
    #[error("Keyspace {0} does not exist")]
    UnknownKeyspace(String),
    /// A snapshot of this name is there already.
    #[error("Snapshot {0} already exists.")]
    SnapshotExists(String),
    /// It would not be a directory among the snapshots of a table, but that one, another place or none.
    #[error("{name:?} cannot be the name of a snapshot: {reason}")]
    SnapshotName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A directory to import from is not there, or cannot be listed.
    #[error("Directory {} does not exist", .0.display())]
    NoDirectory(PathBuf),
    /// SSTables that were put into a table's directory are not those of the table, or it was not found out
    /// whether they are damaged.
    #[error("{sstable}: {reason}")]
    Foreign {
        /// The SSTable.
        sstable: String,
        /// Why it does not become part of the table.
        reason: String,
    },
    /// The engine was drained or closed.
    #[error("the node is drained")]
    Drained,
}

impl From<io::Error> for EngineError {
    fn from(error: io::Error) -> Self {
        EngineError::Io(Arc::new(error))
    }
}

impl From<sstable::WriteError> for EngineError {
    fn from(error: sstable::WriteError) -> Self {
        EngineError::WriteSsTable(Arc::new(error))
    }
}

impl From<sstable::txn_log::RecoverError> for EngineError {
    fn from(error: sstable::txn_log::RecoverError) -> Self {
        EngineError::Recover(Arc::new(error))
    }
}

/// Why a write was not kept. Nothing was acknowledged; a reader may still see what the commit log failed to
/// sync.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// Memtables are full and flushes do not keep up.
    #[error("memtable memory is full: {used_bytes} of {limit_bytes} bytes, and no flush freed some in time")]
    Overloaded {
        /// Bytes in use.
        used_bytes: u64,
        /// Bytes allowed.
        limit_bytes: u64,
    },
    /// The write would have to wait for memtable memory and the caller must not block.
    #[error("the write would have to wait for memtable memory")]
    WouldBlock,
    /// The commit log could not take the write or make it durable.
    #[error("commit log: {0}")]
    CommitLog(Arc<io::Error>),
    /// The log was stopped by an earlier failure.
    #[error("commit log is stopped after a failure: {0}")]
    CommitLogStopped(Arc<io::Error>),
    /// The mutation is larger than any may be ([`crate::EngineOptions::mutation_bytes_max`]).
    #[error("Rejected an oversized mutation ({bytes}/{limit_bytes}) for keyspace: {keyspace}")]
    MutationTooLarge {
        /// Serialized size.
        bytes: u64,
        /// Largest allowed.
        limit_bytes: u64,
        /// Keyspace of the mutation.
        keyspace: String,
    },
    /// A table of the mutation does not exist any more.
    #[error("table {0} does not exist")]
    UnknownTable(Uuid),
    /// A value cannot be stored: it does not have the length of its type, say.
    #[error("{0}")]
    Invalid(#[from] partition::codec::EncodeError),
    /// The engine was drained or closed.
    #[error("the node is drained")]
    Drained,
}
