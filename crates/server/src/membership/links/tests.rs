//! Nodes that connect to each other, with and without TLS.

use super::*;
use crate::config::{ClientAuth, InternodeOptions};
use crate::tls::tests::node_tls;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let to = listener.local_addr().unwrap();
        let (connecting, listening) = (links(connecting), links(listening));
        let there = async {
            let (tcp, _) = listener.accept().await?;
            let mut stream = listening.accepted(tcp).await?;
            let byte = stream.read_u8().await?;
            stream.write_u8(byte + 1).await?;
            stream.flush().await
        };
        let here = async {
            let tcp = TcpStream::connect(to).await?;
            let mut stream = connecting.connected(tcp, Endpoint::from(to)).await?;
            // As of a handshake between nodes.
            stream.write_u8(0xCA).await?;
            stream.flush().await?;
            stream.read_u8().await
        };
        let (there, here) = tokio::join!(there, here);
        match (there, here) {
            (Ok(()), Ok(0xCB)) => Ok(()),
            (there, here) => Err(format!("there: {there:?}, here: {here:?}")),
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
