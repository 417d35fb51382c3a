//! The metadata that the server sets (uid, times, generation, generated names), and the few other fields that it sets.

use super::world::{World, map, pod, text};
use async_trait::async_trait;
use bytes::Bytes;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_registry::RegistryOptions;
use keepwatch_storage::{
    DeleteOptions, Key, List, ListRequest, Object, Storage, StorageError, TryUpdate, Unchanged,
    UpdateOptions, Validate, Watch, WatchRequest,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";

#[tokio::test]
async fn a_generated_name_has_five_letters_behind_its_beginning() {
    let world = World::new().await;
    let made = world.post("configmaps default", json!({"metadata": {"generateName": "gen-"}})).await.ok();
    let suffix = text(&made, "/metadata/name").strip_prefix("gen-").unwrap();
    assert!(suffix.len() == 5 && suffix.chars().all(|letter| SUFFIX.contains(letter)), "{suffix}");
    assert_eq!(made["metadata"]["generateName"], "gen-");

    let long = "x".repeat(70);
    let made = world.post("configmaps default", json!({"metadata": {"generateName": long}})).await.ok();
    assert_eq!(text(&made, "/metadata/name").len(), 63);
    assert_eq!(made["metadata"]["generateName"], long, "what was asked for is kept whole");

    let both = json!({"metadata": {"generateName": "gen-", "name": "own"}});
    let made = world.post("configmaps default", both).await.ok();
    assert_eq!(text(&made, "/metadata/name"), "own");
}

#[tokio::test]
async fn fields_that_depend_on_a_generated_name_are_set_from_it() {
    let world = World::new().await;
    let made = world.post("namespaces", json!({"metadata": {"generateName": "n-"}})).await.ok();
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], made["metadata"]["name"]);

    let mut job = json!({"metadata": {"generateName": "j-"}, "spec": {"template": pod("x")}});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    job["spec"]["template"]["metadata"].as_object_mut().unwrap().clear();
    let made = world.post("jobs default", job).await.ok();
    let labels = &made["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["job-name"], made["metadata"]["name"]);
    assert_eq!(labels["batch.kubernetes.io/job-name"], made["metadata"]["name"]);

    let service = json!({"metadata": {"generateName": "s-"}, "spec": {"ports": [{"port": 80}]}});
    let made = world.post("services default", service).await.ok();
    let address = world.get(&format!("ipaddresses {}", text(&made, "/spec/clusterIP"))).await.ok();
    assert_eq!(address["spec"]["parentRef"]["name"], made["metadata"]["name"]);
}

/// A store in which the next names that are tried are taken.
struct Crowded {
    inner: Arc<dyn Storage>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    taken: AtomicUsize,
    tried: AtomicUsize,
}

#[async_trait]
impl Storage for Crowded {
    async fn create_while(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        self.counts.tried.fetch_add(1, Ordering::SeqCst);
        let left =
            self.counts.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(StorageError::KeyExists { key: Key::from_backend(key) }),
            Err(_) => self.inner.create_while(key, value, ttl, unchanged).await,
        }
    }
    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError> {
        self.inner.get(key, position).await
    }
    async fn delete(
        &self,
        key: &str,
        options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError> {
        self.inner.delete(key, options, validate).await
    }
    async fn guaranteed_update(
        &self,
        key: &str,
        options: UpdateOptions,
        try_update: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        self.inner.guaranteed_update(key, options, try_update).await
    }
    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        self.inner.get_list(key, request).await
    }
    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        self.inner.watch(key, request).await
    }
}

/// A world in which the next `taken` names of a resource are, and how many were tried.
async fn crowded(plural: &str, taken: usize) -> (World, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let (plural, counted) = (plural.to_owned(), Arc::clone(&counts));
    let world = World::with(RegistryOptions::default(), move |own, inner| {
        if own.plural != plural {
            return inner;
        }
        Arc::new(Crowded { inner, counts: Arc::clone(&counted) })
    })
    .await;
    counts.tried.store(0, Ordering::SeqCst);
    counts.taken.store(taken, Ordering::SeqCst);
    (world, counts)
}

#[tokio::test]
async fn a_generated_name_that_is_taken_is_made_anew_up_to_eight_times() {
    let generated = json!({"metadata": {"generateName": "gen-"}});
    let (world, counts) = crowded("configmaps", 7).await;
    assert_eq!(world.post("configmaps default", generated.clone()).await.line(), "201");
    assert_eq!(counts.tried.load(Ordering::SeqCst), 8);

    let (world, counts) = crowded("configmaps", 8).await;
    let refused = world.post("configmaps default", generated).await;
    assert_eq!(counts.tried.load(Ordering::SeqCst), 8);
    let line = refused.line();
    assert!(line.starts_with("409 AlreadyExists: configmaps \"gen-"), "{line}");
    let why = "already exists, the server was not able to generate a unique name for the object";
    assert!(line.ends_with(why), "{line}");
    assert_eq!(refused.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn a_name_that_was_given_is_not_tried_twice() {
    let (world, counts) = crowded("configmaps", 1).await;
    let named = json!({"metadata": {"generateName": "gen-", "name": "own"}});
    let refused = world.post("configmaps default", named).await;
    let why = "already exists, the server was not able to generate a unique name for the object";
    assert_eq!(refused.line(), format!("409 AlreadyExists: configmaps \"own\" {why}"));
    assert_eq!(counts.tried.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_service_whose_generated_name_was_taken_keeps_one_address() {
    let (world, counts) = crowded("services", 3).await;
    let before = world.keys("/registry/ipaddresses/").await.len();
    let service =
        json!({"metadata": {"generateName": "s-"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let made = world.post("services default", service).await.ok();
    assert_eq!(counts.tried.load(Ordering::SeqCst), 4);
    assert_eq!(world.keys("/registry/ipaddresses/").await.len(), before + 1);
    let address = world.get(&format!("ipaddresses {}", text(&made, "/spec/clusterIP"))).await.ok();
    assert_eq!(address["spec"]["parentRef"]["name"], made["metadata"]["name"]);
}

#[tokio::test]
async fn a_replacement_for_another_uid_is_a_conflict() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    let uid = text(&made, "/metadata/uid");
    let other = "11111111-2222-3333-4444-555555555555";
    let refused = world.put("configmaps default/a", json!({"metadata": {"name": "a", "uid": other}})).await;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/configmaps/default/a, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {other}, UID in object meta: {uid}"
    );
    assert_eq!(
        refused.line(),
        format!("409 Conflict: Operation cannot be fulfilled on configmaps \"a\": {why}")
    );
    let same = world.put("configmaps default/a", json!({"metadata": {"name": "a", "uid": uid}})).await;
    assert_eq!(same.line(), "200");
    assert_eq!(world.put("configmaps default/a", map("a")).await.ok()["metadata"]["uid"], uid);
}

#[tokio::test]
async fn times_and_generation_are_not_the_clients_to_change() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    let sent =
        json!({"metadata": {"name": "a", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}});
    assert_eq!(world.put("configmaps default/a", sent).await.ok(), made);
    let sent = json!({"metadata": {"creationTimestamp": null, "generation": 7}});
    assert_eq!(world.merge("configmaps default/a", sent).await.ok(), made);
}

#[tokio::test]
async fn the_deletion_timestamp_cannot_be_removed() {
    let world = World::new().await;
    let mut sent = map("a");
    sent["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("configmaps default", sent.clone()).await.ok();
    let marked = world.delete("configmaps default/a").await.ok();
    assert_eq!(world.put("configmaps default/a", sent).await.ok(), marked);
    let off = json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}});
    assert_eq!(world.merge("configmaps default/a", off).await.ok(), marked);
}

#[tokio::test]
async fn an_annotation_counts_for_deployments_and_a_label_for_endpoint_slices() {
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    let annotation = json!({"metadata": {"annotations": {"example.com/a": "1"}}});
    for kind in super::documents::kinds() {
        let counted = kind.generation == super::documents::Counting::Counted;
        if !counted {
            continue;
        }
        let world = World::new().await;
        world.post(&kind.collection(), kind.object.clone()).await.ok();
        let labelled = world.merge(&kind.place(), label.clone()).await.ok();
        let expected = if kind.resource.plural == "endpointslices" { 2 } else { 1 };
        assert_eq!(labelled["metadata"]["generation"], expected, "{}: label", kind.name);
        let annotated = world.merge(&kind.place(), annotation.clone()).await.ok();
        let expected = if kind.resource.plural == "deployments" { 2 } else { expected };
        assert_eq!(annotated["metadata"]["generation"], expected, "{}: annotation", kind.name);
    }
}

#[tokio::test]
async fn a_daemon_set_counts_the_changes_of_its_template() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "daemonsets").unwrap();
    let counted = |document: &Value| {
        let count = text(document, "/metadata/annotations/deprecated.daemonset.template.generation");
        format!("{count} {}", document["metadata"]["generation"])
    };
    let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
    assert_eq!(counted(&made), "1 1");
    let other = world.merge(&kind.place(), json!({"spec": {"minReadySeconds": 3}})).await.ok();
    assert_eq!(counted(&other), "1 2");
    let template = json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}});
    let changed = world.merge(&kind.place(), template).await.ok();
    assert_eq!(counted(&changed), "2 3");
    let plain = world.put(&kind.place(), kind.object.clone()).await.ok();
    assert_eq!(counted(&plain), "3 4", "a replacement need not know of it");
}

#[tokio::test]
async fn a_namespace_is_labelled_with_its_name_whatever_is_written() {
    let world = World::new().await;
    let label = |document: &Value| document["metadata"]["labels"]["kubernetes.io/metadata.name"].clone();
    let sent = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "x"}}});
    assert_eq!(label(&world.post("namespaces", sent).await.ok()), "n");
    assert_eq!(label(&world.put("namespaces n", map("n")).await.ok()), "n");
    let off = json!({"metadata": {"labels": null}});
    assert_eq!(label(&world.merge("namespaces n", off.clone()).await.ok()), "n");
    assert_eq!(label(&world.merge("namespaces n/status", off).await.ok()), "n");
}

#[tokio::test]
async fn new_pods_namespaces_and_volumes_begin_with_their_phase() {
    let world = World::new().await;
    let made = world.post("pods default", pod("p")).await.ok();
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let mut gated = pod("g");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
    let made = world.post("pods default", gated).await.ok();
    let condition = &made["status"]["conditions"][0];
    assert_eq!(
        [&condition["type"], &condition["status"], &condition["reason"]],
        ["PodScheduled", "False", "SchedulingGated"]
    );
    let made = world.get("namespaces default").await.ok();
    assert_eq!(made["status"], json!({"phase": "Active"}));
    assert_eq!(made["spec"], json!({"finalizers": ["kubernetes"]}));
    for kind in super::documents::kinds() {
        let made = match kind.name.as_str() {
            "persistentvolumes" | "persistentvolumeclaims" => {
                world.post(&kind.collection(), kind.object.clone()).await.ok()
            }
            _ => continue,
        };
        assert_eq!(made["status"]["phase"], "Pending");
        let moved = !text(&made, "/status/lastPhaseTransitionTime").is_empty();
        assert_eq!(moved, kind.name == "persistentvolumes");
        let protection = if moved { "kubernetes.io/pv-protection" } else { "kubernetes.io/pvc-protection" };
        assert_eq!(made["metadata"]["finalizers"], json!([protection]));
    }
}

#[tokio::test]
async fn the_user_of_a_certificate_request_is_the_requester() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "certificatesigningrequests");
    let kind = kind.unwrap();
    let mut sent = kind.object.clone();
    sent["spec"]["username"] = "system:admin".into();
    sent["spec"]["groups"] = json!(["system:masters"]);
    sent["spec"]["extra"] = json!({"scopes": ["all"]});
    let made = world.post(&kind.collection(), sent).await.ok();
    assert_eq!(made["spec"]["username"], "jane");
    assert_eq!(made["spec"]["uid"], "u1");
    assert_eq!(made["spec"]["groups"], json!(["system:authenticated"]));
    assert!(made["spec"].get("extra").is_none());

    let other = json!({"spec": {"username": "joe", "signerName": "example.com/z"}});
    let changed = world.merge(&kind.place(), other).await.ok();
    assert_eq!(changed["spec"], made["spec"], "and nobody changes it");
}

#[tokio::test]
async fn approval_sets_conditions_and_the_status_sets_all_but_approval() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "certificatesigningrequests");
    let kind = kind.unwrap();
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    let approved = json!({"type": "Approved", "status": "True", "reason": "R", "message": "m"});
    let sent = json!({"spec": {"signerName": "example.com/z"}, "status": {"conditions": [approved]}});
    let written = world.merge(&format!("{}/approval", kind.place()), sent).await.ok();
    assert_eq!(written["spec"]["signerName"], "example.com/s");
    assert_eq!(text(&written, "/status/conditions/0/type"), "Approved");

    let other = json!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "R"}]}});
    let written = world.merge(&kind.status_place(), other).await.ok();
    let types: Vec<_> =
        written["status"]["conditions"].as_array().unwrap().iter().map(|c| text(c, "/type")).collect();
    assert_eq!(types, ["Approved", "Failed"], "the status does not take an approval back");
}

#[tokio::test]
async fn the_conditions_of_a_certificate_request_have_times() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "certificatesigningrequests");
    let kind = kind.unwrap();
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    let condition = |kind: &str, more: Value| {
        let mut condition = json!({"type": kind, "status": "True", "reason": "R"});
        condition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        condition
    };
    let with = |conditions: Value| json!({"status": {"conditions": conditions}});
    let (then, approval) = ("2024-01-01T00:00:00Z", format!("{}/approval", kind.place()));
    let sent = with(json!([condition("Approved", json!({"lastTransitionTime": then}))]));
    let written = world.merge(&approval, sent).await.ok();
    assert_eq!(
        text(&written, "/status/conditions/0/lastTransitionTime"),
        then,
        "a time of the request stays"
    );
    assert!(text(&written, "/status/conditions/0/lastUpdateTime") > "2025");

    let sent = with(json!([condition("Approved", json!({"message": "m"}))]));
    let written = world.merge(&approval, sent).await.ok();
    assert_eq!(text(&written, "/status/conditions/0/lastTransitionTime"), then, "it is the same one still");
    let sent = with(json!([condition("Failed", json!({}))]));
    let written = world.merge(&kind.status_place(), sent).await.ok();
    assert_eq!(text(&written, "/status/conditions/1/type"), "Failed");
    for field in ["lastUpdateTime", "lastTransitionTime"] {
        assert!(text(&written, &format!("/status/conditions/1/{field}")) > "2025", "{written}");
    }
}

#[tokio::test]
async fn labels_that_a_client_gives_the_pods_of_a_job_are_the_job_s_own_or_refused() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "jobs").unwrap();
    let labelled = |name: &str, label: &str, value: &str, manual: bool| {
        let mut job = kind.with_metadata(json!({"name": name}));
        job["spec"]["template"]["metadata"] = json!({"labels": {label: value}});
        if manual {
            job["spec"]["manualSelector"] = true.into();
            job["spec"]["selector"] = json!({"matchLabels": {label: value}});
        }
        job
    };
    let (uid, own) = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name");
    for (label, value, manual, causes) in [
        ("job-name", "a", false, vec![]),
        ("job-name", "b", false, vec!["job-name"]),
        (own, "b", false, vec![own]),
        ("controller-uid", "u", false, vec!["controller-uid"]),
        (uid, "u", false, vec![uid]),
        ("controller-uid", "u", true, vec![]),
        ("job-name", "b", true, vec![]),
    ] {
        let answer = world.post("jobs default?dryRun=All", labelled("a", label, value, manual)).await;
        let labels = answer.causes();
        let labels: Vec<_> = labels
            .iter()
            .filter_map(|cause| cause.strip_prefix("FieldValueInvalid spec.template.metadata.labels["))
            .map(|label| label.trim_end_matches(']'))
            .collect();
        assert_eq!(labels, causes, "{label}={value}: {}", answer.line());
        assert_eq!(answer.code, if causes.is_empty() { 201 } else { 422 }, "{}", answer.line());
    }
    let refused = world.post("jobs default", labelled("a", "job-name", "b", false)).await;
    assert!(refused.line().contains(": must be 'a'"), "{}", refused.line());
    let mut picked = kind.with_metadata(json!({"name": "a"}));
    picked["spec"]["selector"] = json!({"matchLabels": {"job-name": "a"}});
    assert_eq!(world.post("jobs default?dryRun=All", picked.clone()).await.line(), "201");
    picked["spec"]["selector"] = json!({"matchLabels": {"job-name": "b"}});
    assert_eq!(world.post("jobs default", picked).await.code, 422);
}

#[tokio::test]
async fn a_job_selects_its_pods_by_its_uid_unless_it_has_a_manual_selector() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "jobs").unwrap();
    let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
    let uid = &made["metadata"]["uid"];
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a", "controller-uid": uid,
        "job-name": "a",
    });
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], labels);
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    assert_eq!(made["spec"]["selector"], selector);

    let mut own = kind.with_metadata(json!({"name": "b"}));
    own["spec"]["manualSelector"] = true.into();
    own["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
    own["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}});
    let made = world.post(&kind.collection(), own).await.ok();
    assert_eq!(made["spec"]["selector"], json!({"matchLabels": {"app": "x"}}));
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], json!({"app": "x"}));
}

/// A job without labels is read with those of its pods, so what is read can be written back unchanged.
#[tokio::test]
async fn a_job_without_labels_has_those_of_its_pods() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "jobs").unwrap();
    let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
    assert_eq!(made["metadata"]["labels"], made["spec"]["template"]["metadata"]["labels"]);
    let own = kind.with_metadata(json!({"name": "b", "labels": {"l": "1"}}));
    let made = world.post(&kind.collection(), own).await.ok();
    assert_eq!(made["metadata"]["labels"], json!({"l": "1"}));
    let mut generated = kind.with_metadata(json!({"generateName": "j-"}));
    generated["metadata"].as_object_mut().unwrap().remove("name");
    let made = world.post(&kind.collection(), generated).await.ok();
    assert_eq!(made["metadata"]["labels"]["job-name"], made["metadata"]["name"]);
}
