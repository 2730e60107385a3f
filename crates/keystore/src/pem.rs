//! PEM: keys and certificates as text (RFC 7468).
//!
//! ```text
//! -----BEGIN label-----  base64, blanks anywhere  -----END label-----
//! ```
//!
//! What stands around the sections is left out. `PRIVATE KEY` (PKCS#8) and `ENCRYPTED PRIVATE KEY` are what
//! Cassandra takes; `RSA PRIVATE KEY` (PKCS#1) and `EC PRIVATE KEY` (SEC 1) are taken too, unless they are
//! encrypted in the way that RFC 1421 has, which is refused by name.

use crate::der::{Der, tag};
use crate::{Contents, Identity, StoreError, pbe};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Reads a text with at most one private key, and the certificates behind it.
pub(crate) fn read(text: &str, password: Option<&str>) -> Result<Contents, StoreError> {
    let mut key = None;
    let mut certificates = Vec::new();
    for section in sections(text) {
        let (label, body) = section?;
        let der = || decode(body).ok_or_else(|| StoreError::malformed(format!("{label} is no base64")));
        let found = match label {
            "CERTIFICATE" | "X509 CERTIFICATE" | "X.509 CERTIFICATE" => {
                certificates.push(CertificateDer::from(der()?));
                continue;
            }
            "PRIVATE KEY" => PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der()?)),
            "ENCRYPTED PRIVATE KEY" => {
                let password = password.filter(|p| !p.is_empty()).ok_or(StoreError::NoPassword)?;
                PrivateKeyDer::from(PrivatePkcs8KeyDer::from(decrypt(&der()?, password)?))
            }
            "RSA PRIVATE KEY" | "EC PRIVATE KEY" if body.contains("Proc-Type") => {
                return Err(StoreError::Unsupported(format!(
                    "{label} with a Proc-Type (encrypt it as PKCS#8: openssl pkcs8 -topk8)"
                )));
            }
            "RSA PRIVATE KEY" => PrivateKeyDer::from(PrivatePkcs1KeyDer::from(der()?)),
            "EC PRIVATE KEY" => PrivateKeyDer::from(PrivateSec1KeyDer::from(der()?)),
            "DSA PRIVATE KEY" => return Err(StoreError::Unsupported("DSA PRIVATE KEY".to_owned())),
            _ => continue,
        };
        if key.replace(found).is_some() {
            return Err(StoreError::malformed("it has more than one private key"));
        }
    }
    Ok(match key {
        Some(key) => {
            Contents { identities: vec![Identity { key, chain: certificates }], trusted: Vec::new() }
        }
        None => Contents { identities: Vec::new(), trusted: certificates },
    })
}

/// EncryptedPrivateKeyInfo := SEQUENCE { algorithm, OCTET STRING }
fn decrypt(der: &[u8], password: &str) -> Result<Vec<u8>, StoreError> {
    let mut info = Der::new(der).sequence()?;
    let algorithm = info.expect(tag::SEQUENCE)?;
    pbe::decrypt(algorithm, info.expect(tag::OCTET_STRING)?.body, password)
}

/// Labels and what stands between their lines.
fn sections(text: &str) -> impl Iterator<Item = Result<(&str, &str), StoreError>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begun = rest.split_once(BEGIN)?.1;
        let section = begun.split_once(DASHES).and_then(|(label, behind)| {
            let end = format!("{END}{label}{DASHES}");
            let (body, behind) = behind.split_once(&end)?;
            rest = behind;
            Some((label, body))
        });
        if section.is_none() {
            rest = "";
        }
        Some(section.ok_or_else(|| StoreError::malformed("a section of it has no end")))
    })
}

/// Base64 with blanks.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits, mut padding) = (0_u32, 0, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        group = group << 6 | u32::from(digit);
        digits += 1;
        if digits % 4 == 0 {
            bytes.extend_from_slice(group.to_be_bytes().get(1..)?);
            group = 0;
        }
    }
    match (digits % 4, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((group >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(((group >> 2) as u16).to_be_bytes().as_slice()),
        _ => return None,
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_blanks_and_padding() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("QQ==", b"A"),
            ("Q\nUI=", b"AB"),
            (" QUJD\r\n", b"ABC"),
            ("/+8A", b"\xff\xef\0"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text:?}");
        }
        for wrong in ["Q", "QQ", "QQ=", "Q===", "QUI", "QU=I", "Q-==", "QUJD="] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_stands_around_sections_is_left_out() {
        let text = "Bag Attributes\n-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\nsubject= \
                    -----BEGIN CERTIFICATE----- QUI= -----END CERTIFICATE-----";
        let contents = read(text, None).unwrap();
        let trusted: Vec<&[u8]> = contents.trusted.iter().map(|c| c.as_ref()).collect();
        assert_eq!(trusted, [&b"ABC"[..], b"AB"]);
    }

    #[test]
    fn damage_is_named() {
        for (text, words) in [
            ("-----BEGIN CERTIFICATE-----\nQUJD\n", "no end"),
            ("-----BEGIN CERTIFICATE", "no end"),
            ("-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----", "PRIVATE KEY is no base64"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nQUJD\n-----END ENCRYPTED PRIVATE KEY-----", "password"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n-----END RSA PRIVATE KEY-----",
                "Proc-Type",
            ),
        ] {
            let error = read(text, None).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
