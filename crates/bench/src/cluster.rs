//! Connections to the server that is measured, as a kubeconfig describes it.
//!
//! Kept true: the protocol is the requested one; connections share nothing but what a client's would share, so the
//! server has as many of them as it would have with that many clients. Over HTTP/2 up to [`STREAMS_MAX`] watches share
//! one, as they do in clients that use it.

use crate::{Failure, events::Events};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_client::{
    Config,
    client::{Body, ConfigExt},
};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tower::{BoxError, Layer, ServiceExt, service_fn};

/// The protocol of requests and watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Every watch has a connection of its own.
    #[default]
    Http1,
    /// Watches share connections.
    Http2,
    /// Watches go over WebSockets, everything else over HTTP/1.1.
    WebSocket,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
            Protocol::WebSocket => "WebSocket",
        })
    }
}

/// The number of watches that share a connection where that is possible; servers allow 100 to 250.
const STREAMS_MAX: usize = 100;
/// The HTTP/2 flow-control windows of a stream and of a connection, as large as those of Go's client.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// A server, and the credentials of its clients.
#[derive(Clone)]
pub(crate) struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    url: Uri,
    /// Host and port.
    address: String,
    name: Option<ServerName<'static>>,
    tls: Option<Arc<ClientConfig>>,
    /// The headers that authenticate requests.
    headers: HeaderMap,
    protocol: Protocol,
    /// The connection that watches share now, and how many do.
    watches: Mutex<Option<(http2::SendRequest<Full<Bytes>>, usize)>>,
}

impl Cluster {
    /// Sends no request yet.
    pub(crate) async fn new(config: Config, protocol: Protocol) -> Result<Cluster, Failure> {
        if let Some(proxy) = &config.proxy_url {
            return Err(Failure::new(format!(
                "the kubeconfig asks for the proxy {proxy}, and none is used here"
            )));
        }
        let url = config.cluster_url.clone();
        let host = url.host().ok_or_else(|| Failure::new(format!("{url} names no host")))?.to_owned();
        let is_tls = url.scheme_str() != Some("http");
        let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let address = format!("{host}:{port}");
        let headers = headers(&config).await?;
        let (mut tls, mut name) = (None, None);
        if is_tls {
            let bare = host.trim_matches(['[', ']']).to_owned();
            let wanted = config.tls_server_name.clone().unwrap_or(bare);
            name = Some(ServerName::try_from(wanted).map_err(Failure::at(&url))?);
            let mut client = config.rustls_client_config().map_err(Failure::at(&url))?;
            client.alpn_protocols = match protocol {
                Protocol::Http2 => vec![b"h2".to_vec()],
                Protocol::Http1 | Protocol::WebSocket => vec![b"http/1.1".to_vec()],
            };
            tls = Some(Arc::new(client));
        }
        let watches = Mutex::new(None);
        let shared = Shared { config, url, address, name, tls, headers, protocol, watches };
        Ok(Cluster { shared: Arc::new(shared) })
    }

    pub(crate) fn url(&self) -> String {
        self.shared.url.to_string().trim_end_matches('/').to_owned()
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// The configuration, for clients of another library.
    pub(crate) fn config(&self) -> Config {
        self.shared.config.clone()
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let sender = match self.shared.protocol {
            Protocol::Http2 => Sender::Http2(self.http2().await?),
            Protocol::Http1 | Protocol::WebSocket => {
                let handshake = http1::handshake(TokioIo::new(self.stream().await?)).await;
                let (sender, connection) = handshake.map_err(Failure::at(self.url()))?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
        };
        Ok(Connection { cluster: self.clone(), sender })
    }

    /// Begins a watch.
    pub(crate) async fn watch(&self, path: &str) -> Result<Events, RequestError> {
        in_time(path, async {
            match self.shared.protocol {
                Protocol::WebSocket => self.socket(path).await,
                Protocol::Http1 => self.connect().await?.stream(path).await,
                Protocol::Http2 => {
                    let sender = Sender::Http2(self.shared_sender().await?);
                    Connection { cluster: self.clone(), sender }.stream(path).await
                }
            }
        })
        .await
    }

    /// Makes watches that are opened later use other connections than those that were opened before.
    pub(crate) async fn stop_sharing(&self) {
        *self.shared.watches.lock().await = None;
    }

    async fn shared_sender(&self) -> Result<http2::SendRequest<Full<Bytes>>, Failure> {
        let mut watches = self.shared.watches.lock().await;
        if let Some((sender, count)) = &mut *watches
            && *count < STREAMS_MAX
            && !sender.is_closed()
        {
            *count += 1;
            return Ok(sender.clone());
        }
        let sender = self.http2().await?;
        *watches = Some((sender.clone(), 1));
        Ok(sender)
    }

    async fn http2(&self) -> Result<http2::SendRequest<Full<Bytes>>, Failure> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let handshake = builder.handshake(TokioIo::new(self.stream().await?)).await;
        let (sender, connection) = handshake.map_err(Failure::at(self.url()))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let Shared { address, name, tls, .. } = &*self.shared;
        let unreached = || Failure::at(format!("{} cannot be reached", self.url()));
        let connecting =
            in_time(address, async { Ok(TcpStream::connect(address).await.map_err(unreached())?) });
        let stream = connecting.await?;
        stream.set_nodelay(true).map_err(unreached())?;
        match (tls, name) {
            (Some(tls), Some(name)) => {
                let connector = TlsConnector::from(Arc::clone(tls));
                let greeting = connector.connect(name.clone(), stream);
                Ok(Box::new(in_time(address, async { Ok(greeting.await.map_err(unreached())?) }).await?))
            }
            _ => Ok(Box::new(stream)),
        }
    }

    async fn socket(&self, path: &str) -> Result<Events, RequestError> {
        let scheme = if self.is_tls() { "wss" } else { "ws" };
        let request = format!("{scheme}://{}{}", self.shared.address, self.full(path));
        let mut request = request.into_client_request().map_err(Failure::at("no WebSocket"))?;
        request.headers_mut().extend(self.shared.headers.clone());
        // Servers check the origin that browsers send.
        let origin = self.url().parse().map_err(Failure::at("no WebSocket"))?;
        request.headers_mut().insert(header::ORIGIN, origin);
        let opened = tokio_tungstenite::client_async(request, self.stream().await?).await;
        let (socket, _) = opened.map_err(Failure::at("no WebSocket"))?;
        Ok(Events::of_socket(socket))
    }

    fn full(&self, path: &str) -> String {
        format!("{}{path}", self.shared.url.path().trim_end_matches('/'))
    }
}

/// The time after which a server that does not answer counts as gone.
const ANSWER_MAX: Duration = Duration::from_secs(60);

async fn in_time<T>(
    what: &str,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let late = |_| Failure::new(format!("{what}: no answer within {} s", ANSWER_MAX.as_secs()));
    timeout(ANSWER_MAX, answer).await.map_err(late)?
}

/// The byte stream of a connection: TCP or TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The headers that authenticate requests; tokens are fetched once.
async fn headers(config: &Config) -> Result<HeaderMap, Failure> {
    let unknown =
        |error: &dyn fmt::Display| Failure::new(format!("the kubeconfig does not say who asks: {error}"));
    // Answers with the headers of the request.
    let echo = service_fn(async |request: Request<Body>| {
        let mut answer = Response::new(Body::empty());
        *answer.headers_mut() = request.into_parts().0.headers;
        Ok::<_, BoxError>(answer)
    });
    let extra = config.extra_headers_layer().map_err(|error| unknown(&error))?.layer(echo);
    let request = Request::new(Body::empty());
    let answered = match config.auth_layer().map_err(|error| unknown(&error))? {
        Some(auth) => auth.layer(extra).oneshot(request).await,
        None => extra.oneshot(request).await,
    };
    Ok(answered.map_err(|error| unknown(&error))?.into_parts().0.headers)
}

/// A request that failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// An error response: the code, and the message with the path.
    Answer(StatusCode, String),
    /// No response.
    Broken(Failure),
}

impl RequestError {
    /// Whether the request may have been executed all the same.
    pub(crate) fn is_uncertain(&self) -> bool {
        match self {
            RequestError::Answer(code, _) => code.is_server_error(),
            RequestError::Broken(_) => true,
        }
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        RequestError::Broken(failure)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Answer(code, text) => write!(f, "{code}: {text}"),
            RequestError::Broken(failure) => failure.fmt(f),
        }
    }
}

impl From<RequestError> for Failure {
    fn from(refused: RequestError) -> Self {
        Failure::new(refused.to_string())
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection, or a share of one.
pub(crate) struct Connection {
    cluster: Cluster,
    sender: Sender,
}

/// The number of new connections that are opened for one request that was not sent.
const RECONNECTIONS_MAX: usize = 3;
/// The length of an error response in a message.
const ERROR_MAX_BYTES: usize = 300;

impl Connection {
    /// The whole answer to a request, if it is a success.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, RequestError> {
        let body = body.into();
        in_time(path, async {
            let answer = self.send(method, path, body).await?;
            Ok(answer.into_body().collect().await.map_err(Failure::at(path))?.to_bytes())
        })
        .await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes, RequestError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Reads a long answer without keeping it: counts `needle` in it, and returns its beginning.
    pub(crate) async fn read_through(
        &mut self,
        path: &str,
        needle: &[u8],
    ) -> Result<ReadThrough, RequestError> {
        let mut body = in_time(path, self.send(Method::GET, path, Bytes::new())).await?.into_body();
        let (mut read, mut window) = (ReadThrough::default(), Vec::new());
        while let Some(frame) = in_time(path, async { Ok(body.frame().await) }).await? {
            let Ok(data) = frame.map_err(Failure::at(path))?.into_data() else { continue };
            if read.start.len() < START_BYTES {
                read.start.extend_from_slice(&data[..data.len().min(START_BYTES)]);
            }
            window.extend_from_slice(&data);
            read.found += memchr::memmem::find_iter(&window, needle).count();
            window.drain(..window.len().saturating_sub(needle.len() - 1));
        }
        Ok(read)
    }

    async fn stream(&mut self, path: &str) -> Result<Events, RequestError> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        Ok(Events::of_body(answer.into_body()))
    }

    /// A server may close a connection that was idle. If nothing was sent over it, another one is opened, as every
    /// client does.
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut request = self.request(method, path, body)?;
        let mut reconnections = 0;
        let answer = loop {
            match self.sender.send(request).await {
                Ok(answer) => break answer,
                Err((Some(unsent), _)) if reconnections < RECONNECTIONS_MAX => {
                    request = unsent;
                    reconnections += 1;
                    self.sender = self.cluster.connect().await?.sender;
                }
                Err((_, error)) => return Err(Failure::at(path)(error).into()),
            }
        };
        if answer.status().is_success() {
            return Ok(answer);
        }
        let code = answer.status();
        let body = answer.into_body().collect().await.map_err(Failure::at(path))?.to_bytes();
        Err(RequestError::Answer(code, format!("{path}: {}", error_message(&body))))
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let shared = &self.cluster.shared;
        let full = self.cluster.full(path);
        let mut request = Request::builder().method(method).header(header::ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = match &self.sender {
            Sender::Http1(_) => request.uri(&full).header(header::HOST, &shared.address),
            Sender::Http2(_) => {
                let scheme = if shared.tls.is_some() { "https" } else { "http" };
                request.uri(format!("{scheme}://{}{full}", shared.address))
            }
        };
        let mut request = request
            .body(Full::new(body))
            .map_err(Failure::at(format!("no request can be made of {full}")))?;
        request.headers_mut().extend(shared.headers.clone());
        Ok(request)
    }
}

impl Sender {
    /// Sends a request. If sending did not begin, the error contains the request.
    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, (Option<Request<Full<Bytes>>>, hyper::Error)> {
        let ready = match self {
            Sender::Http1(sender) => sender.ready().await,
            Sender::Http2(sender) => sender.ready().await,
        };
        if let Err(closed) = ready {
            return Err((Some(request), closed));
        }
        let sent = match self {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|mut error| (error.take_message(), error.into_error()))
    }
}

/// The message of an error response: that of its `Status`, or its beginning.
fn error_message(body: &[u8]) -> String {
    let status: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = status.and_then(|status| Some(status.get("message")?.as_str()?.to_owned()));
    let text = || String::from_utf8_lossy(&body[..body.len().min(ERROR_MAX_BYTES)]).into_owned();
    message.unwrap_or_else(text)
}

/// The length of the beginning of a long answer that is kept: enough for all that precedes the items.
const START_BYTES: usize = 4096;

/// The result of reading a long response.
#[derive(Default)]
pub(crate) struct ReadThrough {
    pub(crate) found: usize,
    /// Its beginning.
    pub(crate) start: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    /// Sends two requests to a server that closes each connection after one answer, or instead of one; `answers` has
    /// the answer of each connection.
    async fn two_requests(answers: [&'static str; 2]) -> Vec<bool> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let serving = tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let cluster = Cluster::new(Config::new(url), Protocol::Http1).await.unwrap();
        let mut connection = cluster.connect().await.unwrap();
        let mut answered = Vec::new();
        for _ in 0..2 {
            answered.push(connection.get("/version").await.is_ok());
            // Until the client has noticed that the server has closed it.
            while let Sender::Http1(sender) = &mut connection.sender
                && !sender.is_closed()
                && answered.len() == 1
            {
                tokio::task::yield_now().await;
            }
        }
        serving.await.unwrap();
        answered
    }

    #[tokio::test]
    async fn a_request_goes_over_another_connection_if_the_server_has_closed_an_idle_one() {
        assert_eq!(two_requests([ANSWER, ANSWER]).await, [true, true]);
    }

    /// The server may have executed the request.
    #[tokio::test]
    async fn a_request_that_was_sent_is_not_sent_again() {
        assert_eq!(two_requests(["", ANSWER]).await, [false, true]);
    }
}
