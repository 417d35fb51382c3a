//! CSIStorageCapacity.

use crate::{
    kind::Kind,
    strategy::Strategy,
    validation::{
        LATE, Step,
        document::{Faults, Node},
        names, resources, selectors,
    },
};

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.CSIStorageCapacity", "csistoragecapacities")
        .requires_version()
        .strategy(CSIStorageCapacityStrategy)
}

struct CSIStorageCapacityStrategy;

impl Strategy for CSIStorageCapacityStrategy {
    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    /// How much storage there is in a part of the cluster.
    fn validate(&self, capacity: &Node, _: Option<&Node>, faults: &mut Faults) {
        let class = capacity.at("storageClassName");
        faults.texts(&class, names::subdomain(class.text()));
        selectors::label_selector(&capacity.at("nodeTopology"), faults);
        let amount = capacity.at("capacity");
        if resources::quantity(&amount).is_some_and(|quantity| quantity.is_negative()) {
            faults.invalid(&amount, amount.text(), "must be greater than or equal to 0");
        }
    }

    /// What may change in a capacity.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        for name in ["nodeTopology", "storageClassName"] {
            faults.unchanged(&new.at(name), &old.at(name));
        }
    }
}
