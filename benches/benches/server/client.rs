//! A client that only does what is measured: requests, and watches whose events are checked.
//!
//! Kept true: an answer that is no success ends the program, for a cost of failures is worth nothing; so does a watch
//! whose events are not in order.

use crate::process::Server;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{fs, net::SocketAddr, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        }
    }
}

/// Who connects: the admin of the server's own kubeconfig.
#[derive(Clone)]
pub(crate) struct Admin {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// How far an HTTP/2 server may be ahead of its client, as Go's client allows it.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

impl Admin {
    pub(crate) fn of(server: &Server, protocol: Protocol) -> Admin {
        let text = fs::read_to_string(server.directory.path().join("admin.kubeconfig"))
            .expect("the server wrote it");
        let field = |name: &str| {
            let line =
                text.lines().find_map(|line| line.trim().strip_prefix(name)).expect("a kubeconfig has it");
            let quoted = line.trim_start_matches(':').trim().trim_matches('"');
            STANDARD.decode(quoted).expect("it is base64")
        };
        let certificates = |pem: &[u8]| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().expect("it is PEM")
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&field("certificate-authority-data")));
        let chain = certificates(&field("client-certificate-data"));
        let key = PrivateKeyDer::from_pem_slice(&field("client-key-data")).expect("it is PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("there are versions")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .expect("the key is the certificate's");
        tls.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        Admin { address: server.address, tls: Arc::new(tls) }
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is a socket");
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        let stream = stream.expect("the certificates are the server's");
        let speaks_2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        let sender = if speaks_2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
            let (sender, connection) = builder.handshake(stream).await.expect("the server speaks HTTP/2");
            tokio::spawn(connection);
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(stream).await.expect("the server speaks HTTP/1.1");
            tokio::spawn(connection);
            Sender::Http1(sender)
        };
        Client { sender }
    }

    pub(crate) async fn connect_many(&self, count: usize) -> Vec<Client> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.connect().await);
        }
        clients
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection.
pub(crate) struct Client {
    sender: Sender,
}

impl Client {
    /// The body of the answer to a request that must go well.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: impl Into<Bytes>) -> Bytes {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let answer = self.send(method, path, kind, body.into()).await;
        answer.into_body().collect().await.expect("the answer comes").to_bytes()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Bytes {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Reads a long answer without keeping it: how many bytes it has, and how often `needle` stands in it.
    pub(crate) async fn read_through(&mut self, path: &str, needle: &[u8]) -> (usize, usize) {
        let mut body = self.send(Method::GET, path, "application/json", Bytes::new()).await.into_body();
        let (mut bytes, mut found, mut window) = (0, 0, Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.expect("the answer comes").into_data() else { continue };
            bytes += data.len();
            window.extend_from_slice(&data);
            // Quickly: the client's work is not what is measured, and there are no cores to spare for it.
            found += memchr::memmem::find_iter(&window, needle).count();
            window.drain(..window.len().saturating_sub(needle.len() - 1));
        }
        (bytes, found)
    }

    /// Begins a watch.
    pub(crate) async fn watch(&mut self, path: &str) -> Watcher {
        let answer = self.send(Method::GET, path, "application/json", Bytes::new()).await;
        Watcher { body: answer.into_body(), unread: Vec::new(), version: 0 }
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: Bytes,
    ) -> Response<Incoming> {
        let mut request = Request::builder().method(method).header(header::ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let answer = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.expect("the connection stays");
                let request = request.uri(path).header(header::HOST, "server");
                sender.send_request(request.body(Full::new(body)).expect("a request")).await
            }
            Sender::Http2(sender) => {
                let request = request.uri(format!("https://server{path}"));
                sender.send_request(request.body(Full::new(body)).expect("a request")).await
            }
        };
        let answer = answer.expect("the server answers");
        if !matches!(answer.status(), StatusCode::OK | StatusCode::CREATED) {
            let (code, text) =
                (answer.status(), answer.into_body().collect().await.expect("the answer comes"));
            panic!("{path}: {code}: {}", String::from_utf8_lossy(&text.to_bytes()));
        }
        answer
    }
}

/// A watch that is open.
pub(crate) struct Watcher {
    body: Incoming,
    unread: Vec<u8>,
    version: u64,
}

impl Watcher {
    /// The versions of the next events, at least one; empty when the watch has ended. They must rise.
    pub(crate) async fn next(&mut self) -> Vec<u64> {
        let mut versions = Vec::new();
        while versions.is_empty() {
            let Some(frame) = self.body.frame().await else { break };
            let Ok(data) = frame.expect("the watch goes on").into_data() else { continue };
            self.unread.extend_from_slice(&data);
            let mut from = 0;
            while let Some(length) = self.unread[from..].iter().position(|byte| *byte == b'\n') {
                let event = &self.unread[from..from + length];
                assert!(event.starts_with(br#"{"type":"MODIFIED""#), "{}", String::from_utf8_lossy(event));
                let version = version_in(event);
                assert!(version > self.version, "{version} came after {}", self.version);
                self.version = version;
                versions.push(version);
                from += length + 1;
            }
            self.unread.drain(..from);
        }
        versions
    }

    /// Reads until `versions` have come, which must be all that comes.
    pub(crate) async fn expect(&mut self, versions: &[u64]) {
        let mut missing = versions;
        while !missing.is_empty() {
            let come = self.next().await;
            assert!(!come.is_empty(), "the watch was cut with {} events undelivered", missing.len());
            assert!(missing.starts_with(&come), "events are missing, repeated or in another order");
            missing = &missing[come.len()..];
        }
    }
}

/// The first resourceVersion in a JSON text.
pub(crate) fn version_in(json: &[u8]) -> u64 {
    text_in(json, br#""resourceVersion":""#)
        .and_then(|text| text.parse().ok())
        .expect("objects have a version")
}

/// What stands behind `name` until the next quote.
pub(crate) fn text_in<'a>(json: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let at = json.windows(name.len()).position(|window| window == name)? + name.len();
    let length = json[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&json[at..at + length]).ok()
}
