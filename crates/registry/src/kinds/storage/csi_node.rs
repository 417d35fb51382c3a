//! CSINode.

use crate::{
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, integer, read::Read, row, words::age_of},
    validation::{
        ITSELF, Step,
        document::{Faults, Node, same_but},
        names, volumes,
    },
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

    fn validate(&self, node: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = node.at("spec");
        let mut taken = BTreeSet::new();
        for driver in spec.items("drivers") {
            volumes::driver_name(&driver.at("name"), faults);
            let id = driver.at("nodeID");
            faults.given(&id);
            if id.text().len() > NODE_ID_BYTES_MAX {
                let detail = format!("must be {NODE_ID_BYTES_MAX} characters or less");
                faults.invalid(&id, id.text(), &detail);
            }
            if driver.has("allocatable") {
                faults.not_negative(&driver.at("allocatable.count"));
            }
            if !taken.insert(driver.text_of("name")) {
                faults.duplicate(&driver.at("name"), driver.text_of("name"));
            }
            // Keys are blamed as their driver.
            let mut keys = BTreeSet::new();
            for key in driver.items("topologyKeys") {
                if key.text().is_empty() {
                    faults.required(&driver, "");
                }
                if !keys.insert(key.text()) {
                    faults.duplicate(&driver, key.text());
                }
                for fault in names::qualified(key.text()) {
                    faults.invalid(&driver, key.text(), &fault);
                }
            }
        }
    }

    /// A driver that stays may only change how many volumes it can have.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        for was in before.items("drivers") {
            for is in spec.items("drivers").filter(|is| is.text_of("name") == was.text_of("name")) {
                if !same_but(is.value, was.value, &["allocatable"]) {
                    faults.invalid(&spec.at("drivers"), is.value.clone(), "field is immutable");
                }
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, node: &Value, now: Timestamp) -> Vec<Value> {
        row![node.name(), node.length("spec.drivers"), age_of(node, now)]
    }
}

const NODE_ID_BYTES_MAX: usize = 192;
