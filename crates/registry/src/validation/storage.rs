//! Persistent volumes, claims to them, and storage classes.

use super::{names, resources, selectors, volumes, workloads};
use crate::document::{FieldErrors, Fields, Node, same_except};
use serde_json::json;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

fn access_modes(spec: &Node, missing: &str, errors: &mut FieldErrors) {
    let modes = spec.at("accessModes");
    if spec.length("accessModes") == 0 {
        errors.required(&modes, missing);
    }
    let (mut alone, mut shared) = (false, false);
    for mode in spec.items("accessModes") {
        match mode.as_text() {
            "ReadWriteOncePod" => alone = true,
            text if ACCESS_MODES.contains(&text) => shared = true,
            text => errors.not_supported(&modes, text, &ACCESS_MODES),
        }
    }
    if alone && shared {
        errors.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Validates the spec of a volume, either of an object or inline in a volume attachment.
pub(crate) fn volume_spec(spec: &Node, inline: bool, errors: &mut FieldErrors) {
    let only_in_objects: &[&str] =
        if inline { &["claimRef", "capacity", "nodeAffinity", "storageClassName"] } else { &[] };
    let is_out_of_place = |name: &str, errors: &mut FieldErrors| {
        let is_out_of_place = only_in_objects.contains(&name) && spec.has(name);
        if is_out_of_place {
            errors.forbidden(&spec.at(name), "may not be specified in the context of inline volumes");
        }
        is_out_of_place
    };
    is_out_of_place("claimRef", errors);
    is_out_of_place("capacity", errors);
    if inline && !spec.has("csi") {
        errors.required(&spec.at("csi"), "has to be specified in the context of inline volumes");
    }
    access_modes(spec, "", errors);
    let capacity = spec.at("capacity");
    if spec.length("capacity") == 0 && !inline {
        errors.required(&capacity, "");
    }
    if (!capacity.has("storage") || spec.length("capacity") > 1) && !inline {
        errors.not_supported_formatted(&capacity, &capacity.value.to_string(), "storage");
    }
    for (_, amount) in spec.entries("capacity") {
        resources::basic_amount(&amount, errors);
        resources::positive_amount(&amount, errors);
    }
    let reclaim = spec.at("persistentVolumeReclaimPolicy");
    if inline && !reclaim.as_text().is_empty() && reclaim.as_text() != "Retain" {
        errors.forbidden(&reclaim, "may only be Retain in the context of inline volumes");
    } else if !reclaim.as_text().is_empty() {
        errors.one_of(&reclaim, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.at("nodeAffinity");
    if !is_out_of_place("nodeAffinity", errors) && affinity.exists() {
        if affinity.has("required") {
            selectors::node_selector(&affinity.at("required"), errors);
        } else {
            errors.required(&affinity.at("required"), "must specify required node constraints");
        }
    }
    volumes::persistent(spec, errors);
    let root = spec.at("hostPath").text("path");
    if reclaim.as_text() == "Recycle" && !root.is_empty() && root.trim_matches('/').is_empty() {
        errors.forbidden(&reclaim, "may not be 'recycle' for a hostPath mount of '/'");
    }
    if !is_out_of_place("storageClassName", errors) {
        errors.valid_if_set(&spec.at("storageClassName"), names::subdomain);
    }
    let mode = spec.at("volumeMode");
    if inline && mode.exists() && mode.as_text() != "Filesystem" {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(&mode, detail);
    } else {
        errors.one_of_if_set(&mode, &VOLUME_MODES);
    }
    let class = spec.at("volumeAttributesClassName");
    if class.exists() {
        if class.as_text().is_empty() {
            errors.required(&class, "an empty string is disallowed");
        } else {
            errors.invalid_each(&class, names::subdomain(class.as_text()));
        }
        if !spec.has("csi") {
            errors.required(&spec.at("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// A template of claims.
pub(crate) fn claim_template(template: &Node, errors: &mut FieldErrors) {
    workloads::template_metadata(&template.at("metadata"), errors);
    claim_spec(&template.at("spec"), errors);
}

pub(crate) fn claim_spec(spec: &Node, errors: &mut FieldErrors) {
    access_modes(spec, "at least 1 access mode is required", errors);
    selectors::label_selector(&spec.at("selector"), errors);
    let reported_at = spec.entry("resources", "storage");
    let size = spec.at("resources.requests.storage");
    match resources::quantity(&size) {
        None if !size.exists() => errors.required(&reported_at, ""),
        Some(quantity) if quantity <= crate::schema::Quantity::ZERO => {
            errors.invalid(&reported_at, size.as_text(), "must be greater than zero");
        }
        _ => {}
    }
    errors.valid_if_set(&spec.at("storageClassName"), names::subdomain);
    errors.one_of_if_set(&spec.at("volumeMode"), &VOLUME_MODES);
    for name in ["dataSource", "dataSourceRef"] {
        let source = spec.at(name);
        if !source.exists() {
            continue;
        }
        errors.not_empty(&source.at("name"));
        errors.not_empty(&source.at("kind"));
        let (group, kind) = (source.text("apiGroup"), source.text("kind"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid(&source, kind, detail);
        }
        errors.valid_if_set(&source.at("apiGroup"), names::subdomain);
        errors.valid_if_set(&source.at("namespace"), names::label);
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    if source.exists() && reference.exists() {
        if !reference.text("namespace").is_empty() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            errors.invalid(spec, json!({}), detail);
        } else if !same_except(source.value, reference.value, &["namespace"]) {
            // Kubernetes' error contains the field's path, which is an object without exported fields, instead of its
            // value.
            errors.invalid(spec, json!({}), "must match dataSourceRef");
        }
    }
    errors.valid_if_set(&spec.at("volumeAttributesClassName"), names::subdomain);
}

/// Rejects a change of the spec.
pub(crate) fn spec_is_fixed(new: &Node, old: &Node, errors: &mut FieldErrors) {
    errors.immutable(&new.at("spec"), &old.at("spec"));
}
