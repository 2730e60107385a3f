//! A reader of DER: what certificates and key stores are written in.
//!
//! ```text
//! element := tag(1) length(1..5) body
//! length  := 0..127 | 0x81 n(1) | 0x82 n(2) | 0x83 n(3) | 0x84 n(4)
//! ```
//!
//! It hands out slices of what it was given, so it allocates nothing, and it goes one level down at a time,
//! so depth costs nothing either. Tags of more than one byte and indefinite lengths are refused: neither is
//! in what is read here, but for files of programs that write BER.

use std::fmt;

/// Tags that are looked for.
pub(crate) mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const OCTET_STRING: u8 = 0x04;
    pub const OID: u8 = 0x06;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const PRINTABLE_STRING: u8 = 0x13;
    pub const TELETEX_STRING: u8 = 0x14;
    pub const IA5_STRING: u8 = 0x16;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const BMP_STRING: u8 = 0x1e;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    /// `[n]` around other elements.
    pub const fn context(n: u8) -> u8 {
        0xa0 | n
    }
    /// `[n]` in place of a plain type's own tag.
    pub const fn plain_context(n: u8) -> u8 {
        0x80 | n
    }
}

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) body: &'a [u8],
    /// With its tag and length.
    pub(crate) whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// What is in it.
    pub(crate) fn inside(self) -> Der<'a> {
        Der::new(self.body)
    }
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Der<'a> {
        Der(bytes)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next element.
    pub(crate) fn next(&mut self) -> Result<Element<'a>, Malformed> {
        const SHORT: Malformed = Malformed("it ends in the middle of an element");
        let (&tag, rest) = self.0.split_first().ok_or(SHORT)?;
        if tag & 0x1f == 0x1f {
            return Err(Malformed("it has a tag of several bytes"));
        }
        let (&first, mut rest) = rest.split_first().ok_or(SHORT)?;
        let length = match first {
            0..=0x7f => usize::from(first),
            0x80 => return Err(Malformed("it has an indefinite length: it is BER, and not DER")),
            0x81..=0x84 => {
                let (digits, behind) = rest.split_at_checked(usize::from(first & 0x7f)).ok_or(SHORT)?;
                rest = behind;
                digits.iter().fold(0, |length: usize, digit| length << 8 | usize::from(*digit))
            }
            _ => return Err(Malformed("it has a length of more than four bytes")),
        };
        let (body, behind) = rest.split_at_checked(length).ok_or(SHORT)?;
        let (whole, _) = self.0.split_at_checked(self.0.len() - behind.len()).ok_or(SHORT)?;
        self.0 = behind;
        Ok(Element { tag, body, whole })
    }

    /// The next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<Element<'a>, Malformed> {
        let element = self.next()?;
        if element.tag == tag { Ok(element) } else { Err(Malformed("it has an element of another kind")) }
    }

    /// The next element, if there is one of this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        if self.0.first() == Some(&tag) { self.next().map(Some) } else { Ok(None) }
    }

    /// What is inside of the next element, which must be a sequence.
    pub(crate) fn sequence(&mut self) -> Result<Der<'a>, Malformed> {
        self.expect(tag::SEQUENCE).map(Element::inside)
    }

    /// The next element, a number that is not negative.
    pub(crate) fn number(&mut self) -> Result<u32, Malformed> {
        let body = self.expect(tag::INTEGER)?.body;
        let digits = body.strip_prefix(&[0]).unwrap_or(body);
        if body.first().is_none_or(|first| *first > 0x7f) || digits.len() > 4 {
            return Err(Malformed("it has a number that is too large"));
        }
        Ok(digits.iter().fold(0, |number, digit| number << 8 | u32::from(*digit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_in_their_order() {
        let mut der = Der::new(&[0x30, 3, 2, 1, 5, 4, 0x81, 2, 7, 8]);
        assert_eq!(der.sequence().unwrap().number(), Ok(5));
        assert_eq!(der.optional(tag::INTEGER), Ok(None));
        let last = der.expect(tag::OCTET_STRING).unwrap();
        assert_eq!((last.body, last.whole), (&[7, 8][..], &[4, 0x81, 2, 7, 8][..]));
        assert!(der.is_empty() && der.next().is_err());
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        for bytes in [
            &[0x30][..],
            &[0x30, 5, 0],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 1, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0x82, 1],
            &[0x1f, 1, 0],
        ] {
            assert!(Der::new(bytes).next().is_err(), "{bytes:?}");
        }
        assert!(Der::new(&[2, 1, 0xff]).number().is_err(), "negative");
        assert!(Der::new(&[2, 6, 0, 1, 1, 1, 1, 1]).number().is_err());
        assert!(Der::new(&[2, 0]).number().is_err());
        assert_eq!(Der::new(&[2, 5, 0, 0xff, 0xff, 0xff, 0xff]).number(), Ok(u32::MAX));
    }
}
