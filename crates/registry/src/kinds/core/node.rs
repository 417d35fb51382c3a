//! Node.

use crate::{
    defaults::fields::{self, Object, child, fill_from, has_any, round_quantities},
    error::Error,
    kind::{At, Kind, SelectableField, Subresource, UnknownField, path},
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        read::{Read, entry},
        row, text,
        words::{NONE, UNKNOWN, age_of, joined, or},
    },
    validation::{
        LATE, Step,
        document::{Faults, Node},
        names, resources,
        warnings::Warnings,
    },
    value,
};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Node", "nodes")
        .cluster_scoped()
        .short_names(&["no"])
        .subresources([
            Subresource::new("proxy", &["create", "delete", "get", "patch", "update"]).of(
                "",
                "v1",
                "NodeProxyOptions",
            ),
            Subresource::status(),
        ])
        .stored_at("minions")
        .keeps_status()
        .selectable(
            [SelectableField::new("spec.unschedulable").at(At::Flag(path("spec.unschedulable")))],
            UnknownField::NotSupported,
        )
        .strategy(NodeStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether it is ready, and takes pods"),
    text("Roles", "What it is for"),
    AGE,
    text("Version", "The version of its kubelet"),
    text("Internal-IP", "Its address inside the cluster").wide(),
    text("External-IP", "Its address outside the cluster").wide(),
    text("OS-Image", "The operating system").wide(),
    text("Kernel-Version", "The version of the kernel").wide(),
    text("Container-Runtime", "What runs the containers, and its version").wide(),
];

struct NodeStrategy;

#[async_trait]
impl Strategy for NodeStrategy {
    async fn admit(&self, _: &Registry, _: Target<'_>, node: &mut Value) -> Result<Option<Error>, Error> {
        taint_until_ready(node);
        Ok(None)
    }

    fn set_defaults(&self, object: &mut Object) {
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

    fn drop_disabled_fields(&self, document: &mut Value) {
        value::fields(document, &["spec"]).remove("configSource");
        if let Some(status) = document.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("config");
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, node: &Node, _: Option<&Node>, faults: &mut Faults) {
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

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        node_change(new, old, faults)
    }

    fn validate_status(&self, new: &Node, old: &Node, faults: &mut Faults) {
        node_change(new, old, faults)
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        if object.at("spec").has("configSource") {
            warnings.push("spec.configSource: the feature is removed");
        }
        if !object.at("spec").text_of("externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes");
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, node: &Value, now: Timestamp) -> Vec<Value> {
        let info = |field: &str| or(node.text(field), UNKNOWN).to_owned();
        row![
            node.name(),
            node_status(node),
            node_roles(node),
            age_of(node, now),
            node.text("status.nodeInfo.kubeletVersion"),
            node_address(node, "InternalIP"),
            node_address(node, "ExternalIP"),
            info("status.nodeInfo.osImage"),
            info("status.nodeInfo.kernelVersion"),
            info("status.nodeInfo.containerRuntimeVersion"),
        ]
    }
}

const FEATURE_BYTES_MAX: usize = 253;

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
fn node_change(new: &Node, old: &Node, faults: &mut Faults) {
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

/// The first range has a field of its own, from when there was only one. Where they differ, that one counts.
fn same_pod_cidrs(spec: &mut Object) {
    let first = spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).and_then(Value::as_str);
    match (fields::text(spec, "podCIDR"), first.unwrap_or_default()) {
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

fn node_status(node: &Value) -> String {
    let ready = match node.condition("Ready") {
        Some(ready) if ready.text("status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if node.flag("spec.unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{ready}{closed}")
}

fn node_roles(node: &Value) -> String {
    let labels = node.map("metadata.labels");
    let keys = labels.into_iter().flat_map(|labels| labels.keys());
    let mut roles: BTreeSet<&str> =
        keys.filter_map(|key| key.strip_prefix("node-role.kubernetes.io/")).collect();
    roles.insert(entry(labels, "kubernetes.io/role"));
    roles.remove("");
    or(&joined(roles.into_iter(), ","), NONE).to_owned()
}

fn node_address<'a>(node: &'a Value, ty: &str) -> &'a str {
    let address = node.list("status.addresses").iter().find(|address| address.text("type") == ty);
    address.map_or(NONE, |address| address.text("address"))
}

fn taint_until_ready(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let tainted = |taint: &Value| {
        value::text(taint, &["key"]) == key && value::text(taint, &["effect"]) == "NoSchedule"
    };
    if value::list(node, &["spec", "taints"]).iter().any(tainted) {
        return;
    }
    let taints = value::fields(node, &["spec"]).entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
}
