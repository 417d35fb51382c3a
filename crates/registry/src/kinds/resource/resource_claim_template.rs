//! ResourceClaimTemplate.

use crate::{
    document::{Edit, FieldErrors, Node, Object},
    kind::Kind,
    kinds::resource::resource_claim::{claim_spec, device_claim},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, cluster::name_and_age},
    validation::{LATE, Step, storage::spec_is_fixed, workloads},
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
        if let Some(template) = object.object_mut("spec") {
            claim_spec(template);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, template: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        workloads::template_metadata(&template.at("spec.metadata"), errors);
        device_claim(&template.at("spec.spec.devices"), errors);
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        spec_is_fixed(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        name_and_age(document, now)
    }
}
