//! Terms: constants, markers, collections, functions, arithmetic.

use super::cursor::{Parsed, Parser, is_name};
use super::name::{identifier, is_function_name};
use super::types::begins_type;
use crate::ast::{ArithmeticOperator, Identifier, Literal, LiteralKind, Term};
use crate::lexer::{Keyword, Token, TokenKind};

/// The constant that a token is.
fn constant(token: Token<'_>) -> Option<Literal> {
    let (kind, text) = match token.kind {
        TokenKind::String | TokenKind::DollarString => (LiteralKind::String, token.text().into_owned()),
        TokenKind::Integer => (LiteralKind::Integer, token.raw.to_owned()),
        TokenKind::Float => (LiteralKind::Float, token.raw.to_owned()),
        TokenKind::Boolean => (LiteralKind::Boolean, token.raw.to_owned()),
        TokenKind::Duration => (LiteralKind::Duration, token.raw.to_owned()),
        TokenKind::Uuid => (LiteralKind::Uuid, token.raw.to_owned()),
        TokenKind::Hex => (LiteralKind::Hex, token.raw.to_owned()),
        TokenKind::Keyword(Keyword::PositiveNan) | TokenKind::NegativeNan => {
            (LiteralKind::Float, "NaN".to_owned())
        }
        TokenKind::Keyword(Keyword::PositiveInfinity) => (LiteralKind::Float, "Infinity".to_owned()),
        TokenKind::NegativeInfinity => (LiteralKind::Float, "-Infinity".to_owned()),
        _ => return None,
    };
    Some(Literal { kind, text })
}

/// Whether a token is a constant.
pub(super) fn begins_constant(kind: TokenKind) -> bool {
    constant(Token { kind, start: 0, raw: "" }).is_some()
}

/// Whether a token may begin a term.
fn begins_term(kind: TokenKind) -> bool {
    begins_constant(kind)
        || is_name(kind)
        || is_function_name(kind)
        || matches!(
            kind,
            TokenKind::QuestionMark
                | TokenKind::Colon
                | TokenKind::Minus
                | TokenKind::LeftParen
                | TokenKind::LeftBracket
                | TokenKind::LeftBrace
                | TokenKind::Keyword(Keyword::Null)
        )
}

/// Whether a token may follow a term somewhere in the grammar.
fn may_follow_term(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Eof
        | TokenKind::Semicolon
        | TokenKind::Comma
        | TokenKind::Colon
        | TokenKind::RightParen
        | TokenKind::RightBracket
        | TokenKind::RightBrace
        | TokenKind::Range
        | TokenKind::Plus
        | TokenKind::Minus
        | TokenKind::Star
        | TokenKind::Slash
        | TokenKind::Percent => true,
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            Keyword::Allow
                | Keyword::And
                | Keyword::Apply
                | Keyword::Asc
                | Keyword::Delete
                | Keyword::Desc
                | Keyword::Group
                | Keyword::If
                | Keyword::Insert
                | Keyword::Limit
                | Keyword::Order
                | Keyword::Per
                | Keyword::Primary
                | Keyword::Update
                | Keyword::Where
        ),
        _ => false,
    }
}

/// The operator of a sum that a token is.
pub(super) fn sum_operator(kind: TokenKind) -> Option<ArithmeticOperator> {
    match kind {
        TokenKind::Plus => Some(ArithmeticOperator::Add),
        TokenKind::Minus => Some(ArithmeticOperator::Subtract),
        _ => None,
    }
}

/// The operator of a product that a token is.
pub(super) fn product_operator(kind: TokenKind) -> Option<ArithmeticOperator> {
    match kind {
        TokenKind::Star => Some(ArithmeticOperator::Multiply),
        TokenKind::Slash => Some(ArithmeticOperator::Divide),
        TokenKind::Percent => Some(ArithmeticOperator::Modulo),
        _ => None,
    }
}

impl Parser<'_> {
    /// A constant, if one is next.
    pub(super) fn accept_constant(&mut self) -> Parsed<Option<Literal>> {
        let token = self.ahead(0);
        let Some(literal) = constant(token) else { return Ok(None) };
        // Cassandra makes a double of it to find its type, before it knows what it is for.
        if token.kind == TokenKind::Float && literal.text.parse::<f64>().is_ok_and(f64::is_infinite) {
            return Err(self.too_large(&literal.text));
        }
        self.advance();
        Ok(Some(literal))
    }

    /// `?` or `:name`, if one is next.
    pub(super) fn accept_marker(&mut self) -> Parsed<Option<usize>> {
        if self.accept(TokenKind::QuestionMark) {
            return Ok(Some(self.add_marker(None)));
        }
        if self.accept(TokenKind::Colon) {
            let name = self.name()?;
            return Ok(Some(self.add_marker(Some(name))));
        }
        Ok(None)
    }

    /// An integer constant or a marker: TIMESTAMP, TTL, LIMIT.
    pub(super) fn integer_or_marker(&mut self) -> Parsed<Term> {
        if self.at(TokenKind::Integer) {
            let text = self.advance().raw.to_owned();
            return Ok(Term::Literal(Literal { kind: LiteralKind::Integer, text }));
        }
        match self.accept_marker()? {
            Some(marker) => Ok(Term::Marker(marker)),
            None => Err(self.no_viable(0)),
        }
    }

    /// A term.
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.expression(|parser| {
            let mut left = parser.term_product()?;
            if !may_follow_term(parser.kind(0)) && !parser.is_bypass_cache(0) {
                return Err(parser.no_viable(0));
            }
            while let Some(operator) = sum_operator(parser.kind(0)) {
                // In `c = x + c` the second operand is the column, which is no term.
                let name_ahead = is_name(parser.kind(1)) || parser.kind(1) == TokenKind::EmptyQuotedName;
                if operator == ArithmeticOperator::Add
                    && name_ahead
                    && !matches!(parser.kind(2), TokenKind::LeftParen | TokenKind::Dot)
                {
                    break;
                }
                parser.advance();
                parser.count_operator()?;
                let right = parser.term_product()?;
                if !may_follow_term(parser.kind(0)) && !parser.is_bypass_cache(0) {
                    return Err(parser.no_viable(0));
                }
                left = Term::Operation { operator, left: Box::new(left), right: Box::new(right) };
            }
            Ok(left)
        })
    }

    fn term_product(&mut self) -> Parsed<Term> {
        let mut left = self.term_group()?;
        while let Some(operator) = product_operator(self.kind(0)) {
            self.advance();
            self.count_operator()?;
            let right = self.term_group()?;
            left = Term::Operation { operator, left: Box::new(left), right: Box::new(right) };
        }
        Ok(left)
    }

    fn term_group(&mut self) -> Parsed<Term> {
        if self.accept(TokenKind::Minus) {
            return Ok(Term::Negation(Box::new(self.simple_term()?)));
        }
        self.simple_term()
    }

    fn simple_term(&mut self) -> Parsed<Term> {
        if let Some(literal) = self.accept_constant()? {
            return Ok(Term::Literal(literal));
        }
        if let Some(marker) = self.accept_marker()? {
            return Ok(Term::Marker(marker));
        }
        match self.kind(0) {
            TokenKind::Keyword(Keyword::Null) => {
                self.advance();
                Ok(Term::Null)
            }
            TokenKind::LeftBracket => {
                self.advance();
                Ok(Term::List(self.terms_until(TokenKind::RightBracket)?))
            }
            TokenKind::LeftBrace => self.term_in_braces(),
            TokenKind::LeftParen if self.at_type_hint() => {
                self.advance();
                let target = self.data_type()?;
                self.expect(TokenKind::RightParen)?;
                let term = Box::new(self.nested(Self::simple_term)?);
                Ok(Term::TypeHint { target, term })
            }
            TokenKind::LeftParen if !begins_term(self.kind(1)) => Err(self.no_viable(1)),
            TokenKind::LeftParen => Ok(Term::Tuple(self.tuple()?)),
            TokenKind::Keyword(Keyword::Cast) if self.kind(1) != TokenKind::Dot => {
                self.advance();
                self.expect(TokenKind::LeftParen)?;
                let term = Box::new(self.nested(Self::simple_term)?);
                self.expect_word(Keyword::As)?;
                let target = self.native_type()?;
                self.expect(TokenKind::RightParen)?;
                Ok(Term::Cast { term, target })
            }
            kind if is_name(kind) || is_function_name(kind) => self.function_term(),
            _ => Err(self.no_viable(0)),
        }
    }

    fn function_term(&mut self) -> Parsed<Term> {
        let callable = match self.kind(1) {
            TokenKind::Dot => is_name(self.kind(0)),
            TokenKind::LeftParen => is_function_name(self.kind(0)),
            _ => return Err(self.no_viable(1)),
        };
        if !callable {
            return Err(self.no_viable(1));
        }
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let arguments = self.terms_until(TokenKind::RightParen)?;
        Ok(Term::Function { name, arguments })
    }

    /// Terms, perhaps none, and the bracket that closes them.
    pub(super) fn terms_until(&mut self, close: TokenKind) -> Parsed<Vec<Term>> {
        if self.accept(close) {
            return Ok(Vec::new());
        }
        if !begins_term(self.kind(0)) {
            return Err(self.mismatch(close.expected_name()));
        }
        let terms = self.list(Self::term)?;
        self.expect(close)?;
        Ok(terms)
    }

    /// `(a, b)`, which is next.
    pub(super) fn tuple(&mut self) -> Parsed<Vec<Term>> {
        self.list_in_parens(Self::term)
    }

    /// A set, a map or a user type.
    fn term_in_braces(&mut self) -> Parsed<Term> {
        if !begins_term(self.kind(1)) && self.kind(1) != TokenKind::RightBrace {
            return Err(self.no_viable(1));
        }
        if is_name(self.kind(1)) && self.kind(2) == TokenKind::Colon {
            self.advance();
            return Ok(Term::UserType(self.user_type_fields()?));
        }
        self.advance();
        if self.accept(TokenKind::RightBrace) {
            return Ok(Term::Set(Vec::new()));
        }
        let first = self.term()?;
        if self.at(TokenKind::Colon) {
            return Ok(Term::Map(self.map_entries(first)?));
        }
        let mut elements = vec![first];
        while self.accept(TokenKind::Comma) {
            elements.push(self.term()?);
        }
        self.expect(TokenKind::RightBrace)?;
        Ok(Term::Set(elements))
    }

    fn user_type_fields(&mut self) -> Parsed<Vec<(Identifier, Term)>> {
        let mut fields: Vec<(Identifier, Term)> = Vec::new();
        loop {
            if !is_name(self.kind(0)) {
                return Err(self.no_viable(0));
            }
            let field = identifier(self.advance());
            self.expect(TokenKind::Colon)?;
            fields.push((field, self.term()?));
            if !self.accept(TokenKind::Comma) {
                break;
            }
        }
        self.expect(TokenKind::RightBrace)?;
        Ok(fields)
    }

    /// The entries of a map after its first key, and the brace.
    fn map_entries(&mut self, first: Term) -> Parsed<Vec<(Term, Term)>> {
        self.expect(TokenKind::Colon)?;
        let mut entries = vec![(first, self.term()?)];
        while self.accept(TokenKind::Comma) {
            let key = self.term()?;
            self.expect(TokenKind::Colon)?;
            entries.push((key, self.term()?));
        }
        self.expect(TokenKind::RightBrace)?;
        Ok(entries)
    }

    /// `{k: v, ...}`, perhaps empty.
    pub(super) fn map_literal(&mut self) -> Parsed<Vec<(Term, Term)>> {
        self.expect(TokenKind::LeftBrace)?;
        if self.accept(TokenKind::RightBrace) {
            return Ok(Vec::new());
        }
        if !begins_term(self.kind(0)) {
            return Err(self.mismatch(TokenKind::RightBrace.expected_name()));
        }
        let first = self.term()?;
        self.map_entries(first)
    }

    /// Whether `(type)` and a term stand here, rather than a tuple.
    fn at_type_hint(&mut self) -> bool {
        self.type_in_parens_before(|parser| begins_term(parser.kind(0)) && !parser.at(TokenKind::Minus))
    }

    /// Whether a type in parentheses stands here, and something after it that `follows` accepts.
    pub(super) fn type_in_parens_before(&mut self, follows: impl FnOnce(&mut Self) -> bool) -> bool {
        if !begins_type(self.kind(1)) {
            return false;
        }
        self.look(|parser| {
            parser.advance();
            let parsed = parser.data_type().is_ok() && parser.accept(TokenKind::RightParen);
            parsed && follows(parser)
        })
    }
}
