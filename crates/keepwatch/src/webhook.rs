//! Calls the webhooks that convert custom resources between versions.
//!
//! Kept true: a webhook's certificate is verified against the CA of its definition, or the system's if there is none;
//! each webhook has connections of its own, which are reused; a call ends after [`CALL_MAX`], whatever the webhook
//! does.
//!
//! A webhook in the cluster is named by its service. Without a cluster around the server, the address of a service is
//! not routed, so the endpoints of the service are called.

mod certificate;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::TokioExecutor,
};
use keepwatch_apimachinery::{
    list_options::{ListAt, Position},
    selector::LabelSelector,
};
use keepwatch_registry::{
    Registry,
    custom::{ConversionError, Converter, Webhook, WebhookService},
    kinds::known,
    rest::Target,
};
use keepwatch_storage::{ListRequest, Predicate};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    error::Error,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

/// The maximum duration of a webhook call.
const CALL_MAX: Duration = Duration::from_secs(30);
/// The largest answer of a webhook: several times the largest request.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The maximum number of webhooks whose connections are kept.
const CLIENTS_MAX: usize = 64;
/// The port of a service if none is given.
const PORT: u16 = 443;

/// Calls webhooks.
pub(crate) struct Webhooks {
    resolver: Resolver,
    clients: Mutex<HashMap<Webhook, HttpClient>>,
}

type HttpClient = Client<HttpsConnector<HttpConnector<Resolve>>, Full<Bytes>>;

impl Webhooks {
    pub(crate) fn new(registry: &Arc<Registry>) -> Webhooks {
        Webhooks { resolver: Resolver(Arc::downgrade(registry)), clients: Mutex::default() }
    }

    fn client(&self, webhook: &Webhook) -> Result<HttpClient, ConversionError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(webhook) {
            return Ok(client.clone());
        }
        let client = self.new_client(webhook)?;
        // Hardly any server has so many. Webhooks in use keep their connections.
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(webhook.clone(), client.clone());
        Ok(client)
    }

    fn new_client(&self, webhook: &Webhook) -> Result<HttpClient, ConversionError> {
        let config = client_config(webhook)?;
        let resolve = Resolve { resolver: self.resolver.clone(), service: webhook.service.clone() };
        let mut tcp = HttpConnector::new_with_resolver(resolve);
        tcp.enforce_http(false);
        let mut https = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
        if let Some(service) = &webhook.service {
            let name = ServerName::try_from(host(service));
            let name = name.map_err(|error| ConversionError(error.to_string()))?;
            https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = https.enable_http1().enable_http2().wrap_connector(tcp);
        Ok(Client::builder(TokioExecutor::new()).build(connector))
    }
}

/// The TLS configuration of the client of a webhook, whose certificate its CA must have signed.
fn client_config(webhook: &Webhook) -> Result<ClientConfig, ConversionError> {
    let (mut roots, mut bundle) = (RootCertStore::empty(), Vec::new());
    if webhook.ca_bundle.is_empty() {
        roots = system_roots().clone();
    } else {
        let unusable = |why: &dyn std::fmt::Display| {
            ConversionError(format!("the caBundle of the webhook cannot be used: {why}"))
        };
        for certificate in CertificateDer::pem_slice_iter(&webhook.ca_bundle) {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate.clone()).map_err(|error| match error {
                rustls::Error::InvalidCertificate(error) => unusable(&certificate::words(&error)),
                error => unusable(&error),
            })?;
            bundle.push(certificate);
        }
        if roots.is_empty() {
            return Err(unusable(&"it has no certificate"));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        certificate::Verifier::new(roots, bundle, Arc::clone(&provider)).map_err(ConversionError)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| ConversionError(error.to_string()))?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config.with_no_client_auth())
}

/// The CAs that the system trusts, read when they are first needed.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

/// The name of a service, which its certificate has.
fn host(service: &WebhookService) -> String {
    format!("{}.{}.svc", service.name, service.namespace)
}

/// The URL of a webhook, and the URL in error messages. The port of a service is found with its address.
fn addresses(webhook: &Webhook) -> (String, String) {
    let seconds = CALL_MAX.as_secs();
    match (&webhook.url, &webhook.service) {
        (_, Some(service)) => {
            let path = service.path.as_deref().unwrap_or("/");
            let path = path.strip_prefix('/').unwrap_or(path);
            let (host, port) = (host(service), service.port.unwrap_or(PORT));
            let rest = format!("/{path}?timeout={seconds}s");
            (format!("https://{host}{rest}"), format!("https://{host}:{port}{rest}"))
        }
        (url, None) => {
            let url = url.as_deref().unwrap_or_default();
            let sign = if url.contains('?') { '&' } else { '?' };
            let url = format!("{url}{sign}timeout={seconds}s");
            (url.clone(), url)
        }
    }
}

#[async_trait]
impl Converter for Webhooks {
    async fn send(&self, webhook: &Webhook, review: Bytes) -> Result<Bytes, ConversionError> {
        let (url, shown) = addresses(webhook);
        let failed = |why: String| ConversionError(format!("Post {shown:?}: {why}"));
        let client = self.client(webhook)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, concat!("keepwatch/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(review))
            .map_err(|error| failed(error.to_string()))?;
        let call = async {
            let response = client.request(request).await.map_err(|error| failed(root_cause(&error)))?;
            let status = response.status();
            let content_type = response.headers().get(header::CONTENT_TYPE);
            let content_type =
                content_type.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| failed(root_cause(&*error)))?.to_bytes();
            understood(status, &content_type, body).map_err(ConversionError)
        };
        match tokio::time::timeout(CALL_MAX, call).await {
            Ok(answer) => answer,
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }
}

/// The innermost cause of an error, in the words of Go where that is easy.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if let Some(error) = cause.downcast_ref::<std::io::Error>() {
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => return "connect: connection refused".to_owned(),
            std::io::ErrorKind::ConnectionReset => return "read: connection reset by peer".to_owned(),
            std::io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
            _ => {}
        }
        // An error of TLS is inside one of the connection.
        if let Some(inner) = error.get_ref() {
            return root_cause(inner);
        }
    }
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return tls_words(error);
    }
    match cause.to_string().as_str() {
        // hyper's words for an end before the answer.
        "connection closed before message completed" => "EOF".to_owned(),
        other => other.to_owned(),
    }
}

/// The meaning of an error of TLS. rustls's own texts show values of Rust.
fn tls_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => {
            format!("tls: failed to verify certificate: {}", certificate::words(error))
        }
        rustls::Error::InvalidMessage(_) => "tls: first record does not look like a TLS handshake".to_owned(),
        rustls::Error::AlertReceived(rustls::AlertDescription::ProtocolVersion) => {
            "remote error: tls: protocol version not supported".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            let mut words = String::new();
            for letter in format!("{alert:?}").chars() {
                if letter.is_ascii_uppercase() && !words.is_empty() {
                    words.push(' ');
                }
                words.push(letter.to_ascii_lowercase());
            }
            format!("remote error: tls: {words}")
        }
        rustls::Error::PeerIncompatible(_) => "tls: server selected unsupported protocol version".to_owned(),
        rustls::Error::DecryptError => "local error: tls: bad record MAC".to_owned(),
        rustls::Error::NoApplicationProtocol => "tls: server selected unadvertised ALPN protocol".to_owned(),
        _ => "tls: unexpected message".to_owned(),
    }
}

/// The largest part of an unstructured answer that an error message contains.
const SAID_BYTES_MAX: usize = 2048;

/// The body of an answer, or its meaning as Kubernetes' clients understand it.
fn understood(status: StatusCode, content_type: &str, body: Bytes) -> Result<Bytes, String> {
    if !(200..=206).contains(&status.as_u16()) {
        return Err(refusal(status, content_type, &body));
    }
    if body.is_empty() {
        let shown = if content_type.is_empty() { "application/json" } else { content_type };
        let code = status.as_u16();
        return Err(format!("0-length response with status code: {code} and content type: {shown}"));
    }
    Ok(body)
}

/// The meaning of a status, in the words of Kubernetes' clients.
fn refusal(status: StatusCode, content_type: &str, body: &[u8]) -> String {
    if let Some(failure) = failure(body) {
        return failure;
    }
    // Only text is repeated.
    let is_text =
        content_type.is_empty() || content_type.trim_start().to_ascii_lowercase().starts_with("text/");
    let said = match is_text {
        true => String::from_utf8_lossy(&body[..body.len().min(SAID_BYTES_MAX)]).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    let words = match status {
        StatusCode::BAD_REQUEST => "the server rejected our request for an unknown reason",
        StatusCode::UNAUTHORIZED => "the server has asked for the client to provide credentials",
        StatusCode::FORBIDDEN | StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE => &said,
        StatusCode::NOT_FOUND => "the server could not find the requested resource",
        StatusCode::METHOD_NOT_ALLOWED => "the server does not allow this method on the requested resource",
        StatusCode::CONFLICT => "the server reported a conflict",
        StatusCode::UNPROCESSABLE_ENTITY => "the server rejected our request due to an error in our request",
        StatusCode::TOO_MANY_REQUESTS => {
            "the server has received too many requests and has asked us to try again later"
        }
        StatusCode::SERVICE_UNAVAILABLE => "the server is currently unable to handle the request",
        StatusCode::GATEWAY_TIMEOUT => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        status if status.is_server_error() => {
            return format!("an error on the server ({said:?}) has prevented the request from succeeding");
        }
        status => {
            let code = status.as_u16();
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    words.to_owned()
}

/// The message of a body that is a failure in Kubernetes' own form.
fn failure(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let is_failure = status["kind"] == "Status" && status["status"] == "Failure";
    is_failure.then(|| status["message"].as_str().unwrap_or_default().to_owned())
}

/// Finds the addresses of services.
#[derive(Clone)]
struct Resolver(Weak<Registry>);

impl Resolver {
    /// The addresses at which a service is served.
    async fn resolve(&self, service: &WebhookService) -> Result<Vec<SocketAddr>, String> {
        let registry = self.0.upgrade().ok_or("the server is stopping")?;
        let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
        let target = Target { kind: known("", "services"), namespace, name };
        let object = registry.get(target, Position::Any).await;
        let object = object.map_err(|error| match error.is_not_found() {
            true => format!("service {name:?} not found"),
            false => error.to_string(),
        })?;
        let stored: Value = serde_json::from_slice(&object.value).unwrap_or_default();
        let wanted = service.port.unwrap_or(PORT);
        let spec = &stored["spec"];
        if spec["type"] == "ExternalName" {
            let external = spec["externalName"].as_str().unwrap_or_default();
            let found = tokio::net::lookup_host((external, wanted)).await;
            return found.map(Iterator::collect).map_err(|error| error.to_string());
        }
        let ports = spec["ports"].as_array().into_iter().flatten();
        let port = ports.clone().find(|port| port["port"].as_u64() == Some(u64::from(wanted)));
        let port = port.ok_or_else(|| format!("no service port {wanted} found for service {name:?}"))?;
        let mut found = self.endpoints(&registry, service, port["name"].as_str().unwrap_or_default()).await;
        if found.is_empty() {
            // The address of the service may be routed after all.
            let address = spec["clusterIP"].as_str().and_then(|text| text.parse::<IpAddr>().ok());
            let address = address.ok_or_else(|| format!("no endpoints available for service {name:?}"))?;
            found.push(SocketAddr::new(address, wanted));
        }
        Ok(found)
    }

    /// The ready endpoints of a service for the port of that name.
    async fn endpoints(&self, registry: &Registry, service: &WebhookService, port: &str) -> Vec<SocketAddr> {
        let kind = known("discovery.k8s.io", "endpointslices");
        let all = Target { kind, namespace: &service.namespace, name: "" };
        let labels = format!("kubernetes.io/service-name={}", service.name);
        let (Some(storage), Ok(labels)) = (registry.storage(kind), LabelSelector::parse(&labels)) else {
            return Vec::new();
        };
        let predicate = Predicate { labels, ..Predicate::default() };
        let request = ListRequest { recursive: true, at: ListAt::Any, limit: None, predicate };
        let Ok(slices) = storage.get_list(&all.key(), request).await else { return Vec::new() };
        let mut found = Vec::new();
        for slice in &slices.items {
            let slice: Value = serde_json::from_slice(&slice.value).unwrap_or_default();
            let ports = slice["ports"].as_array().into_iter().flatten();
            let is_it = |own: &&Value| own["name"].as_str().unwrap_or_default() == port;
            let number = ports.clone().find(is_it).and_then(|own| own["port"].as_u64());
            let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            for endpoint in endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false) {
                let addresses = endpoint["addresses"].as_array().into_iter().flatten();
                let addresses = addresses.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok());
                found.extend(addresses.map(|address| SocketAddr::new(address, number)));
            }
        }
        found
    }
}

/// Finds the addresses of one webhook: those of its service, or of the name in its URL.
#[derive(Clone)]
struct Resolve {
    resolver: Resolver,
    service: Option<WebhookService>,
}

impl tower_service::Service<Name> for Resolve {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Resolve { resolver, service } = self.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = match service {
                Some(service) => resolver.resolve(&service).await?,
                // The port of the URL counts.
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            Ok(found.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_called_at_its_url_or_by_the_name_of_its_service() {
        let webhook = |url: Option<&str>, path: Option<&str>, port| Webhook {
            url: url.map(str::to_owned),
            service: url.is_none().then(|| WebhookService {
                namespace: "ns".to_owned(),
                name: "hook".to_owned(),
                path: path.map(str::to_owned),
                port,
            }),
            ca_bundle: Vec::new(),
            review_versions: vec!["v1".to_owned()],
        };
        for (webhook, called, expected) in [
            (
                webhook(Some("https://a.example:1/x"), None, None),
                "https://a.example:1/x?timeout=30s",
                "https://a.example:1/x?timeout=30s",
            ),
            (
                webhook(None, Some("/convert"), None),
                "https://hook.ns.svc/convert?timeout=30s",
                "https://hook.ns.svc:443/convert?timeout=30s",
            ),
            (
                webhook(None, None, Some(8443)),
                "https://hook.ns.svc/?timeout=30s",
                "https://hook.ns.svc:8443/?timeout=30s",
            ),
        ] {
            assert_eq!(addresses(&webhook), (called.to_owned(), expected.to_owned()));
        }
    }

    #[test]
    fn what_is_no_answer_is_explained_in_the_words_of_kubernetes_clients() {
        let json = "application/json";
        for (code, content_type, body, expected) in [
            (200, json, "", "0-length response with status code: 200 and content type: application/json"),
            (200, "text/plain", "", "0-length response with status code: 200 and content type: text/plain"),
            (200, "", "", "0-length response with status code: 200 and content type: application/json"),
            (
                500,
                json,
                "oops",
                r#"an error on the server ("unknown") has prevented the request from succeeding"#,
            ),
            (
                500,
                "text/plain",
                " oops\n",
                r#"an error on the server ("oops") has prevented the request from succeeding"#,
            ),
            (502, "", "", r#"an error on the server ("") has prevented the request from succeeding"#),
            (500, json, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}"#, "no"),
            (503, json, "x", "the server is currently unable to handle the request"),
            (403, "text/plain", "not you", "not you"),
            (404, json, "", "the server could not find the requested resource"),
            (
                302,
                json,
                "",
                "the server responded with the status code 302 but did not return more information",
            ),
        ] {
            let understood = understood(StatusCode::from_u16(code).unwrap(), content_type, body.into());
            assert_eq!(understood.unwrap_err(), expected, "{code} {content_type:?} {body:?}");
        }
        assert_eq!(understood(StatusCode::OK, "", "{}".into()).unwrap(), "{}");
    }

    #[test]
    fn errors_of_the_connection_are_reported_without_values_and_links_of_rust() {
        use std::io::{Error, ErrorKind};
        let link = "peer closed connection without sending TLS close_notify: https://docs.rs/rustls";
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        let odd = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let general = rustls::Error::General("x".to_owned());
        for (error, expected) in [
            (Error::new(ErrorKind::UnexpectedEof, link), "EOF"),
            (Error::new(ErrorKind::InvalidData, alert), "remote error: tls: handshake failure"),
            (Error::new(ErrorKind::InvalidData, odd), "tls: first record does not look like a TLS handshake"),
            (Error::new(ErrorKind::InvalidData, general), "tls: unexpected message"),
            (Error::from(ErrorKind::ConnectionReset), "read: connection reset by peer"),
        ] {
            assert_eq!(root_cause(&error), expected);
        }
    }

    #[test]
    fn a_bundle_without_certificates_is_refused() {
        let webhook = Webhook {
            url: Some("https://a.example".to_owned()),
            service: None,
            ca_bundle: b"x".to_vec(),
            review_versions: Vec::new(),
        };
        let refused = client_config(&webhook).unwrap_err();
        assert_eq!(refused.0, "the caBundle of the webhook cannot be used: it has no certificate");
    }
}
