//! Requests to one member of etcd.
//!
//! Kept true: every request asks for a member that has a leader, and, where there is a user, carries the user's token. A
//! request that etcd refuses for its token was not done: it is sent once more, with a new token.

use super::{
    AuthenticateRequest, Call, WATCH_PATH, WatchCreateRequest, WatchRequest, WatchRequestUnion, WatchResponse,
};
use crate::options::EtcdUser;
use futures::{StreamExt, stream};
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_prost::ProstCodec;

/// The size of a message that etcd may send: as much as gRPC allows. A list comes in one message.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// The number of requests for progress that may wait until the connection takes them. Further ones are left out.
const WATCH_REQUESTS_MAX: usize = 8;

type Token = MetadataValue<Ascii>;

/// Sends requests to a member over its channel.
pub(crate) struct Client {
    grpc: Grpc<Channel>,
    login: Option<Login>,
}

struct Login {
    user: EtcdUser,
    token: Mutex<Option<Token>>,
    /// Held while a refused token is replaced, so that all who were refused share the new one.
    replacing: tokio::sync::Mutex<()>,
}

impl Client {
    /// A client of the member at the other end of the channel. A user logs in now.
    pub(crate) async fn connect(channel: Channel, user: Option<EtcdUser>) -> Result<Self, Status> {
        let login = |user| Login { user, token: Mutex::default(), replacing: tokio::sync::Mutex::default() };
        let client = Self {
            grpc: Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX),
            login: user.map(login),
        };
        client.log_in().await?;
        Ok(client)
    }

    /// Gets a new token, if there is a user.
    pub(crate) async fn log_in(&self) -> Result<(), Status> {
        let Some(login) = &self.login else { return Ok(()) };
        let EtcdUser { name, password } = login.user.clone();
        let response = self.send(AuthenticateRequest { name, password }, None).await?;
        let Ok(token) = response.token.parse() else {
            return Err(Status::unauthenticated("etcd's token does not fit into a header"));
        };
        *login.token.lock() = Some(token);
        Ok(())
    }

    /// Sends a request and waits for the response.
    pub(crate) async fn call<R: Call>(&self, request: &R) -> Result<R::Response, Status> {
        self.with_token(|token| self.send(request.clone(), token)).await
    }

    /// Opens a stream with one watch on it.
    pub(crate) async fn watch(&self, request: &WatchCreateRequest) -> Result<WatchStream, Status> {
        self.with_token(|token| self.open(request.clone(), token)).await
    }

    async fn with_token<T, F>(&self, send: impl Fn(Option<Token>) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let Some(login) = &self.login else { return send(None).await };
        let token = login.token();
        match send(token.clone()).await {
            Err(status) if status.code() == Code::Unauthenticated => {
                send(self.replace(login, token).await?).await
            }
            result => result,
        }
    }

    /// A token other than the one that etcd refused.
    async fn replace(&self, login: &Login, refused: Option<Token>) -> Result<Option<Token>, Status> {
        let _one_at_a_time = login.replacing.lock().await;
        if login.token() == refused {
            self.log_in().await?;
        }
        Ok(login.token())
    }

    async fn send<R: Call>(&self, request: R, token: Option<Token>) -> Result<R::Response, Status> {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(R::PATH);
        Ok(grpc.unary(with_metadata(request, token), path, ProstCodec::default()).await?.into_inner())
    }

    async fn open(&self, create: WatchCreateRequest, token: Option<Token>) -> Result<WatchStream, Status> {
        let (requests, mut waiting) = mpsc::channel(WATCH_REQUESTS_MAX);
        let create = WatchRequest { request: Some(WatchRequestUnion::Create(create)) };
        let waiting = stream::poll_fn(move |context| waiting.poll_recv(context));
        let body = with_metadata(stream::iter([create]).chain(waiting), token);
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(WATCH_PATH);
        let responses = grpc.streaming(body, path, ProstCodec::default()).await?.into_inner();
        Ok(WatchStream { requests, responses })
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }
}

impl Login {
    fn token(&self) -> Option<Token> {
        self.token.lock().clone()
    }
}

fn with_metadata<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}

/// A watch, and what etcd sends for it. The watch ends with it.
pub(crate) struct WatchStream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream {
    /// The next message, or nothing if the member has ended the stream in order.
    pub(crate) async fn message(&mut self) -> Result<Option<WatchResponse>, Status> {
        self.responses.message().await
    }

    /// Asks etcd to report progress, unless too many requests wait already.
    pub(crate) fn request_progress(&self) {
        let request = WatchRequest { request: Some(WatchRequestUnion::Progress(())) };
        let _is_full = self.requests.try_send(request);
    }
}
