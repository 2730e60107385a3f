//! Configurations from files, environments and flags.

mod guardrails;
mod tables;

use super::addresses::HOST_NAME_FILE;
use super::*;
use std::path::Path;

/// The keys of all releases, those of hidden settings too.
const KEYS: &str = include_str!("../../testdata/keys.txt");
const STOCK: &str = include_str!("../../testdata/cassandra.yaml");

fn load_all(yaml: &str, environment: &[(&str, &str)], args: &ServeArgs) -> Result<Config, ConfigError> {
    let env = Env::for_test(1);
    let path = Path::new("/etc/cassandra/cassandra.yaml");
    env.fs.create_dir_all(path.parent().unwrap()).unwrap();
    env.fs.write(path, yaml.as_bytes()).unwrap();
    let args = ServeArgs { config: Some(path.to_owned()), ..args.clone() };
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    Config::load(&env, &args, environment)
}

fn load(yaml: &str) -> Result<Config, ConfigError> {
    load_all(yaml, &[], &ServeArgs::default())
}

fn setting(config: &Config, name: &str) -> Option<String> {
    config.settings.entries().into_iter().find(|(n, _)| *n == name).and_then(|(_, value)| value)
}

#[test]
fn the_stock_file_loads_and_each_key_without_effect_is_named_once() {
    let config = load(STOCK).unwrap();
    assert_eq!(config.settings.num_tokens, 16);
    assert_eq!(config.settings.prepared_statements_cache_size, None);
    assert_eq!(config.engine.commitlog_sync, engine::SyncMode::Periodic { period_ms: 10_000 });
    let named = config.warnings.join("\n");
    let words = || named.split([' ', ',', '\n']);
    for key in ["rpc_keepalive", "trickle_fsync", "concurrent_writes"] {
        assert_eq!(words().filter(|word| *word == key).count(), 1, "{key}: {named}");
    }
    assert_eq!(named.matches("not apply").count(), 1, "{named}");
    assert!(!config.warnings.iter().any(|w| w.contains("not a known key")), "{:#?}", config.warnings);
    for silent in ["authenticator", "partitioner", "cluster_name", "client_encryption_options"] {
        assert!(!config.warnings.iter().any(|w| w.contains(silent)), "{silent}");
    }
}

#[test]
fn values_are_read_in_todays_and_in_old_spellings() {
    for (yaml, name, expected) in [
        ("commitlog_sync_period: 5s", "commitlog_sync_period", "5s"),
        ("commitlog_sync_period_in_ms: 5000", "commitlog_sync_period", "5s"),
        ("commitlog_segment_size_in_mb: 16", "commitlog_segment_size", "16MiB"),
        ("native_transport_max_frame_size_in_mb: 256", "native_transport_max_frame_size", "256MiB"),
        (
            "native_transport_max_concurrent_requests_in_bytes: 1048576",
            "native_transport_max_request_data_in_flight",
            "1MiB",
        ),
        ("sstable_proving_enabled: false", "sstable_proving_enabled", "false"),
        ("sstable_proving_before_serving: 1h", "sstable_proving_before_serving", "1h"),
        ("sstable_unproven_reads: serve", "sstable_unproven_reads", "serve"),
        ("sstable_proving_throughput: 8MiB/s", "sstable_proving_throughput", "8MiB/s"),
        ("compaction_throughput: 0", "compaction_throughput", "0B/s"),
        ("compaction_throughput_mb_per_sec: 16", "compaction_throughput", "16MiB/s"),
        ("batch_size_warn_threshold_in_kb: 7", "batch_size_warn_threshold", "7KiB"),
        ("slow_query_log_timeout_in_ms: 100", "slow_query_log_timeout", "100ms"),
        ("commitlog_sync: batch", "commitlog_sync", "batch"),
        ("commit_failure_policy: stop_commit", "commit_failure_policy", "stop_commit"),
        ("data_file_directories: [/a, /b]", "data_file_directories", "[/a, /b]"),
        ("data_file_directories: /a", "data_file_directories", "[/a]"),
        ("auto_snapshot: no", "auto_snapshot", "false"),
        ("incremental_backups: true", "incremental_backups", "true"),
        ("memtable_cleanup_threshold: 0.11", "memtable_cleanup_threshold", "0.11"),
        ("min_free_space_per_drive_in_mb: 10", "min_free_space_per_drive", "10MiB"),
        (
            "max_space_usable_for_compactions_in_percentage: .5",
            "max_space_usable_for_compactions_in_percentage",
            "0.5",
        ),
        ("listen_address: localhost", "listen_address", "127.0.0.1"),
        // No address to Rust, but one to the resolver that names go to.
        ("rpc_address: '127.7'", "rpc_address", "127.0.0.7"),
        (
            "data_file_directories: [/a, /b]\nlocal_system_data_file_directory: /s",
            "local_system_data_file_directory",
            "/s",
        ),
    ] {
        let config = load(yaml).unwrap_or_else(|e| panic!("{yaml}: {e}"));
        assert_eq!(setting(&config, name).as_deref(), Some(expected), "{yaml}");
        assert!(config.warnings.is_empty(), "{yaml}: {:?}", config.warnings);
    }
}

#[test]
fn values_that_cannot_be_are_errors_that_name_them() {
    for (yaml, words) in [
        ("native_transport_port: many", &["native_transport_port", "many"][..]),
        ("native_transport_port: 65536", &["native_transport_port", "65536"]),
        ("commitlog_sync: sometimes", &["commitlog_sync", "sometimes", "periodic batch group"]),
        ("commitlog_segment_size: 32", &["commitlog_segment_size", "32"]),
        ("read_request_timeout: soon", &["read_request_timeout", "soon"]),
        ("auto_snapshot: perhaps", &["auto_snapshot", "perhaps"]),
        ("rpc_address: not a host", &["rpc_address", "not a host"]),
        ("rpc_interface: none9", &["Configured rpc_interface \"none9\" could not be found"]),
        (
            "listen_interface: lo\nlisten_address: 127.0.0.1",
            &["listen_address OR listen_interface, not both"],
        ),
        ("concurrent_reads: [1]", &["concurrent_reads"]),
        ("concurrent_reads: 0", &["concurrent_reads"]),
        ("concurrent_reads: 4000000000", &["concurrent_reads", "4096"]),
        ("concurrent_compactors: 5000", &["concurrent_compactors", "4096"]),
        ("memtable_flush_writers: 4294967295", &["memtable_flush_writers", "4096"]),
        ("file_cache_size: 8589934591GiB", &["file_cache_size", "2GiB", "8589934591GiB"]),
        ("row_cache_size: 3GiB", &["row_cache_size", "2GiB"]),
        ("memtable_heap_space: 2GiB\nmemtable_offheap_space: 1MiB", &["memtable_heap_space", "2GiB"]),
        ("prepared_statements_cache_size: 1048576GiB", &["prepared_statements_cache_size", "2GiB"]),
        ("num_tokens: 0", &["num_tokens"]),
        ("initial_token: x", &["initial_token", "x"]),
        ("memtable_cleanup_threshold: 2.0", &["memtable_cleanup_threshold"]),
        (
            "max_space_usable_for_compactions_in_percentage: 95",
            &["max_space_usable_for_compactions_in_percentage"],
        ),
        ("max_mutation_size: 17MiB", &["commitlog_segment_size", "max_mutation_size"]),
        ("read_request_timeout: 0ms", &["read_request_timeout"]),
        ("native_transport_max_frame_size: 4GiB", &["native_transport_max_frame_size", "4GiB"]),
        (
            "native_transport_max_message_size: 2MiB\nnative_transport_max_request_data_in_flight: 1MiB",
            &["native_transport_max_message_size", "native_transport_max_request_data_in_flight", "1MiB"],
        ),
        (
            "native_transport_max_message_size: 2MiB\nnative_transport_max_request_data_in_flight_per_ip: 1MiB",
            &[
                "native_transport_max_message_size",
                "native_transport_max_request_data_in_flight_per_ip",
                "1MiB",
            ],
        ),
        ("broadcast_rpc_address: 0.0.0.0", &["broadcast_rpc_address", "0.0.0.0"]),
        (
            "read_request_timeout: 1s\nread_request_timeout_in_ms: 2000",
            &["read_request_timeout_in_ms", "another name"],
        ),
        (
            "data_file_directories: [/a, /s]\nlocal_system_data_file_directory: /s",
            &["local_system_data_file_directory", "data_file_directories"],
        ),
        ("- a list", &["keys and values"]),
        ("a: [", &["YAML"]),
    ] {
        let error = load(yaml).expect_err(yaml).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
    }
}

#[test]
fn safety_that_is_not_there_is_refused() {
    for yaml in [
        "authenticator: {class_name: com.example.KerberosAuthenticator}",
        "authorizer: com.example.Authorizer",
        "role_manager: com.example.RoleManager",
        "network_authorizer: com.example.Network",
        "cidr_authorizer: {class_name: com.example.Cidr}",
        "transparent_data_encryption_options: {enabled: true}",
        "internode_authenticator: {class_name: org.apache.cassandra.auth.MutualTlsInternodeAuthenticator}",
        "partitioner: RandomPartitioner",
    ] {
        let error = load(yaml).expect_err(yaml).to_string();
        assert!(
            error.contains("not supported") && error.contains(yaml.split(':').next().unwrap()),
            "{error}"
        );
    }
    for yaml in [
        "authenticator: org.apache.cassandra.auth.AllowAllAuthenticator",
        "authenticator: PasswordAuthenticator",
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer",
        "role_manager: CassandraRoleManager",
        "client_encryption_options: {enabled: false, keystore: x}",
        "client_encryption_options: {enabled: true, keystore: x, keystore_password: y}",
        "internode_authenticator:",
        "internode_authenticator: org.apache.cassandra.auth.AllowAllInternodeAuthenticator",
        "paxos_variant: v1",
        "partitioner: Murmur3Partitioner",
    ] {
        assert!(load(yaml).unwrap().warnings.is_empty(), "{yaml}");
    }
}

#[test]
fn lists_and_consistency_levels_are_read_as_cassandra_reads_them() {
    let yaml = "hinted_handoff_disabled_datacenters: [dc1, dc2]\nauth_read_consistency_level: local_quorum";
    let settings = load(yaml).unwrap().settings;
    assert_eq!(settings.hinted_handoff_disabled_datacenters, ["dc1", "dc2"]);
    assert_eq!(settings.auth_read_consistency_level, Some(model::Consistency::LocalQuorum));
    assert_eq!(settings.auth_write_consistency_level, None);
    for wrong in [
        "auth_write_consistency_level: MOST",
        "auth_write_consistency_level: SERIAL",
        "auth_read_consistency_level: ANY",
        "hinted_handoff_disabled_datacenters: dc1",
    ] {
        assert!(load(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_interface_stands_for_an_address() {
    let config = load("listen_interface: lo\nrpc_interface: lo\nrpc_interface_prefer_ipv6: false").unwrap();
    let localhost = Some(IpAddr::from([127, 0, 0, 1]));
    assert_eq!((config.settings.listen_address, config.settings.rpc_address), (localhost, localhost));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_message_is_as_long_as_a_mutation_when_nobody_says() {
    let of = |yaml| load(yaml).unwrap().message_bytes_max();
    assert_eq!(of(""), 16 << 20);
    assert_eq!(of("max_mutation_size: 1MiB"), 1 << 20);
    assert_eq!(of("commitlog_segment_size: 64MiB"), 32 << 20);
    assert_eq!(of("native_transport_max_request_data_in_flight_per_ip: 2MiB"), 2 << 20);
    assert_eq!(of("native_transport_max_message_size: 5MiB"), 5 << 20);
}

#[test]
fn commands_of_an_archive_are_named() {
    let env = Env::for_test(1);
    let path = Path::new("/etc/cassandra/cassandra.yaml");
    env.fs.create_dir_all(path.parent().unwrap()).unwrap();
    env.fs.write(path, b"cluster_name: c").unwrap();
    let archive = path.with_file_name("commitlog_archiving.properties");
    let warnings = |commands: &str| {
        env.fs.write(&archive, commands.as_bytes()).unwrap();
        let args = ServeArgs { config: Some(path.to_owned()), ..ServeArgs::default() };
        Config::load(&env, &args, std::iter::empty()).unwrap().warnings
    };
    assert!(warnings("# archive_command=x\narchive_command=\nrestore_command=\n").is_empty());
    assert_eq!(
        warnings("archive_command=/bin/ln %path /backup/%name\n"),
        ["/etc/cassandra/commitlog_archiving.properties: archive_command is not carried out"]
    );
}

#[test]
fn another_paxos_is_refused_where_others_take_part() {
    let with_seed = |seed: &str, variant: &str| {
        let seeds = format!("parameters: [{{seeds: \"{seed}\"}}]");
        load(&format!(
            "listen_address: 10.0.0.1\nrpc_address: 10.0.0.1\npaxos_variant: {variant}\n\
             seed_provider: [{{class_name: SimpleSeedProvider, {seeds}}}]"
        ))
    };
    for variant in ["v2", "v2_without_linearizable_reads"] {
        let error = with_seed("10.0.0.1,10.0.0.2", variant).unwrap_err().to_string();
        assert!(error.contains(variant) && error.contains("not supported in a ring"), "{error}");
        let alone = with_seed("10.0.0.1", variant).unwrap().warnings;
        assert!(alone.iter().any(|warning| warning.contains("nodes that join it must have v1")), "{alone:?}");
    }
    assert!(with_seed("10.0.0.2", "v1_without_linearizable_reads").unwrap().warnings.is_empty());
    assert!(load("paxos_variant: 2").is_err());
}

#[test]
fn no_error_tells_a_password() {
    let error = load("client_encryption_options: {keystore_password: hush, enabled: maybe}").unwrap_err();
    let error = error.to_string();
    assert!(error.contains("client_encryption_options") && error.contains("maybe"), "{error}");
    assert!(!error.contains("hush"), "{error}");
}

#[test]
fn classes_of_authentication_have_short_and_long_names() {
    let of = |authenticator, permissions| (authenticator, permissions);
    for (yaml, expected) in [
        ("", of(Authenticator::AllowAll, false)),
        ("authenticator: PasswordAuthenticator", of(Authenticator::Password, false)),
        (
            "authenticator: {class_name: org.apache.cassandra.auth.PasswordAuthenticator}",
            of(Authenticator::Password, false),
        ),
        (
            "authenticator: {class_name: PasswordAuthenticator, parameters: }\nauthorizer: {class_name: CassandraAuthorizer}",
            of(Authenticator::Password, true),
        ),
    ] {
        let auth = load(yaml).unwrap().auth;
        assert_eq!((auth.authenticator, auth.permissions), expected, "{yaml}");
    }
    let error = load("authorizer: CassandraAuthorizer").unwrap_err().to_string();
    assert_eq!(error, "AllowAllAuthenticator can't be used with CassandraAuthorizer");
    let error = load("authenticator: {class_name: PasswordAuthenticator, parameters: {a: b}}").unwrap_err();
    assert!(error.to_string().contains("no parameters"), "{error}");
    for rounds in [3, 32] {
        let error = load(&format!("auth_bcrypt_gensalt_log2_rounds: {rounds}")).unwrap_err().to_string();
        assert!(error.contains("between 4 and 31"), "{error}");
    }
}

#[test]
fn places_of_roles_need_logins() {
    let password = "authenticator: PasswordAuthenticator\n";
    let cidr = |rest: &str| format!("cidr_authorizer: {{class_name: CassandraCIDRAuthorizer{rest}}}\n");
    let network = "network_authorizer: org.apache.cassandra.auth.CassandraNetworkAuthorizer\n";
    let auth = load(&(password.to_owned() + network)).unwrap().auth;
    assert!(auth.datacenters && auth.cidr.is_none());
    let all = ", parameters: {cidr_authorizer_mode: enforce, cidr_checks_for_superusers: true, \
               cidr_groups_cache_refresh_interval: 7, ip_cache_max_size: 9}";
    let expected =
        CidrSettings { enforces: true, checks_superusers: true, refresh_minutes: 7, ip_cache_max: 9 };
    for (rest, expected) in [("", CidrSettings::default()), (all, expected)] {
        let auth = load(&(password.to_owned() + &cidr(rest))).unwrap().auth;
        assert_eq!(auth.cidr, Some(expected));
    }
    let unused = "cidr_authorizer: {class_name: AllowAllCIDRAuthorizer, parameters: {ip_cache_max_size: 9}}";
    assert_eq!(load(unused).unwrap().auth.cidr, None);
    for yaml in [network, &cidr("")] {
        let error = load(yaml).unwrap_err().to_string();
        assert!(error.ends_with("can't be used with AllowAllAuthenticator"), "{error}");
    }
    for (parameter, words) in [
        ("cidr_authorizer_mode: off", "MONITOR or ENFORCE"),
        ("ip_cache_max_size: many", "not a number"),
        ("cidr_groups_cache_refresh_interval: 0", "from 1 on"),
        ("other: 1", "other is not known"),
    ] {
        let yaml = password.to_owned() + &cidr(&format!(", parameters: {{{parameter}}}"));
        let error = load(&yaml).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn mutual_tls_needs_certificates_and_a_validator() {
    let mutual = |class: &str, rest: &str| format!("authenticator: {{class_name: {class}{rest}}}\n");
    let tls =
        |auth: &str| format!("client_encryption_options: {{enabled: true, require_client_auth: {auth}}}");
    let spiffe = ", parameters: {validator_class_name: SpiffeCertificateValidator}";
    let long = ", parameters: [{validator_class_name: org.apache.cassandra.auth.SpiffeCertificateValidator}]";
    let own = ", parameters: {validator_class_name: com.example.Validator}";
    let (strict, lax) = ("MutualTlsAuthenticator", "MutualTlsWithPasswordFallbackAuthenticator");
    for (class, rest, asks, expected) in [
        (strict, spiffe, "true", Authenticator::MutualTls),
        ("org.apache.cassandra.auth.MutualTlsAuthenticator", long, "true", Authenticator::MutualTls),
        (lax, spiffe, "optional", Authenticator::MutualTlsOrPassword),
        (lax, spiffe, "true", Authenticator::MutualTlsOrPassword),
    ] {
        let config = load(&(mutual(class, rest) + &tls(asks))).unwrap();
        assert_eq!(config.auth.authenticator, expected);
    }
    for (class, rest, asks, words) in [
        (strict, "", "true", "validator_class_name is not set"),
        (strict, own, "true", "com.example.Validator is not supported"),
        (strict, ", parameters: {other: 1}", "true", "other is not known"),
        (strict, spiffe, "optional", "require_client_auth to be true"),
        (lax, spiffe, "false", "require_client_auth to be optional/true"),
    ] {
        let error = load(&(mutual(class, rest) + &tls(asks))).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = load(&mutual(strict, spiffe)).unwrap_err().to_string();
    assert!(error.contains("MutualTlsAuthenticator requires client_encryption_options.enabled"), "{error}");
}

#[test]
fn what_is_not_known_or_not_there_is_a_warning() {
    for (yaml, words) in [
        ("client_encryption_options: {keyst0re: /k}", &["client_encryption_options", "keyst0re"][..]),
        ("frobnicate: 3", &["frobnicate", "not a known key"]),
        ("frobnicate:", &["frobnicate", "not a known key"]),
        ("sstable: {format: {big: {x: y}}}", &["format of sstable", "no effect"]),
        ("endpoint_snitch: Ec2Snitch", &["endpoint_snitch", "Ec2Snitch", "datacenter1"]),
        ("cdc_raw_directory: /h", &["cdc_raw_directory does not apply to Ilion and is ignored"]),
        (
            "cdc_raw_directory: /h\ncluster_name: a\nrpc_keepalive: true\ntrickle_fsync: true",
            &["cdc_raw_directory, rpc_keepalive and trickle_fsync do not apply to Ilion and are ignored"],
        ),
        ("cluster_name: a\nnum_tokens: 1\ncluster_name: b", &["cluster_name", "more than once"]),
        ("request_timeout_in_ms: 100", &["request_timeout_in_ms", "no effect"]),
    ] {
        let config = load(yaml).unwrap();
        assert_eq!(config.warnings.len(), 1, "{yaml}: {:?}", config.warnings);
        assert!(words.iter().all(|word| config.warnings[0].contains(word)), "{yaml}: {:?}", config.warnings);
    }
}

#[test]
fn format_and_mode_select_the_version_of_sstables() {
    for (yaml, version, expiration_max_s) in [
        ("", "nb", 2_147_483_646),
        ("storage_compatibility_mode: CASSANDRA_4", "nb", 2_147_483_646),
        ("sstable: {selected_format: big}", "nb", 2_147_483_646),
        ("sstable: {format: {}}", "nb", 2_147_483_646),
        ("storage_compatibility_mode: none", "oa", 4_294_967_293),
        ("storage_compatibility_mode: UPGRADING\nsstable: {selected_format: big}", "oa", 4_294_967_293),
        ("storage_compatibility_mode: NONE\nsstable_format: big", "oa", 4_294_967_293),
        ("storage_compatibility_mode: NONE\nsstable: {selected_format: bti}", "da", 4_294_967_293),
    ] {
        let config = load(yaml).unwrap();
        assert_eq!(config.engine.sstable_version().to_string(), version, "{yaml}");
        assert_eq!(config.engine.storage_compatibility.expiration_max_s(), expiration_max_s, "{yaml}");
        assert!(config.warnings.is_empty(), "{yaml}: {:?}", config.warnings);
    }
    for (yaml, words) in [
        (
            "sstable: {selected_format: bti}",
            "Selected sstable format 'bti' is not available when in storage compatibility mode 'CASSANDRA_4'.",
        ),
        ("sstable: {selected_format: mz}", "Selected sstable format 'mz' is not available."),
        ("storage_compatibility_mode: CASSANDRA_5", "CASSANDRA_4 UPGRADING NONE"),
    ] {
        let error = load(yaml).expect_err(yaml).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let yaml = "cluster_name: of file\nnum_tokens: 4\nrpc_address: 127.0.0.2\nnative_transport_port: 1\n";
    let environment = [("CASSANDRA_CLUSTER_NAME", "of environment"), ("CASSANDRA_RPC_ADDRESS", "127.0.0.3")];
    let config = load_all(yaml, &environment, &ServeArgs::default()).unwrap();
    assert_eq!(config.settings.cluster_name, "of environment");
    assert_eq!(config.settings.num_tokens, 4);
    assert_eq!(config.cql_address.to_string(), "127.0.0.3:1");

    let args = ServeArgs {
        cluster_name: Some("of flag".to_owned()),
        listen: Some("127.0.0.4".parse().unwrap()),
        port: Some(2),
        data_dir: Some("/d".into()),
        ..ServeArgs::default()
    };
    let config = load_all(yaml, &environment, &args).unwrap();
    assert_eq!(config.settings.cluster_name, "of flag");
    assert_eq!(config.cql_address.to_string(), "127.0.0.4:2");
    assert_eq!(config.broadcast_rpc_address.to_string(), "127.0.0.4");
    assert_eq!(config.engine.data_dirs, [Path::new("/d/data")]);
    assert_eq!(config.engine.commitlog_dir, Path::new("/d/commitlog"));
}

#[test]
fn directories_are_told_as_absolute_paths() {
    let relative = ServeArgs { data_dir: Some("here".into()), ..ServeArgs::default() };
    for (yaml, args) in [
        ("", relative),
        ("", ServeArgs::default()),
        (
            "data_file_directories: [a, ./b]\nlocal_system_data_file_directory: s\ncommitlog_directory: c\n",
            ServeArgs::default(),
        ),
    ] {
        let config = load_all(yaml, &[], &args).unwrap();
        let engine = &config.engine;
        let paths = engine.data_dirs.iter().chain([&engine.commitlog_dir]).chain(&engine.local_system_dir);
        for path in paths.chain(&config.settings.saved_caches_directory) {
            assert!(path.is_absolute() && !path.iter().any(|part| part == "."), "{}", path.display());
        }
    }
}

#[test]
fn variables_of_the_image_that_do_not_apply_are_named() {
    let environment = [
        ("CASSANDRA_SEEDS", "10.0.0.1"),
        ("CASSANDRA_DC", "dc7"),
        ("CASSANDRA_WHATEVER", "x"),
        ("CASSANDRA_LISTEN_ADDRESS", "auto"),
        ("CASSANDRA_HOME", "/opt/cassandra"),
        ("PATH", "/bin"),
    ];
    let config = load_all("", &environment, &ServeArgs::default()).unwrap();
    let named = |name: &str| config.warnings.iter().filter(|w| w.starts_with(name)).count();
    assert_eq!((named("CASSANDRA_SEEDS"), named("CASSANDRA_DC"), named("CASSANDRA_WHATEVER")), (1, 1, 1));
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    assert_eq!(config.data_center, "datacenter1");

    let bad = load_all("", &[("CASSANDRA_NUM_TOKENS", "many")], &ServeArgs::default()).unwrap_err();
    assert!(bad.to_string().contains("CASSANDRA_NUM_TOKENS") && bad.to_string().contains("many"), "{bad}");
}

#[test]
fn data_center_and_rack_come_with_the_snitch_that_reads_them() {
    let environment = [
        ("CASSANDRA_ENDPOINT_SNITCH", "GossipingPropertyFileSnitch"),
        ("CASSANDRA_DC", "dc7"),
        ("CASSANDRA_RACK", "rack9"),
    ];
    let config = load_all("", &environment, &ServeArgs::default()).unwrap();
    assert_eq!((config.data_center.as_str(), config.rack.as_str()), ("dc7", "rack9"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn memory_and_directories_have_defaults() {
    let config = load("data_file_directories: [/var/lib/cassandra/data]").unwrap();
    assert_eq!(config.engine.commitlog_dir, Path::new("/var/lib/cassandra/commitlog"));
    assert_eq!(config.engine.memtable_bytes_max, config.memory.memtables);
    assert_eq!(config.engine.flush_writers, 2);

    let config =
        load("memtable_heap_space: 64MiB\nmemtable_offheap_space: 32MiB\nfile_cache_size: 8MiB\ncache_index_pages: false").unwrap();
    assert!(!config.engine.cache_index_pages);
    assert_eq!(config.engine.memtable_bytes_max, 96 << 20);
    assert_eq!(config.engine.page_cache_bytes, 8 << 20);
    assert_eq!(config.engine.row_cache_bytes, 0);
    assert_eq!(load("row_cache_size: 16MiB").unwrap().engine.row_cache_bytes, 16 << 20);
    assert_eq!(load("row_cache_size_in_mb: 3").unwrap().engine.row_cache_bytes, 3 << 20);
}

#[test]
fn a_wildcard_is_never_what_clients_are_told() {
    let config = load("rpc_address: 0.0.0.0\nlisten_address: 10.1.2.3").unwrap();
    assert_eq!(config.cql_address.ip().to_string(), "0.0.0.0");
    assert_eq!(config.broadcast_rpc_address.to_string(), "10.1.2.3");
    let config = load("rpc_address: 0.0.0.0").unwrap();
    assert!(!config.broadcast_rpc_address.is_unspecified());
}

#[test]
fn every_key_of_a_release_is_known() {
    for key in KEYS.lines().filter(|line| !line.starts_with('#')) {
        let config = load(&format!("{key}:")).unwrap_or_else(|e| panic!("{key}: {e}"));
        assert!(!config.warnings.iter().any(|w| w.contains("not a known key")), "{:?}", config.warnings);
    }
}

#[test]
fn of_a_key_that_is_set_twice_the_last_value_counts() {
    let config =
        load("cluster_name: a\nnum_tokens: 3\ncluster_name: b\nnum_tokens: 4\ncluster_name: c").unwrap();
    assert_eq!((config.settings.cluster_name.as_str(), config.settings.num_tokens), ("c", 4));
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    // What only the first of them asks for is not asked for.
    load("authenticator: PasswordAuthenticator\nauthenticator: AllowAllAuthenticator").unwrap();
}

#[test]
fn an_address_that_a_file_leaves_out_is_that_of_the_host() {
    let env = Env::for_test(1);
    let path = Path::new("/cassandra.yaml");
    env.fs.create_dir_all(Path::new("/proc/sys/kernel")).unwrap();
    let with = |yaml: &str, host: &str| {
        env.fs.write(path, yaml.as_bytes()).unwrap();
        env.fs.write(Path::new(HOST_NAME_FILE), format!("{host}\n").as_bytes()).unwrap();
        let args = ServeArgs { config: Some(path.to_owned()), ..ServeArgs::default() };
        let config = Config::load(&env, &args, []).unwrap();
        (config.cql_address.ip().to_string(), config.listen_address.to_string(), config.warnings)
    };
    let (rpc, listen, warnings) = with("rpc_address:\nnum_tokens: 1", "10.9.8.7");
    assert_eq!((rpc.as_str(), listen.as_str()), ("10.9.8.7", "10.9.8.7"));
    assert!(warnings.iter().any(|w| w.contains("rpc_address is not set")), "{warnings:?}");
    let (rpc, listen, warnings) = with("rpc_address: 10.0.0.1", "not a host");
    assert_eq!((rpc.as_str(), listen.as_str()), ("10.0.0.1", "127.0.0.1"));
    assert!(
        warnings[0].contains("listen_address is not set") && warnings[0].contains("not a host"),
        "{warnings:?}"
    );
    let both = with("rpc_address: 10.0.0.1\nlisten_address: 10.0.0.2", "10.9.8.7");
    assert_eq!(both, ("10.0.0.1".to_owned(), "10.0.0.2".to_owned(), Vec::new()));
}

#[test]
fn files_are_read_as_disk_access_mode_says() {
    use env::fs::Access::{Buffered, Direct, Mapped};
    let modes = [
        ("", (Buffered, Buffered)),
        ("disk_access_mode: standard", (Buffered, Buffered)),
        ("disk_access_mode: auto", (Buffered, Mapped)),
        ("disk_access_mode: mmap_index_only", (Buffered, Mapped)),
        ("disk_access_mode: mmap", (Mapped, Mapped)),
        ("disk_access_mode: legacy", (Mapped, Mapped)),
        ("disk_access_mode: DIRECT", (Direct, Direct)),
    ];
    for (yaml, expected) in modes {
        let engine = load(yaml).unwrap().engine;
        assert_eq!((engine.data_access, engine.index_access), expected, "{yaml}");
    }
    assert!(load("disk_access_mode: fast").is_err());
}
