//! Replicas that a test can stop, fill and break.

use super::*;

/// Rows of partitions in memory; static rows under the empty clustering of tables that have clustering
/// columns.
pub(super) type Rows = BTreeMap<(Uuid, DecoratedKey), PartitionUpdate>;

/// Keys, or a range, and the scan of which the read is a part.
pub(super) type Asked = (Result<Vec<DecoratedKey>, KeyRange>, Option<KeyRange>);

/// What a fake was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Data,
    Digest,
    Mutate,
    Repair,
    Prepare,
    Propose,
    Commit,
    Truncate,
}

#[derive(Debug, Default)]
pub(super) struct Fake {
    /// The schema, once it is known.
    pub(super) schema: OnceLock<Arc<Schema>>,
    pub(super) rows: Mutex<Rows>,
    pub(super) broken: AtomicBool,
    pub(super) full: AtomicBool,
    /// Whether reads and writes of users' tables never end.
    pub(super) stuck: AtomicBool,
    /// Whether a read may not be answered at once.
    pub(super) cold: AtomicBool,
    /// The SSTable that reads wait for.
    pub(super) unproven: Mutex<Option<Arc<str>>>,
    /// Table whose writes fail.
    pub(super) refuses: Mutex<Option<Uuid>>,
    /// Verbs that never end when they come from elsewhere, and verbs that fail then.
    pub(super) stuck_at: Mutex<Vec<Verb>>,
    pub(super) fails_at: Mutex<Vec<Verb>>,
    /// Whether its digests are wrong.
    pub(super) lies: AtomicBool,
    /// Whether repairs fail.
    pub(super) is_beyond_repair: AtomicBool,
    /// Whether writes never end.
    pub(super) keeps_writes_waiting: AtomicBool,
    /// What it has kept.
    pub(super) mutations: Mutex<Vec<Arc<Mutation>>>,
    /// Verbs that it was called with from elsewhere.
    pub(super) verbs: Mutex<Vec<Verb>>,
    /// To how many others it passed each write on.
    pub(super) passed_on: Mutex<Vec<usize>>,
    /// Reads that it was asked for.
    pub(super) asked: Mutex<Vec<Asked>>,
    /// When each table was emptied.
    pub(super) truncated: Mutex<BTreeMap<Uuid, i64>>,
}

impl LocalStore for Fake {
    fn schema(&self) -> Arc<Schema> {
        self.schema.get().cloned().unwrap()
    }

    fn stream(&self, command: &Arc<ReadCommand>, context: &ReadContext) -> Result<BoxedStream, ReadError> {
        let partitions = match &command.partitions {
            PartitionSelection::Keys(keys) => Ok(keys.clone()),
            PartitionSelection::Range(range) => Err(range.clone()),
        };
        self.asked.lock().unwrap().push((partitions, context.scan.as_deref().cloned()));
        if self.broken.load(Ordering::SeqCst) {
            return Err(ReadError::from(std::io::Error::other("broken")));
        }
        if self.cold.load(Ordering::SeqCst) && !context.may_block {
            return Err(ReadError::WouldBlock);
        }
        if let Some(name) = &*self.unproven.lock().unwrap() {
            return Err(ReadError::Unproven(Arc::clone(name)));
        }
        let rows = self.rows.lock().unwrap();
        let mut updates: Vec<PartitionUpdate> =
            rows.iter().filter(|((t, _), _)| *t == command.table.id).map(|(_, u)| u.clone()).collect();
        updates.retain(|u| match &command.partitions {
            PartitionSelection::Keys(keys) => keys.contains(&u.key),
            PartitionSelection::Range(range) => range.contains(&u.key),
        });
        for update in &mut updates {
            update.rows.retain(|r| command.clusterings.selects(command.table.comparator(), &r.clustering));
        }
        Ok(Box::new(Play::new(updates)))
    }

    fn proven(&self, _: Arc<str>, _: Option<Deadline>) -> Proving {
        let waited_for = self.unproven.lock().unwrap().take();
        Box::pin(std::future::ready(waited_for.map(drop).ok_or(ReadError::TimedOut)))
    }

    fn mutate(&self, mutation: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        if self.full.load(Ordering::SeqCst) {
            return Answer::ready(Err(ReplicaError::Overloaded("full".into())));
        }
        let is_system = mutation.updates.iter().any(|u| u.table.keyspace == "system");
        let waits = self.stuck.load(Ordering::SeqCst) || self.keeps_writes_waiting.load(Ordering::SeqCst);
        if waits && !is_system {
            return Answer::later(std::future::pending());
        }
        let refused = *self.refuses.lock().unwrap();
        if self.broken.load(Ordering::SeqCst) || mutation.updates.iter().any(|u| Some(u.table.id) == refused)
        {
            return Answer::ready(Err(ReplicaError::Write("broken".into())));
        }
        self.mutations.lock().unwrap().push(Arc::clone(&mutation));
        let mut rows = self.rows.lock().unwrap();
        for update in &mutation.updates {
            let place = (update.table.id, update.key.clone());
            if !update.deletion.is_none() {
                rows.remove(&place);
                continue;
            }
            let known = rows
                .entry(place)
                .or_insert_with(|| PartitionUpdate::new(Arc::clone(&update.table), update.key.clone()));
            update.rows.iter().for_each(|r| known.add_row(r.clone()));
            update.static_row.iter().for_each(|r| known.add_static(r.clone()));
        }
        Answer::ready(Ok(()))
    }

    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()> {
        self.rows.lock().unwrap().retain(|(id, _), _| *id != table.id);
        Answer::ready(Ok(()))
    }

    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>> {
        Answer::ready(Ok(self.truncated.lock().unwrap().get(&table.id).copied()))
    }
}

/// A fake behind a network, and the replica that it is to itself.
#[derive(Debug)]
pub(super) struct Remote(pub(super) Arc<Fake>, pub(super) LocalReplica);

impl Remote {
    fn answer<T: Send + 'static>(&self, verb: Verb, answer: impl FnOnce() -> Answer<T>) -> Answer<T> {
        self.0.verbs.lock().unwrap().push(verb);
        let is_among = |verbs: &Mutex<Vec<Verb>>| verbs.lock().unwrap().contains(&verb);
        if self.0.stuck.load(Ordering::SeqCst) || is_among(&self.0.stuck_at) {
            return Answer::later(std::future::pending());
        }
        if is_among(&self.0.fails_at) {
            return Answer::ready(Err(ReadError::from(std::io::Error::other("fails")).into()));
        }
        answer()
    }
}

impl Fake {
    pub(super) fn record(&self, request: &DataRequest) -> Result<Recording, ReplicaError> {
        let context = ReadContext::default();
        let stream = without_purgeable(self.stream(&request.command, &context)?, &request.command);
        Ok(Recording::of(stream, &request.command, context, request.page)?)
    }
}

impl Replica for Remote {
    fn read_data(&self, request: &DataRequest) -> Answer<Recording> {
        self.answer(Verb::Data, || Answer::ready(self.0.record(request)))
    }

    fn read_digest(&self, request: &DataRequest) -> Answer<Digest> {
        let lie = u8::from(self.0.lies.load(Ordering::SeqCst));
        let digest = |recording: Recording| Digest(recording.digest(&request.command).0.map(|b| b ^ lie));
        self.answer(Verb::Digest, || Answer::ready(self.0.record(request).map(digest)))
    }

    fn mutate(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        self.0.verbs.lock().unwrap().push(Verb::Mutate);
        self.0.mutate(mutation, deadline)
    }

    fn mutate_and_pass_on(
        &self,
        others: &[&dyn Replica],
        mutation: &Arc<Mutation>,
        deadline: Option<&Deadline>,
    ) -> Vec<Answer<()>> {
        self.0.passed_on.lock().unwrap().push(others.len());
        let own = self.mutate(Arc::clone(mutation), deadline);
        let of_others = others.iter().map(|other| other.mutate(Arc::clone(mutation), deadline));
        std::iter::once(own).chain(of_others).collect()
    }

    fn repair(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        self.0.verbs.lock().unwrap().push(Verb::Repair);
        match self.0.is_beyond_repair.load(Ordering::SeqCst) {
            true => Answer::ready(Err(ReplicaError::Write("beyond repair".into()))),
            false => self.0.mutate(mutation, deadline),
        }
    }

    fn hint(&self, _: Hint, _: Option<&Deadline>) -> Answer<()> {
        unreachable!("hints are carried by who keeps them")
    }

    fn prepare(&self, request: Proposal, deadline: Option<&Deadline>) -> Answer<Promise> {
        self.answer(Verb::Prepare, || self.1.prepare(request, deadline))
    }

    fn propose(&self, proposal: Proposal, deadline: Option<&Deadline>) -> Answer<bool> {
        self.answer(Verb::Propose, || self.1.propose(proposal, deadline))
    }

    fn commit(&self, decided: Proposal, deadline: Option<&Deadline>) -> Answer<()> {
        self.answer(Verb::Commit, || self.1.commit(decided, deadline))
    }

    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()> {
        self.answer(Verb::Truncate, || self.0.truncate(table))
    }

    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>> {
        self.0.truncated_millis(table)
    }
}

/// What was told to who keeps hints: nodes by their number.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// Whether anything is kept.
    pub(super) keeps: AtomicBool,
    pub(super) missed: Mutex<Vec<u128>>,
    pub(super) late: Mutex<Vec<u128>>,
    pub(super) failed: Mutex<Vec<u128>>,
}

impl Hints for Noted {
    fn missed(&self, node: &Arc<Node>, _: &Arc<Mutation>) -> bool {
        self.missed.lock().unwrap().push(node.id.as_u128());
        self.keeps.load(Ordering::SeqCst)
    }

    fn late(&self, node: &Arc<Node>, _: &Arc<Mutation>, _: Answer<()>) {
        self.late.lock().unwrap().push(node.id.as_u128());
    }

    fn failed(&self, node: &Arc<Node>, _: &Arc<Mutation>, _: &ReplicaError) -> bool {
        self.failed.lock().unwrap().push(node.id.as_u128());
        self.keeps.load(Ordering::SeqCst)
    }
}

/// Plays updates as a stream.
pub(super) struct Play {
    steps: std::vec::IntoIter<(Event, DecoratedKey, Row)>,
}

impl Play {
    fn new(updates: Vec<PartitionUpdate>) -> Play {
        let mut steps = Vec::new();
        for update in updates {
            let key = &update.key;
            steps.push((Event::PartitionStart, key.clone(), Row::default()));
            steps.extend(update.static_row.into_iter().map(|r| (Event::StaticRow, key.clone(), r)));
            steps.extend(update.rows.into_iter().map(|r| (Event::Row, key.clone(), r)));
            steps.push((Event::PartitionEnd, key.clone(), Row::default()));
        }
        Play { steps: steps.into_iter() }
    }
}

impl PartitionStream for Play {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let Some((event, key, row)) = self.steps.next() else { return Ok(Event::End) };
        match event {
            Event::PartitionStart => {
                out.key = key;
                out.deletion = model::Deletion::NONE;
            }
            _ => out.row = row,
        }
        Ok(event)
    }
}
