//! Tokens of logins over HTTP: what a client shows instead of its password in later requests.
//!
//! 1. A token is 32 random bytes in hexadecimal. The node keeps its SHA-256, so neither its memory nor the
//!    time of a look-up tells a token.
//! 2. It is good for [`IDLE_NANOS`] after its last use, and until the node ends. Whether its role may still
//!    log in is asked each time.
//! 3. A role has at most [`PER_ROLE_MAX`] of them, all roles [`TOKENS_MAX`]. The one unused for longest makes
//!    room: of the same role, as long as that has its most. So no role can end the logins of others unless
//!    many roles together fill the table.

use std::collections::HashMap;
use std::sync::Arc;

use env::random::Random;
use parking_lot::Mutex;
use ring::digest;

use super::Principal;

/// Tokens of all roles.
const TOKENS_MAX: usize = 10_000;
/// Tokens of one role.
const PER_ROLE_MAX: usize = 500;
/// How long a token may rest: eight hours.
const IDLE_NANOS: u64 = 8 * 3_600 * 1_000_000_000;
/// Bytes of a token.
const BYTES: usize = 32;

type Hash = [u8; digest::SHA256_OUTPUT_LEN];

#[derive(Debug)]
struct Entry {
    principal: Arc<Principal>,
    used_nanos: u64,
}

/// The tokens that are good.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<HashMap<Hash, Entry>>);

fn hash(token: &str) -> Hash {
    let mut out = [0; digest::SHA256_OUTPUT_LEN];
    out.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    out
}

fn is_over(entry: &Entry, now_nanos: u64) -> bool {
    now_nanos.saturating_sub(entry.used_nanos) >= IDLE_NANOS
}

impl Tokens {
    /// A new token for a role that has just logged in.
    pub(crate) fn issue(&self, principal: &Arc<Principal>, random: &Random, now_nanos: u64) -> String {
        let mut bytes = [0; BYTES];
        random.fill(&mut bytes);
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut entries = self.0.lock();
        let of_role = |entry: &Entry| entry.principal.name() == principal.name();
        let is_role_full = entries.values().filter(|entry| of_role(entry)).count() >= PER_ROLE_MAX;
        if is_role_full || entries.len() >= TOKENS_MAX {
            entries.retain(|_, entry| !is_over(entry, now_nanos));
            let oldest = entries
                .iter()
                .filter(|(_, entry)| !is_role_full || of_role(entry))
                .min_by_key(|(_, entry)| entry.used_nanos)
                .map(|(hash, _)| *hash);
            if let Some(oldest) = oldest {
                entries.remove(&oldest);
            }
        }
        let entry = Entry { principal: Arc::clone(principal), used_nanos: now_nanos };
        entries.insert(hash(&token), entry);
        token
    }

    /// Whose token it is; `None` for one that is unknown or has rested for too long.
    pub(crate) fn find(&self, token: &str, now_nanos: u64) -> Option<Arc<Principal>> {
        if token.len() != 2 * BYTES {
            return None;
        }
        let hash = hash(token);
        let mut entries = self.0.lock();
        let entry = entries.get_mut(&hash)?;
        if is_over(entry, now_nanos) {
            entries.remove(&hash);
            return None;
        }
        entry.used_nanos = entry.used_nanos.max(now_nanos);
        Some(Arc::clone(&entry.principal))
    }

    /// Takes a token back.
    pub(crate) fn revoke(&self, token: &str) {
        self.0.lock().remove(&hash(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Auth;
    use crate::config::{AuthSettings, Settings};

    fn world() -> (Auth, Tokens, Random) {
        let auth = Auth::new(
            AuthSettings {
                authenticator: crate::config::Authenticator::Password,
                permissions: true,
                ..AuthSettings::default()
            },
            &Settings::default(),
            "dc1",
            2,
        );
        (auth, Tokens::default(), Random::from_seed(1))
    }

    #[test]
    fn a_token_is_its_role_until_it_rests_too_long() {
        let (auth, tokens, random) = world();
        let bob = auth.principal("bob");
        let token = tokens.issue(&bob, &random, 0);
        assert_eq!(token.len(), 64);
        assert!(!format!("{tokens:?}").contains(&token));
        let whose = |now| tokens.find(&token, now).map(|found| found.name().to_string());
        assert_eq!(whose(IDLE_NANOS - 1).as_deref(), Some("bob"));
        assert_eq!(whose(2 * IDLE_NANOS - 2).as_deref(), Some("bob"));
        assert_eq!(whose(3 * IDLE_NANOS), None);
        assert_eq!(whose(0), None);
        for wrong in ["", "x", &"0".repeat(64), &token[1..]] {
            assert!(tokens.find(wrong, 0).is_none());
        }
        let token = tokens.issue(&bob, &random, 0);
        tokens.revoke(&token);
        assert!(tokens.find(&token, 0).is_none());
    }

    #[test]
    fn a_role_with_many_tokens_loses_its_own() {
        let (auth, tokens, random) = world();
        let (bob, amy) = (auth.principal("bob"), auth.principal("amy"));
        let of_amy = tokens.issue(&amy, &random, 0);
        let of_bob: Vec<String> =
            (1..=PER_ROLE_MAX as u64 + 3).map(|now| tokens.issue(&bob, &random, now)).collect();
        assert_eq!(tokens.0.lock().len(), PER_ROLE_MAX + 1);
        assert!(tokens.find(&of_amy, 600).is_some() && tokens.find(&of_bob[3], 600).is_some());
        assert!(of_bob[..3].iter().all(|token| tokens.find(token, 600).is_none()));
    }

    #[test]
    fn all_roles_together_have_a_bound() {
        let (auth, tokens, random) = world();
        for role in 0..TOKENS_MAX as u64 / 400 + 1 {
            let principal = auth.principal(&format!("r{role}"));
            (0..400).for_each(|turn| drop(tokens.issue(&principal, &random, role * 400 + turn)));
        }
        assert_eq!(tokens.0.lock().len(), TOKENS_MAX);
    }
}
