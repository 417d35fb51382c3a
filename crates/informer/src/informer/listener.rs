//! A listener: the receiving end of a stream or of a handler.
//!
//! Invariant: events are delivered one after another, in the order in which they were queued. A listener is synced
//! when the informer is and all of its initial events were delivered.

use crate::{
    informer::{Event, Overflow, coalescing_queue::CoalescingQueue, processor::ListenerId},
    object::Object,
};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::watch;

/// Whether a listener or the informer has received the first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncState {
    Waiting,
    Synced,
    /// The informer stopped before that.
    Stopped,
}

impl SyncState {
    /// Changes the state, unless it is final already. Returns whether it changed.
    pub(crate) fn send_to(self, to: &watch::Sender<SyncState>) -> bool {
        to.send_if_modified(|sync_state| {
            let is_new = *sync_state == SyncState::Waiting;
            if is_new {
                *sync_state = self;
            }
            is_new
        })
    }
}

pub(crate) struct Listener<O> {
    id: ListenerId,
    inner: Mutex<Inner<O>>,
    waker: AtomicWaker,
    sync_state: watch::Sender<SyncState>,
}

struct Inner<O> {
    queue: CoalescingQueue<O>,
    is_informer_synced: bool,
    is_closed: bool,
}

impl<O: Object> Listener<O> {
    pub(crate) fn new(id: ListenerId, overflow: Overflow) -> Self {
        let inner =
            Inner { queue: CoalescingQueue::new(overflow), is_informer_synced: false, is_closed: false };
        Listener {
            id,
            inner: Mutex::new(inner),
            waker: AtomicWaker::new(),
            sync_state: watch::Sender::new(SyncState::Waiting),
        }
    }

    /// A listener that receives no events.
    pub(crate) fn closed() -> Arc<Self> {
        let listener = Listener::new(ListenerId::MAX, Overflow::Coalesce);
        listener.close();
        Arc::new(listener)
    }

    pub(crate) fn id(&self) -> ListenerId {
        self.id
    }

    pub(crate) fn push(&self, events: impl IntoIterator<Item = Event<O>>) {
        {
            let mut inner = self.inner.lock();
            if inner.is_closed {
                return;
            }
            events.into_iter().for_each(|event| inner.queue.push(event));
            // The last initial event may have been merged away.
            self.check_synced(&inner);
        }
        self.waker.wake();
    }

    /// Records that the informer has queued its whole first list.
    pub(crate) fn informer_synced(&self) {
        let mut inner = self.inner.lock();
        inner.is_informer_synced = true;
        self.check_synced(&inner);
    }

    /// Records that an event was delivered.
    pub(crate) fn delivered(&self, was_initial: bool) {
        if was_initial {
            let mut inner = self.inner.lock();
            inner.queue.delivered_initial();
            self.check_synced(&inner);
        }
    }

    fn check_synced(&self, inner: &Inner<O>) {
        if inner.is_informer_synced && inner.queue.has_delivered_initial() && !inner.is_closed {
            SyncState::Synced.send_to(&self.sync_state);
        }
    }

    pub(crate) fn synced(&self) -> watch::Receiver<SyncState> {
        self.sync_state.subscribe()
    }

    /// Ends the stream of events.
    pub(crate) fn close(&self) {
        {
            let mut inner = self.inner.lock();
            inner.is_closed = true;
            inner.queue.clear();
        }
        SyncState::Stopped.send_to(&self.sync_state);
        self.waker.wake();
    }

    pub(crate) fn pending(&self) -> usize {
        self.inner.lock().queue.len()
    }

    /// The next event; `None` once the listener is closed. It must not be called by two tasks at a time.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        if let Some(next) = self.try_next() {
            return Poll::Ready(next);
        }
        self.waker.register(cx.waker());
        self.try_next().map_or(Poll::Pending, Poll::Ready)
    }

    fn try_next(&self) -> Option<Option<Event<O>>> {
        let mut inner = self.inner.lock();
        match inner.queue.pop() {
            Some(event) => Some(Some(event)),
            None => inner.is_closed.then_some(None),
        }
    }

    pub(crate) async fn next(&self) -> Option<Event<O>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}
