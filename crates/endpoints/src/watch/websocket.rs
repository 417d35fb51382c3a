//! Watches over WebSocket, for browsers: one message for each event.

use super::Events;
use aws_lc_rs::digest;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use keepwatch_registry::codec::Media;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        error::Error,
        protocol::{Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::body::Body;

/// The largest size of a message from a client. Its content is ignored, but it is in memory until it is complete.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Whether a request asks for a WebSocket.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
        && connection.into_iter().any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// Why a handshake is refused.
pub struct HandshakeRefused(pub Box<Response<Body>>);

/// Answers the handshake, or refuses it. `protocols` are those that the client offers, tokens removed.
pub fn handshake(headers: &HeaderMap) -> Result<Response<Body>, HandshakeRefused> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let refuse = |code: StatusCode, why: &'static str| HandshakeRefused(Box::new(plain(code, why)));
    let Some(key) = text(header::SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
        return Err(refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    };
    if text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
        let mut response = plain(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(HandshakeRefused(Box::new(response)));
    }
    if !text(header::ORIGIN).is_some_and(is_origin) {
        return Err(refuse(StatusCode::FORBIDDEN, ""));
    }
    let offered =
        headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols: Vec<&str> =
        offered.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect();
    if protocols.len() > 1 {
        return Err(refuse(StatusCode::BAD_REQUEST, ""));
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let own = response.headers_mut();
    own.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    own.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let accept = HeaderValue::from_str(&accept_key(key)).expect("base64 can be a header");
    own.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocols.first().and_then(|name| HeaderValue::from_str(name).ok()) {
        own.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

/// The value that proves to a client that its handshake was understood (RFC 6455).
fn accept_key(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64_STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Whether a browser could have sent this as the place that a page comes from.
fn is_origin(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() || text.starts_with('/'))
}

fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.as_bytes().to_vec()));
    *response.status_mut() = code;
    response
}

/// Sends the events over the upgraded connection until either side ends it.
pub async fn serve(upgrade: hyper::upgrade::OnUpgrade, mut events: Events) {
    let Ok(connection) = upgrade.await else { return };
    let text = events.encoder.renderer.form.media != Media::Protobuf;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES);
    let io = TokioIo::new(connection);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let code = loop {
        tokio::select! {
            event = events.next() => match event {
                None => break CloseCode::Normal,
                Some(bytes) => {
                    if send_with_ready(&mut socket, bytes, &mut events, text).await.is_err() {
                        return;
                    }
                }
            },
            received = socket.next() => match received {
                // What a client says does not matter; that it is there does.
                Some(Ok(Message::Close(_))) => break CloseCode::Normal,
                Some(Ok(_)) => {}
                Some(Err(Error::Protocol(_))) => break CloseCode::Protocol,
                Some(Err(Error::Capacity(_))) => break CloseCode::Size,
                Some(Err(_)) | None => return,
            },
        }
    };
    drop(events);
    // Written past the library, which would answer a client's farewell with the client's own code.
    let [high, low] = u16::from(code).to_be_bytes();
    let io = socket.get_mut();
    let said = async {
        io.write_all(&[CLOSE_FRAME, 2, high, low]).await?;
        io.shutdown().await
    };
    let _ = tokio::time::timeout(FAREWELL_MAX, said).await;
}

/// Sends an event together with those after it that are ready, up to a full buffer. Then others have their turn: thousands
/// of watches may begin at once, each with all objects.
async fn send_with_ready<S>(
    socket: &mut WebSocketStream<S>,
    first: Bytes,
    events: &mut Events,
    text: bool,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut next, mut room) = (Some(first), WRITE_BUFFER_BYTES);
    while let Some(bytes) = next.take() {
        room = room.saturating_sub(bytes.len());
        socket.feed(message(bytes, text)).await?;
        if room > 0 {
            next = events.next().now_or_never().flatten();
        }
    }
    socket.flush().await?;
    if room == 0 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The first byte of a frame that ends a connection.
const CLOSE_FRAME: u8 = 0x88;
/// The time within which a client has to receive the end of its watch.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The size of the events that are sent at once.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
/// The number of bytes that are read from a client at once. It sends few.
const READ_BUFFER_BYTES: usize = 1 << 10;

fn message(bytes: Bytes, text: bool) -> Message {
    if !text {
        // The length in front is for streams without messages.
        return Message::Binary(bytes.slice(LENGTH_BYTES..));
    }
    let text = Utf8Bytes::try_from(bytes);
    Message::Text(text.expect("stored values were checked to be text"))
}

/// The size of the length in front of an event in Protobuf.
const LENGTH_BYTES: usize = 4;
