//! The overloads of the masking functions.

use super::Function;
use super::registry::{argument_type, mask_function};
use super::scalar::Mask;
use crate::analysis::Analyzer;
use crate::analysis::raw::Raw;
use crate::analysis::types::display;
use crate::error::{Result, bail};
use model::types::CqlType;

pub(super) fn candidates(
    analyzer: &Analyzer<'_>,
    name: &str,
    arguments: &[&Raw<'_>],
) -> Result<Option<Vec<Function>>> {
    let (parameters, required, allowed) = match name {
        "mask_null" | "mask_default" => ("any", 1, 1),
        "mask_replace" => ("any, any", 2, 2),
        "mask_inner" | "mask_outer" => ("text, int, int, [text]", 3, 4),
        "mask_hash" => ("any, [text]", 1, 2),
        _ => return Ok(None),
    };
    if arguments.len() < required || arguments.len() > allowed {
        bail!("Invalid number of arguments for function system.{name}({parameters})");
    }
    let Some(first) = arguments.first() else { return Ok(None) };
    let ty = match (name, first) {
        // Its parameters are of fixed types.
        ("mask_inner" | "mask_outer", Raw::Marker(_) | Raw::Null) => CqlType::Text,
        _ => argument_type(analyzer, name, parameters, first)?,
    };
    let function = match name {
        "mask_null" => mask_function(name, std::slice::from_ref(&ty), ty.frozen(), Mask::Null),
        "mask_default" => mask_function(name, std::slice::from_ref(&ty), ty.frozen(), Mask::Default),
        "mask_replace" => mask_function(name, &[ty.clone(), ty.clone()], ty.frozen(), Mask::Replace),
        "mask_hash" => {
            let mut types = vec![ty];
            types.extend((arguments.len() == 2).then_some(CqlType::Text));
            mask_function(name, &types, CqlType::Blob, Mask::Hash)
        }
        _ => {
            if !matches!(ty, CqlType::Text | CqlType::Ascii) {
                bail!(
                    "Function system.{name} requires an argument of type [text|varchar|ascii], but found argument \
                     {first} of type {}",
                    display(&ty)
                );
            }
            let mut types = vec![ty.clone(), CqlType::Int, CqlType::Int];
            types.extend((arguments.len() == 4).then_some(CqlType::Text));
            mask_function(name, &types, ty, Mask::Characters { outer: name == "mask_outer" })
        }
    };
    Ok(Some(vec![function]))
}
