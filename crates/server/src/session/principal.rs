//! Who sends a request: the login, fresh grants before anything is begun, and the check of each statement.

use std::sync::Arc;

use bytes::Bytes;
use cql::ast::Statement as Tree;
use cql::plan::roles;
use keystore::Certificate;
use protocol::Extras;
use protocol::request::Request;
use protocol::response::error::ErrorResponse;
use protocol::response::{AuthSuccess, Response, ResultBody};

use super::statements::Statement;
use super::{Answer, Exchange, Sessions, end, error, proceed};
use crate::auth::check::{self, unauthorized};
use crate::auth::login;
use crate::auth::resource::Resource;
use crate::auth::statements::Performer;
use crate::auth::store::Store;
use crate::auth::{Freshness, Principal};
use crate::config::Authenticator;
use crate::metrics::RequestKind;
use crate::net::{Arrival, Connection, Entrance, Reply};
use crate::state::NodeState;

impl Sessions {
    pub(super) fn store(&self) -> Store {
        Store::new(&self.node, &self.coordinator)
    }

    /// How the client of a connection gets in.
    pub(super) fn entrance_of(&self, connection: &Connection) -> Entrance {
        match self.node.auth.authenticator() {
            Authenticator::AllowAll => Entrance::Open,
            authenticator if logs_in_by_certificate(authenticator, connection) => Entrance::Certificate,
            authenticator => Entrance::Asked(authenticator.class()),
        }
    }

    /// Judges the certificate of a connection's client.
    async fn judge_certificate(&self, connection: &Connection) -> Result<Arc<Principal>, ErrorResponse> {
        let auth = &self.node.auth;
        let outcome = login::by_certificate(auth, &self.store(), certificate(connection)).await;
        note(&self.node, connection, outcome)
    }
}

/// What the client has shown.
fn certificate(connection: &Connection) -> Option<&Certificate> {
    connection.tls().and_then(|session| session.peer.as_ref())
}

/// Whether the certificate of a client is its login, rather than a password.
fn logs_in_by_certificate(authenticator: Authenticator, connection: &Connection) -> bool {
    authenticator.logs_in_by_certificate(certificate(connection).is_some())
}

/// Logs and counts what a login came to.
fn note(
    node: &NodeState,
    connection: &Connection,
    outcome: Result<Arc<Principal>, ErrorResponse>,
) -> Result<Arc<Principal>, ErrorResponse> {
    let user = outcome.as_ref().ok().map(|principal| principal.name());
    node.logs.note_login(user, connection.peer, outcome.as_ref().err());
    match &outcome {
        Ok(principal) => {
            tracing::debug!(role = %principal.name(), peer = %connection.peer, "a client has logged in");
        }
        Err(error) => {
            tracing::debug!(peer = %connection.peer, "a login was refused");
            node.metrics.record_error(error.kind.code());
        }
    }
    outcome
}

/// Judges the certificate of a client that has sent STARTUP.
pub(super) async fn log_in_early(sessions: Arc<Sessions>, arrival: Arrival) {
    match sessions.judge_certificate(arrival.connection()).await {
        Ok(principal) => arrival.admit(principal),
        Err(error) => arrival.refuse(error),
    }
}

/// Answers AUTH_RESPONSE.
pub(super) async fn log_in(sessions: Arc<Sessions>, token: Option<Bytes>, reply: Reply) {
    let node = &sessions.node;
    if !node.auth.authenticates() {
        // Whoever says who it is without being asked is believed.
        return reply.send(&Response::AuthSuccess(AuthSuccess { token: None }), &Extras::default());
    }
    let connection = Arc::clone(reply.connection());
    let outcome = if logs_in_by_certificate(node.auth.authenticator(), &connection) {
        // Whoever is in by its certificate is that again, whatever the token says.
        sessions.judge_certificate(&connection).await
    } else {
        let (from, token) = (connection.peer.ip(), token.unwrap_or_default());
        let outcome = login::by_password(&node.auth, &sessions.store(), from, &token).await;
        note(node, &connection, outcome)
    };
    match outcome {
        Ok(principal) => {
            connection.admit_as(principal);
            reply.send(&Response::AuthSuccess(AuthSuccess { token: None }), &Extras::default());
        }
        Err(error) => reply.send_error(error, &Extras::default()),
    }
}

/// Looks the grants of a principal up, then goes on with its request.
pub(super) async fn with_fresh_grants(mut exchange: Exchange, request: Request, is_long: bool) {
    let sessions = Arc::clone(&exchange.sessions);
    if let Some(principal) = exchange.principal()
        && let Err(error) = sessions.node.auth.refresh(&sessions.store(), &principal).await
    {
        tracing::warn!(%error, "permissions cannot be read");
        return end(&mut exchange, RequestKind::Query, Err(unauthorized(error.to_string())));
    }
    if let Some(handling) = proceed(exchange, request, is_long) {
        handling.await;
    }
}

impl Exchange {
    /// Who sent it; `None` where nobody has to log in.
    pub(super) fn principal(&self) -> Option<Arc<Principal>> {
        self.connection.principal()
    }

    /// Whether what the sender may do has to be looked up first.
    pub(super) fn has_old_grants(&self) -> bool {
        let auth = &self.sessions.node.auth;
        // Statements on roles look for themselves.
        if !auth.authorizes() && !auth.restricts_places() && !self.sessions.guards {
            return false;
        }
        let principal = self.connection.principal_now();
        let Some(principal) = &*principal else { return false };
        match auth.freshness(principal, self.started_nanos) {
            Freshness::Fresh => false,
            Freshness::Old => true,
            Freshness::Ageing => {
                if principal.claim_refresh() {
                    let (sessions, principal) = (Arc::clone(&self.sessions), Arc::clone(principal));
                    tokio::spawn(async move {
                        sessions.node.auth.refresh_early(&sessions.store(), &principal).await;
                    });
                }
                false
            }
        }
    }

    /// Refuses a statement that comes from where its sender may not be.
    fn admit(&self, principal: &Principal) -> Result<(), ErrorResponse> {
        let node = &self.sessions.node;
        if !node.auth.restricts_places() {
            return Ok(());
        }
        if let Some(cidr) = node.auth.cidr()
            && cidr.claim_reload(self.started_nanos)
        {
            let sessions = Arc::clone(&self.sessions);
            tokio::spawn(async move {
                if let Some(cidr) = sessions.node.auth.cidr() {
                    cidr.reload_early(&sessions.store()).await;
                }
            });
        }
        let clock = || node.env.clock.monotonic_nanos();
        node.auth.admit(principal, self.connection.peer.ip(), clock)
    }

    /// Refuses a statement that the sender may not have carried out.
    pub(super) fn authorize(&self, statement: &Statement, in_use: Option<&str>) -> Result<(), ErrorResponse> {
        let node = &self.sessions.node;
        if !node.auth.authenticates() {
            return Ok(());
        }
        let principal = self.connection.principal_now();
        let Some(principal) = &*principal else { return Err(unauthorized("You have not logged in")) };
        self.admit(principal)?;
        if !node.auth.authorizes() {
            return Ok(());
        }
        check::check(principal, statement.needs(|| node.schema()))?;
        if node.config.settings.dynamic_data_masking_enabled {
            check::check_masked_conditions(principal, &statement.plan)?;
        }
        match statement.plan.schema_change() {
            Some(tree) => check::check_schema(principal, tree, in_use, &node.schema()),
            None => Ok(()),
        }
    }
}

impl Exchange {
    /// Whether the sender sees masked columns as they are: with the permission, and where nothing is masked.
    pub(super) fn unmasks(&self, statement: &Statement) -> bool {
        let node = &self.sessions.node;
        if !statement.plan.has_masks
            || !node.config.settings.dynamic_data_masking_enabled
            || !node.auth.authorizes()
        {
            return true;
        }
        let principal = self.connection.principal_now();
        let Some(principal) = &*principal else { return false };
        statement.plan.tables.iter().all(|table| check::unmasks(principal, &table.keyspace, &table.table))
    }
}

/// A statement about roles.
pub(super) async fn about_roles(
    exchange: &mut Exchange,
    tree: &Tree,
    keyspace: Option<&str>,
) -> Result<Answer, ErrorResponse> {
    // Nothing of it is told as slow: bcrypt is slow by intention.
    exchange.changes_schema = true;
    let sessions = Arc::clone(&exchange.sessions);
    let Some(principal) = exchange.principal() else {
        return Err(error::of_cql(roles::refusal(tree, &sessions.node.schema(), keyspace)));
    };
    let mut performer = Performer {
        auth: &sessions.node.auth,
        store: sessions.store(),
        principal: &principal,
        schema: sessions.node.schema(),
        datacenters: sessions.coordinator.topology().datacenters(),
        keyspace,
        warnings: Vec::new(),
    };
    let listed = performer.run(tree).await?;
    performer.warnings.into_iter().for_each(|warning| exchange.warn(warning));
    Ok(match listed {
        Some(rows) => Answer::Response(Response::Result(ResultBody::Rows(rows))),
        None => Answer::VOID,
    })
}

/// Grants a creator what it made, and forgets what was granted on what is gone.
pub(super) async fn after_schema_change(exchange: &Exchange, gone: &[Resource], made: &[Resource]) {
    let Some(principal) = exchange.principal() else { return };
    let auth = &exchange.sessions.node.auth;
    if !auth.authorizes() {
        return;
    }
    if let Err(error) = auth.follow(&exchange.sessions.store(), &principal, gone, made).await {
        tracing::error!(%error, "the grants of a changed keyspace or table are not what they should be");
    }
}
