//! Members of one ring, over a network in memory.
