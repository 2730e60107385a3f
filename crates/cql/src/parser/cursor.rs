//! The parser's state: the tokens ahead, the markers so far, the depth, and how errors are made.

use crate::ast::Identifier;
use crate::lexer::{Keyword, KeywordClass, LexError, Lexer, Token, TokenKind};

use super::SyntaxError;

/// How deep terms, selectors and relations may nest.
pub const NESTING_MAX: usize = 100;

/// The same for types, where each level may say `frozen` besides. How deep types are is judged when they are
/// resolved.
const TYPE_NESTING_MAX: usize = 2 * model::types::TypeBounds::CREATED.depth_max + 2;

/// How many arithmetic operators one expression may have.
pub const OPERATORS_MAX: usize = 250;

/// How many tokens the parser looks ahead.
const AHEAD: usize = 4;

pub(super) type Parsed<T> = Result<T, SyntaxError>;

/// A token kind that is written as a keyword, for matches and expectations.
pub(super) const fn word(keyword: Keyword) -> TokenKind {
    TokenKind::Keyword(keyword)
}

/// The state of a parse. It is small: copying it is how the parser tries an alternative.
#[derive(Clone, Copy)]
struct Window<'a> {
    lexer: Lexer<'a>,
    /// The tokens ahead, the first `filled` of them valid.
    tokens: [Token<'a>; AHEAD],
    filled: usize,
    /// The start of the furthest token that was looked at.
    seen: usize,
    /// Why no more tokens come, if the text breaks off. A token of kind `Hidden` stands in for what is not
    /// there.
    broken: Option<LexError>,
}

pub(super) struct Parser<'a> {
    text: &'a str,
    window: Window<'a>,
    /// The end of the last token that was consumed.
    consumed: usize,
    pub(super) markers: Vec<Option<Identifier>>,
    /// The first error that has no position.
    complaint: Option<SyntaxError>,
    depth: usize,
    operators: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let nothing = Token { kind: TokenKind::Hidden, start: 0, raw: "" };
        Parser {
            text,
            window: Window {
                lexer: Lexer::new(text),
                tokens: [nothing; AHEAD],
                filled: 0,
                seen: 0,
                broken: None,
            },
            consumed: 0,
            markers: Vec::new(),
            complaint: None,
            depth: 0,
            operators: 0,
        }
    }

    /// The first of the errors met, or the statement.
    pub(super) fn finish<T>(self, outcome: Parsed<T>) -> Parsed<T> {
        if let Some(complaint) = self.complaint {
            return Err(complaint);
        }
        if let Some(broken) = self.window.broken {
            return Err(SyntaxError::lexical(self.text, broken));
        }
        outcome
    }

    // Tokens.

    /// The token `n` places ahead; 0 is the next one. At most three places.
    pub(super) fn ahead(&mut self, n: usize) -> Token<'a> {
        let window = &mut self.window;
        while window.filled <= n && window.filled < AHEAD {
            let token = loop {
                if window.broken.is_some() {
                    break Token { kind: TokenKind::Hidden, start: self.text.len(), raw: "" };
                }
                match window.lexer.next() {
                    Ok(token) if token.kind == TokenKind::Hidden => {}
                    Ok(token) => break token,
                    Err(error) => window.broken = Some(error),
                }
            };
            window.seen = window.seen.max(token.start);
            if let Some(slot) = window.tokens.get_mut(window.filled) {
                *slot = token;
            }
            window.filled += 1;
        }
        window.tokens.get(n).copied().unwrap_or(Token {
            kind: TokenKind::Hidden,
            start: self.text.len(),
            raw: "",
        })
    }

    /// Looks ahead without a trace: errors speak of tokens as if nobody had looked.
    pub(super) fn peek<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let window = self.window;
        let out = look(self);
        self.window = window;
        out
    }

    /// The kind of the token `n` places ahead.
    pub(super) fn kind(&mut self, n: usize) -> TokenKind {
        self.ahead(n).kind
    }

    /// Whether the next token is of this kind.
    pub(super) fn at(&mut self, kind: TokenKind) -> bool {
        self.kind(0) == kind
    }

    /// Whether the next token is this keyword.
    pub(super) fn at_word(&mut self, keyword: Keyword) -> bool {
        self.kind(0) == word(keyword)
    }

    /// Consumes the next token, whatever it is. The one after it is looked at, as Cassandra's parser does.
    pub(super) fn advance(&mut self) -> Token<'a> {
        let token = self.ahead(0);
        self.consumed = token.end();
        self.window.tokens.rotate_left(1);
        self.window.filled -= 1;
        self.ahead(0);
        token
    }

    /// Consumes the next token if it is of this kind.
    pub(super) fn accept(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.advance();
        }
        found
    }

    /// Consumes the next token if it is this keyword.
    pub(super) fn accept_word(&mut self, keyword: Keyword) -> bool {
        self.accept(word(keyword))
    }

    /// Consumes the next token, which must be of this kind.
    pub(super) fn expect(&mut self, kind: TokenKind) -> Parsed<Token<'a>> {
        if self.at(kind) { Ok(self.advance()) } else { Err(self.mismatch(kind.expected_name())) }
    }

    /// Consumes the next token, which must be this keyword.
    pub(super) fn expect_word(&mut self, keyword: Keyword) -> Parsed<()> {
        self.expect(word(keyword)).map(|_| ())
    }

    /// Consumes the next tokens, which must be these keywords.
    pub(super) fn expect_words(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        keywords.iter().try_for_each(|keyword| self.expect_word(*keyword))
    }

    /// The byte at which the next token starts.
    pub(super) fn here(&mut self) -> usize {
        self.ahead(0).start
    }

    /// The byte after the last token that was consumed.
    pub(super) fn consumed(&self) -> usize {
        self.consumed
    }

    /// Runs `attempt` and comes back to where the parser is now. Markers must not be parsed in it.
    pub(super) fn look<T>(&mut self, attempt: impl FnOnce(&mut Self) -> T) -> T {
        let (window, consumed, depth) = (self.window, self.consumed, self.depth);
        let complaint = self.complaint.take();
        let outcome = attempt(self);
        let seen = self.window.seen;
        (self.window, self.consumed, self.depth) = (window, consumed, depth);
        self.window.seen = seen;
        self.complaint = complaint;
        outcome
    }

    // Lists.

    /// `item (',' item)*`.
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `'(' item (',' item)* ')'`.
    pub(super) fn list_in_parens<T>(&mut self, item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect(TokenKind::LeftParen)?;
        let items = self.list(item)?;
        self.expect(TokenKind::RightParen)?;
        Ok(items)
    }

    // Bounds.

    /// Runs `parse` one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.nested_up_to(NESTING_MAX, parse)
    }

    /// The same for a type.
    pub(super) fn nested_type<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.nested_up_to(TYPE_NESTING_MAX, parse)
    }

    fn nested_up_to<T>(&mut self, max: usize, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= max {
            return Err(self.too_complex());
        }
        self.depth += 1;
        let outcome = parse(self);
        self.depth -= 1;
        outcome
    }

    /// Runs `parse`, which begins an expression: its operators are counted anew.
    pub(super) fn expression<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == 0 {
            self.operators = 0;
        }
        self.nested(parse)
    }

    /// Counts an operator of the expression that is being parsed.
    pub(super) fn count_operator(&mut self) -> Parsed<()> {
        if self.operators >= OPERATORS_MAX {
            return Err(self.too_complex());
        }
        self.operators += 1;
        Ok(())
    }

    fn too_complex(&mut self) -> SyntaxError {
        let token = self.ahead(0);
        SyntaxError::too_complex(self.text, token)
    }

    // Markers and errors.

    /// Adds a bind marker and returns its number.
    pub(super) fn add_marker(&mut self, name: Option<Identifier>) -> usize {
        self.markers.push(name);
        self.markers.len() - 1
    }

    /// Notes an error that does not stop the parse.
    pub(super) fn complain(&mut self, message: impl Into<String>) {
        // A token that broke off was met before, and is what the client should see.
        if self.window.broken.is_none() {
            self.complaint.get_or_insert_with(|| SyntaxError::new(message));
        }
    }

    /// The next token is not the one that has to come.
    pub(super) fn mismatch(&mut self, expected: &str) -> SyntaxError {
        let token = self.ahead(0);
        SyntaxError::mismatched(self.text, token, expected, self.window.seen)
    }

    /// The next token is none of the keywords or symbols that may come.
    pub(super) fn too_large(&self, number: &str) -> SyntaxError {
        SyntaxError::new(format!(
            "Failed parsing statement: [{}] reason: {number} is beyond the numbers of double precision",
            self.text
        ))
    }

    /// The words of Cassandra for a number that is no `int`.
    pub(super) fn no_number(&self, number: &str) -> String {
        format!(
            "Failed parsing statement: [{}] reason: NumberFormatException For input string: \"{number}\"",
            self.text
        )
    }

    pub(super) fn mismatched_set(&mut self) -> SyntaxError {
        self.mismatch("set null")
    }

    /// The next token begins something that EXPLAIN does not explain.
    pub(super) fn not_explained(&mut self) -> SyntaxError {
        let token = self.ahead(0);
        SyntaxError::not_explained(self.text, token, self.window.seen)
    }

    /// The token `n` places ahead fits no alternative.
    pub(super) fn no_viable(&mut self, n: usize) -> SyntaxError {
        let stood = self.here();
        let token = self.ahead(n);
        SyntaxError::no_viable(self.text, token, stood, self.window.seen)
    }
}

/// Whether a token may be a name: an identifier, a quoted one, or an unreserved keyword.
pub(super) fn is_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => keyword.class() != KeywordClass::Reserved,
        _ => false,
    }
}
