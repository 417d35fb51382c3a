//! Lease.

use crate::{
    document::{Edit, FieldErrors, Fields, Node},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{SPEC, Step, names},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("coordination.k8s.io", "coordination.v1.Lease", "leases")
        .requires_version()
        .creates_on_update()
        .takes_any_finalizer()
        .strategy(LeaseStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("Holder", "Who holds it"), AGE];

struct LeaseStrategy;

impl Strategy for LeaseStrategy {
    fn drop_disabled_fields(&self, document: &mut Value) {
        let spec = document.object_or_new("spec");
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, lease: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = lease.at("spec");
        errors.positive(&spec.at("leaseDurationSeconds"));
        errors.not_negative(&spec.at("leaseTransitions"));
        let strategy = spec.at("strategy");
        if strategy.exists() {
            if strategy.as_text().contains('/') {
                errors.invalid_each(&strategy, names::qualified(strategy.as_text()));
            } else {
                errors.one_of_if_set(&strategy, &["OldestEmulationVersion"]);
            }
        }
        if !spec.text("preferredHolder").is_empty() && strategy.as_text().is_empty() {
            errors.forbidden(&spec.at("preferredHolder"), "may only be specified if `strategy` is defined");
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, lease: &Value, now: Timestamp) -> Vec<Value> {
        row![lease.name(), lease.text("spec.holderIdentity"), age_of(lease, now)]
    }
}
