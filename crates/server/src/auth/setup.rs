//! The first superuser: where nobody has a role yet, there has to be one to make others.
//!
//! It is Cassandra's `cassandra`, with that password, unless the operator gave another in a file. While it
//! has the password that everybody knows, each start says so.
//!
//! Of a ring, the nodes that have the roles may be down when a node starts, or not be known yet. So each node
//! looks once more when it has run for a while, as in Cassandra.

use std::path::Path;

use super::store::{FIRST_ROLE, Store, StoreError};
use super::{Auth, password, statements};
use crate::slices::take_time;

const PASSWORD: &str = "cassandra";

/// Makes the first superuser where there are no roles, and warns of the password that everybody knows.
///
/// # Errors
/// When the roles cannot be read or written, or the password file not be read.
pub(crate) async fn prepare(auth: &Auth, store: &Store, given: Option<&Path>) -> Result<(), String> {
    if !auth.authenticates() {
        if given.is_some() {
            tracing::warn!("--initial-superuser-password-file has no effect: nobody is asked for a password");
        }
        return Ok(());
    }
    if let Some(cidr) = auth.cidr() {
        cidr.reload(store).await.map_err(told)?;
    }
    if !make_superuser(auth, store, given).await? && given.is_some() {
        tracing::info!("--initial-superuser-password-file is not looked at: there are roles already");
    }
    match auth.authenticator().takes_passwords() {
        true => warn_of_default(store).await.map_err(told),
        false => Ok(()),
    }
}

/// Makes the first superuser where there are no roles; whether there were none.
///
/// # Errors
/// When the roles cannot be read or written, or the password file not be read.
pub(crate) async fn make_superuser(auth: &Auth, store: &Store, given: Option<&Path>) -> Result<bool, String> {
    if !auth.authenticates() || store.has_roles().await.map_err(told)? {
        return Ok(false);
    }
    let password = match given {
        Some(path) => read_password(store, path)?,
        None => PASSWORD.to_owned(),
    };
    let hashed = statements::hashed(auth, store, password).await.map_err(|error| error.message)?;
    let mutation = store.create_first_role(&hashed).map_err(told)?;
    store.write(vec![mutation]).await.map_err(told)?;
    auth.invalidate();
    tracing::info!("Created default superuser role '{FIRST_ROLE}'");
    Ok(true)
}

fn told(error: StoreError) -> String {
    error.to_string()
}

async fn warn_of_default(store: &Store) -> Result<(), StoreError> {
    let role = store.role(FIRST_ROLE).await?;
    let Some(hash) = role.filter(|role| role.can_login).and_then(|role| role.salted_hash) else {
        return Ok(());
    };
    if take_time(move || password::is_of(&hash, PASSWORD)).await.unwrap_or(false) {
        tracing::warn!(
            "THE ROLE '{FIRST_ROLE}' HAS THE PASSWORD THAT EVERYBODY KNOWS. Whoever reaches the CQL port may do \
             everything. Log in as it, make a superuser of your own, and take LOGIN from '{FIRST_ROLE}' or give it \
             another password"
        );
    }
    Ok(())
}

/// The first line of a file.
fn read_password(store: &Store, path: &Path) -> Result<String, String> {
    let told = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let text = store.env().fs.read_to_string(path).map_err(|error| told(&error))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() || password.contains('\0') {
        return Err(told(&"its first line has to be the password"));
    }
    if password == PASSWORD {
        return Err(told(&"this password is the one that everybody knows"));
    }
    Ok(password.to_owned())
}
