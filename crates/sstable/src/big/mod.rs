//! The `big` layout: Data.db with Index.db and Summary.db beside it (docs/formats/sstable-nb.md).
//!
//! | file | noun |
//! |---|---|
//! | `summary` | every 128th key of the index, in memory |
//! | `index` | an entry of Index.db and its promoted index, searched in place |
//! | `key_filter` | the bloom filter, and how far it is believed |
//! | `writer` | fragments to files |
//! | `table` | files to an open SSTable; finding a partition |
//! | `stream` | partitions as a stream of fragments, clipped to slices |
//! | `forward`, `reverse` | the rows and markers of one partition in either direction |

pub(crate) mod forward;
pub(crate) mod index;
mod key_filter;
pub(crate) mod reverse;
pub(crate) mod stream;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod writer;
