//! Work that nobody waits for: compactions, the comparison of SSTables with their digests, the check of bloom
//! filters. Each is a loop of its own ([`BackgroundLoop`](env::background::BackgroundLoop)).

pub(crate) mod compaction;
pub(crate) mod demands;
pub(crate) mod filters;
pub(crate) mod prover;
pub(crate) mod verifying;

use crate::background::compaction::Compactions;
use crate::background::filters::FilterChecks;
use crate::background::prover::Prover;
use crate::catalog::Catalog;
use crate::table::TableStore;
use crate::writing::{FlushObserver, Writing};
use std::sync::Arc;

/// The loops, and what they work on.
pub(crate) struct Background {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) writing: Arc<Writing>,
    pub(crate) compactions: Arc<Compactions>,
    pub(crate) filters: Arc<FilterChecks>,
    pub(crate) prover: Arc<Prover>,
}

impl Background {
    /// Loops over the tables of `catalog` that do not run yet.
    pub(crate) fn new(catalog: Arc<Catalog>, writing: Arc<Writing>) -> Background {
        let (clock, options) = (&catalog.env.clock, &catalog.options);
        Background {
            compactions: Arc::new(Compactions::new(Arc::clone(clock), options.compaction_bytes_per_s)),
            filters: Arc::default(),
            prover: Arc::new(Prover::new(Arc::clone(clock), options.proving_bytes_per_s)),
            catalog,
            writing,
        }
    }

    /// Ends all loops.
    pub(crate) fn stop(&self) {
        self.compactions.stop();
        self.filters.stop();
        self.prover.stop();
    }
}

impl FlushObserver for Compactions {
    fn flushed(&self, _table: &TableStore) {
        self.nudge();
    }
}
