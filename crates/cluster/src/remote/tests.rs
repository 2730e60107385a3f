//! Writes to another data center: one message goes there, and every node answers.

use super::*;
use crate::messaging::{Inbox, MessengerOptions, Request, Transport};
use env::Env;
use env::sync::Mutex;
use model::{Cell, Clustering, CqlType, DecoratedKey, PartitionKey, PartitionUpdate, Row};
use std::sync::Weak;

/// From, to, and how many the receiver passes it on to.
type Sent = (u8, u8, usize);

/// Carries messages at once. Nodes from 4 on speak another version.
#[derive(Default)]
struct Network {
    inboxes: Mutex<Vec<(Endpoint, Weak<dyn Inbox>)>>,
    sent: Mutex<Vec<Sent>>,
}

struct Wire(Arc<Network>, Endpoint);

fn number(endpoint: Endpoint) -> u8 {
    endpoint.to_string().split(['.', ':']).nth(3).unwrap().parse().unwrap()
}

fn version_of(endpoint: Endpoint) -> u32 {
    if number(endpoint) < 4 { 12 } else { 13 }
}

impl Transport for Wire {
    fn attach(&self, inbox: Weak<dyn Inbox>) {
        self.0.inboxes.lock().push((self.1, inbox));
    }

    fn version(&self, to: Endpoint) -> Option<u32> {
        Some(version_of(to))
    }

    fn send(&self, to: Endpoint, message: Message) -> Result<(), SendError> {
        assert!(message.suits(version_of(to)), "{message:?} to {to}");
        if message.verb == Verb::MutationReq {
            self.0.sent.lock().push((number(self.1), number(to), message.forward_to().len()));
        }
        let found = self.0.inboxes.lock().iter().find(|(at, _)| *at == to).map(|(_, inbox)| inbox.clone());
        if let Some(inbox) = found.and_then(|inbox| inbox.upgrade()) {
            inbox.receive(self.1, version_of(to), message);
        }
        Ok(())
    }

    fn interrupt(&self, _: Endpoint) {}

    fn forget(&self, _: Endpoint) {}
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, last].into(), 7000)
}

/// A node that keeps every write, but for node 3, which fails.
fn node(network: &Arc<Network>, last: u8) -> Arc<Messenger> {
    let wire = Arc::new(Wire(Arc::clone(network), endpoint(last)));
    let messenger = Messenger::new(Env::real(), MessengerOptions::default(), wire);
    let handler = move |messenger: &Arc<Messenger>, request: Request| {
        messenger.forward(&request);
        let reply = request.reply_to();
        let sent = match last {
            3 => messenger.fail(&reply, FailureReason::Unknown),
            _ => messenger.respond(&reply, reply.answer(Vec::new()).unwrap()),
        };
        sent.unwrap();
    };
    messenger.handle(Verb::MutationReq, Arc::new(handler));
    messenger
}

fn mutation() -> Arc<Mutation> {
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(5))
        .partition_key("k", CqlType::Int)
        .regular("v", CqlType::Int);
    let table = Arc::new(table.build());
    let v = table.column("v").unwrap().id;
    let key = DecoratedKey::new(PartitionKey::from_components(&[1i32.to_be_bytes()]));
    let mut update = PartitionUpdate::new(table, key);
    let mut row = Row::new(Clustering::empty());
    row.cells.push(Cell::live(v, 7, Bytes::copy_from_slice(&5i32.to_be_bytes())));
    update.rows.push(row);
    Arc::new(Mutation::of(update))
}

#[tokio::test]
async fn one_message_goes_to_another_data_center_and_every_node_there_answers_for_itself() {
    let network = Arc::new(Network::default());
    let nodes: Vec<Arc<Messenger>> = (1..=4).map(|last| node(&network, last)).collect();
    let replica = |last: u8| {
        let timeouts = RemoteTimeouts::default();
        RemoteReplica::new(Arc::clone(&nodes[0]), endpoint(last), Uuid::from_u128(last.into()), timeouts)
    };
    let (second, third, fourth) = (replica(2), replica(3), replica(4));
    // The fourth could not read the bytes that are passed on.
    let answers = second.mutate_and_pass_on(&[&fourth, &third], &mutation(), None);
    let mut outcomes = Vec::new();
    for answer in answers {
        outcomes.push(answer.await);
    }
    let [Ok(()), Ok(()), Err(ReplicaError::Elsewhere { address, .. })] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(*address, endpoint(3).ip, "who fails is told by its own name");
    let mut sent = network.sent.lock().clone();
    sent.sort_unstable();
    assert_eq!(sent, [(1, 2, 1), (1, 4, 0), (2, 3, 0)]);
    assert_eq!(nodes[0].calls_waiting(), 0);
}
