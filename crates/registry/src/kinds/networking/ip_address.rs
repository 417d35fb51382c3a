//! IPAddress.

use crate::{
    kind::{Kind, NameRule},
    rest::{Registry, Target, document_of},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column, NAME,
        read::Read,
        row, text,
        words::{NONE, joined},
    },
    validation::{
        document::{Faults, Node},
        names,
    },
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

    fn validate(&self, address: &Node, _: Option<&Node>, faults: &mut Faults) {
        let parent = address.at("spec.parentRef");
        if !parent.exists() {
            faults.required(&parent, "");
            return;
        }
        faults.if_given(&parent.at("group"), names::subdomain);
        faults.named(&parent.at("resource"), names::path_segment);
        faults.named(&parent.at("name"), names::path_segment);
        faults.if_given(&parent.at("namespace"), names::path_segment);
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        faults.unchanged(&new.at("spec.parentRef"), &old.at("spec.parentRef"));
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, address: &Value, _: Timestamp) -> Vec<Value> {
        row![address.name(), parent(address)]
    }
}

/// The owner of an address: `services/default/kubernetes`.
pub(crate) fn parent(address: &Value) -> String {
    let Some(parent) = address.set("spec.parentRef") else { return NONE.to_owned() };
    let mut resource = parent.text("resource").to_lowercase();
    if !parent.text("group").is_empty() {
        resource = format!("{resource}.{}", parent.text("group").to_lowercase());
    }
    let place = [resource.as_str(), parent.text("namespace")].into_iter().filter(|part| !part.is_empty());
    joined(place.chain([parent.text("name")]), "/")
}
