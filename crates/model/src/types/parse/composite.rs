//! Composites from text: `1:foo`, `s@foo:i@32`.
//!
//! ```text
//! composite := [ part { ':' part } [ ':' mark ] ]
//! part      := [ ( alias | class ) '@' ] text     the type only in a dynamic composite
//! mark      := '_' | '!'                          a bound before, behind all that begins alike
//! ```
//! `\:` is a colon in a text. A last `!` belongs to no text: it is there to part a backslash or a `!` from
//! what follows.

use super::{parse_inner, split_at_colons};
use crate::types::CqlType;
use crate::types::composite::{Shape, parse_named};
use crate::types::validate::InvalidValue;
use bytes::Bytes;
use std::borrow::Cow;

/// Bytes of a component, whose length is two bytes.
const COMPONENT_BYTES_MAX: usize = u16::MAX as usize;

/// Bytes of the name of a class: one bit of its length tells it from an alias.
const CLASS_BYTES_MAX: usize = i16::MAX as usize;

pub(super) fn parse(ty: &CqlType, text: &str, now_ms: i64) -> Result<Bytes, InvalidValue> {
    let fail = |message: String| Err(InvalidValue(message));
    let Some(shape) = ty.shape() else { return fail(format!("A {ty} is no composite")) };
    let mut out = Vec::new();
    if text.is_empty() {
        return Ok(out.into());
    }
    for (i, part) in split_at_colons(text).into_iter().enumerate() {
        if let Some(mark) = match part {
            "!" => Some(1),
            "_" => Some(0xff),
            _ => None,
        } {
            let Some(end) = out.last_mut() else {
                return fail(format!("Invalid composite literal: '{part}' follows no component"));
            };
            *end = mark;
            break;
        }
        let (component, part) = match shape {
            Shape::Static(types) => match types.get(i) {
                Some(component) => (Cow::Borrowed(component), part),
                None => {
                    return fail(format!(
                        "Invalid composite literal: too many components. Type {ty} has {}",
                        types.len()
                    ));
                }
            },
            Shape::Dynamic(aliases) => {
                let (class, text) = split_type(part)?;
                let alias = match class.as_bytes() {
                    [alias] => aliases.get(*alias).map(|component| (*alias, component)),
                    _ => None,
                };
                if let Some((alias, component)) = alias {
                    out.extend([0x80, alias]);
                    (Cow::Borrowed(component), text)
                } else {
                    let known = parse_named(class).filter(|_| class.len() <= CLASS_BYTES_MAX);
                    let Some(component) = known else {
                        return fail(format!("Unable to find the type '{class}' of component {i}"));
                    };
                    out.extend((class.len() as u16).to_be_bytes());
                    out.extend(class.as_bytes());
                    (Cow::Owned(component), text)
                }
            }
        };
        let value = parse_inner(&component.ty, &unescaped(part), now_ms)?;
        component.ty.validate(&value)?;
        if value.len() > COMPONENT_BYTES_MAX {
            return fail(format!("Component {i} is longer than {COMPONENT_BYTES_MAX} bytes"));
        }
        out.extend((value.len() as u16).to_be_bytes());
        out.extend(&value[..]);
        out.push(0);
    }
    Ok(out.into())
}

/// What stands before and behind the `@`. As in Java, whatever is empty at the end is not there.
fn split_type(part: &str) -> Result<(&str, &str), InvalidValue> {
    let mut pieces = part.trim_end_matches('@').split('@');
    match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(class), text, None) if !class.is_empty() || text.is_some() || part.is_empty() => {
            Ok((class, text.unwrap_or_default()))
        }
        _ => Err(InvalidValue(format!("Invalid component representation: {part}"))),
    }
}

fn unescaped(text: &str) -> String {
    let text = text.replace("\\:", ":");
    match text.strip_suffix('!') {
        Some(text) => text.to_owned(),
        None => text,
    }
}
