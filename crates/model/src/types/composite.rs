//! Composites: values made of components, as Thrift's column names were (`CompositeType`,
//! `DynamicCompositeType`).
//!
//! ```text
//! composite          [ FF FF ] { component }     FF FF: the name of a static column, before all others
//! dynamic composite  { type component }
//! component          u16 length | bytes | i8 end
//! type               80 alias                    one that the composite declares
//!                    u16 length | class string   any other; without a word it is BytesType
//! ```
//! 1. The components of a composite have the types that it declares, in their order; there may be fewer.
//! 2. Those of a dynamic composite say their types. Components of different types are ordered by the names of
//!    their classes.
//! 3. `end` is 0. In the last component it may be another number: a bound before (-1) or behind (1) all that
//!    begins alike.
//!
//! A type that a value names itself is bounded ([`TypeBounds::NAMED`]) and holds no dynamic composite. So
//! walking a value needs no more stack than its type is deep. Bytes that are no composite have an order, too.
//! They come behind composites, by their bytes from the first component that is none. (Cassandra:
//! `AbstractCompositeType`.)

use super::validate::InvalidValue;
use super::{CqlType, MARSHAL, TypeBounds};
use crate::byte_comparable::encode_value;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The type of a component.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// The type of its values.
    pub ty: CqlType,
    /// Whether it stands in `ReversedType`: greater values come first.
    pub reversed: bool,
    /// The class, if it is not the type's own.
    pub old_class: Option<OldClass>,
}

/// Classes of old releases. Their values are read as another type, but keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OldClass {
    /// Timestamps by their bytes: those before 1970 come last.
    Date,
    /// As `timeuuid`.
    LegacyTimeUuid,
}

impl OldClass {
    /// The class of that name.
    pub(super) fn of_class(name: &str) -> Option<OldClass> {
        [OldClass::Date, OldClass::LegacyTimeUuid].into_iter().find(|c| c.name() == name)
    }

    /// The name of the class without its package.
    pub(super) fn name(self) -> &'static str {
        match self {
            OldClass::Date => "DateType",
            OldClass::LegacyTimeUuid => "LegacyTimeUUIDType",
        }
    }

    /// Bytes in the order of the values, where that is not the order of the type; those of a value of the
    /// type only.
    fn ordered(self, value: &[u8]) -> Option<&[u8]> {
        match self {
            OldClass::Date => (value.len() == 8).then_some(value),
            OldClass::LegacyTimeUuid => None,
        }
    }
}

impl Component {
    /// A component of a type's own class.
    pub fn new(ty: CqlType, reversed: bool) -> Component {
        Component { ty, reversed, old_class: None }
    }

    /// The class string.
    pub fn class_name(&self) -> String {
        match (self.old_class, self.reversed) {
            (None, reversed) => self.ty.clustering_class_name(reversed),
            (Some(old), true) => format!("{MARSHAL}{REVERSED}({MARSHAL}{})", old.name()),
            (Some(old), false) => format!("{MARSHAL}{}", old.name()),
        }
    }

    /// Compares two values.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let ordered = |value| self.old_class.and_then(|class| class.ordered(value));
        let order = match (ordered(a), ordered(b)) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => self.ty.compare(a, b),
        };
        if self.reversed { order.reverse() } else { order }
    }

    /// Appends the byte-comparable encoding of a value, as [`encode_value`] does.
    pub(crate) fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_encoded = match self.old_class.and_then(|class| class.ordered(value)) {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                true
            }
            None => encode_value(&self.ty, value, out),
        };
        if self.reversed {
            out.iter_mut().skip(start).for_each(|b| *b = !*b);
        }
        is_encoded
    }

    /// What components of different types are ordered by: the class, where that is `ReversedType` the one
    /// inside, too.
    pub(crate) fn class_names(&self) -> (Option<&'static str>, &str) {
        let class = match self.old_class {
            Some(old) => old.name(),
            None => self.ty.simple_class(),
        };
        (self.reversed.then_some(REVERSED), class)
    }
}

/// The name of the class around a reversed component.
pub(crate) const REVERSED: &str = "ReversedType";

/// What a dynamic composite declares: characters that stand for types.
///
/// They are kept in the order in which Cassandra prints them, which is that of Java's `HashMap`. The order
/// makes no other type.
#[derive(Clone, Debug, Eq)]
pub struct Aliases(Box<[(u8, Component)]>);

impl Aliases {
    /// Where two have the same character, the last type counts.
    pub fn new(given: impl IntoIterator<Item = (u8, Component)>) -> Aliases {
        let mut out: Vec<(u8, Component)> = Vec::new();
        for (alias, component) in given {
            match out.iter_mut().find(|(known, _)| *known == alias) {
                Some(known) => known.1 = component,
                None => out.push((alias, component)),
            }
        }
        let mut buckets = 16;
        while out.len() * 4 > buckets * 3 {
            buckets *= 2;
        }
        out.sort_by_key(|(alias, _)| usize::from(*alias) & (buckets - 1));
        Aliases(out.into())
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(u8, Component)> + Clone {
        self.0.iter()
    }

    /// The type of a character.
    pub fn get(&self, alias: u8) -> Option<&Component> {
        self.0.iter().find(|(known, _)| *known == alias).map(|(_, component)| component)
    }
}

impl PartialEq for Aliases {
    fn eq(&self, other: &Aliases) -> bool {
        self.0.len() == other.0.len() && self.iter().all(|(alias, ty)| other.get(*alias) == Some(ty))
    }
}

impl Hash for Aliases {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut sorted: Vec<&(u8, Component)> = self.0.iter().collect();
        sorted.sort_by_key(|(alias, _)| *alias);
        sorted.hash(state);
    }
}

/// Either type, as what its values are read with.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'t> {
    Static(&'t [Component]),
    Dynamic(&'t Aliases),
}

impl CqlType {
    /// How values are read, of a composite of either kind.
    pub(crate) fn shape(&self) -> Option<Shape<'_>> {
        match self {
            CqlType::Composite(types) => Some(Shape::Static(types)),
            CqlType::DynamicComposite(aliases) => Some(Shape::Dynamic(aliases)),
            _ => None,
        }
    }
}

/// How a component of a dynamic composite says its type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named<'v> {
    Alias(u8),
    Class(&'v str),
}

/// A component of a value.
pub(crate) struct Part<'t, 'v> {
    pub component: Cow<'t, Component>,
    /// In a dynamic composite.
    pub named: Option<Named<'v>>,
    pub value: &'v [u8],
    pub end: i8,
}

/// The components of a value.
#[derive(Clone)]
pub(crate) struct Parts<'t, 'v> {
    shape: Shape<'t>,
    is_static: bool,
    rest: &'v [u8],
    index: usize,
}

type Read<T> = Result<T, InvalidValue>;

fn invalid<T>(message: String) -> Read<T> {
    Err(InvalidValue(message))
}

impl<'t, 'v> Parts<'t, 'v> {
    pub fn new(shape: Shape<'t>, value: &'v [u8]) -> Parts<'t, 'v> {
        let name = match shape {
            Shape::Static(_) => value.strip_prefix(&STATIC),
            Shape::Dynamic(_) => None,
        };
        Parts { shape, is_static: name.is_some(), rest: name.unwrap_or(value), index: 0 }
    }

    /// Whether the value is the name of a static column.
    pub fn is_static(&self) -> bool {
        self.is_static
    }

    /// What was not read. In front of it is what the last component, if that was none, begins with.
    pub fn rest(&self) -> &'v [u8] {
        self.rest
    }

    /// The next component: `None` at the end, an error for what is none. That stays unread.
    pub fn next(&mut self) -> Option<Read<Part<'t, 'v>>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut ahead = self.clone();
        let part = ahead.read(|_, _| Ok(()));
        if part.is_ok() {
            *self = ahead;
        }
        Some(part)
    }

    /// Reads a component; `check` sees its value before the end is looked at.
    fn read(&mut self, check: impl FnOnce(&Component, &[u8]) -> Read<()>) -> Read<Part<'t, 'v>> {
        let i = self.index;
        let (component, named) = self.read_type()?;
        let Some((len, rest)) = self.rest.split_first_chunk::<2>() else {
            return invalid(format!("Not enough bytes to read value size of component {i}"));
        };
        let Some((value, rest)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len))) else {
            return invalid(format!("Not enough bytes to read value of component {i}"));
        };
        check(&component, value)?;
        let Some((end, rest)) = rest.split_first() else {
            return invalid(format!("Not enough bytes to read the end-of-component byte of component{i}"));
        };
        self.rest = rest;
        self.index += 1;
        Ok(Part { component, named, value, end: *end as i8 })
    }

    fn read_type(&mut self) -> Read<(Cow<'t, Component>, Option<Named<'v>>)> {
        let i = self.index;
        let aliases = match self.shape {
            Shape::Static(types) => {
                return match types.get(i) {
                    Some(component) => Ok((Cow::Borrowed(component), None)),
                    None => invalid("Too many bytes for comparator".to_owned()),
                };
            }
            Shape::Dynamic(aliases) => aliases,
        };
        let Some((header, rest)) = self.rest.split_first_chunk::<2>() else {
            return invalid(format!("Not enough bytes to header of the comparator part of component {i}"));
        };
        self.rest = rest;
        if let [0x80..=0xff, alias] = header {
            return match aliases.get(*alias) {
                Some(component) => Ok((Cow::Borrowed(component), Some(Named::Alias(*alias)))),
                None => invalid(format!("Cannot find comparator for component {i}")),
            };
        }
        let Some((class, rest)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*header))) else {
            return invalid(format!("Not enough bytes to read comparator name of component {i}"));
        };
        self.rest = rest;
        match std::str::from_utf8(class).ok().and_then(|class| Some((class, parse_named(class)?))) {
            Some((class, component)) => Ok((Cow::Owned(component), Some(Named::Class(class)))),
            None => invalid(format!("Cannot find comparator for component {i}")),
        }
    }
}

/// What the name of a static column begins with.
const STATIC: [u8; 2] = [0xff; 2];

/// A class that a value names. Nothing at all is BytesType.
pub(super) fn parse_named(class: &str) -> Option<Component> {
    if class.trim_matches([' ', '\t', '\n']).is_empty() {
        return Some(Component::new(CqlType::Blob, false));
    }
    let component = CqlType::parse_component(class, TypeBounds::NAMED.depth_max)?;
    TypeBounds::NAMED.measure(&component.ty).ok()?;
    let unknown = |ty: &CqlType| matches!(ty, CqlType::DynamicComposite(_) | CqlType::Custom(_));
    (!component.ty.any(&unknown)).then_some(component)
}

/// Checks a value, with the messages of Cassandra.
pub(super) fn validate(shape: Shape<'_>, value: &[u8]) -> Result<(), InvalidValue> {
    let mut parts = Parts::new(shape, value);
    while !parts.rest().is_empty() {
        let part = parts.read(|component, value| component.ty.validate(value))?;
        if part.end != 0 && !parts.rest().is_empty() {
            let i = parts.index - 1;
            return invalid(format!("Invalid bytes remaining after an end-of-component at component{i}"));
        }
    }
    Ok(())
}

/// Compares two values.
pub(super) fn compare(shape: Shape<'_>, a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (Parts::new(shape, a), Parts::new(shape, b));
    let mut order = b.is_static.cmp(&a.is_static);
    while order.is_eq() {
        order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(Ok(x)), Some(Ok(y))) => compare_parts(&x, &y).then(x.end.cmp(&y.end)),
            (Some(Ok(_)), Some(Err(_))) => Ordering::Less,
            (Some(Err(_)), Some(Ok(_))) => Ordering::Greater,
            (Some(Err(_)), Some(Err(_))) => return a.rest.cmp(b.rest),
        };
    }
    order
}

fn compare_parts(x: &Part<'_, '_>, y: &Part<'_, '_>) -> Ordering {
    if x.named == y.named || x.component == y.component {
        return x.component.compare(x.value, y.value);
    }
    let ((reversed_x, class_x), (reversed_y, class_y)) =
        (x.component.class_names(), y.component.class_names());
    let order = reversed_x.unwrap_or(class_x).cmp(reversed_y.unwrap_or(class_y));
    let order = order.then_with(|| class_x.cmp(class_y));
    if order.is_ne() {
        return order;
    }
    // The same class with other parameters. Cassandra takes those of the first value; its trie indexes order
    // the encodings.
    let encoded = |part: &Part<'_, '_>| {
        let mut out = Vec::new();
        part.component.encode(part.value, &mut out).then_some(out)
    };
    // A value of no bytes is the least, and in a reversed component the last.
    match (encoded(x), encoded(y)) {
        (Some(x), Some(y)) => x.cmp(&y),
        (x, y) if reversed_x.is_some() => y.cmp(&x),
        (x, y) => x.cmp(&y),
    }
}

#[cfg(test)]
mod tests;
