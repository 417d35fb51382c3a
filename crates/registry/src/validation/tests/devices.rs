//! Devices and claims to them, and flow control.

use super::*;

const REFERENCE: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

#[test]
fn device_claims_name_their_requests() {
    let unknown = |at: &str, name: &str| format!("{at}: Invalid value: \"{name}\": {REFERENCE}");
    check(
        "resource.v1.ResourceClaim",
        &[
            (
                "spec/devices/requests/0/name",
                json!(""),
                &[
                    "spec.devices.requests[0].name: Invalid value: \"\": a lowercase RFC 1123 label…",
                    &unknown("spec.devices.constraints[0].requests[0]", "r"),
                    &unknown("spec.devices.config[0].requests[0]", "r"),
                ],
            ),
            (
                "spec/devices/requests/1/name",
                json!("r"),
                &[
                    "spec.devices.requests[1]: Duplicate value: \"r\"",
                    &unknown("spec.devices.constraints[0].requests[1]", "s/x"),
                ],
            ),
            (
                "spec/devices/requests/0/firstAvailable",
                json!([{}]),
                &[
                    "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
                ],
            ),
            (
                "spec/devices/requests/0/exactly/count",
                json!(0),
                &["spec.devices.requests[0].exactly.count: Invalid value: 0: must be greater than zero"],
            ),
            (
                "spec/devices/requests/1/firstAvailable/0/count",
                json!(2),
                &[
                    "spec.devices.requests[1].firstAvailable[0].count: Invalid value: 2: must not be specified when allocationMode is 'All'",
                ],
            ),
            (
                "spec/devices/requests/0/exactly/selectors",
                json!([{}]),
                &["spec.devices.requests[0].exactly.selectors[0].cel: Required value"],
            ),
            (
                "spec/devices/constraints/0/matchAttribute",
                json!("x"),
                &[
                    "spec.devices.constraints[0].matchAttribute: Invalid value: \"x\": a fully qualified name must be a domain and a name separated by a slash",
                ],
            ),
            (
                "spec/devices/constraints/0/matchAttribute",
                Value::Null,
                &[
                    "spec.devices.constraints[0]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
                ],
            ),
            (
                "spec/devices/config/0/opaque",
                json!({"driver": ""}),
                &[
                    "spec.devices.config[0].opaque.driver: Required value",
                    "spec.devices.config[0].opaque.parameters: Required value",
                ],
            ),
        ],
    );
    let fixed = "spec: Invalid value: {…";
    check_update("resource.v1.ResourceClaim", &[("spec/devices/config", json!([{}]), &[fixed])]);
    check_update(
        "resource.v1.ResourceClaimTemplate",
        &[
            ("spec/metadata/uid", json!("u"), &["spec.metadata.uID: Forbidden: cannot be set", fixed]),
            (
                "spec/spec/devices/config",
                json!([{}]),
                &["spec.spec.devices.config[0].opaque: Required value", fixed],
            ),
        ],
    );
    check(
        "resource.v1.DeviceClass",
        &[(
            "spec/extendedResourceName",
            json!("x"),
            &["spec.extendedResourceName: Invalid value: \"x\": must be a valid extended resource name"],
        )],
    );
}

#[test]
fn the_status_of_a_claim_has_what_was_allocated() {
    let check_status = |status: Value, expected: &[&str]| {
        let (old, mut new) = (fine("resource.v1.ResourceClaim"), fine("resource.v1.ResourceClaim"));
        new["status"] = status.clone();
        check_causes(
            update_part(resource("resource.v1.ResourceClaim"), Part::Status, &new, &old),
            expected,
            &status.to_string(),
        );
    };
    let device = json!({"driver": "d.io", "pool": "p", "device": "d"});
    let mut result = device.clone();
    result["request"] = json!("r");
    let allocation = json!({"devices": {"results": [result]}});
    check_status(json!({"allocation": allocation, "devices": [device]}), &[]);
    check_status(
        json!({"reservedFor": [{"resource": "pods", "name": "p"}]}),
        &[
            "status.reservedFor[0].uid: Required value",
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ],
    );
    check_status(
        json!({"allocation": allocation, "devices": [{"driver": "d.io", "pool": "p", "device": "e", "shareID": "x"}]}),
        &[
            "status.devices[0].shareID: Invalid value: \"x\": error validating uid: invalid UUID length: 1",
            "status.devices[0]: Invalid value: {\"Driver\":\"d.io\",\"Pool\":\"p\",\"Device\":\"e\",\"ShareID\":\"x\"}: must be an allocated device in the claim",
        ],
    );
    check_status(
        json!({"allocation": allocation, "devices": [
            {"driver": "d.io", "pool": "p", "device": "d", "conditions": [{"type": "T", "status": "X", "reason": "a b"}]},
        ]}),
        &[
            "status.devices[0].conditions[0].status: Unsupported value: \"X\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.devices[0].conditions[0].lastTransitionTime: Required value",
            "status.devices[0].conditions[0].reason: Invalid value: \"a b\": a condition reason must start with…",
        ],
    );
}

#[test]
fn resource_slices_have_a_location_and_devices() {
    let exactly_one =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    check(
        "resource.v1.ResourceSlice",
        &[
            ("spec/nodeName", Value::Null, &[&format!("spec: Required value: {exactly_one}")]),
            (
                "spec/allNodes",
                json!(true),
                &[&format!(
                    "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {exactly_one}, but multiple fields are set"
                )],
            ),
            (
                "spec/devices/0/allNodes",
                json!(true),
                &[
                    "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set…",
                ],
            ),
            (
                "spec/devices/0/attributes",
                json!({"a": {"version": "1.0"}, "b": {}}),
                &[
                    "spec.devices[0].attributes[a].version: Invalid value: \"1.0\": must be a string compatible with semver.org spec 2.0.0",
                    "spec.devices[0].attributes[b]: Invalid value: \"\": exactly one value must be specified",
                ],
            ),
            ("spec/devices/0/attributes", json!({"a": {"version": "1.0.0-rc.1+b.2"}}), &[]),
            (
                "spec/devices/0/capacity",
                json!({"m": {"value": "8", "requestPolicy": {"default": "3", "validRange": {"min": "1", "step": "4"}}}}),
                &[
                    "spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: \"3\": value is not a multiple of a given step (4) from (1)",
                ],
            ),
            (
                "spec/devices/0/taints",
                json!([{"key": "k", "effect": ""}]),
                &["spec.devices[0].taints[0].effect: Required value"],
            ),
            (
                "spec/devices/0/bindingConditions",
                json!(["x"]),
                &[
                    "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
                ],
            ),
        ],
    );
    check_update(
        "resource.v1.ResourceSlice",
        &[("spec/driver", json!("e.io"), &["spec.driver: Invalid value: \"e.io\": field is immutable"])],
    );
}

#[test]
fn flow_schemas_have_subjects_and_rules() {
    check(
        "flowcontrol.v1.FlowSchema",
        &[
            (
                "spec/distinguisherMethod",
                json!({"type": "X"}),
                &[
                    "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"X\"}: supported values: \"ByNamespace\", \"ByUser\"",
                ],
            ),
            (
                "spec/rules/0/subjects",
                json!([{"kind": "Group", "user": {}}, {"kind": "ServiceAccount", "serviceAccount": {"name": "*"}}]),
                &[
                    "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
                    "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
                    "spec.rules[0].subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account",
                ],
            ),
            (
                "spec/rules/0/resourceRules/0/verbs",
                json!(["go"]),
                &[
                    "spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"go\"]: supported values: \"create\"…",
                ],
            ),
            (
                "spec/rules/0/nonResourceRules",
                json!([{"verbs": ["*", "get"], "nonResourceURLs": ["/a*", "b"]}]),
                &[
                    "spec.rules[0].nonResourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"/a*\": wildcard can only do suffix matching",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"b\": must start with slash",
                ],
            ),
        ],
    );
    check(
        "flowcontrol.v1.PriorityLevelConfiguration",
        &[
            (
                "spec/limited/limitResponse/type",
                json!("Reject"),
                &[
                    "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited",
                ],
            ),
            (
                "spec/limited/limitResponse/queuing/handSize",
                json!(11),
                &[
                    "spec.limited.limitResponse.queuing.handSize: Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater than 60",
                ],
            ),
            (
                "spec/limited/lendablePercent",
                json!(101),
                &["spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"],
            ),
        ],
    );
}

#[test]
fn policy_bindings_refer_to_parameters() {
    check(
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        &[
            (
                "spec/paramRef",
                json!({}),
                &[
                    "spec.paramRef: Required value: one of name or selector must be specified",
                    "spec.paramRef.parameterNotFoundAction: Required value",
                ],
            ),
            (
                "spec/paramRef",
                json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}),
                &[
                    "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                    "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                ],
            ),
            (
                "spec/validationActions",
                Value::Null,
                &["spec.validationActions: Required value: at least one validation action is required"],
            ),
        ],
    );
    let webhooks = "admissionregistration.v1.ValidatingWebhookConfiguration";
    let service = |path: &str| json!({"service": {"name": "s", "namespace": "n", "path": path}});
    check(
        webhooks,
        &[
            (
                "webhooks/0/clientConfig",
                service("a/"),
                &[
                    "webhooks[0].clientConfig.service.path: Invalid value: \"a/\": must start with a '/'",
                    "webhooks[0].clientConfig.service.path: Invalid value: \"a/\": segment[0] may not be empty",
                ],
            ),
            ("webhooks/0/clientConfig", service("/a/b.c/"), &[]),
            (
                "webhooks/0/rules",
                json!([{
                    "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "pods/*", "pods/status", "pods"],
                }]),
                &[
                    "webhooks[0].rules[0].resources[2]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
                    "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods/*\",\"pods/status\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
                ],
            ),
        ],
    );
}

#[test]
fn only_the_limits_of_a_csi_node_driver_can_change() {
    check_update(
        "storage.v1.CSINode",
        &[
            ("spec/drivers/0/nodeID", json!("j"), &["spec.drivers: Invalid value: {…"]),
            ("spec/drivers/0/allocatable", json!({"count": 3}), &[]),
        ],
    );
    check(
        "storage.v1.CSINode",
        &[("spec/drivers/0/topologyKeys", json!(["k", "k"]), &["spec.drivers[0]: Duplicate value: \"k\""])],
    );
    check_update(
        "storage.v1.StorageClass",
        &[
            ("provisioner", json!("q"), &["provisioner: Invalid value: \"q\": field is immutable"]),
            (
                "parameters",
                json!({"a": "b"}),
                &["parameters: Invalid value: {\"a\":\"b\"}: field is immutable"],
            ),
        ],
    );
}

#[test]
fn claims_of_a_stateful_set_are_volumes_of_its_pods() {
    let claim = json!({
        "metadata": {"name": "Bad"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
    });
    check(
        "apps.v1.StatefulSet",
        &[
            (
                "spec/volumeClaimTemplates",
                json!([claim]),
                &["spec.template.spec.volumes[0].name: Invalid value: \"Bad\": a lowercase RFC 1123 label…"],
            ),
            ("spec/revisionHistoryLimit", json!(-1), &[]),
        ],
    );
    let mut set = fine("apps.v1.StatefulSet");
    put(&mut set, "spec/revisionHistoryLimit", json!(-1));
    assert_eq!(
        warnings(resource("apps.v1.StatefulSet"), &set, None),
        [
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        ]
    );
}

#[test]
fn problems_are_reported_as_often_and_where_kubernetes_does() {
    let file =
        json!([{"name": "A", "valueFrom": {"fileKeyRef": {"key": "K", "volumeName": "v", "path": "p"}}}]);
    let volume = "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName";
    check("core.v1.Pod", &[("spec/containers/0/env", file, &[&format!("{volume}: Not found: \"v\"")])]);
    check(
        "core.v1.Service",
        &[(
            "spec",
            json!({"type": "ClusterIP", "clusterIP": "x", "clusterIPs": ["x"], "sessionAffinity": "None"}),
            &[
                "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        )],
    );
    check(
        "node.v1.RuntimeClass",
        &[
            ("handler", Value::Null, &["handler: Required value"]),
            (
                "overhead",
                json!({"podFixed": {"cpu": "-1"}}),
                &["overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
            ),
        ],
    );
    let local = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/a"}, "csi": {},
        "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
    });
    check(
        "core.v1.PersistentVolume",
        &[
            (
                "spec",
                local,
                &[
                    "spec.nodeAffinity: Required value: Local volume requires node affinity",
                    "spec.csi: Forbidden: may not specify more than 1 volume type",
                ],
            ),
            (
                "spec/storageos",
                json!({"volumeName": "v", "secretRef": {"name": "s"}}),
                &["spec.storageos: Forbidden: may not specify more than 1 volume type"],
            ),
        ],
    );
    check(
        "core.v1.LimitRange",
        &[(
            "spec",
            json!({"limits": [{"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}]}),
            &[
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
            ],
        )],
    );
    check(
        "core.v1.ResourceQuota",
        &[(
            "spec",
            json!({"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["x"]}]}}),
            &[
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of…",
            ],
        )],
    );
    check(
        "apps.v1.DaemonSet",
        &[(
            "spec/updateStrategy/rollingUpdate/maxUnavailable",
            json!("x"),
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"x\": a valid percent string…",
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ],
        )],
    );
    let source = |name: &str| json!({"kind": "PersistentVolumeClaim", "name": name});
    let mut claim = fine("core.v1.PersistentVolumeClaim");
    put(&mut claim, "spec/dataSource", source("a"));
    put(&mut claim, "spec/dataSourceRef", source("b"));
    let expected = "spec: Invalid value: {}: must match dataSourceRef";
    check_causes(create(resource("core.v1.PersistentVolumeClaim"), &claim), &[expected], "dataSourceRef");
    let only = "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'";
    check_update("core.v1.Service", &[("spec/loadBalancerClass", json!("x"), &[only, only])]);
    let unknown = "spec.metrics[0].type: Unsupported value: \"x\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";
    check(
        "autoscaling.v2.HorizontalPodAutoscaler",
        &[("spec/metrics", json!([{"type": "x"}]), &[unknown, unknown])],
    );
    check_update(
        "networking.v1.IPAddress",
        &[(
            "spec",
            json!({}),
            &["spec.parentRef: Required value", "spec.parentRef: Invalid value: null: field is immutable"],
        )],
    );
    let kind = "policy.v1.PodDisruptionBudget";
    let (old, mut new) = (fine(kind), fine(kind));
    new["status"] = json!({"conditions": [{"type": "T", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]});
    check_causes(
        update_part(resource(kind), Part::Status, &new, &old),
        &["status.conditions[0].reason: Required value"],
        kind,
    );
}

#[test]
fn an_empty_list_counts_as_absent() {
    let (mut old, mut new) = (fine("storage.v1.CSINode"), fine("storage.v1.CSINode"));
    old["spec"]["drivers"][0]["topologyKeys"] = Value::Null;
    new["spec"]["drivers"][0]["topologyKeys"] = json!([]);
    check_causes(update(resource("storage.v1.CSINode"), &new, &old), &[], "topologyKeys");
}

#[test]
fn conditions_of_certificates_and_names_of_operators_and_drivers_are_checked() {
    let kind = "certificates.v1.CertificateSigningRequest";
    let (old, mut new) = (fine(kind), fine(kind));
    new["status"] = json!({"conditions": [{"type": "Approved", "status": "False"}, {"type": "Denied", "status": "True"}]});
    check_causes(
        update_part(resource(kind), Part::Status, &new, &old),
        &[
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
        ],
        kind,
    );
    check(
        kind,
        &[(
            "spec/request",
            Value::Null,
            &["spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST"],
        )],
    );
    check(
        "core.v1.Pod",
        &[(
            "spec/tolerations",
            json!([{"key": "k", "operator": "X"}]),
            &[
                "spec.tolerations[0].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\"",
            ],
        )],
    );
    check(
        "storage.v1.StorageClass",
        &[("provisioner", json!("A!"), &["provisioner: Invalid value: \"a!\": name part must consist of…"])],
    );
}
