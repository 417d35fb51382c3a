//! PersistentVolumeClaim.

use crate::{
    admission::protect,
    defaults::storage::claim,
    document::{Edit, FieldErrors, Fields, Node, Object, same_except},
    error::Error,
    kind::{Kind, Subresource},
    kinds::core::persistent_volume::{VOLUME_MODE, access_modes, class, phase, setting, storage},
    kinds::known,
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{
        names, resources,
        storage::claim_spec,
        warnings::{self, Warnings},
    },
};
use async_trait::async_trait;
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.PersistentVolumeClaim", "persistentvolumeclaims")
        .short_names(&["pvc"])
        .subresources([Subresource::status()])
        .returns_deleted()
        .strategy(PersistentVolumeClaimStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether it is bound"),
    text("Volume", "The volume that it is bound to"),
    text("Capacity", "How much fits in the volume"),
    text("Access Modes", "How the volume can be mounted"),
    text("StorageClass", "The storage class that it asks for"),
    text("VolumeAttributesClass", "The class that says how the volume should perform"),
    AGE,
    VOLUME_MODE,
];

struct PersistentVolumeClaimStrategy;

#[async_trait]
impl Strategy for PersistentVolumeClaimStrategy {
    async fn admit(
        &self,
        registry: &Registry,
        _: Target<'_>,
        claim: &mut Value,
    ) -> Result<Option<Error>, Error> {
        protect(claim, "kubernetes.io/pvc-protection");
        if claim.field("spec.storageClassName").is_none() {
            let classes = known("storage.k8s.io", "storageclasses");
            let annotation = "storageclass.kubernetes.io/is-default-class";
            if let Some(class) = registry.default_of(classes, annotation).await? {
                claim.object_or_new("spec").insert("storageClassName".to_owned(), class.into());
            }
        }
        Ok(None)
    }

    fn set_defaults(&self, object: &mut Object) {
        claim(object)
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        document["status"] = json!({"phase": "Pending"});
        sync_data_source_fields(document, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        sync_data_source_fields(new, Some(old));
    }

    fn validate(&self, claim: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        claim_spec(&claim.at("spec"), errors);
    }

    /// Allows those changes that Kubernetes allows in a stored claim.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        let annotation = |claim: &Node| claim.at("metadata.annotations").value.get(STORAGE_CLASS).cloned();
        if annotation(new).unwrap_or_default() != annotation(old).unwrap_or_default() {
            let meta = new.at("metadata");
            let given = meta.entry("annotations", STORAGE_CLASS).as_text();
            let shown = format!("annotations.{STORAGE_CLASS}");
            errors.invalid(&meta.at_as("annotations", &shown), given, "field is immutable");
        }
        let bound = new.at("status").text("phase") == "Bound";
        let mut free = vec!["resources"];
        if before.text("volumeName").is_empty() {
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
        let same = same_except(spec.value, before.value, &free)
            && same_except(resources.value, was.value, &["requests"])
            && same_except(resources.at("requests").value, was.at("requests").value, size_is_free);
        if !same {
            errors.forbidden(&spec, CLAIM_IS_FIXED);
        }
        let size = spec.at("resources.requests.storage");
        let asked = resources::quantity(&size).unwrap_or(crate::schema::Quantity::ZERO);
        let asked_before = resources::quantity(&before.at("resources.requests.storage"));
        let has =
            resources::quantity(&old.at("status.capacity.storage")).unwrap_or(crate::schema::Quantity::ZERO);
        if asked_before.is_some_and(|before| asked < before) && asked <= has {
            errors.forbidden(&size, "field can not be less than status.capacity");
        }
        errors.immutable(&new.at_as("spec.volumeMode", "volumeMode"), &old.at("spec.volumeMode"));
        let class = spec.at("volumeAttributesClassName");
        if before.has("volumeAttributesClassName")
            && class.value != before.at("volumeAttributesClassName").value
        {
            if !class.exists() {
                errors.forbidden(&class, "update from non-nil value to nil is forbidden");
            } else if class.as_text().is_empty() {
                errors.forbidden(&class, "update from non-nil value to an empty string is forbidden");
            }
        }
    }

    /// Validates the status of a claim, such as its capacity.
    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let status = new.at("status");
        for (_, amount) in status.entries("capacity") {
            resources::basic_amount(&amount, errors);
        }
        let resizing = status.at("allocatedResourceStatuses");
        for (name, state) in status.entries("allocatedResourceStatuses") {
            claimed_resource_name(name, &resizing, errors);
            if !RESIZE_STATES.contains(&state.as_text()) {
                errors.not_supported(&resizing, name, &RESIZE_STATES);
            }
        }
        for (name, amount) in status.entries("allocatedResources") {
            let before = errors.0.len();
            claimed_resource_name(name, &status.at("allocatedResources"), errors);
            if errors.0.len() == before {
                resources::basic_amount(&amount, errors);
            }
            if errors.0.len() == before {
                resources::amount("storage", &amount, errors);
            }
        }
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        warnings::storage_class_annotation(object, warnings);
        warnings::claimed(&object.at("spec.resources"), warnings);
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, claim: &Value, now: Timestamp) -> Vec<Value> {
        let name = claim.text("spec.volumeName");
        let (capacity, modes) = match name {
            "" => Default::default(),
            _ => (storage(claim, "status.capacity"), access_modes(claim, "status.accessModes")),
        };
        row![
            claim.name(),
            phase(claim),
            name,
            capacity,
            modes,
            class(claim),
            setting(claim, "spec.volumeAttributesClassName"),
            age_of(claim, now),
            setting(claim, "spec.volumeMode"),
        ]
    }
}

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

const CLAIM_IS_FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Validates that a claim requests no resource of Kubernetes other than storage.
fn claimed_resource_name(name: &str, at: &Node, errors: &mut FieldErrors) {
    let details = names::qualified(name);
    if details.is_empty() && resources::is_native(name) && name != "storage" {
        errors.not_supported(at, name, &["storage"]);
    }
    for detail in details {
        errors.invalid(at, name, &detail);
    }
}

/// Copies `dataSource` and `dataSourceRef` to each other. In a new claim, `dataSource` alone may refer to claims and
/// snapshots only; any other reference is dropped. A reference to another namespace is kept only if it was stored.
fn sync_data_source_fields(claim: &mut Value, old: Option<&Value>) {
    let had = |name: &str| old.is_some_and(|old| old.field("spec").has(name));
    let spec = claim.object_or_new("spec");
    spec.retain(|name, value| !matches!(name.as_str(), "dataSource" | "dataSourceRef") || !value.is_null());
    let is_elsewhere = spec.get("dataSourceRef").is_some_and(|source| !source.text("namespace").is_empty());
    if is_elsewhere && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let is_known = |source: &Value| {
        matches!(
            (source.text("kind"), source.text("apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        )
    };
    let is_alone = !spec.contains_key("dataSourceRef") && !had("dataSource") && !had("dataSourceRef");
    if is_alone && spec.get("dataSource").is_some_and(|source| !is_known(source)) {
        spec.remove("dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) if !source.is_null() => {
            let mut reference = source;
            reference.make_object().entry("apiGroup").or_insert(Value::Null);
            spec.insert("dataSourceRef".to_owned(), reference);
        }
        (None, Some(mut source)) if source.text("namespace").is_empty() && !source.is_null() => {
            source.make_object().remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}
