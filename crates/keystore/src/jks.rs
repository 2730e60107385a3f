//! JKS, the key stores of Java before 9.
//!
//! ```text
//! store := 0xFEEDFEED version(4) count(4) entry... digest(20)
//! entry := 1(4) alias date(8) length(4) key   chain(4) certificate...
//!        | 2(4) alias date(8) certificate
//! alias := length(2) bytes
//! certificate := [type] length(4) DER            the type, as an alias, in version 2 only
//! key := SEQUENCE { SEQUENCE { 1.3.6.1.4.1.42.2.17.1.1, NULL }, OCTET STRING { salt(20) bytes check(20) } }
//! ```
//!
//! The digest is SHA-1 of the password, the words "Mighty Aphrodite" and everything before it. A key is
//! XORed with SHA-1 of the password and the salt, then of the password and the block before, and so on; its
//! check is SHA-1 of the password and the key. Passwords are UTF-16, the high byte first.

use crate::der::{Der, tag};
use crate::{Contents, Identity, StoreError, utf16};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// What such a file begins with.
pub(crate) const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
/// 1.3.6.1.4.1.42.2.17.1.1
const KEY_PROTECTOR: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

/// Reads a store. With no password its digest is not compared, and it can have no keys.
pub(crate) fn read(bytes: &[u8], password: Option<&str>) -> Result<Contents, StoreError> {
    let password = password.map(utf16);
    let ended = || StoreError::malformed("it is too short");
    let at = bytes.len().checked_sub(SHA1_OUTPUT_LEN).ok_or_else(ended)?;
    let (signed, digest) = bytes.split_at_checked(at).ok_or_else(ended)?;
    if let Some(password) = &password
        && sha1(&[password, b"Mighty Aphrodite", signed]) != digest
    {
        return Err(StoreError::WrongPassword);
    }
    let mut rest = Reader(signed);
    rest.take(MAGIC.len())?;
    let version = rest.number()?;
    if !(1..=2).contains(&version) {
        return Err(StoreError::Unsupported(format!("version {version} of JKS")));
    }
    let mut contents = Contents::default();
    for _ in 0..rest.number()? {
        let kind = rest.number()?;
        rest.text()?;
        rest.take(8)?;
        match kind {
            1 => {
                let length = rest.number()?;
                let protected = rest.take(length as usize)?;
                let mut chain = Vec::new();
                for _ in 0..rest.number()? {
                    chain.push(rest.certificate(version)?);
                }
                let password = password.as_deref().ok_or(StoreError::NoPassword)?;
                let key = PrivatePkcs8KeyDer::from(unprotect(protected, password)?);
                contents.identities.push(Identity { key: PrivateKeyDer::from(key), chain });
            }
            2 => contents.trusted.push(rest.certificate(version)?),
            other => return Err(StoreError::Unsupported(format!("entries of kind {other} in JKS"))),
        }
    }
    if rest.0.is_empty() { Ok(contents) } else { Err(StoreError::malformed("more follows its last entry")) }
}

/// Bytes that are taken from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], StoreError> {
        let ended = || StoreError::malformed("it ends in the middle of an entry");
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(ended)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, StoreError> {
        Ok(self.take(4)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn text(&mut self) -> Result<&'a [u8], StoreError> {
        let length = self.take(2)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        self.take(length)
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, StoreError> {
        let kind = if version == 2 { self.text()? } else { b"X.509" };
        if kind != b"X.509" {
            let kind = String::from_utf8_lossy(kind).into_owned();
            return Err(StoreError::Unsupported(format!("certificates of type {kind}")));
        }
        let length = self.number()?;
        Ok(CertificateDer::from(self.take(length as usize)?.to_vec()))
    }
}

fn sha1(parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

fn unprotect(der: &[u8], password: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut info = Der::new(der).sequence()?;
    if info.sequence()?.expect(tag::OID)?.body != KEY_PROTECTOR {
        return Err(StoreError::Unsupported("the way in which a key of JKS is protected".to_owned()));
    }
    let protected = info.expect(tag::OCTET_STRING)?.body;
    let short = || StoreError::malformed("a key is too short");
    let (salt, rest) = protected.split_at_checked(SHA1_OUTPUT_LEN).ok_or_else(short)?;
    let at = rest.len().checked_sub(SHA1_OUTPUT_LEN).ok_or_else(short)?;
    let (encrypted, check) = rest.split_at_checked(at).ok_or_else(short)?;
    let mut key = Vec::with_capacity(encrypted.len());
    let mut pad = salt.to_vec();
    for block in encrypted.chunks(SHA1_OUTPUT_LEN) {
        pad = sha1(&[password, &pad]);
        key.extend(block.iter().zip(&pad).map(|(byte, pad)| byte ^ pad));
    }
    if sha1(&[password, &key]) == check { Ok(key) } else { Err(StoreError::WrongKeyPassword) }
}
