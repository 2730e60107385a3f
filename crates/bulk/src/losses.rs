//! Losses on their way from a node to who exports a table of it.
//!
//! ```text
//! {"losses":[{"file":..,"offset":..,"detail":..,"partition":..,"tokens":..,"bytes":..}, ...]}
//! ```
//! Each is a message of its own in the stream of a scan that salvages, in front of the batch behind which the
//! scan had left them out, or at the end. So whoever has taken a batch knows what is missing up to there.
//!
//! 1. A message has at most [`MESSAGE_BYTES_MAX`] bytes. A loss has few: [`Loss`] keeps long keys short.
//! 2. A scan has at most [`LOSSES_MAX`] losses. Whoever reads more than that is told so, and no more is kept.

use crate::Loss;
use crate::scan::LOSSES_MAX;
use serde::{Deserialize, Serialize};

/// Bytes of a message at most.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes after which a message is sent.
const MESSAGE_BYTES: usize = 256 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    losses: Vec<Loss>,
}

/// What is no message of losses, or one too many.
#[derive(Debug, thiserror::Error)]
#[error("what a node says of damaged data cannot be read: {0}")]
pub struct LossesError(String);

/// Losses that were read so far, of one scan.
#[derive(Debug, Default)]
pub struct Losses(Vec<Loss>);

impl Losses {
    /// Those that were read.
    pub fn all(&self) -> &[Loss] {
        &self.0
    }

    /// Reads one message.
    ///
    /// # Errors
    /// When it is none, or there are more losses than a scan has.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), LossesError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(LossesError(format!("it has {} bytes", bytes.len())));
        }
        let message: Message =
            serde_json::from_slice(bytes).map_err(|error| LossesError(error.to_string()))?;
        if self.0.len() + message.losses.len() > LOSSES_MAX {
            return Err(LossesError(format!("there are more than {LOSSES_MAX} losses")));
        }
        self.0.extend(message.losses);
        Ok(())
    }
}

/// Losses as messages.
pub fn messages(losses: Vec<Loss>) -> Vec<Vec<u8>> {
    let (mut out, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    // A struct of numbers and texts, in memory: that cannot fail.
    let encode = |losses: Vec<Loss>| serde_json::to_vec(&Message { losses }).unwrap_or_default();
    for loss in losses {
        bytes += encode(vec![loss.clone()]).len();
        part.push(loss);
        if bytes >= MESSAGE_BYTES {
            out.push(encode(std::mem::take(&mut part)));
            bytes = 0;
        }
    }
    if !part.is_empty() {
        out.push(encode(part));
    }
    out
}
