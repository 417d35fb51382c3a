//! Decides which request comes next, so that no change is missed: list, watch or wait.
//!
//! The reflector is plain data and does no I/O. The caller reports the result of the last command to
//! [`Reflector::step`], which returns the next one, and passes every event to [`Reflector::observe`], which says how
//! to use it. The caller also provides the time.
//!
//! Invariants: the received changes are complete up to `last_version`, except while a list is streamed; the reflector
//! never requests a version older than one it has received, unless the server no longer has that version.

mod delta;
mod delta_fifo;

pub use delta::{DeletedObject, Delta};
pub use delta_fifo::{BATCH_MAX, Batch, DeltaFifo, Entry};

use crate::{
    backoff::{self, Backoff, BackoffPolicy, Random},
    error::{ApiError, Class, Phase},
    source::WatchFrom,
};
use std::time::Duration;
use tokio::time::Instant;

/// The options of a reflector.
#[derive(Clone, Debug)]
pub struct ReflectorOptions {
    /// The number of objects in a page of a list; the reflector decides if absent.
    pub page_size: Option<u32>,
    /// Whether the first list is streamed as watch events (`sendInitialEvents`).
    pub watch_list: bool,
    /// The minimum duration of a watch; the actual one is random, up to twice as long. At least five minutes.
    pub watch_timeout: Duration,
    /// A watch without events for this time counts as ended, if that is before its own timeout.
    pub idle_timeout: Option<Duration>,
    /// For how long internal errors inside a watch are retried at once, without backoff.
    pub internal_retry: Duration,
    /// The growth of waits after failures.
    pub backoff: BackoffPolicy,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        ReflectorOptions {
            page_size: None,
            watch_list: true,
            watch_timeout: WATCH_TIMEOUT_MIN,
            idle_timeout: None,
            internal_retry: Duration::ZERO,
            backoff: BackoffPolicy::default(),
        }
    }
}

/// The shortest duration of a watch.
const WATCH_TIMEOUT_MIN: Duration = Duration::from_secs(300);
/// The default page size.
pub const PAGE_SIZE: u32 = 500;
/// A watch that ends within this time without any event is a failure.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// Internal errors further apart than this do not belong to one series.
const INTERNAL_RUN: Duration = Duration::from_secs(60);

/// The state machine of list and watch.
#[derive(Debug)]
pub struct Reflector {
    options: ReflectorOptions,
    random: RandomSource,
    backoff: Backoff,
    activity: Activity,
    /// The newest version received; empty at first.
    last_version: String,
    /// Whether the server no longer has that version.
    is_unavailable: bool,
    /// Whether a list at version 0 came in pages, so that the server has no watch cache.
    was_paginated: bool,
    /// Whether the server rejected `sendInitialEvents`.
    is_watch_list_refused: bool,
    /// The first and the last internal error of a series.
    internal_errors: Option<(Instant, Instant)>,
    /// The number of consecutive failures.
    attempt: u32,
}

struct RandomSource(Random);

impl std::fmt::Debug for RandomSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RandomSource")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Nothing,
    /// Waits, and then continues with this.
    Waiting(AfterWait),
    Listing {
        page_size: u32,
        from_cache: bool,
        is_second_attempt: bool,
    },
    Watching(Watch),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterWait {
    Begin,
    Watch { initial: bool },
}

/// A watch that is open or being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watch {
    since: Instant,
    is_open: bool,
    /// Whether any event was received.
    has_events: bool,
    /// Whether the initial events are not complete yet.
    initial: bool,
    /// Whether the objects come unordered, as `ADDED` events at the start of a watch without a version do.
    is_unordered: bool,
}

/// The result of the last command.
#[derive(Debug)]
pub enum Input {
    /// There was no command yet, or the wait is over.
    Ready,
    /// A list was fetched and stored.
    Listed {
        /// The version of the list.
        version: String,
        /// Whether the list came in several pages.
        is_paginated: bool,
    },
    /// The watch is open.
    Opened,
    /// The watch ended without an error.
    Ended,
    /// The command failed.
    Failed(ApiError),
}

/// An instruction for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Fetch a list.
    List {
        /// The requested version; the newest if absent.
        version: Option<String>,
        /// The page size; 0 means one page.
        page_size: u32,
    },
    /// Open a watch, and drop the objects of an incomplete streamed list.
    Watch(WatchFrom),
    /// Read from the open watch.
    Read,
    /// Wait.
    Wait(Duration),
}

/// The next command, and a failure to report.
#[derive(Debug)]
pub struct Step {
    /// The next command.
    pub command: Command,
    /// The failure to report, if there is one.
    pub failure: Option<Failure>,
}

/// A failed request or watch.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The step that failed.
    pub phase: Phase,
    /// The error.
    pub error: ApiError,
    /// The number of consecutive failures.
    pub attempt: u32,
}

/// The type of a watch event, as far as the reflector needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The event is `ADDED`.
    Added,
    /// The event is `MODIFIED` or `DELETED`, or its object is unreadable.
    Changed,
    /// The event is a bookmark.
    Bookmark {
        /// Whether the bookmark ends the initial events.
        ends_initial: bool,
    },
}

/// The use of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It belongs to a streamed list that is not complete yet.
    Collect,
    /// The streamed list is complete and replaces the store.
    Complete,
    /// It is a change to apply to the store.
    Apply,
}

impl Reflector {
    /// A reflector that has not received anything yet.
    pub fn new(options: ReflectorOptions) -> Self {
        Self::with_random(options, backoff::random)
    }

    /// The same, with its own source of randomness.
    pub fn with_random(options: ReflectorOptions, random: impl Fn() -> Random) -> Self {
        Reflector {
            backoff: Backoff::with_random(options.backoff, random()),
            random: RandomSource(random()),
            options,
            activity: Activity::Nothing,
            last_version: String::new(),
            is_unavailable: false,
            was_paginated: false,
            is_watch_list_refused: false,
            internal_errors: None,
            attempt: 0,
        }
    }

    /// The newest version received; empty before the first list.
    pub fn last_version(&self) -> &str {
        &self.last_version
    }

    /// Whether a list is being fetched or streamed.
    pub(crate) fn is_listing(&self) -> bool {
        match self.activity {
            Activity::Listing { .. } => true,
            Activity::Watching(watch) => watch.initial,
            Activity::Nothing | Activity::Waiting(_) => false,
        }
    }

    /// Takes the result of the last command and returns the next one.
    pub fn step(&mut self, now: Instant, input: Input) -> Step {
        match (input, self.activity) {
            (Input::Ready, Activity::Waiting(AfterWait::Watch { initial })) => {
                self.watch(now, initial).into()
            }
            (Input::Ready, _) => self.begin(now).into(),
            (Input::Listed { version, is_paginated }, activity) => {
                let from_cache = matches!(activity, Activity::Listing { from_cache: true, .. });
                self.was_paginated |= is_paginated && from_cache;
                self.list_complete(version);
                self.watch(now, false).into()
            }
            (Input::Opened, _) => {
                if let Activity::Watching(watch) = &mut self.activity {
                    watch.is_open = true;
                }
                Command::Read.into()
            }
            (Input::Ended, Activity::Watching(watch)) => self.ended(now, watch),
            (Input::Failed(error), Activity::Listing { page_size, is_second_attempt, .. }) => {
                self.list_failed(now, error, page_size, is_second_attempt)
            }
            (Input::Failed(error), Activity::Watching(watch)) => self.watch_failed(now, error, watch),
            (Input::Ended | Input::Failed(_), _) => self.begin(now).into(),
        }
    }

    /// Takes a watch event and returns how to use it.
    pub fn observe(&mut self, event: EventKind, version: &str) -> Disposition {
        let Activity::Watching(watch) = &mut self.activity else { return Disposition::Apply };
        watch.has_events = true;
        if watch.initial {
            if event != (EventKind::Bookmark { ends_initial: true }) {
                return Disposition::Collect;
            }
            watch.initial = false;
            watch.is_unordered = false;
            self.list_complete(version.to_owned());
            return Disposition::Complete;
        }
        self.attempt = 0;
        watch.is_unordered &= event == EventKind::Added;
        if !watch.is_unordered && !version.is_empty() && self.last_version != version {
            version.clone_into(&mut self.last_version);
        }
        Disposition::Apply
    }

    fn list_complete(&mut self, version: String) {
        self.is_unavailable = false;
        self.attempt = 0;
        self.last_version = version;
    }

    fn begin(&mut self, now: Instant) -> Command {
        if self.options.watch_list && !self.is_watch_list_refused {
            self.watch(now, true)
        } else {
            self.list()
        }
    }

    fn list(&mut self) -> Command {
        let version = match self.last_version.as_str() {
            _ if self.is_unavailable => None,
            "" => Some("0".to_owned()),
            last => Some(last.to_owned()),
        };
        let from_cache = version.as_deref() == Some("0");
        let page_size = match self.options.page_size {
            Some(page_size) => page_size,
            // Without a limit the server can answer from its watch cache.
            None if !self.was_paginated && version.is_some() && !from_cache => 0,
            None => PAGE_SIZE,
        };
        self.activity = Activity::Listing { page_size, from_cache, is_second_attempt: false };
        Command::List { version, page_size }
    }

    fn watch(&mut self, now: Instant, initial: bool) -> Command {
        let version = if initial && self.is_unavailable { String::new() } else { self.last_version.clone() };
        let is_unordered = matches!(version.as_str(), "" | "0");
        let watch = Watch { since: now, is_open: false, has_events: false, initial, is_unordered };
        self.activity = Activity::Watching(watch);
        let shortest = self.options.watch_timeout.max(WATCH_TIMEOUT_MIN).as_secs_f64();
        let seconds = (shortest * (1.0 + (self.random.0)())) as u64;
        // Servers accept no larger number.
        let timeout = Duration::from_secs(seconds.min(i32::MAX as u64));
        Command::Watch(WatchFrom { version, initial, timeout })
    }

    fn list_failed(
        &mut self,
        now: Instant,
        error: ApiError,
        page_size: u32,
        is_second_attempt: bool,
    ) -> Step {
        if !error.class.is_version_unavailable() {
            return self.end(now, Phase::List, error);
        }
        self.is_unavailable = true;
        if is_second_attempt {
            return self.end(now, Phase::List, error);
        }
        self.activity = Activity::Listing { page_size, from_cache: false, is_second_attempt: true };
        Command::List { version: None, page_size }.into()
    }

    fn ended(&mut self, now: Instant, watch: Watch) -> Step {
        if watch.has_events || now.duration_since(watch.since) >= VERY_SHORT {
            return self.watch(now, watch.initial).into();
        }
        let error =
            ApiError::new(Class::VeryShort, "very short watch: it ended without any event within a second");
        if watch.initial {
            return self.fall_back(Phase::Stream, error);
        }
        self.end(now, Phase::Stream, error)
    }

    fn watch_failed(&mut self, now: Instant, error: ApiError, watch: Watch) -> Step {
        let phase = if watch.is_open { Phase::Stream } else { Phase::Open };
        match error.class {
            Class::Interrupted => {
                let step = self.ended(now, watch);
                let is_reported = watch.is_open || step.failure.is_some();
                let failure = if is_reported { step.failure } else { Some(self.failure(phase, error)) };
                Step { failure, ..step }
            }
            class if class.is_busy() => {
                self.wait(now, AfterWait::Watch { initial: watch.initial }, phase, error)
            }
            class if watch.initial && class.is_version_unavailable() => {
                if self.is_unavailable {
                    // The newest version was requested already, so an immediate retry would not help.
                    return self.wait(now, AfterWait::Watch { initial: true }, phase, error);
                }
                self.is_unavailable = true;
                self.watch(now, true).into()
            }
            class if watch.initial => {
                self.is_watch_list_refused |= class == Class::Rejected;
                self.fall_back(phase, error)
            }
            Class::Internal | Class::Unreadable if watch.is_open && self.is_internal_error_forgiven(now) => {
                self.watch(now, false).into()
            }
            Class::Expired | Class::Gone if watch.is_open => {
                // An expired watch is no failure: the next list contains the missed changes.
                Step { failure: None, ..self.end(now, phase, error) }
            }
            _ => self.end(now, phase, error),
        }
    }

    fn is_internal_error_forgiven(&mut self, now: Instant) -> bool {
        let first = match self.internal_errors {
            Some((first, last)) if now.duration_since(last) <= INTERNAL_RUN => first,
            _ => now,
        };
        self.internal_errors = Some((first, now));
        let budget = self.options.internal_retry;
        !budget.is_zero() && now.duration_since(first) <= budget
    }

    /// The list cannot be streamed, so it is requested.
    fn fall_back(&mut self, phase: Phase, error: ApiError) -> Step {
        let failure = (error.class != Class::Rejected).then(|| self.failure(phase, error));
        Step { command: self.list(), failure }
    }

    fn end(&mut self, now: Instant, phase: Phase, error: ApiError) -> Step {
        self.wait(now, AfterWait::Begin, phase, error)
    }

    fn wait(&mut self, now: Instant, then: AfterWait, phase: Phase, error: ApiError) -> Step {
        let delay = self.backoff.next(now).max(error.retry_after.unwrap_or_default());
        self.activity = Activity::Waiting(then);
        Step { command: Command::Wait(delay), failure: Some(self.failure(phase, error)) }
    }

    fn failure(&mut self, phase: Phase, error: ApiError) -> Failure {
        self.attempt = self.attempt.saturating_add(1);
        Failure { phase, error, attempt: self.attempt }
    }
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        Step { command, failure: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(shortest: u64, random: f64) -> u64 {
        let watch_timeout = Duration::from_secs(shortest);
        let options = ReflectorOptions { watch_timeout, ..ReflectorOptions::default() };
        let mut reflector = Reflector::with_random(options, || Box::new(move || random));
        match reflector.step(Instant::now(), Input::Ready).command {
            Command::Watch(from) => from.timeout.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    /// WT-1.
    #[tokio::test(start_paused = true)]
    async fn a_watch_lasts_between_five_and_ten_minutes_or_longer_if_configured() {
        assert_eq!((timeout(300, 0.0), timeout(300, 0.5), timeout(300, 0.9999)), (300, 450, 599));
        assert_eq!((timeout(10, 0.0), timeout(600, 0.5)), (300, 900), "five minutes is the minimum");
    }

    /// ER-3: errors that are far apart do not belong to one series.
    #[tokio::test(start_paused = true)]
    async fn a_series_of_internal_errors_ends_after_a_minute() {
        let internal_retry = Duration::from_secs(30);
        let options = ReflectorOptions { watch_list: false, internal_retry, ..ReflectorOptions::default() };
        let mut reflector = Reflector::new(options);
        let mut now = Instant::now();
        reflector.step(now, Input::Ready);
        reflector.step(now, Input::Listed { version: "10".to_owned(), is_paginated: false });
        for _ in 0..5 {
            reflector.step(now, Input::Opened);
            now += Duration::from_secs(61);
            let step = reflector.step(now, Input::Failed(ApiError::new(Class::Internal, "on purpose")));
            assert!(matches!(step.command, Command::Watch(_)) && step.failure.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unexpected_result_starts_again() {
        let mut reflector = Reflector::new(ReflectorOptions::default());
        let error = || Input::Failed(ApiError::new(Class::Other, "on purpose"));
        for input in [Input::Ended, error(), Input::Opened, Input::Ready] {
            let command = reflector.step(Instant::now(), input).command;
            assert!(
                matches!(command, Command::Watch(_) | Command::Read | Command::List { .. }),
                "{command:?}"
            );
        }
    }
}
