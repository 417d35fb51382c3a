//! Connections: from the listening socket to requests, and how they end.
//!
//! Kept true: a connection that says nothing, or says it too slowly, is closed; when the server stops no connection takes
//! a new request, writes that were begun are finished, and no client can delay the end by more than a moment.

use crate::{
    api::Api,
    auth::{ClientCertificate, VerifiedLately},
    body::Body,
    gather::{Gather, Taking},
    host,
    request_line::RequestLines,
    stopping::Stopping,
    together::{Begun, Together},
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
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Notify,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, server::danger::ClientCertVerifier},
};
use tokio_util::task::TaskTracker;

/// How much time and room a connection may take. The defaults suit a server; a test wants less time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a client may take to agree on a key.
    pub tls_handshake: Duration,
    /// How long a client may take to send the head of a request, from when it connected or the last one was answered.
    pub head_wait: Duration,
    /// How many bytes the headers of a request may have; over HTTP/1 with the path in front of them.
    pub head_bytes: u32,
    /// How many headers a request may have over HTTP/1.
    pub headers: usize,
    /// How many requests one HTTP/2 connection may have at a time.
    pub streams: u32,
    /// After what silence an HTTP/2 client is asked whether it is there.
    pub ping_interval: Duration,
    /// How long it has to answer that.
    pub ping_answer: Duration,
    /// How long an HTTP/2 connection may have nothing to do.
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

/// How long a server that stops waits for its clients, unless a write is in progress.
const LINGER_MAX: Duration = Duration::from_millis(750);
/// How long what is abandoned may take to say that it ends.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// After what silence of a connection its other end is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How a client begins that speaks HTTP/2 without having agreed on it: no method has this name.
const HTTP2_BEGINS: &[u8; 4] = b"PRI ";
/// How many bytes of an HTTP/2 answer wait for a client that does not take them, before no more are made.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// How long to wait when no connection can be accepted, as when too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is served where.
pub struct Listening {
    /// Where clients connect.
    pub listener: TcpListener,
    /// How they are spoken to in private; without it they are not.
    pub tls: Option<Tls>,
    /// Who answers.
    pub api: Arc<Api>,
    /// How the server ends.
    pub ending: Ending,
    /// What a connection may take.
    pub limits: Limits,
}

/// How a server speaks TLS.
#[derive(Clone)]
pub struct Tls {
    /// With which identity and protocols. It takes any certificate that a client shows.
    pub config: Arc<ServerConfig>,
    /// What certificates are worth: those that it refuses stand for nobody.
    pub verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// How a server ends: it takes nothing new, gives clients a moment to receive their answers, and finishes the writes that
/// were begun. Clients that do not read, or do not send what they began, are abandoned. Cloning shares it.
#[derive(Clone, Default)]
pub struct Ending {
    /// Told when the server stops.
    pub stopping: Stopping,
    abandoned: Stopping,
    connections: TaskTracker,
    writes: TaskTracker,
}

impl Ending {
    /// Serves a client, who is waited for when the server stops.
    pub fn serve(&self, client: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.abandoned.wait();
        let over = async move {
            abandoned.await;
            Box::pin(tokio::time::sleep(FAREWELL_MAX)).await;
        };
        self.connections.spawn(async {
            tokio::select! {
                () = client => {}
                () = over => tracing::debug!("a client is abandoned"),
            }
        });
    }

    /// Does something that is finished in any case, whether its client still listens or not.
    pub(crate) fn finish_on<F>(&self, work: F, threads: &Handle) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.writes.spawn_on(work, threads)
    }

    /// Waits a moment until all clients are done, and no longer than `patience` until all writes are.
    pub async fn stop(&self, patience: Duration) {
        self.stopping.stop();
        self.connections.close();
        self.writes.close();
        let _ = tokio::time::timeout(LINGER_MAX, self.connections.wait()).await;
        // One whose client is gone is finished too.
        if tokio::time::timeout(patience, self.writes.wait()).await.is_err() {
            tracing::warn!("some writes did not finish in time");
        }
        self.abandoned.stop();
        self.connections.wait().await;
    }

    /// Ends without waiting. Clients who listen still hear of it.
    pub fn abandon(&self) {
        self.stopping.stop();
        self.abandoned.stop();
    }
}

impl Listening {
    /// Takes connections until the server stops.
    pub async fn serve(self) {
        let protocols = Arc::new(Protocols::new(self.tls, self.limits));
        let mut stopping = self.ending.stopping.wait();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stopping => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Connection {
                        protocols: Arc::clone(&protocols),
                        api: Arc::clone(&self.api),
                        stopping: self.ending.stopping.clone(),
                    };
                    self.ending.serve(connection.serve(stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// How connections are served.
struct Protocols {
    tls: Option<(TlsAcceptor, Option<Arc<dyn ClientCertVerifier>>)>,
    verified: VerifiedLately,
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
        Protocols { tls, verified: VerifiedLately::default(), http1, limits }
    }

    fn http2(&self, begun: Begun) -> http2::Builder<Begun> {
        let limits = self.limits;
        let mut http2 = http2::Builder::new(begun);
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
    stopping: Stopping,
}

/// Requests being served. In a box, as everything that a connection needs for a while only: what it keeps, thousands of
/// watches keep.
type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connection {
    async fn serve(self, stream: TcpStream) {
        // Events are small and must not wait for more.
        let _ = stream.set_nodelay(true);
        // A client whose machine is gone says nothing; asking now and then finds out.
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
                let shown = session.peer_certificates().zip(verifier);
                let certificate = shown.map(|(chain, verifier)| {
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
        S: Taking,
    {
        let line = Arc::new(Line { shared: speaks_http2, ..Line::default() });
        let service = service(self.api, certificate, Arc::clone(&line));
        if speaks_http2 {
            let (gather, begun) = (Gather::new(stream), Begun::default());
            let stream = TokioIo::new(gather.clone());
            let connection = self.protocols.http2(begun.clone()).serve_connection(stream, service);
            let connection = Box::pin(Together::new(connection, begun, gather));
            Box::pin(serve_http2(connection, line, self.protocols.limits, self.stopping))
        } else {
            let stream = TokioIo::new(RequestLines::new(stream));
            let connection = Box::pin(self.protocols.http1.serve_connection(stream, service).with_upgrades());
            Box::pin(serve_http1(connection, line, self.stopping))
        }
    }
}

type Http1<S, A> = http1::UpgradeableConnection<TokioIo<RequestLines<S>>, A>;
type Http2<S, A> = http2::Connection<TokioIo<Gather<S>>, A, Begun>;

async fn serve_http1<S, A>(mut connection: Pin<Box<Http1<S, A>>>, line: Arc<Line>, stopping: Stopping)
where
    S: Taking,
    A: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = line.is_cut.notified() => return tracing::debug!("a client does not read its answer"),
        () = stopping.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    report(ended);
}

async fn serve_http2<S, A>(
    mut connection: Pin<Box<Together<Http2<S, A>, S>>>,
    line: Arc<Line>,
    limits: Limits,
    stopping: Stopping,
) where
    S: Taking,
    A: HttpService<Incoming, ResBody = Body, Error = Infallible, Future = Answering>,
{
    tokio::select! {
        ended = connection.as_mut() => return report(ended),
        () = line.is_cut.notified() => return tracing::debug!("a client does not read its answers"),
        () = stopping.wait() => {}
        () = Box::pin(line.no_more(&limits)) => {}
    }
    Pin::new(&mut connection.connection).graceful_shutdown();
    if line.asked.load(Ordering::Relaxed) {
        report(connection.await);
    } else if let Ok(ended) = tokio::time::timeout(FAREWELL_MAX, connection).await {
        // One that never got as far as a request may not hear that it ends.
        report(ended);
    }
}

fn report(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// What is known of a connection besides its bytes. Whatever is being answered on it holds this.
#[derive(Default)]
pub(crate) struct Line {
    /// Whether several answers are sent at a time.
    pub(crate) shared: bool,
    asked: AtomicBool,
    lately: AtomicBool,
    /// How many of its requests that read have a place, and how many that write.
    places: [AtomicUsize; 2],
    /// How many of its streams have an answer that was not read in time.
    pub(crate) stalled: AtomicUsize,
    is_cut: Notify,
}

/// How many answers of a connection may not be read in time, before it ends.
const STALLED_MAX: usize = 16;

impl Line {
    fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.lately.store(true, Ordering::Relaxed);
    }

    /// Counts an answer that its client does not read. Ends the connection if it has only this one, or too many of them.
    pub(crate) fn stream_stalled(&self) {
        if !self.shared || self.stalled.fetch_add(1, Ordering::Relaxed) >= STALLED_MAX {
            self.is_cut.notify_one();
        }
    }

    /// Counts down: the stream of an answer that was not read has ended.
    pub(crate) fn stalled_stream_ended(&self) {
        if self.shared {
            self.stalled.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A place for one of its requests, if it has not as many as it may have.
    pub(crate) fn place(self: &Arc<Line>, is_write: bool, max: usize) -> Option<OnLine> {
        let place = OnLine(Arc::clone(self), usize::from(is_write));
        let taken = self.places[place.1].fetch_add(1, Ordering::Relaxed);
        (taken < max).then_some(place)
    }

    /// Ends when there was no request, or none for a time and none is being answered.
    async fn no_more(self: &Arc<Line>, limits: &Limits) {
        /// By whoever waits here, and by whoever hands it out.
        const HELD_ALWAYS: usize = 2;
        tokio::time::sleep(limits.head_wait).await;
        loop {
            let busy = Arc::strong_count(self) > HELD_ALWAYS;
            if !self.lately.swap(busy, Ordering::Relaxed) && !busy {
                return;
            }
            tokio::time::sleep(limits.idle).await;
        }
    }
}

/// A place for a request of a connection.
pub(crate) struct OnLine(Arc<Line>, usize);

impl Drop for OnLine {
    fn drop(&mut self) {
        self.0.places[self.1].fetch_sub(1, Ordering::Relaxed);
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Answers the requests of one connection.
fn service(
    api: Arc<Api>,
    certificate: Option<Arc<ClientCertificate>>,
    line: Arc<Line>,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = Answering> {
    service_fn(move |request: Request<Incoming>| -> Answering {
        if let Some(refused) = host::refusal(request.version(), request.headers()) {
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let (api, certificate, line) = (Arc::clone(&api), certificate.clone(), Arc::clone(&line));
        line.ask();
        // hyper keeps room for an answer under way for as long as the connection lasts: the box is the room.
        Box::pin(async move {
            let mut response = api.handle(request, certificate.as_deref(), &line).await;
            response.body_mut().sent_on(line);
            Ok(response)
        })
    })
}
