//! The errors of CQL in the classes and words of Cassandra 5.0.
//!
//! Each class has a code of the native protocol (docs/formats/native-protocol.md). The messages are complete:
//! what stands here is what drivers show.

use thiserror::Error;

/// Why a statement is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CqlError {
    /// The text is not CQL.
    #[error("{0}")]
    Syntax(String),
    /// The user may not do this.
    #[error("{0}")]
    Unauthorized(String),
    /// The statement or its values make no sense for the schema.
    #[error("{0}")]
    Invalid(String),
    /// The statement is well-formed but its configuration is not.
    #[error("{0}")]
    Config(String),
    /// What is to be created is there.
    #[error("{message}")]
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, view or type; empty for a keyspace.
        table: String,
        /// The words.
        message: String,
    },
    /// A function failed on its arguments.
    #[error("{message}")]
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// Its name.
        function: String,
        /// CQL names of its argument types.
        argument_types: Vec<String>,
        /// The words.
        message: String,
    },
    /// A fault of the node itself, such as a value on disk that is no value of its column.
    #[error("{0}")]
    Server(String),
}

impl CqlError {
    /// The code of the class in the native protocol.
    pub fn code(&self) -> u32 {
        match self {
            CqlError::Server(_) => 0x0000,
            CqlError::FunctionFailure { .. } => 0x1400,
            CqlError::Syntax(_) => 0x2000,
            CqlError::Unauthorized(_) => 0x2100,
            CqlError::Invalid(_) => 0x2200,
            CqlError::Config(_) => 0x2300,
            CqlError::AlreadyExists { .. } => 0x2400,
        }
    }

    /// An [`CqlError::Invalid`].
    pub fn invalid(message: impl Into<String>) -> CqlError {
        CqlError::Invalid(message.into())
    }
}

/// `Err(CqlError::Invalid(format!(...)))`.
macro_rules! bail {
    ($($arg:tt)*) => {
        return Err($crate::error::CqlError::Invalid(format!($($arg)*)))
    };
}
pub(crate) use bail;

/// The result of everything in this crate.
pub type Result<T, E = CqlError> = std::result::Result<T, E>;
