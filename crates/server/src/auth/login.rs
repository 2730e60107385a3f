//! A login: name and password of a token, or the identity of a certificate, and whether the role may log in.
//!
//! bcrypt runs where no request waits for it, and lets reads go first ([`super::hashing`]). A name that does
//! not exist takes as long as a wrong password. An address that has failed too often is not heard for a while
//! ([`super::failures`]).

use std::net::IpAddr;
use std::sync::Arc;

use keystore::Certificate;
use protocol::response::error::{ErrorKind, ErrorResponse};
use protocol::sasl;

use super::credentials::Found;
use super::store::{Store, StoreError};
use super::{Auth, Principal, password};
use crate::metrics::Counter;

fn refused(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::new(ErrorKind::BadCredentials, message)
}

/// Why a login is not let in.
struct Refusal {
    answer: ErrorResponse,
    /// Whether it is what was shown that does not let it in: a wrong password, an identity of nobody.
    is_judged: bool,
}

impl From<ErrorResponse> for Refusal {
    fn from(answer: ErrorResponse) -> Refusal {
        Refusal { is_judged: answer.kind == ErrorKind::BadCredentials, answer }
    }
}

/// Roles cannot be read now, perhaps because nodes of the ring are down. The client is not to blame.
impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        tracing::warn!(%error, "roles cannot be read");
        Refusal { answer: refused(format!("Unable to perform authentication: {error}")), is_judged: false }
    }
}

/// Counts what a login came to.
fn count<T>(auth: &Auth, outcome: &Result<T, ErrorResponse>, how: &Counter) {
    match outcome {
        Ok(_) => how.add(1),
        Err(error) if error.kind == ErrorKind::BadCredentials => auth.logins.failures.add(1),
        Err(_) => {}
    }
}

/// Judges a token of SASL PLAIN.
///
/// # Errors
/// In Cassandra's words; an overload where the client's address has failed too often.
pub(crate) async fn by_password(
    auth: &Auth,
    store: &Store,
    from: IpAddr,
    token: &[u8],
) -> Result<Arc<Principal>, ErrorResponse> {
    if auth.failures.is_full(from, store.now_nanos()) {
        auth.logins.limited.add(1);
        return Err(ErrorResponse::overloaded(format!(
            "Too many logins from {from} have failed. Try again later."
        )));
    }
    let outcome = judge_password(auth, store, from, token).await;
    match &outcome {
        Ok(_) => auth.hashing.welcome(from),
        Err(refusal) if refusal.is_judged => auth.failures.note(from, store.now_nanos()),
        Err(_) => {}
    }
    let outcome = outcome.map_err(|refusal| refusal.answer);
    count(auth, &outcome, &auth.logins.by_password);
    outcome
}

async fn judge_password(
    auth: &Auth,
    store: &Store,
    from: IpAddr,
    token: &[u8],
) -> Result<Arc<Principal>, Refusal> {
    let read = sasl::plain(token).map_err(|error| refused(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (user, password) = (text(read.user), text(read.password));
    let (hash_of_role, is_ageing) = match auth.credentials.find(&user, store.now_nanos()) {
        Found::Fresh(hash) => (Some(hash), false),
        Found::Ageing(hash) => (Some(hash), true),
        Found::Nothing => (auth.credentials.read(store, &user).await?, false),
    };
    let is_known = hash_of_role.is_some();
    let checked = hash_of_role.unwrap_or_else(|| password::no_hash(auth.rounds).into());
    let judging = auth.hashing.run_for(from, move || password::is_of(&checked, &password));
    let refreshing = async {
        if is_ageing && let Err(error) = auth.credentials.read(store, &user).await {
            tracing::warn!(%error, "credentials cannot be read");
        }
    };
    let (is_right, ()) = tokio::join!(judging, refreshing);
    let is_right = is_right?;
    if !(is_known && is_right) {
        return Err(refused(format!("Provided username {user} and/or password are incorrect")).into());
    }
    enter(auth, store, &user).await
}

/// Judges the certificate that a client has shown, `None` where there is none. TLS has checked it.
///
/// # Errors
/// In Cassandra's words.
pub(crate) async fn by_certificate(
    auth: &Auth,
    store: &Store,
    certificate: Option<&Certificate>,
) -> Result<Arc<Principal>, ErrorResponse> {
    let outcome = judge_certificate(auth, store, certificate).await.map_err(|refusal| refusal.answer);
    count(auth, &outcome, &auth.logins.by_certificate);
    outcome
}

/// Judges it again, of a client that was the role `before`: who stays the same has not logged in anew, and is
/// not counted.
///
/// # Errors
/// In Cassandra's words.
pub(super) async fn by_certificate_of(
    auth: &Auth,
    store: &Store,
    certificate: &Certificate,
    before: Option<&Principal>,
) -> Result<Arc<Principal>, ErrorResponse> {
    let outcome = judge_certificate(auth, store, Some(certificate)).await.map_err(|refusal| refusal.answer);
    let is_same = |principal: &Arc<Principal>| before.is_some_and(|before| before.name() == principal.name());
    if !outcome.as_ref().is_ok_and(is_same) {
        count(auth, &outcome, &auth.logins.by_certificate);
    }
    outcome
}

async fn judge_certificate(
    auth: &Auth,
    store: &Store,
    certificate: Option<&Certificate>,
) -> Result<Arc<Principal>, Refusal> {
    let certificate = certificate.ok_or_else(|| refused("No certificate present on connection"))?;
    let unnamed = || refused("Unable to extract Spiffe from the certificate");
    let identity = certificate.spiffe().ok_or_else(unnamed)?;
    let role = store.role_of_identity(identity).await?;
    let unknown = || refused(format!("Certificate identity '{identity}' not authorized"));
    enter(auth, store, &role.ok_or_else(unknown)?).await
}

/// The principal of a role that has shown who it is, if it may log in.
async fn enter(auth: &Auth, store: &Store, role: &str) -> Result<Arc<Principal>, Refusal> {
    let principal = auth.principal(role);
    if !auth.is_fresh(&principal, store.now_nanos()) {
        auth.refresh(store, &principal).await.map_err(StoreError::from)?;
    }
    if !principal.grants().can_login {
        return Err(refused(format!("{role} is not permitted to log in")).into());
    }
    Ok(principal)
}
