//! PersistentVolume.

use crate::{
    admission::protect,
    defaults::quantities::round_quantities,
    defaults::volume,
    document::{Edit, FieldErrors, Fields, Node, Object, same_except},
    error::Error,
    kind::{Kind, Subresource},
    rest::{Registry, Target},
    schema::{self, Timestamp},
    strategy::{Creation, Strategy},
    table::{
        AGE, Column, NAME, row, text,
        words::{UNSET, age_of, joined, or},
    },
    validation::{
        Step, TWICE,
        storage::volume_spec,
        volumes,
        warnings::{self, Warnings},
    },
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
        object.object_or_new("status").set_if_zero("phase", "Pending");
        let spec = object.object_or_new("spec");
        spec.set_if_zero("persistentVolumeReclaimPolicy", "Retain");
        spec.set_default("volumeMode", "Filesystem");
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

    fn validate(&self, volume: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        volume_spec(&volume.at("spec"), false, errors);
    }

    /// Allows those changes that Kubernetes allows in a stored volume.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
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
            same_except(source.value, was.value, except)
        });
        if !same {
            let detail = "spec.persistentvolumesource is immutable after creation";
            errors.forbidden(&spec.at("persistentvolumesource"), detail);
        }
        errors.immutable(&new.at_as("spec.volumeMode", "volumeMode"), &old.at("spec.volumeMode"));
        let affinity = new.at_as("spec.nodeAffinity", "nodeAffinity");
        if before.has("nodeAffinity") && affinity.value != before.at("nodeAffinity").value {
            let detail = "field is immutable, except for updating from beta label to GA";
            errors.invalid(&affinity, affinity.value.clone(), detail);
        }
        if before.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
            let detail = "update from non-nil value to nil is forbidden";
            errors.forbidden(&spec.at("volumeAttributesClassName"), detail);
        }
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        volume_warnings(object, warnings);
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, volume: &Value, now: Timestamp) -> Vec<Value> {
        let claim = volume
            .field("spec.claimRef")
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
    or(document.entry_text(path, "storage"), "0")
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
    if document.is_deleting() { "Terminating" } else { document.text("status.phase") }
}

/// The storage class of a volume or a claim: from the annotation, which is older than the field, or else from the
/// field.
pub(crate) fn class(document: &Value) -> &str {
    or(document.annotation("volume.beta.kubernetes.io/storage-class"), document.text("spec.storageClassName"))
}

pub(crate) fn setting<'a>(document: &'a Value, path: &str) -> &'a str {
    document.field(path).and_then(Value::as_str).unwrap_or(UNSET)
}

/// Sets the time at which a volume reached its phase.
fn date_phase(new: &mut Value, old: &Value, now: Timestamp) {
    let (phase, before) = (new.text("status.phase").to_owned(), old.text("status.phase"));
    let (given, known) =
        (new.field("status.lastPhaseTransitionTime"), old.field("status.lastPhaseTransitionTime"));
    let at = match given {
        Some(given) if Some(given) != known => given.clone(),
        _ if phase != before => schema::time(now).into(),
        _ => known.cloned().unwrap_or_default(),
    };
    new.object_or_new("status").set("lastPhaseTransitionTime", (!at.is_null()).then_some(at));
}

fn volume_warnings(volume: &Node, warnings: &mut Warnings) {
    warnings::storage_class_annotation(volume, warnings);
    let spec = volume.at("spec");
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
             provisioning.";
        warnings.add(&spec.at("persistentVolumeReclaimPolicy"), text);
    }
    for (name, text) in warnings::OLD_SOURCES.iter().filter(|(name, _)| spec.has(name)) {
        warnings.add(&spec.at(name), text);
    }
}
