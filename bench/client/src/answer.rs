//! Looking at an answer without taking it apart: which kind it is, and how many rows it has.
//!
//! Every answer is judged here. Only a sample is decoded into values and compared with the data, because the
//! time for that would be the client's, not the server's.

use protocol::primitives::Reader;
use protocol::response::{ErrorResponse, Message, Response, ResultBody, rows::Rows};
use protocol::{Envelope, Opcode};

use crate::error::Error;

const MORE_PAGES: u32 = 0x02;
const NO_METADATA: u32 = 0x04;
const METADATA_CHANGED: u32 = 0x08;

/// What an answer is.
#[derive(Debug)]
pub enum Answer {
    /// Done: VOID, or SUPPORTED.
    Done,
    /// That many rows.
    Rows(u32),
    /// The server refused.
    Refused(ErrorResponse),
}

/// The kind of an answer. Rows must come without metadata or warnings, as asked; otherwise they are decoded.
pub fn judge(envelope: &Envelope) -> Result<Answer, Error> {
    match envelope.opcode {
        Opcode::Supported => return Ok(Answer::Done),
        Opcode::Result if envelope.flags == 0 => {}
        _ => return judge_in_full(envelope),
    }
    let mut reader = Reader::new(envelope.body.clone());
    let mut lean = || {
        if reader.i32("kind").ok()? == 1 {
            return Some(Answer::Done);
        }
        let flags = reader.u32("flags").ok()?;
        reader.u32("columns").ok()?;
        (flags & (MORE_PAGES | NO_METADATA | METADATA_CHANGED) == NO_METADATA).then_some(())?;
        reader.u32("rows").ok().map(Answer::Rows)
    };
    match lean() {
        Some(answer) => Ok(answer),
        None => judge_in_full(envelope),
    }
}

fn judge_in_full(envelope: &Envelope) -> Result<Answer, Error> {
    match decode(envelope)? {
        Response::Result(ResultBody::Rows(rows)) => Ok(Answer::Rows(rows.rows.len() as u32)),
        Response::Result(ResultBody::Void) | Response::Supported(_) => Ok(Answer::Done),
        Response::Error(error) => Ok(Answer::Refused(error)),
        other => Err(Error::Protocol(format!("an unexpected {:?}", other.opcode()))),
    }
}

/// The rows of an answer, in full.
pub fn rows(envelope: &Envelope) -> Result<Rows, Error> {
    match decode(envelope)? {
        Response::Result(ResultBody::Rows(rows)) => Ok(rows),
        other => Err(Error::Protocol(format!("{:?} in the place of rows", other.opcode()))),
    }
}

fn decode(envelope: &Envelope) -> Result<Response, Error> {
    let message = Message::decode(envelope.clone()).map_err(|error| Error::Protocol(error.to_string()))?;
    Ok(message.response)
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use protocol::ProtocolVersion;

    use super::*;

    fn envelope(response: &Response) -> Envelope {
        let version = ProtocolVersion::V5;
        let mut body = BytesMut::new();
        response.encode(version, &mut body);
        Envelope { version, flags: 0, stream: 0, opcode: response.opcode(), body: body.freeze() }
    }

    #[test]
    fn rows_are_counted_without_decoding_them() {
        let rows = Rows {
            columns: None,
            column_count: 1,
            new_metadata_id: None,
            paging_state: None,
            rows: vec![vec![Some(Bytes::from_static(b"a"))], vec![None]],
        };
        for (rows, count) in [(rows.clone(), 2), (Rows { rows: vec![], ..rows }, 0)] {
            let answer = judge(&envelope(&Response::Result(ResultBody::Rows(rows)))).unwrap();
            assert!(matches!(answer, Answer::Rows(found) if found == count), "{answer:?}");
        }
    }

    #[test]
    fn rows_that_come_with_a_paging_state_are_counted_too() {
        let rows = Rows {
            columns: None,
            column_count: 1,
            new_metadata_id: None,
            paging_state: Some(Bytes::from_static(b"state")),
            rows: vec![vec![None]],
        };
        let answer = judge(&envelope(&Response::Result(ResultBody::Rows(rows)))).unwrap();
        assert!(matches!(answer, Answer::Rows(1)), "{answer:?}");
    }

    #[test]
    fn void_is_done_and_an_error_is_an_answer() {
        assert!(matches!(judge(&envelope(&Response::Result(ResultBody::Void))).unwrap(), Answer::Done));
        let error = ErrorResponse::overloaded("busy");
        let answer = judge(&envelope(&Response::Error(error.clone()))).unwrap();
        assert!(matches!(answer, Answer::Refused(found) if found == error));
    }
}
