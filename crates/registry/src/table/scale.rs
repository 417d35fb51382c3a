//! The row of a scale, which looks alike for all kinds that have one.

use super::{AGE_DESCRIPTION, Cells, Column, NAME_DESCRIPTION, column, integer, row, words::age_of};
use crate::{document::Fields, kind::Kind, schema::Timestamp};
use serde_json::Value;

const BUILT_IN: &[Column] = &[
    column("Name", "string", NAME_DESCRIPTION),
    integer("Desired", "replicas is the desired number of instances for the scaled object."),
    integer("Available", "replicas is the actual number of observed instances of the scaled object."),
    column("Age", "string", AGE_DESCRIPTION),
];

const CUSTOM: &[Column] = &[
    column("Name", "string", NAME_DESCRIPTION).formatted("name"),
    integer("Desired", "Number of desired replicas"),
    integer("Available", "Number of actual replicas"),
    column("Age", "date", AGE_DESCRIPTION),
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
