//! A client that creates and changes pods, with the certificate of the kubeconfig that the server has written.
//!
//! Kept true: an answer that is no success ends the program.

use crate::process::Server;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{fs, net::SocketAddr, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The admin of the server's own kubeconfig.
pub(crate) struct Admin {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Admin {
    pub(crate) fn of(server: &Server) -> Admin {
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
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Admin { address: server.address, tls: Arc::new(tls) }
    }

    async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is a socket");
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        let stream = TokioIo::new(stream.expect("the certificates are the server's"));
        let (sender, connection) = http1::handshake(stream).await.expect("the server accepts HTTP/1.1");
        tokio::spawn(connection);
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

/// One connection.
pub(crate) struct Client {
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Client {
    /// Sends a request that must succeed and returns the body of the response.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: impl Into<Bytes>) -> Bytes {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "server")
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(body.into()))
            .expect("a request");
        self.sender.ready().await.expect("the connection stays open");
        let response = self.sender.send_request(request).await.expect("the server responds");
        let code = response.status();
        let body = response.into_body().collect().await.expect("the response is whole").to_bytes();
        let is_success = matches!(code, StatusCode::OK | StatusCode::CREATED);
        assert!(is_success, "{path}: {code}: {}", String::from_utf8_lossy(&body));
        body
    }

    pub(crate) async fn get(&mut self, path: &str) -> Bytes {
        self.ask(Method::GET, path, Bytes::new()).await
    }
}

/// The first resourceVersion in a JSON text.
pub(crate) fn version_in(json: &[u8]) -> u64 {
    const NAME: &[u8] = br#""resourceVersion":""#;
    let from = memchr::memmem::find(json, NAME).expect("objects have a version") + NAME.len();
    let length = memchr::memchr(b'"', &json[from..]).expect("it ends");
    let text = std::str::from_utf8(&json[from..from + length]).expect("it is text");
    text.parse().expect("it is a number")
}
