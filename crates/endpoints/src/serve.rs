//! Connections: from the listening socket to requests, and how they end.
//!
//! Kept true: a connection that says nothing, or says it too slowly, is closed; when the server stops no connection takes
//! a new request, and what was begun is finished.

use crate::api::Api;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use socket2::{SockRef, TcpKeepalive};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a client may take to agree on a key.
const TLS_HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to send the head of a request, from when the last one was answered.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(60);
/// How many bytes the headers of a request may have.
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// How many headers a request may have.
const HEADERS_MAX: usize = 128;
/// How many requests one HTTP/2 connection may have at a time.
const STREAMS_MAX: u32 = 1000;
/// After what silence an HTTP/2 client is asked whether it is there, and how long it has to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_ANSWER_MAX: Duration = Duration::from_secs(15);
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
    /// Told when the server stops.
    pub stopping: CancellationToken,
    /// Where connections are counted, so that whoever stops the server can wait for them.
    pub connections: TaskTracker,
}

impl Listening {
    /// Takes connections until the server stops.
    pub async fn serve(self) {
        let acceptor = self.tls.clone().map(TlsAcceptor::from);
        let builder = Arc::new(builder());
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.stopping.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Connection {
                        acceptor: acceptor.clone(),
                        builder: Arc::clone(&builder),
                        api: Arc::clone(&self.api),
                        stopping: self.stopping.clone(),
                    };
                    self.connections.spawn(connection.serve(stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_ANSWER_MAX);
    builder
}

struct Connection {
    acceptor: Option<TlsAcceptor>,
    builder: Arc<Builder<TokioExecutor>>,
    api: Arc<Api>,
    stopping: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        // Events are small and must not wait for more.
        let _ = stream.set_nodelay(true);
        // A client whose machine is gone says nothing; asking now and then finds out.
        let _ = SockRef::from(&stream)
            .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE));
        let Some(acceptor) = &self.acceptor else { return self.serve_requests(stream, None).await };
        match tokio::time::timeout(TLS_HANDSHAKE_MAX, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let certificate = shown.map(|der| Arc::from(der.as_ref()));
                self.serve_requests(stream, certificate).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn serve_requests<S>(self, stream: S, certificate: Option<Arc<[u8]>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let api = self.api;
        let service = service_fn(move |request: Request<Incoming>| {
            let (api, certificate) = (Arc::clone(&api), certificate.clone());
            async move { Ok::<_, Infallible>(api.handle(request, certificate.as_deref()).await) }
        });
        let connection = self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}
