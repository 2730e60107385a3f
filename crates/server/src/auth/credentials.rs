//! The hashes of roles that have logged in lately: Cassandra's credentials cache.
//!
//! 1. A login takes the hash from here while it is no older than `credentials_validity`. Otherwise it reads
//!    the role's row, and leaves the hash here.
//! 2. A hash older than `credentials_update_interval` still counts, and is read anew while bcrypt runs.
//! 3. With `credentials_cache_active_update` all are read anew each such interval, whether or not anybody
//!    logs in.
//! 4. Roles that do not exist, or have no password, are never kept: they may get one.
//!
//! A statement about a role that this node carries out makes it forget the role at once. What another node
//! carries out holds here after the validity. What was read before something was forgotten is not kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::store::{Store, StoreError};
use crate::config::Settings;

/// A hash and when it was read.
#[derive(Debug)]
struct Entry {
    hash: Arc<str>,
    read_nanos: u64,
}

/// What is kept, and how often something was forgotten.
#[derive(Debug, Default)]
struct Kept {
    forgotten: u64,
    entries: HashMap<Arc<str>, Entry>,
}

/// A look at what is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It counts.
    Fresh(Arc<str>),
    /// It counts, and is to be read anew.
    Ageing(Arc<str>),
    /// The row has to be read.
    Nothing,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Credentials {
    validity_nanos: u64,
    update_nanos: u64,
    entries_max: usize,
    is_active: bool,
    kept: Mutex<Kept>,
}

impl Credentials {
    /// As the settings say; nothing is kept where the validity is 0.
    pub(super) fn new(settings: &Settings) -> Credentials {
        let validity_ms = settings.credentials_validity.0;
        let update_ms = settings.credentials_update_interval.0.map_or(validity_ms, |time| time.0);
        Credentials {
            validity_nanos: validity_ms.saturating_mul(1_000_000),
            update_nanos: update_ms.saturating_mul(1_000_000),
            entries_max: settings.credentials_cache_max_entries as usize,
            is_active: settings.credentials_cache_active_update,
            kept: Mutex::default(),
        }
    }

    /// After how long all are to be read anew; `None` where nobody wants that.
    pub(crate) fn active_interval(&self) -> Option<Duration> {
        let is_wanted = self.is_active && self.validity_nanos > 0 && self.update_nanos > 0;
        is_wanted.then(|| Duration::from_nanos(self.update_nanos))
    }

    /// What is kept of a role, at an instant of the monotonic clock.
    pub(super) fn find(&self, role: &str, now_nanos: u64) -> Found {
        let kept = self.kept.lock();
        let Some(entry) = kept.entries.get(role) else { return Found::Nothing };
        let age_nanos = now_nanos.saturating_sub(entry.read_nanos);
        if age_nanos >= self.validity_nanos {
            Found::Nothing
        } else if age_nanos >= self.update_nanos {
            Found::Ageing(Arc::clone(&entry.hash))
        } else {
            Found::Fresh(Arc::clone(&entry.hash))
        }
    }

    /// Reads a role's hash and keeps it; `None` where it has no password, or is none.
    pub(super) async fn read(&self, store: &Store, role: &str) -> Result<Option<Arc<str>>, StoreError> {
        let forgotten = self.kept.lock().forgotten;
        let read_nanos = store.now_nanos();
        let hash = store.role(role).await?.and_then(|role| role.salted_hash);
        let hash: Option<Arc<str>> = hash.map(Arc::from);
        self.keep(role, hash.clone(), (forgotten, read_nanos));
        Ok(hash)
    }

    /// Keeps what was read since `forgotten`, unless something was forgotten meanwhile.
    fn keep(&self, role: &str, hash: Option<Arc<str>>, (forgotten, read_nanos): (u64, u64)) {
        let mut kept = self.kept.lock();
        if kept.forgotten != forgotten {
            return;
        }
        let Some(hash) = hash.filter(|_| self.validity_nanos > 0 && self.entries_max > 0) else {
            kept.entries.remove(role);
            return;
        };
        let entry = Entry { hash, read_nanos };
        if let Some(known) = kept.entries.get_mut(role) {
            *known = entry;
            return;
        }
        if kept.entries.len() >= self.entries_max {
            let oldest = kept.entries.iter().min_by_key(|(_, entry)| entry.read_nanos);
            if let Some(oldest) = oldest.map(|(name, _)| Arc::clone(name)) {
                kept.entries.remove(&oldest);
            }
        }
        kept.entries.insert(role.into(), entry);
    }

    /// Reads all that is kept anew.
    pub(crate) async fn refresh_all(&self, store: &Store) {
        for role in self.names(store.now_nanos()) {
            if let Err(error) = self.read(store, &role).await {
                tracing::warn!(%error, "credentials cannot be read");
            }
        }
    }

    /// Forgets a role.
    pub(crate) fn forget(&self, role: &str) {
        let mut kept = self.kept.lock();
        kept.forgotten = kept.forgotten.wrapping_add(1);
        kept.entries.remove(role);
    }

    /// Forgets everybody.
    pub(crate) fn forget_all(&self) {
        let mut kept = self.kept.lock();
        kept.forgotten = kept.forgotten.wrapping_add(1);
        kept.entries.clear();
    }

    /// The roles whose hashes count at an instant of the monotonic clock, by name.
    pub(crate) fn names(&self, now_nanos: u64) -> Vec<Arc<str>> {
        let kept = self.kept.lock();
        let counts = |entry: &Entry| now_nanos.saturating_sub(entry.read_nanos) < self.validity_nanos;
        let mut names: Vec<Arc<str>> = kept
            .entries
            .iter()
            .filter(|(_, entry)| counts(entry))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Millis, Refresh};

    fn of(validity_ms: u64, update_ms: Option<u64>, max_entries: u32, is_active: bool) -> Credentials {
        Credentials::new(&Settings {
            credentials_validity: Millis(validity_ms),
            credentials_update_interval: Refresh(update_ms.map(Millis)),
            credentials_cache_max_entries: max_entries,
            credentials_cache_active_update: is_active,
            ..Settings::default()
        })
    }

    fn usual() -> Credentials {
        Credentials::new(&Settings::default())
    }

    fn keep(cache: &Credentials, role: &str, hash: &str, read_nanos: u64) {
        let forgotten = cache.kept.lock().forgotten;
        cache.keep(role, Some(hash.into()), (forgotten, read_nanos));
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_hash_counts_for_its_validity_and_is_read_anew_after_the_interval() {
        let cache = of(10, Some(4), 10, false);
        keep(&cache, "bob", "h", MS);
        assert_eq!(cache.find("bob", 5 * MS - 1), Found::Fresh("h".into()));
        assert_eq!(cache.find("bob", 5 * MS), Found::Ageing("h".into()));
        assert_eq!(cache.find("bob", 11 * MS - 1), Found::Ageing("h".into()));
        assert_eq!(cache.find("bob", 11 * MS), Found::Nothing);
        assert!(cache.names(11 * MS).is_empty() && cache.names(MS) == ["bob".into()]);
        let without = of(10, None, 10, false);
        keep(&without, "bob", "h", 0);
        assert_eq!(without.find("bob", 10 * MS - 1), Found::Fresh("h".into()));
    }

    #[test]
    fn nothing_is_kept_without_a_validity_or_without_room() {
        for cache in [of(0, None, 10, false), of(10, None, 0, false)] {
            keep(&cache, "bob", "h", 0);
            assert_eq!(cache.find("bob", 0), Found::Nothing, "{cache:?}");
        }
    }

    #[test]
    fn the_oldest_makes_room() {
        let cache = of(2_000, None, 2, false);
        for (name, read) in [("a", 2), ("b", 1), ("c", 3), ("a", 4)] {
            keep(&cache, name, "h", read);
        }
        assert_eq!(cache.names(4), ["a".into(), "c".into()]);
    }

    #[test]
    fn what_was_read_before_something_was_forgotten_is_not_kept() {
        let cache = usual();
        for forget in [(|cache| cache.forget("bob")) as fn(&Credentials), |cache| cache.forget_all()] {
            keep(&cache, "bob", "old", 0);
            let began = cache.kept.lock().forgotten;
            forget(&cache);
            assert_eq!(cache.find("bob", 0), Found::Nothing);
            cache.keep("bob", Some("old".into()), (began, 0));
            assert_eq!(cache.find("bob", 0), Found::Nothing);
        }
    }

    #[test]
    fn whoever_lost_the_password_is_forgotten() {
        let cache = usual();
        keep(&cache, "bob", "h", 0);
        let began = cache.kept.lock().forgotten;
        cache.keep("bob", None, (began, 1));
        assert_eq!(cache.find("bob", 1), Found::Nothing);
    }

    #[test]
    fn all_are_read_anew_only_where_somebody_wants_that() {
        assert_eq!(usual().active_interval(), None);
        let interval = of(2_000, Some(1_500), 10, true).active_interval();
        assert_eq!(interval, Some(Duration::from_millis(1_500)));
        assert_eq!(of(0, None, 10, true).active_interval(), None);
    }
}
