//! Connections: from the listening socket to requests, and how connections are closed.
//!
//! Kept true: a connection that sends nothing, or sends it too slowly, is closed, and sooner if files become few; when the
//! server stops, no connection takes a new request.

use crate::{
    api::Api,
    auth::{ClientCertificate, RecentlyVerified},
    body::Body,
    connection_state::ConnectionState,
    h2_task::{H2Task, SpawnedRequests},
    host,
    request_line::RequestLines,
    shutdown::{FAREWELL_MAX, Shutdown},
    shutdown_signal::ShutdownSignal,
    unauthenticated::{self, Unauthenticated},
    write_coalescer::{BufferedStream, WriteCoalescer},
};
use hyper::{
    Request, Response,
    body::Incoming,
    server::conn::{http1, http2},
    service::{HttpService, Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, server::danger::ClientCertVerifier},
};

/// Time and space that a connection may take. The defaults suit a server; tests want less time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time within which a TLS handshake has to end.
    pub tls_handshake: Duration,
    /// The time within which a client has to send the head of a request, from when it connected or the last one was
    /// answered.
    pub head_wait: Duration,
    /// The size that the headers of a request may have; over HTTP/1 with the path in front of them.
    pub head_bytes: u32,
    /// The number of headers that a request may have over HTTP/1.
    pub headers: usize,
    /// The number of requests that one HTTP/2 connection may have at a time.
    pub streams: u32,
    /// The time for which an HTTP/2 connection may be silent before the server sends a PING.
    pub ping_interval: Duration,
    /// The time within which the client has to answer the PING.
    pub ping_answer: Duration,
    /// The time for which an HTTP/2 connection may have no request.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            tls_handshake: Duration::from_secs(10),
            head_wait: Duration::from_secs(60),
            head_bytes: 96 << 10,
            headers: 128,
            streams: 1000,
            ping_interval: Duration::from_secs(30),
            ping_answer: Duration::from_secs(15),
            idle: Duration::from_secs(90),
        }
    }
}

/// The time for which a connection may be silent before TCP probes the other end.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The first bytes of a client that uses HTTP/2 without negotiation: no method has this name.
const HTTP2_BEGINS: &[u8; 4] = b"PRI ";
/// The number of bytes of an HTTP/2 answer that may wait for the client before no more are encoded.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// The pause when no connection can be accepted, as when too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The number of connections without an authenticated request that are closed then.
const CLOSED_AT_ONCE: usize = 32;
/// The time between log messages that no connection can be accepted.
const ACCEPT_ERROR_INTERVAL: Duration = Duration::from_secs(60);

/// A listening socket and how its connections are served.
pub struct Acceptor {
    /// The socket to which clients connect.
    pub listener: TcpListener,
    /// The encryption of connections; without it they are not encrypted.
    pub tls: Option<Tls>,
    /// The API that answers requests.
    pub api: Arc<Api>,
    /// The shutdown of the server.
    pub shutdown: Shutdown,
    /// Limits of each connection.
    pub limits: Limits,
}

/// The server's side of TLS.
#[derive(Clone)]
pub struct Tls {
    /// The server's identity and protocols. It accepts any certificate that a client presents.
    pub config: Arc<ServerConfig>,
    /// Decides which client certificates are valid. A client whose certificate is not is anonymous.
    pub verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl Acceptor {
    /// Accepts connections until the server stops.
    pub async fn serve(self) {
        let protocols = Arc::new(Protocols::new(self.tls, self.limits));
        let mut stopping = self.shutdown.signal.wait();
        let mut reported: Option<Instant> = None;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stopping => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    if unauthenticated::is_near_limit(&stream) {
                        self.api.unauthenticated.close_oldest();
                        // It is closed by another task.
                        tokio::task::yield_now().await;
                    }
                    self.api.unauthenticated.add(|unauthenticated| {
                        let connection = Connection {
                            protocols: Arc::clone(&protocols),
                            api: Arc::clone(&self.api),
                            stopping: self.shutdown.signal.clone(),
                            unauthenticated,
                        };
                        self.shutdown.serve(connection.serve(stream))
                    });
                }
                Err(error) => {
                    if reported.is_none_or(|reported| reported.elapsed() >= ACCEPT_ERROR_INTERVAL) {
                        tracing::warn!(%error, "a connection could not be accepted; not reported again for a minute");
                        reported = Some(Instant::now());
                    }
                    (0..CLOSED_AT_ONCE).for_each(|_| self.api.unauthenticated.close_oldest());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// The protocols of all connections.
struct Protocols {
    tls: Option<(TlsAcceptor, Option<Arc<dyn ClientCertVerifier>>)>,
    verified: RecentlyVerified,
    http1: http1::Builder,
    limits: Limits,
}

impl Protocols {
    fn new(tls: Option<Tls>, limits: Limits) -> Protocols {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_wait)
            .max_headers(limits.headers)
            .max_buf_size(limits.head_bytes as usize)
            .half_close(false);
        let tls = tls.map(|tls| (TlsAcceptor::from(tls.config), tls.verifier));
        Protocols { tls, verified: RecentlyVerified::default(), http1, limits }
    }

    fn http2(&self, spawned: SpawnedRequests) -> http2::Builder<SpawnedRequests> {
        let limits = self.limits;
        let mut http2 = http2::Builder::new(spawned);
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.head_bytes)
            .max_send_buf_size(UNSENT_BYTES_MAX)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_answer);
        http2
    }
}

struct Connection {
    protocols: Arc<Protocols>,
    api: Arc<Api>,
    stopping: ShutdownSignal,
    unauthenticated: Unauthenticated,
}

/// The future that serves a connection's requests. It is boxed so that a connection keeps only what it needs for its whole
/// life: there may be thousands of them.
type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connection {
    async fn serve(self, stream: TcpStream) {
        // Events are small and must not wait for more data.
        let _ = stream.set_nodelay(true);
        // A client whose machine is gone sends nothing. Probes find out.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let stopping = self.stopping.clone();
        let serving = tokio::select! {
            serving = Box::pin(self.begin(stream)) => serving,
            () = stopping.wait() => return,
        };
        if let Some(serving) = serving {
            serving.await;
        }
    }

    async fn begin(self, stream: TcpStream) -> Option<Serving> {
        match self.protocols.tls.clone() {
            Some((acceptor, verifier)) => self.begin_secure(stream, acceptor, verifier).await,
            None => self.begin_plain(stream).await,
        }
    }

    async fn begin_secure(
        self,
        stream: TcpStream,
        acceptor: TlsAcceptor,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Option<Serving> {
        let patience = self.protocols.limits.tls_handshake;
        match tokio::time::timeout(patience, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                let presented = session.peer_certificates().zip(verifier);
                let certificate = presented.map(|(chain, verifier)| {
                    let verify = || ClientCertificate::verified(chain, &*verifier);
                    self.protocols.verified.certificate(chain, verify)
                });
                let speaks_http2 = session.alpn_protocol() == Some(b"h2");
                Some(self.serve_requests(stream, speaks_http2, certificate))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a TLS handshake took too long");
                None
            }
        }
    }

    async fn begin_plain(self, stream: TcpStream) -> Option<Serving> {
        let mut first = [0; HTTP2_BEGINS.len()];
        let peeked = tokio::time::timeout(self.protocols.limits.head_wait, stream.peek(&mut first));
        let speaks_http2 = peeked.await.ok()?.ok()? == first.len() && first == *HTTP2_BEGINS;
        Some(self.serve_requests(stream, speaks_http2, None))
    }

    fn serve_requests<S>(
        self,
        stream: S,
        speaks_http2: bool,
        certificate: Option<Arc<ClientCertificate>>,
    ) -> Serving
    where
        S: BufferedStream,
    {
        let state = ConnectionState::new(speaks_http2, self.unauthenticated);
        let service = service(self.api, certificate, Arc::clone(&state));
        if speaks_http2 {
            let (writes, spawned) = (WriteCoalescer::new(stream), SpawnedRequests::default());
            let stream = TokioIo::new(writes.clone());
            let connection = self.protocols.http2(spawned.clone()).serve_connection(stream, service);
            let connection = Box::pin(H2Task::new(connection, spawned, writes));
            Box::pin(serve_http2(connection, state, self.protocols.limits, self.stopping))
        } else {
            let stream = TokioIo::new(RequestLines::new(stream));
            let connection = Box::pin(self.protocols.http1.serve_connection(stream, service).with_upgrades());
            Box::pin(serve_http1(connection, state, self.stopping))
        }
    }
}

type Http1<S, A> = http1::UpgradeableConnection<TokioIo<RequestLines<S>>, A>;
type Http2<S, A> = http2::Connection<TokioIo<WriteCoalescer<S>>, A, SpawnedRequests>;

async fn serve_http1<S, A>(
    mut connection: Pin<Box<Http1<S, A>>>,
    state: Arc<ConnectionState>,
    stopping: ShutdownSignal,
) where
    S: BufferedStream,
    A: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = state.closed.notified() => return tracing::debug!("a client does not read its answer"),
        () = stopping.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    report(ended);
}

async fn serve_http2<S, A>(
    mut connection: Pin<Box<H2Task<Http2<S, A>, S>>>,
    state: Arc<ConnectionState>,
    limits: Limits,
    stopping: ShutdownSignal,
) where
    S: BufferedStream,
    A: HttpService<Incoming, ResBody = Body, Error = Infallible, Future = ResponseKind>,
{
    tokio::select! {
        ended = connection.as_mut() => return report(ended),
        () = state.closed.notified() => return tracing::debug!("a client does not read its answers"),
        () = stopping.wait() => {}
        () = Box::pin(state.idle(&limits)) => {}
    }
    Pin::new(&mut connection.connection).graceful_shutdown();
    if state.has_requests.load(Ordering::Relaxed) {
        report(connection.await);
    } else if let Ok(ended) = tokio::time::timeout(FAREWELL_MAX, connection).await {
        // A client that has sent no request yet may not answer the farewell.
        report(ended);
    }
}

fn report(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

type ResponseKind = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The service that answers the requests of one connection.
fn service(
    api: Arc<Api>,
    certificate: Option<Arc<ClientCertificate>>,
    state: Arc<ConnectionState>,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = ResponseKind> {
    service_fn(move |request: Request<Incoming>| -> ResponseKind {
        if let Some(refused) = host::refusal(request.version(), request.headers()) {
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let (api, certificate, state) = (Arc::clone(&api), certificate.clone(), Arc::clone(&state));
        state.request_arrived();
        // hyper reserves space for an answer in progress for as long as the connection lasts. The box keeps that small.
        Box::pin(async move {
            let mut response = api.handle(request, certificate.as_deref(), &state).await;
            response.body_mut().set_connection(state);
            Ok(response)
        })
    })
}
