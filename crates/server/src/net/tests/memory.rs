//! Clients that would take the node's memory, or a connection for ever.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::net::{AnswerRoom, Connection};

/// The server's side of the connection that was opened last.
fn last(node: &Node) -> Arc<Connection> {
    node.registry.connections().pop().expect("a connection")
}

/// A connection of its own from the server's point of view.
async fn another(node: &Node) -> (Client, Arc<Connection>) {
    let client = Client::start(node.address(), ProtocolVersion::V4, None).await;
    (client, last(node))
}

#[test]
fn envelopes_are_short_until_the_session_has_begun() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::connect(node.address(), ProtocolVersion::V4).await;
        let long = query(&"x".repeat(100_000));
        client.send(&[(3, long.clone())]).await;
        let (_, response) = client.receive().await;
        assert_eq!(*error_kind(&response), ErrorKind::Invalid);
        client.startup(None, &[]).await;
        assert!(matches!(client.call(long).await, Response::Result(_)), "and long ones afterwards");
    });
}

#[test]
fn what_has_come_of_requests_is_bounded_and_all_are_answered() {
    run(async {
        let options = NetOptions { in_flight_per_ip_bytes_max: 256 << 10, ..NetOptions::default() };
        let node = Node::start(options).await;
        let text = "x".repeat(200_000);
        let mut clients = Vec::new();
        for version in [ProtocolVersion::V4, ProtocolVersion::V5].repeat(3) {
            let mut client = Client::start(node.address(), version, None).await;
            let bytes = client.encode(&[(1, query(&text))]);
            let (first, rest) = bytes.split_at(100_000);
            client.write(first).await;
            clients.push((client, rest.to_vec()));
        }
        let connection = last(&node);
        let mut highest = 0;
        // The bytes come when they come; from then on they are watched for a while.
        while highest <= 100_000 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            highest = highest.max(connection.incoming_used()[0]);
        }
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            highest = highest.max(connection.incoming_used()[0]);
        }
        assert!(highest <= (128 << 10) + 200_000, "half of what is set, and one that goes on: {highest}");
        for (client, rest) in &mut clients {
            client.write(rest).await;
        }
        for (client, _) in &mut clients {
            assert!(matches!(client.receive().await, (1, Response::Result(_))));
        }
        while connection.incoming_used() != [0, 0] {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn what_a_client_left_behind_is_given_back() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let (mut client, connection) = another(&node).await;
        let bytes = client.encode(&[(1, query(&"x".repeat(200_000)))]);
        client.write(&bytes[..150_000]).await;
        while connection.incoming_used()[1] < 150_000 {
            tokio::task::yield_now().await;
        }
        drop(client);
        while connection.incoming_used() != [0, 0] {
            tokio::task::yield_now().await;
        }
    });
}

/// Sends a byte now and then until the server has closed the connection.
async fn drip(stream: &mut TcpStream) {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if stream.write_all(&[4]).await.is_err() {
            return;
        }
    }
}

#[test]
fn bytes_now_and_then_do_not_keep_a_connection_without_a_session() {
    run(async {
        let options = NetOptions { startup_timeout_s: 1, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        drip(&mut stream).await;
        assert_eq!(node.registry.traffic.too_slow.get(), 1);
    });
}

#[test]
fn a_request_that_does_not_go_on_ends_its_connection_and_idle_ones_stay() {
    run(async {
        let options = NetOptions { receive_timeout_s: 1, ..NetOptions::default() };
        let node = Node::start(options).await;
        let (mut idle, mut waits) =
            (another(&node).await.0, Client::start(node.address(), ProtocolVersion::V5, None).await);
        waits.send(&[(1, query("hold a"))]).await;
        node.echo.until_held(1).await;
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        let startup = b"\x04\0\0\x01\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0";
        stream.write_all(startup).await.unwrap();
        stream.read_exact(&mut [0; 9]).await.unwrap();
        stream.write_all(b"\x04\0\0\x02\x07\0\x01\0\0").await.unwrap();
        drip(&mut stream).await;
        assert_eq!(node.registry.traffic.too_slow.get(), 1);
        node.echo.release("hold a");
        assert_eq!(waits.receive().await, (1, echoed("hold a")));
        assert_eq!(idle.call(query("q")).await, echoed("q"));
    });
}

#[test]
fn an_answer_grows_beyond_any_bound_where_it_is_alone() {
    run(async {
        let options = NetOptions {
            answers_per_connection_bytes_max: 100,
            answers_per_ip_bytes_max: 200,
            answers_bytes_max: 300,
            ..NetOptions::default()
        };
        let node = Node::start(options).await;
        let (_one, one) = another(&node).await;
        let (_two, two) = another(&node).await;
        let mut giant = AnswerRoom::new(&one);
        giant.reach(50).unwrap();
        giant.reach(5_000).unwrap();
        assert_eq!(one.answers_used(), [5_000; 3]);
        giant.shrink(80);

        let mut turn = AnswerRoom::new(&one);
        let no_room = turn.reach(50).unwrap_err();
        assert!(turn.wait_for_turn().await);
        turn.wait_for_room(no_room).await;
        turn.reach(50).unwrap();
        let no_room = turn.reach(150).unwrap_err();
        turn.wait_for_room(no_room).await;
        turn.reach(150).unwrap();
        assert_eq!(one.answers_used(), [230; 3], "it is the one that goes on regardless");

        let mut waits = AnswerRoom::new(&two);
        let no_room = waits.reach(40).unwrap_err();
        assert!(waits.wait_for_turn().await);
        let moment = Duration::from_millis(50);
        assert!(tokio::time::timeout(moment, waits.wait_for_room(no_room)).await.is_err());
        let freed = async {
            tokio::task::yield_now().await;
            drop(giant);
        };
        tokio::join!(waits.wait_for_room(no_room), freed);
        drop(turn);
        waits.reach(40).unwrap();
        assert_eq!((one.answers_used()[0], two.answers_used()), (0, [40; 3]));
        drop(waits);
        assert_eq!(two.answers_used(), [0; 3]);
    });
}

#[test]
fn answers_that_are_not_read_count_until_the_client_is_gone() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let (mut client, connection) = another(&node).await;
        let requests: Vec<_> = (0..100).map(|i| (i, query("big 200000"))).collect();
        client.send(&requests).await;
        while connection.answers_used()[0] < 1 << 20 {
            tokio::task::yield_now().await;
        }
        let [own, address, all] = connection.answers_used();
        assert!(own == address && address == all);
        drop(client);
        while connection.answers_used() != [0; 3] {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_client_that_does_not_read_makes_way_when_others_wait() {
    run(async {
        let options = NetOptions { answers_bytes_max: 1 << 20, ..NetOptions::default() };
        let node = Node::start(options).await;
        let (mut greedy, in_the_way) = another(&node).await;
        let (_one, one) = another(&node).await;
        let (_two, two) = another(&node).await;
        let requests: Vec<_> = (0..400).map(|i| (i, query("big 200000"))).collect();
        greedy.send(&requests).await;
        while in_the_way.answers_used()[0] < 1 << 20 {
            tokio::task::yield_now().await;
        }
        assert!(in_the_way.requests() < 400, "it is not read while there is no room");
        let (mut first, mut second) = (AnswerRoom::new(&one), AnswerRoom::new(&two));
        let no_room = first.reach(1_000).unwrap_err();
        first.wait_for_room(no_room).await;
        first.reach(1_000).unwrap();
        let no_room = second.reach(1_000).unwrap_err();
        second.wait_for_room(no_room).await;
        second.reach(1_000).unwrap();
        assert_eq!(node.registry.traffic.too_slow.get(), 1);
        while node.registry.connections().len() > 2 {
            tokio::task::yield_now().await;
        }
    });
}
