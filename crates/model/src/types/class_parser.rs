//! Cassandra's class strings to types (docs/formats/sstable-big.md), as SSTable headers and the native protocol carry them.
//!
//! ```text
//! type  := class [ '(' arg { ',' arg } ')' ]
//! class := dotted name; one without a dot is in org.apache.cassandra.db.marshal
//! arg   := type | number | hex | hex ':' type
//! ```
//! Blanks may stand between any two tokens. Only the outermost type can be multi-cell: what is nested is frozen,
//! whether or not `FrozenType` says so. A class that is none of Cassandra's becomes [`CqlType::Custom`] with its text
//! as it stands. Nesting is bounded, so a hostile header cannot exhaust the stack.

use super::names::MARSHAL;
use super::{CqlType, TypeBounds, TypeNameError, UserType};
use std::sync::Arc;

/// Parentheses or brackets that may be open at a time: each level of a type that is stored may be marked
/// frozen.
pub(super) const DEPTH_MAX: usize = 2 * TypeBounds::STORED.depth_max;

/// Why a vector without elements, or with more than an `int` counts, is no type.
pub const VECTOR_OUT_OF_RANGE: &str = "the dimension of a vector is out of range";

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

    /// Parses the class string of a partition key: the types of its columns, one unless it is a `CompositeType`.
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
    let mut parser = Parser { text, at: 0 };
    let result = parse(&mut parser).and_then(|value| {
        parser.skip_blanks();
        if parser.at == text.len() { Ok(value) } else { Err("text after the type") }
    });
    result.map_err(|reason| TypeNameError { text: text.to_owned(), reason })
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
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
        if depth > DEPTH_MAX {
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
            _ => match CqlType::from_native_class(class) {
                Some(native) => {
                    // An empty argument list is what Cassandra's own parser lets pass.
                    if self.accept(b'(') {
                        self.token(b')')?;
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

    fn vector(&mut self, depth: usize) -> Parse<CqlType> {
        self.token(b'(')?;
        let element = Arc::new(self.ty(depth + 1, false)?);
        self.token(b',')?;
        let dimension = self.word()?.parse().map_err(|_| "the dimension of a vector is not a number")?;
        self.token(b')')?;
        if dimension == 0 || dimension > i32::MAX as u32 {
            return Err(VECTOR_OUT_OF_RANGE);
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
