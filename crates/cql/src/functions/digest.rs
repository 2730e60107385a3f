//! The digests of `mask_hash`, under the names that Java has for them.

use bytes::Bytes;
use md2::Md2;
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

/// What a value is digested with.
pub(super) struct Algorithm {
    digest: fn(&[u8]) -> Bytes,
}

impl Algorithm {
    /// What `mask_hash` uses when it is not told.
    pub(super) const DEFAULT: Algorithm = Algorithm::new::<Sha256>();

    const fn new<D: Digest>() -> Algorithm {
        Algorithm { digest: |value| Bytes::copy_from_slice(&D::digest(value)) }
    }

    /// The algorithm of a name or an object identifier, whatever its case: those of the provider SUN of
    /// Java 17.
    pub(super) fn of(name: &str) -> Option<Algorithm> {
        let name = name.to_ascii_uppercase();
        Some(match name.strip_prefix("OID.").filter(|id| id.contains('.')).unwrap_or(&name) {
            "MD2" => Algorithm::new::<Md2>(),
            "MD5" => Algorithm::new::<Md5>(),
            "SHA" | "SHA1" | "SHA-1" | "1.3.14.3.2.26" => Algorithm::new::<Sha1>(),
            "SHA224" | "SHA-224" | "2.16.840.1.101.3.4.2.4" => Algorithm::new::<Sha224>(),
            "SHA256" | "SHA-256" | "2.16.840.1.101.3.4.2.1" => Algorithm::new::<Sha256>(),
            "SHA384" | "SHA-384" | "2.16.840.1.101.3.4.2.2" => Algorithm::new::<Sha384>(),
            "SHA512" | "SHA-512" | "2.16.840.1.101.3.4.2.3" => Algorithm::new::<Sha512>(),
            "SHA512/224" | "SHA-512/224" | "2.16.840.1.101.3.4.2.5" => Algorithm::new::<Sha512_224>(),
            "SHA512/256" | "SHA-512/256" | "2.16.840.1.101.3.4.2.6" => Algorithm::new::<Sha512_256>(),
            "SHA3-224" | "2.16.840.1.101.3.4.2.7" => Algorithm::new::<Sha3_224>(),
            "SHA3-256" | "2.16.840.1.101.3.4.2.8" => Algorithm::new::<Sha3_256>(),
            "SHA3-384" | "2.16.840.1.101.3.4.2.9" => Algorithm::new::<Sha3_384>(),
            "SHA3-512" | "2.16.840.1.101.3.4.2.10" => Algorithm::new::<Sha3_512>(),
            _ => return None,
        })
    }

    /// The digest of a value.
    pub(super) fn digest(&self, value: &[u8]) -> Bytes {
        (self.digest)(value)
    }
}

#[cfg(test)]
mod tests {
    use super::Algorithm;
    use std::fmt::Write;

    fn digest_of_abc(name: &str) -> Option<String> {
        let digest = Algorithm::of(name)?.digest(b"abc");
        Some(digest.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        }))
    }

    /// What `MessageDigest` of Java 17 makes of "abc".
    #[test]
    fn digests_are_those_of_java() {
        let expected = [
            ("MD2", "da853b0d3f88d99b30283a69e6ded6bb"),
            ("MD5", "900150983cd24fb0d6963f7d28e17f72"),
            ("SHA-1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("SHA-224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
            ("SHA-256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "SHA-384",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                "SHA-512",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd\
                 454d4423643ce80e2a9ac94fa54ca49f",
            ),
            ("SHA-512/224", "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
            ("SHA-512/256", "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
            ("SHA3-224", "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
            ("SHA3-256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
            (
                "SHA3-384",
                "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
            ),
            (
                "SHA3-512",
                "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e39340\
                 57340b4cf408d5a56592f8274eec53f0",
            ),
        ];
        for (name, digest) in expected {
            assert_eq!(digest_of_abc(name).as_deref(), Some(digest), "{name}");
        }
    }

    #[test]
    fn an_algorithm_has_several_names() {
        let same = [
            &["SHA-1", "sha1", "SHA", "1.3.14.3.2.26", "OID.1.3.14.3.2.26"][..],
            &["SHA-224", "Sha224", "oid.2.16.840.1.101.3.4.2.4"],
            &["SHA-512/224", "SHA512/224", "2.16.840.1.101.3.4.2.5"],
            &["SHA3-512", "sha3-512", "2.16.840.1.101.3.4.2.10"],
        ];
        for names in same {
            let digests: Vec<_> = names.iter().map(|name| digest_of_abc(name)).collect();
            assert!(digests.iter().all(|digest| digest.is_some() && *digest == digests[0]), "{names:?}");
        }
        for unknown in ["", "MD4", "SHA-3", "SHA3-1", "SHA-512/225", "OID.", "OID.MD5", "1.2.840.113549.2.5"]
        {
            assert_eq!(digest_of_abc(unknown), None, "{unknown}");
        }
    }
}
