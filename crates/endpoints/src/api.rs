//! The one gate that every request passes, and the way from there to its handler.
//!
//! Kept true, in this order: a request without a good credential goes nowhere; one past the limits is told to come back;
//! one that its user may not make is refused before anything about its object is looked at.

use crate::{
    auth::{
        Attributes, Authenticator, Authorizer, ClientCertificate, Credentials, Impersonation, SYSTEM_MASTERS,
        User, authorized,
    },
    body::Body,
    discovery,
    handlers::{self, Answer},
    health::{Health, is_probe},
    large,
    metrics::{ApiMetrics, Gathered},
    negotiation::{self, Answering, Form},
    openapi,
    origins::AllowedOrigins,
    query::{Query, has_whole_escapes},
    render,
    request_info::RequestInfo,
    serve::{Ending, Line, OnLine},
    shares::{Share, Shares},
    watch::websocket,
};
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use keepwatch_apimachinery::{meta::Qualified, status::Status};
use keepwatch_cacher::Encodings;
use keepwatch_registry::{Registry, codec::Media, kinds, rest::is_path_segment, subresource::TokenIssuer};
use serde_json::json;
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Semaphore};

/// How the HTTP side behaves.
pub struct ApiOptions {
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long a watch lasts at the least if its client does not say; at the most twice as long.
    pub min_watch: Duration,
    /// How many requests that only read are answered at once.
    pub reads_in_flight_max: usize,
    /// How many requests that write are answered at once.
    pub writes_in_flight_max: usize,
    /// Which pages may talk to the server.
    pub allowed_origins: AllowedOrigins,
    /// Where the server can be reached, as discovery says it.
    pub address: String,
}

/// The whole HTTP API.
pub struct Api {
    pub(crate) registry: Arc<Registry>,
    pub(crate) encodings: Arc<Encodings>,
    pub(crate) options: ApiOptions,
    pub(crate) metrics: ApiMetrics,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) tokens: Option<Arc<dyn TokenIssuer>>,
    /// How the server ends: watches end with it.
    pub(crate) ending: Ending,
    pub(crate) health: Health,
    gathered: Gathered,
    discovery: LazyLock<discovery::Documents, Box<dyn FnOnce() -> discovery::Documents + Send>>,
    reads: Arc<Shares>,
    writes: Arc<Shares>,
    /// Bytes of bodies, and of answers that wait to be sent.
    held: Arc<Shares>,
    /// Requests whose bodies are being read: each takes some memory, however little of it has come.
    reading: Arc<Shares>,
    /// Permits to read bodies that nobody wants.
    discards: Semaphore,
}

/// What an [`Api`] is made of.
pub struct Parts {
    /// What can be done with objects.
    pub registry: Arc<Registry>,
    /// The forms of events.
    pub encodings: Arc<Encodings>,
    /// How it behaves.
    pub options: ApiOptions,
    /// Who a request comes from.
    pub authenticator: Authenticator,
    /// Who may do what.
    pub authorizer: Arc<dyn Authorizer>,
    /// Who makes tokens for service accounts.
    pub tokens: Option<Arc<dyn TokenIssuer>>,
    /// Whether all is well.
    pub health: Health,
    /// Where everything is counted.
    pub metrics: Gathered,
    /// How the server ends.
    pub ending: Ending,
}

/// The largest body of a request.
pub const BODY_BYTES_MAX: usize = 3 << 20;
/// How many bytes are held for all requests together: of their bodies, and of what their answers are made from.
const HELD_BYTES_MAX: usize = 256 << 20;
/// How many bodies are read at a time.
const BODIES_READ_MAX: usize = 8192;
/// How many bytes an answer may have held before they are counted.
const UNCOUNTED_BYTES_MAX: usize = 16 << 10;
/// The longest path with its parameters.
pub const URL_BYTES_MAX: usize = 32 << 10;
/// When a client that came at a bad time may come again.
const RETRY_AFTER_SECONDS: u32 = 1;

impl Api {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Result<Api, prometheus::Error> {
        let address = parts.options.address.clone();
        let make = move || discovery::Documents::new(discovery::built_in(), &address);
        Ok(Api {
            registry: parts.registry,
            encodings: parts.encodings,
            metrics: ApiMetrics::register(parts.metrics.registry())?,
            authenticator: parts.authenticator,
            authorizer: parts.authorizer,
            tokens: parts.tokens,
            ending: parts.ending,
            health: parts.health,
            gathered: parts.metrics,
            discovery: LazyLock::new(Box::new(make)),
            reads: Shares::new(parts.options.reads_in_flight_max),
            writes: Shares::new(parts.options.writes_in_flight_max),
            held: Shares::new(HELD_BYTES_MAX),
            reading: Shares::new(BODIES_READ_MAX),
            discards: Semaphore::new(DISCARDS_MAX),
            options: parts.options,
        })
    }

    /// Answers a request. `certificate` is what the client showed of itself when it connected.
    pub(crate) async fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        certificate: Option<&ClientCertificate>,
        line: &Arc<Line>,
    ) -> Response<Body> {
        let began = Instant::now();
        let is_head = request.method() == Method::HEAD;
        let waits_to_send = request.headers().contains_key(header::EXPECT);
        let audit_id = audit_id(request.headers());
        let origin = request.headers().get(header::ORIGIN).cloned();
        let preflight = request.method() == Method::OPTIONS && origin.is_some();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::new(request.method(), request.uri().path(), |name| query.first(name));
        let dry_run = query.first("dryRun").is_some();
        let allowed_origin = origin
            .filter(|origin| origin.to_str().is_ok_and(|origin| self.options.allowed_origins.allows(origin)));
        let mut response = if preflight && allowed_origin.is_some() {
            plain(StatusCode::NO_CONTENT)
        } else {
            let pass = Pass {
                info: info.clone(),
                query,
                headers: std::mem::take(request.headers_mut()),
                user: Arc::default(),
                line: Arc::clone(line),
            };
            let answering = Arc::clone(&self).answer(pass, &mut request, certificate);
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
        self.metrics.answered(&info, dry_run, code, began.elapsed(), size);
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let headers = response.headers_mut();
            headers.insert(HeaderName::from_static("audit-id"), audit_id);
            headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        }
        if let Some(origin) = allowed_origin {
            allow(response.headers_mut(), origin);
        }
        // A client that waits to be asked for its body has not sent it.
        if !waits_to_send && !response.body().is_endless() {
            self.discard(request.body_mut()).await;
        }
        if is_head { without_body(response, size) } else { response }
    }

    /// Reads the rest of a body. A connection that is closed with something unread is reset, and a client that is still
    /// sending then never sees the answer. When many bodies are being discarded, the rest of this one is left unread:
    /// a flood of refused requests must not be held in memory.
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
        mut pass: Pass,
        request: &mut Request<Incoming>,
        certificate: Option<&ClientCertificate>,
    ) -> Response<Body> {
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > URL_BYTES_MAX) {
            return plain_text(StatusCode::URI_TOO_LONG, "the path and its parameters are too long\n");
        }
        if !has_whole_escapes(request.uri().path()) {
            return plain_text(StatusCode::BAD_REQUEST, "400 Bad Request");
        }
        // Before anything else, as the original does.
        if !pass.info.is_long_running()
            && let Err(status) = pass.query.timeout(self.options.request_timeout)
        {
            return pass.refusal(&status);
        }
        // A browser shows its user's certificate whichever page asks, so it counts only for pages that are allowed.
        let is_foreign = is_dangerous(request.method(), &pass.headers)
            && is_cross_origin(&pass.headers, request.uri(), &self.options.allowed_origins);
        let shown = certificate.filter(|_| !is_foreign);
        let found =
            self.authenticator.authenticate(Credentials { peer_certificate: shown, headers: &pass.headers });
        let authenticated = match found.await {
            Ok(authenticated) => authenticated,
            Err(status) => return pass.refusal(&status),
        };
        if is_foreign && certificate.is_some() && authenticated.user.is_anonymous() {
            return pass.refusal(&Status::forbidden(Qualified::core(""), "", FOREIGN_ORIGIN));
        }
        authenticated.remove_credentials(&mut pass.headers);
        pass.user = Arc::clone(&authenticated.user);
        let mut response = self.answer_user(pass, request).await;
        if let Some(warning) = authenticated.warning {
            add_warnings(response.headers_mut(), &[warning.to_owned()]);
        }
        response
    }

    async fn answer_user(self: Arc<Self>, mut pass: Pass, request: &mut Request<Incoming>) -> Response<Body> {
        let attributes = pass.attributes();
        match Impersonation::from_headers(&pass.headers) {
            Ok(None) => {}
            Ok(Some(impersonation)) => {
                match impersonation.decide(&*self.authorizer, &pass.user, &attributes).await {
                    Ok(user) => pass.user = user,
                    Err(status) => return pass.refusal(&status),
                }
            }
            Err(status) => return pass.refusal(&status),
        }
        if let Err(status) = authorized(&*self.authorizer, &pass.user, &pass.attributes()).await {
            return pass.refusal(&status);
        }
        if pass.info.is_resource {
            return self.answer_resource(pass, request).await;
        }
        // A server that has much to do is not ill: probes need no place.
        let place = match is_probe(&pass.info.path) {
            true => None,
            false => match self.place(&pass, request.method()) {
                None => return too_many(),
                place => place,
            },
        };
        let response = self.answer_other(&pass, request.method()).await;
        drop(place);
        response
    }

    /// A place among those that are answered, if there is one for the user and for the connection.
    fn place(&self, pass: &Pass, method: &Method) -> Option<Place> {
        let is_write = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let (places, max) = match is_write {
            true => (&self.writes, self.options.writes_in_flight_max),
            false => (&self.reads, self.options.reads_in_flight_max),
        };
        let is_master = pass.user.is_in(SYSTEM_MASTERS);
        let on_line = pass.line.place(is_write, if is_master { max } else { max.div_ceil(2) })?;
        let share = places.take(&pass.user, 1)?;
        let count = self.metrics.in_flight(is_write);
        count.inc();
        Some(Place { _share: share, _on_line: on_line, count })
    }

    /// A share of the bytes that are held for requests, if there is one for the user. Few bytes are not counted.
    pub(crate) fn hold(&self, user: &Arc<User>, bytes: usize) -> Result<Option<Share>, Status> {
        match bytes.checked_sub(UNCOUNTED_BYTES_MAX) {
            None | Some(0) => Ok(None),
            Some(counted) => self.held.take(user, counted).map(Some).ok_or_else(too_much_at_once),
        }
    }

    async fn answer_other(&self, pass: &Pass, method: &Method) -> Response<Body> {
        let path = pass.info.path.as_str();
        if let Some(report) = self.health.answer(path, &pass.query).await {
            return plain_text(report.code, report.text);
        }
        let trimmed = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
        if method != Method::GET && self.is_only_read(trimmed, method) {
            return pass.refusal(&Status::method_not_allowed());
        }
        match trimmed {
            "/" | "/index.html" => pretty_json(&json!({"paths": paths(&self.discovery)})),
            "/version" => pretty_json(&version()),
            "/metrics" => prometheus_text(self.gathered.text().await),
            "/metrics/slis" => prometheus_text(self.health.indicators()),
            "/openapi/v2" => self.answer_openapi(pass, "").await,
            path if path.starts_with("/openapi/v3") => self.answer_openapi(pass, path).await,
            _ => self.answer_discovery(pass, trimmed),
        }
    }

    /// Whether a path is there and does not take this method, which is not GET. Those that kube-apiserver answers outside
    /// of its API (probes, the index, OpenAPI, the list of groups and each group) take any. A DELETE of `/metrics` begins
    /// to count anew there, which is not done here.
    fn is_only_read(&self, path: &str, method: &Method) -> bool {
        match path {
            "/version" => true,
            "/metrics" | "/metrics/slis" => method == Method::DELETE,
            "/apis" => false,
            path => {
                let is_group = path.strip_prefix("/apis/").is_some_and(|group| !group.contains('/'));
                !is_group && self.discovery.get(path).is_some()
            }
        }
    }

    fn answer_discovery(&self, pass: &Pass, path: &str) -> Response<Body> {
        let accept = pass.header(header::ACCEPT).unwrap_or_default();
        if let Some(tagged) = self.discovery.aggregated(path).filter(|_| wants_aggregated(accept)) {
            let mut response = not_modified(pass, &tagged.etag).unwrap_or_else(|| {
                let mut response = Response::new(Body::from(tagged.bytes.clone()));
                let kind = HeaderValue::from_static(discovery::AGGREGATED);
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            });
            let headers = response.headers_mut();
            headers.insert(header::VARY, HeaderValue::from_static("Accept"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
            set_etag(headers, &tagged.etag);
            return response;
        }
        let Some(document) = self.discovery.get(path) else { return self.unknown(pass, path) };
        match negotiation::negotiate(Some(accept), Answering::One, false) {
            Err(status) => pass.refusal(&status),
            Ok(form) => {
                let bytes = if form.media == Media::Yaml { as_yaml(document) } else { document.clone() };
                let kind =
                    if form.media == Media::Yaml { form.content_type() } else { Form::JSON.content_type() };
                typed(StatusCode::OK, kind, Body::from(bytes))
            }
        }
    }

    /// What is not there: told as a Status inside groups that are.
    fn unknown(&self, pass: &Pass, path: &str) -> Response<Body> {
        let mut parts = path.trim_start_matches('/').split('/');
        let in_group = match (parts.next(), parts.next(), parts.next()) {
            (Some("api"), Some(_), None) => true,
            (Some("apis"), Some(group), Some(_)) => is_group(group),
            _ => false,
        };
        if in_group { pass.refusal(&Status::unknown_path()) } else { page_not_found() }
    }

    async fn answer_openapi(&self, pass: &Pass, path: &str) -> Response<Body> {
        let accept = pass.header(header::ACCEPT).unwrap_or_default().to_owned();
        let mut accepted =
            accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
        let is_v2 = path.is_empty();
        let media = accepted.find_map(|media| match media {
            "" | "application/json" | "*/*" | "application/*" => Some(Form::JSON.content_type()),
            OPENAPI_PROTOBUF_ASKED | OPENAPI_PROTOBUF if is_v2 => Some(OPENAPI_PROTOBUF),
            _ => None,
        });
        let Some(media) = media else { return plain(StatusCode::NOT_ACCEPTABLE) };
        let wanted = path.trim_start_matches("/openapi/v3").trim_matches('/').to_owned();
        let is_index = !is_v2 && wanted.is_empty();
        // Documents are made on first use, which takes a moment.
        let made = tokio::task::spawn_blocking(move || {
            if is_index {
                return Some((openapi::v3_index(), String::new()));
            }
            let document = match is_v2 {
                true if media == OPENAPI_PROTOBUF => Some(openapi::v2_protobuf()),
                true => Some(openapi::v2()),
                false => openapi::v3_document(&wanted),
            };
            document.map(|document| (document.gzip(), document.hash().to_owned()))
        })
        .await;
        let Ok(Some((bytes, hash))) = made else { return page_not_found() };
        if is_index {
            return typed(StatusCode::OK, Form::JSON.content_type(), Body::from(bytes));
        }
        answer_document(pass, path, media, bytes, &hash)
    }

    async fn answer_resource(self: Arc<Self>, pass: Pass, request: &mut Request<Incoming>) -> Response<Body> {
        let info = &pass.info;
        let Some(resource) = kinds::find(&info.group, &info.version, &info.resource) else {
            return if is_group(&info.group) {
                pass.refusal(&Status::unknown_path())
            } else {
                page_not_found()
            };
        };
        let deprecated = deprecation(resource.ty);
        let mut response = match handlers::route(resource, &pass, request.method()) {
            // What is not there is not deprecated either.
            Err(status) if status.code == 404 || status == Status::method_not_allowed() => {
                return pass.refusal(&status);
            }
            Err(status) => pass.refusal(&status),
            Ok(route) => self.run(pass, route, request).await,
        };
        if let Some(warning) = deprecated {
            // It is known before all others.
            let headers = response.headers_mut();
            let others: Vec<HeaderValue> = headers.get_all(header::WARNING).iter().cloned().collect();
            headers.remove(header::WARNING);
            add_warnings(headers, &[warning.to_owned()]);
            headers.extend(others.into_iter().map(|other| (header::WARNING, other)));
        }
        response
    }

    async fn run(
        self: Arc<Self>,
        pass: Pass,
        route: handlers::Route,
        request: &mut Request<Incoming>,
    ) -> Response<Body> {
        if let handlers::Action::Watch = route.action {
            let upgrade = (websocket::is_upgrade(&pass.headers)
                && request.version() == http::Version::HTTP_11)
                .then(|| hyper::upgrade::on(&mut *request));
            return match handlers::watch(&self, &pass, &route, upgrade).await {
                Ok(response) => response,
                Err(refused) => pass.refusal_of(refused),
            };
        }
        // One that is no duration was refused before, unless the request may take any time.
        let timeout =
            pass.query.timeout(self.options.request_timeout).unwrap_or(self.options.request_timeout);
        let deadline = tokio::time::Instant::now() + timeout;
        let Some(reading) = self.reading.take(&pass.user, 1) else { return too_many() };
        let mut share = self.held.share(&pass.user);
        let body = match tokio::time::timeout_at(deadline, read_body(request, &mut share)).await {
            Ok(Ok(body)) => body,
            Ok(Err(status)) => return pass.refusal(&status),
            Err(_) => return pass.refusal(&too_slow()),
        };
        drop(reading);
        // Not before: a client that does not send its body keeps nobody out.
        let Some(place) = self.place(&pass, request.method()) else { return too_many() };
        let is_write = route.action.writes();
        let pass = Arc::new(pass);
        let (own, its) = (Arc::clone(&self), Arc::clone(&pass));
        let is_large = handlers::is_large(&own, &its, &route, &body).await;
        let work = async move {
            let answer = handlers::handle(&own, &its, &route, body, deadline.into_std()).await;
            drop(share);
            (answer, Some(place))
        };
        let changes = is_write && pass.query.first("dryRun").is_none();
        let done = tokio::time::timeout_at(deadline, async {
            let turn = if is_large { large::REQUEST_TURNS.turn(&pass.user).await } else { None };
            // Many may wait for their turn, and are not begun any more.
            if is_large && self.ending.stopping.is_stopping() {
                return Ok((Err(Status::service_unavailable("the server is stopping").into()), None));
            }
            let work = async move {
                let done = work.await;
                drop(turn);
                done
            };
            // A write that was begun is finished, whether its client still listens or not, and has its place until then.
            match (is_large, changes) {
                (true, true) => self.ending.finish_on(work, large::requests()).await,
                (true, false) => large::requests().spawn(work).await,
                (false, true) => self.ending.finish_on(work, &Handle::current()).await,
                (false, false) => Ok(work.await),
            }
        });
        match done.await {
            Ok(Ok((Ok(answer), place))) => {
                let response = tokio::time::timeout_at(deadline, pass.response(answer, place, deadline));
                response.await.unwrap_or_else(|_| pass.refusal(&too_slow()))
            }
            Ok(Ok((Err(refused), _))) => pass.refusal_of(refused),
            Ok(Err(error)) => {
                tracing::error!(%error, "a request failed");
                pass.refusal(&failed())
            }
            Err(_) => pass.refusal(&too_slow()),
        }
    }
}

fn failed() -> Status {
    Status::internal_error("the request could not be carried out")
}

const FOREIGN_ORIGIN: &str = "a client certificate does not count for a page of another origin, unless \
                              --cors-allowed-origins allows it";

/// Whether a page could do harm with a request although it does not see the answer, or sees it in spite of its origin.
fn is_dangerous(method: &Method, headers: &HeaderMap) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || websocket::is_upgrade(headers)
}

/// Whether a browser says that a request comes from a page of another origin, which is not allowed.
fn is_cross_origin(headers: &HeaderMap, uri: &Uri, allowed: &AllowedOrigins) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else {
        return text(HeaderName::from_static("sec-fetch-site")) == Some("cross-site");
    };
    let host = uri.authority().map(http::uri::Authority::as_str).or_else(|| text(header::HOST));
    let is_same = origin
        .strip_prefix("https://")
        .zip(host)
        .is_some_and(|(own, host)| without_port(own).eq_ignore_ascii_case(without_port(host)));
    !is_same && !allowed.allows(origin)
}

/// A host without the port that `https` means anyway.
fn without_port(host: &str) -> &str {
    host.strip_suffix(":443").unwrap_or(host)
}

fn too_slow() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

fn too_much_at_once() -> Status {
    let message = "too much is held for other requests of this user, please try again later";
    Status::too_many_requests(message, RETRY_AFTER_SECONDS)
}

/// A place among the requests that are being answered.
struct Place {
    _share: Share,
    _on_line: OnLine,
    count: prometheus::IntGauge,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.count.dec();
    }
}

/// A request that is on its way: what it is about and who makes it.
pub(crate) struct Pass {
    pub(crate) info: RequestInfo,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) user: Arc<User>,
    line: Arc<Line>,
}

impl Pass {
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// What the client accepts, all its headers of that name together.
    pub(crate) fn accept(&self) -> Option<String> {
        let all: Vec<&str> =
            self.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    /// Whether the answer is for people.
    pub(crate) fn pretty(&self) -> bool {
        match self.query.first("pretty") {
            Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => {
                let agent = self.header(header::USER_AGENT).unwrap_or_default();
                ["curl", "Wget", "Mozilla/5.0"].iter().any(|people| agent.starts_with(people))
            }
        }
    }

    fn attributes(&self) -> Attributes<'_> {
        let info = &self.info;
        let named = match info.verb {
            "list" | "watch" if info.name.is_empty() => {
                self.query.first("fieldSelector").and_then(selected_name)
            }
            _ => None,
        };
        Attributes {
            verb: info.verb,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            name: named.unwrap_or(&info.name),
            namespace: &info.namespace,
            path: &info.path,
            is_resource_request: info.is_resource,
        }
    }

    pub(crate) fn refusal(&self, status: &Status) -> Response<Body> {
        let accept = self.accept();
        let negotiated = negotiation::negotiate(accept.as_deref(), Answering::One, false);
        let (media, pretty) = match negotiated {
            Ok(form) => (form.media, self.pretty()),
            // Nothing that the client reads: then at least people can.
            Err(_) => (Media::Json, status.code == 406 || self.pretty()),
        };
        let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let form = Form { media, ..Form::JSON };
        let mut response =
            typed(code, form.content_type(), Body::from(render::status(status, media, pretty)));
        let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        if retry > 0 {
            response.headers_mut().insert(header::RETRY_AFTER, retry.into());
        }
        response
    }

    fn refusal_of(&self, refused: handlers::Refused) -> Response<Body> {
        match refused {
            handlers::Refused::Status(refusal) => {
                let mut response = self.refusal(&refusal.status);
                add_warnings(response.headers_mut(), &refusal.warnings);
                response
            }
            handlers::Refused::Response(response) => *response,
        }
    }

    /// The answer, which keeps its place until it is sent, or until the deadline.
    async fn response(
        &self,
        answer: Answer,
        place: Option<Place>,
        deadline: tokio::time::Instant,
    ) -> Response<Body> {
        let takes_gzip =
            self.headers.get_all(header::ACCEPT_ENCODING).iter().any(|value| {
                value.to_str().is_ok_and(|value| value.split(',').any(|own| own.trim() == "gzip"))
            });
        let body = answer.body.made_for(&self.user);
        let (body, compressed) = if takes_gzip { body.compressed().await } else { (body, false) };
        let body = body.made_for(&self.user);
        let size = http_body::Body::size_hint(&body).exact();
        let body = body.lent((place, answer.held), deadline);
        let mut response = typed(answer.code, answer.content_type, body);
        let headers = response.headers_mut();
        if let Some(size) = size {
            headers.insert(header::CONTENT_LENGTH, size.into());
        }
        if compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        add_warnings(headers, &answer.warnings);
        response
    }
}

/// The name in a selector that selects one object, if it can stand in a path.
fn selected_name(selector: &str) -> Option<&str> {
    let named = selector.split(',').find_map(|term| {
        term.strip_prefix("metadata.name==").or_else(|| term.strip_prefix("metadata.name="))
    });
    named.filter(|name| is_path_segment(name))
}

async fn read_body(request: &mut Request<Incoming>, share: &mut Share) -> Result<Bytes, Status> {
    let too_large = || Status::request_entity_too_large(&format!("limit is {BODY_BYTES_MAX}"));
    let said = http_body::Body::size_hint(request.body()).lower();
    if said > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let unreadable =
        |error| Status::bad_request(format!("the body of the request could not be read: {error}"));
    let (mut pieces, mut left) = (Vec::new(), BODY_BYTES_MAX);
    while let Some(frame) = request.body_mut().frame().await {
        let Ok(piece) = frame.map_err(unreadable)?.into_data() else { continue };
        left = left.checked_sub(piece.len()).ok_or_else(too_large)?;
        if !share.grow(piece.len()) {
            return Err(too_much_at_once());
        }
        pieces.push(piece);
    }
    Ok(match pieces.len() {
        1 => pieces.remove(0),
        _ => pieces.concat().into(),
    })
}

/// How much of a body that nobody wants is read, and for how long.
const DISCARD_BYTES_MAX: usize = 16 << 20;
const DISCARD_WAIT_MAX: Duration = Duration::from_secs(5);
/// How many bodies are discarded at a time.
const DISCARDS_MAX: usize = 256;

/// An answer to who only asks for its head. hyper takes the body away over HTTP/1 but not over HTTP/2.
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

/// How long all warnings of an answer may be before each is cut, and to what length then.
const WARNINGS_BYTES_MAX: usize = 4096;
const WARNING_BYTES_CUT: usize = 256;

fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(String::len).sum();
    let mut told: Vec<&str> = Vec::new();
    for warning in warnings {
        let end = if total > WARNINGS_BYTES_MAX {
            warning.floor_char_boundary(WARNING_BYTES_CUT)
        } else {
            warning.len()
        };
        let text = &warning[..end];
        if told.contains(&text) {
            continue;
        }
        told.push(text);
        let quoted: String = text.chars().filter(|c| !c.is_control()).flat_map(escape).collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let slash = matches!(c, '"' | '\\').then_some('\\');
    slash.into_iter().chain([c])
}

fn is_group(group: &str) -> bool {
    kinds::RESOURCES.iter().any(|resource| resource.group == group)
}

/// What is told to whoever still uses a kind that will go.
fn deprecation(ty: &str) -> Option<&'static str> {
    match ty {
        "core.v1.Endpoints" => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        "core.v1.ComponentStatus" => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

fn wants_aggregated(accept: &str) -> bool {
    // The first clause that the server can meet counts.
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let (media, parameters): (_, Vec<&str>) = (parts.next().unwrap_or_default(), parts.collect());
        let is_json = matches!(media, "application/json" | "*/*");
        let has = |parameter: &str| parameters.contains(&parameter);
        if is_json && has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList") {
            return true;
        }
        if is_json && !parameters.iter().any(|parameter| parameter.starts_with("as=")) {
            return false;
        }
    }
    false
}

fn not_modified(pass: &Pass, etag: &str) -> Option<Response<Body>> {
    let known = pass.header(header::IF_NONE_MATCH)?;
    (known == etag).then(|| plain(StatusCode::NOT_MODIFIED))
}

fn set_etag(headers: &mut HeaderMap, etag: &str) {
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
}

/// OpenAPI v2 as protobuf, as kubectl asks for it.
const OPENAPI_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The same as it is answered: the sign in the name is not one that a media type may have.
const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// How long a document with its hash in the address may be kept by a client, in seconds.
const IMMUTABLE_SECONDS: u64 = 365 * 24 * 3600;

/// An OpenAPI document, which is kept compressed.
fn answer_document(pass: &Pass, path: &str, media: &'static str, gzip: Bytes, hash: &str) -> Response<Body> {
    if let Some(given) = pass.query.first("hash").filter(|given| !path.is_empty() && *given != hash) {
        tracing::debug!(given, "an old document was asked for");
        let mut response = plain(StatusCode::MOVED_PERMANENTLY);
        if let Ok(location) = HeaderValue::from_str(&format!("{path}?hash={hash}")) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        return response;
    }
    let etag = format!("\"{hash}\"");
    let mut response = not_modified(pass, &etag).unwrap_or_else(|| {
        let takes_gzip = pass.header(header::ACCEPT_ENCODING).is_some_and(|value| value.contains("gzip"));
        let body = if takes_gzip { gzip } else { unpacked(&gzip) };
        let mut response = typed(StatusCode::OK, media, Body::from(body));
        if takes_gzip {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    });
    let headers = response.headers_mut();
    set_etag(headers, &etag);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if pass.query.first("hash").is_some() {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let expires = std::time::SystemTime::now() + Duration::from_secs(IMMUTABLE_SECONDS);
        if let Ok(value) = HeaderValue::from_str(&httpdate::fmt_http_date(expires)) {
            headers.insert(header::EXPIRES, value);
        }
    }
    response
}

fn unpacked(gzip: &[u8]) -> Bytes {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(gzip), &mut out)
        .expect("it was compressed by this program");
    out.into()
}

fn as_yaml(json: &[u8]) -> Bytes {
    let document: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    serde_saphyr::to_string(&document).unwrap_or_default().into()
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.4", "gitCommit": concat!("keepwatch-", env!("CARGO_PKG_VERSION")), "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn paths(documents: &discovery::Documents) -> Vec<String> {
    let mut paths: Vec<String> =
        vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
    for (group, versions) in kinds::groups() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
            paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
        }
    }
    paths.retain(|path| path == "/apis/" || documents.get(path).is_some());
    for own in [
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ] {
        paths.push(own.to_owned());
    }
    paths.sort();
    paths
}

pub(crate) fn typed(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn plain(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn plain_text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = typed(code, "text/plain; charset=utf-8", Body::from(text.into().into_bytes()));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn pretty_json(document: &serde_json::Value) -> Response<Body> {
    let text = serde_json::to_vec_pretty(document).unwrap_or_default();
    typed(StatusCode::OK, Form::JSON.content_type(), Body::from(text))
}

fn prometheus_text(text: String) -> Response<Body> {
    let mut response = plain_text(StatusCode::OK, text);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn page_not_found() -> Response<Body> {
    plain_text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn too_many() -> Response<Body> {
    let mut response =
        plain_text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    response
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
        ),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
