//! StorageClass.

use crate::{
    defaults::fields::{Object, set_default},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{age_of, or},
    },
    validation::{
        LATE, Step,
        document::{Faults, Node},
        names, selectors,
    },
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
        set_default(object, "reclaimPolicy", "Delete");
        set_default(object, "volumeBindingMode", "Immediate");
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, class: &Node, _: Option<&Node>, faults: &mut Faults) {
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

    /// What may change in a class of storage.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        faults.unchanged(&new.at("parameters"), &old.at("parameters"));
        faults.text_unchanged(&new.at("provisioner"), &old.at("provisioner"));
        for name in ["reclaimPolicy", "volumeBindingMode"] {
            faults.unchanged(&new.at(name), &old.at(name));
        }
    }

    fn columns(&self) -> &'static [Column] {
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

/// The name of who makes volumes, shown in lower case.
pub(crate) fn provisioner(provisioner: &Node, faults: &mut Faults) {
    if provisioner.text().is_empty() {
        faults.required(provisioner, "");
    } else {
        let lower = provisioner.text().to_ascii_lowercase();
        for fault in names::qualified(&lower) {
            faults.invalid(provisioner, lower.as_str(), &fault);
        }
    }
}

pub(crate) fn parameters(class: &Node, faults: &mut Faults) {
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
