//! A small controller: events add keys to a queue, and workers reconcile them.
//!
//! Invariants: no key is reconciled before the informers are synced; no key is reconciled by two workers at a time;
//! failures are retried with growing waits; when the controller stops, it finishes the queue first.

use crate::{
    informer::{Cause, Event, HandlerOptions, Informer, Registration, Stopped},
    object::{Object, ObjectKey, is_cluster_scoped},
    workqueue::{Aged, Item, WorkQueue},
};
use futures::{
    FutureExt,
    future::{BoxFuture, join_all, try_join_all},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;
use std::{fmt, panic::AssertUnwindSafe, time::Duration};
use tokio_util::sync::CancellationToken;

/// The next step for a key after its reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait for the next event.
    Done,
    /// Reconcile the key again after this time.
    Requeue(Duration),
}

/// Reconciles keys when their objects change.
///
/// ```no_run
/// # use keepwatch_informer::{Action, Controller, Informer, ObjectKey};
/// # use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
/// # use tokio_util::sync::CancellationToken;
/// # async fn example(sets: Informer<ReplicaSet>, pods: Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// let store = sets.store();
/// let controller = Controller::new("replicasets").workers(4).reconciles(&sets)?.owns::<ReplicaSet, _>(&pods)?;
/// controller
///     .run(CancellationToken::new(), |key: ObjectKey| {
///         let set = store.get(key);
///         async move {
///             let Some(set) = set else { return Ok(Action::Done) };
///             // Make as many pods as `set` wants.
///             Ok::<_, std::io::Error>(Action::Done)
///         }
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Controller<T: Item = ObjectKey> {
    queue: WorkQueue<T>,
    workers: usize,
    synced: Vec<BoxFuture<'static, Result<(), Stopped>>>,
    handlers: Handlers,
}

/// Removes the handlers of the controller when it is dropped.
#[derive(Default)]
struct Handlers(Vec<Box<dyn Fn() + Send + Sync>>);

impl Drop for Handlers {
    fn drop(&mut self) {
        self.0.iter().for_each(|remove| remove());
    }
}

/// The priority of initial and resync events, below that of changes.
const LOW_PRIORITY: i32 = -100;
/// The time that an item has to wait to gain one degree of priority, so that no item waits more than some seconds
/// longer.
const AGING_STEP: Duration = Duration::from_millis(100);

impl<T: Item> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("queue", &self.queue)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl<T: Item> Controller<T> {
    /// A controller with a queue of this name and one worker.
    pub fn new(name: &str) -> Self {
        Self::with_queue(WorkQueue::builder().name(name).order(Aged::new(AGING_STEP)).build())
    }

    /// A controller with this queue.
    pub fn with_queue(queue: WorkQueue<T>) -> Self {
        Controller { queue, workers: 1, synced: Vec::new(), handlers: Handlers::default() }
    }

    /// The number of keys that are reconciled concurrently. All workers run in one task: blocking work belongs in
    /// `tokio::task::spawn_blocking`.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = count.max(1);
        self
    }

    /// The queue, for adding keys from elsewhere.
    pub fn queue(&self) -> WorkQueue<T> {
        self.queue.clone()
    }

    /// Adds the items that `items` returns for an event of this informer. Must be called inside a Tokio runtime.
    /// Fails if the informer was stopped.
    pub fn watches<O: Object, I: IntoIterator<Item = T>>(
        mut self,
        informer: &Informer<O>,
        items: impl Fn(&Event<O>) -> I + Send + 'static,
    ) -> Result<Self, Stopped> {
        let queue = self.queue.clone();
        let handler = move |event: Event<O>| {
            let is_change = !matches!(
                event,
                Event::Added { initial: true, .. } | Event::Updated { cause: Cause::Resync, .. }
            );
            let priority = if is_change { 0 } else { LOW_PRIORITY };
            items(&event).into_iter().for_each(|item| queue.add_with_priority(item, priority));
        };
        let registration = std::sync::Arc::new(informer.add_handler(handler, HandlerOptions::default())?);
        let synced = std::sync::Arc::clone(&registration);
        self.synced.push(async move { Registration::synced(&synced).await }.boxed());
        self.handlers.0.push(Box::new(move || registration.remove()));
        Ok(self)
    }

    /// Runs until the token is cancelled and the queue is empty. Fails if an informer stops before it is synced. The
    /// caller runs the informers.
    ///
    /// A key for which `reconcile` fails or panics is logged, and retried after the wait of the queue's rate limiter.
    pub async fn run<F, E>(self, stop: CancellationToken, reconcile: impl Fn(T) -> F) -> Result<(), Stopped>
    where
        F: Future<Output = Result<Action, E>>,
        E: fmt::Display,
    {
        let Controller { queue, workers, synced, handlers: _handlers } = self;
        let result = match stop.run_until_cancelled(try_join_all(synced)).await {
            Some(Ok(_)) => {
                let working = join_all((0..workers).map(|_| run_worker(&queue, &reconcile)));
                let stopping = async {
                    stop.cancelled().await;
                    queue.shut_down();
                };
                futures::join!(working, stopping);
                Ok(())
            }
            Some(Err(Stopped)) => Err(Stopped),
            None => Ok(()),
        };
        queue.shut_down();
        result
    }
}

impl Controller<ObjectKey> {
    /// Reconciles every object of this informer when it changes.
    pub fn reconciles<O: Object>(self, informer: &Informer<O>) -> Result<Self, Stopped> {
        self.watches(informer, |event| [event.key()])
    }

    /// Reconciles the controller of every object of this informer when the object changes, if its kind is `Owner`.
    pub fn owns<Owner, K>(self, informer: &Informer<K>) -> Result<Self, Stopped>
    where
        Owner: Resource<DynamicType: Default, Scope: 'static>,
        K: Resource + Object,
    {
        self.watches(informer, |event| controllers_of::<Owner, K>(event))
    }
}

/// The controller of an object, and its previous controller.
fn controllers_of<Owner, K>(event: &Event<K>) -> Vec<ObjectKey>
where
    Owner: Resource<DynamicType: Default, Scope: 'static>,
    K: Resource,
{
    let before = match event {
        Event::Updated { old, .. } => controller_of::<Owner>(old.meta()),
        _ => None,
    };
    let mut controllers: Vec<_> =
        before.into_iter().chain(controller_of::<Owner>(event.object().meta())).collect();
    controllers.dedup();
    controllers
}

fn controller_of<Owner>(meta: &ObjectMeta) -> Option<ObjectKey>
where
    Owner: Resource<DynamicType: Default, Scope: 'static>,
{
    let owner_type = Owner::DynamicType::default();
    let (kind, group) = (Owner::kind(&owner_type), Owner::group(&owner_type));
    let group_of = |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let is_controller = |owner: &&OwnerReference| {
        owner.controller == Some(true) && owner.kind == kind && group_of(&owner.api_version) == group
    };
    let owner = meta.owner_references.iter().flatten().find(is_controller)?;
    let namespace = if is_cluster_scoped::<Owner>() { None } else { meta.namespace.as_deref() };
    Some(ObjectKey::new(namespace.unwrap_or_default(), &owner.name))
}

async fn run_worker<T, F, E>(queue: &WorkQueue<T>, reconcile: &impl Fn(T) -> F)
where
    T: Item,
    F: Future<Output = Result<Action, E>>,
    E: fmt::Display,
{
    while let Some(claim) = queue.get().await {
        let item = T::clone(&claim);
        let outcome = AssertUnwindSafe(async { reconcile(item.clone()).await }).catch_unwind().await;
        match outcome {
            Ok(Ok(Action::Done)) => queue.forget(&item),
            Ok(Ok(Action::Requeue(after))) => {
                queue.forget(&item);
                queue.add_after(item, after);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a reconciliation failed and is retried");
                queue.add_rate_limited(item);
            }
            Err(_) => {
                tracing::error!("a reconciliation panicked and is retried");
                queue.add_rate_limited(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::script::{Scripted, scripted};
    use k8s_openapi::api::{
        apps::v1::ReplicaSet,
        core::v1::{Node, Pod},
    };
    use parking_lot::Mutex;
    use std::sync::Arc;
    use tokio::time::{Instant, sleep};

    const SECOND: Duration = Duration::from_secs(1);

    /// A controller of a scripted informer, and the keys that it reconciled.
    fn controller(scripted: &Scripted) -> (Controller, Arc<Mutex<Vec<String>>>) {
        (Controller::new("things").reconciles(&scripted.informer).unwrap(), Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn existing_and_changed_objects_are_reconciled() {
        let scripted = scripted(&["10 a@1 b@2", "watch: 5s; ~a@11; +c@12; -b@13"]);
        let (controller, done) = controller(&scripted);
        let stop = scripted.stop.clone();
        let working = tokio::spawn(controller.run(stop.clone(), {
            let done = Arc::clone(&done);
            move |key: ObjectKey| {
                done.lock().push(key.to_string());
                async { Ok::<_, String>(Action::Done) }
            }
        }));
        sleep(SECOND).await;
        assert!(done.lock().is_empty(), "the informer does not run yet");
        let _scripted = scripted.run_for(1).await;
        assert_eq!(done.lock().join(" "), "a b");
        sleep(10 * SECOND).await;
        assert_eq!(done.lock().join(" "), "a b a c b");
        stop.cancel();
        assert_eq!(working.await.unwrap(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_panics_and_requeues_are_retried() {
        let scripted = scripted(&["10 a@1", "watch:"]);
        let (controller, times) = controller(&scripted);
        let stop = scripted.stop.clone();
        let started = Instant::now();
        let reconcile = |_: ObjectKey| {
            let attempt = times.lock().len();
            times.lock().push(format!("{}", started.elapsed().as_millis()));
            assert_ne!(attempt, 1, "on purpose");
            async move {
                match attempt {
                    0 => Err("on purpose"),
                    2 => panic!("on purpose"),
                    3 => Ok(Action::Requeue(SECOND)),
                    _ => Ok(Action::Done),
                }
            }
        };
        let running = async {
            let _scripted = scripted.run_for(60).await;
            stop.cancel();
        };
        let (result, ()) = futures::join!(controller.run(stop.clone(), reconcile), running);
        assert_eq!((result, times.lock().join(" ").as_str()), (Ok(()), "0 5 15 35 1035"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_that_stops_before_it_is_synced_is_an_error() {
        let scripted = scripted(&[]);
        let (controller, _) = controller(&scripted);
        let reconcile = |_: ObjectKey| async { Ok::<_, String>(Action::Done) };
        let stop = scripted.stop.clone();
        let running = async {
            let _scripted = scripted.run_for(1).await;
            stop.cancel();
        };
        let (result, ()) = futures::join!(controller.run(CancellationToken::new(), reconcile), running);
        assert_eq!(result, Err(Stopped));
    }

    #[tokio::test(start_paused = true)]
    async fn workers_share_the_queue_and_finish_it() {
        let scripted = scripted(&["10 a@1 b@2 c@3 d@4", "watch:"]);
        let (controller, done) = controller(&scripted);
        let stop = scripted.stop.clone();
        let reconcile = |key: ObjectKey| {
            let done = Arc::clone(&done);
            async move {
                sleep(10 * SECOND).await;
                done.lock().push(key.to_string());
                Ok::<_, String>(Action::Done)
            }
        };
        let running = async {
            let _scripted = scripted.run_for(5).await;
            stop.cancel();
        };
        let started = Instant::now();
        let (result, ()) = futures::join!(controller.workers(2).run(stop.clone(), reconcile), running);
        assert_eq!((result, done.lock().len(), started.elapsed()), (Ok(()), 4, 20 * SECOND));
    }

    #[test]
    fn the_controller_of_an_object_is_found_by_group_and_kind() {
        let owner = |api_version: &str, kind: &str, controller: bool| OwnerReference {
            api_version: api_version.to_owned(),
            controller: Some(controller),
            kind: kind.to_owned(),
            name: format!("the-{kind}"),
            ..OwnerReference::default()
        };
        let meta = |owner| ObjectMeta {
            namespace: Some("x".to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        let set = |api_version, controller| {
            controller_of::<ReplicaSet>(&meta(owner(api_version, "ReplicaSet", controller)))
        };
        assert_eq!(set("apps/v1", true), Some(("x", "the-ReplicaSet").into()));
        assert_eq!(set("apps/v1", false), None, "it does not control it");
        assert_eq!(set("example.com/v1", true), None, "it is another kind");
        assert_eq!(controller_of::<Node>(&meta(owner("v1", "Node", true))), Some("the-Node".into()));
        assert_eq!(controller_of::<Node>(&ObjectMeta::default()), None);
    }

    #[test]
    fn the_old_and_the_new_controller_of_an_object_are_reconciled() {
        let pod = |owner: &str| {
            let owner = (!owner.is_empty()).then(|| OwnerReference {
                api_version: "apps/v1".to_owned(),
                controller: Some(true),
                kind: "ReplicaSet".to_owned(),
                name: owner.to_owned(),
                ..OwnerReference::default()
            });
            let owner_references = owner.map(|owner| vec![owner]);
            Arc::new(Pod {
                metadata: ObjectMeta { owner_references, ..ObjectMeta::default() },
                ..Pod::default()
            })
        };
        for (old, new, expected) in
            [("a", "b", "a b"), ("a", "", "a"), ("a", "a", "a"), ("", "b", "b"), ("", "", "")]
        {
            let event = Event::Updated { old: pod(old), new: pod(new), cause: Cause::Watch };
            let reconciled = controllers_of::<ReplicaSet, Pod>(&event);
            assert_eq!(reconciled.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_controller_receives_no_events() {
        let scripted = scripted(&["10 a@1", "watch:"]);
        let (controller, _) = controller(&scripted);
        let queue = controller.queue();
        drop(controller);
        let _scripted = scripted.run_for(1).await;
        assert!(queue.is_empty());
    }
}
