//! The overloads of the masking functions.

use super::registry::{argument_type, mask_function};
use super::scalar::Mask;
use super::{Function, resolve};
use crate::analysis::Analyzer;
use crate::analysis::raw::Raw;
use crate::analysis::types::display;
use crate::error::{Result, bail};
use model::types::CqlType;
use std::fmt;

/// The parameters of a masking function, as messages show them, and how many arguments it takes.
fn parameters(name: &str) -> Option<(&'static str, std::ops::RangeInclusive<usize>)> {
    Some(match name {
        "mask_null" | "mask_default" => ("any", 1..=1),
        "mask_replace" => ("any, any", 2..=2),
        "mask_inner" | "mask_outer" => ("[text|varchar|ascii], int, int, [text]", 3..=4),
        "mask_hash" => ("any, [text]", 1..=2),
        _ => return None,
    })
}

pub(super) fn candidates(
    analyzer: &Analyzer<'_>,
    name: &str,
    arguments: &[&Raw<'_>],
) -> Result<Option<Vec<Function>>> {
    let Some((shown, _)) = parameters(name) else { return Ok(None) };
    check_count(name, arguments.len())?;
    let Some(first) = arguments.first() else { return Ok(None) };
    let ty = match (name, first) {
        // Its parameters are of fixed types.
        ("mask_inner" | "mask_outer", Raw::Marker(_) | Raw::Null) => CqlType::Text,
        _ => argument_type(analyzer, name, shown, first)?,
    };
    let Some(function) = overload(name, ty, first, arguments.len())? else { return Ok(None) };
    check_fixed_types(analyzer, &function, arguments.get(1..).unwrap_or_default())?;
    Ok(Some(vec![function]))
}

fn check_count(name: &str, count: usize) -> Result<()> {
    match parameters(name) {
        Some((shown, allowed)) if !allowed.contains(&count) => {
            bail!("Invalid number of arguments for function system.{name}({shown})")
        }
        _ => Ok(()),
    }
}

/// The masking function of that name for a value of type `ty`, which messages show as `value`, and `count`
/// arguments with it; `None` when there is no such function.
pub(crate) fn overload(
    name: &str,
    ty: CqlType,
    value: &dyn fmt::Display,
    count: usize,
) -> Result<Option<Function>> {
    if parameters(name).is_none() {
        return Ok(None);
    }
    check_count(name, count)?;
    Ok(Some(match name {
        "mask_null" => mask_function(name, std::slice::from_ref(&ty), ty.frozen(), Mask::Null),
        "mask_default" => mask_function(name, std::slice::from_ref(&ty), ty.frozen(), Mask::Default),
        "mask_replace" => mask_function(name, &[ty.clone(), ty.clone()], ty.frozen(), Mask::Replace),
        "mask_hash" => {
            let mut types = vec![ty];
            types.extend((count == 2).then_some(CqlType::Text));
            mask_function(name, &types, CqlType::Blob, Mask::Hash)
        }
        _ => {
            if !matches!(ty, CqlType::Text | CqlType::Ascii) {
                bail!(
                    "Function system.{name} requires an argument of type [text|varchar|ascii], but found argument \
                     {value} of type {}",
                    display(&ty)
                );
            }
            let mut types = vec![ty.clone(), CqlType::Int, CqlType::Int];
            types.extend((count == 4).then_some(CqlType::Text));
            mask_function(name, &types, ty, Mask::Characters { outer: name == "mask_outer" })
        }
    }))
}

/// Refuses arguments behind the value that are not of the types which the function fixes for them.
pub(crate) fn check_fixed_types(
    analyzer: &Analyzer<'_>,
    function: &Function,
    arguments: &[&Raw<'_>],
) -> Result<()> {
    if function.name == "system.mask_replace" {
        return Ok(());
    }
    for (argument, ty) in arguments.iter().zip(function.arguments.iter().skip(1)) {
        if analyzer.fit(argument, ty).is_assignable() {
            continue;
        }
        if !super::arguments_of(argument).is_empty() {
            resolve(analyzer, argument, None)?;
        }
        if let Some(given) = analyzer.compatible_type(argument) {
            bail!(
                "Function {} requires an argument of type {}, but found argument {argument} of type {}",
                function.name,
                display(ty),
                display(&given)
            );
        }
    }
    Ok(())
}
