//! Syntax errors in Cassandra's words.
//!
//! ```text
//! line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM]...)
//!      │ │  │               │                │       └ a snippet: ten tokens before the place where the parser
//!      │ │  │               │                │         stood to two after it, its token in brackets
//!      │ │  │               │                └ what had to come (for a mismatch)
//!      │ │  │               └ the offending token
//!      │ │  └ or "no viable alternative at"
//!      │ └ characters before it in the line, in UTF-16 units
//!      └ its line
//! ```
//!
//! The end of the text is `line 0:-1` and `'<EOF>'`, without a snippet. The snippet counts blanks as tokens,
//! does not reach beyond what the parser had looked at, and measures strings without their quotes: so its
//! bracket may close early.

use thiserror::Error;

use crate::lexer::{LexError, LexProblem, Lexer, Token, TokenKind};

/// The text is not CQL. The message is complete, and Cassandra's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What people see.
    pub message: String,
}

impl SyntaxError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        SyntaxError { message: message.into() }
    }

    /// A token that does not fit where only one would. `seen` is the byte at which the
    /// furthest token that was looked at starts.
    pub(super) fn mismatched(text: &str, token: Token<'_>, expected: &str, seen: usize) -> Self {
        let problem = format!("mismatched input {} expecting {expected}", quote(&token.text()));
        Self::at_token(text, token, &problem, token.start, seen)
    }

    /// A token that does not fit where several would; the parser stood at the byte `stood`.
    pub(super) fn no_viable(text: &str, token: Token<'_>, stood: usize, seen: usize) -> Self {
        let problem = format!("no viable alternative at input {}", quote(&token.text()));
        Self::at_token(text, token, &problem, stood, seen)
    }

    /// A token behind EXPLAIN that is not SELECT; Cassandra has no EXPLAIN.
    pub(super) fn not_explained(text: &str, token: Token<'_>, seen: usize) -> Self {
        let problem = format!("only SELECT can be explained, not {}", quote(&token.text()));
        Self::at_token(text, token, &problem, token.start, seen)
    }

    fn at_token(text: &str, token: Token<'_>, problem: &str, stood: usize, seen: usize) -> Self {
        let snippet = snippet(text, stood, seen).unwrap_or_default();
        if token.kind == TokenKind::Eof {
            return SyntaxError::new(format!("line 0:-1 {problem}{snippet}"));
        }
        let (line, column) = line_and_column(text, token.start);
        SyntaxError::new(format!("line {line}:{column} {problem}{snippet}"))
    }

    /// An expression that is too deep or too long to be walked safely; Cassandra knows no such bound.
    pub(super) fn too_complex(text: &str, token: Token<'_>) -> Self {
        let (line, column) = line_and_column(text, token.start);
        SyntaxError::new(format!("line {line}:{column} the statement is nested too deeply"))
    }

    /// A character that fits no token.
    pub(super) fn lexical(text: &str, error: LexError) -> Self {
        let (line, column) = line_and_column(text, error.offset);
        let found = match text.get(error.offset..).and_then(|rest| rest.chars().next()) {
            Some(found) => quote(found.encode_utf8(&mut [0; 4])),
            None => "'<EOF>'".to_owned(),
        };
        SyntaxError::new(match error.problem {
            LexProblem::NoViableAlternative => {
                format!("line {line}:{column} no viable alternative at character {found}")
            }
            LexProblem::Expected(expected) => {
                format!("line {line}:{column} mismatched character {found} expecting '{expected}'")
            }
            LexProblem::ExpectedSet => {
                format!("line {line}:{column} mismatched character {found} expecting set null")
            }
            LexProblem::EmptyLoop => {
                format!(
                    "line {line}:{column} required (...)+ loop did not match anything at character {found}"
                )
            }
        })
    }
}

/// Text in quotes, with line breaks and tabs spelled out.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"))
}

fn utf16_length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The line, counted from one, and the UTF-16 units before `offset` in it.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, utf16_length(before.get(start..).unwrap_or("")))
}

/// Where a token of the snippet stands: line and columns, as Cassandra reckons them.
#[derive(Clone, Copy)]
struct Place {
    /// From zero.
    line: usize,
    /// UTF-16 units.
    from: usize,
    /// UTF-16 units, one past the token's text (without its quotes).
    to: usize,
}

impl Place {
    fn of(text: &str, token: Token<'_>) -> Option<Place> {
        if token.kind == TokenKind::Eof {
            return None;
        }
        let (line, from) = line_and_column(text, token.start);
        Some(Place { line: line - 1, from, to: from + utf16_length(&token.text()) })
    }
}

/// The snippet for a parser that stood at the token at byte `stood` and had looked at the tokens up to the
/// one at byte `seen`; `None` where Cassandra prints none.
fn snippet(text: &str, stood: usize, seen: usize) -> Option<String> {
    let mut lexer = Lexer::new(text);
    let mut before: Vec<Token<'_>> = Vec::new();
    let offending = loop {
        let token = lexer.next().ok()?;
        if token.start >= stood && token.kind != TokenKind::Hidden {
            break token;
        }
        if before.len() == 10 {
            before.remove(0);
        }
        before.push(token);
    };
    let first = before.first().copied().unwrap_or(offending);
    let mut last = offending;
    for _ in 0..2 {
        let Ok(token) = lexer.next() else { break };
        if token.start > seen {
            break;
        }
        last = token;
    }
    let (first, last, offending) =
        (Place::of(text, first)?, Place::of(text, last)?, Place::of(text, offending)?);

    let mut lines: Vec<Vec<u16>> = text.split('\n').map(|line| line.encode_utf16().collect()).collect();
    while lines.len() > 1 && lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let at_start = first.line == 0 && first.from == 0;
    let at_end = last.line + 1 == lines.len() && lines.last().is_some_and(|line| line.len() == last.to);
    if let Some(line) = lines.get_mut(last.line) {
        line.truncate(last.to);
    }
    if let Some(line) = lines.get_mut(offending.line) {
        line.insert(offending.to.min(line.len()), u16::from(b']'));
        line.insert(offending.from.min(line.len()), u16::from(b'['));
    }
    if let Some(line) = lines.get_mut(first.line) {
        line.drain(..first.from.min(line.len()));
    }
    let shown: Vec<u16> = lines.get(first.line..=last.line)?.concat();
    let shown = String::from_utf16_lossy(&shown);
    Some(format!(" ({}{shown}{})", if at_start { "" } else { "..." }, if at_end { "" } else { "..." }))
}
