//! Delete: conditions, finalizers, grace, dependents, collections.

use super::world::{Answer, World, bound_pod, map, pod, text};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

fn finalizers(document: &Value) -> String {
    let own = document["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    own.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

fn held(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "finalizers": finalizers}})
}

/// Seconds since 1970 of a time.
fn seconds(document: &Value, pointer: &str) -> i64 {
    text(document, pointer).parse::<jiff::Timestamp>().unwrap().as_second()
}

#[tokio::test]
async fn an_object_without_finalizers_is_removed_at_once_and_its_uid_is_returned() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    let mut follower = world.follow("configmaps").await;
    let deleted = world.delete("configmaps default/a").await;
    assert!(deleted.gone);
    assert_eq!(deleted.body["metadata"]["uid"], made["metadata"]["uid"]);
    let last = follower.expect("DELETED a").await;
    let version = |document: &Value| text(document, "/metadata/resourceVersion").parse::<u64>().unwrap();
    assert!(version(&last) > version(&made), "the event has a version of its own");
}

#[tokio::test]
async fn a_deletion_can_have_preconditions() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    let (uid, version) = (text(&made, "/metadata/uid"), text(&made, "/metadata/resourceVersion"));
    let start = "409 Conflict: Operation cannot be fulfilled on ConfigMap \"a\": ";
    let at = "configmaps default/a";
    let refused = world.delete_with(at, json!({"preconditions": {"uid": "bad"}})).await;
    let why = format!(
        "the UID in the precondition (bad) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    assert_eq!(refused.line(), format!("{start}{why}"));
    assert_eq!(refused.body["details"], json!({"name": "a", "kind": "ConfigMap"}));
    let refused = world.delete_with(at, json!({"preconditions": {"resourceVersion": "1"}})).await;
    let why = format!(
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    assert_eq!(refused.line(), format!("{start}{why}"));
    let dry = json!({"preconditions": {"uid": "bad"}, "dryRun": ["All"]});
    assert_eq!(world.delete_with(at, dry).await.code, 409);
    let both = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    assert!(world.delete_with(at, both).await.gone);
}

#[tokio::test]
async fn the_deletion_of_a_grouped_kind_names_the_kind_with_its_group() {
    let world = World::new().await;
    world.post("leases default", map("l")).await.ok();
    let refused = world.delete_with("leases default/l", json!({"preconditions": {"uid": "bad"}})).await;
    let start = "409 Conflict: Operation cannot be fulfilled on Lease.coordination.k8s.io \"l\": the UID";
    assert!(refused.line().starts_with(start), "{}", refused.line());
}

#[tokio::test]
async fn options_that_contradict_themselves_are_refused() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let why = |why: &str| {
        format!("422 Invalid: DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: {why}")
    };
    let sideways =
        why(r#"Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil""#);
    let both = why(r#"Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#);
    let at = "configmaps default/a";
    for (answer, expected) in [
        (world.delete_with(at, json!({"propagationPolicy": "Foo"})).await, &sideways),
        (world.delete(&format!("{at}?propagationPolicy=Foo")).await, &sideways),
        (
            world.delete_with(at, json!({"propagationPolicy": "Orphan", "orphanDependents": true})).await,
            &both,
        ),
        (world.delete(&format!("{at}?propagationPolicy=Orphan&orphanDependents=true")).await, &both),
    ] {
        assert_eq!(answer.line(), *expected);
    }
    assert_eq!(world.delete(&format!("{at}?gracePeriodSeconds=x")).await.code, 400);
    assert_eq!(world.delete_with(at, json!({"kind": "ConfigMap", "apiVersion": "v1"})).await.code, 400);
    assert_eq!(world.delete_with(at, json!({"gracePeriodSeconds": "x"})).await.code, 400);
    assert_eq!(world.get(at).await.code, 200);
}

#[tokio::test]
async fn delete_options_in_a_body_replace_those_of_the_query() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let deleted = world.delete_with("configmaps default/a?dryRun=All&propagationPolicy=Foo", json!({})).await;
    assert!(deleted.gone);
    assert_eq!(world.get("configmaps default/a").await.code, 404);
}

#[tokio::test]
async fn the_propagation_policy_becomes_a_finalizer() {
    for (before, policy, after) in [
        (&[][..], "Foreground", "foregroundDeletion"),
        (&[], "Orphan", "orphan"),
        (&[], "Background", ""),
        (&[], "", ""),
        (&["orphan"], "", "orphan"),
        (&["foregroundDeletion"], "", "foregroundDeletion"),
        (&["orphan"], "Foreground", "foregroundDeletion"),
        (&["foregroundDeletion"], "Orphan", "orphan"),
        (&["orphan"], "Background", ""),
        (&["example.com/x"], "Foreground", "example.com/x foregroundDeletion"),
        (&["example.com/x", "orphan"], "Background", "example.com/x"),
        (&["example.com/x"], "", "example.com/x"),
    ] {
        let world = World::new().await;
        world.post("configmaps default", held("a", before)).await.ok();
        let options = if policy.is_empty() { json!({}) } else { json!({"propagationPolicy": policy}) };
        let deleted = world.delete_with("configmaps default/a", options).await;
        assert_eq!(deleted.gone, after.is_empty(), "{before:?} {policy}");
        if !deleted.gone {
            assert_eq!(finalizers(&deleted.ok()), after, "{before:?} {policy}");
        }
    }
}

#[tokio::test]
async fn orphan_dependents_still_works() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let deleted = world.delete_with("configmaps default/a", json!({"orphanDependents": true})).await.ok();
    assert_eq!(finalizers(&deleted), "orphan");
    world.post("configmaps default", held("b", &["orphan"])).await.ok();
    assert!(world.delete_with("configmaps default/b", json!({"orphanDependents": false})).await.gone);
}

#[tokio::test]
async fn the_dependents_of_jobs_and_replication_controllers_are_orphaned_by_default() {
    for kind in super::documents::kinds() {
        let orphans = ["jobs", "replicationcontrollers"].contains(&kind.name.as_str());
        if orphans {
            let world = World::new().await;
            world.post(&kind.collection(), kind.object.clone()).await.ok();
            let deleted = world.delete(&kind.place()).await.ok();
            assert_eq!(finalizers(&deleted), "orphan", "{}", kind.name);
            let background = json!({"propagationPolicy": "Background"});
            assert!(world.delete_with(&kind.place(), background).await.gone, "{}", kind.name);
        } else {
            assert!(!kind.resource.orphans_by_default, "{}", kind.name);
        }
    }
}

#[tokio::test]
async fn events_have_no_dependents() {
    let world = World::new().await;
    for name in ["events", "events.events.k8s.io"] {
        let kind = super::documents::kinds().into_iter().find(|kind| kind.name == name).unwrap();
        world.post(&kind.collection(), kind.object.clone()).await.ok();
        let foreground = json!({"propagationPolicy": "Foreground"});
        assert!(world.delete_with(&kind.place(), foreground).await.gone, "{name}");
    }
}

#[tokio::test]
async fn a_second_deletion_may_change_the_propagation_policy_and_nothing_else() {
    let world = World::new().await;
    world.post("configmaps default", held("a", &["example.com/x"])).await.ok();
    let at = "configmaps default/a";
    let first = world.delete_with(at, json!({"propagationPolicy": "Foreground"})).await.ok();
    assert_eq!(finalizers(&first), "example.com/x foregroundDeletion");
    assert_eq!(world.delete(at).await.ok(), first, "no policy keeps what there is");
    let second = world.delete_with(at, json!({"propagationPolicy": "Orphan"})).await.ok();
    assert_eq!(finalizers(&second), "example.com/x orphan");
    assert_eq!(second["metadata"]["deletionTimestamp"], first["metadata"]["deletionTimestamp"]);
    assert_eq!(world.merge(at, json!({"metadata": {"finalizers": ["orphan"]}})).await.line(), "200");
    assert!(world.delete_with(at, json!({"propagationPolicy": "Background"})).await.gone);
}

#[tokio::test]
async fn the_last_finalizer_takes_the_object_with_it_in_the_same_request() {
    let world = World::new().await;
    world.post("configmaps default", held("a", &["example.com/x", "example.com/y"])).await.ok();
    let mut follower = world.follow("configmaps").await;
    let at = "configmaps default/a";
    world.delete(at).await.ok();
    assert_eq!(world.merge(at, json!({"data": {"k": "1"}})).await.line(), "200", "other changes are allowed");
    let one = world.merge(at, json!({"metadata": {"finalizers": ["example.com/x"]}})).await.ok();
    let stale = json!({"metadata": {"finalizers": [], "resourceVersion": "1"}});
    assert_eq!(world.merge(at, stale).await.code, 409, "the version counts here too");
    let last = world.put(at, map("a")).await.ok();
    assert_eq!(last["metadata"]["resourceVersion"], one["metadata"]["resourceVersion"]);
    assert_eq!(world.get(at).await.code, 404);
    for event in ["MODIFIED a", "MODIFIED a", "MODIFIED a", "DELETED a"] {
        follower.expect(event).await;
    }
}

#[tokio::test]
async fn the_last_finalizer_may_be_removed_through_the_status_too() {
    let world = World::new().await;
    world.post("nodes", held("n", &["example.com/x"])).await.ok();
    world.delete("nodes n").await.ok();
    assert_eq!(world.merge("nodes n/status", json!({"metadata": {"finalizers": null}})).await.line(), "200");
    assert_eq!(world.get("nodes n").await.code, 404);
}

#[tokio::test]
async fn an_object_without_finalizers_that_is_not_marked_stays_when_it_is_written() {
    let world = World::new().await;
    world.post("configmaps default", held("a", &["example.com/x"])).await.ok();
    world.merge("configmaps default/a", json!({"metadata": {"finalizers": []}})).await.ok();
    assert_eq!(world.get("configmaps default/a").await.code, 200);
}

async fn bound(world: &World, name: &str, grace: i64) -> Value {
    let mut pod = bound_pod(name);
    pod["spec"]["terminationGracePeriodSeconds"] = grace.into();
    world.post("pods default", pod).await.ok()
}

#[tokio::test]
async fn a_pod_on_a_node_has_its_grace_period() {
    let world = World::new().await;
    bound(&world, "p", 40).await;
    let now = jiff::Timestamp::now().as_second();
    let marked = world.delete("pods default/p").await;
    assert!(!marked.gone);
    let marked = marked.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 40);
    assert!((now + 40..=now + 42).contains(&seconds(&marked, "/metadata/deletionTimestamp")));
    assert_eq!(marked["metadata"]["generation"], 2);
    for options in [json!({}), json!({"gracePeriodSeconds": 40}), json!({"gracePeriodSeconds": 60})] {
        assert_eq!(
            world.delete_with("pods default/p", options).await.ok(),
            marked,
            "no longer than promised"
        );
    }
    let shorter = world.delete("pods default/p?gracePeriodSeconds=10").await.ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 10);
    let earlier =
        seconds(&marked, "/metadata/deletionTimestamp") - seconds(&shorter, "/metadata/deletionTimestamp");
    assert_eq!(earlier, 30, "counted from when it was first asked for");
    assert_eq!(shorter["metadata"]["generation"], 2);
    assert!(world.delete_with("pods default/p", json!({"gracePeriodSeconds": 0})).await.gone);
}

#[tokio::test]
async fn the_grace_period_is_that_of_the_request_and_never_negative() {
    for (asked, given) in [(0, 0), (5, 5), (-1, 1), (-100, 1)] {
        let world = World::new().await;
        bound(&world, "p", 40).await;
        let deleted = world.delete_with("pods default/p", json!({"gracePeriodSeconds": asked})).await;
        assert_eq!(deleted.gone, given == 0, "{asked}");
        assert_eq!(deleted.ok()["metadata"]["deletionGracePeriodSeconds"], given, "{asked}");
    }
}

#[tokio::test]
async fn a_pod_without_a_node_or_that_has_ended_is_gone_at_once() {
    let world = World::new().await;
    world.post("pods default", pod("p")).await.ok();
    let deleted = world.delete("pods default/p?gracePeriodSeconds=30").await;
    assert!(deleted.gone);
    assert_eq!(deleted.body["metadata"]["deletionGracePeriodSeconds"], 0);
    for phase in ["Succeeded", "Failed"] {
        bound(&world, "q", 30).await;
        world.merge("pods default/q/status", json!({"status": {"phase": phase}})).await.ok();
        assert!(world.delete("pods default/q").await.gone, "{phase}");
    }
}

#[tokio::test]
async fn a_pod_waits_for_its_grace_and_for_its_finalizers() {
    let world = World::new().await;
    let mut pod = bound_pod("p");
    pod["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("pods default", pod).await.ok();
    world.delete("pods default/p").await.ok();
    let at = "pods default/p";
    world.merge(at, json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.get(at).await.code, 200, "the grace is not over");
    world.merge(at, json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    assert!(world.delete(&format!("{at}?gracePeriodSeconds=0")).await.gone);

    let mut pod = bound_pod("q");
    pod["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("pods default", pod).await.ok();
    world.delete("pods default/q").await.ok();
    let zero = world.delete("pods default/q?gracePeriodSeconds=0").await;
    assert!(!zero.gone);
    assert_eq!(zero.ok()["metadata"]["deletionGracePeriodSeconds"], 0);
    world.merge("pods default/q", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.get("pods default/q").await.code, 404);
}

/// While a pod has time left, a further deletion changes nothing but that time: not its finalizers either.
#[tokio::test]
async fn the_propagation_policy_is_fixed_once_a_pod_is_terminating() {
    let world = World::new().await;
    bound(&world, "p", 40).await;
    let marked = world.delete("pods default/p").await.ok();
    let again = world.delete_with("pods default/p", json!({"propagationPolicy": "Orphan"})).await.ok();
    assert_eq!(again, marked);
}

#[tokio::test]
async fn other_kinds_ignore_the_grace_period() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    assert!(world.delete("configmaps default/a?gracePeriodSeconds=30").await.gone);
    world.post("configmaps default", held("b", &["example.com/x"])).await.ok();
    let marked = world.delete("configmaps default/b?gracePeriodSeconds=30").await.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
}

#[tokio::test]
async fn a_collection_is_deleted_as_its_list_shows_it() {
    let world = World::new().await;
    let labelled = |name: &str, label: &str| json!({"metadata": {"name": name, "labels": {"l": label}}});
    world.namespace("other").await;
    for (name, label) in [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")] {
        world.post("configmaps default", labelled(name, label)).await.ok();
    }
    world.post("configmaps other", labelled("a", "1")).await.ok();
    let names = |answer: &Answer| -> String {
        let items = answer.body["items"].as_array().unwrap();
        items.iter().map(|item| text(item, "/metadata/name")).collect::<Vec<_>>().join(" ")
    };
    let deleted = world.delete_collection("configmaps default?labelSelector=l=1", json!({})).await;
    assert_eq!(names(&deleted), "a b");
    assert_eq!(world.names("configmaps default").await, "c d");
    let deleted =
        world.delete_collection("configmaps default?fieldSelector=metadata.name=d", json!({})).await;
    assert_eq!(names(&deleted), "d");
    assert_eq!(world.names("configmaps other").await, "a");
    let deleted = world.delete_collection("configmaps default?limit=1", json!({})).await;
    assert_eq!(names(&deleted), "c");
    let deleted = world.delete_collection("configmaps default", json!({})).await;
    assert_eq!(names(&deleted), "");
}

#[tokio::test]
async fn the_deletion_of_a_collection_ends_when_it_may_not_go_on() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d"] {
        world.post("configmaps default", map(name)).await.ok();
    }
    let left = AtomicUsize::new(2);
    let may_go_on = || match left.load(Ordering::Relaxed) {
        0 => false,
        more => {
            left.store(more - 1, Ordering::Relaxed);
            true
        }
    };
    let answer = world.delete_collection_while("configmaps default", json!({}), &may_go_on).await;
    assert_eq!(answer.code, 503);
    assert_eq!(world.names("configmaps default").await, "c d");
}

#[tokio::test]
async fn the_objects_of_a_collection_are_held_like_single_ones() {
    let world = World::new().await;
    world.post("configmaps default", held("a", &["example.com/x"])).await.ok();
    world.post("configmaps default", map("b")).await.ok();
    let options = json!({"propagationPolicy": "Orphan"});
    world.delete_collection("configmaps default", options).await.ok();
    assert_eq!(world.names("configmaps default").await, "a b");
    assert_eq!(finalizers(&world.get("configmaps default/b").await.ok()), "orphan");

    let bad = world.delete_collection("configmaps default", json!({"preconditions": {"uid": "bad"}})).await;
    assert_eq!(bad.code, 409);
    let bad = world.delete_collection("configmaps default?fieldSelector=spec.x=1", json!({})).await;
    assert_eq!(bad.code, 400);
}

#[tokio::test]
async fn a_new_namespace_can_be_deleted_but_not_those_of_the_system() {
    let world = World::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        for query in ["", "?dryRun=All"] {
            let refused = world.delete(&format!("namespaces {name}{query}")).await;
            let why = format!(
                "403 Forbidden: namespaces \"{name}\" is forbidden: this namespace may not be deleted"
            );
            assert_eq!(refused.line(), why);
        }
    }
    assert_eq!(world.delete("namespaces kube-node-lease").await.line(), "200");
}
