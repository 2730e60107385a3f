//! Members of one ring, over a network in memory.

use super::*;
use crate::messaging::{Inbox, Message, MessengerOptions, SendError, Transport};
use crate::testing::Nobody;
use coordinator::{DiskUsage, Topology as _};
use model::{Mutation, Schema};
use std::collections::HashMap;

/// Carries messages at once, as bytes.
#[derive(Default)]
struct Network {
    inboxes: Mutex<HashMap<Endpoint, Weak<dyn Inbox>>>,
    /// Where a node reaches another.
    reached: Mutex<HashMap<(Endpoint, Endpoint), std::net::SocketAddr>>,
}

struct Wire {
    network: Arc<Network>,
    own: Endpoint,
    now_millis: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl Transport for Wire {
    fn attach(&self, inbox: Weak<dyn Inbox>) {
        self.network.inboxes.lock().insert(self.own, inbox);
    }

    fn version(&self, _: Endpoint) -> Option<u32> {
        Some(12)
    }

    fn reach_at(&self, to: Endpoint, at: std::net::SocketAddr) {
        self.network.reached.lock().insert((self.own, to), at);
    }

    fn send(&self, to: Endpoint, message: Message) -> Result<(), SendError> {
        let inbox = self.network.inboxes.lock().get(&to).and_then(Weak::upgrade);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut input = partition::codec::SliceInput::new(bytes.into());
        let parsed = Message::decode(&mut input, (self.now_millis)()).unwrap();
        if let (Some(inbox), crate::messaging::message::Parsed::Message(message)) = (inbox, parsed) {
            let from = self.own;
            tokio::spawn(async move { inbox.receive(from, 12, message) });
        }
        Ok(())
    }

    fn interrupt(&self, _: Endpoint) {}

    fn forget(&self, _: Endpoint) {}
}

/// A node whose schema has a version, and nothing in it.
struct FakeHost {
    version: Mutex<Uuid>,
    saved: Mutex<BTreeMap<Endpoint, PeerRecord>>,
    forgotten: Mutex<Vec<(Endpoint, Option<Uuid>)>>,
    told: Mutex<Vec<RingEvent>>,
}

/// The version that all come to.
const MERGED: Uuid = Uuid::from_u128(7);

impl Host for FakeHost {
    fn schema(&self) -> Arc<Schema> {
        Arc::new(Schema { version: *self.version.lock(), ..Schema::default() })
    }

    fn schema_mutations(&self) -> Pending<Result<Vec<Mutation>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn merge_schema(&self, _: Vec<Mutation>) -> Pending<Result<Uuid, String>> {
        *self.version.lock() = MERGED;
        Box::pin(async { Ok(MERGED) })
    }

    fn data_bytes(&self) -> u64 {
        1_000
    }

    fn save_peer(&self, peer: &PeerRecord) {
        self.saved.lock().insert(peer.endpoint, peer.clone());
    }

    fn forget_peer(&self, endpoint: Endpoint, host_id: Option<Uuid>) {
        self.saved.lock().remove(&endpoint);
        self.forgotten.lock().push((endpoint, host_id));
    }

    fn is_back(&self, _: &Arc<Node>) {}

    fn tell(&self, event: RingEvent) {
        self.told.lock().push(event);
    }
}

fn endpoint(n: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, n].into(), 7_000)
}

/// Node `n`; the first is the seed. `version` is that of its schema.
fn member(network: &Arc<Network>, n: u8, host_id: u128, version: u128) -> (Arc<Member>, Arc<FakeHost>) {
    member_at(network, n, host_id, version, (n, "dc"))
}

/// As `member`; clients find it at the address of a number, in a data center.
fn member_at(
    network: &Arc<Network>,
    n: u8,
    host_id: u128,
    version: u128,
    (native, datacenter): (u8, &str),
) -> (Arc<Member>, Arc<FakeHost>) {
    let env = Env::real();
    let own = endpoint(n);
    let clock = env.clock.clone();
    let now_millis = Box::new(move || clock.now_millis());
    let wire = Arc::new(Wire { network: Arc::clone(network), own, now_millis });
    let messenger = Messenger::new(env.clone(), MessengerOptions::default(), wire);
    let host = Arc::new(FakeHost {
        version: Mutex::new(Uuid::from_u128(version)),
        saved: Mutex::default(),
        forgotten: Mutex::default(),
        told: Mutex::default(),
    });
    let node = Arc::new(Node::new(Uuid::from_u128(host_id), datacenter, "rack", Arc::new(Nobody)));
    let of_schema = Arc::clone(&host);
    let topology = Arc::new(RingTopology::new(node, move || of_schema.schema()));
    let text = |text: &str| Text::new(text).unwrap();
    let options = MemberOptions {
        gossip: Settings {
            endpoint: own,
            cluster_name: text("ring"),
            partitioner: text("p"),
            seeds: BTreeSet::from([endpoint(1)]),
            ring_delay_millis: 1_000,
            phi_convict_threshold: 8.0,
        },
        host_id: Uuid::from_u128(host_id),
        generation: 1_000 + i32::from(n),
        has_bootstrapped: false,
        release_version: "5.0.5".to_owned(),
        messaging_version: 12,
        native: native_of(native),
        internal: [10, 0, 0, n].into(),
        prefers_local: true,
        sstable_versions: vec!["big-nb".to_owned()],
        timeouts: RemoteTimeouts::default(),
    };
    let spawn: Spawn = Arc::new(|task| {
        tokio::spawn(task);
    });
    let as_host = Arc::clone(&host) as Arc<dyn Host>;
    (Member::new(env, options, messenger, topology, as_host, spawn, Vec::new()), host)
}

fn native_of(n: u8) -> Endpoint {
    Endpoint::new(endpoint(n).ip, 9_042)
}

async fn join(member: &Member) -> Result<(), MemberError> {
    member.look_around().await?;
    member.begin().await?;
    let number = i64::from(member.options.generation) - 1_000;
    member.take_tokens(vec![number * 10])?;
    member.set_ready(true);
    Ok(())
}

/// The first two nodes of a ring, which know each other; of the first, its host too.
async fn two_members(network: &Arc<Network>) -> (Arc<Member>, Arc<FakeHost>, Arc<Member>) {
    let (first, of_first) = member(network, 1, 1, 7);
    join(&first).await.unwrap();
    let (second, _) = member(network, 2, 2, 7);
    join(&second).await.unwrap();
    until(&first.env, || live(&first) == 2).await;
    (first, of_first, second)
}

/// Waits for what has to come.
async fn until(env: &Env, check: impl Fn() -> bool) {
    while !check() {
        env.tasks.sleep(Duration::from_millis(20)).await;
    }
}

fn live(member: &Member) -> usize {
    member.topology().members().iter().filter(|member| member.node.is_alive()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_hear_of_each_other_are_one_ring_with_one_schema() {
    let network = Arc::new(Network::default());
    let (first, of_first) = member(&network, 1, 1, 7);
    join(&first).await.unwrap();
    let (second, of_second) = member(&network, 2, 2, 8);
    join(&second).await.unwrap();
    assert_eq!(of_second.schema_version(), MERGED, "who joins has the schema of the others before");
    until(&first.env, || live(&first) == 2 && live(&second) == 2).await;
    let members = first.topology().members();
    let known = members.by_endpoint(&endpoint(2)).unwrap();
    assert_eq!(known.tokens, [model::key::Token(20)]);
    until(&first.env, || of_first.told.lock().contains(&RingEvent::Up(Endpoint::new(endpoint(2).ip, 9_042))))
        .await;
    let saved = of_first.saved.lock().get(&endpoint(2)).cloned().unwrap();
    assert_eq!((saved.host_id, saved.datacenter.as_str()), (Uuid::from_u128(2), "dc"));
    assert_eq!(first.topology().disk_usage(), DiskUsage::NotAvailable);
    for usage in [DiskUsage::Full, DiskUsage::Spacious] {
        second.set_disk_usage(usage);
        until(&first.env, || first.topology().disk_usage() == usage).await;
    }
    second.announce_shutdown().await;
    until(&first.env, || live(&first) == 1).await;
    assert_eq!(first.topology().members().iter().count(), 2, "it holds its part still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_data_center_reach_each_other_in_it() {
    let network = Arc::new(Network::default());
    let (first, of_first, second) = two_members(&network).await;
    let (far, _) = member_at(&network, 3, 3, 7, (3, "elsewhere"));
    join(&far).await.unwrap();
    until(&first.env, || live(&first) == 3 && live(&second) == 3 && live(&far) == 3).await;
    let at = |n: u8| std::net::SocketAddr::from(([10, 0, 0, n], 7_000));
    let reached = network.reached.lock().clone();
    let expected = [((endpoint(1), endpoint(2)), at(2)), ((endpoint(2), endpoint(1)), at(1))];
    assert_eq!(reached, HashMap::from(expected));
    until(&first.env, || of_first.saved.lock().contains_key(&endpoint(3))).await;
    let saved = |n: u8| of_first.saved.lock().get(&endpoint(n)).map(|peer| peer.preferred);
    assert_eq!((saved(2), saved(3)), (Some(Some(at(2).into())), Some(None)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_not_join_under_the_address_of_another() {
    let network = Arc::new(Network::default());
    let (_first, _, _second) = two_members(&network).await;
    let (impostor, _) = member(&network, 2, 3, 7);
    let refused = impostor.look_around().await.unwrap_err().to_string();
    assert!(refused.starts_with("A node with address /127.0.0.2:7000 already exists"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gossip_stops_and_starts_again_as_the_operator_says() {
    let network = Arc::new(Network::default());
    let (first, _) = member(&network, 1, 1, 7);
    assert!(!first.stop_gossip(), "it has not joined");
    join(&first).await.unwrap();
    let (second, _) = member(&network, 2, 2, 7);
    join(&second).await.unwrap();
    until(&first.env, || live(&first) == 2 && live(&second) == 2).await;
    assert!(second.stop_gossip() && !second.gossips());
    until(&first.env, || live(&first) == 1).await;
    let versions = first.schema_versions().await;
    assert_eq!(versions, [(endpoint(1), Some(Uuid::from_u128(7))), (endpoint(2), None)]);

    let before = second.with_gossip(|gossiper| gossiper.own().generation);
    let refused = second.start_gossip(true, |_| Err(MemberError::TooLong("nothing")));
    assert!(refused.is_err() && !second.gossips(), "what is not written down is not said");
    let mut kept = 0;
    let keep = |generation| {
        kept = generation;
        Ok::<(), MemberError>(())
    };
    second.start_gossip(true, keep).unwrap();
    assert!(kept > before && second.gossips());
    until(&first.env, || live(&first) == 2).await;
    let known = first.with_gossip(|gossiper| gossiper.state(&endpoint(2)).cloned()).unwrap();
    assert_eq!((known.generation, known.is_rpc_ready()), (kept, true));
    let versions = first.schema_versions().await;
    assert_eq!(versions[1], (endpoint(2), Some(Uuid::from_u128(7))));

    second.announce_shutdown().await;
    second.start_gossip(true, |_| Err(MemberError::TooLong("nothing"))).unwrap();
    assert!(second.has_left() && !second.gossips(), "who has left says nothing any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_comes_back_under_another_address_is_one_node() {
    tokio::join!(comes_back_under_another_address(true), comes_back_under_another_address(false));
}

/// Clients find it elsewhere, too, or where they did before.
async fn comes_back_under_another_address(is_found_elsewhere: bool) {
    let network = Arc::new(Network::default());
    let (first, of_first, second) = two_members(&network).await;
    second.announce_shutdown().await;
    until(&first.env, || live(&first) == 1).await;
    let (moved, of_moved) = member_at(&network, 3, 2, 7, (if is_found_elsewhere { 3 } else { 2 }, "dc"));
    moved.look_around().await.unwrap();
    moved.begin().await.unwrap();
    moved.take_tokens(vec![20]).unwrap();
    moved.set_ready(true);
    for (member, host) in [(&first, &of_first), (&moved, &of_moved)] {
        // The address before is known until the node's states are there.
        let known =
            || -> BTreeSet<_> { member.topology().members().iter().map(|member| member.endpoint).collect() };
        let expected = BTreeSet::from([endpoint(1), endpoint(3)]);
        until(&first.env, || live(member) == 2 && known() == expected).await;
        until(&first.env, || !host.saved.lock().contains_key(&endpoint(2))).await;
    }
    let is_told = of_first.told.lock().contains(&RingEvent::Left(native_of(2)));
    assert_eq!(is_told, is_found_elsewhere, "clients do not lose a node that they find");
    assert_eq!(*of_first.forgotten.lock(), [(endpoint(2), None)], "the hints for it are kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_tokens_are_anothers_is_forgotten() {
    let network = Arc::new(Network::default());
    let (first, of_first, second) = two_members(&network).await;
    second.announce_shutdown().await;
    let (third, _) = member(&network, 3, 3, 7);
    third.look_around().await.unwrap();
    third.begin().await.unwrap();
    third.take_tokens(vec![20]).unwrap();
    until(&first.env, || of_first.forgotten.lock().contains(&(endpoint(2), Some(Uuid::from_u128(2))))).await;
    let has_replaced = || {
        let members = first.topology().members();
        members.by_endpoint(&endpoint(2)).is_none() && members.by_endpoint(&endpoint(3)).is_some()
    };
    until(&first.env, has_replaced).await;
}
