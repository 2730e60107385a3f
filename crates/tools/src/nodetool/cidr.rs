//! Verbs about CIDR groups: named networks that roles may be held to.

use super::{Failure, Show, cells, silently, usage};
use crate::api::{CacheKind, CidrGroup, CidrStats, DropCidrGroup, InvalidateCache};
use crate::format::columns;
use clap::Subcommand;
use std::fmt::Write;

const GROUPS: &str = "/api/v1/cidr_groups";

/// Verbs about CIDR groups.
#[derive(Debug, Subcommand)]
pub(super) enum CidrVerb {
    /// List existing cidr groups
    Listcidrgroups {
        /// LIST operation can be invoked with or without cidr group name
        cidr_group: Option<String>,
    },
    /// Insert/Update a cidr group
    Updatecidrgroup {
        /// Requires a cidr group name, followed by one or more CIDRs separated by space
        group_and_cidrs: Vec<String>,
    },
    /// Drop an existing cidr group
    Dropcidrgroup {
        /// Requires a cidr group name
        cidr_group: Vec<String>,
    },
    /// Print CIDR groups associated with given IP
    Getcidrgroupsofip {
        /// Requires IP address as a string
        ip: Vec<String>,
    },
    /// Invalidate the cidr permissions cache
    Invalidatecidrpermissionscache {
        /// List of roles to invalidate (all roles are)
        roles: Vec<String>,
    },
    /// Reload CIDR groups cache with latest entries in cidr_groups table, when CIDR authorizer is enabled
    Reloadcidrgroupscache,
    /// Print statistics on CIDR filtering
    Cidrfilteringstats,
}

impl CidrVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            CidrVerb::Listcidrgroups { cidr_group } => {
                show.get(GROUPS, &[], |groups: &Vec<CidrGroup>| listed(groups, cidr_group.as_deref()))
            }
            CidrVerb::Updatecidrgroup { group_and_cidrs } => match group_and_cidrs.as_slice() {
                [name, cidrs @ ..] if !cidrs.is_empty() => {
                    silently(client.put(GROUPS, &CidrGroup { name: name.clone(), cidrs: cidrs.to_vec() }))
                }
                _ => usage("updatecidrgroup command requires a cidr group name and atleast one CIDR"),
            },
            CidrVerb::Dropcidrgroup { cidr_group } => {
                let [name] = cidr_group.as_slice() else {
                    return usage("dropcidrgroup command requires a cidr group name");
                };
                client.delete(GROUPS, &DropCidrGroup { name: name.clone() })?;
                Ok(format!("Deleted CIDR group {name}\n"))
            }
            CidrVerb::Getcidrgroupsofip { ip } => {
                let [ip] = ip.as_slice() else {
                    return usage("getcidrgroupsofip command requires an IP as the argument");
                };
                show.get("/api/v1/cidr_groups/of", &[("address", ip)], |names: &Vec<String>| {
                    set("CIDR Groups", names)
                })
            }
            CidrVerb::Invalidatecidrpermissionscache { roles } => {
                let cache = InvalidateCache { cache: CacheKind::Cidrs, roles: Vec::new() };
                client.post("/api/v1/caches/invalidate", &cache)?;
                if roles.is_empty() {
                    return Ok("Invalidated CIDR permissions cache\n".to_owned());
                }
                let line =
                    |role: &String| format!("Invalidated the role {role} from CIDR permissions cache\n");
                Ok(roles.iter().map(line).collect())
            }
            CidrVerb::Reloadcidrgroupscache => {
                client.post("/api/v1/cidr_groups/reload", &())?;
                Ok("Reloaded CIDR groups cache\n".to_owned())
            }
            CidrVerb::Cidrfilteringstats => show.get("/api/v1/cidr_groups/stats", &[], stats_text),
        }
    }
}

/// A column with a title; nothing where it is empty.
fn set(title: &str, values: &[String]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let title = std::iter::once(format!("{title}: "));
    let rows: Vec<Vec<String>> =
        title.chain(values.iter().cloned()).map(|value| std::iter::once(value).collect()).collect();
    columns(&rows, " ")
}

fn listed(groups: &[CidrGroup], name: Option<&str>) -> String {
    match name.filter(|name| !name.is_empty()) {
        None => {
            let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
            set("CIDR Groups", &names)
        }
        Some(name) => {
            let found = groups.iter().find(|group| group.name == name);
            set("CIDRs", found.map_or(&[][..], |group| group.cidrs.as_slice()))
        }
    }
}

fn stats_text(stats: &CidrStats) -> String {
    let mut out = "cidr_filtering_metrics_counts: \n".to_owned();
    let counts = stats.counts.iter().map(|(name, count)| cells(&[name, &count.to_string()]));
    out += &columns(&std::iter::once(cells(&["name", "value"])).chain(counts).collect::<Vec<_>>(), " ");
    let _ = writeln!(out, "\ncidr_filtering_metrics_latencies: ");
    let mut rows = vec![cells(&["name", "p50th", "p95th", "p99th", "p999th", "max"])];
    for (name, nanos) in &stats.latencies {
        let numbers = [nanos.p50, nanos.p95, nanos.p99, nanos.p999, nanos.max];
        let mut row = vec![name.clone()];
        row.extend(numbers.map(|number| format!("{number:?}")));
        rows.push(row);
    }
    out += &columns(&rows, " ");
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::CidrLatency;

    #[test]
    fn groups_are_listed_as_nodetool_lists_them() {
        let group = |name: &str, cidrs: &[&str]| CidrGroup {
            name: name.to_owned(),
            cidrs: cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
        };
        let groups = [group("a", &["10.0.0.0/8", "9.0.0.0/16"]), group("office", &["1.2.3.4/32"])];
        assert_eq!(listed(&groups, None), "CIDR Groups: \na            \noffice       \n");
        assert_eq!(listed(&groups, Some("a")), "CIDRs:    \n10.0.0.0/8\n9.0.0.0/16\n");
        assert_eq!(listed(&groups, Some("b")), "");
        assert_eq!(listed(&[], None), "");
    }

    #[test]
    fn stats_have_both_tables() {
        let mut stats = CidrStats::default();
        stats.counts.insert("CIDR groups cache reload count".to_owned(), 2);
        let nanos = CidrLatency { p50: 1.0, max: 7.0, ..CidrLatency::default() };
        stats.latencies.insert("CIDR checks latency (ns)".to_owned(), nanos);
        let text = stats_text(&stats);
        assert!(text.starts_with("cidr_filtering_metrics_counts: \nname "), "{text}");
        assert!(text.contains("CIDR checks latency (ns) 1.0   0.0   0.0   0.0    7.0"), "{text}");
    }
}
