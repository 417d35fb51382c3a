//! PersistentVolume.

use crate::{
    admission::protect,
    defaults::{
        fields::{Object, child_or_new, round_quantities, set_default, set_if_zero},
        volume,
    },
    error::Error,
    kind::{Kind, Subresource},
    rest::{Registry, Target},
    schema::{self, Timestamp},
    strategy::{Creation, Strategy},
    table::{
        AGE, Column, NAME,
        read::{Read, entry},
        row, text,
        words::{UNSET, age_of, joined, or},
    },
    validation::{
        self, Step, TWICE,
        document::{Faults, Node},
        storage::volume_spec,
        volumes,
        warnings::{self, Warnings},
    },
    value::{self, at, fields, set},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.PersistentVolume", "persistentvolumes")
        .cluster_scoped()
        .short_names(&["pv"])
        .subresources([Subresource::status()])
        .returns_deleted()
        .strategy(PersistentVolumeStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Capacity", "How much fits in it"),
    text("Access Modes", "How it can be mounted"),
    text("Reclaim Policy", "What becomes of it when it is released"),
    text("Status", "Whether it is bound"),
    text("Claim", "The claim that it is bound to"),
    text("StorageClass", "The storage class that it is of"),
    text("VolumeAttributesClass", "The class that says how it performs"),
    text("Reason", "Why it failed, in one word"),
    AGE,
    VOLUME_MODE,
];

struct PersistentVolumeStrategy;

#[async_trait]
impl Strategy for PersistentVolumeStrategy {
    async fn admit(&self, _: &Registry, _: Target<'_>, volume: &mut Value) -> Result<Option<Error>, Error> {
        protect(volume, "kubernetes.io/pv-protection");
        Ok(None)
    }

    fn set_defaults(&self, object: &mut Object) {
        set_if_zero(child_or_new(object, "status"), "phase", "Pending");
        let spec = child_or_new(object, "spec");
        set_if_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_default(spec, "volumeMode", "Filesystem");
        round_quantities(spec, &["capacity"]);
        volume::sources(spec);
    }

    fn prepare_create(&self, document: &mut Value, creation: &Creation<'_>) {
        document["status"] =
            json!({"phase": "Pending", "lastPhaseTransitionTime": schema::time(creation.now)});
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, now: Timestamp) {
        date_phase(new, old, now);
    }

    fn update_order(&self) -> &'static [Step] {
        TWICE
    }

    fn validate(&self, volume: &Node, _: Option<&Node>, faults: &mut Faults) {
        volume_spec(&volume.at("spec"), false, faults);
    }

    /// What may change in a persistent volume.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
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
            validation::document::same_but(source.value, was.value, except)
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

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        volume_warnings(object, warnings);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, volume: &Value, now: Timestamp) -> Vec<Value> {
        let claim = volume
            .set("spec.claimRef")
            .map_or_else(String::new, |claim| format!("{}/{}", claim.text("namespace"), claim.text("name")));
        row![
            volume.name(),
            storage(volume, "spec.capacity"),
            access_modes(volume, "spec.accessModes"),
            volume.text("spec.persistentVolumeReclaimPolicy"),
            phase(volume),
            claim,
            class(volume),
            setting(volume, "spec.volumeAttributesClassName"),
            volume.text("status.reason"),
            age_of(volume, now),
            setting(volume, "spec.volumeMode"),
        ]
    }
}

pub(crate) const VOLUME_MODE: Column = text("VolumeMode", "Whether it has a file system").wide();

pub(crate) fn storage<'a>(document: &'a Value, path: &str) -> &'a str {
    or(entry(document.map(path), "storage"), "0")
}

pub(crate) fn access_modes(document: &Value, path: &str) -> String {
    let modes = document.list(path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = short.iter().filter(|(mode, _)| modes.iter().any(|given| given == mode));
    joined(given.map(|(_, short)| *short), ",")
}

pub(crate) fn phase(document: &Value) -> &str {
    if document.deleting() { "Terminating" } else { document.text("status.phase") }
}

/// The storage class of a volume or a claim. There was an annotation for it before the field, and it comes first.
pub(crate) fn class(document: &Value) -> &str {
    or(document.annotation("volume.beta.kubernetes.io/storage-class"), document.text("spec.storageClassName"))
}

pub(crate) fn setting<'a>(document: &'a Value, path: &str) -> &'a str {
    document.set(path).and_then(Value::as_str).unwrap_or(UNSET)
}

/// A volume says since when it has its phase.
fn date_phase(new: &mut Value, old: &Value, now: Timestamp) {
    let (phase, before) =
        (value::text(new, &["status", "phase"]).to_owned(), value::text(old, &["status", "phase"]));
    let (given, known) =
        (at(new, &["status", "lastPhaseTransitionTime"]), at(old, &["status", "lastPhaseTransitionTime"]));
    let at = match given {
        Some(given) if Some(given) != known => given.clone(),
        _ if phase != before => schema::time(now).into(),
        _ => known.cloned().unwrap_or_default(),
    };
    set(fields(new, &["status"]), "lastPhaseTransitionTime", (!at.is_null()).then_some(at));
}

fn volume_warnings(volume: &Node, warnings: &mut Warnings) {
    warnings::storage_class_annotation(volume, warnings);
    let spec = volume.at("spec");
    if spec.text_of("persistentVolumeReclaimPolicy") == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
             provisioning.";
        warnings.add(&spec.at("persistentVolumeReclaimPolicy"), text);
    }
    for (name, text) in warnings::OLD_SOURCES.iter().filter(|(name, _)| spec.has(name)) {
        warnings.add(&spec.at(name), text);
    }
}
