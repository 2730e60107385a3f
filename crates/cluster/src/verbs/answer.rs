//! What a replica answers to a read.
//!
//! ```text
//! answer := vbytes digest                                      of a request for the digest
//!         | 0x00 | vbytes repaired digest | u8 1 | vbytes data of a request for the data
//! ```
//! Nothing is tracked as repaired, so that digest is empty. The data are those of
//! [`partition::Recording::encode`].

use super::{PayloadError, UnsentError, deletion_times, write_vbytes};
use bytes::Bytes;
use model::command::ReadCommand;
use partition::codec::{Input, SliceInput};
use partition::{Digest, Recording};

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAnswer {
    /// The digest of the data.
    Digest(Digest),
    /// The data, encoded.
    Data(Bytes),
}

/// Appends the data that answer `command`.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_data(
    data: &Recording,
    command: &ReadCommand,
    version: u32,
    out: &mut Vec<u8>,
) -> Result<(), UnsentError> {
    let mut encoded = Vec::new();
    data.encode(command, deletion_times(version), &mut encoded)?;
    out.extend_from_slice(&[0, 0, 1]);
    write_vbytes(out, &encoded);
    Ok(())
}

/// Appends the digest of an answer.
pub fn encode_digest(digest: &Digest, out: &mut Vec<u8>) {
    write_vbytes(out, &digest.0);
}

/// Decodes an answer.
///
/// # Errors
/// When the bytes are none.
pub fn decode_answer(bytes: Bytes) -> Result<ReadAnswer, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let digest = input.vbytes()?;
    let answer = match digest.len() {
        0 => {
            input.vbytes()?;
            input.u8()?;
            ReadAnswer::Data(input.vbytes()?)
        }
        16 => ReadAnswer::Digest(Digest(digest.first_chunk().copied().unwrap_or_default())),
        len => return Err(input.malformed(format!("a digest of {len} bytes")).into()),
    };
    match input.remaining() {
        0 => Ok(answer),
        rest => Err(input.malformed(format!("{rest} bytes after the answer")).into()),
    }
}
