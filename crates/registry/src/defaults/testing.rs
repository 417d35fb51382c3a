//! One way to check defaults: a document as a client sends it, and a part of it as the server has it.

use super::apply;
use crate::schema::{self, Problems, TypeRef};
use serde_json::Value;

fn normalized(document: Value, ty: TypeRef) -> Value {
    let mut problems = Problems::default();
    let normalized = schema::normalize(document, ty, &mut problems).unwrap();
    assert_eq!(problems, Problems::default(), "in a document of type {}", ty.name);
    normalized
}

/// Fills a document and checks what must hold of every one: nothing changes the second time, and what was filled in has
/// the names and forms that the type has.
pub(super) fn check_document(ty: &str, given: Value) -> Value {
    let type_ref = schema::lookup(ty).unwrap();
    let mut document = normalized(given, type_ref);
    apply(ty, &mut document);
    let mut again = document.clone();
    apply(ty, &mut again);
    assert_eq!(again, document, "{ty} changes when filled again");
    assert_eq!(normalized(document.clone(), type_ref), document, "{ty} has another form when normalised");
    document
}

/// Checks what stands at a path (`/spec/template`, or empty for all) once the document is filled.
#[track_caller]
pub(super) fn check(ty: &str, given: Value, at: &str, wanted: Value) {
    let document = check_document(ty, given);
    let found = document.pointer(at).cloned().unwrap_or(Value::Null);
    assert_eq!(found, wanted, "{ty} at {at:?}:\nfound  {found}\nwanted {wanted}");
}
