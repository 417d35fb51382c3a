//! Responses that are not objects: plain text, JSON for people, refusals without a Status, and headers that many share.

use crate::{body::Body, negotiation::Form, request_context::RequestContext};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use std::collections::HashSet;

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

/// The number of characters that all warnings of an answer may have. If they have more, each is truncated, and those that
/// are too many even then are left out.
const WARNINGS_CHARS_MAX: usize = 4096;
/// The number of characters that are left of a truncated warning.
const TRUNCATED_CHARS: usize = 256;

pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    for text in sent(warnings) {
        let quoted: String = text.chars().filter(|c| !c.is_control()).flat_map(escape).collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// The warnings as they are sent: each once, and no more than a client reads.
fn sent(warnings: &[String]) -> Vec<&str> {
    let mut seen = HashSet::with_capacity(warnings.len());
    let unique = warnings.iter().map(String::as_str).filter(|text| seen.insert(*text));
    let unique: Vec<&str> = unique.collect();
    if unique.iter().map(|text| text.chars().count()).sum::<usize>() <= WARNINGS_CHARS_MAX {
        return unique;
    }
    let mut chars = 0;
    let truncated = unique.into_iter().map(|text| {
        let end = text.char_indices().nth(TRUNCATED_CHARS).map_or(text.len(), |(end, _)| end);
        &text[..end]
    });
    let has_room = |text: &&str| {
        let before = chars;
        chars += text.chars().count();
        before < WARNINGS_CHARS_MAX
    };
    truncated.take_while(has_room).collect()
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let slash = matches!(c, '"' | '\\').then_some('\\');
    slash.into_iter().chain([c])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_sent_once_and_no_more_than_a_client_reads() {
        let sent_of = |warnings: &[String]| sent(warnings).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let few = ["a", "b", "a"].map(str::to_owned);
        assert_eq!(sent_of(&few), ["a", "b"]);
        let long = ["x".repeat(4000), "é".repeat(300)];
        assert_eq!(sent_of(&long), ["x".repeat(256), "é".repeat(256)]);
        let many: Vec<String> =
            (0..16_000).map(|number| format!("unknown field \"spec.f{number:05}\"")).collect();
        // A kube-apiserver stops at the first warning after 4,096 characters.
        assert_eq!(sent_of(&many).len(), 4096_usize.div_ceil(many[0].len()));
    }
}
