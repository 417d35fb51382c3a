//! Guaranteed updates: read, change, write, again until no other client wrote in between.

use super::{Fixture, meanwhile, no_such_object, pod, precondition_failed, rejection};
use crate::{
    DeleteOptions, Object, Preconditions, StorageError, Update, UpdateOptions, WatchEvent, testing::Pod,
};
use keepwatch_apimachinery::list_options::WatchStart;
use std::collections::BTreeSet;

fn hinting(hint: &Object) -> UpdateOptions {
    UpdateOptions { hint: Some(hint.clone()), ..UpdateOptions::default() }
}

fn or_create() -> UpdateOptions {
    UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() }
}

/// Updates pod `a` to a fixed value and returns the revisions that the callback saw, `0` for none.
async fn update(
    fixture: &Fixture,
    options: UpdateOptions,
    to: &Pod,
) -> (Result<Object, StorageError>, Vec<u64>) {
    let mut saw = Vec::new();
    let mut replace = |object: Option<&Object>| {
        saw.push(object.map_or(0, |object| object.revision.get()));
        Ok(Update::new(to.value()))
    };
    let updated = fixture.storage.guaranteed_update("/pods/ns/a", options, &mut replace).await;
    (updated, saw)
}

/// The callback gets what is stored; what it makes of it is stored at a new revision and delivered with both.
pub async fn an_update_turns_the_stored_object_into_the_next(fixture: &Fixture) {
    let before = fixture.create(&pod("a")).await;
    let mut watch = fixture.watch(WatchStart::now()).await;
    let (after, saw) = update(fixture, UpdateOptions::default(), &pod("a").data(1)).await;
    let after = after.expect("an update");
    assert_eq!(saw, [before.revision.get()]);
    assert!(after.revision > before.revision);
    assert_eq!(after.value, pod("a").data(1).value());
    assert_eq!(fixture.get(&pod("a")).await.as_ref(), Some(&after));
    assert_eq!(watch.event().await, WatchEvent::Modified(after));
}

/// Nothing to update.
pub async fn updating_a_missing_object_is_not_found(fixture: &Fixture) {
    let before = fixture.revision().await;
    let (missing, saw) = update(fixture, UpdateOptions::default(), &pod("a")).await;
    no_such_object(missing.unwrap_err(), &fixture.full_key(&pod("a")));
    assert_eq!(saw, [0; 0], "there was nothing to change");
    assert_eq!(fixture.revision().await, before);
}

/// If the caller takes a missing object for an empty one, the update is a creation.
pub async fn a_missing_object_is_created_if_the_caller_ignores_that(fixture: &Fixture) {
    let mut watch = fixture.watch(WatchStart::now()).await;
    let (created, saw) = update(fixture, or_create(), &pod("a")).await;
    let created = created.expect("it is created");
    assert_eq!(saw, [0]);
    assert_eq!(fixture.get(&pod("a")).await.as_ref(), Some(&created));
    assert_eq!(watch.event().await, WatchEvent::Added(created));
}

/// An object that does not exist has no uid, so that a precondition on one fails.
pub async fn a_missing_object_fails_preconditions_too(fixture: &Fixture) {
    let preconditions = Preconditions { uid: Some("A".to_owned()), ..Preconditions::default() };
    let options = UpdateOptions { preconditions, ..or_create() };
    let (refused, saw) = update(fixture, options, &pod("a")).await;
    let text = "UID in precondition: A, UID in object meta: ";
    precondition_failed(refused.unwrap_err(), &fixture.full_key(&pod("a")), text);
    assert_eq!((saw.len(), fixture.get(&pod("a")).await), (0, None));
}

/// An old value that cannot be read does not matter once it is replaced, unless a selector must look at it.
pub async fn an_undecodable_value_can_be_replaced_under_a_watch(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let bad = fixture.put_raw(&fixture.full_key(&pod("a")), "not JSON").await;
    let mut watch = fixture.watch(WatchStart::after(bad)).await;
    let good = fixture.put_raw(&fixture.full_key(&pod("a")), pod("a").value()).await;
    match watch.event().await {
        WatchEvent::Modified(object) => {
            assert_eq!((object.revision, &object.value), (good, &pod("a").value()))
        }
        other => panic!("{other:?}"),
    }
}

/// Writing what is stored already is no write.
pub async fn a_no_op_update_writes_nothing_and_delivers_no_event(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let mut watch = fixture.watch(WatchStart::after(a.revision)).await;
    for options in [UpdateOptions::default(), or_create(), hinting(&a)] {
        let (same, _) = update(fixture, options, &pod("a")).await;
        assert_eq!(same.expect("nothing to do"), a);
    }
    assert_eq!(fixture.revision().await, a.revision);
    let fence = fixture.create(&pod("fence")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(fence));
}

/// An update that changes nothing in the hint may change the object that is really stored.
pub async fn a_no_op_is_judged_by_the_store_not_by_a_hint(fixture: &Fixture) {
    let old = fixture.create(&pod("a")).await;
    let live = fixture.put(&pod("a").data(1)).await;
    let (written, saw) = update(fixture, hinting(&old), &pod("a")).await;
    let written = written.expect("an update");
    assert_eq!(saw, [old.revision.get(), live.revision.get()]);
    assert!(written.revision > live.revision);
    assert_eq!(fixture.get(&pod("a")).await, Some(written));
}

/// A hint that is right saves a read, one that is not costs a retry; both end in the same.
pub async fn a_stale_hint_costs_a_retry_never_a_wrong_result(fixture: &Fixture) {
    let old = fixture.create(&pod("a").data(1)).await;
    let live = fixture.put(&pod("a").data(2)).await;
    let mut saw = Vec::new();
    let mut double = |object: Option<&Object>| {
        let object = object.expect("it exists");
        saw.push(object.revision);
        Ok(Update::new(pod("a").data(Pod::data_of(&object.value) * 10).value()))
    };
    let updated =
        fixture.storage.guaranteed_update("/pods/ns/a", hinting(&old), &mut double).await.expect("an update");
    assert_eq!(saw, [old.revision, live.revision]);
    assert_eq!(Pod::data_of(&updated.value), 20);
}

/// A right hint is enough: the callback is not asked twice.
pub async fn a_right_hint_is_asked_about_once(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let (updated, saw) = update(fixture, hinting(&a), &pod("a").data(1)).await;
    assert!(updated.expect("an update").revision > a.revision);
    assert_eq!(saw, [a.revision.get()]);
}

/// An update that fails on a stale hint is tried again on the live object.
pub async fn a_refusal_of_a_stale_hint_is_not_final(fixture: &Fixture) {
    let old = fixture.create(&pod("a").uid("A")).await;
    let live = fixture.put(&pod("a").uid("B")).await;
    let preconditions = Preconditions { uid: Some("B".to_owned()), revision: Some(live.revision) };
    let options = UpdateOptions { preconditions, ..hinting(&old) };
    let (updated, saw) = update(fixture, options, &pod("a").uid("B").data(1)).await;
    let updated = updated.expect("the live object fits");
    assert_eq!(saw, [live.revision.get()]);

    let mut not_the_old = |object: Option<&Object>| match object {
        Some(object) if object.revision == updated.revision => Ok(Update::new(pod("a").data(2).value())),
        _ => Err(rejection("old")),
    };
    let updated = fixture.storage.guaranteed_update("/pods/ns/a", hinting(&old), &mut not_the_old).await;
    assert_eq!(Pod::data_of(&updated.expect("the live object passes").value), 2);
}

/// An update that fails on a right hint has failed.
pub async fn a_refusal_of_a_right_hint_is_final(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    for hint in [None, Some(a.clone())] {
        let mut asked = 0;
        let mut refuse = |_: Option<&Object>| {
            asked += 1;
            Err(rejection("not today"))
        };
        let options = UpdateOptions { hint, ..UpdateOptions::default() };
        let refused =
            fixture.storage.guaranteed_update("/pods/ns/a", options, &mut refuse).await.unwrap_err();
        assert!(matches!(refused, StorageError::Rejected(_)), "{refused:?}");
        assert_eq!(refused.to_string(), "not today");
        assert_eq!(asked, 1);
    }
    assert_eq!(fixture.revision().await, a.revision);
}

/// Whatever is tried with a hint of something that is gone: it is not found.
pub async fn a_hint_of_a_deleted_object_is_not_found(fixture: &Fixture) {
    let old = fixture.create(&pod("a")).await;
    fixture.delete(&pod("a")).await;
    for (to, what) in [(pod("a").data(1), "a change"), (pod("a"), "no change")] {
        let (missing, _) = update(fixture, hinting(&old), &to).await;
        no_such_object(missing.expect_err(what), &old.key);
    }
    let mut refuse = |_: Option<&Object>| Err(rejection("no"));
    let missing =
        fixture.storage.guaranteed_update("/pods/ns/a", hinting(&old), &mut refuse).await.unwrap_err();
    no_such_object(missing, &old.key);
}

/// Unless the caller ignores that: then what failed on the hint is tried on nothing, and creates.
pub async fn a_refused_hint_of_a_deleted_object_is_created_if_the_caller_ignores_that(fixture: &Fixture) {
    let old = fixture.create(&pod("a")).await;
    fixture.delete(&pod("a")).await;
    let mut only_new = |object: Option<&Object>| match object {
        Some(_) => Err(rejection("exists")),
        None => Ok(Update::new(pod("a").data(1).value())),
    };
    let options = UpdateOptions { ignore_not_found: true, ..hinting(&old) };
    let created = fixture.storage.guaranteed_update("/pods/ns/a", options, &mut only_new).await;
    assert_eq!(fixture.get(&pod("a")).await, Some(created.expect("a creation")));
}

/// Preconditions speak of the uid and the revision; what fails is named, and nothing is written.
pub async fn a_failed_precondition_writes_nothing(fixture: &Fixture) {
    let a = fixture.create(&pod("a").uid("A")).await;
    let other = super::later(a.revision, 7);
    let revision_text =
        format!("ResourceVersion in precondition: {other}, ResourceVersion in object meta: {}", a.revision);
    for (uid, revision, text) in [
        (Some("B"), None, "UID in precondition: B, UID in object meta: A"),
        (None, Some(other), revision_text.as_str()),
    ] {
        for hint in [None, Some(a.clone())] {
            let preconditions = Preconditions { uid: uid.map(str::to_owned), revision };
            let options = UpdateOptions { preconditions, hint, ignore_not_found: false };
            let (refused, saw) = update(fixture, options, &pod("a").data(1)).await;
            precondition_failed(refused.unwrap_err(), &a.key, text);
            assert_eq!(saw, [0; 0], "the callback comes after the preconditions");
        }
    }
    assert_eq!(fixture.get(&pod("a")).await, Some(a));
}

/// Storage alone gives versions out, here too.
pub async fn an_update_to_a_value_with_a_version_is_refused(fixture: &Fixture) {
    let a = fixture.create(&pod("a")).await;
    let mut replace = |_: Option<&Object>| Ok(Update::new(pod("a").data(1).value_with_version("5")));
    let refused =
        fixture.storage.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut replace).await;
    assert!(matches!(refused, Err(StorageError::VersionSet)), "{refused:?}");
    assert_eq!(fixture.get(&pod("a")).await, Some(a));
}

/// Runs an update of `a` that another task overtakes the first time.
async fn overtaken<T>(
    fixture: &Fixture,
    options: UpdateOptions,
    by: impl AsyncFn() -> T + Sync,
) -> (Result<Object, StorageError>, Vec<Option<i64>>) {
    let mut saw = Vec::new();
    let mut increment = |object: Option<&Object>| {
        let data = object.map(|object| Pod::data_of(&object.value));
        if saw.is_empty() {
            meanwhile(by());
        }
        saw.push(data);
        Ok(Update::new(pod("a").data(data.unwrap_or(0) + 1).value()))
    };
    let updated = fixture.storage.guaranteed_update("/pods/ns/a", options, &mut increment).await;
    (updated, saw)
}

/// A conflict is never the caller's affair.
pub async fn an_update_overtaken_by_another_is_tried_again_on_the_newer_object(fixture: &Fixture) {
    fixture.create(&pod("a")).await;
    let (updated, saw) =
        overtaken(fixture, UpdateOptions::default(), async || fixture.put(&pod("a").data(10)).await).await;
    assert_eq!(Pod::data_of(&updated.expect("an update").value), 11);
    assert_eq!(saw, [Some(0), Some(10)]);
}

/// An object that is deleted in between is missing, or created anew if the caller ignores that.
pub async fn an_update_overtaken_by_a_deletion_finds_nothing(fixture: &Fixture) {
    let a = fixture.create(&pod("a").data(5)).await;
    let (missing, saw) =
        overtaken(fixture, UpdateOptions::default(), async || fixture.delete(&pod("a")).await).await;
    no_such_object(missing.unwrap_err(), &a.key);
    assert_eq!(saw, [Some(5)]);

    fixture.create(&pod("a").data(5)).await;
    let (created, saw) = overtaken(fixture, or_create(), async || fixture.delete(&pod("a")).await).await;
    assert_eq!(Pod::data_of(&created.expect("a creation").value), 1);
    assert_eq!(saw, [Some(5), None]);
}

/// A creation by update that another creation overtakes becomes an update of that.
pub async fn a_creation_overtaken_by_another_updates_it(fixture: &Fixture) {
    let (updated, saw) =
        overtaken(fixture, or_create(), async || fixture.create(&pod("a").data(10)).await).await;
    assert_eq!(Pod::data_of(&updated.expect("an update").value), 11);
    assert_eq!(saw, [None, Some(10)]);
}

/// Many writers add one each, some of them with hints that are long stale; the sum is right, every writer
/// got a revision of its own, and the watch delivered every step.
pub async fn no_increment_is_lost_among_many_writers(fixture: &Fixture) {
    const WRITERS: i64 = 10;
    const EACH: i64 = 10;
    let first = fixture.create(&pod("a")).await;
    let mut watch = fixture.watch(WatchStart::after(first.revision)).await;
    let writers = (0..WRITERS).map(|writer| {
        let (storage, hint) = (fixture.storage.clone(), (writer % 2 == 0).then(|| first.clone()));
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for _ in 0..EACH {
                let options = UpdateOptions { hint: hint.clone(), ..UpdateOptions::default() };
                let mut increment = |object: Option<&Object>| {
                    let data = Pod::data_of(&object.expect("it exists").value);
                    Ok(Update::new(pod("a").data(data + 1).value()))
                };
                let updated = storage.guaranteed_update("/pods/ns/a", options, &mut increment).await;
                revisions.push(updated.expect("no conflict reaches the caller").revision);
            }
            revisions
        })
    });
    let mut revisions = BTreeSet::new();
    for writer in writers.collect::<Vec<_>>() {
        revisions.extend(writer.await.expect("the writer is done"));
    }
    assert_eq!(revisions.len() as i64, WRITERS * EACH);
    let last = fixture.get(&pod("a")).await.expect("it exists");
    assert_eq!(Pod::data_of(&last.value), WRITERS * EACH);
    for (data, revision) in (1..).zip(&revisions) {
        let WatchEvent::Modified(object) = watch.event().await else { panic!("an update was due") };
        assert_eq!((Pod::data_of(&object.value), object.revision), (data, *revision));
    }
}

/// Updates and a deletion race: the deletion returns the last update there was.
pub async fn a_deletion_among_updates_returns_the_last_of_them(fixture: &Fixture) {
    let mut last = fixture.create(&pod("a")).await;
    let mut watch = fixture.watch(WatchStart::after(last.revision)).await;
    let storage = fixture.storage.clone();
    let updates = tokio::spawn(async move {
        for data in 1.. {
            let mut set = |_: Option<&Object>| Ok(Update::new(pod("a").data(data).value()));
            match storage.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut set).await {
                Ok(_) => {}
                Err(StorageError::NotFound { .. }) => return,
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    watch.events(3).await.into_iter().for_each(|event| match event {
        WatchEvent::Modified(object) => last = object,
        other => panic!("{other:?}"),
    });
    let deleted = fixture.storage.delete("/pods/ns/a", DeleteOptions::default(), &mut |_| Ok(())).await;
    let deleted = deleted.expect("a deletion");
    updates.await.expect("the updates found it gone");
    loop {
        match watch.event().await {
            WatchEvent::Modified(object) => last = object,
            event => {
                assert_eq!(event, WatchEvent::Deleted(deleted.clone()));
                break;
            }
        }
    }
    assert_eq!(deleted, last.at(deleted.revision));
}
