//! What `system_views.settings` shows: every name that Cassandra 5.0 has there, and Ilion's own.
//!
//! What was not set and follows from the machine is shown as it came out. Settings of Cassandra that do
//! nothing here are shown with its defaults. `defaults.txt` lists these: a name, a blank, the value; a name
//! alone has none.

use super::units::OldUnit;
use super::values::Setting;
use super::{ByteSize, Config, RingConfig, Settings, audit};
use crate::system::PARTITIONER;
use crate::timeouts::Timeouts;
use model::schema::Release;

const DEFAULTS: &str = include_str!("defaults.txt");

/// A line of `system_views.settings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Cassandra's name, today's or an old one, or one of Ilion's.
    pub name: &'static str,
    /// The value in force; Cassandra's default of what does nothing here.
    pub value: Option<String>,
    /// Whether it does something here.
    pub is_in_effect: bool,
}

impl Config {
    /// Every setting, with the timeouts and the switch of incremental backups as they are now, on a directory
    /// of `release`.
    pub fn shown(&self, timeouts: &Timeouts, incremental_backups: bool, release: Release) -> Vec<Shown> {
        let mut shown: Vec<Shown> = DEFAULTS
            .lines()
            .map(|line| match line.split_once(' ') {
                Some((name, value)) => Shown { name, value: Some(value.to_owned()), is_in_effect: false },
                None => Shown { name: line, value: None, is_in_effect: false },
            })
            .collect();
        let mut settings = self.in_force();
        timeouts.put_into(&mut settings);
        settings.incremental_backups = incremental_backups;
        let (reads, writes) = self.auth_levels(release);
        settings.auth_read_consistency_level = Some(reads);
        settings.auth_write_consistency_level = Some(writes);
        let others = [
            ("endpoint_snitch", Some(self.snitch.clone())),
            ("partitioner", Some(PARTITIONER.to_owned())),
            ("sstable.format", Some("{}".to_owned())),
            ("sstable.selected_format", settings.sstable.print_old(OldUnit::None)),
        ];
        let ring = RingConfig::shown(self.ring.as_ref());
        let others = others.into_iter().chain(settings.of_tables());
        shown.extend(settings.entries().into_iter().chain(others).chain(ring).map(|(name, value)| Shown {
            name,
            value,
            is_in_effect: true,
        }));
        let of_audit = audit::shown(&settings.audit_logging_options);
        let of_queries = audit::shown_queries(&settings.full_query_logging_options);
        let of_logs = of_audit.into_iter().map(|option| ("audit_logging_options", option));
        let of_logs =
            of_logs.chain(of_queries.into_iter().map(|option| ("full_query_logging_options", option)));
        let of_logs = of_logs.map(|(key, (option, value))| (key, (option, Some(value))));
        let of_clients = settings.client_encryption_options.shown().into_iter();
        let of_nodes = settings.server_encryption_options.shown().into_iter();
        let of_tls = of_clients.map(|option| ("client_encryption_options", option));
        let of_tls = of_tls.chain(of_nodes.map(|option| ("server_encryption_options", option)));
        for (key, (option, value)) in of_logs.chain(of_tls) {
            let is_it = |name: &str| {
                name.strip_prefix(key).and_then(|rest| rest.strip_prefix(['.', '_'])) == Some(option)
            };
            for setting in shown.iter_mut().filter(|setting| is_it(setting.name)) {
                *setting = Shown { name: setting.name, value: value.clone(), is_in_effect: true };
            }
        }
        for (name, value) in self.auth.shown() {
            if let Some(setting) = shown.iter_mut().find(|setting| setting.name == name) {
                *setting = Shown { name, value: Some(value.to_owned()), is_in_effect: true };
            }
        }
        shown.sort_by_key(|setting| setting.name);
        shown
    }

    /// The settings with what the node made of those that were not set.
    fn in_force(&self) -> Settings {
        let (engine, memory) = (&self.engine, &self.memory);
        let mut settings = self.settings.clone();
        let count = |n: usize| u32::try_from(n).ok();
        settings.max_mutation_size = Some(ByteSize(engine.mutation_bytes_max()));
        settings.commitlog_total_space = Some(ByteSize(engine.commitlog_total_bytes));
        settings.concurrent_compactors = count(engine.concurrent_compactors);
        settings.memtable_flush_writers = count(engine.flush_writers);
        settings.memtable_cleanup_threshold = Some(engine.memtable_cleanup_threshold);
        if settings.memtable_offheap_space.is_none() {
            settings.memtable_heap_space = Some(ByteSize(engine.memtable_bytes_max));
        }
        settings.file_cache_size = Some(ByteSize(engine.page_cache_bytes));
        settings.prepared_statements_cache_size.get_or_insert(ByteSize(memory.prepared));
        settings.native_transport_max_message_size = Some(ByteSize(self.message_bytes_max()));
        settings.native_transport_max_request_data_in_flight.get_or_insert(ByteSize(memory.requests));
        settings
            .native_transport_max_request_data_in_flight_per_ip
            .get_or_insert(ByteSize(memory.requests_per_ip));
        settings.native_transport_max_response_data_in_flight.get_or_insert(ByteSize(memory.answers));
        settings
            .native_transport_max_response_data_in_flight_per_ip
            .get_or_insert(ByteSize(memory.answers_per_ip));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ServeArgs;
    use crate::config::INAPPLICABLE;
    use crate::config::guarded::guarded;
    use env::Env;
    use std::collections::BTreeSet;

    fn shown(yaml: &[(&str, &str)]) -> Vec<Shown> {
        let args = ServeArgs { data_dir: Some("/ilion".into()), ..ServeArgs::default() };
        let mut config =
            Config::load(&Env::for_test(1), &args, std::iter::empty()).expect("defaults are valid");
        for (name, value) in yaml {
            let value = serde_norway::from_str(value).expect("YAML");
            config.settings.set(name, &value).expect("a setting").expect("a value of it");
        }
        config.shown(&Timeouts::new(&config.settings), config.settings.incremental_backups, Release::V5_0)
    }

    fn find<'a>(shown: &'a [Shown], name: &str) -> &'a Shown {
        shown.iter().find(|setting| setting.name == name).expect("it is shown")
    }

    #[test]
    fn no_name_is_shown_twice() {
        let shown = shown(&[]);
        let names: BTreeSet<&str> = shown.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), shown.len());
    }

    #[test]
    fn what_has_no_effect_is_ignored_or_guarded_in_a_file() {
        let ignored: BTreeSet<&str> = INAPPLICABLE.lines().collect();
        for setting in shown(&[]).iter().filter(|setting| !setting.is_in_effect) {
            // A structure stands there under its key; an old spelling has the key and the field in one.
            let is_known = |key: &str| ignored.contains(key) || guarded(key).is_some();
            let ends = setting.name.match_indices(['.', '_']).map(|(at, _)| at).chain([setting.name.len()]);
            assert!(ends.into_iter().any(|end| is_known(&setting.name[..end])), "{}", setting.name);
        }
    }

    #[test]
    fn a_setting_stands_under_its_old_names_too() {
        let shown = shown(&[("read_request_timeout", "7s"), ("commitlog_segment_size", "8MiB")]);
        assert_eq!(find(&shown, "read_request_timeout").value.as_deref(), Some("7s"));
        assert_eq!(find(&shown, "read_request_timeout_in_ms").value.as_deref(), Some("7000"));
        assert_eq!(find(&shown, "commitlog_segment_size_in_mb").value.as_deref(), Some("8"));
    }

    #[test]
    fn what_was_not_set_is_shown_as_it_came_out() {
        let shown = shown(&[]);
        for name in [
            "concurrent_compactors",
            "file_cache_size",
            "memtable_heap_space",
            "prepared_statements_cache_size",
        ] {
            let setting = find(&shown, name);
            assert!(setting.is_in_effect && setting.value.is_some(), "{setting:?}");
        }
        let without = find(&shown, "cdc_free_space_check_interval");
        assert_eq!((without.value.as_deref(), without.is_in_effect), (Some("250ms"), false));
    }
}
