//! CQL type names to types, as `system_schema` holds them: `frozen<map<text, int>>`, `vector<float, 3>`,
//! `"My Type"`, `'com.example.Custom'`.
//!
//! ```text
//! type := name | '"' name '"' | "'" class "'" | name '<' arg { ',' arg } '>'
//! ```
//! Only the outermost type can be multi-cell. What is nested is frozen, as in tables, whether or not
//! `frozen<>` says so. (The element of a vector stays as it is written, which changes its name and nothing
//! else.) Statements of users, where a missing `frozen` is an error, are the business of the `cql` crate.

use super::class_parser::DEPTH_MAX;
use super::{CqlType, TypeNameError, UserType};
use std::sync::Arc;

impl CqlType {
    /// Parses a CQL type name; `user_type` finds the user types of the keyspace by name.
    pub fn parse_cql(
        text: &str,
        user_type: &dyn Fn(&str) -> Option<Arc<UserType>>,
    ) -> Result<CqlType, TypeNameError> {
        let mut parser = Parser { rest: text, user_type };
        let result = parser.ty(0, true).and_then(|ty| {
            if parser.rest.trim_start().is_empty() { Ok(ty) } else { Err("text after the type") }
        });
        result.map_err(|reason| TypeNameError { text: text.to_owned(), reason })
    }
}

struct Parser<'t, 'f> {
    rest: &'t str,
    user_type: &'f dyn Fn(&str) -> Option<Arc<UserType>>,
}

type Parse<T> = Result<T, &'static str>;

impl Parser<'_, '_> {
    fn accept(&mut self, token: char) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn token(&mut self, token: char) -> Parse<()> {
        if self.accept(token) { Ok(()) } else { Err("a bracket or comma is missing") }
    }

    fn word(&mut self) -> Parse<String> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        match text.split_at_checked(end) {
            Some((word, rest)) if !word.is_empty() => {
                self.rest = rest;
                Ok(word.to_owned())
            }
            _ => Err("a name is missing"),
        }
    }

    /// The rest of a quoted text, up to the closing `quote`; a doubled one stands for itself.
    fn quoted(&mut self, quote: char) -> Parse<String> {
        let mut out = String::new();
        loop {
            let (part, rest) = self.rest.split_once(quote).ok_or("a quote is not closed")?;
            out.push_str(part);
            self.rest = rest;
            match rest.strip_prefix(quote) {
                Some(rest) => {
                    out.push(quote);
                    self.rest = rest;
                }
                None => return Ok(out),
            }
        }
    }

    fn user_type(&self, name: &str, multi_cell: bool) -> Parse<CqlType> {
        let definition = (self.user_type)(name).ok_or("no such type")?;
        Ok(CqlType::Udt { definition, multi_cell })
    }

    /// The type of a class, with the keyspace's user types in the place of those that it spells out: they may
    /// have got fields since.
    fn own_types(&self, ty: &CqlType) -> Parse<CqlType> {
        match ty {
            CqlType::Udt { definition, multi_cell } => self.user_type(&definition.name, *multi_cell),
            other => other.map_inner(&|ty| self.own_types(ty)),
        }
    }

    fn ty(&mut self, depth: usize, multi_cell: bool) -> Parse<CqlType> {
        if depth > DEPTH_MAX {
            return Err("nested too deeply");
        }
        if self.accept('"') {
            let name = self.quoted('"')?;
            return self.user_type(&name, multi_cell);
        }
        if self.accept('\'') {
            let class = self.quoted('\'')?;
            let ty = CqlType::parse_class(&class).map_err(|e| e.reason)?.ty;
            return self.own_types(&ty);
        }
        let word = self.word()?.to_lowercase();
        if !self.accept('<') {
            return match CqlType::from_native_name(&word) {
                Some(native) => Ok(native),
                None => self.user_type(&word, multi_cell),
            };
        }
        let ty = match word.as_str() {
            "frozen" => self.ty(depth + 1, false)?,
            "list" => CqlType::list(self.ty(depth + 1, false)?, multi_cell),
            "set" => CqlType::set(self.ty(depth + 1, false)?, multi_cell),
            "map" => {
                let key = self.ty(depth + 1, false)?;
                self.token(',')?;
                CqlType::map(key, self.ty(depth + 1, false)?, multi_cell)
            }
            "tuple" => {
                let mut types = vec![self.ty(depth + 1, false)?];
                while self.accept(',') {
                    types.push(self.ty(depth + 1, false)?);
                }
                CqlType::Tuple(types.into())
            }
            "vector" => {
                // Unlike in other types, Cassandra keeps whether the element says `frozen`.
                let element = Arc::new(self.ty(depth + 1, true)?);
                self.token(',')?;
                let dimension: u32 =
                    self.word()?.parse().map_err(|_| "the dimension of a vector is not a number")?;
                if dimension == 0 || dimension > i32::MAX as u32 {
                    return Err("the dimension of a vector is out of range");
                }
                CqlType::Vector { element, dimension }
            }
            _ => return Err("the type takes no parameters"),
        };
        self.token('>')?;
        Ok(ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<Arc<UserType>> {
        let known = ["u1", "My \"Type\""];
        known
            .contains(&name)
            .then(|| Arc::new(UserType { keyspace: "ks".into(), name: name.into(), fields: vec![] }))
    }

    #[test]
    fn names_in_system_schema_round_trip() {
        for text in [
            "int",
            "list<frozen<u1>>",
            "frozen<map<text, frozen<list<int>>>>",
            "map<frozen<list<int>>, frozen<map<int, frozen<set<int>>>>>",
            "frozen<tuple<frozen<u1>, frozen<map<int, frozen<list<int>>>>>>",
            "vector<frozen<tuple<int, frozen<list<int>>>>, 2>",
            "frozen<list<vector<list<int>, 2>>>",
            "vector<frozen<list<frozen<u1>>>, 2>",
            "u1",
            "frozen<\"My \"\"Type\"\"\">",
            "'com.example.Mine(a,b)'",
        ] {
            assert_eq!(CqlType::parse_cql(text, &find).unwrap().to_string(), text);
        }
        let spaced = CqlType::parse_cql(" MAP < Varchar ,set<INT> > ", &find).unwrap();
        assert_eq!(spaced, CqlType::map(CqlType::Text, CqlType::set(CqlType::Int, false), true));
    }

    #[test]
    fn broken_names_are_errors() {
        for text in ["", "nope", "list<int", "list", "map<int>", "int>", "int<int>", "vector<int, x>", "\"u1"]
        {
            assert!(CqlType::parse_cql(text, &find).is_err(), "{text}");
        }
        assert!(CqlType::parse_cql(&"list<".repeat(100_000), &find).is_err());
    }
}
