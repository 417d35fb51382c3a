//! Reads the body of a request.
//!
//! Kept true: no more bytes are in memory than the user may hold, up to a constant factor. A client chooses how its body is
//! divided, and a piece of one byte takes a hundred to keep; so pieces are copied into one buffer, and only a body that
//! arrives in one piece stays as it is.

use crate::fair_semaphore::FairPermit;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use std::fmt::Display;

/// The largest body of a request.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is larger than [`BODY_BYTES_MAX`].
    TooLarge,
    /// The user may not hold so many bytes now.
    TooMuchHeld,
    /// The client did not send it as it should; with the reason.
    Invalid(String),
}

/// Reads a whole body. `held` grows by its bytes.
pub(crate) async fn read<B>(body: &mut B, held: &mut FairPermit) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Unread::TooLarge);
    }
    let (mut received, mut left) = (Received::default(), BODY_BYTES_MAX);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Unread::Invalid(error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        left = left.checked_sub(piece.len()).ok_or(Unread::TooLarge)?;
        if !held.grow(piece.len()) {
            return Err(Unread::TooMuchHeld);
        }
        received.push(piece);
    }
    Ok(received.into_bytes())
}

/// The part of a body that has arrived.
#[derive(Default)]
struct Received {
    /// The first piece, while it is the only one.
    only: Bytes,
    /// All of them, once there are more.
    joined: BytesMut,
}

impl Received {
    fn push(&mut self, piece: Bytes) {
        if self.only.is_empty() && self.joined.is_empty() {
            self.only = piece;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.only));
        }
        self.joined.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.only } else { self.joined.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{auth::User, fair_semaphore::FairSemaphore};
    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::{convert::Infallible, sync::Arc};

    /// A piece that counts as long as it is in memory.
    struct Piece(Vec<u8>, #[expect(dead_code, reason = "its count of references is looked at")] Arc<()>);

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    /// Reads a body of these pieces with a permit for so many bytes. Returns how many pieces were in memory at most, too.
    async fn read_pieces(sizes: Vec<usize>, may_hold: usize) -> (Result<Bytes, Unread>, usize) {
        let alive = Arc::new(());
        let mut most = 0;
        let pieces = stream::iter(sizes).map(|size| {
            most = most.max(Arc::strong_count(&alive) - 1);
            let piece = Bytes::from_owner(Piece(vec![b'x'; size], Arc::clone(&alive)));
            Ok::<_, Infallible>(Frame::data(piece))
        });
        let mut held = FairSemaphore::new(may_hold * 20 / 9 + 1).empty_permit(&Arc::new(User::default()));
        let body = read(&mut StreamBody::new(pieces), &mut held).await;
        (body, most)
    }

    #[tokio::test]
    async fn a_body_in_tiny_pieces_does_not_keep_them() {
        let (body, most) = read_pieces(vec![1; 10_000], 10_000).await;
        assert_eq!(body.map(|body| body.len()), Ok(10_000));
        assert!(most <= 1, "{most} pieces were in memory");
    }

    #[tokio::test]
    async fn a_body_is_what_was_sent_however_it_is_divided() {
        for sizes in
            [vec![], vec![0], vec![5], vec![0, 5], vec![5, 0], vec![1, 0, 70_000, 1], vec![0, 0, 3, 4]]
        {
            let sent: usize = sizes.iter().sum();
            let (body, _) = read_pieces(sizes, sent).await;
            assert_eq!(body, Ok(Bytes::from(vec![b'x'; sent])));
        }
    }

    #[tokio::test]
    async fn a_body_that_arrives_in_one_piece_is_not_copied() {
        let sent = Bytes::from(vec![b'x'; 100_000]);
        let frames = stream::iter([Ok::<_, Infallible>(Frame::data(sent.clone()))]);
        let mut held = FairSemaphore::new(1 << 20).empty_permit(&Arc::new(User::default()));
        let body = read(&mut StreamBody::new(frames), &mut held).await.unwrap();
        assert_eq!(body.as_ptr(), sent.as_ptr());
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_or_more_than_the_user_may_hold_is_refused() {
        let (body, _) = read_pieces(vec![1 << 20, 1 << 20, 1 << 20, 1], BODY_BYTES_MAX * 2).await;
        assert_eq!(body, Err(Unread::TooLarge));
        let (body, _) = read_pieces(vec![10, 10], 15).await;
        assert_eq!(body, Err(Unread::TooMuchHeld));
    }
}
