//! What is sent back: all at once, in pieces made one after the other, or as long as there are events.
//!
//! Kept true: making pieces never keeps a thread from its other connections for long. What is costly to make is made by
//! threads that may take their time; what is not is made in turns with everything else. Pieces that a client does not
//! fetch in time are let go of, with all that they would have been made from.

use crate::{
    auth::User,
    indent::{Indenter, indented},
    large,
    serve::Line,
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
use tokio::{
    task::{AbortHandle, JoinHandle},
    time::Instant,
};

/// The body of an answer.
pub struct Body {
    content: Content,
    /// The connection that it is sent on, which has something to do for as long.
    line: Option<Arc<Line>>,
}

enum Content {
    /// All at once.
    Full(Option<Bytes>),
    /// Pieces that are made when they are asked for.
    Pieces(Making),
    /// As long as there are events.
    Events(BoxStream<'static, Bytes>),
}

/// Pieces of a body, each made when the one before was sent.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// A body ends before its end.
#[derive(Debug)]
pub struct CutShort;

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer could not be made, or was not fetched in time")
    }
}

impl std::error::Error for CutShort {}

/// Pieces on their way.
enum Making {
    /// Cheap ones, and how many may be made before others have their turn.
    InTurns { pieces: Pieces, left: usize },
    /// Costly ones, of which none is being made.
    Apart(Pieces, Option<Arc<User>>),
    /// A costly one is being made.
    Busy(JoinHandle<(Pieces, Option<Bytes>)>, Option<Arc<User>>),
    /// Those that a client may fetch for some time only.
    Lent(Lent),
    /// There are no more, although not all were made.
    Failed,
    /// All were made.
    Done,
}

/// Does something where what is costly is done, when it is the user's turn.
fn apart<T: Send + 'static>(
    user: Option<Arc<User>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    large::answers().spawn(async move {
        let _turn = match &user {
            Some(user) => large::ANSWER_TURNS.turn(user).await,
            None => None,
        };
        work()
    })
}

type Made = Option<Result<Bytes, CutShort>>;

impl Making {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Made> {
        loop {
            match std::mem::replace(self, Making::Done) {
                Making::InTurns { pieces, left: 0 } => {
                    *self = Making::InTurns { pieces, left: PIECES_A_TURN };
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Making::InTurns { mut pieces, left } => {
                    let piece = pieces.next();
                    if piece.is_some() {
                        *self = Making::InTurns { pieces, left: left - 1 };
                    }
                    return Poll::Ready(piece.map(Ok));
                }
                Making::Apart(mut pieces, user) => {
                    let job = apart(user.clone(), move || {
                        let piece = pieces.next();
                        (pieces, piece)
                    });
                    *self = Making::Busy(job, user);
                }
                Making::Busy(mut job, user) => match Pin::new(&mut job).poll(context) {
                    Poll::Pending => {
                        *self = Making::Busy(job, user);
                        return Poll::Pending;
                    }
                    // A job fails only if it panics or the server ends.
                    Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(CutShort))),
                    Poll::Ready(Ok((_, None))) => return Poll::Ready(None),
                    Poll::Ready(Ok((pieces, Some(piece)))) => {
                        *self = Making::Apart(pieces, user);
                        return Poll::Ready(Some(Ok(piece)));
                    }
                },
                Making::Lent(lent) => {
                    let next = lent.poll_next(context);
                    *self = Making::Lent(lent);
                    return next;
                }
                Making::Failed => return Poll::Ready(Some(Err(CutShort))),
                Making::Done => return Poll::Ready(None),
            }
        }
    }
}

/// Pieces that are let go of when their time is up: a client that does not read asks for nothing more, so that somebody
/// else has to look at the clock.
struct Lent {
    loan: Arc<Mutex<Option<Loan>>>,
    /// The connection that counts this stream if it stalls.
    line: Option<Arc<Line>>,
    until: AbortHandle,
}

struct Loan {
    pieces: Making,
    /// What is held as long as the answer is being sent.
    _held: Box<dyn Any + Send>,
    /// Who waits for the next piece, and has to be told that there is none.
    waiting: Option<Waker>,
    /// When the client was given something, or waited for it.
    busy_at: Instant,
    /// Over which it is sent.
    line: Option<Arc<Line>>,
}

impl Lent {
    fn new(pieces: Making, held: Box<dyn Any + Send>, deadline: Instant) -> Lent {
        let loan = Loan { pieces, _held: held, waiting: None, busy_at: Instant::now(), line: None };
        let loan = Arc::new(Mutex::new(Some(loan)));
        let lent = Arc::clone(&loan);
        let until = tokio::spawn(async move {
            let loan = loop {
                let due = match &*lent.lock() {
                    Some(loan) => loan.due().min(deadline),
                    None => return,
                };
                tokio::time::sleep_until(due).await;
                let mut lent = lent.lock();
                if let Some(loan) = lent.take_if(|loan| loan.due().min(deadline) <= Instant::now()) {
                    // Under the lock, so that the end of the stream is not counted before its stall.
                    if let Some(line) = &loan.line {
                        line.stream_stalled();
                    }
                    break loan;
                }
            };
            if let Some(waiting) = loan.waiting {
                waiting.wake();
            }
        });
        Lent { loan, line: None, until: until.abort_handle() }
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Made> {
        let mut loan = self.loan.lock();
        let Some(loan) = &mut *loan else { return Poll::Ready(Some(Err(CutShort))) };
        let next = loan.pieces.poll_next(context);
        loan.waiting = next.is_pending().then(|| context.waker().clone());
        loan.busy_at = Instant::now();
        next
    }
}

impl Loan {
    /// When it is let go of if nothing happens until then. One for whom a piece is being made does read.
    fn due(&self) -> Instant {
        let since = if self.waiting.is_some() { Instant::now() } else { self.busy_at };
        since + STALL_MAX
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.until.abort();
        if let Some(line) = &self.line
            && self.loan.lock().is_none()
        {
            line.stalled_stream_ended();
        }
    }
}

/// How long a client may take to read a piece.
const STALL_MAX: Duration = Duration::from_secs(10);
/// From what size on an answer that is there as a whole is sent in pieces, and how large these are.
const WHOLE_BYTES_MAX: usize = 64 << 10;
/// How many cheap pieces are made at a time: they take a fraction of a millisecond, and waking a thread is not free.
const PIECES_A_TURN: usize = 4;

/// From what size on an answer is compressed for clients that can read that.
const GZIP_BYTES_MIN: usize = 128 << 10;

impl Body {
    /// Nothing.
    pub fn empty() -> Body {
        Content::Full(None).into()
    }

    /// As long as there are events.
    pub fn events(events: BoxStream<'static, Bytes>) -> Body {
        Content::Events(events).into()
    }

    /// Pieces that are made by copying.
    pub fn cheap(pieces: Pieces) -> Body {
        Content::Pieces(Making::InTurns { pieces, left: PIECES_A_TURN }).into()
    }

    /// Pieces that take time to make.
    pub fn costly(pieces: Pieces) -> Body {
        Content::Pieces(Making::Apart(pieces, None)).into()
    }

    /// The same, made when it is the user's turn, if it takes time to make.
    pub(crate) fn made_for(self, user: &Arc<User>) -> Body {
        match self.content {
            Content::Pieces(Making::Apart(pieces, _)) => {
                Content::Pieces(Making::Apart(pieces, Some(Arc::clone(user)))).into()
            }
            other => other.into(),
        }
    }

    /// The same JSON, indented for people.
    pub fn indented(self) -> Body {
        match self.content {
            Content::Full(Some(bytes)) => Body::from(indented(&bytes)),
            Content::Pieces(Making::InTurns { pieces, .. } | Making::Apart(pieces, _)) => {
                let mut indenter = Indenter::default();
                Body::costly(Box::new(pieces.map(move |piece| indenter.indent(&piece).into())))
            }
            other => other.into(),
        }
    }

    /// The same, but what is still to be sent of it after some time is not sent. Something is held until then.
    pub(crate) fn lent(self, held: impl Send + 'static, deadline: Instant) -> Body {
        match self.content {
            Content::Pieces(making) => {
                Content::Pieces(Making::Lent(Lent::new(making, Box::new(held), deadline))).into()
            }
            Content::Full(Some(bytes)) if bytes.len() > WHOLE_BYTES_MAX => {
                Body::cheap(Box::new(slices(bytes, WHOLE_BYTES_MAX))).lent(held, deadline)
            }
            other => other.into(),
        }
    }

    /// Tells on which connection it is sent.
    pub(crate) fn sent_on(&mut self, line: Arc<Line>) {
        if let Content::Pieces(Making::Lent(lent)) = &mut self.content
            && let Some(loan) = &mut *lent.loan.lock()
        {
            loan.line = Some(Arc::clone(&line));
            lent.line = Some(Arc::clone(&line));
        }
        self.line = Some(line);
    }

    /// Whether it goes on for as long as somebody listens.
    pub fn is_endless(&self) -> bool {
        matches!(self.content, Content::Events(_))
    }

    /// The same, compressed if it is large.
    pub async fn compressed(self) -> (Body, bool) {
        match self.content {
            Content::Full(Some(bytes)) if bytes.len() > GZIP_BYTES_MIN => {
                (Body::costly(Box::new(Gzip::new(Box::new(slices(bytes, GZIP_INPUT_BYTES))))), true)
            }
            Content::Pieces(Making::InTurns { pieces, .. }) => compressed(pieces),
            Content::Pieces(Making::Apart(pieces, user)) => {
                match apart(user, move || compressed(pieces)).await {
                    Ok(compressed) => compressed,
                    // It panicked, or the server ends.
                    Err(_) => (Content::Pieces(Making::Failed).into(), false),
                }
            }
            other => (other.into(), false),
        }
    }
}

/// Pieces, compressed if they are large together.
fn compressed(mut pieces: Pieces) -> (Body, bool) {
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

/// All bytes, in pieces of a size.
fn slices(mut bytes: Bytes, size: usize) -> impl Iterator<Item = Bytes> + Send {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(size.min(bytes.len()))))
}

impl From<Content> for Body {
    fn from(content: Content) -> Body {
        Body { content, line: None }
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
            Content::Pieces(_) => "Pieces",
            Content::Events(_) => "Events",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let next = match &mut self.get_mut().content {
            Content::Full(bytes) => bytes.take().map(Ok),
            Content::Pieces(pieces) => ready!(pieces.poll_next(context)),
            Content::Events(events) => ready!(events.as_mut().poll_next(context)).map(Ok),
        };
        Poll::Ready(next.map(|made| made.map(Frame::data)))
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
    use std::{io::Read, sync::atomic::Ordering};

    fn pieces(count: usize) -> Body {
        Body::cheap(Box::new((0..count).map(|n| Bytes::from(vec![b'a' + (n % 26) as u8; 10_000]))))
    }

    async fn all(body: Body) -> Vec<u8> {
        http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec()
    }

    #[tokio::test]
    async fn what_is_small_is_sent_as_it_is() {
        for body in [pieces(3), Body::from(vec![1; 100_000])] {
            let (body, compressed) = body.compressed().await;
            assert!(!compressed && !all(body).await.is_empty());
        }
    }

    #[tokio::test]
    async fn what_is_large_is_compressed_and_reads_the_same() {
        let plain = all(pieces(50)).await;
        for body in [pieces(50), Body::from(plain.clone())] {
            let (body, compressed) = body.compressed().await;
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

    #[tokio::test(start_paused = true)]
    async fn what_is_not_fetched_in_time_is_let_go_of() {
        let held = Arc::new(());
        let mut body = pieces(3).lent(Arc::clone(&held), Instant::now() + Duration::from_secs(15));
        let mut next = async || http_body_util::BodyExt::frame(&mut body).await;
        assert!(next().await.unwrap().is_ok());
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(next().await.unwrap().is_ok() && Arc::strong_count(&held) == 2);
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(next().await.unwrap().is_err());
    }

    /// A client that reads one answer and not another must not keep what that one is made from.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_fetched_for_some_time_is_let_go_of() {
        for body in [pieces(300), Body::from(vec![1; 10 * WHOLE_BYTES_MAX])] {
            let held = Arc::new(());
            let mut body = body.lent(Arc::clone(&held), Instant::now() + Duration::from_secs(3600));
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
    async fn who_waits_for_a_piece_is_told_that_time_is_up() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let slow =
            Body::costly(Box::new(std::iter::from_fn(move || wait.recv().ok().map(|()| Bytes::new()))));
        let mut body = slow.lent((), Instant::now() + Duration::from_millis(50));
        // By a task of its own, which nobody wakes but the body: this one's timeout would ask again by itself.
        let next = tokio::spawn(async move { http_body_util::BodyExt::frame(&mut body).await });
        let next = tokio::time::timeout(Duration::from_secs(20), next).await;
        assert!(next.expect("it does not wait for ever").unwrap().unwrap().is_err());
        drop(go_on);
    }

    /// One connection may serve a client for days: streams that stalled and ended must not add up.
    #[tokio::test(start_paused = true)]
    async fn a_stalled_stream_counts_until_it_ends() {
        let line = Arc::new(Line { shared: true, ..Line::default() });
        let mut body = pieces(3).lent((), Instant::now() + Duration::from_secs(3600));
        body.sent_on(Arc::clone(&line));
        let mut read = pieces(3).lent((), Instant::now() + Duration::from_secs(3600));
        read.sent_on(Arc::clone(&line));
        all(read).await;
        assert!(http_body_util::BodyExt::frame(&mut body).await.unwrap().is_ok());
        tokio::time::sleep(STALL_MAX + Duration::from_secs(1)).await;
        assert_eq!(line.stalled.load(Ordering::Relaxed), 1);
        drop(body);
        assert_eq!(line.stalled.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn what_was_fetched_holds_nothing() {
        let held = Arc::new(());
        let body = pieces(3).lent(Arc::clone(&held), Instant::now() + Duration::from_secs(60));
        assert_eq!(all(body).await.len(), 30_000);
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
