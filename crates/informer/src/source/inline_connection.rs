//! Polls the connection of a watch in the task that reads the watch.
//!
//! The client normally runs each connection in its own task, which passes the response to the reader piece by piece.
//! Every piece then costs two task switches, and on a multi-threaded runtime some of them wake another thread, which
//! costs more than the rest of the work on an event. So a connection that is opened for a watch is polled inline.
//!
//! Invariants: the connections of a watch are polled whenever they or the watch can make progress, and are dropped
//! with the watch.

use futures::task::AtomicWaker;
use std::{
    cell::RefCell,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// Collects connection tasks that are spawned while a watch is polled on this thread.
    static CAPTURED: RefCell<Option<Vec<ConnectionTask>>> = const { RefCell::new(None) };
}

/// The number of times that the connections are polled before other tasks get their turn. A task that has used its
/// cooperative budget can only continue after that.
const POLL_ROUNDS_MAX: usize = 32;

/// The executor of the client: it runs a connection inline if a watch is being polled, otherwise in a task of its
/// own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InlineExecutor;

impl hyper::rt::Executor<ConnectionTask> for InlineExecutor {
    fn execute(&self, task: ConnectionTask) {
        let left = CAPTURED.with_borrow_mut(|captured| match captured {
            Some(captured) => {
                captured.push(task);
                None
            }
            None => Some(task),
        });
        if let Some(task) = left {
            tokio::spawn(task);
        }
    }
}

/// The connections of one watch.
#[derive(Default)]
pub(crate) struct InlineConnections {
    all: Vec<ConnectionTask>,
    waker: Arc<CoalescingWaker>,
}

/// Wakes the reading task, but not while that task is already polling: then it only records the wake-up.
#[derive(Default)]
struct CoalescingWaker {
    is_woken: AtomicBool,
    is_polling: AtomicBool,
    task: AtomicWaker,
}

impl Wake for CoalescingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl InlineConnections {
    /// Polls a future together with the connections, until neither makes progress.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut main: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.waker.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(&self.waker));
        let own = &mut Context::from_waker(&waker);
        for _ in 0..POLL_ROUNDS_MAX {
            self.waker.is_polling.store(true, Ordering::SeqCst);
            // A swap and not a store: it makes everything before the wake-up visible here.
            self.waker.is_woken.swap(false, Ordering::SeqCst);
            let outcome = self.capturing(|| main(own));
            if outcome.is_pending() {
                self.all.retain_mut(|task| task.as_mut().poll(own).is_pending());
            }
            self.waker.is_polling.store(false, Ordering::SeqCst);
            if outcome.is_ready() || !self.waker.is_woken.load(Ordering::SeqCst) {
                return outcome;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Runs a function and takes the connections that it spawns.
    fn capturing<T>(&mut self, main: impl FnOnce() -> T) -> T {
        let _guard = CaptureGuard { before: CAPTURED.replace(Some(Vec::new())) };
        let outcome = main();
        self.all.extend(CAPTURED.take().unwrap_or_default());
        outcome
    }
}

/// Restores the outer collection when it is dropped, even by a panic.
struct CaptureGuard {
    before: Option<Vec<ConnectionTask>>,
}

impl Drop for CaptureGuard {
    fn drop(&mut self) {
        CAPTURED.set(self.before.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{SinkExt, StreamExt, channel::mpsc};
    use hyper::rt::Executor;
    use std::{future::poll_fn, sync::atomic::AtomicUsize, time::Duration};

    /// Counts how often the polling task is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A task that sends numbers one by one, as a connection does with pieces of a response.
    fn sender(numbers: std::ops::Range<u32>) -> (ConnectionTask, mpsc::Receiver<u32>) {
        let (mut sender, receiver) = mpsc::channel(0);
        let task = async move {
            for number in numbers {
                if sender.send(number).await.is_err() {
                    return;
                }
            }
        };
        (Box::pin(task), receiver)
    }

    #[test]
    fn a_connection_is_polled_without_waking_the_task() {
        let (task, mut receiver) = sender(0..100);
        let mut connections = InlineConnections { all: vec![task], ..InlineConnections::default() };
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        for expected in 0..100 {
            let next = connections.poll(cx, |cx| receiver.poll_next_unpin(cx));
            assert_eq!(next, Poll::Ready(Some(expected)));
        }
        assert_eq!(connections.poll(cx, |cx| receiver.poll_next_unpin(cx)), Poll::Ready(None));
        assert_eq!(
            (connections.all.len(), count.0.load(Ordering::SeqCst)),
            (0, 0),
            "the connection is done, and the task was never woken"
        );
    }

    #[test]
    fn a_connection_spawned_during_a_poll_is_polled_inline() {
        let mut connections = InlineConnections::default();
        let mut receiver = None;
        let cx = &mut Context::from_waker(Waker::noop());
        let first = connections.poll(cx, |cx| {
            let receiver = receiver.get_or_insert_with(|| {
                let (task, receiver) = sender(7..8);
                InlineExecutor.execute(task);
                receiver
            });
            receiver.poll_next_unpin(cx)
        });
        assert_eq!(first, Poll::Ready(Some(7)));
    }

    #[tokio::test]
    async fn a_connection_spawned_elsewhere_has_its_own_task() {
        let (task, receiver) = sender(0..3);
        InlineExecutor.execute(task);
        assert_eq!(receiver.collect::<Vec<_>>().await, [0, 1, 2]);
    }

    /// A connection that becomes ready wakes the task, from any thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_waits_for_another_task_is_polled_when_it_is_ready() {
        for _ in 0..200 {
            let (mut far, mut near) = mpsc::channel::<u32>(0);
            let (mut sender, mut receiver) = mpsc::channel(0);
            let task: ConnectionTask = Box::pin(async move {
                while let Some(number) = near.next().await {
                    if sender.send(number).await.is_err() {
                        return;
                    }
                }
            });
            let mut connections = InlineConnections { all: vec![task], ..InlineConnections::default() };
            let writing = tokio::spawn(async move {
                for number in 0..50 {
                    far.send(number).await.unwrap();
                }
            });
            let mut next = 0;
            let reading = async {
                while let Some(number) =
                    poll_fn(|cx| connections.poll(cx, |cx| receiver.poll_next_unpin(cx))).await
                {
                    assert_eq!(number, next);
                    next += 1;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), reading).await.expect("no wake-up is lost");
            assert_eq!(next, 50);
            writing.await.unwrap();
        }
    }

    /// In `block_on`, a future that has used its cooperative budget is woken at once, and gets a new budget only
    /// after it has returned.
    #[test]
    fn a_used_up_cooperative_budget_does_not_cause_a_busy_loop() {
        let (finish, is_finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
            runtime.block_on(async {
                let (far, mut near) = tokio::sync::mpsc::channel(1000);
                (0..1000).for_each(|number| far.try_send(number).unwrap());
                drop(far);
                let (sender, mut done) = futures::channel::oneshot::channel::<()>();
                let task: ConnectionTask = Box::pin(async move {
                    while near.recv().await.is_some() {}
                    drop(sender);
                });
                let mut connections = InlineConnections { all: vec![task], ..InlineConnections::default() };
                poll_fn(|cx| connections.poll(cx, |cx| Pin::new(&mut done).poll(cx))).await.unwrap_err();
            });
            finish.send(()).unwrap();
        });
        assert!(is_finished.recv_timeout(Duration::from_secs(30)).is_ok(), "the task polls in a busy loop");
    }

    #[tokio::test]
    async fn after_a_panic_connections_have_their_own_task_again() {
        let mut connections = InlineConnections::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let panics =
            std::panic::AssertUnwindSafe(|| connections.poll(cx, |_| -> Poll<()> { panic!("on purpose") }));
        assert!(std::panic::catch_unwind(panics).is_err());
        let (task, receiver) = sender(0..3);
        InlineExecutor.execute(task);
        assert_eq!(receiver.collect::<Vec<_>>().await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn connections_are_dropped_with_their_watch() {
        let (task, receiver) = sender(0..3);
        drop(InlineConnections { all: vec![task], ..InlineConnections::default() });
        assert_eq!(receiver.collect::<Vec<_>>().await, [] as [u32; 0]);
    }
}
