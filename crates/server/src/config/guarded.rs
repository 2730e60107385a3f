//! Keys whose value must be what Ilion does: where the file asks for something else, the node either does not
//! start (it would be less safe than its operator believes) or says so.

use serde_norway::Value;

/// What follows when the file asks for something that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// The node does not start.
    Refuse,
    /// A warning.
    Warn,
}

/// A key with the values that are true of Ilion.
#[derive(Debug)]
pub(super) struct Guarded {
    /// The key.
    key: &'static str,
    /// The key inside its map; empty when the value itself counts.
    field: &'static str,
    /// Values in small letters, classes without their package. A missing field is fine.
    accepted: &'static [&'static str],
    /// What follows otherwise.
    pub(super) otherwise: Otherwise,
    /// What Ilion does instead.
    pub(super) instead: &'static str,
}

const GUARDED: &[Guarded] = &[
    Guarded {
        key: "authenticator",
        field: "class_name",
        accepted: &[
            "allowallauthenticator",
            "passwordauthenticator",
            "mutualtlsauthenticator",
            "mutualtlswithpasswordfallbackauthenticator",
        ],
        otherwise: Otherwise::Refuse,
        instead: "Ilion has AllowAllAuthenticator, PasswordAuthenticator, MutualTlsAuthenticator and \
                  MutualTlsWithPasswordFallbackAuthenticator",
    },
    Guarded {
        key: "authorizer",
        field: "class_name",
        accepted: &["allowallauthorizer", "cassandraauthorizer"],
        otherwise: Otherwise::Refuse,
        instead: "Ilion has AllowAllAuthorizer and CassandraAuthorizer",
    },
    Guarded {
        key: "role_manager",
        field: "class_name",
        accepted: &["cassandrarolemanager"],
        otherwise: Otherwise::Refuse,
        instead: "Ilion has CassandraRoleManager only",
    },
    Guarded {
        key: "network_authorizer",
        field: "class_name",
        accepted: &["allowallnetworkauthorizer", "cassandranetworkauthorizer"],
        otherwise: Otherwise::Refuse,
        instead: "Ilion has AllowAllNetworkAuthorizer and CassandraNetworkAuthorizer",
    },
    Guarded {
        key: "cidr_authorizer",
        field: "class_name",
        accepted: &["allowallcidrauthorizer", "cassandracidrauthorizer"],
        otherwise: Otherwise::Refuse,
        instead: "Ilion has AllowAllCIDRAuthorizer and CassandraCIDRAuthorizer",
    },
    Guarded {
        key: "transparent_data_encryption_options",
        field: "enabled",
        accepted: &["false"],
        otherwise: Otherwise::Refuse,
        instead: "Ilion cannot encrypt the commit log",
    },
    Guarded {
        key: "partitioner",
        field: "class_name",
        accepted: &["murmur3partitioner"],
        otherwise: Otherwise::Refuse,
        instead: "Ilion has Murmur3Partitioner only",
    },
    Guarded {
        key: "server_encryption_options",
        field: "internode_encryption",
        accepted: &["none"],
        otherwise: Otherwise::Warn,
        instead: "one node has no connections to others",
    },
];

/// The rule for `key`.
pub(super) fn guarded(key: &str) -> Option<&'static Guarded> {
    GUARDED.iter().find(|g| g.key == key)
}

impl Guarded {
    /// What the file asks for, if it is something else than Ilion does.
    pub(super) fn asks_for_more(&self, value: &Value) -> Option<String> {
        let asked = match value {
            Value::Mapping(map) => map.get(self.field)?,
            single => single,
        };
        let text = match asked {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Bool(flag) => flag.to_string(),
            other => serde_norway::to_string(other).unwrap_or_default().trim().to_owned(),
        };
        let short = text.rsplit('.').next().unwrap_or(&text).to_ascii_lowercase();
        (!self.accepted.contains(&short.as_str())).then_some(text)
    }
}
