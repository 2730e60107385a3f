//! Which function, and which of its overloads, a call means.

use super::Function;
use super::registry;
use crate::analysis::Analyzer;
use crate::analysis::compat::{Fit, fit_type, same};
use crate::analysis::raw::Raw;
use crate::analysis::types::{display, native};
use crate::ast::FunctionName;
use crate::error::{Result, bail};
use model::types::{CqlType, QuotedName};
use std::borrow::Cow;

/// The name of a function as it prints once it is looked up; names that are not Cassandra's own stay as
/// written.
pub(crate) fn resolved_name(name: &FunctionName) -> FunctionName {
    match &name.keyspace {
        None if registry::is_native(name.name.as_str()) => FunctionName::native(name.name.as_str()),
        _ => name.clone(),
    }
}

/// The arguments of a call, an operation, a negation or a cast.
pub(crate) fn arguments_of<'r, 'x>(raw: &'r Raw<'x>) -> Vec<&'r Raw<'x>> {
    match raw {
        Raw::Function { arguments, .. } => arguments.iter().collect(),
        Raw::Operation { left, right, .. } => vec![left, right],
        Raw::Negation(of) | Raw::Cast { of, .. } => vec![of],
        _ => Vec::new(),
    }
}

/// The function that a call means. `receiver` is the type that its result is for, where that is known.
pub(crate) fn resolve(
    analyzer: &Analyzer<'_>,
    raw: &Raw<'_>,
    receiver: Option<&CqlType>,
) -> Result<Function> {
    let arguments = arguments_of(raw);
    let (shown, candidates): (String, Cow<'_, [Function]>) = match raw {
        Raw::CountRows => return Ok(registry::count_rows()),
        Raw::Function { name, .. } => {
            let is_system = name.keyspace.as_ref().is_none_or(|ks| ks.as_str() == "system");
            let candidates = if is_system {
                registry::candidates(analyzer, name.name.as_str(), &arguments, receiver)?
            } else {
                None
            };
            match candidates {
                Some(candidates) => (name.to_string(), Cow::from(candidates)),
                None => bail!("Unknown function '{name}'"),
            }
        }
        Raw::Operation { operator, .. } => (operator.to_string(), registry::operations(*operator).into()),
        Raw::Negation(_) => ("system._negate".to_owned(), registry::negations().into()),
        Raw::Cast { target, .. } => {
            let target = native(*target);
            // A cast to the type that a value has already does nothing.
            if let [argument] = arguments.as_slice()
                && let Some(given) = analyzer.known_type(argument)
                && given == target
            {
                return Ok(registry::identity_cast(target));
            }
            let casts = registry::casts(&target);
            if casts.is_empty()
                && let [argument] = arguments.as_slice()
            {
                if analyzer.known_type(argument).is_none() {
                    bail!(
                        "Cannot infer type for term {argument} in selection clause (try using a cast to force a type)"
                    );
                }
                bail!("{argument} cannot be cast to {target}");
            }
            (format!("system.cast_as_{target}"), casts.into())
        }
        _ => bail!("{raw} is not a function"),
    };
    if let [only] = &*candidates {
        check_types(analyzer, only, &arguments)?;
        return Ok(only.clone());
    }
    best_match(analyzer, raw, &shown, &candidates, &arguments, receiver)
}

/// Whether the arguments can be those of the only candidate, with a message that says which cannot.
fn check_types(analyzer: &Analyzer<'_>, function: &Function, arguments: &[&Raw<'_>]) -> Result<()> {
    if arguments.len() != function.arguments.len() {
        bail!(
            "Invalid number of arguments in call to function {}: {} required but {} provided",
            function.name,
            function.arguments.len(),
            arguments.len()
        );
    }
    for (i, (argument, ty)) in arguments.iter().zip(&function.arguments).enumerate() {
        if !analyzer.fit(argument, ty).is_assignable() {
            // A call that cannot be resolved itself has the better message.
            if !arguments_of(argument).is_empty() {
                resolve(analyzer, argument, Some(ty))?;
            }
            bail!(
                "Type error: {argument} cannot be passed as argument {i} of function {} of type {}",
                function.name,
                display(ty)
            );
        }
    }
    Ok(())
}

fn best_match(
    analyzer: &Analyzer<'_>,
    raw: &Raw<'_>,
    shown: &str,
    candidates: &[Function],
    arguments: &[&Raw<'_>],
    receiver: Option<&CqlType>,
) -> Result<Function> {
    let mut compatible: Vec<&Function> = Vec::new();
    for candidate in candidates {
        if receiver.is_some_and(|ty| !fit_type(&candidate.returns, ty).is_assignable())
            || candidate.arguments.len() != arguments.len()
        {
            continue;
        }
        let fit = Fit::all(arguments.iter().zip(&candidate.arguments).map(|(a, ty)| analyzer.fit(a, ty)));
        match fit {
            Fit::Exact => return Ok(candidate.clone()),
            Fit::Weak => compatible.push(candidate),
            Fit::No => {}
        }
    }
    match (compatible.as_slice(), raw) {
        ([only], _) => Ok((*only).clone()),
        ([], _) => {
            // The argument may be what cannot be resolved.
            for argument in arguments {
                if !arguments_of(argument).is_empty() {
                    resolve(analyzer, argument, None)?;
                }
                if let Raw::Column(name) = argument {
                    analyzer.column(name)?;
                }
            }
            match raw {
                Raw::Operation { operator, left, right } => {
                    bail!("the '{operator}' operation is not supported between {left} and {right}")
                }
                _ => bail!(
                    "Invalid call to function {shown}, none of its type signatures match (known type signatures: {})",
                    signatures(candidates.iter())
                ),
            }
        }
        (several, Raw::Operation { operator, left, right }) => {
            let has_marker = arguments.iter().any(|a| matches!(a, Raw::Marker(_)));
            if let Some(ty) = receiver
                && !has_marker
                // Of an operation on constants alone: the one on two numbers of the receiver's own type.
                && let Some(exact) = several.iter().find(|f| f.arguments.iter().all(|of| same(of, ty)))
            {
                return Ok((*exact).clone());
            }
            bail!(
                "Ambiguous '{operator}' operation with args {left} and {right}: use type hint to disambiguate, \
                 example '(int) ?'"
            )
        }
        (_, Raw::Cast { of, .. }) => {
            bail!("Cannot infer type for term {of} in selection clause (try using a cast to force a type)")
        }
        (_, Raw::Negation(_)) => bail!("Ambiguous negation: use type casts to disambiguate"),
        (several, _) => bail!(
            "Ambiguous call to function {shown} (can be matched by following signatures: {}): use type casts to \
             disambiguate",
            signatures(several.iter().copied())
        ),
    }
}

fn signatures<'f>(functions: impl Iterator<Item = &'f Function>) -> String {
    functions.map(signature).collect::<Vec<_>>().join(", ")
}

fn signature(function: &Function) -> String {
    let arguments: Vec<String> = function.arguments.iter().map(display).collect();
    let name = function.name.strip_prefix("system.").unwrap_or(&function.name);
    let name = format!("system.{}", QuotedName(name));
    format!("{name} : ({}) -> {}", arguments.join(", "), display(&function.returns))
}
