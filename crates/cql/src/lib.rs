//! cql
