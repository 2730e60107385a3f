//! The login of a connection of HTTP by the certificate that its client has shown.
//!
//! ```text
//! request ─> is the last answer fresh? ─ yes ─> the role
//!                       └─ no ─> identity_to_role, the role's grants ─> the role, or a refusal
//! ```
//!
//! 1. The first request of a connection is its login: it is counted, and told to the audit log.
//! 2. The answer counts for as long as grants do, so a request costs no look-up. A statement on roles makes
//!    it old at once: an identity that was dropped, a role that may not log in any more.
//! 3. A connection that stays the same role has not logged in anew. A refusal is told each time.

use std::net::SocketAddr;
use std::sync::Arc;

use keystore::Certificate;
use protocol::response::error::ErrorResponse;
use tokio::sync::Mutex;

use super::login;
use super::store::Store;
use super::{Moment, Principal};
use crate::state::NodeState;

/// What the client of a connection has shown in its handshake, and who that is.
#[derive(Debug)]
pub(crate) struct CertificateLogin {
    certificate: Arc<Certificate>,
    /// Requests of one connection wait for each other here: the first look-up is for all of them.
    last: Mutex<Option<(Arc<Principal>, Moment)>>,
}

impl CertificateLogin {
    /// A connection whose client has not been asked for anything else yet.
    pub(crate) fn new(certificate: Arc<Certificate>) -> CertificateLogin {
        CertificateLogin { certificate, last: Mutex::default() }
    }

    /// The role of the certificate.
    ///
    /// # Errors
    /// In the words of a login by CQL.
    pub(crate) async fn principal(
        &self,
        state: &NodeState,
        store: &Store,
        from: SocketAddr,
    ) -> Result<Arc<Principal>, ErrorResponse> {
        let auth = &state.auth;
        let mut last = self.last.lock().await;
        let now_nanos = store.now_nanos();
        if let Some((principal, moment)) = &*last
            && auth.is_recent(*moment, now_nanos)
            && auth.is_fresh(principal, now_nanos)
            && principal.grants().can_login
        {
            return Ok(Arc::clone(principal));
        }
        // Before anything is read: a change meanwhile makes it old.
        let moment = auth.moment(now_nanos);
        let before = last.as_ref().map(|(principal, _)| Arc::clone(principal));
        let judged = login::by_certificate_of(auth, store, &self.certificate, before.as_deref()).await;
        match &judged {
            Ok(principal) => {
                if before.is_none_or(|before| before.name() != principal.name()) {
                    state.logs.note_login(Some(principal.name()), from, None);
                }
                *last = Some((Arc::clone(principal), moment));
            }
            Err(error) => {
                *last = None;
                state.logs.note_login(None, from, Some(error));
            }
        }
        judged
    }
}
