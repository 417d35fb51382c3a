//! The row of a scale, which looks alike for all kinds that have one.

use super::{Cells, Column, column, integer, row, words::age_of};
use crate::{document::Fields, kind::Kind, schema::Timestamp};
use serde_json::Value;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
    may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
    guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

const BUILT_IN: &[Column] = &[
    column("Name", "string", NAME),
    integer("Desired", "replicas is the desired number of instances for the scaled object."),
    integer("Available", "replicas is the actual number of observed instances of the scaled object."),
    column("Age", "string", AGE),
];

const CUSTOM: &[Column] = &[
    column("Name", "string", NAME).formatted("name"),
    integer("Desired", "Number of desired replicas"),
    integer("Available", "Number of actual replicas"),
    column("Age", "date", AGE),
];

/// The columns of the scales of a kind.
pub fn scale_columns(kind: &Kind) -> &'static [Column] {
    if kind.is_custom() { CUSTOM } else { BUILT_IN }
}

/// The row of a scale.
pub fn scale_cells(kind: &Kind, scale: &Value, now: Timestamp) -> Cells {
    let replicas = |path: &str| scale.field(path).and_then(Value::as_i64).unwrap_or_default();
    // A custom resource's scale shows fields, and zero desired replicas are no field.
    let desired = match replicas("spec.replicas") {
        0 if kind.is_custom() => Value::Null,
        desired => desired.into(),
    };
    let cells = row![scale.name(), desired, replicas("status.replicas"), age_of(scale, now)];
    Cells { cells, conditions: None }
}
