//! Small documents, what is changed in them, and what is said about it.

use serde_json::{Value, json};

use super::*;
use crate::kinds::{self, Resource};

fn resource(ty: &str) -> &'static Resource {
    kinds::RESOURCES.iter().find(|resource| resource.ty == ty).unwrap()
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
            "minReplicas": 1, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
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
            json!({"spec": {"names": {"plural": "as"}, "group": "b.io", "scope": "Cluster"}})
        }
        "admissionregistration.v1.ValidatingWebhookConfiguration" => json!({"webhooks": [{
            "name": "a.b.c", "clientConfig": {"url": "https://a"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }]}),
        _ => json!({}),
    };
    document["metadata"] = meta;
    let kind = resource(ty);
    document["kind"] = json!(kind.kind);
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

/// Puts a value where the path leads, or takes away what is there.
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

fn told(causes: Vec<Cause>, expected: &[&str], of: &str) {
    let causes: Vec<_> = causes.iter().map(ToString::to_string).collect();
    let fits = |(cause, expected): (&String, &&str)| match expected.strip_suffix('…') {
        Some(start) => cause.starts_with(start),
        None => cause == expected,
    };
    let fine = causes.len() == expected.len() && causes.iter().zip(expected).all(fits);
    assert!(fine, "{of}: {causes:#?}, not {expected:#?}");
}

type Case<'a> = (&'a str, Value, &'a [&'a str]);

/// What is said when one thing is changed in a new object.
fn check(ty: &str, cases: &[Case]) {
    for (path, value, expected) in cases {
        let mut document = fine(ty);
        put(&mut document, path, value.clone());
        told(create(resource(ty), &document), expected, &format!("{ty} {path} {value}"));
    }
}

/// What is said when one thing is changed in an object that is there.
fn check_update(ty: &str, cases: &[Case]) {
    for (path, value, expected) in cases {
        let (old, mut new) = (fine(ty), fine(ty));
        put(&mut new, path, value.clone());
        told(update(resource(ty), &new, &old), expected, &format!("{ty} {path} {value}"));
    }
}

#[test]
fn nothing_is_said_about_fine_documents() {
    for resource in kinds::RESOURCES.iter().filter(|resource| resource.storage.is_some()) {
        let document = fine(resource.ty);
        // Kinds without a document of their own are looked at elsewhere; here none may make the rules panic.
        let causes = create(resource, &document);
        let has_own = document.as_object().unwrap().len() > 2;
        assert!(!has_own || causes.is_empty(), "{}: {causes:#?}", resource.ty);
        assert!(!has_own || update(resource, &document, &document).is_empty(), "{}", resource.ty);
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
fn changes_of_metadata_are_told_twice() {
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
    told(update(resource("core.v1.ConfigMap"), &new, &old), &[expected, expected], "finalizers");
}

#[test]
fn containers_are_checked() {
    let at = |rest: &str| format!("spec/containers/0/{rest}");
    let (port, env, mounts, resources) = (at("ports"), at("env"), at("volumeMounts"), at("resources"));
    let (env_from, liveness, readiness) = (at("envFrom"), at("livenessProbe"), at("readinessProbe"));
    let (hooks, security) = (at("lifecycle"), at("securityContext"));
    let get = json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "successThreshold": 1});
    let mut twice = get.clone();
    twice["successThreshold"] = json!(2);
    let mut two = get.clone();
    two["exec"] = json!({"command": ["a"]});
    let container = fine("core.v1.Pod")["spec"]["containers"][0].clone();
    let mut bad = container.clone();
    bad["name"] = json!("C_1");
    bad.as_object_mut().unwrap().remove("image");
    check(
        "core.v1.Pod",
        &[
            ("spec/containers", json!([]), &["spec.containers: Required value"]),
            ("spec/containers", Value::Null, &["spec.containers: Required value"]),
            (
                "spec/containers",
                json!([bad]),
                &[
                    "spec.containers[0].name: Invalid value: \"C_1\": a lowercase RFC 1123 label…",
                    "spec.containers[0].image: Required value",
                ],
            ),
            (
                "spec/containers",
                json!([container, container]),
                &["spec.containers[1].name: Duplicate value: \"c\""],
            ),
            (
                "spec/initContainers",
                json!([container]),
                &["spec.initContainers[0].name: Duplicate value: \"c\""],
            ),
            (
                "spec/ephemeralContainers",
                json!([{"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "resources": {}}]),
                &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
            ),
            (
                &at("image"),
                json!(" i"),
                &[
                    "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
                ],
            ),
            (
                &at("imagePullPolicy"),
                json!("Often"),
                &[
                    "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                &port,
                json!([{"containerPort": 70000, "protocol": "TCP"}]),
                &[
                    "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                &port,
                json!([{"containerPort": 1, "protocol": "X"}]),
                &[
                    "spec.containers[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
            (
                &port,
                json!([{"containerPort": 1, "hostPort": 2, "protocol": "TCP"}, {"containerPort": 3, "hostPort": 2, "protocol": "TCP"}]),
                &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//2\""],
            ),
            (
                &env,
                json!([{"name": "a=b"}]),
                &[
                    "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                ],
            ),
            (
                &env,
                json!([{"name": "a", "value": "x", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]),
                &[
                    "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                ],
            ),
            (
                &env,
                json!([{"name": "a", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.x"}}}]),
                &[
                    "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
                ],
            ),
            (
                &env_from,
                json!([{}]),
                &[
                    "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                ],
            ),
            (
                &mounts,
                json!([{"name": "v", "mountPath": "/a"}]),
                &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
            ),
            (
                &resources,
                json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                &[
                    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                ],
            ),
            (
                &resources,
                json!({"limits": {"cpus": "1"}}),
                &[
                    "spec.containers[0].resources.limits[cpus]: Invalid value: \"cpus\": must be a standard resource type or fully qualified",
                    "spec.containers[0].resources.limits[cpus]: Invalid value: \"cpus\": must be a standard resource for containers",
                ],
            ),
            (
                &resources,
                json!({"requests": {"a.io/gpu": "1"}}),
                &[
                    "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
                ],
            ),
            (
                &resources,
                json!({"limits": {"memory": "-1"}}),
                &[
                    "spec.containers[0].resources.limits[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
            (&liveness, get.clone(), &[]),
            (
                &liveness,
                twice.clone(),
                &["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
            ),
            (&readiness, twice, &[]),
            (
                &liveness,
                two,
                &[
                    "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
                ],
            ),
            (
                &liveness,
                json!({"successThreshold": 1}),
                &["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
            ),
            (
                &hooks,
                json!({"preStop": {"sleep": {"seconds": 31}}}),
                &[
                    "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
                ],
            ),
            (
                &security,
                json!({"runAsUser": -1}),
                &[
                    "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                ],
            ),
            (
                &security,
                json!({"privileged": true, "allowPrivilegeEscalation": false}),
                &[
                    "spec.containers[0].securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
                ],
            ),
        ],
    );
}

#[test]
fn volumes_have_one_source_that_says_enough() {
    let cases: &[(Value, &[&str])] = &[
        (json!({"name": "v", "emptyDir": {}}), &[]),
        (json!({"name": "v"}), &["spec.volumes[0]: Required value: must specify a volume type"]),
        (
            json!({"name": "V", "emptyDir": {}}),
            &["spec.volumes[0].name: Invalid value: \"V\": a lowercase RFC 1123 label…"],
        ),
        (
            json!({"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}),
            &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            json!({"name": "v", "hostPath": {"path": "/a/../b"}}),
            &["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            json!({"name": "v", "secret": {"defaultMode": 4096}}),
            &[
                "spec.volumes[0].secret.secretName: Required value",
                "spec.volumes[0].secret.defaultMode: Invalid value: 4096: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "/p"}]}}),
            &["spec.volumes[0].configMap.items[0].path: Invalid value: \"/p\": must be a relative path"],
        ),
        (
            json!({"name": "v", "persistentVolumeClaim": {"claimName": ""}}),
            &["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
        ),
        (
            json!({"name": "v", "nfs": {"server": "s", "path": "p"}}),
            &["spec.volumes[0].nfs.path: Invalid value: \"p\": must be an absolute path"],
        ),
        (
            json!({"name": "v", "gcePersistentDisk": {"pdName": ""}}),
            &["spec.volumes[0].persistentDisk.pdName: Required value"],
        ),
        (
            json!({"name": "v", "ephemeral": {}}),
            &["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"],
        ),
        (
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 1, "path": "t"}}]}}),
            &[
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
            ],
        ),
    ];
    for (volume, expected) in cases {
        check("core.v1.Pod", &[("spec/volumes", json!([volume]), expected)]);
    }
    let twice = json!([{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]);
    check("core.v1.Pod", &[("spec/volumes", twice, &["spec.volumes[1].name: Duplicate value: \"v\""])]);
}

#[test]
fn the_rest_of_a_pod_is_checked() {
    check(
        "core.v1.Pod",
        &[
            (
                "spec/restartPolicy",
                json!("Sometimes"),
                &[
                    "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                ],
            ),
            (
                "spec/dnsPolicy",
                json!("None"),
                &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
            ),
            (
                "spec/dnsConfig",
                json!({"nameservers": ["x"]}),
                &[
                    "spec.dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                "spec/activeDeadlineSeconds",
                json!(0),
                &[
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                ],
            ),
            (
                "spec/nodeSelector",
                json!({"a": "b c"}),
                &["spec.nodeSelector: Invalid value: \"b c\": a valid label…"],
            ),
            (
                "spec/nodeName",
                json!("N"),
                &["spec.nodeName: Invalid value: \"N\": a lowercase RFC 1123 subdomain…"],
            ),
            (
                "spec/hostname",
                json!("a.b"),
                &["spec.hostname: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "spec/tolerations",
                json!([{"operator": "Equal"}]),
                &[
                    "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                ],
            ),
            (
                "spec/tolerations",
                json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]),
                &[
                    "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                ],
            ),
            (
                "spec/hostAliases",
                json!([{"ip": "x"}]),
                &["spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address…"],
            ),
            (
                "spec/schedulingGates",
                json!([{"name": "a"}, {"name": "a"}]),
                &["spec.schedulingGates[1]: Duplicate value: \"a\""],
            ),
            (
                "spec/readinessGates",
                json!([{"conditionType": "a b"}]),
                &["spec.readinessGates[0].conditionType: Invalid value: \"a b\": name part…"],
            ),
            (
                "spec/topologySpreadConstraints",
                json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]),
                &[
                    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                    "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                    "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"X\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                ],
            ),
            (
                "spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
                &[
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
                ],
            ),
            (
                "spec/affinity",
                json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}}),
                &[
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ],
            ),
            (
                "spec/overhead",
                json!({"cpus": "1"}),
                &[
                    "spec.overhead.limits[cpus]: Invalid value: \"cpus\": must be a standard resource type or fully qualified",
                    "spec.overhead.limits[cpus]: Invalid value: \"cpus\": must be a standard resource for containers",
                ],
            ),
            ("spec/os", json!({"name": "windows"}), &[]),
            (
                "spec/os",
                json!({"name": "plan9"}),
                &["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
            ),
            (
                "spec/securityContext",
                json!({"sysctls": [{"name": "a..b"}]}),
                &[
                    "spec.securityContext.sysctls[0].name: Invalid value: \"a..b\": must have at most 253 characters…",
                ],
            ),
            (
                "spec/securityContext",
                json!({"seccompProfile": {"type": "Localhost"}}),
                &[
                    "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                ],
            ),
            (
                "metadata/annotations",
                json!({"controller.kubernetes.io/pod-deletion-cost": "x"}),
                &[
                    "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"x\": must be a 32bit integer",
                ],
            ),
        ],
    );
}

#[test]
fn a_pod_changes_in_a_few_places() {
    let fixed = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    check_update(
        "core.v1.Pod",
        &[
            ("spec/nodeName", json!("other"), &[fixed]),
            ("spec/containers/0/image", json!("other"), &[]),
            ("spec/containers/0/command", json!(["x"]), &[fixed]),
            (
                "spec/containers/0/image",
                json!(""),
                &["spec.containers[0].image: Required value", "spec.containers[0].image: Required value"],
            ),
            ("spec/activeDeadlineSeconds", json!(5), &[]),
            ("spec/tolerations", json!([{"key": "a", "operator": "Exists"}]), &[]),
            (
                "spec/schedulingGates",
                json!([{"name": "a"}]),
                &[
                    "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a'",
                ],
            ),
            (
                "spec/initContainers",
                json!([{"name": "i", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "resources": {}}]),
                &["spec.initContainers: Forbidden: pod updates may not add or remove containers"],
            ),
        ],
    );
    let (mut old, mut new) = (fine("core.v1.Pod"), fine("core.v1.Pod"));
    put(&mut old, "spec/schedulingGates", json!([{"name": "a"}]));
    put(&mut new, "spec/nodeSelector", json!({"a": "b"}));
    told(update(resource("core.v1.Pod"), &new, &old), &[], "a gated pod's nodes are narrowed");
    put(&mut old, "spec/activeDeadlineSeconds", json!(5));
    put(&mut new, "spec/activeDeadlineSeconds", json!(6));
    let longer = "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value";
    told(update(resource("core.v1.Pod"), &new, &old), &[longer], "the deadline moves away");
}

#[test]
fn a_pods_status_does_not_raise_the_dead() {
    let (mut old, mut new) = (fine("core.v1.Pod"), fine("core.v1.Pod"));
    put(&mut old, "spec/restartPolicy", json!("Never"));
    put(
        &mut old,
        "status",
        json!({"qosClass": "Burstable", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]}),
    );
    put(
        &mut new,
        "status",
        json!({"qosClass": "BestEffort", "containerStatuses": [{"name": "c", "state": {"running": {}}}], "podIPs": [{"ip": "x"}]}),
    );
    told(
        update_status(resource("core.v1.Pod"), &new, &old),
        &[
            "status.qosClass: Invalid value: \"BestEffort\": field is immutable",
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            "status.podIPs[0]: Invalid value: \"x\": must be a valid IP address…",
        ],
        "status",
    );
}

#[test]
fn controllers_pick_the_pods_that_they_make() {
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`";
    for ty in ["apps.v1.Deployment", "apps.v1.ReplicaSet", "apps.v1.StatefulSet"] {
        check(
            ty,
            &[
                ("spec/selector", json!({"matchLabels": {"a": "c"}}), &[mismatch]),
                ("spec/selector", Value::Null, &["spec.selector: Required value", mismatch]),
                ("spec/selector", json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), &[]),
                (
                    "spec/replicas",
                    json!(-1),
                    &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "spec/template/spec/restartPolicy",
                    json!("Never"),
                    &[
                        "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    ],
                ),
            ],
        );
    }
    check("apps.v1.DaemonSet", &[("spec/selector", json!({"matchLabels": {"a": "c"}}), &[mismatch])]);
    check("core.v1.ReplicationController", &[("spec/selector", json!({"a": "c"}), &[mismatch])]);
    let fixed = "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable";
    check_update(
        "apps.v1.Deployment",
        &[("spec/selector", json!({"matchLabels": {"a": "c"}}), &[mismatch, fixed])],
    );
    check(
        "apps.v1.Deployment",
        &[
            (
                "spec/template/spec/containers/0/image",
                Value::Null,
                &["spec.template.spec.containers[0].image: Required value"],
            ),
            (
                "spec/template/metadata/labels",
                json!({"a": "b", "c d": ""}),
                &["spec.template.labels: Invalid value: \"c d\": name part…"],
            ),
            (
                "spec/strategy/rollingUpdate",
                json!({"maxUnavailable": 0, "maxSurge": 0}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                "spec/strategy/rollingUpdate",
                json!({"maxUnavailable": "x", "maxSurge": 1}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"x\": a valid percent string must be…",
                ],
            ),
            (
                "spec/strategy/type",
                json!("Recreate"),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                "spec/progressDeadlineSeconds",
                json!(0),
                &["spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds"],
            ),
        ],
    );
    check_update(
        "apps.v1.StatefulSet",
        &[
            ("spec/replicas", json!(5), &[]),
            (
                "spec/serviceName",
                json!("other"),
                &[
                    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
                ],
            ),
        ],
    );
    let mut claims = fine("apps.v1.StatefulSet");
    put(&mut claims, "spec/volumeClaimTemplates", json!([{"metadata": {"name": "v"}}]));
    put(
        &mut claims,
        "spec/template/spec/containers/0/volumeMounts",
        json!([{"name": "v", "mountPath": "/a"}]),
    );
    told(create(resource("apps.v1.StatefulSet"), &claims), &[], "claims are volumes");
}

#[test]
fn jobs_end_and_cron_jobs_repeat() {
    check(
        "batch.v1.Job",
        &[
            (
                "spec/template/spec/restartPolicy",
                json!("Always"),
                &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
            ),
            (
                "spec/parallelism",
                json!(-1),
                &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                "spec/completionMode",
                json!("X"),
                &[
                    "spec.completionMode: Unsupported value: \"X\": supported values: \"NonIndexed\", \"Indexed\"",
                ],
            ),
            ("spec/selector", json!({"matchLabels": {"job-name": "a"}}), &[]),
            (
                "spec/selector",
                json!({"matchExpressions": [{"key": "job-name", "operator": "DoesNotExist"}]}),
                &[
                    "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"job-name\",\"operator\":\"DoesNotExist\"}]}: `selector` not auto-generated",
                    "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"a\",\"controller-uid\":\"u\",\"job-name\":\"a\"}: `selector` does not match template `labels`",
                ],
            ),
        ],
    );
    check_update(
        "batch.v1.Job",
        &[
            ("spec/parallelism", json!(2), &[]),
            ("spec/completions", json!(2), &["spec.completions: Invalid value: 2: field is immutable"]),
            ("spec/template/spec/containers/0/image", json!("other"), &["spec.template: Invalid value: {…"]),
        ],
    );
    let long = "a".repeat(53);
    check(
        "batch.v1.CronJob",
        &[
            (
                "spec/schedule",
                json!("* * * *"),
                &["spec.schedule: Invalid value: \"* * * *\": expected exactly 5 fields, found 4: [* * * *]"],
            ),
            (
                "spec/schedule",
                json!("TZ=UTC * * * * *"),
                &[
                    "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                ],
            ),
            ("spec/timeZone", json!("Europe/Berlin"), &[]),
            (
                "spec/timeZone",
                json!("Nowhere"),
                &["spec.timeZone: Invalid value: \"Nowhere\": unknown time zone Nowhere"],
            ),
            (
                "spec/concurrencyPolicy",
                json!("X"),
                &[
                    "spec.concurrencyPolicy: Unsupported value: \"X\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
                ],
            ),
            (
                "metadata/name",
                json!(long),
                &[&format!("metadata.name: Invalid value: \"{long}\": must be no more than 52 characters")],
            ),
        ],
    );
}

#[test]
fn services_have_ports_and_keep_their_address() {
    let port = |name: &str, number: i64| json!({"name": name, "port": number, "targetPort": number, "protocol": "TCP"});
    check(
        "core.v1.Service",
        &[
            ("spec/ports", Value::Null, &["spec.ports: Required value"]),
            ("spec/ports", json!([port("", 80), port("b", 81)]), &["spec.ports[0].name: Required value"]),
            (
                "spec/ports",
                json!([port("a", 80), port("a", 81)]),
                &["spec.ports[1].name: Duplicate value: \"a\""],
            ),
            (
                "spec/ports",
                json!([port("a", 80), port("b", 80)]),
                &[
                    "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
                ],
            ),
            (
                "spec/ports",
                json!([port("a", 0)]),
                &[
                    "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                "spec/clusterIP",
                json!("x"),
                &["spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: first value must match `clusterIP`"],
            ),
            (
                "spec/type",
                json!("X"),
                &[
                    "spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
                ],
            ),
            (
                "spec/sessionAffinity",
                json!("ClientIP"),
                &[
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Required value: when session affinity type is ClientIP",
                ],
            ),
            (
                "spec/externalIPs",
                json!(["127.0.0.1"]),
                &[
                    "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                    "spec.externalTrafficPolicy: Required value",
                ],
            ),
            (
                "spec/externalTrafficPolicy",
                json!("Local"),
                &[
                    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                ],
            ),
        ],
    );
    let external = json!({"type": "ExternalName", "sessionAffinity": "None"});
    check("core.v1.Service", &[("spec", external, &["spec.externalName: Required value"])]);
    let (old, mut new) = (fine("core.v1.Service"), fine("core.v1.Service"));
    put(&mut new, "spec/clusterIP", json!("10.0.0.250"));
    put(&mut new, "spec/clusterIPs", json!(["10.0.0.250"]));
    let kept = "spec.clusterIPs[0]: Invalid value: [\"10.0.0.250\"]: may not change once set";
    told(update(resource("core.v1.Service"), &new, &old), &[kept], "address");
    check(
        "discovery.v1.EndpointSlice",
        &[
            (
                "endpoints/0/addresses",
                json!(["x"]),
                &[
                    "endpoints[0].addresses[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                "endpoints/0/addresses",
                json!([]),
                &["endpoints[0].addresses: Required value: must contain at least 1 address"],
            ),
            (
                "addressType",
                json!("X"),
                &["addressType: Unsupported value: \"X\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""],
            ),
        ],
    );
    check_update(
        "discovery.v1.EndpointSlice",
        &[("addressType", json!("FQDN"), &["addressType: Invalid value: \"FQDN\": field is immutable"])],
    );
    check(
        "core.v1.Endpoints",
        &[(
            "subsets",
            json!([{"addresses": [{"ip": "127.0.0.1"}]}]),
            &[
                "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ],
        )],
    );
}

#[test]
fn config_is_small_and_may_be_frozen() {
    check(
        "core.v1.ConfigMap",
        &[
            (
                "data",
                json!({"bad key": ""}),
                &[
                    "data[bad key]: Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                ],
            ),
            ("data", json!({"..": ""}), &["data[..]: Invalid value: \"..\": must not be '..'"]),
            (
                "data",
                json!({"k": "v".repeat(1048577)}),
                &["[]: Too long: may not be more than 1048576 bytes"],
            ),
        ],
    );
    let mut both = fine("core.v1.ConfigMap");
    put(&mut both, "data", json!({"k": ""}));
    put(&mut both, "binaryData", json!({"k": ""}));
    told(
        create(resource("core.v1.ConfigMap"), &both),
        &["data[k]: Invalid value: \"k\": duplicate of key present in binaryData"],
        "both",
    );
    let mut frozen = fine("core.v1.ConfigMap");
    put(&mut frozen, "immutable", json!(true));
    let mut changed = frozen.clone();
    put(&mut changed, "data", json!({"k": "v"}));
    told(
        update(resource("core.v1.ConfigMap"), &changed, &frozen),
        &["data: Forbidden: field is immutable when `immutable` is set"],
        "data",
    );
    let thawed = fine("core.v1.ConfigMap");
    told(
        update(resource("core.v1.ConfigMap"), &thawed, &frozen),
        &["immutable: Forbidden: field is immutable when `immutable` is set"],
        "immutable",
    );
    check_update(
        "core.v1.Secret",
        &[(
            "type",
            json!("example.com/other"),
            &["type: Invalid value: \"example.com/other\": field is immutable"],
        )],
    );
    let mut tls = fine("core.v1.Secret");
    put(&mut tls, "type", json!("kubernetes.io/tls"));
    put(&mut tls, "data", json!({"tls.crt": ""}));
    told(create(resource("core.v1.Secret"), &tls), &["data[tls.key]: Required value"], "tls");
    put(&mut tls, "type", json!("kubernetes.io/service-account-token"));
    told(
        create(resource("core.v1.Secret"), &tls),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        "token",
    );
    put(&mut tls, "type", json!("kubernetes.io/dockerconfigjson"));
    put(&mut tls, "data", json!({".dockerconfigjson": "eA=="}));
    told(
        create(resource("core.v1.Secret"), &tls),
        &["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": …"],
        "docker",
    );
}

#[test]
fn what_a_cluster_is_made_of_is_checked() {
    check(
        "core.v1.Node",
        &[
            (
                "spec",
                json!({"taints": [{"key": "a", "effect": "X"}]}),
                &[
                    "metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                ],
            ),
            (
                "spec",
                json!({"podCIDRs": ["10.0.0.1/24"]}),
                &[
                    "spec.podCIDRs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
                ],
            ),
            (
                "status",
                json!({"capacity": {"cpu": "-1"}}),
                &["status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0"],
            ),
        ],
    );
    check(
        "core.v1.LimitRange",
        &[
            (
                "spec",
                json!({"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}),
                &["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"],
            ),
            (
                "spec",
                json!({"limits": [{"type": "X"}]}),
                &[
                    "spec.limits[0].type: Invalid value: \"X\": must be a standard limit type or fully qualified",
                ],
            ),
        ],
    );
    check(
        "core.v1.ResourceQuota",
        &[
            (
                "spec",
                json!({"hard": {"pods": "1500m"}}),
                &["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"],
            ),
            (
                "spec",
                json!({"hard": {"foo": "1"}}),
                &[
                    "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                    "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota",
                ],
            ),
            ("spec", json!({"hard": {"count/pods": "1", "requests.a.io/gpu": "1"}}), &[]),
            (
                "spec",
                json!({"scopes": ["BestEffort", "NotBestEffort"]}),
                &["spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes"],
            ),
        ],
    );
    check(
        "coordination.v1.Lease",
        &[
            (
                "spec/leaseDurationSeconds",
                json!(0),
                &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
            ),
            (
                "spec/leaseTransitions",
                json!(-1),
                &["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ],
    );
    check(
        "core.v1.Event",
        &[
            ("eventTime", Value::Null, &[]),
            ("metadata/name", json!("Any_Name"), &[]),
            ("reportingInstance", Value::Null, &["reportingInstance: Required value"]),
        ],
    );
    let mut elsewhere = fine("core.v1.Event");
    put(&mut elsewhere, "eventTime", Value::Null);
    put(&mut elsewhere, "involvedObject/namespace", json!("other"));
    told(
        create(resource("core.v1.Event"), &elsewhere),
        &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
        "event",
    );
    check(
        "events.v1.Event",
        &[
            ("eventTime", Value::Null, &["eventTime: Required value"]),
            ("type", json!("X"), &["type: Invalid value: \"\": has invalid value: X"]),
            ("deprecatedCount", json!(1), &["count: Invalid value: \"\": needs to be unset"]),
        ],
    );
    check_update("core.v1.Namespace", &[("status", json!({"phase": "X"}), &[])]);
}

#[test]
fn storage_is_claimed_and_provided() {
    check(
        "core.v1.PersistentVolume",
        &[
            (
                "spec/capacity",
                Value::Null,
                &[
                    "spec.capacity: Required value",
                    "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                ],
            ),
            (
                "spec/accessModes",
                json!(["X"]),
                &[
                    "spec.accessModes: Unsupported value: \"X\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                ],
            ),
            ("spec/hostPath", Value::Null, &["spec: Required value: must specify a volume type"]),
            (
                "spec/nfs",
                json!({"server": "s", "path": "/"}),
                &["spec.nfs: Forbidden: may not specify more than 1 volume type"],
            ),
        ],
    );
    check_update(
        "core.v1.PersistentVolume",
        &[
            (
                "spec/hostPath/path",
                json!("/b"),
                &[
                    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
                ],
            ),
            (
                "spec/volumeMode",
                json!("Block"),
                &["volumeMode: Invalid value: \"Block\": field is immutable"],
            ),
        ],
    );
    check(
        "core.v1.PersistentVolumeClaim",
        &[
            (
                "spec/accessModes",
                json!([]),
                &["spec.accessModes: Required value: at least 1 access mode is required"],
            ),
            ("spec/resources", json!({}), &["spec.resources[storage]: Required value"]),
            (
                "spec/resources/requests/storage",
                json!("0"),
                &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
            ),
        ],
    );
    let fixed = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    check_update(
        "core.v1.PersistentVolumeClaim",
        &[
            ("spec/resources/requests/storage", json!("2Gi"), &[]),
            (
                "spec/resources/requests/storage",
                json!("512Mi"),
                &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
            ),
            ("spec/accessModes", json!(["ReadWriteMany"]), &[fixed]),
            ("spec/volumeName", json!("v"), &[]),
            ("spec/storageClassName", json!("s"), &[]),
        ],
    );
    check(
        "storage.v1.StorageClass",
        &[
            ("provisioner", Value::Null, &["provisioner: Required value"]),
            (
                "volumeBindingMode",
                json!("X"),
                &[
                    "volumeBindingMode: Unsupported value: \"X\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                ],
            ),
        ],
    );
    check_update(
        "storage.v1.StorageClass",
        &[("provisioner", json!("q"), &["provisioner: Forbidden: updates to provisioner are forbidden."])],
    );
    check(
        "storage.v1.CSIDriver",
        &[("spec/attachRequired", Value::Null, &["spec.attachRequired: Required value"])],
    );
    check_update(
        "storage.v1.VolumeAttachment",
        &[(
            "spec/nodeName",
            json!("m"),
            &[
                "spec: Invalid value: {\"attacher\":\"d\",\"nodeName\":\"m\",\"source\":{\"persistentVolumeName\":\"v\"}}: field is immutable",
            ],
        )],
    );
}

#[test]
fn networks_have_rules() {
    check(
        "networking.v1.Ingress",
        &[
            (
                "spec",
                json!({}),
                &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
            ),
            (
                "spec/rules/0/host",
                json!("10.0.0.1"),
                &["spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"],
            ),
            (
                "spec/rules/0/http/paths/0/path",
                json!("a"),
                &["spec.rules[0].http.paths[0].path: Invalid value: \"a\": must be an absolute path"],
            ),
            (
                "spec/rules/0/http/paths/0/pathType",
                Value::Null,
                &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
            ),
            (
                "spec/rules/0/http/paths/0/backend",
                json!({}),
                &[
                    "spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required",
                ],
            ),
        ],
    );
    check(
        "networking.v1.IngressClass",
        &[(
            "spec/controller",
            json!("x"),
            &[
                "spec.controller: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ],
        )],
    );
    check_update(
        "networking.v1.IngressClass",
        &[(
            "spec/controller",
            json!("a.io/c"),
            &["spec.controller: Invalid value: \"a.io/c\": field is immutable"],
        )],
    );
    check(
        "networking.v1.NetworkPolicy",
        &[
            (
                "spec/ingress",
                json!([{"from": [{}]}]),
                &["spec.ingress[0].from[0]: Required value: must specify a peer"],
            ),
            (
                "spec/ingress",
                json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]),
                &[
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                ],
            ),
            (
                "spec/egress",
                json!([{"ports": [{"port": 5, "endPort": 4}]}]),
                &[
                    "spec.egress[0].ports[0].endPort: Invalid value: 4: must be greater than or equal to `port`",
                ],
            ),
            (
                "spec/policyTypes",
                json!(["X"]),
                &["spec.policyTypes[0]: Unsupported value: \"X\": supported values: \"Ingress\", \"Egress\""],
            ),
        ],
    );
    check(
        "networking.v1.ServiceCIDR",
        &[
            ("spec", json!({"cidrs": ["10.0.0.0/24"]}), &[]),
            (
                "spec",
                json!({"cidrs": ["10.0.0.0/24", "10.0.1.0/24"]}),
                &[
                    "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one IP…",
                ],
            ),
        ],
    );
}

#[test]
fn roles_say_what_and_bindings_say_who() {
    check(
        "rbac.v1.Role",
        &[
            (
                "rules/0/verbs",
                json!([]),
                &["rules[0].verbs: Required value: verbs must contain at least one value"],
            ),
            (
                "rules/0/resources",
                Value::Null,
                &["rules[0].resources: Required value: resource rules must supply at least one resource"],
            ),
            (
                "rules",
                json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]),
                &[
                    "rules[0].nonResourceURLs: Invalid value: [\"/\"]: namespaced rules cannot apply to non-resource URLs",
                ],
            ),
        ],
    );
    check("rbac.v1.ClusterRole", &[("rules", json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]), &[])]);
    check(
        "rbac.v1.RoleBinding",
        &[
            (
                "roleRef/kind",
                json!("X"),
                &["roleRef.kind: Unsupported value: \"X\": supported values: \"Role\", \"ClusterRole\""],
            ),
            (
                "subjects/0/kind",
                json!("X"),
                &[
                    "subjects[0].kind: Unsupported value: \"X\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                ],
            ),
            ("subjects/0", json!({"kind": "ServiceAccount", "name": "s"}), &[]),
        ],
    );
    check(
        "rbac.v1.ClusterRoleBinding",
        &[(
            "subjects/0",
            json!({"kind": "ServiceAccount", "name": "s"}),
            &["subjects[0].namespace: Required value"],
        )],
    );
    check_update(
        "rbac.v1.RoleBinding",
        &[(
            "roleRef/name",
            json!("s"),
            &[
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"s\"}: cannot change roleRef",
            ],
        )],
    );
}

#[test]
fn policies_and_extensions_are_checked() {
    check(
        "scheduling.v1.PriorityClass",
        &[
            (
                "value",
                json!(1000000001),
                &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            ),
            (
                "metadata/name",
                json!("system-x"),
                &[
                    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
                ],
            ),
        ],
    );
    check_update(
        "scheduling.v1.PriorityClass",
        &[("value", json!(2), &["value: Forbidden: may not be changed in an update."])],
    );
    check(
        "policy.v1.PodDisruptionBudget",
        &[(
            "spec/maxUnavailable",
            json!("101%"),
            &[
                "spec: Invalid value: {\"maxUnavailable\":\"101%\",\"minAvailable\":1,\"selector\":{\"matchLabels\":{\"a\":\"b\"}}}: minAvailable and maxUnavailable cannot be both set",
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        )],
    );
    check(
        "autoscaling.v2.HorizontalPodAutoscaler",
        &[
            (
                "spec/minReplicas",
                json!(3),
                &["spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"],
            ),
            (
                "spec/metrics/0/resource",
                Value::Null,
                &[
                    "spec.metrics[0].resource: Required value: must populate information for the given metric source",
                ],
            ),
        ],
    );
    check_update(
        "node.v1.RuntimeClass",
        &[("handler", json!("i"), &["handler: Invalid value: \"i\": field is immutable"])],
    );
    check(
        "apiextensions.v1.CustomResourceDefinition",
        &[
            (
                "metadata/name",
                json!("wrong.b.io"),
                &["metadata.name: Invalid value: \"wrong.b.io\": must be spec.names.plural+\".\"+spec.group"],
            ),
            (
                "spec/scope",
                json!("Global"),
                &["spec.scope: Unsupported value: \"Global\": supported values: \"Cluster\", \"Namespaced\""],
            ),
        ],
    );
    check(
        "certificates.v1.CertificateSigningRequest",
        &[
            (
                "spec/signerName",
                json!("x"),
                &[
                    "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
                ],
            ),
            (
                "spec/request",
                json!("eA=="),
                &["spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST"],
            ),
        ],
    );
    check(
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        &[
            (
                "webhooks/0/name",
                json!("a"),
                &[
                    "webhooks[0].name: Invalid value: \"a\": should be a domain with at least three segments separated by dots",
                ],
            ),
            (
                "webhooks/0/sideEffects",
                Value::Null,
                &["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
            ),
            (
                "webhooks/0/clientConfig",
                json!({}),
                &["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
            ),
        ],
    );
}

#[test]
fn warnings_tell_of_what_is_old_or_odd() {
    let tell = |path: &str, value: Value| {
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
        assert_eq!(tell(path, value), [expected]);
    }
    let pod = fine("core.v1.Pod");
    assert!(warnings(resource("core.v1.Pod"), &pod, Some(&pod)).is_empty());
}

#[test]
fn no_document_makes_the_rules_panic() {
    let odd = [json!(null), json!([]), json!("é"), json!(-1), json!({"": null}), json!([{"": [null]}])];
    for resource in kinds::RESOURCES {
        for value in &odd {
            let mut document = fine(resource.ty);
            let names: Vec<_> = document.as_object().unwrap().keys().cloned().collect();
            for name in names {
                let before = document[&name].clone();
                document[&name] = value.clone();
                create(resource, &document);
                update(resource, &document, &fine(resource.ty));
                update_status(resource, &fine(resource.ty), &document);
                warnings(resource, &document, None);
                document[&name] = before;
            }
            create(resource, value);
        }
    }
}
