//! Watchers, which read events while other clients write.
//!
//! Kept true: a watch that ends is resumed from its last version, as clients do; only if that is not possible any more
//! does the watcher list, and the events that it missed then are counted as lost.

use crate::{
    Failure,
    cluster::RequestError,
    delivery::{Digest, Received},
    events::{EventType, Events, WatchEvent, version_in},
    latency::Latencies,
    results::Check,
    run::{Run, UsageSnapshot},
};
use futures::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// The number of watches that are opened at a time, where opening is not what is measured.
const OPENING_MAX: usize = 32;
/// The time that it may take until all have received everything, counted from the last event.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// The time between two checks whether they have.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The time in which an extra event would arrive.
const EXTRA_EVENTS_WAIT: Duration = Duration::from_millis(100);
/// The lateness from which an event counts as late.
pub(crate) const LATE_AFTER: Duration = Duration::from_secs(1);
/// The pause before a watch is opened again.
const REOPEN_DELAY: Duration = Duration::from_millis(100);

/// Some watchers, until they are dropped.
pub(crate) struct Watchers {
    run: Arc<Run>,
    watchers: Vec<Watcher>,
    /// Once it is cancelled, slow ones read as fast as they can.
    slow: CancellationToken,
    /// The latency of opening each of them.
    pub(crate) opened: Arc<Latencies>,
}

struct Watcher {
    state: Arc<Mutex<State>>,
    _reading: AbortOnDropHandle<()>,
}

/// The progress of one watcher.
#[derive(Clone, Debug, Default)]
struct State {
    received: Received,
    cuts: u64,
    late: u64,
    relisted: u64,
}

/// The number of watchers, and their options.
#[derive(Clone)]
pub(crate) struct WatcherOptions {
    /// The selector of each watcher.
    pub(crate) selectors: Vec<String>,
    /// The version to watch from.
    pub(crate) from: u64,
    pub(crate) reading: Reading,
    /// The number of watches that are opened at a time.
    pub(crate) at_once: usize,
    /// The number of events that each has missed. If set, the time until a watcher has received them is recorded
    /// instead of the lateness of each event.
    pub(crate) missed: Option<u64>,
    /// The lateness of events.
    pub(crate) latencies: Arc<Latencies>,
}

/// The pace at which each of them reads, until [`Watchers::catch_up`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    AsFastAsPossible,
    BytesPerSecond(f64),
    /// It does not read at all.
    Stalled,
}

impl WatcherOptions {
    /// So many watchers of all objects, from a version on.
    pub(crate) fn all_objects(count: usize, from: u64, latencies: &Arc<Latencies>) -> Self {
        WatcherOptions {
            selectors: vec![String::new(); count],
            from,
            reading: Reading::AsFastAsPossible,
            at_once: OPENING_MAX,
            missed: None,
            latencies: Arc::clone(latencies),
        }
    }
}

impl Watchers {
    /// All of them are open when this returns.
    pub(crate) async fn open(run: &Arc<Run>, options: WatcherOptions) -> Result<Self, Failure> {
        let (slow, opened) = (CancellationToken::new(), Arc::new(Latencies::default()));
        let WatcherOptions { selectors, from, reading, at_once, missed, latencies } = options;
        let opening = selectors.into_iter().enumerate().map(|(number, selector)| {
            let (run, slow, latencies) = (Arc::clone(run), slow.clone(), Arc::clone(&latencies));
            let opened = Arc::clone(&opened);
            async move {
                let path = path(&run, &selector);
                let began = Instant::now();
                let events = run.cluster.watch(&at(&path, from)).await?;
                opened.record(number, began.elapsed().as_micros() as u64);
                let state = State { received: Received::after(from), ..State::default() };
                let state = Arc::new(Mutex::new(state));
                let reader = Reader {
                    prefix: run.objects.prefix(),
                    run,
                    number,
                    path,
                    state: Arc::clone(&state),
                    reading,
                    slow,
                    since: began,
                    missed,
                    latencies,
                };
                let reading = AbortOnDropHandle::new(tokio::spawn(reader.read(events)));
                Ok::<_, Failure>(Watcher { state, _reading: reading })
            }
        });
        let watchers = stream::iter(opening).buffered(at_once.max(1)).try_collect().await?;
        Ok(Watchers { run: Arc::clone(run), watchers, slow, opened })
    }

    pub(crate) fn len(&self) -> usize {
        self.watchers.len()
    }

    /// Slow ones read on as fast as they can.
    pub(crate) fn catch_up(&self) {
        self.slow.cancel();
    }

    /// Waits until each has received what was written for it, or no more events arrive. Returns the time of the last
    /// event.
    pub(crate) async fn until_delivered(&self, written: impl Fn(usize) -> Digest) -> UsageSnapshot {
        let is_wrong = |(number, watcher): (usize, &Watcher)| {
            watcher.state.lock().received.fault(&written(number)).is_some()
        };
        let (mut received, mut last) = (self.received(), self.run.now());
        loop {
            let patience = if self.watchers.iter().enumerate().any(is_wrong) {
                DELIVERY_TIMEOUT
            } else {
                EXTRA_EVENTS_WAIT
            };
            sleep(POLL_INTERVAL).await;
            let now_heard = self.received();
            if now_heard != received {
                (received, last) = (now_heard, self.run.now());
            } else if last.at.elapsed() > patience || self.run.stop.is_cancelled() {
                return last;
            }
        }
    }

    /// The number of events that all of them received.
    pub(crate) fn received(&self) -> u64 {
        self.sum(|state| state.received.digest.total())
    }

    /// The number of watches that the server ended.
    pub(crate) fn cuts(&self) -> u64 {
        self.sum(|state| state.cuts)
    }

    /// The number of events that were later than [`LATE_AFTER`].
    pub(crate) fn late(&self) -> u64 {
        self.sum(|state| state.late)
    }

    /// The number of changed objects that lists contained instead of events.
    pub(crate) fn relisted(&self) -> u64 {
        self.sum(|state| state.relisted)
    }

    fn sum(&self, of: impl Fn(&State) -> u64) -> u64 {
        self.watchers.iter().map(|watcher| of(&watcher.state.lock())).sum()
    }

    /// Whether each received what was written for it: all of it, once, in order.
    pub(crate) fn check(&self, claim: &str, written: impl Fn(usize) -> Digest) -> Check {
        let faults: Vec<String> = self
            .watchers
            .iter()
            .enumerate()
            .filter_map(|(number, watcher)| {
                let fault = watcher.state.lock().received.fault(&written(number))?;
                Some(format!("watcher {number}: {fault}"))
            })
            .collect();
        Check {
            claim: claim.to_owned(),
            checked: self.received(),
            faults: faults.len() as u64,
            first_fault: faults.into_iter().next(),
        }
    }
}

fn path(run: &Run, selector: &str) -> String {
    let mut path = format!("{}?watch=true&allowWatchBookmarks=true", run.objects.all());
    if !selector.is_empty() {
        path = format!("{path}&labelSelector={selector}");
    }
    path
}

fn at(path: &str, version: u64) -> String {
    format!("{path}&resourceVersion={version}")
}

/// Reads one watch, until the task is aborted.
struct Reader {
    run: Arc<Run>,
    number: usize,
    path: String,
    prefix: String,
    state: Arc<Mutex<State>>,
    reading: Reading,
    slow: CancellationToken,
    /// When it came.
    since: Instant,
    missed: Option<u64>,
    latencies: Arc<Latencies>,
}

impl Reader {
    async fn read(self, mut events: Events) {
        if let Reading::Stalled = self.reading {
            self.slow.cancelled().await;
        }
        loop {
            let mut is_expired = false;
            let read = events.read(|event| is_expired |= self.receive(&event)).await;
            match read {
                Ok(bytes) if bytes > 0 && !is_expired => self.pace(bytes).await,
                _ => {
                    self.state.lock().cuts += 1;
                    events = self.reopen(is_expired).await;
                }
            }
        }
    }

    /// Returns whether the watch cannot be resumed.
    fn receive(&self, event: &WatchEvent<'_>) -> bool {
        if event.event_type == EventType::Expired {
            return true;
        }
        if event.event_type == EventType::Bookmark || event.name.starts_with(&self.prefix) {
            let mut state = self.state.lock();
            state.received.receive(event);
            match self.missed {
                Some(missed)
                    if event.event_type != EventType::Bookmark && state.received.digest.total() == missed =>
                {
                    self.latencies.record(self.number, self.since.elapsed().as_micros() as u64);
                }
                None if event.event_type == EventType::Changed => self.note_lateness(&mut state, event.sent),
                _ => {}
            }
            self.run.sampler.done(1);
        }
        false
    }

    fn note_lateness(&self, state: &mut State, sent: Option<u64>) {
        let Some(sent) = sent else { return };
        let micros = self.run.objects.at(std::time::Instant::now()).saturating_sub(sent);
        state.late += u64::from(micros > LATE_AFTER.as_micros() as u64);
        self.latencies.record(self.number, micros);
    }

    async fn pace(&self, bytes: usize) {
        let Reading::BytesPerSecond(rate) = self.reading else { return };
        let pause = Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        // Ends early if the watcher may read as fast as it can.
        let _ = timeout(pause, self.slow.cancelled()).await;
    }

    /// Resumes the watch, or lists and opens another if its version has expired.
    async fn reopen(&self, mut is_expired: bool) -> Events {
        loop {
            sleep(REOPEN_DELAY).await;
            if is_expired && self.list().await.is_err() {
                continue;
            }
            let version = self.state.lock().received.version;
            match timeout(DELIVERY_TIMEOUT, self.run.cluster.watch(&at(&self.path, version))).await {
                Ok(Ok(events)) => return events,
                Ok(Err(RequestError::Answer(StatusCode::GONE, _))) => is_expired = true,
                _ => is_expired = false,
            }
        }
    }

    /// Adds the objects that are newer than the last event. The states in between are lost.
    async fn list(&self) -> Result<(), Failure> {
        let path = self.path.replace("watch=true&allowWatchBookmarks=true", "");
        let list = self.run.cluster.connect().await?.get(&path).await?;
        let version = version_in(&list).ok_or_else(|| Failure::new("a list has no version"))?;
        let mut state = self.state.lock();
        let seen = state.received.version;
        // The version of an object follows its name.
        let needle = self.run.objects.needle();
        let own = memchr::memmem::find_iter(&list, &needle);
        let newer = own.filter(|at| version_in(&list[*at..]).is_some_and(|version| version > seen));
        state.relisted += newer.count() as u64;
        state.received.version = version;
        Ok(())
    }
}
