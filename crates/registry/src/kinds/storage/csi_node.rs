//! CSINode.

use crate::{
    document::{FieldErrors, Fields, Node, same_except},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, integer, row, words::age_of},
    validation::{ITSELF, Step, names, volumes},
};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.CSINode", "csinodes")
        .cluster_scoped()
        .requires_version()
        .returns_deleted()
        .strategy(CSINodeStrategy)
}

const COLUMNS: &[Column] = &[NAME, integer("Drivers", "How many drivers the node has"), AGE];

struct CSINodeStrategy;

impl Strategy for CSINodeStrategy {
    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, node: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = node.at("spec");
        let mut taken = BTreeSet::new();
        for driver in spec.items("drivers") {
            volumes::driver_name(&driver.at("name"), errors);
            let id = driver.at("nodeID");
            errors.not_empty(&id);
            if id.as_text().len() > NODE_ID_BYTES_MAX {
                let detail = format!("must be {NODE_ID_BYTES_MAX} characters or less");
                errors.invalid(&id, id.as_text(), &detail);
            }
            if driver.has("allocatable") {
                errors.not_negative(&driver.at("allocatable.count"));
            }
            if !taken.insert(driver.text("name")) {
                errors.duplicate(&driver.at("name"), driver.text("name"));
            }
            // The path of an error in a key is that of the driver.
            let mut keys = BTreeSet::new();
            for key in driver.items("topologyKeys") {
                if key.as_text().is_empty() {
                    errors.required(&driver, "");
                }
                if !keys.insert(key.as_text()) {
                    errors.duplicate(&driver, key.as_text());
                }
                for error in names::qualified(key.as_text()) {
                    errors.invalid(&driver, key.as_text(), &error);
                }
            }
        }
    }

    /// Validates a change of a driver: only the number of its volumes may change.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        for was in before.items("drivers") {
            for is in spec.items("drivers").filter(|is| is.text("name") == was.text("name")) {
                if !same_except(is.value, was.value, &["allocatable"]) {
                    errors.invalid(&spec.at("drivers"), is.value.clone(), "field is immutable");
                }
            }
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, node: &Value, now: Timestamp) -> Vec<Value> {
        row![node.name(), node.length("spec.drivers"), age_of(node, now)]
    }
}

const NODE_ID_BYTES_MAX: usize = 192;
