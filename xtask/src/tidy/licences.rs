//! Whether a dependency's licence lets it into an Apache-2.0 binary.
//!
//! Licences come as SPDX expressions:
//!
//! ```text
//! either := both ("OR" | "/") both ...
//! both   := one "AND" one ...
//! one    := "(" either ")" | name ["WITH" exception]
//! ```

/// Licences that ask for no more than their text being passed on, and MPL-2.0, whose terms stay within the
/// files that carry it.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "MPL-2.0+",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether some way to read the expression needs accepted licences only. One that cannot be read is refused.
pub fn accepted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let verdict = either(&mut rest);
    rest.is_empty() && verdict.unwrap_or(false)
}

fn either(tokens: &mut &[&str]) -> Option<bool> {
    let mut verdict = both(tokens)?;
    while take(tokens, "OR") {
        verdict |= both(tokens)?;
    }
    Some(verdict)
}

fn both(tokens: &mut &[&str]) -> Option<bool> {
    let mut verdict = one(tokens)?;
    while take(tokens, "AND") {
        verdict &= one(tokens)?;
    }
    Some(verdict)
}

fn one(tokens: &mut &[&str]) -> Option<bool> {
    if take(tokens, "(") {
        let verdict = either(tokens)?;
        return take(tokens, ")").then_some(verdict);
    }
    let (name, rest) = tokens.split_first()?;
    *tokens = rest;
    if take(tokens, "WITH") {
        // An exception only adds permissions.
        let (_, rest) = tokens.split_first()?;
        *tokens = rest;
    }
    Some(ACCEPTED.contains(name))
}

fn take(tokens: &mut &[&str], word: &str) -> bool {
    match tokens.split_first() {
        Some((first, rest)) if *first == word => {
            *tokens = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn a_choice_needs_one_accepted_licence() {
        for expression in
            ["MIT", "MIT OR GPL-3.0", "GPL-2.0/MIT", "Apache-2.0 WITH LLVM-exception OR GPL-3.0"]
        {
            assert!(accepted(expression), "{expression}");
        }
        assert!(!accepted("GPL-2.0 OR LGPL-3.0"));
    }

    #[test]
    fn a_conjunction_needs_all() {
        assert!(accepted("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(!accepted("MIT AND GPL-3.0"));
        assert!(!accepted("MIT AND (GPL-3.0 OR AGPL-3.0)"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for expression in ["", "MIT OR", "(MIT", "MIT)", "OR MIT", "MIT WITH"] {
            assert!(!accepted(expression), "{expression}");
        }
    }
}
