//! Types.

use super::cursor::{Parsed, Parser, is_name};
use crate::ast::{NativeType, RawType};
use crate::class;
use crate::lexer::{Keyword, KeywordClass, TokenKind};

/// The native type that a keyword names.
pub(super) fn native_type(keyword: Keyword) -> Option<NativeType> {
    Some(match keyword {
        Keyword::Ascii => NativeType::Ascii,
        Keyword::Bigint => NativeType::Bigint,
        Keyword::Blob => NativeType::Blob,
        Keyword::Boolean => NativeType::Boolean,
        Keyword::Counter => NativeType::Counter,
        Keyword::Date => NativeType::Date,
        Keyword::Decimal => NativeType::Decimal,
        Keyword::Double => NativeType::Double,
        Keyword::Duration => NativeType::Duration,
        Keyword::Float => NativeType::Float,
        Keyword::Inet => NativeType::Inet,
        Keyword::Int => NativeType::Int,
        Keyword::Smallint => NativeType::Smallint,
        Keyword::Text => NativeType::Text,
        Keyword::Time => NativeType::Time,
        Keyword::Timestamp => NativeType::Timestamp,
        Keyword::Timeuuid => NativeType::Timeuuid,
        Keyword::Tinyint => NativeType::Tinyint,
        Keyword::Uuid => NativeType::Uuid,
        Keyword::Varchar => NativeType::Varchar,
        Keyword::Varint => NativeType::Varint,
        _ => return None,
    })
}

/// Whether a token may begin a type.
pub(super) fn begins_type(kind: TokenKind) -> bool {
    is_name(kind)
        || matches!(kind, TokenKind::String | TokenKind::DollarString | TokenKind::Keyword(Keyword::Set))
}

/// Whether a token may follow a type somewhere in the grammar. Cassandra looks at it to tell a type from the
/// keyspace of one.
fn may_follow_type(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Eof
        | TokenKind::Semicolon
        | TokenKind::Comma
        | TokenKind::RightParen
        | TokenKind::Greater => true,
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            Keyword::Finalfunc
                | Keyword::Initcond
                | Keyword::Language
                | Keyword::Masked
                | Keyword::Primary
                | Keyword::Static
        ),
        _ => false,
    }
}

/// Whether a keyword names a type with parameters.
fn is_generic(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::Map | Keyword::List | Keyword::Set | Keyword::Tuple | Keyword::Vector | Keyword::Frozen
    )
}

impl Parser<'_> {
    /// A type that has a keyword.
    pub(super) fn native_type(&mut self) -> Parsed<NativeType> {
        match self.kind(0) {
            TokenKind::Keyword(keyword) => match native_type(keyword) {
                Some(native) => {
                    self.advance();
                    Ok(native)
                }
                None => Err(self.no_viable(0)),
            },
            _ => Err(self.no_viable(0)),
        }
    }

    /// A type and nothing else.
    pub(super) fn whole_type(&mut self) -> Parsed<RawType> {
        let parsed = self.data_type()?;
        self.expect(TokenKind::Eof)?;
        Ok(parsed)
    }

    /// Any type.
    pub(super) fn data_type(&mut self) -> Parsed<RawType> {
        self.nested_type(Self::data_type_here)
    }

    fn data_type_here(&mut self) -> Parsed<RawType> {
        let token = self.ahead(0);
        match token.kind {
            TokenKind::String | TokenKind::DollarString => {
                self.advance();
                let class = token.text().into_owned();
                if let Err(complaint) = class::parse(&class) {
                    self.complain(complaint);
                }
                return Ok(RawType::Custom(class));
            }
            TokenKind::Ident | TokenKind::QuotedName => return Ok(RawType::User(self.user_type_name()?)),
            TokenKind::Keyword(keyword)
                if keyword.class() != KeywordClass::Reserved || keyword == Keyword::Set =>
            {
                if self.kind(1) == TokenKind::Dot && keyword != Keyword::Set {
                    return Ok(RawType::User(self.user_type_name()?));
                }
                if let Some(native) = native_type(keyword) {
                    if !may_follow_type(self.kind(1)) {
                        return Err(self.no_viable(1));
                    }
                    self.advance();
                    return Ok(RawType::Native(native));
                }
                if self.kind(1) == TokenKind::Less {
                    return self.generic_type(keyword);
                }
                if keyword == Keyword::Set {
                    self.advance();
                    return Err(self.mismatch("'<'"));
                }
                if is_generic(keyword) && !may_follow_type(self.kind(1)) {
                    return Err(self.no_viable(1));
                }
                return Ok(RawType::User(self.user_type_name()?));
            }
            _ => {}
        }
        Err(self.no_viable(0))
    }

    /// A type with parameters; the keyword is next, and a `<` after it.
    fn generic_type(&mut self, keyword: Keyword) -> Parsed<RawType> {
        if !is_generic(keyword) {
            return Err(self.no_viable(1));
        }
        self.advance();
        self.advance();
        let first = Box::new(self.data_type()?);
        let result = match keyword {
            Keyword::Map => {
                self.expect(TokenKind::Comma)?;
                RawType::Map(first, Box::new(self.data_type()?))
            }
            Keyword::List => RawType::List(first),
            Keyword::Set => RawType::Set(first),
            Keyword::Vector => {
                self.expect(TokenKind::Comma)?;
                let written = self.expect(TokenKind::Integer)?.raw;
                let Ok(dimensions) = written.parse() else {
                    let complaint = self.no_number(written);
                    self.complain(complaint);
                    return Ok(RawType::Vector { element: first, dimensions: 0 });
                };
                RawType::Vector { element: first, dimensions }
            }
            Keyword::Frozen => {
                if matches!(*first, RawType::Native(_) | RawType::Custom(_)) {
                    self.complain(format!(
                        "frozen<> is only allowed on collections, tuples, and user-defined types (got {first})"
                    ));
                }
                RawType::Frozen(first)
            }
            _ => {
                let mut fields = vec![*first];
                while self.accept(TokenKind::Comma) {
                    fields.push(self.data_type()?);
                }
                RawType::Tuple(fields)
            }
        };
        self.expect(TokenKind::Greater)?;
        Ok(result)
    }
}
