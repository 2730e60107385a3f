//! Configuration: from cassandra.yaml, the environment and flags to one validated [`Config`].
//!
//! 1. Defaults are Cassandra's ([`Settings::default`]).
//! 2. The file, when there is one, sets what it names. A key that does not apply gives a warning, one that
//!    promises safety which is not there ends the start (`guarded`).
//! 3. The environment variables of Cassandra's official image override the file.
//! 4. Flags override all of it.
//! 5. What nobody set is derived from the machine; everything is checked; the result never changes.

mod addresses;
mod audit;
mod auth;
mod encryption;
mod engine_part;
mod entries;
mod environment;
mod guarded;
mod guardrails;
mod internode;
mod memory;
mod places;
mod ring;
mod settings;
mod shown;
mod tables;
mod units;
mod values;

pub use auth::{AuthSettings, Authenticator, CidrSettings};
pub use encryption::{ClientAuth, ContextFactory, EncryptionOptions, EncryptionPolicy, Secret, StoreFile};
pub use internode::{InternodeEncryption, InternodeOptions};
pub use memory::{MemoryShares, memory_bytes};
use places::Places;
pub use ring::{Allocation, RingConfig};
pub use settings::Settings;
pub use shown::Shown;
pub use tables::{DefaultCompaction, Memtables};
pub use units::{ByteRate, ByteSize, Millis};
pub use values::{
    CommitFailurePolicy, CommitlogSync, DiskFailurePolicy, Refresh, SlowQueryValues, UnprovenReads,
};

use crate::cli::ServeArgs;
use cql::ddl::TableDefaults;
use cql::guardrails::Guardrails;
use engine::EngineOptions;
use entries::Entries;
use env::Env;
use model::Consistency;
use model::schema::Release;
use ring::RingDraft;
use serde_norway::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cassandra's keys that mean nothing here, one in each line.
const INAPPLICABLE: &str = include_str!("inapplicable.txt");
/// Settings that are kept and shown while nothing acts on them: their defaults are what happens.
const WITHOUT_EFFECT: &[&str] =
    &["native_transport_allow_older_protocols", "request_timeout", "snapshot_before_compaction"];
/// Where data goes when nobody says.
const DATA_DIR_DEFAULT: &str = "ilion-data";
/// Keys for which null is a value.
const NULLABLE: &[&str] = &["sstable_preemptive_open_interval"];
/// Most threads that a setting asks for.
const THREADS_MAX: u32 = 4_096;
/// Largest column_index_size that Cassandra takes.
const COLUMN_INDEX_BYTES_MAX: u64 = (1 << 31) - 1;

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration: {0}")]
    Read(#[from] std::io::Error),
    /// The file is no YAML map.
    #[error("{} is no valid YAML: {reason}", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        reason: String,
    },
    /// A value cannot be.
    #[error("{origin}: {key}: {value}: {reason}")]
    Value {
        /// File, environment or flag.
        origin: String,
        /// Name of the setting.
        key: String,
        /// The value as it was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The settings do not fit together.
    #[error("{0}")]
    Invalid(String),
}

/// Everything that a node is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings, as `system_views.settings` shows them.
    pub settings: Settings,
    /// Where the settings came from.
    pub file: Option<PathBuf>,
    /// Data center of the node.
    pub data_center: String,
    /// Rack of the node.
    pub rack: String,
    /// Name of the snitch that the configuration asks for.
    pub snitch: String,
    /// Where clients connect to.
    pub cql_address: SocketAddr,
    /// Address that other nodes and drivers are told.
    pub broadcast_address: IpAddr,
    /// Address of the node itself, for system.local.
    pub listen_address: IpAddr,
    /// Whether the nodes of its data center are reached at their addresses in it (`prefer_local` of
    /// cassandra-rackdc.properties).
    pub prefers_local: bool,
    /// Address of the CQL port that drivers are told; never a wildcard.
    pub broadcast_rpc_address: IpAddr,
    /// Where the admin API listens.
    pub admin_address: SocketAddr,
    /// Where /metrics is answered without a login, if anywhere.
    pub metrics_address: Option<SocketAddr>,
    /// Whether an empty node is filled with sample data.
    pub sample: bool,
    /// Whether the directory of a member of a larger ring is served.
    pub single_node: bool,
    /// Whether the node may be in another data center than at its last start.
    pub ignore_dc: bool,
    /// Whether the node may be in another rack than at its last start.
    pub ignore_rack: bool,
    /// The ring that the node is a member of; `None` for a node on its own.
    pub ring: Option<RingConfig>,
    /// Whether clients log in, and whether they are held to what they were granted.
    pub auth: AuthSettings,
    /// File with the password of the first superuser.
    pub initial_superuser_password_file: Option<PathBuf>,
    /// What new tables are like where their statement does not say.
    pub tables: TableDefaults,
    /// What ordinary roles are held to besides permissions.
    pub guardrails: Arc<Guardrails>,
    /// Memory for what has no size of its own.
    pub memory: MemoryShares,
    /// The engine's part.
    pub engine: EngineOptions,
    /// What was ignored, one sentence each.
    pub warnings: Vec<String>,
}

impl Config {
    /// Loads the configuration of this process.
    ///
    /// # Errors
    /// [`ConfigError`] names the key and the value that cannot be.
    pub fn load(
        env: &Env,
        args: &ServeArgs,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let mut draft = Draft::default();
        if let Some(path) = &args.config {
            draft.apply_yaml(path, &env.fs.read_to_string(path)?)?;
            draft.places.read_files(env, path);
            draft.warn_of_archive(env, path);
        }
        draft.apply_environment(environment)?;
        draft.apply_flags(args)?;
        draft.finish(env, args)
    }
}

impl Config {
    /// Bytes of the longest message that several segments of v5 may make up:
    /// `native_transport_max_message_size`, else what fits into a mutation and into the requests in flight
    /// (CASSANDRA-20052).
    pub fn message_bytes_max(&self) -> u64 {
        let (all, of_address) = self.memory.requests_in_flight(&self.settings);
        let usual = self.engine.mutation_bytes_max().min(all).min(of_address);
        self.settings.native_transport_max_message_size.map_or(usual, |size| size.0)
    }

    /// How many replicas of the roles are read in a ring, and have to take a change. The keys came with 4.1
    /// (CASSANDRA-12988).
    pub fn auth_levels(&self, release: Release) -> (Consistency, Consistency) {
        let (reads, writes) = match release {
            Release::V4_0 => (Consistency::LocalOne, Consistency::LocalOne),
            Release::V4_1 | Release::V5_0 => (Consistency::LocalQuorum, Consistency::EachQuorum),
        };
        let settings = &self.settings;
        (
            settings.auth_read_consistency_level.unwrap_or(reads),
            settings.auth_write_consistency_level.unwrap_or(writes),
        )
    }

    /// How many tokens the node is to have.
    pub fn num_tokens(&self) -> usize {
        let given = self.settings.initial_token.as_ref().map(|tokens| tokens.split(',').count());
        given.unwrap_or(self.settings.num_tokens as usize)
    }
}

/// A configuration in the making.
#[derive(Debug, Default)]
struct Draft {
    settings: Settings,
    snitch: Option<String>,
    places: Places,
    auth: AuthSettings,
    ring: RingDraft,
    warnings: Vec<String>,
}

impl Draft {
    fn apply_yaml(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let yaml = |reason: String| ConfigError::Yaml { path: path.to_owned(), reason };
        let entries = Entries::parse(text).map_err(|e| yaml(e.to_string()))?;
        let origin = path.display().to_string();
        let mut given: BTreeMap<&str, &str> = BTreeMap::new();
        let mut inapplicable = Vec::new();
        for (index, (key, value)) in entries.0.iter().enumerate() {
            let Value::String(key) = key else {
                return Err(yaml(format!("the key {} is no text", show(key))));
            };
            let name = Settings::current_name(key).unwrap_or(key);
            if let Some(other) = given.insert(name, key).filter(|other| other != key) {
                return Err(ConfigError::Value {
                    origin,
                    key: key.clone(),
                    value: show(value),
                    reason: format!("the file sets {other} too, which is another name of the same"),
                });
            }
            if entries.0.iter().skip(index + 1).any(|(later, _)| later.as_str() == Some(key)) {
                self.warnings.push(format!("{origin}: {key} is set more than once, the last value counts"));
                continue;
            }
            if INAPPLICABLE.lines().any(|known| known == key) {
                inapplicable.push(key.as_str());
                continue;
            }
            self.apply_key(&origin, key, value)?;
        }
        // Half of the keys of the file that comes with Cassandra: in one line, or nobody sees the other
        // warnings.
        if let Some((last, others)) = inapplicable.split_last() {
            let names = if others.is_empty() { String::new() } else { format!("{} and ", others.join(", ")) };
            let does = if others.is_empty() {
                "does not apply to Ilion and is"
            } else {
                "do not apply to Ilion and are"
            };
            self.warnings.push(format!("{origin}: {names}{last} {does} ignored"));
        }
        Ok(())
    }

    fn apply_key(&mut self, origin: &str, key: &str, value: &Value) -> Result<(), ConfigError> {
        let bad = |reason: String| ConfigError::Value {
            origin: origin.to_owned(),
            key: key.to_owned(),
            // There may be passwords in it.
            value: if key.ends_with("encryption_options") { "{...}".to_owned() } else { show(value) },
            reason,
        };
        if value.is_null() {
            // As in Cassandra, a key without a value keeps its default, but for those that have a meaning
            // without one; a name nobody knows is still named.
            if let Some(name) = Settings::current_name(key)
                && !NULLABLE.contains(&name)
            {
                return Ok(());
            }
        }
        if let Some(set) = self.settings.set(key, value) {
            set.map_err(bad)?;
            self.warn_of_no_effect(origin, key);
            let unknown = match key {
                "client_encryption_options" => &self.settings.client_encryption_options.unknown[..],
                "server_encryption_options" => &self.settings.server_encryption_options.options.unknown[..],
                _ => &[],
            };
            for option in unknown {
                let ignored = format!("{origin}: {key}: {option} is not a known option and is ignored");
                self.warnings.push(ignored);
            }
            if key == "sstable" && value.get("format").is_some_and(|f| !is_blank(f)) {
                self.warnings.push(format!("{origin}: format of {key} has no effect in this version"));
            }
            return Ok(());
        }
        if let Some(rule) = guarded::guarded(key) {
            if let Some(asked) = rule.asks_for_more(value) {
                return Err(bad(format!("{asked} is not supported: {}", rule.instead)));
            }
            self.auth.note(key, value).map_err(bad)?;
        } else if self.ring.note(key, value).map_err(bad)? {
        } else if key == "endpoint_snitch" {
            self.snitch = Some(short_class(&show(value)));
        } else {
            self.warnings.push(format!("{origin}: {key} is not a known key and is ignored"));
        }
        Ok(())
    }

    /// Names the commands that a Cassandra would run with segments of its commit log.
    fn warn_of_archive(&mut self, env: &Env, yaml: &Path) {
        let path = yaml.with_file_name("commitlog_archiving.properties");
        let text = env.fs.read_to_string(&path).unwrap_or_default();
        for (key, value) in places::properties(&text) {
            if matches!(key.as_str(), "archive_command" | "restore_command") && !value.is_empty() {
                self.warnings.push(format!("{}: {key} is not carried out", path.display()));
            }
        }
    }

    /// A setting that nothing acts on is named when it asks for something else than what happens.
    fn warn_of_no_effect(&mut self, origin: &str, key: &str) {
        let Some(name) = Settings::current_name(key).filter(|name| WITHOUT_EFFECT.contains(name)) else {
            return;
        };
        let shown = |settings: &Settings| {
            settings.entries().into_iter().find(|(n, _)| *n == name).and_then(|(_, value)| value)
        };
        if shown(&self.settings) != shown(&Settings::default()) {
            self.warnings.push(format!("{origin}: {key} has no effect in this version"));
        }
    }

    fn apply_flags(&mut self, args: &ServeArgs) -> Result<(), ConfigError> {
        let settings = &mut self.settings;
        if let Some(dir) = &args.data_dir {
            settings.data_file_directories = vec![dir.join("data")];
            settings.local_system_data_file_directory = None;
            settings.commitlog_directory = Some(dir.join("commitlog"));
            settings.saved_caches_directory = Some(dir.join("saved_caches"));
        }
        if let Some(listen) = args.listen {
            settings.rpc_address = Some(listen);
            settings.rpc_interface = None;
            if !listen.is_unspecified() {
                settings.listen_address = Some(listen);
                settings.listen_interface = None;
            }
        }
        if let Some(port) = args.port {
            settings.native_transport_port = port;
        }
        if let Some(address) = args.admin_address {
            settings.admin_address = Some(address);
        }
        if let Some(path) = &args.admin_socket {
            settings.admin_socket = Some(path.clone());
        }
        if let Some(port) = args.metrics_port {
            settings.metrics_port = Some(port);
        }
        if let Some(address) = args.metrics_address {
            settings.metrics_address = Some(address);
        }
        if let Some(port) = args.flight_port {
            settings.flight_port = Some(port);
        }
        if let Some(name) = &args.cluster_name {
            settings.cluster_name = name.clone();
        }
        Ok(())
    }

    fn finish(mut self, env: &Env, args: &ServeArgs) -> Result<Config, ConfigError> {
        let memory = MemoryShares::of(memory_bytes(&*env.fs));
        self.fill_directories();
        let snitch = self.snitch.take().unwrap_or_else(|| "SimpleSnitch".to_owned());
        self.ask_interfaces().map_err(ConfigError::Invalid)?;
        let (bind, listen) = self.addresses(env, args.config.is_some());
        let settings = self.settings;
        let broadcast = settings.broadcast_address.unwrap_or(listen);
        let told =
            settings.broadcast_rpc_address.unwrap_or(if bind.is_unspecified() { broadcast } else { bind });
        for (key, address) in [("broadcast_address", broadcast), ("broadcast_rpc_address", told)] {
            if address.is_unspecified() {
                return Err(ConfigError::Invalid(format!(
                    "{key} cannot be {address}: it is the address that clients are told"
                )));
            }
        }
        let admin = settings.admin_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let admin_address = SocketAddr::new(admin, args.admin_port);
        let metrics = settings.metrics_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let metrics_address = settings.metrics_port.map(|port| SocketAddr::new(metrics, port));
        if admin_address.port() != 0 && metrics_address == Some(admin_address) {
            return Err(ConfigError::Invalid(format!("metrics_port: {admin_address} is the admin API's")));
        }
        let mut engine = engine_part::engine_options(env, &settings, memory);
        engine.partition_limits = guardrails::partitions(&settings).map_err(ConfigError::Invalid)?;
        engine.commitlog_ignore_replay_errors = args.ignore_replay_errors;
        engine.validate().map_err(ConfigError::Invalid)?;
        validate(&settings).map_err(ConfigError::Invalid)?;
        self.auth.check(&settings).map_err(ConfigError::Invalid)?;
        if let Some(variant) = &self.ring.foreign_paxos {
            let warning = "has no effect: Ilion has v1, and nodes that join it must have v1";
            self.warnings.push(format!("paxos_variant: {variant} {warning}"));
        }
        let ring = self.ring.finish(settings.storage_port, broadcast, args.single_node);
        let ring = ring.map_err(ConfigError::Invalid)?;
        let prefers_local = self.places.prefers_local(&snitch);
        let (data_center, rack) =
            self.places.find(&snitch, broadcast, ring.is_some()).map_err(ConfigError::Invalid)?;
        self.warnings.extend(places::warning(&snitch, &data_center, &rack));
        memory::fits(&settings, engine.memtable_bytes_max, memory.total).map_err(ConfigError::Invalid)?;
        memory::fits_messages(&settings, &memory).map_err(ConfigError::Invalid)?;
        Ok(Config {
            file: args.config.clone(),
            data_center,
            rack,
            snitch,
            cql_address: SocketAddr::new(bind, settings.native_transport_port),
            broadcast_address: broadcast,
            listen_address: listen,
            prefers_local,
            broadcast_rpc_address: told,
            admin_address,
            metrics_address,
            sample: args.sample,
            single_node: args.single_node,
            ignore_dc: args.ignore_dc,
            ignore_rack: args.ignore_rack,
            ring,
            auth: self.auth,
            initial_superuser_password_file: args.initial_superuser_password_file.clone(),
            tables: tables::defaults(&settings).map_err(ConfigError::Invalid)?,
            guardrails: Arc::new(guardrails::of(env.fs.as_ref(), &settings).map_err(ConfigError::Invalid)?),
            memory,
            engine,
            settings,
            warnings: self.warnings,
        })
    }

    fn fill_directories(&mut self) {
        let settings = &mut self.settings;
        if settings.data_file_directories.is_empty() {
            settings.data_file_directories = vec![Path::new(DATA_DIR_DEFAULT).join("data")];
        }
        let first = settings.data_file_directories.first();
        let beside = |name| first.map(|directory| directory.with_file_name(name));
        let (commit_log, saved_caches) = (beside("commitlog"), beside("saved_caches"));
        let audit = beside("audit");
        let audit_logs_dir = &mut settings.audit_logging_options.audit_logs_dir;
        *audit_logs_dir = audit_logs_dir.take().or(audit);
        settings.commitlog_directory = settings.commitlog_directory.take().or(commit_log);
        settings.saved_caches_directory = settings.saved_caches_directory.take().or(saved_caches);
        let of_data = settings.data_file_directories.iter_mut();
        let of_tables = of_data.chain(&mut settings.local_system_data_file_directory);
        let all =
            of_tables.chain(&mut settings.commitlog_directory).chain(&mut settings.saved_caches_directory);
        let all = all.chain(&mut settings.audit_logging_options.audit_logs_dir);
        // Paths are told to people and programs that run elsewhere.
        for path in all {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
    }
}

/// Whether a value says nothing: null, or maps of nothing.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Mapping(map) => map.values().all(is_blank),
        _ => false,
    }
}

fn short_class(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

/// A value as one line.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_norway::to_string(other).unwrap_or_default().trim().replace('\n', " "),
    }
}

fn validate(settings: &Settings) -> Result<(), String> {
    let reject = |what: String| Err(what);
    if settings.metrics_address.is_some() && settings.metrics_port.is_none() {
        return reject("metrics_address needs metrics_port: there is no usual one".to_owned());
    }
    if settings.cluster_name.is_empty() {
        return reject("cluster_name must not be empty".to_owned());
    }
    if !(1..=1536).contains(&settings.num_tokens) {
        return reject(format!("num_tokens must lie between 1 and 1536, not {}", settings.num_tokens));
    }
    if let Some(tokens) = &settings.initial_token {
        for token in tokens.split(',') {
            if token.trim().parse::<i64>().is_err() {
                return reject(format!("initial_token: {:?} is no token", token.trim()));
            }
        }
    }
    let frame = settings.native_transport_max_frame_size.0;
    if !(1024..1 << 31).contains(&frame) {
        return reject(format!(
            "native_transport_max_frame_size must lie between 1KiB and 2GiB, not {}",
            settings.native_transport_max_frame_size
        ));
    }
    let rounds = settings.auth_bcrypt_gensalt_log2_rounds;
    if !(4..=31).contains(&rounds) {
        return reject(format!("auth_bcrypt_gensalt_log2_rounds must lie between 4 and 31, not {rounds}"));
    }
    let threads = [
        ("native_transport_max_auth_threads", Some(settings.native_transport_max_auth_threads)),
        ("concurrent_reads", Some(settings.concurrent_reads)),
        ("concurrent_compactors", settings.concurrent_compactors),
        ("memtable_flush_writers", settings.memtable_flush_writers),
    ];
    for (key, count) in threads.into_iter().filter_map(|(key, count)| Some((key, count?))) {
        if !(1..=THREADS_MAX).contains(&count) {
            return reject(format!("{key} must lie between 1 and {THREADS_MAX}, not {count}"));
        }
    }
    if settings.auth_read_consistency_level == Some(Consistency::Any) {
        return reject("auth_read_consistency_level cannot be ANY, which is for writes".to_owned());
    }
    if let Some(level @ (Consistency::Serial | Consistency::LocalSerial)) =
        settings.auth_write_consistency_level
    {
        return reject(format!(
            "auth_write_consistency_level cannot be {}, which is for reads",
            level.name()
        ));
    }
    if settings.batch_size_warn_threshold > settings.batch_size_fail_threshold {
        return reject("batch_size_warn_threshold must not exceed batch_size_fail_threshold".to_owned());
    }
    if let Some(size) = settings.column_index_size
        && !(1..=COLUMN_INDEX_BYTES_MAX).contains(&size.0)
    {
        return reject(format!("column_index_size must lie between 1B and 2GiB, not {size}"));
    }
    if settings.native_transport_max_requests_per_second == 0 {
        return reject("native_transport_max_requests_per_second must be positive".to_owned());
    }
    let timeouts = [
        ("read_request_timeout", settings.read_request_timeout),
        ("range_request_timeout", settings.range_request_timeout),
        ("write_request_timeout", settings.write_request_timeout),
        ("counter_write_request_timeout", settings.counter_write_request_timeout),
        ("cas_contention_timeout", settings.cas_contention_timeout),
        ("truncate_request_timeout", settings.truncate_request_timeout),
        ("request_timeout", settings.request_timeout),
    ];
    match timeouts.iter().find(|(_, timeout)| timeout.0 == 0) {
        Some((key, _)) => reject(format!("{key} must be positive")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
