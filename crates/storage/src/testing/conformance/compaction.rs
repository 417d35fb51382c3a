//! Compaction: the history that it drops and keeps, and the errors of readers.
//!
//! Not asked: whether a watch after the revision right before the compacted one is still served. etcd keeps
//! the change at the compacted revision itself, other engines need not.

use super::{Fixture, later, names, pod, token_after};
use crate::{ExpiredRead, ListRequest, Object, StorageError, WatchEvent};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ListAt, WatchStart},
};

/// Five objects, then the revisions of their creation.
async fn five(fixture: &Fixture) -> Vec<Object> {
    let mut created = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        created.push(fixture.create(&pod(name)).await);
    }
    created
}

fn at(at: ListAt) -> ListRequest {
    ListRequest { at, ..ListRequest::all() }
}

/// States before the compacted revision cannot be read.
pub async fn a_list_at_a_compacted_revision_is_expired(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let created = five(fixture).await;
    fixture.compact(created[3].revision).await;
    for compacted in [created[0].revision, created[2].revision] {
        for limit in [None, Some(1)] {
            let request = ListRequest { limit, ..at(ListAt::Exact(compacted)) };
            let expired = fixture.try_list(request).await.unwrap_err();
            assert!(matches!(expired, StorageError::Expired(ExpiredRead::List)), "{expired:?}");
            assert_eq!(expired.to_string(), "The resourceVersion for the provided list is too old.");
        }
    }
}

/// The compacted revision is the oldest that is kept: it can be read, and watched from.
pub async fn the_compacted_revision_itself_can_be_read_and_watched_from(fixture: &Fixture) {
    let created = five(fixture).await;
    let gone = fixture.delete(&pod("a")).await;
    let changed = fixture.put(&pod("b").data(1)).await;
    for (compacted, expected) in [(created[3].revision, "a b c d"), (gone.revision, "b c d e")] {
        fixture.compact(compacted).await;
        let list = fixture.list(at(ListAt::Exact(compacted))).await;
        assert_eq!((names(&list).as_str(), list.revision), (expected, compacted));
    }
    let mut watch = fixture.watch(WatchStart::after(gone.revision)).await;
    assert_eq!(watch.event().await, WatchEvent::Modified(changed));
}

/// Compaction forgets history, not objects, however long ago they were written.
pub async fn the_newest_state_outlives_compaction(fixture: &Fixture) {
    let created = five(fixture).await;
    let now = fixture.write_elsewhere().await;
    fixture.compact(now).await;
    assert_eq!(fixture.list(ListRequest::all()).await.items, created);
    assert_eq!(fixture.get(&pod("a")).await.as_ref(), created.first());
    let mut watch = fixture.watch(WatchStart::state()).await;
    assert_eq!(watch.events(5).await, created.iter().cloned().map(WatchEvent::Added).collect::<Vec<_>>());
    let deleted = fixture.delete(&pod("a")).await;
    assert_eq!(deleted.value, created[0].value);
    assert_eq!(watch.event().await, WatchEvent::Deleted(deleted));
}

/// A page comes too late: the error holds a token that goes on from the same key in the newest state.
pub async fn a_page_whose_revision_is_compacted_names_a_token_that_goes_on(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    five(fixture).await;
    let page = |read| ListRequest { limit: Some(2), ..at(read) };
    let first = fixture.list(page(ListAt::MostRecent)).await;
    let token = first.next.expect("there is more");
    fixture.create(&pod("cc")).await;
    let now = fixture.delete(&pod("d")).await.revision;
    fixture.compact(now).await;
    let expired = fixture.try_list(page(ListAt::Continue(token))).await.unwrap_err();
    assert!(
        expired
            .to_string()
            .starts_with("The provided continue parameter is too old to display a consistent list result."),
        "{expired}"
    );
    let StorageError::Expired(ExpiredRead::Continue(fresh)) = expired else { panic!("{expired:?}") };
    assert_eq!(fresh, token_after("ns/b", "", ContinueAt::Newest));
    let second = fixture.list(page(ListAt::Continue(fresh))).await;
    assert_eq!((names(&second).as_str(), second.revision, second.remaining), ("c cc", now, Some(1)));
    let third = fixture.list(page(ListAt::Continue(second.next.expect("there is more")))).await;
    assert_eq!((names(&third).as_str(), third.revision, third.next), ("e", now, None));
}

fn assert_expired_watch(error: &StorageError) {
    assert!(matches!(error, StorageError::Expired(ExpiredRead::Watch)), "{error:?}");
    assert_eq!(error.to_string(), "The resourceVersion for the provided watch is too old.");
}

/// A watch from before the compacted revision is opened, says so, and ends.
pub async fn a_watch_after_a_compacted_revision_is_expired(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let created = five(fixture).await;
    fixture.compact(created[4].revision).await;
    for start in [created[0].revision, created[2].revision] {
        let mut watch = fixture.watch(WatchStart::after(start)).await;
        assert_expired_watch(&watch.last_error().await);
    }
}

/// A watch that is read too late says that something is missing, unless nothing is.
pub async fn a_watch_overtaken_by_compaction_skips_nothing_silently(fixture: &Fixture) {
    let before = fixture.revision().await;
    let mut watch = fixture.watch(WatchStart::after(before)).await;
    let mut written: Vec<Object> = Vec::new();
    for number in 0..500 {
        written.push(fixture.put(&pod("a").data(number)).await);
    }
    fixture.compact(written[499].revision).await;
    written.push(fixture.put(&pod("a").data(500)).await);
    for due in &written {
        match watch.item().await {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                assert_eq!(object, *due)
            }
            Some(Err(error)) => {
                assert!(error.is_expired(), "{error:?}");
                assert!(
                    fixture.capabilities.cached || error.to_string().contains("watch is too old"),
                    "{error}"
                );
                assert!(watch.item().await.is_none(), "an error is the last item");
                return;
            }
            other => panic!("{due:?} was due, not {other:?}"),
        }
    }
}

/// A watch that has read everything does not notice that what it read is forgotten.
pub async fn a_watch_that_is_up_to_date_goes_on_after_compaction(fixture: &Fixture) {
    let mut watch = fixture.watch(WatchStart::now()).await;
    for round in 0..5 {
        let written = fixture.put(&pod("a").data(round)).await;
        assert_eq!(watch.event().await.revision(), written.revision);
        fixture.compact(written.revision).await;
    }
    let fence = fixture.create(&pod("fence")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(fence));
}

/// Compacting again, or further back, changes nothing.
pub async fn compacting_again_to_the_same_revision_changes_nothing(fixture: &Fixture) {
    let created = five(fixture).await;
    for revision in [created[3].revision, created[3].revision, created[1].revision] {
        fixture.compact(revision).await;
        assert_eq!(fixture.backend.compacted_revision(), Some(created[3].revision));
        let list = fixture.list(at(ListAt::Exact(created[3].revision))).await;
        assert_eq!(names(&list), "a b c d");
    }
    assert_eq!(fixture.revision().await, created[4].revision, "compaction is no write");
}

/// The storage reports up to where it is compacted.
pub async fn the_compacted_revision_is_known(fixture: &Fixture) {
    let created = five(fixture).await;
    let known = fixture.source().compacted_revision();
    assert!(known < Some(created[1].revision), "{known:?}");
    for object in &created[1..] {
        fixture.compact(object.revision).await;
        assert_eq!(fixture.source().compacted_revision(), Some(object.revision));
    }
}

/// Writers, compaction and readers at once: a reader gets the truth or learns that it is too late.
pub async fn compaction_among_readers_never_makes_a_wrong_answer(fixture: &Fixture) {
    let storage = fixture.storage.clone();
    let writer = tokio::spawn(async move {
        let mut revisions: Vec<ResourceVersion> = Vec::new();
        for number in 0..100 {
            let own = pod(&format!("{number:03}"));
            revisions.push(storage.create(&own.key(), own.value(), None).await.expect("a creation").revision);
        }
        revisions
    });
    let first = fixture.revision().await;
    let mut answered = Vec::new();
    while !writer.is_finished() {
        let now = fixture.revision().await;
        let half = later(first, (now.get() - first.get()) / 2);
        fixture.compact(half).await;
        for revision in [first, half, now] {
            match fixture.try_list(at(ListAt::Exact(revision))).await {
                Ok(list) => answered.push((revision, list.items.len())),
                Err(error) => assert!(error.is_expired() && revision < half, "{error:?} at {revision}"),
            }
        }
    }
    let revisions = writer.await.expect("the writer is done");
    for (revision, count) in answered {
        let then = revisions.iter().filter(|written| **written <= revision).count();
        assert_eq!(count, then, "at {revision}");
    }
}
