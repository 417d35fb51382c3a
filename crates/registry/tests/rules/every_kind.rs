//! Rules for all kinds, checked on one object of each.

use super::{
    documents::{Counting, Sample, kinds},
    world::{World, text},
};
use serde_json::{Value, json};

fn version(document: &Value) -> u64 {
    text(document, "/metadata/resourceVersion").parse().unwrap()
}

fn without(document: &Value, pointers: &[&str]) -> Value {
    let mut document = document.clone();
    for pointer in pointers {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        if let Some(Value::Object(fields)) = document.pointer_mut(parent) {
            fields.remove(name);
        }
    }
    document
}

/// A cluster-wide kind's names would meet if all kinds shared a world, so each has one of its own.
async fn each(mut check: impl AsyncFnMut(World, Sample)) {
    for kind in kinds() {
        check(World::new().await, kind).await;
    }
}

/// The kinds whose new objects something holds from the start.
fn held_at_once(kind: &Sample) -> bool {
    let held = [
        "persistentvolumes",
        "persistentvolumeclaims",
        "namespaces",
        "jobs",
        "replicationcontrollers",
        "volumeattributesclasses",
    ];
    held.contains(&kind.resource.plural.as_str())
}

#[tokio::test]
async fn an_object_of_every_kind_is_created_read_changed_and_deleted() {
    each(async |world, kind| {
        let (place, name) = (kind.place(), &kind.name);
        let made = world.post(&kind.collection(), kind.object.clone()).await;
        assert_eq!(made.line(), "201", "{name}");
        let odd: Vec<_> = made.warnings.iter().filter(|answer| !answer.contains(" yet")).collect();
        assert!(
            odd.is_empty(),
            "{name}: nothing is odd about it but what the server does not do yet: {odd:?}"
        );
        let made = made.ok();
        assert_eq!(made["kind"], kind.resource.name);
        assert_eq!(made["apiVersion"], kind.resource.api_version());
        assert_eq!(world.get(&place).await.ok(), made, "{name}: what is read is what was made");

        let listed = world.list(&kind.collection()).await.ok();
        assert!(listed["items"].as_array().unwrap().contains(&made), "{name}: it is listed");

        let labelled = world.merge(&place, json!({"metadata": {"labels": {"l": "1"}}})).await;
        assert_eq!(labelled.line(), "200", "{name}");
        let labelled = labelled.ok();
        assert!(version(&labelled) > version(&made), "{name}");
        if let Some(change) = &kind.change {
            let changed = world.merge(&place, change.clone()).await;
            assert_eq!(changed.line(), "200", "{name}");
            let changed = changed.ok();
            assert!(version(&changed) > version(&labelled), "{name}: the change is one: {change}");
            assert_eq!(world.get(&place).await.ok(), changed, "{name}");
        }

        let deleted = world.delete(&place).await;
        assert_eq!(deleted.line(), "200", "{name}");
        assert_eq!(deleted.gone, !held_at_once(&kind), "{name}");
        if !deleted.gone && kind.resource.plural != "namespaces" {
            assert_eq!(world.merge(&place, json!({"metadata": {"finalizers": null}})).await.line(), "200");
        } else if !deleted.gone {
            let finalized =
                world.put(&format!("{place}/finalize"), json!({"spec": {"finalizers": []}})).await;
            assert_eq!(finalized.line(), "200", "{name}");
        }
        assert_eq!(world.get(&place).await.code, 404, "{name}");
        assert_eq!(world.delete(&place).await.code, 404, "{name}");
    })
    .await;
}

#[tokio::test]
async fn system_fields_of_the_request_are_dropped_from_a_new_object() {
    each(async |world, kind| {
        let sent = kind.with_metadata(json!({
            "uid": "11111111-2222-3333-4444-555555555555", "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "selfLink": "/x",
        }));
        let made = world.post(&kind.collection(), sent).await.ok();
        let metadata = made["metadata"].as_object().unwrap();
        assert_ne!(metadata["uid"], "11111111-2222-3333-4444-555555555555", "{}", kind.name);
        assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z", "{}", kind.name);
        for dropped in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            assert!(!metadata.contains_key(dropped), "{}: {dropped}", kind.name);
        }
    })
    .await;
}

#[tokio::test]
async fn a_new_object_that_has_a_version_is_refused() {
    each(async |world, kind| {
        let sent = kind.with_metadata(json!({"resourceVersion": "5"}));
        let refused = world.post(&kind.collection(), sent).await;
        let why = "500 ?: resourceVersion should not be set on objects to be created";
        assert_eq!(refused.line(), why, "{}", kind.name);
    })
    .await;
}

#[tokio::test]
async fn a_second_object_of_the_same_name_is_refused() {
    each(async |world, kind| {
        world.post(&kind.collection(), kind.object.clone()).await.ok();
        let before = world.everything().await;
        let refused = world.post(&kind.collection(), kind.object.clone()).await;
        let group = kind.resource.group.as_str();
        let what = [kind.resource.plural.as_str(), group].join(if group.is_empty() { "" } else { "." });
        let own = text(&kind.object, "/metadata/name");
        assert_eq!(refused.line(), format!("409 AlreadyExists: {what} \"{own}\" already exists"));
        assert_eq!(world.everything().await.1, before.1, "{}: nothing is left of it", kind.name);
    })
    .await;
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_version_and_writes_nothing() {
    each(async |world, kind| {
        let place = kind.place();
        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
        let before = world.everything().await;
        let mut unversioned = without(&made, &["/metadata/resourceVersion"]);
        if !kind.resource.unconditional_update {
            unversioned = made.clone();
        }
        let mut answers = vec![
            world.put(&place, made.clone()).await,
            world.put(&place, unversioned).await,
            world.merge(&place, json!({})).await,
            world.strategic(&place, json!({})).await,
            world.json_patch(&place, json!([])).await,
            world.merge(&place, json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}})).await,
        ];
        if kind.status.is_some() {
            answers.push(world.put(&kind.status_place(), made.clone()).await);
            answers.push(world.merge(&kind.status_place(), json!({})).await);
            // The status is not the main resource's to write.
            answers.push(world.merge(&place, json!({"status": kind.status})).await);
        }
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.line(), "200", "{}: {number}", kind.name);
            assert_eq!(answer.body, made, "{}: {number}", kind.name);
        }
        assert_eq!(world.everything().await, before, "{}", kind.name);
    })
    .await;
}

#[tokio::test]
async fn generation_counts_what_the_kind_counts_and_nothing_else() {
    each(async |world, kind| {
        let (place, name) = (kind.place(), &kind.name);
        let sent = kind.with_metadata(json!({"generation": 7}));
        let generation = |document: &Value| document["metadata"]["generation"].as_i64();
        let made = generation(&world.post(&kind.collection(), sent).await.ok());
        let first =
            if matches!(kind.generation, Counting::Left | Counting::CountedOnceCreated) { 7 } else { 1 };
        assert_eq!(made, Some(first), "{name}: at first");

        let sent = json!({"metadata": {"generation": 70, "finalizers": ["example.com/x"]}});
        let touched = generation(&world.merge(&place, sent).await.ok());
        assert_eq!(touched, Some(first), "{name}: a finalizer does not count");
        if let Some(status) = &kind.status {
            let sent = json!({"status": status});
            let answer = world.merge(&kind.status_place(), sent).await;
            assert_eq!(answer.line(), "200", "{name}");
            assert_eq!(generation(&answer.body), Some(first), "{name}: the status does not count");
        }
        let Some(change) = &kind.change else { return };
        let changed = generation(&world.merge(&place, change.clone()).await.ok());
        let is_counted = matches!(kind.generation, Counting::Counted | Counting::CountedOnceCreated);
        let counted = if is_counted { first + 1 } else { first };
        assert_eq!(changed, Some(counted), "{name}: after a change");

        // Marking counts for every object that has a generation.
        let marked = world.delete(&place).await.ok();
        assert_eq!(generation(&marked), Some(counted + 1), "{name}: when it is marked for deletion");
    })
    .await;
}

#[tokio::test]
async fn the_status_of_a_new_object_is_the_servers_but_for_nodes() {
    each(async |world, kind| {
        let Some(status) = kind.status.clone() else { return };
        let plain = world.post(&kind.collection(), kind.object.clone()).await.ok();
        let world = World::new().await;
        let mut sent = kind.object.clone();
        sent["status"] = status.clone();
        let made = world.post(&kind.collection(), sent).await.ok();
        if kind.resource.plural == "nodes" {
            assert_eq!(made["status"]["phase"], status["phase"]);
            return;
        }
        let volatile = ["/status/lastPhaseTransitionTime"];
        assert_eq!(
            without(&made, &volatile)["status"],
            without(&plain, &volatile)["status"],
            "{}",
            kind.name
        );
    })
    .await;
}

#[tokio::test]
async fn the_status_is_written_through_its_own_path_alone_and_nothing_else_is() {
    each(async |world, kind| {
        let Some(status) = kind.status.clone() else { return };
        let (place, name) = (kind.place(), &kind.name);
        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();

        let mut sent = made.clone();
        if let Some(change) = &kind.change {
            merge(&mut sent, change);
        }
        sent["status"] = status.clone();
        sent["metadata"]["annotations"] = json!({"example.com/a": "1"});
        let answer = world.put(&kind.status_place(), sent).await;
        assert_eq!(answer.line(), "200", "{name}");
        let answer = answer.ok();
        let annotation = if kind.resource.status_keeps_metadata { Value::Null } else { json!("1") };
        assert_eq!(answer["metadata"]["annotations"]["example.com/a"], annotation, "{name}: metadata");
        let volatile = ["/status", "/metadata/annotations", "/metadata/resourceVersion"];
        assert_eq!(without(&answer, &volatile), without(&made, &volatile), "{name}: all else is as it was");
        for (field, wanted) in status.as_object().unwrap() {
            let found = answer["status"].get(field).unwrap_or(&Value::Null);
            assert!(says(found, wanted), "{name}: status.{field} is stored: {answer}");
        }

        let mut sent = answer.clone();
        sent["metadata"]["labels"] = json!({"l": "1"});
        sent.as_object_mut().unwrap().remove("status");
        let written = world.put(&place, sent).await.ok();
        assert_eq!(written["status"], answer["status"], "{name}: a main write without status keeps it");
        let mut sent = written.clone();
        sent["status"] = json!({});
        sent["metadata"]["labels"] = json!({"l": "2"});
        let written = world.put(&place, sent).await.ok();
        assert_eq!(written["status"], answer["status"], "{name}: a main write with another status keeps it");
    })
    .await;
}

/// Whether all that is wanted is there. What is empty need not be.
fn says(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| says(found.get(name).unwrap_or(&Value::Null), wanted))
        }
        (Value::Null, wanted) => wanted == "" || wanted == 0,
        (found, wanted) => found == wanted,
    }
}

/// RFC 7386, for documents.
fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *document = patch.clone();
        return;
    };
    for (name, value) in fields {
        if !document.is_object() {
            *document = json!({});
        }
        merge(&mut document[name.as_str()], value);
    }
}

#[tokio::test]
async fn labels_and_finalizers_sent_with_a_status_are_stored_by_most_kinds() {
    each(async |world, kind| {
        if kind.status.is_none() {
            return;
        }
        world.post(&kind.collection(), kind.object.clone()).await.ok();
        let sent = json!({"metadata": {"labels": {"l": "1"}, "finalizers": ["example.com/x"]}});
        let answer = world.merge(&kind.status_place(), sent).await.ok();
        let keeps = kind.resource.status_keeps_metadata;
        let label = if keeps || kind.resource.plural == "deployments" { Value::Null } else { json!("1") };
        assert_eq!(answer["metadata"]["labels"]["l"], label, "{}", kind.name);
        let is_stored = answer["metadata"]["finalizers"] == json!(["example.com/x"]);
        assert_eq!(is_stored, !keeps, "{}", kind.name);
    })
    .await;
}

#[tokio::test]
async fn objects_are_kept_where_kubernetes_keeps_them() {
    const SPECIAL: [(&str, &str); 7] = [
        ("services", "services/specs"),
        ("endpoints", "services/endpoints"),
        ("nodes", "minions"),
        ("replicationcontrollers", "controllers"),
        ("ingresses", "ingress"),
        ("apiservices", "apiregistration.k8s.io/apiservices"),
        ("customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions"),
    ];
    each(async |world, kind| {
        world.post(&kind.collection(), kind.object.clone()).await.ok();
        let plural = kind.resource.plural.as_str();
        let prefix = SPECIAL.iter().find(|(own, _)| *own == plural).map_or(plural, |(_, prefix)| prefix);
        let namespace = if kind.resource.namespaced { "default/" } else { "" };
        let key = format!("/registry/{prefix}/{namespace}{}", text(&kind.object, "/metadata/name"));
        let (_, all) = world.everything().await;
        let stored = all.iter().find(|item| *item.key == *key);
        let stored = stored.unwrap_or_else(|| panic!("{} is not at {key}", kind.name));
        let value: Value = serde_json::from_slice(&stored.value.bytes).unwrap();
        assert!(value["metadata"].get("resourceVersion").is_none(), "{}: no version is stored", kind.name);
        assert!(value["metadata"].get("selfLink").is_none(), "{}", kind.name);
        let expected = match kind.name.as_str() {
            "events.events.k8s.io" => "v1".to_owned(),
            "horizontalpodautoscalers/v1" => "autoscaling/v2".to_owned(),
            _ => kind.resource.api_version(),
        };
        assert_eq!(value["apiVersion"], *expected, "{}", kind.name);
    })
    .await;
}

#[tokio::test]
async fn a_replacement_needs_a_resource_version_only_for_some_kinds() {
    const NEED: &[&str] = &[
        "leases",
        "customresourcedefinitions",
        "apiservices",
        "poddisruptionbudgets",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "runtimeclasses",
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "volumeattachments",
    ];
    each(async |world, kind| {
        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
        let mut sent = without(&made, &["/metadata/resourceVersion"]);
        sent["metadata"]["labels"] = json!({"l": "1"});
        let replaced = world.put(&kind.place(), sent).await;
        if !NEED.contains(&kind.resource.plural.as_str()) {
            assert_eq!(replaced.line(), "200", "{}", kind.name);
            return;
        }
        let what = format!("{}.{}", kind.resource.plural, kind.resource.group);
        let own = text(&kind.object, "/metadata/name");
        let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
        assert_eq!(replaced.line(), format!("422 Invalid: {what} \"{own}\" is invalid: {why}"));
        assert_eq!(replaced.body["details"]["kind"], kind.resource.plural);
    })
    .await;
}

#[tokio::test]
async fn replacing_a_missing_object_creates_it_only_for_some_kinds() {
    const CREATED: &[&str] = &[
        "leases",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
        "services",
        "endpoints",
        "events",
        "limitranges",
        "runtimeclasses",
    ];
    each(async |world, kind| {
        let replaced = world.put(&kind.place(), kind.object.clone()).await;
        let expected = if CREATED.contains(&kind.resource.plural.as_str()) { 201 } else { 404 };
        assert_eq!(replaced.code, expected, "{}: {}", kind.name, replaced.line());
        assert_eq!(world.get(&kind.place()).await.code == 200, expected == 201, "{}", kind.name);
        // A patch never creates.
        let world = World::new().await;
        assert_eq!(world.merge(&kind.place(), json!({})).await.code, 404, "{}", kind.name);
    })
    .await;
}

#[test]
fn a_deletion_is_answered_with_the_object_only_for_some_kinds() {
    const RETURNED: &[&str] = &[
        "namespaces",
        "pods",
        "persistentvolumes",
        "persistentvolumeclaims",
        "podtemplates",
        "resourcequotas",
        "services",
        "serviceaccounts",
        "csidrivers",
        "csinodes",
        "storageclasses",
        "volumeattachments",
        "volumeattributesclasses",
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    ];
    for kind in kinds() {
        let expected = RETURNED.contains(&kind.resource.plural.as_str());
        assert_eq!(kind.resource.returns_deleted, expected, "{}", kind.name);
    }
}

#[tokio::test]
async fn a_dry_run_of_any_write_of_any_kind_changes_nothing() {
    each(async |world, kind| {
        let (place, name) = (kind.place(), &kind.name);
        let before = world.everything().await;
        let made = world.post(&format!("{}?dryRun=All", kind.collection()), kind.object.clone()).await;
        assert_eq!(made.line(), "201", "{name}");
        assert!(made.body["metadata"].get("resourceVersion").is_none(), "{name}");
        assert!(!text(&made.body, "/metadata/uid").is_empty(), "{name}");
        assert_eq!(world.everything().await, before, "{name}: create");

        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
        let before = world.everything().await;
        let dry = format!("{place}?dryRun=All");
        let label = json!({"metadata": {"labels": {"l": "1"}}});
        let change = kind.change.clone().unwrap_or(label.clone());
        let mut sent = made.clone();
        merge(&mut sent, &change);
        for (how, answer) in [
            ("put", world.put(&dry, sent.clone()).await),
            ("merge", world.merge(&dry, change.clone()).await),
            ("strategic", world.strategic(&dry, label).await),
            (
                "json",
                world
                    .json_patch(&dry, json!([{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}]))
                    .await,
            ),
        ] {
            assert_eq!(answer.line(), "200", "{name}: {how}");
            assert_ne!(answer.body, made, "{name}: {how} shows what would be");
            assert_eq!(version(&answer.body), version(&made), "{name}: {how} shows the stored version");
            assert_eq!(world.everything().await, before, "{name}: {how}");
        }
        if let Some(status) = &kind.status {
            let dry = format!("{place}/status?dryRun=All");
            assert_eq!(world.merge(&dry, json!({"status": status})).await.line(), "200", "{name}");
            sent["status"] = status.clone();
            assert_eq!(world.put(&dry, sent).await.line(), "200", "{name}");
        }
        if kind.resource.allows("deletecollection") {
            let all = kind.collection();
            let answer = world.delete_collection(&all, json!({"dryRun": ["All"]})).await;
            assert_eq!(answer.line(), "200", "{name}");
        }
        for policy in ["Foreground", "Background", "Orphan"] {
            let options = json!({"dryRun": ["All"], "propagationPolicy": policy});
            assert_eq!(world.delete_with(&place, options).await.line(), "200", "{name}: {policy}");
        }
        assert_eq!(world.delete(&dry).await.line(), "200", "{name}");
        assert_eq!(world.everything().await, before, "{name}: delete");
        let again = world.post(&format!("{}?dryRun=All", kind.collection()), kind.object.clone()).await;
        assert_eq!(again.code, 409, "{name}: an object that exists is reported in a dry run too");
    })
    .await;
}

#[tokio::test]
async fn an_object_of_every_kind_waits_for_its_finalizers() {
    each(async |world, kind| {
        if kind.resource.plural == "namespaces" {
            return;
        }
        let (place, name) = (kind.place(), &kind.name);
        let sent = kind.with_metadata(json!({"finalizers": ["example.com/x"]}));
        world.post(&kind.collection(), sent).await.ok();
        let marked = world.delete(&place).await;
        assert!(!marked.gone, "{name}");
        let marked = marked.ok();
        assert!(!text(&marked, "/metadata/deletionTimestamp").is_empty(), "{name}");
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0, "{name}");
        assert_eq!(world.get(&place).await.ok(), marked, "{name}: it is still there, marked");
        let again = world.delete(&place).await.ok();
        assert_eq!(again, marked, "{name}: asking again changes nothing");

        let last = world.merge(&place, json!({"metadata": {"finalizers": []}})).await;
        assert_eq!(last.line(), "200", "{name}");
        assert!(last.body["metadata"].get("finalizers").is_none(), "{name}");
        assert_eq!(world.get(&place).await.code, 404, "{name}: gone with its last finalizer");
    })
    .await;
}

#[tokio::test]
async fn the_error_for_a_missing_object_names_its_resource() {
    each(async |world, kind| {
        let place = kind.place();
        let group = kind.resource.group.as_str();
        let what = [kind.resource.plural.as_str(), group].join(if group.is_empty() { "" } else { "." });
        let why = format!("404 NotFound: {what} \"{}\" not found", text(&kind.object, "/metadata/name"));
        assert_eq!(world.get(&place).await.line(), why);
        assert_eq!(world.delete(&place).await.line(), why);
        assert_eq!(world.merge(&place, json!({})).await.line(), why);
    })
    .await;
}
