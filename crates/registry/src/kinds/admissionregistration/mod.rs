//! The kinds of `admissionregistration.k8s.io`.

pub(crate) mod webhooks;
pub(crate) mod match_rules;
pub(crate) mod policies;
mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        mutating_admission_policy::kind(),
        mutating_admission_policy_binding::kind(),
        mutating_webhook_configuration::kind(),
        validating_admission_policy::kind(),
        validating_admission_policy_binding::kind(),
        validating_webhook_configuration::kind(),
    ]
}
