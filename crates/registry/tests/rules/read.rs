//! Get, list and watch: what is selected, and where.

use super::world::{World, bound_pod, map, pod, text};
use keepwatch_apimachinery::{meta::Qualified, status::Reason};
use keepwatch_endpoints::to_status;
use keepwatch_registry::Error;
use keepwatch_storage::StorageError;
use serde_json::{Value, json};

async fn maps(world: &World) {
    world.namespace("n1").await;
    world.namespace("n2").await;
    for (namespace, name, label) in
        [("n1", "a", "1"), ("n1", "b", "2"), ("n2", "a", "2"), ("n2", "c", "1"), ("n1", "ab", "3")]
    {
        let sent = json!({"metadata": {"name": name, "labels": {"l": label}}});
        world.post(&format!("configmaps {namespace}"), sent).await.ok();
    }
}

#[tokio::test]
async fn a_list_has_its_namespace_or_all_in_the_order_of_their_keys() {
    let world = World::new().await;
    maps(&world).await;
    assert_eq!(world.names("configmaps n1").await, "a ab b");
    assert_eq!(world.names("configmaps n2").await, "a c");
    assert_eq!(world.names("configmaps n").await, "", "n1 does not lie in n");
    assert_eq!(world.names("configmaps").await, "a ab b a c");
    assert_eq!(world.list("configmaps nons").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn labels_and_fields_select() {
    for world in [World::new().await, World::cached().await] {
        maps(&world).await;
        for (at, found) in [
            ("configmaps?labelSelector=l=1", "a c"),
            ("configmaps?labelSelector=l!=1", "ab b a"),
            ("configmaps?labelSelector=l in (1,3)", "a ab c"),
            ("configmaps?labelSelector=l notin (1,3)", "b a"),
            ("configmaps?labelSelector=l", "a ab b a c"),
            ("configmaps?labelSelector=!l", ""),
            ("configmaps?fieldSelector=metadata.name=a", "a a"),
            ("configmaps?fieldSelector=metadata.name!=a", "ab b c"),
            ("configmaps n1?fieldSelector=metadata.name=a", "a"),
            ("configmaps?fieldSelector=metadata.name=a,metadata.namespace=n2", "a"),
            ("configmaps?fieldSelector=metadata.namespace=n2", "a c"),
            ("configmaps n1?fieldSelector=metadata.namespace=n2", ""),
            ("configmaps n1?fieldSelector=metadata.namespace=n1", "a ab b"),
            ("configmaps?fieldSelector=metadata.namespace!=n2", "a ab b"),
            ("configmaps n1?fieldSelector=metadata.name=a,metadata.namespace=n2", ""),
            ("configmaps?fieldSelector=metadata.name=a&labelSelector=l=2", "a"),
            ("configmaps n1?fieldSelector=metadata.name=a&labelSelector=l=2", ""),
            ("configmaps n1?fieldSelector=metadata.name=nope", ""),
            ("configmaps n1?fieldSelector=metadata.name=a,metadata.name=b", ""),
            ("configmaps?fieldSelector=metadata.namespace=", ""),
            ("configmaps n1?fieldSelector=metadata.name=", ""),
            ("namespaces?fieldSelector=metadata.name=n1", "n1"),
            ("namespaces?fieldSelector=status.phase=Active,metadata.name=n2", "n2"),
        ] {
            assert_eq!(world.names(at).await, found, "{at}");
        }
    }
}

#[tokio::test]
async fn a_name_in_a_selector_that_is_no_name_selects_nothing_and_reaches_nowhere() {
    for world in [World::new().await, World::cached().await] {
        maps(&world).await;
        for name in ["..", ".", "../n2/a", "n2/a", "a/", "%2e%2e", "/", "a\u{0}"] {
            let at = format!("configmaps n1?fieldSelector=metadata.name={name}");
            assert_eq!(world.names(&at).await, "", "{name:?}");
            let at = format!("configmaps?fieldSelector=metadata.namespace={name}");
            assert_eq!(world.names(&at).await, "", "{name:?}");
            let at = format!("configmaps?fieldSelector=metadata.namespace={name},metadata.name=a");
            assert_eq!(world.names(&at).await, "", "{name:?}");
        }
    }
}

#[tokio::test]
async fn a_field_that_a_kind_does_not_have_is_refused_in_the_kinds_own_words() {
    let world = World::new().await;
    for (at, why) in [
        (
            "configmaps default?fieldSelector=spec.foo=1",
            r#""spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        ("pods default?fieldSelector=spec.foo=1", "field label not supported: spec.foo"),
        ("jobs default?fieldSelector=spec.foo=1", r#"field label "spec.foo" not supported for Job"#),
    ] {
        let line = format!("400 BadRequest: {why}");
        assert_eq!(world.list(at).await.line(), line);
        let refused = world.watch(at).await.err().map(|refused| refused.0.message);
        assert_eq!(refused.as_deref(), Some(why));
        assert_eq!(world.delete_collection(at, json!({})).await.line(), line);
    }
}

#[tokio::test]
async fn each_kind_can_be_selected_by_the_fields_that_it_has() {
    let world = World::new().await;
    world.post("pods default", bound_pod("bound")).await.ok();
    world.post("pods default", pod("free")).await.ok();
    let mut host = pod("host");
    host["spec"]["hostNetwork"] = true.into();
    host["spec"]["restartPolicy"] = "Never".into();
    host["spec"]["schedulerName"] = "own".into();
    host["spec"]["serviceAccountName"] = "robot".into();
    world.post("pods default", host).await.ok();
    let status = json!({"status": {"phase": "Failed", "podIP": "192.0.2.1", "nominatedNodeName": "n9"}});
    world.merge("pods default/bound/status", status).await.ok();
    world.post("nodes", json!({"metadata": {"name": "off"}, "spec": {"unschedulable": true}})).await.ok();
    world.post("nodes", map("on")).await.ok();
    world.post("secrets default", json!({"metadata": {"name": "s"}, "type": "example.com/t"})).await.ok();
    let none = json!({"metadata": {"name": "headless"}, "spec": {"clusterIP": "None"}});
    world.post("services default", none).await.ok();
    for (at, found) in [
        ("pods?fieldSelector=spec.nodeName=n1", "bound"),
        ("pods?fieldSelector=spec.host=n1", "bound"),
        ("pods?fieldSelector=spec.nodeName=", "free host"),
        ("pods?fieldSelector=status.phase!=Succeeded,status.phase!=Failed", "free host"),
        ("pods?fieldSelector=status.phase=Pending", "free host"),
        ("pods?fieldSelector=spec.hostNetwork=true", "host"),
        ("pods?fieldSelector=spec.hostNetwork=false", "bound free"),
        ("pods?fieldSelector=spec.restartPolicy=Never", "host"),
        ("pods?fieldSelector=spec.schedulerName=own", "host"),
        ("pods?fieldSelector=spec.serviceAccountName=robot", "host"),
        ("pods?fieldSelector=status.podIP=192.0.2.1", "bound"),
        ("pods?fieldSelector=status.nominatedNodeName=n9", "bound"),
        ("nodes?fieldSelector=spec.unschedulable=true", "off"),
        ("nodes?fieldSelector=spec.unschedulable=false", "on"),
        ("secrets?fieldSelector=type=example.com/t", "s"),
        ("services?fieldSelector=spec.clusterIP=None", "headless"),
        ("services?fieldSelector=spec.clusterIP!=None", "kubernetes"),
        ("services?fieldSelector=spec.type=ClusterIP", "headless kubernetes"),
        ("namespaces?fieldSelector=status.phase=Terminating", ""),
    ] {
        assert_eq!(world.names(at).await, found, "{at}");
    }
}

#[tokio::test]
async fn both_groups_select_events_in_their_own_words() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "events").unwrap();
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    for at in [
        "events?fieldSelector=involvedObject.name=p,involvedObject.kind=Pod",
        "events?fieldSelector=reason=Started,type=Normal,source=tester",
        "events default?fieldSelector=involvedObject.namespace=default",
        "events.events.k8s.io?fieldSelector=regarding.name=p,regarding.kind=Pod",
        "events.events.k8s.io?fieldSelector=reason=Started,type=Normal",
    ] {
        assert_eq!(world.names(at).await, "a", "{at}");
        assert_eq!(
            world
                .names(&at.replace("=Started", "=Other").replace("=p", "=q").replace("=default", "=x"))
                .await,
            ""
        );
    }
    assert_eq!(world.list("events?fieldSelector=regarding.name=p").await.code, 400);
    assert_eq!(world.list("events.events.k8s.io?fieldSelector=involvedObject.name=p").await.code, 400);
}

#[tokio::test]
async fn a_watch_of_one_object_receives_no_events_of_others() {
    for world in [World::new().await, World::cached().await] {
        maps(&world).await;
        let at = "configmaps n1?fieldSelector=metadata.name=a&resourceVersion=0";
        let mut watch = world.watch(at).await.unwrap();
        watch.expect("ADDED a").await;
        for other in ["configmaps n1/ab", "configmaps n1/b", "configmaps n2/a"] {
            world.merge(other, json!({"data": {"k": "1"}})).await.ok();
        }
        world.merge("configmaps n1/a", json!({"data": {"k": "1"}})).await.ok();
        watch.expect("MODIFIED a").await;
        world.delete("configmaps n1/a").await.ok();
        watch.expect("DELETED a").await;
    }
}

#[tokio::test]
async fn an_object_that_leaves_a_selector_is_sent_as_deleted_and_one_that_enters_as_added() {
    for world in [World::new().await, World::cached().await] {
        maps(&world).await;
        let mut watch = world.watch("configmaps n1?labelSelector=l=1").await.unwrap();
        watch.expect("ADDED a").await;
        let left = world.merge("configmaps n1/a", json!({"metadata": {"labels": {"l": "9"}}})).await.ok();
        let answer = watch.expect("DELETED a").await;
        assert_eq!(answer["metadata"]["labels"]["l"], "1", "as it was when it could be seen");
        assert_eq!(answer["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
        world.merge("configmaps n1/b", json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
        watch.expect("ADDED b").await;
        world.merge("configmaps n1/b", json!({"data": {"k": "1"}})).await.ok();
        watch.expect("MODIFIED b").await;
    }
}

#[tokio::test]
async fn writes_that_change_nothing_are_not_sent_to_watchers() {
    let world = World::cached().await;
    world.post("configmaps default", map("a")).await.ok();
    let mut watch = world.watch("configmaps default").await.unwrap();
    watch.expect("ADDED a").await;
    world.put("configmaps default/a", map("a")).await.ok();
    world.merge("configmaps default/a", json!({})).await.ok();
    world.merge("configmaps default/a?dryRun=All", json!({"data": {"k": "1"}})).await.ok();
    world.delete("configmaps default/a?dryRun=All").await.ok();
    world.merge("configmaps default/a", json!({"data": {"k": "2"}})).await.ok();
    let answer = watch.expect("MODIFIED a").await;
    assert_eq!(answer["data"], json!({"k": "2"}));
}

#[tokio::test]
async fn pages_of_a_list_fit_together() {
    for world in [World::new().await, World::cached().await] {
        maps(&world).await;
        let mut found = Vec::new();
        let mut token = String::new();
        for page in 0.. {
            assert!(page < 10, "pages end");
            let list = world.list(&format!("configmaps?limit=2&continue={token}")).await.ok();
            let items = list["items"].as_array().unwrap();
            found.extend(items.iter().map(|item| {
                format!("{}/{}", text(item, "/metadata/namespace"), text(item, "/metadata/name"))
            }));
            token = text(&list, "/metadata/continue").to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found.join(" "), "n1/a n1/ab n1/b n2/a n2/c");
    }
}

#[tokio::test]
async fn a_list_names_a_version_from_which_a_watch_misses_nothing() {
    for world in [World::new().await, World::cached().await] {
        maps(&world).await;
        let list = world.list("configmaps n1").await.ok();
        let version = text(&list, "/metadata/resourceVersion").to_owned();
        world.merge("configmaps n1/a", json!({"data": {"k": "1"}})).await.ok();
        world.delete("configmaps n1/b").await.ok();
        let mut watch = world.watch(&format!("configmaps n1?resourceVersion={version}")).await.unwrap();
        watch.expect("MODIFIED a").await;
        watch.expect("DELETED b").await;
    }
}

#[tokio::test]
async fn reads_of_a_version_that_is_not_there_yet_say_so() {
    let world = World::new().await;
    let late = world.list("configmaps?resourceVersion=99999999").await;
    assert_eq!(late.code, 504);
    assert_eq!(late.body["reason"], "Timeout");
    assert!(late.line().contains("Too large resource version: 99999999, current: "), "{}", late.line());
    let causes: Value = late.body["details"]["causes"].clone();
    assert_eq!(text(&causes, "/0/reason"), "ResourceVersionTooLarge");
    assert_eq!(late.body["details"]["retryAfterSeconds"], 1);
}

/// The error depends on whether something may have been written.
#[test]
fn errors_of_storage_have_the_reasons_of_kubernetes() {
    let unreachable = || StorageError::Unreachable { doing: "asking", source: "gone".into() };
    let late = || StorageError::Timeout { doing: "asking" };
    let retry = |operation: &str| {
        let message = format!(
            "The {operation} operation against pods could not be completed at this time, please try again."
        );
        (500, Some(Reason::ServerTimeout), message, 2)
    };
    let unknown = (500, None, late().to_string(), 0);
    for (operation, error, expected) in [
        ("get", unreachable(), retry("get")),
        ("create", unreachable(), retry("create")),
        ("list", late(), retry("list")),
        ("get", late(), unknown.clone()),
        ("update", late(), unknown),
    ] {
        let status = to_status(Error::storage(Qualified::core("pods"), "p", operation, error));
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        assert_eq!((status.code, status.reason, status.message, seconds), expected, "{operation}");
    }
}
