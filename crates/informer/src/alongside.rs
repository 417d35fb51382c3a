//! Connections of watches are polled by whoever reads the watch.
//!
//! A client gives each connection a task of its own, which hands the reader one piece of an answer at a time. Between two
//! tasks every piece costs two changes of task, and on a runtime of several threads some of those wake another thread:
//! more than all else that is done for an event. So a connection that is made for a watch goes along with it.
//!
//! Kept true: whatever belongs to a watch is polled when any of it can go on, and gone when the watch is.

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

type Companion = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// Where companions go that are started now, if they go along with somebody.
    static TAKEN: RefCell<Option<Vec<Companion>>> = const { RefCell::new(None) };
}

/// How often all that goes along is polled before others get their turn. Whoever has used up its share of a runtime's time
/// can go on only after that.
const ROUNDS_MAX: usize = 32;

/// Runs what a client does in the background: along with the watch for which it is done, or in a task of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alongside;

impl hyper::rt::Executor<Companion> for Alongside {
    fn execute(&self, companion: Companion) {
        let left = TAKEN.with_borrow_mut(|taken| match taken {
            Some(taken) => {
                taken.push(companion);
                None
            }
            None => Some(companion),
        });
        if let Some(companion) = left {
            tokio::spawn(companion);
        }
    }
}

/// What goes along with a watch.
#[derive(Default)]
pub(crate) struct Companions {
    all: Vec<Companion>,
    bell: Arc<Bell>,
}

/// Rung by whatever can go on; passed on to the task only if it is not looking anyway.
#[derive(Default)]
struct Bell {
    is_rung: AtomicBool,
    is_heard: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_rung.store(true, Ordering::SeqCst);
        if !self.is_heard.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl Companions {
    /// Polls something together with all that goes along with it, until none of it can go on.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut main: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.bell.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(&self.bell));
        let own = &mut Context::from_waker(&waker);
        for _ in 0..ROUNDS_MAX {
            self.bell.is_heard.store(true, Ordering::SeqCst);
            // Read, not only written: what was done before it was rung is seen from here on.
            self.bell.is_rung.swap(false, Ordering::SeqCst);
            let outcome = self.taking(|| main(own));
            if outcome.is_pending() {
                self.all.retain_mut(|companion| companion.as_mut().poll(own).is_pending());
            }
            self.bell.is_heard.store(false, Ordering::SeqCst);
            if outcome.is_ready() || !self.bell.is_rung.load(Ordering::SeqCst) {
                return outcome;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// What is started meanwhile goes along.
    fn taking<T>(&mut self, main: impl FnOnce() -> T) -> T {
        let _taking = Taking { before: TAKEN.replace(Some(Vec::new())) };
        let outcome = main();
        self.all.extend(TAKEN.take().unwrap_or_default());
        outcome
    }
}

/// While it lives, companions are taken; whatever ends it, those of others go where they went before.
struct Taking {
    before: Option<Vec<Companion>>,
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKEN.set(self.before.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{SinkExt, StreamExt, channel::mpsc};
    use hyper::rt::Executor;
    use std::{future::poll_fn, sync::atomic::AtomicUsize, time::Duration};

    /// Counts how often the task that polls is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A companion that hands over numbers one by one, as a connection does with pieces of an answer.
    fn sender(numbers: std::ops::Range<u32>) -> (Companion, mpsc::Receiver<u32>) {
        let (mut sender, receiver) = mpsc::channel(0);
        let companion = async move {
            for number in numbers {
                if sender.send(number).await.is_err() {
                    return;
                }
            }
        };
        (Box::pin(companion), receiver)
    }

    #[test]
    fn what_goes_along_is_polled_without_waking_the_task() {
        let (companion, mut receiver) = sender(0..100);
        let mut companions = Companions { all: vec![companion], ..Companions::default() };
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        for expected in 0..100 {
            let next = companions.poll(cx, |cx| receiver.poll_next_unpin(cx));
            assert_eq!(next, Poll::Ready(Some(expected)));
        }
        assert_eq!(companions.poll(cx, |cx| receiver.poll_next_unpin(cx)), Poll::Ready(None));
        assert_eq!(
            (companions.all.len(), count.0.load(Ordering::SeqCst)),
            (0, 0),
            "it is done, and was never woken for"
        );
    }

    #[test]
    fn what_is_started_while_one_is_polled_goes_along() {
        let mut companions = Companions::default();
        let mut receiver = None;
        let cx = &mut Context::from_waker(Waker::noop());
        let first = companions.poll(cx, |cx| {
            let receiver = receiver.get_or_insert_with(|| {
                let (companion, receiver) = sender(7..8);
                Alongside.execute(companion);
                receiver
            });
            receiver.poll_next_unpin(cx)
        });
        assert_eq!(first, Poll::Ready(Some(7)));
    }

    #[tokio::test]
    async fn what_is_started_otherwise_has_a_task_of_its_own() {
        let (companion, receiver) = sender(0..3);
        Alongside.execute(companion);
        assert_eq!(receiver.collect::<Vec<_>>().await, [0, 1, 2]);
    }

    /// Whatever can go on again wakes the task, wherever that comes from.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_companion_that_waits_for_others_is_polled_when_they_are_ready() {
        for _ in 0..200 {
            let (mut far, mut near) = mpsc::channel::<u32>(0);
            let (mut sender, mut receiver) = mpsc::channel(0);
            let companion: Companion = Box::pin(async move {
                while let Some(number) = near.next().await {
                    if sender.send(number).await.is_err() {
                        return;
                    }
                }
            });
            let mut companions = Companions { all: vec![companion], ..Companions::default() };
            let writing = tokio::spawn(async move {
                for number in 0..50 {
                    far.send(number).await.unwrap();
                }
            });
            let mut next = 0;
            let reading = async {
                while let Some(number) =
                    poll_fn(|cx| companions.poll(cx, |cx| receiver.poll_next_unpin(cx))).await
                {
                    assert_eq!(number, next);
                    next += 1;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), reading).await.expect("nothing is forgotten");
            assert_eq!(next, 50);
            writing.await.unwrap();
        }
    }

    /// In `block_on`, whoever has used up its share is woken at once, and gets another only after it has returned.
    #[test]
    fn who_has_used_up_its_share_comes_back_for_another() {
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
            runtime.block_on(async {
                let (far, mut near) = tokio::sync::mpsc::channel(1000);
                (0..1000).for_each(|number| far.try_send(number).unwrap());
                drop(far);
                let (tell, mut told) = futures::channel::oneshot::channel::<()>();
                let companion: Companion = Box::pin(async move {
                    while near.recv().await.is_some() {}
                    drop(tell);
                });
                let mut companions = Companions { all: vec![companion], ..Companions::default() };
                poll_fn(|cx| companions.poll(cx, |cx| Pin::new(&mut told).poll(cx))).await.unwrap_err();
            });
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_secs(30)).is_ok(), "it spins");
    }

    #[tokio::test]
    async fn a_panic_does_not_keep_what_others_start() {
        let mut companions = Companions::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let panics =
            std::panic::AssertUnwindSafe(|| companions.poll(cx, |_| -> Poll<()> { panic!("on purpose") }));
        assert!(std::panic::catch_unwind(panics).is_err());
        let (companion, receiver) = sender(0..3);
        Alongside.execute(companion);
        assert_eq!(receiver.collect::<Vec<_>>().await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn what_goes_along_is_gone_with_whom_it_went() {
        let (companion, receiver) = sender(0..3);
        drop(Companions { all: vec![companion], ..Companions::default() });
        assert_eq!(receiver.collect::<Vec<_>>().await, [] as [u32; 0]);
    }
}
