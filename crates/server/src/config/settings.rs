//! The settings of a node: plain data, with Cassandra's names, defaults and spellings.
//!
//! The one list below makes the struct, the defaults, the parser of each key and the text of each value
//! (`values.rs`). `old` names the spellings of versions before 4.1, with the unit that their bare numbers
//! have.

use super::encryption::EncryptionOptions;
use super::internode::InternodeOptions;
use super::tables::{DefaultCompaction, Memtables};
use super::units::{ByteRate, ByteSize, Millis, OldUnit};
use super::values::*;
use crate::audit::{AuditOptions, QueryLogOptions};
use engine::{SsTableFormat, StorageCompatibility};
use model::Consistency;
use serde_norway::Value;
use std::net::IpAddr;
use std::path::PathBuf;

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr $(, old $old:literal $unit:ident)*;)+) => {
        /// Everything that can be set, with its value. Paths are as given; see [`Settings::resolve`].
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings { $($(#[doc = $doc])+ pub $name: $type,)+ }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($name: $default,)+ }
            }
        }

        impl Settings {
            /// Sets `key`. `None` when there is no setting of that name, today's or an old one.
            pub(super) fn set(&mut self, key: &str, value: &Value) -> Option<Result<(), String>> {
                match key {
                    $(
                        stringify!($name) =>
                            Some(Setting::parse(value, OldUnit::None).map(|parsed| self.$name = parsed)),
                        $($old => Some(Setting::parse(value, OldUnit::$unit).map(|parsed| self.$name = parsed)),)*
                    )+
                    _ => None,
                }
            }

            /// Names and values, each value under its old names, too.
            pub fn entries(&self) -> Vec<(&'static str, Option<String>)> {
                let mut entries = vec![$((stringify!($name), self.$name.print()),)+];
                $($(entries.push(($old, self.$name.print_old(OldUnit::$unit)));)*)+
                entries
            }

            /// Today's name of `key`, which may be an old one.
            pub fn current_name(key: &str) -> Option<&'static str> {
                match key {
                    $(stringify!($name) $(| $old)* => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        }
    };
}

settings! {
    /// Name of the cluster; kept in system.local and refused when it changes.
    cluster_name: String = "Test Cluster".to_owned();
    /// Tokens of the node. The ring has one node: it owns everything, whatever the number.
    num_tokens: u32 = 1;
    /// The node's token or tokens, separated by commas.
    initial_token: Option<String> = None;
    /// Directories of SSTables.
    data_file_directories: Vec<PathBuf> = Vec::new();
    /// Directory of the tables of the node itself; the first of `data_file_directories` when not set.
    local_system_data_file_directory: Option<PathBuf> = None;
    /// Directory of the commit log.
    commitlog_directory: Option<PathBuf> = None;
    /// Directory where a Cassandra saved its caches; Ilion saves none.
    saved_caches_directory: Option<PathBuf> = None;
    /// Address under which other nodes know this one.
    listen_address: Option<IpAddr> = None;
    /// Network interface whose address that is, in place of `listen_address`.
    listen_interface: Option<String> = None;
    /// Whether an address of IPv6 is taken rather than one of IPv4.
    listen_interface_prefer_ipv6: bool = false;
    /// Address that other nodes are told.
    broadcast_address: Option<IpAddr> = None;
    /// Whether the node listens for others at that address, too.
    listen_on_broadcast_address: bool = false;
    /// Address that clients connect to.
    rpc_address: Option<IpAddr> = None;
    /// Network interface whose address that is, in place of `rpc_address`.
    rpc_interface: Option<String> = None;
    /// Whether an address of IPv6 is taken rather than one of IPv4.
    rpc_interface_prefer_ipv6: bool = false;
    /// Address that clients are told.
    broadcast_rpc_address: Option<IpAddr> = None;
    /// Port of the native protocol.
    native_transport_port: u16 = 9042;
    /// Port of the native protocol for TLS alone, beside the other one.
    native_transport_port_ssl: Option<u16> = None;
    /// Whether the node takes only so many requests a second.
    native_transport_rate_limiting_enabled: bool = false;
    /// How many of all clients together.
    native_transport_max_requests_per_second: u32 = 1_000_000;
    /// TLS of clients.
    client_encryption_options: EncryptionOptions = EncryptionOptions::default();
    /// TLS between nodes.
    server_encryption_options: InternodeOptions = InternodeOptions::default();
    /// The audit log.
    audit_logging_options: AuditOptions = AuditOptions::default();
    /// The full query log, once it is turned on.
    full_query_logging_options: QueryLogOptions = QueryLogOptions::default();
    /// Closes connections whose TLS handshake takes longer; 0 never. A key of Ilion's.
    native_transport_tls_handshake_timeout: Millis = Millis(10_000);
    /// Port of the other nodes; kept in system.local.
    storage_port: u16 = 7000;
    /// Whether a node that joins a ring gets the data of its part first. Ilion cannot: with true it joins
    /// only a ring without tables.
    auto_bootstrap: bool = true;
    /// Whether writes are kept for nodes that miss them.
    hinted_handoff_enabled: bool = true;
    /// Data centers for whose nodes none are kept.
    hinted_handoff_disabled_datacenters: Vec<String> = Vec::new();
    /// Where they are kept; beside the data when not set.
    hints_directory: Option<PathBuf> = None;
    /// Nothing is kept for a node that is down for longer.
    max_hint_window: Millis = Millis(10_800_000), old "max_hint_window_in_ms" Millis;
    /// Whether that time goes on while the node was back for a moment.
    hint_window_persistent_enabled: bool = true;
    /// How often hints in memory are written.
    hints_flush_period: Millis = Millis(10_000), old "hints_flush_period_in_ms" Millis;
    /// Bytes of hints of a node; 0 is no limit.
    max_hints_size_per_host: ByteSize = ByteSize(0);
    /// Bytes from which on a file of hints is closed.
    max_hints_file_size: ByteSize = ByteSize(128 << 20), old "max_hints_file_size_in_mb" Mib;
    /// Bytes of hints that are sent in a second, shared by the nodes; 0 is no limit.
    hinted_handoff_throttle: ByteSize = ByteSize(1 << 20), old "hinted_handoff_throttle_in_kb" Kib;
    /// Nodes that are sent hints at a time.
    max_hints_delivery_threads: u32 = 2;
    /// Bytes of late logged batches that are replayed in a second, shared by the nodes; 0 is no limit.
    batchlog_replay_throttle: ByteSize = ByteSize(1 << 20), old "batchlog_replay_throttle_in_kb" Kib;
    /// Address of the admin API; 127.0.0.1 when not set. A key of Ilion's.
    admin_address: Option<IpAddr> = None;
    /// Unix socket of the admin API, beside its port; none when not set. A key of Ilion's.
    admin_socket: Option<PathBuf> = None;
    /// Port that answers /metrics and /health alone, to everybody who can reach it; 0 for any that is free;
    /// none when not set. A key of Ilion's.
    metrics_port: Option<u16> = None;
    /// Address of that port; 127.0.0.1 when not set. A key of Ilion's.
    metrics_address: Option<IpAddr> = None;
    /// Port of Arrow Flight SQL, 0 for any that is free; none when not set. A key of Ilion's.
    flight_port: Option<u16> = None;
    /// Whether clients are let in at the start.
    start_native_transport: bool = true;
    /// Longest frame of a client.
    native_transport_max_frame_size: ByteSize = ByteSize(16 << 20), old "native_transport_max_frame_size_in_mb" Mib;
    /// Longest message of a client that comes in several segments of v5; `max_mutation_size` when not set, or
    /// the least of the requests in flight if that is less.
    native_transport_max_message_size: Option<ByteSize> = None;
    /// Connections of all clients; -1 is no limit.
    native_transport_max_concurrent_connections: i64 = -1;
    /// Connections of each address; -1 is no limit.
    native_transport_max_concurrent_connections_per_ip: i64 = -1;
    /// Bytes of requests in flight; a twentieth of the memory when not set.
    native_transport_max_request_data_in_flight: Option<ByteSize> = None,
        old "native_transport_max_concurrent_requests_in_bytes" Bytes;
    /// Bytes of requests in flight of each address; a fortieth of the memory when not set.
    native_transport_max_request_data_in_flight_per_ip: Option<ByteSize> = None,
        old "native_transport_max_concurrent_requests_in_bytes_per_ip" Bytes;
    /// Bytes of answers that are made or not read; a twentieth of the memory when not set. A key of Ilion's.
    native_transport_max_response_data_in_flight: Option<ByteSize> = None;
    /// Bytes of answers of each address; a fortieth of the memory when not set. A key of Ilion's.
    native_transport_max_response_data_in_flight_per_ip: Option<ByteSize> = None;
    /// Closes connections that have not begun a session within so long; 0 never. A key of Ilion's.
    native_transport_startup_timeout: Millis = Millis(60_000);
    /// Closes connections that do not send the rest of a request within so long; 0 never. A key of Ilion's.
    native_transport_receive_timeout: Millis = Millis(30_000);
    /// Closes connections that were silent for so long; 0 never.
    native_transport_idle_timeout: Millis = Millis(0), old "native_transport_idle_timeout_in_ms" Millis;
    /// Threads that check and hash passwords.
    native_transport_max_auth_threads: u32 = 4;
    /// Failed logins of an address in a minute; further ones are not looked at. 0 is no limit. A key of
    /// Ilion's.
    native_transport_max_failed_logins_per_minute_per_ip: u32 = 60;
    /// Rounds of a new password's hash, as a power of two. A property of Cassandra's.
    auth_bcrypt_gensalt_log2_rounds: u32 = 10;
    /// Which replicas in a ring are asked for roles and permissions; as in the directory's release when not
    /// set.
    auth_read_consistency_level: Option<Consistency> = None;
    /// Which of them have to take a change.
    auth_write_consistency_level: Option<Consistency> = None;
    /// How long permissions are believed that did not change by a statement.
    permissions_validity: Millis = Millis(2_000), old "permissions_validity_in_ms" Millis;
    /// When they are looked up in the background; at half of that when not set.
    permissions_update_interval: Refresh = Refresh(None), old "permissions_update_interval_in_ms" Millis;
    /// The same of roles.
    roles_validity: Millis = Millis(2_000), old "roles_validity_in_ms" Millis;
    /// The same of roles.
    roles_update_interval: Refresh = Refresh(None), old "roles_update_interval_in_ms" Millis;
    /// Roles of which the node keeps in memory what they may do, beside those with connections; the larger
    /// one of the two counts.
    permissions_cache_max_entries: u32 = 1_000;
    /// The other one.
    roles_cache_max_entries: u32 = 1_000;
    /// How long the hash of a role that has logged in is believed; 0 reads it with each login.
    credentials_validity: Millis = Millis(2_000), old "credentials_validity_in_ms" Millis;
    /// When it is read anew in the background; never before that when not set.
    credentials_update_interval: Refresh = Refresh(None), old "credentials_update_interval_in_ms" Millis;
    /// Hashes that are kept in memory.
    credentials_cache_max_entries: u32 = 1_000;
    /// Whether all of them are read anew each interval.
    credentials_cache_active_update: bool = false;
    /// Whether protocol versions before 5 are spoken.
    native_transport_allow_older_protocols: bool = true;
    /// When a write counts as kept.
    commitlog_sync: CommitlogSync = CommitlogSync::Periodic;
    /// Time between syncs of `periodic`.
    commitlog_sync_period: Millis = Millis(10_000), old "commitlog_sync_period_in_ms" Millis;
    /// Time between syncs of `group`.
    commitlog_sync_group_window: Millis = Millis(15), old "commitlog_sync_group_window_in_ms" Millis;
    /// Size of a segment of the commit log.
    commitlog_segment_size: ByteSize = ByteSize(32 << 20), old "commitlog_segment_size_in_mb" Mib;
    /// Largest size of a mutation; half a segment when not set.
    max_mutation_size: Option<ByteSize> = None, old "max_mutation_size_in_kb" Kib;
    /// Size of all segments; the smaller of 8 GiB and a quarter of the disk when not set.
    commitlog_total_space: Option<ByteSize> = None, old "commitlog_total_space_in_mb" Mib;
    /// What follows a failed sync of the commit log.
    commit_failure_policy: CommitFailurePolicy = CommitFailurePolicy::Stop;
    /// How files of SSTables are read.
    disk_access_mode: DiskAccessMode = DiskAccessMode::Standard;
    /// What follows a failure of the data directories.
    disk_failure_policy: DiskFailurePolicy = DiskFailurePolicy::Stop;
    /// Memory of memtables; derived from the machine's memory when not set.
    memtable_heap_space: Option<ByteSize> = None, old "memtable_heap_space_in_mb" Mib;
    /// More memory of memtables: added to `memtable_heap_space`, there is one kind of memory here.
    memtable_offheap_space: Option<ByteSize> = None, old "memtable_offheap_space_in_mb" Mib;
    /// Part of the memtable memory at which the largest memtable is flushed; 1 / (flush writers + 1) when not
    /// set.
    memtable_cleanup_threshold: Option<f64> = None;
    /// Threads that write SSTables; one for each data directory, and at least two, when not set.
    memtable_flush_writers: Option<u32> = None;
    /// Memory of the page cache; derived from the machine's memory when not set.
    file_cache_size: Option<ByteSize> = None, old "file_cache_size_in_mb" Mib;
    /// Whether pages of indexes stay in the page cache. ScyllaDB's key.
    cache_index_pages: bool = true;
    /// Memory of the row cache, for tables that ask for it; 0 is none.
    row_cache_size: ByteSize = ByteSize(0), old "row_cache_size_in_mb" Mib;
    /// Threads for reads that wait for the disk.
    concurrent_reads: u32 = 32;
    /// Bytes that compactions write in each second; 0 is no limit.
    compaction_throughput: ByteRate = ByteRate(64 << 20), old "compaction_throughput_mb_per_sec" Mib;
    /// Bytes that bulk reads (Flight, exports, SQL) go over in each second, before compression; 0 is no
    /// limit. A key of Ilion's.
    bulk_throughput: ByteRate = ByteRate(0);
    /// Bytes of a device that compactions leave free.
    min_free_space_per_drive: ByteSize = ByteSize(50 << 20), old "min_free_space_per_drive_in_mb" Mib;
    /// Part of what is free beyond that which compactions may use, from 0 to 1.
    max_space_usable_for_compactions_in_percentage: f64 = 0.95;
    /// Whether SSTables without a Proof.db are compared with their digests in the background. A key of
    /// Ilion's.
    sstable_proving_enabled: bool = true;
    /// Whether the rows of their large partitions are described in the same pass. A key of Ilion's.
    sstable_adoption_enabled: bool = true;
    /// What becomes of reads that need an SSTable before that was done. A key of Ilion's.
    sstable_unproven_reads: UnprovenReads = UnprovenReads::Wait;
    /// How long clients wait at a start until that was done. A key of Ilion's.
    sstable_proving_before_serving: Millis = Millis(10_000);
    /// Bytes that are read for it in each second; 0 is no limit. A key of Ilion's.
    sstable_proving_throughput: ByteRate = ByteRate(64 << 20);
    /// Compactions that run at once; as many as cores, at least 2 and at most 8, when not set.
    concurrent_compactors: Option<u32> = None;
    /// Whether dropping or truncating a table leaves a snapshot.
    auto_snapshot: bool = true;
    /// For how long; for ever when not set.
    auto_snapshot_ttl: Option<Millis> = None;
    /// Whether each flushed SSTable is linked into `backups/` of its table, unless the table says no.
    incremental_backups: bool = false;
    /// Whether each compaction leaves a snapshot of what it read.
    snapshot_before_compaction: bool = false;
    /// Whether new SSTables are named by time uuids.
    uuid_sstable_identifiers_enabled: bool = false;
    /// The format of new SSTables: `selected_format: big` or `bti`.
    sstable: SsTableFormat = SsTableFormat::Big, old "sstable_format" None;
    /// With which releases new files stay compatible.
    storage_compatibility_mode: StorageCompatibility = StorageCompatibility::Cassandra4;
    /// The compaction of tables whose statement names none.
    default_compaction: Option<DefaultCompaction> = None;
    /// Names for kinds of memtables, which tables may have.
    memtable: Memtables = Memtables::default();
    /// Data between two entries of a partition's index; 4 KiB when not set, up to 16 KiB in partitions of
    /// some GiB.
    column_index_size: Option<ByteSize> = None, old "column_index_size_in_kb" Kib;
    /// Rows that a compaction writes before what it wrote can be read; null for its end.
    sstable_preemptive_open_interval: Interval = Interval(Some(ByteSize(50 << 20))), old "sstable_preemptive_open_interval_in_mb" Mib;
    /// Whether tables may be created with COMPACT STORAGE. This and what follows are guardrails: they hold
    /// ordinary roles, where clients log in.
    compact_tables_enabled: bool = true;
    /// Keyspaces with which CREATE KEYSPACE warns; -1 is no limit, as of all such thresholds.
    keyspaces_warn_threshold: i64 = -1;
    /// Keyspaces that there may be.
    keyspaces_fail_threshold: i64 = -1;
    /// Tables with which CREATE TABLE warns.
    tables_warn_threshold: i64 = -1;
    /// Tables that there may be.
    tables_fail_threshold: i64 = -1;
    /// Columns of a table, from which on a warning is given.
    columns_per_table_warn_threshold: i64 = -1;
    /// Columns that a table may have.
    columns_per_table_fail_threshold: i64 = -1;
    /// Fields of a user type, from which on a warning is given.
    fields_per_udt_warn_threshold: i64 = -1;
    /// Fields that a user type may have.
    fields_per_udt_fail_threshold: i64 = -1;
    /// Dimensions of a vector, from which on a warning is given.
    vector_dimensions_warn_threshold: i64 = -1;
    /// Dimensions that a vector may have.
    vector_dimensions_fail_threshold: i64 = -1;
    /// Whether columns and fields may be vectors.
    vector_type_enabled: bool = true;
    /// Replicas of a keyspace, below which a warning is given.
    minimum_replication_factor_warn_threshold: i64 = -1;
    /// The fewest replicas that a keyspace may have.
    minimum_replication_factor_fail_threshold: i64 = -1;
    /// Replicas of a keyspace, above which a warning is given.
    maximum_replication_factor_warn_threshold: i64 = -1;
    /// The most replicas that a keyspace may have.
    maximum_replication_factor_fail_threshold: i64 = -1;
    /// Replicas of a keyspace whose statement does not say how many.
    default_keyspace_rf: u32 = 1;
    /// Whether keyspaces may be placed by SimpleStrategy.
    simplestrategy_enabled: bool = true;
    /// Properties of tables that are warned of.
    table_properties_warned: Vec<String> = Vec::new();
    /// Properties of tables that are taken for not given.
    table_properties_ignored: Vec<String> = Vec::new();
    /// Properties of tables that are refused.
    table_properties_disallowed: Vec<String> = Vec::new();
    /// Whether tables may be without compression.
    uncompressed_tables_enabled: bool = true;
    /// Whether a table of TimeWindowCompactionStrategy may be without `default_time_to_live`.
    zero_ttl_on_twcs_enabled: bool = true;
    /// Whether that is warned of.
    zero_ttl_on_twcs_warned: bool = true;
    /// Whether ALTER TABLE may add, drop and rename columns.
    alter_table_enabled: bool = true;
    /// Whether there is DROP TABLE and TRUNCATE.
    drop_truncate_table_enabled: bool = true;
    /// Whether there is DROP KEYSPACE.
    drop_keyspace_enabled: bool = true;
    /// Whether there is USE. It holds everybody.
    use_statements_enabled: bool = true;
    /// Whether there is GROUP BY.
    group_by_enabled: bool = true;
    /// Whether there is ALLOW FILTERING.
    allow_filtering_enabled: bool = true;
    /// Whether reads may filter by several columns whose values replicas may hold apart.
    intersect_filtering_query_enabled: bool = true;
    /// Whether that is warned of.
    intersect_filtering_query_warned: bool = true;
    /// Rows of a page, from which on a warning is given.
    page_size_warn_threshold: i64 = -1;
    /// Rows that a page may have.
    page_size_fail_threshold: i64 = -1;
    /// Partitions that IN names in a read, from which on a warning is given.
    partition_keys_in_select_warn_threshold: i64 = -1;
    /// Partitions that IN may name in a read.
    partition_keys_in_select_fail_threshold: i64 = -1;
    /// Consistency levels of reads that are warned of.
    read_consistency_levels_warned: Vec<Consistency> = Vec::new();
    /// Consistency levels of reads that are refused.
    read_consistency_levels_disallowed: Vec<Consistency> = Vec::new();
    /// Consistency levels of writes that are warned of.
    write_consistency_levels_warned: Vec<Consistency> = Vec::new();
    /// Consistency levels of writes that are refused.
    write_consistency_levels_disallowed: Vec<Consistency> = Vec::new();
    /// Whether there is USING TIMESTAMP.
    user_timestamps_enabled: bool = true;
    /// How far a timestamp is ahead of the clock where a warning is given.
    maximum_timestamp_warn_threshold: Option<Millis> = None;
    /// How far a timestamp may be ahead of the clock.
    maximum_timestamp_fail_threshold: Option<Millis> = None;
    /// How far a timestamp is behind the clock where a warning is given.
    minimum_timestamp_warn_threshold: Option<Millis> = None;
    /// How far a timestamp may be behind the clock.
    minimum_timestamp_fail_threshold: Option<Millis> = None;
    /// Whether there are operations on lists for which they have to be read.
    read_before_write_list_operations_enabled: bool = true;
    /// Bytes of a value, from which on a warning is given.
    column_value_size_warn_threshold: Option<ByteSize> = None;
    /// Bytes that a value may have.
    column_value_size_fail_threshold: Option<ByteSize> = None;
    /// Bytes of a partition that is written to an SSTable, from which on the log has a warning. This and the
    /// next three refuse nothing, and hold whoever the data are of.
    partition_size_warn_threshold: Option<ByteSize> = None, old "compaction_large_partition_warning_threshold" None,
        old "compaction_large_partition_warning_threshold_mb" Mib;
    /// The same for an error.
    partition_size_fail_threshold: Option<ByteSize> = None;
    /// Tombstones of a partition that is written to an SSTable, from which on the log has a warning.
    partition_tombstones_warn_threshold: i64 = -1, old "compaction_tombstone_warning_threshold" None;
    /// The same for an error.
    partition_tombstones_fail_threshold: i64 = -1;
    /// Bytes of a collection that a statement writes, from which on a warning is given.
    collection_size_warn_threshold: Option<ByteSize> = None;
    /// Bytes that a statement may write to a collection.
    collection_size_fail_threshold: Option<ByteSize> = None;
    /// Elements of a collection that a statement writes, from which on a warning is given.
    items_per_collection_warn_threshold: i64 = -1;
    /// Elements that a statement may write to a collection.
    items_per_collection_fail_threshold: i64 = -1;
    /// How many percent of the disks are used where a warning is given; -1 is none.
    data_disk_usage_percentage_warn_threshold: i64 = -1;
    /// How many percent of the disks may be used, if ordinary roles are to write; -1 is no limit.
    data_disk_usage_percentage_fail_threshold: i64 = -1;
    /// What the disks hold, if it shall be less than they do.
    data_disk_usage_max_disk_size: Option<ByteSize> = None;
    /// Whether COMPACT STORAGE may be dropped from a table.
    drop_compact_storage_enabled: bool = false, old "enable_drop_compact_storage" None;
    /// Whether columns may be masked, and masks hide values from roles that may not UNMASK them.
    dynamic_data_masking_enabled: bool = false;
    /// Tombstones in one read from which a warning goes to log and client.
    tombstone_warn_threshold: u32 = 1_000;
    /// Tombstones in one read at which it fails.
    tombstone_failure_threshold: u32 = 100_000;
    /// Size of a batch from which a warning goes to log and client.
    batch_size_warn_threshold: ByteSize = ByteSize(5 << 10), old "batch_size_warn_threshold_in_kb" Kib;
    /// Size of a batch at which it is refused.
    batch_size_fail_threshold: ByteSize = ByteSize(50 << 10), old "batch_size_fail_threshold_in_kb" Kib;
    /// Partitions of an unlogged batch from which a warning goes to log and client.
    unlogged_batch_across_partitions_warn_threshold: u32 = 10;
    /// Keys, or rows, that the INs of a statement may multiply to without a warning; -1 is no limit.
    in_select_cartesian_product_warn_threshold: i64 = -1;
    /// Keys, or rows, above which such a statement is refused; -1 is no limit but the node's own.
    in_select_cartesian_product_fail_threshold: i64 = -1;
    /// Time for a read of one partition.
    read_request_timeout: Millis = Millis(5_000), old "read_request_timeout_in_ms" Millis;
    /// Time for a read of many partitions.
    range_request_timeout: Millis = Millis(10_000), old "range_request_timeout_in_ms" Millis;
    /// Time for a write.
    write_request_timeout: Millis = Millis(2_000), old "write_request_timeout_in_ms" Millis;
    /// Time for a counter update.
    counter_write_request_timeout: Millis = Millis(5_000), old "counter_write_request_timeout_in_ms" Millis;
    /// Time that a conditional write waits for others of its partition.
    cas_contention_timeout: Millis = Millis(1_800), old "cas_contention_timeout_in_ms" Millis;
    /// Time to empty a table.
    truncate_request_timeout: Millis = Millis(60_000), old "truncate_request_timeout_in_ms" Millis;
    /// Time for everything else.
    request_timeout: Millis = Millis(10_000), old "request_timeout_in_ms" Millis;
    /// Requests slower than this are logged; 0 logs none.
    slow_query_log_timeout: Millis = Millis(500), old "slow_query_log_timeout_in_ms" Millis;
    /// Whether the log of slow requests, and what else keeps single reads, tells their values. A key of
    /// Ilion's.
    slow_query_values: SlowQueryValues = SlowQueryValues::Shown;
    /// Memory of prepared statements; a 256th of the memory, at least 10 MiB, when not set.
    prepared_statements_cache_size: Option<ByteSize> = None, old "prepared_statements_cache_size_mb" Mib;
    /// How long traces of queries are kept.
    trace_type_query_ttl: Millis = Millis(86_400_000), old "tracetype_query_ttl" Seconds;
}
