//! Keys and certificates as text (RFC 7468).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Bytes whose digits make a line of 64.
const LINE_BYTES: usize = 48;

/// A section with its two lines around.
pub(super) fn section(label: &str, bytes: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in bytes.chunks(LINE_BYTES) {
        line.chunks(3).for_each(|group| push(&mut text, group));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

fn push(text: &mut String, group: &[u8]) {
    let bits =
        group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - group.len()));
    for place in 0..4 {
        let digit = bits >> (18 - 6 * place) & 63;
        text.push(if place > group.len() { '=' } else { char::from(DIGITS[digit]) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_64_digits_and_the_last_its_padding() {
        let text = section("X", &[0; 49]);
        assert_eq!(text, format!("-----BEGIN X-----\n{}\nAA==\n-----END X-----\n", "A".repeat(64)));
        for (bytes, digits) in
            [(&b"A"[..], "QQ=="), (b"AB", "QUI="), (b"ABC", "QUJD"), (b"\xff\xef\0", "/+8A")]
        {
            assert_eq!(section("X", bytes).lines().nth(1), Some(digits));
        }
    }
}
