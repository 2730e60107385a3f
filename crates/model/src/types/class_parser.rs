//! Cassandra's class strings to types (docs/formats/sstable-big.md), as SSTable headers and the native
//! protocol carry them.
//!
//! ```text
//! type  := class [ '(' arg { ',' arg } ')' ]
//! class := dotted name; one without a dot is in org.apache.cassandra.db.marshal
//! arg   := type | number | hex | hex ':' type | [ alias '=>' ] component
//! component := type | 'ReversedType' '(' type ')' | class '(' key [ '=' value ] { ',' key [ '=' value ] } ')'
//! ```
//! Blanks may stand between any two tokens. Only the outermost type can be multi-cell. What is nested is
//! frozen, whether or not `FrozenType` says so. But components of composites stay as they are written, which
//! changes their names and nothing else. A class that is none of Cassandra's becomes [`CqlType::Custom`] with
//! its text as it stands. Nesting is bounded, so a hostile header cannot exhaust the stack.

use super::names::MARSHAL;
use super::{Aliases, Component, CqlType, OldClass, TypeBounds, TypeNameError, UserType};
use std::sync::Arc;

/// Parentheses or brackets that may be open at a time: each level of a type that is stored may be marked
/// frozen.
pub(super) const DEPTH_MAX: usize = 2 * TypeBounds::STORED.depth_max;

/// Why a class with something behind it is no type.
pub const TEXT_AFTER: &str = "text after the type";

/// A class string, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedType {
    /// The type.
    pub ty: CqlType,
    /// Whether it stood in `ReversedType`: a clustering column in descending order.
    pub reversed: bool,
}

impl CqlType {
    /// Parses a class string.
    pub fn parse_class(text: &str) -> Result<ParsedType, TypeNameError> {
        whole(text, |parser| {
            let start = parser.at;
            let class = parser.class()?;
            if class != "ReversedType" {
                parser.at = start;
                return Ok(ParsedType { ty: parser.ty(0, true)?, reversed: false });
            }
            parser.token(b'(')?;
            let ty = parser.ty(1, true)?;
            parser.token(b')')?;
            Ok(ParsedType { ty, reversed: true })
        })
    }

    /// Parses the type of a component of a composite, which nests no deeper than that.
    pub(super) fn parse_component(text: &str, depth_max: usize) -> Option<Component> {
        let mut parser = Parser { text, at: 0, depth_max };
        let component = parser.component(0).ok()?;
        parser.skip_blanks();
        (parser.at == text.len()).then_some(component)
    }

    /// Parses the class string of a partition key: the types of its columns, one unless it is a
    /// `CompositeType`. That is the type of a key of one column of such a type, too: of its components
    /// nothing tells that they are none.
    pub fn parse_key_class(text: &str) -> Result<Vec<CqlType>, TypeNameError> {
        whole(text, |parser| {
            let start = parser.at;
            if parser.class()? != "CompositeType" {
                parser.at = start;
                return Ok(vec![parser.ty(0, true)?]);
            }
            parser.types(1)
        })
    }

    /// The class string of a partition key with columns of the given types; the inverse of
    /// [`CqlType::parse_key_class`].
    pub fn key_class_name(types: &[CqlType]) -> String {
        match types {
            [single] => single.class_name(),
            _ => {
                let names: Vec<String> = types.iter().map(CqlType::class_name).collect();
                format!("{MARSHAL}CompositeType({})", names.join(","))
            }
        }
    }
}

fn whole<T>(
    text: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> Result<T, &'static str>,
) -> Result<T, TypeNameError> {
    let mut parser = Parser { text, at: 0, depth_max: DEPTH_MAX };
    let result = parse(&mut parser).and_then(|value| {
        parser.skip_blanks();
        if parser.at == text.len() { Ok(value) } else { Err(TEXT_AFTER) }
    });
    result.map_err(|reason| TypeNameError { text: text.to_owned(), reason })
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth_max: usize,
}

type Parse<T> = Result<T, &'static str>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n')) {
            self.at += 1;
        }
    }

    /// Whether the next token is `byte`; steps over it if so.
    fn accept(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn token(&mut self, byte: u8) -> Parse<()> {
        if self.accept(byte) { Ok(()) } else { Err("a parenthesis, comma or colon is missing") }
    }

    /// A run of characters of names: letters, digits, `_`, `.`, `$`, `+`, `-`, `&`.
    fn word(&mut self) -> Parse<&'t str> {
        self.skip_blanks();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'+' | b'-' | b'&'))
            .count();
        match rest.get(..len) {
            Some(word) if !word.is_empty() => {
                self.at += len;
                Ok(word)
            }
            _ => Err("a name is missing"),
        }
    }

    /// A class name without Cassandra's package.
    fn class(&mut self) -> Parse<&'t str> {
        let word = self.word()?;
        Ok(word.strip_prefix(MARSHAL).unwrap_or(word))
    }

    fn ty(&mut self, depth: usize, multi_cell: bool) -> Parse<CqlType> {
        if depth > self.depth_max {
            return Err("nested too deeply");
        }
        self.skip_blanks();
        let start = self.at;
        let class = self.class()?;
        Ok(match class {
            "ListType" => CqlType::list(self.argument(depth)?, multi_cell),
            "SetType" => CqlType::set(self.argument(depth)?, multi_cell),
            "MapType" => {
                self.token(b'(')?;
                let key = self.ty(depth + 1, false)?;
                self.token(b',')?;
                let value = self.ty(depth + 1, false)?;
                self.token(b')')?;
                CqlType::map(key, value, multi_cell)
            }
            "FrozenType" => self.argument(depth)?,
            "TupleType" => CqlType::Tuple(self.types(depth + 1)?.into()),
            "VectorType" => self.vector(depth)?,
            "UserType" => CqlType::Udt { definition: Arc::new(self.user_type(depth)?), multi_cell },
            "CompositeType" => CqlType::Composite(self.components(depth + 1)?.into()),
            "DynamicCompositeType" => CqlType::DynamicComposite(Arc::new(self.aliases(depth + 1)?)),
            _ => match CqlType::from_native_class(class) {
                Some(native) => {
                    if self.native_is_reversed()? {
                        return Err("a reversed type that is no component");
                    }
                    native
                }
                None => {
                    self.skip_arguments()?;
                    CqlType::Custom(self.text.get(start..self.at).unwrap_or_default().into())
                }
            },
        })
    }

    fn argument(&mut self, depth: usize) -> Parse<CqlType> {
        self.token(b'(')?;
        let ty = self.ty(depth + 1, false)?;
        self.token(b')')?;
        Ok(ty)
    }

    /// `(` type { `,` type } `)`
    fn types(&mut self, depth: usize) -> Parse<Vec<CqlType>> {
        self.token(b'(')?;
        let mut types = Vec::new();
        loop {
            types.push(self.ty(depth, false)?);
            if self.accept(b')') {
                return Ok(types);
            }
            self.token(b',')?;
        }
    }

    /// A component of a composite.
    fn component(&mut self, depth: usize) -> Parse<Component> {
        self.skip_blanks();
        let start = self.at;
        let class = self.class()?;
        if class == "ReversedType" {
            self.token(b'(')?;
            let inner = self.component(depth)?;
            if inner.reversed {
                return Err("a component is reversed twice");
            }
            self.token(b')')?;
            return Ok(Component { reversed: true, ..inner });
        }
        if let Some(ty) = CqlType::from_native_class(class) {
            let (reversed, old_class) = (self.native_is_reversed()?, OldClass::of_class(class));
            return Ok(Component { ty, reversed, old_class });
        }
        self.at = start;
        Ok(Component::new(self.ty(depth, true)?, false))
    }

    /// The parameters of a class that needs none: whether it is `reversed`, or `reversed=true`. Cassandra
    /// lets all others pass.
    fn native_is_reversed(&mut self) -> Parse<bool> {
        let end_of_name = self.at;
        let mut reversed = false;
        if !self.accept(b'(') {
            self.at = end_of_name;
            return Ok(false);
        }
        while !self.accept(b')') {
            let key = self.word()?;
            let value = if self.accept(b'=') { Some(self.word()?) } else { None };
            if key == "reversed" {
                reversed = matches!(value, None | Some("true"));
            }
            self.accept(b',');
        }
        Ok(reversed)
    }

    /// Components in parentheses, or none at all. A comma between two of them may be missing, and one may
    /// stand before the end.
    fn components(&mut self, depth: usize) -> Parse<Vec<Component>> {
        let end_of_name = self.at;
        let mut out = Vec::new();
        if !self.accept(b'(') {
            self.at = end_of_name;
            return Ok(out);
        }
        self.accept(b',');
        while !self.accept(b')') {
            out.push(self.component(depth)?);
            self.accept(b',');
        }
        Ok(out)
    }

    /// The same, with an alias before each.
    fn aliases(&mut self, depth: usize) -> Parse<Aliases> {
        let end_of_name = self.at;
        let mut out = Vec::new();
        if !self.accept(b'(') {
            self.at = end_of_name;
            return Ok(Aliases::new(out));
        }
        self.accept(b',');
        while !self.accept(b')') {
            let alias = match *self.word()?.as_bytes() {
                [alias] if alias != b'$' => alias,
                _ => return Err("an alias is a single character"),
            };
            self.token(b'=')?;
            if self.peek() != Some(b'>') {
                return Err("an arrow is missing");
            }
            self.at += 1;
            out.push((alias, self.component(depth)?));
            self.accept(b',');
        }
        Ok(Aliases::new(out))
    }

    fn vector(&mut self, depth: usize) -> Parse<CqlType> {
        self.token(b'(')?;
        let element = Arc::new(self.ty(depth + 1, false)?);
        self.token(b',')?;
        let dimension = self.word()?.parse().map_err(|_| "the dimension of a vector is not a number")?;
        self.token(b')')?;
        if dimension == 0 || dimension > i32::MAX as u32 {
            return Err("the dimension of a vector is out of range");
        }
        Ok(CqlType::Vector { element, dimension })
    }

    fn user_type(&mut self, depth: usize) -> Parse<UserType> {
        self.token(b'(')?;
        let keyspace = self.word()?.to_owned();
        self.token(b',')?;
        let name = unhex(self.word()?)?;
        let mut fields = Vec::new();
        while self.accept(b',') {
            let field = unhex(self.word()?)?;
            self.token(b':')?;
            fields.push((field, self.ty(depth + 1, false)?));
        }
        self.token(b')')?;
        Ok(UserType { keyspace, name, fields })
    }

    /// Steps over the arguments of a class that is not known.
    fn skip_arguments(&mut self) -> Parse<()> {
        let end_of_name = self.at;
        if !self.accept(b'(') {
            self.at = end_of_name;
            return Ok(());
        }
        let mut open = 1usize;
        while open > 0 {
            match self.peek() {
                Some(b'(') => open += 1,
                Some(b')') => open -= 1,
                Some(_) => {}
                None => return Err("a parenthesis is not closed"),
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// UTF-8 text written as hexadecimal bytes.
fn unhex(hex: &str) -> Parse<String> {
    let bytes = super::parse::hex_bytes(hex).ok_or("a name is not hexadecimal")?;
    String::from_utf8(bytes).map_err(|_| "a name is not UTF-8")
}

#[cfg(test)]
mod tests;
