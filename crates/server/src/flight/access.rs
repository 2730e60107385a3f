//! Who asks Flight, and what that may read.
//!
//! ```text
//! call ─> certificate, or header ─> role, fresh grants ─> TablesOfRole goes along with the call ─> service
//!                └─ UNAUTHENTICATED                            └─ each table that is opened: SELECT?
//! ```
//!
//! 1. Every call passes [`Identified`], whatever it is. Where nobody has to log in it says to the audit log
//!    where the call comes from, and nothing else.
//! 2. Where certificates are logins, a call is made as the role of its connection's certificate, whatever its
//!    header says: as with CQL. Clients that send a password all the same get a token that is none.
//! 3. A call with a name and a password is answered with a token in the `authorization` header, as the
//!    clients of Flight expect it. They send it along with their next calls.
//! 4. The service opens tables through [`TablesOfRole`] alone, when it plans and when it hands out rows.
//!
//! Rows go out as they are stored, so a table with masked columns is for who may UNMASK them.

use super::door::Visitor;
use super::{NodeTables, log_of_caller};
use crate::auth::Principal;
use crate::auth::check;
use crate::auth::http::{self, By, Caller, Foremost};
use crate::node::Node;
use axum::http::header::{AUTHORIZATION, HeaderValue};
use axum::http::{Request, Response};
use bulk::flight::TablesOfCaller;
use bulk::{BulkError, Table, Tables};
use model::Schema;
use protocol::response::error::{ErrorKind, ErrorResponse};
use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

/// What a client is answered that shows a password beside its certificate: some take nothing else for a
/// login. It is worth nothing.
const NO_TOKEN: &str = "Bearer certificate";

/// The tables as a role may read them.
#[derive(Debug)]
pub(crate) struct TablesOfRole {
    tables: NodeTables,
    principal: Arc<Principal>,
    authorizes: bool,
    /// Whether masks hide anything.
    masks: bool,
}

impl TablesOfRole {
    /// Those of a role, in whose lists scans are said to be asked for by `asked_by`.
    pub(crate) fn new(node: &Node, principal: Arc<Principal>, asked_by: &'static str) -> TablesOfRole {
        let state = Arc::clone(&node.state);
        let authorizes = state.auth.authorizes();
        let masks = state.config.settings.dynamic_data_masking_enabled;
        TablesOfRole { tables: NodeTables::new(state, asked_by), principal, authorizes, masks }
    }

    /// As what goes along with a request.
    pub(crate) fn of_caller(self) -> TablesOfCaller {
        TablesOfCaller(Arc::new(self))
    }

    fn check(&self, keyspace: &str, name: &str) -> Result<(), ErrorResponse> {
        if !self.authorizes {
            return Ok(());
        }
        let schema = self.schema();
        check::check_read(&self.principal, keyspace, name, &schema)?;
        let table = schema.keyspace(keyspace).and_then(|keyspace| keyspace.store(name));
        match table.filter(|table| self.masks && !table.masks.is_empty()) {
            Some(table) => check::check_unmasked(&self.principal, table),
            None => Ok(()),
        }
    }
}

impl Tables for TablesOfRole {
    fn schema(&self) -> Arc<Schema> {
        self.tables.schema()
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        let schema = self.schema();
        if schema.keyspace(keyspace).and_then(|keyspace| keyspace.store(name)).is_some() {
            self.check(keyspace, name).map_err(|refused| BulkError::Denied(refused.message))?;
        }
        self.tables.table(keyspace, name)
    }

    fn names(&self) -> Vec<(String, String)> {
        self.tables.names()
    }

    fn may_read(&self, keyspace: &str, name: &str) -> bool {
        self.check(keyspace, name).is_ok()
    }
}

/// A service whose callers log in, where clients have to.
#[derive(Clone)]
pub(super) struct Identified<S> {
    service: S,
    node: Arc<Node>,
}

impl<S> Identified<S> {
    pub(super) fn new(service: S, node: Arc<Node>) -> Identified<S> {
        Identified { service, node }
    }
}

impl<S: NamedService> NamedService for Identified<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Identified<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The one that is ready is the one to be called.
        let next = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, next);
        let node = Arc::clone(&self.node);
        Box::pin(async move {
            let nobody = Visitor { peer: (Ipv4Addr::UNSPECIFIED, 0).into(), certificate: None };
            let Visitor { peer: from, certificate } =
                request.extensions().get::<Visitor>().cloned().unwrap_or(nobody);
            if !node.state.auth.authenticates() {
                if let Some(log) = log_of_caller(&node.state, None, from).await {
                    request.extensions_mut().insert(log);
                }
                return service.call(request).await;
            }
            let shown = certificate.as_deref();
            let caller = http::identify(&node, request.headers(), shown, Foremost::Certificate, from).await;
            let Caller { principal, by } = match caller {
                Ok(caller) => caller,
                Err(error) => return Ok(refusal(error).into_http()),
            };
            let header = request.headers_mut().remove(AUTHORIZATION);
            if let Some(log) = log_of_caller(&node.state, Some(principal.name()), from).await {
                request.extensions_mut().insert(log);
            }
            let tables = TablesOfRole::new(&node, Arc::clone(&principal), "flight");
            request.extensions_mut().insert(tables.of_caller());
            let mut response = service.call(request).await?;
            let token = match by {
                By::Password => http::token(&node, &principal),
                By::Certificate => header.map(|_| HeaderValue::from_static(NO_TOKEN)),
                By::Token => None,
            };
            if let Some(token) = token {
                response.headers_mut().insert(AUTHORIZATION, token);
            }
            Ok(response)
        })
    }
}

/// What a caller is told who is not let in.
pub(crate) fn refusal(error: ErrorResponse) -> Status {
    match error.kind {
        ErrorKind::BadCredentials => Status::unauthenticated(error.message),
        ErrorKind::Unauthorized => Status::permission_denied(error.message),
        ErrorKind::Overloaded => Status::resource_exhausted(error.message),
        _ => Status::internal(error.message),
    }
}
