//! What pods are configured with and what a namespace allows: ConfigMaps, Secrets, namespaces, limits, quotas.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::de::IgnoredAny;

use super::{
    document::{Faults, Node},
    metadata, names, resources,
};
use crate::schema::Quantity;

const FEATURE_BYTES_MAX: usize = 253;
const DATA_BYTES_MAX: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

/// How many bytes the text stands for.
fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2).min(text.len() / 4 * 3)
}

fn keys(object: &Node, name: &str, size: fn(&str) -> usize, faults: &mut Faults) -> usize {
    let mut bytes = 0;
    for (key, value) in object.entries(name) {
        for fault in names::config_key(key) {
            faults.invalid(&value, key, &fault);
        }
        if name == "data" && object.at("binaryData").has(key) {
            faults.invalid(&value, key, "duplicate of key present in binaryData");
        }
        bytes += size(value.text());
    }
    bytes
}

/// A ConfigMap.
pub(super) fn config_map(map: &Node, _: Option<&Node>, faults: &mut Faults) {
    let bytes = keys(map, "data", str::len, faults) + keys(map, "binaryData", decoded_len, faults);
    if bytes > DATA_BYTES_MAX {
        faults.too_long(&map.at("[]"), DATA_BYTES_MAX);
    }
}

/// What may change in a ConfigMap.
pub(super) fn config_map_change(new: &Node, old: &Node, faults: &mut Faults) {
    frozen(new, old, &["data", "binaryData"], faults);
}

fn frozen(new: &Node, old: &Node, fields: &[&str], faults: &mut Faults) {
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        faults.forbidden(&new.at("immutable"), FROZEN);
    }
    for name in fields.iter().filter(|name| new.at(name).value != old.at(name).value) {
        faults.forbidden(&new.at(name), FROZEN);
    }
}

/// A Secret.
pub(super) fn secret(secret: &Node, _: Option<&Node>, faults: &mut Faults) {
    if keys(secret, "data", decoded_len, faults) > DATA_BYTES_MAX {
        faults.too_long(&secret.at("data"), DATA_BYTES_MAX);
    }
    let has = |key: &str| secret.at("data").has(key);
    let need = |key: &str, faults: &mut Faults| {
        if !has(key) {
            faults.required(&secret.entry("data", key), "");
        }
    };
    match secret.text_of("type") {
        "kubernetes.io/service-account-token" => {
            let meta = secret.at("metadata");
            faults.given(&meta.entry("annotations", "kubernetes.io/service-account.name"));
        }
        "kubernetes.io/dockercfg" => json_under(secret, ".dockercfg", faults),
        "kubernetes.io/dockerconfigjson" => json_under(secret, ".dockerconfigjson", faults),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need("username", faults);
            need("password", faults);
        }
        "kubernetes.io/ssh-auth" => faults.given(&secret.entry("data", "ssh-privatekey")),
        "kubernetes.io/tls" => {
            need("tls.crt", faults);
            need("tls.key", faults);
        }
        _ => {}
    }
}

fn json_under(secret: &Node, key: &str, faults: &mut Faults) {
    let value = secret.entry("data", key);
    if !value.exists() {
        faults.required(&value, "");
        return;
    }
    let text = STANDARD.decode(value.text()).unwrap_or_default();
    let wrong = match serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&text) {
        Ok(_) => return,
        Err(_) if text.is_empty() => "unexpected end of JSON input".to_owned(),
        Err(wrong) => wrong.to_string(),
    };
    faults.invalid(&value, "<secret contents redacted>", &wrong);
}

/// What may change in a Secret.
pub(super) fn secret_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("type"), &old.at("type"));
    frozen(new, old, &["data"], faults);
}

/// A namespace.
pub(super) fn namespace(namespace: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = namespace.at("spec");
    for finalizer in spec.items("finalizers") {
        for fault in names::qualified(finalizer.text()) {
            faults.invalid(&spec.at("finalizers"), finalizer.text(), &fault);
        }
        metadata::known_finalizer(&spec.at("finalizers").with(finalizer.value), faults);
    }
}

/// A namespace is active until it is deleted.
pub(super) fn namespace_status(new: &Node, _: &Node, faults: &mut Faults) {
    let phase = new.at_as("status.phase", "status.Phase");
    match (new.at("metadata").has("deletionTimestamp"), phase.text()) {
        (false, "Active") | (true, "Terminating") => {}
        (false, other) => {
            faults.invalid(&phase, other, "may only be 'Active' if `deletionTimestamp` is empty");
        }
        (true, other) => {
            faults.invalid(&phase, other, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    }
}

/// A node, new or changed.
pub(super) fn node(node: &Node, _: Option<&Node>, faults: &mut Faults) {
    taints(node, faults);
    node_amounts(node, faults);
    declared_features(node, faults);
    let spec = node.at("spec");
    for range in spec.items("podCIDRs") {
        faults.texts(&range, names::cidr(range.text()));
    }
    let sixes = spec.items("podCIDRs").filter(|range| range.text().contains(':')).count();
    if sixes > 1 || spec.len_of("podCIDRs") - sixes > 1 {
        let all = spec.at("podCIDRs");
        faults.invalid(&all, all.value.clone(), "may specify no more than one CIDR for each IP family");
    }
}

fn node_amounts(node: &Node, faults: &mut Faults) {
    let status = node.at("status");
    for map in ["capacity", "allocatable"] {
        let amounts = status.at(map);
        for (name, _) in status.entries(map) {
            let amount = amounts.at_as("", name);
            let given = status.entry(map, name);
            if resources::quantity(&given).is_some_and(|quantity| quantity.is_negative()) {
                faults.invalid(&amount, given.text(), "must be greater than or equal to 0");
            }
        }
    }
}

/// Taints are blamed in the metadata, where they once were.
fn taints(node: &Node, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    let spec = node.at("spec");
    let meta = node.at("metadata");
    for (at, taint) in spec.items("taints").enumerate() {
        let blamed = meta.item("taints", at);
        for fault in names::qualified(taint.text_of("key")) {
            faults.invalid(&blamed.at("key"), taint.text_of("key"), &fault);
        }
        let wrong = names::label_value(taint.text_of("value"));
        if !wrong.is_empty() {
            faults.invalid(&blamed.at("value"), taint.text_of("value"), &wrong.join(";"));
        }
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        match taint.text_of("effect") {
            "" => faults.required(&blamed.at("effect"), ""),
            effect if known.contains(&effect) => {}
            effect => faults.not_supported(&blamed.at("effect"), effect, &known),
        }
        if !seen.insert((taint.text_of("key"), taint.text_of("effect"))) {
            let shown = format!("{}: taints must be unique by key and effect pair", taint.value);
            faults.duplicate_shown(&blamed, &shown);
        }
    }
}

/// What may change in a node.
pub(super) fn node_change(new: &Node, old: &Node, faults: &mut Faults) {
    node_amounts(new, faults);
    declared_features(new, faults);
    let mut seen = Vec::new();
    let status = new.at("status");
    for address in status.items("addresses") {
        if seen.contains(&address.value) {
            faults.duplicate_shown(&address, &address.value.to_string());
        }
        seen.push(address.value);
    }
    let (spec, before) = (new.at("spec"), old.at("spec"));
    if before.len_of("podCIDRs") > 0 {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        let changed = if before.len_of("podCIDRs") == spec.len_of("podCIDRs") {
            let pairs = spec.items("podCIDRs").zip(before.items("podCIDRs"));
            pairs.filter(|(new, old)| new.text() != old.text()).count()
        } else {
            1
        };
        // One for each that is another.
        for _ in 0..changed {
            faults.forbidden(&spec.at("podCIDRs"), detail);
        }
    }
    let provider = before.text_of("providerID");
    if !provider.is_empty() && provider != spec.text_of("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        faults.forbidden(&spec.at("providerID"), detail);
    }
    taints(new, faults);
    if spec.text_of("externalID") != before.text_of("externalID") {
        faults.forbidden(&spec.at("externalID"), "may not be updated");
    }
}

/// What a node says it can do: names in order, each once.
fn declared_features(node: &Node, faults: &mut Faults) {
    let status = node.at("status");
    for (at, feature) in status.items("declaredFeatures").enumerate() {
        let name = feature.text();
        if name.len() > FEATURE_BYTES_MAX {
            let detail =
                format!("invalid feature name {name:?}: must be no more than {FEATURE_BYTES_MAX} characters");
            faults.invalid(&feature, name, &detail);
        } else if !is_feature_name(name) {
            let detail = format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric \
                 characters and slashes"
            );
            faults.invalid(&feature, name, &detail);
        }
        let next = status.item("declaredFeatures", at + 1);
        if next.exists() && next.text() == name {
            faults.duplicate(&next, name);
        } else if next.exists() && next.text() < name {
            faults.invalid(&next, next.text(), "list must be sorted alphabetically");
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_word)
}

/// Limits for what is in a namespace.
pub(super) fn limit_range(range: &Node, _: Option<&Node>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    let spec = range.at("spec");
    for limit in spec.items("limits") {
        let kind = limit.at("type");
        let wrong = names::qualified(kind.text());
        if wrong.is_empty()
            && !kind.text().contains('/')
            && !matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim")
        {
            faults.invalid(&kind, kind.text(), "must be a standard limit type or fully qualified");
        }
        faults.texts(&kind, wrong);
        if !seen.insert(kind.text()) {
            faults.duplicate(&kind, kind.text());
        }
        limit_names(&limit, faults);
        limit_amounts(&limit, faults);
    }
}

fn limit_names(limit: &Node, faults: &mut Faults) {
    let kind = limit.text_of("type");
    for map in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && map.starts_with("default") {
            if limit.len_of(map) > 0 {
                faults.forbidden(&limit.at(map), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, amount) in limit.entries(map) {
            if matches!(kind, "Pod" | "Container") {
                resources::container_resource_name(name, &amount, faults);
            } else {
                resources::resource_name(name, &amount, faults);
            }
        }
    }
    let has_storage = limit.at("min").has("storage") || limit.at("max").has("storage");
    if kind == "PersistentVolumeClaim" && !has_storage {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        faults.required(&limit.at("limits"), detail);
    }
}

fn limit_amounts(limit: &Node, faults: &mut Faults) {
    let maps = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let all: BTreeSet<_> = maps.iter().flat_map(|map| limit.entries(map).map(|(name, _)| name)).collect();
    for name in all {
        let (min, max) = (limit.entry("min", name), limit.entry("max", name));
        let (usual, asked) = (limit.entry("default", name), limit.entry("defaultRequest", name));
        let mut ordered =
            |low: &Node, low_name: &str, high: &Node, high_name: &str, blamed: &Node, value: &Node| {
                if let (Some(least), Some(most)) = (resources::quantity(low), resources::quantity(high))
                    && least > most
                {
                    let detail = format!(
                        "{low_name} value {} is greater than {high_name} value {}",
                        low.text(),
                        high.text()
                    );
                    faults.invalid(blamed, value.text(), &detail);
                }
            };
        ordered(&min, "min", &max, "max", &min, &min);
        ordered(&min, "min", &asked, "default request", &asked, &asked);
        ordered(&asked, "default request", &max, "max", &asked, &asked);
        ordered(&asked, "default request", &usual, "default limit", &asked, &asked);
        ordered(&min, "min", &usual, "default", &usual, &min);
        ordered(&usual, "default", &max, "max", &usual, &max);
        let ratio = limit.entry("maxLimitRequestRatio", name);
        if resources::quantity(&ratio).is_some_and(|ratio| ratio < Quantity::whole(1)) {
            faults.invalid(&ratio, ratio.text(), &format!("ratio {} is less than 1", ratio.text()));
        }
        let amounts = [&ratio, &min, &max].map(resources::quantity);
        if let [Some(most), Some(low), Some(high)] = amounts {
            let limit = high.millis() as f64 / low.millis() as f64;
            if most.millis() as f64 / 1000.0 > limit {
                let detail = format!("ratio {} is greater than max/min = {limit:.6}", ratio.text());
                faults.invalid(&ratio, ratio.text(), &detail);
            }
        }
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

/// How much of everything a namespace may have.
pub(super) fn resource_quota(quota: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = quota.at("spec");
    quota_amounts(&spec, "hard", faults);
    let scopes = spec.at("scopes");
    for scope in spec.items("scopes") {
        if !SCOPES.contains(&scope.text()) {
            faults.invalid(&scopes, scopes.value.clone(), "unsupported scope");
        }
        for _ in spec.entries("hard").filter(|(name, _)| !may_be_scoped(scope.text(), name)) {
            faults.invalid(&scopes, scopes.value.clone(), "unsupported scope applied to resource");
        }
    }
    let listed: BTreeSet<_> = spec.items("scopes").map(|scope| scope.text()).collect();
    conflicting_scopes(&scopes, &listed, faults);
    let selector = spec.at("scopeSelector");
    let expressions = selector.at("matchExpressions");
    let mut selected = BTreeSet::new();
    for term in selector.items("matchExpressions") {
        let (scope, operator) = (term.text_of("scopeName"), term.text_of("operator"));
        if !SCOPES.contains(&scope) {
            faults.invalid(&expressions.at("scopeName"), scope, "unsupported scope");
        }
        for _ in spec.entries("hard").filter(|(name, _)| !may_be_scoped(scope, name)) {
            let detail = "unsupported scope applied to resource";
            faults.invalid(&expressions, selector.at("matchExpressions").value.clone(), detail);
        }
        let only_exists =
            ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
        if only_exists.contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                 ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                 ResourceQuotaScopeCrossNamespacePodAffinity";
            faults.invalid(&expressions.at("operator"), operator, detail);
        }
        match operator {
            "In" | "NotIn" if term.len_of("values") == 0 => faults.required(
                &expressions.at("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if term.len_of("values") > 0 => faults.invalid(
                &expressions.at("values"),
                term.at("values").value.clone(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => faults.invalid(&expressions.at("operator"), operator, "not a valid selector operator"),
        }
        selected.insert(scope);
    }
    conflicting_scopes(&expressions, &selected, faults);
}

fn conflicting_scopes(at: &Node, scopes: &BTreeSet<&str>, faults: &mut Faults) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(one) && scopes.contains(other) {
            faults.invalid(at, at.value.clone(), "conflicting scopes");
        }
    }
}

/// Whether what a quota counts can be told apart by a scope: most scopes tell pods apart, so only what pods have.
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

fn quota_amounts(parent: &Node, map: &str, faults: &mut Faults) {
    for (name, amount) in parent.entries(map) {
        resources::quota_resource_name(name, &amount, faults);
        resources::amount(name, &amount, faults);
    }
}

/// A quota keeps its scopes.
pub(super) fn resource_quota_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let set = |spec: &Node| -> BTreeSet<String> {
        spec.items("scopes").map(|scope| scope.text().to_owned()).collect()
    };
    if set(&spec) != set(&before) {
        faults.invalid(&spec.at("scopes"), spec.at("scopes").value.clone(), "field is immutable");
    }
}

/// What of a quota is used.
pub(super) fn resource_quota_status(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    quota_amounts(&status, "hard", faults);
    quota_amounts(&status, "used", faults);
}
