//! Get, list and watch.

use super::{Answer, Call, ErrorResponse, Route, answer};
use crate::{
    api::Api,
    body::Body,
    large_documents::{self, LARGE_BYTES_MIN},
    negotiation::{Representation, ResponseKind},
    render::Renderer,
    request_context::RequestContext,
    respond::typed,
    watch::{Events, websocket},
};
use futures::StreamExt;
use http::{Response, StatusCode, header};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListOptions, Position, ValidListOptions},
    meta::ListMeta,
    selector::{FieldSelector, FieldTerm},
    status::Status,
};
use keepwatch_registry::{ObjectView, codec::Media};
use keepwatch_storage::{List, Object};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// The number of items that are encoded as a whole on a thread that serves other requests, too.
const ITEMS_AT_ONCE_MAX: usize = 20;

impl Call<'_> {
    pub(super) async fn get(&self) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        if self.route.kind.storage.is_none() {
            return Err(self.target().not_found().into());
        }
        let given = self.context.query.first("resourceVersion").unwrap_or_default();
        let position = match given {
            "" => Position::MostRecent,
            text => ResourceVersion::parse(text)
                .map_err(|error| Status::unexplained(error.to_string()))?
                .map_or(Position::Any, Position::At),
        };
        let object = self.api.registry.get(self.target(), position).await?;
        let held = self.api.hold(&self.context.limited_as, object.value.len())?;
        let bytes = renderer.object(&ObjectView::of(&renderer.kind, &object))?;
        Ok(answer(StatusCode::OK, &renderer, bytes, Vec::new()).holding(held))
    }

    pub(super) async fn list(&self) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::List)?;
        let options = self.list_options()?.check()?;
        if self.route.kind.storage.is_none() {
            let body = renderer.list(Vec::new(), ListMeta::default())?;
            return Ok(answer(StatusCode::OK, &renderer, body, Vec::new()));
        }
        let list = self.api.registry.list(self.target(), options).await?;
        let meta = list_meta(&list);
        let (is_many, bytes) = (list.items.len() > ITEMS_AT_ONCE_MAX, held_bytes(&renderer, &list));
        let held = self.api.hold(&self.context.limited_as, bytes)?;
        let body = if renderer.lists_at_once() && (is_many || bytes >= LARGE_BYTES_MIN) {
            let renderer = renderer.clone();
            let turn = large_documents::ANSWERS_OF_USER.acquire(&self.context.limited_as).await;
            let encoding = large_documents::answers().spawn(async move {
                let body = renderer.list(list.items, meta);
                drop(turn);
                body
            });
            let made = AbortOnDropHandle::new(encoding).await;
            made.map_err(|error| Status::internal_error(&error.to_string()))??
        } else {
            renderer.list(list.items, meta)?
        };
        Ok(answer(StatusCode::OK, &renderer, body, Vec::new()).holding(held))
    }

    /// The options of a list or watch. A path that names an object is a selector for it.
    pub(super) fn list_options(&self) -> Result<ListOptions, ErrorResponse> {
        let mut options = ListOptions::from_query(self.context.query.pairs())?;
        let name = self.context.info.name.as_str();
        if !name.is_empty() {
            let given = &options.field_selector;
            if !given.is_empty() && given.exact_match("metadata.name") != Some(name) {
                return Err(
                    Status::bad_request("fieldSelector metadata.name doesn't match requested name").into()
                );
            }
            options.field_selector = FieldSelector::from_iter([FieldTerm::equal("metadata.name", name)]);
        }
        Ok(options)
    }
}

/// The number of bytes that are held while a list is sent: all of it if it is encoded at once, else the pointers to its
/// objects.
fn held_bytes(renderer: &Renderer, list: &List) -> usize {
    match renderer.lists_at_once() {
        true => list.items.iter().map(|object| object.value.len()).sum(),
        false => list.items.len() * size_of::<Object>(),
    }
}

fn list_meta(list: &List) -> ListMeta {
    ListMeta {
        resource_version: list.revision.to_string(),
        continue_token: list.next.as_ref().map(|token| token.encode()).unwrap_or_default(),
        remaining_item_count: list.remaining.and_then(|count| i64::try_from(count).ok()),
    }
}

/// Serves a watch: over a WebSocket if the client asked for one, else as a body that does not end.
pub(crate) async fn watch(
    api: &Api,
    context: &RequestContext,
    route: &Route,
    upgrade: Option<hyper::upgrade::OnUpgrade>,
) -> Result<Response<Body>, ErrorResponse> {
    let call = Call { api, context, route, deadline: None, rules_time_max: None };
    let renderer = call.renderer(ResponseKind::Watch)?;
    let options = call.list_options()?.check()?;
    let timeout = duration(&options, api.options.min_watch);
    if let Representation::MetadataList(_) = renderer.form.representation {
        // There is no list in a watch; upstream ends such a stream at its first event.
        return Ok(typed(StatusCode::OK, renderer.form.content_type(), Body::empty()));
    }
    if upgrade.is_none() && ends_before_its_state(options.options()) {
        return Ok(typed(StatusCode::OK, renderer.form.content_type(), Body::empty()));
    }
    let permit = api.watch_permit(&context.limited_as, call.selectors())?;
    let target = keepwatch_registry::rest::Target { name: "", ..call.target() };
    let turns = api.reading_turns.of_user(&context.limited_as);
    let watch = api.registry.watch(target, options, timeout, turns).await?;
    let metrics = api.metrics.watch(&context.info, &route.kind);
    let stopping = api.shutdown.signal.wait();
    let media = renderer.form.media;
    let events = Events::new(watch, renderer, api.encodings.clone(), metrics, stopping).holding(permit);
    if let Some(upgrade) = upgrade {
        let response =
            websocket::handshake(&context.headers).map_err(|refused| ErrorResponse::Response(refused.0))?;
        api.shutdown.serve(websocket::serve(upgrade, events));
        return Ok(response);
    }
    let kind = match media {
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let mut response = typed(StatusCode::OK, kind, Body::events(events.boxed()));
    response.headers_mut().remove(header::CONTENT_LENGTH);
    Ok(response)
}

/// Whether a watch has no time to send the state that it was asked for. The original then just ends it, or says that the
/// time is over, as chance has it.
fn ends_before_its_state(options: &ListOptions) -> bool {
    options.timeout_seconds.is_some_and(|seconds| seconds < 0)
        && options.send_initial_events == Some(true)
        && matches!(options.resource_version.as_str(), "" | "0")
}

/// The duration of a watch: that of its client, or a random one, so that not all clients come back at once.
fn duration(options: &ValidListOptions, min: Duration) -> Duration {
    match options.options().timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        Some(seconds) if seconds < 0 => Duration::ZERO,
        _ => min.mul_f64(rand::random_range(1.0..2.0)),
    }
}
