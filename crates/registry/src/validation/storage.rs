//! Persistent volumes, claims to them, and what provides them.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    document::{Faults, Node, same_but},
    names, resources, selectors, volumes, workloads,
};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;
const NODE_ID_BYTES_MAX: usize = 192;

fn access_modes(spec: &Node, missing: &str, faults: &mut Faults) {
    let modes = spec.at("accessModes");
    if spec.len_of("accessModes") == 0 {
        faults.required(&modes, missing);
    }
    let (mut alone, mut shared) = (false, false);
    for mode in spec.items("accessModes") {
        match mode.text() {
            "ReadWriteOncePod" => alone = true,
            text if ACCESS_MODES.contains(&text) => shared = true,
            text => faults.not_supported(&modes, text, &ACCESS_MODES),
        }
    }
    if alone && shared {
        faults.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// A persistent volume.
pub(super) fn volume(volume: &Node, _: Option<&Node>, faults: &mut Faults) {
    volume_spec(&volume.at("spec"), false, faults);
}

/// What a volume is, be it an object or given inline where it is attached.
fn volume_spec(spec: &Node, inline: bool, faults: &mut Faults) {
    let only_in_objects: &[&str] =
        if inline { &["claimRef", "capacity", "nodeAffinity", "storageClassName"] } else { &[] };
    let is_out_of_place = |name: &str, faults: &mut Faults| {
        let is_out_of_place = only_in_objects.contains(&name) && spec.has(name);
        if is_out_of_place {
            faults.forbidden(&spec.at(name), "may not be specified in the context of inline volumes");
        }
        is_out_of_place
    };
    is_out_of_place("claimRef", faults);
    is_out_of_place("capacity", faults);
    if inline && !spec.has("csi") {
        faults.required(&spec.at("csi"), "has to be specified in the context of inline volumes");
    }
    access_modes(spec, "", faults);
    let capacity = spec.at("capacity");
    if spec.len_of("capacity") == 0 && !inline {
        faults.required(&capacity, "");
    }
    if (!capacity.has("storage") || spec.len_of("capacity") > 1) && !inline {
        faults.not_supported_shown(&capacity, &capacity.value.to_string(), "storage");
    }
    for (_, amount) in spec.entries("capacity") {
        resources::basic_amount(&amount, faults);
        resources::positive_amount(&amount, faults);
    }
    let reclaim = spec.at("persistentVolumeReclaimPolicy");
    if inline && !reclaim.text().is_empty() && reclaim.text() != "Retain" {
        faults.forbidden(&reclaim, "may only be Retain in the context of inline volumes");
    } else if !reclaim.text().is_empty() {
        faults.one_of(&reclaim, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.at("nodeAffinity");
    if !is_out_of_place("nodeAffinity", faults) && affinity.exists() {
        if affinity.has("required") {
            selectors::node_selector(&affinity.at("required"), faults);
        } else {
            faults.required(&affinity.at("required"), "must specify required node constraints");
        }
    }
    volumes::persistent(spec, faults);
    let root = spec.at("hostPath").text_of("path");
    if reclaim.text() == "Recycle" && !root.is_empty() && root.trim_matches('/').is_empty() {
        faults.forbidden(&reclaim, "may not be 'recycle' for a hostPath mount of '/'");
    }
    if !is_out_of_place("storageClassName", faults) {
        faults.if_given(&spec.at("storageClassName"), names::subdomain);
    }
    let mode = spec.at("volumeMode");
    if inline && mode.exists() && mode.text() != "Filesystem" {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        faults.forbidden(&mode, detail);
    } else {
        faults.if_given_one_of(&mode, &VOLUME_MODES);
    }
    let class = spec.at("volumeAttributesClassName");
    if class.exists() {
        if class.text().is_empty() {
            faults.required(&class, "an empty string is disallowed");
        } else {
            faults.texts(&class, names::subdomain(class.text()));
        }
        if !spec.has("csi") {
            faults.required(&spec.at("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// What may change in a persistent volume.
pub(super) fn volume_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let sources: BTreeSet<_> = [&spec, &before]
        .iter()
        .flat_map(|spec| spec.value.as_object().into_iter().flatten())
        .map(|(name, _)| name.as_str())
        .filter(|name| volumes::is_persistent_source(name))
        .collect();
    let same = sources.iter().all(|name| {
        let (source, was) = (spec.at(name), before.at(name));
        let may_expand = *name == "csi" && !was.has("controllerExpandSecretRef") && was.exists();
        let except: &[&str] = if may_expand { &["controllerExpandSecretRef"] } else { &[] };
        super::document::same_but(source.value, was.value, except)
    });
    if !same {
        let detail = "spec.persistentvolumesource is immutable after creation";
        faults.forbidden(&spec.at("persistentvolumesource"), detail);
    }
    faults.unchanged(&new.at_as("spec.volumeMode", "volumeMode"), &old.at("spec.volumeMode"));
    let affinity = new.at_as("spec.nodeAffinity", "nodeAffinity");
    if before.has("nodeAffinity") && affinity.value != before.at("nodeAffinity").value {
        let detail = "field is immutable, except for updating from beta label to GA";
        faults.invalid(&affinity, affinity.value.clone(), detail);
    }
    if before.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
        let detail = "update from non-nil value to nil is forbidden";
        faults.forbidden(&spec.at("volumeAttributesClassName"), detail);
    }
}

/// A claim.
pub(super) fn claim(claim: &Node, _: Option<&Node>, faults: &mut Faults) {
    claim_spec(&claim.at("spec"), faults);
}

/// A template of claims.
pub(super) fn claim_template(template: &Node, faults: &mut Faults) {
    workloads::template_metadata(&template.at("metadata"), faults);
    claim_spec(&template.at("spec"), faults);
}

pub(super) fn claim_spec(spec: &Node, faults: &mut Faults) {
    access_modes(spec, "at least 1 access mode is required", faults);
    selectors::label_selector(&spec.at("selector"), faults);
    let blamed = spec.entry("resources", "storage");
    let size = spec.at("resources.requests.storage");
    match resources::quantity(&size) {
        None if !size.exists() => faults.required(&blamed, ""),
        Some(quantity) if quantity <= crate::schema::Quantity::ZERO => {
            faults.invalid(&blamed, size.text(), "must be greater than zero");
        }
        _ => {}
    }
    faults.if_given(&spec.at("storageClassName"), names::subdomain);
    faults.if_given_one_of(&spec.at("volumeMode"), &VOLUME_MODES);
    for name in ["dataSource", "dataSourceRef"] {
        let source = spec.at(name);
        if !source.exists() {
            continue;
        }
        faults.given(&source.at("name"));
        faults.given(&source.at("kind"));
        let (group, kind) = (source.text_of("apiGroup"), source.text_of("kind"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            faults.invalid(&source, kind, detail);
        }
        faults.if_given(&source.at("apiGroup"), names::subdomain);
        faults.if_given(&source.at("namespace"), names::label);
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    if source.exists() && reference.exists() {
        if !reference.text_of("namespace").is_empty() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            faults.invalid(spec, json!({}), detail);
        } else if !same_but(source.value, reference.value, &["namespace"]) {
            // What upstream shows is not the value but the way to it, which has no fields of its own.
            faults.invalid(spec, json!({}), "must match dataSourceRef");
        }
    }
    faults.if_given(&spec.at("volumeAttributesClassName"), names::subdomain);
}

const CLAIM_IS_FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// What may change in a claim.
pub(super) fn claim_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let annotation = |claim: &Node| claim.at("metadata.annotations").value.get(STORAGE_CLASS).cloned();
    if annotation(new).unwrap_or_default() != annotation(old).unwrap_or_default() {
        let meta = new.at("metadata");
        let given = meta.entry("annotations", STORAGE_CLASS).text();
        let shown = format!("annotations.{STORAGE_CLASS}");
        faults.invalid(&meta.at_as("annotations", &shown), given, "field is immutable");
    }
    let bound = new.at("status").text_of("phase") == "Bound";
    let mut free = vec!["resources"];
    if before.text_of("volumeName").is_empty() {
        free.push("volumeName");
    }
    if !before.has("storageClassName") && spec.has("storageClassName") {
        free.push("storageClassName");
    }
    if bound && spec.has("volumeAttributesClassName") {
        free.push("volumeAttributesClassName");
    }
    let (resources, was) = (spec.at("resources"), before.at("resources"));
    let size_is_free: &[&str] = if bound { &["storage"] } else { &[] };
    let same = super::document::same_but(spec.value, before.value, &free)
        && super::document::same_but(resources.value, was.value, &["requests"])
        && super::document::same_but(resources.at("requests").value, was.at("requests").value, size_is_free);
    if !same {
        faults.forbidden(&spec, CLAIM_IS_FIXED);
    }
    let size = spec.at("resources.requests.storage");
    let asked = resources::quantity(&size).unwrap_or(crate::schema::Quantity::ZERO);
    let asked_before = resources::quantity(&before.at("resources.requests.storage"));
    let has =
        resources::quantity(&old.at("status.capacity.storage")).unwrap_or(crate::schema::Quantity::ZERO);
    if asked_before.is_some_and(|before| asked < before) && asked <= has {
        faults.forbidden(&size, "field can not be less than status.capacity");
    }
    faults.unchanged(&new.at_as("spec.volumeMode", "volumeMode"), &old.at("spec.volumeMode"));
    let class = spec.at("volumeAttributesClassName");
    if before.has("volumeAttributesClassName") && class.value != before.at("volumeAttributesClassName").value
    {
        if !class.exists() {
            faults.forbidden(&class, "update from non-nil value to nil is forbidden");
        } else if class.text().is_empty() {
            faults.forbidden(&class, "update from non-nil value to an empty string is forbidden");
        }
    }
}

/// What a claim got.
pub(super) fn claim_status(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    for (_, amount) in status.entries("capacity") {
        resources::basic_amount(&amount, faults);
    }
    let resizing = status.at("allocatedResourceStatuses");
    for (name, state) in status.entries("allocatedResourceStatuses") {
        claimed_resource_name(name, &resizing, faults);
        if !RESIZE_STATES.contains(&state.text()) {
            faults.not_supported(&resizing, name, &RESIZE_STATES);
        }
    }
    for (name, amount) in status.entries("allocatedResources") {
        let before = faults.0.len();
        claimed_resource_name(name, &status.at("allocatedResources"), faults);
        if faults.0.len() == before {
            resources::basic_amount(&amount, faults);
        }
        if faults.0.len() == before {
            resources::amount("storage", &amount, faults);
        }
    }
}

const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Of the resources that Kubernetes itself names, a claim is of storage alone.
fn claimed_resource_name(name: &str, at: &Node, faults: &mut Faults) {
    let details = names::qualified(name);
    if details.is_empty() && resources::is_native(name) && name != "storage" {
        faults.not_supported(at, name, &["storage"]);
    }
    for detail in details {
        faults.invalid(at, name, &detail);
    }
}

/// A class of storage.
pub(super) fn storage_class(class: &Node, _: Option<&Node>, faults: &mut Faults) {
    provisioner(&class.at("provisioner"), faults);
    parameters(class, faults);
    faults.if_given_one_of(&class.at("reclaimPolicy"), &["Delete", "Retain"]);
    let mode = class.at("volumeBindingMode");
    if mode.exists() {
        faults.if_given_one_of(&mode, &["Immediate", "WaitForFirstConsumer"]);
    } else {
        faults.required(&mode, "");
    }
    selectors::topology_terms(class, "allowedTopologies", faults);
}

/// The name of who makes volumes, shown in lower case.
fn provisioner(provisioner: &Node, faults: &mut Faults) {
    if provisioner.text().is_empty() {
        faults.required(provisioner, "");
    } else {
        let lower = provisioner.text().to_ascii_lowercase();
        for fault in names::qualified(&lower) {
            faults.invalid(provisioner, lower.as_str(), &fault);
        }
    }
}

fn parameters(class: &Node, faults: &mut Faults) {
    let parameters = class.at("parameters");
    if class.len_of("parameters") > PARAMETERS_MAX {
        faults.too_long(&parameters, PARAMETERS_MAX);
        return;
    }
    let mut bytes = 0;
    for (key, value) in class.entries("parameters") {
        if key.is_empty() {
            faults.invalid(&parameters, key, "field can not be empty.");
        }
        bytes += key.len() + value.text().len();
    }
    if bytes > PARAMETERS_BYTES_MAX {
        faults.too_long(&parameters, PARAMETERS_BYTES_MAX);
    }
}

/// What may change in a class of storage.
pub(super) fn storage_class_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("parameters"), &old.at("parameters"));
    faults.text_unchanged(&new.at("provisioner"), &old.at("provisioner"));
    for name in ["reclaimPolicy", "volumeBindingMode"] {
        faults.unchanged(&new.at(name), &old.at(name));
    }
}

/// A driver for storage.
pub(super) fn csi_driver(driver: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = driver.at("spec");
    for (name, shown) in [
        ("attachRequired", ATTACH),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.has(name) {
            faults.required(&spec.at(shown), "");
        }
    }
    faults.if_given_one_of(&spec.at("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
    let mut audiences = BTreeSet::new();
    for request in spec.items("tokenRequests") {
        if !audiences.insert(request.text_of("audience")) {
            faults.duplicate(&request.at("audience"), request.text_of("audience"));
            continue;
        }
        let seconds = request.at("expirationSeconds");
        match seconds.number() {
            Some(number) if number < 600 => {
                faults.invalid(&seconds, number, "may not specify a duration less than 10 minutes");
            }
            Some(number) if number > 1 << 32 => {
                faults.invalid(&seconds, number, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
    for mode in spec.items("volumeLifecycleModes") {
        if !matches!(mode.text(), "Persistent" | "Ephemeral") {
            faults.not_supported(&spec.at("volumeLifecycleModes"), mode.text(), &["Persistent", "Ephemeral"]);
        }
    }
    let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
    if let Some(seconds) = period.number().filter(|seconds| *seconds < 10) {
        faults.invalid(&period, seconds, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.at("serviceAccountTokenInSecrets");
    if in_secrets.exists() && spec.len_of("tokenRequests") == 0 {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        faults.invalid(&in_secrets, in_secrets.value.clone(), detail);
    }
}

/// What `attachRequired` is called when it is blamed.
const ATTACH: &str = "attachedRequired";

/// What may change in a driver for storage.
pub(super) fn csi_driver_change(new: &Node, old: &Node, faults: &mut Faults) {
    let spec = new.at("spec");
    faults.unchanged(&spec.at_as("attachRequired", ATTACH), &old.at("spec.attachRequired"));
    faults.unchanged(&spec.at("volumeLifecycleModes"), &old.at("spec.volumeLifecycleModes"));
}

/// The drivers for storage that a node has.
pub(super) fn csi_node(node: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = node.at("spec");
    let mut taken = BTreeSet::new();
    for driver in spec.items("drivers") {
        volumes::driver_name(&driver.at("name"), faults);
        let id = driver.at("nodeID");
        faults.given(&id);
        if id.text().len() > NODE_ID_BYTES_MAX {
            let detail = format!("must be {NODE_ID_BYTES_MAX} characters or less");
            faults.invalid(&id, id.text(), &detail);
        }
        if driver.has("allocatable") {
            faults.not_negative(&driver.at("allocatable.count"));
        }
        if !taken.insert(driver.text_of("name")) {
            faults.duplicate(&driver.at("name"), driver.text_of("name"));
        }
        // Keys are blamed as their driver.
        let mut keys = BTreeSet::new();
        for key in driver.items("topologyKeys") {
            if key.text().is_empty() {
                faults.required(&driver, "");
            }
            if !keys.insert(key.text()) {
                faults.duplicate(&driver, key.text());
            }
            for fault in names::qualified(key.text()) {
                faults.invalid(&driver, key.text(), &fault);
            }
        }
    }
}

/// A driver that stays may only change how many volumes it can have.
pub(super) fn csi_node_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    for was in before.items("drivers") {
        for is in spec.items("drivers").filter(|is| is.text_of("name") == was.text_of("name")) {
            if !same_but(is.value, was.value, &["allocatable"]) {
                faults.invalid(&spec.at("drivers"), is.value.clone(), "field is immutable");
            }
        }
    }
}

/// What became of attaching a volume.
pub(super) fn attachment_status(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    for name in ["attachError", "detachError"] {
        let error = status.at(name);
        let code = error.at("errorCode");
        if let Some(number) = code.number().filter(|number| *number < 0) {
            faults.invalid(&code, number, "must be between 0 and 2147483647, inclusive");
        }
    }
}

/// The attachment of a volume to a node.
pub(super) fn volume_attachment(attachment: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = attachment.at("spec");
    volumes::driver_name(&spec.at("attacher"), faults);
    let source = spec.at("source");
    match (source.has("inlineVolumeSpec"), source.has("persistentVolumeName")) {
        (false, false) => {
            faults.required(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
        }
        (true, true) => {
            faults
                .forbidden(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
        }
        (false, true) => {
            let name = source.at("persistentVolumeName");
            if name.text().is_empty() {
                faults.required(&name, "must specify non empty persistentVolumeName");
            }
            faults.texts(&name, names::subdomain(name.text()));
        }
        (true, false) => volume_spec(&source.at("inlineVolumeSpec"), true, faults),
    }
    let node = spec.at("nodeName");
    faults.texts(&node, names::subdomain(node.text()));
}

/// An object whose spec stays what it is.
pub(super) fn spec_is_fixed(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("spec"), &old.at("spec"));
}

/// A class of attributes of volumes.
pub(super) fn attributes_class(class: &Node, _: Option<&Node>, faults: &mut Faults) {
    provisioner(&class.at("driverName"), faults);
    parameters(class, faults);
    if class.len_of("parameters") == 0 {
        faults.required(&class.at("parameters"), "must contain at least one key/value pair");
    }
}

/// A class of attributes stays what it is.
pub(super) fn attributes_class_change(new: &Node, old: &Node, faults: &mut Faults) {
    for name in ["driverName", "parameters"] {
        if new.at(name).value != old.at(name).value {
            faults.forbidden(&new.at(name), &format!("updates to {name} are forbidden."));
        }
    }
}

/// How much storage there is in a part of the cluster.
pub(super) fn storage_capacity(capacity: &Node, _: Option<&Node>, faults: &mut Faults) {
    let class = capacity.at("storageClassName");
    faults.texts(&class, names::subdomain(class.text()));
    selectors::label_selector(&capacity.at("nodeTopology"), faults);
    let amount = capacity.at("capacity");
    if resources::quantity(&amount).is_some_and(|quantity| quantity.is_negative()) {
        faults.invalid(&amount, amount.text(), "must be greater than or equal to 0");
    }
}

/// What may change in a capacity.
pub(super) fn storage_capacity_change(new: &Node, old: &Node, faults: &mut Faults) {
    for name in ["nodeTopology", "storageClassName"] {
        faults.unchanged(&new.at(name), &old.at(name));
    }
}
