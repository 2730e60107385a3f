//! Values that hold values.

use super::{Column, Detail, not_one};
use model::CqlType;
use model::types::collection::{count, elements, tuple_fields, vector_elements};

/// Whether values of a type that are shown as text are bare: scalars but blobs, which look like constants.
pub(super) fn is_bare(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Decimal
            | CqlType::Varint
            | CqlType::Inet
            | CqlType::LexicalUuid
            | CqlType::Uuid
            | CqlType::TimeUuid
            | CqlType::Duration
            | CqlType::Composite(_)
            | CqlType::DynamicComposite(_)
    )
}

fn append_optional(column: &mut Column, value: Option<&[u8]>) -> Result<(), Detail> {
    match value {
        Some(value) => column.append(value),
        None => {
            column.append_null();
            Ok(())
        }
    }
}

fn push_end(offsets: &mut Vec<i32>, column: &Column) -> Result<(), Detail> {
    let end = i32::try_from(column.len()).map_err(|_| "a batch of too many elements".to_owned())?;
    offsets.push(end);
    Ok(())
}

pub(super) fn append_list(offsets: &mut Vec<i32>, element: &mut Column, value: &[u8]) -> Result<(), Detail> {
    let before = element.len();
    elements(value).try_for_each(|value| append_optional(element, value))?;
    if element.len() - before != count(value) || value.len() < 4 {
        return Err(not_one(value, "list or set"));
    }
    push_end(offsets, element)
}

pub(super) fn append_map(
    offsets: &mut Vec<i32>,
    key: &mut Column,
    of_value: &mut Column,
    value: &[u8],
) -> Result<(), Detail> {
    let before = key.len();
    let mut in_turn = elements_of_map(value);
    while let Some(found) = in_turn.next() {
        // Arrow has no map with a key that is null; one of no bytes becomes null.
        let found = found.filter(|key_bytes| !key_bytes.is_empty() || !key.ty.is_null_when_empty());
        key.append(found.ok_or_else(|| "a map with a key that is null or empty".to_owned())?)?;
        append_optional(of_value, in_turn.next().ok_or_else(|| not_one(value, "map"))?)?;
    }
    if key.len() - before != count(value) || value.len() < 4 {
        return Err(not_one(value, "map"));
    }
    push_end(offsets, key)
}

/// Keys and values in turn, nulls among them.
fn elements_of_map(value: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let left = count(value).saturating_mul(2);
    tuple_fields(value.get(4..).unwrap_or_default()).take(left)
}

pub(super) fn append_struct(fields: &mut [Column], value: &[u8]) -> Result<(), Detail> {
    let mut found = tuple_fields(value);
    // Fields that the type got later are null.
    fields.iter_mut().try_for_each(|field| append_optional(field, found.next().flatten()))
}

pub(super) fn append_vector(dimension: u32, element: &mut Column, value: &[u8]) -> Result<(), Detail> {
    let before = element.len();
    let ty = std::sync::Arc::clone(&element.ty);
    let mut found = vector_elements(&ty, dimension, value);
    found.by_ref().try_for_each(|value| element.append(value))?;
    match element.len() - before == dimension as usize && found.rest().is_empty() {
        true => Ok(()),
        false => Err(not_one(value, "vector")),
    }
}
