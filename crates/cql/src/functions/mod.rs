//! Cassandra's own functions: which there are, which overload a call means, what they compute.
//!
//! A call is resolved once, when its statement is prepared. [`resolve`] finds the candidates of the name
//! ([`registry`]). It takes the one whose arguments match exactly, or the only one that the arguments can be
//! assigned to. A [`ScalarFunction`] then computes on values of exactly its argument types; an aggregate
//! keeps an [`aggregate::State`] for each group.

mod aggregate;
mod arithmetic;
mod cast;
mod collections;
mod decimal;
mod digest;
pub(crate) mod json;
mod json_value;
mod mask;
mod mask_kind;
mod math;
mod number;
mod registry;
mod resolve;
mod scalar;
mod time;
mod vector;

pub(crate) use aggregate::{Aggregate, AggregateCall, State};
pub(crate) use mask_kind::{check_fixed_types, overload as masking_function};
pub(crate) use registry::{is_from_json, is_native};
pub(crate) use resolve::{arguments_of, resolve, resolved_name};
pub(crate) use scalar::{Mask, Scalar};
pub(crate) use time::mirrored;

use crate::analysis::Scope;
use crate::error::Result;
use bytes::Bytes;
use model::types::CqlType;

/// A function with the types of one overload.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// With its keyspace, as messages show it: `system.abs`.
    pub(crate) name: String,
    pub(crate) arguments: Vec<CqlType>,
    pub(crate) returns: CqlType,
    pub(crate) body: Body,
}

/// What a function does.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Scalar(Scalar),
    Aggregate(Aggregate),
}

impl Function {
    /// The function as something to call; `None` for an aggregate.
    pub(crate) fn into_scalar(self) -> Option<ScalarFunction> {
        match self.body {
            Body::Scalar(op) => {
                Some(ScalarFunction { name: self.name, arguments: self.arguments, returns: self.returns, op })
            }
            Body::Aggregate(_) => None,
        }
    }
}

/// A scalar function of one overload.
#[derive(Clone, Debug)]
pub(crate) struct ScalarFunction {
    pub(crate) name: String,
    pub(crate) arguments: Vec<CqlType>,
    pub(crate) returns: CqlType,
    pub(crate) op: Scalar,
}

impl ScalarFunction {
    /// What is said of an argument that is a marker without a value.
    pub(crate) fn unset_argument(&self) -> String {
        let name = self.name.strip_prefix("system.").unwrap_or(&self.name);
        format!("Invalid unset value for argument in call to function {name}")
    }

    /// Checks an argument that is the same for every row, before there is one.
    pub(crate) fn check_fixed(&self, index: usize, value: &[u8]) -> Result<()> {
        scalar::check_fixed(self, index, value)
    }

    /// The value for arguments, which are as many as the function declares.
    pub(crate) fn call(&self, arguments: &[Option<Bytes>], scope: &Scope<'_>) -> Result<Option<Bytes>> {
        scalar::call(self, arguments, scope)
    }
}
