//! Responses that are not objects: plain text, JSON for people, refusals without a Status, and headers that many share.

use crate::{body::Body, negotiation::Form, request_context::RequestContext};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// When a client that was refused for want of room may try again.
pub(crate) const RETRY_AFTER_SECONDS: u32 = 1;

pub(crate) fn typed(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn plain(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

pub(crate) fn plain_text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = typed(code, "text/plain; charset=utf-8", Body::from(text.into().into_bytes()));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn pretty_json(document: &serde_json::Value) -> Response<Body> {
    let text = serde_json::to_vec_pretty(document).unwrap_or_default();
    typed(StatusCode::OK, Form::JSON.content_type(), Body::from(text))
}

pub(crate) fn prometheus_text(text: String) -> Response<Body> {
    let mut response = plain_text(StatusCode::OK, text);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn page_not_found() -> Response<Body> {
    plain_text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn too_many() -> Response<Body> {
    let mut response =
        plain_text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    response
}

/// The answer to a client that has the current document already.
pub(crate) fn not_modified(context: &RequestContext, etag: &str) -> Option<Response<Body>> {
    let known = context.header(header::IF_NONE_MATCH)?;
    (known == etag).then(|| plain(StatusCode::NOT_MODIFIED))
}

pub(crate) fn set_etag(headers: &mut HeaderMap, etag: &str) {
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
}

/// How many bytes all warnings of an answer may have before each is truncated, and to how many bytes it is then.
const WARNINGS_BYTES_MAX: usize = 4096;
const WARNING_BYTES_CUT: usize = 256;

pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(String::len).sum();
    let mut added: Vec<&str> = Vec::new();
    for warning in warnings {
        let end = if total > WARNINGS_BYTES_MAX {
            warning.floor_char_boundary(WARNING_BYTES_CUT)
        } else {
            warning.len()
        };
        let text = &warning[..end];
        if added.contains(&text) {
            continue;
        }
        added.push(text);
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
