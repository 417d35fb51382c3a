//! Event handlers and their registrations.

use super::Shared;
use crate::{
    error::{ApiError, Class, InformerError, Phase},
    informer::{
        Cause, Event, Overflow, Stopped,
        coalescing_queue::UNMERGED_EVENTS_MAX,
        listener::{Listener, SyncState},
    },
    object::Object,
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// Receives events, one after another. Every closure over [`Event`]s is a handler.
///
/// A handler should return quickly, for example after adding a key to a [`WorkQueue`](crate::workqueue::WorkQueue):
/// it runs on a thread of the runtime, and blocking all threads blocks the whole program. Otherwise a slow handler
/// delays only itself. To `await` between events, use [`Informer::subscribe`](crate::informer::Informer::subscribe).
pub trait Handler<O>: Send + 'static {
    /// Receives an event. By default it calls one of the other methods.
    fn on_event(&mut self, event: Event<O>) {
        match event {
            Event::Added { obj, initial } => self.on_added(obj, initial),
            Event::Updated { old, new, cause } => self.on_updated(old, new, cause),
            Event::Deleted { obj, final_state_unknown } => self.on_deleted(obj, final_state_unknown),
        }
    }

    /// An object was added.
    fn on_added(&mut self, _obj: Arc<O>, _initial: bool) {}

    /// An object was updated.
    fn on_updated(&mut self, _old: Arc<O>, _new: Arc<O>, _cause: Cause) {}

    /// An object was deleted.
    fn on_deleted(&mut self, _obj: Arc<O>, _final_state_unknown: bool) {}
}

impl<O, F: FnMut(Event<O>) + Send + 'static> Handler<O> for F {
    fn on_event(&mut self, event: Event<O>) {
        self(event);
    }
}

/// Passes on the events of some objects only; see [`Event::filtered`].
#[derive(Debug)]
pub struct FilteringHandler<F, H> {
    /// Selects the objects.
    pub filter: F,
    /// Receives their events.
    pub handler: H,
}

impl<O: 'static, F, H> Handler<O> for FilteringHandler<F, H>
where
    F: Fn(&O) -> bool + Send + 'static,
    H: Handler<O>,
{
    fn on_event(&mut self, event: Event<O>) {
        if let Some(event) = event.filtered(&self.filter) {
            self.handler.on_event(event);
        }
    }
}

/// Options of a handler or a stream.
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(super) name: Option<Arc<str>>,
    pub(super) resync: Option<Duration>,
    pub(super) overflow: Overflow,
}

impl HandlerOptions {
    /// A name, for error reports.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The resync period of this listener. Zero disables resyncs; the default is the informer's period. An informer
    /// without a resync period never resyncs.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// The behaviour when the listener is too slow.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }
}

/// A handler that was added. Dropping the registration does not remove the handler.
pub struct Registration<O: Object> {
    shared: Weak<Shared<O>>,
    listener: Arc<Listener<O>>,
}

impl<O: Object> fmt::Debug for Registration<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

impl<O: Object> Registration<O> {
    /// Waits until the handler has returned from all initial events.
    pub async fn synced(&self) -> Result<(), Stopped> {
        wait_until_synced(self.listener.synced()).await
    }

    /// Whether the handler has returned from all initial events.
    pub fn has_synced(&self) -> bool {
        *self.listener.synced().borrow() == SyncState::Synced
    }

    /// The number of events that wait for the handler.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// Removes the handler. A call that is running finishes. Further calls of this method do nothing.
    pub fn remove(&self) {
        match self.shared.upgrade() {
            Some(shared) => shared.processor.remove(self.listener.id()),
            None => self.listener.close(),
        }
    }
}

/// Waits until the state is `Synced` or `Stopped`.
pub(super) async fn wait_until_synced(mut sync_state: watch::Receiver<SyncState>) -> Result<(), Stopped> {
    match sync_state
        .wait_for(|sync_state| *sync_state != SyncState::Waiting)
        .await
        .map(|sync_state| *sync_state)
    {
        Ok(SyncState::Synced) => Ok(()),
        _ => Err(Stopped),
    }
}

pub(super) fn register<O: Object>(
    shared: &Arc<Shared<O>>,
    handler: impl Handler<O>,
    options: HandlerOptions,
) -> Result<Registration<O>, Stopped> {
    let listener = shared.processor.add_listener(options.resync, options.overflow)?;
    let calls = call(Arc::downgrade(shared), Arc::clone(&listener), handler, options.name);
    shared.handlers.spawn(calls);
    Ok(Registration { shared: Arc::downgrade(shared), listener })
}

/// A call that takes longer than this while events wait is logged.
const SLOW_CALL: Duration = Duration::from_millis(100);

async fn call<O: Object>(
    shared: Weak<Shared<O>>,
    listener: Arc<Listener<O>>,
    mut handler: impl Handler<O>,
    name: Option<Arc<str>>,
) {
    while let Some(event) = listener.next().await {
        let was_initial = event.is_initial();
        let object = Arc::clone(event.object());
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| handler.on_event(event))).is_err() {
            panicked(&shared, &*object, name.as_deref());
        }
        let took = started.elapsed();
        if took > SLOW_CALL && listener.pending() > UNMERGED_EVENTS_MAX {
            tracing::debug!(name = name.as_deref(), ?took, pending = listener.pending(), "a handler is slow");
        }
        listener.delivered(was_initial);
        // A long queue of events must not starve other tasks.
        tokio::task::consume_budget().await;
    }
}

fn panicked<O: Object>(shared: &Weak<Shared<O>>, object: &O, name: Option<&str>) {
    let Some(shared) = shared.upgrade() else { return };
    let message = format!("handler {} panicked", name.unwrap_or("without a name"));
    let error = ApiError::new(Class::Client, message);
    let key = Some(object.key());
    shared.report(&Arc::new(InformerError {
        phase: Phase::Handler,
        error,
        key,
        attempt: 1,
        next_delay: None,
    }));
}
