#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]
use super::super::{Json, guard};
use super::*;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const FEW: Limits = Limits { head_timeout: Duration::from_millis(200), connections_max: 2 };

fn router() -> Router {
    let size = |Json(body): Json<String>| async move { body.len().to_string() };
    Router::new()
        .route("/up", get(|| async { "up" }))
        .route("/size", post(size))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn(guard::check))
}

/// Both listeners, open until the sender is dropped or speaks.
struct Listeners {
    address: SocketAddr,
    path: std::path::PathBuf,
    stop: watch::Sender<bool>,
    _dir: tempfile::TempDir,
}

async fn open(limits: Limits) -> Listeners {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(listener, Endpoint::Tcp(address), limits, router(), stopped.clone()));
    tokio::spawn(serve(UnixListener::bind(&path).unwrap(), Endpoint::Socket, limits, router(), stopped));
    Listeners { address, path, stop, _dir: dir }
}

/// All that is answered to `request`, until the connection is closed.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    // One that is turned away may be closed before it has said all.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

fn posted(more: &str, body: &str) -> String {
    format!(
        "POST /size HTTP/1.1\r\nHost: localhost\r\n{more}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn http2_is_known_by_its_first_bytes() {
    run(async {
        for (said, found) in [
            (&b"GET /up HTTP/1.1\r\n\r\n"[..], &b"GET /up HTTP/1.1\r\n\r\n"[..]),
            (b"PRI", b"PRI"),
            (b"PUT /up HTTP/1.1\r\nHost: localhost\r\n", b"PUT /up HTTP/1.1\r\nHost: "),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more", HTTP2_PREFACE),
        ] {
            let mut stream = said;
            assert_eq!(opening(&mut stream).await.unwrap(), found);
            // Nothing is lost of what follows.
            assert_eq!(stream.len(), said.len() - found.len());
        }
    });
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bound = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(bound, test).await.expect("the test hangs") });
}

#[test]
fn pages_are_refused_at_the_port_and_cannot_come_to_the_socket() {
    run(async {
        let listeners = open(Limits::default()).await;
        let tcp = || TcpStream::connect(listeners.address);
        let unix = || UnixStream::connect(&listeners.path);
        let said = answer(tcp().await.unwrap(), &posted("", "\"four\"")).await;
        assert!(said.starts_with("HTTP/1.1 403 ") && said.contains("\"error\":\"forbidden\""), "{said}");
        let said = answer(tcp().await.unwrap(), &posted("X-Ilion-Admin: 1\r\n", "\"four\"")).await;
        assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("4"), "{said}");
        let rebound = "GET /up HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
        let said = answer(tcp().await.unwrap(), rebound).await;
        assert!(said.starts_with("HTTP/1.1 403 ") && said.contains("evil.example"), "{said}");
        let said = answer(unix().await.unwrap(), &posted("", "\"four\"")).await;
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    });
}

#[test]
fn bodies_have_a_size_and_a_time() {
    run(async {
        let listeners = open(Limits::default()).await;
        let long = format!("\"{}\"", "x".repeat(BODY_BYTES_MAX));
        let said = answer(UnixStream::connect(&listeners.path).await.unwrap(), &posted("", &long)).await;
        assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
        let late = in_time(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
        assert!(format!("{late:?}").contains("408"), "{late:?}");
    });
}

#[test]
fn who_says_nothing_is_sent_away() {
    run(async {
        let listeners = open(FEW).await;
        for begun in ["", "GET /up HTTP/1.1\r\nHost: loc"] {
            // It ends, with or without an answer.
            answer(TcpStream::connect(listeners.address).await.unwrap(), begun).await;
        }
    });
}

#[test]
fn each_listener_has_room_for_so_many() {
    run(async {
        let listeners = open(Limits { head_timeout: Duration::from_secs(60), ..FEW }).await;
        let mut held = Vec::new();
        for _ in 0..FEW.connections_max {
            let mut stream = TcpStream::connect(listeners.address).await.unwrap();
            stream.write_all(b"GET /up HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            held.push(stream);
        }
        let ask = "GET /up HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut full = TcpStream::connect(listeners.address).await.unwrap();
        let mut said = String::new();
        full.read_to_string(&mut said).await.unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 "), "{said}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{said}");
        let said = answer(UnixStream::connect(&listeners.path).await.unwrap(), ask).await;
        assert!(said.ends_with("up"), "{said}");
        drop(held.pop());
        while !answer(TcpStream::connect(listeners.address).await.unwrap(), ask).await.ends_with("up") {}
        // Those that wait for nothing do not keep the listeners open.
        listeners.stop.send_replace(true);
        for mut stream in held {
            assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
        }
    });
}
