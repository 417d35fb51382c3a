//! One watch of an informer: executes the commands of its [`Reflector`], queues the events and applies them to the
//! store.
//!
//! Invariants: one task reads, queues and applies, so it never reads while it applies; it never reads more than
//! [`BATCH_MAX`] events ahead of the store.

use super::{Shared, Status};
use crate::{
    deadline::after,
    error::{ApiError, Class, InformerError, Phase},
    object::{Object, ObjectKey},
    reflector::{
        BATCH_MAX, Command, DeletedObject, Delta, DeltaFifo, Disposition, EventKind, Failure, Input,
        Reflector, Step,
    },
    source::{Change, ListPage, Source, Unreadable, WatchEvent, WatchFrom, WatchStream, pager::list_all},
};
use futures::{FutureExt, StreamExt};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until};

/// The interval of warnings while the initial list is incomplete and no event arrives.
const SLOW_LIST: Duration = Duration::from_secs(10);
/// The time for which a watch may stay open after its requested timeout.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct WatchLoop<O: Object> {
    pub(super) shared: Arc<Shared<O>>,
    pub(super) number: usize,
    pub(super) namespace: Option<String>,
    pub(super) source: Arc<dyn Source<O>>,
    pub(super) reflector: Reflector,
    pub(super) queue: DeltaFifo<O>,
    /// The objects of a streamed list that is not complete yet.
    pub(super) collected: BTreeMap<ObjectKey, Arc<O>>,
    pub(super) is_synced: bool,
    /// The time of the next check for listeners that are due for a resync. It counts from the last list and continues
    /// across watches.
    pub(super) resync: Option<Instant>,
    /// A streamed list that has to be compared with a normal list, for `verify_states`.
    pub(super) unverified: Option<(String, Versions)>,
    /// The reason of the next relist, for metrics.
    pub(super) cause: &'static str,
}

/// The version of every object.
type Versions = BTreeMap<ObjectKey, String>;

/// The deadlines of a watch that is being read.
struct Timers {
    idle: Duration,
    last_event: Instant,
    /// The next warning about an incomplete initial list.
    slow_list: Option<Instant>,
}

impl Timers {
    fn next(&self, resync: Option<Instant>) -> Instant {
        let others = resync.into_iter().chain(self.slow_list);
        others.fold(after(self.last_event, self.idle), Instant::min)
    }
}

impl<O: Object> WatchLoop<O> {
    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let mut input = Input::Ready;
        let mut watch = None;
        loop {
            let cause = relist_cause(&input);
            let step = self.reflector.step(Instant::now(), input);
            self.shared.observed_version(self.number, self.reflector.last_version());
            self.count_relist(cause, &step);
            match step.failure {
                Some(failure) => self.failed(failure, &step.command),
                // The watch expired, which is no failure: the reflector lists again after the wait.
                None if matches!(step.command, Command::Wait(_)) => self.show_listing(),
                None => {}
            }
            input = match step.command {
                Command::List { version, page_size } => {
                    watch = None;
                    self.list(version, page_size).await
                }
                Command::Watch(from) => self.open(from, &mut watch).await,
                Command::Read => match &mut watch {
                    Some((stream, timeout)) => self.read(stream, *timeout).await,
                    None => Input::Ended,
                },
                Command::Wait(delay) => {
                    watch = None;
                    sleep(delay).await;
                    Input::Ready
                }
            };
        }
    }

    /// Counts a relist and its reason.
    fn count_relist(&mut self, cause: Option<&'static str>, step: &Step) {
        let failure = step.failure.as_ref().map(|failure| failure.error.class.as_str());
        self.cause = failure.or(cause).unwrap_or(self.cause);
        let is_list =
            matches!(&step.command, Command::List { .. } | Command::Watch(WatchFrom { initial: true, .. }));
        if is_list && self.is_synced {
            self.shared.stats.relisted(self.cause);
        }
    }

    /// Compares a streamed list with a normal list at the same version, if `verify_states` is set, and reports a
    /// difference.
    async fn verify(&mut self) {
        let Some((version, sent)) = self.unverified.take() else { return };
        let exactly =
            ListPage { version: Some(version.clone()), version_match: Some("Exact"), ..ListPage::default() };
        let listed = match list_all(&*self.source, exactly, |object| object).await {
            Ok(listed) => listed.objects,
            Err(error) => return tracing::debug!(%error, "a streamed list cannot be verified"),
        };
        let listed: Versions =
            listed.iter().map(|object| (object.key(), object.revision().to_owned())).collect();
        if sent != listed {
            let message =
                format!("a streamed list differs from the list at {version}: {sent:?}, not {listed:?}");
            self.report(Phase::Stream, ApiError::new(Class::Other, message), None, 1, None);
        }
    }

    async fn list(&mut self, version: Option<String>, page_size: u32) -> Input {
        self.collected = BTreeMap::new();
        self.show_listing();
        let first = ListPage { version, limit: page_size, ..ListPage::default() };
        let started = Instant::now();
        let store = self.shared.store.clone();
        let listed = match list_all(&*self.source, first, |object| reuse_stored(&store, object)).await {
            Ok(listed) => listed,
            Err(error) => return Input::Failed(error),
        };
        let listed_at = Instant::now();
        self.shared.stats.listed(listed_at.duration_since(started), listed.objects.len());
        let mut objects = Vec::with_capacity(listed.objects.len());
        for object in listed.objects {
            let object = match self.transformed_once(object) {
                Ok(object) => object,
                Err(error) => return Input::Failed(error),
            };
            match key_of(&*object) {
                Some(key) => objects.push((key, object)),
                None => self.unreadable(nameless(&*object)),
            }
        }
        for unreadable in listed.unreadable {
            objects.extend(self.last_readable(&unreadable));
            self.unreadable(unreadable);
        }
        self.shared.status.list_complete(self.number, &listed.version, self.reflector.last_version());
        self.queue.replace(listed.version.clone(), objects);
        self.apply(listed_at);
        self.resync = self.next_resync(Instant::now());
        Input::Listed { version: listed.version, is_paginated: listed.is_paginated }
    }

    async fn open(&mut self, from: WatchFrom, watch: &mut Option<(WatchStream<O>, Duration)>) -> Input {
        self.collected.clear();
        *watch = None;
        if from.initial {
            self.resync = None;
            self.show_listing();
        }
        let timeout = from.timeout;
        let version = (!from.initial).then(|| from.version.clone());
        self.shared.stats.watch_started();
        match self.source.watch(from).await {
            Ok(stream) => {
                *watch = Some((stream, timeout));
                if let Some(version) = version {
                    self.shared.status.set(self.number, Status::Synced { version });
                }
                Input::Opened
            }
            Err(error) => Input::Failed(error),
        }
    }

    /// Reads until the watch ends or is idle for too long.
    async fn read(&mut self, stream: &mut WatchStream<O>, timeout: Duration) -> Input {
        let opened = Instant::now();
        let idle =
            self.shared.reflector.idle_timeout.unwrap_or(Duration::MAX).min(timeout.saturating_add(GRACE));
        let slow_list = self.reflector.is_listing().then(|| opened + SLOW_LIST);
        let mut timers = Timers { idle, last_event: opened, slow_list };
        let timer = sleep_until(timers.next(self.resync));
        tokio::pin!(timer);
        let input = loop {
            tokio::select! {
                biased;
                event = stream.next() => {
                    timers.last_event = Instant::now();
                    self.shared.stats.received_at(timers.last_event);
                    let ended = self.receive_all(event, stream);
                    self.apply(timers.last_event);
                    if let Some(input) = ended {
                        break input;
                    }
                    self.verify().await;
                }
                () = &mut timer => {}
            }
            if self.on_timer(&mut timers, opened) {
                tracing::info!(silent = ?timers.idle, "a watch was idle for too long and is reopened");
                break Input::Ended;
            }
            let next = timers.next(self.resync);
            if timer.is_elapsed() || next < timer.deadline() {
                timer.as_mut().reset(next);
            }
        };
        self.shared.stats.watch_ended(opened.elapsed());
        input
    }

    /// Takes an event and all events that are ready after it. Returns how the watch ended, if it did.
    fn receive_all(
        &mut self,
        first: Option<Result<WatchEvent<O>, ApiError>>,
        stream: &mut WatchStream<O>,
    ) -> Option<Input> {
        let mut event = first;
        for taken in 1.. {
            match event {
                Some(Ok(event)) => self.on_event(event),
                Some(Err(error)) => return Some(Input::Failed(error)),
                None => return Some(Input::Ended),
            }
            if taken == BATCH_MAX {
                break;
            }
            event = stream.next().now_or_never()?;
        }
        None
    }

    /// Handles expired deadlines. Returns whether the watch was idle for too long.
    fn on_timer(&mut self, timers: &mut Timers, opened: Instant) -> bool {
        let now = Instant::now();
        if timers.slow_list.is_some_and(|due| due <= now) {
            timers.slow_list = self.reflector.is_listing().then(|| now + SLOW_LIST);
            if timers.slow_list.is_some() && now.duration_since(timers.last_event) >= SLOW_LIST {
                let waited = now.duration_since(opened);
                tracing::warn!(?waited, "the initial list is incomplete and no event has arrived");
            }
        }
        if self.resync.is_some_and(|due| due <= now) {
            self.resync = self.next_resync(now);
            let listeners = self.shared.processor.due_for_resync(now);
            if !listeners.is_empty() {
                self.shared.stats.resynced();
                self.queue.resync(listeners);
                self.apply(now);
            }
        }
        after(timers.last_event, timers.idle) <= now
    }

    fn next_resync(&self, now: Instant) -> Option<Instant> {
        let period = self.shared.processor.check_period();
        (!period.is_zero()).then(|| after(now, period))
    }

    fn on_event(&mut self, event: WatchEvent<O>) {
        match event {
            WatchEvent::Added(object) => self.on_object(Change::Added, object),
            WatchEvent::Modified(object) => self.on_object(Change::Modified, object),
            WatchEvent::Deleted(object) => self.on_object(Change::Deleted, object),
            WatchEvent::Bookmark { version, ends_initial } => self.bookmark(version, ends_initial),
            WatchEvent::UnexpectedKind(what) => {
                tracing::warn!(%what, "a watch sent an event of an unexpected kind")
            }
            WatchEvent::Unreadable(unreadable) => self.on_unreadable(unreadable),
        }
    }

    fn on_object(&mut self, change: Change, object: Arc<O>) {
        let disposition = self.reflector.observe(event_kind(change), object.revision());
        self.shared.stats.event_received();
        let key = key_of(&*object);
        let object = match self.transformed(object) {
            Ok(object) => object,
            Err(error) => {
                self.keep_last_state(disposition, change, key.as_ref());
                return self.report(Phase::Transform, error, key, 1, None);
            }
        };
        let Some(key) = key_of(&*object) else { return self.unreadable(nameless(&*object)) };
        match (disposition, change) {
            (Disposition::Collect, Change::Deleted) => drop(self.collected.remove(&key)),
            (Disposition::Collect, _) => {
                let object = reuse_stored(&self.shared.store, object);
                self.collected.insert(key, object);
            }
            (Disposition::Apply | Disposition::Complete, change) => {
                self.queue.push(key, delta(change, object))
            }
        }
    }

    fn on_unreadable(&mut self, unreadable: Unreadable) {
        let change = unreadable.change.unwrap_or(Change::Modified);
        let disposition = self.reflector.observe(event_kind(change), &unreadable.version);
        self.keep_last_state(disposition, change, unreadable.key.as_ref());
        self.unreadable(unreadable);
    }

    /// The new state of an object cannot be stored: the store keeps its last state, unless the object was deleted.
    fn keep_last_state(&mut self, disposition: Disposition, change: Change, key: Option<&ObjectKey>) {
        let Some(key) = key.cloned() else { return };
        let last = self.shared.store.get(key.clone());
        match (disposition, change, last) {
            (Disposition::Collect, Change::Deleted, _) => drop(self.collected.remove(&key)),
            (Disposition::Collect, _, Some(last)) => {
                self.collected.entry(key).or_insert(last);
            }
            (Disposition::Apply | Disposition::Complete, Change::Deleted, last) => {
                self.queue.push(key.clone(), Delta::Deleted(DeletedObject::FinalStateUnknown(key, last)));
            }
            _ => {}
        }
    }

    fn bookmark(&mut self, version: String, ends_initial: bool) {
        self.shared.stats.event_received();
        let before = self.reflector.last_version().to_owned();
        match self.reflector.observe(EventKind::Bookmark { ends_initial }, &version) {
            Disposition::Collect => {}
            Disposition::Apply => self.queue.bookmark(version),
            Disposition::Complete => {
                let objects: Vec<_> = std::mem::take(&mut self.collected).into_iter().collect();
                self.shared.stats.listed_by_watch(objects.len());
                if self.shared.verifies_states {
                    let sent =
                        objects.iter().map(|(key, object)| (key.clone(), object.revision().to_owned()));
                    self.unverified = Some((version.clone(), sent.collect()));
                }
                let now = Instant::now();
                self.shared.status.list_complete(self.number, &version, &before);
                self.queue.replace(version.clone(), objects);
                self.apply(now);
                self.resync = self.next_resync(now);
                self.shared.status.set(self.number, Status::Synced { version });
            }
        }
    }

    /// Transforms an object, unless it is already in the store.
    fn transformed_once(&self, object: Arc<O>) -> Result<Arc<O>, ApiError> {
        let is_stored = |object: &Arc<O>| {
            self.shared.store.get(object.key()).is_some_and(|stored| Arc::ptr_eq(&stored, object))
        };
        if self.shared.transform.is_none() || is_stored(&object) {
            Ok(object)
        } else {
            self.transformed(object)
        }
    }

    /// Transforms an object that was just decoded.
    fn transformed(&self, mut object: Arc<O>) -> Result<Arc<O>, ApiError> {
        let Some(transform) = &self.shared.transform else { return Ok(object) };
        let Some(own) = Arc::get_mut(&mut object) else {
            let message = "the source still shares an object, so it cannot be transformed";
            return Err(ApiError::new(Class::Client, message));
        };
        match catch_unwind(AssertUnwindSafe(|| transform(own))) {
            Ok(()) => Ok(object),
            Err(_) => Err(ApiError::new(Class::Client, "the transform of the informer panicked")),
        }
    }

    /// The last state of an object whose new state cannot be decoded. Without it the object would count as deleted.
    fn last_readable(&self, unreadable: &Unreadable) -> Option<(ObjectKey, Arc<O>)> {
        let key = unreadable.key.clone()?;
        self.shared.store.get(key.clone()).map(|object| (key, object))
    }

    /// Applies the queue. `read_at` is when its first entry was read.
    fn apply(&mut self, read_at: Instant) {
        let stats = &self.shared.stats;
        let is_work = !self.queue.is_empty();
        stats.queued(self.queue.len());
        while let Some(batch) = self.queue.pop_batch(BATCH_MAX) {
            let count = batch.entries.len();
            self.shared.processor.apply(self.number, self.namespace.as_deref(), batch);
            self.queue.applied(count);
            stats.applied(count);
        }
        if is_work {
            stats.processed(read_at.elapsed());
        }
        self.shared.observed_version(self.number, self.reflector.last_version());
        if !self.is_synced && self.queue.has_synced() {
            self.is_synced = true;
            self.shared.processor.scope_synced(self.number);
        }
    }

    fn show_listing(&self) {
        // A failure stays visible in the status until the next success.
        if !matches!(self.shared.status.of(self.number), Status::Retrying { .. }) {
            self.shared.status.set(self.number, Status::Listing);
        }
    }

    fn unreadable(&self, unreadable: Unreadable) {
        let error = ApiError::new(Class::Unreadable, unreadable.message);
        self.report(Phase::Decode, error, unreadable.key, 1, None);
    }

    fn failed(&self, failure: Failure, command: &Command) {
        let delay = match command {
            Command::Wait(delay) => Some(*delay),
            Command::Watch(_) => Some(Duration::ZERO),
            Command::List { .. } | Command::Read => None,
        };
        self.report(failure.phase, failure.error, None, failure.attempt, delay);
    }

    fn report(
        &self,
        phase: Phase,
        error: ApiError,
        key: Option<ObjectKey>,
        attempt: u32,
        next_delay: Option<Duration>,
    ) {
        let error = Arc::new(InformerError { phase, error, key, attempt, next_delay });
        self.shared.report(&error);
        if let Some(delay) = next_delay {
            let now = Instant::now();
            let since = match self.shared.status.of(self.number) {
                Status::Retrying { since, .. } => since,
                _ => now,
            };
            self.shared
                .status
                .set(self.number, Status::Retrying { error, at: after(now, delay), attempt, since });
        }
    }
}

/// The key of an object; absent if the object has no name.
fn key_of(object: &impl Object) -> Option<ObjectKey> {
    Some(object.key()).filter(|key| !key.name.is_empty())
}

fn nameless(object: &impl Object) -> Unreadable {
    let version = object.revision().to_owned();
    Unreadable { change: None, key: None, version, message: "an object has no name".to_owned() }
}

fn event_kind(change: Change) -> EventKind {
    if change == Change::Added { EventKind::Added } else { EventKind::Changed }
}

fn delta<O>(change: Change, object: Arc<O>) -> Delta<O> {
    match change {
        Change::Added => Delta::Added(object),
        Change::Modified => Delta::Updated(object),
        Change::Deleted => Delta::Deleted(DeletedObject::FinalState(object)),
    }
}

/// The reason for a relist after this input, as a metric label. A wait is not a reason.
fn relist_cause(input: &Input) -> Option<&'static str> {
    match input {
        Input::Ready => None,
        Input::Failed(error) => Some(error.class.as_str()),
        Input::Listed { .. } | Input::Opened | Input::Ended => Some("ended"),
    }
}

/// Returns the stored object if it has the same version, so that memory holds it once.
fn reuse_stored<O: Object>(store: &crate::store::Store<O>, object: Arc<O>) -> Arc<O> {
    match store.get(object.key()) {
        Some(stored) if stored.is_same(&object) => stored,
        _ => object,
    }
}
