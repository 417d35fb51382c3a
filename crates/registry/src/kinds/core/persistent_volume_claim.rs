//! PersistentVolumeClaim.

use crate::{
    admission::protect,
    defaults::{fields::Object, storage::claim},
    error::Error,
    kind::{Kind, Subresource},
    kinds::core::persistent_volume::{VOLUME_MODE, access_modes, class, phase, setting, storage},
    kinds::known,
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        self,
        document::{Faults, Node},
        names, resources,
        storage::claim_spec,
        warnings::{self, Warnings},
    },
    value::{self, at, fields},
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
        if at(claim, &["spec", "storageClassName"]).is_none() {
            let classes = known("storage.k8s.io", "storageclasses");
            let annotation = "storageclass.kubernetes.io/is-default-class";
            if let Some(class) = registry.default_of(classes, annotation).await? {
                fields(claim, &["spec"]).insert("storageClassName".to_owned(), class.into());
            }
        }
        Ok(None)
    }

    fn set_defaults(&self, object: &mut Object) {
        claim(object)
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        document["status"] = json!({"phase": "Pending"});
        agree_on_data_source(document, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        agree_on_data_source(new, Some(old));
    }

    fn validate(&self, claim: &Node, _: Option<&Node>, faults: &mut Faults) {
        claim_spec(&claim.at("spec"), faults);
    }

    /// What may change in a claim.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
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
        let same = validation::document::same_but(spec.value, before.value, &free)
            && validation::document::same_but(resources.value, was.value, &["requests"])
            && validation::document::same_but(
                resources.at("requests").value,
                was.at("requests").value,
                size_is_free,
            );
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
        if before.has("volumeAttributesClassName")
            && class.value != before.at("volumeAttributesClassName").value
        {
            if !class.exists() {
                faults.forbidden(&class, "update from non-nil value to nil is forbidden");
            } else if class.text().is_empty() {
                faults.forbidden(&class, "update from non-nil value to an empty string is forbidden");
            }
        }
    }

    /// What a claim got.
    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
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

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        warnings::storage_class_annotation(object, warnings);
        warnings::claimed(&object.at("spec.resources"), warnings);
    }

    fn columns(&self) -> &'static [Column] {
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

/// The two fields that say what a claim begins with say the same. Alone and new, the older one knows only claims and
/// snapshots: what else it names is dropped. Nothing comes from another namespace unless it already did.
fn agree_on_data_source(claim: &mut Value, old: Option<&Value>) {
    let had = |name: &str| old.is_some_and(|old| at(old, &["spec", name]).is_some_and(|had| !had.is_null()));
    let spec = fields(claim, &["spec"]);
    spec.retain(|name, value| !matches!(name.as_str(), "dataSource" | "dataSourceRef") || !value.is_null());
    let is_elsewhere =
        spec.get("dataSourceRef").is_some_and(|source| !value::text(source, &["namespace"]).is_empty());
    if is_elsewhere && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let is_known = |source: &Value| {
        matches!(
            (value::text(source, &["kind"]), value::text(source, &["apiGroup"])),
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
            fields(&mut reference, &[]).entry("apiGroup").or_insert(Value::Null);
            spec.insert("dataSourceRef".to_owned(), reference);
        }
        (None, Some(mut source)) if value::text(&source, &["namespace"]).is_empty() && !source.is_null() => {
            fields(&mut source, &[]).remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}
