//! What happens, as a stream.

use super::{Shared, handler::heard};
use crate::{Event, Object, Stopped, listener::Listener};
use futures::{Stream, StreamExt};
use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};
use tokio::task::coop::cooperative;

/// What happens to the objects of an informer, from the state there is onwards. Ends when the informer stops; errors are
/// not among the events. Dropping it is all it takes to be rid of it.
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
    /// Resolves when everything of the first state was taken from this stream. Somebody has to take it meanwhile.
    pub fn synced(&self) -> impl Future<Output = Result<(), Stopped>> + Send + use<O> {
        heard(self.listener.synced())
    }

    /// How many events wait to be taken.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// The objects to which something happened, deleted ones included, as kube-runtime's `owns_shared_stream` and
    /// `watches_shared_stream` want them.
    pub fn touched(self) -> impl Stream<Item = Arc<O>> + Send {
        self.map(|event| Arc::clone(event.object()))
    }
}

impl<O: Object> Stream for Events<O> {
    type Item = Event<O>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        // However much there is to tell, others get their turn.
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
