//! Pods.

use super::*;

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
fn volumes_have_one_source_with_its_required_fields() {
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
    check_causes(update(resource("core.v1.Pod"), &new, &old), &[], "a gated pod's nodes are narrowed");
    put(&mut old, "spec/activeDeadlineSeconds", json!(5));
    put(&mut new, "spec/activeDeadlineSeconds", json!(6));
    let longer = "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value";
    check_causes(update(resource("core.v1.Pod"), &new, &old), &[longer], "the deadline moves away");
}

#[test]
fn a_terminated_container_cannot_run_again() {
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
    check_causes(
        update_part(resource("core.v1.Pod"), Part::Status, &new, &old),
        &[
            "status.qosClass: Invalid value: \"BestEffort\": field is immutable",
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            "status.podIPs[0]: Invalid value: \"x\": must be a valid IP address…",
        ],
        "status",
    );
}

#[test]
fn the_hostname_of_a_pod_is_set_by_one_field() {
    let with = |more: Value| {
        let mut pod = fine("core.v1.Pod");
        put(&mut pod, "spec/hostnameOverride", json!("a.b"));
        let spec = pod["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        create(resource("core.v1.Pod"), &pod)
    };
    let refused =
        |field: &str| format!("spec.hostnameOverride: Forbidden: may not be specified when {field} is true");
    check_causes(with(json!({})), &[], "alone");
    check_causes(with(json!({"setHostnameAsFQDN": false})), &[], "not its domain");
    check_causes(with(json!({"setHostnameAsFQDN": true})), &[&refused("setHostnameAsFQDN")], "its domain");
    check_causes(with(json!({"hostNetwork": true})), &[&refused("hostNetwork")], "its node");
    let both = [&*refused("setHostnameAsFQDN"), &*refused("hostNetwork")];
    check_causes(with(json!({"hostNetwork": true, "setHostnameAsFQDN": true})), &both, "both");
}
