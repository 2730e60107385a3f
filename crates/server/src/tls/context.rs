//! What rustls is told, and what is asked of clients beyond that.
//!
//! Names of protocols and cipher suites are Java's. rustls has TLS 1.2 and 1.3 only, and of TLS 1.2 only
//! suites with forward secrecy and authenticated encryption, so nothing weak can be switched on by mistake.

use super::TlsError;
use crate::config::{ClientAuth, EncryptionOptions, Millis};
use env::Env;
use env::clock::Clock;
use keystore::{Certificate, Identity};
use ring::digest;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, SupportedCipherSuite};
use rustls::{SupportedProtocolVersion, version};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Sessions of TLS 1.2 that are kept for clients that take no tickets.
const SESSIONS_KEPT: usize = 1_024;
/// Seconds between two warnings of certificates that end soon.
const WARNING_INTERVAL_S: i64 = 60;

/// What was read of files and of the configuration.
pub(super) struct Material {
    pub(super) key: Identity,
    pub(super) trusted: Vec<CertificateDer<'static>>,
    /// What both were read from.
    pub(super) bytes: [Vec<u8>; 2],
}

/// What a connection's session is made of.
#[derive(Debug)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    /// SHA-256 of what it was made of.
    origin: [Vec<u8>; 2],
    verifies_endpoint: bool,
    validity_max: Option<Millis>,
    warns_before: Option<Millis>,
    warned_s: AtomicI64,
}

/// What was agreed upon with a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// Java's name of the version: `TLSv1.3`.
    pub protocol: &'static str,
    /// Java's name of the cipher suite: `TLS_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
    /// Whether it goes on with an earlier session.
    pub is_resumed: bool,
    /// Whom the client has proven to be.
    pub peer: Option<Certificate>,
}

/// The node's clock, for rustls.
#[derive(Debug)]
pub(super) struct WallClock(pub(super) Arc<dyn Clock>);

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now_seconds()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl Acceptor {
    pub(super) fn build(
        env: &Env,
        options: &EncryptionOptions,
        material: Material,
        warnings: &mut Vec<String>,
    ) -> Result<Acceptor, TlsError> {
        let Material { key, trusted, bytes } = material;
        let mut warn = |option: &str, what: String| {
            warnings.push(format!("{option}: {what}"));
        };
        let versions = protocols(options, &mut warn)?;
        let suites = cipher_suites(options, &mut warn)?;
        if options.keystore.password.is_some() && options.keystore.password_file.is_some() {
            warn("keystore_password_file", "keystore_password is set too, and is used".to_owned());
        }
        match key.chain.first().map(|own| Certificate::parse(own)) {
            Some(Ok(own)) if own.not_after_s < env.now_seconds() => {
                warn("keystore", "the node's certificate has expired".to_owned());
            }
            _ => {}
        }
        let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..provider::default_provider() });
        let clock = Arc::new(WallClock(Arc::clone(&env.clock)));
        let builder = ServerConfig::builder_with_details(Arc::clone(&provider), clock)
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::new("cipher_suites", format!("they fit no protocol: {error}")))?;
        let builder = match options.require_client_auth {
            ClientAuth::No => builder.with_no_client_auth(),
            asked => {
                let roots = Arc::new(roots(trusted)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match asked {
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| TlsError::new("truststore", error.to_string()))?,
                )
            }
        };
        let Identity { key, chain } = key;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::new("keystore", format!("its key cannot be used: {error}")))?;
        // As in Java, which suite is used is the node's choice.
        config.ignore_client_order = true;
        config.send_tls13_tickets = 1;
        config.ticketer = provider::Ticketer::new()
            .map_err(|error| TlsError::new("enabled", format!("no keys for tickets can be made: {error}")))?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_KEPT);
        Ok(Acceptor {
            config: Arc::new(config),
            origin: bytes.map(|bytes| digest::digest(&digest::SHA256, &bytes).as_ref().to_vec()),
            verifies_endpoint: options.require_endpoint_verification,
            validity_max: options.max_certificate_validity_period,
            warns_before: options.certificate_validity_warn_threshold,
            warned_s: AtomicI64::new(0),
        })
    }

    /// Whether the same bytes lead to both.
    pub(super) fn is_made_of_the_same(&self, other: &Acceptor) -> bool {
        self.origin == other.origin
    }

    /// What sessions are made of, for who shares it.
    pub(super) fn shared_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// What sessions are made of.
    pub(super) fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The session of a new connection.
    ///
    /// # Errors
    /// rustls's.
    pub fn open(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config))
    }

    /// Whether the client of a session whose handshake is done may stay, and what was agreed upon.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admit(
        &self,
        session: &ServerConnection,
        address: IpAddr,
        now_s: i64,
    ) -> Result<TlsSession, String> {
        let own = session.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        let peer = own.map(|own| self.examine(own, address, now_s)).transpose()?;
        Ok(TlsSession {
            protocol: match session.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher_suite: session.negotiated_cipher_suite().map(java_name).unwrap_or_default(),
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            peer,
        })
    }

    fn examine(&self, own: &CertificateDer<'_>, address: IpAddr, now_s: i64) -> Result<Certificate, String> {
        let peer = Certificate::parse(own).map_err(|error| format!("its certificate: {error}"))?;
        if peer.not_after_s < now_s {
            return Err("its certificate has expired".to_owned());
        }
        let seconds = |time: Millis| i64::try_from(time.0 / 1_000).unwrap_or(i64::MAX);
        if let Some(max) = self.validity_max.filter(|max| peer.validity_s() > seconds(*max)) {
            return Err(format!(
                "The validity period of the provided certificate ({}s) exceeds the maximum allowed validity \
                 period of {max}",
                peer.validity_s()
            ));
        }
        if let Some(threshold) = self.warns_before
            && peer.not_after_s - now_s < seconds(threshold)
            && now_s - self.warned_s.load(Ordering::Relaxed) >= WARNING_INTERVAL_S
        {
            self.warned_s.store(now_s, Ordering::Relaxed);
            let left_s = peer.not_after_s - now_s;
            tracing::warn!(%address, name = ?peer.common_name, left_s, "the certificate of a client ends soon");
        }
        if self.verifies_endpoint {
            let parsed = ParsedCertificate::try_from(own).map_err(|error| error.to_string())?;
            verify_server_name(&parsed, &ServerName::from(address))
                .map_err(|error| format!("its certificate is not for its address: {error}"))?;
        }
        Ok(peer)
    }
}

pub(super) fn roots(trusted: Vec<CertificateDer<'static>>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for (number, certificate) in trusted.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            TlsError::new("truststore", format!("certificate {} of it cannot be used: {error}", number + 1))
        })?;
    }
    if roots.is_empty() {
        return Err(TlsError::new("truststore", "there is no certificate in it that is trusted"));
    }
    Ok(roots)
}

/// The versions that the options name.
pub(super) fn protocols(
    options: &EncryptionOptions,
    warn: &mut impl FnMut(&str, String),
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let own = options.protocol.iter().filter(|word| !word.eq_ignore_ascii_case("TLS"));
    let (option, asked): (_, Vec<&String>) = match &options.accepted_protocols {
        Some(accepted) => ("accepted_protocols", accepted.iter().chain(own).collect()),
        None => ("protocol", own.collect()),
    };
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    let mut others = Vec::new();
    for word in &asked {
        let version = match word.to_ascii_uppercase().as_str() {
            "TLSV1.2" => &version::TLS12,
            "TLSV1.3" => &version::TLS13,
            "TLS" => {
                versions.extend([&version::TLS12, &version::TLS13]);
                continue;
            }
            _ => {
                others.push(word.as_str());
                continue;
            }
        };
        versions.push(version);
    }
    let unsupported = || format!("{} is not supported: Ilion speaks TLSv1.2 and TLSv1.3", others.join(", "));
    match (asked.is_empty(), versions.is_empty()) {
        (true, _) => return Ok(vec![&version::TLS12, &version::TLS13]),
        (false, true) => return Err(TlsError::new(option, unsupported())),
        (false, false) if !others.is_empty() => warn(option, unsupported()),
        (false, false) => {}
    }
    Ok(versions)
}

/// The cipher suites that the options name, the best first; all when they name none.
pub(super) fn cipher_suites(
    options: &EncryptionOptions,
    warn: &mut impl FnMut(&str, String),
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let Some(asked) = &options.cipher_suites else {
        let mut usual = provider::DEFAULT_CIPHER_SUITES.to_vec();
        // Those with SHA-256 first: ring has SHA-384 without the processor's instructions for it.
        usual.sort_by_key(|suite| !java_name(*suite).contains("AES_128"));
        return Ok(usual);
    };
    let known = |name: &String| {
        provider::ALL_CIPHER_SUITES.iter().copied().find(|suite| java_name(*suite).eq_ignore_ascii_case(name))
    };
    let suites: Vec<SupportedCipherSuite> = asked.iter().filter_map(known).collect();
    let others: Vec<&str> = asked.iter().filter(|name| known(name).is_none()).map(String::as_str).collect();
    if suites.is_empty() {
        let names: Vec<String> = provider::ALL_CIPHER_SUITES.iter().copied().map(java_name).collect();
        let names = names.join(", ");
        return Err(TlsError::new("cipher_suites", format!("none of them is supported: Ilion has {names}")));
    }
    if !others.is_empty() {
        warn("cipher_suites", format!("{} not supported and ignored", others.join(", ")));
    }
    Ok(suites)
}

/// Java's name of a cipher suite.
fn java_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        protocol: Option<&str>,
        accepted: Option<&[&str]>,
        suites: Option<&[&str]>,
    ) -> EncryptionOptions {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        EncryptionOptions {
            protocol: protocol.map(str::to_owned),
            accepted_protocols: accepted.map(words),
            cipher_suites: suites.map(words),
            ..EncryptionOptions::default()
        }
    }

    fn versions(protocol: Option<&str>, accepted: Option<&[&str]>) -> Result<(usize, usize), String> {
        let mut warnings = 0;
        let versions = protocols(&options(protocol, accepted, None), &mut |_, _| warnings += 1);
        versions.map(|versions| (versions.len(), warnings)).map_err(|error| error.to_string())
    }

    #[test]
    fn protocols_are_those_of_java_that_are_safe() {
        assert_eq!(versions(None, None), Ok((2, 0)));
        assert_eq!(versions(Some("TLS"), None), Ok((2, 0)));
        assert_eq!(versions(Some("tlsv1.2"), None), Ok((1, 0)));
        assert_eq!(versions(None, Some(&["TLSv1.3"])), Ok((1, 0)));
        assert_eq!(versions(Some("TLS"), Some(&["TLSv1.3", "TLSv1.1"])), Ok((1, 1)));
        assert!(versions(Some("TLSv1.1"), None).unwrap_err().contains("TLSv1.1 is not supported"));
        assert!(versions(None, Some(&["SSLv3"])).unwrap_err().contains("accepted_protocols: SSLv3"));
    }

    #[test]
    fn cipher_suites_have_the_names_of_java() {
        let chosen = |names: &[&str]| {
            let mut warnings = Vec::new();
            let suites = cipher_suites(&options(None, None, Some(names)), &mut |_, w| warnings.push(w));
            suites
                .map(|s| (s.into_iter().map(java_name).collect::<Vec<_>>(), warnings))
                .map_err(|e| e.to_string())
        };
        let good = ["TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"];
        assert_eq!(chosen(&good), Ok((good.map(str::to_owned).to_vec(), Vec::new())));
        let (suites, warnings) = chosen(&["TLS_RSA_WITH_AES_128_CBC_SHA", good[0]]).unwrap();
        assert_eq!(suites, [good[0]]);
        assert!(warnings[0].starts_with("TLS_RSA_WITH_AES_128_CBC_SHA"), "{warnings:?}");
        assert!(chosen(&["TLS_RSA_WITH_NULL_SHA"]).unwrap_err().contains("TLS_AES_128_GCM_SHA256"));
    }
}
