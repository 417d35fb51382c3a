//! Update: which version a replacement is based on, and what it may not change.

use super::world::{World, map, text};
use serde_json::json;

const MODIFIED: &str = "409 Conflict: Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";

#[tokio::test]
async fn a_replacement_is_based_on_the_stored_version_or_on_none() {
    let world = World::new().await;
    let first = world.post("configmaps default", map("a")).await.ok();
    let based_on = |version: &str, data: &str| json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"k": data}});
    let old = text(&first, "/metadata/resourceVersion").to_owned();
    let second = world.put("configmaps default/a", based_on(&old, "1")).await.ok();
    let refused = world.put("configmaps default/a", based_on(&old, "2")).await;
    assert_eq!(refused.line(), MODIFIED);
    assert_eq!(refused.body["details"], json!({"name": "a", "kind": "configmaps"}));
    assert_eq!(world.get("configmaps default/a").await.ok(), second);
    for version in ["", "0"] {
        assert_eq!(
            world.put("configmaps default/a", based_on(version, "3")).await.line(),
            "200",
            "{version:?}"
        );
    }
    let refused = world.put("configmaps default/a", based_on("abc", "4")).await;
    assert_eq!(refused.line(), "500 ?: strconv.ParseUint: parsing \"abc\": invalid syntax");
    let refused = world.put("configmaps default/a", based_on("99999999", "5")).await;
    assert_eq!(refused.line(), MODIFIED, "a version of the future is not the stored one");
}

#[tokio::test]
async fn a_replacement_replaces_what_it_leaves_out() {
    let world = World::new().await;
    let sent = json!({
        "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"example.com/a": "1"}}, "data": {"k": "1"},
    });
    world.post("configmaps default", sent).await.ok();
    let replaced = world.put("configmaps default/a", map("a")).await.ok();
    assert!(replaced.get("data").is_none());
    assert!(
        replaced["metadata"].get("labels").is_none() && replaced["metadata"].get("annotations").is_none()
    );
}

#[tokio::test]
async fn the_name_and_namespace_are_those_of_the_path() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let refused = world.put("configmaps default/a", map("b")).await;
    assert_eq!(
        refused.line(),
        "400 BadRequest: the name of the object (b) does not match the name on the URL (a)"
    );
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "kube-system"}});
    let refused = world.put("configmaps default/a", elsewhere).await;
    assert_eq!(refused.code, 400, "{}", refused.line());
    let unnamed = json!({"metadata": {"name": ""}, "data": {"k": "1"}});
    let why =
        "400 BadRequest: the name of the object (a based on URL) was undeterminable: name must be provided";
    assert_eq!(world.put("configmaps default/a", unnamed.clone()).await.line(), why);
    assert_eq!(world.put("configmaps default/absent", unnamed).await.line(), why.replace("(a", "(absent"));
}

#[tokio::test]
async fn a_write_into_a_missing_namespace_says_so_and_a_delete_does_not() {
    let world = World::new().await;
    let why = "404 NotFound: namespaces \"nons\" not found";
    assert_eq!(world.post("configmaps nons", map("a")).await.line(), why);
    assert_eq!(world.put("configmaps nons/a", map("a")).await.line(), why);
    assert_eq!(world.merge("configmaps nons/a", json!({})).await.line(), why);
    assert_eq!(world.put("leases nons/a", map("a")).await.line(), why);
    assert_eq!(world.post("configmaps nons?dryRun=All", map("a")).await.line(), why);
    let why = "404 NotFound: configmaps \"a\" not found";
    assert_eq!(world.delete("configmaps nons/a").await.line(), why);
    assert_eq!(world.get("configmaps nons/a").await.line(), why);
}

/// A replacement that carries a uid means one object. Where a replacement could create an object, that the one is gone is a
/// conflict and not merely nothing found, and no new object takes its place.
#[tokio::test]
async fn replacing_a_missing_object_by_its_uid_creates_nothing() {
    let world = World::new().await;
    let before = world.everything().await;
    let uid = "11111111-2222-3333-4444-555555555555";
    let sent = json!({"metadata": {"name": "a", "uid": uid}});
    let refused = world.put("configmaps default/a", sent.clone()).await;
    assert_eq!(refused.line(), "404 NotFound: configmaps \"a\" not found");
    let refused = world.put("leases default/a", sent).await;
    let start = "409 Conflict: Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": ";
    let end = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
    let line = refused.line();
    assert!(line.starts_with(start) && line.ends_with(&end), "{line}");
    assert_eq!(world.everything().await, before);
}

/// The version is the caller's idea of what is stored; where nothing is, there is nothing to be at odds with.
#[tokio::test]
async fn replacing_a_missing_object_that_had_a_version_creates_it_all_the_same() {
    let world = World::new().await;
    let sent = json!({"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"holderIdentity": "x"}});
    let made = world.put("leases default/a", sent).await;
    assert_eq!(made.line(), "201");
    assert_ne!(text(&made.body, "/metadata/resourceVersion"), "5");
}

#[tokio::test]
async fn a_replacement_that_creates_is_prepared_like_a_create() {
    let world = World::new().await;
    let sent = json!({
        "metadata": {"name": "s", "creationTimestamp": "2001-01-01T00:00:00Z"}, "spec": {"ports": [{"port": 80}]},
    });
    let made = world.put("services default/s", sent.clone()).await;
    assert_eq!(made.line(), "201");
    assert_ne!(made.body["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert!(!text(&made.body, "/spec/clusterIP").is_empty());
    assert_eq!(world.put("services default/s", sent).await.line(), "200");

    let before = world.everything().await;
    let made = world.put("services default/t?dryRun=All", json!({"spec": {"ports": [{"port": 80}]}})).await;
    assert_eq!(made.line(), "201");
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn a_status_is_not_created_by_writing_it() {
    let world = World::new().await;
    let refused = world.put("services default/s/status", map("s")).await;
    assert_eq!(refused.line(), "404 NotFound: services \"s\" not found");
}

#[tokio::test]
async fn the_version_is_checked_for_the_status_too() {
    let world = World::new().await;
    let made = world.post("nodes", map("n")).await.ok();
    world.merge("nodes n", json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    assert_eq!(world.put("nodes n/status", made.clone()).await.code, 409);
    let version = &made["metadata"]["resourceVersion"];
    let stale = json!({"metadata": {"resourceVersion": version}, "status": {"phase": "Running"}});
    assert_eq!(world.merge("nodes n/status", stale).await.code, 409);
}
