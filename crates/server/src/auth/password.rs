//! Passwords: bcrypt as Cassandra stores it.
//!
//! ```text
//! hash  := $2a$ rounds $ salt hash                     at most 72 bytes of the password count
//! ```
//! The crate `bcrypt` knows the text. Its arithmetic takes tens of milliseconds in one piece, so [`digest`]
//! does that round by round, and gives way to reads after each ([`engine::turns`]).

use base64::Engine as _;
use bcrypt::{BASE_64, HashParts, Version};
use blowfish::Blowfish;
use engine::turns::{give_way, in_turns};

/// The fewest and the most rounds of a hash, as powers of two.
const ROUNDS_MIN: u32 = 4;
const ROUNDS_MAX: u32 = 31;

/// Bytes of a password that count, with the zero behind it.
const KEY_BYTES_MAX: usize = 72;
/// What is encrypted with a password's key.
const MAGIC: &[u8; 24] = b"OrpheanBeholderScryDoubt";

/// Rounds of a hash that a statement may bring along: with more, each login holds a thread for minutes.
const ROUNDS_GIVEN_MAX: u32 = 20;

/// Hash of nothing that anybody knows: checked where there is no other, so that the time tells nothing.
pub(crate) fn no_hash(rounds: u32) -> String {
    format!("$2a${rounds:02}$abcdefghijklmnopqrstuu4T826PRnz0Hu6YlprUuxkZxOOj5Fw5S")
}

/// The hash of a password.
///
/// # Errors
/// With rounds that bcrypt does not have.
pub(crate) fn hash(password: &str, rounds: u32, salt: [u8; 16]) -> Result<String, String> {
    let hash = digest(password, rounds, salt)
        .ok_or_else(|| format!("bcrypt has {ROUNDS_MIN} to {ROUNDS_MAX} rounds, and not {rounds}"))?;
    Ok(format!("$2a${rounds:02}${}{}", BASE_64.encode(salt), BASE_64.encode(hash)))
}

/// Whether it is a password's hash. What is no hash is nobody's.
pub(crate) fn is_of(hash: &str, password: &str) -> bool {
    let Ok(parts) = hash.parse::<HashParts>() else { return false };
    let Ok(found) = self::hash(password, parts.get_cost(), parts.get_salt_raw()) else { return false };
    let wanted = parts.format_for_version(Version::TwoA);
    // As long for every wrong hash.
    let differing = wanted.bytes().zip(found.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    wanted.len() == found.len() && differing == 0
}

/// bcrypt ("A Future-Adaptable Password Scheme", Provos and Mazières 1999, section 4): 23 bytes; none with
/// rounds that it does not have.
fn digest(password: &str, rounds: u32, salt: [u8; 16]) -> Option<[u8; 23]> {
    if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) {
        return None;
    }
    // The byte behind the password counts, where it is among the first 72.
    let key: Vec<u8> = password.bytes().chain([0]).take(KEY_BYTES_MAX).collect();
    let state = in_turns(|| {
        let mut state = Blowfish::bc_init_state();
        state.salted_expand_key(&salt, &key);
        for _ in 0..1_u32 << rounds {
            state.bc_expand_key(&key);
            state.bc_expand_key(&salt);
            give_way();
        }
        state
    });
    let mut bytes = [0; 24];
    for (block, out) in MAGIC.as_chunks::<8>().0.iter().zip(bytes.as_chunks_mut::<8>().0) {
        let word = u64::from_be_bytes(*block);
        let halves = (0..64).fold([(word >> 32) as u32, word as u32], |halves, _| state.bc_encrypt(halves));
        *out = (u64::from(halves[0]) << 32 | u64::from(halves[1])).to_be_bytes();
    }
    bytes.first_chunk().copied()
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

    #[test]
    fn hashes_are_those_of_the_crate() {
        let long = "ß".repeat(40);
        for password in ["", "a", "geheim", "a\0b", &long[..70], &long[..72], &long[..74], &long] {
            for (rounds, salt) in [(4, [0; 16]), (5, [255; 16]), (6, *b"0123456789abcdef")] {
                let theirs = bcrypt::hash_with_salt(password, rounds, salt).unwrap();
                let theirs = theirs.format_for_version(Version::TwoA);
                assert_eq!(hash(password, rounds, salt).unwrap(), theirs, "{password}");
                for version in ["2a", "2b", "2x", "2y"] {
                    let theirs = theirs.replacen("2a", version, 1);
                    assert!(is_of(&theirs, password) && !is_of(&theirs, "another"), "{theirs}");
                }
                let [start, last] = [&theirs[..59], &theirs[59..]];
                let other = format!("{start}{}", if last == "O" { "S" } else { "O" });
                assert!(!is_of(&other, password), "{other}");
            }
        }
        assert!(hash("a", 3, [0; 16]).is_err() && hash("a", 32, [0; 16]).is_err());
        let of_no_rounds = no_hash(4).replacen("$04$", "$03$", 1);
        assert!(!is_of(&of_no_rounds, ""));
    }
}
