//! Who may ask the admin API.
//!
//! On the loopback address there is no password: whoever can connect is an operator. A web browser on the
//! machine can connect too, and does so for any page that its user visits. So a request that comes over TCP
//! is refused when
//!
//! 1. `Host`, or the target itself, names anything but this machine's loopback: a page whose name was bound
//!    to 127.0.0.1 has its own name there;
//! 2. `Origin` is there and is not the API itself: a page of another place;
//! 3. it is no GET or HEAD and lacks the header [`HEADER`]: forms cannot send it, and scripts may not without
//!    asking first, which 2 and 3 refuse.
//!
//! Pages cannot connect to the Unix socket, and its mode says who can: what comes from there is not judged.
//!
//! The port of `metrics_port` asks for nothing anywhere. On the loopback address 1 and 2 hold for it;
//! elsewhere it refuses whatever has an `Origin`.
//!
//! At other addresses the API speaks TLS and asks for a login (`login.rs`). A browser may know the password,
//! so 2 and 3 hold there, too. 1 does not: the certificate proves the name.

use super::ApiError;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use tools::api::HEADER;

/// Where a request came in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoint {
    /// A TCP connection to this address.
    Tcp(SocketAddr),
    /// A TCP connection with TLS, to an address that others can reach.
    Remote,
    /// A TCP connection to where everybody may ask for the little that is answered.
    Open,
    /// The Unix socket.
    Socket,
}

/// Lets a request through, or answers it with 403.
pub(super) async fn check(
    ConnectInfo(endpoint): ConnectInfo<Endpoint>,
    request: Request,
    next: Next,
) -> Response {
    let refusal = match endpoint {
        Endpoint::Socket => None,
        Endpoint::Tcp(address) => refusal(Some(address.ip()), &request),
        Endpoint::Remote => refusal(None, &request),
        Endpoint::Open => of_a_page(&request),
    };
    match refusal {
        Some(message) => ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).into_response(),
        None => next.run(request).await,
    }
}

/// Why a request to the open port is refused: names of hosts say nothing there, and no page needs numbers.
fn of_a_page(request: &Request) -> Option<String> {
    let is_of_a_page = request.headers().contains_key(header::ORIGIN);
    is_of_a_page.then(|| "the request comes from a web page".to_owned())
}

/// Why a request that came over TCP is refused: to `own`, or with TLS to where its certificate says.
fn refusal(own: Option<IpAddr>, request: &Request) -> Option<String> {
    let headers = request.headers();
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = match sole(headers, header::HOST.as_str()) {
        Ok(Some(host)) => host,
        // HTTP/2 has it in the target.
        Ok(None) => match authority.filter(|_| request.version() == Version::HTTP_2) {
            Some(authority) => authority,
            None => return Some("the request has no Host header".to_owned()),
        },
        Err(()) => return Some("the Host header makes no sense".to_owned()),
    };
    for named in [Some(host), authority].into_iter().flatten() {
        if own.is_some_and(|own| !is_own(named, own)) {
            return Some(format!(
                "the admin API answers to localhost and loopback addresses, not to the host {named:?}"
            ));
        }
    }
    let scheme = if own.is_some() { "http://" } else { "https://" };
    match sole(headers, header::ORIGIN.as_str()) {
        Ok(None) => {}
        Ok(Some(origin))
            if origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host)) => {}
        _ => return Some("the request comes from a web page of another origin".to_owned()),
    }
    let only_asks = matches!(*request.method(), Method::GET | Method::HEAD);
    if !only_asks && !headers.contains_key(HEADER) {
        return Some(format!(
            "a request that changes something needs the header '{HEADER}: 1', which web pages cannot send"
        ));
    }
    None
}

/// The value of a header that may be there once.
fn sole<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// Whether `host`, with or without a port, is the loopback or the address on which the API listens.
fn is_own(host: &str, own: IpAddr) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if is_port(port) => name,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if is_port(&host[name.len()..]) && !port.is_empty() => name,
            Some(_) => return false,
            None => host,
        },
    };
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == own,
        Err(_) => name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case("localhost."),
    }
}

/// Nothing, or `:` and digits.
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => text.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use std::net::Ipv4Addr;

    const OWN: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn said(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        refusal(OWN, &request.body(Body::empty()).unwrap())
    }

    #[test]
    fn the_open_port_answers_under_any_name_but_no_page() {
        let of = |name: &str| {
            let request = Request::builder().uri("/metrics").header("Host", "db1.example:9181");
            of_a_page(&request.header(name, "https://db1.example").body(Body::empty()).unwrap())
        };
        assert_eq!(of("Referer"), None);
        assert!(of("Origin").is_some());
    }

    #[test]
    fn only_names_of_the_loopback_are_answered() {
        let hosts = [
            "localhost",
            "LOCALHOST:9180",
            "localhost.",
            "127.0.0.1:9180",
            "127.0.0.8",
            "[::1]:9180",
            "[::1]",
        ];
        for host in hosts {
            assert_eq!(said("GET", "/metrics", &[("Host", host)]), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9180",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:9180",
            "",
            "localhost:",
            "localhost:9180@evil",
            "[::2]",
            "[::1]x",
            "[::1",
            "0.0.0.0",
            "2130706433",
        ] {
            let refused = said("GET", "/metrics", &[("Host", host)]).unwrap_or_default();
            assert!(refused.contains("not to the host"), "{host}: {refused}");
        }
        let twice = [("Host", "localhost"), ("Host", "evil.example")];
        assert!(said("GET", "/", &twice).is_some() && said("GET", "/", &[]).is_some());
        assert!(said("GET", "http://evil.example/metrics", &[("Host", "localhost")]).is_some());
    }

    #[test]
    fn the_target_names_the_host_in_http2() {
        let said = |target: &str, version| {
            let request = Request::builder().method("GET").uri(target).version(version);
            refusal(OWN, &request.body(Body::empty()).unwrap())
        };
        assert_eq!(said("http://127.0.0.1:9180/metrics", Version::HTTP_2), None);
        assert!(
            said("http://evil.example/metrics", Version::HTTP_2)
                .unwrap_or_default()
                .contains("not to the host")
        );
        assert!(said("/metrics", Version::HTTP_2).is_some());
        assert!(said("http://127.0.0.1:9180/metrics", Version::HTTP_11).is_some());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let asked = |origin| said("GET", "/", &[("Host", "localhost:9180"), ("Origin", origin)]);
        assert_eq!(asked("http://localhost:9180"), None);
        for origin in ["http://evil.example", "null", "https://localhost:9180", "http://localhost:3000", ""] {
            assert!(asked(origin).unwrap_or_default().contains("another origin"), "{origin}");
        }
    }

    #[test]
    fn names_are_not_judged_behind_a_certificate() {
        let said = |method: &str, headers: &[(&str, &str)]| {
            let request = Request::builder().method(method).uri("/").header("Host", "db1.example");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            refusal(None, &request.body(Body::empty()).unwrap())
        };
        assert_eq!(said("GET", &[]), None);
        assert_eq!(said("GET", &[("Origin", "https://db1.example")]), None);
        for origin in ["http://db1.example", "https://evil.example", "null"] {
            assert!(said("GET", &[("Origin", origin)]).unwrap_or_default().contains("another origin"));
        }
        assert!(said("POST", &[]).unwrap_or_default().contains("'X-Ilion-Admin: 1'"));
    }

    #[test]
    fn what_changes_something_needs_the_header() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let refused = said(method, "/api/v1/drain", &[("Host", "localhost")]).unwrap_or_default();
            assert!(refused.contains("'X-Ilion-Admin: 1'"), "{method}: {refused}");
            assert_eq!(said(method, "/api/v1/drain", &[("Host", "localhost"), ("x-ilion-admin", "1")]), None);
        }
        assert_eq!(said("HEAD", "/api/v1/status", &[("Host", "localhost")]), None);
    }
}
