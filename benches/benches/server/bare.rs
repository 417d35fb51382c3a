//! A bare server: TLS and HTTP, and the same bytes to every watcher. What it costs, no server of watches can save.
//!
//! A machine is not equally fast from one hour to the next; what is measured beside this server, as a multiple of its
//! cost, is about the same. It is this program once more, as a process of its own, with the certificate of a
//! Keepwatch server. It does not ask who its clients are. A GET is a watch; the body of a POST is an event, line end and
//! all.
//!
//! Kept true: every watcher is sent every event that is posted after its watch was answered. One that is too far
//! behind is cut, and its client fails.

use bytes::Bytes;
use futures::{FutureExt, Stream, future::BoxFuture, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Either, Empty, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::NoServerSessionStorage,
};
use std::{convert::Infallible, net::Ipv4Addr, path::Path, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::broadcast,
};
use tokio_rustls::TlsAcceptor;

/// The argument that makes this program a bare server; the data directory of a Keepwatch server follows.
pub(crate) const MODE: &str = "bare";
/// How far a watcher may be behind. Whoever posts waits for the watchers, so they hardly are.
const BEHIND_EVENTS_MAX: usize = 16;

/// Serves until the process is ended, and says where.
pub(crate) async fn serve(directory: &Path) {
    let acceptor = TlsAcceptor::from(Arc::new(tls(&directory.join("pki"))));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("some port is free");
    println!("https://{} is a bare server", listener.local_addr().expect("it is bound"));
    let events = broadcast::Sender::new(BEHIND_EVENTS_MAX);
    loop {
        let (stream, _) = listener.accept().await.expect("there are descriptors for all clients");
        tokio::spawn(serve_connection(stream, acceptor.clone(), events.clone()));
    }
}

/// TLS as Keepwatch configures it, but for its question who the client is.
fn tls(pki: &Path) -> ServerConfig {
    let certificates = CertificateDer::pem_file_iter(pki.join("server.crt")).expect("the server wrote it");
    let certificates = certificates.collect::<Result<_, _>>().expect("it is PEM");
    let key = PrivateKeyDer::from_pem_file(pki.join("server.key")).expect("the server wrote it");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("there are versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("the key is the certificate's");
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.ticketer = aws_lc_rs::Ticketer::new().expect("there is randomness");
    tls.send_tls13_tickets = 1;
    tls
}

/// Until the client leaves, however it does. In boxes, so that a connection keeps no room for what it only begins with.
async fn serve_connection(stream: TcpStream, acceptor: TlsAcceptor, events: broadcast::Sender<Bytes>) {
    if let Some(serving) = Box::pin(begin(stream, acceptor, events)).await {
        serving.await;
    }
}

async fn begin(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    events: broadcast::Sender<Bytes>,
) -> Option<BoxFuture<'static, ()>> {
    stream.set_nodelay(true).expect("it is a socket");
    let stream = acceptor.accept(stream).await.ok()?;
    let speaks_2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| Box::pin(answer(request, events.clone())));
    Some(if speaks_2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).map(drop).boxed()
    } else {
        http1::Builder::new().serve_connection(stream, service).map(drop).boxed()
    })
}

type Answer<S> = Response<Either<Empty<Bytes>, StreamBody<S>>>;

async fn answer(
    request: Request<Incoming>,
    events: broadcast::Sender<Bytes>,
) -> Result<Answer<impl Stream<Item = Result<Frame<Bytes>, Infallible>>>, hyper::Error> {
    if request.method() == Method::GET {
        return Ok(Response::new(Either::Right(StreamBody::new(watch(events.subscribe())))));
    }
    let event = request.into_body().collect().await?.to_bytes();
    events.send(event).expect("somebody watches");
    Ok(Response::new(Either::Left(Empty::new())))
}

fn watch(events: broadcast::Receiver<Bytes>) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    stream::unfold(events, |mut events| async move {
        let event = events.recv().await.ok()?;
        Some((Ok(Frame::data(event)), events))
    })
}
