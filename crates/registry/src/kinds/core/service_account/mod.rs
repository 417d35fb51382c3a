//! ServiceAccount.

mod token;

pub use token::TokenIssuer;

use crate::{
    document::Edit,
    kind::{Kind, Subresource},
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{AGE, Column, NAME, cluster::name_and_age},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ServiceAccount", "serviceaccounts")
        .short_names(&["sa"])
        .subresources([Subresource::new("token", &["create"]).of(
            "authentication.k8s.io",
            "v1",
            "TokenRequest",
        )])
        .returns_deleted()
        .strategy(ServiceAccountStrategy)
}

const COLUMNS: &[Column] = &[NAME, AGE];

struct ServiceAccountStrategy;

impl Strategy for ServiceAccountStrategy {
    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        keep_names_of_secrets(document);
    }

    fn prepare_update(&self, new: &mut Value, _: &Value) {
        keep_names_of_secrets(new);
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        name_and_age(document, now)
    }
}

/// Keeps only the names of a service account's secrets.
fn keep_names_of_secrets(account: &mut Value) {
    for secret in account.list_mut("secrets") {
        if let Some(secret) = secret.as_object_mut() {
            secret.retain(|field, _| field == "name");
        }
    }
}
