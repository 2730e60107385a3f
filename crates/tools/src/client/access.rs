//! How a command shows who it is, and whom it speaks to: the flags of Cassandra's nodetool for a login, and
//! TLS.
//!
//! The admin API on the loopback address and its socket ask for nothing. Elsewhere it speaks TLS and wants a
//! login. A password never goes over a network as it is.

use super::Place;
use clap::Args;
use env::Env;
use rustls::crypto::ring as provider;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags of a login and of TLS.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessArgs {
    /// Role that asks, where the admin API wants a login
    #[arg(short = 'u', long, visible_alias = "user", value_name = "NAME", global = true)]
    username: Option<String>,
    /// Its password (-pw); lists of processes show it, a file keeps it
    #[arg(long, value_name = "PASSWORD", global = true)]
    password: Option<Secret>,
    /// File with a line `NAME PASSWORD` for the role (-pwf)
    #[arg(long, value_name = "FILE", global = true)]
    password_file: Option<PathBuf>,
    /// Speak TLS with the admin API
    #[arg(long, global = true)]
    ssl: bool,
    /// Certificates that say which node to trust, for --ssl
    #[arg(long, value_name = "FILE", global = true)]
    ssl_ca: Option<PathBuf>,
    /// Own certificate and its key in one file, where the node asks for one, for --ssl
    #[arg(long, value_name = "FILE", global = true)]
    ssl_cert: Option<PathBuf>,
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("*******")
    }
}

impl Secret {
    /// The text.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// What goes along with requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Whom to trust; `None` without TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// The `authorization` header.
    pub(crate) authorization: Option<Secret>,
}

impl AccessArgs {
    /// What the flags say for a place.
    ///
    /// # Errors
    /// In words, where they make no sense together or a file cannot be used.
    pub(crate) fn access(&self, place: &Place) -> Result<Access, String> {
        let env = Env::real();
        let tls = trust(&env, self.ssl, self.ssl_ca.as_deref(), self.ssl_cert.as_deref())?;
        let authorization = self.login(&env)?;
        if authorization.is_some() && tls.is_none() && !is_here(place) {
            return Err(format!("the password would go to {place} as it is: --ssl encrypts it"));
        }
        Ok(Access { tls, authorization })
    }

    fn login(&self, env: &Env) -> Result<Option<Secret>, String> {
        let Some(user) = &self.username else {
            return match self.password.is_some() || self.password_file.is_some() {
                true => Err("a password needs --username".to_owned()),
                false => Ok(None),
            };
        };
        if user.contains(':') {
            return Err("a name with a colon cannot log in over HTTP".to_owned());
        }
        let password = match (&self.password, &self.password_file) {
            (Some(_), Some(_)) => {
                return Err("--password and --password-file exclude each other".to_owned());
            }
            (Some(password), None) => password.clone(),
            (None, Some(path)) => password_of(&read(env, path)?, user)
                .ok_or_else(|| format!("{} has no line '{user} PASSWORD'", path.display()))?,
            (None, None) => return Err("--username needs --password-file (-pwf) or --password".to_owned()),
        };
        Ok(Some(Secret(format!("Basic {}", base64(format!("{user}:{}", password.reveal()).as_bytes())))))
    }
}

/// What `--ssl`, `--ssl-ca` and `--ssl-cert` say: whom to trust, and the own certificate; `None` without TLS.
///
/// # Errors
/// In words, where they make no sense together or a file cannot be used.
pub(crate) fn trust(
    env: &Env,
    ssl: bool,
    ca: Option<&Path>,
    own: Option<&Path>,
) -> Result<Option<Arc<ClientConfig>>, String> {
    if !ssl {
        return match ca.or(own) {
            Some(_) => Err("--ssl-ca and --ssl-cert are for --ssl".to_owned()),
            None => Ok(None),
        };
    }
    let ca = ca.ok_or("--ssl needs --ssl-ca: the certificates that are trusted")?;
    let of = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let mut roots = RootCertStore::empty();
    let contents = keystore::read(&read(env, ca)?, None).map_err(|error| of(ca, &error))?;
    for certificate in contents.into_trusted() {
        roots.add(certificate).map_err(|error| of(ca, &error))?;
    }
    if roots.is_empty() {
        return Err(of(ca, &"there is no certificate in it"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    let Some(path) = own else { return Ok(Some(Arc::new(builder.with_no_client_auth()))) };
    let mut own = keystore::read(&read(env, path)?, None).map_err(|error| of(path, &error))?;
    if own.identities.is_empty() {
        return Err(of(path, &"there is no private key in it"));
    }
    let own = own.identities.swap_remove(0);
    let config = builder.with_client_auth_cert(own.chain, own.key).map_err(|error| of(path, &error))?;
    Ok(Some(Arc::new(config)))
}

fn read(env: &Env, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if env.fs.file_len(path).map_err(failed)? > keystore::FILE_BYTES_MAX {
        return Err(format!("{} is too long", path.display()));
    }
    env.fs.read(path).map_err(failed)
}

/// The password in a file whose lines are a name, blanks and a password each, as nodetool has it.
fn password_of(bytes: &[u8], user: &str) -> Option<Secret> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::split_whitespace);
    lines
        .find_map(|mut words| (words.next() == Some(user)).then(|| words.next()).flatten())
        .map(|password| Secret(password.to_owned()))
}

/// Whether nobody else can listen on the way to a place.
fn is_here(place: &Place) -> bool {
    match place {
        Place::Socket(_) => true,
        Place::Tcp(address) => {
            let host = host(address);
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

/// The host of `HOST:PORT`.
pub(crate) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| usize::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS.get(bits >> (18 - 6 * place) & 63).copied().unwrap_or(b'=');
            out.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(user: Option<&str>, password: Option<&str>) -> AccessArgs {
        AccessArgs {
            username: user.map(str::to_owned),
            password: password.map(|text| Secret(text.to_owned())),
            ..AccessArgs::default()
        }
    }

    #[test]
    fn a_login_is_basic_and_not_shown() {
        let here = Place::Tcp("127.0.0.1:9180".to_owned());
        let access = args(Some("bob"), Some("secret")).access(&here).unwrap();
        assert_eq!(access.authorization.as_ref().unwrap().reveal(), "Basic Ym9iOnNlY3JldA==");
        let shown = format!("{access:?} {:?}", args(Some("bob"), Some("secret")));
        assert!(!shown.contains("secret") && !shown.contains("Ym9i"), "{shown}");
        assert!(args(None, None).access(&here).unwrap().authorization.is_none());
    }

    #[test]
    fn flags_that_do_not_fit_are_refused() {
        let refused = |args: &AccessArgs, address: &str| {
            args.access(&Place::Tcp(address.to_owned())).err().unwrap_or_default()
        };
        let login = args(Some("bob"), Some("x"));
        assert!(refused(&login, "10.0.0.1:9180").contains("--ssl encrypts it"));
        for here in ["localhost:1", "[::1]:9180", "127.0.0.9:1"] {
            assert_eq!(refused(&login, here), "");
        }
        assert!(refused(&args(None, Some("x")), "localhost:1").contains("needs --username"));
        assert!(refused(&args(Some("bob"), None), "localhost:1").contains("--password-file"));
        assert!(refused(&AccessArgs { ssl: true, ..args(None, None) }, "localhost:1").contains("--ssl-ca"));
    }

    #[test]
    fn a_file_has_a_line_for_each_role() {
        let of = |user| password_of(b"amy a1\n\n  bob \t b2 rest\nbobby\n", user).map(|secret| secret.0);
        assert_eq!((of("amy").as_deref(), of("bob").as_deref()), (Some("a1"), Some("b2")));
        assert_eq!((of("bobby"), of("b2")), (None, None));
    }

    #[test]
    fn base64_has_its_padding() {
        for (bytes, digits) in
            [(&b""[..], ""), (b"A", "QQ=="), (b"AB", "QUI="), (b"ABC", "QUJD"), (b"\xff\xef\0", "/+8A")]
        {
            assert_eq!(base64(bytes), digits);
        }
    }
}
