//! Coalesces the writes of an HTTP/2 connection.
//!
//! The h2 library writes frames of at most 16 KB and flushes each, which would be one system call for each. So a frame is
//! only encrypted at first; the stream buffers it until the buffer is full or the connection has nothing more to do.
//!
//! Kept true: bytes are sent in order, after each poll of the connection or when the buffer is full; a connection that has
//! nothing to write has no buffer.

use parking_lot::Mutex;
use std::{
    io::{self, IoSlice, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

/// A stream with a write buffer.
pub(crate) trait BufferedStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Buffers some of these bytes; none if the buffer is full.
    fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends until there is room in the buffer.
    fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Encrypts into the session's buffer of at most 64 KB.
impl BufferedStream for TlsStream<TcpStream> {
    fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.get_mut().1.writer().write_vectored(slices)
    }

    fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_flush(context)
    }
}

/// Sends at once: a stream without encryption has no buffer.
impl BufferedStream for TcpStream {
    fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.try_write_vectored(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }
}

/// The stream of a connection, as the HTTP library sees it. Clones share it.
pub(crate) struct WriteCoalescer<S>(Arc<Mutex<Shared<S>>>);

struct Shared<S> {
    stream: S,
    /// Whether anything was buffered since the last complete flush.
    unsent: bool,
}

impl<S> Clone for WriteCoalescer<S> {
    fn clone(&self) -> Self {
        WriteCoalescer(Arc::clone(&self.0))
    }
}

impl<S: BufferedStream> WriteCoalescer<S> {
    pub(crate) fn new(stream: S) -> Self {
        WriteCoalescer(Arc::new(Mutex::new(Shared { stream, unsent: false })))
    }

    /// Sends the buffered bytes. The task that polls the connection calls this after each poll; the next read or write
    /// sees a failure.
    pub(crate) fn poll_send_buffered(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &mut *self.0.lock();
        if shared.unsent {
            ready!(Pin::new(&mut shared.stream).poll_flush(context))?;
            shared.unsent = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: BufferedStream> AsyncWrite for WriteCoalescer<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let shared = &mut *self.0.lock();
        let is_empty = slices.iter().all(|slice| slice.is_empty());
        loop {
            let taken = shared.stream.buffer(slices)?;
            if taken > 0 || is_empty {
                shared.unsent = true;
                return Poll::Ready(Ok(taken));
            }
            ready!(shared.stream.poll_make_room(context))?;
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing yet: [`WriteCoalescer::poll_send_buffered`] flushes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_shutdown(context)
    }
}

impl<S: BufferedStream> AsyncRead for WriteCoalescer<S> {
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    /// The size of the test stream's buffer.
    const BUFFER_BYTES_MAX: usize = 64 << 10;

    /// Buffers bytes as a TLS session does, without encryption.
    struct Plain {
        stream: DuplexStream,
        taken: Vec<u8>,
    }

    fn pair(room: usize) -> (WriteCoalescer<Plain>, DuplexStream) {
        let (near, far) = tokio::io::duplex(room);
        (WriteCoalescer::new(Plain { stream: near, taken: Vec::new() }), far)
    }

    impl BufferedStream for Plain {
        fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut taken = 0;
            for slice in slices {
                let fits = slice.len().min(BUFFER_BYTES_MAX - self.taken.len());
                self.taken.extend_from_slice(&slice[..fits]);
                taken += fits;
            }
            Ok(taken)
        }

        fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(self).poll_flush(context)
        }
    }

    impl AsyncWrite for Plain {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            unreachable!("bytes are buffered first")
        }

        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            let this = self.get_mut();
            while !this.taken.is_empty() {
                let written = ready!(Pin::new(&mut this.stream).poll_write(context, &this.taken))?;
                this.taken.drain(..written);
            }
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.as_mut().poll_flush(context))?;
            Pin::new(&mut self.stream).poll_shutdown(context)
        }
    }

    impl AsyncRead for Plain {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        }
    }

    #[tokio::test]
    async fn writes_are_sent_together_and_in_order() {
        let (mut stream, mut far) = pair(100);
        for part in ["one ", "two ", "three"] {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut read = [0; 100];
        assert!(futures::FutureExt::now_or_never(far.read(&mut read)).is_none());
        poll_fn(|context| stream.poll_send_buffered(context)).await.unwrap();
        let length = far.read(&mut read).await.unwrap();
        assert_eq!(&read[..length], b"one two three");
        assert!(!stream.0.lock().unsent);
    }

    #[tokio::test]
    async fn a_slow_reader_is_waited_for_and_misses_nothing() {
        let (mut stream, mut far) = pair(1000);
        let all: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let writing = async {
            for part in all.chunks(16_393) {
                stream.write_all(part).await.unwrap();
            }
            stream.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (_, length) = tokio::join!(writing, far.read_to_end(&mut read));
        assert!(length.unwrap() == all.len() && read == all);
    }
}
