//! Objects that live for a while. Here time is the subject, so here alone cases let it pass.

use super::{Fixture, pod};
use crate::{DeleteOptions, Object, StorageError, WatchEvent};
use keepwatch_apimachinery::list_options::WatchStart;
use std::time::{Duration, Instant};

/// Its time over, an object is deleted like any other: delivered with its last content, at a new revision.
pub async fn expiry_is_an_ordinary_deletion(fixture: &Fixture) {
    let ttl = fixture.capabilities.shortest_ttl;
    let begun = Instant::now();
    let a = fixture.create_for(&pod("a"), ttl).await;
    let read = fixture.get(&pod("a")).await;
    // Where everything takes long it may be over by now; the watch begins before that in any case.
    assert!(read.as_ref() == Some(&a) || begun.elapsed() >= ttl, "it lives first");
    let mut watch = fixture.watch(WatchStart::after(a.revision)).await;
    let WatchEvent::Deleted(expired) = watch.event().await else { panic!("an expiry was due") };
    assert!(begun.elapsed() >= ttl, "it lived for {:?} of {ttl:?}", begun.elapsed());
    assert!(expired.revision > a.revision);
    assert_eq!(expired, a.at(expired.revision));
    assert_eq!(fixture.get(&pod("a")).await, None);
    assert!(fixture.revision().await >= expired.revision);
    let again = fixture.create(&pod("a")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(again));
}

/// An update gives its time to live in full, however much of the last one had passed.
pub async fn an_update_applies_the_ttl_in_full_again(fixture: &Fixture) {
    let ttl = fixture.capabilities.shortest_ttl;
    fixture.create_for(&pod("a"), ttl).await;
    tokio::time::sleep(ttl / 2).await;
    let updating = Instant::now();
    let updated = fixture.put_for(&pod("a").data(1), Some(ttl)).await;
    let mut watch = fixture.watch(WatchStart::after(updated.revision)).await;
    let WatchEvent::Deleted(expired) = watch.event().await else { panic!("an expiry was due") };
    assert!(updating.elapsed() >= ttl, "it lived for {:?} of {ttl:?}", updating.elapsed());
    assert_eq!(expired, updated.at(expired.revision));
}

/// An update without one takes it away.
pub async fn an_update_without_a_ttl_keeps_the_object_for_ever(fixture: &Fixture) {
    let ttl = fixture.capabilities.shortest_ttl;
    fixture.create_for(&pod("a"), ttl).await;
    let kept = fixture.put(&pod("a").data(1)).await;
    outlives(fixture, &kept).await;
}

/// An object that is created anew does not inherit the time to live of the one before.
pub async fn a_new_object_does_not_inherit_the_ttl_of_a_deleted_one(fixture: &Fixture) {
    let ttl = fixture.capabilities.shortest_ttl;
    fixture.create_for(&pod("a"), ttl).await;
    match fixture.storage.delete(&pod("a").key(), DeleteOptions::default(), &mut |_| Ok(())).await {
        // Where everything takes long it may have expired by itself.
        Ok(_) | Err(StorageError::NotFound { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
    let kept = fixture.create(&pod("a")).await;
    outlives(fixture, &kept).await;
}

/// Zero is no time to live, whether the object is new or not.
pub async fn a_ttl_of_zero_is_for_ever(fixture: &Fixture) {
    let created = fixture.create_for(&pod("a"), Duration::ZERO).await;
    outlives(fixture, &created).await;
    let updated = fixture.put_for(&pod("a").data(1), Some(Duration::ZERO)).await;
    outlives(fixture, &updated).await;
}

/// Shows that pod `a` outlives another that was given the shortest time after it was.
async fn outlives(fixture: &Fixture, kept: &Object) {
    let mut watch = fixture.watch(WatchStart::now()).await;
    let fence = fixture.create_for(&pod("fence"), fixture.capabilities.shortest_ttl).await;
    assert_eq!(watch.event().await, WatchEvent::Added(fence.clone()));
    let WatchEvent::Deleted(expired) = watch.event().await else { panic!("an expiry was due") };
    assert_eq!(expired.key, fence.key);
    watch.is_quiet().await;
    assert_eq!(fixture.get(&pod("a")).await.as_ref(), Some(kept));
}
