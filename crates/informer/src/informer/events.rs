//! The stream of events.

use super::{Shared, handler::wait_until_synced};
use crate::{
    informer::{Event, Stopped, listener::Listener},
    object::Object,
};
use futures::{Stream, StreamExt};
use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};
use tokio::task::coop::cooperative;

/// The events of an informer as a stream, starting with the existing objects. It ends when the informer stops and
/// contains no errors. Dropping it unsubscribes.
pub struct Events<O: Object> {
    pub(super) shared: Weak<Shared<O>>,
    pub(super) listener: Arc<Listener<O>>,
}

impl<O: Object> fmt::Debug for Events<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl<O: Object> Events<O> {
    /// Resolves when all initial events were taken from this stream, which must happen concurrently.
    pub fn synced(&self) -> impl Future<Output = Result<(), Stopped>> + Send + use<O> {
        wait_until_synced(self.listener.synced())
    }

    /// The number of waiting events.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// The objects of the events, deleted ones included, as kube-runtime's `owns_shared_stream` and
    /// `watches_shared_stream` take them.
    pub fn touched(self) -> impl Stream<Item = Arc<O>> + Send {
        self.map(|event| Arc::clone(event.object()))
    }
}

impl<O: Object> Stream for Events<O> {
    type Item = Event<O>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        // A long queue of events must not starve other tasks.
        let next = pin!(cooperative(poll_fn(|cx| self.listener.poll_next(cx))));
        let event = ready!(next.poll(cx));
        if let Some(event) = &event {
            self.listener.delivered(event.is_initial());
        }
        Poll::Ready(event)
    }
}

impl<O: Object> Drop for Events<O> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.processor.remove(self.listener.id());
        }
    }
}
