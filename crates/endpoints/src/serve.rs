//! Connections: from the listening socket to requests, and how they end.
//!
//! Kept true: a connection that says nothing, or says it too slowly, is closed; when the server stops no connection takes
//! a new request, and what was begun is finished, but for clients that do not listen, who are not waited for forever.

use crate::api::Api;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use socket2::{SockRef, TcpKeepalive};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

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
        }
    }
}

/// How long what is abandoned may take to say that it ends.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// After what silence of a connection its other end is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long to wait when no connection can be accepted, as when too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a server listens, and what it needs to serve a connection.
pub struct Listening {
    /// The socket.
    pub listener: TcpListener,
    /// How connections are secured; absent for plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who answers.
    pub api: Arc<Api>,
    /// How the server ends.
    pub ending: Ending,
    /// What a connection may take.
    pub limits: Limits,
}

/// How a server ends: it takes nothing new and finishes what was begun; what does not finish is abandoned. Cloning shares
/// it.
#[derive(Clone, Default)]
pub struct Ending {
    /// Told when the server stops.
    pub stopping: CancellationToken,
    abandoned: CancellationToken,
    connections: TaskTracker,
}

impl Ending {
    /// Serves a client, who is waited for when the server stops.
    pub fn serve(&self, client: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.abandoned.clone();
        let over = async move {
            abandoned.cancelled().await;
            tokio::time::sleep(FAREWELL_MAX).await;
        };
        self.connections.spawn(async {
            tokio::select! {
                () = client => {}
                () = over => tracing::debug!("a client is abandoned"),
            }
        });
    }

    /// Does something that is finished in any case, whether its client still listens or not.
    pub(crate) fn finish<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.connections.spawn(work)
    }

    /// Waits until all clients are done, but no longer than `patience` for any of them.
    pub async fn stop(&self, patience: Duration) {
        self.stopping.cancel();
        self.connections.close();
        if tokio::time::timeout(patience, self.connections.wait()).await.is_err() {
            tracing::warn!("some clients did not finish in time");
            self.abandoned.cancel();
            self.connections.wait().await;
        }
    }

    /// Ends without waiting. Clients who listen still hear of it.
    pub fn abandon(&self) {
        self.stopping.cancel();
        self.abandoned.cancel();
    }
}

impl Listening {
    /// Takes connections until the server stops.
    pub async fn serve(self) {
        let acceptor = self.tls.clone().map(TlsAcceptor::from);
        let builder = Arc::new(builder(&self.limits));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.ending.stopping.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Connection {
                        acceptor: acceptor.clone(),
                        builder: Arc::clone(&builder),
                        api: Arc::clone(&self.api),
                        stopping: self.ending.stopping.clone(),
                        limits: self.limits,
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

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_wait)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes as usize)
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.head_bytes)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_answer);
    builder
}

struct Connection {
    acceptor: Option<TlsAcceptor>,
    builder: Arc<Builder<TokioExecutor>>,
    api: Arc<Api>,
    stopping: CancellationToken,
    limits: Limits,
}

impl Connection {
    /// Every future that is not needed while requests are served lives in a box of its own: what a connection holds is
    /// held by thousands of watches at a time.
    async fn serve(self, stream: TcpStream) {
        // Events are small and must not wait for more.
        let _ = stream.set_nodelay(true);
        // A client whose machine is gone says nothing; asking now and then finds out.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let Some(acceptor) = &self.acceptor else { return self.serve_requests(stream, None).await };
        let accepting = Box::pin(tokio::time::timeout(self.limits.tls_handshake, acceptor.accept(stream)));
        let accepted = tokio::select! {
            accepted = accepting => accepted,
            () = self.stopping.cancelled() => return,
        };
        let requests = match accepted {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let certificate = shown.map(|der| Arc::from(der.as_ref()));
                Box::pin(self.serve_requests(stream, certificate))
            }
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => return tracing::debug!("a TLS handshake took too long"),
        };
        requests.await;
    }

    /// Not `async` itself: what is returned holds the connection once, and not also the stream that it was made from.
    fn serve_requests<S>(
        self,
        stream: S,
        certificate: Option<Arc<[u8]>>,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Connection { builder, api, stopping, limits, .. } = self;
        let spoke = Arc::new(AtomicBool::new(false));
        let speaks = Arc::clone(&spoke);
        let service = service_fn(move |request: Request<Incoming>| {
            speaks.store(true, Ordering::Relaxed);
            let (api, certificate) = (Arc::clone(&api), certificate.clone());
            // In a box, since hyper keeps the room of the last answer for as long as the connection lasts.
            Box::pin(async move { Ok::<_, Infallible>(api.handle(request, certificate.as_deref()).await) })
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        async move {
            let mut connection = std::pin::pin!(connection);
            // Which HTTP a client speaks shows in its first bytes, and for those the library waits for ever.
            let says_nothing = async {
                tokio::time::sleep(limits.head_wait).await;
                if spoke.load(Ordering::Relaxed) {
                    std::future::pending().await
                }
            };
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = says_nothing => return tracing::debug!("a client connected and asked for nothing"),
                () = stopping.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }
}
