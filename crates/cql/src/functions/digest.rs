//! The digests of `mask_hash`, under their names in Java. Those that the node's cryptography lacks (MD2,
//! SHA-224, SHA-512/224, SHA-3) are not found.

use bytes::Bytes;
use md5::{Digest, Md5};
use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, SHA512_256};

/// What a value is digested with.
pub(super) enum Algorithm {
    Md5,
    Sha(&'static digest::Algorithm),
}

impl Algorithm {
    /// What `mask_hash` uses when it is not told.
    pub(super) const DEFAULT: Algorithm = Algorithm::Sha(&SHA256);

    /// The algorithm of a name, whatever its case.
    pub(super) fn of(name: &str) -> Option<Algorithm> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MD5" => Algorithm::Md5,
            "SHA" | "SHA1" | "SHA-1" => Algorithm::Sha(&SHA1_FOR_LEGACY_USE_ONLY),
            "SHA256" | "SHA-256" => Algorithm::Sha(&SHA256),
            "SHA384" | "SHA-384" => Algorithm::Sha(&SHA384),
            "SHA512" | "SHA-512" => Algorithm::Sha(&SHA512),
            "SHA512/256" | "SHA-512/256" => Algorithm::Sha(&SHA512_256),
            _ => return None,
        })
    }

    /// The digest of a value.
    pub(super) fn digest(&self, value: &[u8]) -> Bytes {
        match self {
            Algorithm::Md5 => Bytes::copy_from_slice(&Md5::digest(value)),
            Algorithm::Sha(algorithm) => Bytes::copy_from_slice(digest::digest(algorithm, value).as_ref()),
        }
    }
}
