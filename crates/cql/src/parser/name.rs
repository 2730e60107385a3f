//! Names of every sort: each place in the grammar has its own idea of which words may stand there.

use super::cursor::{Parsed, Parser, is_name, word};
use crate::ast::{FunctionName, Identifier, QualifiedName, RoleName};
use crate::lexer::{Keyword, KeywordClass, Token, TokenKind};

/// What a name names, for the refusal of bind markers.
#[derive(Clone, Copy)]
pub(super) enum Noun {
    Keyspace,
    Table,
    Index,
    Role,
}

impl Noun {
    fn plural(self) -> &'static str {
        match self {
            Noun::Keyspace => "keyspace names",
            Noun::Table => "table names",
            Noun::Index => "index names",
            Noun::Role => "role names",
        }
    }
}

/// Words that may become types one day; Cassandra keeps them from user types.
const RESERVED_TYPE_NAMES: [&str; 7] =
    ["byte", "complex", "enum", "date", "interval", "macaddr", "bitstring"];

/// Whether a token may be the name of a function.
pub(super) fn is_function_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => {
            matches!(keyword.class(), KeywordClass::Basic | KeywordClass::Native)
                || matches!(keyword, Keyword::Token | Keyword::Count)
        }
        _ => false,
    }
}

/// The name that a token is.
pub(super) fn identifier(token: Token<'_>) -> Identifier {
    match token.kind {
        TokenKind::QuotedName | TokenKind::EmptyQuotedName if token.raw.len() > 2 => {
            Identifier::quoted(token.text().into_owned())
        }
        TokenKind::EmptyQuotedName => Identifier::quoted(""),
        _ => Identifier::unquoted(token.raw),
    }
}

impl<'a> Parser<'a> {
    /// A name that may be any unreserved word.
    pub(super) fn name(&mut self) -> Parsed<Identifier> {
        let kind = self.kind(0);
        if is_name(kind) { Ok(identifier(self.advance())) } else { Err(self.no_viable(0)) }
    }

    /// A column's name, for which `""` is allowed as well.
    pub(super) fn column_name(&mut self) -> Parsed<Identifier> {
        if self.at(TokenKind::EmptyQuotedName) { Ok(identifier(self.advance())) } else { self.name() }
    }

    /// A name, or a bind marker, which is refused.
    fn name_of(&mut self, noun: Noun) -> Parsed<Identifier> {
        if self.accept(TokenKind::QuestionMark) {
            self.complain(format!("Bind variables cannot be used for {}", noun.plural()));
            return Ok(Identifier::quoted(""));
        }
        self.name()
    }

    /// A keyspace's name.
    pub(super) fn keyspace_name(&mut self) -> Parsed<Identifier> {
        self.name_of(Noun::Keyspace)
    }

    /// `[keyspace.]table`.
    pub(super) fn table_name(&mut self) -> Parsed<QualifiedName> {
        self.qualified_name(Noun::Table)
    }

    /// `[keyspace.]index`.
    pub(super) fn index_name(&mut self) -> Parsed<QualifiedName> {
        self.qualified_name(Noun::Index)
    }

    /// The name of an index without a keyspace.
    pub(super) fn bare_index_name(&mut self) -> Parsed<Identifier> {
        self.name_of(Noun::Index)
    }

    fn qualified_name(&mut self, noun: Noun) -> Parsed<QualifiedName> {
        let first = self.kind(0);
        if !is_name(first) && first != TokenKind::QuestionMark {
            return Err(self.no_viable(0));
        }
        let next = self.kind(1);
        if next == TokenKind::Dot {
            let keyspace = self.name_of(Noun::Keyspace)?;
            self.advance();
            return Ok(QualifiedName { keyspace: Some(keyspace), name: self.name_of(noun)? });
        }
        if !may_follow_name(noun, next) && !self.is_bypass_cache(1) {
            return Err(self.no_viable(1));
        }
        Ok(QualifiedName { keyspace: None, name: self.name_of(noun)? })
    }

    /// `[keyspace.]type`.
    pub(super) fn user_type_name(&mut self) -> Parsed<QualifiedName> {
        let keyspace = if is_name(self.kind(0)) && self.kind(1) == TokenKind::Dot {
            let keyspace = self.name()?;
            self.advance();
            Some(keyspace)
        } else {
            None
        };
        let token = self.ahead(0);
        match token.kind {
            TokenKind::Ident if RESERVED_TYPE_NAMES.contains(&token.raw) => {
                self.complain(format!("Invalid (reserved) user type name {}", token.raw));
            }
            TokenKind::Ident | TokenKind::QuotedName => {}
            TokenKind::Keyword(keyword)
                if keyword.class() == KeywordClass::Basic || keyword == Keyword::Key => {}
            // It could still have been a keyspace.
            kind if keyspace.is_none() && is_name(kind) => {
                self.advance();
                return Err(self.mismatch(TokenKind::Dot.expected_name()));
            }
            _ => return Err(self.no_viable(0)),
        }
        Ok(QualifiedName { keyspace, name: identifier(self.advance()) })
    }

    /// `[keyspace.]function`.
    pub(super) fn function_name(&mut self) -> Parsed<FunctionName> {
        let first = self.kind(0);
        let named = is_name(first) || first == TokenKind::QuestionMark;
        let keyspace = if named && self.kind(1) == TokenKind::Dot {
            let keyspace = self.keyspace_name()?;
            self.advance();
            Some(keyspace)
        } else {
            None
        };
        Ok(FunctionName { keyspace, name: self.bare_function_name()? })
    }

    /// A function's name without a keyspace.
    pub(super) fn bare_function_name(&mut self) -> Parsed<Identifier> {
        let kind = self.kind(0);
        if is_function_name(kind) { Ok(identifier(self.advance())) } else { Err(self.no_viable(0)) }
    }

    /// A role's name, which may be a string.
    pub(super) fn role_name(&mut self) -> Parsed<RoleName> {
        let token = self.ahead(0);
        if matches!(token.kind, TokenKind::String | TokenKind::DollarString) {
            self.advance();
            return Ok(RoleName(token.text().into_owned()));
        }
        Ok(RoleName(self.name_of(Noun::Role)?.as_str().to_owned()))
    }

    /// A user's name: an identifier, whose case is kept, or a string.
    pub(super) fn user_name(&mut self) -> Parsed<String> {
        let token = self.ahead(0);
        match token.kind {
            TokenKind::Ident | TokenKind::String | TokenKind::DollarString => {}
            TokenKind::QuotedName => self.complain(
                "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE",
            ),
            _ => return Err(self.no_viable(0)),
        }
        self.advance();
        Ok(token.text().into_owned())
    }

    /// An identity: an identifier, whose case is kept, or a string.
    pub(super) fn identity(&mut self) -> Parsed<String> {
        let token = self.ahead(0);
        match token.kind {
            TokenKind::Ident | TokenKind::String | TokenKind::DollarString => {}
            TokenKind::QuotedName => self.complain("Quoted strings are are not supported for identity"),
            _ => return Err(self.no_viable(0)),
        }
        self.advance();
        Ok(token.text().into_owned())
    }

    /// A string's text.
    pub(super) fn string(&mut self) -> Parsed<String> {
        let token = self.ahead(0);
        match token.kind {
            TokenKind::String | TokenKind::DollarString => {
                self.advance();
                Ok(token.text().into_owned())
            }
            _ => Err(self.mismatch(TokenKind::String.expected_name())),
        }
    }

    /// `IF NOT EXISTS`, if it is there.
    pub(super) fn if_not_exists(&mut self) -> Parsed<bool> {
        if !self.accept_word(Keyword::If) {
            return Ok(false);
        }
        self.expect_words(&[Keyword::Not, Keyword::Exists])?;
        Ok(true)
    }

    /// `IF EXISTS`, if it is there.
    pub(super) fn if_exists(&mut self) -> Parsed<bool> {
        if !self.accept_word(Keyword::If) {
            return Ok(false);
        }
        self.expect_word(Keyword::Exists)?;
        Ok(true)
    }
}

/// Whether a token may follow the name of a table or index somewhere in the grammar. Cassandra looks at it to
/// tell a name from a keyspace's, and complains there and then.
fn may_follow_name(noun: Noun, kind: TokenKind) -> bool {
    if matches!(kind, TokenKind::Eof | TokenKind::Semicolon) {
        return true;
    }
    if matches!(noun, Noun::Index) {
        return false;
    }
    const WORDS: &[Keyword] = &[
        Keyword::Add,
        Keyword::Allow,
        Keyword::Alter,
        Keyword::As,
        Keyword::Drop,
        Keyword::From,
        Keyword::Group,
        Keyword::Json,
        Keyword::Limit,
        Keyword::Norecursive,
        Keyword::Of,
        Keyword::Order,
        Keyword::Per,
        Keyword::Primary,
        Keyword::Rename,
        Keyword::Set,
        Keyword::To,
        Keyword::Using,
        Keyword::Where,
        Keyword::With,
    ];
    kind == TokenKind::LeftParen || WORDS.iter().any(|keyword| kind == word(*keyword))
}
