//! The ids of prepared statements and of their results' metadata. Clients prepare on one node and execute on
//! another, so every node of a ring computes the same ones.

use md5::{Digest, Md5};

/// An MD5, as the ids are.
pub type Id = [u8; 16];

/// The id of a prepared statement: the MD5 of its text, or, where an unqualified name in it was resolved by
/// the session's keyspace, of keyspace and text joined.
pub fn prepared_id(keyspace: Option<&str>, statement: &str) -> Id {
    let mut digest = Md5::new();
    digest.update(keyspace.unwrap_or_default().as_bytes());
    digest.update(statement.as_bytes());
    digest.finalize().into()
}

/// The id of a result's metadata, from the name and the class string of each column.
pub fn result_metadata_id<N: AsRef<str>, C: AsRef<str>>(columns: impl IntoIterator<Item = (N, C)>) -> Id {
    let mut digest = Md5::new();
    for (name, class) in columns {
        digest.update(name.as_ref().as_bytes());
        digest.update([0]);
        digest.update(class.as_ref().as_bytes());
        digest.update([0, 0]);
    }
    digest.finalize().into()
}
