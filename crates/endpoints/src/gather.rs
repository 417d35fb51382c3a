//! Writes gathered until they are flushed.
//!
//! HTTP/2 hands over a frame at a time, of 16 KB at most. Each would be a call of the system, a wake-up of the client and,
//! with its nine bytes more than a TLS record takes, two records.
//!
//! Kept true: what was written is passed on at the next flush, in order; whoever has nothing to write holds no room.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// From how many bytes on nothing more is gathered.
const GATHERED_BYTES: usize = 64 << 10;

/// A connection to which little is written at a time.
pub(crate) struct Gather<S> {
    inner: S,
    gathered: Vec<u8>,
    /// How much of it was passed on.
    passed_on: usize,
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub(crate) fn new(inner: S) -> Self {
        Gather { inner, gathered: Vec::new(), passed_on: 0 }
    }

    fn poll_pass_on(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.passed_on < self.gathered.len() {
            let rest = &self.gathered[self.passed_on..];
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.passed_on += written;
        }
        (self.gathered, self.passed_on) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gathered.len() < GATHERED_BYTES { Poll::Ready(Ok(())) } else { self.poll_pass_on(context) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(context))?;
        self.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(context))?;
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.gathered.reserve(length);
        for slice in slices {
            self.gathered.extend_from_slice(slice);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pass_on(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pass_on(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_is_written_comes_at_the_next_flush_and_in_order() {
        let (near, mut far) = tokio::io::duplex(100);
        let mut gather = Gather::new(near);
        for part in ["one ", "two "] {
            gather.write_all(part.as_bytes()).await.unwrap();
        }
        gather.write_vectored(&[IoSlice::new(b"three "), IoSlice::new(b"four")]).await.unwrap();
        let mut read = [0; 100];
        assert!(futures::FutureExt::now_or_never(far.read(&mut read)).is_none());
        gather.flush().await.unwrap();
        let length = far.read(&mut read).await.unwrap();
        assert_eq!(&read[..length], b"one two three four");
        assert_eq!(gather.gathered.capacity(), 0);
    }

    #[tokio::test]
    async fn who_does_not_read_is_waited_for_and_misses_nothing() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut gather = Gather::new(near);
        let all: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let writing = async {
            for part in all.chunks(16_393) {
                gather.write_all(part).await.unwrap();
                assert!(gather.gathered.len() < GATHERED_BYTES + 16_393);
            }
            gather.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (_, length) = tokio::join!(writing, far.read_to_end(&mut read));
        assert!(length.unwrap() == all.len() && read == all);
    }
}
