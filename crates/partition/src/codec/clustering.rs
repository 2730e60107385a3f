//! Clusterings and bounds as bytes (docs/formats/sstable-big.md).
//!
//! ```text
//! components := for each batch of up to 32: uvint header, values
//!               header: 2 bits for each component: 01 empty, 10 null; values only of those that are neither
//! clustering := components                       as many as the table has clustering columns
//! bound      := u8 kind, u16 count, components
//! prefix     := u8 4, clustering | bound         in index entries
//! ```

use super::encode::EncodeError;
use super::input::Input;
use super::layout::ValueLen;
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Component, vint};
use std::cmp::Ordering;

const BATCH: usize = 32;

/// Appends the components of a row's clustering.
pub fn write_clustering(
    out: &mut Vec<u8>,
    types: &[ValueLen],
    clustering: &Clustering,
) -> Result<(), EncodeError> {
    if clustering.len() != types.len() {
        return Err(EncodeError::ClusteringLength { expected: types.len(), found: clustering.len() });
    }
    write_components(out, types, clustering)
}

fn write_components(
    out: &mut Vec<u8>,
    types: &[ValueLen],
    clustering: &Clustering,
) -> Result<(), EncodeError> {
    for (batch, types) in types.chunks(BATCH).enumerate() {
        let first = batch * BATCH;
        let count = clustering.len().saturating_sub(first).min(types.len());
        if count == 0 {
            break;
        }
        let mut header = 0u64;
        for i in 0..count {
            header |= match clustering.get(first + i) {
                Component::Value([]) => 1 << (2 * i),
                Component::Value(_) => 0,
                Component::Null => 2 << (2 * i),
            };
        }
        vint::write_unsigned(out, header);
        for (i, ty) in types.iter().enumerate().take(count) {
            if let Component::Value(value @ [_, ..]) = clustering.get(first + i) {
                ty.write(out, value)?;
            }
        }
    }
    Ok(())
}

/// Reads components into `out`, which is emptied first: a row's clustering, if there are as many types.
#[inline]
pub fn read_clustering<I: Input>(
    input: &mut I,
    types: &[ValueLen],
    out: &mut Clustering,
) -> Result<(), I::Error> {
    out.clear();
    each_component(input, types, |component| out.push(component))
}

/// Compares a row's clustering with a position, in place; the input is behind the clustering afterwards.
pub fn compare_clustering<I: Input>(
    input: &mut I,
    types: &[ValueLen],
    comparator: &ClusteringComparator,
    with: Position<'_>,
) -> Result<Ordering, I::Error> {
    let mut order = Ordering::Equal;
    let mut others = with.prefix.iter().enumerate();
    each_component(input, types, |component| {
        if order.is_eq()
            && let Some((at, other)) = others.next()
        {
            order = comparator.compare_component(at, component, other);
        }
    })?;
    Ok(order.then_with(|| BoundKind::Row.order_of_equals(types.len(), with.kind, with.prefix.len())))
}

#[inline(always)]
fn each_component<I: Input>(
    input: &mut I,
    types: &[ValueLen],
    mut take: impl FnMut(Component<'_>),
) -> Result<(), I::Error> {
    for types in types.chunks(BATCH) {
        let mut header = input.uvint()?;
        for ty in types {
            match header & 3 {
                0 => {
                    let len = match ty.0 {
                        Some(len) => len as u64,
                        None => input.uvint()?,
                    };
                    if len > i32::MAX as u64 >> 1 {
                        return Err(input.malformed(format!("a clustering value of {len} bytes")));
                    }
                    input.with_slice(len, |value| take(Component::Value(value)))?;
                }
                other => take(if other == 1 { Component::Value(&[]) } else { Component::Null }),
            }
            header >>= 2;
        }
        if header != 0 {
            return Err(input.malformed("the header of a clustering names too many components".to_owned()));
        }
    }
    Ok(())
}

/// Steps over a row's clustering.
pub fn skip_clustering<I: Input>(input: &mut I, types: &[ValueLen]) -> Result<(), I::Error> {
    for types in types.chunks(BATCH) {
        let header = input.uvint()?;
        for (i, ty) in types.iter().enumerate() {
            if header >> (2 * i) & 3 == 0 {
                let len = match ty.0 {
                    Some(len) => len as u64,
                    None => input.uvint()?,
                };
                input.skip(len)?;
            }
        }
    }
    Ok(())
}

/// Appends a bound of a range.
pub fn write_bound(
    out: &mut Vec<u8>,
    types: &[ValueLen],
    kind: BoundKind,
    prefix: &Clustering,
) -> Result<(), EncodeError> {
    if prefix.len() > types.len() {
        return Err(EncodeError::ClusteringLength { expected: types.len(), found: prefix.len() });
    }
    out.push(kind as u8);
    out.extend_from_slice(&(prefix.len() as u16).to_be_bytes());
    write_components(out, types, prefix)
}

/// Reads a bound of a range into `out`.
pub fn read_bound<I: Input>(
    input: &mut I,
    types: &[ValueLen],
    out: &mut ClusteringBound,
) -> Result<(), I::Error> {
    let ordinal = input.u8()?;
    match BoundKind::from_ordinal(ordinal).filter(|k| k.is_bound()) {
        Some(kind) => out.kind = kind,
        None => return Err(input.malformed(format!("{ordinal} is no kind of bound"))),
    }
    let types = read_bound_types(input, types)?;
    read_clustering(input, types, &mut out.prefix)
}

/// The types of the components of a bound.
fn read_bound_types<'t, I: Input>(input: &mut I, types: &'t [ValueLen]) -> Result<&'t [ValueLen], I::Error> {
    let count = input.u16()? as usize;
    match types.get(..count) {
        Some(types) => Ok(types),
        None => Err(input.malformed(format!("a bound of {count} components, the table has {}", types.len()))),
    }
}

/// Appends the position of a row or a marker, as index entries hold it.
pub fn write_prefix(
    out: &mut Vec<u8>,
    types: &[ValueLen],
    position: Position<'_>,
) -> Result<(), EncodeError> {
    match position.kind {
        BoundKind::Row | BoundKind::Static => {
            out.push(BoundKind::Row as u8);
            write_clustering(out, types, position.prefix)
        }
        kind => write_bound(out, types, kind, position.prefix),
    }
}

/// Reads the position of a row or a marker into `out` and returns its kind.
#[inline]
pub fn read_prefix<I: Input>(
    input: &mut I,
    types: &[ValueLen],
    out: &mut Clustering,
) -> Result<BoundKind, I::Error> {
    let (kind, types) = read_prefix_head(input, types)?;
    read_clustering(input, types, out)?;
    Ok(kind)
}

/// Steps over the position of a row or a marker, which has to be one that can be read.
#[inline]
pub fn skip_prefix<I: Input>(input: &mut I, types: &[ValueLen]) -> Result<(), I::Error> {
    let (_, types) = read_prefix_head(input, types)?;
    each_component(input, types, |_| {})
}

/// The kind of a position, and the types of its components.
#[inline]
fn read_prefix_head<'t, I: Input>(
    input: &mut I,
    types: &'t [ValueLen],
) -> Result<(BoundKind, &'t [ValueLen]), I::Error> {
    let ordinal = input.u8()?;
    match BoundKind::from_ordinal(ordinal) {
        Some(BoundKind::Row) => Ok((BoundKind::Row, types)),
        Some(kind) if kind.is_bound() => Ok((kind, read_bound_types(input, types)?)),
        _ => Err(input.malformed(format!("{ordinal} is no kind of position"))),
    }
}
