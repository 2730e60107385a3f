//! Verbs about hints: writes that are kept for nodes that miss them.

use super::{Failure, Show, cells, number, silently, usage};
use crate::api::{BatchlogThrottle, Handoff, PendingHints, SetHandoff, TruncateHints};
use crate::client::Client;
use crate::format::columns;
use clap::Subcommand;
use model::CqlType;
use serde_json::json;
use std::fmt::Write;

/// Verbs about hints.
#[derive(Debug, Subcommand)]
pub(super) enum HandoffVerb {
    /// Status of storing future hints on the current node
    Statushandoff,
    /// Reenable future hints storing on the current node
    Enablehandoff,
    /// Disable storing hinted handoffs
    Disablehandoff,
    /// Enable hints for a data center that were previously disabled
    Enablehintsfordc {
        /// The data center to enable
        data_centers: Vec<String>,
    },
    /// Disable hints for a data center
    Disablehintsfordc {
        /// The data center to disable
        data_centers: Vec<String>,
    },
    /// Pause hints delivery process
    Pausehandoff,
    /// Resume hints delivery process
    Resumehandoff,
    /// Set hinted handoff throttle in KiB per second, per delivery thread
    Sethintedhandoffthrottlekb {
        /// Value in KiB per second
        #[arg(allow_negative_numbers = true)]
        throttle_in_kb: Option<String>,
    },
    /// Print batchlog replay throttle in KB/s. This is reduced proportionally to the number of nodes in the
    /// cluster
    Getbatchlogreplaythrottle,
    /// Set batchlog replay throttle in KB per second, or 0 to disable throttling. This will be reduced
    /// proportionally to the number of nodes in the cluster
    Setbatchlogreplaythrottle {
        /// Value in KiB per second, 0 to disable throttling
        #[arg(allow_negative_numbers = true)]
        batchlog_replay_throttle: Option<String>,
    },
    /// Print the max hint window in ms
    Getmaxhintwindow,
    /// Set the specified max hint window in ms
    Setmaxhintwindow {
        /// Value of maxhintwindow in ms
        #[arg(allow_negative_numbers = true)]
        max_hint_window: Option<String>,
    },
    /// Print all pending hints that this node has
    Listpendinghints,
    /// Truncate all hints on the local node, or truncate hints for the endpoint(s) specified
    Truncatehints {
        /// Endpoint address(es) to delete hints for, either ip address ("127.0.0.1") or hostname
        endpoint: Option<String>,
    },
}

impl HandoffVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        let nothing = SetHandoff::default;
        match self {
            HandoffVerb::Statushandoff => {
                let found: Handoff = client.get("/api/v1/hints", &[])?;
                let json = json!({
                    "running": found.running,
                    "disabled_data_centers": found.disabled_data_centers,
                });
                show.print(&json, |_| handoff_text(&found))
            }
            HandoffVerb::Enablehandoff => set(client, &SetHandoff { running: Some(true), ..nothing() }),
            HandoffVerb::Disablehandoff => set(client, &SetHandoff { running: Some(false), ..nothing() }),
            HandoffVerb::Enablehintsfordc { data_centers } => match data_centers.as_slice() {
                [name] => set(client, &SetHandoff { enable_data_center: Some(name.clone()), ..nothing() }),
                _ => usage("enablehintsfordc requires exactly one data center"),
            },
            HandoffVerb::Disablehintsfordc { data_centers } => match data_centers.as_slice() {
                [name] => set(client, &SetHandoff { disable_data_center: Some(name.clone()), ..nothing() }),
                _ => usage("disablehintsfordc requires exactly one data center"),
            },
            HandoffVerb::Pausehandoff => set(client, &SetHandoff { paused: Some(true), ..nothing() }),
            HandoffVerb::Resumehandoff => set(client, &SetHandoff { paused: Some(false), ..nothing() }),
            HandoffVerb::Sethintedhandoffthrottlekb { throttle_in_kb } => {
                let kibibytes = integer("throttle_in_kb", throttle_in_kb.as_deref())?;
                let throttle_bytes = Some(kibibytes.saturating_mul(1024));
                set(client, &SetHandoff { throttle_bytes, ..nothing() })
            }
            HandoffVerb::Getbatchlogreplaythrottle => {
                show.get("/api/v1/batchlog/throttle", &[], |found: &BatchlogThrottle| {
                    format!("Batchlog replay throttle: {} KB/s\n", found.kibibytes_per_second)
                })
            }
            HandoffVerb::Setbatchlogreplaythrottle { batchlog_replay_throttle } => {
                let kibibytes_per_second =
                    integer("batchlog_replay_throttle", batchlog_replay_throttle.as_deref())?;
                silently(client.put("/api/v1/batchlog/throttle", &BatchlogThrottle { kibibytes_per_second }))
            }
            HandoffVerb::Getmaxhintwindow => show.get("/api/v1/hints", &[], |found: &Handoff| {
                format!("Current max hint window: {} ms\n", found.window_millis)
            }),
            HandoffVerb::Setmaxhintwindow { max_hint_window } => {
                let window_millis = Some(integer("max_hint_window", max_hint_window.as_deref())?);
                set(client, &SetHandoff { window_millis, ..nothing() })
            }
            HandoffVerb::Listpendinghints => {
                show.get("/api/v1/hints/pending", &[], |found: &Vec<PendingHints>| pending_text(found))
            }
            HandoffVerb::Truncatehints { endpoint } => {
                silently(client.delete("/api/v1/hints", &TruncateHints { address: endpoint.clone() }))
            }
        }
    }
}

fn set(client: &Client, wanted: &SetHandoff) -> Result<String, Failure> {
    silently(client.put("/api/v1/hints", wanted))
}

/// An argument that is a number of Java's `int`, or nodetool's words where it is none.
fn integer(name: &str, text: Option<&str>) -> Result<u64, Failure> {
    let Some(text) = text else {
        return Err(Failure::Usage(format!("Required parameters are missing: {name}")));
    };
    let number: i32 = number(name, text, "Integer")?;
    u64::try_from(number).map_err(|_| Failure::Usage(format!("{name} must be non-negative")))
}

/// `statushandoff`.
pub(super) fn handoff_text(found: &Handoff) -> String {
    let mut out = format!("Hinted handoff is {}\n", if found.running { "running" } else { "not running" });
    for name in &found.disabled_data_centers {
        let _ = writeln!(out, "Data center {name} is disabled");
    }
    out
}

/// `listpendinghints`. Times are UTC.
pub(super) fn pending_text(found: &[PendingHints]) -> String {
    if found.is_empty() {
        return "This node does not have any pending hints\n".to_owned();
    }
    let mut rows =
        vec![cells(&["Host ID", "Address", "Rack", "DC", "Status", "Total files", "Newest", "Oldest"])];
    for hints in found {
        let address = match (&hints.address, hints.port) {
            (Some(ip), Some(port)) if ip.contains(':') => format!("[{ip}]:{port}"),
            (Some(ip), Some(port)) => format!("{ip}:{port}"),
            _ => "null".to_owned(),
        };
        rows.push(vec![
            hints.host_id.clone(),
            address,
            hints.rack.clone(),
            hints.data_center.clone(),
            hints.status.clone(),
            hints.files.to_string(),
            time(hints.newest_millis),
            time(hints.oldest_millis),
        ]);
    }
    columns(&rows, " ")
}

/// `2026-11-26 08:03:57,650`, in UTC.
fn time(millis: i64) -> String {
    CqlType::Timestamp.to_text(&millis.to_be_bytes()).replace('T', " ").replace('.', ",").replace('Z', "")
}
