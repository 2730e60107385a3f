//! Passwords: bcrypt as Cassandra stores it.
//!
//! ```text
//! hash  := $2a$ rounds $ salt hash                     at most 72 bytes of the password count
//! ```

use bcrypt::Version;

/// The fewest rounds of a hash, as a power of two.
const ROUNDS_MIN: u32 = 4;

/// Rounds of a hash that a statement may bring along: with more, each login holds a thread for minutes.
const ROUNDS_GIVEN_MAX: u32 = 20;

/// Hash of nothing that anybody knows: checked where there is no other, so that the time tells nothing.
pub(crate) fn no_hash(rounds: u32) -> String {
    format!("$2a${rounds:02}$abcdefghijklmnopqrstuu4T826PRnz0Hu6YlprUuxkZxOOj5Fw5S")
}

/// The hash of a password.
///
/// # Errors
/// What bcrypt says.
pub(crate) fn hash(password: &str, rounds: u32, salt: [u8; 16]) -> Result<String, String> {
    let parts = bcrypt::hash_with_salt(password, rounds, salt).map_err(|error| error.to_string())?;
    Ok(parts.format_for_version(Version::TwoA))
}

/// Whether it is a password's hash. What is no hash is nobody's.
pub(crate) fn is_of(hash: &str, password: &str) -> bool {
    bcrypt::verify(password, hash).unwrap_or(false)
}

/// Whether a text is a hash that this node and Cassandra can check.
pub(crate) fn is_hash(text: &str) -> bool {
    let is_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
    let Some(rest) = text.strip_prefix("$2a$") else { return false };
    let Some((rounds, rest)) = rest.split_once('$') else { return false };
    let is_rounds = rounds.len() == 2
        && rounds.parse().is_ok_and(|rounds| (ROUNDS_MIN..=ROUNDS_GIVEN_MAX).contains(&rounds));
    is_rounds && rest.len() == 53 && rest.bytes().all(is_alphabet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_cassandra() {
        let hash = hash("geheim", 4, [7; 16]).unwrap();
        assert!(hash.starts_with("$2a$04$") && is_hash(&hash) && is_of(&hash, "geheim"));
        assert!(!is_of(&hash, "Geheim") && !is_of("no hash", "geheim"));
        assert!(is_hash(&no_hash(10)) && !is_of(&no_hash(4), "geheim"));
        for wrong in ["", "$2a$", "$2y$04$", "$2a$03$", &hash[1..], &hash[..59], &format!("{hash}x")] {
            assert!(!is_hash(wrong), "{wrong}");
        }
    }
}
