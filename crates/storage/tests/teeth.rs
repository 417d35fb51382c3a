//! The suite bites: for every mistake a backend is likely to make there is a case that fails.

use async_trait::async_trait;
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendEvent, BackendWatch, Key, KeyValue, Range, RangeRequest, Scope, StorageError, Swap,
    Unchanged, Value,
    testing::{Capabilities, Fixture, conformance::*, model, reference::Reference},
};
use std::{sync::Arc, time::Duration};

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    WritesWithoutComparing,
    CreatesOverWhatExists,
    IgnoresTheOtherKey,
    DeletesWithoutComparing,
    ReadsThePresentForThePast,
    ListsOutOfOrder,
    ListsTheNeighbours,
    ListsTheKeyItself,
    CountsOneTooFew,
    StopsAtTheFirstPage,
    ReadsTheFuture,
    ReadsWhatIsCompacted,
    TellsTheStartAgain,
    SkipsAnEvent,
    RepeatsAnEvent,
    ForgetsThePrevious,
    DeletesAtTheOldRevision,
    SkipsWhatIsCompacted,
    BookmarksTooEarly,
    IgnoresRequestsForProgress,
    TellsProgressUnasked,
    RevisionLagsBehind,
    NeverForgetsATtl,
    NeverExpires,
    IgnoresCompaction,
    CountsPastTheEnd,
    KeepsOnlyText,
}

use Mistake::*;

struct Broken {
    inner: Reference,
    mistake: Mistake,
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::new(number.max(1)).expect("above zero")
}

#[async_trait]
impl Backend for Broken {
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
        let found = self.inner.get(key).await?.1.map(|item| item.modified);
        let blind = match self.mistake {
            WritesWithoutComparing => expected.is_some(),
            CreatesOverWhatExists => expected.is_none(),
            _ => false,
        };
        if self.mistake == NeverForgetsATtl
            && let Some(ttl) = ttl
        {
            let (inner, key) = (self.inner.clone(), key.clone());
            tokio::spawn(async move {
                tokio::time::sleep(ttl).await;
                if let Some(item) = inner.get(&key).await.expect("a read").1 {
                    inner.delete_if(&key, item.modified).await.expect("a deletion");
                }
            });
        }
        let ttl = ttl.filter(|_| self.mistake != NeverExpires);
        let value = match self.mistake {
            KeepsOnlyText => String::from_utf8_lossy(&value.bytes).into_owned().into(),
            _ => value,
        };
        let unchanged = unchanged.filter(|_| self.mistake != IgnoresTheOtherKey);
        self.inner.put_while(key, if blind { found } else { expected }, value, ttl, unchanged).await
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        let found = self.inner.get(key).await?.1.map(|item| item.modified);
        let blind = found.filter(|_| self.mistake == DeletesWithoutComparing);
        self.inner.delete_if(key, blind.unwrap_or(expected)).await
    }

    async fn range(&self, mut request: RangeRequest) -> Result<Range, StorageError> {
        let current = self.inner.current_revision().await?;
        match (self.mistake, &request.scope) {
            (ReadsThePresentForThePast, _) => request.at = None,
            (ReadsTheFuture, _) => request.at = request.at.map(|at| at.min(current)),
            (ReadsWhatIsCompacted, _) => {
                request.at = request.at.max(request.at.and(self.inner.compacted_revision()));
            }
            (ListsTheNeighbours, Scope::Children(prefix)) if prefix.as_str() != "/registry/pods/" => {
                let parent = Key::from_backend("/registry/pods/");
                let all = RangeRequest { scope: Scope::Children(parent), ..request.clone() };
                let mut range = self.inner.range(all).await?;
                range.items.retain(|item| item.key.starts_with(prefix.trim_end_matches('/')));
                return Ok(range);
            }
            (ListsTheKeyItself, Scope::Children(prefix)) => {
                let own = Key::from_backend(prefix.trim_end_matches('/'));
                let own = self.inner.get(&own).await?.1;
                let mut range = self.inner.range(request).await?;
                range.items.splice(0..0, own);
                return Ok(range);
            }
            _ => {}
        }
        let mut range = self.inner.range(request).await?;
        match self.mistake {
            ListsOutOfOrder => range.items.reverse(),
            CountsOneTooFew => range.count = range.count.map(|count| count - 1),
            StopsAtTheFirstPage => range.more = false,
            _ => {}
        }
        Ok(range)
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        let (mistake, inner) = (self.mistake, self.inner.clone());
        let after = match mistake {
            TellsTheStartAgain => version(after.get() - 1),
            CountsPastTheEnd => version(after.next().get() - 1),
            SkipsWhatIsCompacted => after.max(inner.compacted_revision().unwrap_or(after)),
            _ => after,
        };
        let progress = match mistake {
            IgnoresRequestsForProgress => false,
            TellsProgressUnasked => true,
            _ => progress,
        };
        let mut number = 0;
        let watch = inner.watch(scope, after, progress).await?;
        Ok(watch
            .flat_map(move |event| {
                number += 1;
                let event = event.map(|event| match event {
                    BackendEvent::Put { item, .. } if mistake == ForgetsThePrevious => {
                        BackendEvent::Put { item, previous: None }
                    }
                    BackendEvent::Delete { key, previous, .. } if mistake == DeletesAtTheOldRevision => {
                        let revision = previous.as_ref().expect("it existed").modified;
                        BackendEvent::Delete { key, revision, previous }
                    }
                    BackendEvent::Progress(revision) if mistake == BookmarksTooEarly => {
                        BackendEvent::Progress(version(revision.get() + 2))
                    }
                    other => other,
                });
                let again = event.as_ref().ok().cloned().map(Ok).filter(|_| mistake == RepeatsAnEvent);
                let skipped = mistake == SkipsAnEvent && number % 3 == 0;
                futures::stream::iter((!skipped).then_some(event).into_iter().chain(again))
            })
            .boxed())
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.inner.request_progress().await
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        let current = self.inner.current_revision().await?;
        Ok(if self.mistake == RevisionLagsBehind { version(current.get() - 1) } else { current })
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        if self.mistake == IgnoresCompaction {
            return Ok(());
        }
        self.inner.compact(revision).await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.inner.compacted_revision()
    }
}

async fn broken(mistake: Mistake) -> Fixture {
    let capabilities = Capabilities { shortest_ttl: Duration::from_millis(200), ..Capabilities::default() };
    let backend = Broken { inner: Reference::default(), mistake };
    Fixture::new(Arc::new(backend)).capabilities(capabilities)
}

/// Whether a case fails, or is still waiting when it should long be done.
macro_rules! fails {
    ($mistake:expr, $($case:ident)::+) => {{
        let case = tokio::spawn(async move { $($case)::+(&mut broken($mistake).await).await });
        let stop = case.abort_handle();
        let outcome = tokio::time::timeout(Duration::from_secs(5), case).await;
        stop.abort();
        assert!(!matches!(outcome, Ok(Ok(()))), "{:?} passes {}", $mistake, stringify!($($case)::+));
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_in_writing_fails_a_case() {
    fails!(WritesWithoutComparing, update::an_update_overtaken_by_another_is_tried_again_on_the_newer_object);
    fails!(WritesWithoutComparing, update::no_increment_is_lost_among_many_writers);
    fails!(CreatesOverWhatExists, create::of_many_creates_of_one_key_exactly_one_wins);
    fails!(CreatesOverWhatExists, create::a_taken_key_is_refused_and_delivers_no_event);
    fails!(IgnoresTheOtherKey, create::a_creation_that_depends_on_another_object_needs_it_unchanged);
    fails!(DeletesWithoutComparing, delete::a_deletion_overtaken_by_an_update_checks_again);
    fails!(DeletesWithoutComparing, delete::a_stale_hint_is_validated_again_with_the_live_object);
    fails!(RevisionLagsBehind, create::the_current_revision_is_not_below_a_completed_write);
    fails!(NeverForgetsATtl, ttl::an_update_applies_the_ttl_in_full_again);
    fails!(NeverForgetsATtl, ttl::an_update_without_a_ttl_keeps_the_object_for_ever);
    fails!(NeverForgetsATtl, ttl::a_new_object_does_not_inherit_the_ttl_of_a_deleted_one);
    fails!(NeverExpires, ttl::expiry_is_an_ordinary_deletion);
    fails!(KeepsOnlyText, transform::any_bytes_at_rest_survive_reopening);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_in_reading_fails_a_case() {
    fails!(ReadsThePresentForThePast, list::a_list_at_an_exact_revision_shows_that_state);
    fails!(ReadsThePresentForThePast, list::a_write_between_pages_is_not_seen);
    fails!(ListsOutOfOrder, keys::objects_are_listed_in_byte_order_of_the_key);
    fails!(ListsTheNeighbours, keys::a_recursive_read_never_takes_in_a_neighbour_with_a_longer_name);
    fails!(ListsTheKeyItself, keys::a_recursive_read_takes_in_children_never_the_key_itself);
    fails!(CountsOneTooFew, list::pages_cover_everything_once_at_one_revision);
    fails!(StopsAtTheFirstPage, list::a_list_with_a_selector_reads_on_until_the_limit_is_filled);
    fails!(StopsAtTheFirstPage, list::the_last_page_may_be_empty);
    fails!(StopsAtTheFirstPage, watch::a_state_of_many_pages_is_of_one_revision);
    fails!(ReadsTheFuture, list::a_list_at_a_future_revision_is_too_large);
    fails!(ReadsWhatIsCompacted, compaction::a_list_at_a_compacted_revision_is_expired);
    fails!(ReadsWhatIsCompacted, compaction::a_page_whose_revision_is_compacted_names_a_token_that_goes_on);
    fails!(IgnoresCompaction, compaction::the_compacted_revision_is_known);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_in_watching_fails_a_case() {
    fails!(TellsTheStartAgain, watch::a_watch_after_a_revision_does_not_repeat_it);
    fails!(TellsTheStartAgain, watch::a_watch_from_the_future_is_silent_until_its_revision_has_passed);
    fails!(CountsPastTheEnd, watch::a_watch_from_the_end_of_time_is_silent_for_ever);
    fails!(SkipsAnEvent, watch::a_resumed_watch_repeats_nothing_and_skips_nothing);
    fails!(SkipsAnEvent, watch::watches_opened_among_many_writers_deliver_every_change_once_and_in_order);
    fails!(RepeatsAnEvent, watch::a_resumed_watch_repeats_nothing_and_skips_nothing);
    fails!(ForgetsThePrevious, view::a_change_in_view_is_modified);
    fails!(DeletesAtTheOldRevision, delete::a_deletion_returns_the_last_content_with_its_own_revision);
    fails!(SkipsWhatIsCompacted, compaction::a_watch_after_a_compacted_revision_is_expired);
    fails!(BookmarksTooEarly, watch::a_bookmark_comes_after_everything_up_to_it);
    fails!(IgnoresRequestsForProgress, watch::progress_is_reported_on_request);
    fails!(TellsProgressUnasked, watch::progress_is_reported_on_request);
}

#[test]
fn the_model_finds_the_mistakes_that_the_cases_find() {
    for mistake in [
        CreatesOverWhatExists,
        DeletesWithoutComparing,
        WritesWithoutComparing,
        ReadsThePresentForThePast,
        ListsOutOfOrder,
        CountsOneTooFew,
        StopsAtTheFirstPage,
        ReadsWhatIsCompacted,
        TellsTheStartAgain,
        RepeatsAnEvent,
        DeletesAtTheOldRevision,
        SkipsWhatIsCompacted,
        RevisionLagsBehind,
        IgnoresCompaction,
    ] {
        let outcome = std::panic::catch_unwind(|| model::check_model(64, || broken(mistake)));
        assert!(outcome.is_err(), "{mistake:?} passes the model");
    }
}
