//! The node itself: what it is, its doors, its caches.

use super::{Failure, MIB, Show, number, silently, usage};
use crate::api::{
    CacheCapacity, CacheKind, CacheReport, Info, InvalidateCache, NativeTransport, SetNativeTransport,
    Version,
};
use crate::client::Client;
use crate::format::file_size;
use clap::Subcommand;
use std::fmt::Write;

/// Verbs about the node itself.
#[derive(Debug, Subcommand)]
pub(super) enum NodeVerb {
    /// Print node information (uptime, load, ...)
    Info {
        /// Display all tokens
        #[arg(short = 'T', long)]
        tokens: bool,
    },
    /// Print the release version
    Version,
    /// Disable native transport (binary protocol)
    Disablebinary {
        /// Interrupt client requests that have already started
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Reenable native transport (binary protocol)
    Enablebinary,
    /// Status of native transport (binary protocol)
    Statusbinary,
    /// Invalidate the key cache: the index pages of the page cache
    Invalidatekeycache,
    /// Invalidate the page cache, index and data
    Invalidatepagecache,
    /// Invalidate the row cache
    Invalidaterowcache,
    /// Invalidate the counter cache (there is none: counters are read where other rows are)
    Invalidatecountercache,
    /// Invalidate what is known of permissions, of all roles
    Invalidatepermissionscache {
        /// Role and resources (ignored: everything is looked up anew)
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        of: Vec<String>,
    },
    /// Invalidate what is known of roles
    Invalidaterolescache {
        /// Roles (ignored: everything is looked up anew)
        roles: Vec<String>,
    },
    /// Invalidate the credentials cache
    Invalidatecredentialscache {
        /// Roles to invalidate; all where none is named
        roles: Vec<String>,
    },
    /// Invalidate the network permissions cache, of all roles
    Invalidatenetworkpermissionscache {
        /// Roles (ignored: everything is looked up anew)
        roles: Vec<String>,
    },
    /// Invalidate the JMX permissions cache (there is none: there is no JMX)
    Invalidatejmxpermissionscache {
        /// Roles
        roles: Vec<String>,
    },
    /// Set the capacity of the row cache, in MiB: it keeps what fits; the other two have no counterpart here
    Setcachecapacity {
        /// Key cache (ignored: index pages lie in the page cache), row cache in MiB (0 turns it off), counter
        /// cache (ignored: there is none)
        capacities: Vec<String>,
    },
    /// Drain the node (stop accepting writes and flush all tables)
    Drain,
}

impl NodeVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            NodeVerb::Info { tokens } => show.get("/api/v1/info", &[], |info| info_text(info, *tokens)),
            NodeVerb::Version => show.get("/api/v1/version", &[], version_text),
            NodeVerb::Disablebinary { force } => silently(
                client.put("/api/v1/native_transport", &SetNativeTransport { enabled: false, force: *force }),
            ),
            NodeVerb::Enablebinary => silently(
                client.put("/api/v1/native_transport", &SetNativeTransport { enabled: true, force: false }),
            ),
            NodeVerb::Statusbinary => show.get("/api/v1/native_transport", &[], |state: &NativeTransport| {
                let running = if state.running { "running" } else { "not running" };
                format!("{running}\n")
            }),
            NodeVerb::Invalidatekeycache => invalidate(client, CacheKind::Keys),
            NodeVerb::Invalidatepagecache => invalidate(client, CacheKind::Pages),
            NodeVerb::Invalidaterowcache => invalidate(client, CacheKind::Rows),
            NodeVerb::Invalidatepermissionscache { .. }
            | NodeVerb::Invalidaterolescache { .. }
            | NodeVerb::Invalidatenetworkpermissionscache { .. } => invalidate(client, CacheKind::Roles),
            NodeVerb::Invalidatecredentialscache { roles } => {
                let cache = InvalidateCache { cache: CacheKind::Credentials, roles: roles.clone() };
                silently(client.post("/api/v1/caches/invalidate", &cache))
            }
            NodeVerb::Invalidatejmxpermissionscache { .. } | NodeVerb::Invalidatecountercache => {
                Ok(String::new())
            }
            NodeVerb::Setcachecapacity { capacities } => {
                let [key, row, counter] = capacities.as_slice() else {
                    return usage(
                        "setcachecapacity requires key-cache-capacity, row-cache-capacity, and \
                         counter-cache-capacity args.",
                    );
                };
                let capacity = |text: &String| number::<u64>("capacity", text, "int");
                let (_, rows_mebibytes, _) = (capacity(key)?, capacity(row)?, capacity(counter)?);
                silently(client.put("/api/v1/caches/capacity", &CacheCapacity { rows_mebibytes }))
            }
            NodeVerb::Drain => silently(client.post("/api/v1/drain", &())),
        }
    }
}

fn invalidate(client: &Client, cache: CacheKind) -> Result<String, Failure> {
    silently(client.post("/api/v1/caches/invalidate", &InvalidateCache { cache, roles: Vec::new() }))
}

/// `info`.
pub(super) fn info_text(info: &Info, all_tokens: bool) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<23}: {value}");
    };
    line("ID", info.host_id.clone());
    line("Gossip active", info.gossip_active.to_string());
    line("Native Transport active", info.native_transport_active.to_string());
    line("Load", file_size(info.load_bytes));
    line("Generation No", info.generation.to_string());
    line("Uptime (seconds)", info.uptime_seconds.to_string());
    line("Resident Memory (MB)", format!("{:.2}", info.resident_bytes as f64 / MIB));
    line(
        "Memtable Memory (MB)",
        format!("{:.2} / {:.2}", info.memtable_bytes as f64 / MIB, info.memtable_bytes_max as f64 / MIB),
    );
    line("Data Center", info.data_center.clone());
    line("Rack", info.rack.clone());
    line("Exceptions", info.exceptions.to_string());
    line("Row Cache", format!("{} recent hit rate, 0 save period in seconds", cache(&info.row_cache)));
    line("Page Cache", format!("{} hit rate", cache(&info.page_cache)));
    match info.tokens.as_slice() {
        [single] => line("Token", single.clone()),
        several if all_tokens => several.iter().for_each(|token| line("Token", token.clone())),
        several => {
            line("Token", format!("(invoke with -T/--tokens to see all {} tokens)", several.len()));
        }
    }
    line("Bootstrap state", "COMPLETED".to_owned());
    line("Drained", info.drained.to_string());
    for directory in &info.given_up_directories {
        line("Takes no new SSTables", directory.display().to_string());
    }
    out
}

/// What a cache holds, up to the rate of hits.
fn cache(cache: &CacheReport) -> String {
    let requests = cache.hits + cache.misses;
    let rate = match requests {
        0 => "NaN".to_owned(),
        _ => format!("{:.3}", cache.hits as f64 / requests as f64),
    };
    format!(
        "entries {}, size {}, capacity {}, {} hits, {requests} requests, {rate}",
        cache.entries,
        file_size(cache.used_bytes),
        file_size(cache.capacity_bytes),
        cache.hits
    )
}

/// `version`.
pub(super) fn version_text(version: &Version) -> String {
    format!("ReleaseVersion: {}\nIlionVersion: {}\n", version.release_version, version.ilion_version)
}
