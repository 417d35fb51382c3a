//! ResourceClaimTemplate.

use crate::{
    defaults::fields::{Object, child},
    kind::Kind,
    kinds::resource::resource_claim::{claim_spec, device_claim},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, cluster::name_and_age},
    validation::{
        LATE, Step,
        document::{Faults, Node},
        storage::spec_is_fixed,
        workloads,
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.ResourceClaimTemplate", "resourceclaimtemplates")
        .returns_deleted()
        .strategy(ResourceClaimTemplateStrategy)
}

const COLUMNS: &[Column] = &[NAME, AGE];

struct ResourceClaimTemplateStrategy;

impl Strategy for ResourceClaimTemplateStrategy {
    fn set_defaults(&self, object: &mut Object) {
        if let Some(template) = child(object, "spec") {
            claim_spec(template);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, template: &Node, _: Option<&Node>, faults: &mut Faults) {
        workloads::template_metadata(&template.at("spec.metadata"), faults);
        device_claim(&template.at("spec.spec.devices"), faults);
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        spec_is_fixed(new, old, faults)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        name_and_age(document, now)
    }
}
