//! The check of values from outside: whatever passes can be decoded.
//!
//! Messages are Cassandra's, because clients see them. Two things are refused here that Cassandra lets pass,
//! only to fail when the value is read: text that is not strict UTF-8 (overlong forms, surrogates), and nulls
//! inside lists. Recursion follows the type, whose nesting is bounded where it is parsed.

use super::CqlType;
use super::collection::{next_element, split_count, vector_elements};
use super::composite::{self, Shape};
use super::duration::Duration;
use crate::vint;

/// Bytes that are no value of their type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(pub String);

type Check = Result<(), InvalidValue>;

fn invalid<T>(message: impl Into<String>) -> Result<T, InvalidValue> {
    Err(InvalidValue(message.into()))
}

impl CqlType {
    /// Whether a value of no bytes belongs to the type.
    pub fn allows_empty(&self) -> bool {
        !matches!(
            self,
            CqlType::SmallInt
                | CqlType::TinyInt
                | CqlType::Date
                | CqlType::Time
                | CqlType::Duration
                | CqlType::List { .. }
                | CqlType::Set { .. }
                | CqlType::Map { .. }
                | CqlType::Vector { .. }
        )
    }

    /// Checks that `value` is a value of this type, in its frozen form if it is a collection.
    pub fn validate(&self, value: &[u8]) -> Result<(), InvalidValue> {
        let n = value.len();
        match self {
            CqlType::Int if n != 4 && n != 0 => invalid(format!("Expected 4 or 0 byte int ({n})")),
            CqlType::BigInt | CqlType::Counter if n != 8 && n != 0 => {
                invalid(format!("Expected 8 or 0 byte long ({n})"))
            }
            CqlType::SmallInt if n != 2 => invalid(format!("Expected 2 bytes for a smallint ({n})")),
            CqlType::TinyInt if n != 1 => invalid(format!("Expected 1 byte for a tinyint ({n})")),
            CqlType::Decimal if n != 0 && n < 4 => invalid(format!("Expected 0 or at least 4 bytes ({n})")),
            CqlType::Float if n != 4 && n != 0 => {
                invalid(format!("Expected 4 or 0 byte value for a float ({n})"))
            }
            CqlType::Double if n != 8 && n != 0 => {
                invalid(format!("Expected 8 or 0 byte value for a double ({n})"))
            }
            CqlType::Boolean if n > 1 => invalid(format!("Expected 1 or 0 byte value ({n})")),
            CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid if n != 16 && n != 0 => {
                invalid(format!("UUID should be 16 or 0 bytes ({n})"))
            }
            CqlType::TimeUuid if value.get(6).is_some_and(|b| b >> 4 != 1) => {
                invalid("Invalid version for TimeUUID type: 0x1")
            }
            CqlType::Inet if !matches!(n, 0 | 4 | 16) => {
                let hex: String = value.iter().map(|b| format!("{b:02x}")).collect();
                invalid(format!("Expected 4 or 16 byte inetaddress; got {hex}"))
            }
            CqlType::Date if n != 4 => invalid(format!("Expected 4 byte long for date ({n})")),
            CqlType::Time if n != 8 => invalid(format!("Expected 8 byte long for time ({n})")),
            CqlType::Timestamp if n != 8 && n != 0 => {
                invalid(format!("Expected 8 or 0 byte long for date ({n})"))
            }
            CqlType::Empty if n != 0 => invalid("EmptyType only accept empty values"),
            CqlType::Ascii => match value.iter().find(|b| !b.is_ascii()) {
                Some(byte) => invalid(format!("Invalid byte for ascii: {}", *byte as i8)),
                None => Ok(()),
            },
            // Most text is, and this check is the quicker one for short text.
            CqlType::Text if value.is_ascii() => Ok(()),
            CqlType::Text => match std::str::from_utf8(value) {
                Ok(_) => Ok(()),
                Err(_) => invalid("String didn't validate."),
            },
            CqlType::Duration => validate_duration(value),
            CqlType::List { element, .. } => validate_elements("list", &[element.as_ref()], value),
            CqlType::Set { element, .. } => validate_elements("set", &[element.as_ref()], value),
            CqlType::Map { key, value: of_value, .. } => {
                validate_elements("map", &[key.as_ref(), of_value.as_ref()], value)
            }
            CqlType::Tuple(types) => validate_tuple(types, value),
            CqlType::Udt { definition, .. } => validate_user_type(&definition.fields, value),
            CqlType::Vector { element, dimension } => self.validate_vector(element, *dimension, value),
            CqlType::Composite(types) => composite::validate(Shape::Static(types), value),
            CqlType::DynamicComposite(aliases) => composite::validate(Shape::Dynamic(aliases), value),
            _ => Ok(()),
        }
    }

    fn validate_vector(&self, element: &CqlType, dimension: u32, value: &[u8]) -> Check {
        if value.is_empty() {
            return invalid("Invalid empty vector value");
        }
        let mut elements = vector_elements(element, dimension, value);
        let mut found = 0;
        for element_value in elements.by_ref() {
            element.validate(element_value)?;
            found += 1;
        }
        if found < dimension {
            return invalid(format!("Not enough bytes to read a {self}"));
        }
        match elements.rest().len() {
            0 => Ok(()),
            n => invalid(format!("Unexpected {n} extraneous bytes after {self} value")),
        }
    }
}

fn validate_duration(value: &[u8]) -> Check {
    if value.len() < 3 {
        return invalid(format!("Expected at least 3 bytes for a duration ({})", value.len()));
    }
    let Some(duration) = Duration::decode(value) else {
        let mut rest = value;
        for name in ["months", "days"] {
            let Some((part, used)) = vint::read_signed(rest) else { break };
            if i32::try_from(part).is_err() {
                return invalid(format!("The duration {name} must be a 32 bits integer but was: {part}"));
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        return invalid("Not enough bytes to read a duration");
    };
    if duration.has_one_sign() {
        return Ok(());
    }
    let Duration { months, days, nanoseconds } = duration;
    invalid(format!(
        "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
    ))
}

/// Elements of `types` in turn: one for a list or set, two for a map.
fn validate_elements(what: &str, types: &[&CqlType], value: &[u8]) -> Check {
    let Some((count, mut rest)) = split_count(value) else {
        return match value.len() {
            0..4 => invalid(format!("Not enough bytes to read a {what}")),
            _ => invalid(format!("The data cannot be deserialized as a {what}")),
        };
    };
    for _ in 0..count {
        for ty in types {
            match next_element(&mut rest) {
                None => return invalid(format!("Not enough bytes to read a {what}")),
                Some(None) => return invalid("Null value read when not allowed"),
                Some(Some(element)) => ty.validate(element)?,
            }
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    invalid(format!("Unexpected extraneous bytes after {what} value"))
}

fn validate_tuple(types: &[CqlType], mut rest: &[u8]) -> Check {
    for (i, ty) in types.iter().enumerate() {
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return invalid(format!("Not enough bytes to read size of {i}th component"));
        }
        match next_element(&mut rest) {
            None => return invalid(format!("Not enough bytes to read {i}th component")),
            Some(None) => {}
            Some(Some(field)) => ty.validate(field)?,
        }
    }
    if rest.is_empty() { Ok(()) } else { invalid("Invalid remaining data after end of tuple value") }
}

fn validate_user_type(fields: &[(String, CqlType)], mut rest: &[u8]) -> Check {
    for (i, (name, ty)) in fields.iter().enumerate() {
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return invalid(format!("Not enough bytes to read size of {i}th field {name}"));
        }
        match next_element(&mut rest) {
            None => return invalid(format!("Not enough bytes to read {i}th field {name}")),
            Some(None) => {}
            Some(Some(field)) => ty
                .validate(field)
                .map_err(|e| InvalidValue(format!("Failure validating the {i}th field {name}; {e}")))?,
        }
    }
    if rest.is_empty() { Ok(()) } else { invalid("Invalid remaining data after end of UDT value") }
}

#[cfg(test)]
mod tests;
