//! Who a client is, and what it may do: Cassandra's PasswordAuthenticator, MutualTlsAuthenticator,
//! CassandraRoleManager and CassandraAuthorizer, CassandraNetworkAuthorizer and CassandraCIDRAuthorizer.
//!
//! ```text
//! AUTH_RESPONSE ─> login ─> bcrypt (a bounded number at once, on no network thread) ─> Principal
//! STARTUP       ─> the client's certificate ─> its identity ─> system_auth.identity_to_role ─> Principal
//! statement ─> needs (made with its plan) ─> Grants of the Principal ─> carried out, or refused
//! CREATE ROLE, GRANT, ... ─> statements ─> rows of system_auth ─> every Grants is old
//! ```
//! 1. [`store`] reads and writes the tables of `system_auth`.
//! 2. A [`Principal`] is a role that has logged in, shared by its connections. It holds [`grants::Grants`]:
//!    all that the role may do, with what it inherits, made of the tables in one go.
//! 3. Each statement about roles raises the generation, so the next request of anybody finds its grants old
//!    and waits until they are made anew. So a REVOKE holds at once. What did not come as a statement (files
//!    that were brought in) holds after `permissions_validity`, or `nodetool invalidatepermissionscache`.
//!    Before that somebody looks them up in the background, so no request waits for it.
//! 4. Where a role may come in ([`places`]) is looked up with its grants.
//! 5. A check of fresh grants is one load of an atomic pointer and two look-ups by name.
//! 6. The hashes of passwords are kept for a while ([`credentials`]).
//! 7. Flight and the admin API ask the same way, by HTTP: [`http`] reads the header, and a login gets a token
//!    for its next requests. [`certificate`] remembers who a connection is by its certificate.
//!
//! With AllowAllAuthenticator nothing of that is asked, and no request pays for it.

pub(crate) mod certificate;
pub(crate) mod check;
pub(crate) mod cidr;
pub(crate) mod credentials;
pub(crate) mod failures;
pub(crate) mod grants;
mod hashing;
pub(crate) mod http;
mod list;
pub(crate) mod login;
mod password;
pub(crate) mod permission;
mod place_store;
pub(crate) mod places;
pub(crate) mod resource;
pub(crate) mod setup;
pub(crate) mod statements;
pub(crate) mod store;
mod tokens;
mod visitors;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::config::{AuthSettings, Authenticator, Settings};
use crate::metrics::Counter;
use credentials::Credentials;
use failures::Failures;
use grants::Grants;
use hashing::Hashing;
use places::CidrGroups;
use resource::Resource;
use store::{Store, StoreError, UnknownGrants};
use tokens::Tokens;

/// A role that has logged in.
#[derive(Debug)]
pub struct Principal {
    name: Arc<str>,
    grants: ArcSwap<Grants>,
    /// Whether somebody looks them up before they are old.
    is_refreshing: AtomicBool,
}

/// How far what is known of a principal can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It can.
    Fresh,
    /// It can, and somebody should look it up anew.
    Ageing,
    /// It has to be looked up first.
    Old,
}

impl Principal {
    /// The role's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the caller is the one to look up what is ageing.
    pub(crate) fn claim_refresh(&self) -> bool {
        !self.is_refreshing.swap(true, Ordering::AcqRel)
    }

    /// What it may do, as it was last looked up.
    pub(crate) fn grants(&self) -> arc_swap::Guard<Arc<Grants>> {
        self.grants.load()
    }
}

/// When something about roles was looked up.
#[derive(Clone, Copy, Debug)]
struct Moment {
    generation: u64,
    at_nanos: u64,
}

/// Logins since the start.
#[derive(Debug, Default)]
pub struct Logins {
    /// Those with a password.
    pub by_password: Counter,
    /// Those with a certificate.
    pub by_certificate: Counter,
    /// Those that were refused for who it was.
    pub failures: Counter,
    /// Those that were not looked at, because their address had failed too often.
    pub limited: Counter,
}

/// What the node knows about roles besides their tables.
#[derive(Debug)]
pub struct Auth {
    settings: AuthSettings,
    /// What came of logins.
    pub logins: Logins,
    failures: Failures,
    /// The node's own.
    datacenter: String,
    /// Where roles are held to networks.
    cidr: Option<CidrGroups>,
    /// How long grants are believed.
    validity_nanos: u64,
    /// After how long they are looked up in the background.
    update_nanos: u64,
    principals_max: usize,
    rounds: u32,
    /// Counts the changes of roles and permissions.
    generation: AtomicU64,
    principals: Mutex<HashMap<Arc<str>, Arc<Principal>>>,
    /// Hashes of roles that have logged in.
    pub(crate) credentials: Credentials,
    /// Of logins over HTTP.
    tokens: Tokens,
    /// Threads for bcrypt.
    hashing: Hashing,
    /// Held from the look at the roles until what follows is written.
    turn: tokio::sync::Mutex<()>,
}

impl Auth {
    /// As the settings say, in a data center, on a machine with so many processors: bcrypt leaves half of
    /// them to requests.
    pub(crate) fn new(auth: AuthSettings, settings: &Settings, datacenter: &str, processors: usize) -> Auth {
        let validity_ms = settings.permissions_validity.0.min(settings.roles_validity.0);
        let intervals = [settings.permissions_update_interval.0, settings.roles_update_interval.0];
        let update_ms = intervals.into_iter().flatten().map(|time| time.0).min().unwrap_or(validity_ms / 2);
        let threads = (settings.native_transport_max_auth_threads as usize).min(processors / 2).max(1);
        Auth {
            settings: auth,
            logins: Logins::default(),
            datacenter: datacenter.to_owned(),
            cidr: auth.cidr.map(CidrGroups::new),
            failures: Failures::new(settings.native_transport_max_failed_logins_per_minute_per_ip),
            validity_nanos: validity_ms.saturating_mul(1_000_000),
            update_nanos: update_ms.saturating_mul(1_000_000),
            principals_max: settings.roles_cache_max_entries.max(settings.permissions_cache_max_entries)
                as usize,
            rounds: settings.auth_bcrypt_gensalt_log2_rounds,
            generation: AtomicU64::new(1),
            principals: Mutex::default(),
            credentials: Credentials::new(settings),
            tokens: Tokens::default(),
            hashing: Hashing::new(threads),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Whether clients have to log in.
    pub fn authenticates(&self) -> bool {
        self.settings.authenticator.asks()
    }

    /// How clients show who they are.
    pub fn authenticator(&self) -> Authenticator {
        self.settings.authenticator
    }

    /// Whether clients may do only what they were granted.
    pub fn authorizes(&self) -> bool {
        self.settings.permissions
    }

    /// Forgets what is known of roles and permissions: everything is looked up anew.
    pub fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The roles that are remembered as they are now, by name.
    pub(crate) fn remembered(&self) -> Vec<Arc<str>> {
        self.fresh().iter().map(|principal| Arc::clone(&principal.name)).collect()
    }

    /// Remembered roles with the resources on which they have permissions.
    pub(crate) fn remembered_permissions(&self) -> Vec<(Arc<str>, String)> {
        let of = |principal: &Arc<Principal>| {
            let resources = principal.grants().resources();
            resources.into_iter().map(|on| (Arc::clone(&principal.name), on.name())).collect::<Vec<_>>()
        };
        self.fresh().iter().flat_map(of).collect()
    }

    /// Principals whose grants no statement has made old since.
    fn fresh(&self) -> Vec<Arc<Principal>> {
        let generation = self.generation.load(Ordering::Acquire);
        let is_fresh = |principal: &&Arc<Principal>| principal.grants().generation == generation;
        let mut fresh: Vec<Arc<Principal>> =
            self.principals.lock().values().filter(is_fresh).map(Arc::clone).collect();
        fresh.sort_by(|a, b| a.name.cmp(&b.name));
        fresh
    }

    /// The moment of a look-up that begins at an instant of the monotonic clock.
    fn moment(&self, now_nanos: u64) -> Moment {
        Moment { generation: self.generation.load(Ordering::Acquire), at_nanos: now_nanos }
    }

    /// Whether what was looked up then may be relied on now.
    fn is_recent(&self, moment: Moment, now_nanos: u64) -> bool {
        moment.generation == self.generation.load(Ordering::Acquire)
            && now_nanos.saturating_sub(moment.at_nanos) < self.validity_nanos
    }

    /// Whether what is known of a principal may be relied on at an instant of the monotonic clock.
    pub(crate) fn freshness(&self, principal: &Principal, now_nanos: u64) -> Freshness {
        let grants = principal.grants.load();
        let made = Moment { generation: grants.generation, at_nanos: grants.made_nanos };
        if !self.is_recent(made, now_nanos) {
            Freshness::Old
        } else if now_nanos.saturating_sub(made.at_nanos) >= self.update_nanos {
            Freshness::Ageing
        } else {
            Freshness::Fresh
        }
    }

    /// Whether it may be relied on.
    pub(crate) fn is_fresh(&self, principal: &Principal, now_nanos: u64) -> bool {
        self.freshness(principal, now_nanos) != Freshness::Old
    }

    /// Looks up what an ageing principal may do, so that no request has to wait for that.
    pub(crate) async fn refresh_early(&self, store: &Store, principal: &Principal) {
        if let Err(error) = self.refresh(store, principal).await {
            tracing::warn!(%error, "permissions cannot be read");
        }
        principal.is_refreshing.store(false, Ordering::Release);
    }

    /// The principal of a role, whether or not it is fresh.
    fn principal(&self, role: &str) -> Arc<Principal> {
        let mut principals = self.principals.lock();
        if let Some(principal) = principals.get(role) {
            return Arc::clone(principal);
        }
        if principals.len() >= self.principals_max {
            // Those without a connection.
            principals.retain(|_, principal| Arc::strong_count(principal) > 1);
        }
        let name: Arc<str> = role.into();
        let principal = Arc::new(Principal {
            name: Arc::clone(&name),
            grants: ArcSwap::default(),
            is_refreshing: AtomicBool::new(false),
        });
        principals.insert(name, Arc::clone(&principal));
        principal
    }

    /// Looks up what a principal may do.
    pub(crate) async fn refresh(&self, store: &Store, principal: &Principal) -> Result<(), UnknownGrants> {
        // Before anything is read: a change meanwhile makes it old.
        let generation = self.generation.load(Ordering::Acquire);
        let made_nanos = store.now_nanos();
        let roles = store.granted_roles(&principal.name, true).await.map_err(UnknownGrants::OfRole)?;
        let mut grants = Grants::default();
        grants.generation = generation;
        grants.made_nanos = made_nanos;
        grants.is_super = roles.values().any(|role| role.is_super);
        grants.can_login = roles.get(&*principal.name).is_some_and(|role| role.can_login);
        let standing = (grants.can_login, grants.is_super);
        grants.places =
            self.places_of(store, &principal.name, standing).await.map_err(UnknownGrants::OfRole)?;
        for role in roles.keys() {
            for (resource, permissions) in
                store.permissions_of(role).await.map_err(UnknownGrants::OfPermissions)?
            {
                grants.add(resource, permissions);
            }
        }
        grants.roles = roles.into_keys().collect();
        principal.grants.store(Arc::new(grants));
        Ok(())
    }

    /// After a change of the schema: what was granted on what is `gone` goes, and the principal is granted
    /// what it `made`.
    pub(crate) async fn follow(
        &self,
        store: &Store,
        principal: &Principal,
        gone: &[Resource],
        made: &[Resource],
    ) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let mut mutations = Vec::new();
        for resource in gone {
            mutations.extend(store.drop_resource(resource).await?);
        }
        for resource in made {
            mutations.extend(store.grant(&principal.name, resource, resource.applicable())?);
        }
        let written = store.write(mutations).await;
        self.invalidate();
        written
    }
}
