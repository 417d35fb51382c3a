//! What is sent back: all at once, in pieces made one after the other, or as long as there are events.

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

/// The body of an answer.
pub enum Body {
    /// All at once.
    Full(Option<Bytes>),
    /// Pieces that are made when they are asked for.
    Pieces(Pieces),
    /// As long as there are events.
    Events(BoxStream<'static, Bytes>),
}

/// Pieces of a body, each made when the one before was sent.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// From what size on an answer is compressed for clients that can read that.
const GZIP_BYTES_MIN: usize = 128 << 10;

impl Body {
    /// Nothing.
    pub fn empty() -> Body {
        Body::Full(None)
    }

    /// The same, compressed if it is large.
    pub fn compressed(self) -> (Body, bool) {
        match self {
            Body::Full(Some(bytes)) if bytes.len() > GZIP_BYTES_MIN => {
                (Body::Pieces(Box::new(Gzip::new(Box::new(std::iter::once(bytes))))), true)
            }
            Body::Pieces(mut pieces) => {
                let mut first = Vec::new();
                while first.len() <= GZIP_BYTES_MIN {
                    match pieces.next() {
                        Some(piece) => first.extend_from_slice(&piece),
                        None => return (Body::from(first), false),
                    }
                }
                let all = std::iter::once(Bytes::from(first)).chain(pieces);
                (Body::Pieces(Box::new(Gzip::new(Box::new(all)))), true)
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
            Body::Pieces(pieces) => pieces.next(),
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
        Body::Pieces(Box::new((0..count).map(|n| Bytes::from(vec![b'a' + (n % 26) as u8; 10_000]))))
    }

    fn all(body: Body) -> Vec<u8> {
        match body {
            Body::Full(bytes) => bytes.unwrap_or_default().to_vec(),
            Body::Pieces(pieces) => pieces.flatten().collect(),
            Body::Events(_) => panic!("no events here"),
        }
    }

    #[test]
    fn what_is_small_is_sent_as_it_is() {
        for body in [pieces(3), Body::from(vec![1; 100_000])] {
            let (body, compressed) = body.compressed();
            assert!(!compressed && !all(body).is_empty());
        }
    }

    #[test]
    fn what_is_large_is_compressed_and_reads_the_same() {
        let (body, compressed) = pieces(50).compressed();
        assert!(compressed);
        let (bytes, mut text) = (all(body), Vec::new());
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).unwrap();
        assert_eq!(text, all(pieces(50)));
        assert!(bytes.len() < text.len() / 10);
    }
}
