//! Decides what to ask a server next so that one hears of everything: list, watch, wait.
//!
//! Plain data and no I/O: [`Reflector::step`] is told how the last thing went and says what to do now; [`Reflector::hear`]
//! says what an event is good for. Time is what the caller says it is.
//!
//! Kept true: what was heard is complete up to `last_version`, except while a state is being sent; no version is asked
//! for that is older than one already heard, except when the server does not have that any more.

use crate::{ApiError, Backoff, BackoffPolicy, Class, Phase, Random, WatchFrom, backoff};
use std::time::Duration;
use tokio::time::Instant;

/// How a reflector is to be.
#[derive(Clone, Debug)]
pub struct ReflectorOptions {
    /// How many objects a page of a list has; as the reflector sees fit if absent.
    pub page_size: Option<u32>,
    /// Whether it tries to get the first state as events, instead of as a list.
    pub watch_list: bool,
    /// Watches end after this time or up to twice as long; not less than five minutes.
    pub watch_timeout: Duration,
    /// A watch on which nothing came for so long counts as ended, if that is before it would have ended by itself.
    pub idle_timeout: Option<Duration>,
    /// For how long errors of the server inside a watch are answered by watching again at once.
    pub internal_retry: Duration,
    /// How waits grow.
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

/// Watches last at least so long.
const WATCH_TIMEOUT_MIN: Duration = Duration::from_secs(300);
/// How many objects a page has, where pages are wanted.
pub const PAGE_SIZE: u32 = 500;
/// A watch that ends within this time without having said anything is a failure.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// Errors of the server that are further apart than this have nothing to do with each other.
const INTERNAL_RUN: Duration = Duration::from_secs(60);

/// The state of a reflector.
#[derive(Debug)]
pub struct Reflector {
    options: ReflectorOptions,
    chance: Chance,
    backoff: Backoff,
    doing: Doing,
    /// The newest version heard of; empty at first.
    last_version: String,
    /// Whether the server does not have that any more.
    is_unavailable: bool,
    /// Whether a list from the server's cache came in pages, so that it has none.
    was_paginated: bool,
    /// Whether the server does not know how to send the first state as events.
    is_watch_list_refused: bool,
    /// Since when there are errors of the server, and when the last one was.
    internal_errors: Option<(Instant, Instant)>,
    /// How many failures there were in a row.
    attempt: u32,
}

struct Chance(Random);

impl std::fmt::Debug for Chance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chance")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// Waits, and then does this.
    Waiting(Then),
    Listing {
        page_size: u32,
        from_cache: bool,
        is_second: bool,
    },
    Watching(Watch),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Begin,
    Watch { initial: bool },
}

/// A watch that is open, or being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watch {
    since: Instant,
    is_open: bool,
    /// Whether anything came.
    has_spoken: bool,
    /// Whether it began with the state there is, and is not through with that.
    initial: bool,
    /// Whether objects come in no order, as long as they are said to be new.
    is_unordered: bool,
}

/// How the last thing went.
#[derive(Debug)]
pub enum Input {
    /// It was not begun yet, or the wait is over.
    Ready,
    /// A list was fetched, and put where it belongs.
    Listed {
        /// Its version.
        version: String,
        /// Whether it came in several pages.
        is_paginated: bool,
    },
    /// A watch is open.
    Opened,
    /// The watch ended without an error.
    Ended,
    /// It failed.
    Failed(ApiError),
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Todo {
    /// Fetch a list.
    List {
        /// At which version; any, if absent.
        version: Option<String>,
        /// In pages of so many objects; in one if 0.
        page_size: u32,
    },
    /// Open a watch. What came of a state that was not complete is forgotten.
    Watch(WatchFrom),
    /// Read from the watch that is open.
    Read,
    /// Wait.
    Wait(Duration),
}

/// What to do now, and what to complain of.
#[derive(Debug)]
pub struct Step {
    /// What to do now.
    pub todo: Todo,
    /// What went wrong, if anybody has to know.
    pub failure: Option<Failure>,
}

/// Something went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was being done.
    pub phase: Phase,
    /// What went wrong.
    pub error: ApiError,
    /// How many failures there were in a row.
    pub attempt: u32,
}

/// What was heard, without the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An object is new.
    Added,
    /// An object changed or went, or cannot be read.
    Changed,
    /// Nothing happened.
    Bookmark {
        /// Whether the state there is was sent.
        ends_initial: bool,
    },
}

/// What an event is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It belongs to a state that is not complete yet.
    Collect,
    /// The state is complete: it is all there is.
    Complete,
    /// It happened after that.
    Apply,
}

impl Reflector {
    /// One that has heard of nothing yet.
    pub fn new(options: ReflectorOptions) -> Self {
        Self::with_random(options, backoff::random)
    }

    /// The same, with chance of one's own.
    pub fn with_random(options: ReflectorOptions, random: impl Fn() -> Random) -> Self {
        Reflector {
            backoff: Backoff::with_random(options.backoff, random()),
            chance: Chance(random()),
            options,
            doing: Doing::Nothing,
            last_version: String::new(),
            is_unavailable: false,
            was_paginated: false,
            is_watch_list_refused: false,
            internal_errors: None,
            attempt: 0,
        }
    }

    /// The newest version heard of; empty before there is one.
    pub fn last_version(&self) -> &str {
        &self.last_version
    }

    /// Whether a state is being fetched.
    pub(crate) fn is_listing(&self) -> bool {
        match self.doing {
            Doing::Listing { .. } => true,
            Doing::Watching(watch) => watch.initial,
            Doing::Nothing | Doing::Waiting(_) => false,
        }
    }

    /// What to do now that something went so.
    pub fn step(&mut self, now: Instant, input: Input) -> Step {
        match (input, self.doing) {
            (Input::Ready, Doing::Waiting(Then::Watch { initial })) => self.watch(now, initial).into(),
            (Input::Ready, _) => self.begin(now).into(),
            (Input::Listed { version, is_paginated }, doing) => {
                let from_cache = matches!(doing, Doing::Listing { from_cache: true, .. });
                self.was_paginated |= is_paginated && from_cache;
                self.state_known(version);
                self.watch(now, false).into()
            }
            (Input::Opened, _) => {
                if let Doing::Watching(watch) = &mut self.doing {
                    watch.is_open = true;
                }
                Todo::Read.into()
            }
            (Input::Ended, Doing::Watching(watch)) => self.ended(now, watch),
            (Input::Failed(error), Doing::Listing { page_size, is_second, .. }) => {
                self.list_failed(now, error, page_size, is_second)
            }
            (Input::Failed(error), Doing::Watching(watch)) => self.watch_failed(now, error, watch),
            (Input::Ended | Input::Failed(_), _) => self.begin(now).into(),
        }
    }

    /// What an event is good for.
    pub fn hear(&mut self, heard: Heard, version: &str) -> Use {
        let Doing::Watching(watch) = &mut self.doing else { return Use::Apply };
        watch.has_spoken = true;
        if watch.initial {
            if heard != (Heard::Bookmark { ends_initial: true }) {
                return Use::Collect;
            }
            watch.initial = false;
            watch.is_unordered = false;
            self.state_known(version.to_owned());
            return Use::Complete;
        }
        self.attempt = 0;
        watch.is_unordered &= heard == Heard::Added;
        if !watch.is_unordered && !version.is_empty() && self.last_version != version {
            version.clone_into(&mut self.last_version);
        }
        Use::Apply
    }

    fn state_known(&mut self, version: String) {
        self.is_unavailable = false;
        self.attempt = 0;
        self.last_version = version;
    }

    fn begin(&mut self, now: Instant) -> Todo {
        if self.options.watch_list && !self.is_watch_list_refused {
            self.watch(now, true)
        } else {
            self.list()
        }
    }

    fn list(&mut self) -> Todo {
        let version = match self.last_version.as_str() {
            _ if self.is_unavailable => None,
            "" => Some("0".to_owned()),
            last => Some(last.to_owned()),
        };
        let from_cache = version.as_deref() == Some("0");
        let page_size = match self.options.page_size {
            Some(page_size) => page_size,
            // So that the server may answer from its cache.
            None if !self.was_paginated && version.is_some() && !from_cache => 0,
            None => PAGE_SIZE,
        };
        self.doing = Doing::Listing { page_size, from_cache, is_second: false };
        Todo::List { version, page_size }
    }

    fn watch(&mut self, now: Instant, initial: bool) -> Todo {
        let version = if initial && self.is_unavailable { String::new() } else { self.last_version.clone() };
        let is_unordered = matches!(version.as_str(), "" | "0");
        let watch = Watch { since: now, is_open: false, has_spoken: false, initial, is_unordered };
        self.doing = Doing::Watching(watch);
        let shortest = self.options.watch_timeout.max(WATCH_TIMEOUT_MIN).as_secs_f64();
        let seconds = (shortest * (1.0 + (self.chance.0)())) as u64;
        // Servers take no more.
        let timeout = Duration::from_secs(seconds.min(i32::MAX as u64));
        Todo::Watch(WatchFrom { version, initial, timeout })
    }

    fn list_failed(&mut self, now: Instant, error: ApiError, page_size: u32, is_second: bool) -> Step {
        if !error.class.is_version_unavailable() {
            return self.end(now, Phase::List, error);
        }
        self.is_unavailable = true;
        if is_second {
            return self.end(now, Phase::List, error);
        }
        self.doing = Doing::Listing { page_size, from_cache: false, is_second: true };
        Todo::List { version: None, page_size }.into()
    }

    fn ended(&mut self, now: Instant, watch: Watch) -> Step {
        if watch.has_spoken || now.duration_since(watch.since) >= VERY_SHORT {
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
                let was_told = watch.is_open || step.failure.is_some();
                let failure = if was_told { step.failure } else { Some(self.failure(phase, error)) };
                Step { failure, ..step }
            }
            class if class.is_busy() => self.wait(now, Then::Watch { initial: watch.initial }, phase, error),
            class if watch.initial && class.is_version_unavailable() => {
                if self.is_unavailable {
                    // No version was asked for: asking the same at once would be no better.
                    return self.wait(now, Then::Watch { initial: true }, phase, error);
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
                // Nothing is wrong: what was missed is listed.
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

    /// The state cannot be had as events; so it is listed.
    fn fall_back(&mut self, phase: Phase, error: ApiError) -> Step {
        let failure = (error.class != Class::Rejected).then(|| self.failure(phase, error));
        Step { todo: self.list(), failure }
    }

    fn end(&mut self, now: Instant, phase: Phase, error: ApiError) -> Step {
        self.wait(now, Then::Begin, phase, error)
    }

    fn wait(&mut self, now: Instant, then: Then, phase: Phase, error: ApiError) -> Step {
        let delay = self.backoff.next(now).max(error.retry_after.unwrap_or_default());
        self.doing = Doing::Waiting(then);
        Step { todo: Todo::Wait(delay), failure: Some(self.failure(phase, error)) }
    }

    fn failure(&mut self, phase: Phase, error: ApiError) -> Failure {
        self.attempt = self.attempt.saturating_add(1);
        Failure { phase, error, attempt: self.attempt }
    }
}

impl From<Todo> for Step {
    fn from(todo: Todo) -> Self {
        Step { todo, failure: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(shortest: u64, chance: f64) -> u64 {
        let watch_timeout = Duration::from_secs(shortest);
        let options = ReflectorOptions { watch_timeout, ..ReflectorOptions::default() };
        let mut reflector = Reflector::with_random(options, || Box::new(move || chance));
        match reflector.step(Instant::now(), Input::Ready).todo {
            Todo::Watch(from) => from.timeout.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    /// WT-1.
    #[tokio::test(start_paused = true)]
    async fn watches_last_from_five_minutes_to_twice_that_or_longer_if_one_asks() {
        assert_eq!((timeout(300, 0.0), timeout(300, 0.5), timeout(300, 0.9999)), (300, 450, 599));
        assert_eq!((timeout(10, 0.0), timeout(600, 0.5)), (300, 900), "shorter ones are not to be had");
    }

    /// ER-3: errors that are far apart have nothing to do with each other.
    #[tokio::test(start_paused = true)]
    async fn a_run_of_failures_is_forgotten_after_a_minute() {
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
            assert!(matches!(step.todo, Todo::Watch(_)) && step.failure.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_makes_no_sense_begins_anew() {
        let mut reflector = Reflector::new(ReflectorOptions::default());
        let error = || Input::Failed(ApiError::new(Class::Other, "on purpose"));
        for input in [Input::Ended, error(), Input::Opened, Input::Ready] {
            let todo = reflector.step(Instant::now(), input).todo;
            assert!(matches!(todo, Todo::Watch(_) | Todo::Read | Todo::List { .. }), "{todo:?}");
        }
    }
}
