//! ResourceQuota.

use crate::{
    defaults::quantities::round_quantities,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{age_of, or},
    },
    validation::{SPEC, Step, resources},
};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ResourceQuota", "resourcequotas")
        .short_names(&["quota"])
        .subresources([Subresource::status()])
        .returns_deleted()
        .strategy(ResourceQuotaStrategy)
        .not_enforced("quotas and limit ranges are kept but not enforced yet")
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Request", "What is requested, of what may be"),
    text("Limit", "What limits allow, of what they may"),
    AGE,
];

struct ResourceQuotaStrategy;

impl Strategy for ResourceQuotaStrategy {
    fn set_defaults(&self, object: &mut Object) {
        for part in ["spec", "status"] {
            if let Some(part) = object.object_mut(part) {
                round_quantities(part, &["hard", "used"]);
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    /// Validates the limits of a namespace.
    fn validate(&self, quota: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = quota.at("spec");
        quota_amounts(&spec, "hard", errors);
        let scopes = spec.at("scopes");
        for scope in spec.items("scopes") {
            if !SCOPES.contains(&scope.as_text()) {
                errors.invalid(&scopes, scopes.value.clone(), "unsupported scope");
            }
            for _ in spec.entries("hard").filter(|(name, _)| !may_be_scoped(scope.as_text(), name)) {
                errors.invalid(&scopes, scopes.value.clone(), "unsupported scope applied to resource");
            }
        }
        let listed: BTreeSet<_> = spec.items("scopes").map(|scope| scope.as_text()).collect();
        conflicting_scopes(&scopes, &listed, errors);
        let selector = spec.at("scopeSelector");
        let expressions = selector.at("matchExpressions");
        let mut selected = BTreeSet::new();
        for term in selector.items("matchExpressions") {
            let (scope, operator) = (term.text("scopeName"), term.text("operator"));
            if !SCOPES.contains(&scope) {
                errors.invalid(&expressions.at("scopeName"), scope, "unsupported scope");
            }
            for _ in spec.entries("hard").filter(|(name, _)| !may_be_scoped(scope, name)) {
                let detail = "unsupported scope applied to resource";
                errors.invalid(&expressions, selector.at("matchExpressions").value.clone(), detail);
            }
            let only_exists =
                ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
            if only_exists.contains(&scope) && operator != "Exists" {
                let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                     ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                     ResourceQuotaScopeCrossNamespacePodAffinity";
                errors.invalid(&expressions.at("operator"), operator, detail);
            }
            match operator {
                "In" | "NotIn" if term.length("values") == 0 => errors.required(
                    &expressions.at("values"),
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                ),
                "Exists" | "DoesNotExist" if term.length("values") > 0 => errors.invalid(
                    &expressions.at("values"),
                    term.at("values").value.clone(),
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                _ => errors.invalid(&expressions.at("operator"), operator, "not a valid selector operator"),
            }
            selected.insert(scope);
        }
        conflicting_scopes(&expressions, &selected, errors);
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        let set = |spec: &Node| -> BTreeSet<String> {
            spec.items("scopes").map(|scope| scope.as_text().to_owned()).collect()
        };
        if set(&spec) != set(&before) {
            errors.invalid(&spec.at("scopes"), spec.at("scopes").value.clone(), "field is immutable");
        }
    }

    /// Validates the limits and the usage in the status.
    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let status = new.at("status");
        quota_amounts(&status, "hard", errors);
        quota_amounts(&status, "used", errors);
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, quota: &Value, now: Timestamp) -> Vec<Value> {
        let resources = quota.object("status.hard").into_iter().flat_map(Object::keys);
        let (limits, requests): (Vec<&String>, Vec<&String>) =
            resources.partition(|name| name.starts_with("limits."));
        let amounts_of = |resources: Vec<&String>| {
            let amounts = resources.into_iter().map(|name| {
                format!(
                    "{name}: {}/{}",
                    or(quota.entry_text("status.used", name), "0"),
                    or(quota.entry_text("status.hard", name), "0")
                )
            });
            amounts.collect::<Vec<_>>().join(", ")
        };
        row![quota.name(), amounts_of(requests), amounts_of(limits), age_of(quota, now)]
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn conflicting_scopes(at: &Node, scopes: &BTreeSet<&str>, errors: &mut FieldErrors) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(one) && scopes.contains(other) {
            errors.invalid(at, at.value.clone(), "conflicting scopes");
        }
    }
}

/// Whether a resource can be counted by scope: most scopes select pods, so only resources of pods can.
fn may_be_scoped(scope: &str, resource: &str) -> bool {
    const OF_PODS: [&str; 6] =
        ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    const OTHERS: [&str; 12] = [
        "ephemeral-storage",
        "limits.ephemeral-storage",
        "requests.ephemeral-storage",
        "requests.storage",
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    ];
    match scope {
        "BestEffort" => !OF_PODS.contains(&resource) && !OTHERS.contains(&resource),
        "VolumeAttributesClass" => {
            !OF_PODS.contains(&resource)
                && resource != "pods"
                && (!OTHERS.contains(&resource)
                    || matches!(resource, "requests.storage" | "persistentvolumeclaims"))
        }
        _ => !OTHERS.contains(&resource),
    }
}

fn quota_amounts(parent: &Node, map: &str, errors: &mut FieldErrors) {
    for (name, amount) in parent.entries(map) {
        resources::quota_resource_name(name, &amount, errors);
        resources::amount(name, &amount, errors);
    }
}
