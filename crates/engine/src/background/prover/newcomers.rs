//! SSTables that come into a table of a running node: compared, and described, before anybody can read them.

use super::Reading;
use crate::background::Background;
use crate::error::EngineError;
use crate::table::TableStore;
use crate::turns::{give_way, in_turns};
use model::TableSchema;
use sstable::{Adoption, NewProof, Proved, SsTable};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An SSTable that came into a table while the node runs, and its proof if it has none yet.
pub(crate) struct Newcomer {
    pub(crate) sstable: Arc<SsTable>,
    proof: Option<NewProof>,
}

impl Background {
    /// Compares an SSTable that nobody can read yet with its digest, as fast as it can be read, if the
    /// options have SSTables compared.
    ///
    /// # Errors
    /// When it is damaged or cannot be read, and when an operator or the end of the engine ended the
    /// comparison.
    pub(crate) fn prove_newcomer(
        &self,
        schema: &TableSchema,
        sstable: Arc<SsTable>,
    ) -> Result<Newcomer, EngineError> {
        if !self.catalog.options.proves_sstables {
            return Ok(Newcomer { sstable, proof: None });
        }
        let prover = &self.prover;
        let reading = Reading::of(self, schema, &sstable);
        prover.state.lock().running.push(Arc::clone(&reading));
        let mut pace = |bytes| {
            prover.bytes.fetch_add(bytes, Ordering::Relaxed);
            reading.completed_bytes.fetch_add(bytes, Ordering::Relaxed);
            give_way();
            !reading.cancelled.load(Ordering::Relaxed)
                && !prover.background.is_stopping()
                && !self.writing.is_drained()
        };
        let adoption = self.may_adopt().then(Adoption::default);
        let proved = in_turns(|| sstable.prove(&self.catalog.env.fs, adoption, &mut pace));
        prover.end(&reading);
        let proof = match proved? {
            Proved::Sound(proof) => {
                prover.proven.fetch_add(1, Ordering::Relaxed);
                Some(proof)
            }
            Proved::Adopted(proof) => Some(proof),
            Proved::Known => None,
            Proved::NoDigest => {
                prover.give_up(schema, &sstable);
                None
            }
            Proved::Stopped => {
                let reason = "its comparison with Digest.crc32 was stopped".to_owned();
                return Err(EngineError::Foreign { sstable: sstable.descriptor().to_string(), reason });
            }
        };
        Ok(Newcomer { sstable, proof })
    }

    /// Writes the proofs of newcomers that are part of the table now.
    pub(crate) fn welcome<'n>(&self, table: &TableStore, newcomers: impl IntoIterator<Item = &'n Newcomer>) {
        for Newcomer { sstable, proof } in newcomers {
            if proof.is_some() {
                self.write_proof(table, sstable, proof.as_ref());
            }
        }
        self.filters.nudge();
        self.prover.nudge();
    }
}
