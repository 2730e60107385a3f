//! How large a type may be.
//!
//! A type holds the definitions of the user types inside it, so a few statements can make a type of any size.
//! A chain of user types is as deep as it is long. A type with two fields of the type before doubles at each
//! step. Metadata of results and headers of SSTables spell types out, and values are walked level by level on
//! threads with a stack of their own. So a type is measured as it is spelled out, in one place:
//! - [`TypeBounds::CREATED`] is what statements may make;
//! - [`TypeBounds::STORED`] is what is read back: more, for directories that a Cassandra wrote, which knows
//!   no bounds;
//! - [`TypeBounds::NAMED`] is what a value may name, which is a dynamic composite.
//!
//! `frozen` is a property of a level, not a level.

use super::CqlType;

/// Bounds of a type with its user types spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeBounds {
    /// Levels of nesting: `int` is one, `list<int>` two.
    pub depth_max: usize,
    /// Types in it, itself included.
    pub nodes_max: usize,
    /// Bytes of the names of user types and their fields.
    pub name_bytes_max: usize,
}

/// Bytes of a name of a type, field or column: its length is two bytes in the native protocol.
pub const NAME_BYTES_MAX: usize = u16::MAX as usize;

/// The size of a type with its user types spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TypeSize {
    /// Levels of nesting.
    pub depth: usize,
    /// Types in it, itself included.
    pub nodes: usize,
    /// Bytes of the names of user types and their fields.
    pub name_bytes: usize,
}

/// What a type has too much of.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TypeTooLarge {
    /// Levels.
    #[error("it nests deeper than {0} levels")]
    Deep(usize),
    /// Types.
    #[error("it is made of more than {0} types")]
    Many(usize),
    /// Bytes of names.
    #[error("the names in it have more than {0} bytes")]
    Names(usize),
    /// Its class string, where the native protocol sends that.
    #[error("its name has more than {0} bytes")]
    ClassName(usize),
}

impl TypeBounds {
    /// What CREATE and ALTER may make.
    pub const CREATED: TypeBounds = TypeBounds { depth_max: 64, nodes_max: 4_096, name_bytes_max: 256 << 10 };

    /// What is read back from `system_schema` and SSTables.
    pub const STORED: TypeBounds =
        TypeBounds { depth_max: 128, nodes_max: 1 << 18, name_bytes_max: usize::MAX };

    /// What a component of a dynamic composite may name as its type: it is parsed whenever the value is
    /// compared.
    pub const NAMED: TypeBounds = TypeBounds { depth_max: 8, nodes_max: 64, name_bytes_max: 4 << 10 };

    /// Measures `ty`, and gives up as soon as it is larger than this.
    ///
    /// # Errors
    /// What there is too much of.
    pub fn measure(&self, ty: &CqlType) -> Result<TypeSize, TypeTooLarge> {
        let mut size = TypeSize::default();
        self.add(ty, 1, &mut size)?;
        Ok(size)
    }

    fn add(&self, ty: &CqlType, depth: usize, size: &mut TypeSize) -> Result<(), TypeTooLarge> {
        if depth > self.depth_max {
            return Err(TypeTooLarge::Deep(self.depth_max));
        }
        size.depth = size.depth.max(depth);
        size.nodes += 1;
        if size.nodes > self.nodes_max {
            return Err(TypeTooLarge::Many(self.nodes_max));
        }
        match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                self.add(element, depth + 1, size)
            }
            CqlType::Vector { element, .. } => self.add(element, depth + 1, size),
            CqlType::Map { key, value, .. } => {
                self.add(key, depth + 1, size)?;
                self.add(value, depth + 1, size)
            }
            CqlType::Tuple(types) => types.iter().try_for_each(|ty| self.add(ty, depth + 1, size)),
            CqlType::Udt { definition, .. } => {
                self.add_name(&definition.name, size)?;
                definition.fields.iter().try_for_each(|(name, ty)| {
                    self.add_name(name, size)?;
                    self.add(ty, depth + 1, size)
                })
            }
            CqlType::Composite(components) => {
                components.iter().try_for_each(|component| self.add(&component.ty, depth + 1, size))
            }
            CqlType::DynamicComposite(aliases) => {
                aliases.iter().try_for_each(|(_, component)| self.add(&component.ty, depth + 1, size))
            }
            CqlType::Custom(class) => self.add_name(class, size),
            _ => Ok(()),
        }
    }

    fn add_name(&self, name: &str, size: &mut TypeSize) -> Result<(), TypeTooLarge> {
        size.name_bytes += name.len();
        if size.name_bytes > self.name_bytes_max {
            return Err(TypeTooLarge::Names(self.name_bytes_max));
        }
        Ok(())
    }
}

impl CqlType {
    /// Checks that the native protocol can send the type. Vectors, composites and classes of the users' go as
    /// a class string, whose length is two bytes. To be asked of types within [`TypeBounds`] only: the string
    /// is made.
    ///
    /// # Errors
    /// [`TypeTooLarge::ClassName`].
    pub fn check_class_names(&self) -> Result<(), TypeTooLarge> {
        match self {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => element.check_class_names(),
            CqlType::Map { key, value, .. } => {
                key.check_class_names()?;
                value.check_class_names()
            }
            CqlType::Tuple(types) => types.iter().try_for_each(CqlType::check_class_names),
            CqlType::Udt { definition, .. } => {
                definition.fields.iter().try_for_each(|(_, ty)| ty.check_class_names())
            }
            CqlType::Vector { .. }
            | CqlType::Composite(_)
            | CqlType::DynamicComposite(_)
            | CqlType::Custom(_)
                if self.class_name().len() > NAME_BYTES_MAX =>
            {
                Err(TypeTooLarge::ClassName(NAME_BYTES_MAX))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::UserType;
    use std::sync::Arc;

    fn udt(name: &str, fields: Vec<(String, CqlType)>) -> CqlType {
        let definition = Arc::new(UserType { keyspace: "ks".into(), name: name.into(), fields });
        CqlType::Udt { definition, multi_cell: false }
    }

    #[test]
    fn a_type_is_measured_with_its_user_types_spelled_out() {
        let inner = udt("abc", vec![("d".into(), CqlType::Int), ("ef".into(), CqlType::Text)]);
        let ty = CqlType::map(CqlType::Int, CqlType::list(inner, false), true);
        let size = TypeBounds::CREATED.measure(&ty).unwrap();
        assert_eq!(size, TypeSize { depth: 4, nodes: 6, name_bytes: 6 });
    }

    #[test]
    fn a_type_of_any_size_is_refused_without_being_walked() {
        let mut doubled = CqlType::Int;
        let mut deep = CqlType::Int;
        for _ in 0..60 {
            doubled = udt("u", vec![("a".into(), doubled.clone()), ("b".into(), doubled)]);
        }
        for _ in 0..TypeBounds::STORED.depth_max {
            deep = CqlType::list(deep, false);
        }
        for bounds in [TypeBounds::CREATED, TypeBounds::STORED] {
            assert_eq!(bounds.measure(&doubled), Err(TypeTooLarge::Many(bounds.nodes_max)));
            assert_eq!(bounds.measure(&deep), Err(TypeTooLarge::Deep(bounds.depth_max)));
        }
        let named = udt(&"n".repeat(300 << 10), vec![]);
        assert_eq!(TypeBounds::CREATED.measure(&named), Err(TypeTooLarge::Names(256 << 10)));
        assert!(TypeBounds::STORED.measure(&named).is_ok());
    }

    #[test]
    fn a_vector_has_to_have_a_name_that_the_protocol_can_send() {
        let element = udt("u", vec![("n".repeat(40_000), CqlType::Int)]);
        assert_eq!(element.check_class_names(), Ok(()));
        let vector = CqlType::Vector { element: Arc::new(element), dimension: 2 };
        assert_eq!(CqlType::list(vector, false).check_class_names(), Err(TypeTooLarge::ClassName(65_535)));
    }
}
