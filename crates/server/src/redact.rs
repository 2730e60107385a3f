//! What logs, traces and lists of reads do not tell: passwords never, values where `slow_query_values` says
//! so.
//!
//! Passwords go as Cassandra's `PasswordObfuscator` has it: everything after the word. In statements on data,
//! where a column may have that name, only a literal that follows it makes it a password; any other text is
//! not understood that well, statements that do not parse and messages about them included.

use cql::ast::RoleOption;
use cql::lexer::{Lexer, TokenKind};
use std::borrow::Cow;

/// What stands for a password.
pub const STARS: &str = "*******";
const PASSWORD: &str = "password";
/// First words of statements that hold no password of the node's.
const ON_DATA: [&str; 10] =
    ["select", "insert", "update", "delete", "begin", "truncate", "use", "describe", "desc", "explain"];
/// Second words of those that begin with CREATE, ALTER or DROP.
const ON_SCHEMA: [&str; 10] = [
    "keyspace",
    "schema",
    "table",
    "columnfamily",
    "type",
    "index",
    "custom",
    "materialized",
    "function",
    "aggregate",
];

/// The text up to its password.
pub fn passwords(text: &str) -> Cow<'_, str> {
    let ends = || ends_of_password(text);
    if ends().next().is_none() {
        return Cow::Borrowed(text);
    }
    let cut = match is_on_data(text) {
        true => ends().find(|end| is_before_literal(text.get(*end..).unwrap_or_default())),
        false => ends().next(),
    };
    match cut.and_then(|end| text.get(..end)) {
        Some(told) => Cow::Owned(format!("{told} {STARS}")),
        None => Cow::Borrowed(text),
    }
}

/// The text up to the first word "password", whatever it is: Cassandra's `PasswordObfuscator.obfuscate`.
pub fn behind_password(text: &str) -> Cow<'_, str> {
    match ends_of_password(text).next().and_then(|end| text.get(..end)) {
        Some(told) => Cow::Owned(format!("{told} {STARS}")),
        None => Cow::Borrowed(text),
    }
}

/// A statement about roles without its passwords, which are known: Cassandra's `obfuscatePassword`. What
/// stands behind them is told.
pub fn known_passwords<'t>(text: &'t str, options: &[RoleOption]) -> Cow<'t, str> {
    let mut told = Cow::Borrowed(text);
    for option in options {
        let (RoleOption::Password(password) | RoleOption::HashedPassword(password)) = option else {
            continue;
        };
        let literal = format!("'{}'", password.replace('\'', "''"));
        let hidden = ends_of_password(&told).find_map(|end| {
            let (before, rest) = told.split_at_checked(end)?;
            let (between, after) = rest.split_once(&literal)?;
            Some(format!("{before}{between}'{STARS}'{after}"))
        });
        told = match hidden {
            Some(hidden) => Cow::Owned(hidden),
            // Spelled in another way: nothing is told from there on.
            None => Cow::Owned(behind_password(text).into_owned()),
        };
    }
    told
}

/// Whether a column's name says that it holds passwords.
pub fn names_password(column: &str) -> bool {
    ends_of_password(column).next().is_some()
}

/// The text with a question mark for each literal; nothing behind what is no CQL.
pub fn literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lexer = Lexer::new(text);
    loop {
        match lexer.next() {
            Ok(token) => match token.kind {
                TokenKind::Eof => return out,
                TokenKind::String
                | TokenKind::DollarString
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Boolean
                | TokenKind::Duration
                | TokenKind::Hex
                | TokenKind::Uuid
                | TokenKind::NegativeNan
                | TokenKind::NegativeInfinity => out.push('?'),
                // A comment may hold a statement that was used before.
                TokenKind::Hidden if !token.raw.trim().is_empty() => out.push(' '),
                _ => out.push_str(token.raw),
            },
            Err(_) => {
                out.push('…');
                return out;
            }
        }
    }
}

/// Where the word ends each time, in any spelling.
fn ends_of_password(text: &str) -> impl Iterator<Item = usize> {
    let windows = text.as_bytes().windows(PASSWORD.len()).enumerate();
    windows
        .filter(|(_, word)| word.eq_ignore_ascii_case(PASSWORD.as_bytes()))
        .map(|(at, word)| at + word.len())
}

fn is_on_data(text: &str) -> bool {
    let mut words = words(text);
    let is_in = |list: &[&str], word: &str| list.iter().any(|known| word.eq_ignore_ascii_case(known));
    let Some(first) = words.next() else { return false };
    is_in(&ON_DATA, first)
        || (is_in(&["create", "alter", "drop"], first)
            && words.next().is_some_and(|word| is_in(&ON_SCHEMA, word)))
}

/// Tokens without blanks and comments, as far as there are any.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut lexer = Lexer::new(text);
    std::iter::from_fn(move || lexer.next().ok().filter(|token| token.kind != TokenKind::Eof))
        .filter(|token| token.kind != TokenKind::Hidden)
        .map(|token| token.raw)
}

/// Whether a literal follows, behind the quote of a name and a sign.
fn is_before_literal(rest: &str) -> bool {
    let rest = rest.strip_prefix('"').unwrap_or(rest);
    if rest.starts_with(['\'', '$']) {
        return true;
    }
    let mut lexer = Lexer::new(rest);
    loop {
        match lexer.next() {
            Ok(token) if token.kind == TokenKind::Hidden || token.raw == "=" => {}
            Ok(token) => return matches!(token.kind, TokenKind::String | TokenKind::DollarString),
            // A literal without its end, for all that is known.
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_behind_the_word_password() {
        for (text, told) in [
            ("CREATE ROLE x WITH PASSWORD = 'geheim'", "CREATE ROLE x WITH PASSWORD *******"),
            ("ALTER USER x WITH password 'geheim' SUPERUSER", "ALTER USER x WITH password *******"),
            ("create role x with HASHED PASSWORD='$2a$geheim'", "create role x with HASHED PASSWORD *******"),
            (
                "/* geh */ CREATE/**/ROLE x WITH PassWord=$$geheim$$",
                "/* geh */ CREATE/**/ROLE x WITH PassWord *******",
            ),
            ("CREAT ROLE x WITH PASSWORD = 'geheim'", "CREAT ROLE x WITH PASSWORD *******"),
            ("CREATEROLE xPASSWORD='geheim", "CREATEROLE xPASSWORD *******"),
            ("ALTER ROLE x WITH \"PASSWORD\" geheim", "ALTER ROLE x WITH \"PASSWORD *******"),
            (
                "SELECT 1; ALTER ROLE x WITH PASSWORD /* = */ = /* */ 'geheim'",
                "SELECT 1; ALTER ROLE x WITH PASSWORD *******",
            ),
            (
                "line 1:39 mismatched input (x WITH PASSWORD = 'geheim' [bla])",
                "line 1:39 mismatched input (x WITH PASSWORD *******",
            ),
            ("UPDATE u SET \"password\" = 'geheim' WHERE k = 1", "UPDATE u SET \"password *******"),
            ("CREATE ROLE ü WITH PASSWORD = 'geheim'", "CREATE ROLE ü WITH PASSWORD *******"),
        ] {
            assert_eq!(passwords(text), told);
        }
        for text in [
            "SELECT password, passwords FROM u WHERE password = ? AND k = 'x'",
            "INSERT INTO u (k, password) VALUES (?, ?)",
            "CREATE TABLE passwords (k int PRIMARY KEY, password text)",
            "CREATE ROLE x WITH LOGIN = true",
            "",
        ] {
            assert_eq!(passwords(text), text);
        }
    }

    #[test]
    fn a_password_that_is_known_is_all_that_is_hidden() {
        let password = |text: &str| vec![RoleOption::Password(text.to_owned())];
        let with_login = "CREATE ROLE x WITH PASSWORD = 'ge''heim' AND LOGIN = true";
        let told = "CREATE ROLE x WITH PASSWORD = '*******' AND LOGIN = true";
        assert_eq!(known_passwords(with_login, &password("ge'heim")), told);
        let dollars = "ALTER ROLE x WITH PASSWORD = $$ge'heim$$ AND LOGIN = true";
        assert_eq!(known_passwords(dollars, &password("ge'heim")), "ALTER ROLE x WITH PASSWORD *******");
        let named = "create user password with password 'password'";
        let told = "create user password with password '*******'";
        assert_eq!(known_passwords(named, &password("password")), told);
        let hashed = [RoleOption::HashedPassword("$2a$x".to_owned())];
        let text = "CREATE ROLE x WITH HASHED PASSWORD = '$2a$x'";
        assert_eq!(known_passwords(text, &hashed), "CREATE ROLE x WITH HASHED PASSWORD = '*******'");
        assert_eq!(known_passwords("DROP ROLE x", &[]), "DROP ROLE x");
        assert_eq!(behind_password("SELECT password FROM t"), "SELECT password *******");
    }

    #[test]
    fn question_marks_stand_for_literals() {
        let text = "SELECT a, \"B1\" FROM t WHERE k IN ('x''y', 1, -2.5, 0xca, true) AND u = $$ d $$ AND w = ? \
                    AND i = c37d661d-7e61-49ea-96a5-68c34e83db3a AND d = 1y2mo LIMIT 10 /* 'was' */";
        let told = "SELECT a, \"B1\" FROM t WHERE k IN (?, ?, ?, ?, ?) AND u = ? AND w = ? AND i = ? AND d = ? LIMIT ?  ";
        assert_eq!(literals(text), told);
        assert_eq!(literals("k = 'a' AND v = 'cut…"), "k = ? AND v = …");
    }
}
