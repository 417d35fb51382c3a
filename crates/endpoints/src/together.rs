//! The requests of one HTTP/2 connection, answered by the task that serves the connection.
//!
//! The library would give every request a task of its own. Each piece of an answer would then go from one thread to
//! another, and each of the many watches of a client would wake the connection for itself. Together they have their turn
//! first, and what they have to say is sent at once. Writes are done by tasks of their own all the same, and so is what
//! takes time to make.
//!
//! Kept true: a request that was begun is polled until it is done or the connection is over; one that panics ends
//! alone; whoever is woken while all are polled has another turn at once, without the runtime being asked for it, which
//! would often give it to another thread.

use crate::gather::{Gather, Taking};
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

/// Where the library leaves the requests that begin. Cloning shares it.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<Mutex<Vec<Request>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, request: F) {
        self.0.lock().push(AssertUnwindSafe(request.boxed()).catch_unwind());
    }
}

/// Whoever has something to do wakes this; it wakes the task, unless the task is at it.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    is_heard: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order: either the task still hears it, or it is seen here that the task does not.
        self.rung.store(true, SeqCst);
        if !self.is_heard.load(SeqCst) {
            self.task.wake();
        }
    }
}

/// How many turns in a row a connection may have, before others have theirs.
const TURNS_MAX: usize = 4;

/// A connection with its requests, whose bytes are sent when all were polled.
pub(crate) struct Together<C, S> {
    pub(crate) connection: C,
    requests: FuturesUnordered<Request>,
    begun: Begun,
    gather: Gather<S>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<C: Future + Unpin, S: Taking> Together<C, S> {
    pub(crate) fn new(connection: C, begun: Begun, gather: Gather<S>) -> Self {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        Together { connection, requests: FuturesUnordered::new(), begun, gather, bell, waker }
    }

    fn turn(&mut self) -> Poll<C::Output> {
        let context = &mut Context::from_waker(&self.waker);
        while let Poll::Ready(Some(done)) = self.requests.poll_next_unpin(context) {
            if done.is_err() {
                tracing::error!("an answer ended in a panic");
            }
        }
        let ended = self.connection.poll_unpin(context);
        let begun = std::mem::take(&mut *self.begun.0.lock());
        if !begun.is_empty() {
            self.requests.extend(begun);
            self.bell.rung.store(true, SeqCst);
        }
        let _ = self.gather.poll_pass_on(context);
        ended
    }
}

impl<C: Future + Unpin, S: Taking> Future for Together<C, S> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.get_mut();
        this.bell.task.register(context.waker());
        this.bell.is_heard.store(true, SeqCst);
        for _ in 0..TURNS_MAX {
            // Read, not only written: what was done before it was rung is seen from here on.
            this.bell.rung.swap(false, SeqCst);
            if let Poll::Ready(ended) = this.turn() {
                return Poll::Ready(ended);
            }
            if !this.bell.rung.load(SeqCst) {
                break;
            }
        }
        this.bell.is_heard.store(false, SeqCst);
        if this.bell.rung.load(SeqCst) {
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

    async fn stream() -> Gather<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Gather::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap())
    }

    /// Serves requests until so many of them are done.
    async fn serve(requests: Vec<BoxFuture<'static, ()>>, done: Arc<AtomicUsize>, wanted: usize) {
        let begun = Begun::default();
        let mut coming = Some((requests, begun.clone()));
        let connection = poll_fn(move |_| {
            if let Some((requests, begun)) = coming.take() {
                requests.into_iter().for_each(|request| begun.execute(request));
            }
            if done.load(Relaxed) == wanted { Poll::Ready(()) } else { Poll::Pending }
        });
        let serving = tokio::spawn(Together::new(connection, begun, stream().await));
        tokio::time::timeout(Duration::from_secs(60), serving).await.expect("nobody is forgotten").unwrap();
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

    /// Somebody else wakes requests at any time: while they are polled, right after, and when the task sleeps.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_is_woken_has_a_turn() {
        const REQUESTS: usize = 4;
        const TURNS: usize = 20_000;
        let (wake, woken) = mpsc::channel::<Waker>();
        let waking = std::thread::spawn(move || woken.into_iter().for_each(Waker::wake));
        let done = Arc::new(AtomicUsize::new(0));
        let requests = (0..REQUESTS).map(|_| {
            let (wake, done) = (wake.clone(), Arc::clone(&done));
            let mut turns = 0;
            poll_fn(move |context| {
                turns += 1;
                if turns > TURNS {
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
