//! A source that answers from a script, and an informer of it, in virtual time and without randomness.

use crate::{
    error::{ApiError, Class},
    informer::{Builder, Event, HandlerOptions, Informer},
    source::{Change, ListPage, ListWatch, Page, Unreadable, WatchEvent, WatchFrom, WatchStream},
    testing::{Thing, config_map, describe, name},
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Answers in the given order. Requests after the last answer stay pending. An answer is one of
/// - `10 a@1 b@2 >next`: a list at version 10, with the continue token of the next page;
/// - `watch: +a@1; ~a@2; -a@3; ^20; ^^21; ?b@4; %; !429; 5s; end`: a watch with an ADDED, a MODIFIED and a DELETED
///   event, a bookmark, the bookmark that ends the initial events, an unreadable object, an object of another kind,
///   an error, a pause, and the end of the stream;
/// - `!429`, `!expired` and so on: an error;
/// - `slow !429`: an error after five seconds.
pub(crate) struct Script {
    answers: Mutex<VecDeque<&'static str>>,
    /// The requests, with their times.
    requests: Mutex<Vec<(Instant, String)>>,
    has_watch_list: bool,
}

fn error(text: &str) -> ApiError {
    let class = match text {
        "expired" => Class::Expired,
        "gone" => Class::Gone,
        "large" => Class::TooLarge,
        "429" => Class::TooManyRequests,
        "refused" => Class::Refused,
        "500" => Class::Internal,
        "403" => Class::Forbidden,
        "422" => Class::Rejected,
        "reset" => Class::Interrupted,
        "frame" => Class::Unreadable,
        "429 after 20" => {
            let status = r#"{"code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":20}}"#;
            return ApiError::from_status(serde_json::from_str(status).unwrap());
        }
        other => panic!("no such error: {other}"),
    };
    ApiError::new(class, text)
}

fn page(text: &str) -> Result<Page<Thing>, ApiError> {
    let mut words = text.split_whitespace();
    let mut page =
        Page { objects: vec![], unreadable: vec![], version: words.next().unwrap().to_owned(), next: None };
    for word in words {
        if let Some(token) = word.strip_prefix('>') {
            page.next = Some(token.to_owned());
        } else if let Some(text) = word.strip_prefix('?') {
            page.unreadable.push(unreadable(text));
        } else {
            page.objects.push(config_map(word));
        }
    }
    Ok(page)
}

/// As `a@1`, or `+a@1` and `-a@1` for an added or deleted object.
fn unreadable(text: &str) -> Unreadable {
    let change = match text.as_bytes() {
        [b'+', ..] => Change::Added,
        [b'-', ..] => Change::Deleted,
        _ => Change::Modified,
    };
    let object = config_map(text.trim_start_matches(['+', '-']));
    let version = object.metadata.resource_version.clone().unwrap();
    Unreadable {
        change: Some(change),
        key: Some(crate::object::Object::key(&*object)),
        version,
        message: "unreadable".to_owned(),
    }
}

fn watch(text: &'static str) -> WatchStream<Thing> {
    let words = text.split(';').map(str::trim).filter(|word| !word.is_empty());
    let ends = text.trim_end().ends_with("end");
    let events = stream::iter(words.filter(|word| *word != "end")).filter_map(async |word| {
        let bookmark =
            |version: &str, ends_initial| WatchEvent::Bookmark { version: version.to_owned(), ends_initial };
        if let Some(seconds) = word.strip_suffix('s') {
            sleep(Duration::from_secs_f64(seconds.parse().unwrap())).await;
            return None;
        }
        Some(Ok(match word.split_at(1) {
            ("+", text) => WatchEvent::Added(config_map(text)),
            ("~", text) => WatchEvent::Modified(config_map(text)),
            ("-", text) => WatchEvent::Deleted(config_map(text)),
            ("^", text) => match text.strip_prefix('^') {
                Some(version) => bookmark(version, true),
                None => bookmark(text, false),
            },
            ("?", text) => WatchEvent::Unreadable(unreadable(text)),
            ("%", _) => WatchEvent::UnexpectedKind("a Table".to_owned()),
            ("!", text) => return Some(Err(error(text))),
            _ => panic!("no such event: {word}"),
        }))
    });
    if ends { events.boxed() } else { events.chain(stream::pending()).boxed() }
}

impl Script {
    async fn answer(&self, request: String) -> &'static str {
        self.requests.lock().push((Instant::now(), request));
        let answer = self.answers.lock().pop_front();
        let Some(answer) = answer else { return std::future::pending().await };
        match answer.strip_prefix("slow ") {
            Some(answer) => {
                sleep(Duration::from_secs(5)).await;
                answer
            }
            None => answer,
        }
    }
}

impl ListWatch<Thing> for Arc<Script> {
    async fn list(&self, asked: ListPage) -> Result<Page<Thing>, ApiError> {
        let mut request = "LIST".to_owned();
        if let Some(version) = &asked.version {
            request += &format!(" {version}");
        }
        if let Some(token) = &asked.token {
            request += &format!(" >{token}");
        }
        if let Some(version_match) = asked.version_match {
            request += &format!(" {version_match}");
        }
        if asked.limit > 0 {
            request += &format!(" limit={}", asked.limit);
        }
        let answer = self.answer(request).await;
        assert!(!answer.starts_with("watch:"), "a list was requested, but the script has {answer}");
        answer.strip_prefix('!').map_or_else(|| page(answer), |text| Err(error(text)))
    }

    async fn watch(&self, from: WatchFrom) -> Result<WatchStream<Thing>, ApiError> {
        assert!(from.timeout.as_secs() >= 300);
        let request = match (from.initial, from.version.as_str()) {
            (true, "") => "STATE".to_owned(),
            (true, version) => format!("STATE {version}"),
            (false, version) => format!("WATCH {version}"),
        };
        let answer = self.answer(request).await;
        match answer.strip_prefix('!') {
            Some(text) => Err(error(text)),
            None => Ok(watch(answer.strip_prefix("watch:").expect("a watch was requested"))),
        }
    }

    fn watch_list(&self) -> bool {
        self.has_watch_list
    }
}

/// An informer with a scripted source, and what was recorded of it.
pub(crate) struct Scripted {
    pub(crate) informer: Informer<Thing>,
    script: Arc<Script>,
    started: Instant,
    events: Arc<Mutex<Vec<Event<Thing>>>>,
    errors: Arc<Mutex<Vec<String>>>,
    pub(crate) stop: CancellationToken,
}

/// The source lists, unless the first answer is a watch.
pub(crate) fn scripted(answers: &[&'static str]) -> Scripted {
    scripted_with(answers, |builder| builder)
}

pub(crate) fn scripted_with(
    answers: &[&'static str],
    how: impl FnOnce(Builder<Thing>) -> Builder<Thing>,
) -> Scripted {
    let has_watch_list = answers.first().is_some_and(|first| first.starts_with("watch:"));
    scripted_of(answers, has_watch_list, how)
}

pub(crate) fn scripted_of(
    answers: &[&'static str],
    has_watch_list: bool,
    how: impl FnOnce(Builder<Thing>) -> Builder<Thing>,
) -> Scripted {
    let script = Arc::new(Script {
        answers: Mutex::new(answers.iter().copied().collect()),
        requests: Mutex::default(),
        has_watch_list,
    });
    let errors = Arc::new(Mutex::new(Vec::new()));
    let builder =
        Informer::from_source("configmaps", Arc::clone(&script)).random(|| Box::new(|| 0.0)).on_error({
            let errors = Arc::clone(&errors);
            move |error| errors.lock().push(error.to_string())
        });
    let informer = how(builder).build();
    let events = Arc::new(Mutex::new(Vec::new()));
    Scripted { informer, script, started: Instant::now(), events, errors, stop: CancellationToken::new() }
}

impl Scripted {
    /// The scripted source.
    pub(crate) fn source(&self) -> Arc<Script> {
        Arc::clone(&self.script)
    }

    /// Adds a handler that records events.
    pub(crate) fn with_handler(self) -> Self {
        let events = Arc::clone(&self.events);
        let handler = move |event: Event<Thing>| events.lock().push(event);
        self.informer.add_handler(handler, HandlerOptions::default()).unwrap();
        self
    }

    /// Starts the informer and lets this time pass.
    pub(crate) async fn run_for(self, seconds: u64) -> Self {
        self.informer.start(self.stop.clone());
        self.advance(seconds).await
    }

    pub(crate) async fn advance(self, seconds: u64) -> Self {
        sleep(Duration::from_secs(seconds)).await;
        self
    }

    /// The requests, separated by commas, each with its time if that differs from the one before.
    pub(crate) fn requests(&self) -> String {
        let mut last = 0.0;
        let mut texts = Vec::new();
        for (at, request) in &*self.script.requests.lock() {
            let seconds = (at.duration_since(self.started).as_secs_f64() * 10.0).round() / 10.0;
            texts.push(if seconds == last { request.clone() } else { format!("{seconds}s {request}") });
            last = seconds;
        }
        texts.join(", ")
    }

    /// The events that the handler received since the last call.
    pub(crate) fn delivered(&self) -> String {
        describe(&std::mem::take(&mut *self.events.lock()))
    }

    pub(crate) fn events(&self) -> Vec<Event<Thing>> {
        std::mem::take(&mut *self.events.lock())
    }

    pub(crate) fn errors(&self) -> String {
        std::mem::take(&mut *self.errors.lock()).join(", ")
    }

    /// The objects in the store.
    pub(crate) fn store(&self) -> String {
        let mut names: Vec<_> = self.informer.store().all().iter().map(|object| name(object)).collect();
        names.sort();
        names.join(" ")
    }

    pub(crate) fn version(&self) -> String {
        self.informer.last_sync_versions().remove(0)
    }
}
