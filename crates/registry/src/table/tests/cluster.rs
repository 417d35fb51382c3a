//! Rows of everything else.

use super::*;

#[test]
fn nodes_and_namespaces_have_the_columns_of_kubernetes() {
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
fn small_kinds_have_the_columns_of_kubernetes() {
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
fn the_table_of_services_shows_their_addresses() {
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
    let check_endpoints = |subsets: Value, expected_cell: &str| {
        check("core.v1.Endpoints", json!({"subsets": subsets}), json!(["x", expected_cell, "5m"]));
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
fn services_and_ingresses_have_the_columns_of_kubernetes() {
    let rules = |hosts: &[&str]| hosts.iter().map(|host| json!({"host": host})).collect::<Value>();
    let check_ingress = |hosts: &[&str], expected_cell: &str| {
        check(
            "networking.v1.Ingress",
            json!({"spec": {"ingressClassName": "nginx", "rules": rules(hosts), "tls": [{}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}),
            json!(["x", "nginx", expected_cell, "1.1.1.1", "80, 443", "5m"]),
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
fn volumes_and_claims_have_the_columns_of_kubernetes() {
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
fn storage_classes_and_drivers_have_the_columns_of_kubernetes() {
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
fn roles_and_bindings_have_the_columns_of_kubernetes() {
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
fn webhooks_and_policies_have_the_columns_of_kubernetes() {
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
        for (params, expected_cell) in [
            (json!(null), "<unset>"),
            (json!({"name": "n"}), "*/n"),
            (json!({"name": "n", "namespace": "ns"}), "ns/n"),
            (json!({"selector": {"matchLabels": {"a": "b"}}}), "a=b"),
        ] {
            let spec = json!({"policyName": "p", "paramRef": params});
            let ty = format!("admissionregistration.v1.{ty}");
            check(&ty, json!({"spec": spec}), json!(["x", "p", expected_cell, "5m"]));
        }
    }
}

#[test]
fn flow_control_and_api_services_have_the_columns_of_kubernetes() {
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
