//! ControllerRevision.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, age_of},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.ControllerRevision", "controllerrevisions")
        .strategy(ControllerRevisionStrategy)
}

const COLUMNS: &[Column] =
    &[NAME, text("Controller", "What it is a state of"), text("Revision", "The number of the state"), AGE];

struct ControllerRevisionStrategy;

impl Strategy for ControllerRevisionStrategy {
    fn validate(&self, revision: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        if !revision.has("data") {
            errors.required(&revision.at("data"), "data is mandatory");
        }
        errors.not_negative(&revision.at("revision"));
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable(&new.at("data"), &old.at("data"));
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, revision: &Value, now: Timestamp) -> Vec<Value> {
        let owners = revision.list("metadata.ownerReferences");
        let controller = owners.iter().find(|owner| owner.flag("controller")).map_or_else(
            || NONE.to_owned(),
            |owner| {
                let kind = owner.text("kind");
                let group = owner.text("apiVersion").split_once('/').map_or("", |(group, _)| group);
                let dot = if group.is_empty() { "" } else { "." };
                format!("{}/{}", format!("{kind}{dot}{group}").to_lowercase(), owner.text("name"))
            },
        );
        row![revision.name(), controller, revision.number("revision"), age_of(revision, now)]
    }
}
