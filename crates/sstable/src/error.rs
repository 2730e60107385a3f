//! What can go wrong when an SSTable is opened or written.

use crate::descriptor::{Component, Descriptor, SUPPORTED};
use bytes::Bytes;
use env::fs::FileSystem;
use partition::ReadError;
use partition::codec::{DecodeError, EncodeError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why an SSTable cannot be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The files are of a version that this node does not read.
    #[error("{0} is of a version that is not supported; {SUPPORTED} are")]
    UnsupportedVersion(String),
    /// A component without which nothing can be read is not there.
    #[error("{table} has no {component}")]
    MissingComponent {
        /// The SSTable.
        table: String,
        /// The component.
        component: Component,
    },
    /// A component is damaged or cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why an SSTable cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A row holds what cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Fragments came in an order that breaks the grammar of partition streams.
    #[error("fragments out of order: {0}")]
    OutOfOrder(&'static str),
    /// The version of the files is one that can only be read.
    #[error("SSTables of version {0} are not written")]
    Version(String),
    /// The compression options name no compressor, or one with settings it does not have.
    #[error("cannot compress: {0}")]
    Compression(String),
    /// Nothing was appended, so there is nothing to finish.
    #[error("an SSTable without partitions cannot be written")]
    Empty,
}

/// A file as it appears in errors.
pub(crate) fn file_name(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

/// The error for a component that cannot be decoded.
pub(crate) fn corrupt(path: &Path, error: DecodeError) -> ReadError {
    ReadError::corrupt(&file_name(path), error.offset, error.detail)
}

/// The whole of a component.
pub(crate) fn read_component(
    fs: &dyn FileSystem,
    descriptor: &Descriptor,
    component: Component,
) -> Result<Bytes, OpenError> {
    match fs.read(&descriptor.path(component)) {
        Ok(bytes) => Ok(bytes.into()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::MissingComponent { table: descriptor.to_string(), component })
        }
        Err(e) => Err(ReadError::from(e).into()),
    }
}

/// The whole of a component; `None` when it is not there.
pub(crate) fn read_optional(
    fs: &dyn FileSystem,
    descriptor: &Descriptor,
    component: Component,
) -> Result<Option<Bytes>, OpenError> {
    match read_component(fs, descriptor, component) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(OpenError::MissingComponent { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}
