//! Logins of the admin API, where others than this machine can reach it.
//!
//! | request | needs |
//! |---|---|
//! | GET, HEAD | a login |
//! | those of single reads, whose values are in the answer | a superuser |
//! | what changes something | a superuser |
//! | Flight, for `ilion export` and `ilion sql` | SELECT on each table that is read |
//!
//! A login is a name and a password, or the certificate that a client has shown, where the authenticator
//! takes them; whoever shows both is taken at its word. Tools say so by their header, and get a token for
//! their next requests: bcrypt takes its time.

use super::ApiError;
use super::guard::Endpoint;
use super::serve::{Peer, PeerLogin};
use crate::auth::http::{self, By, Caller, Foremost};
use crate::config::Config;
use crate::node::Node;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use protocol::response::error::{ErrorKind, ErrorResponse};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tools::api::HEADER;

/// How the paths of Flight begin.
const FLIGHT: &str = "/arrow.flight.protocol.FlightService/";
/// What is asked for with GET, and answered with values of tables.
const WITH_VALUES: [&str; 2] = ["/api/v1/reads/samples", "/api/v1/reads/slow"];

/// Whether the admin API may listen where the configuration wants it.
///
/// # Errors
/// What is missing, in words.
pub(crate) fn may_listen(config: &Config, has_tls: bool) -> Result<(), String> {
    let address = config.admin_address.ip();
    let lacks = match (has_tls, config.auth.authenticator.asks()) {
        _ if address.is_loopback() => return Ok(()),
        (true, true) => return Ok(()),
        (false, true) => "client_encryption_options have to be enabled",
        (true, false) => "authenticator has to be PasswordAuthenticator, or one that takes certificates",
        (false, false) => {
            "client_encryption_options have to be enabled, and authenticator has to be PasswordAuthenticator, \
             or one that takes certificates"
        }
    };
    Err(format!(
        "admin_address: others can reach {address}, so the admin API needs TLS and logins there: {lacks}"
    ))
}

/// Lets a request through whose sender has logged in and may ask for that.
pub(super) async fn check(
    State(node): State<Arc<Node>>,
    ConnectInfo(endpoint): ConnectInfo<Endpoint>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_flight = request.uri().path().starts_with(FLIGHT);
    let from = request.extensions().get::<Peer>().map(|peer| peer.0);
    // The Unix socket is of this machine.
    let from = from.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    if !matches!(endpoint, Endpoint::Remote) {
        tell_log(&node, &mut request, None, from).await;
        return next.run(request).await;
    }
    let shown = request.extensions().get::<PeerLogin>().map(|shown| Arc::clone(&shown.0));
    let identified = http::identify(&node, request.headers(), shown.as_deref(), Foremost::Header, from).await;
    let Caller { principal, by } = match identified {
        Ok(caller) => caller,
        Err(error) => return refusal(error, is_flight),
    };
    let asks_for_more = !is_flight && needs_superuser(request.method(), request.uri().path());
    if asks_for_more && !principal.grants().is_super {
        let name = principal.name();
        let message =
            format!("User {name} is not a superuser, and may ask for nothing but what is open to all roles");
        return ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).into_response();
    }
    request.headers_mut().remove(header::AUTHORIZATION);
    let wants_token = by == By::Password && request.headers().contains_key(HEADER);
    tell_log(&node, &mut request, Some(principal.name()), from).await;
    #[cfg(feature = "bulk")]
    {
        let tables = crate::flight::TablesOfRole::new(&node, Arc::clone(&principal), "admin");
        request.extensions_mut().insert(tables.of_caller());
    }
    let mut response = next.run(request).await;
    if wants_token && let Some(token) = http::token(&node, &principal) {
        response.headers_mut().insert(header::AUTHORIZATION, token);
    }
    response
}

/// Has the audit log told of what a request of Flight reads.
async fn tell_log(node: &Arc<Node>, request: &mut Request, user: Option<&Arc<str>>, from: SocketAddr) {
    #[cfg(feature = "bulk")]
    if request.uri().path().starts_with(FLIGHT)
        && let Some(log) = crate::flight::log_of_caller(&node.state, user, from).await
    {
        request.extensions_mut().insert(log);
    }
    let _ = (node, request, user, from);
}

/// Whether a request is one of superusers.
fn needs_superuser(method: &Method, path: &str) -> bool {
    !matches!(*method, Method::GET | Method::HEAD) || WITH_VALUES.contains(&path)
}

/// What somebody is told who has not logged in.
fn refusal(error: ErrorResponse, is_flight: bool) -> Response {
    #[cfg(feature = "bulk")]
    if is_flight {
        return crate::flight::refusal(error).into_http::<axum::body::Body>();
    }
    let _ = is_flight;
    let (status, kind) = match error.kind {
        ErrorKind::BadCredentials => (StatusCode::UNAUTHORIZED, "unauthorized"),
        ErrorKind::Unauthorized => (StatusCode::FORBIDDEN, "forbidden"),
        ErrorKind::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
    };
    let mut response = ApiError::new(status, kind, error.message).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let asks = HeaderValue::from_static("Basic realm=\"ilion\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, asks);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_needs_no_superuser_unless_values_are_answered() {
        for path in ["/metrics", "/api/v1/status", "/api/v1/reads/heat"] {
            assert!(!needs_superuser(&Method::GET, path) && !needs_superuser(&Method::HEAD, path));
        }
        assert!(WITH_VALUES.iter().all(|path| needs_superuser(&Method::GET, path)));
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
            assert!(needs_superuser(&method, "/api/v1/status"), "{method}");
        }
    }

    #[test]
    fn routes_with_values_are_there() {
        let there = |path: &&str| {
            super::super::ROUTES.iter().any(|(method, other, _)| (*method, *other) == ("get", *path))
        };
        assert!(WITH_VALUES.iter().all(there));
    }
}
