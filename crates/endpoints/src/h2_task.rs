//! One task for an HTTP/2 connection and all its requests.
//!
//! The h2 library would spawn a task for every request. Each frame of an answer would then pass from one thread to another,
//! and each of a client's many watches would wake the connection on its own. Here one task polls all requests first, and
//! then the connection sends their frames together. Writes to storage, and answers that take time to encode, still have
//! tasks of their own.
//!
//! Kept true: a request is polled until it is done or the connection is over; a request that panics ends alone; a request
//! that is woken during a round of polls is polled again at once, without going through the scheduler, which would often
//! move the task to another thread.

use crate::write_coalescer::{BufferedStream, WriteCoalescer};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, CatchUnwind},
    stream::FuturesUnordered,
    task::AtomicWaker,
};
use hyper::rt::Executor;
use parking_lot::Mutex;
use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

type Request = CatchUnwind<AssertUnwindSafe<BoxFuture<'static, ()>>>;

/// The executor to which the HTTP library gives new requests. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct SpawnedRequests(Arc<Mutex<Vec<Request>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for SpawnedRequests {
    fn execute(&self, request: F) {
        self.0.lock().push(AssertUnwindSafe(request.boxed()).catch_unwind());
    }
}

/// The waker of all requests: wakes the task once, and not at all while the task is polling.
#[derive(Default)]
struct CoalescingWaker {
    woken: AtomicBool,
    is_polling: AtomicBool,
    task: AtomicWaker,
}

impl Wake for CoalescingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order: either the task still sees the flag, or this sees that the task has stopped polling.
        self.woken.store(true, SeqCst);
        if !self.is_polling.load(SeqCst) {
            self.task.wake();
        }
    }
}

/// The number of requests that are begun, and that may end, in one round of polls. One packet can bring a thousand
/// requests, and each of them may be answered when it is polled first.
const REQUESTS_PER_ROUND_MAX: usize = 16;
/// The number of rounds of polls that a connection may have in a row, before other tasks run.
const ROUNDS_MAX: usize = 4;

/// A connection with its requests. Bytes are sent when all of them have been polled.
pub(crate) struct H2Task<C, S> {
    pub(crate) connection: C,
    requests: FuturesUnordered<Request>,
    spawned: SpawnedRequests,
    stream: WriteCoalescer<S>,
    woken: Arc<CoalescingWaker>,
    waker: Waker,
}

impl<C: Future + Unpin, S: BufferedStream> H2Task<C, S> {
    pub(crate) fn new(connection: C, spawned: SpawnedRequests, stream: WriteCoalescer<S>) -> Self {
        let woken = Arc::new(CoalescingWaker::default());
        let waker = Waker::from(Arc::clone(&woken));
        H2Task { connection, requests: FuturesUnordered::new(), spawned, stream, woken, waker }
    }

    fn poll_once(&mut self) -> Poll<C::Output> {
        let context = &mut Context::from_waker(&self.waker);
        for ended in 0.. {
            if ended == REQUESTS_PER_ROUND_MAX {
                self.woken.woken.store(true, SeqCst);
                break;
            }
            let Poll::Ready(Some(done)) = self.requests.poll_next_unpin(context) else { break };
            if done.is_err() {
                tracing::error!("a request ended in a panic");
            }
        }
        let ended = self.connection.poll_unpin(context);
        let mut spawned = self.spawned.0.lock();
        if !spawned.is_empty() {
            let first = spawned.len().min(REQUESTS_PER_ROUND_MAX);
            self.requests.extend(spawned.drain(..first));
            if spawned.is_empty() {
                *spawned = Vec::new();
            }
            self.woken.woken.store(true, SeqCst);
        }
        drop(spawned);
        let _ = self.stream.poll_send_buffered(context);
        ended
    }
}

impl<C: Future + Unpin, S: BufferedStream> Future for H2Task<C, S> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.get_mut();
        this.woken.task.register(context.waker());
        this.woken.is_polling.store(true, SeqCst);
        for _ in 0..ROUNDS_MAX {
            // A swap, not a store: work that was done before the flag was set must be visible from here on.
            this.woken.woken.swap(false, SeqCst);
            if let Poll::Ready(ended) = this.poll_once() {
                return Poll::Ready(ended);
            }
            if !this.woken.woken.load(SeqCst) {
                break;
            }
        }
        this.woken.is_polling.store(false, SeqCst);
        if this.woken.woken.load(SeqCst) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::poll_fn,
        sync::{
            atomic::{AtomicUsize, Ordering::Relaxed},
            mpsc,
        },
        time::Duration,
    };
    use tokio::net::{TcpListener, TcpStream};

    async fn stream() -> WriteCoalescer<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        WriteCoalescer::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap())
    }

    /// Serves requests until this many of them are done.
    async fn serve(requests: Vec<BoxFuture<'static, ()>>, done: Arc<AtomicUsize>, wanted: usize) {
        let spawned = SpawnedRequests::default();
        let mut coming = Some((requests, spawned.clone()));
        let connection = poll_fn(move |_| {
            if let Some((requests, spawned)) = coming.take() {
                requests.into_iter().for_each(|request| spawned.execute(request));
            }
            if done.load(Relaxed) == wanted { Poll::Ready(()) } else { Poll::Pending }
        });
        let serving = tokio::spawn(H2Task::new(connection, spawned, stream().await));
        tokio::time::timeout(Duration::from_secs(60), serving)
            .await
            .expect("no request is forgotten")
            .unwrap();
    }

    #[tokio::test]
    async fn a_request_that_panics_ends_alone() {
        let done = Arc::new(AtomicUsize::new(0));
        let count = |done: &Arc<AtomicUsize>| {
            let done = Arc::clone(done);
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                done.fetch_add(1, Relaxed);
            }
            .boxed()
        };
        let panics = async { panic!("on purpose") }.boxed();
        serve(vec![count(&done), panics, count(&done)], Arc::clone(&done), 2).await;
    }

    /// Another thread wakes requests at any time: while they are polled, right after, and while the task sleeps.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_is_woken_is_polled() {
        const REQUESTS: usize = 4;
        const POLLS: usize = 20_000;
        let (wake, woken) = mpsc::channel::<Waker>();
        let waking = std::thread::spawn(move || woken.into_iter().for_each(Waker::wake));
        let done = Arc::new(AtomicUsize::new(0));
        let requests = (0..REQUESTS).map(|_| {
            let (wake, done) = (wake.clone(), Arc::clone(&done));
            let mut polls = 0;
            poll_fn(move |context| {
                polls += 1;
                if polls > POLLS {
                    done.fetch_add(1, Relaxed);
                    return Poll::Ready(());
                }
                wake.send(context.waker().clone()).expect("the thread takes all");
                Poll::Pending
            })
            .boxed()
        });
        serve(requests.collect(), done, REQUESTS).await;
        drop(wake);
        waking.join().unwrap();
    }
}
