//! A check of defaults: a document as a client sends it, and a part of it with its defaults.

mod access;
mod cluster;
mod devices;
mod flow;
mod network;

use crate::{
    kind::Kind,
    kinds::built_in,
    schema::{self, Problems, TypeRef},
};
use serde_json::Value;

fn apply(kind: &Kind, document: &mut Value) {
    if let Some(object) = document.as_object_mut() {
        kind.strategy.set_defaults(object);
    }
}

fn normalized(document: Value, ty: TypeRef) -> Value {
    let mut problems = Problems::default();
    let normalized = schema::normalize(document, ty, &mut problems).unwrap();
    assert_eq!(problems, Problems::default(), "in a document of type {}", ty.name);
    normalized
}

/// Fills a document and checks what must hold of every one: nothing changes the second time, and what was filled in has
/// the names and forms that the type has.
pub(crate) fn check_document(ty: &str, given: Value) -> Value {
    let kind = built_in().iter().find(|kind| kind.ty.name == ty).unwrap();
    let mut document = normalized(given, kind.ty);
    apply(kind, &mut document);
    let mut again = document.clone();
    apply(kind, &mut again);
    assert_eq!(again, document, "{ty} changes when filled again");
    assert_eq!(normalized(document.clone(), kind.ty), document, "{ty} has another form when normalised");
    document
}

/// Checks the value at a path (`/spec/template`, or empty for all) after the defaults are set.
#[track_caller]
pub(crate) fn check(ty: &str, given: Value, at: &str, wanted: Value) {
    let document = check_document(ty, given);
    let found = document.pointer(at).cloned().unwrap_or(Value::Null);
    assert_eq!(found, wanted, "{ty} at {at:?}:\nfound  {found}\nwanted {wanted}");
}

#[test]
fn an_empty_document_of_any_kind_is_filled_with_fields_of_its_type() {
    for kind in built_in() {
        check_document(kind.ty.name, schema::zero(kind.ty));
    }
}

#[test]
fn a_document_with_values_of_other_types_is_no_reason_to_stop() {
    for kind in built_in() {
        for mut odd in [
            serde_json::json!(null),
            serde_json::json!([1]),
            serde_json::json!({}),
            serde_json::json!({"metadata": 1, "spec": "x", "status": [null], "webhooks": [[], null, 3]}),
            serde_json::json!({"spec": {"template": [], "containers": {"a": 1}, "volumes": [1, {"secret": 2}],
                "resources": {"limits": ["x"]}, "limited": 4, "devices": {"requests": [[]]}}}),
        ] {
            apply(kind, &mut odd);
        }
    }
}
