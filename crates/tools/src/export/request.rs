//! From the options to a request of crate `bulk`, by way of a SELECT: conditions mean what they mean in CQL.

use super::Failure;
use super::place::Place;
use bulk::{ScanOptions, ScanRequest};
use cql::plan::Bound;
use cql::{BindContext, BoundValues, UuidSource};
use env::Env;
use std::sync::Arc;
use uuid::Uuid;

/// What was asked for.
pub(super) struct Asked<'a> {
    pub filter: Option<&'a str>,
    pub columns: Option<&'a [String]>,
    pub token_range: Option<&'a str>,
    pub limit: Option<u64>,
}

impl Asked<'_> {
    /// In words, for the manifest.
    pub(super) fn words(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            out.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("where", self.filter.map(str::to_owned));
        add("token range", self.token_range.map(str::to_owned));
        add("limit", self.limit.map(|limit| limit.to_string()));
        out
    }
}

/// Uuids of functions in conditions.
#[derive(Debug)]
struct Uuids(Env);

impl UuidSource for Uuids {
    fn time_uuid(&self) -> Uuid {
        self.0.time_uuid()
    }

    fn random_uuid(&self) -> Uuid {
        self.0.random_uuid()
    }
}

/// The tokens of `START:END`.
fn tokens(text: &str) -> Result<(i64, i64), Failure> {
    let no_range = || Failure::Usage(format!("{text} is not START:END, two tokens"));
    let (start, end) = text.split_once(':').ok_or_else(no_range)?;
    let token = |text: &str| text.trim().parse().map_err(|_| no_range());
    let (start, end): (i64, i64) = (token(start)?, token(end)?);
    match start < end {
        true => Ok((start, end)),
        false => Err(Failure::Usage(format!("token range {text} is empty: END must be greater than START"))),
    }
}

/// The request that a command line asks for.
pub(super) fn make(
    env: &Env,
    place: &Place,
    asked: &Asked<'_>,
    options: ScanOptions,
) -> Result<ScanRequest, Failure> {
    // Made-up names are words of CQL.
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (keyspace, table) = (quoted(&place.table.keyspace), quoted(&place.table.name));
    let filter = asked.filter.map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
    let text = format!("SELECT * FROM {keyspace}.{table}{filter} ALLOW FILTERING");
    let parsed = cql::parser::parse_statement(&text).map_err(Failure::usage)?;
    let prepared = cql::prepare(parsed, &place.schema, None).map_err(Failure::usage)?;
    let now_micros = env.now_micros();
    let context = BindContext {
        now_s: u32::try_from(env.now_seconds()).unwrap_or(0),
        now_micros,
        timestamp_micros: now_micros,
        page_size: None,
        expiration_max_s: u32::MAX,
        product_guard: None,
        uuids: Arc::new(Uuids(env.clone())),
    };
    let Bound::Select(select) = prepared.bind(&BoundValues::NONE, &context).map_err(Failure::usage)? else {
        return Err(Failure::Usage(format!("{text} is no SELECT")));
    };
    if select.is_grouped || select.is_sorted {
        return Err(Failure::Usage("--where takes conditions only".to_owned()));
    }
    let mut command = select.command.as_ref().clone();
    if let Some(limit) = asked.limit {
        command.limits.rows = command.limits.rows.min(limit);
    }
    let request = ScanRequest::of_command(command, asked.columns, options)?;
    Ok(match asked.token_range {
        Some(range) => {
            let (after, through) = tokens(range)?;
            request.within(after, through)
        }
        None => request,
    })
}
