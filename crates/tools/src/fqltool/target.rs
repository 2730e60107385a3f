//! Where a log is replayed to: `host`, `host:port`, `user:password@host:port`.

use std::fmt;

/// Port of the native protocol.
const PORT: u16 = 9042;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    /// Name and password.
    pub(super) login: Option<(String, String)>,
}

impl Target {
    /// Parses what stands behind `--target`.
    pub(super) fn parse(text: &str) -> Result<Target, String> {
        let wrong = || format!("{text} is no target: host, host:port or user:password@host:port");
        let (login, place) = match text.rsplit_once('@') {
            Some((login, place)) => {
                let (user, password) = login.split_once(':').ok_or_else(wrong)?;
                (Some((user.to_owned(), password.to_owned())), place)
            }
            None => (None, text),
        };
        // An address of version 6 has a port only behind brackets.
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match place.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (place, None),
            },
        };
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Target { host: host.to_owned(), port, login })
    }
}

/// Without the login.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_with_more_or_less_beside_it() {
        let parse = |text| {
            let Target { host, port, login } = Target::parse(text).expect(text);
            (host, port, login.is_some())
        };
        assert_eq!(parse("db"), ("db".to_owned(), 9042, false));
        assert_eq!(parse("10.0.0.1:9043"), ("10.0.0.1".to_owned(), 9043, false));
        assert_eq!(parse("bob:a:b@c@db:1"), ("db".to_owned(), 1, true));
        assert_eq!(parse("::1"), ("::1".to_owned(), 9042, false));
        assert_eq!(parse("[::1]:9043"), ("::1".to_owned(), 9043, false));
        for text in ["", "bob@db", "db:port", "a:b@"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        assert_eq!(Target::parse("bob:geheim@db").unwrap().to_string(), "db:9042");
    }
}
