//! The properties of every accepted object, whichever way it was decoded.

use crate::without_empty;
use keepwatch_registry::{
    codec::{Body, Expected, Media, decode},
    convert,
    inspect::ResourceInspector,
    kind::Kind,
    options::FieldValidation,
    protobuf,
    schema::{self, Problems, Timestamp},
    strategy::Part,
    table, validation,
};
use keepwatch_storage::{Inspector, Key};
use serde_json::Value;

/// Checks all properties of a decoded object.
pub fn object(resource: &'static Kind, document: &Value) {
    let expected = Expected::of(resource);
    let mut json = Vec::new();
    schema::write(&mut json, document, expected.ty);
    let again = decode(&Body { bytes: &json, media: Media::Json }, expected, FieldValidation::Strict);
    let again =
        again.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&json)));
    assert_eq!(&again.document, document, "what is written, with its defaults, is what was read");

    let mut problems = Problems::default();
    let normal = schema::normalize(document.clone(), expected.ty, &mut problems).expect("it is normal");
    assert_eq!((&normal, &problems.0), (document, &Vec::new()), "what is normal stays as it is");
    by_protobuf(resource, document);
    stored(resource, document);
    row(resource, document);
    for cause in validation::create(resource, document) {
        assert!(!cause.field.is_empty() || !cause.message.is_empty());
    }
    validation::update(resource, document, document);
    validation::update_part(resource, Part::Status, document, document);
    validation::warnings(resource, document, None);
}

/// Checks that an object is the same in Protobuf and in JSON, except for empty values.
fn by_protobuf(resource: &'static Kind, document: &Value) {
    let expected = Expected::of(resource);
    let send = |document: &Value| {
        let mut bytes = Vec::new();
        protobuf::wrap(&mut bytes, &resource.api_version(), &resource.name, |out| {
            protobuf::encode(out, document, expected.ty);
        });
        let decoded =
            decode(&Body { bytes: &bytes, media: Media::Protobuf }, expected, FieldValidation::Strict);
        decoded.unwrap_or_else(|error| panic!("{error}: {document}")).document
    };
    let first = send(document);
    assert_eq!(send(&first), first, "what Protobuf can say it says again");
    assert_eq!(without_empty(first), without_empty(document.clone()), "nothing but what is empty is lost");
}

/// Checks that an object can be read from its stored form, and that selectors find the same fields there.
fn stored(resource: &'static Kind, document: &Value) {
    let kept = convert::to_stored(resource, document.clone());
    let ty = resource.stored().ty;
    let mut value = Vec::new();
    schema::write(&mut value, &kept, ty);
    let read: Value = serde_json::from_slice(&value).expect("what is stored can be read");
    assert_eq!(read, kept, "nothing is lost in storage");
    let shown = convert::from_stored(resource, read);
    if resource.ty.name != "autoscaling.v1.HorizontalPodAutoscaler" {
        assert_eq!(&shown, document, "both forms say the same");
    }
    let inspector = ResourceInspector::new(resource);
    let attributes = inspector.inspect(&Key::from_backend("/registry/x/y"), &value).expect("a stored object");
    let label = |name: &str| document["metadata"]["labels"][name].as_str().map(str::to_owned);
    for (name, value) in attributes.labels.iter() {
        assert_eq!(label(name).as_deref(), Some(value));
    }
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    assert_eq!(
        attributes.fields.iter().find(|(field, _)| *field == "metadata.name").map(|(_, name)| name),
        Some(name)
    );
}

/// Checks that a row has a cell for each column.
pub fn row(resource: &'static Kind, document: &Value) {
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    let row = table::cells(resource, document, now);
    assert_eq!(row.cells.len(), table::columns(resource).len());
    assert!(row.cells.iter().all(|cell| !cell.is_object() && !cell.is_array()), "{:?}", row.cells);
}
