//! Logins of HTTP: who sends a request to Flight or to the admin API, by its `authorization` header or by the
//! certificate of its connection ([`super::certificate`]).
//!
//! ```text
//! authorization: Basic base64(user:password)   bcrypt, as a login of CQL; the answer may carry a token
//! authorization: Bearer token                  a look-up in memory
//! ```
//!
//! Of a client that shows both, Flight believes the certificate, as CQL does, and the admin API the header.
//!
//! What the role may do is looked up anew where it is old, as before each request of CQL. Neither passwords
//! nor tokens are logged.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HeaderValue};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use protocol::response::error::{ErrorKind, ErrorResponse};

use super::Principal;
use super::certificate::CertificateLogin;
use super::login;
use super::store::Store;
use crate::node::Node;

/// Clients in Go send no padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Bytes of a header: names and passwords are far shorter.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The role.
    pub(crate) principal: Arc<Principal>,
    /// How it showed that.
    pub(crate) by: By,
}

/// How a sender shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// By its password: it may want a token.
    Password,
    /// By a token.
    Token,
    /// By its connection's certificate.
    Certificate,
}

/// What a header says.
enum Shown<'a> {
    /// A token of SASL PLAIN: name and password.
    Password(Vec<u8>),
    Token(&'a str),
}

fn refused(message: &str) -> ErrorResponse {
    ErrorResponse::new(ErrorKind::BadCredentials, message)
}

/// Reads the `authorization` header.
fn shown(headers: &HeaderMap) -> Result<Shown<'_>, ErrorResponse> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err(refused("You have not logged in")),
        (Some(value), None) if value.len() <= HEADER_BYTES_MAX => value.to_str().unwrap_or_default(),
        _ => "",
    };
    let (scheme, rest) = value.split_once(' ').unwrap_or_default();
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Shown::Token(rest));
    }
    let decoded = match scheme.eq_ignore_ascii_case("basic") {
        true => BASE64.decode(rest).ok(),
        false => None,
    };
    let nonsense = || refused("The authorization header is neither Basic nor Bearer");
    let decoded = decoded.ok_or_else(nonsense)?;
    let colon = decoded.iter().position(|byte| *byte == b':').ok_or_else(nonsense)?;
    let (user, password) = decoded.split_at(colon);
    let password = password.get(1..).unwrap_or_default();
    Ok(Shown::Password([&[0], user, &[0], password].concat()))
}

/// Which of both counts, of a client that shows a certificate and a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foremost {
    /// The certificate, as with CQL: the header is not looked at.
    #[cfg_attr(not(feature = "bulk"), expect(dead_code, reason = "only Flight asks as CQL does"))]
    Certificate,
    /// The header.
    Header,
}

/// Who sends a request with these headers, from an address where the role may be, on a connection whose
/// client TLS may have asked for a certificate. That is a login where the authenticator says so.
///
/// # Errors
/// In the words of a login by CQL.
pub(crate) async fn identify(
    node: &Node,
    headers: &HeaderMap,
    certificate: Option<&CertificateLogin>,
    foremost: Foremost,
    from: SocketAddr,
) -> Result<Caller, ErrorResponse> {
    let state = &node.state;
    let store = Store::new(state, &node.coordinator);
    let is_by_certificate = match foremost {
        Foremost::Certificate => state.auth.authenticator().logs_in_by_certificate(certificate.is_some()),
        Foremost::Header => {
            let takes_certificates = state.auth.authenticator().takes_certificates();
            takes_certificates && certificate.is_some() && !headers.contains_key(AUTHORIZATION)
        }
    };
    let found = async {
        let caller = match is_by_certificate {
            true => by_certificate(node, &store, certificate, from).await?,
            false => by_header(node, &store, headers, from).await?,
        };
        if let Some(cidr) = state.auth.cidr()
            && cidr.claim_reload(store.now_nanos())
        {
            cidr.reload_early(&store).await;
        }
        state.auth.admit(&caller.principal, from.ip(), || state.env.clock.monotonic_nanos())?;
        Ok(caller)
    };
    let found: Result<Caller, ErrorResponse> = found.await;
    if let Err(error) = &found {
        state.metrics.record_error(error.kind.code());
    }
    found
}

async fn by_certificate(
    node: &Node,
    store: &Store,
    certificate: Option<&CertificateLogin>,
    from: SocketAddr,
) -> Result<Caller, ErrorResponse> {
    let state = &node.state;
    let judged = match certificate {
        Some(certificate) => certificate.principal(state, store, from).await,
        None => {
            let judged = login::by_certificate(&state.auth, store, None).await;
            state.logs.note_login(None, from, judged.as_ref().err());
            judged
        }
    };
    Ok(Caller { principal: judged?, by: By::Certificate })
}

async fn by_header(
    node: &Node,
    store: &Store,
    headers: &HeaderMap,
    from: SocketAddr,
) -> Result<Caller, ErrorResponse> {
    let state = &node.state;
    match shown(headers)? {
        Shown::Password(_) if !state.auth.authenticator().takes_passwords() => {
            Err(refused("Certificates are logins here, passwords are none"))
        }
        Shown::Password(token) => {
            let judged = login::by_password(&state.auth, store, from.ip(), &token).await;
            let user = judged.as_ref().ok().map(|principal| principal.name());
            state.logs.note_login(user, from, judged.as_ref().err());
            Ok(Caller { principal: judged?, by: By::Password })
        }
        Shown::Token(token) => {
            let unknown = || refused("The token is unknown or has expired; log in again");
            let now_nanos = store.now_nanos();
            let principal = state.auth.tokens.find(token, now_nanos).ok_or_else(unknown)?;
            if !state.auth.is_fresh(&principal, now_nanos) {
                state.auth.refresh(store, &principal).await.map_err(|error| {
                    tracing::error!(%error, "permissions cannot be read");
                    refused(&error.to_string())
                })?;
            }
            if !principal.grants().can_login {
                state.auth.tokens.revoke(token);
                return Err(refused(&format!("{} is not permitted to log in", principal.name())));
            }
            Ok(Caller { principal, by: By::Token })
        }
    }
}

/// A header with a new token of a role.
pub(crate) fn token(node: &Node, principal: &Arc<Principal>) -> Option<HeaderValue> {
    let env = &node.state.env;
    let token = node.state.auth.tokens.issue(principal, &env.random, env.clock.monotonic_nanos());
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        match shown(&headers) {
            Ok(Shown::Password(token)) => Ok(token),
            Ok(Shown::Token(token)) => Ok(token.as_bytes().to_vec()),
            Err(error) => Err(error.message),
        }
    }

    #[test]
    fn names_and_passwords_are_those_of_sasl() {
        assert_eq!(of(&[b"Basic Ym9iOnNlY3JldA=="]).unwrap(), b"\0bob\0secret");
        // Without padding.
        assert_eq!(of(&[b"Basic Ym9iOnNlY3JldA"]).unwrap(), b"\0bob\0secret");
        // bob:a:b
        assert_eq!(of(&[b"basic Ym9iOmE6Yg=="]).unwrap(), b"\0bob\0a:b");
        assert_eq!(of(&[b"BEARER abc"]).unwrap(), b"abc");
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let nonsense = "The authorization header is neither Basic nor Bearer";
        let long = [b"Basic ".to_vec(), vec![b'A'; HEADER_BYTES_MAX]].concat();
        for value in [&b""[..], b"Basic", b"Basic !!", b"Basic Ym9i", b"Digest x", b"Basic \xff", &long] {
            assert_eq!(of(&[value]).unwrap_err(), nonsense, "{value:?}");
        }
        assert_eq!(of(&[b"Bearer a", b"Bearer b"]).unwrap_err(), nonsense);
        assert_eq!(of(&[]).unwrap_err(), "You have not logged in");
    }
}
