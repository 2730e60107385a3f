//! Stores that openssl and keytool made (`testdata/make.sh`), whole and damaged.

use super::*;

const PASSWORD: Option<&str> = Some("secret1");

macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../testdata/", $name)).as_slice())
    };
}

/// Every store with the node's key, its certificate and that of the CA.
const KEYS: [(&str, &[u8]); 11] = [
    file!("node.pem"),
    file!("node-aes.pem"),
    file!("node-aes128.pem"),
    file!("node-3des.pem"),
    file!("node-pbe1.pem"),
    file!("node-openssl.p12"),
    file!("node-old.p12"),
    file!("node-plain-certificates.p12"),
    file!("node-java.p12"),
    file!("node.jks"),
    file!("node-sec1.pem"),
];
/// Every store of certificates.
const TRUST: [(&str, &[u8], usize); 4] = [
    ("trust.jks", file!("trust.jks").1, 2),
    ("trust-java.p12", file!("trust-java.p12").1, 2),
    ("trust-openssl.p12", file!("trust-openssl.p12").1, 1),
    ("ca.crt", file!("ca.crt").1, 1),
];

#[test]
fn every_form_has_the_same_key_and_chain() {
    let expected = read(KEYS[0].1, None).unwrap().identities.remove(0);
    for (name, bytes) in KEYS {
        let mut contents = read(bytes, PASSWORD).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(contents.identities.len(), 1, "{name}");
        assert!(contents.trusted.is_empty(), "{name}");
        let identity = contents.identities.remove(0);
        assert_eq!(identity.chain, expected.chain, "{name}");
        let is_sec1 = matches!(identity.key, PrivateKeyDer::Sec1(_));
        assert!(is_sec1 || identity.key == expected.key, "{name}");
    }
    let (name, bytes) = file!("rsa-pkcs1.pem");
    let rsa = read(bytes, None).unwrap().identities.remove(0);
    assert!(matches!(rsa.key, PrivateKeyDer::Pkcs1(_)), "{name}");
}

#[test]
fn every_form_has_the_same_trusted_certificates() {
    let ca = read(file!("ca.crt").1, None).unwrap().trusted.remove(0);
    for (name, bytes, count) in TRUST {
        let trusted = read(bytes, PASSWORD).unwrap_or_else(|error| panic!("{name}: {error}")).into_trusted();
        assert_eq!(trusted.len(), count, "{name}");
        assert!(trusted.contains(&ca), "{name}");
    }
    // As in Java, who owns a key in a trust store is trusted, too.
    assert_eq!(read(file!("node.jks").1, PASSWORD).unwrap().into_trusted().len(), 1);
}

#[test]
fn a_wrong_password_is_told_from_none() {
    for (name, bytes) in KEYS {
        if matches!(name, "node.pem" | "node-sec1.pem") {
            continue;
        }
        let wrong = read(bytes, Some("wrong")).map(|_| ()).unwrap_err();
        assert!(matches!(wrong, StoreError::WrongPassword | StoreError::WrongKeyPassword), "{name}: {wrong}");
        let none = read(bytes, None).map(|_| ()).unwrap_err();
        assert!(matches!(none, StoreError::NoPassword), "{name}: {none}");
    }
    // Certificates of JKS are not encrypted.
    assert_eq!(read(file!("trust.jks").1, None).unwrap().trusted.len(), 2);
}

#[test]
fn what_is_not_supported_is_named() {
    for ((name, bytes), words) in
        [(file!("node-scrypt.pem"), "1.3.6.1.4.1.11591.4.11"), (file!("node.jceks"), "JCEKS")]
    {
        let error = read(bytes, PASSWORD).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("not supported"), "{name}: {error}");
    }
    for bytes in [&b""[..], b"\0\0\0\0", b"hello", b"\xff\xfe"] {
        assert!(read(bytes, PASSWORD).is_err(), "{bytes:?}");
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let stores = KEYS.iter().copied().chain(TRUST.map(|(name, bytes, _)| (name, bytes)));
    for (name, bytes) in stores {
        let is_text = name.ends_with(".pem") || name.ends_with(".crt");
        let step = if name.ends_with(".p12") { 61 } else { 7 };
        for at in (0..bytes.len()).step_by(step) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x55;
            let flipped = read(&damaged, PASSWORD);
            // Elsewhere a digest covers what matters, and nothing what does not.
            assert!(flipped.is_err() || !name.ends_with(".jks"), "{name}: a flipped byte at {at}");
            let cut = read(&bytes[..at], PASSWORD);
            assert!(cut.is_err() || is_text, "{name}: cut at {at}");
        }
    }
}
