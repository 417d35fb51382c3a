//! CSIStorageCapacity.

use crate::{
    document::{FieldErrors, Node},
    kind::Kind,
    strategy::Strategy,
    validation::{LATE, Step, names, resources, selectors},
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

    /// Validates the storage class, the topology and the capacity.
    fn validate(&self, capacity: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let class = capacity.at("storageClassName");
        errors.invalid_each(&class, names::subdomain(class.as_text()));
        selectors::label_selector(&capacity.at("nodeTopology"), errors);
        let amount = capacity.at("capacity");
        if resources::quantity(&amount).is_some_and(|quantity| quantity.is_negative()) {
            errors.invalid(&amount, amount.as_text(), "must be greater than or equal to 0");
        }
    }

    /// Rejects changes of the topology and of the storage class.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        for name in ["nodeTopology", "storageClassName"] {
            errors.immutable(&new.at(name), &old.at(name));
        }
    }
}
