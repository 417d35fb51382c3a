//! The signal that the server stops, given once.
//!
//! Kept true: every waiter is woken. A poll costs one read of a flag: every watch and every connection polls at each
//! event, and registering again each time would take a lock that all of them share.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Set when the server stops. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ShutdownSignal {
    /// Set before the waiters are woken.
    now: Arc<AtomicBool>,
    token: CancellationToken,
}

impl ShutdownSignal {
    /// Wakes all waiters.
    pub fn set(&self) {
        self.now.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether the server stops.
    pub fn is_set(&self) -> bool {
        self.now.load(Ordering::Acquire)
    }

    /// Waits until the server stops.
    pub fn wait(&self) -> Wait {
        let token = Box::pin(self.token.clone().cancelled_owned());
        Wait { now: Arc::clone(&self.now), token, waiting: None }
    }
}

/// Ends when the server stops.
pub struct Wait {
    now: Arc<AtomicBool>,
    token: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The waker that is registered.
    waiting: Option<Waker>,
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.now.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if this.waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        this.waiting = Some(context.waker().clone());
        this.token.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, task::noop_waker_ref};

    #[tokio::test]
    async fn a_waiter_is_woken_however_often_it_polled() {
        let signal = ShutdownSignal::default();
        let mut wait = signal.wait();
        for _ in 0..2 {
            assert_eq!((&mut wait).now_or_never(), None);
        }
        let waiting = tokio::spawn(async move {
            // Another task polls now, and it does so twice.
            let mut polls = 0;
            std::future::poll_fn(|context| {
                polls += 1;
                wait.poll_unpin(context)
            })
            .await;
            polls
        });
        tokio::task::yield_now().await;
        signal.set();
        assert_eq!(waiting.await.unwrap(), 2);
        assert!(signal.is_set());
    }

    #[test]
    fn a_wait_after_the_signal_is_over_at_once() {
        let signal = ShutdownSignal::default();
        signal.set();
        let mut context = Context::from_waker(noop_waker_ref());
        assert_eq!(signal.wait().poll_unpin(&mut context), Poll::Ready(()));
    }
}
