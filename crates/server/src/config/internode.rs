//! `server_encryption_options`: what the file says of TLS between nodes. Its options are those of
//! [`EncryptionOptions`], and those below.
//!
//! - `internode_encryption`: `none`, `all`, `dc` (with nodes of other data centers), `rack` (of other racks,
//!   too);
//! - `outbound_keystore`, with its password: the key that is shown to nodes which this one connects to;
//!   `keystore` if there is none;
//! - `legacy_ssl_storage_port_enabled`: refused, for only nodes of Cassandra 3 need it.

use super::encryption::{EncryptionOptions, EncryptionPolicy, StoreFile};
use super::units::OldUnit;
use super::values::{Setting, scalar};
use serde_norway::Value;
use std::path::PathBuf;

/// With which nodes TLS is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InternodeEncryption {
    /// With none.
    #[default]
    None,
    /// With all.
    All,
    /// With those of other data centers.
    Dc,
    /// With those of other racks.
    Rack,
}

/// The value of `server_encryption_options`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InternodeOptions {
    /// With which nodes TLS is spoken.
    pub internode: InternodeEncryption,
    /// The key that is shown to nodes which this one connects to.
    pub outbound_keystore: Option<StoreFile>,
    /// What nodes have in common with clients.
    pub options: EncryptionOptions,
}

impl InternodeOptions {
    /// Who has to speak TLS, where there is a key or none. Where some nodes need none, all may do without:
    /// who it is that connects is known only later.
    pub fn policy(&self, has_key: bool) -> EncryptionPolicy {
        match self.internode {
            InternodeEncryption::Dc | InternodeEncryption::Rack => EncryptionPolicy::Optional,
            InternodeEncryption::All | InternodeEncryption::None => self.options.policy(has_key),
        }
    }

    fn outbound(&mut self) -> &mut StoreFile {
        let empty = || StoreFile { path: PathBuf::new(), password: None, password_file: None };
        self.outbound_keystore.get_or_insert_with(empty)
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let text = || String::parse(value, OldUnit::None);
        let path = || PathBuf::parse(value, OldUnit::None);
        match name {
            "internode_encryption" => self.internode = internode(&text()?)?,
            "outbound_keystore" => self.outbound().path = path()?,
            "outbound_keystore_password" => self.outbound().password = Some(text()?.into()),
            "outbound_keystore_password_file" => self.outbound().password_file = Some(path()?),
            // Whether it is enabled, internode_encryption says.
            "enabled" => {
                bool::parse(value, OldUnit::None)?;
            }
            "legacy_ssl_storage_port_enabled" | "enable_legacy_ssl_storage_port" => {
                if bool::parse(value, OldUnit::None)? {
                    return Err(
                        "it is not supported: only nodes of Cassandra 3 need a port of their own".to_owned()
                    );
                }
            }
            other => self.options.set(other, value)?,
        }
        Ok(())
    }

    /// As [`EncryptionOptions::shown`], also under the names that Cassandra 4.0 had.
    pub(super) fn shown(&self) -> Vec<(&'static str, Option<String>)> {
        let internode = match self.internode {
            InternodeEncryption::None => "none",
            InternodeEncryption::All => "all",
            InternodeEncryption::Dc => "dc",
            InternodeEncryption::Rack => "rack",
        };
        let mut shown = self.options.shown();
        if let Some((_, optional)) = shown.iter_mut().find(|(name, _)| *name == "optional") {
            *optional = Some((self.policy(false) == EncryptionPolicy::Optional).to_string());
        }
        for (old, new) in [
            ("client_auth", "require_client_auth"),
            ("endpoint_verification", "require_endpoint_verification"),
        ] {
            let value = shown.iter().find(|(name, _)| *name == new).and_then(|(_, value)| value.clone());
            shown.push((old, value));
        }
        let outbound = self.outbound_keystore.as_ref().map(|store| store.path.display().to_string());
        shown.extend([
            ("internode_encryption", Some(internode.to_owned())),
            ("legacy_ssl_storage_port", Some("false".to_owned())),
            ("legacy_ssl_storage_port_enabled", Some("false".to_owned())),
            ("outbound_keystore", outbound),
            ("outbound_keystore_password", None),
        ]);
        shown
    }
}

impl Setting for InternodeOptions {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let Value::Mapping(map) = value else { return Err("it must be a map of options".to_owned()) };
        let mut found = InternodeOptions::default();
        for (name, value) in map {
            let name = scalar(name)?;
            if !value.is_null() {
                found.set(&name, value).map_err(|reason| format!("{name}: {reason}"))?;
            }
        }
        if found.outbound_keystore.as_ref().is_some_and(|store| store.path.as_os_str().is_empty()) {
            return Err("outbound_keystore_password: there is no outbound_keystore".to_owned());
        }
        found.options.enabled = found.internode != InternodeEncryption::None;
        Ok(found)
    }

    fn print(&self) -> Option<String> {
        self.options.print()
    }
}

fn internode(word: &str) -> Result<InternodeEncryption, String> {
    match word.to_ascii_lowercase().as_str() {
        "none" => Ok(InternodeEncryption::None),
        "all" => Ok(InternodeEncryption::All),
        "dc" => Ok(InternodeEncryption::Dc),
        "rack" => Ok(InternodeEncryption::Rack),
        _ => Err(format!("{word} is none of none, all, dc and rack")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClientAuth;

    fn parse(yaml: &str) -> Result<InternodeOptions, String> {
        InternodeOptions::parse(&serde_norway::from_str(yaml).expect("YAML"), OldUnit::None)
    }

    #[test]
    fn options_are_read_as_cassandra_spells_them() {
        let found = parse(
            "{internode_encryption: dc, keystore: /k, keystore_password: x, outbound_keystore: /o, \
             outbound_keystore_password: y, truststore: /t, require_client_auth: true, enabled: false, \
             enable_legacy_ssl_storage_port: false, other: 1}",
        )
        .unwrap();
        assert_eq!((found.internode, found.options.enabled), (InternodeEncryption::Dc, true));
        assert_eq!(found.outbound_keystore.unwrap().path, PathBuf::from("/o"));
        assert_eq!(found.options.require_client_auth, ClientAuth::Required);
        assert_eq!(found.options.unknown, ["other"]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (yaml, words) in [
            ("{internode_encryption: some}", &["internode_encryption", "some", "rack"][..]),
            ("{legacy_ssl_storage_port_enabled: true}", &["legacy_ssl_storage_port_enabled", "Cassandra 3"]),
            ("{outbound_keystore_password: x}", &["outbound_keystore"]),
            ("{require_client_auth: maybe}", &["require_client_auth"]),
        ] {
            let error = parse(yaml).expect_err(yaml);
            assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
        }
    }

    #[test]
    fn who_has_to_speak_tls_is_as_in_cassandra() {
        use EncryptionPolicy::{Encrypted, Optional, Unencrypted};
        for (yaml, without_key, with_key) in [
            ("{}", Unencrypted, Optional),
            ("{internode_encryption: all}", Encrypted, Encrypted),
            ("{internode_encryption: all, optional: true}", Optional, Optional),
            ("{internode_encryption: dc, optional: false}", Optional, Optional),
            ("{internode_encryption: rack}", Optional, Optional),
        ] {
            let found = parse(yaml).unwrap();
            assert_eq!((found.policy(false), found.policy(true)), (without_key, with_key), "{yaml}");
        }
    }
}
