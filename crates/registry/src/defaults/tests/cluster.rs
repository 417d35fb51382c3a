//! Namespaces, nodes, secrets, and what rules resources and priorities.

use crate::defaults::tests::check;
use serde_json::{Value, json};

#[test]
fn text_in_a_secret_becomes_data() {
    check(
        "core.v1.Secret",
        json!({"metadata": {"name": "s"}, "data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}}),
        "",
        json!({"metadata": {"name": "s"}, "data": {"a": "bmV3", "b": "Yg=="}, "type": "Opaque"}),
    );
    check(
        "core.v1.Secret",
        json!({"stringData": {"k": ""}, "type": "x"}),
        "",
        json!({"metadata": {}, "data": {"k": ""}, "type": "x"}),
    );
}

#[test]
fn a_namespace_is_active_and_labelled_with_its_name() {
    check(
        "core.v1.Namespace",
        json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "other", "a": "b"}}}),
        "",
        json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n", "a": "b"}},
            "spec": {}, "status": {"phase": "Active"},
        }),
    );
    check(
        "core.v1.Namespace",
        json!({"metadata": {"generateName": "n-"}, "status": {"phase": "Terminating"}}),
        "",
        json!({"metadata": {"generateName": "n-"}, "spec": {}, "status": {"phase": "Terminating"}}),
    );
}

#[test]
fn the_allocatable_resources_of_a_node_default_to_its_capacity() {
    for (given, wanted) in [
        (json!({"capacity": {"cpu": "4", "memory": "1024Mi"}}), json!({"cpu": "4", "memory": "1Gi"})),
        (json!({"capacity": {"cpu": "1u"}}), json!({"cpu": "1m"})),
        (json!({"capacity": {"cpu": "4"}, "allocatable": {"memory": "1Gi"}}), json!({"memory": "1Gi"})),
        (json!({}), Value::Null),
    ] {
        check("core.v1.Node", json!({"status": given}), "/status/allocatable", wanted);
    }
}

#[test]
fn the_first_range_of_a_node_stands_in_both_fields() {
    for (given, wanted) in [
        (json!({"podCIDR": "10.0.0.0/24"}), json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]})),
        (json!({"podCIDRs": ["a", "b"]}), json!({"podCIDR": "a", "podCIDRs": ["a", "b"]})),
        (json!({"podCIDR": "c", "podCIDRs": ["a", "b"]}), json!({"podCIDR": "c", "podCIDRs": ["c"]})),
        (json!({}), json!({})),
    ] {
        check("core.v1.Node", json!({"spec": given}), "/spec", wanted);
    }
}

#[test]
fn limits_of_containers_are_completed() {
    check(
        "core.v1.LimitRange",
        json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1n"}},
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}, "max": {"cpu": "3"}},
            {"type": "Pod", "max": {"cpu": "2"}},
            {"type": "Container"},
        ]}}),
        "/spec/limits",
        json!([
            {
                "type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1m"},
                "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1m"},
            },
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}, "max": {"cpu": "3"}},
            {"type": "Pod", "max": {"cpu": "2"}},
            {"type": "Container"},
        ]),
    );
}

#[test]
fn quantities_of_quotas_and_overheads_are_rounded() {
    check(
        "core.v1.ResourceQuota",
        json!({"spec": {"hard": {"cpu": "1n"}}, "status": {"hard": {"cpu": "1n"}, "used": {"cpu": "1n"}}}),
        "",
        json!({
            "metadata": {}, "spec": {"hard": {"cpu": "1m"}},
            "status": {"hard": {"cpu": "1m"}, "used": {"cpu": "1m"}},
        }),
    );
    check(
        "node.v1.RuntimeClass",
        json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1n"}}}),
        "",
        json!({"metadata": {}, "handler": "h", "overhead": {"podFixed": {"cpu": "1m"}}}),
    );
}

#[test]
fn higher_priorities_preempt() {
    check(
        "scheduling.v1.PriorityClass",
        json!({"value": 1}),
        "",
        json!({"metadata": {}, "value": 1, "preemptionPolicy": "PreemptLowerPriority"}),
    );
}
