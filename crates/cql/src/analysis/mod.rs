//! From the tree of a statement and the schema to something that can be executed.
//!
//! Steps, in order:
//! 1. [`types`] turns types as written into types of the schema.
//! 2. [`raw`] brings terms and selectables into one shape. [`infer`] says what type an expression has and
//!    what it may be assigned to. [`lower`] gives an [`Expr`] whose names are all resolved.
//! 3. [`relation`] sorts the WHERE clause into restrictions of the partition key, of the clustering columns
//!    and of the rest. When values are bound, [`clustering`] makes slices or names of them, and [`filter`]
//!    makes row filters.
//! 4. [`modification`] and [`condition`] do the same for SET, VALUES, DELETE and IF.
//! 5. [`masks`] says what is shown of columns that are masked.

pub(crate) mod clustering;
pub(crate) mod compat;
pub(crate) mod condition;
pub(crate) mod context;
pub(crate) mod expr;
pub(crate) mod filter;
pub(crate) mod infer;
pub(crate) mod keys;
pub(crate) mod literal;
pub(crate) mod lower;
pub(crate) mod masks;
pub(crate) mod modification;
pub(crate) mod order;
mod precheck;
pub(crate) mod product;
pub(crate) mod raw;
pub(crate) mod relation;
pub(crate) mod restrictions;
pub(crate) mod selection;
pub mod types;

pub(crate) use context::{Analyzer, BindInput, Receiver};
pub(crate) use expr::{Expr, Scope};
