//! The informer: a store that follows a server, with handlers and streams of its changes.

mod builder;
mod event;
mod watch_loop;
pub(crate) mod processor;
pub(crate) mod listener;
mod coalescing_queue;
mod handler;
mod events;
mod until;
mod status;
#[cfg(feature = "runtime")]
mod kube_runtime_events;
#[cfg(feature = "metrics")]
pub(crate) mod measured;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;

pub(crate) use builder::Selection;
pub use builder::{Builder, UnchangedOnRelist};
pub use coalescing_queue::{Overflow, UNMERGED_EVENTS_MAX};
pub use event::{Cause, Event};
pub use events::Events;
pub use handler::{FilteringHandler, Handler, HandlerOptions, Registration};
pub use processor::Stopped;
pub use status::{Status, WatchStatus};
pub use until::until;

use crate::{
    error::{Class, InformerError, Phase},
    object::Object,
    reflector::{DeltaFifo, Reflector, ReflectorOptions},
    source::Source,
    stats::{Counts, Stats},
    store::{Index, Store},
};
use listener::SyncState;
use parking_lot::Mutex;
use processor::Processor;
use status::StatusBoard;
use std::{
    fmt,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use watch_loop::WatchLoop;

/// Keeps a local copy of the objects of a server and notifies handlers and streams of changes. Clones share it.
///
/// # Guarantees
/// - The store becomes equal to the server's state, however often connections break and servers restart.
/// - The store and every listener see the states of one object in order. They may miss some.
/// - A handler that receives an event finds this state of the object, or a later one, in the store and in every
///   index.
/// - A handler added late first receives every existing object and then every change, without gaps or duplicates.
/// - A slow listener delays no other listener. Its queue holds at most
///   [`UNMERGED_EVENTS_MAX`](crate::informer::UNMERGED_EVENTS_MAX) events plus one event per object.
///
/// # Not guaranteed
/// - There is no order between different objects.
/// - An object that was deleted and created again may appear as one update with two uids.
/// - If a deletion was missed, the final state is unknown: [`Event::Deleted`](crate::informer::Event::Deleted) says
///   so.
pub struct Informer<O: Object> {
    shared: Arc<Shared<O>>,
}

type Transform<O> = Arc<dyn Fn(&mut O) + Send + Sync>;
type OnError = Arc<dyn Fn(&InformerError) + Send + Sync>;

pub(crate) struct Shared<O: Object> {
    store: Store<O>,
    processor: Processor<O>,
    /// The parts that are watched separately: each configured namespace, or the whole cluster.
    scopes: Vec<Scope<O>>,
    /// The API version, such as `v1`; empty if unknown.
    api_version: String,
    reflector: ReflectorOptions,
    random: Option<fn() -> crate::backoff::Random>,
    transform: Option<Transform<O>>,
    verifies_states: bool,
    on_error: Option<OnError>,
    status: StatusBoard,
    stats: Stats,
    versions: Mutex<Vec<String>>,
    handlers: TaskTracker,
}

struct Scope<O> {
    namespace: Option<String>,
    source: Arc<dyn Source<O>>,
}

impl<O: Object> Clone for Informer<O> {
    fn clone(&self) -> Self {
        Informer { shared: Arc::clone(&self.shared) }
    }
}

impl<O: Object> fmt::Debug for Informer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("resource", &self.shared.store.resource())
            .field("version", &self.shared.api_version)
            .field("store", &self.shared.store)
            .finish_non_exhaustive()
    }
}

impl<O: Object> Informer<O> {
    /// The store.
    pub fn store(&self) -> Store<O> {
        self.shared.store.clone()
    }

    /// Adds an index to the store; see [`Store::index`].
    pub fn index<V, I>(&self, values: impl Fn(&O) -> I + Send + Sync + 'static) -> Index<O, V>
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.shared.store.index(values)
    }

    /// A stream of events. It starts with the existing objects, as `Added`. It ends when the informer stops.
    pub fn subscribe(&self) -> Events<O> {
        self.subscribe_with(HandlerOptions::default())
    }

    /// A stream of events, with options.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Events<O> {
        let listener = self.shared.processor.add_listener(options.resync, options.overflow);
        let listener = listener.unwrap_or_else(|Stopped| crate::informer::listener::Listener::closed());
        Events { shared: Arc::downgrade(&self.shared), listener }
    }

    /// Adds a handler. It first receives every existing object. Must be called inside a Tokio runtime, on which the
    /// handler runs in its own task.
    pub fn add_handler(
        &self,
        handler: impl Handler<O>,
        options: HandlerOptions,
    ) -> Result<Registration<O>, Stopped> {
        handler::register(&self.shared, handler, options)
    }

    /// Runs the informer in a task of its own until the token is cancelled. Must be called inside a Tokio runtime.
    pub fn start(&self, stop: CancellationToken) -> JoinHandle<()> {
        let informer = self.clone();
        tokio::spawn(async move { informer.run(stop).await })
    }

    /// Runs the informer until the token is cancelled and all handlers have returned. An informer runs once: a second
    /// call returns at once.
    pub async fn run(&self, stop: CancellationToken) {
        if !self.shared.processor.start() {
            tracing::warn!("an informer was started twice; the second call has no effect");
            return;
        }
        let stopping = Stopping(Arc::clone(&self.shared));
        let watch_loops = (0..self.shared.scopes.len()).map(|number| self.watch_loop(number).run());
        stop.run_until_cancelled(futures::future::join_all(watch_loops)).await;
        drop(stopping);
        self.shared.handlers.wait().await;
    }

    fn watch_loop(&self, number: usize) -> WatchLoop<O> {
        let Scope { namespace, source } = &self.shared.scopes[number];
        let watch_list = self.shared.reflector.watch_list && source.watch_list();
        let options = ReflectorOptions { watch_list, ..self.shared.reflector.clone() };
        let reflector = match self.shared.random {
            Some(random) => Reflector::with_random(options, random),
            None => Reflector::new(options),
        };
        WatchLoop {
            shared: Arc::clone(&self.shared),
            number,
            namespace: namespace.clone(),
            source: Arc::clone(source),
            reflector,
            queue: DeltaFifo::default(),
            collected: Default::default(),
            is_synced: false,
            resync: None,
            unverified: None,
            cause: "ended",
        }
    }

    /// Waits until the first list is in the store and every listener that was added before has received it.
    pub async fn synced(&self) -> Result<(), Stopped> {
        handler::wait_until_synced(self.shared.processor.synced()).await
    }

    /// Whether [`Informer::synced`] would return at once.
    pub fn has_synced(&self) -> bool {
        *self.shared.processor.synced().borrow() == SyncState::Synced
    }

    /// Whether the informer was stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.processor.is_stopped()
    }

    /// The current status, with the last error.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The status of each watch: one per configured namespace, or one for all. [`Informer::status`] changes whenever
    /// one of them does.
    pub fn watch_statuses(&self) -> Vec<WatchStatus> {
        self.shared.status.scopes()
    }

    /// The newest version received, for each watch; empty before the first list. The store may still be behind it.
    pub fn last_sync_versions(&self) -> Vec<String> {
        self.shared.versions.lock().clone()
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.shared.stats.counts()
    }

    /// The resync period for listeners that do not set their own; zero if resyncs are disabled.
    pub fn resync_period(&self) -> Duration {
        self.shared.processor.resync_period()
    }

    /// Whether both are clones of one informer.
    pub fn is_same(&self, other: &Informer<O>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The number of events that wait for each listener.
    pub fn pending(&self) -> Vec<usize> {
        self.shared.processor.pending().into_iter().map(|(_, count)| count).collect()
    }
}

/// Stops everything when the informer ends, even by a panic.
struct Stopping<O: Object>(Arc<Shared<O>>);

impl<O: Object> Drop for Stopping<O> {
    fn drop(&mut self) {
        self.0.processor.stop();
        self.0.handlers.close();
        self.0.status.stop();
    }
}

impl<O: Object> Shared<O> {
    fn observed_version(&self, scope: usize, version: &str) {
        let last = &mut self.versions.lock()[scope];
        if last != version {
            version.clone_into(last);
        }
    }

    /// Reports an error to the error handler, or logs it if there is none.
    fn report(&self, error: &Arc<InformerError>) {
        self.stats.failed(error);
        match &self.on_error {
            Some(on_error) => {
                if catch_unwind(AssertUnwindSafe(|| on_error(error))).is_err() {
                    tracing::error!("the error handler of an informer panicked");
                }
            }
            None => log(error),
        }
    }
}

fn log(error: &InformerError) {
    let InformerError { attempt, next_delay, .. } = error;
    match error.error.class {
        Class::Expired | Class::Gone | Class::Interrupted => tracing::debug!(attempt, ?next_delay, "{error}"),
        _ if error.phase == Phase::Handler => tracing::error!("{error}"),
        _ => tracing::warn!(attempt, ?next_delay, "{error}"),
    }
}
