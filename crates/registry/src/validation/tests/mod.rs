//! Small documents, changes in them, and the errors that follow.

mod pods;
mod workloads;
mod cluster;
mod control;
mod devices;

use serde_json::{Value, json};

use super::*;
use crate::{kind::Kind, kinds, strategy::Part};
use std::sync::Arc;

fn resource(ty: &str) -> &'static Arc<Kind> {
    kinds::built_in().iter().find(|resource| resource.ty.name == ty).unwrap()
}

/// A document that keeps every rule.
fn fine(ty: &str) -> Value {
    let meta = json!({"name": "a", "namespace": "n", "uid": "u"});
    let pod_spec = json!({
        "containers": [{
            "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "resources": {},
        }],
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30, "securityContext": {},
    });
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec});
    let selector = json!({"matchLabels": {"a": "b"}});
    let mut job_template = template.clone();
    job_template["spec"]["restartPolicy"] = json!("Never");
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}});
    let device_claim = json!({"devices": {
        "requests": [
            {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}},
            {"name": "s", "firstAvailable": [
                {"name": "x", "deviceClassName": "c", "allocationMode": "All", "tolerations": [{"operator": "Exists"}]},
            ]},
        ],
        "constraints": [{"requests": ["r", "s/x"], "matchAttribute": "d.io/numa"}],
        "config": [{"requests": ["r"], "opaque": {"driver": "d.io", "parameters": {"a": 1}}}],
    }});
    let mut document = match ty {
        "core.v1.Pod" => json!({"spec": pod_spec}),
        "core.v1.Service" => json!({"spec": {
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
        }}),
        "core.v1.PersistentVolume" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a", "type": ""},
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        }}),
        "core.v1.PersistentVolumeClaim" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem",
        }, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}),
        "core.v1.ReplicationController" => json!({"spec": {"selector": {"a": "b"}, "template": template}}),
        "apps.v1.Deployment" => {
            json!({"spec": {"replicas": 1, "selector": selector, "template": template, "strategy": rolling}})
        }
        "apps.v1.ReplicaSet" => json!({"spec": {"replicas": 1, "selector": selector, "template": template}}),
        "apps.v1.DaemonSet" => {
            json!({"spec": {"selector": selector, "template": template, "updateStrategy": rolling}})
        }
        "apps.v1.StatefulSet" => json!({"spec": {
            "selector": selector, "template": template, "podManagementPolicy": "OrderedReady", "serviceName": "s",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        }}),
        "batch.v1.Job" => {
            job_template["metadata"]["labels"] = json!({
                "controller-uid": "u", "job-name": "a", "batch.kubernetes.io/controller-uid": "u",
                "batch.kubernetes.io/job-name": "a",
            });
            let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
            json!({"spec": {"completions": 1, "parallelism": 1, "selector": selector, "template": job_template}})
        }
        "batch.v1.CronJob" => json!({"spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {"template": job_template}},
        }}),
        "coordination.v1.Lease" => json!({"spec": {"leaseDurationSeconds": 1}}),
        "core.v1.Event" | "events.v1.Event" => json!({
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i", "action": "a",
            "reason": "r", "type": "Normal", "regarding": {"namespace": "n"}, "involvedObject": {"namespace": "n"},
        }),
        "discovery.v1.EndpointSlice" => json!({
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"name": "", "protocol": "TCP"}],
        }),
        "networking.v1.Ingress" => json!({"spec": {"rules": [{"host": "a.b", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}},
        ]}}]}}),
        "networking.v1.IngressClass" => json!({"spec": {"controller": "a.io/b"}}),
        "networking.v1.NetworkPolicy" => json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
        "policy.v1.PodDisruptionBudget" => json!({"spec": {"minAvailable": 1, "selector": selector}}),
        "autoscaling.v2.HorizontalPodAutoscaler" => json!({"spec": {
            "minReplicas": 1, "maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
            }}],
        }}),
        "rbac.v1.Role" | "rbac.v1.ClusterRole" => {
            json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]})
        }
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding" => json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}],
        }),
        "scheduling.v1.PriorityClass" => json!({"value": 1}),
        "node.v1.RuntimeClass" => json!({"handler": "h"}),
        "storage.v1.StorageClass" => {
            json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        }
        "storage.v1.CSIDriver" => {
            json!({"spec": {"attachRequired": true, "podInfoOnMount": false, "storageCapacity": false}})
        }
        "storage.v1.VolumeAttachment" => {
            json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}})
        }
        "certificates.v1.CertificateSigningRequest" => json!({"spec": {
            "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K", "signerName": "a.io/b", "usages": ["client auth"],
        }}),
        "apiextensions.v1.CustomResourceDefinition" => {
            json!({
                "spec": {
                    "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"}, "group": "b.io",
                    "scope": "Cluster", "versions": [{
                        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                    }],
                },
                "status": {"storedVersions": ["v1"]},
            })
        }
        "admissionregistration.v1.ValidatingWebhookConfiguration" => json!({"webhooks": [{
            "name": "a.b.c", "clientConfig": {"url": "https://a"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }]}),
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding" => {
            json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}})
        }
        "flowcontrol.v1.FlowSchema" => json!({"spec": {
            "matchingPrecedence": 100, "priorityLevelConfiguration": {"name": "l"}, "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "u"}}],
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["*"], "namespaces": ["*"]}],
            }],
        }}),
        "flowcontrol.v1.PriorityLevelConfiguration" => json!({"spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}},
        }}}),
        "resource.v1.DeviceClass" => json!({"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
        "resource.v1.ResourceClaim" => json!({"spec": device_claim, "status": {}}),
        "resource.v1.ResourceClaimTemplate" => {
            json!({"spec": {"metadata": {"labels": {"a": "b"}}, "spec": device_claim}})
        }
        "resource.v1.ResourceSlice" => json!({"spec": {
            "driver": "d.io", "nodeName": "n", "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
            "devices": [{
                "name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"d.io/m": {"value": "8"}},
                "allowMultipleAllocations": true,
            }],
        }}),
        "storage.v1.CSINode" => {
            json!({"spec": {"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": ["k"]}]}})
        }
        _ => json!({}),
    };
    document["metadata"] = meta;
    let kind = resource(ty);
    document["kind"] = json!(kind.name);
    if !kind.namespaced {
        document["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    match ty {
        "apiextensions.v1.CustomResourceDefinition" => document["metadata"]["name"] = json!("as.b.io"),
        "networking.v1.IPAddress" => {
            document["metadata"]["name"] = json!("10.0.0.1");
            document["spec"] = json!({"parentRef": {"resource": "services", "name": "s"}});
        }
        _ => {}
    }
    document
}

/// Sets the value at a path, or removes it.
fn put(document: &mut Value, path: &str, value: Value) {
    let mut steps: Vec<_> = path.split('/').collect();
    let last = steps.pop().unwrap();
    let mut at = document;
    for step in steps {
        at = match at {
            Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
            other => &mut other[step],
        };
    }
    match (at, value) {
        (Value::Array(items), value) => items[last.parse::<usize>().unwrap()] = value,
        (Value::Object(fields), Value::Null) => drop(fields.remove(last)),
        (other, value) => other[last] = value,
    }
}

fn check_causes(causes: Vec<Cause>, expected: &[&str], of: &str) {
    let causes: Vec<_> = causes.iter().map(ToString::to_string).collect();
    let fits = |(cause, expected): (&String, &&str)| match expected.strip_suffix('…') {
        Some(start) => cause.starts_with(start),
        None => cause == expected,
    };
    let fine = causes.len() == expected.len() && causes.iter().zip(expected).all(fits);
    assert!(fine, "{of}: {causes:#?}, not {expected:#?}");
}

type Case<'a> = (&'a str, Value, &'a [&'a str]);

/// Checks the errors of a new object with one change.
fn check(ty: &str, cases: &[Case]) {
    for (path, value, expected) in cases {
        let mut document = fine(ty);
        put(&mut document, path, value.clone());
        check_causes(create(resource(ty), &document), expected, &format!("{ty} {path} {value}"));
    }
}

/// Checks the errors of one change in an existing object.
fn check_update(ty: &str, cases: &[Case]) {
    for (path, value, expected) in cases {
        let (old, mut new) = (fine(ty), fine(ty));
        put(&mut new, path, value.clone());
        check_causes(update(resource(ty), &new, &old), expected, &format!("{ty} {path} {value}"));
    }
}

#[test]
fn valid_documents_have_no_errors() {
    for resource in kinds::built_in().iter().filter(|resource| resource.storage.is_some()) {
        let document = fine(resource.ty.name);
        // Kinds without a sample of their own have other tests; here they must only not panic.
        let causes = create(resource, &document);
        let has_own = document.as_object().unwrap().len() > 2;
        assert!(!has_own || causes.is_empty(), "{}: {causes:#?}", resource.ty.name);
        assert!(!has_own || update(resource, &document, &document).is_empty(), "{}", resource.ty.name);
        assert!(create(resource, &json!({})).iter().any(|cause| cause.field == "metadata.name"));
    }
}

#[test]
fn metadata_is_checked_for_every_kind() {
    let owner = |extra: Value| {
        let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        owner.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        owner
    };
    let long = "a".repeat(254);
    check(
        "core.v1.ConfigMap",
        &[
            (
                "metadata/name",
                Value::Null,
                &["metadata.name: Required value: name or generateName is required"],
            ),
            (
                "metadata/name",
                json!("Upper"),
                &[
                    "metadata.name: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                ],
            ),
            (
                "metadata/name",
                json!(long),
                &[&format!("metadata.name: Invalid value: \"{long}\": must be no more than 253 characters")],
            ),
            (
                "metadata/generateName",
                json!("_"),
                &["metadata.generateName: Invalid value: \"_\": a lowercase RFC 1123 subdomain…"],
            ),
            ("metadata/namespace", Value::Null, &["metadata.namespace: Required value"]),
            (
                "metadata/labels",
                json!({"bad key": "v"}),
                &["metadata.labels: Invalid value: \"bad key\": name part must consist of…"],
            ),
            (
                "metadata/labels",
                json!({"k": "bad value"}),
                &["metadata.labels: Invalid value: \"bad value\": a valid label must be an empty string or…"],
            ),
            (
                "metadata/labels",
                json!({"k".repeat(64): ""}),
                &[&format!(
                    "metadata.labels: Invalid value: \"{}\": name part must be no more than 63 bytes",
                    "k".repeat(64)
                )],
            ),
            (
                "metadata/annotations",
                json!({"a/b/c": ""}),
                &["metadata.annotations: Invalid value: \"a/b/c\": a valid label key must consist of…"],
            ),
            ("metadata/annotations", json!({"Upper.Case/K": ""}), &[]),
            (
                "metadata/annotations",
                json!({"k": "v".repeat(262144)}),
                &["metadata.annotations: Too long: may not be more than 262144 bytes"],
            ),
            (
                "metadata/finalizers",
                json!(["unqualified"]),
                &[
                    "metadata.finalizers[0]: Invalid value: \"unqualified\": name is neither a standard finalizer name nor is it fully qualified",
                ],
            ),
            (
                "metadata/finalizers",
                json!(["bad name/x"]),
                &[
                    "metadata.finalizers: Invalid value: \"bad name/x\": prefix part a lowercase RFC 1123 subdomain…",
                ],
            ),
            (
                "metadata/finalizers",
                json!(["orphan", "foregroundDeletion"]),
                &[
                    "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
                ],
            ),
            (
                "metadata/ownerReferences",
                json!([owner(json!({"uid": ""}))]),
                &["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"],
            ),
            (
                "metadata/ownerReferences",
                json!([owner(json!({"apiVersion": ""}))]),
                &["metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty"],
            ),
            (
                "metadata/ownerReferences",
                json!([
                    owner(json!({"name": "1", "controller": true})),
                    owner(json!({"name": "2", "controller": true}))
                ]),
                &["metadata.ownerReferences: Invalid value: [{…"],
            ),
            (
                "metadata/ownerReferences",
                json!([owner(json!({"kind": "Event"}))]),
                &[
                    "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"p\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
                ],
            ),
        ],
    );
    check(
        "core.v1.Service",
        &[("metadata/name", json!("a.b"), &["metadata.name: Invalid value: \"a.b\": must not contain dots"])],
    );
    check(
        "core.v1.Namespace",
        &[
            (
                "metadata/name",
                json!("A"),
                &[
                    "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            ("metadata/namespace", json!("n"), &["metadata.namespace: Forbidden: not allowed on this type"]),
        ],
    );
    check("coordination.v1.Lease", &[("metadata/finalizers", json!(["unqualified"]), &[])]);
    check(
        "rbac.v1.Role",
        &[
            ("metadata/name", json!("system:x"), &[]),
            ("metadata/name", json!("a/b"), &["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        ],
    );
    check(
        "networking.v1.IPAddress",
        &[(
            "metadata/name",
            json!("10.0.0.01"),
            &["metadata.name: Invalid value: \"10.0.0.01\": must not have leading 0s"],
        )],
    );
}

#[test]
fn changes_of_metadata_are_reported_twice() {
    let uid = "metadata.uid: Invalid value: \"other\": field is immutable";
    let time = "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable";
    check_update(
        "core.v1.ConfigMap",
        &[
            ("metadata/uid", json!("other"), &[uid, uid]),
            ("metadata/deletionTimestamp", json!("2001-01-01T00:00:00Z"), &[time, time]),
            ("metadata/labels", json!({"a": "b"}), &[]),
        ],
    );
    let (mut old, mut new) = (fine("core.v1.ConfigMap"), fine("core.v1.ConfigMap"));
    for document in [&mut old, &mut new] {
        put(document, "metadata/deletionTimestamp", json!("2001-01-01T00:00:00Z"));
        put(document, "metadata/finalizers", json!(["example.com/x", "example.com/y"]));
    }
    put(&mut new, "metadata/finalizers", json!(["example.com/x", "example.com/z"]));
    let expected = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/z\"}";
    check_causes(update(resource("core.v1.ConfigMap"), &new, &old), &[expected, expected], "finalizers");
}

#[test]
fn deprecated_and_unusual_fields_have_warnings() {
    let check_status = |path: &str, value: Value| {
        let mut document = fine("core.v1.Pod");
        put(&mut document, path, value);
        warnings(resource("core.v1.Pod"), &document, None)
    };
    for (path, value, expected) in [
        (
            "metadata/name",
            json!("a.b"),
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
        ),
        (
            "spec/nodeSelector",
            json!({"beta.kubernetes.io/os": "linux"}),
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ),
        (
            "spec/containers/0/env",
            json!([{"name": "A"}, {"name": "A"}]),
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ),
        (
            "spec/containers/0/ports",
            json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]),
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ),
        (
            "spec/volumes",
            json!([{"name": "v", "gitRepo": {"repository": "r"}}]),
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        ),
        (
            "metadata/annotations",
            json!({"seccomp.security.alpha.kubernetes.io/pod": "x"}),
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
        ),
    ] {
        assert_eq!(check_status(path, value), [expected]);
    }
    let pod = fine("core.v1.Pod");
    assert!(warnings(resource("core.v1.Pod"), &pod, Some(&pod)).is_empty());
}

#[test]
fn no_document_makes_the_rules_panic() {
    let odd = [json!(null), json!([]), json!("é"), json!(-1), json!({"": null}), json!([{"": [null]}])];
    for resource in kinds::built_in() {
        for value in &odd {
            let mut document = fine(resource.ty.name);
            let names: Vec<_> = document.as_object().unwrap().keys().cloned().collect();
            for name in names {
                let before = document[&name].clone();
                document[&name] = value.clone();
                create(resource, &document);
                update(resource, &document, &fine(resource.ty.name));
                update_part(resource, Part::Status, &fine(resource.ty.name), &document);
                warnings(resource, &document, None);
                document[&name] = before;
            }
            create(resource, value);
        }
    }
}
