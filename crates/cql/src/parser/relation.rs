//! WHERE.

use super::cursor::{Parsed, Parser, is_name, word};
use crate::ast::{ComparisonOperator, Identifier, InValues, QualifiedName, Relation, Term, WherePredicate};
use crate::lexer::{Keyword, TokenKind};

/// The comparison that a token is.
fn comparison(kind: TokenKind) -> Option<ComparisonOperator> {
    match kind {
        TokenKind::Equal => Some(ComparisonOperator::Equal),
        TokenKind::NotEqual => Some(ComparisonOperator::NotEqual),
        TokenKind::Less => Some(ComparisonOperator::Less),
        TokenKind::LessOrEqual => Some(ComparisonOperator::LessOrEqual),
        TokenKind::Greater => Some(ComparisonOperator::Greater),
        TokenKind::GreaterOrEqual => Some(ComparisonOperator::GreaterOrEqual),
        _ => None,
    }
}

impl Parser<'_> {
    /// The predicates after WHERE.
    pub(super) fn where_clause(&mut self) -> Parsed<Vec<WherePredicate>> {
        let mut predicates = vec![self.predicate()?];
        while self.accept_word(Keyword::And) {
            predicates.push(self.predicate()?);
        }
        Ok(predicates)
    }

    fn predicate(&mut self) -> Parsed<WherePredicate> {
        if self.accept(TokenKind::ExprParen) {
            let name = self.bare_index_name()?;
            self.expect(TokenKind::Comma)?;
            let value = self.term()?;
            self.expect(TokenKind::RightParen)?;
            let index = QualifiedName { keyspace: None, name };
            return Ok(WherePredicate::CustomIndexExpression { index, value });
        }
        Ok(WherePredicate::Relation(self.relation()?))
    }

    fn relation(&mut self) -> Parsed<Relation> {
        match self.kind(0) {
            TokenKind::Keyword(Keyword::Token) => {
                self.advance();
                let columns = self.list_in_parens(Self::column_name)?;
                let operator = self.comparison()?;
                Ok(Relation::Token { columns, operator, value: self.term()? })
            }
            TokenKind::LeftParen => self.relation_in_parens(),
            kind if is_name(kind) || kind == TokenKind::EmptyQuotedName => self.column_relation(),
            _ => Err(self.no_viable(0)),
        }
    }

    fn column_relation(&mut self) -> Parsed<Relation> {
        let next = self.kind(1);
        let known = comparison(next).is_some()
            || next == TokenKind::LeftBracket
            || [Keyword::Like, Keyword::Is, Keyword::In, Keyword::Contains]
                .iter()
                .any(|keyword| next == word(*keyword));
        if !known {
            return Err(self.no_viable(1));
        }
        if next == word(Keyword::In)
            && !matches!(self.kind(2), TokenKind::LeftParen | TokenKind::QuestionMark | TokenKind::Colon)
        {
            return Err(self.no_viable(2));
        }
        let column = self.column_name()?;
        match next {
            TokenKind::LeftBracket => {
                self.advance();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                let operator = self.comparison()?;
                Ok(Relation::Element { column, key, operator, value: self.term()? })
            }
            TokenKind::Keyword(Keyword::Is) => {
                self.advance();
                self.expect_words(&[Keyword::Not, Keyword::Null])?;
                Ok(Relation::IsNotNull { column })
            }
            TokenKind::Keyword(Keyword::In) => {
                self.advance();
                Ok(Relation::In { column, values: self.in_values()? })
            }
            _ => {
                let operator = match next {
                    TokenKind::Keyword(Keyword::Like) => {
                        self.advance();
                        ComparisonOperator::Like
                    }
                    TokenKind::Keyword(Keyword::Contains) => self.contains(),
                    _ => self.comparison()?,
                };
                Ok(Relation::Column { column, operator, value: self.term()? })
            }
        }
    }

    /// `(a, b) op ...`, or a relation in parentheses.
    fn relation_in_parens(&mut self) -> Parsed<Relation> {
        let second = self.kind(1);
        let begins = is_name(second)
            || matches!(
                second,
                TokenKind::EmptyQuotedName | TokenKind::LeftParen | TokenKind::Keyword(Keyword::Token)
            );
        if !begins {
            return Err(self.no_viable(1));
        }
        let columns = (is_name(second) || second == TokenKind::EmptyQuotedName)
            && matches!(self.kind(2), TokenKind::Comma | TokenKind::RightParen);
        if !columns {
            self.advance();
            let relation = self.nested(Self::relation)?;
            self.expect(TokenKind::RightParen)?;
            return Ok(relation);
        }
        let columns = self.list_in_parens(Self::column_name)?;
        if self.accept_word(Keyword::In) {
            return Ok(Relation::MultiColumnIn { columns, values: self.multi_column_in_values()? });
        }
        let Some(operator) = comparison(self.kind(0)) else { return Err(self.no_viable(0)) };
        if !matches!(self.kind(1), TokenKind::LeftParen | TokenKind::QuestionMark | TokenKind::Colon) {
            return Err(self.no_viable(1));
        }
        self.advance();
        let value = match self.accept_marker()? {
            Some(marker) => Term::Marker(marker),
            None if self.at(TokenKind::LeftParen) => Term::Tuple(self.tuple()?),
            None => return Err(self.no_viable(0)),
        };
        Ok(Relation::MultiColumn { columns, operator, value })
    }

    fn multi_column_in_values(&mut self) -> Parsed<InValues> {
        if let Some(marker) = self.accept_marker()? {
            return Ok(InValues::Marker(marker));
        }
        if !self.at(TokenKind::LeftParen) {
            return Err(self.no_viable(0));
        }
        match self.kind(1) {
            TokenKind::RightParen => {
                self.advance();
                self.advance();
                Ok(InValues::Terms(Vec::new()))
            }
            TokenKind::LeftParen => {
                let tuples = self.list_in_parens(|parser| Ok(Term::Tuple(parser.tuple()?)))?;
                Ok(InValues::Terms(tuples))
            }
            TokenKind::QuestionMark | TokenKind::Colon => {
                let markers = self.list_in_parens(|parser| match parser.accept_marker()? {
                    Some(marker) => Ok(Term::Marker(marker)),
                    None => Err(parser.no_viable(0)),
                })?;
                Ok(InValues::Terms(markers))
            }
            _ => Err(self.no_viable(1)),
        }
    }

    /// What comes after `column IN`.
    pub(super) fn in_values(&mut self) -> Parsed<InValues> {
        if let Some(marker) = self.accept_marker()? {
            return Ok(InValues::Marker(marker));
        }
        if !self.accept(TokenKind::LeftParen) {
            return Err(self.no_viable(0));
        }
        Ok(InValues::Terms(self.terms_until(TokenKind::RightParen)?))
    }

    /// One of the six comparisons.
    pub(super) fn comparison(&mut self) -> Parsed<ComparisonOperator> {
        match comparison(self.kind(0)) {
            Some(operator) => {
                self.advance();
                Ok(operator)
            }
            None => Err(self.no_viable(0)),
        }
    }

    /// `CONTAINS [KEY]`, which is next.
    pub(super) fn contains(&mut self) -> ComparisonOperator {
        self.advance();
        // A KEY that a parenthesis or a dot follows would be a function, but no function is called so.
        if self.accept_word(Keyword::Key) {
            ComparisonOperator::ContainsKey
        } else {
            ComparisonOperator::Contains
        }
    }

    /// The columns of a key: `a` or `(a, b)`.
    pub(super) fn name_or_names(&mut self) -> Parsed<Vec<Identifier>> {
        if self.at(TokenKind::LeftParen) {
            return self.list_in_parens(Self::name);
        }
        Ok(vec![self.name()?])
    }
}
