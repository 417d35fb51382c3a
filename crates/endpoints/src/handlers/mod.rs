//! The handlers of requests for resources, one file for each kind of request.

mod read;
mod write;
mod delete;
mod review;
mod components;
mod non_resource;

pub(crate) use read::watch;

use crate::{
    api::Api,
    body::Body,
    failure::to_status,
    fair_semaphore::FairPermit,
    large_documents::{self, LARGE_BYTES_MIN},
    negotiation::{self, Representation, ResponseKind},
    render::{IncludeObject, Renderer},
    request_context::RequestContext,
};
use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use keepwatch_apimachinery::status::Status;
use keepwatch_registry::{
    Error,
    codec::{Body as Sent, Media},
    kind::{CreateOnly, Kind},
    rest::{Target, WriteError},
    strategy::{Part, Requester},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// An answer that is no failure.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    pub(crate) warnings: Vec<String>,
    /// A permit that is held until the answer is sent.
    pub(crate) held: Option<FairPermit>,
}

impl Answer {
    /// The same, with something that is held until it is sent.
    fn holding(self, held: Option<FairPermit>) -> Answer {
        Answer { held, ..self }
    }
}

/// An answer that is no object.
pub(crate) enum ErrorResponse {
    /// A Status, and what was odd about the request besides.
    Status { status: Box<Status>, warnings: Vec<String> },
    /// Something else.
    Response(Box<Response<Body>>),
    /// Nothing was done: rules take longer than the thread has time for.
    TakesLong,
}

impl From<Status> for ErrorResponse {
    fn from(status: Status) -> ErrorResponse {
        ErrorResponse::Status { status: Box::new(status), warnings: Vec::new() }
    }
}

impl From<Error> for ErrorResponse {
    fn from(error: Error) -> ErrorResponse {
        WriteError { error, warnings: Vec::new() }.into()
    }
}

impl From<WriteError> for ErrorResponse {
    fn from(WriteError { error, warnings }: WriteError) -> ErrorResponse {
        if let Error::TakesLong = error {
            return ErrorResponse::TakesLong;
        }
        ErrorResponse::Status { status: Box::new(to_status(error)), warnings }
    }
}

/// The action of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    List,
    Watch,
    Create,
    Update(Part),
    Patch(Part),
    Delete,
    DeleteCollection,
    GetScale,
    UpdateScale,
    PatchScale,
    Bind,
    Evict,
    Token,
    Review(CreateOnly),
    /// A connection to a container, for which there is no node.
    Connect,
}

impl Action {
    /// Whether it may change something.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Action::Get | Action::List | Action::Watch | Action::GetScale | Action::Connect)
    }
}

/// Where a request goes.
pub(crate) struct Route {
    pub(crate) kind: Arc<Kind>,
    pub(crate) action: Action,
}

/// The route of a resource at the request's path and method.
pub(crate) fn route(kind: Arc<Kind>, context: &RequestContext, method: &Method) -> Result<Route, NoRoute> {
    let info = &context.info;
    if kind.is_custom() {
        let action = custom_action(&kind, context)?;
        return Ok(Route { kind, action });
    }
    let to = |action| Ok(Route { kind: Arc::clone(&kind), action });
    if !info.rest.is_empty()
        && !matches!(info.subresource.as_str(), "proxy" | "portforward" | "exec" | "attach")
    {
        return Err(Status::unknown_path().into());
    }
    // The path of a namespace names it twice: as what is asked for and as where that is.
    let is_namespace = info.resource == "namespaces";
    if !is_namespace && kind.namespaced == info.namespace.is_empty() {
        // Every namespace at once can be listed and watched; nothing else is there.
        let all_namespaces = kind.namespaced && info.name.is_empty();
        if !all_namespaces {
            return Err(Status::unknown_path().into());
        }
        if !matches!(info.verb, "list" | "watch") || !kind.allows("list") {
            return Err(Status::method_not_allowed().into());
        }
    }
    // A path that asks for a watch can be read and nothing else.
    if method == Method::HEAD || (info.watch_path && method != Method::GET) {
        return Err(Status::method_not_allowed().into());
    }
    if !info.subresource.is_empty() {
        if info.name.is_empty() {
            return Err(Status::unknown_path().into());
        }
        return to(subresource_action(&kind, info.subresource.as_str(), info.verb)?);
    }
    let verb = info.verb;
    if verb == "watch" && !kind.allows("watch") {
        return Err(match (info.watch_path, kind.allows("list")) {
            (true, _) => Status::unknown_path(),
            (_, true) => Status::method_not_supported(kind.qualified(), "watch"),
            _ => Status::method_not_allowed(),
        }
        .into());
    }
    let collection_only = matches!(verb, "create" | "list" | "deletecollection");
    if !kind.allows(verb)
        || (collection_only && !info.name.is_empty())
        || (info.name.is_empty() && matches!(verb, "update" | "patch"))
    {
        return Err(Status::method_not_allowed().into());
    }
    to(match verb {
        "get" => Action::Get,
        "list" => Action::List,
        "watch" => Action::Watch,
        "create" if kind.create_only == Some(CreateOnly::Binding) => Action::Bind,
        "create" if let Some(review) = kind.create_only => Action::Review(review),
        "create" => Action::Create,
        "update" => Action::Update(Part::Main),
        "patch" => Action::Patch(Part::Main),
        "delete" => Action::Delete,
        _ => Action::DeleteCollection,
    })
}

/// Why a path leads nowhere.
pub(crate) enum NoRoute {
    /// As a Status says.
    Status(Box<Status>),
    /// There is no such page.
    Page,
}

impl From<Status> for NoRoute {
    fn from(status: Status) -> NoRoute {
        NoRoute::Status(Box::new(status))
    }
}

/// The route of a custom resource at a path. Upstream has another server for them, which finds its way differently.
fn custom_action(kind: &Kind, context: &RequestContext) -> Result<Action, NoRoute> {
    let info = &context.info;
    let is_across_namespaces = kind.namespaced && matches!(info.verb, "list" | "watch");
    if kind.namespaced == info.namespace.is_empty() && !is_across_namespaces {
        return Err(NoRoute::Page);
    }
    let named = !info.name.is_empty();
    let unsupported = || {
        let verb = if info.verb == "options" { "" } else { info.verb };
        NoRoute::from(Status::method_not_supported(kind.qualified(), verb))
    };
    if !info.subresource.is_empty() {
        let name = info.subresource.as_str();
        let Some(known) = kind.subresource(name).filter(|_| named) else {
            return Err(Status::not_found(kind.qualified(), &info.name).into());
        };
        if !known.verbs.contains(&info.verb) {
            return Err(unsupported());
        }
        return Ok(subresource_action(kind, name, info.verb)?);
    }
    match info.verb {
        "get" => Ok(Action::Get),
        "list" => Ok(Action::List),
        "watch" => Ok(Action::Watch),
        "create" => Ok(Action::Create),
        "update" | "patch" if !named => Err(Status::bad_request("name must be provided").into()),
        "update" => Ok(Action::Update(Part::Main)),
        "patch" => Ok(Action::Patch(Part::Main)),
        "delete" => Ok(Action::Delete),
        "deletecollection" => Ok(Action::DeleteCollection),
        _ => Err(unsupported()),
    }
}

fn subresource_action(kind: &Kind, name: &str, verb: &str) -> Result<Action, Status> {
    let known = kind.subresource(name).ok_or_else(Status::unknown_path)?;
    if !known.verbs.contains(&verb) {
        return Err(Status::method_not_allowed());
    }
    let part = match name {
        "status" => Part::Status,
        "finalize" => Part::Finalize,
        "approval" => Part::Approval,
        "ephemeralcontainers" => Part::EphemeralContainers,
        "resize" => Part::Resize,
        "scale" => {
            return Ok(match verb {
                "get" => Action::GetScale,
                "update" => Action::UpdateScale,
                _ => Action::PatchScale,
            });
        }
        "binding" => return Ok(Action::Bind),
        "eviction" => return Ok(Action::Evict),
        "token" => return Ok(Action::Token),
        _ => return Ok(Action::Connect),
    };
    Ok(match verb {
        "get" => Action::Get,
        "update" => Action::Update(part),
        _ => Action::Patch(part),
    })
}

/// Does what a route says. Watches have a way of their own.
pub(crate) async fn handle(
    api: &Api,
    context: &RequestContext,
    route: &Route,
    body: Bytes,
    deadline: Instant,
    rules_time_max: Option<Duration>,
) -> Result<Answer, ErrorResponse> {
    let call = Call { api, context, route, deadline: Some(deadline), rules_time_max };
    // All that can be read and is not stored.
    let is_component = route.kind.storage.is_none();
    match route.action {
        Action::Get if is_component => call.get_component().await,
        Action::List if is_component => call.list_components().await,
        Action::Get => call.get().await,
        Action::List => call.list().await,
        Action::Create => call.create(&body).await,
        Action::Update(part) => call.update(part, &body).await,
        Action::Patch(part) => call.patch(part, &body).await,
        Action::Delete => call.delete(&body).await,
        Action::DeleteCollection => call.delete_collection(&body).await,
        Action::GetScale => call.get_scale().await,
        Action::UpdateScale => call.update_scale(&body).await,
        Action::PatchScale => call.patch_scale(&body).await,
        Action::Bind => call.bind(&body).await,
        Action::Evict => call.evict(&body).await,
        Action::Token => call.request_token(&body).await,
        Action::Review(review) => call.review(review, &body).await,
        Action::Connect => call.connect().await,
        Action::Watch => Err(Status::method_not_allowed().into()),
    }
}

/// From how many bytes on a selector is long.
const LONG_SELECTOR_BYTES_MIN: usize = 1 << 10;

/// Whether a request takes long because of its body, its selector, or the object that it is about.
pub(crate) async fn is_large(api: &Api, context: &RequestContext, route: &Route, body: &[u8]) -> bool {
    let call = Call { api, context, route, deadline: None, rules_time_max: None };
    let is_large = || large_documents::is_large(body, call.sends_protobuf());
    if route.action.writes() && (route.kind.is_costly_to_check || is_large()) {
        return true;
    }
    match route.action {
        Action::Patch(_) | Action::PatchScale if call.may_copy(body) => true,
        // The cost of examining an object grows with the selector.
        Action::List | Action::DeleteCollection => call.selector_bytes() >= LONG_SELECTOR_BYTES_MIN,
        // A stored object is only copied.
        Action::Get if call.shows_what_is_stored() => false,
        Action::Get
        | Action::Update(_)
        | Action::Patch(_)
        | Action::Delete
        | Action::UpdateScale
        | Action::PatchScale
        | Action::Bind
        | Action::Evict => api.registry.stored_bytes(call.target()).await >= LARGE_BYTES_MIN,
        _ => false,
    }
}

/// One request on its way through its handler.
struct Call<'a> {
    api: &'a Api,
    context: &'a RequestContext,
    route: &'a Route,
    /// Until when its client waits.
    deadline: Option<Instant>,
    /// How long rules may be evaluated on this thread; None: until the deadline.
    rules_time_max: Option<Duration>,
}

impl Call<'_> {
    /// The target of the request.
    fn target(&self) -> Target<'_> {
        let kind = &*self.route.kind;
        let namespace = if kind.namespaced { self.context.info.namespace.as_str() } else { "" };
        Target { kind, namespace, name: &self.context.info.name }
    }

    /// In which form to answer.
    fn renderer(&self, answering: ResponseKind) -> Result<Renderer, Status> {
        let accept = self.context.accept();
        let is_collection = matches!(answering, ResponseKind::List | ResponseKind::Watch);
        let form = match self.route.kind.is_custom() {
            true => negotiation::negotiate_custom(accept.as_deref(), answering)?,
            false => negotiation::negotiate(accept.as_deref(), answering, is_collection)?,
        };
        let include_object = match form.representation {
            crate::negotiation::Representation::Table(_) => {
                IncludeObject::parse(self.context.query.first("includeObject").unwrap_or_default())?
            }
            _ => IncludeObject::default(),
        };
        let kind = Arc::clone(&self.route.kind);
        Ok(Renderer { kind, form, pretty: self.context.pretty(), include_object })
    }

    /// Whether a body is a JSON patch that copies: such a one can make a large document of a small one. The word may be
    /// written with escapes.
    fn may_copy(&self, body: &[u8]) -> bool {
        let kind = self.context.header(header::CONTENT_TYPE).unwrap_or_default();
        kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json-patch+json")
            && (memchr::memmem::find(body, b"copy").is_some() || memchr::memchr(b'\\', body).is_some())
    }

    /// Whether the body is said to be Protobuf.
    fn sends_protobuf(&self) -> bool {
        self.context.header(header::CONTENT_TYPE).is_some_and(|kind| kind.contains("protobuf"))
    }

    /// The selectors of labels and fields as they were sent; empty without one.
    fn selectors(&self) -> [&str; 2] {
        ["labelSelector", "fieldSelector"].map(|name| self.context.query.first(name).unwrap_or_default())
    }

    /// The length of the selectors in bytes.
    fn selector_bytes(&self) -> usize {
        self.selectors().map(str::len).iter().sum()
    }

    /// Whether an object is answered as it is stored.
    fn shows_what_is_stored(&self) -> bool {
        let is_itself = |renderer: &Renderer| renderer.form.representation == Representation::Itself;
        self.renderer(ResponseKind::One).is_ok_and(|renderer| is_itself(&renderer) && renderer.is_plain())
    }

    /// The body as it was sent.
    fn sent<'b>(&self, bytes: &'b [u8]) -> Result<Sent<'b>, Status> {
        let media = negotiation::body_media(self.context.header(header::CONTENT_TYPE))?;
        if media == Media::Protobuf && self.route.kind.is_custom() && !self.is_about_scale() {
            return Err(Status::unsupported_media_type(&negotiation::ACCEPTED));
        }
        Ok(Sent { bytes, media })
    }

    /// Whether what is sent and received is a scale.
    fn is_about_scale(&self) -> bool {
        matches!(self.route.action, Action::GetScale | Action::UpdateScale | Action::PatchScale)
    }

    fn requester(&self) -> Requester {
        let user = &self.context.user;
        Requester {
            name: user.name.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
        }
    }
}

fn answer(code: StatusCode, renderer: &Renderer, body: impl Into<Body>, warnings: Vec<String>) -> Answer {
    Answer { code, content_type: renderer.form.content_type(), body: body.into(), warnings, held: None }
}
