//! TLS for clients, as `client_encryption_options` asks for it. That between nodes is in `nodes`.
//!
//! ```text
//! cassandra.yaml ──> EncryptionOptions ──load──> Acceptor { rustls' part, rules for clients }
//! files, inline PEM ─> keystore ──────────┘         │
//!                                                   └─> one session for each connection (net::secure)
//! ```
//!
//! 1. [`Tls::load`] reads the key, its chain, and the certificates that are trusted. What cannot be ends the
//!    start and names the option.
//! 2. New connections take the acceptor in force. Those that are open keep theirs.
//! 3. [`Tls::reload`] reads everything again. What has changed and fits together comes into force, with new
//!    keys for tickets, so nobody resumes a session that the new trust store would refuse. What does not
//!    leaves the old acceptor where it is, and is told.
//! 4. Flight and the admin API speak TLS through [`http`].
//! 5. When a handshake is done, [`Acceptor::admit`] looks at the client's certificate once more: for how long
//!    it is valid, whether it still is (a resumed session does not show that), and for which address.

mod context;
pub(crate) mod http;
mod nodes;
#[cfg(test)]
pub(crate) mod tests;

pub use context::{Acceptor, TlsSession};
pub use nodes::{LoadedForNodes, NodeTls, is_tls};

use crate::config::{ContextFactory, EncryptionOptions, EncryptionPolicy, Secret, Settings, StoreFile};
use arc_swap::ArcSwap;
use context::Material;
use env::Env;
use keystore::{Contents, Identity};
use std::path::Path;
use std::sync::Arc;

/// The map of the configuration that is about clients.
const CLIENTS: &str = "client_encryption_options";

/// Why TLS cannot be had as the configuration wants it.
#[derive(Debug, thiserror::Error)]
#[error("{group}: {option}: {reason}")]
pub struct TlsError {
    group: &'static str,
    option: &'static str,
    reason: String,
}

impl TlsError {
    fn new(option: &'static str, reason: impl Into<String>) -> TlsError {
        TlsError { group: CLIENTS, option, reason: reason.into() }
    }
}

/// What TLS is made of, while the node runs.
#[derive(Debug)]
pub struct Tls {
    env: Env,
    options: EncryptionOptions,
    policy: EncryptionPolicy,
    acceptor: ArcSwap<Acceptor>,
}

/// TLS as it was loaded at the start.
#[derive(Debug)]
pub struct Loaded {
    /// What new connections use.
    pub tls: Arc<Tls>,
    /// What was ignored, one sentence each.
    pub warnings: Vec<String>,
}

impl Tls {
    /// Loads what the settings ask for; `None` where nobody can speak TLS.
    ///
    /// # Errors
    /// [`TlsError`] names the option and what is wrong with it.
    pub fn load(env: &Env, settings: &Settings) -> Result<Option<Loaded>, TlsError> {
        let options = &settings.client_encryption_options;
        let policy = options.policy(Tls::has_key(env, options));
        if policy == EncryptionPolicy::Unencrypted {
            if settings.native_transport_port_ssl.is_some_and(|port| port != settings.native_transport_port) {
                return Err(TlsError::new(
                    "enabled",
                    "Encryption must be enabled in client_encryption_options for native_transport_port_ssl",
                ));
            }
            return Ok(None);
        }
        let mut warnings = Vec::new();
        let acceptor = build(env, options, &mut warnings)?;
        let tls = Tls {
            env: env.clone(),
            options: options.clone(),
            policy,
            acceptor: ArcSwap::from_pointee(acceptor),
        };
        warnings.iter_mut().for_each(|warning| *warning = format!("{CLIENTS}: {warning}"));
        Ok(Some(Loaded { tls: Arc::new(tls), warnings }))
    }

    /// Whether there is a key, be it of use or not.
    fn has_key(env: &Env, options: &EncryptionOptions) -> bool {
        let is_inline = options.factory == ContextFactory::Pem && options.private_key.is_some();
        is_inline || env.fs.exists(&options.keystore.path).unwrap_or(false)
    }

    /// Who has to speak TLS.
    pub fn policy(&self) -> EncryptionPolicy {
        self.policy
    }

    /// What new connections use.
    pub fn acceptor(&self) -> Arc<Acceptor> {
        self.acceptor.load_full()
    }

    /// Wall time in seconds since 1970.
    pub(crate) fn now_s(&self) -> i64 {
        self.env.now_seconds()
    }

    /// Reads everything again, and has new connections use what has changed; whether it has. May block on the
    /// disk.
    ///
    /// # Errors
    /// [`TlsError`] where what is there now cannot be used. What was in force still is.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let mut warnings = Vec::new();
        let acceptor = build(&self.env, &self.options, &mut warnings)?;
        if acceptor.is_made_of_the_same(&self.acceptor.load()) {
            return Ok(false);
        }
        self.acceptor.store(Arc::new(acceptor));
        tracing::info!("the certificates of TLS have changed, new connections use them");
        Ok(true)
    }
}

/// Reads everything again that clients and nodes use; whether anything has changed. May block on the disk.
///
/// # Errors
/// The first [`TlsError`] of either; the other is looked at all the same.
pub fn reload(clients: Option<&Tls>, nodes: Option<&NodeTls>) -> Result<bool, TlsError> {
    let of_clients = clients.map_or(Ok(false), Tls::reload);
    let of_nodes = nodes.map_or(Ok(false), NodeTls::reload);
    Ok(of_clients? | of_nodes?)
}

/// Reads files, and makes an acceptor of them.
fn build(env: &Env, options: &EncryptionOptions, warnings: &mut Vec<String>) -> Result<Acceptor, TlsError> {
    let (key, key_bytes) = key(env, &OWN_KEY, options, warnings)?;
    let (trusted, trusted_bytes) = match options.require_client_auth {
        crate::config::ClientAuth::No => (Vec::new(), Vec::new()),
        _ => {
            let (contents, bytes) = trust(env, options)?;
            (contents.into_trusted(), bytes)
        }
    };
    let material = Material { key, trusted, bytes: [key_bytes, trusted_bytes] };
    Acceptor::build(env, options, material, warnings)
}

/// How the options of a key are called.
struct KeyNames {
    keystore: &'static str,
    password_file: &'static str,
    private_key: &'static str,
}

/// The key that a node shows to those who connect to it, and unless it has another one, to those that it
/// connects to.
const OWN_KEY: KeyNames =
    KeyNames { keystore: "keystore", password_file: "keystore_password_file", private_key: "private_key" };

/// A key of the node, and the bytes that it was read from.
fn key(
    env: &Env,
    names: &KeyNames,
    options: &EncryptionOptions,
    warnings: &mut Vec<String>,
) -> Result<(Identity, Vec<u8>), TlsError> {
    let is_pem = options.factory == ContextFactory::Pem;
    let (option, (mut contents, bytes)) = match options.private_key.as_ref().filter(|_| is_pem) {
        Some(inline) => {
            let path = &options.keystore.path;
            if !path.as_os_str().is_empty() && env.fs.exists(path).unwrap_or(false) {
                let KeyNames { keystore, private_key, .. } = names;
                return Err(TlsError::new(
                    private_key,
                    format!(
                        "Configuration must specify value for either {keystore} or {private_key}, not both"
                    ),
                ));
            }
            let password = options.private_key_password.clone();
            let password = match password {
                Some(password) => Some(password),
                None => password_of(env, names.password_file, &options.keystore)?,
            };
            let bytes = inline.reveal().as_bytes().to_vec();
            (names.private_key, (parse(names.private_key, &bytes, password.as_ref())?, bytes))
        }
        None => {
            let given = options.private_key_password.as_ref().filter(|_| is_pem);
            (names.keystore, store(env, (names.keystore, names.password_file), &options.keystore, given)?)
        }
    };
    if contents.identities.len() > 1 {
        let count = contents.identities.len();
        warnings.push(format!("{option}: it has {count} keys, the first is used"));
    }
    if contents.identities.is_empty() {
        return Err(TlsError::new(option, "there is no private key in it"));
    }
    let identity = contents.identities.swap_remove(0);
    if identity.chain.is_empty() {
        return Err(TlsError::new(option, "there is no certificate for its private key"));
    }
    Ok((identity, bytes))
}

/// What is trusted, and the bytes that it was read from.
fn trust(env: &Env, options: &EncryptionOptions) -> Result<(Contents, Vec<u8>), TlsError> {
    let is_pem = options.factory == ContextFactory::Pem;
    match options.trusted_certificates.as_ref().filter(|_| is_pem) {
        Some(inline) => {
            if env.fs.exists(&options.truststore.path).unwrap_or(false) {
                return Err(TlsError::new(
                    "trusted_certificates",
                    "Configuration must specify value for either truststore or trusted_certificates, not both",
                ));
            }
            let bytes = inline.as_bytes().to_vec();
            Ok((parse("trusted_certificates", &bytes, None)?, bytes))
        }
        None => store(env, ("truststore", "truststore_password_file"), &options.truststore, None),
    }
}

/// A store in a file.
fn store(
    env: &Env,
    (option, password_option): (&'static str, &'static str),
    file: &StoreFile,
    given: Option<&Secret>,
) -> Result<(Contents, Vec<u8>), TlsError> {
    let password = match given {
        Some(password) => Some(password.clone()),
        None => password_of(env, password_option, file)?,
    };
    let bytes = read_file(env, option, &file.path)?;
    let in_file =
        |error: TlsError| TlsError::new(option, format!("{}: {}", file.path.display(), error.reason));
    Ok((parse(option, &bytes, password.as_ref()).map_err(in_file)?, bytes))
}

fn parse(option: &'static str, bytes: &[u8], password: Option<&Secret>) -> Result<Contents, TlsError> {
    keystore::read(bytes, password.map(Secret::reveal))
        .map_err(|error| TlsError::new(option, error.to_string()))
}

/// The password of a store: that of the configuration, or the first line of the file that has it.
fn password_of(env: &Env, option: &'static str, file: &StoreFile) -> Result<Option<Secret>, TlsError> {
    let (None, Some(path)) = (&file.password, &file.password_file) else {
        return Ok(file.password.clone());
    };
    let bytes = read_file(env, option, path)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| TlsError::new(option, format!("{} is no text", path.display())))?;
    Ok(Some(Secret::from(text.lines().next().unwrap_or_default().to_owned())))
}

fn read_file(env: &Env, option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error: std::io::Error| TlsError::new(option, error.to_string());
    let length = env.fs.file_len(path).map_err(failed)?;
    if length > keystore::FILE_BYTES_MAX {
        let most = keystore::FILE_BYTES_MAX;
        return Err(TlsError::new(
            option,
            format!("{} has {length} bytes, at most {most} are read", path.display()),
        ));
    }
    env.fs.read(path).map_err(failed)
}
