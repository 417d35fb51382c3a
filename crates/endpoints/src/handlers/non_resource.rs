//! Paths that are not of a resource: discovery, OpenAPI, version, health and metrics.

use crate::{
    api::Api,
    body::{Body, offload},
    description::Description,
    discovery,
    negotiation::{self, Form, ResponseKind},
    request_context::RequestContext,
    respond::{
        not_modified, page_not_found, plain, plain_text, pretty_json, prometheus_text, set_etag, typed,
    },
};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use keepwatch_apimachinery::status::Status;
use keepwatch_registry::codec::Media;
use serde_json::json;
use std::{io::Read, sync::Arc, time::Duration};

impl Api {
    /// Answers a request for a path that is not of a resource.
    pub(crate) async fn answer_non_resource(
        &self,
        context: &RequestContext,
        method: &Method,
    ) -> Response<Body> {
        let path = context.info.path.as_str();
        if let Some(report) = self.health.answer(path, &context.query).await {
            return plain_text(report.code, report.text);
        }
        let trimmed = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
        if method != Method::GET && self.is_only_read(trimmed, method) {
            return context.refusal(&Status::method_not_allowed());
        }
        match trimmed {
            "/" | "/index.html" => pretty_json(&json!({"paths": paths(&self.description())})),
            "/version" => pretty_json(&version()),
            "/metrics" => self.answer_metrics(context).await,
            "/metrics/slis" => prometheus_text(self.health.indicators()),
            "/openapi/v2" => self.answer_openapi(context, "").await,
            "/openapi/v3" if trimmed == path => self.answer_openapi(context, path).await,
            _ if path.starts_with("/openapi/v3/") => self.answer_openapi(context, path).await,
            _ => self.answer_discovery(context, trimmed).await,
        }
    }

    async fn answer_metrics(&self, context: &RequestContext) -> Response<Body> {
        let encode = self.gathered.encoder().await;
        match offload(Some(Arc::clone(&context.limited_as)), encode).await {
            Ok(text) => prometheus_text(text),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Whether a path exists and does not take this method, which is not GET. Paths that kube-apiserver serves outside of
    /// its API (probes, the index, OpenAPI, the list of groups, each group, and custom resources) take any method. There a DELETE of
    /// `/metrics` resets the counters, which is not done here.
    fn is_only_read(&self, path: &str, method: &Method) -> bool {
        match path {
            "/version" => true,
            "/metrics" | "/metrics/slis" => method == Method::DELETE,
            "/apis" => false,
            path => {
                let is_group = path.strip_prefix("/apis/").is_some_and(|group| !group.contains('/'));
                let of_definition = path
                    .strip_prefix("/apis/")
                    .and_then(|rest| rest.split('/').next())
                    .is_some_and(|group| !self.registry.catalog().snapshot().has_built_in_group(group));
                !is_group && !of_definition && self.description().discovery().get(path).is_some()
            }
        }
    }

    async fn answer_discovery(&self, context: &RequestContext, path: &str) -> Response<Body> {
        let accept = context.header(header::ACCEPT).unwrap_or_default();
        let description = self.description();
        if let Some(tagged) = description.discovery().aggregated(path).filter(|_| wants_aggregated(accept)) {
            let mut response = not_modified(context, &tagged.etag).unwrap_or_else(|| {
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
        let Some(document) = description.discovery().get(path) else { return self.not_found(context, path) };
        match negotiation::negotiate(Some(accept), ResponseKind::One, false) {
            Err(status) => context.refusal(&status),
            Ok(form) => {
                if form.media != Media::Yaml {
                    return typed(StatusCode::OK, Form::JSON.content_type(), Body::from(document.clone()));
                }
                let (user, document) = (Arc::clone(&context.limited_as), document.clone());
                match offload(Some(user), move || as_yaml(&document)).await {
                    Ok(yaml) => typed(StatusCode::OK, form.content_type(), Body::from(yaml)),
                    Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
                }
            }
        }
    }

    /// Refuses a path that does not exist: with a Status inside a group that exists, with plain text elsewhere.
    fn not_found(&self, context: &RequestContext, path: &str) -> Response<Body> {
        let mut parts = path.trim_start_matches('/').split('/');
        let in_group = match (parts.next(), parts.next(), parts.next()) {
            (Some("api"), Some(_), None) => true,
            (Some("apis"), Some(group), Some(_)) => {
                self.registry.catalog().snapshot().has_built_in_group(group)
            }
            _ => false,
        };
        if in_group { context.refusal(&Status::unknown_path()) } else { page_not_found() }
    }

    async fn answer_openapi(&self, context: &RequestContext, path: &str) -> Response<Body> {
        let accept = context.header(header::ACCEPT).unwrap_or_default().to_owned();
        let mut accepted =
            accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
        let is_v2 = path.is_empty();
        let media = accepted.find_map(|media| match media {
            "" | "application/json" | "*/*" | "application/*" => Some(Form::JSON.content_type()),
            OPENAPI_V2_PROTOBUF_ASKED | OPENAPI_V2_PROTOBUF if is_v2 => Some(OPENAPI_V2_PROTOBUF),
            OPENAPI_V3_PROTOBUF_ASKED | OPENAPI_V3_PROTOBUF if !is_v2 => Some(OPENAPI_V3_PROTOBUF),
            _ => None,
        });
        let is_index = path == "/openapi/v3";
        let Some(media) = media.or(is_index.then_some(Form::JSON.content_type())) else {
            return plain(StatusCode::NOT_ACCEPTABLE);
        };
        let wanted = path.trim_start_matches("/openapi/v3/").to_owned();
        // Documents are built on first use, which takes a moment.
        let description = self.description();
        let made = tokio::task::spawn_blocking(move || {
            let openapi = &description.openapi;
            if is_index {
                return Some((openapi.v3_index(), String::new()));
            }
            let document = match media {
                OPENAPI_V2_PROTOBUF => Some(openapi.v2_protobuf()),
                OPENAPI_V3_PROTOBUF => openapi.v3_protobuf(&wanted),
                _ if is_v2 => Some(openapi.v2()),
                _ => openapi.v3_document(&wanted),
            };
            document.map(|document| (document.gzip(), document.hash().to_owned()))
        })
        .await;
        let Ok(Some((bytes, hash))) = made else { return plain(StatusCode::NOT_FOUND) };
        if is_index {
            return typed(StatusCode::OK, Form::JSON.content_type(), Body::from(bytes));
        }
        answer_document(context, path, media, bytes, &hash)
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

/// The media types by which clients ask for OpenAPI as protobuf.
const OPENAPI_V2_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const OPENAPI_V3_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
/// The media types of the answers: an `@` must not be part of one.
const OPENAPI_V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OPENAPI_V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
/// The time for which a client may cache a document whose URL has its hash, in seconds.
const IMMUTABLE_SECONDS: u64 = 365 * 24 * 3600;

/// An OpenAPI document, which is stored compressed.
fn answer_document(
    context: &RequestContext,
    path: &str,
    media: &'static str,
    gzip: Bytes,
    hash: &str,
) -> Response<Body> {
    if let Some(given) = context.query.first("hash").filter(|given| !path.is_empty() && *given != hash) {
        tracing::debug!(given, "the hash is that of an old document");
        let mut response = plain(StatusCode::MOVED_PERMANENTLY);
        if let Ok(location) = HeaderValue::from_str(&format!("{path}?hash={hash}")) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        return response;
    }
    let etag = format!("\"{hash}\"");
    let mut response = not_modified(context, &etag).unwrap_or_else(|| {
        let takes_gzip = context.header(header::ACCEPT_ENCODING).is_some_and(|value| value.contains("gzip"));
        let body = if takes_gzip { Body::from(gzip) } else { Body::offloaded(Box::new(unpacked(gzip))) };
        let mut response = typed(StatusCode::OK, media, body);
        if takes_gzip {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    });
    let headers = response.headers_mut();
    set_etag(headers, &etag);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if context.query.first("hash").is_some() {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let expires = std::time::SystemTime::now() + Duration::from_secs(IMMUTABLE_SECONDS);
        if let Ok(value) = HeaderValue::from_str(&httpdate::fmt_http_date(expires)) {
            headers.insert(header::EXPIRES, value);
        }
    }
    response
}

/// Unpacks a document in chunks: the largest has more than a megabyte, and many clients may not read theirs.
fn unpacked(gzip: Bytes) -> impl Iterator<Item = Bytes> + Send {
    const CHUNK_BYTES: u64 = 64 << 10;
    let mut decoder = flate2::read::GzDecoder::new(std::io::Cursor::new(gzip));
    std::iter::from_fn(move || {
        let mut chunk = Vec::new();
        decoder
            .by_ref()
            .take(CHUNK_BYTES)
            .read_to_end(&mut chunk)
            .expect("it was compressed by this program");
        (!chunk.is_empty()).then(|| chunk.into())
    })
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

fn paths(description: &Description) -> Vec<String> {
    let mut paths: Vec<String> =
        vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
    for (group, versions) in description.catalog().groups() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
            paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
        }
    }
    paths.retain(|path| path == "/apis/" || description.discovery().get(path).is_some());
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
