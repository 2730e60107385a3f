//! What nodes say of themselves and of each other.
