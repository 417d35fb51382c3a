//! Services, configuration, networks and storage.

use super::*;

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
    check_causes(update(resource("core.v1.Service"), &new, &old), &[kept], "address");
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
    check_causes(
        create(resource("core.v1.ConfigMap"), &both),
        &["data[k]: Invalid value: \"k\": duplicate of key present in binaryData"],
        "both",
    );
    let mut frozen = fine("core.v1.ConfigMap");
    put(&mut frozen, "immutable", json!(true));
    let mut changed = frozen.clone();
    put(&mut changed, "data", json!({"k": "v"}));
    check_causes(
        update(resource("core.v1.ConfigMap"), &changed, &frozen),
        &["data: Forbidden: field is immutable when `immutable` is set"],
        "data",
    );
    let thawed = fine("core.v1.ConfigMap");
    check_causes(
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
    check_causes(create(resource("core.v1.Secret"), &tls), &["data[tls.key]: Required value"], "tls");
    put(&mut tls, "type", json!("kubernetes.io/service-account-token"));
    check_causes(
        create(resource("core.v1.Secret"), &tls),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        "token",
    );
    put(&mut tls, "type", json!("kubernetes.io/dockerconfigjson"));
    put(&mut tls, "data", json!({".dockerconfigjson": "eA=="}));
    check_causes(
        create(resource("core.v1.Secret"), &tls),
        &["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": …"],
        "docker",
    );
}

#[test]
fn nodes_limit_ranges_quotas_and_leases_are_validated() {
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
    check_causes(
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
        &[("provisioner", json!("q"), &["provisioner: Invalid value: \"q\": field is immutable"])],
    );
    check(
        "storage.v1.CSIDriver",
        &[("spec/attachRequired", Value::Null, &["spec.attachedRequired: Required value"])],
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
                    "spec.egress[0].ports[0].endPort: Invalid value: 5: must be greater than or equal to `port`",
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
fn unchanged_endpoints_are_not_validated_against_a_new_address_type() {
    check_update(
        "discovery.v1.EndpointSlice",
        &[
            ("addressType", json!("IPv6"), &["addressType: Invalid value: \"IPv6\": field is immutable"]),
            (
                "endpoints/0/addresses/0",
                json!("2001:db8::1"),
                &["endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address"],
            ),
        ],
    );
}

#[test]
fn every_fixed_field_of_a_node_that_changes_is_named() {
    let node = |spec: Value| json!({"kind": "Node", "metadata": {"name": "a", "uid": "u"}, "spec": spec});
    let old = node(json!({
        "podCIDR": "192.0.2.0/24", "podCIDRs": ["192.0.2.0/24", "2001:db8::/64"], "providerID": "a://b",
    }));
    let new = node(json!({
        "podCIDR": "198.51.100.0/24", "podCIDRs": ["198.51.100.0/24", "2001:db8:1::/64"], "providerID": "a://c",
        "externalID": "x", "taints": [{"key": "k", "effect": "Bogus"}],
    }));
    let taint = "metadata.taints[0].effect: Unsupported value: \"Bogus\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"";
    let range = "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid";
    check_causes(
        update(resource("core.v1.Node"), &new, &old),
        &[
            taint,
            range,
            range,
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            taint,
            "spec.externalID: Forbidden: may not be updated",
        ],
        "all at once",
    );
}
