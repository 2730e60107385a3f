//! EXPLAIN: how a SELECT is carried out, and, with ANALYZE, what it touched when it was; traces tell of
//! sources in the same words.
//!
//! 1. The plan is made of the bound statement ([`cql::explain`]).
//! 2. Without ANALYZE each memtable and SSTable is judged by what is in memory, and nothing is read.
//! 3. With ANALYZE one page of the statement is read, as the client would get it, on a reader thread; the
//!    rows are thrown away, and what each source did follows the plan.

use std::sync::Arc;

use cql::explain::{self, Step};
use cql::plan::BoundExplain;
use model::command::{PartitionSelection, ReadCommand};
use partition::{ReadContext, Recorder, SourceKind, SourceRecord, Verdict};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::Rows;
use protocol::response::{Response, ResultBody};

use super::options::Options;
use super::select::{self, Analysis};
use super::statements::{Statement, to_protocol};
use super::{Answer, Exchange};
use crate::reads::{self, Waits};

pub(super) async fn run(
    exchange: &mut Exchange,
    statement: &Arc<Statement>,
    explain: BoundExplain,
    options: Options,
) -> Result<Answer, ErrorResponse> {
    let BoundExplain { analyze, select } = explain;
    let mut steps = explain::plan(&select, options.page_rows);
    let command = Arc::clone(&select.command);
    let table = exchange.sessions.node.engine.table(command.table.id);
    if !select.bypasses_cache && table.is_some_and(|table| table.reads_around_cache(&command)) {
        steps.push(Step::new(
            "cache",
            "",
            "bypassed: a scan of so much would displace what is read more often",
        ));
    }
    if analyze {
        let analysis = Box::pin(select::analyze(exchange, statement, select, &options)).await?;
        trace(exchange, Some(&analysis.recorder));
        exchange.note(|| format!("Cost: {}", reads::cost_text(&analysis.cost)));
        steps.extend(analyzed(&command, &analysis, exchange.waits));
    } else {
        steps.extend(considered(exchange, &command));
    }
    let rows = Rows {
        column_count: statement.plan.result_columns.len(),
        columns: Some(to_protocol(&statement.plan.result_columns)),
        new_metadata_id: None,
        paging_state: None,
        rows: explain::rows(&steps, analyze),
    };
    Ok(Answer::Response(Response::Result(ResultBody::Rows(rows))))
}

/// Tells the trace of the sources, with the time that each took.
pub(super) fn trace(exchange: &mut Exchange, recorder: Option<&Recorder>) {
    for source in recorder.iter().flat_map(|recorder| recorder.sources()) {
        exchange.note(|| {
            let word = match source.kind {
                SourceKind::Memtable => "Memtable",
                SourceKind::SsTable => "SSTable",
                SourceKind::RowCache => "Row cache",
            };
            let mut text = format!("{word} {}: {}", source.name, fate(&source, "read"));
            let micros = micros(&source).map(|micros| ("micros", micros));
            for (name, count) in reads::nonzero(&source.cost).chain(micros) {
                text.push_str(&format!(" {name}={count}"));
            }
            text
        });
    }
}

/// The sources as they are judged without reading.
fn considered(exchange: &Exchange, command: &ReadCommand) -> Vec<Step> {
    let Some(table) = exchange.sessions.node.engine.table(command.table.id) else {
        return vec![virtual_table(command)];
    };
    let recorder = exchange.new_recorder();
    let context = ReadContext { recorder: Some(Arc::clone(&recorder)), ..ReadContext::default() };
    table.consider(command, &context);
    let sources = recorder.sources();
    let is_cached = |source: &SourceRecord| {
        source.kind == SourceKind::RowCache && source.verdicts(Verdict::Candidate) > 0
    };
    let of_sstables = match sources.iter().any(is_cached) {
        true => "to be read where the row cache does not answer",
        false => "to be read",
    };
    let step = |source: &SourceRecord| {
        let word = if source.kind == SourceKind::SsTable { of_sstables } else { "to be read" };
        Step::new(operation(source.kind), source.name.clone(), fate(source, word))
    };
    sources.iter().map(step).collect()
}

fn virtual_table(command: &ReadCommand) -> Step {
    Step::new("virtual", command.table.name.clone(), "made of what the node knows when it is read")
}

/// What each source did, then the read as a whole.
fn analyzed(command: &ReadCommand, analysis: &Analysis, waits: Waits) -> Vec<Step> {
    let sources = analysis.recorder.sources();
    let mut steps = Vec::with_capacity(sources.len() + 2);
    let selects_any = !matches!(&command.partitions, PartitionSelection::Keys(keys) if keys.is_empty());
    if sources.is_empty() && selects_any && analysis.cost.rows_live > 0 {
        steps.push(virtual_table(command));
    }
    for source in &sources {
        let mut step = Step::new(operation(source.kind), source.name.clone(), fate(source, "read"));
        step.micros = micros(source);
        step.figures = reads::nonzero(&source.cost).collect();
        steps.push(step);
    }
    let mut wait = Step::new("wait", "", "for a reader thread");
    wait.micros = Some(waits.reader_nanos / 1_000);
    steps.push(wait);
    if waits.proof_nanos > 0 {
        let mut wait = Step::new("wait", "", "for SSTables to be compared with their digests");
        wait.micros = Some(waits.proof_nanos / 1_000);
        steps.push(wait);
    }
    let cost = &analysis.cost;
    let rows = if cost.rows_returned == 1 { "row" } else { "rows" };
    let more = if analysis.has_more { ", and more pages follow" } else { ", which is all" };
    let detail = format!("{} {rows} in {} bytes{more}", cost.rows_returned, cost.returned_bytes);
    let name = format!("{}.{}", command.table.keyspace, command.table.name);
    let mut total = Step::new("total", name, detail);
    total.micros = Some(analysis.read_nanos / 1_000);
    total.figures = reads::nonzero(cost).collect();
    steps.push(total);
    steps
}

/// Time that a source took, where it was opened.
fn micros(source: &SourceRecord) -> Option<u64> {
    let nanos = source.lookup_nanos + source.rows_nanos;
    (nanos > 0).then_some(nanos / 1_000)
}

fn operation(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Memtable => "memtable",
        SourceKind::SsTable => "sstable",
        SourceKind::RowCache => "rowcache",
    }
}

/// What became of a source, where `read` says that it is or was read. Reads of several keys come to it
/// several times.
fn fate(source: &SourceRecord, read: &'static str) -> String {
    let of = |verdict| source.verdicts(verdict);
    let left = match source.kind {
        SourceKind::Memtable | SourceKind::RowCache => 0,
        SourceKind::SsTable => of(Verdict::Timestamp) + of(Verdict::Absent),
    };
    let fates = [
        (of(Verdict::Candidate).saturating_sub(left), read),
        (of(Verdict::Absent), "searched, the key is not there"),
        (of(Verdict::Range), "skipped: its keys lie elsewhere"),
        (of(Verdict::Clustering), "skipped: its clusterings lie elsewhere"),
        (of(Verdict::Bloom), "skipped: the bloom filter has no such key"),
        (of(Verdict::Timestamp), "skipped: newer data had answered all"),
    ];
    let met: Vec<(u64, &str)> = fates.into_iter().filter(|(count, _)| *count > 0).collect();
    match met.as_slice() {
        [] => "not reached".to_owned(),
        [(1, only)] => (*only).to_owned(),
        several => several.iter().map(|(n, fate)| format!("{n} times {fate}")).collect::<Vec<_>>().join("; "),
    }
}
