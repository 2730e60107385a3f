//! Values that clients send for parameters: a row of Arrow.
//!
//! Arrow's decoder trusts the places of buffers and what compressed ones say of their length. So each message
//! is looked at before it is decoded, and whatever the decoder takes amiss all the same ends this call alone.

use crate::handle::Prepared;
use crate::sql::values_of;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_ipc::{MessageHeader, RecordBatch, root_as_message};
use futures::{FutureExt, TryStreamExt};
use std::panic::AssertUnwindSafe;
use tonic::Status;

/// The handle of a prepared statement with the values that a client sends for it.
pub(super) async fn bound(prepared: &Prepared, sent: PeekableFlightDataStream) -> Result<Vec<u8>, Status> {
    let decoded = AssertUnwindSafe(decoded(prepared, sent)).catch_unwind().await;
    decoded.unwrap_or_else(|_| Err(Status::invalid_argument("the values cannot be decoded")))
}

async fn decoded(prepared: &Prepared, sent: PeekableFlightDataStream) -> Result<Vec<u8>, Status> {
    let checked = sent.and_then(|data| async move { check(&data).map(|()| data) });
    let checked = checked.map_err(|status| FlightError::Tonic(Box::new(status)));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(checked);
    let (mut kept, mut rows) = (Vec::new(), 0);
    while let Some(batch) = batches.try_next().await.map_err(refusal)? {
        rows += batch.num_rows();
        if rows > 1 {
            let message = "a statement that reads takes one row of values at a time";
            return Err(Status::invalid_argument(message));
        }
        if batch.num_rows() == 1 {
            kept.push(batch);
        }
    }
    let values = values_of(&kept).map_err(Status::invalid_argument)?;
    Prepared { values, sql: prepared.sql.clone() }.to_handle().map_err(Status::invalid_argument)
}

/// What a client is told whose values are none.
fn refusal(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        error => Status::invalid_argument(format!("the values cannot be decoded: {error}")),
    }
}

/// Refuses a message whose buffers are not in it.
fn check(data: &FlightData) -> Result<(), Status> {
    if data.data_header.is_empty() {
        return Ok(());
    }
    let message = root_as_message(&data.data_header);
    let message =
        message.map_err(|error| Status::invalid_argument(format!("the values are no message: {error}")))?;
    match message.header_type() {
        MessageHeader::Schema => Ok(()),
        MessageHeader::RecordBatch => match message.header_as_record_batch() {
            Some(batch) => check_batch(batch, data.data_body.len()),
            None => Err(Status::invalid_argument("the values are no message")),
        },
        _ => Err(Status::invalid_argument("values come as a schema and a batch of one row")),
    }
}

fn check_batch(batch: RecordBatch<'_>, body_bytes: usize) -> Result<(), Status> {
    if batch.compression().is_some() {
        return Err(Status::invalid_argument("values come without compression"));
    }
    let is_inside = |offset: i64, length: i64| {
        let end = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        end.and_then(|(offset, length)| offset.checked_add(length)).is_some_and(|end| end <= body_bytes)
    };
    let mut buffers = batch.buffers().into_iter().flatten();
    let mut nodes = batch.nodes().into_iter().flatten();
    // More rows are refused when they are counted; here they would be made.
    let is_row = |rows: i64| (0..=1 << 20).contains(&rows);
    let is_whole = is_row(batch.length())
        && buffers.all(|buffer| is_inside(buffer.offset(), buffer.length()))
        && nodes.all(|node| is_row(node.length()) && (0..=node.length()).contains(&node.null_count()));
    match is_whole {
        true => Ok(()),
        false => Err(Status::invalid_argument("the values are not in the message that says where they are")),
    }
}
