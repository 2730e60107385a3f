//! Connections with TLS: a relay of the test's own speaks it for the client.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::net::{Door, Security};
use crate::tls::tests::{client_config, loaded};

/// Bytes that the relay holds for a client that does not read.
const HELD_BYTES: usize = 64 << 10;

async fn secure(options: NetOptions, security: Security) -> Node {
    let echo = Arc::new(Echo::default());
    let registry = Arc::new(Registry::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let threads = Threads::start(2, || ()).unwrap();
    let doors = vec![Door { listener, security }];
    let server = Server::start_at(doors, options, echo.clone(), registry.clone(), threads).unwrap();
    Node { echo, registry, server }
}

/// Where one client may connect without TLS, to speak it with the node.
fn relay(node: SocketAddr, config: Arc<ClientConfig>) -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let tls = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
        pass(client, StdStream::connect(node).unwrap(), tls);
    });
    address
}

/// What a socket had, or took; none where it has to wait, 0 at its end.
fn moved(outcome: std::io::Result<usize>) -> Option<usize> {
    match outcome {
        Ok(count) => Some(count),
        Err(error) if error.kind() == IoKind::WouldBlock => None,
        Err(_) => Some(0),
    }
}

fn pass(mut client: StdStream, mut node: StdStream, mut tls: ClientConnection) {
    client.set_nonblocking(true).unwrap();
    node.set_nonblocking(true).unwrap();
    let mut held = Vec::new();
    let mut bytes = vec![0; 1 << 14];
    loop {
        let mut is_idle = true;
        if !tls.is_handshaking() {
            match moved(client.read(&mut bytes)) {
                Some(0) => return,
                Some(count) => {
                    tls.writer().write_all(&bytes[..count]).unwrap();
                    is_idle = false;
                }
                None => {}
            }
        }
        while tls.wants_write() && moved(tls.write_tls(&mut node)).is_some_and(|count| count > 0) {}
        if held.len() < HELD_BYTES {
            match moved(tls.read_tls(&mut node)) {
                Some(0) => return,
                Some(_) => is_idle = false,
                None => {}
            }
            let left = tls.process_new_packets().unwrap().plaintext_bytes_to_read();
            let before = held.len();
            held.resize(before + left, 0);
            tls.reader().read_exact(&mut held[before..]).unwrap();
        }
        if let Some(count) = moved(client.write(&held)).filter(|_| !held.is_empty()) {
            held.drain(..count);
            is_idle = false;
        }
        if is_idle {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

#[test]
fn answers_arrive_whole_while_the_connection_moves_and_nobody_reads() {
    run(async {
        let options = NetOptions { outgoing_bytes_high: 64 << 20, ..NetOptions::default() };
        let node = secure(options, Security::Encrypted(loaded())).await;
        let address = relay(node.address(), client_config());
        let mut client = Client::start(address, ProtocolVersion::V5, None).await;
        let connection = node.registry.connections().pop().unwrap();
        let session = connection.tls().expect("it has one");
        assert_eq!(session.protocol, "TLSv1.3");
        // A keyspace's name has two bytes for its length.
        let sizes: Vec<usize> = (0..900).map(|n| n * 9_973 % 60_000).collect();
        let requests: Vec<(i16, Request)> =
            sizes.iter().enumerate().map(|(n, size)| (n as i16, query(&format!("big {size}")))).collect();
        for some in requests.chunks(90) {
            client.send(some).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
            connection.move_to(1 - connection.thread());
        }
        // More than all sockets hold.
        while connection.outgoing_bytes() == 0 || connection.requests() < 900 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut left: std::collections::BTreeSet<i16> = (0..900).collect();
        while !left.is_empty() {
            if left.len().is_multiple_of(5) {
                connection.move_to(1 - connection.thread());
            }
            let (stream, response) = client.receive().await;
            assert!(left.remove(&stream), "{stream} is answered once");
            let expected = echoed(&"x".repeat(sizes[stream as usize]));
            assert!(response == expected, "{stream} is answered as it should be");
        }
        assert_eq!(client.call(query("still here")).await, echoed("still here"));
        assert_eq!(node.registry.traffic.tls_handshakes.get(), 1);
    });
}

#[test]
fn the_first_byte_tells_what_a_client_speaks() {
    run(async {
        let node = secure(NetOptions::default(), Security::Optional(loaded())).await;
        let mut clients = Vec::new();
        for version in [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5] {
            let mut plain = Client::start(node.address(), version, None).await;
            let mut tls = Client::start(relay(node.address(), client_config()), version, None).await;
            assert_eq!(plain.call(query("plain")).await, echoed("plain"));
            assert_eq!(tls.call(query("tls")).await, echoed("tls"));
            clients.extend([plain, tls]);
        }
        assert_eq!(node.registry.traffic.tls_handshakes.get(), 3);
        // One that says nothing does not keep the node from ending.
        let silent = TcpStream::connect(node.address()).await.unwrap();
        while node.registry.len() < 7 {
            tokio::task::yield_now().await;
        }
        node.server.shutdown(Duration::from_secs(5)).await;
        assert!(node.registry.is_empty());
        drop(silent);
    });
}

#[test]
fn who_does_not_speak_tls_where_it_must_hears_an_alert_and_the_end() {
    run(async {
        let node = secure(NetOptions::default(), Security::Encrypted(loaded())).await;
        let mut plain = TcpStream::connect(node.address()).await.unwrap();
        plain.write_all(&[4, 0, 0, 1, 5, 0, 0, 0, 0]).await.unwrap();
        let mut heard = Vec::new();
        let _ = plain.read_to_end(&mut heard).await;
        assert!(heard.first().is_none_or(|first| *first == 21), "{heard:?}");
        assert_eq!(node.registry.traffic.tls_failures.get(), 1);
        assert_eq!(node.registry.traffic.tls_handshakes.get(), 0);
    });
}

#[test]
fn a_handshake_that_stalls_is_closed() {
    run(async {
        let options = NetOptions { tls_handshake_timeout_s: 1, ..NetOptions::default() };
        for security in [Security::Encrypted(loaded()), Security::Optional(loaded())] {
            let node = secure(options.clone(), security).await;
            let mut stalled = TcpStream::connect(node.address()).await.unwrap();
            stalled.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
            assert_eq!(stalled.read(&mut [0; 8]).await.unwrap_or(0), 0);
            assert_eq!(node.registry.traffic.too_slow.get(), 1);
        }
    });
}
