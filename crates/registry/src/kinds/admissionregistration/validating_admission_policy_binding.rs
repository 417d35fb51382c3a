//! ValidatingAdmissionPolicyBinding.

use crate::{
    document::{FieldErrors, Node, Object},
    kind::{Generation, Kind},
    kinds::admissionregistration::policies::{
        POLICY_BINDING, admission_policy_binding, policy_binding, row_policy_binding,
    },
    schema::Timestamp,
    strategy::Strategy,
    table::Column,
    validation::{ITSELF, Step},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "admissionregistration.k8s.io",
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    )
    .cluster_scoped()
    .categories(&["api-extensions"])
    .requires_version()
    .generation(Generation::Spec)
    .takes_any_finalizer()
    .strategy(ValidatingAdmissionPolicyBindingStrategy)
    .not_enforced("webhooks and admission policies are kept but not called yet")
}

struct ValidatingAdmissionPolicyBindingStrategy;

impl Strategy for ValidatingAdmissionPolicyBindingStrategy {
    fn set_defaults(&self, object: &mut Object) {
        admission_policy_binding(object)
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        policy_binding(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        POLICY_BINDING
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        row_policy_binding(document, now)
    }
}
