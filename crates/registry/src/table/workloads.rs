//! Cells of controllers of pods, and of disruption budgets.

use super::{
    AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, integer, row,
    words::{age_of, containers},
};
use crate::{document::Fields, schema::Timestamp};
use serde_json::Value;

pub(crate) const REPLICATED: &[Column] = &[
    NAME,
    integer("Desired", "How many pods are wanted"),
    integer("Current", "How many pods there are"),
    integer("Ready", "How many pods are ready"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(crate) const POD_CONTAINERS: &str = "spec.template.spec.containers";

pub(crate) fn replicated(set: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(set, POD_CONTAINERS);
    row![
        set.name(),
        set.number("spec.replicas"),
        set.number("status.replicas"),
        set.number("status.readyReplicas"),
        age_of(set, now),
        names,
        images,
        selector,
    ]
}

/// The number of ready replicas, of the desired ones.
pub(crate) fn ready(set: &Value) -> String {
    format!("{}/{}", set.number("status.readyReplicas"), set.number("spec.replicas"))
}
