//! Histograms as sstablemetadata draws them.

use super::super::output::Output;
use sstable::statistics::EstimatedHistogram;
use std::io;

const BAR_CHARS: f64 = 30.0;
/// Buckets that percentiles are told by.
const PERCENTILE_BUCKETS: usize = 165;
const PERCENTILES: [(&str, f64); 5] =
    [("50th", 0.5), ("75th", 0.75), ("95th", 0.95), ("98th", 0.98), ("99th", 0.99)];

/// Values, how often they occur, and how they are shown.
pub(super) struct Histogram<'a> {
    title: &'a str,
    bins: Vec<(i64, i64)>,
    show: &'a dyn Fn(i64) -> String,
}

fn bar(count: i64, max: i64) -> String {
    let width = count as f64 / max as f64 * BAR_CHARS;
    let whole = width.trunc();
    let rest = match width - whole {
        rest if rest >= 0.75 => "o",
        rest if rest >= 0.3 => ".",
        _ => "",
    };
    "O".repeat(whole as usize) + rest
}

impl<'a> Histogram<'a> {
    pub(super) fn new(
        title: &'a str,
        bins: impl Iterator<Item = (i64, i64)>,
        show: &'a dyn Fn(i64) -> String,
    ) -> Histogram<'a> {
        Histogram { title, bins: bins.collect(), show }
    }

    pub(super) fn print(&self, out: &mut Output) -> io::Result<()> {
        let shown: Vec<String> = self.bins.iter().map(|(value, _)| (self.show)(*value)).collect();
        let width = shown.iter().map(String::len).max().unwrap_or(0).max(self.title.len());
        let counts = self.bins.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or(0).max(5);
        let max = self.bins.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
        let sum: f64 = self.bins.iter().map(|(_, count)| *count as f64).sum();
        out.line(&format!("   {:<width$} | {:<counts$}  (%)  Histogram ", self.title, "Count"))?;
        for ((_, count), shown) in self.bins.iter().zip(&shown) {
            let percent = (100.0 * (*count as f64 / sum)) as i64;
            out.line(&format!("   {shown:<width$} | {count:>counts$} ({percent:>3}) {}", bar(*count, max)))?;
        }
        out.line("   Percentiles")?;
        for (name, value) in self.percentiles() {
            out.line(&format!("   {name:<10}{}", (self.show)(value)))?;
        }
        Ok(())
    }

    /// The values that are put into buckets which grow by a fifth, so these are limits of buckets.
    fn percentiles(&self) -> Vec<(&'static str, i64)> {
        let limits: Vec<i64> =
            EstimatedHistogram::new(PERCENTILE_BUCKETS).buckets().filter_map(|(limit, _)| limit).collect();
        let limit = |at: usize| limits.get(at).copied().unwrap_or(i64::MAX);
        let mut counts = vec![0i64; limits.len() + 1];
        for (value, count) in &self.bins {
            counts[limits.partition_point(|limit| limit < value)] += count;
        }
        let total: i64 = counts.iter().sum();
        let percentile = |share: f64| {
            let wanted = (total as f64 * share).ceil() as i64;
            let mut seen = 0;
            let at = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            if wanted == 0 { 0 } else { at.map_or(0, limit) }
        };
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let last = counts.iter().rposition(|count| *count > 0);
        let mut out: Vec<_> = PERCENTILES.iter().map(|(name, share)| (*name, percentile(*share))).collect();
        out.push(("Min", if first == 0 { 0 } else { limit(first - 1) + 1 }));
        out.push(("Max", last.map_or(0, limit)));
        out
    }
}
