//! Properties after WITH.

use std::collections::HashSet;

use super::cursor::{Parsed, Parser, is_name};
use super::term::begins_constant;
use crate::ast::{Literal, Property, PropertyValue, Term};
use crate::lexer::{Keyword, TokenKind};

/// The properties so far, and their names.
#[derive(Default)]
pub(super) struct Properties {
    pub(super) list: Vec<Property>,
    names: HashSet<String>,
}

impl Parser<'_> {
    /// `a = b AND c = {...}`.
    pub(super) fn properties(&mut self) -> Parsed<Vec<Property>> {
        let mut properties = Properties::default();
        loop {
            self.property(&mut properties)?;
            if !self.accept_word(Keyword::And) {
                return Ok(properties.list);
            }
        }
    }

    /// `WITH properties`, if it is there.
    pub(super) fn with_properties(&mut self) -> Parsed<Vec<Property>> {
        if self.accept_word(Keyword::With) { self.properties() } else { Ok(Vec::new()) }
    }

    /// Adds one property to those before it.
    pub(super) fn property(&mut self, properties: &mut Properties) -> Parsed<()> {
        if is_name(self.kind(0)) {
            // Cassandra looks ahead to tell a map from a constant.
            if self.kind(1) != TokenKind::Equal {
                return Err(self.no_viable(1));
            }
            let value = self.kind(2);
            let begins = value == TokenKind::LeftBrace
                || begins_constant(value)
                || (matches!(value, TokenKind::Keyword(_)) && is_name(value));
            if !begins {
                return Err(self.no_viable(2));
            }
        }
        let name = self.name()?.as_str().to_owned();
        self.expect(TokenKind::Equal)?;
        let value = if self.at(TokenKind::LeftBrace) {
            PropertyValue::Map(self.property_map()?)
        } else if let Some(literal) = self.accept_constant()? {
            PropertyValue::Text(literal.text)
        } else {
            match self.kind(0) {
                kind @ TokenKind::Keyword(_) if is_name(kind) => {
                    PropertyValue::Text(self.advance().raw.to_owned())
                }
                _ => return Err(self.no_viable(0)),
            }
        };
        if !properties.names.insert(name.clone()) {
            self.complain(format!("Multiple definitions for property '{name}'"));
        }
        properties.list.push(Property { name, value });
        Ok(())
    }

    /// `{'k': 'v', ...}`, of constants only.
    pub(super) fn property_map(&mut self) -> Parsed<Vec<(String, String)>> {
        let mut entries = Vec::new();
        let mut keys = HashSet::new();
        for (key, value) in self.map_literal()? {
            let Term::Literal(Literal { text: key, .. }) = key else {
                self.complain(format!("Invalid property name: {key}{}", about_markers(&key)));
                break;
            };
            let Term::Literal(Literal { text: value, .. }) = value else {
                let hint = about_markers(&value);
                self.complain(format!("Invalid property value: {value} for property: '{key}'{hint}"));
                break;
            };
            if !keys.insert(key.clone()) {
                self.complain(format!("Multiple definition for property {key}"));
            }
            entries.push((key, value));
        }
        Ok(entries)
    }
}

fn about_markers(term: &Term) -> &'static str {
    match term {
        Term::Marker(_) => " (bind variables are not supported in DDL queries)",
        _ => "",
    }
}
