//! IPAddress.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::{Kind, NameRule},
    rest::{Registry, Target, document_of},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column, NAME, row, text,
        words::{NONE, joined},
    },
    validation::names,
};
use async_trait::async_trait;
use keepwatch_storage::Object;
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.IPAddress", "ipaddresses")
        .cluster_scoped()
        .short_names(&["ip"])
        .names(NameRule::Ip)
        .strategy(IPAddressStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("ParentRef", "The object that has the address")];

struct IPAddressStrategy;

#[async_trait]
impl Strategy for IPAddressStrategy {
    async fn after_deletion(&self, registry: &Registry, target: Target<'_>, last: &Object) {
        registry.restore_address(target.name, &document_of(&last.value, None)).await;
    }

    fn validate(&self, address: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let parent = address.at("spec.parentRef");
        if !parent.exists() {
            errors.required(&parent, "");
            return;
        }
        errors.valid_if_set(&parent.at("group"), names::subdomain);
        errors.valid_name(&parent.at("resource"), names::path_segment);
        errors.valid_name(&parent.at("name"), names::path_segment);
        errors.valid_if_set(&parent.at("namespace"), names::path_segment);
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable(&new.at("spec.parentRef"), &old.at("spec.parentRef"));
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, address: &Value, _: Timestamp) -> Vec<Value> {
        row![address.name(), parent(address)]
    }
}

/// The owner of an address: `services/default/kubernetes`.
pub(crate) fn parent(address: &Value) -> String {
    let Some(parent) = address.field("spec.parentRef") else { return NONE.to_owned() };
    let mut resource = parent.text("resource").to_lowercase();
    if !parent.text("group").is_empty() {
        resource = format!("{resource}.{}", parent.text("group").to_lowercase());
    }
    let parts = [resource.as_str(), parent.text("namespace")].into_iter().filter(|part| !part.is_empty());
    joined(parts.chain([parent.text("name")]), "/")
}
