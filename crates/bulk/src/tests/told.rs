//! What a log is told of the requests of Flight.

use super::parameters::{Client, command, one, run, run_with};
use crate::flight::wire::TableFacts;
use crate::flight::{LogOfCaller, ReadLog};
use crate::sql::{SqlLimits, TableName};
use crate::ticket::{Asked, ScanCommand, Ticket};
use crate::{Batches, BulkError, ScanRequest, Select, Split, Table, Tables};
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, CommandStatementQuery, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{Action, FlightDescriptor, Ticket as WireTicket};
use env::sync::Mutex;
use futures::TryStreamExt;
use model::{Schema, TableSchema};
use prost::Message;
use std::sync::Arc;
use tonic::{Request, Status};

/// Keeps what it is told.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<String>>);

fn names(tables: &[TableName]) -> String {
    tables.iter().map(|name| format!("{}.{}", name.keyspace, name.table)).collect::<Vec<_>>().join(", ")
}

impl ReadLog for Kept {
    fn read(&self, _: &Ticket, statement: &str, tables: &[TableName]) {
        self.0.lock().push(format!("read {statement} of [{}]", names(tables)));
    }

    fn prepared(&self, statement: &str, tables: &[TableName]) {
        self.0.lock().push(format!("prepared {statement} of [{}]", names(tables)));
    }

    fn failed(&self, statement: &str, table: Option<&TableName>, why: &Status) {
        self.0.lock().push(format!("failed {statement} of {:?}: {:?}", table.map(|t| &t.table), why.code()));
    }
}

struct Told(Arc<Kept>);

impl Told {
    fn new() -> Told {
        Told(Arc::default())
    }

    fn asks<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(LogOfCaller(Arc::clone(&self.0) as Arc<dyn ReadLog>));
        request
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.0.lock())
    }
}

fn statement(text: &str) -> FlightDescriptor {
    let query = CommandStatementQuery { query: text.to_owned(), transaction_id: None };
    FlightDescriptor::new_cmd(query.as_any().encode_to_vec())
}

fn wire(ticket: &Ticket) -> WireTicket {
    let handle = TicketStatementQuery { statement_handle: ticket.to_bytes().into() };
    WireTicket::new(handle.as_any().encode_to_vec())
}

async fn fetch(client: &mut Client, request: Request<WireTicket>) -> Result<(), Status> {
    client.0.do_get(request).await?.into_inner().try_collect::<Vec<_>>().await.map(drop)
}

#[test]
fn rows_are_told_with_the_tables_that_were_asked_for() {
    run(async |client| {
        let told = Told::new();
        for (text, tables) in [
            ("SELECT k FROM t WHERE k = 1", "ks.t"),
            ("SELECT a.k FROM t a JOIN ks.t b ON a.k = b.k", "ks.t"),
            ("SELECT (SELECT max(k) FROM t) AS m", "ks.t"),
            ("SELECT k FROM t WHERE false", "ks.t"),
            ("EXPLAIN SELECT k FROM t", "ks.t"),
            ("SELECT 1", ""),
            ("SELECT table_name FROM information_schema.tables", ""),
        ] {
            let info = client.0.get_flight_info(told.asks(statement(text))).await.unwrap().into_inner();
            assert_eq!(told.take(), [""; 0], "a plan reads nothing");
            fetch(client, told.asks(info.endpoint[0].ticket.clone().unwrap())).await.unwrap();
            assert_eq!(told.take(), [format!("read {text} of [{tables}]")]);
        }
    });
}

#[test]
fn prepared_statements_are_told_without_their_values() {
    run(async |client| {
        let told = Told::new();
        let text = "SELECT c FROM t WHERE k = ?";
        let request = ActionCreatePreparedStatementRequest { query: text.to_owned(), transaction_id: None };
        let action = Action::new("CreatePreparedStatement", request.as_any().encode_to_vec());
        client.0.do_action(told.asks(action)).await.unwrap();
        assert_eq!(told.take(), [format!("prepared {text} of [ks.t]")]);
        let bound = client.bind(text.as_bytes(), vec![one(1)]).await.unwrap();
        let ticket = WireTicket::new(command(&bound).cmd);
        fetch(client, told.asks(ticket)).await.unwrap();
        assert_eq!(told.take(), [format!("read {text} of [ks.t]")]);
    });
}

#[test]
fn scans_are_told_as_the_select_that_they_are() {
    run(async |client| {
        let told = Told::new();
        let scan = Select {
            filter: Some("c > 1".to_owned()),
            columns: Some(vec!["k".to_owned(), "s".to_owned()]),
            token_range: Some((-5, i64::MAX)),
            limit: Some(7),
            ..Select::of("ks", "t")
        };
        for (select, text) in [
            (
                scan,
                "SELECT k, s FROM ks.t WHERE c > 1 AND token(k, k2) > -5 AND token(k, k2) <= \
                 9223372036854775807 LIMIT 7",
            ),
            (Select::of("ks", "t"), "SELECT * FROM ks.t"),
            (Select { columns: Some(Vec::new()), ..Select::of("ks", "t") }, "SELECT count(*) FROM ks.t"),
        ] {
            let command = ScanCommand { select: select.clone(), parts: 3 }.to_any().encode_to_vec();
            client.0.get_flight_info(told.asks(FlightDescriptor::new_cmd(command))).await.unwrap();
            assert_eq!(told.take(), [""; 0]);
            let ticket = Ticket { asked: Asked::Scan(select), now_s: 1, split: Some(Split::FULL) };
            fetch(client, told.asks(wire(&ticket))).await.unwrap();
            assert_eq!(told.take(), [format!("read {text} of [ks.t]")]);
        }
    });
}

#[test]
fn what_fails_is_told_wherever_it_does() {
    run(async |client| {
        let told = Told::new();
        let _ = client.0.get_flight_info(told.asks(statement("SELEC 1"))).await.unwrap_err();
        assert_eq!(told.take(), ["failed SELEC 1 of None: InvalidArgument"]);
        let of_sql = |text: &str| Ticket { asked: Asked::Sql(text.to_owned()), now_s: 1, split: None };
        fetch(client, told.asks(wire(&of_sql("SELECT * FROM nosuch")))).await.unwrap_err();
        assert_eq!(told.take(), ["failed SELECT * FROM nosuch of None: NotFound"]);
        // When rows may have been sent already.
        fetch(client, told.asks(wire(&of_sql("SELECT 1 / (k - k) FROM t")))).await.unwrap_err();
        let said = told.take();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].starts_with("failed SELECT 1 / (k - k) FROM t of None: "), "{said:?}");
        let asked = Asked::Scan(Select { filter: Some("nosuch = 1".to_owned()), ..Select::of("ks", "t") });
        fetch(client, told.asks(wire(&Ticket { asked, now_s: 1, split: None }))).await.unwrap_err();
        assert_eq!(
            told.take(),
            ["failed SELECT * FROM ks.t WHERE nosuch = 1 of Some(\"t\"): InvalidArgument"]
        );
        let handle = TicketStatementQuery { statement_handle: b"ILT1{".to_vec().into() };
        let nonsense = WireTicket::new(handle.as_any().encode_to_vec());
        fetch(client, told.asks(nonsense)).await.unwrap_err();
        assert_eq!(told.take(), ["failed  of None: InvalidArgument"]);
    });
}

/// Tables of which somebody knows how many rows there are.
#[derive(Debug)]
struct Counted(Arc<dyn Tables>);

#[derive(Debug)]
struct CountedTable(Arc<dyn Table>);

impl Tables for Counted {
    fn schema(&self) -> Arc<Schema> {
        self.0.schema()
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        Ok(Arc::new(CountedTable(self.0.table(keyspace, name)?)))
    }

    fn names(&self) -> Vec<(String, String)> {
        self.0.names()
    }
}

impl Table for CountedTable {
    fn definition(&self) -> &Arc<TableSchema> {
        self.0.definition()
    }

    fn files(&self) -> Vec<(String, u64)> {
        self.0.files()
    }

    fn data_bytes(&self) -> Result<u64, BulkError> {
        self.0.data_bytes()
    }

    fn known_rows(&self) -> Result<Option<u64>, BulkError> {
        Ok(Some(7))
    }

    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        self.0.splits(request, parts)
    }

    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError> {
        self.0.scan(request, split)
    }
}

#[test]
fn a_count_that_is_known_without_a_scan_is_told_to_who_asks_for_it_alone() {
    let client = Client::with(SqlLimits::default(), |tables| Arc::new(Counted(tables)));
    run_with(client, async |client| {
        let told = Told::new();
        let counts = Select::count("ks", "t");
        for (select, rows, entries) in [
            (Select::of("ks", "t"), None, vec![]),
            (Select { limit: Some(1), ..counts.clone() }, None, vec![]),
            (counts, Some(7), vec!["read SELECT count(*) FROM ks.t of [ks.t]".to_owned()]),
        ] {
            let command = ScanCommand { select, parts: 1 }.to_any().encode_to_vec();
            let info = client.0.get_flight_info(told.asks(FlightDescriptor::new_cmd(command))).await.unwrap();
            assert_eq!(TableFacts::of_bytes(&info.get_ref().app_metadata).known_rows, rows);
            assert_eq!(told.take(), entries);
        }
    });
}
