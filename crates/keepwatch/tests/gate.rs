//! The gate before every handler: a request without a credential, with a wrong one or without permission is refused on every
//! path and method; it changes nothing and reveals nothing.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod common;

use base64::{Engine, engine::general_purpose::STANDARD};
use common::*;
use keepwatch::{AllowedOrigins, Server};
use keepwatch_endpoints::auth::{Attributes, Authorizer, Decision, User};
use keepwatch_registry::{catalog::Catalog, kind::Kind, kinds::built_in};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::{
    pki_types::{CertificateDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// What must not be found in any answer.
const SECRET: &str = "sesame";

/// The collections in which objects of a resource lie: all of them, and those of a namespace.
fn collections(resource: &Kind) -> Vec<String> {
    let (group, version, plural) = (&resource.group, &resource.version, &resource.plural);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let mut own = vec![format!("{root}/{plural}"), format!("{root}/watch/{plural}")];
    if resource.namespaced {
        own.push(format!("{root}/namespaces/default/{plural}"));
        own.push(format!("{root}/watch/namespaces/default/{plural}"));
    }
    own
}

/// Every path that there is of a resource, for an object of this name.
fn resource_paths(resource: &Kind, name: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for collection in collections(resource) {
        paths.push(format!("{collection}?watch=1"));
        paths.push(format!("{collection}?labelSelector=a%3Db&limit=1"));
        paths.push(format!("{collection}?fieldSelector=metadata.name%3D{name}"));
        paths.push(format!("{collection}/{name}"));
        let subresources = resource.subresources.iter().map(|subresource| subresource.name.as_str());
        paths.extend(subresources.map(|subresource| format!("{collection}/{name}/{subresource}")));
        paths.push(format!("{collection}/{name}/proxy/a/b"));
        paths.push(collection);
    }
    paths
}

/// Every path that is no resource.
fn other_paths() -> Vec<String> {
    let mut paths: Vec<String> = [
        "/",
        "/api",
        "/api/",
        "/api/v1",
        "/apis",
        "/apis/",
        "/metrics",
        "/metrics/",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/version",
        "/version/",
        "/nowhere",
        "/api/v9",
        "/apis/nowhere",
        "/logs",
        "/debug/pprof",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ]
    .map(str::to_owned)
    .to_vec();
    for health in ["/healthz", "/livez", "/readyz"] {
        paths.extend(["", "/", "/ping", "/etcd", "?verbose"].map(|more| format!("{health}{more}")));
    }
    for (group, versions) in Catalog::new(built_in().iter().cloned()).snapshot().groups() {
        paths.push(format!("/apis/{group}"));
        for version in versions {
            paths.push(format!("/apis/{group}/{version}"));
            paths.push(format!("/openapi/v3/apis/{group}/{version}"));
        }
    }
    paths
}

fn is_public(method: &str, path: &str) -> bool {
    method == "GET" && PUBLIC.contains(&path.split('?').next().unwrap_or_default())
}

/// The body that a request carries if it carries one.
fn body(resource: Option<&Kind>, method: &str, name: &str) -> (&'static str, String) {
    let object = json!({"metadata": {"name": name}, "data": {"k": "dg=="}}).to_string();
    match (resource, method) {
        (Some(_), "POST" | "PUT") => ("Content-Type: application/json\r\n", object),
        (Some(_), "PATCH") => ("Content-Type: application/merge-patch+json\r\n", object),
        _ => ("", String::new()),
    }
}

/// All that is kept, by path.
async fn everything(server: &Server) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for resource in built_in().iter().filter(|resource| resource.storage.is_some()) {
        let path = &collections(resource)[0];
        let mut list = get(server, path).await.json();
        // The time of the list is none of the objects.
        list["metadata"] = Value::Null;
        if resource.plural == "servicecidrs" {
            // The server itself sets their condition, ten seconds after it started.
            for range in list["items"].as_array_mut().into_iter().flatten() {
                (range["status"], range["metadata"]["resourceVersion"]) = (Value::Null, Value::Null);
            }
        }
        all.push((path.clone(), list));
    }
    all
}

/// Sends every request that there is, with these headers, and looks at every answer.
async fn walk(server: &Server, headers: &str, mut check: impl FnMut(&str, &str, &Answer)) -> usize {
    let mut requests: Vec<(Option<&Kind>, String)> =
        other_paths().into_iter().map(|path| (None, path)).collect();
    for resource in built_in() {
        requests.extend(resource_paths(resource, "there").into_iter().map(|path| (Some(&**resource), path)));
    }
    let mut count = 0;
    let mut wire = Wire::open(server).await;
    for (resource, path) in &requests {
        for method in METHODS {
            let (kind, body) = body(*resource, method, "new");
            let upgrades: &[&str] =
                if method == "GET" && path.contains("watch") { &["", UPGRADE] } else { &[""] };
            for upgrade in upgrades {
                let length = body.len();
                wire.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{headers}{kind}{upgrade}Content-Length: {length}\r\n\r\n{body}")).await;
                let answer = if method == "HEAD" { wire.head().await } else { wire.answer().await };
                let answer = answer.unwrap_or_else(|| panic!("no answer to {method} {path}"));
                if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
                    wire = Wire::open(server).await;
                }
                assert!(!answer.text().contains(SECRET), "{method} {path}: {answer:?}");
                check(method, path, &answer);
                count += 1;
            }
        }
    }
    count
}

/// Makes an object of each of a few kinds, with something in it that nobody else may see.
async fn fill(server: &Server) {
    let labels = json!({"name": "there", "labels": {"a": "b"}, "annotations": {"a": SECRET}});
    for (path, object) in [
        ("/api/v1/namespaces/default/configmaps", json!({"metadata": labels, "data": {"a": SECRET}})),
        ("/api/v1/namespaces/default/secrets", json!({"metadata": labels, "stringData": {"a": SECRET}})),
        ("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": labels})),
        ("/api/v1/nodes", json!({"metadata": labels})),
        ("/api/v1/namespaces", json!({"metadata": labels})),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": labels, "spec": {"containers": [{"name": "c", "image": SECRET}]}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": labels, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": SECRET}]}},
            }}),
        ),
    ] {
        let made = post(server, path, &object.to_string()).await;
        assert_eq!(made.code, 201, "{path}: {}", made.text());
    }
}

async fn filled() -> Server {
    let server = server().start().await.unwrap();
    fill(&server).await;
    server
}

#[tokio::test]
async fn unauthenticated_users_may_only_read_health_and_version() {
    let server = filled().await;
    let before = everything(&server).await;
    let count = walk(&server, "", |method, path, answer| {
        if is_public(method, path) {
            assert_eq!(answer.code, 200, "{method} {path}");
            return;
        }
        assert_eq!(answer.code, 403, "{method} {path}: {answer:?}");
        if method != "HEAD" {
            assert_eq!(answer.json()["reason"], "Forbidden", "{method} {path}");
        }
    })
    .await;
    assert!(count > 5_000, "{count} requests");
    assert_eq!(everything(&server).await, before);
}

#[tokio::test]
async fn a_wrong_token_is_refused_everywhere_however_public_the_path() {
    let server = filled().await;
    let before = everything(&server).await;
    for headers in
        ["Authorization: Bearer wrong\r\n", "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.\r\n"]
    {
        walk(&server, headers, |method, path, answer| {
            assert_eq!(answer.code, 401, "{method} {path}: {answer:?}");
            if method != "HEAD" {
                assert_eq!(answer.json()["message"], "Unauthorized", "{method} {path}");
            }
        })
        .await;
    }
    assert_eq!(everything(&server).await, before);
}

/// A connection on which the client shows a certificate.
async fn secure(server: &Server, certificate: &[u8], key: &KeyPair, tls: Tls) -> Wire<TlsStream<TcpStream>> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let signer = provider.key_provider.load_private_key(key.serialize_der().try_into().unwrap()).unwrap();
    let shown = CertifiedKey::new(vec![certificate.to_vec().into()], signer);
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[tls])
        .unwrap()
        .with_root_certificates(roots(server))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    Wire::over(connector.connect("localhost".try_into().unwrap(), stream).await.unwrap())
}

type Tls = &'static rustls::SupportedProtocolVersion;
const TLS_VERSIONS: [Tls; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// As with a wrong token, the client receives a response and is not just cut off.
#[tokio::test]
async fn a_certificate_of_a_strange_ca_stands_for_nobody() {
    let server = server().start().await.unwrap();
    let (ca, key) = (Ca::new(), KeyPair::generate().unwrap());
    let strange = ca.certificate("admin", &key);
    for certificate in [&strange, &version1(&strange, &ca)] {
        for tls in TLS_VERSIONS {
            for (headers, code) in [("", 401), (ALICE, 200)] {
                let mut wire = secure(&server, certificate, &key, tls).await;
                wire.send(format!("GET {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{headers}\r\n")).await;
                assert_eq!(wire.answer().await.unwrap().code, code, "{headers}");
            }
        }
    }
}

/// A server that takes the certificates of a CA.
async fn server_of(ca: &Ca, origins: &[&'static str]) -> Server {
    let origins = AllowedOrigins::parse(origins.iter().copied()).unwrap();
    server().client_cas([ca.0.der().clone()]).allowed_origins(origins).start().await.unwrap()
}

/// openssl makes such certificates unless it is asked for extensions, and the real server takes them.
#[tokio::test]
async fn a_certificate_of_version_1_stands_for_its_user() {
    for (algorithm, other) in [
        (&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519),
        (&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ECDSA_P256_SHA256),
        (&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P256_SHA256),
    ] {
        let (ca, other_ca) = (Ca::with(algorithm), Ca::with(other));
        let server = server_of(&ca, &[]).await;
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = ca.certificate("olga", &key);
        let forged = version1(&certificate, &other_ca);
        for tls in TLS_VERSIONS {
            for (certificate, code) in [(version1(&certificate, &ca), 201), (forged.clone(), 401)] {
                let mut wire = secure(&server, &certificate, &key, tls).await;
                let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
                wire.send(format!("POST {review} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{{}}"))
                    .await;
                let answer = wire.answer().await.unwrap();
                assert_eq!(answer.code, code, "{}", answer.text());
                if code == 201 {
                    assert_eq!(answer.json()["status"]["userInfo"]["username"], "olga");
                }
            }
        }
    }
}

/// A browser shows its user's certificate whatever page asks for something.
#[tokio::test]
async fn a_certificate_does_not_count_for_pages_of_other_origins() {
    let ca = Ca::new();
    let server = server_of(&ca, &["https://friend.example"]).await;
    let key = KeyPair::generate().unwrap();
    let certificate = ca.certificate("olga", &key);
    let host = server.address();
    let upgrade = UPGRADE.split("Origin:").next().unwrap();
    let foreign = "Origin: https://evil.example\r\n";
    let cases = [
        ("POST", "", 201),
        ("POST", foreign, 403),
        ("POST", "Origin: null\r\n", 403),
        ("POST", "Sec-Fetch-Site: cross-site\r\n", 403),
        ("POST", "Sec-Fetch-Site: same-origin\r\n", 201),
        ("POST", &format!("Origin: https://{host}\r\n"), 201),
        ("POST", "Origin: https://friend.example\r\nSec-Fetch-Site: cross-site\r\n", 201),
        ("POST", &format!("{foreign}{ALICE}"), 201),
        ("POST", &format!("{foreign}Authorization: Bearer wrong\r\n"), 401),
        ("GET", foreign, 200),
        ("GET", &format!("{upgrade}{foreign}"), 403),
        ("GET", &format!("{upgrade}Origin: https://{host}\r\n"), 101),
    ];
    for (method, headers, code) in cases {
        let (query, body) = match method {
            "GET" => ("?watch=1", String::new()),
            _ => ("", r#"{"metadata":{"generateName":"a-"}}"#.to_owned()),
        };
        let mut wire = secure(&server, &certificate, &key, &rustls::version::TLS13).await;
        let length = body.len();
        wire.send(format!(
            "{method} {CONFIGMAPS}{query} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        let answer = wire.head().await.unwrap();
        assert_eq!(answer.code, code, "{method} {headers}");
    }
}

/// A CA for client certificates.
struct Ca(rcgen::Certificate, KeyPair);

impl Ca {
    fn new() -> Ca {
        Ca::with(&rcgen::PKCS_ECDSA_P256_SHA256)
    }

    fn with(algorithm: &'static rcgen::SignatureAlgorithm) -> Ca {
        let key = KeyPair::generate_for(algorithm).unwrap();
        Ca(Ca::params().self_signed(&key).unwrap(), key)
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "clients");
        params
    }

    /// A certificate of version 3, in DER.
    fn certificate(&self, name: &str, key: &KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let issuer = rcgen::Issuer::new(Ca::params(), &self.1);
        params.signed_by(key, &issuer).unwrap().der().to_vec()
    }
}

/// What a certificate of version 3 says, as one of version 1: without its version and its extensions.
fn version1(certificate: &[u8], ca: &Ca) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 3;
    const VERSION: u8 = 0xa0;
    const EXTENSIONS: u8 = 0xa3;
    let parts = elements(elements(certificate)[0].1);
    let kept = elements(parts[0].1).into_iter().filter(|(tag, _)| ![VERSION, EXTENSIONS].contains(tag));
    // The issuer's algorithm may be another one than before.
    let signed_by = elements(elements(ca.0.der())[0].1)[1].1.to_vec();
    let kept = kept.enumerate().map(|(at, (tag, content))| match at {
        1 => element(tag, &signed_by),
        _ => element(tag, content),
    });
    let content = element(SEQUENCE, &kept.collect::<Vec<_>>().concat());
    let signature = rcgen::SigningKey::sign(&ca.1, &content).unwrap();
    let signature = element(BIT_STRING, &[&[0], &signature[..]].concat());
    element(SEQUENCE, &[content, element(SEQUENCE, &signed_by), signature].concat())
}

/// The elements of DER that stand behind each other: their tags and what is in them.
fn elements(mut der: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [tag, first, rest @ ..] = der {
        let bytes = usize::from(first.saturating_sub(0x80));
        let (length, rest) = rest.split_at(bytes);
        let length = match first {
            0..0x80 => usize::from(*first),
            _ => length.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte)),
        };
        found.push((*tag, &rest[..length]));
        der = &rest[length..];
    }
    found
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut der = vec![tag];
    match length {
        [0, short @ 0..0x80] => der.push(short),
        [high, low] => der.extend([0x82, high, low]),
    }
    der.extend_from_slice(content);
    der
}

/// The CA that the kubeconfig names.
fn roots(server: &Server) -> rustls::RootCertStore {
    let kubeconfig = server.kubeconfig();
    let data = kubeconfig.split("certificate-authority-data:").nth(1).unwrap().lines().next().unwrap();
    let pem = STANDARD.decode(data.trim().trim_matches('"')).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    roots
}

/// Allows everything until the flag is cleared.
struct Switch(Arc<AtomicBool>);

#[async_trait::async_trait]
impl Authorizer for Switch {
    async fn authorize(&self, _: &User, _: &Attributes<'_>) -> Decision {
        match self.0.load(Ordering::SeqCst) {
            true => Decision::Allow,
            false => Decision::Deny { reason: String::new() },
        }
    }
}

#[tokio::test]
async fn requests_that_the_authorizer_does_not_allow_are_refused_on_every_path() {
    let allows = Arc::new(AtomicBool::new(true));
    let server = server().authorizer(Switch(Arc::clone(&allows))).start().await.unwrap();
    fill(&server).await;
    let before = everything(&server).await;
    allows.store(false, Ordering::SeqCst);
    for headers in [ALICE.to_owned(), String::new(), format!("{ALICE}Impersonate-User: bob\r\n")] {
        walk(&server, &headers, |method, path, answer| {
            assert_eq!(answer.code, 403, "{method} {path}: {answer:?}")
        })
        .await;
    }
    allows.store(true, Ordering::SeqCst);
    assert_eq!(everything(&server).await, before);
}

/// Only users with permission learn that a path does not exist.
#[tokio::test]
async fn a_refusal_does_not_tell_whether_an_object_is_there() {
    let server = filled().await;
    for path in [
        "/api/v1/namespaces/default/secrets/",
        "/api/v1/nodes/",
        "/apis/apps/v1/namespaces/default/deployments/",
    ] {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let mut answers = Vec::new();
            for name in ["there", "absent"] {
                let mut wire = Wire::open(&server).await;
                wire.send(format!("{method} {path}{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"))
                    .await;
                answers.push(wire.answer().await.unwrap().text().replace(name, "NAME"));
            }
            assert_eq!(answers[0], answers[1], "{method} {path}");
        }
    }
}
