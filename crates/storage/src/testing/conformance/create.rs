//! Creating objects, and the counter that every write raises.

use super::{Fixture, pod};
use crate::{Object, StorageError, Unchanged, WatchEvent};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use std::collections::BTreeSet;

/// The object returned, read, listed and watched is one: the value as given, at the write's revision.
pub async fn a_created_object_carries_the_revision_of_its_write(fixture: &Fixture) {
    let before = fixture.revision().await;
    let mut watch = fixture.watch(WatchStart::now()).await;
    let a = pod("a").label("app", "web").node("x");
    let created = fixture.create(&a).await;
    assert!(created.revision > before);
    assert_eq!(created.key.as_str(), "/registry/pods/ns/a");
    assert_eq!(created.value, a.value());
    assert_eq!(created.attributes.uid.as_deref(), Some("uid-a"));
    assert_eq!(created.attributes.labels.get("app"), Some("web"));
    assert_eq!(fixture.get(&a).await, Some(created.clone()));
    assert_eq!(fixture.list(super::ListRequest::all()).await.items, std::slice::from_ref(&created));
    assert_eq!(watch.event().await, WatchEvent::Added(created));
}

/// There is one counter; every write of any resource raises it, and it is never zero.
pub async fn every_write_raises_the_one_counter(fixture: &Fixture) {
    let mut revisions = vec![fixture.revision().await];
    for round in 0..3 {
        let (a, b) = (pod("a").data(round), pod("b").data(round));
        revisions.push(fixture.create(&a).await.revision);
        revisions.push(fixture.write_elsewhere().await);
        revisions.push(fixture.create(&b).await.revision);
        revisions.push(fixture.put(&a.data(10)).await.revision);
        revisions.push(fixture.delete(&b).await.revision);
        revisions.push(fixture.delete(&pod("a")).await.revision);
    }
    assert!(revisions.is_sorted_by(|earlier, later| earlier < later), "{revisions:?}");
    assert_eq!(Some(&fixture.revision().await), revisions.last());
}

/// Storage alone gives versions out.
pub async fn an_object_that_carries_a_version_is_refused_and_nothing_is_written(fixture: &Fixture) {
    let (a, before) = (pod("a"), fixture.revision().await);
    let refused = fixture.storage.create(&a.key(), a.value_with_version("5"), None).await.unwrap_err();
    assert!(matches!(refused, StorageError::VersionSet), "{refused:?}");
    assert_eq!(refused.to_string(), "resourceVersion should not be set on objects to be created");
    assert_eq!(fixture.revision().await, before);
    assert_eq!(fixture.get(&a).await, None);
}

/// A value that could not be read again is not written.
pub async fn a_value_that_is_no_object_of_the_kind_is_refused_and_nothing_is_written(fixture: &Fixture) {
    let (a, before) = (pod("a"), fixture.revision().await);
    let refused = fixture.storage.create(&a.key(), "not JSON".into(), None).await.unwrap_err();
    assert!(matches!(refused, StorageError::InvalidObject { .. }), "{refused:?}");
    assert_eq!(fixture.revision().await, before);
    assert_eq!(fixture.get(&a).await, None);
}

/// A key that is taken stays as it is.
pub async fn a_taken_key_is_refused_and_delivers_no_event(fixture: &Fixture) {
    let a = pod("a");
    let first = fixture.create(&a).await;
    let mut watch = fixture.watch(WatchStart::after(first.revision)).await;
    let refused = fixture.storage.create(&a.key(), a.clone().data(1).value(), None).await.unwrap_err();
    assert!(matches!(&refused, StorageError::KeyExists { key } if *key == first.key), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "StorageError: key exists, Code: 2, Key: /registry/pods/ns/a, ResourceVersion: 0, AdditionalErrorMsg: "
    );
    assert_eq!(fixture.revision().await, first.revision);
    assert_eq!(fixture.get(&a).await, Some(first));
    let fence = fixture.create(&pod("fence")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(fence));
}

/// A deleted key is free; what is written there is new.
pub async fn a_deleted_key_can_be_created_again_and_is_delivered_as_added(fixture: &Fixture) {
    let a = pod("a");
    let first = fixture.create(&a).await;
    let deleted = fixture.delete(&a).await;
    let mut watch = fixture.watch(WatchStart::after(deleted.revision)).await;
    let second = fixture.create(&a).await;
    assert!(second.revision > deleted.revision && deleted.revision > first.revision);
    assert_eq!(watch.event().await, WatchEvent::Added(second));
}

/// However many create one key at once, one succeeds and the others learn that it is taken.
pub async fn of_many_creates_of_one_key_exactly_one_wins(fixture: &Fixture) {
    let attempts = (0..16).map(|writer| {
        let storage = fixture.storage.clone();
        tokio::spawn(async move {
            let a = pod("a").data(writer);
            storage.create(&a.key(), a.value(), None).await
        })
    });
    let (mut won, mut refused) = (Vec::new(), 0);
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.expect("the writer is done") {
            Ok(object) => won.push(object),
            Err(StorageError::KeyExists { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((won.len(), refused), (1, 15));
    assert_eq!(fixture.get(&pod("a")).await.as_ref(), won.first());
}

/// The object on which a creation depends may be gone, changed, or made anew; a taken key is reported first.
pub async fn a_creation_that_depends_on_another_object_needs_it_unchanged(fixture: &Fixture) {
    let (a, home) = (pod("a"), pod("home"));
    let create = |unchanged: Unchanged| async move {
        let a = pod("a");
        fixture.storage.create_while(&a.key(), a.value(), None, Some(&unchanged)).await
    };
    let first = unchanged(&fixture.create(&home).await);
    let second = unchanged(&fixture.put(&home.clone().data(1)).await);
    let last = unchanged(&fixture.delete(&home).await);
    let before = fixture.revision().await;
    for gone in [&first, &second, &last] {
        let refused = create(gone.clone()).await.unwrap_err();
        assert!(matches!(&refused, StorageError::OtherChanged { key } if *key == gone.key), "{refused:?}");
    }
    assert_eq!((fixture.revision().await, fixture.get(&a).await), (before, None));
    let anew = unchanged(&fixture.create(&home).await);
    create(second).await.unwrap_err();
    assert_eq!(create(anew.clone()).await.expect("nothing has changed").value, a.value());
    for any in [first, anew] {
        let refused = create(any).await.unwrap_err();
        assert!(matches!(refused, StorageError::KeyExists { .. }), "{refused:?}");
    }
}

fn unchanged(object: &Object) -> Unchanged {
    Unchanged { key: object.key.clone(), modified: object.revision }
}

/// Of creations that race with a change of what they depend on, those that succeed were before it.
pub async fn no_creation_comes_after_a_change_of_the_object_it_depends_on(fixture: &Fixture) {
    for round in 0..20 {
        let home = pod("home").data(round);
        let before = unchanged(&fixture.put(&home).await);
        let creations = (0..8).map(|writer| {
            let (storage, before) = (fixture.storage.clone(), before.clone());
            tokio::spawn(async move {
                let mut created = Vec::new();
                for number in 0.. {
                    let own = pod(&format!("{round}-{writer}-{number}"));
                    match storage.create_while(&own.key(), own.value(), None, Some(&before)).await {
                        Ok(object) => created.push(object.revision),
                        Err(StorageError::OtherChanged { .. }) => break,
                        Err(other) => panic!("{other:?}"),
                    }
                }
                created
            })
        });
        let creations: Vec<_> = creations.collect();
        let changed = fixture.put(&home.data(round + 100)).await.revision;
        for creation in creations {
            let created = creation.await.expect("the writer is done");
            assert!(created.iter().all(|own| *own < changed), "{created:?} after {changed}");
        }
    }
}

/// A read that begins after a write was acknowledged sees it, whatever other clients write.
pub async fn readers_see_their_own_writes(fixture: &Fixture) {
    let writers = (0..8).map(|writer| {
        let storage = fixture.storage.clone();
        tokio::spawn(async move {
            for number in 0..10 {
                let own = pod(&format!("{writer}-{number}"));
                let written = storage.create(&own.key(), own.value(), None).await.expect("a new object");
                let read = storage.get(&own.key(), Position::MostRecent).await.expect("a read");
                assert_eq!(read.as_ref(), Some(&written));
                let list = storage.get_list("/pods", super::ListRequest::all()).await.expect("a list");
                assert!(list.revision >= written.revision);
                assert!(list.items.contains(&written), "{written:?} is missing at {}", list.revision);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("the writer read what it wrote");
    }
}

/// The current revision is linearizable, and no two writes share one.
pub async fn the_current_revision_is_not_below_a_completed_write(fixture: &Fixture) {
    let writers = (0..8).map(|writer| {
        let (storage, source) = (fixture.storage.clone(), fixture.source());
        tokio::spawn(async move {
            let mut written = Vec::new();
            for number in 0..10 {
                let own = pod(&format!("{writer}-{number}"));
                let object = storage.create(&own.key(), own.value(), None).await.expect("a new object");
                let current = source.current_revision().await.expect("a revision");
                assert!(current >= object.revision, "{current} after {}", object.revision);
                written.push(object.revision);
            }
            written
        })
    });
    let mut revisions = BTreeSet::new();
    for writer in writers.collect::<Vec<_>>() {
        revisions.extend(writer.await.expect("the writer is done"));
    }
    assert_eq!(revisions.len(), 80);
    assert!(fixture.revision().await >= *revisions.last().expect("a revision"));
}
