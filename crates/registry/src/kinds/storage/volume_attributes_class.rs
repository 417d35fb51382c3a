//! VolumeAttributesClass.

use crate::{
    admission::protect,
    document::{FieldErrors, Fields, Node},
    kind::Kind,
    kinds::storage::storage_class::{parameters, provisioner},
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{CHANGE_FIRST, Step},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.VolumeAttributesClass", "volumeattributesclasses")
        .cluster_scoped()
        .short_names(&["vac"])
        .returns_deleted()
        .strategy(VolumeAttributesClassStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("DriverName", "The driver that its settings are for"), AGE];

struct VolumeAttributesClassStrategy;

impl Strategy for VolumeAttributesClassStrategy {
    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        protect(document, "kubernetes.io/vac-protection");
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_FIRST
    }

    fn validate(&self, class: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        provisioner(&class.at("driverName"), errors);
        parameters(class, errors);
        if class.length("parameters") == 0 {
            errors.required(&class.at("parameters"), "must contain at least one key/value pair");
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        for name in ["driverName", "parameters"] {
            if new.at(name).value != old.at(name).value {
                errors.forbidden(&new.at(name), &format!("updates to {name} are forbidden."));
            }
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        row![class.name(), class.text("driverName"), age_of(class, now)]
    }
}
