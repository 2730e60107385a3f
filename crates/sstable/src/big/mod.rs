//! The `big` layout: Data.db with Index.db and Summary.db beside it (docs/formats/sstable-big.md).
//!
//! | file | noun |
//! |---|---|
//! | `summary` | every 128th key of the index, in memory |
//! | `index` | an entry of Index.db and its promoted index, searched in place |
//! | `samples` | entries of Index.db that lookups begin at, between those of the summary |
//! | `directory` | where in a part of an interval of the summary a key's entry may be |
//! | `search` | which block of a promoted index to look at next |
//! | `fences` | between which blocks of a large one it lies |
//! | `lookup` | summary and index of an open SSTable; finding a partition |
//! | `writer` | the index of an SSTable that is being written |
//! | `builder` | an entry of it, with the promoted index |

pub(crate) mod builder;
pub(crate) mod directory;
pub(crate) mod fences;
pub(crate) mod index;
pub(crate) mod lookup;
pub(crate) mod samples;
mod search;
pub(crate) mod summary;
pub(crate) mod writer;
