//! What is sent back: all at once, in pieces made one after the other, or as long as there are events.
//!
//! Kept true: making pieces never keeps a thread from its other connections for long. What is costly to make is made by
//! threads that may take their time; what is not is made in turns with everything else.

use crate::indent::{Indenter, indented};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{Stream, stream::BoxStream};
use http_body::{Frame, SizeHint};
use std::{
    convert::Infallible,
    fmt,
    io::Write,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::task::JoinHandle;

/// The body of an answer.
pub enum Body {
    /// All at once.
    Full(Option<Bytes>),
    /// Pieces that are made when they are asked for.
    Pieces(Making),
    /// As long as there are events.
    Events(BoxStream<'static, Bytes>),
}

/// Pieces of a body, each made when the one before was sent.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// Pieces on their way.
pub struct Making(State);

enum State {
    /// Cheap ones; whether others had their turn since the last.
    InTurns { pieces: Pieces, turn: bool },
    /// Costly ones, of which none is being made.
    Apart(Pieces),
    /// A costly one is being made.
    Busy(JoinHandle<(Pieces, Option<Bytes>)>),
    /// All were made.
    Done,
}

impl Making {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match std::mem::replace(&mut self.0, State::Done) {
                State::InTurns { pieces, turn: false } => {
                    self.0 = State::InTurns { pieces, turn: true };
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::InTurns { mut pieces, turn: true } => {
                    let piece = pieces.next();
                    if piece.is_some() {
                        self.0 = State::InTurns { pieces, turn: false };
                    }
                    return Poll::Ready(piece);
                }
                State::Apart(mut pieces) => {
                    self.0 = State::Busy(tokio::task::spawn_blocking(move || {
                        let piece = pieces.next();
                        (pieces, piece)
                    }));
                }
                State::Busy(mut job) => match Pin::new(&mut job).poll(context) {
                    Poll::Pending => {
                        self.0 = State::Busy(job);
                        return Poll::Pending;
                    }
                    // A job fails only if it panics or the server ends; then the body ends too soon, which clients notice.
                    Poll::Ready(Err(_) | Ok((_, None))) => return Poll::Ready(None),
                    Poll::Ready(Ok((pieces, Some(piece)))) => {
                        self.0 = State::Apart(pieces);
                        return Poll::Ready(Some(piece));
                    }
                },
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

/// From what size on an answer is compressed for clients that can read that.
const GZIP_BYTES_MIN: usize = 128 << 10;

impl Body {
    /// Nothing.
    pub fn empty() -> Body {
        Body::Full(None)
    }

    /// Pieces that are made by copying.
    pub fn cheap(pieces: Pieces) -> Body {
        Body::Pieces(Making(State::InTurns { pieces, turn: true }))
    }

    /// Pieces that take time to make.
    pub fn costly(pieces: Pieces) -> Body {
        Body::Pieces(Making(State::Apart(pieces)))
    }

    /// The same JSON, indented for people.
    pub fn indented(self) -> Body {
        match self {
            Body::Full(Some(bytes)) => Body::from(indented(&bytes)),
            Body::Pieces(Making(State::InTurns { pieces, .. } | State::Apart(pieces))) => {
                let mut indenter = Indenter::default();
                Body::costly(Box::new(pieces.map(move |piece| indenter.indent(&piece).into())))
            }
            other => other,
        }
    }

    /// The same, compressed if it is large.
    pub fn compressed(self) -> (Body, bool) {
        match self {
            Body::Full(Some(bytes)) if bytes.len() > GZIP_BYTES_MIN => {
                let parts = bytes.len().div_ceil(GZIP_INPUT_BYTES);
                let part = move |n: usize| {
                    let from = n * GZIP_INPUT_BYTES;
                    bytes.slice(from..bytes.len().min(from + GZIP_INPUT_BYTES))
                };
                (Body::costly(Box::new(Gzip::new(Box::new((0..parts).map(part))))), true)
            }
            Body::Pieces(Making(State::InTurns { mut pieces, .. } | State::Apart(mut pieces))) => {
                let mut first = Vec::new();
                while first.len() <= GZIP_BYTES_MIN {
                    match pieces.next() {
                        Some(piece) => first.extend_from_slice(&piece),
                        None => return (Body::from(first), false),
                    }
                }
                let all = std::iter::once(Bytes::from(first)).chain(pieces);
                (Body::costly(Box::new(Gzip::new(Box::new(all)))), true)
            }
            other => (other, false),
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body::Full(Some(bytes.into()))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Full(Some(bytes))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::Full(_) => "Full",
            Body::Pieces(_) => "Pieces",
            Body::Events(_) => "Events",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Body::Full(bytes) => bytes.take(),
            Body::Pieces(pieces) => match pieces.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
            Body::Events(events) => match Pin::new(events).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            _ => SizeHint::default(),
        }
    }
}

/// Compresses pieces as they come.
struct Gzip {
    pieces: Pieces,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    fn new(pieces: Pieces) -> Gzip {
        Gzip { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

/// How much is compressed at once of what is there as a whole.
const GZIP_INPUT_BYTES: usize = 128 << 10;
/// How much is compressed before it is sent.
const GZIP_PIECE_BYTES: usize = 16 << 10;

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(piece) = self.pieces.next() else {
                let rest = self.encoder.take()?.finish().expect("writing to memory does not fail");
                return Some(rest.into());
            };
            encoder.write_all(&piece).expect("writing to memory does not fail");
            if encoder.get_ref().len() >= GZIP_PIECE_BYTES {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn pieces(count: usize) -> Body {
        Body::cheap(Box::new((0..count).map(|n| Bytes::from(vec![b'a' + (n % 26) as u8; 10_000]))))
    }

    async fn all(body: Body) -> Vec<u8> {
        http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec()
    }

    #[tokio::test]
    async fn what_is_small_is_sent_as_it_is() {
        for body in [pieces(3), Body::from(vec![1; 100_000])] {
            let (body, compressed) = body.compressed();
            assert!(!compressed && !all(body).await.is_empty());
        }
    }

    #[tokio::test]
    async fn what_is_large_is_compressed_and_reads_the_same() {
        let plain = all(pieces(50)).await;
        for body in [pieces(50), Body::from(plain.clone())] {
            let (body, compressed) = body.compressed();
            assert!(compressed);
            let (bytes, mut text) = (all(body).await, Vec::new());
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).unwrap();
            assert!(text == plain && bytes.len() < text.len() / 10);
        }
    }

    #[tokio::test]
    async fn costly_pieces_come_in_order() {
        let made = Body::costly(Box::new((0..100_u8).map(|n| Bytes::from(vec![n]))));
        assert_eq!(all(made).await, (0..100).collect::<Vec<u8>>());
    }
}
