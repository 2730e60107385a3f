//! Who may come in to a node: operators by the admin API, clients by CQL, and when.

#![allow(clippy::disallowed_methods, reason = "the tests look at a real disk and a real process")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const ILION: &str = env!("CARGO_BIN_EXE_ilion");

/// A node on ports of the system's choice, with a socket; killed when dropped.
struct Node {
    child: Child,
    cql: String,
    admin: String,
    socket: PathBuf,
}

impl Node {
    fn start(dir: &Path) -> Node {
        let socket = dir.join("admin.sock");
        let mut child = Command::new(ILION)
            .args(["--port", "0", "--admin-port", "0", "--log-level", "warn", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--admin-socket")
            .arg(&socket)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let after = |mark: &str| {
            let (_, rest) = line.split_once(mark).unwrap_or_else(|| panic!("{mark:?} is not in {line:?}"));
            rest.split([',', ' ', '\n']).next().unwrap().to_owned()
        };
        let (cql, admin) = (after("listening for CQL on "), after("http://"));
        Node { child, cql, admin, socket }
    }

    /// By the socket.
    fn nodetool(&self, words: &[&str]) -> Output {
        Command::new(ILION).args(["nodetool", "--socket"]).arg(&self.socket).args(words).output().unwrap()
    }

    fn says(&self, words: &[&str]) -> String {
        let output = self.nodetool(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit status and what standard error says.
    fn refuses(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.nodetool(words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// What is answered to a request with these headers.
    fn asked(&self, line: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        let head = format!("{line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn takes_clients(&self) -> bool {
        TcpStream::connect(&self.cql).is_ok()
    }

    fn end(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_web_page_cannot_drain_a_node_and_its_operator_can() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::start(dir.path());
    let own = format!("Host: {}\r\n", node.admin);
    let form =
        format!("{own}Origin: http://evil.example\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n");
    for (line, headers) in [
        ("POST /api/v1/drain", form.as_str()),
        ("POST /api/v1/drain", own.as_str()),
        ("OPTIONS /api/v1/drain", "Host: localhost\r\nOrigin: http://evil.example\r\n"),
        ("POST /api/v1/drain", "Host: evil.example\r\nX-Ilion-Admin: 1\r\n"),
        ("GET /api/v1/reads/samples", "Host: evil.example\r\n"),
    ] {
        let said = node.asked(line, headers);
        assert!(said.starts_with("HTTP/1.1 403 "), "{line}: {said}");
    }
    assert!(node.takes_clients());
    assert!(node.asked("GET /api/v1/status", "Host: localhost\r\n").starts_with("HTTP/1.1 200 "));
    let mode = std::fs::symlink_metadata(&node.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let said = node.asked("POST /api/v1/drain", &format!("{own}X-Ilion-Admin: 1\r\n"));
    assert!(said.starts_with("HTTP/1.1 204 "), "{said}");
    assert!(!node.takes_clients());
    node.end();
    assert!(!node.socket.exists());
}

#[test]
fn clients_are_shut_out_and_let_in_again() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let mut connection = TcpStream::connect(&node.cql).unwrap();
    for force in [&["disablebinary"][..], &["disablebinary", "--force"]] {
        assert_eq!(node.says(&["statusbinary"]), "running\n");
        assert_eq!(node.says(force), "");
        assert_eq!(node.says(&["statusbinary"]), "not running\n");
        assert!(!node.takes_clients());
        assert_eq!(connection.read(&mut [0; 16]).unwrap_or(0), 0, "open connections are closed");
        assert_eq!(node.says(force), "");
        assert!(node.says(&["info"]).contains("Native Transport active: false"));
        assert_eq!(node.says(&["enablebinary"]), "");
        assert_eq!(node.says(&["enablebinary"]), "");
        connection = TcpStream::connect(&node.cql).unwrap();
    }
    node.says(&["drain"]);
    assert_eq!(node.says(&["disablebinary"]), "");
    let (status, said) = node.refuses(&["enablebinary"]);
    assert_eq!(status, Some(1));
    assert!(
        said.starts_with("nodetool: Unable to start native transport because the node was drained.\n"),
        "{said}"
    );
}

#[test]
fn names_and_places_that_make_no_sense_are_the_callers_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    for name in [&"a".repeat(300), "a\nb", "\u{202e}gpj", "a/b", ".."] {
        let (status, said) = node.refuses(&["snapshot", "-t", name, "system"]);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("cannot be the name of a snapshot: it"), "{said}");
    }
    let (status, said) = node.refuses(&["snapshot", "-t", "s", "--ttl", "30s", "system"]);
    assert_eq!(status, Some(1));
    assert!(said.starts_with("nodetool: ttl for snapshot must be at least 60 seconds\n"), "{said}");
    let said = node.says(&["snapshot", "-t", "s", "--ttl", "5h", "system"]);
    assert!(said.contains("with snapshot name [s] and options {skipFlush=false, ttl=5h}\n"), "{said}");
    let listed = node.says(&["listsnapshots"]);
    let row = listed.lines().find(|line| line.starts_with("s ") && line.contains(" local ")).unwrap();
    assert_eq!(row.matches('Z').count(), 2, "created and expires: {row}");
    assert_eq!(node.says(&["listsnapshots", "-nt"]), "Snapshot Details: \nThere are no snapshots\n");
    for (keyspace, table) in [("system_auth", "roles"), ("system", "peers"), ("system_schema", "tables")] {
        let (status, said) = node.refuses(&["import", keyspace, table, dir.path().to_str().unwrap()]);
        assert_eq!(status, Some(2));
        assert!(said.starts_with(&format!("error: Cannot write to {keyspace}.{table}: it holds")), "{said}");
        let (status, _) = node.refuses(&["refresh", keyspace, table]);
        assert_eq!(status, Some(2));
    }
}
