//! What a SELECT clause names.

use super::cursor::{Parsed, Parser, is_name, word};
use super::name::{identifier, is_function_name};
use super::term::{begins_constant, product_operator, sum_operator};
use crate::ast::{Selectable, Selection, Selector, Subselection, Term, TextRange, WritetimeKind};
use crate::lexer::{Keyword, KeywordClass, TokenKind};

/// Whether a token may follow a column in a SELECT clause or in GROUP BY. Cassandra looks at it to tell a
/// column from a function, and complains there and then.
fn may_follow_column(kind: TokenKind) -> bool {
    const WORDS: &[Keyword] =
        &[Keyword::Allow, Keyword::As, Keyword::From, Keyword::Limit, Keyword::Order, Keyword::Per];
    matches!(
        kind,
        TokenKind::Eof
            | TokenKind::Semicolon
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::LeftBracket
            | TokenKind::RightBracket
            | TokenKind::RightParen
            | TokenKind::RightBrace
            | TokenKind::Colon
            | TokenKind::Plus
            | TokenKind::Minus
            | TokenKind::Star
            | TokenKind::Slash
            | TokenKind::Percent
    ) || WORDS.iter().any(|keyword| kind == word(*keyword))
}

/// Whether a token may begin something that can be selected, other than a negation.
fn begins_selectable(kind: TokenKind) -> bool {
    is_name(kind)
        || is_function_name(kind)
        || begins_constant(kind)
        || matches!(
            kind,
            TokenKind::QuestionMark
                | TokenKind::Colon
                | TokenKind::LeftParen
                | TokenKind::LeftBracket
                | TokenKind::LeftBrace
                | TokenKind::Keyword(Keyword::Null)
        )
}

impl Parser<'_> {
    /// `*` or a list of selectors.
    pub(super) fn selection(&mut self) -> Parsed<Selection> {
        if self.accept(TokenKind::Star) {
            return Ok(Selection::Wildcard);
        }
        Ok(Selection::Selectors(self.list(Self::selector)?))
    }

    fn selector(&mut self) -> Parsed<Selector> {
        let start = self.here();
        let selectable = self.selectable()?;
        let text = TextRange { start, end: self.consumed() };
        let alias = if self.accept_word(Keyword::As) { Some(self.name()?) } else { None };
        Ok(Selector { selectable, alias, text })
    }

    /// One thing to select.
    pub(super) fn selectable(&mut self) -> Parsed<Selectable> {
        self.expression(|parser| {
            let mut left = parser.selectable_product()?;
            while let Some(operator) = sum_operator(parser.kind(0)) {
                parser.advance();
                parser.count_operator()?;
                let right = parser.selectable_product()?;
                left = Selectable::Operation { operator, left: Box::new(left), right: Box::new(right) };
            }
            Ok(left)
        })
    }

    fn selectable_product(&mut self) -> Parsed<Selectable> {
        let mut left = self.selectable_group()?;
        while let Some(operator) = product_operator(self.kind(0)) {
            self.advance();
            self.count_operator()?;
            let right = self.selectable_group()?;
            left = Selectable::Operation { operator, left: Box::new(left), right: Box::new(right) };
        }
        Ok(left)
    }

    fn selectable_group(&mut self) -> Parsed<Selectable> {
        if self.accept(TokenKind::Minus) {
            let inner = self.nested(Self::selectable_group)?;
            return Ok(Selectable::Negation(Box::new(inner)));
        }
        let mut whole = self.selectable_whole()?;
        while matches!(self.kind(0), TokenKind::Dot | TokenKind::LeftBracket) {
            self.count_operator()?;
            let part = self.subselection()?;
            whole = Selectable::Part { of: Box::new(whole), part };
        }
        Ok(whole)
    }

    /// `.field`, `[key]` or `[from..to]`, which is next.
    fn subselection(&mut self) -> Parsed<Subselection> {
        if self.accept(TokenKind::Dot) {
            return Ok(Subselection::Field(self.name()?));
        }
        self.expect(TokenKind::LeftBracket)?;
        let from = if self.at(TokenKind::Range) { None } else { Some(self.term()?) };
        let part = if self.accept(TokenKind::Range) {
            let to =
                if from.is_some() && self.at(TokenKind::RightBracket) { None } else { Some(self.term()?) };
            Subselection::Slice { from, to }
        } else {
            match from {
                Some(key) => Subselection::Element(key),
                None => return Err(self.no_viable(0)),
            }
        };
        self.expect(TokenKind::RightBracket)?;
        Ok(part)
    }

    /// Something without a sign in front and without a part behind.
    fn selectable_whole(&mut self) -> Parsed<Selectable> {
        if let Some(literal) = self.accept_constant()? {
            return Ok(Selectable::Term(Term::Literal(literal)));
        }
        if let Some(marker) = self.accept_marker()? {
            return Ok(Selectable::Term(Term::Marker(marker)));
        }
        match self.kind(0) {
            TokenKind::Keyword(Keyword::Null) => {
                self.advance();
                Ok(Selectable::Term(Term::Null))
            }
            TokenKind::LeftParen if self.type_in_parens_before(Self::at_selectable_and_no_alias) => {
                self.advance();
                let target = self.data_type()?;
                self.expect(TokenKind::RightParen)?;
                let selectable = Box::new(self.nested(Self::selectable_whole)?);
                Ok(Selectable::TypeHint { target, selectable })
            }
            TokenKind::LeftParen => Ok(Selectable::Tuple(self.list_in_parens(Self::selectable)?)),
            TokenKind::LeftBracket => {
                self.advance();
                Ok(Selectable::List(self.selectables_until(TokenKind::RightBracket)?))
            }
            TokenKind::LeftBrace => self.selectable_in_braces(),
            kind if is_name(kind) || is_function_name(kind) => self.column_or_function(),
            _ => Err(self.no_viable(0)),
        }
    }

    /// Whether something to select is `n` tokens ahead that is not the AS of an alias. AS is a fine name for
    /// a column, but `AS x` makes an alias and `AS AS x` a column with one.
    pub(super) fn selectable_ahead(&mut self, n: usize) -> bool {
        match self.kind(n) {
            TokenKind::Keyword(Keyword::As) => {
                let next = self.kind(n + 1);
                !is_name(next) || (next == word(Keyword::As) && is_name(self.kind(n + 2)))
            }
            kind => begins_selectable(kind),
        }
    }

    fn at_selectable_and_no_alias(&mut self) -> bool {
        self.selectable_ahead(0)
    }

    fn column_or_function(&mut self) -> Parsed<Selectable> {
        let first = self.kind(0);
        match self.kind(1) {
            TokenKind::LeftParen => self.function_call(),
            TokenKind::Dot if is_name(first) => {
                if !is_name(self.kind(2)) && !is_function_name(self.kind(2)) {
                    return Err(self.no_viable(2));
                }
                if is_function_name(self.kind(2)) && self.kind(3) == TokenKind::LeftParen {
                    return self.plain_function();
                }
                Ok(Selectable::Column(self.name()?))
            }
            next if is_name(first) && (may_follow_column(next) || self.is_bypass_cache(1)) => {
                Ok(Selectable::Column(identifier(self.advance())))
            }
            _ => Err(self.no_viable(1)),
        }
    }

    /// A function without a keyspace, or one of those with a grammar of their own; `(` comes second.
    fn function_call(&mut self) -> Parsed<Selectable> {
        let TokenKind::Keyword(keyword) = self.kind(0) else { return self.plain_function() };
        match keyword {
            Keyword::Count if self.kind(2) == TokenKind::Star => {
                self.advance();
                self.advance();
                self.advance();
                self.expect(TokenKind::RightParen)?;
                Ok(Selectable::CountRows)
            }
            Keyword::Writetime => self.writetime(WritetimeKind::Writetime),
            Keyword::Maxwritetime => self.writetime(WritetimeKind::MaxWritetime),
            Keyword::Ttl => self.writetime(WritetimeKind::Ttl),
            Keyword::Cast => {
                self.advance();
                self.advance();
                let selectable = Box::new(self.selectable()?);
                self.expect_word(Keyword::As)?;
                let target = self.native_type()?;
                self.expect(TokenKind::RightParen)?;
                Ok(Selectable::Cast { selectable, target })
            }
            _ if keyword.class() == KeywordClass::Special && keyword != Keyword::Count => {
                Err(self.no_viable(1))
            }
            _ => self.plain_function(),
        }
    }

    fn writetime(&mut self, kind: WritetimeKind) -> Parsed<Selectable> {
        self.advance();
        self.expect(TokenKind::LeftParen)?;
        let column = self.name()?;
        let mut path = Vec::new();
        while matches!(self.kind(0), TokenKind::Dot | TokenKind::LeftBracket) {
            self.count_operator()?;
            path.push(self.subselection()?);
        }
        self.expect(TokenKind::RightParen)?;
        Ok(Selectable::Writetime { kind, column, path })
    }

    fn plain_function(&mut self) -> Parsed<Selectable> {
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let arguments = self.selectables_until(TokenKind::RightParen)?;
        Ok(Selectable::Function { name, arguments })
    }

    fn selectables_until(&mut self, close: TokenKind) -> Parsed<Vec<Selectable>> {
        if self.accept(close) {
            return Ok(Vec::new());
        }
        if !begins_selectable(self.kind(0)) && !self.at(TokenKind::Minus) {
            return Err(self.mismatch(close.expected_name()));
        }
        let items = self.list(Self::selectable)?;
        self.expect(close)?;
        Ok(items)
    }

    fn selectable_in_braces(&mut self) -> Parsed<Selectable> {
        let second = self.kind(1);
        if !begins_selectable(second) && !matches!(second, TokenKind::Minus | TokenKind::RightBrace) {
            return Err(self.no_viable(1));
        }
        self.advance();
        if self.accept(TokenKind::RightBrace) {
            return Ok(Selectable::Set(Vec::new()));
        }
        let first = self.selectable()?;
        let result = if self.accept(TokenKind::Colon) {
            let mut entries = vec![(first, self.selectable()?)];
            while self.accept(TokenKind::Comma) {
                let key = self.selectable()?;
                self.expect(TokenKind::Colon)?;
                entries.push((key, self.selectable()?));
            }
            Selectable::MapOrUserType(entries)
        } else {
            let mut elements = vec![first];
            while self.accept(TokenKind::Comma) {
                elements.push(self.selectable()?);
            }
            Selectable::Set(elements)
        };
        self.expect(TokenKind::RightBrace)?;
        Ok(result)
    }
}
