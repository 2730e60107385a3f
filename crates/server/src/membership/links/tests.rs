//! Nodes that connect to each other, with and without TLS.

use super::*;
use crate::config::{ClientAuth, InternodeOptions};
use crate::tls::tests::node_tls;
use std::cell::Cell;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// An address of another data center.
const ELSEWHERE: &str = "127.0.0.3";

/// What a node asks of its connections.
fn asks(change: impl FnOnce(&mut InternodeOptions)) -> Option<Arc<NodeTls>> {
    node_tls(change).unwrap()
}

fn all() -> Option<Arc<NodeTls>> {
    asks(|_| ())
}

fn none() -> Option<Arc<NodeTls>> {
    None
}

fn place(datacenter: &str, rack: &str) -> Place {
    Place { datacenter: datacenter.into(), rack: rack.into() }
}

/// Those of a node of dc1 and r1, which knows of three others.
fn links(tls: Option<Arc<NodeTls>>) -> NodeLinks {
    let place_of = |to: Endpoint| match to.ip {
        IpAddr::V4(address) => match address.octets()[3] {
            1 => Some(place("dc1", "r1")),
            2 => Some(place("dc1", "r2")),
            3 => Some(place("dc2", "r1")),
            _ => None,
        },
        IpAddr::V6(_) => None,
    };
    NodeLinks {
        env: Env::for_test(1),
        framing: Framing::Crc,
        tls,
        place: place("dc1", "r1"),
        place_of: Box::new(place_of),
        warned_s: AtomicI64::new(0),
    }
}

/// Whether a byte goes there and back between a node that connects and one that is connected to.
fn talk(connecting: Option<Arc<NodeTls>>, listening: Option<Arc<NodeTls>>) -> Result<(), String> {
    talk_at("127.0.0.1", connecting, listening)
}

fn talk_at(
    address: &str,
    connecting: Option<Arc<NodeTls>>,
    listening: Option<Arc<NodeTls>>,
) -> Result<(), String> {
    attempt(address, connecting, listening, Attempt::Configured).map_err(|(failure, _)| failure)
}

/// As [`talk`], with what the node that connects does next, if it fails.
fn attempt(
    address: &str,
    connecting: Option<Arc<NodeTls>>,
    listening: Option<Arc<NodeTls>>,
    attempt: Attempt,
) -> Result<(), (String, Attempt)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let to = listener.local_addr().unwrap();
        let (connecting, listening) = (links(connecting), links(listening));
        let falls_back = Cell::new(false);
        let there = async {
            let (tcp, _) = listener.accept().await?;
            let mut stream = listening.accepted(tcp).await?;
            let byte = stream.read_u8().await?;
            stream.write_u8(byte + 1).await?;
            stream.flush().await
        };
        let here = async {
            let tcp = TcpStream::connect(to).await?;
            let mut stream = connecting
                .connected(tcp, Endpoint::from(to), attempt)
                .await
                .inspect_err(|error| falls_back.set(connecting.falls_back(Endpoint::from(to), error)))?;
            // As of a handshake between nodes.
            stream.write_u8(0xCA).await?;
            stream.flush().await?;
            stream.read_u8().await
        };
        let (there, here) = tokio::join!(there, here);
        match (there, here) {
            (Ok(()), Ok(0xCB)) => Ok(()),
            (there, here) => {
                let next = if falls_back.get() { Attempt::Unencrypted } else { Attempt::Configured };
                Err((format!("there: {there:?}, here: {here:?}"), next))
            }
        }
    })
}

#[test]
fn both_speak_tls_or_neither_does() {
    assert_eq!(talk(all(), all()), Ok(()));
    assert_eq!(talk(none(), none()), Ok(()));
    let refused = talk(none(), all()).unwrap_err();
    assert!(refused.contains("it speaks no TLS"), "{refused}");
    assert!(talk(all(), none()).is_err());
}

#[test]
fn where_tls_is_optional_it_is_seen_by_the_first_byte() {
    let optional = || asks(|nodes| nodes.options.optional = Some(true));
    assert_eq!(talk(none(), optional()), Ok(()));
    assert_eq!(talk(all(), optional()), Ok(()));
    let of_others = || asks(|nodes| nodes.internode = InternodeEncryption::Dc);
    assert_eq!(talk(none(), of_others()), Ok(()));
    assert_eq!(talk(all(), of_others()), Ok(()));
    // There is a key, and nobody has to use it.
    let with_key = || asks(|nodes| nodes.internode = InternodeEncryption::None);
    assert_eq!(talk(none(), with_key()), Ok(()));
    assert_eq!(talk(all(), with_key()), Ok(()));
    assert_eq!(talk(with_key(), none()), Ok(()));
}

/// What a node does after a first attempt that fails.
fn after(connecting: Option<Arc<NodeTls>>, listening: Option<Arc<NodeTls>>) -> Attempt {
    attempt(ELSEWHERE, connecting, listening, Attempt::Configured).expect_err("it fails").1
}

/// Whether nodes can exchange a byte without TLS, though the one that connects is asked for it.
fn in_plain_text(connecting: Option<Arc<NodeTls>>, listening: Option<Arc<NodeTls>>) -> Result<(), String> {
    attempt(ELSEWHERE, connecting, listening, Attempt::Unencrypted).map_err(|(failure, _)| failure)
}

fn optional(internode: InternodeEncryption) -> Option<Arc<NodeTls>> {
    asks(|nodes| {
        nodes.internode = internode;
        nodes.options.optional = Some(true);
    })
}

#[test]
fn a_node_that_speaks_no_tls_is_spoken_to_without_where_that_is_optional() {
    use InternodeEncryption::{All, Dc, Rack};
    for internode in [All, Dc, Rack] {
        assert_eq!(after(optional(internode), none()), Attempt::Unencrypted, "{internode:?}");
        assert_eq!(in_plain_text(optional(internode), none()), Ok(()), "{internode:?}");
    }
}

#[test]
fn plain_text_is_never_spoken_where_tls_is_not_optional() {
    use InternodeEncryption::{All, Dc, Rack};
    for internode in [All, Dc, Rack] {
        for is_optional in [None, Some(false)] {
            let strict = || {
                asks(|nodes| {
                    nodes.internode = internode;
                    nodes.options.optional = is_optional;
                })
            };
            assert_eq!(after(strict(), none()), Attempt::Configured, "{internode:?}");
            // Even where it is asked to.
            assert!(in_plain_text(strict(), none()).is_err(), "{internode:?}");
            assert_eq!(in_plain_text(strict(), all()), Ok(()), "{internode:?}: TLS");
        }
    }
}

#[test]
fn a_node_that_speaks_tls_and_refuses_is_not_spoken_to_without() {
    let stranger = asks(|nodes| {
        nodes.options.optional = Some(true);
        nodes.options.truststore.path = "/other-ca.crt".into();
    });
    assert_eq!(after(stranger, all()), Attempt::Configured);
    let strangers = asks(|nodes| {
        nodes.options.require_client_auth = ClientAuth::Required;
        nodes.options.truststore.path = "/other-ca.crt".into();
    });
    assert_eq!(after(optional(InternodeEncryption::All), strangers), Attempt::Configured);
    let older = asks(|nodes| nodes.options.protocol = Some("TLSv1.2".to_owned()));
    let newer = asks(|nodes| {
        nodes.options.optional = Some(true);
        nodes.options.protocol = Some("TLSv1.3".to_owned());
    });
    assert_eq!(after(newer, older), Attempt::Configured);
}

#[test]
fn a_ring_that_changes_its_mind_stays_connected() {
    let plain = || none();
    let with_key = || asks(|nodes| nodes.internode = InternodeEncryption::None);
    let both = || optional(InternodeEncryption::All);
    let reaches = |from: Option<Arc<NodeTls>>, to: Option<Arc<NodeTls>>| {
        let first = attempt(ELSEWHERE, from.clone(), to.clone(), Attempt::Configured);
        first.or_else(|(_, next)| attempt(ELSEWHERE, from, to, next))
    };
    // From plain text to TLS and back: each step changes one node after the other.
    for (before, after) in
        [(&plain as &dyn Fn() -> _, &both as &dyn Fn() -> _), (&both, &all), (&with_key, &both)]
    {
        for (from, to) in [(before, after), (after, before), (before, before), (after, after)] {
            assert_eq!(reaches(from(), to()), Ok(()));
        }
    }
    assert!(reaches(plain(), all()).is_err() && reaches(all(), plain()).is_err(), "not in one step");
}

/// A connection that is reset would not tell a Cassandra that there is no TLS.
#[test]
fn a_node_without_tls_reads_what_tls_begins_with_and_closes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut record = vec![0x16, 3, 1, 2, 0];
        record.resize(5 + 512, 7);
        tcp.write_all(&record).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let refused = links(none()).accepted(accepted).await.err().unwrap();
        assert!(refused.to_string().contains("it speaks TLS"), "{refused}");
        assert_eq!(tcp.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn certificates_are_signed_by_who_is_trusted() {
    let stranger = || asks(|nodes| nodes.options.truststore.path = "/other-ca.crt".into());
    let refused = talk(stranger(), all()).unwrap_err();
    assert!(refused.contains("UnknownIssuer") || refused.contains("UnknownCA"), "{refused}");
    let mutual = || asks(|nodes| nodes.options.require_client_auth = ClientAuth::Required);
    assert_eq!(talk(all(), mutual()), Ok(()));
    let strangers = || {
        asks(|nodes| {
            nodes.options.require_client_auth = ClientAuth::Required;
            nodes.options.truststore.path = "/other-ca.crt".into();
        })
    };
    assert!(talk(all(), strangers()).is_err());
}

#[test]
fn a_certificate_is_for_an_address_where_that_is_asked_for() {
    let strict = || asks(|nodes| nodes.options.require_endpoint_verification = true);
    assert_eq!(talk(strict(), all()), Ok(()));
    assert_eq!(talk_at("127.0.0.2", all(), all()), Ok(()));
    let refused = talk_at("127.0.0.2", strict(), all()).unwrap_err();
    assert!(refused.contains("NotValidForName"), "{refused}");
}

#[test]
fn places_decide_which_connections_are_encrypted() {
    use InternodeEncryption::{All, Dc, None, Rack};
    let links = links(Option::None);
    let [own_rack, other_rack, other_datacenter, unknown] =
        [1, 2, 3, 9].map(|at| Endpoint::new(IpAddr::from([10, 0, 0, at]), 7000));
    let of =
        |internode| [own_rack, other_rack, other_datacenter, unknown].map(|to| links.encrypts(internode, to));
    assert_eq!(of(None), [false; 4]);
    assert_eq!(of(Dc), [false, false, true, true]);
    assert_eq!(of(Rack), [false, true, true, true]);
    assert_eq!(of(All), [true; 4]);
}
