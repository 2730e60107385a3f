//! What nodes say of themselves and of each other.

pub mod app_state;
pub mod detector;
pub mod fuzz;
pub mod message;
pub mod state;
pub mod status;
pub mod text;
pub mod tokens;
pub mod values;
