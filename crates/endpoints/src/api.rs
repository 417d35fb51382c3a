//! The gate that every request passes, and the way from there to its handler.
//!
//! Kept true, in this order: a request without valid credentials is refused; a request that its user may not make is
//! refused before anything about its object is looked at; a request beyond the limits is refused with 429.

use crate::{
    auth::{
        Authenticator, Authorizer, ClientCertificate, Credentials, Impersonation, SYSTEM_MASTERS, User,
        authorized,
    },
    body::Body,
    connection_state::{ConnectionPermit, ConnectionState},
    description::{Description, LastDescription},
    fair_semaphore::{FairPermit, FairSemaphore},
    handlers::{self, NoRoute},
    health::{Health, is_probe},
    large_documents,
    metrics::{ApiMetrics, MetricsEndpoint},
    negotiation::Form,
    openapi::Descriptions,
    origins::{AllowedOrigins, FOREIGN_ORIGIN, allow, is_cross_origin, is_dangerous},
    query::{Query, has_whole_escapes},
    render,
    request_body::{self, BODY_BYTES_MAX, Unread},
    request_context::RequestContext,
    request_info::RequestInfo,
    respond::{RETRY_AFTER_SECONDS, add_warnings, page_not_found, plain, plain_text, too_many, typed},
    shutdown::Shutdown,
    unauthenticated::UnauthenticatedConnections,
    watch::{Encodings, websocket},
    watch_limits::{TooMany, WatchLimits, WatchPermit},
    watch_turns::ReadingTurns,
};
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use keepwatch_apimachinery::{meta::Qualified, status::Status};
use keepwatch_registry::{Registry, codec::Media, kinds::TokenIssuer};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Semaphore};
use tokio_util::task::AbortOnDropHandle;

/// Limits, addresses and descriptions of the HTTP API.
pub struct ApiOptions {
    /// The time within which a request has to be answered.
    pub request_timeout: Duration,
    /// The time that a watch lasts at least if its client sets no timeout; at most twice as long.
    pub min_watch: Duration,
    /// The number of reads that may be in flight.
    pub reads_in_flight_max: usize,
    /// The number of writes that may be in flight.
    pub writes_in_flight_max: usize,
    /// The origins whose pages may call from a browser.
    pub allowed_origins: AllowedOrigins,
    /// The address of the server that discovery shows.
    pub address: String,
    /// Describes types and fields in OpenAPI documents.
    pub descriptions: Descriptions,
}

/// The HTTP API.
pub struct Api {
    pub(crate) registry: Arc<Registry>,
    pub(crate) encodings: Arc<Encodings>,
    pub(crate) options: ApiOptions,
    pub(crate) metrics: ApiMetrics,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) tokens: Option<Arc<dyn TokenIssuer>>,
    /// The shutdown of the server, with which watches end.
    pub(crate) shutdown: Shutdown,
    pub(crate) health: Health,
    pub(crate) gathered: MetricsEndpoint,
    description: LastDescription,
    reads: Arc<FairSemaphore>,
    writes: Arc<FairSemaphore>,
    /// Bytes of request bodies, and of the documents that answers are made from.
    held: Arc<FairSemaphore>,
    /// Requests whose bodies are being read. Each takes some memory, however little of its body has arrived.
    reading: Arc<FairSemaphore>,
    watches: WatchLimits,
    /// The turns in which watches send what they do not receive live.
    pub(crate) reading_turns: ReadingTurns,
    pub(crate) unauthenticated: Arc<UnauthenticatedConnections>,
    /// Permits to read the rest of the body of a refused request.
    discards: Semaphore,
}

/// The parts of an [`Api`].
pub struct Parts {
    /// The operations on objects.
    pub registry: Arc<Registry>,
    /// The encoded events that watches share.
    pub encodings: Arc<Encodings>,
    /// Limits and addresses.
    pub options: ApiOptions,
    /// Finds the user of a request.
    pub authenticator: Authenticator,
    /// Decides which user may do what.
    pub authorizer: Arc<dyn Authorizer>,
    /// Issues tokens for service accounts.
    pub tokens: Option<Arc<dyn TokenIssuer>>,
    /// The health checks.
    pub health: Health,
    /// The registry of metrics.
    pub metrics: MetricsEndpoint,
    /// The shutdown of the server.
    pub shutdown: Shutdown,
}

/// The number of bytes that all requests together may hold: their bodies, and the documents that their answers are made
/// from.
const HELD_BYTES_MAX: usize = 256 << 20;
/// The number of them that a user may hold in any case: an ordinary write, whatever others hold.
const HELD_BYTES_OF_EACH: usize = 64 << 10;
/// The number of request bodies that are read at a time.
const BODIES_READ_MAX: usize = 8192;
/// The number of bytes that an answer may hold without being counted.
const UNCOUNTED_BYTES_MAX: usize = 16 << 10;
/// The longest path with its parameters.
pub const URL_BYTES_MAX: usize = 32 << 10;

impl Api {
    /// An API of these parts.
    pub fn new(parts: Parts) -> Result<Api, prometheus::Error> {
        let description = LastDescription::new(
            parts.registry.catalog().snapshot(),
            &parts.options.address,
            Arc::clone(&parts.options.descriptions),
        );
        Ok(Api {
            registry: parts.registry,
            encodings: parts.encodings,
            metrics: ApiMetrics::register(parts.metrics.registry())?,
            authenticator: parts.authenticator,
            authorizer: parts.authorizer,
            tokens: parts.tokens,
            shutdown: parts.shutdown,
            health: parts.health,
            gathered: parts.metrics,
            description,
            reads: FairSemaphore::new(parts.options.reads_in_flight_max),
            writes: FairSemaphore::new(parts.options.writes_in_flight_max),
            held: FairSemaphore::with_some_for_each(HELD_BYTES_MAX, HELD_BYTES_OF_EACH),
            reading: FairSemaphore::new(BODIES_READ_MAX),
            watches: WatchLimits::new(),
            reading_turns: ReadingTurns::new(),
            unauthenticated: Arc::default(),
            discards: Semaphore::new(DISCARDS_MAX),
            options: parts.options,
        })
    }

    /// The documents about the kinds that are served now.
    pub(crate) fn description(&self) -> Arc<Description> {
        self.description.of(&self.registry.catalog().snapshot())
    }

    /// Answers a request. `certificate` is the one that the client presented when it connected.
    pub(crate) async fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        certificate: Option<&ClientCertificate>,
        connection: &Arc<ConnectionState>,
    ) -> Response<Body> {
        let began = Instant::now();
        let is_head = request.method() == Method::HEAD;
        let waits_to_send = request.headers().contains_key(header::EXPECT);
        let audit_id = audit_id(request.headers());
        let origin = request.headers().get(header::ORIGIN).cloned();
        let preflight = request.method() == Method::OPTIONS && origin.is_some();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::new(request.method(), request.uri().path(), |name| query.first(name));
        let kind = match info.is_resource {
            true => self.registry.catalog().find(&info.group, &info.version, &info.resource),
            false => None,
        };
        let dry_run = query.first("dryRun").is_some();
        let allowed_origin = origin
            .filter(|origin| origin.to_str().is_ok_and(|origin| self.options.allowed_origins.allows(origin)));
        let mut response = if preflight && allowed_origin.is_some() {
            plain(StatusCode::NO_CONTENT)
        } else {
            let context = RequestContext {
                info: info.clone(),
                kind: kind.clone(),
                query,
                headers: std::mem::take(request.headers_mut()),
                user: Arc::default(),
                limited_as: Arc::default(),
                connection: Arc::clone(connection),
            };
            let answering = Arc::clone(&self).answer(context, &mut request, certificate);
            AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!(path = info.path, "a request failed");
                typed(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    Form::JSON.content_type(),
                    Body::from(render::status(&failed(), Media::Json, false)),
                )
            })
        };
        let code = response.status().as_u16();
        let size = http_body::Body::size_hint(response.body()).exact().or_else(|| {
            let said = response.headers().get(header::CONTENT_LENGTH)?;
            said.to_str().ok()?.parse().ok()
        });
        self.metrics.answered(&info, kind.as_deref(), dry_run, code, began.elapsed(), size);
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let headers = response.headers_mut();
            headers.insert(HeaderName::from_static("audit-id"), audit_id);
            headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        }
        if let Some(origin) = allowed_origin {
            allow(response.headers_mut(), origin);
        }
        // A client that waits for `100 Continue` has not sent its body.
        if !waits_to_send && !response.body().is_endless() {
            self.discard(request.body_mut()).await;
        }
        if is_head { without_body(response, size) } else { response }
    }

    /// Reads the rest of a body. A connection that is closed with unread bytes is reset, and a client that is still
    /// sending never sees the answer then. When many bodies are being discarded, this one is left unread: the bodies of
    /// a flood of refused requests must not stay in memory.
    async fn discard(&self, body: &mut Incoming) {
        if http_body::Body::is_end_stream(body) {
            return;
        }
        let Ok(_permit) = self.discards.try_acquire() else { return };
        let reading = async {
            let mut left = DISCARD_BYTES_MAX;
            while let Some(Ok(frame)) = body.frame().await {
                let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
                left = rest;
            }
        };
        let _ = tokio::time::timeout(DISCARD_WAIT_MAX, reading).await;
    }

    async fn answer(
        self: Arc<Self>,
        mut context: RequestContext,
        request: &mut Request<Incoming>,
        certificate: Option<&ClientCertificate>,
    ) -> Response<Body> {
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > URL_BYTES_MAX) {
            return plain_text(StatusCode::URI_TOO_LONG, "the path and its parameters are too long\n");
        }
        if !has_whole_escapes(request.uri().path()) {
            return plain_text(StatusCode::BAD_REQUEST, "400 Bad Request");
        }
        // kube-apiserver checks this first, too.
        if !context.info.is_long_running()
            && let Err(status) = context.query.timeout(self.options.request_timeout)
        {
            return context.refusal(&status);
        }
        // A browser presents its user's certificate for every page, so it counts only for pages of allowed origins.
        let is_foreign = is_dangerous(request.method(), &context.headers)
            && is_cross_origin(&context.headers, request.uri(), &self.options.allowed_origins);
        let presented = certificate.filter(|_| !is_foreign);
        let found = self
            .authenticator
            .authenticate(Credentials { peer_certificate: presented, headers: &context.headers });
        let authenticated = match found.await {
            Ok(authenticated) => authenticated,
            Err(status) => return context.refusal(&status),
        };
        if is_foreign && certificate.is_some() && authenticated.user.is_anonymous() {
            return context.refusal(&Status::forbidden(Qualified::core(""), "", FOREIGN_ORIGIN));
        }
        if !authenticated.user.is_anonymous() {
            context.connection.unauthenticated.remove();
        }
        authenticated.remove_credentials(&mut context.headers);
        context.user = Arc::clone(&authenticated.user);
        context.limited_as = Arc::clone(&authenticated.user);
        let mut response = self.answer_user(context, request).await;
        if let Some(warning) = authenticated.warning {
            add_warnings(response.headers_mut(), &[warning.to_owned()]);
        }
        response
    }

    async fn answer_user(
        self: Arc<Self>,
        mut context: RequestContext,
        request: &mut Request<Incoming>,
    ) -> Response<Body> {
        let attributes = context.attributes();
        match Impersonation::from_headers(&context.headers) {
            Ok(None) => {}
            Ok(Some(impersonation)) => {
                match impersonation.decide(&*self.authorizer, &context.user, &attributes).await {
                    Ok(user) => context.user = user,
                    Err(status) => return context.refusal(&status),
                }
            }
            Err(status) => return context.refusal(&status),
        }
        if let Err(status) = authorized(&*self.authorizer, &context.user, &context.attributes()).await {
            return context.refusal(&status);
        }
        if context.info.is_resource {
            return self.answer_resource(context, request).await;
        }
        // A busy server is not unhealthy: probes need no permit.
        let permit = match is_probe(&context.info.path) {
            true => None,
            false => match self.in_flight_permit(&context, request.method()) {
                None => return too_many(),
                permit => permit,
            },
        };
        let deadline = tokio::time::Instant::now() + self.options.request_timeout;
        let mut response = self.answer_non_resource(&context, request.method()).await;
        if let Some(size) = http_body::Body::size_hint(response.body()).exact() {
            response.headers_mut().insert(header::CONTENT_LENGTH, size.into());
        }
        response.map(|body| body.on_behalf_of(&context.limited_as).with_deadline(permit, deadline))
    }

    /// A permit to be in flight, if user and connection have not as many as they may have.
    fn in_flight_permit(&self, context: &RequestContext, method: &Method) -> Option<InFlightPermit> {
        let is_write = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let (permits, max) = match is_write {
            true => (&self.writes, self.options.writes_in_flight_max),
            false => (&self.reads, self.options.reads_in_flight_max),
        };
        let is_master = context.limited_as.is_in(SYSTEM_MASTERS);
        let of_connection =
            context.connection.permit(is_write, if is_master { max } else { max.div_ceil(2) })?;
        let of_user = permits.acquire(&context.limited_as, 1)?;
        let count = self.metrics.in_flight(is_write);
        count.inc();
        Some(InFlightPermit { _of_user: of_user, _of_connection: of_connection, count })
    }

    /// A permit to hold so many bytes, if there is room for this user. Few bytes are not counted.
    pub(crate) fn hold(&self, user: &Arc<User>, bytes: usize) -> Result<Option<FairPermit>, Status> {
        match bytes.checked_sub(UNCOUNTED_BYTES_MAX) {
            None | Some(0) => Ok(None),
            Some(counted) => self.held.acquire(user, counted).map(Some).ok_or_else(too_much_at_once),
        }
    }

    /// A permit for an open watch with these selectors.
    pub(crate) fn watch_permit(&self, user: &Arc<User>, selectors: [&str; 2]) -> Result<WatchPermit, Status> {
        self.watches.permit(user, selectors, &self.held).map_err(|reason| match reason {
            TooMany::Watches => too_many_watches(),
            TooMany::Selectors => too_much_at_once(),
        })
    }

    async fn answer_resource(
        self: Arc<Self>,
        context: RequestContext,
        request: &mut Request<Incoming>,
    ) -> Response<Body> {
        let info = &context.info;
        let Some(kind) = context.kind.clone() else {
            return if self.registry.catalog().snapshot().has_built_in_group(&info.group) {
                context.refusal(&Status::unknown_path())
            } else {
                page_not_found()
            };
        };
        let deprecated = Arc::clone(&kind);
        let mut response = match handlers::route(kind, &context, request.method()) {
            Err(NoRoute::Page) => return page_not_found(),
            // A path that does not exist is not deprecated either.
            Err(NoRoute::Status(status))
                if !deprecated.is_custom()
                    && (status.code == 404 || *status == Status::method_not_allowed()) =>
            {
                return context.refusal(&status);
            }
            Err(NoRoute::Status(status)) => context.refusal(&status),
            Ok(route) => self.run(context, route, request).await,
        };
        if let Some(warning) = &deprecated.deprecation {
            // This warning comes first.
            let headers = response.headers_mut();
            let others: Vec<HeaderValue> = headers.get_all(header::WARNING).iter().cloned().collect();
            headers.remove(header::WARNING);
            add_warnings(headers, &[warning.to_string()]);
            headers.extend(others.into_iter().map(|other| (header::WARNING, other)));
        }
        response
    }

    async fn run(
        self: Arc<Self>,
        context: RequestContext,
        route: handlers::Route,
        request: &mut Request<Incoming>,
    ) -> Response<Body> {
        if let handlers::Action::Watch = route.action {
            let upgrade = (websocket::is_upgrade(&context.headers)
                && request.version() == http::Version::HTTP_11)
                .then(|| hyper::upgrade::on(&mut *request));
            return match handlers::watch(&self, &context, &route, upgrade).await {
                Ok(response) => response,
                Err(refused) => context.refusal_of(refused),
            };
        }
        // A timeout that is no duration was refused before, except for requests that may take any time.
        let timeout =
            context.query.timeout(self.options.request_timeout).unwrap_or(self.options.request_timeout);
        let deadline = tokio::time::Instant::now() + timeout;
        let Some(reading) = self.reading.acquire(&context.limited_as, 1) else { return too_many() };
        let mut bytes_held = self.held.empty_permit(&context.limited_as);
        let reading_body = request_body::read(request.body_mut(), &mut bytes_held);
        let body = match tokio::time::timeout_at(deadline, reading_body).await {
            Ok(Ok(body)) => body,
            Ok(Err(unread)) => return context.refusal(&refusal(&unread)),
            Err(_) => return context.refusal(&too_slow()),
        };
        drop(reading);
        // Not earlier: a client that does not send its body must not keep others out.
        let Some(permit) = self.in_flight_permit(&context, request.method()) else { return too_many() };
        let is_write = route.action.writes();
        let context = Arc::new(context);
        let (own, its) = (Arc::clone(&self), Arc::clone(&context));
        let is_large = handlers::is_large(&own, &its, &route, &body).await;
        let body_bytes = body.len();
        let work = async move {
            let answer = own.handle_by_threads(its, route, body, deadline.into_std()).await;
            drop(bytes_held);
            (answer, Some(permit))
        };
        let changes = is_write && context.query.first("dryRun").is_none();
        let done = tokio::time::timeout_at(deadline, async {
            let turn = match is_large {
                true => large_documents::request_permit(&context.limited_as, body_bytes).await,
                false => None,
            };
            // Many requests may have waited here. They are not begun any more.
            if is_large && self.shutdown.signal.is_set() {
                return Ok((Err(Status::service_unavailable("the server is stopping").into()), None));
            }
            let work = async move {
                let done = work.await;
                drop(turn);
                done
            };
            // A write that was begun is finished whether its client still listens or not, and holds its permit until then.
            match (is_large, changes) {
                (true, true) => self.shutdown.finish_on(work, large_documents::requests(body_bytes)).await,
                (true, false) => {
                    AbortOnDropHandle::new(large_documents::requests(body_bytes).spawn(work)).await
                }
                (false, true) => self.shutdown.finish_on(work, &Handle::current()).await,
                (false, false) => Ok(work.await),
            }
        });
        match done.await {
            Ok(Ok((Ok(answer), permit))) => {
                let response = tokio::time::timeout_at(deadline, context.response(answer, permit, deadline));
                response.await.unwrap_or_else(|_| context.refusal(&too_slow()))
            }
            Ok(Ok((Err(refused), _))) => context.refusal_of(refused),
            Ok(Err(error)) => {
                tracing::error!(%error, "a request failed");
                context.refusal(&failed())
            }
            Err(_) => context.refusal(&too_slow()),
        }
    }

    /// Handles a request on this thread, and begins again on a thread for that if rules take long.
    async fn handle_by_threads(
        self: Arc<Self>,
        context: Arc<RequestContext>,
        route: handlers::Route,
        body: Bytes,
        deadline: Instant,
    ) -> Result<handlers::Answer, handlers::ErrorResponse> {
        let max = Some(large_documents::RULES_ON_SHARED_THREAD_MAX);
        let answer = handlers::handle(&self, &context, &route, body.clone(), deadline, max).await;
        let Err(handlers::ErrorResponse::TakesLong) = answer else { return answer };
        let turn = large_documents::LONG_RULES_OF_USER.acquire(&context.limited_as).await;
        let work = async move {
            let answer = handlers::handle(&self, &context, &route, body, deadline, None).await;
            drop(turn);
            answer
        };
        let done = AbortOnDropHandle::new(large_documents::rules().spawn(work)).await;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "a request failed");
            Err(failed().into())
        })
    }
}

fn failed() -> Status {
    Status::internal_error("the request could not be carried out")
}

pub(crate) fn too_slow() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

fn refusal(unread: &Unread) -> Status {
    match unread {
        Unread::TooLarge => Status::request_entity_too_large(&format!("limit is {BODY_BYTES_MAX}")),
        Unread::TooMuchHeld => too_much_at_once(),
        Unread::Invalid(why) => {
            Status::bad_request(format!("the body of the request could not be read: {why}"))
        }
    }
}

fn too_much_at_once() -> Status {
    let message = "too much is held for other requests of this user, please try again later";
    Status::too_many_requests(message, RETRY_AFTER_SECONDS)
}

fn too_many_watches() -> Status {
    Status::too_many_requests("too many watches are open, please try again later", RETRY_AFTER_SECONDS)
}

/// One of the requests that may be in flight.
pub(crate) struct InFlightPermit {
    _of_user: FairPermit,
    _of_connection: ConnectionPermit,
    count: prometheus::IntGauge,
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.count.dec();
    }
}

/// The size of the part of a refused request's body that is read, and the time for it.
const DISCARD_BYTES_MAX: usize = 16 << 20;
const DISCARD_WAIT_MAX: Duration = Duration::from_secs(5);
/// The number of bodies that are discarded at a time.
const DISCARDS_MAX: usize = 256;

/// The answer to a HEAD request. hyper removes the body over HTTP/1 but not over HTTP/2.
fn without_body(response: Response<Body>, size: Option<u64>) -> Response<Body> {
    let mut response = response.map(|_| Body::empty());
    if let Some(size) = size {
        response.headers_mut().insert(header::CONTENT_LENGTH, size.into());
    }
    response
}

fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get("audit-id").filter(|id| !id.is_empty());
    given.cloned().unwrap_or_else(|| {
        let id = keepwatch_registry::new_uid();
        HeaderValue::from_str(&id).expect("a uid can be a header")
    })
}
