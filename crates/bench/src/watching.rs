//! Those who watch while others write.
//!
//! Kept true: a watch that ends is opened anew where it was, as clients do it; only if that is not possible any more is
//! something listed, and what was missed then is counted as lost.

use crate::{
    Failure,
    cluster::Refused,
    events::{Events, Told, What, version_in},
    latency::Latencies,
    results::Check,
    run::{Moment, Run},
    tally::{Heard, Tally},
};
use futures::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// How many watches are opened at a time, where that is not what is measured.
const OPENING_MAX: usize = 32;
/// How long it may take until all have heard everything, counted from the last event that came.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(5);
/// For how long it is looked whether more comes than should.
const SURPLUS: Duration = Duration::from_millis(100);
/// After what time an event is late.
pub(crate) const LATE: Duration = Duration::from_secs(1);
/// How long to wait before a watch is opened anew.
const REOPEN: Duration = Duration::from_millis(100);

/// Some watchers, until they are dropped.
pub(crate) struct Watchers {
    run: Arc<Run>,
    watchers: Vec<Watcher>,
    /// Slow ones read as fast as they can from now on.
    is_hurry: Arc<AtomicBool>,
    /// How long it took to open each of them.
    pub(crate) opened: Arc<Latencies>,
}

struct Watcher {
    state: Arc<Mutex<State>>,
    _reading: AbortOnDropHandle<()>,
}

/// What one has come to.
#[derive(Clone, Debug, Default)]
struct State {
    heard: Heard,
    cuts: u64,
    late: u64,
    relisted: u64,
}

/// Who watches what, and how.
#[derive(Clone)]
pub(crate) struct Audience {
    /// Which objects each watches.
    pub(crate) selectors: Vec<String>,
    /// From which version on.
    pub(crate) from: u64,
    /// How many bytes a second each reads at the most.
    pub(crate) bytes_per_second: Option<f64>,
    /// How many are opened at a time.
    pub(crate) at_once: usize,
    /// How many events each has missed. What counts then is how long it takes until it has them, not how late each is.
    pub(crate) missed: Option<u64>,
    /// How late events come.
    pub(crate) latencies: Arc<Latencies>,
}

impl Audience {
    /// So many who watch everything from a version on.
    pub(crate) fn of_everything(count: usize, from: u64, latencies: &Arc<Latencies>) -> Self {
        Audience {
            selectors: vec![String::new(); count],
            from,
            bytes_per_second: None,
            at_once: OPENING_MAX,
            missed: None,
            latencies: Arc::clone(latencies),
        }
    }
}

impl Watchers {
    /// All of them are open when this returns.
    pub(crate) async fn open(run: &Arc<Run>, audience: Audience) -> Result<Self, Failure> {
        let (is_hurry, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(Latencies::default()));
        let Audience { selectors, from, bytes_per_second, at_once, missed, latencies } = audience;
        let opening = selectors.into_iter().enumerate().map(|(number, selector)| {
            let (run, is_hurry, latencies) = (Arc::clone(run), Arc::clone(&is_hurry), Arc::clone(&latencies));
            let opened = Arc::clone(&opened);
            async move {
                let path = path(&selector);
                let began = Instant::now();
                let events = run.cluster.watch(&at(&path, from)).await?;
                opened.record(number, began.elapsed().as_micros() as u64);
                let state = State { heard: Heard::after(from), ..State::default() };
                let state = Arc::new(Mutex::new(state));
                let reader = Reader {
                    prefix: run.objects.prefix(),
                    run,
                    number,
                    path,
                    state: Arc::clone(&state),
                    bytes_per_second,
                    is_hurry,
                    since: began,
                    missed,
                    latencies,
                };
                let reading = AbortOnDropHandle::new(tokio::spawn(reader.read(events)));
                Ok::<_, Failure>(Watcher { state, _reading: reading })
            }
        });
        let watchers = stream::iter(opening).buffered(at_once.max(1)).try_collect().await?;
        Ok(Watchers { run: Arc::clone(run), watchers, is_hurry, opened })
    }

    pub(crate) fn len(&self) -> usize {
        self.watchers.len()
    }

    /// Slow ones read on as fast as they can.
    pub(crate) fn hurry(&self) {
        self.is_hurry.store(true, Relaxed);
    }

    /// Waits until each has heard what was written for it, or nothing more comes, and says when the last event came.
    pub(crate) async fn settle(&self, written: impl Fn(usize) -> Tally) -> Moment {
        let is_wrong = |(number, watcher): (usize, &Watcher)| {
            watcher.state.lock().heard.fault(&written(number)).is_some()
        };
        let (mut heard, mut last) = (self.heard(), self.run.now());
        loop {
            let patience = if self.watchers.iter().enumerate().any(is_wrong) { PATIENCE } else { SURPLUS };
            sleep(LOOK).await;
            let now_heard = self.heard();
            if now_heard != heard {
                (heard, last) = (now_heard, self.run.now());
            } else if last.at.elapsed() > patience || self.run.stop.is_cancelled() {
                return last;
            }
        }
    }

    /// How many events came to all of them.
    pub(crate) fn heard(&self) -> u64 {
        self.sum(|state| state.heard.tally.total())
    }

    /// How often a watch ended by itself.
    pub(crate) fn cuts(&self) -> u64 {
        self.sum(|state| state.cuts)
    }

    /// How many events came later than [`LATE`].
    pub(crate) fn late(&self) -> u64 {
        self.sum(|state| state.late)
    }

    /// How many changed objects were found by lists instead of events.
    pub(crate) fn relisted(&self) -> u64 {
        self.sum(|state| state.relisted)
    }

    fn sum(&self, of: impl Fn(&State) -> u64) -> u64 {
        self.watchers.iter().map(|watcher| of(&watcher.state.lock())).sum()
    }

    /// Whether each heard what was written for it: all of it, once, in order.
    pub(crate) fn check(&self, claim: &str, written: impl Fn(usize) -> Tally) -> Check {
        let faults: Vec<String> = self
            .watchers
            .iter()
            .enumerate()
            .filter_map(|(number, watcher)| {
                let fault = watcher.state.lock().heard.fault(&written(number))?;
                Some(format!("watcher {number}: {fault}"))
            })
            .collect();
        Check {
            claim: claim.to_owned(),
            checked: self.heard(),
            faults: faults.len() as u64,
            first_fault: faults.into_iter().next(),
        }
    }
}

fn path(selector: &str) -> String {
    let mut path = "/api/v1/configmaps?watch=true&allowWatchBookmarks=true".to_owned();
    if !selector.is_empty() {
        path = format!("{path}&labelSelector={selector}");
    }
    path
}

fn at(path: &str, version: u64) -> String {
    format!("{path}&resourceVersion={version}")
}

/// Reads one watch, for ever.
struct Reader {
    run: Arc<Run>,
    number: usize,
    path: String,
    prefix: String,
    state: Arc<Mutex<State>>,
    bytes_per_second: Option<f64>,
    is_hurry: Arc<AtomicBool>,
    /// When it came.
    since: Instant,
    missed: Option<u64>,
    latencies: Arc<Latencies>,
}

impl Reader {
    async fn read(self, mut events: Events) {
        loop {
            let mut is_expired = false;
            let read = events.read(|told| is_expired |= self.hear(&told)).await;
            match read {
                Ok(bytes) if bytes > 0 && !is_expired => self.slow_down(bytes).await,
                _ => {
                    self.state.lock().cuts += 1;
                    events = self.again(is_expired).await;
                }
            }
        }
    }

    /// Returns whether the watch cannot go on.
    fn hear(&self, told: &Told<'_>) -> bool {
        if told.what == What::Expired {
            return true;
        }
        if told.what == What::Bookmark || told.name.starts_with(&self.prefix) {
            let mut state = self.state.lock();
            state.heard.hear(told);
            match self.missed {
                Some(missed) if told.what != What::Bookmark && state.heard.tally.total() == missed => {
                    self.latencies.record(self.number, self.since.elapsed().as_micros() as u64);
                }
                None if told.what == What::Changed => self.note_lateness(&mut state, told.sent),
                _ => {}
            }
            self.run.sampler.done(1);
        }
        false
    }

    fn note_lateness(&self, state: &mut State, sent: Option<u64>) {
        let Some(sent) = sent else { return };
        let micros = self.run.objects.at(std::time::Instant::now()).saturating_sub(sent);
        state.late += u64::from(micros > LATE.as_micros() as u64);
        self.latencies.record(self.number, micros);
    }

    async fn slow_down(&self, bytes: usize) {
        let Some(rate) = self.bytes_per_second.filter(|_| !self.is_hurry.load(Relaxed)) else { return };
        let pause = Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.is_hurry.load(Relaxed) {
            sleep(LOOK.min(until.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Opens the watch again where it was, or after a list if that is not known any more.
    async fn again(&self, mut is_expired: bool) -> Events {
        loop {
            sleep(REOPEN).await;
            if is_expired && self.list().await.is_err() {
                continue;
            }
            let version = self.state.lock().heard.version;
            match timeout(PATIENCE, self.run.cluster.watch(&at(&self.path, version))).await {
                Ok(Ok(events)) => return events,
                Ok(Err(Refused::Answer(StatusCode::GONE, _))) => is_expired = true,
                _ => is_expired = false,
            }
        }
    }

    /// What is newer than what was heard is known from here on, but not how it came to be.
    async fn list(&self) -> Result<(), Failure> {
        let path = self.path.replace("watch=true&allowWatchBookmarks=true", "");
        let list = self.run.cluster.connect().await?.get(&path).await?;
        let version = version_in(&list).ok_or_else(|| Failure::new("a list has no version"))?;
        let mut state = self.state.lock();
        let seen = state.heard.version;
        // The version of an object stands behind its name.
        let needle = self.run.objects.needle();
        let own = memchr::memmem::find_iter(&list, &needle);
        let newer = own.filter(|at| version_in(&list[*at..]).is_some_and(|version| version > seen));
        state.relisted += newer.count() as u64;
        state.heard.version = version;
        Ok(())
    }
}
