//! CIDR groups: named networks that roles may be held to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A CIDR group. Answer of `GET /cidr_groups`, body of `PUT /cidr_groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CidrGroup {
    /// Its name.
    pub name: String,
    /// Its networks: `10.0.0.0/8`.
    pub cidrs: Vec<String>,
}

/// Body of `DELETE /cidr_groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCidrGroup {
    /// The group's name.
    pub name: String,
}

/// Query of `GET /cidr_groups/of`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressQuery {
    /// The address whose groups are asked for.
    pub address: String,
}

/// Answer of `GET /cidr_groups/stats`: names and numbers are those of
/// `system_views.cidr_filtering_metrics_*`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CidrStats {
    /// How often something happened.
    pub counts: BTreeMap<String, u64>,
    /// Nanoseconds that something took.
    pub latencies: BTreeMap<String, CidrLatency>,
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CidrLatency {
    /// Half of the values are at most this.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}
