//! Namespaces, nodes, secrets, and what rules resources and priorities.

use super::fields::{
    Object, child, child_or_new, children, fill_from, has_any, round_quantities, set_default, set_if_zero,
    text,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A secret. What was given as text becomes data like the rest.
pub(super) fn secret(object: &mut Object) {
    set_if_zero(object, "type", "Opaque");
    if let Some(Value::Object(texts)) = object.remove("stringData") {
        let data = child_or_new(object, "data");
        for (key, text) in texts {
            data.insert(key, BASE64_STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

/// A namespace, which carries its name as a label.
pub(super) fn namespace(object: &mut Object) {
    let metadata = child_or_new(object, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        child_or_new(metadata, "labels").insert(NAME_LABEL.to_owned(), name.into());
    }
    set_if_zero(child_or_new(object, "status"), "phase", "Active");
}

/// A node.
pub(super) fn node(object: &mut Object) {
    if let Some(spec) = child(object, "spec") {
        same_pod_cidrs(spec);
    }
    if let Some(status) = child(object, "status") {
        if !has_any(status, "allocatable") {
            fill_from(status, "allocatable", "capacity");
        }
        round_quantities(status, &["capacity", "allocatable"]);
    }
}

/// The first range has a field of its own, from when there was only one. Where they differ, that one counts.
fn same_pod_cidrs(spec: &mut Object) {
    let first = spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).and_then(Value::as_str);
    match (text(spec, "podCIDR"), first.unwrap_or_default()) {
        (single, first) if single == first => {}
        ("", first) => {
            let first = Value::from(first);
            spec.insert("podCIDR".to_owned(), first);
        }
        (single, _) => {
            let all = json!([single]);
            spec.insert("podCIDRs".to_owned(), all);
        }
    }
}

/// A range of limits. For containers, what is not said of defaults follows from the bounds.
pub(super) fn limit_range(object: &mut Object) {
    for item in child(object, "spec").into_iter().flat_map(|spec| children(spec, "limits")) {
        if text(item, "type") == "Container" {
            fill_from(item, "default", "max");
            fill_from(item, "defaultRequest", "default");
            fill_from(item, "defaultRequest", "min");
        }
        round_quantities(item, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
    }
}

/// A quota.
pub(super) fn resource_quota(object: &mut Object) {
    for part in ["spec", "status"] {
        if let Some(part) = child(object, part) {
            round_quantities(part, &["hard", "used"]);
        }
    }
}

/// A priority class.
pub(super) fn priority_class(object: &mut Object) {
    set_default(object, "preemptionPolicy", "PreemptLowerPriority");
}

/// A runtime class.
pub(super) fn runtime_class(object: &mut Object) {
    if let Some(overhead) = child(object, "overhead") {
        round_quantities(overhead, &["podFixed"]);
    }
}

#[cfg(test)]
mod tests {
    use crate::defaults::testing::check;
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
    fn all_that_a_node_has_can_be_allocated_if_it_does_not_say() {
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
            (
                json!({"podCIDR": "10.0.0.0/24"}),
                json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}),
            ),
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
}
