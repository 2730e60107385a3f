//! Hints as they are sent: a page of a file, without those that are of no use any more.

use super::counters::{Counted, HintsCounters};
use super::files::ClosedFile;
use super::format::{FileId, HintsError, decode_hint};
use super::reader::{HintsReader, Next, Position};
use crate::verbs::{Lookup, PayloadError};
use coordinator::Hint;
use env::Env;
use std::path::Path;

/// A hint to be sent.
#[derive(Debug)]
pub(super) struct QueuedHint {
    pub hint: Hint,
    /// Its bytes in the file.
    pub bytes: u64,
    /// Where the next one starts.
    pub next: Position,
}

/// How far a file was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// What comes next is here.
    Position(Position),
    /// All of it.
    End,
    /// All that can be read.
    Lost,
}

/// Hints of one file that follow each other.
#[derive(Debug)]
pub(super) struct HintPage {
    pub file: FileId,
    pub hints: Vec<QueuedHint>,
    /// How far the file is sent when all of them are.
    pub end: Reached,
}

/// Whether a node that keeps a hint now does no harm: what deleted it may be forgotten behind
/// `gc_grace_seconds` (`Hint.isLive` of Cassandra).
fn is_live(hint: &Hint, now_millis: i64) -> bool {
    let of_tables =
        hint.mutation.updates.iter().map(|update| i64::from(update.table.options.gc_grace_seconds));
    let grace_s = of_tables.chain([i64::from(hint.gc_grace_s)]).min().unwrap_or(0);
    hint.written_millis.saturating_add(grace_s.saturating_mul(1000)) > now_millis
}

/// Reads what comes next of a file.
///
/// # Errors
/// [`HintsError`], where nothing more can be read of it.
pub(super) fn read_page(
    env: &Env,
    path: &Path,
    file: &ClosedFile,
    lookup: Lookup<'_>,
    counters: &HintsCounters,
) -> Result<HintPage, HintsError> {
    let reader = HintsReader::open(env.fs.as_ref(), path, file.bytes)?;
    let page = reader.page(file.position.unwrap_or(reader.start()))?;
    let end = match page.next {
        Next::Page(position) => Reached::Position(position),
        Next::End => Reached::End,
        Next::Lost(error) => {
            tracing::error!(%error, "the rest of a file of hints cannot be found");
            Reached::Lost
        }
    };
    let (now_millis, version) = (env.clock.now_millis(), file.id.messaging_version());
    let (mut hints, mut unknown) = (Vec::new(), 0u64);
    for read in page.hints {
        let bytes = match read.hint {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%error, "a hint is left out");
                counters.count(Counted::Unreadable);
                continue;
            }
        };
        let len = bytes.len() as u64;
        match decode_hint(bytes, version, lookup) {
            Ok(hint) if is_live(&hint, now_millis) => {
                hints.push(QueuedHint { hint, bytes: len, next: read.next });
            }
            Ok(_) => counters.count(Counted::Expired),
            Err(PayloadError::Schema(_)) => {
                unknown += 1;
                counters.count(Counted::Unreadable);
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "a hint is left out");
                counters.count(Counted::Unreadable);
            }
        }
    }
    if unknown > 0 {
        tracing::warn!(path = %path.display(), unknown, "hints of tables that are gone are left out");
    }
    Ok(HintPage { file: file.id, hints, end })
}
