//! ValidatingAdmissionPolicy.

use crate::{
    document::{FieldErrors, Node, Object},
    kind::{Generation, Kind, Subresource},
    kinds::admissionregistration::policies::{
        PARAM_KIND, default_admission_policy, policy, row_admission_policy,
    },
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, integer},
    validation::{ITSELF, Step, metadata},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "admissionregistration.k8s.io",
        "admissionregistration.v1.ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    )
    .cluster_scoped()
    .categories(&["api-extensions"])
    .subresources([Subresource::status()])
    .requires_version()
    .generation(Generation::Spec)
    .status_keeps_metadata()
    .takes_any_finalizer()
    .strategy(ValidatingAdmissionPolicyStrategy)
    .not_enforced("webhooks and admission policies are kept but not called yet")
}

const COLUMNS: &[Column] = &[NAME, integer("Validations", "How many rules it checks"), PARAM_KIND, AGE];

struct ValidatingAdmissionPolicyStrategy;

impl Strategy for ValidatingAdmissionPolicyStrategy {
    fn set_defaults(&self, object: &mut Object) {
        default_admission_policy(object)
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        policy(new, old, errors)
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        metadata::conditions_of_status(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, policy: &Value, now: Timestamp) -> Vec<Value> {
        row_admission_policy(policy, "spec.validations", now)
    }
}
