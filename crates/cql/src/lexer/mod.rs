//! From text to tokens, as Cassandra 5.0's lexer cuts it.
//!
//! Contract:
//! 1. [`Lexer::next`] yields one token at a time, borrowed from the text, and [`TokenKind::Eof`] for ever at
//!    the end. Blanks and comments come out as [`TokenKind::Hidden`]: error snippets count them.
//! 2. A lexer is a position and nothing else: copy it to look ahead, drop the copy to come back.
//! 3. A character that starts no token, or a token that breaks off, is a [`LexError`] whose words are
//!    Cassandra's. Lexing does not go on after one.
//!
//! Three rules surprise:
//! * Eight hexadecimal digits and a minus are the start of a UUID, whatever follows.
//! * A minus before a digit belongs to the number, so `a -1` is a name and a number.
//! * A `--` comment must end in a line break. The end of the text is not enough.

mod keyword;
mod number;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use keyword::{Keyword, KeywordClass, is_reserved_word, keyword};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the symbols are named after themselves")]
pub enum TokenKind {
    /// A keyword, `NaN` and `Infinity` among them.
    Keyword(Keyword),
    /// An unquoted name that is no keyword.
    Ident,
    /// `"name"`.
    QuotedName,
    /// `""`.
    EmptyQuotedName,
    /// `'text'`.
    String,
    /// `$$text$$`.
    DollarString,
    /// `42`, `-42`.
    Integer,
    /// `1.5`, `1e3`.
    Float,
    /// `true`, `false`.
    Boolean,
    /// `1y2mo`, `P1Y2M`.
    Duration,
    /// `0xcafe`.
    Hex,
    /// A UUID.
    Uuid,
    /// `-NaN`.
    NegativeNan,
    /// `-Infinity`.
    NegativeInfinity,
    /// `expr(`, in lower case and without a blank.
    ExprParen,
    QuestionMark,
    Range,
    NotEqual,
    Percent,
    LeftParen,
    RightParen,
    Plus,
    PlusEqual,
    Comma,
    Minus,
    MinusEqual,
    Dot,
    Slash,
    Colon,
    Semicolon,
    Less,
    LessOrEqual,
    Equal,
    Greater,
    GreaterOrEqual,
    LeftBracket,
    Star,
    RightBracket,
    LeftBrace,
    RightBrace,
    /// Blanks or a comment.
    Hidden,
    /// The end of the text.
    Eof,
}

impl TokenKind {
    /// The token's name in Cassandra's error messages (`expecting ...`).
    pub fn expected_name(self) -> &'static str {
        match self {
            TokenKind::Keyword(keyword) => keyword.token_name(),
            TokenKind::Ident => "IDENT",
            TokenKind::QuotedName => "QUOTED_NAME",
            TokenKind::EmptyQuotedName => "EMPTY_QUOTED_NAME",
            TokenKind::String | TokenKind::DollarString => "STRING_LITERAL",
            TokenKind::Integer => "INTEGER",
            TokenKind::Float => "FLOAT",
            TokenKind::Boolean => "BOOLEAN",
            TokenKind::Duration => "DURATION",
            TokenKind::Hex => "HEXNUMBER",
            TokenKind::Uuid => "UUID",
            TokenKind::NegativeNan => "K_NEGATIVE_NAN",
            TokenKind::NegativeInfinity => "K_NEGATIVE_INFINITY",
            TokenKind::ExprParen => "'expr('",
            TokenKind::QuestionMark => "QMARK",
            TokenKind::Range => "RANGE",
            TokenKind::NotEqual => "'!='",
            TokenKind::Percent => "'%'",
            TokenKind::LeftParen => "'('",
            TokenKind::RightParen => "')'",
            TokenKind::Plus => "'+'",
            TokenKind::PlusEqual => "'+='",
            TokenKind::Comma => "','",
            TokenKind::Minus => "'-'",
            TokenKind::MinusEqual => "'-='",
            TokenKind::Dot => "'.'",
            TokenKind::Slash => "'/'",
            TokenKind::Colon => "':'",
            TokenKind::Semicolon => "';'",
            TokenKind::Less => "'<'",
            TokenKind::LessOrEqual => "'<='",
            TokenKind::Equal => "'='",
            TokenKind::Greater => "'>'",
            TokenKind::GreaterOrEqual => "'>='",
            TokenKind::LeftBracket => "'['",
            TokenKind::Star => "'\\*'",
            TokenKind::RightBracket => "']'",
            TokenKind::LeftBrace => "'{'",
            TokenKind::RightBrace => "'}'",
            TokenKind::Hidden => "WS",
            TokenKind::Eof => "EOF",
        }
    }
}

/// A token: what it is, where it starts, and its raw text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// The byte at which it starts.
    pub start: usize,
    /// Its text as written.
    pub raw: &'a str,
}

impl<'a> Token<'a> {
    /// One past its last byte.
    pub fn end(&self) -> usize {
        self.start + self.raw.len()
    }

    /// Its text as Cassandra keeps it: strings and quoted names without their quotes.
    pub fn text(&self) -> Cow<'a, str> {
        let inner = |quote: usize| self.raw.get(quote..self.raw.len().saturating_sub(quote)).unwrap_or("");
        match self.kind {
            TokenKind::String => unescape(inner(1), "''", "'"),
            TokenKind::DollarString => Cow::Borrowed(inner(2)),
            TokenKind::QuotedName => unescape(inner(1), "\"\"", "\""),
            TokenKind::Eof => Cow::Borrowed("<EOF>"),
            _ => Cow::Borrowed(self.raw),
        }
    }
}

fn unescape<'a>(text: &'a str, doubled: &str, single: &str) -> Cow<'a, str> {
    if text.contains(doubled) { Cow::Owned(text.replace(doubled, single)) } else { Cow::Borrowed(text) }
}

/// Why the text could not be cut into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexError {
    /// The byte at which the offending character stands; the length of the text for its end.
    pub offset: usize,
    /// What was wrong there.
    pub problem: LexProblem,
}

/// What was wrong with a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexProblem {
    /// No token goes on like that.
    NoViableAlternative,
    /// A certain character had to follow.
    Expected(char),
    /// One of several characters had to follow.
    ExpectedSet,
    /// At least one of several characters had to follow.
    EmptyLoop,
}

/// A position in a text that is being cut into tokens.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Lexer { text, position: 0 }
    }

    /// The byte after the last token.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next token, hidden ones included.
    ///
    /// # Errors
    /// The text does not go on with a token.
    #[allow(clippy::should_implement_trait, reason = "it yields the end of the text for ever, and errors")]
    pub fn next(&mut self) -> Result<Token<'a>, LexError> {
        let (kind, length) = self.measure()?;
        let raw = self.text.get(self.position..self.position + length).unwrap_or("");
        let token = Token { kind, start: self.position, raw };
        self.position += raw.len();
        Ok(token)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or(&[])
    }

    fn error(&self, at: usize, problem: LexProblem) -> LexError {
        LexError { offset: (self.position + at).min(self.text.len()), problem }
    }

    /// The kind and the length in bytes of the token here.
    fn measure(&self) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        let at = |i: usize| rest.get(i).copied();
        let Some(first) = at(0) else { return Ok((TokenKind::Eof, 0)) };
        let one_or = |second: u8, pair: TokenKind, single: TokenKind| {
            if at(1) == Some(second) { (pair, 2) } else { (single, 1) }
        };
        Ok(match first {
            b' ' | b'\t' | b'\n' | b'\r' => {
                (TokenKind::Hidden, run(rest, |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')))
            }
            b'-' if at(1) == Some(b'-') => (TokenKind::Hidden, self.line_comment()?),
            b'/' if at(1) == Some(b'/') => (TokenKind::Hidden, self.line_comment()?),
            b'/' if at(1) == Some(b'*') => (TokenKind::Hidden, self.block_comment()?),
            b'\'' => (TokenKind::String, self.quoted(b'\'')?),
            b'"' => self.quoted_name()?,
            b'$' => (TokenKind::DollarString, self.dollar_string()?),
            b'0'..=b'9' => self.number()?,
            b'-' => self.minus()?,
            b'a'..=b'z' | b'A'..=b'Z' => self.word()?,
            b'?' => (TokenKind::QuestionMark, 1),
            b'.' => one_or(b'.', TokenKind::Range, TokenKind::Dot),
            b'!' if at(1) == Some(b'=') => (TokenKind::NotEqual, 2),
            b'!' => return Err(self.error(1, LexProblem::Expected('='))),
            b'%' => (TokenKind::Percent, 1),
            b'(' => (TokenKind::LeftParen, 1),
            b')' => (TokenKind::RightParen, 1),
            b'+' => one_or(b'=', TokenKind::PlusEqual, TokenKind::Plus),
            b',' => (TokenKind::Comma, 1),
            b'/' => (TokenKind::Slash, 1),
            b':' => (TokenKind::Colon, 1),
            b';' => (TokenKind::Semicolon, 1),
            b'<' => one_or(b'=', TokenKind::LessOrEqual, TokenKind::Less),
            b'=' => (TokenKind::Equal, 1),
            b'>' => one_or(b'=', TokenKind::GreaterOrEqual, TokenKind::Greater),
            b'[' => (TokenKind::LeftBracket, 1),
            b'*' => (TokenKind::Star, 1),
            b']' => (TokenKind::RightBracket, 1),
            b'{' => (TokenKind::LeftBrace, 1),
            b'}' => (TokenKind::RightBrace, 1),
            _ => return Err(self.error(0, LexProblem::NoViableAlternative)),
        })
    }

    fn line_comment(&self) -> Result<usize, LexError> {
        let rest = self.rest();
        match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            Some(end) => Ok(end + 1),
            None => Err(self.error(rest.len(), LexProblem::ExpectedSet)),
        }
    }

    fn block_comment(&self) -> Result<usize, LexError> {
        let rest = self.rest();
        let body = rest.get(2..).unwrap_or(&[]);
        match body.windows(2).position(|pair| pair == b"*/") {
            Some(end) => Ok(2 + end + 2),
            None => Err(self.error(rest.len(), LexProblem::Expected('*'))),
        }
    }

    /// The length of a token in quotes, inside which a doubled quote stands for one.
    fn quoted(&self, quote: u8) -> Result<usize, LexError> {
        let rest = self.rest();
        let mut at = 1;
        loop {
            match rest.get(at) {
                None => return Err(self.error(at, LexProblem::Expected(char::from(quote)))),
                Some(&byte) if byte == quote && rest.get(at + 1) == Some(&quote) => at += 2,
                Some(&byte) if byte == quote => return Ok(at + 1),
                Some(_) => at += 1,
            }
        }
    }

    fn quoted_name(&self) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        if rest.len() == 1 {
            return Err(self.error(1, LexProblem::NoViableAlternative));
        }
        if rest.get(1) == Some(&b'"') && rest.get(2) != Some(&b'"') {
            return Ok((TokenKind::EmptyQuotedName, 2));
        }
        Ok((TokenKind::QuotedName, self.quoted(b'"')?))
    }

    fn dollar_string(&self) -> Result<usize, LexError> {
        let rest = self.rest();
        if rest.get(1) != Some(&b'$') {
            return Err(self.error(1, LexProblem::Expected('$')));
        }
        let body = rest.get(2..).unwrap_or(&[]);
        match body.windows(2).position(|pair| pair == b"$$") {
            Some(end) => Ok(2 + end + 2),
            None => {
                // Cassandra's lexer stops to look for the closing dollars at the last character.
                let last = self.text.char_indices().next_back().map_or(0, |(offset, _)| offset);
                Err(LexError { offset: last.max(self.position + 2), problem: LexProblem::Expected('$') })
            }
        }
    }

    /// A name, a keyword, a boolean, an ISO duration, or a UUID that starts with a letter.
    fn word(&self) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        let length = run(rest, |b| b.is_ascii_alphanumeric() || b == b'_');
        if self.starts_uuid() {
            return self.uuid();
        }
        if let Some(duration) = number::iso_duration(rest).filter(|duration| *duration >= length) {
            return Ok((TokenKind::Duration, duration));
        }
        let word = self.text.get(self.position..self.position + length).unwrap_or("");
        if word == "expr" && rest.get(length) == Some(&b'(') {
            return Ok((TokenKind::ExprParen, length + 1));
        }
        Ok((word_kind(word), length))
    }
}

/// What a word without quotes is.
fn word_kind(word: &str) -> TokenKind {
    match keyword(word) {
        Some(keyword) => TokenKind::Keyword(keyword),
        None if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => TokenKind::Boolean,
        None => TokenKind::Ident,
    }
}

/// How many bytes from the start satisfy `accept`.
fn run(bytes: &[u8], accept: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| accept(**byte)).count()
}
