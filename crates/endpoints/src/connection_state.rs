//! The state of a connection's requests: how many are in flight, whether they are read, and when it is idle.

use crate::{serve::Limits, unauthenticated::Unauthenticated};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::sync::Notify;

/// The state of a connection. Every request that is being answered on it holds a reference.
pub(crate) struct ConnectionState {
    /// Whether it is an HTTP/2 connection, on which several answers are sent at a time.
    is_multiplexed: bool,
    /// Its entry in the list of those without an authenticated request.
    pub(crate) unauthenticated: Unauthenticated,
    /// Whether there was any request.
    pub(crate) has_requests: AtomicBool,
    /// Whether there was a request since this was last looked at.
    active: AtomicBool,
    /// The number of its reads that are in flight, and of its writes.
    in_flight: [AtomicUsize; 2],
    /// The number of its streams with an answer that was not read in time.
    pub(crate) stalled: AtomicUsize,
    /// Notified when the connection is to be closed because answers are not read.
    pub(crate) closed: Notify,
}

/// The number of streams of a connection that may stall before it is closed.
const STALLED_STREAMS_MAX: usize = 16;

impl ConnectionState {
    pub(crate) fn new(is_multiplexed: bool, unauthenticated: Unauthenticated) -> Arc<ConnectionState> {
        Arc::new(ConnectionState {
            is_multiplexed,
            unauthenticated,
            has_requests: AtomicBool::default(),
            active: AtomicBool::default(),
            in_flight: Default::default(),
            stalled: AtomicUsize::default(),
            closed: Notify::default(),
        })
    }

    pub(crate) fn request_arrived(&self) {
        self.has_requests.store(true, Ordering::Relaxed);
        self.active.store(true, Ordering::Relaxed);
    }

    /// Counts a stream whose client does not read its answer. Closes the connection if it has no other streams, or too many
    /// that stall.
    pub(crate) fn stream_stalled(&self) {
        if !self.is_multiplexed || self.stalled.fetch_add(1, Ordering::Relaxed) >= STALLED_STREAMS_MAX {
            self.closed.notify_one();
        }
    }

    /// Counts down when a stream that stalled has ended.
    pub(crate) fn stalled_stream_ended(&self) {
        if self.is_multiplexed {
            self.stalled.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A permit for one more request in flight, if there are fewer than `max`.
    pub(crate) fn permit(
        self: &Arc<ConnectionState>,
        is_write: bool,
        max: usize,
    ) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(Arc::clone(self), usize::from(is_write));
        let taken = self.in_flight[permit.1].fetch_add(1, Ordering::Relaxed);
        (taken < max).then_some(permit)
    }

    /// Waits until the connection is idle: no request came for some time, and none is being answered.
    pub(crate) async fn idle(self: &Arc<ConnectionState>, limits: &Limits) {
        /// The references of this task and of the service that hands out the others.
        const REFERENCES_MIN: usize = 2;
        tokio::time::sleep(limits.head_wait).await;
        loop {
            let busy = Arc::strong_count(self) > REFERENCES_MIN;
            if !self.active.swap(busy, Ordering::Relaxed) && !busy {
                return;
            }
            tokio::time::sleep(limits.idle).await;
        }
    }
}

/// One of the requests that a connection may have in flight. Knows whether it is a write.
pub(crate) struct ConnectionPermit(Arc<ConnectionState>, usize);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.in_flight[self.1].fetch_sub(1, Ordering::Relaxed);
    }
}
