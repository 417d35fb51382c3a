//! ComponentStatus.

use crate::{
    document::Fields,
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{Column, NAME, row, text},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ComponentStatus", "componentstatuses")
        .cluster_scoped()
        .short_names(&["cs"])
        .not_stored(&["get", "list"])
        .deprecated("v1 ComponentStatus is deprecated in v1.19+")
        .strategy(ComponentStatusStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether it is healthy"),
    text("Message", "What it says of its health"),
    text("Error", "Why it could not be asked"),
];

struct ComponentStatusStrategy;

impl Strategy for ComponentStatusStrategy {
    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, component: &Value, _: Timestamp) -> Vec<Value> {
        let health =
            component.list("conditions").iter().find(|condition| condition.text("type") == "Healthy");
        let Some(health) = health else { return row![component.name(), "Unknown", "", ""] };
        let word = if health.text("status") == "True" { "Healthy" } else { "Unhealthy" };
        row![component.name(), word, health.text("message"), health.text("error")]
    }
}
