//! The `bti` layout: Data.db with the tries Partitions.db and Rows.db beside it
//! (docs/formats/sstable-bti.md).
//!
//! | file | noun |
//! |---|---|
//! | `node` | a node of a trie, in place |
//! | `trie` | a place in a trie: searching, and going on from there |
//! | `partitions` | Partitions.db: finding partitions |
//! | `rows` | Rows.db: finding blocks of rows in a partition |
//! | `packer` | writing a trie, page by page |
//! | `writer` | the index of an SSTable that is being written |

pub(crate) mod node;
pub(crate) mod packer;
pub(crate) mod partitions;
pub(crate) mod rows;
pub(crate) mod trie;
pub(crate) mod writer;
