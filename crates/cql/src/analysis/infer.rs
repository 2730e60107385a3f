//! The types of expressions: what they are, and what they fit.

use super::compat::{Fit, fit_type};
use super::context::Analyzer;
use super::literal;
use super::raw::Raw;
use super::types;
use crate::ast::Subselection;
use crate::functions;
use model::types::CqlType;
use std::sync::Arc;

impl Analyzer<'_> {
    /// How an expression fits a type. What cannot be resolved fits nothing; lowering it says why.
    pub(crate) fn fit(&self, raw: &Raw<'_>, wanted: &CqlType) -> Fit {
        let _inside = self.call_types.enter();
        match raw {
            Raw::Literal(literal) => literal::fit(literal, wanted),
            Raw::Null if wanted.is_counter() => Fit::No,
            Raw::Null | Raw::Marker(_) => Fit::Weak,
            Raw::Tuple(items) => match wanted {
                CqlType::Tuple(types) if items.len() <= types.len() => {
                    weak(items.iter().zip(types.iter()).all(|(item, ty)| self.fit(item, ty).is_assignable()))
                }
                _ => match items.as_slice() {
                    [single] => self.fit(single, wanted),
                    _ => Fit::No,
                },
            },
            Raw::List(items) => match wanted {
                CqlType::List { element, .. } | CqlType::Vector { element, .. } => {
                    self.fit_all(items, element)
                }
                _ => Fit::No,
            },
            Raw::Set(items) => match wanted {
                CqlType::Set { element, .. } => self.fit_all(items, element),
                CqlType::Map { .. } => weak(items.is_empty()),
                _ => Fit::No,
            },
            Raw::Map(entries) => match wanted {
                CqlType::Map { key, value, .. } => {
                    if entries.is_empty() {
                        return Fit::Weak;
                    }
                    Fit::all(entries.iter().flat_map(|(k, v)| [self.fit(k, key), self.fit(v, value)]))
                }
                CqlType::Udt { .. } => self.fit_user_type(raw, wanted),
                _ => Fit::No,
            },
            Raw::UserType(_) => self.fit_user_type(raw, wanted),
            Raw::Function { name, .. } if functions::is_from_json(name) => Fit::Weak,
            _ => match self.known_type(raw) {
                Some(ty) => fit_type(&ty, wanted),
                None => Fit::No,
            },
        }
    }

    fn fit_all(&self, items: &[Raw<'_>], element: &CqlType) -> Fit {
        // An empty collection could be one of any type.
        if items.is_empty() { Fit::Weak } else { Fit::all(items.iter().map(|item| self.fit(item, element))) }
    }

    fn fit_user_type(&self, raw: &Raw<'_>, wanted: &CqlType) -> Fit {
        let (CqlType::Udt { definition, .. }, Some(fields)) = (wanted, raw.as_fields()) else {
            return Fit::No;
        };
        weak(fields.iter().all(|(name, value)| {
            definition
                .fields
                .iter()
                .any(|(field, ty)| field == name.as_str() && self.fit(value, ty).is_assignable())
        }))
    }

    /// The type of an expression, where it has one of its own.
    pub(crate) fn known_type(&self, raw: &Raw<'_>) -> Option<CqlType> {
        let _inside = self.call_types.enter();
        match raw {
            Raw::Literal(_) | Raw::Null | Raw::Marker(_) | Raw::UserType(_) => None,
            Raw::Column(name) => self.table.visible_column(name.as_str()).map(|c| c.ty.clone()),
            Raw::CountRows => Some(CqlType::BigInt),
            Raw::CellInfo { .. }
            | Raw::Function { .. }
            | Raw::Operation { .. }
            | Raw::Negation(_)
            | Raw::Cast { .. } => self.call_type(raw),
            Raw::Part { of, part } => part_type(&self.known_type(of)?, part),
            Raw::Hint { target, .. } => types::hint(target, self.schema, &self.table.keyspace).ok(),
            Raw::Tuple(items) => match items.as_slice() {
                [single] => self.known_type(single),
                _ => {
                    let types: Option<Arc<[CqlType]>> =
                        items.iter().map(|item| self.known_type(item).map(|ty| ty.frozen())).collect();
                    types.map(CqlType::Tuple)
                }
            },
            Raw::List(items) => self.first_known(items.iter()).map(|ty| CqlType::list(ty, false)),
            Raw::Set(items) => self.first_known(items.iter()).map(|ty| CqlType::set(ty, false)),
            Raw::Map(entries) => {
                // Keys that are names may be the fields of a user type.
                if raw.as_fields().is_some() {
                    return None;
                }
                let key = self.first_known(entries.iter().map(|(k, _)| k))?;
                let value = self.first_known(entries.iter().map(|(_, v)| v))?;
                Some(CqlType::map(key, value, false))
            }
        }
    }

    fn first_known<'r, 'x: 'r>(&self, mut items: impl Iterator<Item = &'r Raw<'x>>) -> Option<CqlType> {
        items.find_map(|item| self.known_type(item)).map(|ty| ty.frozen())
    }

    fn call_type(&self, raw: &Raw<'_>) -> Option<CqlType> {
        match raw {
            Raw::CellInfo { kind, column, path } => {
                self.cell_info(*kind, column, path).ok().map(|(_, ty)| ty)
            }
            _ => {
                if let Some(known) = self.call_types.get(raw) {
                    return known;
                }
                let ty = functions::resolve(self, raw, None).ok().map(|function| function.returns);
                self.call_types.keep(raw, &ty);
                ty
            }
        }
    }

    /// A type that an expression can be taken to have for want of a better one: its own, or a constant's
    /// favourite.
    pub(crate) fn compatible_type(&self, raw: &Raw<'_>) -> Option<CqlType> {
        match raw {
            Raw::Literal(literal) => Some(literal::preferred_type(literal)),
            Raw::List(items) => self.compatible_item(items).map(|ty| CqlType::list(ty, false)),
            Raw::Set(items) => self.compatible_item(items).map(|ty| CqlType::set(ty, false)),
            Raw::Tuple(items) if items.len() > 1 => {
                let types: Option<Arc<[CqlType]>> =
                    items.iter().map(|item| self.compatible_type(item).map(|ty| ty.frozen())).collect();
                types.map(CqlType::Tuple)
            }
            _ => self.known_type(raw),
        }
    }

    /// The type of an item that takes the types of all other items, if there is one.
    fn compatible_item(&self, items: &[Raw<'_>]) -> Option<CqlType> {
        let mut types: Vec<CqlType> = Vec::new();
        for ty in items.iter().filter_map(|item| self.compatible_type(item)) {
            if !types.contains(&ty) {
                types.push(ty);
            }
        }
        let takes_all = |wanted: &CqlType| types.iter().all(|ty| fit_type(ty, wanted).is_assignable());
        types.iter().find(|ty| takes_all(ty)).map(CqlType::frozen)
    }
}

fn weak(fits: bool) -> Fit {
    if fits { Fit::Weak } else { Fit::No }
}

/// The type of a part of a value of `ty`.
fn part_type(ty: &CqlType, part: &Subselection) -> Option<CqlType> {
    match (ty, part) {
        (CqlType::Udt { definition, .. }, Subselection::Field(name)) => {
            definition.fields.iter().find(|(field, _)| field == name.as_str()).map(|(_, ty)| ty.clone())
        }
        (CqlType::Map { value, .. }, Subselection::Element(_)) => Some(value.as_ref().clone()),
        (CqlType::Set { element, .. }, Subselection::Element(_)) => Some(element.as_ref().clone()),
        (CqlType::Map { .. } | CqlType::Set { .. }, Subselection::Slice { .. }) => Some(ty.frozen()),
        _ => None,
    }
}
