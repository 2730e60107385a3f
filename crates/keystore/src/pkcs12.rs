//! PKCS#12, the key stores of Java since 9, and of openssl (RFC 7292).
//!
//! ```text
//! PFX := SEQUENCE { 3, content, [mac] }
//! content := SEQUENCE { data, [0] { OCTET STRING { SEQUENCE { safe... } } } }
//! safe := SEQUENCE { data, [0] { OCTET STRING { bags } } }
//!       | SEQUENCE { encryptedData, [0] { SEQUENCE { version, SEQUENCE { data, algorithm, [0] bytes } } } }
//! bags := SEQUENCE { SEQUENCE { kind, [0] { value }, [attributes] }... }
//! mac := SEQUENCE { SEQUENCE { digest, OCTET STRING }, salt, [iterations] }
//! ```
//!
//! A key and its certificate have the same local id. The rest of the chain is found by the names of issuers.
//! A certificate is trusted if it has Oracle's attribute for that. Where no certificate has it, as in what
//! openssl writes, all of those are trusted that belong to no key.

use crate::certificate::Fields;
use crate::der::{Der, Element, tag};
use crate::{Contents, Identity, StoreError, pbe};
use ring::digest::{self, Algorithm};
use ring::hmac;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// 1.2.840.113549.1.7.1 and .6
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
/// 1.2.840.113549.1.12.10.1, under which the kinds of bags are.
const BAGS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01];
/// 1.2.840.113549.1.9.22.1
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
/// 1.2.840.113549.1.9.21
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
/// 2.16.840.1.113894.746875.1.1
const TRUSTED: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01];
/// Certificates of the longest chain.
const CHAIN_MAX: usize = 16;

/// What was found in bags.
#[derive(Debug, Default)]
struct Found {
    keys: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    certificates: Vec<Certificate>,
}

#[derive(Debug)]
struct Certificate {
    der: Vec<u8>,
    local_key_id: Option<Vec<u8>>,
    is_trusted: bool,
}

/// Reads a store. With no password nothing in it may be encrypted, and its digest is not compared.
pub(crate) fn read(bytes: &[u8], password: Option<&str>) -> Result<Contents, StoreError> {
    let mut file = Der::new(bytes);
    let mut store = file.sequence()?;
    if !file.is_empty() {
        return Err(StoreError::malformed("more follows its end"));
    }
    let version = store.number()?;
    if version != 3 {
        return Err(StoreError::Unsupported(format!("version {version} of PKCS#12")));
    }
    let safes = data(store.sequence()?)?;
    if let (Some(mac), Some(password)) = (store.optional(tag::SEQUENCE)?, password) {
        check(mac, safes, password)?;
    }
    let mut found = Found::default();
    let mut safes = Der::new(safes).sequence()?;
    while !safes.is_empty() {
        let mut safe = safes.sequence()?;
        let mut peeked = safe;
        match peeked.expect(tag::OID)?.body {
            ENCRYPTED_DATA => {
                safe = peeked;
                let mut encrypted = safe.expect(tag::context(0))?.inside().sequence()?;
                encrypted.number()?;
                let mut content = encrypted.sequence()?;
                content.expect(tag::OID)?;
                let algorithm = content.expect(tag::SEQUENCE)?;
                let bytes = content.expect(tag::plain_context(0))?.body;
                let password = password.ok_or(StoreError::NoPassword)?;
                bags(&pbe::decrypt(algorithm, bytes, password)?, Some(password), &mut found)?;
            }
            _ => bags(data(safe)?, password, &mut found)?,
        }
    }
    linked(found)
}

/// The bytes of a content that is plain data.
fn data(mut content: Der<'_>) -> Result<&[u8], StoreError> {
    let id = content.expect(tag::OID)?.body;
    if id != DATA {
        return Err(StoreError::Unsupported(format!("content {} in PKCS#12", pbe::dotted(id))));
    }
    Ok(content.expect(tag::context(0))?.inside().expect(tag::OCTET_STRING)?.body)
}

/// Compares the digest of the store, which only the password gives.
fn check(mac: Element<'_>, signed: &[u8], password: &str) -> Result<(), StoreError> {
    let mut mac = mac.inside();
    let mut digest_info = mac.sequence()?;
    let id = digest_info.sequence()?.expect(tag::OID)?.body;
    let expected = digest_info.expect(tag::OCTET_STRING)?.body;
    let salt = mac.expect(tag::OCTET_STRING)?.body;
    let rounds = pbe::iterations(if mac.is_empty() { 1 } else { mac.number()? })?;
    let (hash, code): (&'static Algorithm, hmac::Algorithm) = match id {
        [0x2b, 0x0e, 0x03, 0x02, 0x1a] => {
            (&digest::SHA1_FOR_LEGACY_USE_ONLY, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY)
        }
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01] => (&digest::SHA256, hmac::HMAC_SHA256),
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02] => (&digest::SHA384, hmac::HMAC_SHA384),
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03] => (&digest::SHA512, hmac::HMAC_SHA512),
        _ => return Err(StoreError::Unsupported(format!("the digest {} of PKCS#12", pbe::dotted(id)))),
    };
    let key = pbe::pkcs12_key(hash, password, salt, rounds, pbe::Purpose::Mac, hash.output_len());
    hmac::verify(&hmac::Key::new(code, &key), signed, expected).map_err(|_| StoreError::WrongPassword)
}

fn bags(bytes: &[u8], password: Option<&str>, found: &mut Found) -> Result<(), StoreError> {
    let mut bags = Der::new(bytes).sequence()?;
    while !bags.is_empty() {
        let mut bag = bags.sequence()?;
        let kind = bag.expect(tag::OID)?.body;
        let value = bag.expect(tag::context(0))?;
        let (mut local_key_id, mut is_trusted) = (None, false);
        if let Some(attributes) = bag.optional(tag::SET)? {
            let mut attributes = attributes.inside();
            while !attributes.is_empty() {
                let mut attribute = attributes.sequence()?;
                match attribute.expect(tag::OID)?.body {
                    LOCAL_KEY_ID => {
                        let mut values = attribute.expect(tag::SET)?.inside();
                        local_key_id = Some(values.expect(tag::OCTET_STRING)?.body.to_vec());
                    }
                    TRUSTED => is_trusted = true,
                    _ => {}
                }
            }
        }
        match kind.strip_prefix(BAGS) {
            Some([1]) => found.keys.push((local_key_id, value.body.to_vec())),
            Some([2]) => {
                let mut info = value.inside().sequence()?;
                let algorithm = info.expect(tag::SEQUENCE)?;
                let encrypted = info.expect(tag::OCTET_STRING)?.body;
                let password = password.ok_or(StoreError::NoPassword)?;
                found.keys.push((local_key_id, pbe::decrypt(algorithm, encrypted, password)?));
            }
            Some([3]) => {
                let mut bag = value.inside().sequence()?;
                if bag.expect(tag::OID)?.body == X509 {
                    let der = bag.expect(tag::context(0))?.inside().expect(tag::OCTET_STRING)?.body;
                    found.certificates.push(Certificate { der: der.to_vec(), local_key_id, is_trusted });
                }
            }
            // Revocations, secrets, bags in bags: nothing that a node needs.
            _ => {}
        }
    }
    Ok(())
}

/// Gives each key its chain.
fn linked(found: Found) -> Result<Contents, StoreError> {
    let Found { keys, certificates } = found;
    let mut names = Vec::with_capacity(certificates.len());
    for certificate in &certificates {
        let fields = Fields::parse(&certificate.der)?;
        names.push((fields.subject.whole, fields.issuer.whole));
    }
    let mut contents = Contents::default();
    let mut is_used = vec![false; certificates.len()];
    let is_alone = keys.len() == 1;
    for (id, key) in keys {
        let mut chain = Vec::new();
        let own = |c: &Certificate| c.local_key_id.is_some() && c.local_key_id == id;
        // Some programs leave the ids out where there is nothing to tell apart.
        let first = certificates.iter().position(own).or_else(|| is_alone.then_some(0));
        let mut next = first.filter(|at| *at < certificates.len());
        while let Some(at) = next
            && chain.len() < CHAIN_MAX
        {
            if let (Some(used), Some(certificate)) = (is_used.get_mut(at), certificates.get(at)) {
                *used = true;
                chain.push(CertificateDer::from(certificate.der.clone()));
            }
            let (subject, issuer) = names.get(at).copied().unwrap_or_default();
            next = (subject != issuer).then(|| names.iter().position(|name| name.0 == issuer)).flatten();
        }
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key));
        contents.identities.push(Identity { key, chain });
    }
    let has_marks = certificates.iter().any(|certificate| certificate.is_trusted);
    let trusted = certificates.into_iter().zip(is_used);
    contents.trusted = trusted
        .filter(|(certificate, is_used)| if has_marks { certificate.is_trusted } else { !is_used })
        .map(|(certificate, _)| CertificateDer::from(certificate.der))
        .collect();
    Ok(contents)
}
