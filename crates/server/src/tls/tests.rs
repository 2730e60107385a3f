//! What is loaded, reloaded and refused, and what clients are let in, without a socket.

use super::*;
use crate::config::{ClientAuth, InternodeEncryption, InternodeOptions, Millis};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

const NODE: &[u8] = include_bytes!("../../../keystore/testdata/node.pem");
const NODE_AES: &[u8] = include_bytes!("../../../keystore/testdata/node-aes.pem");
const CLIENT: &[u8] = include_bytes!("../../../keystore/testdata/client.pem");
const CA: &[u8] = include_bytes!("../../../keystore/testdata/ca.crt");
const OTHER_CA: &[u8] = include_bytes!("../../../keystore/testdata/other-ca.crt");
const TRUST: &[u8] = include_bytes!("../../../keystore/testdata/trust.jks");
/// In 2030, when all of them are valid.
const NOW_S: i64 = 1_900_000_000;
const HERE: [u8; 4] = [127, 0, 0, 1];

/// TLS with the node's key, for tests of connections. Certificates are in their time.
pub(crate) fn loaded() -> Arc<Tls> {
    load(|_| ()).unwrap().tls
}

/// TLS between nodes that have the same key, signed by who they trust.
pub(crate) fn node_tls(change: impl FnOnce(&mut InternodeOptions)) -> Result<Option<Arc<NodeTls>>, TlsError> {
    node_tls_in(world(|_| ()), change)
}

fn node_tls_in(
    (env, mut settings): (Env, Settings),
    change: impl FnOnce(&mut InternodeOptions),
) -> Result<Option<Arc<NodeTls>>, TlsError> {
    let nodes = &mut settings.server_encryption_options;
    nodes.internode = InternodeEncryption::All;
    nodes.options.enabled = true;
    nodes.options.keystore.path = "/node.pem".into();
    nodes.options.truststore.path = "/ca.crt".into();
    change(nodes);
    nodes.options.enabled = nodes.internode != InternodeEncryption::None;
    NodeTls::load(&env, &settings).map(|loaded| loaded.map(|loaded| loaded.tls))
}

/// A client that trusts the node.
pub(crate) fn client_config() -> Arc<ClientConfig> {
    client(None, rustls::ALL_VERSIONS)
}

/// A world with files, and settings that use them.
fn world(change: impl FnOnce(&mut EncryptionOptions)) -> (Env, Settings) {
    let random = Arc::new(env::random::Random::from_seed(1));
    let clock = Arc::new(env::clock::ManualClock::at_micros(NOW_S * 1_000_000));
    let env = Env::new(clock, random, Arc::new(env::fs::memory::MemoryFileSystem::new()));
    for (name, bytes) in [
        ("node.pem", NODE),
        ("node-aes.pem", NODE_AES),
        ("ca.crt", CA),
        ("other-ca.crt", OTHER_CA),
        ("trust.jks", TRUST),
        ("password", b"secret1\nsecond line\n"),
        ("empty", b""),
    ] {
        env.fs.write(&PathBuf::from("/").join(name), bytes).unwrap();
    }
    let mut settings = Settings::default();
    let options = &mut settings.client_encryption_options;
    options.enabled = true;
    options.keystore.path = "/node.pem".into();
    options.truststore.path = "/ca.crt".into();
    change(options);
    (env, settings)
}

fn load(change: impl FnOnce(&mut EncryptionOptions)) -> Result<Loaded, TlsError> {
    let (env, settings) = world(change);
    Tls::load(&env, &settings).map(|loaded| loaded.expect("TLS is asked for"))
}

fn client(own: Option<&[u8]>, versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for ca in keystore::read(CA, None).unwrap().trusted {
        roots.add(ca).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_details(provider, Arc::new(In2030));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match own {
        Some(own) => {
            let own = keystore::read(own, None).unwrap().identities.remove(0);
            builder.with_client_auth_cert(own.chain, own.key).unwrap()
        }
        None => builder.with_no_client_auth(),
    })
}

/// A client's clock.
#[derive(Debug)]
struct In2030;

impl TimeProvider for In2030 {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(NOW_S as u64)))
    }
}

/// The handshake of a client with an acceptor, and the server's end of it.
fn shake(acceptor: &Acceptor, config: &Arc<ClientConfig>) -> Result<ServerConnection, rustls::Error> {
    let mut client = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost").unwrap())?;
    let mut server = acceptor.open()?;
    for _ in 0..10 {
        let mut records = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut records).unwrap();
        }
        server.read_tls(&mut records.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut records = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut records).unwrap();
        }
        client.read_tls(&mut records.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(server)
}

fn admit(loaded: &Loaded, own: Option<&[u8]>) -> Result<TlsSession, String> {
    let acceptor = loaded.tls.acceptor();
    let server = shake(&acceptor, &client(own, rustls::ALL_VERSIONS)).map_err(|error| error.to_string())?;
    acceptor.admit(&server, IpAddr::from(HERE), NOW_S)
}

#[test]
fn versions_are_agreed_upon_and_told_in_the_words_of_java() {
    let loaded = load(|_| ()).unwrap();
    let acceptor = loaded.tls.acceptor();
    for (version, protocol, suite) in [
        (&rustls::version::TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (&rustls::version::TLS12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ] {
        let server = shake(&acceptor, &client(None, &[version])).unwrap();
        let session = acceptor.admit(&server, IpAddr::from(HERE), 0).unwrap();
        assert_eq!(
            (session.protocol, session.cipher_suite.as_str(), session.is_resumed),
            (protocol, suite, false)
        );
        assert_eq!(session.peer, None);
    }
    let named = ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];
    let named = load(|options| options.cipher_suites = Some(named.map(str::to_owned).to_vec())).unwrap();
    assert_eq!(admit(&named, None).unwrap().cipher_suite, "TLS_CHACHA20_POLY1305_SHA256");
    let config = client(None, rustls::ALL_VERSIONS);
    shake(&acceptor, &config).unwrap();
    let again = shake(&acceptor, &config).unwrap();
    assert!(acceptor.admit(&again, IpAddr::from(HERE), 0).unwrap().is_resumed);
}

#[test]
fn a_client_is_whom_its_certificate_says() {
    let loaded = load(|options| {
        options.require_client_auth = ClientAuth::Optional;
        options.require_endpoint_verification = true;
    })
    .unwrap();
    let peer = admit(&loaded, Some(CLIENT)).unwrap().peer.expect("it showed one");
    assert_eq!(peer.common_name.as_deref(), Some("app"));
    assert_eq!(peer.uris, ["urn:other", "spiffe://example.org/app"]);
    assert_eq!(peer.spiffe(), Some("spiffe://example.org/app"));
    assert_eq!(peer.validity_s(), 36_500 * 86_400);
    assert_eq!(admit(&loaded, None).unwrap().peer, None);
    // The key store's own certificate is for the same address, but it may come from elsewhere.
    let acceptor = loaded.tls.acceptor();
    let server = shake(&acceptor, &client(Some(CLIENT), rustls::ALL_VERSIONS)).unwrap();
    let elsewhere = acceptor.admit(&server, IpAddr::from([127, 0, 0, 2]), NOW_S).unwrap_err();
    assert!(elsewhere.contains("address"), "{elsewhere}");
    let later = acceptor.admit(&server, IpAddr::from(HERE), peer.not_after_s + 1).unwrap_err();
    assert!(later.contains("expired"), "{later}");
}

#[test]
fn who_has_to_show_a_certificate_is_refused_without() {
    let loaded = load(|options| options.require_client_auth = ClientAuth::Required).unwrap();
    assert!(admit(&loaded, None).unwrap_err().contains("no certificates"));
    assert!(admit(&loaded, Some(CLIENT)).is_ok());
    let loaded = load(|options| {
        options.require_client_auth = ClientAuth::Required;
        options.truststore.path = "/other-ca.crt".into();
    });
    assert!(admit(&loaded.unwrap(), Some(CLIENT)).unwrap_err().contains("UnknownIssuer"));
}

#[test]
fn a_certificate_may_be_valid_for_too_long() {
    let loaded = load(|options| {
        options.require_client_auth = ClientAuth::Required;
        options.max_certificate_validity_period = Some(Millis(365 * 86_400_000));
    });
    let error = admit(&loaded.unwrap(), Some(CLIENT)).unwrap_err();
    assert!(error.contains("exceeds the maximum allowed validity period of 365d"), "{error}");
}

#[test]
fn what_cannot_be_used_names_its_option() {
    type Change = fn(&mut EncryptionOptions);
    let cases: [(Change, &[&str]); 11] = [
        (|o| o.keystore.path = "/none".into(), &["keystore", "/none"]),
        (|o| o.keystore.path = "/empty".into(), &["keystore", "/empty", "no key store"]),
        (|o| o.keystore.path = "/ca.crt".into(), &["keystore", "no private key"]),
        (|o| o.keystore.path = "/node-aes.pem".into(), &["keystore", "password"]),
        (
            |o| {
                o.keystore.path = "/node-aes.pem".into();
                o.keystore.password = Some("wrong".to_owned().into());
            },
            &["keystore", "password"],
        ),
        (|o| o.keystore.password_file = Some("/none".into()), &["keystore_password_file", "/none"]),
        (
            |o| {
                o.require_client_auth = ClientAuth::Required;
                o.truststore.path = "/none".into();
            },
            &["truststore", "/none"],
        ),
        (
            |o| {
                o.require_client_auth = ClientAuth::Required;
                o.truststore.path = "/trust.jks".into();
                o.truststore.password = Some("wrong".to_owned().into());
            },
            &["truststore", "/trust.jks", "password"],
        ),
        (|o| o.protocol = Some("SSLv3".to_owned()), &["protocol", "SSLv3"]),
        (|o| o.cipher_suites = Some(vec!["TLS_RSA_WITH_NULL_SHA".to_owned()]), &["cipher_suites"]),
        (
            |o| {
                o.cipher_suites = Some(vec!["TLS_AES_128_GCM_SHA256".to_owned()]);
                o.protocol = Some("TLSv1.2".to_owned());
            },
            &["cipher_suites", "protocol"],
        ),
    ];
    for (change, words) in cases {
        let error = load(change).expect_err(words[0]).to_string();
        assert!(error.starts_with("client_encryption_options: "), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        assert!(!error.contains("wrong\""), "{error}");
    }
}

#[test]
fn passwords_come_from_files_too() {
    load(|options| {
        options.keystore.path = "/node-aes.pem".into();
        options.keystore.password_file = Some("/password".into());
        options.require_client_auth = ClientAuth::Required;
        options.truststore.path = "/trust.jks".into();
        options.truststore.password_file = Some("/password".into());
    })
    .unwrap();
}

#[test]
fn keys_of_every_kind_can_be_used() {
    for bytes in [
        include_bytes!("../../../keystore/testdata/node-sec1.pem").as_slice(),
        include_bytes!("../../../keystore/testdata/rsa-pkcs1.pem"),
        include_bytes!("../../../keystore/testdata/node-old.p12"),
        include_bytes!("../../../keystore/testdata/node.jks"),
    ] {
        let (env, mut settings) = world(|_| ());
        env.fs.write("/key".as_ref(), bytes).unwrap();
        let store = &mut settings.client_encryption_options.keystore;
        store.path = "/key".into();
        store.password = Some("secret1".to_owned().into());
        Tls::load(&env, &settings).unwrap();
    }
}

#[test]
fn pem_may_stand_in_the_configuration() {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let inline = |options: &mut EncryptionOptions| {
        options.factory = ContextFactory::Pem;
        options.keystore.path = "/none".into();
        options.truststore.path = "/none".into();
        options.private_key = Some(text(NODE_AES).into());
        options.private_key_password = Some("secret1".to_owned().into());
        options.trusted_certificates = Some(text(CA));
        options.require_client_auth = ClientAuth::Required;
    };
    let loaded = load(inline).unwrap();
    assert!(admit(&loaded, Some(CLIENT)).is_ok());
    let both = load(|options| {
        inline(options);
        options.keystore.path = "/node.pem".into();
    });
    assert!(both.unwrap_err().to_string().contains("not both"));
}

#[test]
fn new_connections_use_what_has_changed_unless_it_is_broken() {
    let (env, settings) = world(|options| options.require_client_auth = ClientAuth::Required);
    let loaded = Tls::load(&env, &settings).unwrap().unwrap();
    assert!(!loaded.tls.reload().unwrap(), "nothing has changed");
    let before = loaded.tls.acceptor();
    env.fs.write("/ca.crt".as_ref(), b"broken").unwrap();
    assert!(loaded.tls.reload().unwrap_err().to_string().contains("truststore"));
    assert!(Arc::ptr_eq(&before, &loaded.tls.acceptor()), "the old one stays");
    assert!(admit(&loaded, Some(CLIENT)).is_ok());
    env.fs.write("/ca.crt".as_ref(), OTHER_CA).unwrap();
    assert!(loaded.tls.reload().unwrap());
    assert!(admit(&loaded, Some(CLIENT)).is_err());
}

#[test]
fn a_ticket_does_not_outlive_the_trust_store_that_it_was_made_under() {
    let (env, settings) = world(|options| options.require_client_auth = ClientAuth::Required);
    let loaded = Tls::load(&env, &settings).unwrap().unwrap();
    let config = client(Some(CLIENT), rustls::ALL_VERSIONS);
    shake(&loaded.tls.acceptor(), &config).unwrap();
    let resumed = shake(&loaded.tls.acceptor(), &config).unwrap();
    let session = loaded.tls.acceptor().admit(&resumed, IpAddr::from(HERE), 0).unwrap();
    assert!(session.is_resumed && session.peer.is_some());
    env.fs.write("/ca.crt".as_ref(), OTHER_CA).unwrap();
    assert!(loaded.tls.reload().unwrap());
    assert!(shake(&loaded.tls.acceptor(), &config).is_err());
}

#[test]
fn a_port_of_its_own_needs_tls() {
    let (env, mut settings) = world(|options| options.enabled = false);
    settings.client_encryption_options.optional = Some(false);
    assert!(Tls::load(&env, &settings).unwrap().is_none());
    settings.native_transport_port_ssl = Some(9142);
    assert!(Tls::load(&env, &settings).unwrap_err().to_string().contains("native_transport_port_ssl"));
}

#[test]
fn cipher_suites_that_are_not_there_are_warned_of() {
    let loaded = load(|options| {
        let suites = ["TLS_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA"];
        options.cipher_suites = Some(suites.map(str::to_owned).to_vec());
    });
    let warnings = loaded.unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("TLS_RSA_WITH_AES_128_CBC_SHA"), "{warnings:?}");
}

#[test]
fn what_nodes_cannot_use_is_named_as_theirs() {
    let error = node_tls(|nodes| nodes.options.keystore.path = "/nothing".into()).unwrap_err().to_string();
    assert!(error.starts_with("server_encryption_options: keystore: "), "{error}");
    let outbound = StoreFile { path: "/empty".into(), password: None, password_file: None };
    let error = node_tls(|nodes| nodes.outbound_keystore = Some(outbound)).unwrap_err().to_string();
    assert!(error.starts_with("server_encryption_options: outbound_keystore: "), "{error}");
    let none = node_tls(|nodes| {
        nodes.internode = InternodeEncryption::None;
        nodes.options.optional = Some(false);
    });
    assert!(none.unwrap().is_none());
}

/// A key that is named for connections to other nodes, as PEM in the configuration.
fn outbound(nodes: &mut InternodeOptions, key: &[u8]) {
    nodes.options.factory = ContextFactory::Pem;
    nodes.outbound_private_key = Some(String::from_utf8(key.to_vec()).unwrap().into());
}

/// The certificates that two nodes show each other: who connects, and who is connected to.
fn shown(connecting: &NodeTls, listening: &NodeTls) -> [CertificateDer<'static>; 2] {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind((IpAddr::from(HERE), 0)).await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (here, there) = tokio::join!(connecting.connect(tcp, HERE.into()), listening.accept(accepted));
        let (here, there) = (here.unwrap(), there.unwrap());
        let first = |shown: Option<&[CertificateDer<'static>]>| shown.unwrap()[0].clone();
        [first(there.get_ref().1.peer_certificates()), first(here.get_ref().1.peer_certificates())]
    })
}

#[test]
fn a_node_that_connects_shows_the_key_that_is_named_for_it() {
    let own_of = |pem: &[u8]| keystore::read(pem, None).unwrap().identities.remove(0).chain.remove(0);
    let (node, other) = (own_of(NODE), own_of(CLIENT));
    let asking = node_tls(|nodes| nodes.options.require_client_auth = ClientAuth::Required);
    let asking = asking.unwrap().unwrap();
    let (env, settings) = world(|_| ());
    env.fs.write("/other.pem".as_ref(), CLIENT).unwrap();
    let file = node_tls_in((env, settings), |nodes| {
        nodes.options.require_client_auth = ClientAuth::Required;
        let other = StoreFile { path: "/other.pem".into(), password: None, password_file: None };
        nodes.outbound_keystore = Some(other);
    });
    let inline = node_tls(|nodes| {
        nodes.options.require_client_auth = ClientAuth::Required;
        outbound(nodes, CLIENT);
    });
    assert_eq!(shown(&asking, &asking), [node.clone(), node.clone()]);
    for named in [file, inline] {
        let named = named.unwrap().unwrap();
        assert_eq!(shown(&named, &asking), [other.clone(), node.clone()]);
        assert_eq!(shown(&asking, &named), [node.clone(), node.clone()], "it shows its own to others");
    }
}

#[test]
fn a_key_for_connections_to_other_nodes_is_named_where_it_is_of_no_use() {
    let error = |change: fn(&mut InternodeOptions)| {
        let error = node_tls(|nodes| {
            outbound(nodes, NODE_AES);
            change(nodes);
        });
        error.expect_err("it is of no use").to_string()
    };
    let missing = error(|_| ());
    assert!(missing.starts_with("server_encryption_options: outbound_private_key: "), "{missing}");
    let wrong = error(|nodes| nodes.outbound_private_key_password = Some("wrong".to_owned().into()));
    assert!(wrong.starts_with("server_encryption_options: outbound_private_key: "), "{wrong}");
    let both = error(|nodes| {
        let file = StoreFile { path: "/node.pem".into(), password: None, password_file: None };
        nodes.outbound_keystore = Some(file);
    });
    assert!(both.contains("either outbound_keystore or outbound_private_key, not both"), "{both}");
    let right = node_tls(|nodes| {
        outbound(nodes, NODE_AES);
        nodes.outbound_private_key_password = Some("secret1".to_owned().into());
    });
    assert!(right.unwrap().is_some());
}

#[test]
fn what_nodes_use_is_read_again_and_stays_where_it_is_of_no_use() {
    let (env, settings) = world(|_| ());
    let tls = node_tls_in((env.clone(), settings), |_| ()).unwrap().unwrap();
    let put = |name: &str, bytes: &[u8]| env.fs.write(&PathBuf::from(name), bytes).unwrap();
    assert!(!tls.reload().unwrap(), "nothing has changed");
    put("/node.pem", CLIENT);
    assert!(tls.reload().unwrap());
    put("/ca.crt", OTHER_CA);
    assert!(tls.reload().unwrap(), "those that a node connects to are other ones");
    put("/node.pem", b"");
    assert!(tls.reload().unwrap_err().to_string().starts_with("server_encryption_options: keystore: "));
    put("/node.pem", CLIENT);
    assert!(!tls.reload().unwrap(), "what was in force still is");
}
