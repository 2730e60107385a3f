//! DESCRIBE.

use super::cursor::{Parsed, Parser, is_name};
use crate::ast::{Describe, DescribeTarget, QualifiedName};
use crate::lexer::{Keyword, KeywordClass, TokenKind};

impl Parser<'_> {
    /// DESCRIBE or DESC, which is next.
    pub(super) fn describe(&mut self) -> Parsed<Describe> {
        self.advance();
        let target = self.describe_target()?;
        let with_internals = self.accept_word(Keyword::With);
        if with_internals {
            self.expect_word(Keyword::Internals)?;
        }
        Ok(Describe { target, with_internals })
    }

    fn describe_target(&mut self) -> Parsed<DescribeTarget> {
        let next = match self.kind(0) {
            TokenKind::Keyword(keyword) => Some(keyword),
            _ => None,
        };
        // Words that begin a target only if a name follows are names themselves otherwise.
        let name_follows =
            next.is_some_and(|keyword| keyword.class() != KeywordClass::Reserved) && is_name(self.kind(1));
        let whole = match next {
            Some(Keyword::Cluster) => Some(DescribeTarget::Cluster),
            Some(Keyword::Schema) => Some(DescribeTarget::Schema { full: false }),
            Some(Keyword::Keyspaces) => Some(DescribeTarget::Keyspaces),
            Some(Keyword::Tables) => Some(DescribeTarget::Tables),
            Some(Keyword::Types) => Some(DescribeTarget::Types),
            Some(Keyword::Functions) => Some(DescribeTarget::Functions),
            Some(Keyword::Aggregates) => Some(DescribeTarget::Aggregates),
            _ => None,
        };
        if let Some(target) = whole {
            self.advance();
            return Ok(target);
        }
        match next {
            Some(Keyword::Full) => {
                self.advance();
                self.expect_word(Keyword::Schema)?;
                Ok(DescribeTarget::Schema { full: true })
            }
            Some(Keyword::Only) if self.kind(1) == TokenKind::Keyword(Keyword::Keyspace) => {
                self.advance();
                self.describe_keyspace(true)
            }
            Some(Keyword::Keyspace) => self.describe_keyspace(false),
            Some(Keyword::Columnfamily) => {
                self.advance();
                Ok(DescribeTarget::Table(self.table_name()?))
            }
            Some(Keyword::Index) => {
                self.advance();
                Ok(DescribeTarget::Index(self.table_name()?))
            }
            Some(Keyword::Materialized) => {
                self.advance();
                self.expect_word(Keyword::View)?;
                Ok(DescribeTarget::View(self.table_name()?))
            }
            Some(Keyword::Type) if name_follows => {
                self.advance();
                Ok(DescribeTarget::Type(self.user_type_name()?))
            }
            Some(Keyword::Function) if name_follows => {
                self.advance();
                Ok(DescribeTarget::Function(self.function_name()?))
            }
            Some(Keyword::Aggregate) if name_follows => {
                self.advance();
                Ok(DescribeTarget::Aggregate(self.function_name()?))
            }
            _ => self.describe_any(),
        }
    }

    fn describe_keyspace(&mut self, only: bool) -> Parsed<DescribeTarget> {
        self.expect_word(Keyword::Keyspace)?;
        let kind = self.kind(0);
        let named = is_name(kind) || kind == TokenKind::QuestionMark;
        let name = if named { Some(self.keyspace_name()?) } else { None };
        Ok(DescribeTarget::Keyspace { name, only })
    }

    fn describe_any(&mut self) -> Parsed<DescribeTarget> {
        if is_name(self.kind(0))
            && !matches!(
                self.kind(1),
                TokenKind::Dot | TokenKind::Keyword(Keyword::With) | TokenKind::Eof | TokenKind::Semicolon
            )
        {
            return Err(self.no_viable(1));
        }
        let first = self.name()?;
        let name = if self.accept(TokenKind::Dot) {
            QualifiedName { keyspace: Some(first), name: self.name()? }
        } else {
            QualifiedName { keyspace: None, name: first }
        };
        Ok(DescribeTarget::Generic(name))
    }
}
