//! Bytes that nobody would send who means well: tickets, commands, handles and values of Flight, cut off,
//! changed, or made up. Each is answered with rows or with a status of its kind, in words. Whatever panics
//! fails the test, in this thread or in one of those that scan.

use super::parameters::{Client, command};
use crate::handle::{Prepared, Value};
use crate::sql::SqlLimits;
use crate::ticket::{Asked, ScanCommand, TICKET_BYTES_MAX, Ticket};
use crate::{EmptyValues, Form, RowCut, ScanOptions, Select, Split};
use arrow_array::{Int32Array, RecordBatch, StringArray};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, CommandGetDbSchemas,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandStatementQuery, CommandStatementUpdate, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{Action, FlightData, FlightDescriptor, Ticket as WireTicket};
use futures::{StreamExt, TryStreamExt};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tonic::{Code, Status};

const CASES: u32 = 96;
/// Bytes of all messages that a hostile request may be answered with: the table is small.
const ANSWER_BYTES_MAX: usize = 8 << 20;

struct Server {
    runtime: Runtime,
    client: Client,
}

impl Server {
    fn new() -> Server {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let limits = SqlLimits { memory_bytes: 16 << 20, ..SqlLimits::default() };
        Server { runtime, client: Client::with(limits, |tables| tables) }
    }

    /// Sends bytes wherever bytes are taken.
    fn take(&mut self, bytes: &[u8]) -> Result<(), TestCaseError> {
        let Server { runtime, client } = self;
        runtime.block_on(async {
            let bytes = bytes.to_vec();
            let descriptor = FlightDescriptor::new_cmd(bytes.clone());
            judge(client.0.get_flight_info(descriptor.clone()).await.map(drop))?;
            judge(client.0.get_schema(descriptor.clone()).await.map(drop))?;
            judge(fetch(client, WireTicket::new(bytes.clone())).await)?;
            let handle = TicketStatementQuery { statement_handle: bytes.clone().into() };
            judge(fetch(client, WireTicket::new(handle.as_any().encode_to_vec())).await)?;
            let prepared = command(&bytes);
            judge(fetch(client, WireTicket::new(prepared.cmd.clone())).await)?;
            judge(client.0.get_flight_info(prepared).await.map(drop))?;
            for name in
                ["CreatePreparedStatement", "ClosePreparedStatement", "ilion.schema", "BeginSavepoint"]
            {
                judge(client.0.do_action(Action::new(name, bytes.clone())).await.map(drop))?;
            }
            let data = FlightData { flight_descriptor: Some(descriptor), ..FlightData::default() };
            judge(put(client, vec![data]).await)
        })
    }
}

async fn fetch(client: &mut Client, ticket: WireTicket) -> Result<(), Status> {
    let mut answer = client.0.do_get(ticket).await?.into_inner();
    let mut bytes = 0;
    while let Some(message) = answer.message().await? {
        bytes += message.data_body.len() + message.data_header.len();
        assert!(bytes < ANSWER_BYTES_MAX, "a small table has no answer of {bytes} bytes");
    }
    Ok(())
}

async fn put(client: &mut Client, data: Vec<FlightData>) -> Result<(), Status> {
    let answers = client.0.do_put(futures::stream::iter(data)).await?.into_inner();
    answers.try_for_each(|_| async { Ok(()) }).await
}

/// Whether a refusal is one: of a kind, in words, and no sign of a panic.
fn judge(outcome: Result<(), Status>) -> Result<(), TestCaseError> {
    let Err(status) = outcome else { return Ok(()) };
    let kinds = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::Unimplemented,
        Code::ResourceExhausted,
        // Of what the statement computes: a division by zero, a cast.
        Code::Internal,
    ];
    prop_assert!(kinds.contains(&status.code()), "{status:?}");
    let words = status.message();
    prop_assert!(
        !words.is_empty() && !words.contains("panic") && !words.contains("ended before"),
        "{status:?}"
    );
    Ok(())
}

/// Commands, tickets and handles that mean something.
fn honest() -> Vec<Vec<u8>> {
    let key = "0004000000010000016100".to_owned();
    let cut = |value: &str| RowCut { key: key.clone(), before: vec![value.to_owned()] };
    let select = Select {
        filter: Some("c > 1 AND t = 'a'".to_owned()),
        columns: Some(vec!["k".to_owned(), "t".to_owned()]),
        token_range: Some((-5, 1 << 60)),
        limit: Some(7),
        salvage: true,
        ..Select::of("ks", "t")
    };
    let split = Split {
        after: Some(-7),
        through: Some(7),
        from_row: Some(cut("00000001")),
        until_row: Some(cut("00000002")),
        ..Split::FULL
    };
    let bound = Prepared {
        sql: "SELECT * FROM t WHERE k = ? AND t > ? OR ts < ?".to_owned(),
        values: vec![Value::Integer(1), Value::Text("b".to_owned()), Value::Timestamp(5)],
    };
    let statement =
        "SELECT k, count(*) FROM ks.t WHERE c IN (1, 2) GROUP BY k ORDER BY 2 DESC LIMIT 3".to_owned();
    let ticket = |asked| Ticket { asked, now_s: 5, split: Some(split.clone()) }.to_bytes();
    let wire = |handle: Vec<u8>| TicketStatementQuery { statement_handle: handle.into() }.as_any();
    let tickets = [
        ticket(Asked::Scan(select.clone())),
        ticket(Asked::Sql(statement.clone())),
        ticket(Asked::Bound(bound.clone())),
    ];
    let of_sql = CommandStatementQuery { query: statement.clone(), transaction_id: Some(vec![1].into()) };
    let prepare = ActionCreatePreparedStatementRequest { query: statement.clone(), transaction_id: None };
    let close = ActionClosePreparedStatementRequest { prepared_statement_handle: b"x".to_vec().into() };
    let update = CommandStatementUpdate { query: "DELETE FROM t".to_owned(), transaction_id: None };
    let schemas = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("k%".to_owned()) };
    let tables = CommandGetTables {
        table_name_filter_pattern: Some("_".to_owned()),
        table_types: vec!["TABLE".to_owned()],
        include_schema: true,
        ..CommandGetTables::default()
    };
    let keys = CommandGetPrimaryKeys { table: "t".to_owned(), ..CommandGetPrimaryKeys::default() };
    let mut out: Vec<Vec<u8>> = vec![
        statement.into_bytes(),
        bound.to_handle().unwrap(),
        of_sql.as_any().encode_to_vec(),
        prepare.as_any().encode_to_vec(),
        close.as_any().encode_to_vec(),
        update.as_any().encode_to_vec(),
        schemas.as_any().encode_to_vec(),
        tables.as_any().encode_to_vec(),
        keys.as_any().encode_to_vec(),
        CommandGetSqlInfo { info: vec![0, 500, u32::MAX] }.as_any().encode_to_vec(),
        CommandGetXdbcTypeInfo { data_type: Some(4) }.as_any().encode_to_vec(),
        ScanCommand { select, parts: 9 }.to_any().encode_to_vec(),
    ];
    out.extend(tickets.iter().map(|handle| wire(handle.clone()).encode_to_vec()));
    out.extend(tickets);
    out
}

/// One change of bytes.
#[derive(Clone, Debug)]
enum Change {
    Cut(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Double(prop::sample::Index),
    /// A number of JSON, or what follows a tag of protobuf, becomes the greatest there is.
    Grow(prop::sample::Index),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Flip(at, bits) => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Change::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Remove(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..bytes.len().min(at + count));
            }
            Change::Double(at) => {
                let tail = bytes[at.index(bytes.len())..].to_vec();
                bytes.extend(tail);
            }
            Change::Grow(at) => {
                let from = at.index(bytes.len());
                match bytes[from..].iter().position(u8::is_ascii_digit) {
                    Some(digit) => drop(bytes.splice(from + digit..=from + digit, *b"18446744073709551615")),
                    None => drop(bytes.splice(from..=from, [0xff; 10])),
                }
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Change::Cut),
        (at(), 1..=255u8).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (at(), vec(any::<u8>(), 1..9)).prop_map(|(at, more)| Change::Insert(at, more)),
        (at(), 1..9usize).prop_map(|(at, count)| Change::Remove(at, count)),
        at().prop_map(Change::Double),
        at().prop_map(Change::Grow),
    ]
}

/// Words that tables and statements know, and others.
fn word() -> impl Strategy<Value = String> {
    let known =
        ["ks", "t", "k", "k2", "c", "c2", "s", "", "system", "\"", "token(k, k2) > 1", "c > 1", "k = 1"];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,12}"]
}

fn extreme() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(-1), Just(0), Just(1), Just(i64::MAX), any::<i64>()]
}

fn cut() -> impl Strategy<Value = RowCut> {
    let hex = || prop_oneof!["[0-9a-f]{0,24}", Just("00000001".to_owned()), ".{0,4}"];
    let key = prop_oneof![Just("0004000000010000016100".to_owned()), hex()];
    (key, vec(hex(), 0..4)).prop_map(|(key, before)| RowCut { key, before })
}

fn split() -> impl Strategy<Value = Split> {
    let place = || option::of(extreme());
    let estimates = (any::<u64>(), any::<u64>());
    (place(), place(), estimates, option::of(cut()), option::of(cut())).prop_map(
        |(after, through, (bytes_estimate, rows_estimate), from_row, until_row)| Split {
            after,
            through,
            bytes_estimate,
            rows_estimate,
            from_row,
            until_row,
        },
    )
}

fn select() -> impl Strategy<Value = Select> {
    let name = |usual: &'static str| prop_oneof![4 => Just(usual.to_owned()), 1 => word()];
    let form = prop::sample::select(vec![Form::Arrow, Form::Json, Form::Flat]);
    let empty = prop::sample::select(vec![EmptyValues::Null, EmptyValues::Marked, EmptyValues::Refused]);
    let options =
        (form, empty, any::<[bool; 3]>()).prop_map(|(form, empty_values, [times, token, deletions])| {
            ScanOptions { form, empty_values, cell_times: times, token, deletions }
        });
    let range = option::of((extreme(), extreme()));
    let limit = option::of(prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()]);
    let form = (options, any::<bool>());
    (name("ks"), name("t"), option::of(word()), option::of(vec(word(), 0..4)), range, limit, form).prop_map(
        |(keyspace, table, filter, columns, token_range, limit, (options, salvage))| Select {
            keyspace,
            table,
            filter,
            columns,
            token_range,
            limit,
            options,
            salvage,
        },
    )
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        extreme().prop_map(Value::Integer),
        any::<u64>().prop_map(Value::Double),
        word().prop_map(Value::Text),
        vec(any::<u8>(), 0..9).prop_map(Value::Bytes),
        any::<i32>().prop_map(Value::Date),
        extreme().prop_map(Value::Time),
        extreme().prop_map(Value::Timestamp),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let texts = [
        "SELECT * FROM t WHERE k = $1",
        "SELECT * FROM t WHERE ts > $1 AND t = $2",
        "SELECT $1 FROM ks.t",
        "SELECT count(*) FROM t WHERE d < ? LIMIT ?",
        "SELECT 1",
        "SELECT da, bo, n FROM t WHERE c = ? ORDER BY vi",
    ];
    let sql = prop_oneof![4 => prop::sample::select(texts.to_vec()).prop_map(str::to_owned), 1 => word()];
    let sql = sql.boxed();
    let bound = (sql.clone(), vec(value(), 0..4)).prop_map(|(sql, values)| Prepared { sql, values });
    prop_oneof![select().prop_map(Asked::Scan), sql.prop_map(Asked::Sql), bound.prop_map(Asked::Bound)]
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn what_is_honest_is_answered_and_what_is_cut_off_is_refused() {
    let mut server = Server::new();
    for bytes in honest() {
        server.take(&bytes).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 8 + 1) {
            server.take(&bytes[..at]).unwrap();
        }
    }
}

#[test]
fn changed_bytes_are_answered_in_words() {
    let server = std::cell::RefCell::new(Server::new());
    let strategy = (prop::sample::select(honest()), vec(change(), 1..4));
    proptest!(config(), |((mut bytes, changes) in strategy)| {
        changes.iter().for_each(|change| change.apply(&mut bytes));
        server.borrow_mut().take(&bytes)?;
    });
}

#[test]
fn random_bytes_are_answered_in_words() {
    let server = std::cell::RefCell::new(Server::new());
    let magic =
        prop::sample::select(vec![&b""[..], b"ILT1", b"ILP1", b"ILT1{\"asked\":", b"\x0a\x0ailion.scan\x12"]);
    proptest!(config(), |((magic, rest) in (magic, vec(any::<u8>(), 0..200)))| {
        server.borrow_mut().take(&[magic, &rest[..]].concat())?;
    });
}

#[test]
fn made_up_tickets_are_answered_in_words() {
    let server = std::cell::RefCell::new(Server::new());
    let parts = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let strategy = (asked(), any::<u32>(), option::of(split()), parts);
    proptest!(config(), |((asked, now_s, split, parts) in strategy)| {
        let scan = match &asked {
            Asked::Scan(select) => ScanCommand { select: select.clone(), parts }.to_any().encode_to_vec(),
            _ => Vec::new(),
        };
        let bytes = Ticket { asked, now_s, split }.to_bytes();
        let handle = TicketStatementQuery { statement_handle: bytes.into() };
        let Server { runtime, client } = &mut *server.borrow_mut();
        runtime.block_on(async {
            judge(fetch(client, WireTicket::new(handle.as_any().encode_to_vec())).await)?;
            judge(client.0.get_flight_info(FlightDescriptor::new_cmd(scan)).await.map(drop))
        })?;
    });
}

#[test]
fn as_many_parts_as_there_can_be_are_few_where_there_are_few_bytes() {
    let Server { runtime, mut client } = Server::new();
    let command = ScanCommand { select: Select::of("ks", "t"), parts: u64::MAX }.to_any().encode_to_vec();
    let info = runtime.block_on(client.0.get_flight_info(FlightDescriptor::new_cmd(command))).unwrap();
    assert!(info.into_inner().endpoint.len() < 10);
}

#[test]
fn enormous_lengths_take_no_memory() {
    let mut server = Server::new();
    let nested = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat();
    let bytes: Vec<Vec<u8>> = vec![
        // Lengths of protobuf that nothing stands behind.
        vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
        vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x07],
        [b"ILT1".to_vec(), vec![b'['; TICKET_BYTES_MAX + 1]].concat(),
        format!("ILT1{}", nested("{\"asked\":", "}")).into_bytes(),
        format!("ILP1{{\"sql\":\"SELECT 1\",\"values\":{}}}", nested("[", "]")).into_bytes(),
        format!("ILP1{{\"sql\":\"SELECT 1\",\"values\":[{}\"null\"]}}", "\"null\",".repeat(60_000))
            .into_bytes(),
        format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)).into_bytes(),
        format!("SELECT 1{}", " + 1".repeat(100_000)).into_bytes(),
        format!("SELECT {}1", "NOT ".repeat(60_000)).into_bytes(),
        format!("SELECT {}1{}", "CASE WHEN 1 = 1 THEN ".repeat(10_000), " END".repeat(10_000)).into_bytes(),
        format!("SELECT * FROM t WHERE k IN ({}1)", "1,".repeat(10_000)).into_bytes(),
        vec![b'x'; 3 << 20],
    ];
    for bytes in &bytes {
        server.take(bytes).unwrap();
    }
}

/// What a client sends that binds values, as messages.
fn bound() -> Vec<FlightData> {
    let batch = RecordBatch::try_from_iter([
        ("1", Arc::new(Int32Array::from(vec![1])) as _),
        ("2", Arc::new(StringArray::from(vec!["text"])) as _),
    ]);
    let stream = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(command(b"SELECT * FROM t WHERE k = ? AND t = ?")))
        .build(futures::stream::iter([Ok(batch.unwrap())]))
        .map(Result::unwrap);
    futures::executor::block_on(stream.collect())
}

#[test]
fn changed_values_are_refused_in_words() {
    let server = std::cell::RefCell::new(Server::new());
    let strategy = (any::<prop::sample::Index>(), any::<bool>(), vec(change(), 1..4));
    proptest!(config(), |((at, is_header, changes) in strategy)| {
        let mut messages = bound();
        let at = at.index(messages.len());
        let message = &mut messages[at];
        let part = if is_header { &mut message.data_header } else { &mut message.data_body };
        let mut bytes = part.to_vec();
        changes.iter().for_each(|change| change.apply(&mut bytes));
        *part = bytes.into();
        let Server { runtime, client } = &mut *server.borrow_mut();
        runtime.block_on(async { judge(put(client, messages).await) })?;
    });
}
