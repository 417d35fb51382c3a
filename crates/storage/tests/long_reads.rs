//! Reads of many objects: what [`Store`] does when compaction overtakes them, and that others get their turn.

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position, WatchStart},
};
use keepwatch_storage::{
    Backend, BackendWatch, ExpiredRead, Key, KeyValue, ListRequest, Range, RangeRequest, Scope, StorageError,
    Swap, Unchanged, Value, WatchEvent, WatchRequest,
    testing::{Fixture, labels, names, pod, reference::Reference},
};
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

/// A backend whose pages hold two keys, and that is written to and compacted between the pages of a read.
#[derive(Default)]
struct Hasty {
    inner: Reference,
    /// The number of times that compaction will still overtake a read.
    overtakes: AtomicUsize,
}

const PAGE_KEYS: usize = 2;

#[async_trait]
impl Backend for Hasty {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        self.inner.get(key).await
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        self.inner.put_while(key, expected, value, ttl, unchanged).await
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        self.inner.delete_if(key, expected).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        let limit = request.limit.map_or(PAGE_KEYS, |limit| limit.min(PAGE_KEYS));
        let range = self.inner.range(RangeRequest { limit: Some(limit), ..request }).await;
        let fewer = |left: usize| left.checked_sub(1);
        if self.overtakes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            let key = Key::from_backend("/registry/other/x");
            let expected = self.inner.get(&key).await?.1.map(|item| item.modified);
            if let Swap::Done(revision) = self.inner.put_if(&key, expected, Value::default(), None).await? {
                self.inner.compact(revision).await?;
            }
        }
        range
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        self.inner.watch(scope, after, progress).await
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.inner.request_progress().await
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.inner.current_revision().await
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        self.inner.compact(revision).await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.inner.compacted_revision()
    }
}

/// Five pods, and a backend that will overtake this many reads.
async fn five_overtaken(overtakes: usize) -> (Fixture, Arc<Hasty>) {
    let backend = Arc::new(Hasty::default());
    let fixture = Fixture::new(backend.clone());
    for name in ["a", "b", "c", "d", "e"] {
        fixture.create(&pod(name)).await;
    }
    backend.overtakes.store(overtakes, Ordering::Relaxed);
    (fixture, backend)
}

#[tokio::test]
async fn a_list_of_the_newest_state_that_compaction_overtakes_begins_again() {
    for overtakes in [0, 1, 2] {
        let (fixture, _) = five_overtaken(overtakes).await;
        let written = fixture.revision().await;
        for at in [ListAt::MostRecent, ListAt::Any, ListAt::NotOlderThan(written)] {
            let list = fixture.list(ListRequest { at, ..ListRequest::all() }).await;
            assert_eq!(names(&list), "a b c d e");
            assert_eq!(list.revision.get(), written.get() + overtakes as u64, "one state, the newest");
        }
    }
}

/// It is not begun for ever: a store that forgets faster than it can be read says so.
#[tokio::test]
async fn a_list_that_compaction_overtakes_every_time_is_expired() {
    let (fixture, backend) = five_overtaken(1_000).await;
    let error = fixture.try_list(ListRequest::all()).await.unwrap_err();
    assert!(matches!(error, StorageError::Expired(ExpiredRead::List)), "{error:?}");
    assert!(backend.overtakes.load(Ordering::Relaxed) > 990, "it gave up soon");
}

/// A read at one revision does not return another.
#[tokio::test]
async fn a_list_at_an_exact_revision_that_compaction_overtakes_is_expired() {
    let (fixture, backend) = five_overtaken(1).await;
    let at = ListAt::Exact(fixture.revision().await);
    let error = fixture.try_list(ListRequest { at, ..ListRequest::all() }).await.unwrap_err();
    assert!(matches!(error, StorageError::Expired(ExpiredRead::List)), "{error:?}");

    let first = fixture.list(ListRequest { limit: Some(1), ..ListRequest::all() }).await;
    backend.overtakes.store(1, Ordering::Relaxed);
    let at = ListAt::Continue(first.next.expect("there is more"));
    let error = fixture.try_list(ListRequest { at, ..ListRequest::all() }).await.unwrap_err();
    assert!(matches!(error, StorageError::Expired(ExpiredRead::Continue(_))), "{error:?}");
}

#[tokio::test]
async fn a_state_that_compaction_overtakes_ends_its_watch_as_expired() {
    let (fixture, _) = five_overtaken(1).await;
    let mut watch = fixture.watch(WatchStart::state()).await;
    watch.events(PAGE_KEYS).await;
    let error = watch.last_error().await;
    assert!(matches!(error, StorageError::Expired(ExpiredRead::Watch)), "{error:?}");
}

/// The number of pods that the reads below go through.
const MANY: usize = 2_000;

/// The least number of times that such a read yields to other tasks.
const TURNS_MIN: usize = 4;

/// Runs a future that waits for nothing to its end, and counts how often it let others run.
fn run_counting<T>(future: impl Future<Output = T>) -> (T, usize) {
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(future);
    for turns in 0..=MANY {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return (output, turns);
        }
    }
    panic!("the future waits for something");
}

async fn many() -> Fixture {
    let fixture = Fixture::new(Arc::new(Reference::default()));
    for number in 0..MANY {
        fixture.create(&pod(&format!("{number:04}"))).await;
    }
    fixture
}

/// A backend in memory never waits, so a read of everything would hold its thread from the first object to
/// the last: also where a selector passes all of them over.
#[tokio::test]
async fn long_reads_let_others_run() {
    let fixture = many().await;
    for (selector, found) in [("", MANY), ("app=none", 0)] {
        let request = ListRequest { predicate: labels(selector), ..ListRequest::all() };
        let (list, turns) = run_counting(fixture.list(request));
        assert_eq!(list.items.len(), found);
        assert!(turns >= TURNS_MIN, "{turns} turns in a list of {selector:?}");

        let start = WatchStart::InitialEvents { position: Position::MostRecent, end_bookmark: true };
        let request = WatchRequest { predicate: labels(selector), ..WatchRequest::from(start) };
        let watch =
            fixture.storage.watch("/pods", request).now_or_never().expect("an answer").expect("a watch");
        let is_of_the_state = |event: &WatchEvent| !matches!(event, WatchEvent::Bookmark { .. });
        let state = watch
            .map(|event| event.expect("an event"))
            .take_while(|event| std::future::ready(is_of_the_state(event)));
        let (delivered, turns) = run_counting(state.count());
        assert_eq!(delivered, found);
        assert!(turns >= TURNS_MIN, "{turns} turns in a watch of {selector:?}");
    }
}
