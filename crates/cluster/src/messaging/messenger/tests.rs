use super::super::handshake::VERSION_50;
use super::*;
use env::fs::faulty::FaultyFileSystem;
use env::fs::memory::MemoryFileSystem;
use env::sim::Simulation;
use env::sync::Mutex;
use env::tasks::block_on;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Takes messages to nodes in memory, at once, and writes down what it took.
#[derive(Default)]
struct Network {
    nodes: Mutex<Vec<(Endpoint, Weak<dyn Inbox>)>>,
    taken: Mutex<Vec<(Endpoint, Message)>>,
    /// What sending answers, if not that it went well.
    refuses: Mutex<Option<SendError>>,
}

struct Node {
    network: Arc<Network>,
    me: Endpoint,
}

impl Transport for Node {
    fn attach(&self, inbox: Weak<dyn Inbox>) {
        self.network.nodes.lock().push((self.me, inbox));
    }

    fn version(&self, _: Endpoint) -> Option<u32> {
        Some(VERSION_50)
    }

    fn send(&self, to: Endpoint, message: Message) -> Result<(), SendError> {
        if let Some(error) = *self.network.refuses.lock() {
            return Err(error);
        }
        self.network.taken.lock().push((to, message.clone()));
        let inbox =
            self.network.nodes.lock().iter().find(|(node, _)| *node == to).map(|(_, inbox)| inbox.clone());
        if let Some(inbox) = inbox.and_then(|inbox| inbox.upgrade()) {
            inbox.receive(self.me, VERSION_50, message);
        }
        Ok(())
    }

    fn interrupt(&self, _: Endpoint) {}

    fn forget(&self, _: Endpoint) {}
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, last].into(), 7000)
}

/// Three nodes in a simulation of that seed.
struct World {
    network: Arc<Network>,
    nodes: [Arc<Messenger>; 3],
    env: Env,
}

fn in_world(then: impl Fn(&World, &Simulation)) {
    for seed in 0..20 {
        Simulation::run(seed, |simulation| {
            let files = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
            let env = simulation.env(&files);
            let network = Arc::new(Network::default());
            let nodes = [1, 2, 3].map(|last| {
                let node = Node { network: Arc::clone(&network), me: endpoint(last) };
                Messenger::new(env.clone(), MessengerOptions::default(), Arc::new(node))
            });
            then(&World { network, nodes, env }, simulation);
        });
    }
}

fn read() -> Message {
    Message::new(Verb::ReadReq, "key")
}

/// Answers reads with what they ask for.
fn echo(messenger: &Arc<Messenger>, request: Request) {
    let reply = request.reply_to();
    let answer = reply.answer(request.message.payload.clone()).unwrap();
    messenger.respond(&reply, answer).unwrap();
}

#[test]
fn a_call_ends_with_its_answer() {
    in_world(|world, _| {
        let [a, b, _] = &world.nodes;
        assert!(b.handle(Verb::ReadReq, Arc::new(echo)));
        assert!(!b.handle(Verb::ReadReq, Arc::new(echo)), "a verb has one handler");
        let answer = block_on(a.call(endpoint(2), read(), TIMEOUT)).unwrap();
        assert_eq!((answer.verb, &answer.payload[..]), (Verb::ReadRsp, &b"key"[..]));
        assert_eq!(a.calls_waiting(), 0);
        assert_eq!(a.counts(Verb::ReadReq), VerbCounts { sent: 1, ..VerbCounts::default() });
        assert_eq!(b.counts(Verb::ReadReq), VerbCounts { received: 1, ..VerbCounts::default() });
        assert_eq!(b.counts(Verb::ReadRsp).sent, 1);
    });
}

#[test]
fn a_request_and_its_answer_live_as_long_as_the_call() {
    in_world(|world, simulation| {
        let [a, b, _] = &world.nodes;
        let clock = Arc::clone(simulation.clock());
        b.handle(
            Verb::ReadReq,
            Arc::new(move |messenger: &Arc<Messenger>, request: Request| {
                clock.advance(Duration::from_millis(500));
                echo(messenger, request);
            }),
        );
        block_on(a.call(endpoint(2), read(), TIMEOUT)).unwrap();
        let taken = world.network.taken.lock();
        let lives: Vec<u64> = taken.iter().map(|(_, message)| message.expires_after_millis).collect();
        assert_eq!(lives, [2_000, 1_500]);
        assert!(taken[0].1.flags.has(Flags::CALL_BACK_ON_FAILURE));
        assert_eq!(taken[1].1.version, Some(VERSION_50), "an answer is encoded as its request");
    });
}

#[test]
fn a_call_without_an_answer_times_out() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        let started = world.env.clock.monotonic_nanos();
        let call = a.call(endpoint(9), read(), TIMEOUT);
        assert_eq!(a.calls_waiting(), 1, "it is sent before anybody waits");
        assert_eq!(block_on(call), Err(CallError::TimedOut));
        assert!(world.env.clock.monotonic_nanos() - started >= TIMEOUT.as_nanos() as u64);
        assert_eq!(a.calls_waiting(), 0);
    });
}

#[test]
fn a_call_that_nobody_waits_for_is_forgotten() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        drop(a.call(endpoint(9), read(), TIMEOUT));
        assert_eq!(a.calls_waiting(), 0);
        // Its answer is of no use to anybody.
        let (_, request) = world.network.taken.lock().pop().unwrap();
        let answer = Message { verb: Verb::ReadRsp, ..request };
        a.receive(endpoint(9), VERSION_50, answer);
    });
}

#[test]
fn a_failure_ends_a_call_with_its_reason() {
    in_world(|world, _| {
        let [a, b, _] = &world.nodes;
        let fails = |messenger: &Arc<Messenger>, request: Request| {
            messenger.fail(&request.reply_to(), FailureReason::IncompatibleSchema).unwrap();
        };
        b.handle(Verb::ReadReq, Arc::new(fails));
        let failed = block_on(a.call(endpoint(2), read(), TIMEOUT));
        assert_eq!(failed, Err(CallError::Failed(FailureReason::IncompatibleSchema)));
        // Who sent it without waiting hears nothing.
        let sent_before = b.counts(Verb::FailureRsp).sent;
        a.send(endpoint(2), read(), TIMEOUT).unwrap();
        assert_eq!(b.counts(Verb::FailureRsp).sent, sent_before);
    });
}

#[test]
fn a_verb_that_nobody_handles_fails() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        let failed = block_on(a.call(endpoint(2), read(), TIMEOUT));
        assert_eq!(failed, Err(CallError::Failed(FailureReason::Unknown)));
    });
}

#[test]
fn a_ping_is_answered_on_the_connection_that_it_names() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        block_on(a.call(endpoint(2), Message::new(Verb::PingReq, vec![3]), TIMEOUT)).unwrap();
        let taken = world.network.taken.lock();
        assert_eq!(taken[1].1.verb, Verb::PingRsp);
        assert_eq!(taken[1].1.connection, Some(ConnectionKind::Large));
    });
}

#[test]
fn what_is_not_sent_ends_its_call_at_once() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        let call = a.call(endpoint(9), read(), TIMEOUT);
        let (to, message) = world.network.taken.lock().pop().unwrap();
        a.lost(to, message.verb, message.id, Loss::Interrupted);
        assert_eq!(block_on(call), Err(CallError::Lost(Loss::Interrupted)));
        *world.network.refuses.lock() = Some(SendError::Full);
        let refused = block_on(a.call(endpoint(9), read(), TIMEOUT));
        assert_eq!(refused, Err(CallError::NotSent(SendError::Full)));
        assert_eq!(a.send(endpoint(9), read(), TIMEOUT), Err(SendError::Full));
        assert_eq!((a.calls_waiting(), a.counts(Verb::ReadReq).sent), (0, 1));
    });
}

#[test]
fn an_answer_that_is_lost_ends_no_call() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        let call = a.call(endpoint(9), read(), TIMEOUT);
        let id = world.network.taken.lock()[0].1.id;
        a.lost(endpoint(9), Verb::MutationRsp, id, Loss::Expired);
        assert_eq!(a.calls_waiting(), 1);
        drop(call);
    });
}

#[test]
fn an_answer_counts_only_from_the_node_that_was_asked_and_of_the_right_kind() {
    in_world(|world, _| {
        let [a, ..] = &world.nodes;
        let call = a.call(endpoint(9), read(), TIMEOUT);
        let (_, request) = world.network.taken.lock().pop().unwrap();
        let answer = |verb| Message { verb, ..request.clone() };
        a.receive(endpoint(8), VERSION_50, answer(Verb::ReadRsp));
        a.receive(endpoint(9), VERSION_50, answer(Verb::MutationRsp));
        assert_eq!(a.calls_waiting(), 1);
        a.receive(endpoint(9), VERSION_50, answer(Verb::ReadRsp));
        assert_eq!(block_on(call).unwrap().verb, Verb::ReadRsp);
    });
}

#[test]
fn messages_that_come_too_late_are_dropped_and_counted() {
    in_world(|world, _| {
        let [_, b, _] = &world.nodes;
        b.handle(Verb::ReadReq, Arc::new(echo));
        let now = world.env.clock.now_millis();
        let at = |created_millis| Message { id: 7, created_millis, expires_after_millis: 2_000, ..read() };
        b.receive(endpoint(1), VERSION_50, at(now - 2_000));
        assert_eq!(b.counts(Verb::ReadReq), VerbCounts { received: 1, dropped: 1, sent: 0 });
        b.receive(endpoint(1), VERSION_50, at(now - 1_900));
        assert_eq!(b.counts(Verb::ReadRsp).sent, 1);
        // A clock that is ahead gives no more time than one that is right.
        b.receive(endpoint(1), VERSION_50, at(now + 60_000));
        let last = world.network.taken.lock().last().unwrap().1.expires_after_millis;
        assert!(last <= 2_000, "{last}");
    });
}

#[test]
fn without_internode_timeout_the_age_of_messages_begins_here() {
    Simulation::run(1, |simulation| {
        let env = simulation.env(&FaultyFileSystem::new(Arc::new(MemoryFileSystem::new())));
        let network = Arc::new(Network::default());
        let node = Arc::new(Node { network: Arc::clone(&network), me: endpoint(1) });
        let options = MessengerOptions { internode_timeout: false };
        let messenger = Messenger::new(env.clone(), options, node);
        messenger.handle(Verb::ReadReq, Arc::new(echo));
        let long_ago = Message { created_millis: 5, expires_after_millis: 2_000, ..read() };
        messenger.receive(endpoint(2), VERSION_50, long_ago);
        assert_eq!(messenger.counts(Verb::ReadReq).dropped, 0);
        assert_eq!(messenger.counts(Verb::ReadRsp).sent, 1);
    });
}

#[test]
fn a_request_is_passed_on_and_every_node_answers_who_asked() {
    in_world(|world, _| {
        let [a, b, c] = &world.nodes;
        let writes = |messenger: &Arc<Messenger>, request: Request| {
            messenger.forward(&request);
            echo(messenger, request);
        };
        b.handle(Verb::MutationReq, Arc::new(writes));
        c.handle(Verb::MutationReq, Arc::new(writes));
        let nodes = [endpoint(2), endpoint(3), endpoint(3)];
        let calls = a.call_through(&nodes, Message::new(Verb::MutationReq, "row"), TIMEOUT);
        assert_eq!(calls.iter().map(|(of, _)| *of).collect::<Vec<_>>(), nodes[..2]);
        for (_, call) in calls {
            assert_eq!(block_on(call).unwrap().verb, Verb::MutationRsp);
        }
        assert_eq!((a.counts(Verb::MutationReq).sent, b.counts(Verb::MutationReq).sent), (1, 1));
        assert_eq!(c.counts(Verb::MutationReq), VerbCounts { received: 1, ..VerbCounts::default() });
        let taken = world.network.taken.lock();
        let forwarded = &taken.iter().find(|(to, _)| *to == endpoint(3)).unwrap().1;
        assert_eq!(forwarded.params, [Param::RespondTo(endpoint(1))]);
        assert_eq!(forwarded.version, Some(VERSION_50));
    });
}
