//! Deleting objects.

use super::{Fixture, meanwhile, no_such_object, pod, rejection};
use crate::{DeleteOptions, Object, Preconditions, StorageError, WatchEvent};
use keepwatch_apimachinery::list_options::WatchStart;

fn on_uid(uid: &str) -> DeleteOptions {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    DeleteOptions { preconditions, ..DeleteOptions::default() }
}

fn hinting(hint: &Object) -> DeleteOptions {
    DeleteOptions { hint: Some(hint.clone()), ..DeleteOptions::default() }
}

/// The result equals the event of a watch: the last content, at the revision of the deletion.
pub async fn a_deletion_returns_the_last_content_with_its_own_revision(fixture: &Fixture) {
    fixture.create(&pod("a")).await;
    let last = fixture.put(&pod("a").data(1)).await;
    let mut watch = fixture.watch(WatchStart::now()).await;
    let deleted = fixture.delete(&pod("a")).await;
    assert!(deleted.revision > last.revision);
    assert_eq!(deleted, last.at(deleted.revision));
    assert_eq!(fixture.get(&pod("a")).await, None);
    assert_eq!(watch.event().await, WatchEvent::Deleted(deleted));
}

/// Nothing to delete, with a hint or without.
pub async fn deleting_a_missing_object_is_not_found(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let deleted = fixture.delete(&pod("a")).await;
    for options in [DeleteOptions::default(), hinting(&a)] {
        let missing = fixture.storage.delete("/pods/ns/a", options, &mut |_| Ok(())).await.unwrap_err();
        no_such_object(missing, &a.key);
    }
    assert_eq!(fixture.revision().await, deleted.revision);
}

/// Preconditions speak of the uid and the revision; what fails is named, and nothing is deleted.
pub async fn a_failed_precondition_keeps_the_object(fixture: &Fixture) {
    let a = fixture.create(&pod("a").uid("A")).await;
    let other = super::later(a.revision, 7);
    let on_revision = Preconditions { revision: Some(other), ..Preconditions::default() };
    let on_revision = DeleteOptions { preconditions: on_revision, ..DeleteOptions::default() };
    let both = Preconditions { uid: Some("A".to_owned()), revision: Some(other) };
    let both = DeleteOptions { preconditions: both, ..DeleteOptions::default() };
    let revision_text =
        format!("ResourceVersion in precondition: {other}, ResourceVersion in object meta: {}", a.revision);
    for (options, text) in [
        (on_uid("B"), "UID in precondition: B, UID in object meta: A"),
        (on_revision, revision_text.as_str()),
        (both, revision_text.as_str()),
    ] {
        for hint in [None, Some(a.clone())] {
            let options = DeleteOptions { hint, ..options.clone() };
            let refused = fixture.storage.delete("/pods/ns/a", options, &mut |_| Ok(())).await.unwrap_err();
            super::precondition_failed(refused, &a.key, text);
        }
    }
    assert_eq!(fixture.get(&pod("a")).await, Some(a.clone()));
    let exact = Preconditions { uid: Some("A".to_owned()), revision: Some(a.revision) };
    let exact = DeleteOptions { preconditions: exact, ..DeleteOptions::default() };
    fixture.storage.delete("/pods/ns/a", exact, &mut |_| Ok(())).await.expect("they hold");
}

/// The caller's own check sees the stored object, and its refusal comes back as it was said.
pub async fn a_validation_that_refuses_keeps_the_object(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    for hint in [None, Some(a.clone())] {
        let mut asked = Vec::new();
        let options = DeleteOptions { hint, ..DeleteOptions::default() };
        let mut refuse = |object: &Object| {
            asked.push(object.clone());
            Err(rejection("not today"))
        };
        let refused = fixture.storage.delete("/pods/ns/a", options, &mut refuse).await.unwrap_err();
        assert!(matches!(refused, StorageError::Rejected(_)), "{refused:?}");
        assert_eq!(refused.to_string(), "not today");
        assert_eq!(asked, std::slice::from_ref(&a));
    }
    assert_eq!(fixture.get(&pod("a")).await, Some(a));
}

/// A refusal that a stale hint led to is not final, and what is deleted is what is stored.
pub async fn a_stale_hint_costs_a_retry_never_a_wrong_deletion(fixture: &Fixture) {
    let old = fixture.create(&pod("a").uid("A")).await;
    let live = fixture.put(&pod("a").uid("B")).await;
    let mut asked = Vec::new();
    let options = DeleteOptions { hint: Some(old.clone()), ..on_uid("B") };
    let mut validate = |object: &Object| {
        asked.push(object.revision);
        Ok(())
    };
    let deleted = fixture.storage.delete("/pods/ns/a", options, &mut validate).await.expect("B is stored");
    assert_eq!(asked, [live.revision], "the hint failed the precondition before");
    assert_eq!(deleted, live.at(deleted.revision));
}

/// The same where it is the caller's check that the hint fails, or passes wrongly.
pub async fn a_stale_hint_is_validated_again_with_the_live_object(fixture: &Fixture) {
    let old = fixture.create(&pod("a")).await;
    let live = fixture.put(&pod("a").data(1)).await;
    let mut asked = Vec::new();
    let mut only_the_old = |object: &Object| {
        asked.push(object.revision);
        if object.revision == old.revision { Ok(()) } else { Err(rejection("changed")) }
    };
    let refused = fixture.storage.delete("/pods/ns/a", hinting(&old), &mut only_the_old).await.unwrap_err();
    assert_eq!(refused.to_string(), "changed");
    assert_eq!(asked, [old.revision, live.revision]);
    let mut only_the_live =
        |object: &Object| if object.revision == old.revision { Err(rejection("old")) } else { Ok(()) };
    fixture
        .storage
        .delete("/pods/ns/a", hinting(&old), &mut only_the_live)
        .await
        .expect("the live one passes");
}

/// A check that refuses a hint of what is gone: there is nothing to refuse.
pub async fn a_refused_hint_of_a_deleted_object_is_not_found(fixture: &Fixture) {
    let old = fixture.create(&pod("a")).await;
    fixture.delete(&pod("a")).await;
    let mut refuse = |_: &Object| Err(rejection("no"));
    let missing = fixture.storage.delete("/pods/ns/a", hinting(&old), &mut refuse).await.unwrap_err();
    no_such_object(missing, &old.key);
}

/// A version that is written between the check and the deletion is checked too.
pub async fn a_deletion_overtaken_by_an_update_checks_again(fixture: &Fixture) {
    fixture.create(&pod("a")).await;
    let mut asked = 0;
    let mut validate = |_: &Object| {
        asked += 1;
        if asked == 1 {
            meanwhile(fixture.put(&pod("a").data(1)));
        }
        Ok(())
    };
    let deleted = fixture
        .storage
        .delete("/pods/ns/a", DeleteOptions::default(), &mut validate)
        .await
        .expect("a deletion");
    assert_eq!(asked, 2);
    assert_eq!(deleted.value, pod("a").data(1).value());
}

/// However many delete one object at once, one succeeds and the others find nothing.
pub async fn of_many_deletions_exactly_one_wins(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let mut watch = fixture.watch(WatchStart::now()).await;
    let attempts = (0..16).map(|_| {
        let storage = fixture.storage.clone();
        tokio::spawn(
            async move { storage.delete("/pods/ns/a", DeleteOptions::default(), &mut |_| Ok(())).await },
        )
    });
    let mut won = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.expect("the deleter is done") {
            Ok(object) => won.push(object),
            Err(error) => no_such_object(error, &a.key),
        }
    }
    let [deleted] = won.as_slice() else { panic!("{won:?}") };
    assert_eq!(watch.event().await, WatchEvent::Deleted(deleted.clone()));
    let fence = fixture.create(&pod("fence")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(fence));
}
