//! A watch that resumes after failures and never lists.
//!
//! It is for callers that know the start version and prefer an error over a relist when events are lost. Most callers
//! need an [`Informer`](crate::informer::Informer) instead.

use crate::{
    deadline::after,
    error::{ApiError, Class},
    object::Object,
    source::{ListWatch, WatchEvent, WatchFrom, WatchStream},
};
use futures::{Stream, StreamExt, stream};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until, timeout_at};

/// The shortest time between two watch requests.
const RESTART_MIN: Duration = Duration::from_secs(1);
/// The requested duration of a watch.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The time beyond its timeout for which a watch may be idle.
const GRACE: Duration = Duration::from_secs(5);

/// Every event since a version, without bookmarks. It ends after an error that means lost events, denied access or an
/// event without a version. After any other failure it resumes the watch.
pub struct RetryWatcher<O> {
    source: Arc<dyn crate::source::Source<O>>,
    version: String,
    stream: Option<WatchStream<O>>,
    next_open: Instant,
    /// The time at which an idle watch counts as broken.
    idle_deadline: Instant,
    is_over: bool,
}

/// The version cannot be used to start a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidStart(pub String);

impl fmt::Display for InvalidStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "initial RV {:?} is not supported due to issues with underlying WATCH", self.0)
    }
}

impl std::error::Error for InvalidStart {}

impl<O> fmt::Debug for RetryWatcher<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatcher").field("version", &self.version).finish_non_exhaustive()
    }
}

impl<O: Object> RetryWatcher<O> {
    /// Watches from this version, which must not be empty or `0`.
    pub fn new(version: &str, source: impl ListWatch<O>) -> Result<Self, InvalidStart> {
        if matches!(version, "" | "0") {
            return Err(InvalidStart(version.to_owned()));
        }
        let now = Instant::now();
        Ok(RetryWatcher {
            source: Arc::new(source),
            version: version.to_owned(),
            stream: None,
            next_open: now,
            idle_deadline: now,
            is_over: false,
        })
    }

    /// The version of the last event, where the watch would resume.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<WatchEvent<O>, ApiError>> + Send {
        stream::unfold(self, async |mut watcher| watcher.next().await.map(|event| (event, watcher)))
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<O>, ApiError>> {
        while !self.is_over {
            match &mut self.stream {
                None => {
                    if let Err(error) = self.open().await {
                        return Some(Err(error));
                    }
                }
                Some(stream) => {
                    // An idle watch is treated like one that ended.
                    let event = timeout_at(self.idle_deadline, stream.next()).await.unwrap_or(None);
                    self.idle_deadline = Instant::now() + TIMEOUT + GRACE;
                    if let Some(event) = self.on_event(event) {
                        return Some(event);
                    }
                }
            }
        }
        None
    }

    /// Fails only if a retry cannot help.
    async fn open(&mut self) -> Result<(), ApiError> {
        sleep_until(self.next_open).await;
        self.next_open = Instant::now() + RESTART_MIN;
        let from = WatchFrom { version: self.version.clone(), initial: false, timeout: TIMEOUT };
        match self.source.watch(from).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.idle_deadline = Instant::now() + TIMEOUT + GRACE;
            }
            Err(error) if is_expired(&error) || error.class.is_denied() => {
                self.is_over = true;
                return Err(error);
            }
            Err(error) => self.back_off(&error),
        }
        Ok(())
    }

    /// Returns the event to deliver, if there is one.
    fn on_event(
        &mut self,
        event: Option<Result<WatchEvent<O>, ApiError>>,
    ) -> Option<Result<WatchEvent<O>, ApiError>> {
        let event = match event {
            None => {
                self.stream = None;
                return None;
            }
            Some(Err(error)) => {
                self.stream = None;
                self.is_over = is_expired(&error);
                self.back_off(&error);
                return self.is_over.then_some(Err(error));
            }
            Some(Ok(event)) => event,
        };
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.revision()
            }
            WatchEvent::Bookmark { version, .. } => version,
            WatchEvent::Unreadable(unreadable) => &unreadable.version,
            WatchEvent::UnexpectedKind(_) => return Some(Ok(event)),
        };
        if version.is_empty() {
            self.is_over = true;
            return Some(Err(ApiError::new(Class::Unreadable, "an event has no resourceVersion")));
        }
        version.clone_into(&mut self.version);
        (!matches!(event, WatchEvent::Bookmark { .. })).then_some(Ok(event))
    }

    fn back_off(&mut self, error: &ApiError) {
        if let Some(wait) = error.retry_after {
            self.next_open = self.next_open.max(after(Instant::now(), wait));
        }
    }
}

fn is_expired(error: &ApiError) -> bool {
    matches!(error.class, Class::Expired | Class::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::script::scripted;

    /// Watches a script from version 5 for an hour. Returns the events, the requests, and whether it ended.
    async fn watched(answers: &[&'static str]) -> (String, String, bool) {
        let scripted = scripted(answers);
        let mut watcher = RetryWatcher::new("5", scripted.source()).unwrap();
        let mut events = Vec::new();
        let hour = tokio::time::sleep(Duration::from_secs(3600));
        tokio::pin!(hour);
        let has_ended = loop {
            tokio::select! {
                event = watcher.next() => match event {
                    Some(Ok(WatchEvent::Added(object))) => events.push(format!("+{}", crate::testing::name(&object))),
                    Some(Ok(event)) => events.push(format!("{event:?}")),
                    Some(Err(error)) => events.push(format!("!{error}")),
                    None => break true,
                },
                () = &mut hour => break false,
            }
        };
        (events.join(" "), scripted.requests(), has_ended)
    }

    fn is(events: &str, requests: &str, has_ended: bool) -> (String, String, bool) {
        (events.to_owned(), requests.to_owned(), has_ended)
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_watch_is_resumed_at_most_once_a_second() {
        let answers = ["watch: +a@6; ^8; end", "!500", "watch: 5s; +b@9; !500", "watch: +c@10"];
        let requests = "WATCH 5, 1s WATCH 8, 2s WATCH 8, 7s WATCH 9, 312s WATCH 10";
        assert_eq!(watched(&answers).await, is("+a@6 +b@9 +c@10", requests, false));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_respected() {
        let answers = ["!429 after 20", "watch: +a@6"];
        assert_eq!(watched(&answers).await, is("+a@6", "WATCH 5, 20s WATCH 5, 325s WATCH 6", false));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_watch_is_reopened() {
        let answers = ["watch: 10s; +a@6", "watch: 304s; +b@7; 304s; +c@8; end"];
        let requests = "WATCH 5, 315s WATCH 6, 923s WATCH 8";
        assert_eq!(watched(&answers).await, is("+a@6 +b@7 +c@8", requests, false));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_events_and_denied_access_end_the_watch() {
        assert_eq!(watched(&["watch: +a@6; !gone"]).await, is("+a@6 !gone", "WATCH 5", true));
        assert_eq!(watched(&["!expired"]).await, is("!expired", "WATCH 5", true));
        assert_eq!(watched(&["!403"]).await, is("!403", "WATCH 5", true));
        let unversioned = is("!an event has no resourceVersion", "WATCH 5", true);
        assert_eq!(watched(&["watch: +a@"]).await, unversioned);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_version_is_required() {
        for version in ["", "0"] {
            let refused = RetryWatcher::new(version, scripted(&[]).source()).unwrap_err();
            assert_eq!(refused, InvalidStart(version.to_owned()));
        }
    }
}
