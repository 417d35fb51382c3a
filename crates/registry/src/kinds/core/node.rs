//! Node.

use crate::{
    defaults::quantities::round_quantities,
    document::{Edit, FieldErrors, Fields, Node, Object},
    error::Error,
    kind::{At, Kind, SelectableField, Subresource, UnknownField, path},
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, UNKNOWN, age_of, joined, or},
    },
    validation::{LATE, Step, names, resources, warnings::Warnings},
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
        if let Some(spec) = object.object_mut("spec") {
            same_pod_cidrs(spec);
        }
        if let Some(status) = object.object_mut("status") {
            if !status.is_filled("allocatable") {
                status.fill_from("allocatable", "capacity");
            }
            round_quantities(status, &["capacity", "allocatable"]);
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        document.object_or_new("spec").remove("configSource");
        if let Some(status) = document.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("config");
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, node: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        taints(node, errors);
        node_amounts(node, errors);
        declared_features(node, errors);
        let spec = node.at("spec");
        for range in spec.items("podCIDRs") {
            errors.invalid_each(&range, names::cidr(range.as_text()));
        }
        let sixes = spec.items("podCIDRs").filter(|range| range.as_text().contains(':')).count();
        if sixes > 1 || spec.length("podCIDRs") - sixes > 1 {
            let all = spec.at("podCIDRs");
            errors.invalid(&all, all.value.clone(), "may specify no more than one CIDR for each IP family");
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        node_change(new, old, errors)
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        node_change(new, old, errors)
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        if object.at("spec").has("configSource") {
            warnings.push("spec.configSource: the feature is removed");
        }
        if !object.at("spec").text("externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes");
        }
    }

    fn columns(&self) -> &[Column] {
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

fn node_amounts(node: &Node, errors: &mut FieldErrors) {
    let status = node.at("status");
    for map in ["capacity", "allocatable"] {
        let amounts = status.at(map);
        for (name, _) in status.entries(map) {
            let amount = amounts.at_as("", name);
            let given = status.entry(map, name);
            if resources::quantity(&given).is_some_and(|quantity| quantity.is_negative()) {
                errors.invalid(&amount, given.as_text(), "must be greater than or equal to 0");
            }
        }
    }
}

/// Taints. The paths of errors are in the metadata, where taints once were.
fn taints(node: &Node, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    let spec = node.at("spec");
    let meta = node.at("metadata");
    for (at, taint) in spec.items("taints").enumerate() {
        let reported_at = meta.item("taints", at);
        for error in names::qualified(taint.text("key")) {
            errors.invalid(&reported_at.at("key"), taint.text("key"), &error);
        }
        let wrong = names::label_value(taint.text("value"));
        if !wrong.is_empty() {
            errors.invalid(&reported_at.at("value"), taint.text("value"), &wrong.join(";"));
        }
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        match taint.text("effect") {
            "" => errors.required(&reported_at.at("effect"), ""),
            effect if known.contains(&effect) => {}
            effect => errors.not_supported(&reported_at.at("effect"), effect, &known),
        }
        if !seen.insert((taint.text("key"), taint.text("effect"))) {
            let shown = format!("{}: taints must be unique by key and effect pair", taint.value);
            errors.duplicate_formatted(&reported_at, &shown);
        }
    }
}

/// Allows those changes that Kubernetes allows in a stored node.
fn node_change(new: &Node, old: &Node, errors: &mut FieldErrors) {
    node_amounts(new, errors);
    declared_features(new, errors);
    let mut seen = Vec::new();
    let status = new.at("status");
    for address in status.items("addresses") {
        if seen.contains(&address.value) {
            errors.duplicate_formatted(&address, &address.value.to_string());
        }
        seen.push(address.value);
    }
    let (spec, before) = (new.at("spec"), old.at("spec"));
    if before.length("podCIDRs") > 0 {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        let changed = if before.length("podCIDRs") == spec.length("podCIDRs") {
            let pairs = spec.items("podCIDRs").zip(before.items("podCIDRs"));
            pairs.filter(|(new, old)| new.as_text() != old.as_text()).count()
        } else {
            1
        };
        // One error for each address that differs.
        for _ in 0..changed {
            errors.forbidden(&spec.at("podCIDRs"), detail);
        }
    }
    let provider = before.text("providerID");
    if !provider.is_empty() && provider != spec.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&spec.at("providerID"), detail);
    }
    taints(new, errors);
    if spec.text("externalID") != before.text("externalID") {
        errors.forbidden(&spec.at("externalID"), "may not be updated");
    }
}

/// Validates the declared features of a node: their names, their order, and that none is repeated.
fn declared_features(node: &Node, errors: &mut FieldErrors) {
    let status = node.at("status");
    for (at, feature) in status.items("declaredFeatures").enumerate() {
        let name = feature.as_text();
        if name.len() > FEATURE_BYTES_MAX {
            let detail =
                format!("invalid feature name {name:?}: must be no more than {FEATURE_BYTES_MAX} characters");
            errors.invalid(&feature, name, &detail);
        } else if !is_feature_name(name) {
            let detail = format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric \
                 characters and slashes"
            );
            errors.invalid(&feature, name, &detail);
        }
        let next = status.item("declaredFeatures", at + 1);
        if next.exists() && next.as_text() == name {
            errors.duplicate(&next, name);
        } else if next.exists() && next.as_text() < name {
            errors.invalid(&next, next.as_text(), "list must be sorted alphabetically");
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_word)
}

/// Sets the first range in the field for a single range and in the list. If they differ, the single one replaces the
/// list.
fn same_pod_cidrs(spec: &mut Object) {
    let first = spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).and_then(Value::as_str);
    match (spec.text("podCIDR"), first.unwrap_or_default()) {
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
    let labels = node.object("metadata.labels");
    let keys = labels.into_iter().flat_map(|labels| labels.keys());
    let mut roles: BTreeSet<&str> =
        keys.filter_map(|key| key.strip_prefix("node-role.kubernetes.io/")).collect();
    roles.insert(node.entry_text("metadata.labels", "kubernetes.io/role"));
    roles.remove("");
    or(&joined(roles.into_iter(), ","), NONE).to_owned()
}

fn node_address<'a>(node: &'a Value, ty: &str) -> &'a str {
    let address = node.list("status.addresses").iter().find(|address| address.text("type") == ty);
    address.map_or(NONE, |address| address.text("address"))
}

fn taint_until_ready(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let tainted = |taint: &Value| taint.text("key") == key && taint.text("effect") == "NoSchedule";
    if node.list("spec.taints").iter().any(tainted) {
        return;
    }
    let taints = node.object_or_new("spec").entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
}
