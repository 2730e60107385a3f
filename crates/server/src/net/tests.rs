//! Connections against a service whose answers the tests control.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

pub(crate) mod client;
mod memory;
mod secure;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use env::clock::{Clock, SystemClock};
use model::Consistency;
use parking_lot::Mutex;
use protocol::request::{Message, Query, QueryParams, Register, Request};
use protocol::response::error::ErrorKind;
use protocol::response::event::EventKind;
use protocol::response::schema_change::{ChangeKind, ChangeTarget, SchemaChange};
use protocol::response::{Event, Response, ResultBody};
use protocol::{Compression, Extras, ProtocolVersion};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Handling, NetOptions, Registry, Reply, Server, Service, Threads};
use client::Client;

/// Answers a query with its own text as the keyspace set; `hold x` only when the test releases it; `panic`
/// panics; `big n` answers n bytes; `where` answers with the thread that carries it out.
#[derive(Default)]
struct Echo {
    held: Mutex<Vec<(String, oneshot::Sender<()>)>>,
}

impl Echo {
    fn release(&self, text: &str) {
        let mut held = self.held.lock();
        let at = held.iter().position(|(name, _)| name == text).expect("the request is held");
        held.remove(at).1.send(()).expect("somebody waits");
    }

    async fn until_held(&self, count: usize) {
        while self.held.lock().len() < count {
            tokio::task::yield_now().await;
        }
    }
}

impl Service for Echo {
    fn handle(self: Arc<Self>, message: Message, reply: Reply) -> Option<Handling> {
        let Request::Query(query) = message.request else { panic!("only queries come here") };
        let text = query.statement;
        Some(Box::pin(async move {
            assert_ne!(text, "panic");
            if text.starts_with("hold") {
                let (release, released) = oneshot::channel();
                self.held.lock().push((text.clone(), release));
                released.await.expect("released");
            }
            let text = match text.strip_prefix("big ") {
                Some(n) => "x".repeat(n.parse().expect("a number")),
                None if text == "where" => format!("{:?}", std::thread::current().id()),
                None => text,
            };
            reply.send(&Response::Result(ResultBody::SetKeyspace(text)), &Extras::default());
        }))
    }
}

struct Node {
    echo: Arc<Echo>,
    registry: Arc<Registry>,
    server: Server,
}

impl Node {
    async fn start(options: NetOptions) -> Node {
        let echo = Arc::new(Echo::default());
        let registry = Arc::new(Registry::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let threads = Threads::start(2, || ()).unwrap();
        let server = Server::start(listener, options, echo.clone(), registry.clone(), threads).unwrap();
        Node { echo, registry, server }
    }

    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }
}

fn query(text: &str) -> Request {
    Request::Query(Query { statement: text.to_owned(), params: QueryParams::new(Consistency::One) })
}

fn echoed(text: &str) -> Response {
    Response::Result(ResultBody::SetKeyspace(text.to_owned()))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bound = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(bound, test).await.expect("the test hangs") });
}

fn error_kind(response: &Response) -> &ErrorKind {
    match response {
        Response::Error(error) => &error.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_version_and_compression_works() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        for (version, compression) in [
            (ProtocolVersion::V3, None),
            (ProtocolVersion::V3, Some(Compression::Snappy)),
            (ProtocolVersion::V4, Some(Compression::Lz4)),
            (ProtocolVersion::V5, None),
            (ProtocolVersion::V5, Some(Compression::Lz4)),
        ] {
            let mut client = Client::start(node.address(), version, compression).await;
            let long = "y".repeat(60_000);
            assert_eq!(client.call(query(&long)).await, echoed(&long), "{version} {compression:?}");
        }
    });
}

#[test]
fn answers_come_in_any_order() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        client.send(&[(1, query("hold a")), (2, query("hold b")), (3, query("c"))]).await;
        assert_eq!(client.receive().await, (3, echoed("c")));
        node.echo.until_held(2).await;
        node.echo.release("hold b");
        assert_eq!(client.receive().await, (2, echoed("hold b")));
        node.echo.release("hold a");
        assert_eq!(client.receive().await, (1, echoed("hold a")));
    });
}

#[test]
fn a_thousand_requests_in_flight_are_answered_last_first() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
            let mut client = Client::start(node.address(), version, None).await;
            let text = |i: i16| format!("hold {i}");
            let requests: Vec<_> = (0..1_000).map(|i| (i, query(&text(i)))).collect();
            client.send(&requests).await;
            node.echo.until_held(1_000).await;
            for i in (0..1_000).rev() {
                node.echo.release(&text(i));
                assert_eq!(client.receive().await, (i, echoed(&text(i))));
            }
        }
    });
}

#[test]
fn connections_stay_on_their_threads() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut places = Vec::new();
        for _ in 0..4 {
            let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
            let place = client.call(query("where")).await;
            for _ in 0..50 {
                assert_eq!(client.call(query("where")).await, place);
            }
            places.push((client, place));
        }
        let at = |n: usize| &places[n].1;
        assert!(at(0) == at(2) && at(1) == at(3) && at(0) != at(1));
    });
}

#[test]
fn a_connection_moves_with_what_it_has_begun() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V4, None).await;
        let before = client.call(query("where")).await;
        // A request that waits, and two parts of another one.
        client.send(&[(1, query("hold a"))]).await;
        node.echo.until_held(1).await;
        let bytes = client.encode(&[(2, query("where"))]);
        let (first, second) = bytes.split_at(11);
        client.write(first).await;
        let connection = Arc::clone(&node.registry.connections()[0]);
        connection.move_to(1 - connection.thread());
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.write(second).await;
        let (stream, after) = client.receive().await;
        assert_eq!(stream, 2);
        assert_ne!(after, before);
        node.echo.release("hold a");
        assert_eq!(client.receive().await, (1, echoed("hold a")));
        assert_eq!(client.call(query("where")).await, after);
        connection.move_to(1 - connection.thread());
        while client.call(query("where")).await != before {}
        node.server.shutdown(Duration::from_secs(10)).await;
        assert_eq!(client.next().await, None, "its task was known to the end");
    });
}

#[test]
fn a_panic_answers_an_error_and_the_connection_lives() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V4, None).await;
        assert_eq!(*error_kind(&client.call(query("panic")).await), ErrorKind::Server);
        assert_eq!(client.call(query("still here")).await, echoed("still here"));
        let connection = node.registry.connections().remove(0);
        assert_eq!(connection.budget_used(), (0, 0, 0));
    });
}

#[test]
fn requests_before_startup_are_refused() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::connect(node.address(), ProtocolVersion::V4).await;
        client.send(&[(7, query("too early"))]).await;
        let (stream, Response::Error(error)) = client.receive().await else { panic!() };
        assert_eq!((stream, error.kind), (0, ErrorKind::Protocol));
        assert_eq!(error.message, "Unexpected message QUERY, expecting STARTUP or OPTIONS");
        assert!(matches!(
            client.call(Request::Options(protocol::request::Options)).await,
            Response::Supported(_)
        ));
        client.startup(None, &[]).await;
        let Response::Error(error) = client.call(Client::startup_request(None, &[])).await else { panic!() };
        assert_eq!(error.message, "Unexpected message STARTUP, the connection is already initialized");
    });
}

#[test]
fn unknown_versions_are_named_and_the_connection_goes_on() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::connect(node.address(), ProtocolVersion::V5).await;
        client.write(&[0x42, 0, 0, 7, 5, 0, 0, 0, 0]).await;
        let (stream, response) = client.receive().await;
        let Response::Error(error) = response else { panic!() };
        assert_eq!((stream, &error.kind), (0, &ErrorKind::Protocol));
        assert!(error.message.contains("unsupported protocol version (66)"), "{error}");
        client.startup(None, &[]).await;
        assert_eq!(client.call(query("q")).await, echoed("q"));
    });
}

#[test]
fn a_damaged_segment_closes_the_connection_after_an_answer() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        client.write(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).await;
        let (_, response) = client.receive().await;
        assert_eq!(*error_kind(&response), ErrorKind::Protocol);
        assert!(client.is_closed().await);
    });
}

#[test]
fn an_envelope_over_the_limit_is_refused_and_skipped() {
    run(async {
        let options = NetOptions { frame_bytes_max: 1_000, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V4, None).await;
        assert_eq!(*error_kind(&client.call(query(&"z".repeat(2_000))).await), ErrorKind::Invalid);
        assert_eq!(client.call(query("small")).await, echoed("small"));
    });
}

#[test]
fn a_message_of_several_segments_has_a_limit_of_its_own() {
    run(async {
        let options =
            NetOptions { frame_bytes_max: 1_000, message_bytes_max: 300_000, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        assert!(matches!(client.call(query(&"y".repeat(200_000))).await, Response::Result(_)));
        assert_eq!(*error_kind(&client.call(query(&"z".repeat(300_001))).await), ErrorKind::Invalid);
        assert_eq!(client.call(query("small")).await, echoed("small"));
    });
}

#[test]
fn a_client_that_asked_for_it_gets_overloaded_errors() {
    run(async {
        let options = NetOptions { in_flight_bytes_max: 200, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::connect(node.address(), ProtocolVersion::V5).await;
        client.startup(None, &[("THROW_ON_OVERLOAD", "1")]).await;
        client.send(&[(1, query("hold a"))]).await;
        node.echo.until_held(1).await;
        client.send(&[(2, query(&"b".repeat(300)))]).await;
        let (stream, response) = client.receive().await;
        assert_eq!((stream, error_kind(&response)), (2, &ErrorKind::Overloaded));
        node.echo.release("hold a");
        assert_eq!(client.receive().await.0, 1);
        assert_eq!(client.call(query("c")).await, echoed("c"));
    });
}

#[test]
fn a_client_that_asked_for_it_is_told_that_requests_come_too_fast() {
    run(async {
        let options = NetOptions { requests_per_second_max: 1, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::connect(node.address(), ProtocolVersion::V4).await;
        client.startup(None, &[("THROW_ON_OVERLOAD", "1")]).await;
        let mut answers = Vec::new();
        client.send(&(1..=50).map(|stream| (stream, query("a"))).collect::<Vec<_>>()).await;
        for _ in 0..50 {
            answers.push(client.receive().await.1);
        }
        assert_eq!(answers[0], echoed("a"));
        let refused = answers.iter().find(|answer| **answer != echoed("a")).unwrap();
        let Response::Error(error) = refused else { panic!("{refused:?}") };
        let told = "Request breached global limit of 1 requests/second. Server is currently in an overloaded state \
                    and cannot accept more requests.";
        assert_eq!((&error.kind, error.message.as_str()), (&ErrorKind::Overloaded, told));
        assert!(node.registry.traffic.rate_limited.get() > 0);
    });
}

#[test]
fn other_clients_are_held_up_when_requests_come_too_fast() {
    run(async {
        let clock = SystemClock::new();
        let options = NetOptions { requests_per_second_max: 100, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        client.send(&(1..=60).map(|stream| (stream, query("a"))).collect::<Vec<_>>()).await;
        for stream in 1..=60 {
            assert_eq!(client.receive().await, (stream, echoed("a")));
        }
        // Each but the first and the last has a hundredth of a second to itself.
        assert!(clock.monotonic_nanos() >= 580_000_000, "it took {} ns", clock.monotonic_nanos());
    });
}

#[test]
fn other_clients_wait_until_there_is_room() {
    run(async {
        let options = NetOptions { in_flight_bytes_max: 200, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut one = Client::start(node.address(), ProtocolVersion::V5, None).await;
        let mut two = Client::start(node.address(), ProtocolVersion::V4, None).await;
        one.send(&[(1, query("hold a"))]).await;
        node.echo.until_held(1).await;
        let long = "b".repeat(300);
        two.send(&[(5, query(&long)), (6, query("after"))]).await;
        assert!(two.hears_nothing().await);
        node.echo.release("hold a");
        assert_eq!(one.receive().await, (1, echoed("hold a")));
        assert_eq!(two.receive().await, (5, echoed(&long)));
        assert_eq!(two.receive().await, (6, echoed("after")));
    });
}

#[test]
fn requests_in_flight_of_one_connection_are_bounded() {
    run(async {
        let options = NetOptions { requests_per_connection_max: 2, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        client.send(&[(1, query("hold a")), (2, query("hold b")), (3, query("c"))]).await;
        node.echo.until_held(2).await;
        assert!(client.hears_nothing().await);
        node.echo.release("hold b");
        assert_eq!(client.receive().await, (2, echoed("hold b")));
        assert_eq!(client.receive().await, (3, echoed("c")));
    });
}

#[test]
fn a_client_that_does_not_read_is_not_read() {
    run(async {
        let options = NetOptions { outgoing_bytes_high: 1 << 20, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V4, None).await;
        let requests: Vec<_> = (0..2_000).map(|i| (i, query("big 60000"))).collect();
        client.send(&requests).await;
        let connection = node.registry.connections().remove(0);
        while connection.outgoing_bytes() < 1 << 20 {
            tokio::task::yield_now().await;
        }
        assert!(connection.outgoing_bytes() < 2 << 20, "one answer over the mark at most");
        assert!(connection.requests() < 2_000);
        for _ in 0..2_000 {
            client.receive().await;
        }
        assert!(connection.room().await);
    });
}

#[test]
fn connections_over_the_limits_are_closed_at_once() {
    run(async {
        let options = NetOptions { connections_per_ip_max: 1, ..NetOptions::default() };
        let node = Node::start(options).await;
        let first = Client::start(node.address(), ProtocolVersion::V4, None).await;
        let mut second = Client::connect(node.address(), ProtocolVersion::V4).await;
        assert!(second.is_closed().await);
        drop(first);
        while !node.registry.is_empty() {
            tokio::task::yield_now().await;
        }
        Client::start(node.address(), ProtocolVersion::V4, None).await;
    });
}

#[test]
fn only_who_registered_hears_of_events() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut listener = Client::start(node.address(), ProtocolVersion::V5, None).await;
        let mut other = Client::start(node.address(), ProtocolVersion::V4, None).await;
        let register = Register { kinds: vec![EventKind::SchemaChange, EventKind::StatusChange] };
        assert_eq!(listener.call(Request::Register(register)).await, Response::Ready);
        let change = SchemaChange {
            kind: ChangeKind::Created,
            keyspace: "ks".to_owned(),
            target: ChangeTarget::Table { name: "t".to_owned() },
        };
        node.registry.broadcast(&Event::Schema(change.clone()));
        assert_eq!(listener.receive().await, (-1, Response::Event(Event::Schema(change))));
        assert_eq!(other.call(query("q")).await, echoed("q"));
    });
}

#[test]
fn shutdown_answers_what_is_in_flight() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        client.send(&[(1, query("hold a"))]).await;
        node.echo.until_held(1).await;
        let (address, echo) = (node.address(), node.echo);
        let shutdown = tokio::spawn(node.server.shutdown(Duration::from_secs(20)));
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        echo.release("hold a");
        assert_eq!(client.receive().await, (1, echoed("hold a")));
        assert!(client.is_closed().await);
        shutdown.await.unwrap();
    });
}

#[test]
fn shutdown_does_not_wait_for_ever() {
    run(async {
        let node = Node::start(NetOptions::default()).await;
        let mut client = Client::start(node.address(), ProtocolVersion::V5, None).await;
        client.send(&[(1, query("hold a"))]).await;
        node.echo.until_held(1).await;
        node.server.shutdown(Duration::from_millis(20)).await;
        assert!(client.is_closed().await);
        assert!(node.registry.is_empty());
    });
}

#[test]
fn silent_connections_are_closed_in_time() {
    run(async {
        let options = NetOptions { startup_timeout_s: 1, ..NetOptions::default() };
        let node = Node::start(options).await;
        let mut begun = Client::start(node.address(), ProtocolVersion::V5, None).await;
        let mut silent = Client::connect(node.address(), ProtocolVersion::V5).await;
        assert!(silent.is_closed().await);
        assert_eq!(begun.call(query("q")).await, echoed("q"));
    });
}
