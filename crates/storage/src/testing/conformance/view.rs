//! The events of a watcher with selectors: objects come into view and go out of it.

use super::{Fixture, Watching, fields, labels, pod};
use crate::{Object, Predicate, WatchEvent, WatchRequest, testing::Pod};
use keepwatch_apimachinery::{ResourceVersion, list_options::WatchStart};

/// Runs `steps` while a watch with `selector` is open, and compares its events.
///
/// Steps are `put <name> <app>` and `delete <name>`, delivered as `KIND name app#step @step`: the content is that
/// of one step, the revision that of another.
async fn check(fixture: &Fixture, selector: &str, steps: &str, expected: &str) {
    let watched = WatchRequest { predicate: labels(selector), ..WatchRequest::from(WatchStart::now()) };
    let mut watch = fixture.watch_with("/pods", watched).await;
    let mut revisions = Vec::new();
    for (number, step) in (1..).zip(steps.split("; ").chain(["put fence web"])) {
        let written = match step.split(' ').collect::<Vec<_>>()[..] {
            ["put", name, app] => fixture.put(&pod(name).label("app", app).data(number)).await,
            ["delete", name] => fixture.delete(&pod(name)).await,
            _ => panic!("{step:?} is no step"),
        };
        revisions.push(written.revision);
    }
    let fence = *revisions.last().expect("a fence");
    let delivered = until_revision(&mut watch, fence).await;
    let delivered: Vec<_> =
        delivered[..delivered.len() - 1].iter().map(|event| short(event, &revisions)).collect();
    assert_eq!(delivered.join(", "), expected, "{steps}");
}

async fn until_revision(watch: &mut Watching, last: ResourceVersion) -> Vec<WatchEvent> {
    watch.events_until(|event| event.revision() >= last).await
}

fn short(event: &WatchEvent, revisions: &[ResourceVersion]) -> String {
    let (kind, object): (_, &Object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        WatchEvent::Bookmark { .. } => return "BOOKMARK".to_owned(),
    };
    let (name, app) = (
        object.attributes.fields.get("metadata.name").unwrap(),
        object.attributes.labels.get("app").unwrap(),
    );
    let step = revisions.iter().position(|revision| *revision == object.revision).map(|index| index + 1);
    format!("{kind} {name} {app}#{} @{}", Pod::data_of(&object.value), step.unwrap_or(0))
}

/// Old passes: -, new passes: yes.
pub async fn a_creation_in_view_is_added(fixture: &Fixture) {
    check(fixture, "app=web", "put a web", "ADDED a web#1 @1").await;
}

/// Old passes: -, new passes: no.
pub async fn a_creation_out_of_view_is_not_delivered(fixture: &Fixture) {
    check(fixture, "app=web", "put a db", "").await;
}

/// Old passes: yes, new passes: yes.
pub async fn a_change_in_view_is_modified(fixture: &Fixture) {
    check(fixture, "app=web", "put a web; put a web", "ADDED a web#1 @1, MODIFIED a web#2 @2").await;
}

/// Old passes: no, new passes: yes.
pub async fn an_object_entering_the_selector_is_sent_as_added(fixture: &Fixture) {
    check(fixture, "app=web", "put a db; put a web", "ADDED a web#2 @2").await;
}

/// Old passes: yes, new passes: no. The content is the last that was visible.
pub async fn an_object_leaving_the_selector_is_sent_as_deleted_with_the_revision_of_that_update(
    fixture: &Fixture,
) {
    check(fixture, "app=web", "put a web; put a db", "ADDED a web#1 @1, DELETED a web#1 @2").await;
}

/// Old passes: no, new passes: no.
pub async fn a_change_out_of_view_is_not_delivered(fixture: &Fixture) {
    check(fixture, "app=web", "put a db; put a db; put a cache", "").await;
}

/// Old passes: yes, then deleted.
pub async fn a_deletion_in_view_is_delivered_with_the_last_content_and_its_own_revision(fixture: &Fixture) {
    let delivered = "ADDED a web#1 @1, MODIFIED a web#2 @2, DELETED a web#2 @3";
    check(fixture, "app=web", "put a web; put a web; delete a", delivered).await;
}

/// Old passes: no, then deleted.
pub async fn a_deletion_out_of_view_is_not_delivered(fixture: &Fixture) {
    check(fixture, "app=web", "put a web; put a db; delete a", "ADDED a web#1 @1, DELETED a web#1 @2").await;
}

/// All of it in one life.
pub async fn an_object_may_come_and_go_many_times(fixture: &Fixture) {
    let steps =
        "put a db; put a web; put b web; put a web; put a db; put a db; put a web; delete a; put a web";
    let delivered = "ADDED a web#2 @2, ADDED b web#3 @3, MODIFIED a web#4 @4, DELETED a web#4 @5, ADDED a web#7 @7, \
                DELETED a web#7 @8, ADDED a web#9 @9";
    check(fixture, "app=web", steps, delivered).await;
}

/// Selectors that speak of what is absent enter and leave likewise.
pub async fn a_selector_of_absence_sees_the_opposite(fixture: &Fixture) {
    let steps = "put a web; put a db; put a cache; delete a";
    let delivered = "ADDED a web#1 @1, DELETED a web#1 @2, ADDED a cache#3 @3, DELETED a cache#3 @4";
    check(fixture, "app!=db,!missing", steps, delivered).await;
}

async fn watch_fields(fixture: &Fixture, selector: &str, start: WatchStart) -> Watching {
    let predicate: Predicate = fields(selector);
    fixture.watch_with("/pods", WatchRequest { predicate, ..WatchRequest::from(start) }).await
}

/// As a kubelet watches: pods come into view when they are bound to its node.
pub async fn a_pod_is_added_when_it_is_bound_to_the_node_that_is_watched(fixture: &Fixture) {
    let p1 = fixture.create(&pod("p1").node("x")).await;
    fixture.create(&pod("p2").node("y")).await;
    let mut watch = watch_fields(fixture, "spec.nodeName=x", WatchStart::state()).await;
    assert_eq!(watch.event().await, WatchEvent::Added(p1));
    fixture.create(&pod("p3")).await;
    fixture.put(&pod("p2").node("y").data(1)).await;
    let bound = fixture.put(&pod("p3").node("x")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(bound));
}

/// The initial state holds what matches, at the revision of the read all the same.
pub async fn the_initial_state_holds_only_objects_in_view(fixture: &Fixture) {
    let a = fixture.create(&pod("a").label("app", "web")).await;
    let b = fixture.create(&pod("b").label("app", "db")).await;
    let request = WatchRequest { predicate: labels("app=web"), ..super::marked_state() };
    let mut watch = fixture.watch_with("/pods", request).await;
    let end = WatchEvent::Bookmark { revision: b.revision, initial_state_end: true };
    assert_eq!(watch.events(2).await, [WatchEvent::Added(a), end]);
    let entered = fixture.put(&pod("b").label("app", "web")).await;
    assert_eq!(watch.event().await, WatchEvent::Added(entered));
}
