//! Routes about CIDR groups.
//!
//! What is changed holds for clients when the groups are read anew: after
//! `cidr_groups_cache_refresh_interval`, or when that is asked for.

use super::handlers::Api;
use super::{ApiError, Json};
use crate::auth::cidr::Cidr;
use crate::auth::places::CidrGroups;
use crate::auth::store::{Store, StoreError};
use crate::node::Node;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use tools::api::{AddressQuery, CidrGroup, CidrStats, DropCidrGroup};

/// Networks of the largest group.
const CIDRS_MAX: usize = 10_000;

/// Bytes of the longest name of a group.
const NAME_BYTES_MAX: usize = 1_024;

fn store(node: &Node) -> Store {
    Store::new(&node.state, &node.coordinator)
}

fn failed(error: StoreError) -> ApiError {
    ApiError::failed(error.to_string())
}

/// The groups that clients are held to.
fn in_force<'a>(node: &'a Node, what: &str) -> Result<&'a CidrGroups, ApiError> {
    // Cassandra's spelling.
    let refused = || ApiError::failed(format!("{what} opertion not supported by AllowAllCIDRAuthorizer"));
    node.state.auth.cidr().ok_or_else(refused)
}

/// Refuses to invalidate what there is not.
pub(super) fn check_invalidation(node: &Node) -> Result<(), ApiError> {
    in_force(node, "Invalidate CIDR permissions cache").map(|_| ())
}

pub(super) async fn groups(State(node): State<Arc<Node>>) -> Api<Vec<CidrGroup>> {
    let groups = store(&node).cidr_groups().await.map_err(failed)?;
    let group = |(name, cidrs): (String, Vec<Cidr>)| CidrGroup {
        name,
        cidrs: cidrs.iter().map(ToString::to_string).collect(),
    };
    Ok(axum::Json(groups.into_iter().map(group).collect()))
}

pub(super) async fn update(
    State(node): State<Arc<Node>>,
    Json(group): Json<CidrGroup>,
) -> Result<StatusCode, ApiError> {
    if group.name.is_empty() || group.name.len() > NAME_BYTES_MAX {
        return Err(ApiError::invalid(format!("a group's name has 1 to {NAME_BYTES_MAX} bytes")));
    }
    if group.cidrs.is_empty() || group.cidrs.len() > CIDRS_MAX {
        return Err(ApiError::invalid(format!("a group has 1 to {CIDRS_MAX} CIDRs")));
    }
    let cidrs: Result<BTreeSet<Cidr>, String> = group.cidrs.iter().map(|text| Cidr::parse(text)).collect();
    let cidrs = cidrs.map_err(ApiError::invalid)?;
    let store = store(&node);
    let mutation = store.set_cidr_group(&group.name, &cidrs).map_err(failed)?;
    store.write(vec![mutation]).await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn remove(
    State(node): State<Arc<Node>>,
    Json(DropCidrGroup { name }): Json<DropCidrGroup>,
) -> Result<StatusCode, ApiError> {
    let store = store(&node);
    let groups = store.cidr_groups().await.map_err(failed)?;
    if !groups.iter().any(|(known, _)| *known == name) {
        return Err(ApiError::failed(format!("CIDR group '{name}' doesn't exists")));
    }
    let mutation = store.drop_cidr_group(&name).map_err(failed)?;
    store.write(vec![mutation]).await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn of_address(
    State(node): State<Arc<Node>>,
    Query(AddressQuery { address }): Query<AddressQuery>,
) -> Api<Vec<String>> {
    let cidr = in_force(&node, "Get CIDR groups for IP")?;
    let parsed: IpAddr = address.parse().map_err(|_| ApiError::invalid(format!("Invalid IP {address}")))?;
    let groups = cidr.groups_of(parsed, || node.state.env.clock.monotonic_nanos());
    Ok(axum::Json(groups.iter().cloned().collect()))
}

pub(super) async fn reload(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    let cidr = in_force(&node, "Load CIDR groups cache")?;
    cidr.reload(&store(&node)).await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn stats(State(node): State<Arc<Node>>) -> axum::Json<CidrStats> {
    axum::Json(node.state.auth.cidr_stats())
}
