//! What an HTTP/2 connection writes at a time, gathered.
//!
//! The library hands over a frame of 16 KB at most and wants it flushed before the next, which would be a call of the
//! system for each. So frames are only encrypted at first; the stream keeps them until there are many or the connection
//! has nothing more to do for now.
//!
//! Kept true: what was written is passed on in order, when the connection was polled or there is much of it; whoever has
//! nothing to write holds no room.

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

/// A stream that takes bytes before it sends them.
pub(crate) trait Taking: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Takes some bytes; none if others have to be sent first.
    fn take(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends until there is room.
    fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Encrypts, up to what the session keeps at the most (64 KB).
impl Taking for TlsStream<TcpStream> {
    fn take(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.get_mut().1.writer().write_vectored(slices)
    }

    fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_flush(context)
    }
}

/// Sends at once: without encryption nothing is kept.
impl Taking for TcpStream {
    fn take(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.try_write_vectored(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    fn poll_make_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }
}

/// The stream of a connection, as the library sees it. Cloning shares it.
pub(crate) struct Gather<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    stream: S,
    /// Whether something was taken since all was sent.
    unsent: bool,
}

impl<S> Clone for Gather<S> {
    fn clone(&self) -> Self {
        Gather(Arc::clone(&self.0))
    }
}

impl<S: Taking> Gather<S> {
    pub(crate) fn new(stream: S) -> Self {
        Gather(Arc::new(Mutex::new(Gathered { stream, unsent: false })))
    }

    /// Passes on what was gathered. Whoever polls the connection does this afterwards, each time; what fails is seen by
    /// the next who reads or writes.
    pub(crate) fn poll_pass_on(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gathered = &mut *self.0.lock();
        if gathered.unsent {
            ready!(Pin::new(&mut gathered.stream).poll_flush(context))?;
            gathered.unsent = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Taking> AsyncWrite for Gather<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gathered = &mut *self.0.lock();
        let is_empty = slices.iter().all(|slice| slice.is_empty());
        loop {
            let taken = gathered.stream.take(slices)?;
            if taken > 0 || is_empty {
                gathered.unsent = true;
                return Poll::Ready(Ok(taken));
            }
            ready!(gathered.stream.poll_make_room(context))?;
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Not yet.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_shutdown(context)
    }
}

impl<S: Taking> AsyncRead for Gather<S> {
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

    /// How many bytes the stream of the tests takes before it sends.
    const TAKEN_MAX: usize = 64 << 10;

    /// Takes bytes as a TLS session does, but does not encrypt them.
    struct Plain {
        stream: DuplexStream,
        taken: Vec<u8>,
    }

    fn pair(room: usize) -> (Gather<Plain>, DuplexStream) {
        let (near, far) = tokio::io::duplex(room);
        (Gather::new(Plain { stream: near, taken: Vec::new() }), far)
    }

    impl Taking for Plain {
        fn take(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut taken = 0;
            for slice in slices {
                let fits = slice.len().min(TAKEN_MAX - self.taken.len());
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
            unreachable!("bytes are given to be taken")
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
    async fn what_is_written_comes_at_once_and_in_order() {
        let (mut gather, mut far) = pair(100);
        for part in ["one ", "two ", "three"] {
            gather.write_all(part.as_bytes()).await.unwrap();
            gather.flush().await.unwrap();
        }
        let mut read = [0; 100];
        assert!(futures::FutureExt::now_or_never(far.read(&mut read)).is_none());
        poll_fn(|context| gather.poll_pass_on(context)).await.unwrap();
        let length = far.read(&mut read).await.unwrap();
        assert_eq!(&read[..length], b"one two three");
        assert!(!gather.0.lock().unsent);
    }

    #[tokio::test]
    async fn who_does_not_read_is_waited_for_and_misses_nothing() {
        let (mut gather, mut far) = pair(1000);
        let all: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let writing = async {
            for part in all.chunks(16_393) {
                gather.write_all(part).await.unwrap();
            }
            gather.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (_, length) = tokio::join!(writing, far.read_to_end(&mut read));
        assert!(length.unwrap() == all.len() && read == all);
    }
}
