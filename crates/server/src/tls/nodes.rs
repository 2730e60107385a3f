//! TLS between nodes, as `server_encryption_options` asks for it.
//!
//! 1. A node that connects speaks TLS where `internode_encryption` says so of the other one. It shows its
//!    certificate (`outbound_keystore` or `outbound_private_key`, else that of `keystore` or `private_key`),
//!    and takes only those that somebody in the trust store has signed.
//! 2. A node that is connected to sees by the first byte whether TLS is spoken ([`is_tls`]).
//! 3. [`NodeTls::reload`] is as that of clients: new connections use what has changed and fits together.

use super::context::{self, Acceptor, WallClock};
use super::{Contents, KeyNames, OWN_KEY, Tls, TlsError, build, key, trust};
use crate::config::{EncryptionPolicy, InternodeEncryption, InternodeOptions, Settings};
use arc_swap::ArcSwap;
use env::Env;
use ring::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

const NODES: &str = "server_encryption_options";
/// The key that a node shows to those that it connects to.
const OUTBOUND_KEY: KeyNames = KeyNames {
    keystore: "outbound_keystore",
    password_file: "outbound_keystore_password_file",
    private_key: "outbound_private_key",
};
/// The first byte of a TLS connection: a record of a handshake. One without TLS begins with 0xCA.
const HANDSHAKE: u8 = 0x16;

/// Whether a connection whose first byte this is speaks TLS.
pub fn is_tls(first: u8) -> bool {
    first == HANDSHAKE
}

/// What TLS between nodes is made of, while the node runs.
#[derive(Debug)]
pub struct NodeTls {
    env: Env,
    options: InternodeOptions,
    policy: EncryptionPolicy,
    made: ArcSwap<Made>,
}

/// TLS between nodes as it was loaded at the start.
#[derive(Debug)]
pub struct LoadedForNodes {
    /// What new connections use.
    pub tls: Arc<NodeTls>,
    /// What was ignored, one sentence each.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
struct Made {
    acceptor: Acceptor,
    /// Where this node encrypts what it connects.
    connector: Option<Connector>,
}

#[derive(Debug)]
struct Connector {
    config: Arc<ClientConfig>,
    /// SHA-256 of what it was made of.
    origin: [Vec<u8>; 2],
}

impl NodeTls {
    /// Loads what the settings ask for; `None` where no node can speak TLS.
    ///
    /// # Errors
    /// [`TlsError`] names the option and what is wrong with it.
    pub fn load(env: &Env, settings: &Settings) -> Result<Option<LoadedForNodes>, TlsError> {
        let options = &settings.server_encryption_options;
        let policy = options.policy(Tls::has_key(env, &options.options));
        if policy == EncryptionPolicy::Unencrypted {
            return Ok(None);
        }
        let mut warnings = Vec::new();
        let made = make(env, options, &mut warnings)?;
        warnings.iter_mut().for_each(|warning| *warning = format!("{NODES}: {warning}"));
        let tls =
            NodeTls { env: env.clone(), options: options.clone(), policy, made: ArcSwap::from_pointee(made) };
        Ok(Some(LoadedForNodes { tls: Arc::new(tls), warnings }))
    }

    /// Which nodes have to speak TLS when they connect.
    pub fn policy(&self) -> EncryptionPolicy {
        self.policy
    }

    /// With which nodes this one speaks TLS when it connects.
    pub fn internode(&self) -> InternodeEncryption {
        self.options.internode
    }

    /// Whether this node goes on in plain text with one that it would speak TLS with, but that speaks none.
    /// Only `optional: true` allows it; `dc` and `rack` alone do not.
    pub fn falls_back(&self) -> bool {
        self.options.options.optional == Some(true)
    }

    /// Speaks TLS with a node that this one has connected to.
    ///
    /// # Errors
    /// When the handshake fails, as where nobody who is trusted has signed the other's certificate.
    pub async fn connect(&self, tcp: TcpStream, to: IpAddr) -> io::Result<client::TlsStream<TcpStream>> {
        let made = self.made.load_full();
        let connector = made.connector.as_ref().ok_or_else(|| io::Error::other("nothing is encrypted"))?;
        TlsConnector::from(Arc::clone(&connector.config)).connect(ServerName::from(to), tcp).await
    }

    /// Speaks TLS with a node that has connected to this one.
    ///
    /// # Errors
    /// When the handshake fails, or the other's certificate is not enough.
    pub async fn accept(&self, tcp: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        let made = self.made.load_full();
        let from = tcp.peer_addr()?.ip();
        let stream = TlsAcceptor::from(made.acceptor.shared_config()).accept(tcp).await?;
        let (_, session) = stream.get_ref();
        made.acceptor
            .admit(session, from, self.env.now_seconds())
            .map_err(|reason| io::Error::new(io::ErrorKind::PermissionDenied, reason))?;
        Ok(stream)
    }

    /// Reads everything again, and has new connections use what has changed; whether it has. May block on the
    /// disk.
    ///
    /// # Errors
    /// [`TlsError`] where what is there now cannot be used. What was in force still is.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let made = make(&self.env, &self.options, &mut Vec::new())?;
        if made.is_made_of_the_same(&self.made.load()) {
            return Ok(false);
        }
        self.made.store(Arc::new(made));
        tracing::info!("the certificates of TLS between nodes have changed, new connections use them");
        Ok(true)
    }
}

impl Made {
    fn is_made_of_the_same(&self, other: &Made) -> bool {
        let origin = |made: &Made| made.connector.as_ref().map(|connector| connector.origin.clone());
        self.acceptor.is_made_of_the_same(&other.acceptor) && origin(self) == origin(other)
    }
}

fn make(env: &Env, options: &InternodeOptions, warnings: &mut Vec<String>) -> Result<Made, TlsError> {
    let of_nodes = |error: TlsError| TlsError { group: NODES, ..error };
    let acceptor = build(env, &options.options, warnings).map_err(of_nodes)?;
    let connector = match options.internode {
        InternodeEncryption::None => None,
        _ => Some(connector(env, options, warnings).map_err(of_nodes)?),
    };
    Ok(Made { acceptor, connector })
}

fn connector(
    env: &Env,
    options: &InternodeOptions,
    warnings: &mut Vec<String>,
) -> Result<Connector, TlsError> {
    let outbound = options.outbound_key();
    let (names, shown) = match &outbound {
        Some(outbound) => (&OUTBOUND_KEY, outbound),
        None => (&OWN_KEY, &options.options),
    };
    let mut of_key = Vec::new();
    let (key, key_bytes) = key(env, names, shown, &mut of_key)?;
    if outbound.is_some() {
        warnings.append(&mut of_key);
    }
    let (trusted, trusted_bytes) = trust(env, &options.options)?;
    let roots = Arc::new(context::roots(Contents::into_trusted(trusted))?);
    let suites = context::cipher_suites(&options.options, &mut |_, _| ())?;
    let versions = context::protocols(&options.options, &mut |_, _| ())?;
    let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..provider::default_provider() });
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| TlsError::new("truststore", error.to_string()))?;
    let verifier =
        NodeVerifier { chain: verifier, verifies_endpoint: options.options.require_endpoint_verification };
    let mut config =
        ClientConfig::builder_with_details(provider, Arc::new(WallClock(Arc::clone(&env.clock))))
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::new("cipher_suites", format!("they fit no protocol: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(key.chain, key.key)
            .map_err(|error| TlsError::new(names.keystore, format!("its key cannot be used: {error}")))?;
    // Every connection shows its certificate.
    config.resumption = Resumption::disabled();
    let origin =
        [key_bytes, trusted_bytes].map(|bytes| digest::digest(&digest::SHA256, &bytes).as_ref().to_vec());
    Ok(Connector { config: Arc::new(config), origin })
}

/// Who signed the certificate of a node counts, and whose it is only where `require_endpoint_verification`
/// says so.
#[derive(Debug)]
struct NodeVerifier {
    chain: Arc<WebPkiServerVerifier>,
    verifies_endpoint: bool,
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Names are looked at last.
        let verified =
            self.chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.verifies_endpoint => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
