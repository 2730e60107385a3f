//! DESCRIBE: the schema as CQL text, in pages.

use bytes::Bytes;
use cql::ast::Describe;
use cql::describe::{self, DescribeContext};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::Rows;
use protocol::response::{Response, ResultBody};

use super::options::Options;
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
    let (described, next) = described
        .page(options.paging_state.as_deref(), options.page_rows, schema.version)
        .map_err(error::of_cql)?;
    let rows = Rows {
        column_count: described.columns.len(),
        columns: Some(to_protocol(&described.columns)),
        new_metadata_id: None,
        paging_state: next.map(Bytes::from),
        rows: described.rows,
    };
    Ok(Answer::Response(Response::Result(ResultBody::Rows(rows))))
}
