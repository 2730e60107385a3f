//! The admin API: HTTP and JSON on the loopback address, on a Unix socket, and with TLS and logins on other
//! addresses, for nodetool, scripts and Prometheus.
//!
//! `guard.rs` and `login.rs` say who may ask, `serve.rs` how many at once and for how long.
//!
//! [`ROUTES`] is the one list of routes; `openapi.json` describes each of them, which a test checks. Verbs
//! that take long (flush, compact, snapshot, drain) answer when they are done, as nodetool's do;
//! `/api/v1/compactions` shows their progress meanwhile, and they go on when the caller hangs up.

mod bulk;
mod cidr;
mod compactions;
mod exposition;
mod guard;
mod handlers;
mod login;
mod logs;
mod places;
mod profile;
mod prometheus;
mod ring;
mod serve;
mod tuning;

use crate::net::Security;
use crate::node::Node;
use crate::storage::StorageError;
use crate::tls::http::{Http, HttpDoor};
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use engine::EngineError;
use env::socket::PrivateSocket;
use guard::Endpoint;
pub(crate) use login::may_listen;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tools::api::ErrorBody;

/// The description of the API.
pub const OPENAPI: &str = include_str!("openapi.json");

type Handler = MethodRouter<Arc<Node>>;

/// Method, path, handler.
type Route = (&'static str, &'static str, fn() -> Handler);

/// Every route.
const ROUTES: &[Route] = &[
    ("get", "/health", || get(handlers::health)),
    ("get", "/metrics", || get(handlers::metrics)),
    ("get", "/openapi.json", || get(handlers::openapi)),
    ("get", "/api/v1/status", || get(handlers::status)),
    ("get", "/api/v1/info", || get(handlers::info)),
    ("get", "/api/v1/version", || get(handlers::version)),
    ("get", "/api/v1/cluster", || get(handlers::cluster)),
    ("get", "/api/v1/tables", || get(handlers::tables)),
    ("get", "/api/v1/tables/histograms", || get(handlers::histograms)),
    ("get", "/api/v1/reads/tables", || get(handlers::reads_by_table)),
    ("get", "/api/v1/reads/heat", || get(handlers::heat)),
    ("get", "/api/v1/reads/samples", || get(handlers::read_samples)),
    ("get", "/api/v1/reads/slow", || get(handlers::slow_reads)),
    ("post", "/api/v1/flush", || post(handlers::flush)),
    ("post", "/api/v1/caches/invalidate", || post(handlers::invalidate_cache)),
    ("get", "/api/v1/cidr_groups", || get(cidr::groups)),
    ("put", "/api/v1/cidr_groups", || put(cidr::update)),
    ("delete", "/api/v1/cidr_groups", || delete(cidr::remove)),
    ("get", "/api/v1/cidr_groups/of", || get(cidr::of_address)),
    ("post", "/api/v1/cidr_groups/reload", || post(cidr::reload)),
    ("get", "/api/v1/cidr_groups/stats", || get(cidr::stats)),
    ("put", "/api/v1/caches/capacity", || put(handlers::set_cache_capacity)),
    ("post", "/api/v1/drain", || post(handlers::drain)),
    ("get", "/api/v1/native_transport", || get(handlers::native_transport)),
    ("put", "/api/v1/native_transport", || put(handlers::set_native_transport)),
    ("post", "/api/v1/estimates/refresh", || post(handlers::refresh_estimates)),
    ("post", "/api/v1/compact", || post(compactions::compact)),
    ("get", "/api/v1/compactions", || get(compactions::compactions)),
    ("delete", "/api/v1/compactions", || delete(compactions::stop_compactions)),
    ("get", "/api/v1/adoption", || get(compactions::adoption)),
    ("get", "/api/v1/compactions/history", || get(compactions::compaction_history)),
    ("get", "/api/v1/compactions/auto", || get(compactions::autocompaction)),
    ("put", "/api/v1/compactions/auto", || put(compactions::set_autocompaction)),
    ("put", "/api/v1/compactions/pause", || put(compactions::pause_compactions)),
    ("delete", "/api/v1/compactions/pause", || delete(compactions::resume_compactions)),
    ("get", "/api/v1/compactions/throughput", || get(compactions::throughput)),
    ("put", "/api/v1/compactions/throughput", || put(compactions::set_throughput)),
    ("get", "/api/v1/compactions/thresholds", || get(compactions::thresholds)),
    ("put", "/api/v1/compactions/thresholds", || put(compactions::set_thresholds)),
    ("get", "/api/v1/compactions/concurrent", || get(compactions::compactors)),
    ("put", "/api/v1/compactions/concurrent", || put(compactions::set_compactors)),
    ("get", "/api/v1/bulk", || get(bulk::bulk)),
    ("put", "/api/v1/bulk/throughput", || put(bulk::set_throughput)),
    ("post", "/api/v1/upgradesstables", || post(compactions::upgrade)),
    ("post", "/api/v1/verify", || post(compactions::verify)),
    ("post", "/api/v1/scrub", || post(compactions::scrub)),
    ("post", "/api/v1/garbagecollect", || post(compactions::collect_garbage)),
    ("post", "/api/v1/forcecompact", || post(compactions::force_compact)),
    ("post", "/api/v1/import", || post(handlers::import)),
    ("post", "/api/v1/refresh", || post(handlers::refresh)),
    ("get", "/api/v1/partition", || get(places::partition)),
    ("get", "/api/v1/directories", || get(places::directories)),
    ("get", "/api/v1/ring/sample", || get(places::token_sample)),
    ("get", "/api/v1/ring/ranges", || get(ring::ranges)),
    ("get", "/api/v1/gossip", || get(ring::gossip)),
    ("put", "/api/v1/gossip", || put(ring::set_gossip)),
    ("get", "/api/v1/messages", || get(ring::messages)),
    ("get", "/api/v1/batchlog/throttle", || get(ring::batchlog_throttle)),
    ("put", "/api/v1/batchlog/throttle", || put(ring::set_batchlog_throttle)),
    ("get", "/api/v1/hints", || get(ring::handoff)),
    ("put", "/api/v1/hints", || put(ring::set_handoff)),
    ("delete", "/api/v1/hints", || delete(ring::truncate)),
    ("get", "/api/v1/hints/pending", || get(ring::pending)),
    ("get", "/api/v1/timeouts", || get(tuning::timeouts)),
    ("put", "/api/v1/timeouts", || put(tuning::set_timeout)),
    ("get", "/api/v1/trace_probability", || get(tuning::trace_probability)),
    ("put", "/api/v1/trace_probability", || put(tuning::set_trace_probability)),
    ("get", "/api/v1/logging", || get(tuning::log_levels)),
    ("put", "/api/v1/logging", || put(tuning::set_log_level)),
    ("delete", "/api/v1/logging", || delete(tuning::reset_log_levels)),
    ("get", "/api/v1/pools", || get(tuning::thread_pools)),
    ("get", "/api/v1/latencies", || get(tuning::latencies)),
    ("post", "/api/v1/tls/reload", || post(tuning::reload_tls)),
    ("post", "/api/v1/profile", || post(profile::profile)),
    ("get", "/api/v1/profile/jobs", || get(profile::jobs)),
    ("post", "/api/v1/profile/jobs", || post(profile::start_job)),
    ("delete", "/api/v1/profile/jobs", || delete(profile::stop_job)),
    ("get", "/api/v1/audit", || get(logs::audit)),
    ("put", "/api/v1/audit", || put(logs::enable_audit)),
    ("delete", "/api/v1/audit", || delete(logs::disable_audit)),
    ("get", "/api/v1/full_query_log", || get(logs::queries)),
    ("put", "/api/v1/full_query_log", || put(logs::enable_queries)),
    ("delete", "/api/v1/full_query_log", || delete(logs::disable_queries)),
    ("post", "/api/v1/full_query_log/reset", || post(logs::reset_queries)),
    ("get", "/api/v1/clients", || get(tuning::clients)),
    ("get", "/api/v1/backups", || get(handlers::incremental_backups)),
    ("put", "/api/v1/backups", || put(handlers::set_incremental_backups)),
    ("get", "/api/v1/snapshots", || get(handlers::snapshots)),
    ("post", "/api/v1/snapshots", || post(handlers::take_snapshot)),
    ("delete", "/api/v1/snapshots", || delete(handlers::clear_snapshots)),
];

/// The API of `node`.
pub fn router(node: Arc<Node>) -> Router {
    let routes =
        ROUTES.iter().fold(Router::new(), |router, (_, path, handler)| router.route(path, handler()));
    let unknown = || async { ApiError::not_found("there is no such path; see /openapi.json") };
    let wrong_method =
        || async { ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", "the path has no such method") };
    #[cfg(feature = "bulk")]
    let routes = flight(routes, &node);
    routes
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(serve::BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&node), login::check))
        .layer(axum::middleware::from_fn(guard::check))
        .with_state(node)
}

/// What is answered to everybody: numbers, and whether the node is up.
fn open_router(node: Arc<Node>) -> Router {
    let unknown = || async { ApiError::not_found("there are /metrics and /health here") };
    Router::new()
        .route("/health", get(handlers::health))
        .route("/metrics", get(handlers::metrics))
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(serve::BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn(guard::check))
        .with_state(node)
}

/// The same with a Flight service, for `ilion export` and `ilion sql`.
#[cfg(feature = "bulk")]
fn flight(routes: Router<Arc<Node>>, node: &Arc<Node>) -> Router<Arc<Node>> {
    match crate::flight::service(node, "admin", ::bulk::flight::Callers::All) {
        Ok(service) => routes.route_service("/arrow.flight.protocol.FlightService/{call}", service),
        Err(error) => {
            tracing::error!(%error, "the admin API does without Flight");
            routes
        }
    }
}

/// Serves the API on its port and its socket until `stopped`.
pub async fn serve(
    node: Arc<Node>,
    listener: TcpListener,
    socket: Option<PrivateSocket>,
    stopped: watch::Receiver<bool>,
) {
    let (state, limits) = (Arc::clone(&node.state), serve::Limits::default());
    let router = router(node);
    let at_port = async {
        let (router, stopped) = (router.clone(), stopped.clone());
        match (listener.local_addr(), &state.tls) {
            (Ok(address), _) if address.ip().is_loopback() => {
                serve::serve(listener, Endpoint::Tcp(address), limits, router, stopped).await;
            }
            (Ok(_), Some(tls)) => {
                let timeout_ms = state.config.settings.native_transport_tls_handshake_timeout.0;
                let handshake_timeout = Duration::from_millis(timeout_ms);
                // Whatever clients may do, nobody shows a password here without TLS.
                let security = Security::Encrypted(Arc::clone(tls));
                let door = HttpDoor { security, http: Http::Both, handshake_timeout };
                let listener = serve::Secured { listener, door, registry: Arc::clone(&state.connections) };
                serve::serve(listener, Endpoint::Remote, limits, router, stopped).await;
            }
            (Ok(address), None) => tracing::error!(%address, "the admin API does not listen without TLS"),
            (Err(error), _) => tracing::error!(%error, "the admin API has no address"),
        }
    };
    let at_socket = async {
        let Some(socket) = &socket else { return };
        match socket.listener().and_then(UnixListener::from_std) {
            Ok(listener) => {
                serve::serve(listener, Endpoint::Socket, limits, router.clone(), stopped.clone()).await
            }
            Err(error) => tracing::error!(%error, "the admin API does not listen on its socket"),
        }
    };
    tokio::join!(at_port, at_socket);
}

/// Serves what is open to everybody on a port of its own, until `stopped`.
pub async fn serve_metrics(node: Arc<Node>, listener: TcpListener, stopped: watch::Receiver<bool>) {
    let endpoint = match listener.local_addr() {
        Ok(address) if address.ip().is_loopback() => Endpoint::Tcp(address),
        Ok(_) => Endpoint::Open,
        Err(error) => return tracing::error!(%error, "/metrics has no address"),
    };
    serve::serve(listener, endpoint, serve::Limits::default(), open_router(node), stopped).await;
}

/// A JSON body, whose errors are JSON too.
struct Json<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match serve::in_time(serve::BODY_TIMEOUT, axum::Json::<T>::from_request(request, state)).await? {
            Ok(axum::Json(value)) => Ok(Json(value)),
            Err(rejection) => {
                let status = match rejection.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
                    _ => StatusCode::BAD_REQUEST,
                };
                Err(ApiError::new(status, "invalid", rejection.body_text()))
            }
        }
    }
}

/// An error answer.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, kind, message: message.into() }
    }

    fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    fn failed(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody { error: self.kind.to_owned(), message: self.message };
        (self.status, axum::Json(body)).into_response()
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        let message = error.to_string();
        match error {
            StorageError::UnknownKeyspace(_)
            | StorageError::UnknownTable { .. }
            | StorageError::NoTable { .. }
            | StorageError::NoStore { .. } => ApiError::not_found(message),
            StorageError::Invalid(_) => ApiError::new(StatusCode::BAD_REQUEST, "invalid", message),
            StorageError::Engine(EngineError::UnknownKeyspace(_) | EngineError::UnknownTable { .. }) => {
                ApiError::not_found(message)
            }
            StorageError::Engine(EngineError::SnapshotExists(_)) => {
                ApiError::new(StatusCode::CONFLICT, "conflict", message)
            }
            StorageError::Engine(
                EngineError::NoDirectory(_)
                | EngineError::SnapshotName { .. }
                | EngineError::NotWritable(_)
                | EngineError::Foreign { .. },
            ) => ApiError::new(StatusCode::BAD_REQUEST, "invalid", message),
            StorageError::Engine(_) => ApiError::failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let mut described: Vec<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
            })
            .collect();
        let mut there: Vec<(String, String)> =
            ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
        described.sort();
        there.sort();
        assert_eq!(described, there);
    }

    #[test]
    fn every_reference_in_the_description_resolves() {
        fn walk(value: &Value, visit: &mut impl FnMut(&str)) {
            match value {
                Value::Object(map) => {
                    for (key, value) in map {
                        match value {
                            Value::String(target) if key == "$ref" => visit(target),
                            other => walk(other, visit),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
                _ => {}
            }
        }
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let mut count = 0;
        walk(&document, &mut |target| {
            count += 1;
            let pointer = target.strip_prefix('#').expect("references stay in the document");
            assert!(document.pointer(pointer).is_some(), "{target}");
        });
        assert!(count > 20);
    }
}
