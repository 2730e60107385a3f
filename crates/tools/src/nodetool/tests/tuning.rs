//! Verbs about what is looked at and changed while the node runs, as Cassandra 5.0.5 answered them.

use super::super::tuning::{
    by_protocol_text, clients_text, garbage_text, latencies_text, levels_text, pools_text,
};
use super::*;
use crate::api::{ClientConnection, LogLevel, Pool, RequestLatencies, VerbMessages};

fn client(address: &str, version: u8, keyspace: Option<&str>, requests: u64) -> ClientConnection {
    let options = [("DRIVER_NAME", "Apache Cassandra Python Driver"), ("DRIVER_VERSION", "3.30.1")];
    ClientConnection {
        address: address.to_owned(),
        protocol_version: Some(version),
        user: "anonymous".to_owned(),
        keyspace: keyspace.map(str::to_owned),
        requests,
        tls_protocol: None,
        tls_cipher_suite: None,
        options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }
}

#[test]
fn clientstats_has_nodetools_layout() {
    assert_eq!(clients_text(&[], true, true), "Total connected clients: 0\n\nUser Connections\n");
    let clients = [client("127.0.0.1:36500", 5, None, 16), client("127.0.0.1:36530", 4, Some("system"), 2)];
    let counted = "Total connected clients: 2\n\nUser      Connections\nanonymous 2          \n";
    assert_eq!(clients_text(&clients, false, false), counted);
    let all = "\
Address          SSL   Cipher    Protocol  Version User      Keyspace Requests Driver-Name                    Driver-Version
/127.0.0.1:36500 false undefined undefined 5       anonymous          16       Apache Cassandra Python Driver 3.30.1        
/127.0.0.1:36530 false undefined undefined 4       anonymous system   2        Apache Cassandra Python Driver 3.30.1        

";
    assert_eq!(clients_text(&clients, true, false), format!("{all}{counted}"));
    let mut secure = client("127.0.0.1:36500", 5, None, 16);
    secure.tls_protocol = Some("TLSv1.3".to_owned());
    secure.tls_cipher_suite = Some("TLS_AES_256_GCM_SHA384".to_owned());
    let row = "/127.0.0.1:36500 true TLS_AES_256_GCM_SHA384 TLSv1.3  5 ";
    assert!(clients_text(&[secure], true, false).contains(row));
    let with_options = clients_text(&clients, true, true);
    let first = with_options.lines().next().unwrap();
    assert!(first.trim_end().ends_with("Driver-Version Client-Options"), "{first}");
    assert!(with_options.contains(" DRIVER_NAME=Apache Cassandra Python Driver, DRIVER_VERSION=3.30.1\n"));
    let by_protocol = "\
Clients by protocol version

Protocol-Version IP-Address Last-Seen
4/v4             /127.0.0.1 now      
5/v5             /127.0.0.1 now      

";
    assert_eq!(by_protocol_text(&clients), by_protocol);
}

#[test]
fn tpstats_has_nodetools_layout() {
    let pool = |name: &str, completed| Pool {
        name: name.to_owned(),
        active: 0,
        active_max: 2,
        pending: 0,
        completed,
    };
    let text = pools_text(&[pool("Native-Transport-Requests", 200_227), pool("ReadStage", 129)], &[]);
    let expected = "\
Pool Name                 Active Pending Completed Blocked All time blocked
Native-Transport-Requests 0      0       200227    0       0               
ReadStage                 0      0       129       0       0               

Latencies waiting in queue (micros) per dropped message types
Message type                      Dropped     50%      95%      99%      Max
BATCH_STORE_REQ                   0           0.0      0.0      0.0      0.0
";
    assert!(text.starts_with(expected), "{text}");
    let late = VerbMessages { verb: "READ_REQ".to_owned(), sent: 0, received: 9, dropped: 7 };
    let text = pools_text(&[], &[late]);
    assert!(text.contains("\nREAD_REQ                          7           0.0"), "{text}");
}

#[test]
fn proxyhistograms_has_nodetools_layout() {
    let read = Percentiles { p50: 24.6, max: 1_131.75, ..Percentiles::default() };
    let latencies = RequestLatencies { read, write: Percentiles::default(), range: Percentiles::default() };
    let text = latencies_text(&latencies);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "proxy histograms",
            "Percentile       Read Latency      Write Latency      Range Latency   CAS Read Latency  CAS Write Latency \
             View Write Latency",
            "                     (micros)           (micros)           (micros)           (micros)           (micros)\
             \u{20}          (micros)",
            // Cassandra has a number for conditional requests.
            "50%                     24.60               0.00               0.00                NaN                NaN\
             \u{20}              0.00",
        ]
    );
    assert!(lines[9].starts_with("Max                   1131.75               0.00"), "{}", lines[9]);
    assert!(text.ends_with("\n\n"));
}

#[test]
fn getlogginglevels_and_gcstats_have_nodetools_layout() {
    let level = LogLevel { part: "ROOT".to_owned(), level: "INFO".to_owned() };
    let expected = "
Logger Name                                        Log Level
ROOT                                                    INFO
";
    assert_eq!(levels_text(&[level]), expected);
    let expected = "       Interval (ms) Max GC Elapsed (ms)Total GC Elapsed (ms)Stdev GC Elapsed (ms)   \
                    GC Reclaimed (MB)         Collections      Direct Memory Bytes\n              735000";
    let text = garbage_text(&info());
    assert!(text.starts_with(expected), "{text}");
}

/// What a verb that needs no node says.
fn refusal(words: &[&str]) -> String {
    let args = verb(words).unwrap();
    match execute(&args) {
        Err(Failure::Usage(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_arguments_are_told_in_nodetools_words() {
    let kinds = "(read, range, write, counterwrite, cascontention, truncate, internodeconnect, internodeuser, \
                 internodestreaminguser, misc (general rpc_timeout_in_ms))";
    assert_eq!(refusal(&["gettimeout"]), format!("gettimeout requires a timeout type, one of {kinds}"));
    assert_eq!(
        refusal(&["settimeout", "read"]),
        format!(
            "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be one of {kinds}"
        )
    );
    assert_eq!(refusal(&["settimeout", "read", "x"]), "For input string: \"x\"");
    assert_eq!(refusal(&["settimeout", "read", "-1"]), "timeout must be non-negative");
    assert_eq!(
        refusal(&["settimeout", "internodeuser", "5"]),
        "internodeuser is a timeout between nodes, and this node is the only one"
    );
    assert_eq!(refusal(&["settraceprobability"]), "Required parameters are missing: trace_probability");
    assert_eq!(refusal(&["settraceprobability", "2"]), "Trace probability must be between 0 and 1");
    assert_eq!(
        refusal(&["settraceprobability", "x"]),
        "trace_probability: can not convert \"x\" to a Double"
    );
    assert_eq!(refusal(&["viewbuildstatus"]), "viewbuildstatus requires keyspace and view name arguments");
    assert_eq!(refusal(&["rebuild_index"]), "rebuild_index requires ks, cf and idx args");
}
