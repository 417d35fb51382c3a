//! What an HTTP/2 connection writes at a time, gathered.
//!
//! The library hands over a frame of 16 KB at most and wants it flushed before the next. Each would be a call of the
//! system, a wake-up of the client and, with its nine bytes more than a TLS record takes, two records. So a flush is put off
//! until the connection has nothing more to do for now.
//!
//! Kept true: what was written is passed on in order, when the connection was polled or there is much of it; whoever has
//! nothing to write holds no room.

use parking_lot::Mutex;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// From how many bytes on nothing more is gathered.
const GATHERED_BYTES: usize = 64 << 10;

/// The stream of a connection, as the library sees it. Cloning shares it.
pub(crate) struct Gather<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    stream: S,
    bytes: Vec<u8>,
    /// How many of them were passed on.
    passed_on: usize,
}

impl<S> Clone for Gather<S> {
    fn clone(&self) -> Self {
        Gather(Arc::clone(&self.0))
    }
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub(crate) fn new(stream: S) -> Self {
        Gather(Arc::new(Mutex::new(Gathered { stream, bytes: Vec::new(), passed_on: 0 })))
    }

    /// Passes on what was gathered. Whoever polls the connection does this afterwards, each time; what fails is seen by
    /// the next who reads or writes.
    pub(crate) fn poll_pass_on(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gathered = &mut *self.0.lock();
        if gathered.bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ready!(gathered.poll_pass_on(context))?;
        Pin::new(&mut gathered.stream).poll_flush(context)
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    fn poll_pass_on(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.passed_on < self.bytes.len() {
            let rest = &self.bytes[self.passed_on..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.passed_on += written;
        }
        (self.bytes, self.passed_on) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gathered = &mut *self.0.lock();
        if gathered.bytes.len() >= GATHERED_BYTES {
            ready!(gathered.poll_pass_on(context))?;
        }
        let length = slices.iter().map(|slice| slice.len()).sum();
        gathered.bytes.reserve(length);
        for slice in slices {
            gathered.bytes.extend_from_slice(slice);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Not yet.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gathered = &mut *self.0.lock();
        ready!(gathered.poll_pass_on(context))?;
        Pin::new(&mut gathered.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_is_written_comes_at_once_and_in_order() {
        let (near, mut far) = tokio::io::duplex(100);
        let mut gather = Gather::new(near);
        for part in ["one ", "two ", "three"] {
            gather.write_all(part.as_bytes()).await.unwrap();
            gather.flush().await.unwrap();
        }
        let mut read = [0; 100];
        assert!(futures::FutureExt::now_or_never(far.read(&mut read)).is_none());
        poll_fn(|context| gather.poll_pass_on(context)).await.unwrap();
        let length = far.read(&mut read).await.unwrap();
        assert_eq!(&read[..length], b"one two three");
        assert_eq!(gather.0.lock().bytes.capacity(), 0);
    }

    #[tokio::test]
    async fn who_does_not_read_is_waited_for_and_misses_nothing() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut gather = Gather::new(near);
        let all: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let writing = async {
            for part in all.chunks(16_393) {
                gather.write_all(part).await.unwrap();
                assert!(gather.0.lock().bytes.len() < GATHERED_BYTES + 16_393);
            }
            gather.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (_, length) = tokio::join!(writing, far.read_to_end(&mut read));
        assert!(length.unwrap() == all.len() && read == all);
    }
}
