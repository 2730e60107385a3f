//! How a session begins: plain or through TLS, and as whom.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::Error;

/// What the command line says of it.
#[derive(Debug, Clone, Default, Args)]
pub struct Settings {
    /// Speak TLS, and trust this authority (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Log in as this role
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// With this password
    #[arg(long, requires = "user")]
    password: Option<String>,
}

/// The same, ready for use.
#[derive(Debug, Clone, Default)]
pub struct Door {
    tls: Option<Arc<ClientConfig>>,
    login: Option<(String, String)>,
}

impl Settings {
    /// Reads the certificates.
    pub fn open(&self) -> Result<Door, Error> {
        let tls = self.tls_ca.as_ref().map(trusting).transpose()?;
        Ok(Door { tls, login: self.user.clone().zip(self.password.clone()) })
    }
}

impl Door {
    /// A TLS session with the server at this address, whose certificate has to name it; `None` without TLS.
    pub fn tls(&self, server: IpAddr) -> Result<Option<ClientConnection>, Error> {
        let Some(config) = &self.tls else { return Ok(None) };
        let session = ClientConnection::new(Arc::clone(config), ServerName::IpAddress(server.into()));
        let mut session = session.map_err(|error| Error::Usage(format!("TLS: {error}")))?;
        // What is written goes out at once or waits in the client, as it does without TLS.
        session.set_buffer_limit(None);
        Ok(Some(session))
    }

    /// The token of AUTH_RESPONSE (SASL PLAIN, RFC 4616); `None` if nobody is to log in.
    pub fn token(&self) -> Option<Vec<u8>> {
        self.login.as_ref().map(|(user, password)| format!("\0{user}\0{password}").into_bytes())
    }
}

/// A client's settings that trust one authority: TLS 1.3, and each session is a new one, none is resumed.
fn trusting(path: &PathBuf) -> Result<Arc<ClientConfig>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Usage(format!("{}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))? {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let config = config.map_err(|error| failed(&error))?.with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// An address that nobody else comes from, on loopback: the server counts logins for each.
pub fn source(number: u64) -> SocketAddr {
    let [.., high, low] = (number % 62_500).to_be_bytes();
    SocketAddr::from(([127, 77, high, low], 0))
}
