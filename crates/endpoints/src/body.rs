//! The bodies of answers: whole, in chunks that are encoded one after the other, or events without an end.
//!
//! Kept true: encoding never keeps a thread from its other connections for long. Chunks that take time are encoded by the
//! threads for large documents, cheap ones by the connection's own task, a few at a time. Chunks that a client does not
//! read in time are dropped, with everything that they would have been encoded from.

use crate::{
    auth::User,
    connection_state::ConnectionState,
    indent::{Indenter, indented},
    large_documents,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream::BoxStream;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::{
    any::Any,
    fmt,
    io::Write,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};
use tokio::{task::AbortHandle, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// The body of an answer.
pub struct Body {
    content: Content,
    /// The connection on which it is sent, which is not idle for as long.
    connection: Option<Arc<ConnectionState>>,
}

enum Content {
    /// The whole body.
    Full(Option<Bytes>),
    /// Chunks that are encoded when they are polled.
    Chunks(ChunkStream),
    /// Events, as long as there are any.
    Events(BoxStream<'static, Bytes>),
}

/// Chunks of a body, each encoded when the one before has been sent.
pub type Chunks = Box<dyn Iterator<Item = Bytes> + Send>;

/// The body ended early.
#[derive(Debug)]
pub struct EndedEarly;

impl fmt::Display for EndedEarly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer could not be made, or was not fetched in time")
    }
}

impl std::error::Error for EndedEarly {}

/// The way in which chunks are encoded.
enum ChunkStream {
    /// By the task that polls, and how many more before other tasks run.
    Inline { chunks: Chunks, left: usize },
    /// By the threads for large documents; none is being encoded.
    Offloaded(Chunks, Option<Arc<User>>),
    /// By those threads, which are encoding one.
    Running(AbortOnDropHandle<(Chunks, Option<Bytes>)>, Option<Arc<User>>),
    /// Either way, and dropped at a deadline.
    WithDeadline(DeadlineBody),
    /// Not all chunks could be encoded.
    Failed,
    /// All chunks were encoded.
    Done,
}

/// Runs work on the threads for large documents, within the user's limit. Work that has not begun is dropped with the
/// handle: clients that are gone must not keep those threads from others.
pub(crate) fn offload<T: Send + 'static>(
    user: Option<Arc<User>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(large_documents::answers().spawn(async move {
        let _permit = match &user {
            Some(user) => large_documents::ANSWERS_OF_USER.acquire(user).await,
            None => None,
        };
        work()
    }))
}

type NextChunk = Option<Result<Bytes, EndedEarly>>;

impl ChunkStream {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<NextChunk> {
        loop {
            match std::mem::replace(self, ChunkStream::Done) {
                ChunkStream::Inline { chunks, left: 0 } => {
                    *self = ChunkStream::Inline { chunks, left: INLINE_CHUNKS_MAX };
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                ChunkStream::Inline { mut chunks, left } => {
                    let chunk = chunks.next();
                    if chunk.is_some() {
                        *self = ChunkStream::Inline { chunks, left: left - 1 };
                    }
                    return Poll::Ready(chunk.map(Ok));
                }
                ChunkStream::Offloaded(mut chunks, user) => {
                    let job = offload(user.clone(), move || {
                        let chunk = chunks.next();
                        (chunks, chunk)
                    });
                    *self = ChunkStream::Running(job, user);
                }
                ChunkStream::Running(mut job, user) => match Pin::new(&mut job).poll(context) {
                    Poll::Pending => {
                        *self = ChunkStream::Running(job, user);
                        return Poll::Pending;
                    }
                    // A job fails only if it panics or the runtime shuts down.
                    Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(EndedEarly))),
                    Poll::Ready(Ok((_, None))) => return Poll::Ready(None),
                    Poll::Ready(Ok((chunks, Some(chunk)))) => {
                        *self = ChunkStream::Offloaded(chunks, user);
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                },
                ChunkStream::WithDeadline(body) => {
                    let next = body.poll_next(context);
                    *self = ChunkStream::WithDeadline(body);
                    return next;
                }
                ChunkStream::Failed => return Poll::Ready(Some(Err(EndedEarly))),
                ChunkStream::Done => return Poll::Ready(None),
            }
        }
    }
}

/// Chunks that are dropped at a deadline. A client that does not read causes no more polls, so a task of its own watches the
/// time.
struct DeadlineBody {
    /// None after the deadline.
    state: Arc<Mutex<Option<DeadlineState>>>,
    /// The connection that counts this stream if it stalls.
    connection: Option<Arc<ConnectionState>>,
    watchdog: AbortHandle,
}

struct DeadlineState {
    chunks: ChunkStream,
    /// Dropped with the chunks, such as a permit.
    _held: Box<dyn Any + Send>,
    /// Woken at the deadline if a chunk is awaited then.
    waiting: Option<Waker>,
    /// When the client last received a chunk or waited for one.
    active_at: Instant,
    /// The connection on which the body is sent.
    connection: Option<Arc<ConnectionState>>,
}

impl DeadlineBody {
    fn new(chunks: ChunkStream, held: Box<dyn Any + Send>, deadline: Instant) -> DeadlineBody {
        let state =
            DeadlineState { chunks, _held: held, waiting: None, active_at: Instant::now(), connection: None };
        let state = Arc::new(Mutex::new(Some(state)));
        let watched = Arc::clone(&state);
        let watchdog = tokio::spawn(async move {
            let expired = loop {
                let due = match &*watched.lock() {
                    Some(state) => state.due().min(deadline),
                    None => return,
                };
                tokio::time::sleep_until(due).await;
                let mut watched = watched.lock();
                if let Some(state) = watched.take_if(|state| state.due().min(deadline) <= Instant::now()) {
                    // Under the lock, so that the end of the stream is not counted before its stall.
                    if let Some(connection) = &state.connection {
                        connection.stream_stalled();
                    }
                    break state;
                }
            };
            if let Some(waiting) = expired.waiting {
                waiting.wake();
            }
        });
        DeadlineBody { state, connection: None, watchdog: watchdog.abort_handle() }
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<NextChunk> {
        let mut state = self.state.lock();
        let Some(state) = &mut *state else { return Poll::Ready(Some(Err(EndedEarly))) };
        let next = state.chunks.poll_next(context);
        state.waiting = next.is_pending().then(|| context.waker().clone());
        state.active_at = Instant::now();
        next
    }
}

impl DeadlineState {
    /// When the client counts as stalled if nothing happens until then. A client that waits for a chunk does read.
    fn due(&self) -> Instant {
        let since = if self.waiting.is_some() { Instant::now() } else { self.active_at };
        since + STALL_MAX
    }
}

impl Drop for DeadlineBody {
    fn drop(&mut self) {
        self.watchdog.abort();
        if let Some(connection) = &self.connection
            && self.state.lock().is_none()
        {
            connection.stalled_stream_ended();
        }
    }
}

/// The time within which a client has to read a chunk.
const STALL_MAX: Duration = Duration::from_secs(10);
/// From what size on a whole body is sent in chunks, and how large these are.
const WHOLE_BYTES_MAX: usize = 64 << 10;
/// Up to what size a body has no deadline and holds nothing: a connection with a thousand streams keeps 8 MB at most of
/// answers that are not read.
const UNHELD_BYTES_MAX: usize = 8 << 10;
/// The number of cheap chunks that are encoded at a time: they take a fraction of a millisecond, and waking a thread is
/// not free.
const INLINE_CHUNKS_MAX: usize = 4;

/// From what size on an answer is compressed for clients that can read that.
const GZIP_BYTES_MIN: usize = 128 << 10;

impl Body {
    /// Nothing.
    pub fn empty() -> Body {
        Content::Full(None).into()
    }

    /// Events, as long as there are any.
    pub fn events(events: BoxStream<'static, Bytes>) -> Body {
        Content::Events(events).into()
    }

    /// Chunks that are cheap to encode, as by copying.
    pub fn inline(chunks: Chunks) -> Body {
        Content::Chunks(ChunkStream::Inline { chunks, left: INLINE_CHUNKS_MAX }).into()
    }

    /// Chunks that take time to encode.
    pub fn offloaded(chunks: Chunks) -> Body {
        Content::Chunks(ChunkStream::Offloaded(chunks, None)).into()
    }

    /// The same body; if it takes time to encode, it counts as this user's.
    pub(crate) fn on_behalf_of(self, user: &Arc<User>) -> Body {
        match self.content {
            Content::Chunks(ChunkStream::Offloaded(chunks, _)) => {
                Content::Chunks(ChunkStream::Offloaded(chunks, Some(Arc::clone(user)))).into()
            }
            other => other.into(),
        }
    }

    /// The same JSON, indented for people.
    pub fn indented(self) -> Body {
        match self.content {
            Content::Full(Some(bytes)) => Body::from(indented(&bytes)),
            Content::Chunks(ChunkStream::Inline { chunks, .. } | ChunkStream::Offloaded(chunks, _)) => {
                let mut indenter = Indenter::default();
                Body::offloaded(Box::new(chunks.map(move |chunk| indenter.indent(&chunk).into())))
            }
            other => other.into(),
        }
    }

    /// The same body, which ends early at the deadline. `held` is dropped with it.
    pub(crate) fn with_deadline(self, held: impl Send + 'static, deadline: Instant) -> Body {
        match self.content {
            Content::Chunks(making) => Content::Chunks(ChunkStream::WithDeadline(DeadlineBody::new(
                making,
                Box::new(held),
                deadline,
            )))
            .into(),
            Content::Full(Some(bytes)) if bytes.len() > UNHELD_BYTES_MAX => {
                Body::inline(Box::new(slices(bytes, WHOLE_BYTES_MAX))).with_deadline(held, deadline)
            }
            other => other.into(),
        }
    }

    /// Sets the connection on which the body is sent.
    pub(crate) fn set_connection(&mut self, connection: Arc<ConnectionState>) {
        if let Content::Chunks(ChunkStream::WithDeadline(body)) = &mut self.content
            && let Some(state) = &mut *body.state.lock()
        {
            state.connection = Some(Arc::clone(&connection));
            body.connection = Some(Arc::clone(&connection));
        }
        self.connection = Some(connection);
    }

    /// Whether it is a watch, which has no end of its own.
    pub fn is_endless(&self) -> bool {
        matches!(self.content, Content::Events(_))
    }

    /// The same, compressed if it is large.
    pub async fn compressed(self) -> (Body, bool) {
        match self.content {
            Content::Full(Some(bytes)) if bytes.len() > GZIP_BYTES_MIN => {
                (Body::offloaded(Box::new(Gzip::new(Box::new(slices(bytes, GZIP_INPUT_BYTES))))), true)
            }
            Content::Chunks(ChunkStream::Inline { chunks, .. }) => compressed(chunks),
            Content::Chunks(ChunkStream::Offloaded(chunks, user)) => {
                match offload(user, move || compressed(chunks)).await {
                    Ok(compressed) => compressed,
                    // The job panicked, or the runtime shuts down.
                    Err(_) => (Content::Chunks(ChunkStream::Failed).into(), false),
                }
            }
            other => (other.into(), false),
        }
    }
}

/// Chunks, compressed if they are large together.
fn compressed(mut chunks: Chunks) -> (Body, bool) {
    let mut first = Vec::new();
    while first.len() <= GZIP_BYTES_MIN {
        match chunks.next() {
            Some(chunk) => first.extend_from_slice(&chunk),
            None => return (Body::from(first), false),
        }
    }
    let all = std::iter::once(Bytes::from(first)).chain(chunks);
    (Body::offloaded(Box::new(Gzip::new(Box::new(all)))), true)
}

/// All bytes, in slices of this size.
fn slices(mut bytes: Bytes, size: usize) -> impl Iterator<Item = Bytes> + Send {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(size.min(bytes.len()))))
}

impl From<Content> for Body {
    fn from(content: Content) -> Body {
        Body { content, connection: None }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Bytes::from(bytes).into()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Content::Full(Some(bytes)).into()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.content {
            Content::Full(_) => "Full",
            Content::Chunks(_) => "Chunks",
            Content::Events(_) => "Events",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = EndedEarly;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EndedEarly>>> {
        let next = match &mut self.get_mut().content {
            Content::Full(bytes) => bytes.take().map(Ok),
            Content::Chunks(chunks) => ready!(chunks.poll_next(context)),
            Content::Events(events) => ready!(events.as_mut().poll_next(context)).map(Ok),
        };
        Poll::Ready(next.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            _ => SizeHint::default(),
        }
    }
}

/// Compresses chunks as they come.
struct Gzip {
    chunks: Chunks,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    fn new(chunks: Chunks) -> Gzip {
        Gzip { chunks, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

/// The number of bytes of a whole body that are compressed at a time.
const GZIP_INPUT_BYTES: usize = 128 << 10;
/// The number of compressed bytes that are sent at a time.
const GZIP_CHUNK_BYTES: usize = 16 << 10;

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(chunk) = self.chunks.next() else {
                let rest = self.encoder.take()?.finish().expect("writing to memory does not fail");
                return Some(rest.into());
            };
            encoder.write_all(&chunk).expect("writing to memory does not fail");
            if encoder.get_ref().len() >= GZIP_CHUNK_BYTES {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, sync::atomic::Ordering};

    fn chunks(count: usize) -> Body {
        Body::inline(Box::new((0..count).map(|n| Bytes::from(vec![b'a' + (n % 26) as u8; 10_000]))))
    }

    async fn all(body: Body) -> Vec<u8> {
        http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec()
    }

    #[tokio::test]
    async fn small_bodies_are_sent_without_a_deadline() {
        for body in [chunks(3), Body::from(vec![1; 100_000])] {
            let (body, compressed) = body.compressed().await;
            assert!(!compressed && !all(body).await.is_empty());
        }
    }

    #[tokio::test]
    async fn large_bodies_are_compressed_and_decompress_to_the_same() {
        let plain = all(chunks(50)).await;
        for body in [chunks(50), Body::from(plain.clone())] {
            let (body, compressed) = body.compressed().await;
            assert!(compressed);
            let (bytes, mut text) = (all(body).await, Vec::new());
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).unwrap();
            assert!(text == plain && bytes.len() < text.len() / 10);
        }
    }

    #[tokio::test]
    async fn offloaded_chunks_come_in_order() {
        let made = Body::offloaded(Box::new((0..100_u8).map(|n| Bytes::from(vec![n]))));
        assert_eq!(all(made).await, (0..100).collect::<Vec<u8>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_read_by_its_deadline_is_dropped() {
        let held = Arc::new(());
        let mut body = chunks(3).with_deadline(Arc::clone(&held), Instant::now() + Duration::from_secs(15));
        let mut next = async || http_body_util::BodyExt::frame(&mut body).await;
        assert!(next().await.unwrap().is_ok());
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(next().await.unwrap().is_ok() && Arc::strong_count(&held) == 2);
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(next().await.unwrap().is_err());
    }

    /// A client that reads one answer and not another must not keep the other's sources in memory.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_dropped() {
        for body in [chunks(300), Body::from(vec![1; 10 * WHOLE_BYTES_MAX])] {
            let held = Arc::new(());
            let mut body = body.with_deadline(Arc::clone(&held), Instant::now() + Duration::from_secs(3600));
            let mut next = async || http_body_util::BodyExt::frame(&mut body).await;
            for _ in 0..5 {
                assert!(next().await.unwrap().is_ok());
                tokio::time::sleep(STALL_MAX - Duration::from_secs(1)).await;
            }
            assert_eq!(Arc::strong_count(&held), 2);
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(Arc::strong_count(&held), 1);
            assert!(next().await.unwrap().is_err());
        }
    }

    #[tokio::test]
    async fn a_reader_that_waits_for_a_chunk_is_woken_at_the_deadline() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let slow =
            Body::offloaded(Box::new(std::iter::from_fn(move || wait.recv().ok().map(|()| Bytes::new()))));
        let mut body = slow.with_deadline((), Instant::now() + Duration::from_millis(50));
        // In a task of its own, which only the body wakes: the timeout of this task would poll again by itself.
        let next = tokio::spawn(async move { http_body_util::BodyExt::frame(&mut body).await });
        let next = tokio::time::timeout(Duration::from_secs(20), next).await;
        assert!(next.expect("the body ends").unwrap().unwrap().is_err());
        drop(go_on);
    }

    /// One connection may serve a client for days: streams that stalled and ended must not add up.
    #[tokio::test(start_paused = true)]
    async fn a_stalled_stream_counts_until_it_ends() {
        let connection = ConnectionState::new(true, Default::default());
        let mut body = chunks(3).with_deadline((), Instant::now() + Duration::from_secs(3600));
        body.set_connection(Arc::clone(&connection));
        let mut read = chunks(3).with_deadline((), Instant::now() + Duration::from_secs(3600));
        read.set_connection(Arc::clone(&connection));
        all(read).await;
        assert!(http_body_util::BodyExt::frame(&mut body).await.unwrap().is_ok());
        tokio::time::sleep(STALL_MAX + Duration::from_secs(1)).await;
        assert_eq!(connection.stalled.load(Ordering::Relaxed), 1);
        drop(body);
        assert_eq!(connection.stalled.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_body_that_was_read_holds_nothing() {
        let held = Arc::new(());
        let body = chunks(3).with_deadline(Arc::clone(&held), Instant::now() + Duration::from_secs(60));
        assert_eq!(all(body).await.len(), 30_000);
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
