//! A login: name and password of a token, bcrypt, and whether the role may log in.
//!
//! bcrypt takes tens of milliseconds of a processor by intention. At most `native_transport_max_auth_threads`
//! run at once, on half of the processors and on threads that no request waits for; some more logins wait,
//! others are refused. A name that does not exist takes as long as a wrong password.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::response::error::{ErrorKind, ErrorResponse};

use super::store::Store;
use super::{Auth, Principal, WAITING_MAX, password};
use crate::slices::take_time;

/// Counts a login that waits.
struct Waiting<'a>(&'a Auth);

impl<'a> Waiting<'a> {
    fn new(auth: &'a Auth) -> Option<Waiting<'a>> {
        let waiting = Waiting(auth);
        (auth.waiting.fetch_add(1, Ordering::AcqRel) < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

fn refused(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::new(ErrorKind::BadCredentials, message)
}

/// Runs `work` with one of the few threads for bcrypt.
pub(super) async fn hash<T: Send + 'static>(
    auth: &Auth,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ErrorResponse> {
    let overloaded = || {
        ErrorResponse::overloaded(
            "Too many logins are waiting. Server is currently in an overloaded state and cannot accept more \
             requests.",
        )
    };
    let _waiting = Waiting::new(auth).ok_or_else(overloaded)?;
    // Whoever goes away leaves work behind that is counted to its end.
    let permit = Arc::clone(&auth.hashing).acquire_owned().await.map_err(|_| overloaded())?;
    let done = take_time(move || {
        let _permit = permit;
        work()
    });
    done.await.map_err(|error| ErrorResponse::server(error.to_string()))
}

/// Judges a token of SASL PLAIN.
///
/// # Errors
/// In Cassandra's words.
pub(crate) async fn log_in(
    auth: &Auth,
    store: &Store,
    token: &[u8],
) -> Result<Arc<Principal>, ErrorResponse> {
    let (user, password) = password::credentials(token).map_err(refused)?;
    let unable = |error: super::store::StoreError| {
        tracing::error!(%error, "roles cannot be read");
        refused(format!("Unable to perform authentication: {error}"))
    };
    let role = store.role(&user).await.map_err(unable)?;
    let hash_of_role = role.and_then(|role| role.salted_hash);
    let is_known = hash_of_role.is_some();
    let checked = hash_of_role.unwrap_or_else(|| password::no_hash(auth.rounds));
    let is_right = hash(auth, move || password::is_of(&checked, &password)).await?;
    if !(is_known && is_right) {
        return Err(refused(format!("Provided username {user} and/or password are incorrect")));
    }
    let principal = auth.principal(&user);
    let now = store.now_nanos();
    if !auth.is_fresh(&principal, now) {
        auth.refresh(store, &principal).await.map_err(unable)?;
    }
    if !principal.grants().can_login {
        return Err(refused(format!("{user} is not permitted to log in")));
    }
    Ok(principal)
}
