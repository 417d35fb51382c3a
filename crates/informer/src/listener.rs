//! One who is told: as a stream, or by callbacks.
//!
//! Kept true: events are told one after another, in the order in which they were handed over. Somebody has heard of the
//! first state when the informer knows it and all of its events were delivered.

use crate::{Event, Object, Overflow, backlog::Backlog, processor::ListenerId};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::watch;

/// Whether somebody has heard of the first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    Waiting,
    Synced,
    /// Never will.
    Stopped,
}

impl Hearing {
    /// What was said once is not taken back. Returns whether this is new.
    pub(crate) fn say(self, to: &watch::Sender<Hearing>) -> bool {
        to.send_if_modified(|hearing| {
            let is_new = *hearing == Hearing::Waiting;
            if is_new {
                *hearing = self;
            }
            is_new
        })
    }
}

pub(crate) struct Listener<O> {
    id: ListenerId,
    inner: Mutex<Inner<O>>,
    waker: AtomicWaker,
    hearing: watch::Sender<Hearing>,
}

struct Inner<O> {
    backlog: Backlog<O>,
    is_informer_synced: bool,
    is_closed: bool,
}

impl<O: Object> Listener<O> {
    pub(crate) fn new(id: ListenerId, overflow: Overflow) -> Self {
        let inner = Inner { backlog: Backlog::new(overflow), is_informer_synced: false, is_closed: false };
        Listener {
            id,
            inner: Mutex::new(inner),
            waker: AtomicWaker::new(),
            hearing: watch::Sender::new(Hearing::Waiting),
        }
    }

    /// One that is told nothing.
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
            events.into_iter().for_each(|event| inner.backlog.push(event));
            // What was to be delivered of the first state may be gone by now.
            self.check_synced(&inner);
        }
        self.waker.wake();
    }

    /// The first state is known, and handed over.
    pub(crate) fn informer_synced(&self) {
        let mut inner = self.inner.lock();
        inner.is_informer_synced = true;
        self.check_synced(&inner);
    }

    /// An event was delivered.
    pub(crate) fn delivered(&self, was_initial: bool) {
        if was_initial {
            let mut inner = self.inner.lock();
            inner.backlog.delivered_initial();
            self.check_synced(&inner);
        }
    }

    fn check_synced(&self, inner: &Inner<O>) {
        if inner.is_informer_synced && inner.backlog.has_delivered_initial() && !inner.is_closed {
            Hearing::Synced.say(&self.hearing);
        }
    }

    pub(crate) fn synced(&self) -> watch::Receiver<Hearing> {
        self.hearing.subscribe()
    }

    /// Nothing more is told.
    pub(crate) fn close(&self) {
        {
            let mut inner = self.inner.lock();
            inner.is_closed = true;
            inner.backlog.clear();
        }
        Hearing::Stopped.say(&self.hearing);
        self.waker.wake();
    }

    pub(crate) fn pending(&self) -> usize {
        self.inner.lock().backlog.len()
    }

    /// The next event; nothing once this is closed. One asks at a time.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        if let Some(next) = self.try_next() {
            return Poll::Ready(next);
        }
        self.waker.register(cx.waker());
        self.try_next().map_or(Poll::Pending, Poll::Ready)
    }

    fn try_next(&self) -> Option<Option<Event<O>>> {
        let mut inner = self.inner.lock();
        match inner.backlog.pop() {
            Some(event) => Some(Some(event)),
            None => inner.is_closed.then_some(None),
        }
    }

    pub(crate) async fn next(&self) -> Option<Event<O>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}
