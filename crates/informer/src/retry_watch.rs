//! A watch that goes on where it broke, and never lists.
//!
//! For whoever knows from which version on events are wanted, and would rather hear that some are lost than get a new
//! state: an [`Informer`](crate::Informer) is what everybody else wants.

use crate::moment::after;
use crate::{ApiError, Class, ListWatch, Object, WatchEvent, WatchFrom, WatchStream};
use futures::{Stream, StreamExt, stream};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Watches are opened no more often than this.
const RESTART_MIN: Duration = Duration::from_secs(1);
/// How long a server is asked to keep a watch.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How much longer it may be silent.
const GRACE: Duration = Duration::from_secs(5);

/// Every event from a version on. Bookmarks are not among them. Ends after an error that says that events are lost, that
/// one may not watch, or that an event has no version; all other failures are answered by watching again.
pub struct RetryWatcher<O> {
    source: Arc<dyn crate::source::Source<O>>,
    version: String,
    stream: Option<WatchStream<O>>,
    not_before: Instant,
    /// When a watch that says nothing counts as broken.
    silent_until: Instant,
    is_over: bool,
}

/// There is nothing from which a watch could go on.
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
    /// Watches from a version on, which has to be a real one.
    pub fn new(version: &str, source: impl ListWatch<O>) -> Result<Self, InvalidStart> {
        if matches!(version, "" | "0") {
            return Err(InvalidStart(version.to_owned()));
        }
        let now = Instant::now();
        Ok(RetryWatcher {
            source: Arc::new(source),
            version: version.to_owned(),
            stream: None,
            not_before: now,
            silent_until: now,
            is_over: false,
        })
    }

    /// The version of the last event, from which it would go on.
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
                    // Silence ends a watch as its end does.
                    let event = timeout_at(self.silent_until, stream.next()).await.unwrap_or(None);
                    self.silent_until = Instant::now() + TIMEOUT + GRACE;
                    if let Some(told) = self.take(event) {
                        return Some(told);
                    }
                }
            }
        }
        None
    }

    /// Fails only if it is no use to try again.
    async fn open(&mut self) -> Result<(), ApiError> {
        sleep_until(self.not_before).await;
        self.not_before = Instant::now() + RESTART_MIN;
        let from = WatchFrom { version: self.version.clone(), initial: false, timeout: TIMEOUT };
        match self.source.watch(from).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.silent_until = Instant::now() + TIMEOUT + GRACE;
            }
            Err(error) if is_lost(&error) || error.class.is_denied() => {
                self.is_over = true;
                return Err(error);
            }
            Err(error) => self.wait_for(&error),
        }
        Ok(())
    }

    /// What to tell of an event, if anything.
    fn take(
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
                self.is_over = is_lost(&error);
                self.wait_for(&error);
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
            WatchEvent::Foreign(_) => return Some(Ok(event)),
        };
        if version.is_empty() {
            self.is_over = true;
            return Some(Err(ApiError::new(Class::Unreadable, "an event has no resourceVersion")));
        }
        version.clone_into(&mut self.version);
        (!matches!(event, WatchEvent::Bookmark { .. })).then_some(Ok(event))
    }

    fn wait_for(&mut self, error: &ApiError) {
        if let Some(wait) = error.retry_after {
            self.not_before = self.not_before.max(after(Instant::now(), wait));
        }
    }
}

fn is_lost(error: &ApiError) -> bool {
    matches!(error.class, Class::Expired | Class::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::script::world;

    /// Watches a script from version 5 for an hour: what was told, what was asked, and whether it ended.
    async fn watched(answers: &[&'static str]) -> (String, String, bool) {
        let world = world(answers);
        let mut watcher = RetryWatcher::new("5", world.source()).unwrap();
        let mut told = Vec::new();
        let hour = tokio::time::sleep(Duration::from_secs(3600));
        tokio::pin!(hour);
        let has_ended = loop {
            tokio::select! {
                event = watcher.next() => match event {
                    Some(Ok(WatchEvent::Added(object))) => told.push(format!("+{}", crate::testing::name(&object))),
                    Some(Ok(event)) => told.push(format!("{event:?}")),
                    Some(Err(error)) => told.push(format!("!{error}")),
                    None => break true,
                },
                () = &mut hour => break false,
            }
        };
        (told.join(" "), world.requests(), has_ended)
    }

    fn is(told: &str, requests: &str, has_ended: bool) -> (String, String, bool) {
        (told.to_owned(), requests.to_owned(), has_ended)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_where_it_broke_and_not_more_often_than_each_second() {
        let answers = ["watch: +a@6; ^8; end", "!500", "watch: 5s; +b@9; !500", "watch: +c@10"];
        let requests = "WATCH 5, 1s WATCH 8, 2s WATCH 8, 7s WATCH 9, 312s WATCH 10";
        assert_eq!(watched(&answers).await, is("+a@6 +b@9 +c@10", requests, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_for_it_is_left_alone() {
        let answers = ["!429 after 20", "watch: +a@6"];
        assert_eq!(watched(&answers).await, is("+a@6", "WATCH 5, 20s WATCH 5, 325s WATCH 6", false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_falls_silent_is_opened_anew() {
        let answers = ["watch: 10s; +a@6", "watch: 304s; +b@7; 304s; +c@8; end"];
        let requests = "WATCH 5, 315s WATCH 6, 923s WATCH 8";
        assert_eq!(watched(&answers).await, is("+a@6 +b@7 +c@8", requests, false));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_events_and_missing_rights_end_it() {
        assert_eq!(watched(&["watch: +a@6; !gone"]).await, is("+a@6 !gone", "WATCH 5", true));
        assert_eq!(watched(&["!expired"]).await, is("!expired", "WATCH 5", true));
        assert_eq!(watched(&["!403"]).await, is("!403", "WATCH 5", true));
        let unversioned = is("!an event has no resourceVersion", "WATCH 5", true);
        assert_eq!(watched(&["watch: +a@"]).await, unversioned);
    }

    #[tokio::test(start_paused = true)]
    async fn it_needs_a_version_to_start_from() {
        for version in ["", "0"] {
            let refused = RetryWatcher::new(version, world(&[]).source()).unwrap_err();
            assert_eq!(refused, InvalidStart(version.to_owned()));
        }
    }
}
