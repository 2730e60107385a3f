//! The first superuser: where nobody has a role yet, there has to be one to make others.
//!
//! It is Cassandra's `cassandra`, with that password, unless the operator gave another in a file. While it
//! has the password that everybody knows, each start says so.

use std::path::Path;

use super::store::{Role, Store, StoreError};
use super::{Auth, password, statements};
use crate::slices::take_time;

const NAME: &str = "cassandra";
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
    let failed = |error: StoreError| error.to_string();
    if let Some(cidr) = auth.cidr() {
        cidr.reload(store).await.map_err(failed)?;
    }
    if store.roles().await.map_err(failed)?.is_empty() {
        let password = match given {
            Some(path) => read_password(store, path)?,
            None => PASSWORD.to_owned(),
        };
        let hashed = statements::hashed(auth, store, password).await.map_err(|error| error.message)?;
        let role = Role {
            name: NAME.to_owned(),
            is_super: true,
            can_login: true,
            salted_hash: Some(hashed),
            ..Role::default()
        };
        let mutation = store.create_role(&role).map_err(failed)?;
        store.write(vec![mutation]).await.map_err(failed)?;
        auth.invalidate();
        tracing::info!("Created default superuser role '{NAME}'");
    } else if given.is_some() {
        tracing::info!("--initial-superuser-password-file is not looked at: there are roles already");
    }
    match auth.authenticator().takes_passwords() {
        true => warn_of_default(store).await.map_err(failed),
        false => Ok(()),
    }
}

async fn warn_of_default(store: &Store) -> Result<(), StoreError> {
    let role = store.role(NAME).await?;
    let Some(hash) = role.filter(|role| role.can_login).and_then(|role| role.salted_hash) else {
        return Ok(());
    };
    if take_time(move || password::is_of(&hash, PASSWORD)).await.unwrap_or(false) {
        tracing::warn!(
            "THE ROLE '{NAME}' HAS THE PASSWORD THAT EVERYBODY KNOWS. Whoever reaches the CQL port may do \
             everything. Log in as it, make a superuser of your own, and take LOGIN from '{NAME}' or give it \
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
