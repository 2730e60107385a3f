//! Messages between nodes.
