//! MutatingAdmissionPolicy.

use crate::{
    document::{FieldErrors, Node, Object},
    kind::{Generation, Kind},
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
        "admissionregistration.v1.MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
    )
    .cluster_scoped()
    .categories(&["api-extensions"])
    .requires_version()
    .generation(Generation::Spec)
    .takes_any_finalizer()
    .strategy(MutatingAdmissionPolicyStrategy)
    .not_enforced("webhooks and admission policies are kept but not called yet")
}

const COLUMNS: &[Column] = &[NAME, integer("Mutations", "How many changes it makes"), PARAM_KIND, AGE];

struct MutatingAdmissionPolicyStrategy;

impl Strategy for MutatingAdmissionPolicyStrategy {
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
        row_admission_policy(policy, "spec.mutations", now)
    }
}
