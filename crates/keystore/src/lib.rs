//! Keys and certificates as files have them: PEM, PKCS#12 and JKS, and what a certificate says of its owner.
//!
//! What a store is its first bytes tell: JKS has a magic number, PEM is text, PKCS#12 is a sequence in DER.
//! Java does the same for JKS and PKCS#12, whatever `store_type` says.
//!
//! All of them are as hostile as anything from outside: nothing is allocated for a length that a file only
//! claims, derivations of keys have a bound, and nothing panics. Cryptography is that of `ring` and, for
//! what only files have, of the ciphers of RustCrypto. Whether a key or a certificate can be used is
//! rustls's to say.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod certificate;
mod der;
mod jks;
mod pbe;
mod pem;
mod pkcs12;
#[cfg(test)]
mod tests;

pub use certificate::Certificate;

use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Bytes of the largest file that is worth reading.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It needs one.
    #[error("it is encrypted, and there is no password for it")]
    NoPassword,
    /// Its digest is another one.
    #[error("the password is wrong, or the file is damaged")]
    WrongPassword,
    /// Its private key does not decrypt to one.
    #[error("the password does not open what is encrypted in it")]
    WrongKeyPassword,
    /// Something that is not read here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// Not what it should be.
    #[error("it is damaged, or no key store: {0}")]
    Malformed(String),
}

impl StoreError {
    fn malformed(why: impl Into<String>) -> StoreError {
        StoreError::Malformed(why.into())
    }
}

/// A private key and the certificates that go with it, the owner's first.
#[derive(Debug)]
pub struct Identity {
    /// The key.
    pub key: PrivateKeyDer<'static>,
    /// Its certificates.
    pub chain: Vec<CertificateDer<'static>>,
}

/// What a store holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Keys.
    pub identities: Vec<Identity>,
    /// Certificates that belong to no key.
    pub trusted: Vec<CertificateDer<'static>>,
}

impl Contents {
    /// What a trust store says is trusted: its certificates and, as in Java, the owner's own of each key.
    pub fn into_trusted(self) -> Vec<CertificateDer<'static>> {
        let owners = self.identities.into_iter().filter_map(|identity| identity.chain.into_iter().next());
        self.trusted.into_iter().chain(owners).collect()
    }
}

/// Reads a store of any kind.
///
/// # Errors
/// The password is wrong or missing, the store is damaged, or of a kind that is not read.
pub fn read(bytes: &[u8], password: Option<&str>) -> Result<Contents, StoreError> {
    if bytes.starts_with(&jks::MAGIC) {
        return jks::read(bytes, password);
    }
    if bytes.starts_with(&[0xce, 0xce, 0xce, 0xce]) {
        return Err(StoreError::Unsupported(
            "JCEKS (keytool -importkeystore makes PKCS#12 of it)".to_owned(),
        ));
    }
    if bytes.first() == Some(&0x30) {
        return pkcs12::read(bytes, password);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains("-----BEGIN ") => pem::read(text, password),
        _ => Err(StoreError::malformed("it is neither PEM nor JKS nor PKCS#12")),
    }
}

/// A password as Java has it, without an end.
fn utf16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_be_bytes).collect()
}
