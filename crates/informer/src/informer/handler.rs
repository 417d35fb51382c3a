//! Callbacks, and how to be rid of them.

use super::Shared;
use crate::{
    ApiError, Cause, Class, Event, InformerError, Object, Overflow, Phase, Stopped,
    backlog::VERBATIM_MAX,
    listener::{Hearing, Listener},
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// Is told of what happens, one event after another. Every closure over [`Event`]s is one.
///
/// A handler should be done quickly, by putting a key into a [`WorkQueue`](crate::workqueue::WorkQueue) for example: it
/// runs on a thread of the runtime, and what blocks all of those blocks everybody. Apart from that it delays nobody but
/// itself. Whoever wants to `await` uses
/// [`Informer::subscribe`](crate::Informer::subscribe).
pub trait Handler<O>: Send + 'static {
    /// Something happened. Calls one of the others unless it is given.
    fn on_event(&mut self, event: Event<O>) {
        match event {
            Event::Added { obj, initial } => self.on_added(obj, initial),
            Event::Updated { old, new, cause } => self.on_updated(old, new, cause),
            Event::Deleted { obj, final_state_unknown } => self.on_deleted(obj, final_state_unknown),
        }
    }

    /// There is a new object.
    fn on_added(&mut self, _obj: Arc<O>, _initial: bool) {}

    /// An object changed.
    fn on_updated(&mut self, _old: Arc<O>, _new: Arc<O>, _cause: Cause) {}

    /// An object is gone.
    fn on_deleted(&mut self, _obj: Arc<O>, _final_state_unknown: bool) {}
}

impl<O, F: FnMut(Event<O>) + Send + 'static> Handler<O> for F {
    fn on_event(&mut self, event: Event<O>) {
        self(event);
    }
}

/// Tells a handler only of some objects; see [`Event::filtered`].
#[derive(Debug)]
pub struct Filtering<F, H> {
    /// Which objects.
    pub wanted: F,
    /// Who is told.
    pub handler: H,
}

impl<O: 'static, F, H> Handler<O> for Filtering<F, H>
where
    F: Fn(&O) -> bool + Send + 'static,
    H: Handler<O>,
{
    fn on_event(&mut self, event: Event<O>) {
        if let Some(event) = event.filtered(&self.wanted) {
            self.handler.on_event(event);
        }
    }
}

/// How a handler or a subscriber wants to be told.
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(super) name: Option<Arc<str>>,
    pub(super) resync: Option<Duration>,
    pub(super) overflow: Overflow,
}

impl HandlerOptions {
    /// A name, for reports of its panics.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often it is told of all objects once more; never if zero, and as the informer does it unless this is called.
    /// It does not get that at all from an informer that does not resync.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// What is done when it does not keep up.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }
}

/// A handler that was added. Dropping this changes nothing.
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
    /// Waits until the handler has returned from all that it was told of the first state.
    pub async fn synced(&self) -> Result<(), Stopped> {
        heard(self.listener.synced()).await
    }

    /// Whether it has.
    pub fn has_synced(&self) -> bool {
        *self.listener.synced().borrow() == Hearing::Synced
    }

    /// How many events wait for it.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// The handler is not called any more, but for a call that runs now. May be said more than once.
    pub fn remove(&self) {
        match self.shared.upgrade() {
            Some(shared) => shared.processor.remove(self.listener.id()),
            None => self.listener.close(),
        }
    }
}

/// Waits until somebody has heard of the first state.
pub(super) async fn heard(mut hearing: watch::Receiver<Hearing>) -> Result<(), Stopped> {
    match hearing.wait_for(|hearing| *hearing != Hearing::Waiting).await.map(|hearing| *hearing) {
        Ok(Hearing::Synced) => Ok(()),
        _ => Err(Stopped),
    }
}

pub(super) fn register<O: Object>(
    shared: &Arc<Shared<O>>,
    handler: impl Handler<O>,
    options: HandlerOptions,
) -> Result<Registration<O>, Stopped> {
    let listener = shared.processor.listen(options.resync, options.overflow)?;
    let calls = call(Arc::downgrade(shared), Arc::clone(&listener), handler, options.name);
    shared.handlers.spawn(calls);
    Ok(Registration { shared: Arc::downgrade(shared), listener })
}

/// A call that takes longer while much waits is worth a word.
const SLOW: Duration = Duration::from_millis(100);

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
        if took > SLOW && listener.pending() > VERBATIM_MAX {
            tracing::debug!(name = name.as_deref(), ?took, pending = listener.pending(), "a handler is slow");
        }
        listener.delivered(was_initial);
        // However much there is to tell, others get their turn.
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
