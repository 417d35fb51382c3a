//! Persistent volumes, claims to them, and what provides them.

use super::{
    document::{Faults, Node, same_but},
    names, resources, selectors, volumes, workloads,
};
use serde_json::json;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

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

/// What a volume is, be it an object or given inline where it is attached.
pub(crate) fn volume_spec(spec: &Node, inline: bool, faults: &mut Faults) {
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

/// A template of claims.
pub(crate) fn claim_template(template: &Node, faults: &mut Faults) {
    workloads::template_metadata(&template.at("metadata"), faults);
    claim_spec(&template.at("spec"), faults);
}

pub(crate) fn claim_spec(spec: &Node, faults: &mut Faults) {
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

/// An object whose spec stays what it is.
pub(crate) fn spec_is_fixed(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("spec"), &old.at("spec"));
}
