//! Informers of every form, and their listeners.
//!
//! Each informer has an index, a handler and a stream that receive every event, a stream that is too slow for that, and
//! subscribers that are added late and leave early; each listener has an [`EventChecker`].

use crate::{
    EventChecker, Fault, LABEL, Report, State,
    load::{COLOUR, COLOURS},
};
use futures::{StreamExt, future::BoxFuture, future::join_all};
use k8s_openapi::api::core::v1::ConfigMap;
use keepwatch_informer::{
    Event, HandlerOptions, Index, Informer, Object, ObjectKey, Store,
    backoff::BackoffPolicy,
    informer::{Builder, Overflow},
    stats::Counts,
};
use kube::{
    Api, Client,
    api::{ApiResource, ListParams},
};
use rand::Rng;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A storm is short; so are the waits after failures.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    base: Duration::from_millis(50),
    cap: Duration::from_secs(1),
    factor: 2.0,
    jitter: 1.0,
    steps: None,
    reset: Duration::from_secs(10),
};
/// The time that slow listeners take for an event.
const SLOW_LISTENER_DELAY: Duration = Duration::from_millis(100);
/// The maximum time for which a late subscriber stays.
const LATE_SUBSCRIPTION_MAX_MS: u64 = 600;
/// The time that informers and listeners may take to reach the state of the server, once it can be reached.
const SETTLE_MAX: Duration = Duration::from_secs(45);
/// The interval at which their states are compared.
const LOOK: Duration = Duration::from_millis(100);
/// The time that a client waits for a write of its own while servers may be down. A write that does not arrive then is
/// no fault.
const OWN_WRITE_MAX: Duration = Duration::from_secs(10);

/// The objects that an informer selects.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Of these namespaces; of all if there are none.
    pub namespaces: Vec<String>,
    /// With these labels; all if it is empty.
    pub selector: String,
}

/// All informers.
pub struct InformerSet {
    members: Vec<Box<dyn Member>>,
    report: Arc<Report>,
    /// The namespaces of the storm. Objects in other namespaces are not compared.
    namespaces: Vec<String>,
    /// Whether slow listeners are slow.
    is_stormy: watch::Sender<bool>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for InformerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InformerSet").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl InformerSet {
    /// Starts informers of every form on these namespaces.
    pub fn start(client: &Client, namespaces: &[String], report: &Arc<Report>) -> InformerSet {
        let mut set = InformerSet {
            members: Vec::new(),
            report: Arc::clone(report),
            namespaces: namespaces.to_vec(),
            is_stormy: watch::Sender::new(true),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let (first, last) = namespaces.split_at(namespaces.len() / 2);
        let [all, web, two, one] = [
            Scope::default(),
            Scope { selector: format!("{LABEL}=web"), ..Scope::default() },
            Scope { namespaces: first.to_vec(), ..Scope::default() },
            Scope { namespaces: last[..1].to_vec(), ..Scope::default() },
        ];
        let two_web = Scope { selector: format!("{LABEL}!=db"), ..two.clone() };
        let kind = ApiResource::erase::<ConfigMap>(&());
        let maps = || Informer::<ConfigMap>::builder(client.clone());
        set.add("all", &all, maps().idle_timeout(Duration::from_secs(3)));
        set.add("two namespaces", &two, maps().resync(Duration::from_secs(1)));
        set.add("selector", &web, maps());
        set.add("lean", &all, maps().lean());
        set.add("metadata", &all, Informer::metadata(client.clone(), &kind));
        set.add("dynamic", &one, Informer::dynamic(client.clone(), &kind));
        set.add("list mode", &all, maps().watch_list(false).page_size(7));
        set.add("lean list mode", &two_web, maps().watch_list(false).page_size(5).lean());
        set
    }

    fn add<O: Object>(&mut self, name: &str, scope: &Scope, builder: Builder<O>) {
        let mut builder = builder.backoff(BACKOFF).namespaces(scope.namespaces.clone());
        if !scope.selector.is_empty() {
            builder = builder.labels(&scope.selector);
        }
        let informer = builder.build();
        let index = informer.index(|object: &O| object.label_map().get(COLOUR).cloned());
        let new_checker =
            |what: &str, may_skip| EventChecker::new(format!("{name}, {what}"), may_skip, &self.report);
        let everything = || HandlerOptions::default().overflow(Overflow::Unbounded);

        let (handler, store, own_index) = (new_checker("handler", false), informer.store(), index.clone());
        let (checker, report, own) = (Arc::clone(&handler), Arc::clone(&self.report), name.to_owned());
        let handle = move |event: Event<O>| {
            checker.check(&event, &store);
            check_index(&own, &**event.object(), &own_index, &report);
        };
        informer.add_handler(handle, everything().name(name)).expect("it was not stopped");
        let stream = new_checker("stream", false);
        let slow = new_checker("slow stream", true);
        for (checker, pause, options) in
            [(&stream, Duration::ZERO, everything()), (&slow, SLOW_LISTENER_DELAY, HandlerOptions::default())]
        {
            let (checker, store, stormy) =
                (Arc::clone(checker), informer.store(), self.is_stormy.subscribe());
            let mut events = informer.subscribe_with(options);
            self.tasks.spawn(async move {
                while let Some(event) = events.next().await {
                    checker.check(&event, &store);
                    if !pause.is_zero() && *stormy.borrow() {
                        tokio::time::sleep(pause).await;
                    }
                }
            });
        }
        let late = LateSubscriber {
            name: format!("{name}, late"),
            informer: informer.clone(),
            report: Arc::clone(&self.report),
            stormy: self.is_stormy.subscribe(),
        };
        let (last_late, last) = watch::channel(None);
        self.tasks.spawn(late.subscribe_repeatedly(last_late));
        self.tasks.spawn(informer.start(self.stop.clone()));
        self.members.push(Box::new(TestedInformer {
            name: name.to_owned(),
            scope: scope.clone(),
            informer,
            index,
            checkers: vec![handler, stream, slow],
            last_late: last,
        }));
    }

    /// Waits until all informers have synced.
    pub async fn synced(&self, longest: Duration) -> Result<(), Fault> {
        let all = join_all(self.members.iter().map(|member| member.synced()));
        let synced = tokio::time::timeout(longest, all).await;
        match synced.is_ok_and(|synced| synced.iter().all(|synced| *synced)) {
            true => Ok(()),
            false => {
                Err(format!("some informers know nothing after {longest:?}: {:#?}", self.counts()).into())
            }
        }
    }

    /// The counters of each informer, and the number of its concurrent watches.
    pub fn counts(&self) -> Vec<(String, usize, Counts)> {
        let of = |member: &dyn Member| {
            (member.name().to_owned(), member.scope().namespaces.len().max(1), member.counts())
        };
        self.members.iter().map(|member| of(&**member)).collect()
    }

    /// A client wrote an object that no other client writes: the informers of all namespaces have it in the store once
    /// they report that they have reached its version.
    pub async fn find_own_write(&self, key: &ObjectKey, version: &str) {
        let unrestricted = self.members.iter().filter(|member| member.scope().namespaces.is_empty());
        for found in join_all(unrestricted.map(|member| member.find_own_write(key, version))).await {
            match found {
                Ok(true) => self.report.own_write(),
                Ok(false) => {}
                Err(fault) => self.report.fault(fault),
            }
        }
    }

    /// After the storm, an object was written that all informers receive, at this version or later: waits until they
    /// have reached it, and then until the state of every informer and listener equals a fresh list.
    pub async fn settle(&self, client: &Client, version: &str) -> Result<(), Fault> {
        self.is_stormy.send_replace(false);
        let deadline = Instant::now() + SETTLE_MAX;
        for member in &self.members {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(fault) = member.reach(version, left).await {
                self.report.fault(format!("{}: {fault}", member.name()));
            }
        }
        for member in &self.members {
            loop {
                let fresh = self.list(client, member.scope()).await?;
                let Some(difference) = self.difference(&**member, &fresh) else { break };
                if Instant::now() > deadline {
                    self.report.fault(difference);
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    async fn list(&self, client: &Client, scope: &Scope) -> Result<State, Fault> {
        let maps: Api<ConfigMap> = Api::all(client.clone());
        let list = maps.list(&ListParams::default().labels(&scope.selector)).await?;
        let wanted = list.items.iter().filter(|map| {
            scope.namespaces.is_empty() || scope.namespaces.iter().any(|own| own == map.key().namespace())
        });
        Ok(self.own(wanted.map(|map| (map.key(), map.revision().to_owned())).collect()))
    }

    fn own(&self, mut state: State) -> State {
        state.retain(|key, _| self.namespaces.iter().any(|own| own == key.namespace()));
        state
    }

    /// The difference between the state of an informer or listener and a fresh list.
    fn difference(&self, member: &dyn Member, fresh: &State) -> Option<String> {
        if let Err(fault) = member.check_index() {
            return Some(fault);
        }
        member.states().into_iter().find_map(|(name, state)| {
            let state = self.own(state);
            let keys: BTreeSet<_> = fresh.keys().chain(state.keys()).collect();
            let differs = |key: &&&ObjectKey| fresh.get(key) != state.get(key);
            let first =
                keys.iter().filter(differs).take(5).map(|key| {
                    format!("{key}: it has {:?}, the server {:?}", state.get(key), fresh.get(key))
                });
            let first: Vec<_> = first.collect();
            (!first.is_empty()).then(|| format!("{name} is not what a list shows: {}", first.join("; ")))
        })
    }

    /// Stops all informers and all listeners.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.is_stormy.send_replace(false);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for InformerSet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An informer of any form.
trait Member: Send + Sync {
    fn name(&self) -> &str;
    fn scope(&self) -> &Scope;
    fn counts(&self) -> Counts;
    fn synced(&self) -> BoxFuture<'_, bool>;
    /// The states of the store and of every listener.
    fn states(&self) -> Vec<(String, State)>;
    /// Whether the index is that of the store.
    fn check_index(&self) -> Result<(), String>;
    fn reach<'a>(&'a self, version: &'a str, longest: Duration) -> BoxFuture<'a, Result<(), String>>;
    /// Whether the informer reached the version in time; it is an error if it did and does not have the object.
    fn find_own_write<'a>(
        &'a self,
        key: &'a ObjectKey,
        version: &'a str,
    ) -> BoxFuture<'a, Result<bool, String>>;
}

struct TestedInformer<O: Object> {
    name: String,
    scope: Scope,
    informer: Informer<O>,
    index: Index<O, String>,
    checkers: Vec<Arc<EventChecker>>,
    last_late: watch::Receiver<Option<Arc<EventChecker>>>,
}

fn state_of<O: Object>(store: &Store<O>) -> State {
    let mut state = State::new();
    store.for_each(|object| {
        state.insert(object.key(), object.revision().to_owned());
    });
    state
}

impl<O: Object> Member for TestedInformer<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn counts(&self) -> Counts {
        self.informer.counts()
    }

    fn synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.informer.synced().await.is_ok() })
    }

    fn states(&self) -> Vec<(String, State)> {
        let mut states = vec![(format!("{}, store", self.name), state_of(&self.informer.store()))];
        let last_late = self.last_late.borrow().clone();
        let checkers = self.checkers.iter().chain(&last_late);
        states.extend(checkers.map(|checker| (checker.name().to_owned(), checker.state())));
        states
    }

    fn check_index(&self) -> Result<(), String> {
        for colour in COLOURS {
            let mut keys = BTreeSet::new();
            self.informer.store().for_each(|object| {
                if object.label_map().get(COLOUR).is_some_and(|own| own == colour) {
                    keys.insert(object.key());
                }
            });
            let found = self.index.keys(colour);
            let objects: Vec<_> = self.index.get(colour).iter().map(|object| object.key()).collect();
            if !found.iter().eq(&keys) || objects != found {
                return Err(format!("{}: the index has {found:?} as {colour}, not {keys:?}", self.name));
            }
        }
        Ok(())
    }

    fn reach<'a>(&'a self, version: &'a str, longest: Duration) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let reached = self.informer.store().wait_for(version, longest).await;
            reached.map_err(|error| format!("{error}; {:?}", *self.informer.status().borrow()))
        })
    }

    fn find_own_write<'a>(
        &'a self,
        key: &'a ObjectKey,
        version: &'a str,
    ) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let store = self.informer.store();
            if store.wait_for(version, OWN_WRITE_MAX).await.is_err() {
                return Ok(false);
            }
            let found = store.get(key.clone()).map(|object| object.revision().to_owned());
            let order = found
                .as_deref()
                .and_then(|found| keepwatch_informer::object::compare_versions(found, version));
            match order {
                Some(order) if order.is_ge() => Ok(true),
                _ => Err(format!("{}: it has reached {version}, but {key} is {found:?}", self.name)),
            }
        })
    }
}

/// Checks that every object of a colour in the index has that colour.
fn check_index<O: Object>(name: &str, object: &O, index: &Index<O, String>, report: &Report) {
    let Some(colour) = object.label_map().get(COLOUR).cloned() else { return };
    for found in index.get(&colour) {
        if found.label_map().get(COLOUR) != Some(&colour) {
            report.fault(format!("{name}: the index has {} as {colour}, which it is not", found.key()));
        }
    }
}

/// Subscribes and leaves again and again, and stays when the storm is over.
struct LateSubscriber<O: Object> {
    name: String,
    informer: Informer<O>,
    report: Arc<Report>,
    stormy: watch::Receiver<bool>,
}

impl<O: Object> LateSubscriber<O> {
    async fn subscribe_repeatedly(mut self, last: watch::Sender<Option<Arc<EventChecker>>>) {
        while !self.informer.is_stopped() {
            let checker = EventChecker::new(&self.name, true, &self.report);
            let stays = Duration::from_millis(rand::rng().random_range(0..LATE_SUBSCRIPTION_MAX_MS));
            if *self.stormy.borrow_and_update() {
                self.report.late_subscriber();
                let _ = tokio::time::timeout(stays, self.visit(&checker)).await;
                tokio::time::sleep(stays / 2).await;
            } else {
                last.send_replace(Some(Arc::clone(&checker)));
                self.visit(&checker).await;
            }
        }
    }

    /// Listens until the informer stops.
    async fn visit(&self, checker: &EventChecker) {
        let was_synced = self.informer.has_synced();
        let store = self.informer.store();
        let mut events = self.informer.subscribe();
        let mut is_beyond_first = false;
        while let Some(event) = events.next().await {
            checker.check(&event, &store);
            let is_initial = matches!(event, Event::Added { initial: true, .. });
            if is_initial && is_beyond_first && was_synced {
                self.report.fault(format!("{}: {event:?}: another event was delivered before", self.name));
            }
            is_beyond_first |= !is_initial;
        }
    }
}
