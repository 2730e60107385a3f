//! `speculative_retry` and `additional_write_policy`.
//!
//! ```text
//! policy := ALWAYS | NEVER | NONE | percentile | delay | ( MIN | MAX ) '(' percentile | delay ',' percentile | delay ')'
//! percentile := number ( p | percentile )        delay := number ms
//! ```
//! Case does not matter. Kept as `99p`, `50ms`, `MIN(99p,50ms)`: delays are whole milliseconds, percentiles
//! have up to four decimals.

use super::property::config;
use crate::error::{CqlError, Result};

/// The policy as it is kept. Messages name `speculative_retry` for both options, as Cassandra's do.
pub(super) fn parse(text: &str) -> Result<String> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "NONE" | "NEVER" => return Ok("NEVER".to_owned()),
        "ALWAYS" => return Ok("ALWAYS".to_owned()),
        _ => {}
    }
    let invalid = || CqlError::Config(format!("Invalid value {text} for option 'speculative_retry'"));
    let Some((function, arguments)) =
        ["MIN", "MAX"].into_iter().find_map(|f| upper.strip_prefix(f).map(|rest| (f, rest)))
    else {
        return Ok(simple(&upper, text)?.ok_or_else(invalid)?.to_string());
    };
    let (left, right) = arguments
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .and_then(|inner| inner.split_once(','))
        .ok_or_else(invalid)?;
    let mut policies = [None, None];
    for (policy, text) in policies.iter_mut().zip([left.trim(), right.trim()]) {
        *policy = simple(text, text)?;
    }
    match policies {
        [Some(Simple::Percentile(p)), Some(Simple::Delay(d))]
        | [Some(Simple::Delay(d)), Some(Simple::Percentile(p))] => {
            Ok(format!("{function}({},{})", Simple::Percentile(p), Simple::Delay(d)))
        }
        [Some(a), Some(_)] => config!(
            "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be of different types, \
             but both are of type {}",
            match a {
                Simple::Percentile(_) => "PERCENTILE",
                Simple::Delay(_) => "FIXED",
            }
        ),
        _ => Err(invalid()),
    }
}

enum Simple {
    Percentile(f64),
    Delay(u32),
}

impl std::fmt::Display for Simple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Simple::Delay(millis) => write!(f, "{millis}ms"),
            Simple::Percentile(percentile) => {
                let digits = format!("{percentile:.4}");
                write!(f, "{}p", digits.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

/// A percentile or a delay; `None` when the text is neither.
fn simple(upper: &str, text: &str) -> Result<Option<Simple>> {
    if let Some(millis) = upper.strip_suffix("MS") {
        let whole = number(millis).filter(|millis| *millis <= f64::from(i32::MAX));
        return Ok(whole.map(|millis| Simple::Delay(millis as u32)));
    }
    let Some(value) = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P')).and_then(number)
    else {
        return Ok(None);
    };
    if value <= 0.0 || value >= 100.0 {
        config!(
            "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
        );
    }
    Ok(Some(Simple::Percentile(value)))
}

/// Digits with at most one point.
fn number(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}
