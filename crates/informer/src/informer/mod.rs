//! The informer: a store that follows a server, and whoever wants to know told.

mod builder;
mod events;
mod handler;
#[cfg(feature = "metrics")]
pub(crate) mod measured;
mod part;
mod status;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;

pub(crate) use builder::Selection;
pub use builder::{Builder, UnchangedOnRelist};
pub use events::Events;
pub use handler::{Filtering, Handler, HandlerOptions, Registration};
pub use status::{Status, Watched};

use crate::{
    Counts, Index, InformerError, Object, OrderedQueue, Phase, Reflector, ReflectorOptions, Stopped, Store,
    error::Class, listener::Hearing, processor::Processor, source::Source, stats::Stats,
};
use parking_lot::Mutex;
use part::Part;
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

/// Keeps a local copy of what a server has, and tells handlers and subscribers what changed. Cloning shares it.
///
/// # What is promised
/// - The store becomes equal to what the server has, however often connections break and servers restart.
/// - Of one object, the store and every listener see states in the order in which they were, and may miss some.
/// - Whoever is told of a change finds it, or something later, in the store and in all indexes.
/// - A listener that comes late is told of everything that is there, and then of every change: none twice, none left out.
/// - A slow listener delays nobody else, and takes memory for at most [`VERBATIM_MAX`](crate::VERBATIM_MAX) events and
///   one for each object.
///
/// # What is not
/// - There is no order between different objects.
/// - An object that was deleted and made again may be told as one update, with different uids.
/// - If a deletion was missed, the last state is not known: [`Event::Deleted`](crate::Event::Deleted) says so.
pub struct Informer<O: Object> {
    shared: Arc<Shared<O>>,
}

type Transform<O> = Arc<dyn Fn(&mut O) + Send + Sync>;
type OnError = Arc<dyn Fn(&InformerError) + Send + Sync>;

pub(crate) struct Shared<O: Object> {
    store: Store<O>,
    processor: Processor<O>,
    /// What is watched on its own: a namespace, if there are several.
    scopes: Vec<Scope<O>>,
    /// As `v1`; empty if that is not known.
    api_version: String,
    reflector: ReflectorOptions,
    random: Option<fn() -> crate::Random>,
    transform: Option<Transform<O>>,
    verifies_states: bool,
    on_error: Option<OnError>,
    status: StatusBoard,
    stats: Stats,
    heard: Mutex<Vec<String>>,
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
    /// What the informer knows.
    pub fn store(&self) -> Store<O> {
        self.shared.store.clone()
    }

    /// An index of the store; see [`Store::index`].
    pub fn index<V, I>(&self, values: impl Fn(&O) -> I + Send + Sync + 'static) -> Index<O, V>
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.shared.store.index(values)
    }

    /// What happens, as a stream: at first everything that is there. If the informer is stopped it ends at once.
    pub fn subscribe(&self) -> Events<O> {
        self.subscribe_with(HandlerOptions::default())
    }

    /// The same, told as one wishes.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Events<O> {
        let listener = self.shared.processor.listen(options.resync, options.overflow);
        let listener = listener.unwrap_or_else(|Stopped| crate::listener::Listener::closed());
        Events { shared: Arc::downgrade(&self.shared), listener }
    }

    /// Calls a handler for everything that happens, at first for everything that is there. Has to be called inside a Tokio
    /// runtime, on which the handler runs in a task of its own.
    pub fn add_handler(
        &self,
        handler: impl Handler<O>,
        options: HandlerOptions,
    ) -> Result<Registration<O>, Stopped> {
        handler::register(&self.shared, handler, options)
    }

    /// Runs the informer in a task of its own until the token is cancelled. Has to be called inside a Tokio runtime.
    pub fn start(&self, stop: CancellationToken) -> JoinHandle<()> {
        let informer = self.clone();
        tokio::spawn(async move { informer.run(stop).await })
    }

    /// Runs the informer until the token is cancelled and all handlers have returned. It runs once: after that, or while
    /// it runs, this returns at once.
    pub async fn run(&self, stop: CancellationToken) {
        if !self.shared.processor.start() {
            tracing::warn!("an informer is started twice; the second time nothing is done");
            return;
        }
        let stopping = Stopping(Arc::clone(&self.shared));
        let parts = (0..self.shared.scopes.len()).map(|number| self.part(number).run());
        stop.run_until_cancelled(futures::future::join_all(parts)).await;
        drop(stopping);
        self.shared.handlers.wait().await;
    }

    fn part(&self, number: usize) -> Part<O> {
        let Scope { namespace, source } = &self.shared.scopes[number];
        let watch_list = self.shared.reflector.watch_list && source.watch_list();
        let options = ReflectorOptions { watch_list, ..self.shared.reflector.clone() };
        let reflector = match self.shared.random {
            Some(random) => Reflector::with_random(options, random),
            None => Reflector::new(options),
        };
        Part {
            shared: Arc::clone(&self.shared),
            number,
            namespace: namespace.clone(),
            source: Arc::clone(source),
            reflector,
            queue: OrderedQueue::default(),
            collected: Default::default(),
            is_synced: false,
            resync: None,
            unverified: None,
            cause: "ended",
        }
    }

    /// Waits until the state there was at the start is in the store, and every listener that was there was handed it.
    pub async fn synced(&self) -> Result<(), Stopped> {
        handler::heard(self.shared.processor.synced()).await
    }

    /// Whether it is. Once it is, it stays so.
    pub fn has_synced(&self) -> bool {
        *self.shared.processor.synced().borrow() == Hearing::Synced
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.processor.is_stopped()
    }

    /// How it fares, and what went wrong last.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// How each of its watches fares: one for each namespace that is watched on its own, or one for all. Whenever there
    /// is something new, [`Informer::status`] is told.
    pub fn watched(&self) -> Vec<Watched> {
        self.shared.status.parts()
    }

    /// The newest version heard of, for each namespace that is watched on its own; empty before there is one. The store
    /// may not show all of that yet.
    pub fn last_sync_versions(&self) -> Vec<String> {
        self.shared.heard.lock().clone()
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.shared.stats.counts()
    }

    /// How often listeners are told of all objects once more, unless they ask for something else; never if zero.
    pub fn resync_period(&self) -> Duration {
        self.shared.processor.resync_period()
    }

    /// Whether the two are one.
    pub fn is_same(&self, other: &Informer<O>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How many events wait for each listener.
    pub fn pending(&self) -> Vec<usize> {
        self.shared.processor.pending().into_iter().map(|(_, count)| count).collect()
    }
}

/// Whatever ends an informer, even a panic, everybody gets to know.
struct Stopping<O: Object>(Arc<Shared<O>>);

impl<O: Object> Drop for Stopping<O> {
    fn drop(&mut self) {
        self.0.processor.stop();
        self.0.handlers.close();
        self.0.status.stop();
    }
}

impl<O: Object> Shared<O> {
    fn heard_up_to(&self, part: usize, version: &str) {
        let heard = &mut self.heard.lock()[part];
        if heard != version {
            version.clone_into(heard);
        }
    }

    /// Something went wrong: whoever wants to know is told, and if nobody does it is logged.
    fn report(&self, error: &Arc<InformerError>) {
        self.stats.failed(error);
        match &self.on_error {
            Some(on_error) => {
                if catch_unwind(AssertUnwindSafe(|| on_error(error))).is_err() {
                    tracing::error!("what was to be told of an error panicked");
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
