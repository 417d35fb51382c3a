//! One watch of an informer: does what its [`Reflector`] says, queues what is heard and applies it.
//!
//! Kept true: one task reads, queues and applies, so nothing is read while something is applied, and no more than
//! [`BATCH_MAX`] events are ahead of the store.

use super::{Shared, Status};
use crate::moment::after;
use crate::{
    ApiError, BATCH_MAX, Change, Class, Delta, Gone, Heard, InformerError, Input, ListPage, Object,
    ObjectKey, OrderedQueue, Phase, Reflector, Todo, Unreadable, Use, WatchEvent, WatchFrom, WatchStream,
    pager::list_all,
    reflector::{Failure, Step},
    source::Source,
};
use futures::{FutureExt, StreamExt};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until};

/// While a state is awaited, how often that is complained of if nothing comes.
const SILENCE: Duration = Duration::from_secs(10);
/// How much longer than the server was told a watch may be silent.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct Part<O: Object> {
    pub(super) shared: Arc<Shared<O>>,
    pub(super) number: usize,
    pub(super) namespace: Option<String>,
    pub(super) source: Arc<dyn Source<O>>,
    pub(super) reflector: Reflector,
    pub(super) queue: OrderedQueue<O>,
    /// What came of a state that is being sent.
    pub(super) collected: BTreeMap<ObjectKey, Arc<O>>,
    pub(super) is_synced: bool,
    /// When to look who is to be told once more; counted from the last whole state, over any number of watches.
    pub(super) resync: Option<Instant>,
    /// A state that a watch sent and that is to be compared with a list.
    pub(super) unverified: Option<(String, Versions)>,
    /// Why the state would have to be asked for anew.
    pub(super) cause: &'static str,
}

/// Which objects there are, and at which version each.
type Versions = BTreeMap<ObjectKey, String>;

/// When to look up from reading.
struct Timers {
    idle: Duration,
    last_heard: Instant,
    /// While a state is awaited.
    silence: Option<Instant>,
}

impl Timers {
    fn next(&self, resync: Option<Instant>) -> Instant {
        let others = resync.into_iter().chain(self.silence);
        others.fold(after(self.last_heard, self.idle), Instant::min)
    }
}

impl<O: Object> Part<O> {
    /// Goes on for ever.
    pub(super) async fn run(mut self) {
        let mut input = Input::Ready;
        let mut watch = None;
        loop {
            let cause = cause(&input);
            let step = self.reflector.step(Instant::now(), input);
            self.shared.heard_up_to(self.number, self.reflector.last_version());
            self.count_relist(cause, &step);
            match step.failure {
                Some(failure) => self.failed(failure, &step.todo),
                // Nothing is wrong, but what was missed has to be listed.
                None if matches!(step.todo, Todo::Wait(_)) => self.listing(),
                None => {}
            }
            input = match step.todo {
                Todo::List { version, page_size } => {
                    watch = None;
                    self.list(version, page_size).await
                }
                Todo::Watch(from) => self.open(from, &mut watch).await,
                Todo::Read => match &mut watch {
                    Some((stream, timeout)) => self.read(stream, *timeout).await,
                    None => Input::Ended,
                },
                Todo::Wait(delay) => {
                    watch = None;
                    sleep(delay).await;
                    Input::Ready
                }
            };
        }
    }

    /// Counts if a state that was known is asked for anew, and why.
    fn count_relist(&mut self, cause: Option<&'static str>, step: &Step) {
        let failure = step.failure.as_ref().map(|failure| failure.error.class.as_str());
        self.cause = failure.or(cause).unwrap_or(self.cause);
        let is_list = matches!(&step.todo, Todo::List { .. } | Todo::Watch(WatchFrom { initial: true, .. }));
        if is_list && self.is_synced {
            self.shared.stats.relists(self.cause);
        }
    }

    /// Lists what a watch sent as the state, if that was asked for, and complains if it is something else.
    async fn verify(&mut self) {
        let Some((version, sent)) = self.unverified.take() else { return };
        let exactly =
            ListPage { version: Some(version.clone()), version_match: Some("Exact"), ..ListPage::default() };
        let listed = match list_all(&*self.source, exactly, |object| object).await {
            Ok(listed) => listed.objects,
            Err(error) => return tracing::debug!(%error, "a state that a watch sent cannot be verified"),
        };
        let listed: Versions =
            listed.iter().map(|object| (object.key(), object.revision().to_owned())).collect();
        if sent != listed {
            let message =
                format!("a watch sent another state than is listed at {version}: {sent:?}, not {listed:?}");
            self.report(Phase::Stream, ApiError::new(Class::Other, message), None, 1, None);
        }
    }

    async fn list(&mut self, version: Option<String>, page_size: u32) -> Input {
        self.collected = BTreeMap::new();
        self.listing();
        let first = ListPage { version, limit: page_size, ..ListPage::default() };
        let started = Instant::now();
        let store = self.shared.store.clone();
        let listed = match list_all(&*self.source, first, |object| known(&store, object)).await {
            Ok(listed) => listed,
            Err(error) => return Input::Failed(error),
        };
        let listed_at = Instant::now();
        self.shared.stats.listed(listed_at.duration_since(started), listed.objects.len());
        let mut objects = Vec::with_capacity(listed.objects.len());
        for object in listed.objects {
            let object = match self.prepared_once(object) {
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
        self.shared.status.state_known(self.number, &listed.version, self.reflector.last_version());
        self.queue.replace_all(listed.version.clone(), objects);
        self.apply(listed_at);
        self.resync = self.next_resync(Instant::now());
        Input::Listed { version: listed.version, is_paginated: listed.is_paginated }
    }

    async fn open(&mut self, from: WatchFrom, watch: &mut Option<(WatchStream<O>, Duration)>) -> Input {
        self.collected.clear();
        *watch = None;
        if from.initial {
            self.resync = None;
            self.listing();
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

    /// Reads until the watch ends, or nothing came for too long.
    async fn read(&mut self, stream: &mut WatchStream<O>, timeout: Duration) -> Input {
        let opened = Instant::now();
        let idle =
            self.shared.reflector.idle_timeout.unwrap_or(Duration::MAX).min(timeout.saturating_add(GRACE));
        let silence = self.reflector.is_listing().then(|| opened + SILENCE);
        let mut timers = Timers { idle, last_heard: opened, silence };
        let alarm = sleep_until(timers.next(self.resync));
        tokio::pin!(alarm);
        let input = loop {
            tokio::select! {
                biased;
                event = stream.next() => {
                    timers.last_heard = Instant::now();
                    self.shared.stats.heard_at(timers.last_heard);
                    let ended = self.take_all(event, stream);
                    self.apply(timers.last_heard);
                    if let Some(input) = ended {
                        break input;
                    }
                    self.verify().await;
                }
                () = &mut alarm => {}
            }
            if self.is_over(&mut timers, opened) {
                tracing::info!(silent = ?timers.idle, "nothing came from a watch for too long: it is opened anew");
                break Input::Ended;
            }
            let next = timers.next(self.resync);
            if alarm.is_elapsed() || next < alarm.deadline() {
                alarm.as_mut().reset(next);
            }
        };
        self.shared.stats.watch_ended(opened.elapsed());
        input
    }

    /// Takes an event, and whatever else is there already. Returns how the watch ended, if it did.
    fn take_all(
        &mut self,
        first: Option<Result<WatchEvent<O>, ApiError>>,
        stream: &mut WatchStream<O>,
    ) -> Option<Input> {
        let mut event = first;
        for taken in 1.. {
            match event {
                Some(Ok(event)) => self.take(event),
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

    /// Whether the watch has been silent for too long. Does whatever else is due.
    fn is_over(&mut self, timers: &mut Timers, opened: Instant) -> bool {
        let now = Instant::now();
        if timers.silence.is_some_and(|due| due <= now) {
            timers.silence = self.reflector.is_listing().then(|| now + SILENCE);
            if timers.silence.is_some() && now.duration_since(timers.last_heard) >= SILENCE {
                let waited = now.duration_since(opened);
                tracing::warn!(?waited, "the server has not sent the whole state yet, and nothing comes");
            }
        }
        if self.resync.is_some_and(|due| due <= now) {
            self.resync = self.next_resync(now);
            let listeners = self.shared.processor.due(now);
            if !listeners.is_empty() {
                self.shared.stats.resynced();
                self.queue.sync_all(listeners);
                self.apply(now);
            }
        }
        after(timers.last_heard, timers.idle) <= now
    }

    fn next_resync(&self, now: Instant) -> Option<Instant> {
        let period = self.shared.processor.check_period();
        (!period.is_zero()).then(|| after(now, period))
    }

    fn take(&mut self, event: WatchEvent<O>) {
        match event {
            WatchEvent::Added(object) => self.heard(Change::Added, object),
            WatchEvent::Modified(object) => self.heard(Change::Modified, object),
            WatchEvent::Deleted(object) => self.heard(Change::Deleted, object),
            WatchEvent::Bookmark { version, ends_initial } => self.bookmark(version, ends_initial),
            WatchEvent::Foreign(what) => tracing::warn!(%what, "a watch sent something of another kind"),
            WatchEvent::Unreadable(unreadable) => self.heard_unreadable(unreadable),
        }
    }

    fn heard(&mut self, change: Change, object: Arc<O>) {
        let usage = self.reflector.hear(heard_as(change), object.revision());
        self.shared.stats.heard();
        let key = key_of(&*object);
        let object = match self.prepared(object) {
            Ok(object) => object,
            Err(error) => {
                self.not_kept(usage, change, key.as_ref());
                return self.report(Phase::Transform, error, key, 1, None);
            }
        };
        let Some(key) = key_of(&*object) else { return self.unreadable(nameless(&*object)) };
        match (usage, change) {
            (Use::Collect, Change::Deleted) => drop(self.collected.remove(&key)),
            (Use::Collect, _) => {
                let object = known(&self.shared.store, object);
                self.collected.insert(key, object);
            }
            (Use::Apply | Use::Complete, change) => self.queue.push(key, delta(change, object)),
        }
    }

    fn heard_unreadable(&mut self, unreadable: Unreadable) {
        let change = unreadable.change.unwrap_or(Change::Modified);
        let usage = self.reflector.hear(heard_as(change), &unreadable.version);
        self.not_kept(usage, change, unreadable.key.as_ref());
        self.unreadable(unreadable);
    }

    /// Something happened to an object, and what it is now cannot be kept: it stays what it was, unless it is gone.
    fn not_kept(&mut self, usage: Use, change: Change, key: Option<&ObjectKey>) {
        let Some(key) = key.cloned() else { return };
        let last = self.shared.store.get(key.clone());
        match (usage, change, last) {
            (Use::Collect, Change::Deleted, _) => drop(self.collected.remove(&key)),
            (Use::Collect, _, Some(last)) => {
                self.collected.entry(key).or_insert(last);
            }
            (Use::Apply | Use::Complete, Change::Deleted, last) => {
                self.queue.push(key.clone(), Delta::Deleted(Gone::Missed(key, last)));
            }
            _ => {}
        }
    }

    fn bookmark(&mut self, version: String, ends_initial: bool) {
        self.shared.stats.heard();
        let before = self.reflector.last_version().to_owned();
        match self.reflector.hear(Heard::Bookmark { ends_initial }, &version) {
            Use::Collect => {}
            Use::Apply => self.queue.bookmark(version),
            Use::Complete => {
                let objects: Vec<_> = std::mem::take(&mut self.collected).into_iter().collect();
                self.shared.stats.listed_by_watch(objects.len());
                if self.shared.verifies_states {
                    let sent =
                        objects.iter().map(|(key, object)| (key.clone(), object.revision().to_owned()));
                    self.unverified = Some((version.clone(), sent.collect()));
                }
                let now = Instant::now();
                self.shared.status.state_known(self.number, &version, &before);
                self.queue.replace_all(version.clone(), objects);
                self.apply(now);
                self.resync = self.next_resync(now);
                self.shared.status.set(self.number, Status::Synced { version });
            }
        }
    }

    /// Changes an object as it shall be kept, unless it is one that is kept already.
    fn prepared_once(&self, object: Arc<O>) -> Result<Arc<O>, ApiError> {
        let is_kept = |object: &Arc<O>| {
            self.shared.store.get(object.key()).is_some_and(|kept| Arc::ptr_eq(&kept, object))
        };
        if self.shared.transform.is_none() || is_kept(&object) { Ok(object) } else { self.prepared(object) }
    }

    /// Changes an object that just came as it shall be kept.
    fn prepared(&self, mut object: Arc<O>) -> Result<Arc<O>, ApiError> {
        let Some(transform) = &self.shared.transform else { return Ok(object) };
        let Some(own) = Arc::get_mut(&mut object) else {
            let message = "the source holds on to an object, so it cannot be transformed";
            return Err(ApiError::new(Class::Client, message));
        };
        match catch_unwind(AssertUnwindSafe(|| transform(own))) {
            Ok(()) => Ok(object),
            Err(_) => Err(ApiError::new(Class::Client, "the transform of the informer panicked")),
        }
    }

    /// What is known of an object that cannot be read now: better than nothing, and it is not gone.
    fn last_readable(&self, unreadable: &Unreadable) -> Option<(ObjectKey, Arc<O>)> {
        let key = unreadable.key.clone()?;
        self.shared.store.get(key.clone()).map(|object| (key, object))
    }

    /// Applies what is queued, the first of which was read at that time.
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
        self.shared.heard_up_to(self.number, self.reflector.last_version());
        if !self.is_synced && self.queue.has_synced() {
            self.is_synced = true;
            self.shared.processor.part_synced(self.number);
        }
    }

    fn listing(&self) {
        // What goes wrong is shown until it goes well.
        if !matches!(self.shared.status.of(self.number), Status::Retrying { .. }) {
            self.shared.status.set(self.number, Status::Listing);
        }
    }

    fn unreadable(&self, unreadable: Unreadable) {
        let error = ApiError::new(Class::Unreadable, unreadable.message);
        self.report(Phase::Decode, error, unreadable.key, 1, None);
    }

    fn failed(&self, failure: Failure, todo: &Todo) {
        let delay = match todo {
            Todo::Wait(delay) => Some(*delay),
            Todo::Watch(_) => Some(Duration::ZERO),
            Todo::List { .. } | Todo::Read => None,
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

/// The key of an object that can be kept.
fn key_of(object: &impl Object) -> Option<ObjectKey> {
    Some(object.key()).filter(|key| !key.name.is_empty())
}

fn nameless(object: &impl Object) -> Unreadable {
    let version = object.revision().to_owned();
    Unreadable { change: None, key: None, version, message: "an object has no name".to_owned() }
}

fn heard_as(change: Change) -> Heard {
    if change == Change::Added { Heard::Added } else { Heard::Changed }
}

fn delta<O>(change: Change, object: Arc<O>) -> Delta<O> {
    match change {
        Change::Added => Delta::Added(object),
        Change::Modified => Delta::Updated(object),
        Change::Deleted => Delta::Deleted(Gone::Seen(object)),
    }
}

/// Why a state would have to be asked for anew after this, as metrics name it. A wait is no reason.
fn cause(input: &Input) -> Option<&'static str> {
    match input {
        Input::Ready => None,
        Input::Failed(error) => Some(error.class.as_str()),
        Input::Listed { .. } | Input::Opened | Input::Ended => Some("ended"),
    }
}

/// If this very state of an object is kept already, then that, so that it is not kept twice.
fn known<O: Object>(store: &crate::Store<O>, object: Arc<O>) -> Arc<O> {
    match store.get(object.key()) {
        Some(kept) if kept.is_same(&object) => kept,
        _ => object,
    }
}
