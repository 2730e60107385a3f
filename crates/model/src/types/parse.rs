//! Text to values.

/// Bytes written as pairs of hexadecimal digits.
pub(super) fn hex_bytes(hex: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = hex.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16);
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}
