//! What a write was part of, as timeouts and failures report it.

/// What a write was part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    /// A write of one statement.
    Simple,
    /// A logged batch, its log already written.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// A counter update.
    Counter,
    /// The log of a logged batch.
    BatchLog,
    /// A conditional update.
    Cas,
    /// The update of a materialized view.
    View,
    /// A write refused for lack of space for change capture.
    Cdc,
}

impl WriteType {
    /// Every type.
    pub const ALL_TYPES: [Self; 8] = [
        Self::Simple,
        Self::Batch,
        Self::UnloggedBatch,
        Self::Counter,
        Self::BatchLog,
        Self::Cas,
        Self::View,
        Self::Cdc,
    ];

    /// The word in frames and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Counter => "COUNTER",
            Self::BatchLog => "BATCH_LOG",
            Self::Cas => "CAS",
            Self::View => "VIEW",
            Self::Cdc => "CDC",
        }
    }

    /// The type of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL_TYPES.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::WriteType;

    #[test]
    fn names_round_trip() {
        for kind in WriteType::ALL_TYPES {
            assert_eq!(WriteType::from_name(kind.name()), Some(kind));
        }
        assert_eq!(WriteType::from_name("simple"), None);
    }
}
