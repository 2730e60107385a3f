//! The binary as an operator meets it: start, questions, a second start, signals.

#![allow(clippy::disallowed_methods, reason = "the tests look at a real disk and a real process")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

const ILION: &str = env!("CARGO_BIN_EXE_ilion");

/// A node on ports of the system's choice; killed when dropped.
struct Node {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    cql: String,
    admin: String,
}

impl Node {
    fn start(dir: &Path, more: &[&str]) -> Node {
        Node::start_logging_to(Stdio::piped(), dir, more)
    }

    fn start_logging_to(log: Stdio, dir: &Path, more: &[&str]) -> Node {
        let mut child = Command::new(ILION)
            .args(["--data-dir", dir.to_str().unwrap(), "--port", "0", "--admin-port", "0"])
            .args(more)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let after = |mark: &str| {
            let at = line.find(mark).unwrap_or_else(|| panic!("{mark:?} is not in {line:?}")) + mark.len();
            line[at..].split([',', ' ', '\n']).next().unwrap().to_owned()
        };
        let (cql, admin) = (after("listening for CQL on "), after("http://"));
        Node { child, output, cql, admin }
    }

    fn nodetool(&self, words: &[&str]) -> Output {
        Command::new(ILION).args(["nodetool", "--admin", &self.admin]).args(words).output().unwrap()
    }

    fn says(&self, words: &[&str]) -> String {
        let output = self.nodetool(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn get(&self, path: &str) -> (u16, String) {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let mut answer = config.new_agent().get(format!("http://{}{path}", self.admin)).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end; its status and what it logged.
    fn end(mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut log).unwrap();
        }
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_answers_operators_and_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::start(dir.path(), &[]);
    assert!(node.cql.starts_with("127.0.0.1:") && !node.cql.ends_with(":0"), "{}", node.cql);
    let mut hint = String::new();
    node.output.read_line(&mut hint).unwrap();
    assert_eq!(hint, format!("connect with: cqlsh {}\n", node.cql.replace(':', " ")));

    assert_eq!(node.get("/health"), (200, "{\"status\":\"up\"}".to_owned()));
    let (status, metrics) = node.get("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("# TYPE ilion_requests_seconds histogram"), "{metrics}");
    assert!(metrics.contains("ilion_memtable_bytes "), "{metrics}");
    let (status, body) = node.get("/nowhere");
    assert_eq!(status, 404);
    assert!(body.starts_with("{\"error\":\"not_found\",\"message\":"), "{body}");

    let status = node.says(&["status"]);
    assert!(status.starts_with("Datacenter: datacenter1\n======"), "{status}");
    assert!(status.contains("\nUN  127.0.0.1"), "{status}");
    assert!(node.says(&["info"]).contains("Native Transport active: true"));
    assert_eq!(node.says(&["version"]).lines().next(), Some("ReleaseVersion: 5.0.5"));
    assert!(node.says(&["describecluster"]).contains("\tName: Test Cluster\n"));
    assert!(node.says(&["tablestats", "system.local"]).contains("\t\tTable: local\n"));
    let json: serde_json::Value = serde_json::from_str(&node.says(&["--json", "info"])).unwrap();
    assert_eq!(json["data_center"], "datacenter1");

    assert_eq!(node.says(&["flush"]), "");
    assert_eq!(node.says(&["compact", "system", "local"]), "");
    assert!(node.says(&["compactionstats"]).starts_with("concurrent compactors"));
    assert_eq!(node.says(&["setcompactionthroughput", "16"]), "");
    assert_eq!(node.says(&["getcompactionthroughput"]), "Current compaction throughput: 16 MB/s\n");
    assert_eq!(node.says(&["disableautocompaction", "system"]), "");
    assert_eq!(node.says(&["enableautocompaction"]), "");
    assert_eq!(node.says(&["stop", "COMPACTION"]), "");

    node.says(&["snapshot", "-t", "mine", "system"]);
    assert!(node.says(&["listsnapshots"]).contains("mine"));
    let again = node.nodetool(&["snapshot", "-t", "mine", "system"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("Snapshot mine already exists."));
    for elsewhere in ["..", "../..", "/"] {
        let refused = node.nodetool(&["clearsnapshot", "-t", elsewhere]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be the name of a snapshot"));
    }
    assert!(node.says(&["listsnapshots"]).contains("mine"));
    node.says(&["clearsnapshot", "-t", "mine"]);
    assert_eq!(node.says(&["listsnapshots"]), "Snapshot Details: \nThere are no snapshots\n");

    let (of_traces, all) = (node.says(&["repair", "-pr", "system_traces", "events"]), node.says(&["repair"]));
    assert_eq!(of_traces, "This node is the only one. No repair is needed for keyspace 'system_traces'\n");
    assert!(all.contains(&of_traces) && !all.contains("'system'"), "{all}");
    assert!(node.says(&["cleanup"]).contains("Nothing is to be cleaned up in keyspace 'system_traces'"));
    assert_eq!(node.nodetool(&["repair", "nosuch"]).status.code(), Some(1));

    let unknown = node.nodetool(&["flush", "nosuch"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("Keyspace [nosuch] does not exist."));
    for (keyspace, table) in [("nosuch", "t"), ("system", "nosuch")] {
        let unknown = node.nodetool(&["tablehistograms", keyspace, table]);
        assert_eq!(unknown.status.code(), Some(1));
        let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
        assert!(said.contains(&format!("nodetool: Unknown table {keyspace}.{table}\n")), "{said}");
    }

    node.signal("TERM");
    let (status, log) = node.end();
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("SIGTERM: shutting down") && log.contains("shut down"), "{log}");
}

#[test]
fn a_second_node_on_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Node::start(dir.path(), &[]);
    let second = Command::new(ILION)
        .args(["--data-dir", dir.path().to_str().unwrap(), "--port", "0", "--admin-port", "0"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another node is running on this data directory"), "{said}");
    assert_eq!(first.get("/health").0, 200);
}

#[test]
fn what_a_node_is_survives_a_restart_and_its_cluster_cannot_change() {
    let dir = tempfile::tempdir().unwrap();
    let id_and_token = |node: &Node| {
        let json: serde_json::Value = serde_json::from_str(&node.says(&["--json", "info"])).unwrap();
        (json["host_id"].clone(), json["tokens"].clone(), json["generation"].as_i64().unwrap())
    };
    let first = Node::start(dir.path(), &["--cluster-name", "one"]);
    let before = id_and_token(&first);
    first.signal("INT");
    assert!(first.end().0.success());

    let second = Node::start(dir.path(), &["--cluster-name", "one"]);
    let after = id_and_token(&second);
    assert_eq!((&before.0, &before.1), (&after.0, &after.1));
    assert!(after.2 > before.2);
    second.signal("TERM");
    assert!(second.end().0.success());

    let other = Command::new(ILION)
        .args(["--data-dir", dir.path().to_str().unwrap(), "--port", "0", "--admin-port", "0"])
        .args(["--cluster-name", "two"])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(1));
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("Saved cluster name one != configured name two"), "{said}");
}

#[test]
fn a_node_changes_its_place_only_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let (file, place) = (dir.path().join("cassandra.yaml"), dir.path().join("cassandra-rackdc.properties"));
    std::fs::write(&file, "endpoint_snitch: GossipingPropertyFileSnitch\n").unwrap();
    let words = ["--config", file.to_str().unwrap()];
    std::fs::write(&place, "dc=one\nrack=a\n").unwrap();
    let first = Node::start(dir.path(), &words);
    first.signal("TERM");
    assert!(first.end().0.success());

    std::fs::write(&place, "dc=two\nrack=b\n").unwrap();
    for (flags, missing, what) in
        [(&[][..], "dc", "data center (two)"), (&["--ignore-dc"], "rack", "rack (b)")]
    {
        let other = Command::new(ILION)
            .args(["--data-dir", dir.path().to_str().unwrap(), "--port", "0", "--admin-port", "0"])
            .args(words)
            .args(flags)
            .output()
            .unwrap();
        assert_eq!(other.status.code(), Some(1));
        let said = String::from_utf8_lossy(&other.stderr);
        assert!(
            said.contains(&format!("Cannot start node if snitch's {what} differs from previous")),
            "{said}"
        );
        assert!(said.contains(&format!("or use the flag --ignore-{missing}.")), "{said}");
    }
    let moved = Node::start(dir.path(), &[&words[..], &["--ignore-dc", "--ignore-rack"]].concat());
    assert!(moved.says(&["info"]).contains("two"), "{}", moved.says(&["info"]));
    moved.signal("TERM");
    assert!(moved.end().0.success());
    // It has moved for good.
    let again = Node::start(dir.path(), &words);
    again.signal("TERM");
    assert!(again.end().0.success());
}

#[test]
fn a_drained_node_says_so_and_still_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.says(&["drain"]), "");
    assert_eq!(node.get("/health"), (503, "{\"status\":\"drained\"}".to_owned()));
    assert!(node.says(&["info"]).contains("Native Transport active: false"));
    assert!(std::net::TcpStream::connect(&node.cql).is_err());
    node.signal("TERM");
    let (status, log) = node.end();
    assert!(status.success(), "{log}");
}

#[test]
fn a_log_on_a_full_disk_does_not_end_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let node = Node::start_logging_to(full.into(), dir.path(), &["--log-level", "debug"]);
    assert_eq!(node.says(&["flush"]), "");
    assert!(node.says(&["info"]).contains("Exceptions             : 0"), "{}", node.says(&["info"]));
    node.signal("TERM");
    let (status, _) = node.end();
    assert!(status.success());
}

fn full() -> Stdio {
    std::fs::File::options().write(true).open("/dev/full").unwrap().into()
}

/// Runs to the end with an output that takes nothing; the exit status.
fn status_unheard(words: &[&str]) -> Option<i32> {
    let mut command = Command::new(ILION);
    command.args(words).env_remove("RUST_LOG").stdout(full()).stderr(full());
    command.status().unwrap().code()
}

#[test]
fn a_node_that_nobody_can_hear_serves_and_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    // Its ports cannot be heard either.
    let port_of = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port().to_string();
    let free = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [cql, admin] = [port_of(&free[0]), port_of(&free[1])];
    drop(free);
    let child = Command::new(ILION)
        .args(["--data-dir", data, "--port", &cql, "--admin-port", &admin])
        .env_remove("RUST_LOG")
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    struct Ended(Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut node = Ended(child);
    while std::net::TcpStream::connect(format!("127.0.0.1:{cql}")).is_err() {
        assert_eq!(node.0.try_wait().unwrap(), None, "it ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(status_unheard(&["--data-dir", data, "--port", "0", "--admin-port", "0"]), Some(1), "locked");
    let address = format!("127.0.0.1:{admin}");
    let ask = |words: &[&str]| status_unheard(&[&["nodetool", "--admin", &address], words].concat());
    assert_eq!(ask(&["flush"]), Some(0));
    assert_eq!(ask(&["status"]), Some(2), "its answer is lost");
    assert_eq!(ask(&["flush", "nosuch"]), Some(1));
    let pid = node.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(node.0.wait().unwrap().code(), Some(0));
}

#[test]
fn what_fails_unheard_fails_with_its_status() {
    assert_eq!(status_unheard(&["nodetool", "--admin", "127.0.0.1:1", "status"]), Some(2));
    assert_eq!(status_unheard(&["sstable", "verify", "/nowhere"]), Some(2));
    assert_eq!(status_unheard(&["--no-such-flag"]), Some(2));
    assert_eq!(status_unheard(&["--data-dir", "/dev/null/x", "--port", "0", "--admin-port", "0"]), Some(1));
}

#[test]
fn keys_without_effect_are_named_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = dir.path().join("cassandra.yaml");
    std::fs::write(&yaml, "trickle_fsync: true\nfrobnicate: 1\n").unwrap();
    let node = Node::start(dir.path(), &["--config", yaml.to_str().unwrap(), "--log-format", "json"]);
    node.signal("TERM");
    let (status, log) = node.end();
    assert!(status.success(), "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    assert!(log.contains("trickle_fsync does not apply to Ilion"), "{log}");
    assert!(log.contains("frobnicate is not a known key"), "{log}");

    std::fs::write(&yaml, "native_transport_port: many\n").unwrap();
    let refused = Command::new(ILION).args(["--config", yaml.to_str().unwrap()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("native_transport_port") && said.contains("many"), "{said}");
}

#[test]
fn operators_are_told_where_data_lie() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    node.says(&["flush", "system"]);
    let json = |path: &str| -> serde_json::Value {
        let (status, body) = node.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    };
    let place = json("/api/v1/partition?keyspace=system&table=local&key=local");
    let hex = json("/api/v1/partition?keyspace=system&table=local&key=6c6f63616c&hex=true");
    assert_eq!((&place["endpoints"], &place), (&serde_json::json!(["127.0.0.1"]), &hex));
    let sstable = place["sstables"][0].as_str().unwrap();
    assert!(Path::new(sstable).is_absolute() && Path::new(sstable).exists(), "{sstable}");
    assert_eq!(place["levels"], serde_json::json!([]), "the table has no levels");
    let nobody = json("/api/v1/partition?keyspace=system&table=local&key=other");
    assert_eq!(nobody["sstables"], serde_json::json!([]));

    let of_local = json("/api/v1/directories");
    let of_local = of_local.as_array().unwrap().iter().find(|t| t["table"] == "local").unwrap();
    assert_eq!(of_local["keyspace"], "system");
    let directory = of_local["directories"][0].as_str().unwrap();
    assert_eq!(Path::new(sstable).parent(), Some(Path::new(directory)));
    let sample = json("/api/v1/ring/sample");
    let tokens: Vec<i64> =
        sample["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().parse().unwrap()).collect();
    assert!(!tokens.is_empty() && tokens.is_sorted(), "{tokens:?}");

    for (question, status, words) in [
        ("keyspace=nosuch&table=local&key=local", 404, "Unknown keyspace 'nosuch'"),
        ("keyspace=system&table=nosuch&key=local", 404, "Unknown table 'nosuch' in keyspace 'system'"),
        ("keyspace=system&table=peers&key=x", 400, "Unable to make inet address from 'x'"),
        ("keyspace=system&table=local&key=xyz&hex=true", 400, "xyz"),
        ("keyspace=system&table=local", 400, "key"),
    ] {
        let (found, body) = node.get(&format!("/api/v1/partition?{question}"));
        assert!(found == status && body.contains(words), "{question}: {found} {body}");
    }
    for (words, status, refusal) in [
        (&["describering", "nosuch"][..], 2, "error: No such keyspace: nosuch\n"),
        (&["describering", "system"], 2, "error: There is no ring for the keyspace: system\n"),
        (&["getsstables", "system", "peers", "x"], 2, "error: Unable to make inet address from 'x'\n"),
        (&["getendpoints", "system", "peers", "x"], 2, "error: Unable to make inet address from 'x'\n"),
        (&["ring", "nosuch"], 1, "\nError: The keyspace nosuch, does not exist\n"),
    ] {
        let output = node.nodetool(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(status), refusal), "{words:?}");
    }
}

/// A scrub that the kernel ends where a file would grow beyond a limit: in the middle of the new Data.db.
#[test]
fn a_scrub_that_was_killed_is_ended_by_the_next() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/4.0.17-nb/mix_plain");
    let scratch = tempfile::tempdir().unwrap();
    let (table, output) = (scratch.path().join("table"), scratch.path().join("output"));
    std::fs::create_dir(&table).unwrap();
    for entry in std::fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("nb-1-big-") && !name.ends_with(".json") {
            std::fs::copy(&path, table.join(name)).unwrap();
        }
    }
    let logs = |directory: &Path| {
        let names =
            std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("_txn_scrub_")).count()
    };
    let words = ["sstable", "scrub", "--output", "../output", "."];
    for (words, target) in [(words.as_slice(), &output), (&["sstable", "scrub", "."], &table)] {
        let mut scrub = Command::new("sh");
        scrub
            .args(["-c", "ulimit -c 0; ulimit -f 2; exec \"$0\" \"$@\"", ILION])
            .args(words)
            .current_dir(&table);
        let killed = scrub.output().unwrap().status;
        assert!(killed.signal().is_some(), "{killed}");
        assert_eq!(logs(target), 1);
        let second = Command::new(ILION).args(words).current_dir(&table).output().unwrap();
        let said = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(0), "{said}");
        assert!(
            said.contains("_txn_scrub_") && said.ends_with("had not committed, its new files are removed\n"),
            "{said}"
        );
        assert_eq!(logs(target), 0);
        let verify = Command::new(ILION).args(["sstable", "verify"]).arg(target).output().unwrap();
        assert_eq!(verify.status.code(), Some(0), "{}", String::from_utf8_lossy(&verify.stdout));
    }
}
