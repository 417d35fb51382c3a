//! ValidatingWebhookConfiguration.

use crate::{
    document::{Edit, FieldErrors, Node, Object},
    kind::{Generation, Kind},
    kinds::admissionregistration::webhooks::{
        WEBHOOK_CONFIGURATION, fill_webhook, webhook_configuration, webhooks,
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
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
    .cluster_scoped()
    .categories(&["api-extensions"])
    .requires_version()
    .generation(Generation::Content)
    .takes_any_finalizer()
    .strategy(ValidatingWebhookConfigurationStrategy)
    .not_enforced("webhooks and admission policies are kept but not called yet")
}

struct ValidatingWebhookConfigurationStrategy;

impl Strategy for ValidatingWebhookConfigurationStrategy {
    /// Validating webhooks.
    fn set_defaults(&self, object: &mut Object) {
        object.objects_mut("webhooks").for_each(fill_webhook);
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        webhooks(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        WEBHOOK_CONFIGURATION
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        webhook_configuration(document, now)
    }
}
