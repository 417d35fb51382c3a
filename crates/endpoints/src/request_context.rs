//! A request on its way through the server, and how it is answered.

use crate::{
    api::InFlightPermit,
    auth::{Attributes, User},
    body::Body,
    connection_state::ConnectionState,
    handlers::{self, Answer},
    negotiation::{self, Form, ResponseKind},
    query::Query,
    render,
    request_info::RequestInfo,
    respond::{add_warnings, typed},
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use keepwatch_apimachinery::status::Status;
use keepwatch_registry::{codec::Media, kind::Kind, rest::is_path_segment};
use std::sync::Arc;

/// A request: its target, its headers, its user and its connection.
pub(crate) struct RequestContext {
    pub(crate) info: RequestInfo,
    /// The kind that the path names, if it is served.
    pub(crate) kind: Option<Arc<Kind>>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) user: Arc<User>,
    /// The user whose limits count: the one who authenticated, whomever it impersonates.
    pub(crate) limited_as: Arc<User>,
    pub(crate) connection: Arc<ConnectionState>,
}

impl RequestContext {
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All Accept headers, joined.
    pub(crate) fn accept(&self) -> Option<String> {
        let all: Vec<&str> =
            self.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    /// Whether the answer is indented, as people want it.
    pub(crate) fn pretty(&self) -> bool {
        match self.query.first("pretty") {
            Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => {
                let agent = self.header(header::USER_AGENT).unwrap_or_default();
                ["curl", "Wget", "Mozilla/5.0"].iter().any(|people| agent.starts_with(people))
            }
        }
    }

    /// The attributes of the request, for an authorizer.
    pub(crate) fn attributes(&self) -> Attributes<'_> {
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

    /// A failure as the response, in a form that the client accepts.
    pub(crate) fn refusal(&self, status: &Status) -> Response<Body> {
        let accept = self.accept();
        let negotiated = negotiation::negotiate(accept.as_deref(), ResponseKind::One, false);
        let (media, pretty) = match negotiated {
            Ok(form) => (form.media, self.pretty()),
            // The client accepts none of the forms that we have. Indented JSON can at least be read by people.
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

    pub(crate) fn refusal_of(&self, refused: handlers::ErrorResponse) -> Response<Body> {
        match refused {
            handlers::ErrorResponse::Status { status, warnings } => {
                let mut response = self.refusal(&status);
                add_warnings(response.headers_mut(), &warnings);
                response
            }
            handlers::ErrorResponse::Response(response) => *response,
            // Only where nothing can take longer: at the deadline.
            handlers::ErrorResponse::TakesLong => self.refusal(&crate::api::too_slow()),
        }
    }

    /// An answer as the response. It holds its permit until it is sent, or until the deadline.
    pub(crate) async fn response(
        &self,
        answer: Answer,
        permit: Option<InFlightPermit>,
        deadline: tokio::time::Instant,
    ) -> Response<Body> {
        let takes_gzip =
            self.headers.get_all(header::ACCEPT_ENCODING).iter().any(|value| {
                value.to_str().is_ok_and(|value| value.split(',').any(|own| own.trim() == "gzip"))
            });
        let body = answer.body.on_behalf_of(&self.limited_as);
        let (body, compressed) = if takes_gzip { body.compressed().await } else { (body, false) };
        let body = body.on_behalf_of(&self.limited_as);
        let size = http_body::Body::size_hint(&body).exact();
        let body = body.with_deadline((permit, answer.held), deadline);
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

/// The name in a field selector that selects one object, if it can stand in a path.
fn selected_name(selector: &str) -> Option<&str> {
    let named = selector.split(',').find_map(|term| {
        term.strip_prefix("metadata.name==").or_else(|| term.strip_prefix("metadata.name="))
    });
    named.filter(|name| is_path_segment(name))
}
