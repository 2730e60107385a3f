//! Tokens that start with a digit or a minus: integers, floats, blobs, durations, UUIDs.

use super::{LexError, LexProblem, Lexer, TokenKind, run};

/// The shape of a UUID: how many hexadecimal digits stand between the minuses.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl Lexer<'_> {
    /// Whether eight hexadecimal digits and a minus stand here: only a UUID goes on like that.
    pub(super) fn starts_uuid(&self) -> bool {
        let rest = self.rest();
        run(rest, |b| b.is_ascii_hexdigit()) == 8 && rest.get(8) == Some(&b'-')
    }

    /// A UUID, once its start is certain.
    pub(super) fn uuid(&self) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        let mut at = 0;
        for (i, digits) in UUID_GROUPS.into_iter().enumerate() {
            if i > 0 {
                if rest.get(at) != Some(&b'-') {
                    return Err(self.error(at, LexProblem::Expected('-')));
                }
                at += 1;
            }
            let group = rest.get(at..).unwrap_or(&[]);
            let found = run(group.get(..digits).unwrap_or(group), |b| b.is_ascii_hexdigit());
            at += found;
            if found < digits {
                return Err(self.error(at, LexProblem::ExpectedSet));
            }
        }
        Ok((TokenKind::Uuid, at))
    }

    /// A token that starts with a minus which is no comment.
    pub(super) fn minus(&self) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        match rest.get(1) {
            Some(b'0'..=b'9') => self.number_after(1),
            Some(b'=') => Ok((TokenKind::MinusEqual, 2)),
            Some(b'n' | b'N') => self.negative_word("nan", TokenKind::NegativeNan),
            Some(b'i' | b'I') => self.negative_word("infinity", TokenKind::NegativeInfinity),
            Some(b'P') => match iso_duration(rest) {
                Some(length) => Ok((TokenKind::Duration, length)),
                None => Ok((TokenKind::Minus, 1)),
            },
            _ => Ok((TokenKind::Minus, 1)),
        }
    }

    /// `-NaN` or `-Infinity`: after the minus and the first letter Cassandra's lexer accepts nothing else.
    fn negative_word(&self, word: &str, kind: TokenKind) -> Result<(TokenKind, usize), LexError> {
        let letters = self.rest().get(1..).unwrap_or(&[]);
        for (i, expected) in word.bytes().enumerate() {
            if letters.get(i).is_none_or(|letter| letter.to_ascii_lowercase() != expected) {
                return Err(self.error(1 + i, LexProblem::ExpectedSet));
            }
        }
        Ok((kind, 1 + word.len()))
    }

    /// A token that starts with a digit.
    pub(super) fn number(&self) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        if rest.first() == Some(&b'0') && matches!(rest.get(1), Some(b'x' | b'X')) {
            let digits = rest.get(2..).unwrap_or(&[]);
            return Ok((TokenKind::Hex, 2 + run(digits, |b| b.is_ascii_hexdigit())));
        }
        if self.starts_uuid() {
            return self.uuid();
        }
        self.number_after(0)
    }

    /// A number whose digits start at `sign` (0 or 1).
    fn number_after(&self, sign: usize) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        let tail = |at: usize| rest.get(at..).unwrap_or(&[]);
        let digits = |at: usize| run(tail(at), |b| b.is_ascii_digit());
        let mut at = sign + digits(sign);
        let mut kind = TokenKind::Integer;
        if rest.get(at) == Some(&b'.') {
            let dots = run(tail(at), |b| b == b'.');
            if dots == 2 {
                return Ok((TokenKind::Integer, at));
            }
            kind = TokenKind::Float;
            at += 1;
            if dots > 2 {
                return Ok((kind, at));
            }
            at += digits(at);
        } else if duration_unit(tail(at)).is_some() {
            return self.unit_duration(at);
        } else if sign == 0 && matches!(rest.get(at), Some(b'a'..=b'd' | b'A'..=b'D' | b'f' | b'F')) {
            return self.uuid();
        }
        if matches!(rest.get(at), Some(b'e' | b'E')) {
            let signed = matches!(rest.get(at + 1), Some(b'+' | b'-'));
            let exponent = at + 1 + usize::from(signed);
            match digits(exponent) {
                0 if signed => return Err(self.error(exponent, LexProblem::EmptyLoop)),
                0 => return Err(self.error(exponent, LexProblem::NoViableAlternative)),
                found => at = exponent + found,
            }
            kind = TokenKind::Float;
        }
        Ok((kind, at))
    }

    /// `1y2mo`, whose first unit stands at `unit`.
    fn unit_duration(&self, unit: usize) -> Result<(TokenKind, usize), LexError> {
        let rest = self.rest();
        let tail = |at: usize| rest.get(at..).unwrap_or(&[]);
        let mut at = unit;
        loop {
            match duration_unit(tail(at)) {
                Some(length) => at += length,
                None => return Err(self.error(at, LexProblem::NoViableAlternative)),
            }
            match run(tail(at), |b| b.is_ascii_digit()) {
                0 => return Ok((TokenKind::Duration, at)),
                digits => at += digits,
            }
        }
    }
}

/// The length of the duration unit here.
fn duration_unit(bytes: &[u8]) -> Option<usize> {
    let lower = |i: usize| bytes.get(i).map(u8::to_ascii_lowercase);
    match (lower(0)?, lower(1)) {
        (b'm', Some(b'o' | b's')) | (b'u' | b'n', Some(b's')) => Some(2),
        // The micro sign is two bytes of UTF-8.
        (0xc2, Some(0xb5)) if lower(2) == Some(b's') => Some(3),
        (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => Some(1),
        _ => None,
    }
}

/// The length of the ISO 8601 duration here, with its minus: `P1Y2M3DT4H5M6S`, `P2W`, `P0001-02-03T04:05:06`.
pub(super) fn iso_duration(bytes: &[u8]) -> Option<usize> {
    let sign = usize::from(bytes.first() == Some(&b'-'));
    if bytes.get(sign) != Some(&b'P') {
        return None;
    }
    let start = sign + 1;
    let body = bytes.get(start..)?;
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let alternative = body.get(..shape.len()).is_some_and(|text| {
        text.iter()
            .zip(shape)
            .all(|(byte, form)| if *form == b'd' { byte.is_ascii_digit() } else { byte == form })
    });
    if alternative {
        return Some(start + shape.len());
    }
    if let weeks @ 1.. = designators(body, b"W") {
        return Some(start + weeks);
    }
    let days = designators(body, b"YMD");
    let mut length = days;
    if body.get(length) == Some(&b'T') {
        let time = designators(body.get(length + 1..).unwrap_or(&[]), b"HMS");
        if time > 0 {
            length += 1 + time;
        }
    }
    (length > 0).then_some(start + length)
}

/// The length of a run of numbers, each followed by a designator, in the order of `letters`, each at most
/// once.
fn designators(bytes: &[u8], letters: &[u8]) -> usize {
    let mut length = 0;
    for letter in letters {
        let tail = bytes.get(length..).unwrap_or(&[]);
        let digits = run(tail, |b| b.is_ascii_digit());
        if digits > 0 && tail.get(digits) == Some(letter) {
            length += digits + 1;
        }
    }
    length
}
