//! Every kind as a row: documents and the cells that they give, five minutes after they were created.

use super::*;
use crate::{
    kinds,
    schema::{self, Problems},
};
use serde_json::json;

const CREATED: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T00:05:00Z";

/// The row of a document that has all that its type always has, and no field that it has not.
fn row_of(ty: &str, mut document: Value) -> Cells {
    if ty != "meta.v1.Status" {
        document["metadata"]["name"] = "x".into();
        document["metadata"]["creationTimestamp"] = CREATED.into();
    }
    let mut problems = Problems::default();
    let type_ref = schema::lookup(ty).unwrap();
    let document = schema::normalize(document, type_ref, &mut problems).unwrap();
    assert_eq!(problems, Problems::default(), "{ty}");
    cells(ty, &document, NOW.parse().unwrap())
}

fn check(ty: &str, document: Value, expected: Value) {
    let row = row_of(ty, document);
    assert_eq!(Value::Array(row.cells), expected, "{ty}");
    assert_eq!(expected.as_array().unwrap().len(), columns(ty).len(), "{ty}");
}

/// Ready, status and restarts of a pod.
fn check_pod(pod: Value, expected: [&str; 3]) {
    let told = format!("{pod}");
    let row = row_of("core.v1.Pod", pod);
    assert_eq!(row.cells[1..4], expected.map(Value::from), "{told}");
}

/// A column in short: wide with a plus, integers with #, booleans with ?.
fn in_short(column: &Column) -> String {
    let wide = if column.priority == 1 { "+" } else { "" };
    let kind = match column.kind {
        "integer" => "#",
        "boolean" => "?",
        "date" => "@",
        _ => "",
    };
    format!("{wide}{}{kind}", column.name)
}

#[test]
fn every_kind_has_its_columns() {
    const REPLICATED: &str = "Name, Desired#, Current#, Ready#, Age, +Containers, +Images, +Selector";
    const EVENT: &str =
        "Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count, +Name";
    const BINDING: &str = "Name, Role, Age, +Users, +Groups, +ServiceAccounts";
    const SCALER: &str = "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age";
    const DEFAULT: &str = "Name, Created At@";
    let kinds = [
        ("core.v1.Binding", DEFAULT),
        ("core.v1.ComponentStatus", "Name, Status, Message, Error"),
        ("core.v1.ConfigMap", "Name, Data, Age"),
        ("core.v1.Endpoints", "Name, Endpoints, Age"),
        ("core.v1.Event", EVENT),
        ("core.v1.LimitRange", DEFAULT),
        ("core.v1.Namespace", "Name, Status, Age"),
        (
            "core.v1.Node",
            "Name, Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, \
             +Container-Runtime",
        ),
        (
            "core.v1.PersistentVolumeClaim",
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, +VolumeMode",
        ),
        (
            "core.v1.PersistentVolume",
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, \
             Reason, Age, +VolumeMode",
        ),
        ("core.v1.Pod", "Name, Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates"),
        ("core.v1.PodTemplate", "Name, Containers, Images, Pod Labels"),
        ("core.v1.ReplicationController", REPLICATED),
        ("core.v1.ResourceQuota", "Name, Request, Limit, Age"),
        ("core.v1.Secret", "Name, Type, Data, Age"),
        ("core.v1.ServiceAccount", "Name, Age"),
        ("core.v1.Service", "Name, Type, Cluster-IP, External-IP, Port(s), Age, +Selector"),
        ("apiregistration.v1.APIService", "Name, Service, Available, Age"),
        ("apps.v1.ControllerRevision", "Name, Controller, Revision, Age"),
        (
            "apps.v1.DaemonSet",
            "Name, Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector, Age, +Containers, +Images, \
             +Selector",
        ),
        ("apps.v1.Deployment", "Name, Ready, Up-to-date, Available, Age, +Containers, +Images, +Selector"),
        ("apps.v1.ReplicaSet", REPLICATED),
        ("apps.v1.StatefulSet", "Name, Ready, Age, +Containers, +Images"),
        ("events.v1.Event", EVENT),
        ("authentication.v1.SelfSubjectReview", DEFAULT),
        ("authentication.v1.TokenReview", DEFAULT),
        ("authorization.v1.LocalSubjectAccessReview", DEFAULT),
        ("authorization.v1.SelfSubjectAccessReview", DEFAULT),
        ("authorization.v1.SelfSubjectRulesReview", DEFAULT),
        ("authorization.v1.SubjectAccessReview", DEFAULT),
        ("autoscaling.v2.HorizontalPodAutoscaler", SCALER),
        ("autoscaling.v1.HorizontalPodAutoscaler", SCALER),
        (
            "batch.v1.CronJob",
            "Name, Schedule, Timezone, Suspend?, Active#, Last Schedule, Age, +Containers, +Images, +Selector",
        ),
        ("batch.v1.Job", "Name, Status, Completions, Duration, Age, +Containers, +Images, +Selector"),
        (
            "certificates.v1.CertificateSigningRequest",
            "Name, Age, SignerName, Requestor, RequestedDuration, Condition",
        ),
        ("networking.v1.IngressClass", "Name, Controller, Parameters, Age"),
        ("networking.v1.Ingress", "Name, Class, Hosts, Address, Ports, Age"),
        ("networking.v1.IPAddress", "Name, ParentRef"),
        ("networking.v1.NetworkPolicy", "Name, Pod-Selector, Age"),
        ("networking.v1.ServiceCIDR", "Name, CIDRs, Age"),
        ("policy.v1.PodDisruptionBudget", "Name, Min Available, Max Unavailable, Allowed Disruptions#, Age"),
        ("rbac.v1.ClusterRoleBinding", BINDING),
        ("rbac.v1.ClusterRole", DEFAULT),
        ("rbac.v1.RoleBinding", BINDING),
        ("rbac.v1.Role", DEFAULT),
        (
            "storage.v1.CSIDriver",
            "Name, AttachRequired?, PodInfoOnMount?, StorageCapacity?, TokenRequests, RequiresRepublish?, Modes, Age",
        ),
        ("storage.v1.CSINode", "Name, Drivers#, Age"),
        ("storage.v1.CSIStorageCapacity", DEFAULT),
        (
            "storage.v1.StorageClass",
            "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        ),
        ("storage.v1.VolumeAttachment", "Name, Attacher, PV, Node, Attached?, Age"),
        ("storage.v1.VolumeAttributesClass", "Name, DriverName, Age"),
        ("admissionregistration.v1.MutatingAdmissionPolicy", "Name, Mutations#, ParamKind, Age"),
        ("admissionregistration.v1.MutatingAdmissionPolicyBinding", "Name, PolicyName, ParamRef, Age"),
        ("admissionregistration.v1.MutatingWebhookConfiguration", "Name, Webhooks#, Age"),
        ("admissionregistration.v1.ValidatingAdmissionPolicy", "Name, Validations#, ParamKind, Age"),
        ("admissionregistration.v1.ValidatingAdmissionPolicyBinding", "Name, PolicyName, ParamRef, Age"),
        ("admissionregistration.v1.ValidatingWebhookConfiguration", "Name, Webhooks#, Age"),
        ("apiextensions.v1.CustomResourceDefinition", DEFAULT),
        ("scheduling.v1.PriorityClass", "Name, Value#, Global-Default?, Age, PreemptionPolicy"),
        ("coordination.v1.Lease", "Name, Holder, Age"),
        ("node.v1.RuntimeClass", "Name, Handler, Age"),
        ("discovery.v1.EndpointSlice", "Name, AddressType, Ports, Endpoints, Age"),
        ("resource.v1.DeviceClass", "Name, Age"),
        ("resource.v1.ResourceClaim", "Name, State, Age"),
        ("resource.v1.ResourceClaimTemplate", "Name, Age"),
        ("resource.v1.ResourceSlice", "Name, Node, Driver, Pool, Age"),
        (
            "flowcontrol.v1.FlowSchema",
            "Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL",
        ),
        (
            "flowcontrol.v1.PriorityLevelConfiguration",
            "Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age",
        ),
        ("meta.v1.Status", "Status, Reason, Message"),
    ];
    for resource in kinds::RESOURCES {
        assert!(kinds.iter().any(|(ty, _)| *ty == resource.ty), "{} is not told of here", resource.ty);
    }
    for (ty, expected) in kinds {
        let told: Vec<String> = columns(ty).iter().map(in_short).collect();
        assert_eq!(told.join(", "), expected, "{ty}");
    }
}

#[test]
fn columns_are_described_and_names_are_marked() {
    for form in FORMS.values().copied().chain([&DEFAULT]) {
        assert!(form.ty.is_empty() || schema::lookup(form.ty).is_some(), "{}", form.ty);
        for column in form.columns {
            assert!(!column.description.is_empty() && !column.name.is_empty(), "{}", form.ty);
            assert!(column.name != "Name" || column.format == "name", "{}", form.ty);
        }
    }
}

#[test]
fn documents_of_any_shape_give_a_row() {
    let types = kinds::RESOURCES.iter().map(|resource| resource.ty).chain(FORMS.keys().copied());
    for ty in types {
        let nothing = schema::zero(schema::lookup(ty).unwrap());
        let odd = json!({"metadata": [], "spec": {"containers": {}, "ports": [1, null], "rules": [[]], "selector": 1,
            "metrics": [1, {"type": "Resource"}, {"type": "Pods"}], "readinessGates": [null], "claimRef": 5},
            "status": {"containerStatuses": [null, {"state": 1}], "conditions": "no", "initContainerStatuses": [7],
            "hard": [], "loadBalancer": {"ingress": [false]}, "succeeded": 1e300}, "subsets": [{"addresses": [3]}],
            "subjects": [2], "endpoints": [{"addresses": [1]}], "ports": [{"port": []}], "webhooks": 1});
        for document in [nothing, odd, json!(null), json!([1]), json!("text")] {
            let row = cells(ty, &document, NOW.parse().unwrap());
            assert_eq!(row.cells.len(), columns(ty).len(), "{ty}");
        }
    }
}

#[test]
fn a_kind_without_a_form_shows_when_it_was_created() {
    for ty in ["core.v1.LimitRange", "rbac.v1.Role", "apiextensions.v1.CustomResourceDefinition"] {
        check(ty, json!({}), json!(["x", CREATED]));
    }
    let never = cells("example.com.v1.Widget", &json!({"metadata": {"name": "w"}}), NOW.parse().unwrap());
    assert_eq!(never.cells, [json!("w"), json!("0001-01-01T00:00:00Z")]);
}

#[test]
fn pods_say_where_they_are() {
    let containers = json!([{"name": "c", "image": "registry.example/app:1"}]);
    check(
        "core.v1.Pod",
        json!({"spec": {"containers": containers}, "status": {"phase": "Pending"}}),
        json!(["x", "0/1", "Pending", "0", "5m", "<none>", "<none>", "<none>", "<none>"]),
    );
    let conditions = json!([{"type": "a/b", "status": "True"}, {"type": "c/d", "status": "False"}]);
    check(
        "core.v1.Pod",
        json!({
            "spec": {"containers": containers, "nodeName": "n", "readinessGates":
                [{"conditionType": "a/b"}, {"conditionType": "c/d"}, {"conditionType": "e/f"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "nominatedNodeName": "m", "conditions": conditions, "containerStatuses":
                [{"name": "c", "ready": true, "state": {"running": {}}}]},
        }),
        json!(["x", "1/1", "Running", "0", "5m", "10.0.0.1", "n", "m", "1/3"]),
    );
}

#[test]
fn the_state_of_the_containers_is_the_status_of_the_pod() {
    let pod =
        |status: &Value| json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": status});
    let two = |phase: &str, a: Value, b: Value| {
        let status = |name: &str, mut status: Value| {
            status["name"] = name.into();
            status
        };
        pod(&json!({"phase": phase, "containerStatuses": [status("a", a), status("b", b)]}))
    };
    let runs = json!({"ready": true, "state": {"running": {"startedAt": CREATED}}});
    let waits = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let ended = |ending: Value| json!({"state": {"terminated": ending}});

    check_pod(two("Running", runs.clone(), runs.clone()), ["2/2", "Running", "0"]);
    check_pod(two("Running", runs.clone(), waits("CrashLoopBackOff")), ["1/2", "CrashLoopBackOff", "0"]);
    check_pod(two("Running", waits("ErrImagePull"), waits("CrashLoopBackOff")), ["0/2", "ErrImagePull", "0"]);
    check_pod(
        two("Pending", waits("ContainerCreating"), json!({"state": {"waiting": {}}})),
        ["0/2", "ContainerCreating", "0"],
    );
    let completed = ended(json!({"exitCode": 0, "reason": "Completed"}));
    check_pod(two("Succeeded", completed.clone(), completed.clone()), ["0/2", "Completed", "0"]);
    check_pod(
        two("Failed", ended(json!({"exitCode": 137, "reason": "OOMKilled"})), completed.clone()),
        ["0/2", "OOMKilled", "0"],
    );
    check_pod(two("Failed", ended(json!({"exitCode": 3})), runs.clone()), ["1/2", "ExitCode:3", "0"]);
    check_pod(
        two("Failed", ended(json!({"exitCode": 3, "signal": 9})), runs.clone()),
        ["1/2", "Signal:9", "0"],
    );

    let mut partly = two("Running", completed, runs);
    check_pod(partly.clone(), ["1/2", "NotReady", "0"]);
    partly["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    check_pod(partly, ["1/2", "Running", "0"]);

    check_pod(pod(&json!({"phase": "Failed", "reason": "Evicted"})), ["0/2", "Evicted", "0"]);
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    check_pod(pod(&json!({"phase": "Pending", "conditions": gated})), ["0/2", "SchedulingGated", "0"]);
}

#[test]
fn init_containers_are_told_until_they_are_done() {
    let pod = |conditions: Value, init: Value| {
        json!({
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "conditions": conditions, "initContainerStatuses": init,
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]},
        })
    };
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let second = |state: Value| json!([done, {"name": "j", "state": state, "restartCount": 2}]);
    let check_init = |init: Value, word: &str, restarts: &str| {
        check_pod(pod(json!([]), init), ["0/1", word, restarts]);
    };
    check_init(json!([{"name": "i", "state": {"running": {}}}]), "Init:0/2", "0");
    check_init(json!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]), "Init:0/2", "0");
    check_init(second(json!({"running": {}})), "Init:1/2", "2");
    check_init(second(json!({"waiting": {"reason": "CrashLoopBackOff"}})), "Init:CrashLoopBackOff", "2");
    check_init(second(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), "Init:Error", "2");
    check_init(second(json!({"terminated": {"exitCode": 4}})), "Init:ExitCode:4", "2");
    check_init(second(json!({"terminated": {"exitCode": 4, "signal": 15}})), "Init:Signal:15", "2");
    check_init(second(json!({"terminated": {"exitCode": 0}})), "PodInitializing", "0");
    let initialized = json!([{"type": "Initialized", "status": "True"}]);
    check_pod(pod(initialized, second(json!({"running": {}}))), ["0/1", "PodInitializing", "0"]);
}

#[test]
fn init_containers_that_stay_count_like_the_others() {
    let pod = |sidecar: Value, container: Value| {
        json!({
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [container]},
        })
    };
    let runs = json!({"name": "c", "ready": true, "restartCount": 1, "state": {"running": {}}});
    let sidecar = |started: bool, ready: bool| json!({"name": "s", "started": started, "ready": ready, "restartCount": 3, "state": {"running": {}}});
    check_pod(pod(sidecar(true, true), runs.clone()), ["2/2", "Running", "4"]);
    check_pod(pod(sidecar(true, false), runs.clone()), ["1/2", "Running", "4"]);
    check_pod(pod(sidecar(false, false), runs), ["0/2", "Init:0/1", "3"]);
}

#[test]
fn restarts_tell_how_long_ago_the_last_was() {
    let restarted = |count: i32, at: &str| {
        json!({"name": "c", "ready": true, "restartCount": count, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": at}}})
    };
    let pod = |statuses: Value| json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running", "containerStatuses": statuses}});
    let one = pod(json!([restarted(2, "2026-01-01T00:04:00Z")]));
    check_pod(one, ["1/1", "Running", "2 (60s ago)"]);
    let two = pod(json!([restarted(2, "2026-01-01T00:04:00Z"), restarted(1, "2026-01-01T00:02:30Z")]));
    check_pod(two, ["2/1", "Running", "3 (60s ago)"]);
    check_pod(pod(json!([restarted(0, "2026-01-01T00:04:00Z")])), ["1/1", "Running", "0"]);
}

#[test]
fn a_pod_that_is_being_deleted_is_terminating_unless_it_has_ended() {
    let pod = |phase: &str, reason: &str| {
        json!({"metadata": {"deletionTimestamp": NOW}, "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": phase, "reason": reason}})
    };
    check_pod(pod("Running", ""), ["0/1", "Terminating", "0"]);
    check_pod(pod("Running", "NodeLost"), ["0/1", "Unknown", "0"]);
    check_pod(pod("Succeeded", ""), ["0/1", "Succeeded", "0"]);
    check_pod(pod("Failed", "Evicted"), ["0/1", "Evicted", "0"]);
}

#[test]
fn only_pods_that_have_ended_have_a_condition() {
    let conditions = |ty: &str, phase: &str| row_of(ty, json!({"status": {"phase": phase}})).conditions;
    let condition = |reason: &str, message: &str| {
        Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
    };
    let succeeded = condition("Succeeded", "The pod has completed successfully.");
    assert_eq!(conditions("core.v1.Pod", "Succeeded"), succeeded);
    assert_eq!(conditions("core.v1.Pod", "Failed"), condition("Failed", "The pod failed."));
    assert_eq!(conditions("core.v1.Pod", "Running"), None);
    assert_eq!(conditions("core.v1.Namespace", "Failed"), None);
}

#[test]
fn workloads_tell_how_many_pods_they_have() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "one:1"}, {"name": "b", "image": "two"}]}});
    let selector = json!({"matchLabels": {"app": "d"}});
    let spec = json!({"replicas": 3, "selector": selector, "template": template});
    let status = json!({"replicas": 2, "readyReplicas": 1});
    check(
        "core.v1.PodTemplate",
        json!({"template": {"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": template["spec"]}}),
        json!(["x", "a,b", "one:1,two", "a=1,b=2"]),
    );
    check(
        "core.v1.ReplicationController",
        json!({"spec": {"replicas": 3, "selector": {"app": "d"}, "template": template}, "status": status}),
        json!(["x", 3, 2, 1, "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "core.v1.ReplicationController",
        json!({"spec": {}}),
        json!(["x", 0, 0, 0, "5m", "", "", "<none>"]),
    );
    check(
        "apps.v1.ReplicaSet",
        json!({"spec": spec, "status": status}),
        json!(["x", 3, 2, 1, "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "apps.v1.Deployment",
        json!({"spec": spec, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}),
        json!(["x", "1/3", 2, 1, "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "apps.v1.Deployment",
        json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": {"spec":
            {"containers": [{"name": "c", "image": "registry.example/app:1"}]}}}}),
        json!(["x", "0/2", 0, 0, "5m", "c", "registry.example/app:1", "app=d"]),
    );
    check(
        "apps.v1.StatefulSet",
        json!({"spec": spec, "status": status}),
        json!(["x", "1/3", "5m", "a,b", "one:1,two"]),
    );
    let mut on_disks = template.clone();
    on_disks["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    check(
        "apps.v1.DaemonSet",
        json!({"spec": {"selector": selector, "template": on_disks}, "status": {"desiredNumberScheduled": 5,
            "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
        json!(["x", 5, 4, 3, 2, 1, "disk=ssd", "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "apps.v1.ControllerRevision",
        json!({"revision": 7, "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]}}),
        json!(["x", "statefulset.apps/web", 7, "5m"]),
    );
    check("apps.v1.ControllerRevision", json!({"revision": 1}), json!(["x", "<none>", 1, "5m"]));
    check(
        "policy.v1.PodDisruptionBudget",
        json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
        json!(["x", "50%", "N/A", 2, "5m"]),
    );
    check(
        "policy.v1.PodDisruptionBudget",
        json!({"spec": {"maxUnavailable": 1}}),
        json!(["x", "N/A", "1", 0, "5m"]),
    );
}

#[test]
fn jobs_tell_how_far_they_are() {
    let job =
        |spec: Value, status: Value| row_of("batch.v1.Job", json!({"spec": spec, "status": status})).cells;
    let row = |spec, status| job(spec, status)[1..4].to_vec();
    let is = |ty: &str| json!({"conditions": [{"type": ty, "status": "True"}]});
    check(
        "batch.v1.Job",
        json!({"spec": {"completions": 3, "selector": {"matchLabels": {"j": "1"}}, "template":
            {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
            "status": {"succeeded": 1, "startTime": "2026-01-01T00:01:00Z"}}),
        json!(["x", "Running", "1/3", "4m", "5m", "c", "i", "j=1"]),
    );
    assert_eq!(row(json!({"parallelism": 2}), json!({})), [json!("Running"), json!("0/1 of 2"), json!("")]);
    assert_eq!(row(json!({"parallelism": 1}), json!({}))[1], "0/1");
    let mut ended = is("Complete");
    ended["startTime"] = "2026-01-01T00:01:00Z".into();
    ended["completionTime"] = "2026-01-01T00:02:30Z".into();
    assert_eq!(row(json!({}), ended), [json!("Complete"), json!("0/1"), json!("90s")]);
    for word in ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        assert_eq!(row(json!({}), is(word))[0], word);
    }
    let unsettled = json!({"conditions": [{"type": "Failed", "status": "False"}]});
    assert_eq!(row(json!({}), unsettled)[0], "Running");
    let deleted =
        |ty| row_of("batch.v1.Job", json!({"metadata": {"deletionTimestamp": NOW}, "status": is(ty)}));
    assert_eq!(deleted("Suspended").cells[1], "Terminating");
    assert_eq!(deleted("Failed").cells[1], "Failed");

    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    check(
        "batch.v1.CronJob",
        json!({"spec": {"schedule": "0 * * * *", "timeZone": "Etc/UTC", "suspend": true, "jobTemplate": template},
            "status": {"active": [{"name": "j"}], "lastScheduleTime": "2026-01-01T00:03:00Z"}}),
        json!(["x", "0 * * * *", "Etc/UTC", "True", 1, "2m", "5m", "c", "i", "<none>"]),
    );
    check(
        "batch.v1.CronJob",
        json!({"spec": {"schedule": "@daily", "suspend": false, "jobTemplate": template}}),
        json!(["x", "@daily", "<none>", "False", 0, "<none>", "5m", "c", "i", "<none>"]),
    );
}

#[test]
fn autoscalers_tell_what_they_measure() {
    let check_v2 = |metrics: Value, current: Value, targets: &str| {
        check(
            "autoscaling.v2.HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2,
                "maxReplicas": 5, "metrics": metrics}, "status": {"currentReplicas": 3, "currentMetrics": current}}),
            json!(["x", "Deployment/web", targets, "2", 5, 3, "5m"]),
        );
    };
    let source = |target: Value| json!({"metric": {"name": "m"}, "target": target});
    let cpu = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let cpu_is =
        |current: Value| json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
    check_v2(json!([]), json!([]), "<none>");
    check_v2(
        json!([cpu(json!({"averageUtilization": 80}))]),
        cpu_is(json!({"averageUtilization": 50})),
        "cpu: 50%/80%",
    );
    check_v2(json!([cpu(json!({"averageUtilization": 80}))]), json!([]), "cpu: <unknown>/80%");
    check_v2(json!([cpu(json!({}))]), json!([]), "cpu: <unknown>/<auto>");
    check_v2(
        json!([cpu(json!({"averageValue": "1"}))]),
        cpu_is(json!({"averageValue": "500m"})),
        "cpu: 500m/1",
    );
    check_v2(
        json!([{"type": "ContainerResource", "containerResource":
            {"name": "memory", "container": "c", "target": {"averageUtilization": 9}}}]),
        json!([{"type": "ContainerResource", "containerResource":
            {"name": "memory", "container": "c", "current": {"averageUtilization": 8}}}]),
        "memory: 8%/9%",
    );
    check_v2(
        json!([{"type": "Pods", "pods": source(json!({"averageValue": "10"}))},
            {"type": "External", "external": source(json!({"value": "7"}))}]),
        json!([{"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "9"}}}]),
        "9/10, <unknown>/7",
    );
    check_v2(
        json!([{"type": "External", "external": source(json!({"averageValue": "7"}))},
            {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "s"},
                "target": {"value": "6"}}},
            cpu(json!({}))]),
        json!([{"type": "External", "external": {"metric": {"name": "m"}, "current": {"averageValue": "5"}}},
            {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "s"},
                "current": {"value": "4"}}}]),
        "5/7 (avg), 4/6 + 1 more...",
    );
}

#[test]
fn the_older_autoscaler_keeps_most_metrics_in_annotations() {
    let check_v1 = |annotations: Value, targets: &str| {
        check(
            "autoscaling.v1.HorizontalPodAutoscaler",
            json!({"metadata": {"annotations": annotations}, "spec": {"scaleTargetRef": {"kind": "Deployment",
                "name": "web"}, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80},
                "status": {"currentReplicas": 3, "currentCPUUtilizationPercentage": 50}}),
            json!(["x", "Deployment/web", targets, "<unset>", 5, 3, "5m"]),
        );
    };
    check_v1(json!({}), "cpu: 50%/80%");
    check_v1(json!({"autoscaling.alpha.kubernetes.io/metrics": "no json"}), "cpu: 50%/80%");
    let metrics = json!([{"type": "Object", "object": {"target": {"kind": "Service", "name": "s"}, "metricName": "m",
        "targetValue": "0", "averageValue": "7"}}]);
    let current = json!([{"type": "Object", "object": {"target": {"kind": "Service", "name": "s"}, "metricName": "m",
        "currentValue": "0", "averageValue": "6"}},
        {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 40, "currentAverageValue": "1"}}]);
    let annotations = json!({"autoscaling.alpha.kubernetes.io/metrics": metrics.to_string(),
        "autoscaling.alpha.kubernetes.io/current-metrics": current.to_string()});
    check_v1(annotations, "6/7 (avg), cpu: 40%/80%");
}

#[test]
fn nodes_and_namespaces() {
    let addresses = json!([{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "fd00::1"}, {"type": "ExternalIP", "address": "1.2.3.4"}]);
    check(
        "core.v1.Node",
        json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "",
            "node-role.kubernetes.io/": "", "kubernetes.io/role": "edge", "zone": "a"}},
            "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Debian", "kernelVersion": "6.1",
                "containerRuntimeVersion": "containerd://2.0"}}}),
        json!([
            "x",
            "Ready",
            "control-plane,edge,worker",
            "5m",
            "v1.36.0",
            "10.0.0.1",
            "1.2.3.4",
            "Debian",
            "6.1",
            "containerd://2.0"
        ]),
    );
    check(
        "core.v1.Node",
        json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        json!([
            "x",
            "NotReady,SchedulingDisabled",
            "<none>",
            "5m",
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>"
        ]),
    );
    assert_eq!(row_of("core.v1.Node", json!({})).cells[1], "Unknown");
    check("core.v1.Namespace", json!({"status": {"phase": "Active"}}), json!(["x", "Active", "5m"]));
    let health = |status: &str| json!({"conditions": [{"type": "Healthy", "status": status, "message": "ok", "error": "e"}]});
    check("core.v1.ComponentStatus", health("True"), json!(["x", "Healthy", "ok", "e"]));
    check("core.v1.ComponentStatus", health("False"), json!(["x", "Unhealthy", "ok", "e"]));
    check("core.v1.ComponentStatus", json!({}), json!(["x", "Unknown", "", ""]));
}

#[test]
fn configuration_and_other_small_kinds() {
    check("core.v1.ConfigMap", json!({"data": {"k": "1"}}), json!(["x", 1, "5m"]));
    check(
        "core.v1.ConfigMap",
        json!({"data": {"k": "1"}, "binaryData": {"b": "AA=="}}),
        json!(["x", 2, "5m"]),
    );
    check(
        "core.v1.Secret",
        json!({"type": "Opaque", "data": {"a": "", "b": ""}}),
        json!(["x", "Opaque", 2, "5m"]),
    );
    check("core.v1.ServiceAccount", json!({}), json!(["x", "5m"]));
    check(
        "core.v1.ResourceQuota",
        json!({"status": {"hard": {"pods": "4", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1", "cpu": "500m"}}}),
        json!(["x", "cpu: 500m/1, pods: 1/4", "limits.cpu: 0/2", "5m"]),
    );
    check("coordination.v1.Lease", json!({"spec": {"holderIdentity": "me"}}), json!(["x", "me", "5m"]));
    check("coordination.v1.Lease", json!({}), json!(["x", "", "5m"]));
    check(
        "scheduling.v1.PriorityClass",
        json!({"value": 100, "globalDefault": true, "preemptionPolicy": "Never"}),
        json!(["x", 100, true, "5m", "Never"]),
    );
    check("node.v1.RuntimeClass", json!({"handler": "runc"}), json!(["x", "runc", "5m"]));
    check(
        "meta.v1.Status",
        json!({"status": "Failure", "reason": "NotFound", "message": "no such pod"}),
        json!(["Failure", "NotFound", "no such pod"]),
    );
}

#[test]
fn events_of_both_kinds_look_alike() {
    let (first, last) = ("2026-01-01T00:01:00Z", "2026-01-01T00:04:00Z");
    check(
        "core.v1.Event",
        json!({"type": "Warning", "reason": "Failed", "message": " no room \n", "count": 3, "firstTimestamp": first,
            "lastTimestamp": last, "source": {"component": "kubelet", "host": "n"},
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}}),
        json!([
            "60s",
            "Warning",
            "Failed",
            "pod/p",
            "spec.containers{c}",
            "kubelet, n",
            "no room",
            "4m",
            3,
            "x"
        ]),
    );
    check(
        "events.v1.Event",
        json!({"type": "Warning", "reason": "Failed", "note": "no room", "deprecatedCount": 3,
            "deprecatedFirstTimestamp": first, "deprecatedLastTimestamp": last,
            "deprecatedSource": {"component": "kubelet"}, "regarding": {"kind": "Pod", "name": "p"}}),
        json!(["60s", "Warning", "Failed", "pod/p", "", "kubelet", "no room", "4m", 3, "x"]),
    );
    let new = json!({"eventTime": "2026-01-01T00:01:00.000000Z", "type": "Normal", "reason": "R", "note": "m",
        "reportingController": "c", "reportingInstance": "i", "regarding": {"kind": "Node"}});
    check(
        "events.v1.Event",
        new.clone(),
        json!(["4m", "Normal", "R", "node", "", "c, i", "m", "4m", 1, "x"]),
    );
    let mut repeated = new;
    repeated["series"] = json!({"count": 9, "lastObservedTime": "2026-01-01T00:04:59.000000Z"});
    check("events.v1.Event", repeated, json!(["1s", "Normal", "R", "node", "", "c, i", "m", "4m", 9, "x"]));
    assert_eq!(row_of("core.v1.Event", json!({})).cells[0], "<unknown>");
}

#[test]
fn devices_are_claimed_and_offered() {
    check("resource.v1.DeviceClass", json!({}), json!(["x", "5m"]));
    check("resource.v1.ResourceClaimTemplate", json!({}), json!(["x", "5m"]));
    check(
        "resource.v1.ResourceSlice",
        json!({"spec": {"nodeName": "n", "driver": "gpu.example", "pool": {"name": "p"}}}),
        json!(["x", "n", "gpu.example", "p", "5m"]),
    );
    let reserved = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
    for (deleted, status, state) in [
        (false, json!({}), "pending"),
        (false, json!({"allocation": {}}), "allocated"),
        (false, json!({"allocation": {}, "reservedFor": reserved}), "allocated,reserved"),
        (true, json!({}), "deleted"),
        (true, json!({"allocation": {}}), "deleted,allocated"),
    ] {
        let metadata = if deleted { json!({"deletionTimestamp": NOW}) } else { json!({}) };
        check(
            "resource.v1.ResourceClaim",
            json!({"metadata": metadata, "status": status}),
            json!(["x", state, "5m"]),
        );
    }
}

#[test]
fn services_tell_where_they_are_reached() {
    check(
        "core.v1.Service",
        json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}}),
        json!(["x", "ClusterIP", "None", "<none>", "<none>", "5m", "<none>"]),
    );
    check(
        "core.v1.Service",
        json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
            "selector": {"app": "web", "a": "b"}, "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080},
                {"port": 53, "protocol": "UDP"}]}}),
        json!(["x", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "5m", "a=b,app=web"]),
    );
    let external = |spec: Value, ingress: Value| {
        let service = json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}});
        row_of("core.v1.Service", service).cells[3].as_str().unwrap().to_owned()
    };
    let balanced = json!({"type": "LoadBalancer"});
    let given = json!([{"ip": "2.2.2.2"}, {"hostname": "lb.example"}, {"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]);
    assert_eq!(external(balanced.clone(), json!([])), "<pending>");
    assert_eq!(external(balanced, given), "1.1.1.1,2.2.2.2,lb.example");
    let both = json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]});
    assert_eq!(external(both.clone(), json!([{"ip": "1.1.1.1"}])), "1.1.1.1,9.9.9.9");
    assert_eq!(external(both, json!([])), "9.9.9.9");
    assert_eq!(
        external(json!({"type": "ClusterIP", "externalIPs": ["8.8.8.8", "9.9.9.9"]}), json!([])),
        "8.8.8.8,9.9.9.9"
    );
    assert_eq!(
        external(json!({"type": "ExternalName", "externalName": "db.example"}), json!([])),
        "db.example"
    );
}

#[test]
fn endpoints_are_listed_up_to_three() {
    let check_endpoints = |subsets: Value, told: &str| {
        check("core.v1.Endpoints", json!({"subsets": subsets}), json!(["x", told, "5m"]));
    };
    let two = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    check_endpoints(json!([]), "<none>");
    check_endpoints(json!([{"addresses": two}]), "10.0.0.1,fd00::1");
    check_endpoints(json!([{"addresses": two, "ports": [{"port": 80}]}]), "10.0.0.1:80,[fd00::1]:80");
    check_endpoints(
        json!([{"addresses": two, "ports": [{"port": 80}, {"port": 443}]}, {"addresses": two}]),
        "10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 3 more...",
    );
    check_endpoints(json!([{"notReadyAddresses": two, "ports": [{"port": 80}]}]), "");

    check(
        "discovery.v1.EndpointSlice",
        json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "http"}, {}, {"port": 1}],
            "endpoints": [{"addresses": ["1.1.1.1", "2.2.2.2"]}, {"addresses": ["3.3.3.3", "4.4.4.4"]}]}),
        json!(["x", "IPv4", "80,http,* + 1 more...", "1.1.1.1,2.2.2.2,3.3.3.3 + 1 more...", "5m"]),
    );
    check(
        "discovery.v1.EndpointSlice",
        json!({"addressType": "IPv6", "endpoints": []}),
        json!(["x", "IPv6", "<unset>", "<unset>", "5m"]),
    );
}

#[test]
fn what_leads_to_services() {
    let rules = |hosts: &[&str]| hosts.iter().map(|host| json!({"host": host})).collect::<Value>();
    let check_ingress = |hosts: &[&str], told: &str| {
        check(
            "networking.v1.Ingress",
            json!({"spec": {"ingressClassName": "nginx", "rules": rules(hosts), "tls": [{}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}),
            json!(["x", "nginx", told, "1.1.1.1", "80, 443", "5m"]),
        );
    };
    check_ingress(&["a", "b", "c"], "a,b,c");
    check_ingress(&["a", "", "b", "c", "d", "e"], "a,b,c + 3 more...");
    check_ingress(&["", ""], "*");
    check("networking.v1.Ingress", json!({}), json!(["x", "<none>", "*", "", "80", "5m"]));
    check(
        "networking.v1.IngressClass",
        json!({"spec": {"controller": "c.example/i", "parameters": {"apiGroup": "k.example", "kind": "P", "name": "n"}}}),
        json!(["x", "c.example/i", "P.k.example/n", "5m"]),
    );
    check(
        "networking.v1.IngressClass",
        json!({"spec": {"controller": "c", "parameters": {"kind": "P", "name": "n"}}}),
        json!(["x", "c", "P/n", "5m"]),
    );
    check("networking.v1.IngressClass", json!({}), json!(["x", "", "<none>", "5m"]));
    check("networking.v1.NetworkPolicy", json!({"spec": {"podSelector": {}}}), json!(["x", "<none>", "5m"]));
    check(
        "networking.v1.NetworkPolicy",
        json!({"spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}}}),
        json!(["x", "a in (x,y)", "5m"]),
    );
    let parent = json!({"resource": "services", "namespace": "default", "name": "kubernetes"});
    check(
        "networking.v1.IPAddress",
        json!({"spec": {"parentRef": parent}}),
        json!(["x", "services/default/kubernetes"]),
    );
    let parent = json!({"group": "g.example", "resource": "gateways", "name": "n"});
    check(
        "networking.v1.IPAddress",
        json!({"spec": {"parentRef": parent}}),
        json!(["x", "gateways.g.example/n"]),
    );
    check("networking.v1.IPAddress", json!({}), json!(["x", "<none>"]));
    check(
        "networking.v1.ServiceCIDR",
        json!({"spec": {"cidrs": ["10.0.0.0/16", "fd00::/112"]}}),
        json!(["x", "10.0.0.0/16,fd00::/112", "5m"]),
    );
}

#[test]
fn volumes_and_their_claims() {
    let modes =
        json!(["ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOnce"]);
    check(
        "core.v1.PersistentVolume",
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": modes, "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "ns", "name": "c"},
            "volumeMode": "Block", "volumeAttributesClassName": "gold"},
            "status": {"phase": "Bound", "reason": "R"}}),
        json!([
            "x",
            "1Gi",
            "RWO,ROX,RWX,RWOP",
            "Retain",
            "Bound",
            "ns/c",
            "fast",
            "gold",
            "R",
            "5m",
            "Block"
        ]),
    );
    check(
        "core.v1.PersistentVolume",
        json!({"metadata": {"deletionTimestamp": NOW, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {"storageClassName": "fast"}, "status": {"phase": "Available"}}),
        json!(["x", "0", "", "", "Terminating", "", "old", "<unset>", "", "5m", "<unset>"]),
    );
    let status = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
    check(
        "core.v1.PersistentVolumeClaim",
        json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"}, "status": status}),
        json!(["x", "Bound", "v", "1Gi", "RWO", "fast", "<unset>", "5m", "Filesystem"]),
    );
    check(
        "core.v1.PersistentVolumeClaim",
        json!({"spec": {"volumeAttributesClassName": "gold"}, "status": {"phase": "Pending"}}),
        json!(["x", "Pending", "", "", "", "", "gold", "5m", "<unset>"]),
    );
}

#[test]
fn what_provides_and_attaches_volumes() {
    check(
        "storage.v1.StorageClass",
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p.example", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": true}),
        json!(["x (default)", "p.example", "Retain", "WaitForFirstConsumer", true, "5m"]),
    );
    check(
        "storage.v1.StorageClass",
        json!({"provisioner": "p"}),
        json!(["x", "p", "Delete", "Immediate", false, "5m"]),
    );
    check(
        "storage.v1.VolumeAttributesClass",
        json!({"driverName": "d.example"}),
        json!(["x", "d.example", "5m"]),
    );
    check(
        "storage.v1.VolumeAttachment",
        json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            "status": {"attached": true}}),
        json!(["x", "a", "v", "n", true, "5m"]),
    );
    check(
        "storage.v1.CSIDriver",
        json!({"spec": {"attachRequired": false, "podInfoOnMount": true, "storageCapacity": true,
            "requiresRepublish": true, "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
            "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}),
        json!(["x", false, true, true, "a,b", true, "Persistent,Ephemeral", "5m"]),
    );
    check(
        "storage.v1.CSIDriver",
        json!({}),
        json!(["x", true, false, false, "<unset>", false, "<none>", "5m"]),
    );
    let drivers = json!([{"name": "d", "nodeID": "n"}]);
    check("storage.v1.CSINode", json!({"spec": {"drivers": drivers}}), json!(["x", 1, "5m"]));
}

#[test]
fn who_may_do_what() {
    let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "namespace": "ns", "name": "s"}]);
    for (ty, kind) in [("rbac.v1.RoleBinding", "Role"), ("rbac.v1.ClusterRoleBinding", "ClusterRole")] {
        check(
            ty,
            json!({"roleRef": {"kind": kind, "name": "r"}, "subjects": subjects}),
            json!(["x", format!("{kind}/r"), "5m", "u, v", "g", "ns/s"]),
        );
    }
    let check_request = |expiration: Value, status: Value, lasts: &str, condition: &str| {
        check(
            "certificates.v1.CertificateSigningRequest",
            json!({"spec": {"signerName": "s.example/x", "username": "u", "expirationSeconds": expiration},
                "status": status}),
            json!(["x", "5m", "s.example/x", "u", lasts, condition]),
        );
    };
    let is = |types: &[&str]| types.iter().map(|ty| json!({"type": ty, "status": "True"})).collect::<Value>();
    check_request(json!(null), json!({}), "<none>", "Pending");
    check_request(json!(86400), json!({"conditions": is(&["Approved"])}), "24h", "Approved");
    let issued = json!({"conditions": is(&["Approved"]), "certificate": "AA=="});
    check_request(json!(600), issued, "10m", "Approved,Issued");
    check_request(json!(600), json!({"conditions": is(&["Approved", "Failed"])}), "10m", "Approved,Failed");
    check_request(json!(600), json!({"conditions": is(&["Approved", "Denied"])}), "10m", "Denied");
}

#[test]
fn what_is_admitted() {
    for ty in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let ty = format!("admissionregistration.v1.{ty}");
        check(&ty, json!({"webhooks": [{"name": "a"}, {"name": "b"}]}), json!(["x", 2, "5m"]));
    }
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    check(
        "admissionregistration.v1.ValidatingAdmissionPolicy",
        json!({"spec": {"paramKind": kind, "validations": [{"expression": "true"}]}}),
        json!(["x", 1, "v1/ConfigMap", "5m"]),
    );
    check(
        "admissionregistration.v1.MutatingAdmissionPolicy",
        json!({"spec": {"mutations": [{"patchType": "JSONPatch"}, {"patchType": "JSONPatch"}]}}),
        json!(["x", 2, "<unset>", "5m"]),
    );
    for ty in ["MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding"] {
        for (params, told) in [
            (json!(null), "<unset>"),
            (json!({"name": "n"}), "*/n"),
            (json!({"name": "n", "namespace": "ns"}), "ns/n"),
            (json!({"selector": {"matchLabels": {"a": "b"}}}), "a=b"),
        ] {
            let spec = json!({"policyName": "p", "paramRef": params});
            let ty = format!("admissionregistration.v1.{ty}");
            check(&ty, json!({"spec": spec}), json!(["x", "p", told, "5m"]));
        }
    }
}

#[test]
fn which_requests_come_first_and_who_answers() {
    check(
        "flowcontrol.v1.FlowSchema",
        json!({"spec": {"priorityLevelConfiguration": {"name": "low"}, "matchingPrecedence": 9000,
            "distinguisherMethod": {"type": "ByUser"}}, "status": {"conditions": [{"type": "Dangling", "status": "False"}]}}),
        json!(["x", "low", 9000, "ByUser", "5m", "False"]),
    );
    check(
        "flowcontrol.v1.FlowSchema",
        json!({"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1}}),
        json!(["x", "exempt", 1, "<none>", "5m", "?"]),
    );
    let queuing = json!({"queues": 64, "handSize": 6, "queueLengthLimit": 50});
    check(
        "flowcontrol.v1.PriorityLevelConfiguration",
        json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 30,
            "limitResponse": {"type": "Queue", "queuing": queuing}}}}),
        json!(["x", "Limited", 30, 64, 6, 50, "5m"]),
    );
    check(
        "flowcontrol.v1.PriorityLevelConfiguration",
        json!({"spec": {"type": "Exempt"}}),
        json!(["x", "Exempt", "<none>", "<none>", "<none>", "<none>", "5m"]),
    );
    check("apiregistration.v1.APIService", json!({}), json!(["x", "Local", "Unknown", "5m"]));
    let unavailable = json!([{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]);
    check(
        "apiregistration.v1.APIService",
        json!({"spec": {"service": {"namespace": "ns", "name": "s"}}, "status": {"conditions": unavailable}}),
        json!(["x", "ns/s", "False (MissingEndpoints)", "5m"]),
    );
    let available = json!([{"type": "Available", "status": "True", "reason": "Local"}]);
    check(
        "apiregistration.v1.APIService",
        json!({"status": {"conditions": available}}),
        json!(["x", "Local", "True", "5m"]),
    );
}
