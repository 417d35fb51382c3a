//! StorageClass.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{age_of, or},
    },
    validation::{LATE, Step, names, selectors},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.StorageClass", "storageclasses")
        .cluster_scoped()
        .short_names(&["sc"])
        .returns_deleted()
        .strategy(StorageClassStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Provisioner", "Who makes its volumes"),
    text("ReclaimPolicy", "What becomes of its volumes when they are released"),
    text("VolumeBindingMode", "When its volumes are made and bound"),
    text("AllowVolumeExpansion", "Whether its volumes can grow"),
    AGE,
];

struct StorageClassStrategy;

impl Strategy for StorageClassStrategy {
    fn set_defaults(&self, object: &mut Object) {
        object.set_default("reclaimPolicy", "Delete");
        object.set_default("volumeBindingMode", "Immediate");
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, class: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        provisioner(&class.at("provisioner"), errors);
        parameters(class, errors);
        errors.one_of_if_set(&class.at("reclaimPolicy"), &["Delete", "Retain"]);
        let mode = class.at("volumeBindingMode");
        if mode.exists() {
            errors.one_of_if_set(&mode, &["Immediate", "WaitForFirstConsumer"]);
        } else {
            errors.required(&mode, "");
        }
        selectors::topology_terms(class, "allowedTopologies", errors);
    }

    /// Rejects changes of the parameters, the provisioner, the reclaim policy and the binding mode.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable(&new.at("parameters"), &old.at("parameters"));
        errors.immutable_text(&new.at("provisioner"), &old.at("provisioner"));
        for name in ["reclaimPolicy", "volumeBindingMode"] {
            errors.immutable(&new.at(name), &old.at(name));
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        let default = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ]
        .into_iter()
        .any(|annotation| class.annotation(annotation) == "true");
        row![
            format!("{}{}", class.name(), if default { " (default)" } else { "" }),
            class.text("provisioner"),
            or(class.text("reclaimPolicy"), "Delete"),
            or(class.text("volumeBindingMode"), "Immediate"),
            class.flag("allowVolumeExpansion"),
            age_of(class, now),
        ]
    }
}

const PARAMETERS_MAX: usize = 512;

const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

/// Validates the name of a provisioner. Errors contain it in lower case.
pub(crate) fn provisioner(provisioner: &Node, errors: &mut FieldErrors) {
    if provisioner.as_text().is_empty() {
        errors.required(provisioner, "");
    } else {
        let lower = provisioner.as_text().to_ascii_lowercase();
        for error in names::qualified(&lower) {
            errors.invalid(provisioner, lower.as_str(), &error);
        }
    }
}

pub(crate) fn parameters(class: &Node, errors: &mut FieldErrors) {
    let parameters = class.at("parameters");
    if class.length("parameters") > PARAMETERS_MAX {
        errors.too_long(&parameters, PARAMETERS_MAX);
        return;
    }
    let mut bytes = 0;
    for (key, value) in class.entries("parameters") {
        if key.is_empty() {
            errors.invalid(&parameters, key, "field can not be empty.");
        }
        bytes += key.len() + value.as_text().len();
    }
    if bytes > PARAMETERS_BYTES_MAX {
        errors.too_long(&parameters, PARAMETERS_BYTES_MAX);
    }
}
