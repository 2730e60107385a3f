//! Statements with parameters, as a client of Flight prepares, binds and runs them.

use super::running::engine_on;
use super::sql::{OneTable, fill, table};
use crate::flight::{Callers, FlightSql, Service, service};
use crate::sql::SqlLimits;
use crate::{Source, Tables};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandPreparedStatementQuery, CommandStatementQuery, DoPutPreparedStatementResult, ProstMessageExt,
};
use arrow_flight::{Action, FlightDescriptor};
use env::Env;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use std::sync::Arc;
use tonic::{Code, Status};

/// A client that talks to the service itself.
pub(super) struct Client(pub(super) FlightServiceClient<Service<FlightSql>>);

impl Client {
    pub(super) fn new() -> Client {
        Client::with(SqlLimits::default(), |tables| tables)
    }

    /// Of tables that are made of the one of the tests.
    pub(super) fn with(limits: SqlLimits, change: impl FnOnce(Arc<dyn Tables>) -> Arc<dyn Tables>) -> Client {
        let table = table();
        let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
        fill(&engine, &table, &Random::from_seed(5));
        let source = Arc::new(Source::of_node(engine.table(table.id).unwrap().hold()));
        let tables = change(Arc::new(OneTable { schema: engine.schema(), source }));
        let service = service(Env::for_test(1), tables, limits, Callers::All).unwrap();
        Client(FlightServiceClient::new(service))
    }

    pub(super) async fn prepare(&mut self, text: &str) -> Result<Vec<u8>, Status> {
        let request = ActionCreatePreparedStatementRequest { query: text.to_owned(), transaction_id: None };
        let action = Action::new("CreatePreparedStatement", request.as_any().encode_to_vec());
        let answer = self.0.do_action(action).await?.into_inner().message().await?.unwrap();
        let any = Any::decode(&*answer.body).unwrap();
        let result: ActionCreatePreparedStatementResult = any.unpack().unwrap().unwrap();
        Ok(result.prepared_statement_handle.to_vec())
    }

    pub(super) async fn bind(&mut self, handle: &[u8], values: Vec<ArrayRef>) -> Result<Vec<u8>, Status> {
        let named = values.into_iter().enumerate().map(|(i, array)| (i.to_string(), array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(named).unwrap();
        let stream = FlightDataEncoderBuilder::new()
            .with_flight_descriptor(Some(command(handle)))
            .build(futures::stream::iter([Ok(batch)]))
            .map(Result::unwrap);
        let answer = self.0.do_put(stream).await?.into_inner().message().await?.unwrap();
        let result = DoPutPreparedStatementResult::decode(&*answer.app_metadata).unwrap();
        Ok(result.prepared_statement_handle.unwrap().to_vec())
    }

    async fn rows(&mut self, descriptor: FlightDescriptor) -> Result<Vec<String>, Status> {
        let info = self.0.get_flight_info(descriptor).await?.into_inner();
        let mut rows = Vec::new();
        for endpoint in info.endpoint {
            let stream = self.0.do_get(endpoint.ticket.unwrap()).await?.into_inner();
            let batches = FlightRecordBatchStream::new_from_flight_data(stream.map_err(Into::into));
            for batch in batches.try_collect::<Vec<_>>().await.map_err(Status::from)? {
                rows.extend((0..batch.num_rows()).map(|at| format!("{:?}", batch.slice(at, 1).columns())));
            }
        }
        rows.sort();
        Ok(rows)
    }

    async fn rows_of(&mut self, text: &str) -> Vec<String> {
        let query = CommandStatementQuery { query: text.to_owned(), transaction_id: None };
        self.rows(FlightDescriptor::new_cmd(query.as_any().encode_to_vec())).await.unwrap()
    }
}

pub(super) fn command(handle: &[u8]) -> FlightDescriptor {
    let query = CommandPreparedStatementQuery { prepared_statement_handle: handle.to_vec().into() };
    FlightDescriptor::new_cmd(query.as_any().encode_to_vec())
}

pub(super) fn one<T>(value: T) -> ArrayRef
where
    Vec<T>: IntoArray,
{
    vec![value].into_array()
}

pub(super) trait IntoArray {
    fn into_array(self) -> ArrayRef;
}

macro_rules! into_array {
    ($($ty:ty => $array:ty),*) => { $(
        impl IntoArray for Vec<$ty> {
            fn into_array(self) -> ArrayRef {
                Arc::new(<$array>::from(self))
            }
        }
    )* };
}

into_array!(
    bool => BooleanArray, i32 => Int32Array, i64 => Int64Array, f64 => Float64Array, &str => StringArray,
    Option<i32> => Int32Array
);

pub(super) fn run(test: impl AsyncFnOnce(&mut Client)) {
    run_with(Client::new(), test);
}

pub(super) fn run_with(mut client: Client, test: impl AsyncFnOnce(&mut Client)) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(test(&mut client));
}

#[test]
fn bound_values_mean_what_the_same_literals_do() {
    run(async |client| {
        let uuid = "10000000-0000-0000-0000-000000000001";
        let cases: Vec<(&str, &str, Vec<ArrayRef>)> = vec![
            ("k = ? AND c > ?", "k = 1 AND c > 2", vec![one(1), one(2i64)]),
            ("i = ?", "i = 3", vec![one(3i64)]),
            ("b IN (?, ?)", "b IN (0, 3)", vec![one(0), one(3)]),
            ("t = ? OR t = ?", "t = 'b''c' OR t = 'ž'", vec![one("b'c"), one("ž")]),
            ("bo = $1", "bo = true", vec![one(true)]),
            ("d > $2 AND k = $1", "d > 0.5 AND k = 1", vec![one(1), one(0.5)]),
            ("u = ?", "u = '10000000-0000-0000-0000-000000000001'", vec![one(uuid)]),
            ("i = ?", "i = NULL", vec![one(None::<i32>)]),
            (
                "ts = ?",
                "ts = TIMESTAMP '2024-01-01T00:00:00Z'",
                vec![Arc::new(TimestampMicrosecondArray::from(vec![1_704_067_200_000_000]))],
            ),
        ];
        let mut met = 0;
        for (with, without, values) in cases {
            let expected = client.rows_of(&format!("SELECT * FROM t WHERE {without}")).await;
            let handle = client.prepare(&format!("SELECT * FROM t WHERE {with}")).await.unwrap();
            let bound = client.bind(&handle, values).await.unwrap();
            assert_eq!(client.rows(command(&bound)).await.unwrap(), expected, "{with}");
            met += usize::from(!expected.is_empty());
        }
        assert!(met >= 6, "{met}");
    });
}

#[test]
fn another_row_of_values_takes_the_place_of_the_one_before() {
    run(async |client| {
        let handle = client.prepare("SELECT c FROM t WHERE k = ?").await.unwrap();
        let first = client.bind(&handle, vec![one(1)]).await.unwrap();
        let second = client.bind(&first, vec![one(2)]).await.unwrap();
        assert_ne!(first, second);
        let expected = client.rows_of("SELECT c FROM t WHERE k = 2").await;
        assert_eq!(client.rows(command(&second)).await.unwrap(), expected);
    });
}

#[test]
fn values_that_fit_no_parameter_are_refused_in_words() {
    run(async |client| {
        let handle = client.prepare("SELECT * FROM t WHERE k = ? AND c = ?").await.unwrap();
        let refused = client.rows(command(&handle)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("2 parameters, and 0 values"), "{refused}");
        let one_of_two = client.bind(&handle, vec![one(1)]).await.unwrap();
        assert!(
            client.rows(command(&one_of_two)).await.unwrap_err().message().contains("1 values are bound")
        );
        let many: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let refused = client.bind(&handle, vec![Arc::clone(&many), many]).await.unwrap_err();
        assert!(refused.message().contains("one row of values"), "{refused}");
        let finer: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]));
        let refused = client.bind(&handle, vec![finer]).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("milliseconds"), "{refused}");
        let list =
            arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>(vec![Some(
                vec![Some(1)],
            )]);
        let refused = client.bind(&handle, vec![Arc::new(list)]).await.unwrap_err();
        assert!(refused.message().contains("is not supported"), "{refused}");
        let long = "x".repeat(600 << 10);
        let refused = client.bind(&handle, vec![one(long.as_str())]).await.unwrap_err();
        assert!(refused.message().contains("are the most"), "{refused}");
        assert!(client.prepare("SELECT * FROM t WHERE k = ? AND c = $1").await.is_err());
        assert!(client.rows(command(b"\xff\xfe")).await.is_err());
    });
}
