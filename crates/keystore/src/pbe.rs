//! Encryption by password, as PKCS#8 and PKCS#12 have it.
//!
//! ```text
//! algorithm := SEQUENCE { PBES2, SEQUENCE { key derivation, cipher } }       RFC 8018
//!            | SEQUENCE { pbeWithSHAAnd..., SEQUENCE { salt, iterations } }  RFC 7292, appendix B and C
//! key derivation := SEQUENCE { PBKDF2, SEQUENCE { salt, iterations, [length], [HMAC] } }
//! cipher := SEQUENCE { AES-128, AES-192, AES-256 or 3DES in CBC mode, iv }
//! ```
//!
//! keytool and openssl write AES-256 today; files of their older versions have 3DES and, for certificates,
//! RC2 with 40 bits. scrypt, RC4 and DES are refused by name. Iterations have a bound, so that a file cannot
//! keep the node busy for hours.

use crate::der::{Der, Element, Malformed, tag};
use crate::{StoreError, utf16};
use cipher::{Block, BlockCipherDecrypt, KeyInit};
use ring::digest::{self, Algorithm};
use ring::pbkdf2;
use std::num::NonZeroU32;

/// The most that Java takes, too.
const ITERATIONS_MAX: u32 = 5_000_000;

/// 1.2.840.113549.1.5.13 and .12
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// 1.2.840.113549.2, under which the HMACs are.
const HMACS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// 2.16.840.1.101.3.4.1, under which the kinds of AES are.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];
/// 1.2.840.113549.3.7
const DES_EDE3_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];
/// 1.2.840.113549.1.12.1, under which the ways of PKCS#12 are.
const OF_PKCS12: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01];

/// What PKCS#12 derives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// Decrypts what an AlgorithmIdentifier says how to.
pub(crate) fn decrypt(
    algorithm: Element<'_>,
    encrypted: &[u8],
    password: &str,
) -> Result<Vec<u8>, StoreError> {
    let mut algorithm = algorithm.inside();
    let id = algorithm.expect(tag::OID)?.body;
    let mut parameters = algorithm.sequence()?;
    if id == PBES2 {
        return pbes2(parameters, encrypted, password);
    }
    let way = id.strip_prefix(OF_PKCS12).and_then(<[u8]>::first).copied();
    let salt = parameters.expect(tag::OCTET_STRING)?.body;
    let rounds = iterations(parameters.number()?)?;
    let derive = |purpose, length| {
        pkcs12_key(&digest::SHA1_FOR_LEGACY_USE_ONLY, password, salt, rounds, purpose, length)
    };
    let iv = derive(Purpose::Iv, 8);
    match way {
        Some(3) => cbc::<des::TdesEde3>(&derive(Purpose::Key, 24), &iv, encrypted),
        Some(5) => cbc::<rc2::Rc2>(&derive(Purpose::Key, 16), &iv, encrypted),
        Some(6) => cbc::<rc2::Rc2>(&derive(Purpose::Key, 5), &iv, encrypted),
        Some(1 | 2) => Err(StoreError::Unsupported("encryption with RC4".to_owned())),
        _ => Err(StoreError::Unsupported(format!("the encryption {}", dotted(id)))),
    }
}

fn pbes2(mut parameters: Der<'_>, encrypted: &[u8], password: &str) -> Result<Vec<u8>, StoreError> {
    let mut derivation = parameters.sequence()?;
    let mut scheme = parameters.sequence()?;
    let id = derivation.expect(tag::OID)?.body;
    if id != PBKDF2 {
        return Err(StoreError::Unsupported(format!("the key derivation {} (PBKDF2 is)", dotted(id))));
    }
    let mut derivation = derivation.sequence()?;
    let salt = derivation.expect(tag::OCTET_STRING)?.body;
    let rounds = iterations(derivation.number()?)?;
    derivation.optional(tag::INTEGER)?;
    let hmac = match derivation.optional(tag::SEQUENCE)? {
        Some(hmac) => hmac.inside().expect(tag::OID)?.body,
        None => &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x07],
    };
    let hmac = match hmac.strip_prefix(HMACS) {
        Some([0x07]) => pbkdf2::PBKDF2_HMAC_SHA1,
        Some([0x09]) => pbkdf2::PBKDF2_HMAC_SHA256,
        Some([0x0a]) => pbkdf2::PBKDF2_HMAC_SHA384,
        Some([0x0b]) => pbkdf2::PBKDF2_HMAC_SHA512,
        _ => return Err(StoreError::Unsupported(format!("PBKDF2 with {}", dotted(hmac)))),
    };
    let id = scheme.expect(tag::OID)?.body;
    let iv = scheme.expect(tag::OCTET_STRING)?.body;
    let derive = |length: usize| {
        let mut key = vec![0; length];
        pbkdf2::derive(hmac, rounds, salt, password.as_bytes(), &mut key);
        key
    };
    match (id.strip_prefix(AES), id) {
        (Some([0x02]), _) => cbc::<aes::Aes128>(&derive(16), iv, encrypted),
        (Some([0x16]), _) => cbc::<aes::Aes192>(&derive(24), iv, encrypted),
        (Some([0x2a]), _) => cbc::<aes::Aes256>(&derive(32), iv, encrypted),
        (None, DES_EDE3_CBC) => cbc::<des::TdesEde3>(&derive(24), iv, encrypted),
        _ => Err(StoreError::Unsupported(format!("the cipher {}", dotted(id)))),
    }
}

/// A number of iterations that is not too large.
pub(crate) fn iterations(number: u32) -> Result<NonZeroU32, StoreError> {
    NonZeroU32::new(number)
        .filter(|number| number.get() <= ITERATIONS_MAX)
        .ok_or_else(|| StoreError::Unsupported(format!("{number} iterations (1 to {ITERATIONS_MAX} are)")))
}

/// The bytes that PKCS#12 derives of a password (RFC 7292, appendix B.2).
pub(crate) fn pkcs12_key(
    algorithm: &'static Algorithm,
    password: &str,
    salt: &[u8],
    rounds: NonZeroU32,
    purpose: Purpose,
    length: usize,
) -> Vec<u8> {
    let block = algorithm.block_len();
    let fill = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().copied().cycle().take(bytes.len().div_ceil(block) * block).collect()
    };
    let mut password = utf16(password);
    password.extend([0, 0]);
    let diversifier = vec![purpose as u8; block];
    let mut input = fill(salt);
    input.extend(fill(&password));
    let mut derived = Vec::with_capacity(length);
    while derived.len() < length {
        let mut hash = digest::digest(algorithm, &[diversifier.as_slice(), &input].concat());
        for _ in 1..rounds.get() {
            hash = digest::digest(algorithm, hash.as_ref());
        }
        derived.extend_from_slice(hash.as_ref());
        let addend: Vec<u8> = hash.as_ref().iter().copied().cycle().take(block).collect();
        for part in input.chunks_exact_mut(block) {
            // part + addend + 1, as numbers of `block` bytes.
            let mut carry = 1_u16;
            for (byte, added) in part.iter_mut().zip(&addend).rev() {
                carry += u16::from(*byte) + u16::from(*added);
                *byte = carry as u8;
                carry >>= 8;
            }
        }
    }
    derived.truncate(length);
    derived
}

/// Decrypts CBC with the padding of PKCS#7. A padding that is wrong tells that the key is.
fn cbc<C: BlockCipherDecrypt + KeyInit>(
    key: &[u8],
    iv: &[u8],
    encrypted: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let cipher = C::new_from_slice(key).map_err(|_| StoreError::malformed("a key has a wrong length"))?;
    let size = C::block_size();
    if iv.len() != size || encrypted.is_empty() || !encrypted.len().is_multiple_of(size) {
        return Err(StoreError::malformed("what is encrypted has a wrong length"));
    }
    let mut plain = Vec::with_capacity(encrypted.len());
    let mut before = iv;
    for chunk in encrypted.chunks_exact(size) {
        let wrong = |_| StoreError::malformed("a block has a wrong length");
        let mut block = Block::<C>::try_from(chunk).map_err(wrong)?;
        cipher.decrypt_block(&mut block);
        plain.extend(block.iter().zip(before).map(|(byte, before)| byte ^ before));
        before = chunk;
    }
    let padding = plain.last().map_or(0, |last| usize::from(*last));
    let length = plain.len().checked_sub(padding).filter(|_| (1..=size).contains(&padding));
    let length = length.ok_or(StoreError::WrongKeyPassword)?;
    if plain.iter().skip(length).any(|byte| usize::from(*byte) != padding) {
        return Err(StoreError::WrongKeyPassword);
    }
    plain.truncate(length);
    Ok(plain)
}

/// An object identifier with dots.
pub(crate) fn dotted(id: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in id {
        number = number.saturating_mul(128).saturating_add(u64::from(byte & 0x7f));
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let mut words: Vec<String> = numbers.iter().skip(1).map(u64::to_string).collect();
    if let Some(first) = numbers.first() {
        let root = (first / 40).min(2);
        words.insert(0, format!("{root}.{}", first - root * 40));
    }
    words.join(".")
}

impl From<Malformed> for StoreError {
    fn from(malformed: Malformed) -> Self {
        StoreError::malformed(malformed.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_spelled_with_dots() {
        assert_eq!(dotted(PBES2), "1.2.840.113549.1.5.13");
        assert_eq!(dotted(AES), "2.16.840.1.101.3.4.1");
        assert_eq!(dotted(&[]), "");
    }

    #[test]
    fn the_derivation_of_pkcs12_is_that_of_known_answers() {
        // Password "smeg", one iteration: the answers that Bouncy Castle's tests have.
        let salt = [0x0a, 0x58, 0xcf, 0x64, 0x53, 0x0d, 0x82, 0x3f];
        let derive = |purpose, length| {
            let rounds = NonZeroU32::MIN;
            pkcs12_key(&digest::SHA1_FOR_LEGACY_USE_ONLY, "smeg", &salt, rounds, purpose, length)
        };
        let key = [
            0x8a, 0xaa, 0xe6, 0x29, 0x7b, 0x6c, 0xb0, 0x46, 0x42, 0xab, 0x5b, 0x07, 0x78, 0x51, 0x28, 0x4e,
            0xb7, 0x12, 0x8f, 0x1a, 0x2a, 0x7f, 0xbc, 0xa3,
        ];
        assert_eq!(derive(Purpose::Key, 24), key);
        assert_eq!(derive(Purpose::Iv, 8), [0x79, 0x99, 0x3d, 0xfe, 0x04, 0x8d, 0x3b, 0x76]);
    }

    #[test]
    fn iterations_have_a_bound() {
        assert!(iterations(0).is_err() && iterations(ITERATIONS_MAX + 1).is_err());
        assert_eq!(iterations(10_000).map(NonZeroU32::get).ok(), Some(10_000));
    }
}
