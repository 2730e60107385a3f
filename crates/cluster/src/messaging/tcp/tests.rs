#![allow(clippy::disallowed_methods, reason = "connections are those of the machine")]

mod fallback;

use super::super::frame::{Framing, LargeFrames};
use super::super::handshake::{Accept, Initiate, VERSION_40, VERSION_50};
use super::super::messenger::{CallError, Messenger, MessengerOptions, Request};
use super::super::transport::Loss;
use super::super::verb::Verb;
use super::stream::{Attempt, Link, Wrapping};
use super::*;
use bytes::Bytes;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// An address of this machine that nobody else has.
fn free_address() -> Endpoint {
    static TAKEN: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = TAKEN.fetch_add(1, Ordering::Relaxed);
    Endpoint::new([127, 1 + high % 254, low, 1 + last].into(), 7000)
}

/// No encryption, and the same framing for every node.
struct PlainLinks(Framing);

impl Links for PlainLinks {
    fn connected(&self, tcp: TcpStream, _: Endpoint, _: Attempt) -> Wrapping<'_> {
        self.accepted(tcp)
    }

    fn falls_back(&self, _: Endpoint, _: &io::Error) -> bool {
        false
    }

    fn accepted(&self, tcp: TcpStream) -> Wrapping<'_> {
        Box::pin(async move { Ok(Link::Plain(tcp)) })
    }

    fn framing(&self, _: Endpoint) -> Framing {
        self.0
    }
}

fn transport(framing: Framing, change: impl FnOnce(&mut TcpOptions)) -> Arc<TcpTransport> {
    transport_over(Arc::new(PlainLinks(framing)), change)
}

fn transport_over(links: Arc<dyn Links>, change: impl FnOnce(&mut TcpOptions)) -> Arc<TcpTransport> {
    let mut options = TcpOptions::new(free_address());
    options.retry_min = Duration::from_millis(1);
    options.retry_max = Duration::from_millis(10);
    change(&mut options);
    Arc::new(TcpTransport::new(Env::real(), options, links, Handle::current()))
}

/// A node that answers reads with what they ask for.
struct Node {
    transport: Arc<TcpTransport>,
    messenger: Arc<Messenger>,
    me: Endpoint,
}

fn node(framing: Framing, change: impl FnOnce(&mut TcpOptions)) -> Node {
    let transport = transport(framing, change);
    let messenger = Messenger::new(Env::real(), MessengerOptions::default(), transport.clone());
    let echo = |messenger: &Arc<Messenger>, request: Request| {
        let reply = request.reply_to();
        let answer = reply.answer(request.message.payload).unwrap();
        messenger.respond(&reply, answer).unwrap();
    };
    messenger.handle(Verb::ReadReq, Arc::new(echo));
    while let Err((_, error)) = transport.listen() {
        // A node that had the address was stopped, and is about to leave it.
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        std::thread::yield_now();
    }
    let me = transport.shared.options.me;
    Node { transport, messenger, me }
}

/// Writes down what it gets.
#[derive(Default)]
struct Notes {
    got: Mutex<Option<mpsc::UnboundedSender<(Endpoint, u32, Message)>>>,
    lost: Mutex<Option<mpsc::UnboundedSender<(u64, Loss)>>>,
}

impl Inbox for Notes {
    fn receive(&self, from: Endpoint, version: u32, message: Message) {
        let _ = self.got.lock().unwrap().as_ref().unwrap().send((from, version, message));
    }

    fn lost(&self, _: Endpoint, _: Verb, id: u64, loss: Loss) {
        let _ = self.lost.lock().unwrap().as_ref().unwrap().send((id, loss));
    }
}

struct Listening {
    transport: Arc<TcpTransport>,
    got: mpsc::UnboundedReceiver<(Endpoint, u32, Message)>,
    lost: mpsc::UnboundedReceiver<(u64, Loss)>,
    _notes: Arc<Notes>,
    at: SocketAddr,
}

fn listening(change: impl FnOnce(&mut TcpOptions)) -> Listening {
    listening_over(Arc::new(PlainLinks(Framing::Crc)), change)
}

fn listening_over(links: Arc<dyn Links>, change: impl FnOnce(&mut TcpOptions)) -> Listening {
    let transport = transport_over(links, change);
    let (got_sender, got) = mpsc::unbounded_channel();
    let (lost_sender, lost) = mpsc::unbounded_channel();
    let notes = Arc::new(Notes { got: Mutex::new(Some(got_sender)), lost: Mutex::new(Some(lost_sender)) });
    let inbox = Arc::downgrade(&notes);
    transport.attach(inbox);
    let at = transport.listen().unwrap()[0];
    Listening { transport, got, lost, _notes: notes, at }
}

/// A connection that shook hands.
async fn connect(to: SocketAddr, initiate: &Initiate) -> TcpStream {
    let mut tcp = TcpStream::connect(to).await.unwrap();
    let mut bytes = Vec::new();
    initiate.encode(&mut bytes);
    tcp.write_all(&bytes).await.unwrap();
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).await.unwrap();
    assert_eq!(Accept::decode(&answer).unwrap().unwrap().version, VERSION_40);
    tcp
}

fn small() -> Initiate {
    Initiate {
        kind: ConnectionKind::Small,
        framing: Framing::Crc,
        versions: Versions::CASSANDRA_4,
        from: Endpoint::new([127, 0, 0, 9].into(), 7000),
    }
}

fn message(id: u64, payload: impl Into<Bytes>) -> Message {
    let created_millis = Env::real().clock.now_millis();
    let expires_after_millis = TIMEOUT.as_millis() as u64;
    Message { id, created_millis, expires_after_millis, ..Message::new(Verb::MutationReq, payload) }
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn framed(payload: &[u8], is_self_contained: bool) -> Vec<u8> {
    let mut out = Vec::new();
    Framing::Crc.encode(payload, is_self_contained, &mut out);
    out
}

/// Waits for something that other tasks bring about.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Whether the peer closes.
async fn is_closed(tcp: &mut TcpStream) -> bool {
    matches!(tcp.read(&mut [0]).await, Ok(0) | Err(_))
}

#[test]
fn two_nodes_exchange_small_and_large_messages_in_every_framing() {
    runtime().block_on(async {
        for framing in [Framing::Crc, Framing::Lz4, Framing::Unprotected] {
            let (a, b) = (node(framing, |_| ()), node(framing, |_| ()));
            for len in [0, 10, 64 << 10, 100_000, 3 << 20] {
                let payload: Vec<u8> = (0..len).map(|at: u64| (at * at / 8) as u8).collect();
                let request = Message::new(Verb::ReadReq, payload.clone());
                let answer = a.messenger.call(b.me, request, TIMEOUT).await.unwrap();
                assert_eq!(answer.payload, payload, "{framing:?}, {len} bytes");
            }
            // What was written is counted after it was written.
            let sent = || a.transport.outbound()[0].1.map(|counts| counts.sent.count);
            until(|| sent() == [0, 2, 3]).await;
            let [_, small, large] = a.transport.outbound()[0].1;
            assert_eq!((small.connection_attempts, large.connection_attempts), (1, 1));
            assert_eq!(small.active_connections + large.active_connections, 2);
            let (from, inbound) = a.transport.inbound()[0];
            assert_eq!((from, inbound.received.count, inbound.active_connections), (b.me, 5, 2));
        }
    });
}

#[test]
fn many_calls_at_a_time_each_get_their_own_answer() {
    runtime().block_on(async {
        let (a, b) = (node(Framing::Lz4, |_| ()), node(Framing::Crc, |_| ()));
        let calls: Vec<_> = (0..5_000_u32)
            .map(|n| {
                let request = Message::new(Verb::ReadReq, n.to_be_bytes().to_vec());
                (n, tokio::spawn(a.messenger.call(b.me, request, TIMEOUT)))
            })
            .collect();
        for (n, call) in calls {
            assert_eq!(call.await.unwrap().unwrap().payload[..], n.to_be_bytes());
        }
        assert_eq!(a.messenger.calls_waiting(), 0);
    });
}

#[test]
fn peers_of_version_13_use_it_and_others_use_12() {
    runtime().block_on(async {
        let five = |options: &mut TcpOptions| options.versions = Versions::CASSANDRA_5;
        let nodes = [node(Framing::Crc, five), node(Framing::Crc, five), node(Framing::Crc, |_| ())];
        let [a, b, c] = &nodes;
        for (to, version) in [(b, VERSION_50), (c, VERSION_40)] {
            assert_eq!(a.transport.version(to.me), None);
            a.messenger.call(to.me, Message::new(Verb::ReadReq, "k"), TIMEOUT).await.unwrap();
            assert_eq!((a.messenger.version(to.me), to.messenger.version(a.me)), (version, version));
        }
        let encoded = Message::new(Verb::ReadReq, "k").encoded_for(VERSION_50);
        let refused = a.messenger.call(c.me, encoded.clone(), TIMEOUT).await;
        assert_eq!(refused, Err(CallError::Lost(Loss::Version)));
        a.messenger.call(b.me, encoded, TIMEOUT).await.unwrap();
    });
}

#[test]
fn messages_wait_for_a_node_that_is_not_there_yet() {
    runtime().block_on(async {
        let a = node(Framing::Crc, |_| ());
        let later = free_address();
        let call = tokio::spawn(a.messenger.call(later, Message::new(Verb::ReadReq, "k"), TIMEOUT));
        until(|| a.transport.outbound()[0].1[1].connection_attempts >= 2).await;
        let b = node(Framing::Crc, |options| {
            options.me = later;
            options.listen = vec![later.socket()];
        });
        assert_eq!(call.await.unwrap().unwrap().payload, "k");
        drop(b);
    });
}

#[test]
fn a_node_that_comes_back_is_connected_to_again() {
    runtime().block_on(async {
        let a = node(Framing::Crc, |_| ());
        let b = node(Framing::Crc, |_| ());
        let request = || Message::new(Verb::ReadReq, "k");
        a.messenger.call(b.me, request(), TIMEOUT).await.unwrap();
        b.transport.stop();
        // The connection is known to be gone before anything is sent.
        until(|| a.transport.outbound()[0].1[1].active_connections == 0).await;
        let again = node(Framing::Crc, |options| {
            options.me = b.me;
            options.listen = vec![b.me.socket()];
        });
        a.messenger.call(again.me, request(), TIMEOUT).await.unwrap();
        assert_eq!(a.transport.outbound()[0].1[1].successful_connection_attempts, 2);
    });
}

#[test]
fn a_node_is_reached_at_another_address_and_nothing_is_lost() {
    runtime().block_on(async {
        let a = node(Framing::Crc, |_| ());
        let (known, elsewhere) = (free_address(), free_address());
        let b = node(Framing::Crc, |options| {
            options.me = known;
            options.listen = vec![known.socket(), elsewhere.socket()];
        });
        let calls = |count: u32| {
            let request = |n: u32| Message::new(Verb::ReadReq, n.to_be_bytes().to_vec());
            let calls = (0..count).map(|n| (n, tokio::spawn(a.messenger.call(known, request(n), TIMEOUT))));
            calls.collect::<Vec<_>>()
        };
        let mut before = calls(1_000);
        a.transport.reach_at(known, elsewhere.socket());
        before.extend(calls(1_000));
        for (n, call) in before {
            assert_eq!(call.await.unwrap().unwrap().payload[..], n.to_be_bytes());
        }
        // The old connection is given up although nothing is to be sent.
        let counts = || b.transport.inbound()[0].1;
        until(|| counts().active_connections == 1).await;
        let only_there = free_address();
        let again = node(Framing::Crc, |options| {
            options.me = known;
            options.listen = vec![only_there.socket()];
        });
        a.transport.reach_at(known, only_there.socket());
        until(|| counts().active_connections == 0).await;
        let answer = a.messenger.call(known, Message::new(Verb::ReadReq, "k"), TIMEOUT).await;
        assert_eq!(answer.unwrap().payload, "k");
        drop((b, again));
    });
}

#[test]
fn a_peer_that_is_thought_dead_loses_what_waits_for_it() {
    runtime().block_on(async {
        let mut node = listening(|_| ());
        let dead = free_address();
        node.transport.send(dead, message(5, "k")).unwrap();
        node.transport.interrupt(dead);
        assert_eq!(node.lost.recv().await, Some((5, Loss::Interrupted)));
        assert_eq!(node.transport.queued_bytes(dead, ConnectionKind::Small), 0);
        node.transport.send(dead, message(6, "k")).unwrap();
        node.transport.forget(dead);
        assert_eq!(node.lost.recv().await, Some((6, Loss::Interrupted)));
        assert!(node.transport.outbound().is_empty());
    });
}

#[test]
fn messages_that_wait_for_too_long_are_told() {
    runtime().block_on(async {
        let mut node = listening(|_| ());
        let late = Message { expires_after_millis: 0, ..message(5, "k") };
        node.transport.send(free_address(), late).unwrap();
        assert_eq!(node.lost.recv().await, Some((5, Loss::Expired)));
    });
}

#[test]
fn a_queue_without_room_refuses_and_so_does_a_length() {
    runtime().block_on(async {
        let node = listening(|options| {
            options.send_bytes = QueueBytes { own_max: 1_256, peer_reserve_max: 500, node_reserve_max: 400 };
        });
        let dead = free_address();
        node.transport.send(dead, message(1, vec![0; 1_000])).unwrap();
        assert_eq!(node.transport.send(dead, message(2, vec![0; 1_000])), Err(SendError::Full));
        let too_large = SendError::TooLarge { bytes: 1_413, max: 1_400 };
        let long = message(3, vec![0; 1_400]);
        assert_eq!(long.encoded_len(), 1_413, "the test's own arithmetic");
        assert_eq!(node.transport.send(dead, long), Err(too_large));
        assert_eq!(node.transport.outbound()[0].1[1].overload.count, 1);
        node.transport.stop();
        assert_eq!(node.transport.send(dead, message(4, "")), Err(SendError::Stopped));
    });
}

#[test]
fn the_address_of_the_handshake_is_who_sent_the_messages() {
    runtime().block_on(async {
        let mut node = listening(|_| ());
        let mut tcp = connect(node.at, &small()).await;
        let two = [encoded(&message(1, "a")), encoded(&message(2, "b"))].concat();
        let bytes = framed(&two, true);
        // It arrives as it likes.
        for piece in bytes.chunks(7) {
            tcp.write_all(piece).await.unwrap();
        }
        for id in [1, 2] {
            let (from, version, message) = node.got.recv().await.unwrap();
            assert_eq!((from, version, message.id), (small().from, VERSION_40, id));
        }
        assert_eq!(node.transport.version(small().from), Some(VERSION_40));
    });
}

#[test]
fn a_damaged_frame_of_small_messages_costs_only_them() {
    runtime().block_on(async {
        let mut node = listening(|_| ());
        let mut tcp = connect(node.at, &small()).await;
        let mut damaged = framed(&encoded(&message(1, "a")), true);
        *damaged.last_mut().unwrap() ^= 1;
        tcp.write_all(&damaged).await.unwrap();
        tcp.write_all(&framed(&encoded(&message(2, "b")), true)).await.unwrap();
        assert_eq!(node.got.recv().await.unwrap().2.id, 2);
        assert_eq!(node.transport.inbound()[0].1.corrupt_frames_recovered, 1);
    });
}

#[test]
fn a_message_that_makes_no_sense_costs_only_itself() {
    runtime().block_on(async {
        let mut node = listening(|_| ());
        let mut tcp = connect(node.at, &small()).await;
        let unknown_verb = [1, 0, 0, 0, 0, 5, 120, 0, 0, 0];
        let bad_param = [1, 0, 0, 0, 0, 5, 0, 0, 1, 6, 2, 1, 1, 0];
        let good = encoded(&message(2, "b"));
        tcp.write_all(&framed(&[&unknown_verb[..], &bad_param, &good].concat(), true)).await.unwrap();
        assert_eq!(node.got.recv().await.unwrap().2.id, 2);
        assert_eq!(node.transport.inbound()[0].1.error.count, 2);
    });
}

#[test]
fn what_nothing_can_follow_closes_the_connection() {
    runtime().block_on(async {
        let node = listening(|options| options.message_bytes_max = 1 << 20);
        let mut bad_header = framed(b"", true);
        bad_header[0] ^= 1;
        let large = encoded(&message(1, vec![0; 1_000]));
        let mut damaged_large = framed(&large[..500], false);
        *damaged_large.last_mut().unwrap() ^= 1;
        let too_large = encoded(&message(1, vec![0; 2 << 20]));
        let cases = [
            bad_header,
            damaged_large,
            framed(&large[..500], true),
            framed(&too_large[..500], false),
            [framed(&large[..500], false), framed(&large, true)].concat(),
        ];
        for case in cases {
            let mut tcp = connect(node.at, &small()).await;
            tcp.write_all(&case).await.unwrap();
            assert!(is_closed(&mut tcp).await, "{} bytes", case.len());
        }
    });
}

#[test]
fn handshakes_that_are_not_served_are_closed() {
    runtime().block_on(async {
        let node = listening(|_| ());
        let mut streaming = Vec::new();
        small().encode(&mut streaming);
        streaming[7] |= 8;
        let legacy = [0xca, 0x55, 0x2d, 0xfa, 0, 0, 11, 0];
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &streaming, &legacy] {
            let mut tcp = TcpStream::connect(node.at).await.unwrap();
            tcp.write_all(bytes).await.unwrap();
            assert!(is_closed(&mut tcp).await);
        }
        let slow = listening(|options| options.handshake_timeout = Duration::from_millis(1));
        let mut tcp = TcpStream::connect(slow.at).await.unwrap();
        assert!(is_closed(&mut tcp).await);
        // A node of later versions alone hears what is spoken here, and then nothing.
        let mut later = Vec::new();
        Initiate { versions: Versions { min: 14, max: 15 }, ..small() }.encode(&mut later);
        let mut tcp = TcpStream::connect(node.at).await.unwrap();
        tcp.write_all(&later).await.unwrap();
        let mut answer = [0; 12];
        tcp.read_exact(&mut answer).await.unwrap();
        assert_eq!(Accept::decode(&answer), Ok(Some(Accept { max: 12, version: 12 })));
        assert!(is_closed(&mut tcp).await);
    });
}

#[test]
fn the_nodes_that_are_known_are_bounded() {
    runtime().block_on(async {
        let mut node = listening(|options| options.peers_max = 1);
        let mut first = connect(node.at, &small()).await;
        first.write_all(&framed(&encoded(&message(1, "")), true)).await.unwrap();
        node.got.recv().await.unwrap();
        assert_eq!(node.transport.send(free_address(), message(2, "")), Err(SendError::TooManyPeers));
        let mut stranger = connect(node.at, &Initiate { from: free_address(), ..small() }).await;
        assert!(is_closed(&mut stranger).await);
    });
}

#[test]
fn a_node_that_was_sent_nothing_is_forgotten_with_its_last_connection() {
    runtime().block_on(async {
        let node = listening(|options| options.peers_max = 1);
        for last in 1..=3 {
            let from = Endpoint::new([127, 0, 0, last].into(), 7000);
            let tcp = connect(node.at, &Initiate { from, ..small() }).await;
            until(|| node.transport.inbound().iter().any(|(of, _)| *of == from)).await;
            drop(tcp);
            until(|| node.transport.inbound().is_empty()).await;
        }
    });
}

#[test]
fn a_flush_waits_until_all_is_written() {
    runtime().block_on(async {
        let (a, mut b) = (node(Framing::Crc, |_| ()), listening(|_| ()));
        let to = b.transport.shared.options.me;
        for id in 0..100 {
            a.transport.send(to, message(id, vec![1; 1_000])).unwrap();
        }
        assert!(a.transport.flush(TIMEOUT).await);
        a.transport.stop();
        for id in 0..100 {
            assert_eq!(b.got.recv().await.unwrap().2.id, id);
        }
        let c = listening(|_| ());
        c.transport.send(free_address(), message(1, "k")).unwrap();
        assert!(!c.transport.flush(Duration::ZERO).await);
    });
}

#[test]
fn messages_past_the_task_and_those_that_wait_keep_their_order() {
    runtime().block_on(async {
        // A peer that reads no more than it is done with, so that the socket is full now and then.
        let bounds = QueueBytes { own_max: 250_000, peer_reserve_max: 0, node_reserve_max: 0 };
        let (a, mut b) = (node(Framing::Lz4, |_| ()), listening(|options| options.receive_bytes = bounds));
        let to = b.transport.shared.options.me;
        let payload = |id: u64| (0..30_000).map(|n| (id.wrapping_mul(n) % 251) as u8).collect::<Vec<_>>();
        let large = move |id: u64| if id % 50 == 49 { payload(id).repeat(5) } else { payload(id) };
        let transport = Arc::clone(&a.transport);
        let sender = std::thread::spawn(move || {
            shortcut::gather_here();
            for id in 0..600u64 {
                let slowly = id < 10 || id.is_multiple_of(97);
                transport.send(to, message(id, if slowly { vec![1] } else { large(id) })).unwrap();
                if slowly {
                    // The task goes to rest.
                    shortcut::write_gathered();
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            shortcut::write_gathered();
        });
        let of_kind = |large: bool| move |id: &u64| (id % 50 == 49 && !id.is_multiple_of(97)) == large;
        let (mut next_small, mut next_large) =
            ((0..600).filter(of_kind(false)), (0..600).filter(of_kind(true)));
        for _ in 0..600 {
            let (_, _, got) = b.got.recv().await.unwrap();
            let next = if got.payload.len() > 65_536 { next_large.next() } else { next_small.next() };
            assert_eq!(Some(got.id), next);
            assert!(got.payload.len() == 1 || got.payload == large(got.id));
        }
        sender.join().unwrap();
    });
}

#[test]
fn connections_are_bounded() {
    runtime().block_on(async {
        let node = listening(|options| options.inbound_connections_max = 1);
        let _first = connect(node.at, &small()).await;
        let mut second = TcpStream::connect(node.at).await.unwrap();
        assert!(is_closed(&mut second).await);
    });
}

#[test]
fn messages_that_are_not_done_with_slow_their_connection_down() {
    runtime().block_on(async {
        let mut node = listening(|options| {
            options.receive_bytes = QueueBytes { own_max: 1_512, peer_reserve_max: 0, node_reserve_max: 0 };
        });
        let mut tcp = connect(node.at, &small()).await;
        for id in 1..=2 {
            tcp.write_all(&framed(&encoded(&message(id, vec![7; 600])), true)).await.unwrap();
        }
        let (_, _, first) = node.got.recv().await.unwrap();
        let counts = || node.transport.inbound()[0].1;
        assert_eq!(counts().received.count, 1);
        drop(first);
        assert_eq!(node.got.recv().await.unwrap().2.id, 2);
        let counts = node.transport.inbound()[0].1;
        assert!(counts.throttled_count <= 1, "unless the first was done with before the second came");
    });
}

#[test]
fn a_large_message_is_read_piece_by_piece() {
    runtime().block_on(async {
        let mut node = listening(|_| ());
        let large = Initiate { kind: ConnectionKind::Large, framing: Framing::Lz4, ..small() };
        let mut tcp = connect(node.at, &large).await;
        let sent = message(1, vec![9; 1 << 20]);
        let mut head = Vec::new();
        sent.encode_head(&mut head);
        let mut frames = LargeFrames::new(Framing::Lz4, &head, &sent.payload);
        let mut out = Vec::new();
        while frames.next(&mut out) {
            tcp.write_all(&out).await.unwrap();
            out.clear();
        }
        assert_eq!(node.got.recv().await.unwrap().2.payload, sent.payload);
    });
}
