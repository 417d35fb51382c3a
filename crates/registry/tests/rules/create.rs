//! Create: the decoding of a body, the order of its errors, and their texts.

use super::world::{World, map, pod, text};
use keepwatch_registry::{
    Error,
    codec::{self, Body, Expected, Media},
    options::FieldValidation,
};
use serde_json::{Value, json};

#[tokio::test]
async fn the_namespace_and_kind_of_the_path_are_filled_in() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!([&made["kind"], &made["apiVersion"]], ["ConfigMap", "v1"]);
}

/// As the real server has it: only another number than zero is a version.
#[tokio::test]
async fn a_version_of_zero_and_one_that_is_none_are_left_out_of_a_new_object() {
    let world = World::new().await;
    for (name, version) in [("zero", "0"), ("word", "abc")] {
        let sent = json!({"metadata": {"name": name, "resourceVersion": version}});
        let made = world.post("configmaps default", sent).await;
        assert_eq!(made.line(), "201");
        assert_ne!(made.body["metadata"]["resourceVersion"], version);
    }
}

#[tokio::test]
async fn another_namespace_than_the_paths_is_refused() {
    let world = World::new().await;
    let sent = json!({"metadata": {"name": "a", "namespace": "kube-system"}});
    let why = "400 BadRequest: the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(world.post("configmaps default", sent).await.line(), why);
}

/// A kind outside namespaces loses the namespace that a client gives it: upstream clears it, and `kubectl create` of
/// a manifest with a stray namespace works.
#[tokio::test]
async fn the_namespace_of_an_object_outside_namespaces_is_dropped() {
    let world = World::new().await;
    let sent = json!({"metadata": {"name": "n", "namespace": "default"}});
    let made = world.post("nodes", sent.clone()).await;
    assert_eq!(made.line(), "201");
    assert!(made.body["metadata"].get("namespace").is_none());
    let replaced = world.put("nodes n", sent).await.ok();
    assert_eq!(world.merge("nodes n", json!({"metadata": {"namespace": "x"}})).await.ok(), replaced);
}

#[tokio::test]
async fn a_refused_change_is_not_stored_and_its_causes_are_listed() {
    let world = World::new().await;
    let before = world.everything().await;
    let why = |version: &str, kind: &str| {
        format!("400 BadRequest: {kind} in version \"{version}\" cannot be handled as a ConfigMap: ")
    };
    for (sent, start) in [
        (json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}), why("v1", "Secret")),
        (json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "a"}}), why("v2", "ConfigMap")),
        (json!({"kind": "Deployment", "apiVersion": "apps/v1"}), why("v1", "Deployment")),
        (json!({"metadata": {"name": "a"}, "data": {"k": 1}}), why("v1", "ConfigMap")),
        (json!({"metadata": {"name": "a"}, "data": []}), why("v1", "ConfigMap")),
        (json!({"metadata": {"name": 5}}), why("v1", "ConfigMap")),
        (
            json!([]),
            "400 BadRequest: the object provided is unrecognized (must be of type ConfigMap): ".to_owned(),
        ),
        (
            json!("a"),
            "400 BadRequest: the object provided is unrecognized (must be of type ConfigMap): ".to_owned(),
        ),
    ] {
        let line = world.post("configmaps default", sent.clone()).await.line();
        assert!(line.starts_with(&start), "{sent}: {line}");
    }
    assert_eq!(world.everything().await, before);
}

#[test]
fn text_that_is_no_document_is_refused() {
    let expected = Expected::of(super::world::resource("configmaps"));
    for (bytes, media) in [
        (&b"{"[..], Media::Json),
        (b"", Media::Json),
        (b"{\"metadata\":", Media::Json),
        (b"\xff\xfe", Media::Json),
        (b"a: [", Media::Yaml),
        (b"- a", Media::Yaml),
        (b"\xff", Media::Yaml),
        (b"k8s\0\xff", Media::Protobuf),
        (b"", Media::Protobuf),
        (b"k8s", Media::Protobuf),
    ] {
        let refused = codec::decode(&Body { bytes, media }, expected, FieldValidation::Warn).unwrap_err();
        let shown = String::from_utf8_lossy(bytes);
        let Error::BadRequest(message) = refused else { panic!("{shown}: {refused}") };
        let start = "the object provided is unrecognized (must be of type ConfigMap): ";
        assert!(message.starts_with(start), "{shown}: {message}");
    }
}

#[test]
fn the_same_document_is_read_from_each_form() {
    let expected = Expected::of(super::world::resource("configmaps"));
    let json = br#"{"metadata":{"name":"cc","creationTimestamp":null},"data":{"a":"b"}}"#;
    let yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cc\ndata:\n  a: b\n";
    let proto = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x1c\x0a\x12\x0a\x02cc\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00\x12\x06\x0a\x01a\x12\x01b\x1a\x00\x22\x00";
    let read = |bytes: &[u8], media| {
        let read = codec::decode(&Body { bytes, media }, expected, FieldValidation::Strict);
        read.unwrap().document
    };
    let document = read(json, Media::Json);
    assert_eq!(read(yaml, Media::Yaml), document);
    assert_eq!(read(proto, Media::Protobuf), document);
    assert_eq!([&document["kind"], &document["apiVersion"]], ["ConfigMap", "v1"]);
}

fn odd() -> Value {
    let mut odd = pod("p");
    odd["spec"]["foo"] = 1.into();
    odd["spec"]["containers"][0]["bar"] = 2.into();
    odd
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning_refused_or_dropped_silently() {
    let world = World::new().await;
    let problems = [r#"unknown field "spec.containers[0].bar""#, r#"unknown field "spec.foo""#];
    let refused = world.post("pods default?fieldValidation=Strict", odd()).await;
    let start = r#"400 BadRequest: Pod in version "v1" cannot be handled as a Pod: strict decoding error: "#;
    assert!(refused.line().starts_with(start), "{}", refused.line());
    assert!(problems.iter().all(|one| refused.line().contains(one)), "{}", refused.line());
    for (query, warns) in [("", true), ("?fieldValidation=Warn", true), ("?fieldValidation=Ignore", false)] {
        let made = world.post(&format!("pods default{query}"), odd()).await;
        assert_eq!(made.line(), "201", "{query}");
        let mut warnings = made.warnings.clone();
        warnings.sort();
        assert_eq!(warnings, if warns { problems.to_vec() } else { Vec::new() }, "{query}");
        assert!(made.body["spec"].get("foo").is_none());
        world.delete("pods default/p").await.ok();
    }
    let made = world.post("pods default", pod("q")).await.ok();
    let mut sent = made.clone();
    sent["spec"]["foo"] = 1.into();
    let replaced = world.put("pods default/q", sent).await;
    assert_eq!(replaced.warnings, [r#"unknown field "spec.foo""#]);
    assert_eq!(replaced.ok(), made);
}

#[tokio::test]
async fn options_without_a_meaning_are_refused_in_the_name_of_the_request() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let of = |kind: &str, why: &str| format!("422 Invalid: {kind}.meta.k8s.io \"\" is invalid: {why}");
    let dry = r#"dryRun: Unsupported value: ["Foo"]: supported values: "All""#;
    let strict =
        r#"fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn""#;
    for (query, why) in [("dryRun=Foo", dry), ("fieldValidation=Foo", strict)] {
        let at = format!("configmaps default/a?{query}");
        let posted = world.post(&format!("configmaps default?{query}"), map("b")).await;
        assert_eq!(posted.line(), of("CreateOptions", why));
        assert_eq!(world.put(&at, map("a")).await.line(), of("UpdateOptions", why));
        assert_eq!(world.merge(&at, json!({})).await.line(), of("PatchOptions", why));
    }
    assert_eq!(world.delete("configmaps default/a?dryRun=Foo").await.line(), of("DeleteOptions", dry));
    let forced = world.merge("configmaps default/a?force=true", json!({})).await;
    let why = "force: Forbidden: may not be specified for non-apply patch";
    assert_eq!(forced.line(), of("PatchOptions", why));
    let long = format!("configmaps default/a?fieldManager={}", "x".repeat(129));
    assert_eq!(world.put(&long, map("a")).await.causes(), ["FieldValueTooLong fieldManager"]);
    let odd = world.put("configmaps default/a?fieldManager=a\u{7}b", map("a")).await;
    assert_eq!(odd.causes(), ["FieldValueInvalid fieldManager"]);
}

#[tokio::test]
async fn the_error_for_an_existing_object_contains_whether_it_is_being_deleted() {
    let world = World::new().await;
    let mut sent = map("a");
    sent["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("configmaps default", sent.clone()).await.ok();
    let refused = world.post("configmaps default", sent.clone()).await;
    assert_eq!(refused.line(), "409 AlreadyExists: configmaps \"a\" already exists");
    world.delete("configmaps default/a").await.ok();
    for query in ["", "?dryRun=All"] {
        let refused = world.post(&format!("configmaps default{query}"), sent.clone()).await;
        let why = "409 AlreadyExists: object is being deleted: configmaps \"a\" already exists";
        assert_eq!(refused.line(), why, "{query}");
    }
}

#[tokio::test]
async fn a_deleted_name_can_be_used_again_by_another_object() {
    let world = World::new().await;
    let first = world.post("configmaps default", map("a")).await.ok();
    world.delete("configmaps default/a").await.ok();
    let second = world.post("configmaps default", map("a")).await.ok();
    assert_ne!(text(&first, "/metadata/uid"), text(&second, "/metadata/uid"));
}

#[tokio::test]
async fn kinds_that_are_not_stored_cannot_be_created_read_or_deleted() {
    let world = World::new().await;
    for name in ["componentstatuses x", "bindings default/x", "tokenreviews x"] {
        for answer in [world.get(name).await, world.delete(name).await] {
            assert_eq!(answer.code, 405, "{name}: {}", answer.line());
        }
    }
}

#[tokio::test]
async fn a_pod_gets_its_priority_from_its_class() {
    let world = World::new().await;
    let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    world.post("priorityclasses", class).await.ok();
    let mut sent = pod("a");
    sent["spec"]["priorityClassName"] = "high".into();
    let made = world.post("pods default", sent.clone()).await.ok();
    assert_eq!(made["spec"]["priority"], 7);
    assert_eq!(made["spec"]["preemptionPolicy"], "Never");
    sent["spec"]["priorityClassName"] = "nope".into();
    let refused = world.post("pods default", sent).await;
    let why = "403 Forbidden: pods \"a\" is forbidden: no PriorityClass with name nope was found";
    assert_eq!(refused.line(), why);
    let made = world.post("pods default", pod("b")).await.ok();
    assert_eq!(made["spec"]["priority"], 0);
    let mut given = pod("c");
    given["spec"]["priority"] = 9.into();
    assert_eq!(world.post("pods default", given).await.code, 403);
}

#[tokio::test]
async fn the_priority_of_a_pod_must_be_that_of_its_class() {
    let world = World::new().await;
    for (name, value, policy, default) in
        [("never", 7, "Never", false), ("low", 3, "PreemptLowerPriority", true)]
    {
        let class = json!({
            "metadata": {"name": name}, "value": value, "preemptionPolicy": policy, "globalDefault": default,
        });
        world.post("priorityclasses", class).await.ok();
    }
    let by_class = "from the given PriorityClass name";
    let priority = |given: i64, computed: i64| {
        format!(
            "403 Forbidden: pods \"p\" is forbidden: the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} {by_class}"
        )
    };
    let policy = |given: &str, computed: &str| {
        format!(
            "403 Forbidden: pods \"p\" is forbidden: the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {computed} {by_class}"
        )
    };
    let (never, lower) = ("Never", "PreemptLowerPriority");
    for (given, expected) in [
        (json!({"priorityClassName": "never", "preemptionPolicy": lower}), policy(lower, never)),
        (json!({"preemptionPolicy": never}), policy(never, lower)),
        (json!({"priorityClassName": "never", "priority": 8}), priority(8, 7)),
        (json!({"priority": 7}), priority(7, 3)),
        (json!({"priorityClassName": "never", "preemptionPolicy": never, "priority": 7}), "201".to_owned()),
    ] {
        let mut sent = pod("p");
        sent["spec"].as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        assert_eq!(world.post("pods default", sent).await.line(), expected);
    }
}

#[tokio::test]
async fn a_claim_gets_the_newest_default_class_and_an_ingress_its_own() {
    let world = World::new().await;
    let claim = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    let made = world.post("persistentvolumeclaims default", claim("a")).await.ok();
    assert!(made["spec"].get("storageClassName").is_none());
    let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "fast", "annotations": default}, "provisioner": "d.example"});
    world.post("storageclasses", class).await.ok();
    let made = world.post("persistentvolumeclaims default", claim("b")).await.ok();
    assert_eq!(made["spec"]["storageClassName"], "fast");
    let mut none = claim("c");
    none["spec"]["storageClassName"] = "".into();
    let made = world.post("persistentvolumeclaims default", none).await.ok();
    assert_eq!(made["spec"]["storageClassName"], "", "none is a choice too");

    let default = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class =
        json!({"metadata": {"name": "web", "annotations": default}, "spec": {"controller": "x.example/c"}});
    world.post("ingressclasses", class).await.ok();
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let made = world.post("ingresses default", ingress).await.ok();
    assert_eq!(made["spec"]["ingressClassName"], "web");
}

#[tokio::test]
async fn a_node_is_tainted_until_it_is_ready_and_a_pod_tolerates_that_for_a_while() {
    let world = World::new().await;
    let made = world.post("nodes", map("n")).await.ok();
    assert_eq!(
        made["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    let made = world.post("pods default", pod("p")).await.ok();
    let tolerated = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let both =
        json!([tolerated("node.kubernetes.io/not-ready"), tolerated("node.kubernetes.io/unreachable")]);
    assert_eq!(made["spec"]["tolerations"], both);
}

/// Go's decoder names the innermost type, and of the way there the fields alone.
#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_in_the_words_of_go() {
    let world = World::new().await;
    let container =
        |field: &str, value: Value| json!({"spec": {"containers": [{"name": "c", field: value}]}});
    for (place, sent, what) in [
        (
            "pods",
            container("env", json!([{"name": "A", "value": 1}])),
            "number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            "pods",
            container("args", json!([true])),
            "bool into Go struct field Container.spec.containers.args of type string",
        ),
        (
            "pods",
            json!({"spec": {"containers": "x"}}),
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ("pods", json!({"spec": []}), "array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            "configmaps",
            json!({"data": {"a.b[0]": 1}}),
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            "configmaps",
            json!({"data": [1]}),
            "array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "replicationcontrollers",
            json!({"spec": {"replicas": "3"}}),
            "string into Go struct field ReplicationControllerSpec.spec.replicas of type int32",
        ),
    ] {
        let refused = world.post(&format!("{place} default"), sent).await;
        let text = refused.line();
        assert!(text.ends_with(&format!("json: cannot unmarshal {what}")), "{text}");
    }
}

#[tokio::test]
async fn a_quota_has_only_scopes_that_go_with_what_it_counts() {
    let world = World::new().await;
    for (scope, counted, errors) in [
        ("BestEffort", json!({"pods": "1", "cpu": "1", "memory": "1Gi"}), 2),
        ("NotBestEffort", json!({"pods": "1", "cpu": "1"}), 0),
        ("Terminating", json!({"secrets": "1"}), 1),
    ] {
        let spec = json!({"hard": counted, "scopes": [scope]});
        let sent = json!({"metadata": {"generateName": "q-"}, "spec": spec});
        let answer = world.post("resourcequotas default", sent).await;
        assert_eq!(answer.causes(), vec!["FieldValueInvalid spec.scopes"; errors], "{scope}");
    }
}
