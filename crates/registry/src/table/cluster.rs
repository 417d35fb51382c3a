//! The rows of what a cluster consists of: nodes, namespaces, configuration, events, devices.

use super::{
    AGE, Column, Form, NAME, boolean, integer,
    read::{Read, entry},
    row, text,
    words::{NONE, UNKNOWN, age, age_of, joined, or},
};
use crate::schema::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMS: &[Form] = &[
    Form {
        ty: "core.v1.Node",
        columns: &[
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
        ],
        cells: node,
    },
    Form {
        ty: "core.v1.Namespace",
        columns: &[NAME, text("Status", "Whether it is in use or being deleted"), AGE],
        cells: |namespace, now| {
            row![namespace.name(), namespace.text("status.phase"), age_of(namespace, now)]
        },
    },
    Form {
        ty: "core.v1.ComponentStatus",
        columns: &[
            NAME,
            text("Status", "Whether it is healthy"),
            text("Message", "What it says of its health"),
            text("Error", "Why it could not be asked"),
        ],
        cells: component_status,
    },
    Form {
        ty: "core.v1.ConfigMap",
        columns: &[NAME, text("Data", "How many entries it has"), AGE],
        cells: |map, now| {
            row![map.name(), entries(map, "data") + entries(map, "binaryData"), age_of(map, now)]
        },
    },
    Form {
        ty: "core.v1.Secret",
        columns: &[
            NAME,
            text("Type", "What the secret is for"),
            text("Data", "How many entries it has"),
            AGE,
        ],
        cells: |secret, now| {
            row![secret.name(), secret.text("type"), entries(secret, "data"), age_of(secret, now)]
        },
    },
    Form { ty: "core.v1.ServiceAccount", columns: &[NAME, AGE], cells: name_and_age },
    Form {
        ty: "core.v1.ResourceQuota",
        columns: &[
            NAME,
            text("Request", "What is requested, of what may be"),
            text("Limit", "What limits allow, of what they may"),
            AGE,
        ],
        cells: resource_quota,
    },
    Form { ty: "core.v1.Event", columns: EVENT, cells: event },
    Form { ty: "events.v1.Event", columns: EVENT, cells: event },
    Form {
        ty: "coordination.v1.Lease",
        columns: &[NAME, text("Holder", "Who holds it"), AGE],
        cells: |lease, now| row![lease.name(), lease.text("spec.holderIdentity"), age_of(lease, now)],
    },
    Form {
        ty: "scheduling.v1.PriorityClass",
        columns: &[
            NAME,
            integer("Value", "The priority of its pods"),
            boolean("Global-Default", "Whether pods are of it that name no class"),
            AGE,
            text("PreemptionPolicy", "Whether its pods may take the place of others"),
        ],
        cells: priority_class,
    },
    Form {
        ty: "node.v1.RuntimeClass",
        columns: &[NAME, text("Handler", "What runs the containers of its pods"), AGE],
        cells: |class, now| row![class.name(), class.text("handler"), age_of(class, now)],
    },
    Form { ty: "resource.v1.DeviceClass", columns: &[NAME, AGE], cells: name_and_age },
    Form { ty: "resource.v1.ResourceClaimTemplate", columns: &[NAME, AGE], cells: name_and_age },
    Form {
        ty: "resource.v1.ResourceClaim",
        columns: &[NAME, text("State", "Whether devices are allocated, and for someone"), AGE],
        cells: |claim, now| row![claim.name(), claim_state(claim), age_of(claim, now)],
    },
    Form {
        ty: "resource.v1.ResourceSlice",
        columns: &[
            NAME,
            text("Node", "The node that has the devices"),
            text("Driver", "Who offers the devices"),
            text("Pool", "The pool that the devices are of"),
            AGE,
        ],
        cells: resource_slice,
    },
    Form {
        ty: "meta.v1.Status",
        columns: &[
            text("Status", "Whether the request succeeded"),
            text("Reason", "Why it did not, in one word"),
            text("Message", "Why it did not"),
        ],
        cells: |status, _| row![status.text("status"), status.text("reason"), status.text("message")],
    },
];

const EVENT: &[Column] = &[
    text("Last Seen", "How long ago it last happened"),
    text("Type", "Whether it is a normal thing"),
    text("Reason", "What happened, in one word"),
    text("Object", "What it happened to"),
    text("Subobject", "The part that it happened to").wide(),
    text("Source", "Who tells it").wide(),
    text("Message", "What happened"),
    text("First Seen", "How long ago it first happened").wide(),
    text("Count", "How often it happened").wide(),
    NAME.wide(),
];

fn name_and_age(document: &Value, now: Timestamp) -> Vec<Value> {
    row![document.name(), age_of(document, now)]
}

/// How many entries a map has.
fn entries(document: &Value, path: &str) -> usize {
    document.map(path).map_or(0, |map| map.len())
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
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

fn component_status(component: &Value, _: Timestamp) -> Vec<Value> {
    let health = component.list("conditions").iter().find(|condition| condition.text("type") == "Healthy");
    let Some(health) = health else { return row![component.name(), "Unknown", "", ""] };
    let word = if health.text("status") == "True" { "Healthy" } else { "Unhealthy" };
    row![component.name(), word, health.text("message"), health.text("error")]
}

fn resource_quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (hard, used) = (quota.map("status.hard"), quota.map("status.used"));
    let resources = hard.into_iter().flat_map(|hard| hard.keys());
    let (limits, requests): (Vec<&String>, Vec<&String>) =
        resources.partition(|name| name.starts_with("limits."));
    let told = |resources: Vec<&String>| {
        let amounts = resources
            .into_iter()
            .map(|name| format!("{name}: {}/{}", or(entry(used, name), "0"), or(entry(hard, name), "0")));
        amounts.collect::<Vec<_>>().join(", ")
    };
    row![quota.name(), told(requests), told(limits), age_of(quota, now)]
}

/// Both kinds of event. The newer one has other names for the same fields.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |path, newer| or(event.text(path), event.text(newer));
    let time = |path, newer| event.time(path).or_else(|| event.time(newer));
    let first = time("firstTimestamp", "deprecatedFirstTimestamp").or_else(|| event.time("eventTime"));
    let last = time("lastTimestamp", "deprecatedLastTimestamp").or(first);
    let count = event.number("count").max(event.number("deprecatedCount"));
    let (last, count) = match event.set("series") {
        Some(series) => (series.time("lastObservedTime"), series.number("count")),
        None => (last, if count == 0 { 1 } else { count }),
    };
    row![
        age(last, now),
        event.text("type"),
        event.text("reason"),
        event_object(
            either("involvedObject.kind", "regarding.kind"),
            either("involvedObject.name", "regarding.name")
        ),
        either("involvedObject.fieldPath", "regarding.fieldPath"),
        event_source(
            or(
                either("source.component", "deprecatedSource.component"),
                either("reportingComponent", "reportingController"),
            ),
            or(either("source.host", "deprecatedSource.host"), event.text("reportingInstance")),
        ),
        either("message", "note").trim(),
        age(first, now),
        count,
        event.name(),
    ]
}

fn event_object(kind: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

fn event_source(component: &str, instance: &str) -> String {
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    row![
        class.name(),
        class.number("value"),
        class.flag("globalDefault"),
        age_of(class, now),
        class.text("preemptionPolicy"),
    ]
}

fn claim_state(claim: &Value) -> &'static str {
    let allocated = claim.set("status.allocation").is_some();
    let reserved = claim.length("status.reservedFor") > 0;
    match (claim.deleting(), allocated, reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}

fn resource_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    row![
        slice.name(),
        slice.text("spec.nodeName"),
        slice.text("spec.driver"),
        slice.text("spec.pool.name"),
        age_of(slice, now),
    ]
}
