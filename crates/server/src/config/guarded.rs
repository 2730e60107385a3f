//! Keys whose value must be what Ilion does: where the file asks for something else, the node does not start,
//! for it would be less safe than its operator believes.

use serde_norway::Value;

/// A key with the values that are true of Ilion.
#[derive(Debug)]
pub(super) struct Guarded {
    /// The key.
    key: &'static str,
    /// The key inside its map; empty when the value itself counts.
    field: &'static str,
    /// Values in small letters, classes without their package. A missing field is fine.
    accepted: &'static [&'static str],
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
        instead: "Ilion has AllowAllAuthenticator, PasswordAuthenticator, MutualTlsAuthenticator and \
                  MutualTlsWithPasswordFallbackAuthenticator",
    },
    Guarded {
        key: "authorizer",
        field: "class_name",
        accepted: &["allowallauthorizer", "cassandraauthorizer"],
        instead: "Ilion has AllowAllAuthorizer and CassandraAuthorizer",
    },
    Guarded {
        key: "role_manager",
        field: "class_name",
        accepted: &["cassandrarolemanager"],
        instead: "Ilion has CassandraRoleManager only",
    },
    Guarded {
        key: "network_authorizer",
        field: "class_name",
        accepted: &["allowallnetworkauthorizer", "cassandranetworkauthorizer"],
        instead: "Ilion has AllowAllNetworkAuthorizer and CassandraNetworkAuthorizer",
    },
    Guarded {
        key: "cidr_authorizer",
        field: "class_name",
        accepted: &["allowallcidrauthorizer", "cassandracidrauthorizer"],
        instead: "Ilion has AllowAllCIDRAuthorizer and CassandraCIDRAuthorizer",
    },
    Guarded {
        key: "transparent_data_encryption_options",
        field: "enabled",
        accepted: &["false"],
        instead: "Ilion cannot encrypt the commit log",
    },
    Guarded {
        key: "internode_authenticator",
        field: "class_name",
        accepted: &["allowallinternodeauthenticator"],
        instead: "Ilion has AllowAllInternodeAuthenticator only; server_encryption_options ask nodes for \
                  certificates",
    },
    Guarded {
        key: "partitioner",
        field: "class_name",
        accepted: &["murmur3partitioner"],
        instead: "Ilion has Murmur3Partitioner only",
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
