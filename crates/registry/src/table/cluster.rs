//! Cells of nodes, namespaces, configuration, events and devices.

use super::{row, words::age_of};
use crate::{document::Fields, schema::Timestamp};
use serde_json::Value;

pub(crate) fn name_and_age(document: &Value, now: Timestamp) -> Vec<Value> {
    row![document.name(), age_of(document, now)]
}
