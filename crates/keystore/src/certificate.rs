//! What a certificate says of its owner: the few fields that decide who a client is, and for how long.
//!
//! ```text
//! Certificate := SEQUENCE { tbs, ... }
//! tbs := SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, key, [1], [2],
//!                   [3] extensions }
//! ```
//!
//! Nothing here proves anything: signatures and chains are rustls's work, which was done before.

use crate::StoreError;
use crate::der::{Der, Element, Malformed, tag};

/// 2.5.4.3, the common name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17, the subject's alternative names.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// Names beyond these are not kept.
const NAMES_MAX: usize = 64;

/// The owner of a certificate, as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The common name of its subject.
    pub common_name: Option<String>,
    /// The URIs among its alternative names, in their order.
    pub uris: Vec<String>,
    /// Seconds since 1970 from which it is valid.
    pub not_before_s: i64,
    /// Seconds since 1970 up to which it is valid.
    pub not_after_s: i64,
}

impl Certificate {
    /// The first of its names that is one of SPIFFE, as Cassandra's SpiffeCertificateValidator chooses.
    pub fn spiffe(&self) -> Option<&str> {
        self.uris.iter().map(String::as_str).find(|uri| uri.starts_with("spiffe://"))
    }

    /// Seconds from the beginning of its validity to the end.
    pub fn validity_s(&self) -> i64 {
        self.not_after_s.saturating_sub(self.not_before_s)
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// What it holds is no certificate.
    pub fn parse(der: &[u8]) -> Result<Certificate, StoreError> {
        let fields = Fields::parse(der)?;
        let mut uris = Vec::new();
        let mut extensions = fields.extensions.unwrap_or(Der::new(&[]));
        while !extensions.is_empty() {
            let mut extension = extensions.sequence()?;
            let id = extension.expect(tag::OID)?;
            extension.optional(tag::BOOLEAN)?;
            let value = extension.expect(tag::OCTET_STRING)?;
            if id.body == ALTERNATIVE_NAMES {
                let mut names = value.inside().sequence()?;
                while !names.is_empty() && uris.len() < NAMES_MAX {
                    let name = names.next()?;
                    // uniformResourceIdentifier [6] IA5String
                    if name.tag == tag::plain_context(6) && name.body.is_ascii() {
                        uris.push(String::from_utf8_lossy(name.body).into_owned());
                    }
                }
            }
        }
        let mut validity = fields.validity.inside();
        Ok(Certificate {
            common_name: common_name(fields.subject)?,
            uris,
            not_before_s: time(validity.next()?)?,
            not_after_s: time(validity.next()?)?,
        })
    }
}

/// The parts of a certificate that are looked at.
pub(crate) struct Fields<'a> {
    pub(crate) issuer: Element<'a>,
    validity: Element<'a>,
    pub(crate) subject: Element<'a>,
    extensions: Option<Der<'a>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn parse(der: &'a [u8]) -> Result<Fields<'a>, Malformed> {
        let mut body = Der::new(der).sequence()?.sequence()?;
        body.optional(tag::context(0))?;
        body.expect(tag::INTEGER)?;
        body.expect(tag::SEQUENCE)?;
        let issuer = body.expect(tag::SEQUENCE)?;
        let validity = body.expect(tag::SEQUENCE)?;
        let subject = body.expect(tag::SEQUENCE)?;
        body.expect(tag::SEQUENCE)?;
        let mut extensions = None;
        while !body.is_empty() {
            let part = body.next()?;
            if part.tag == tag::context(3) {
                extensions = Some(part.inside().sequence()?);
            }
        }
        Ok(Fields { issuer, validity, subject, extensions })
    }
}

/// The last common name of a subject: the most specific one comes last.
fn common_name(subject: Element<'_>) -> Result<Option<String>, Malformed> {
    let mut found = None;
    let mut sets = subject.inside();
    while !sets.is_empty() {
        let mut set = sets.expect(tag::SET)?.inside();
        while !set.is_empty() {
            let mut pair = set.sequence()?;
            if pair.expect(tag::OID)?.body == COMMON_NAME {
                found = text(pair.next()?);
            }
        }
    }
    Ok(found)
}

/// A string of one of the kinds that names have.
pub(crate) fn text(element: Element<'_>) -> Option<String> {
    match element.tag {
        tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::IA5_STRING => {
            std::str::from_utf8(element.body).ok().map(str::to_owned)
        }
        tag::TELETEX_STRING => Some(element.body.iter().map(|byte| char::from(*byte)).collect()),
        tag::BMP_STRING => {
            let units = element.body.chunks_exact(2).filter_map(|pair| pair.try_into().ok());
            Some(char::decode_utf16(units.map(u16::from_be_bytes)).map(|c| c.unwrap_or('\u{fffd}')).collect())
        }
        _ => None,
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` in seconds since 1970.
fn time(element: Element<'_>) -> Result<i64, Malformed> {
    const WRONG: Malformed = Malformed("it has a time that is none");
    let text = std::str::from_utf8(element.body).map_err(|_| WRONG)?;
    let digits = text.strip_suffix('Z').filter(|d| d.bytes().all(|b| b.is_ascii_digit())).ok_or(WRONG)?;
    let (year, rest) = match element.tag {
        tag::UTC_TIME => digits.split_at_checked(2).ok_or(WRONG)?,
        tag::GENERALIZED_TIME => digits.split_at_checked(4).ok_or(WRONG)?,
        _ => return Err(WRONG),
    };
    if rest.len() != 10 {
        return Err(WRONG);
    }
    let number = |text: &str| text.parse::<i64>().map_err(|_| WRONG);
    let part = |at: usize| rest.get(at..at + 2).ok_or(WRONG).and_then(number);
    let year = match (element.tag, number(year)?) {
        (tag::UTC_TIME, year @ 0..50) => 2000 + year,
        (tag::UTC_TIME, year) => 1900 + year,
        (_, year) => year,
    };
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(WRONG);
    }
    Ok(days_since_1970(year, month, day) * 86_400 + part(4)? * 3_600 + part(6)? * 60 + part(8)?)
}

/// Days of the Gregorian calendar, with years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tag: u8, text: &str) -> Result<i64, Malformed> {
        time(Element { tag, body: text.as_bytes(), whole: &[] })
    }

    #[test]
    fn times_are_read_in_both_spellings() {
        assert_eq!(at(tag::UTC_TIME, "700101000000Z"), Ok(0));
        assert_eq!(at(tag::UTC_TIME, "240229120001Z"), Ok(1_709_208_001));
        assert_eq!(at(tag::UTC_TIME, "500101000000Z"), Ok(-631_152_000));
        assert_eq!(at(tag::GENERALIZED_TIME, "99991231235959Z"), Ok(253_402_300_799));
        for wrong in
            ["", "Z", "240229120001", "2402291200Z", "241329120001Z", "24022912000xZ", "2402291200010Z"]
        {
            assert!(at(tag::UTC_TIME, wrong).is_err(), "{wrong}");
        }
    }
}
