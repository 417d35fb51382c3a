//! Lease.

use crate::{
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        SPEC, Step,
        document::{Faults, Node},
        names,
    },
    value::fields,
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
        let spec = fields(document, &["spec"]);
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, lease: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = lease.at("spec");
        faults.positive(&spec.at("leaseDurationSeconds"));
        faults.not_negative(&spec.at("leaseTransitions"));
        let strategy = spec.at("strategy");
        if strategy.exists() {
            if strategy.text().contains('/') {
                faults.texts(&strategy, names::qualified(strategy.text()));
            } else {
                faults.if_given_one_of(&strategy, &["OldestEmulationVersion"]);
            }
        }
        if !spec.text_of("preferredHolder").is_empty() && strategy.text().is_empty() {
            faults.forbidden(&spec.at("preferredHolder"), "may only be specified if `strategy` is defined");
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, lease: &Value, now: Timestamp) -> Vec<Value> {
        row![lease.name(), lease.text("spec.holderIdentity"), age_of(lease, now)]
    }
}
