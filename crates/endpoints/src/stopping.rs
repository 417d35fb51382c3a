//! Tells everybody, once, that the server stops.
//!
//! Kept true: who waits is woken, however often it asked before. Asking again costs one look at a flag: every watch and
//! every connection asks at each event, and waiting anew would take a lock that they all share.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Whether the server stops. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Stopping {
    /// Set before those who wait are woken.
    now: Arc<AtomicBool>,
    token: CancellationToken,
}

impl Stopping {
    /// Tells that the server stops.
    pub fn stop(&self) {
        self.now.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether it does.
    pub fn is_stopping(&self) -> bool {
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
    /// Who will be woken.
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
    async fn who_waits_is_woken_however_often_it_asked() {
        let stopping = Stopping::default();
        let mut wait = stopping.wait();
        for _ in 0..2 {
            assert_eq!((&mut wait).now_or_never(), None);
        }
        let waiting = tokio::spawn(async move {
            // Another task asks now, and it does so twice.
            let mut asked = 0;
            std::future::poll_fn(|context| {
                asked += 1;
                wait.poll_unpin(context)
            })
            .await;
            asked
        });
        tokio::task::yield_now().await;
        stopping.stop();
        assert_eq!(waiting.await.unwrap(), 2);
        assert!(stopping.is_stopping());
    }

    #[test]
    fn who_waits_too_late_does_not_wait() {
        let stopping = Stopping::default();
        stopping.stop();
        let mut context = Context::from_waker(noop_waker_ref());
        assert_eq!(stopping.wait().poll_unpin(&mut context), Poll::Ready(()));
    }
}
