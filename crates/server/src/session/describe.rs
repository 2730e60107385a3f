//! DESCRIBE: the schema as CQL text, in pages.

use coordinator::PagingState;
use cql::ast::Describe;
use cql::describe::{self, DescribeContext};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::Rows;
use protocol::response::{Response, ResultBody};

use super::options::{Options, paging_version};
use super::statements::to_protocol;
use super::{Answer, Exchange, error};
use crate::system::PARTITIONER;

pub(super) fn run(
    exchange: &mut Exchange,
    statement: &Describe,
    keyspace: Option<&str>,
    options: &Options,
) -> Result<Answer, ErrorResponse> {
    let node = &exchange.sessions.node;
    let replica = vec![node.config.broadcast_rpc_address.to_string()];
    let ownership: Vec<(String, Vec<String>)> =
        node.tokens().iter().map(|token| (token.to_string(), replica.clone())).collect();
    let short = |class: &str| class.rsplit('.').next().unwrap_or(class).to_owned();
    let schema = node.schema();
    let described = describe::describe(
        statement,
        &DescribeContext {
            schema: &schema,
            keyspace,
            cluster_name: &node.config.settings.cluster_name,
            partitioner: &short(PARTITIONER),
            snitch: &short(&node.config.snitch),
            range_ownership: &ownership,
        },
    )
    .map_err(error::of_cql)?;
    let before = options.after(exchange.version)?;
    let before = before.as_ref().map(|state| state.key.as_ref());
    let (described, next) = described
        .page(before, options.page_rows, schema.version, &node.release_version)
        .map_err(error::of_cql)?;
    let next = next.map(|key| {
        let no_limit = u64::from(i32::MAX.unsigned_abs());
        let (remaining, remaining_in_partition) = (no_limit, no_limit);
        PagingState { key: key.into(), row: None, remaining, remaining_in_partition }
    });
    let rows = Rows {
        column_count: described.columns.len(),
        columns: Some(to_protocol(&described.columns)),
        new_metadata_id: None,
        paging_state: next.map(|state| state.encode(paging_version(exchange.version))),
        rows: described.rows,
    };
    Ok(Answer::Response(Response::Result(ResultBody::Rows(rows))))
}
