//! Following changes through etcd, whatever happens to connections and members.
//!
//! Kept true by [`Received`] alone, which is plain data: no event is delivered twice and none is left out; all events
//! of one revision are delivered before anything else, so a reader that resumes after the last revision it received
//! misses nothing; progress is reported only after every event it speaks of.
//!
//! A watch is a stream of its own to etcd, read only when its reader asks for more: no task, no queue but the
//! last message. etcd answers a request for progress only when all watches on the stream have caught up, and
//! counts for all of them; alone on its stream a watch waits for no other.

use crate::{
    api::{Event, EventType, WatchCreateRequest, WatchResponse, WatchStream},
    error::Fault,
    members::Connection,
    store::{Shared, as_etcd, as_version, bounds, read_item, read_key},
};
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{BackendEvent, BackendWatch, ExpiredRead, Scope, StorageError};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The time after which a broken watch is opened again; doubled each time, up to the second.
const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(50);
const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A stream that lasted this long was a good one: the next failure is the first again.
const STREAM_IS_GOOD_AFTER: Duration = Duration::from_secs(10);

/// With these etcd ends a watch whose login has become too old.
const LOGIN_TOO_OLD: [&str; 2] =
    ["etcdserver: invalid auth token", "etcdserver: revision of auth store is old"];

/// The interval at which a watch of the past requests progress. etcd leaves a request unanswered while it has more to send.
const PAST_PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// The occasions at which a watch reports progress.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportsProgress {
    Never,
    /// On request to all watches, and whenever etcd reports it.
    OnRequest,
    /// As soon as it has delivered everything: the watch requests progress itself, again and again.
    WhenCaughtUp,
}

/// Opens a watch of a scope, of what changed after a revision.
pub(crate) async fn start(
    shared: Arc<Shared>,
    scope: Scope,
    after: ResourceVersion,
    progress: ReportsProgress,
) -> Result<BackendWatch, StorageError> {
    let progress_requests = shared.progress_requests.subscribe();
    let mut watch = Watch {
        shared,
        scope,
        progress: (progress != ReportsProgress::Never).then_some(progress_requests),
        requests_progress: progress == ReportsProgress::WhenCaughtUp,
        received: Received::after(as_etcd(after)),
        open: None,
        failures: 0,
        ended: false,
        end: None,
    };
    watch.reopen().await.map_err(|fault| match fault {
        Fault::Answer(_) => failed(&fault),
        fault => fault.into_storage_error("opening a watch on etcd"),
    })?;
    Ok(stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) }).boxed())
}

struct Watch {
    shared: Arc<Shared>,
    scope: Scope,
    /// Counts requests for progress, if this watch is to report progress; else progress is received, not reported.
    progress: Option<tokio::sync::watch::Receiver<u64>>,
    /// Whether it requests progress by itself.
    requests_progress: bool,
    received: Received,
    open: Option<Open>,
    /// The number of streams that broke in a row.
    failures: u32,
    ended: bool,
    /// The error with which the watch ends once all is delivered.
    end: Option<StorageError>,
}

/// An open stream to a member.
struct Open {
    stream: WatchStream,
    /// The answer of etcd to opening it: its current revision, or an error.
    first: Option<WatchResponse>,
    member: Arc<Connection>,
    suspicions: tokio::sync::watch::Receiver<u64>,
    since: Instant,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<BackendEvent, StorageError>> {
        loop {
            // What came before the end is still delivered.
            while let Some(event) = self.received.ready.pop_front() {
                if self.progress.is_some() || !matches!(event, BackendEvent::Progress(_)) {
                    return Some(Ok(event));
                }
            }
            if self.ended {
                return self.end.take().map(Err);
            }
            if let Err(end) = self.receive().await {
                (self.ended, self.end) = (true, Some(end));
            }
        }
    }

    /// Waits for one thing to happen. The error is the watch's end.
    async fn receive(&mut self) -> Result<(), StorageError> {
        let Some(open) = &mut self.open else {
            return self.reopen_after_a_pause().await;
        };
        if let Some(first) = open.first.take() {
            return self.take(first).await;
        }
        let message = tokio::select! {
            message = open.stream.message() => message,
            () = progress_requested(&mut self.progress, self.requests_progress) => {
                // If there is no room for the request it goes unanswered; the caller asks again.
                open.stream.request_progress();
                return Ok(());
            }
            Ok(()) = open.suspicions.changed() => {
                self.lose("its member does not answer");
                return Ok(());
            }
        };
        match message {
            Ok(Some(message)) => self.take(message).await,
            Ok(None) => {
                self.leave_member("the stream ended");
                Ok(())
            }
            Err(error) => match Fault::from(error) {
                // Not a member that cannot be reached but one without a leader for three election timeouts.
                fault if fault.is_no_leader() => Err(failed(&fault)),
                fault @ Fault::Answer(_) => Err(failed(&fault)),
                fault => {
                    self.leave_member(fault.message());
                    Ok(())
                }
            },
        }
    }

    async fn take(&mut self, message: WatchResponse) -> Result<(), StorageError> {
        match self.received.take(message)? {
            Then::GoOn => Ok(()),
            Then::LogInAgain => {
                let Some(open) = self.lose("its login is too old") else { return Ok(()) };
                match open.member.log_in().await {
                    Err(fault @ Fault::Answer(_)) => Err(failed(&fault)),
                    // A member that cannot be reached now is met again when the watch is opened.
                    _ => Ok(()),
                }
            }
            Then::Expired { compacted } => {
                if let Ok(compacted) = as_version(compacted) {
                    self.shared.compacted.raise(compacted, Duration::ZERO);
                }
                Err(StorageError::Expired(ExpiredRead::Watch))
            }
        }
    }

    /// Loses the stream through a fault of its member: the next one is opened elsewhere.
    fn leave_member(&mut self, why: &str) {
        if let Some(open) = self.lose(why) {
            self.shared.members.leave(open.member.number);
        }
    }

    fn lose(&mut self, why: &str) -> Option<Open> {
        self.received.drop_partial();
        let open = self.open.take()?;
        self.failures = if open.since.elapsed() >= STREAM_IS_GOOD_AFTER { 0 } else { self.failures + 1 };
        tracing::debug!(scope = %self.scope.key(), next = self.received.next, why, "lost a watch on etcd");
        Some(open)
    }

    async fn reopen_after_a_pause(&mut self) -> Result<(), StorageError> {
        if self.failures > 0 {
            let pause = REOPEN_PAUSE_MIN * 2_u32.pow(self.failures.min(16) - 1);
            sleep(pause.min(REOPEN_PAUSE_MAX)).await;
        }
        match self.reopen().await {
            Ok(()) => Ok(()),
            // No member has had a leader for as long as a request may take.
            Err(fault) if fault.is_no_leader() => Err(failed(&fault)),
            Err(fault @ Fault::Answer(_)) => Err(failed(&fault)),
            Err(_) => {
                self.failures += 1;
                Ok(())
            }
        }
    }

    async fn reopen(&mut self) -> Result<(), Fault> {
        let next = self.received.next;
        let mut open = self.open_from(next).await?;
        let current =
            open.first.as_ref().and_then(|first| first.header.as_ref()).map_or(0, |header| header.revision);
        if current >= next {
            // etcd compacted to `r` lets one watch from `r` on, but has lost the values before that change and
            // may have lost the change itself (etcd issues 18089, 19179). Asked for one revision more, whose
            // events are not delivered, it refuses in that case.
            open = self.open_from(next - 1).await?;
        }
        self.open = Some(open);
        Ok(())
    }

    async fn open_from(&self, revision: i64) -> Result<Open, Fault> {
        let (start, end) = bounds(&self.scope);
        // Progress moves the position of a watch on where little changes, so that the history it needs when it
        // is opened again is still kept. That is of use even where it is not delivered.
        let request = &WatchCreateRequest {
            key: start.into(),
            range_end: end.into(),
            start_revision: revision,
            progress_notify: true,
            prev_kv: true,
            fragment: true,
        };
        self.shared
            .members
            .read(|member| async move {
                let mut stream = member.client.watch(request).await?;
                let first = stream.message().await?;
                let suspicions = member.suspicions();
                Ok(Open { stream, first, member, suspicions, since: Instant::now() })
            })
            .await
    }
}

/// Waits until progress is requested; for ever where it is not reported.
async fn progress_requested(
    requests: &mut Option<tokio::sync::watch::Receiver<u64>>,
    requests_progress: bool,
) {
    if requests_progress {
        return sleep(PAST_PROGRESS_INTERVAL).await;
    }
    if let Some(requests) = requests
        && requests.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The events that came from etcd and are not delivered yet.
struct Received {
    /// The first revision that was not received completely: where a new stream begins.
    next: i64,
    /// Events of a revision of which more may come.
    partial: Vec<Event>,
    ready: VecDeque<BackendEvent>,
}

/// The next step after a message.
#[derive(Debug, PartialEq)]
enum Then {
    GoOn,
    LogInAgain,
    Expired { compacted: i64 },
}

impl Received {
    fn after(revision: i64) -> Self {
        let next = revision.saturating_add(1);
        Self { next, partial: Vec::new(), ready: VecDeque::new() }
    }

    fn take(&mut self, message: WatchResponse) -> Result<Then, StorageError> {
        if message.compact_revision != 0 {
            return Ok(Then::Expired { compacted: message.compact_revision });
        }
        if message.canceled {
            let reason = words(&message.cancel_reason);
            if LOGIN_TOO_OLD.contains(&reason) {
                return Ok(Then::LogInAgain);
            }
            return Err(StorageError::WatchFailed(reason.to_owned()));
        }
        if message.created {
            return Ok(Then::GoOn);
        }
        if message.events.is_empty() && !message.fragment && self.partial.is_empty() {
            self.take_progress(message.header.map_or(0, |header| header.revision))?;
            return Ok(Then::GoOn);
        }
        self.partial.extend(message.events);
        let complete = match self.partial.last() {
            // The last revision of a fragment may go on in the next one.
            Some(last) if message.fragment => {
                let unfinished = revision_of(last);
                self.partial.iter().take_while(|event| revision_of(event) < unfinished).count()
            }
            _ => self.partial.len(),
        };
        let first = self.next;
        for event in self.partial.drain(..complete) {
            let revision = revision_of(&event);
            if revision >= first {
                self.next = revision + 1;
                self.ready.push_back(read_event(event)?);
            }
        }
        Ok(Then::GoOn)
    }

    /// etcd has delivered everything up to `revision`. A member that lags behind the one before, or a watch that
    /// begins in the future, has nothing to say by that.
    fn take_progress(&mut self, revision: i64) -> Result<(), StorageError> {
        if revision + 1 >= self.next {
            self.next = revision + 1;
            self.ready.push_back(BackendEvent::Progress(as_version(revision)?));
        }
        Ok(())
    }

    /// The stream is gone: a revision that did not come completely comes again.
    fn drop_partial(&mut self) {
        self.partial.clear();
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |item| item.mod_revision)
}

fn read_event(event: Event) -> Result<BackendEvent, StorageError> {
    let deleted = event.r#type() == EventType::Delete;
    let item =
        event.kv.ok_or_else(|| StorageError::WatchFailed("etcd sent an event without a key".to_owned()))?;
    let previous = event.prev_kv.map(read_item).transpose()?;
    if previous.is_none() && item.create_revision != item.mod_revision {
        // Compaction was faster than the reader.
        return Err(StorageError::Expired(ExpiredRead::Watch));
    }
    Ok(if deleted {
        BackendEvent::Delete { revision: as_version(item.mod_revision)?, key: read_key(&item.key)?, previous }
    } else {
        BackendEvent::Put { item: read_item(item)?, previous }
    })
}

fn failed(fault: &Fault) -> StorageError {
    StorageError::WatchFailed(words(fault.message()).to_owned())
}

/// etcd's own words, without those that gRPC puts before them.
fn words(message: &str) -> &str {
    match message.split_once("desc = ") {
        Some((_, words)) => words,
        None if message.is_empty() => "etcdserver: watch canceled",
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{KeyValue, ResponseHeader};

    fn put(key: &str, revision: i64) -> Event {
        let kv = KeyValue {
            key: key.to_owned().into(),
            value: "v".into(),
            create_revision: revision,
            mod_revision: revision,
            ..KeyValue::default()
        };
        Event { kv: Some(kv), ..Event::default() }
    }

    fn message(current: i64, events: &[(&str, i64)]) -> WatchResponse {
        WatchResponse {
            header: Some(ResponseHeader { revision: current, ..ResponseHeader::default() }),
            events: events.iter().map(|(key, revision)| put(key, *revision)).collect(),
            ..WatchResponse::default()
        }
    }

    fn fragment(events: &[(&str, i64)]) -> WatchResponse {
        WatchResponse { fragment: true, ..message(0, events) }
    }

    /// The delivered events, as `key@revision` and `=progress`.
    fn delivered(received: &mut Received) -> String {
        let words = received.ready.drain(..).map(|event| match event {
            BackendEvent::Put { item, .. } => format!("{}@{}", item.key, item.modified),
            BackendEvent::Delete { key, revision, .. } => format!("-{key}@{revision}"),
            BackendEvent::Progress(revision) => format!("={revision}"),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn take(received: &mut Received, message: WatchResponse) -> String {
        assert_eq!(received.take(message).unwrap(), Then::GoOn);
        delivered(received)
    }

    #[test]
    fn a_new_stream_begins_after_the_last_complete_revision() {
        let mut received = Received::after(4);
        assert_eq!(received.next, 5);
        assert_eq!(take(&mut received, message(9, &[("a", 6), ("b", 6), ("a", 8)])), "a@6 b@6 a@8");
        assert_eq!(received.next, 9);
        assert_eq!(take(&mut received, message(9, &[("a", 6), ("a", 8), ("c", 9)])), "c@9");
    }

    #[test]
    fn a_revision_in_fragments_is_delivered_when_it_is_complete() {
        let mut received = Received::after(4);
        assert_eq!(take(&mut received, fragment(&[("a", 5), ("b", 6)])), "a@5");
        assert_eq!(take(&mut received, fragment(&[("c", 6)])), "");
        assert_eq!(received.next, 6);
        assert_eq!(take(&mut received, message(7, &[("d", 6), ("a", 7)])), "b@6 c@6 d@6 a@7");
        assert_eq!(received.next, 8);
    }

    #[test]
    fn a_revision_cut_in_the_middle_comes_again_as_a_whole() {
        let mut received = Received::after(4);
        assert_eq!(take(&mut received, fragment(&[("a", 5), ("b", 6)])), "a@5");
        received.drop_partial();
        assert_eq!(received.next, 6);
        assert_eq!(take(&mut received, message(6, &[("b", 6), ("c", 6)])), "b@6 c@6");
    }

    #[test]
    fn progress_moves_on_and_never_back() {
        let mut received = Received::after(4);
        assert_eq!(take(&mut received, message(3, &[])), "");
        assert_eq!(take(&mut received, message(4, &[])), "=4");
        assert_eq!(take(&mut received, message(9, &[])), "=9");
        assert_eq!(received.next, 10);
        assert_eq!(take(&mut received, message(8, &[])), "");
        assert_eq!(take(&mut received, message(9, &[])), "=9");
        let created = WatchResponse { created: true, ..message(20, &[]) };
        assert_eq!(take(&mut received, created), "");
        assert_eq!(received.next, 10);
    }

    #[test]
    fn a_canceled_watch_ends_unless_logging_in_again_helps() {
        let canceled = |reason: &str| {
            let message =
                WatchResponse { canceled: true, cancel_reason: reason.to_owned(), ..message(9, &[]) };
            Received::after(4).take(message)
        };
        let old = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
        assert_eq!(canceled(old).unwrap(), Then::LogInAgain);
        let denied = canceled("rpc error: code = PermissionDenied desc = etcdserver: permission denied");
        assert_eq!(denied.unwrap_err().to_string(), "etcdserver: permission denied");
        let compacted = WatchResponse { canceled: true, compact_revision: 7, ..message(9, &[]) };
        assert_eq!(Received::after(4).take(compacted).unwrap(), Then::Expired { compacted: 7 });
    }
}
