//! RuntimeClass.

use crate::{
    defaults::quantities::round_quantities,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{
        self, LATE, Step, names,
        resources::{self, ResourceScope},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("node.k8s.io", "node.v1.RuntimeClass", "runtimeclasses")
        .cluster_scoped()
        .requires_version()
        .creates_on_update()
        .takes_any_finalizer()
        .strategy(RuntimeClassStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("Handler", "What runs the containers of its pods"), AGE];

struct RuntimeClassStrategy;

impl Strategy for RuntimeClassStrategy {
    fn set_defaults(&self, object: &mut Object) {
        if let Some(overhead) = object.object_mut("overhead") {
            round_quantities(overhead, &["podFixed"]);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, class: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        errors.valid_name(&class.at("handler"), names::label);
        resources::amounts_as(&class.at("overhead"), "podFixed", "limits", ResourceScope::Container, errors);
        validation::metadata::labels(&class.at("scheduling.nodeSelector"), errors);
        validation::pod_scheduling::tolerations(&class.at("scheduling"), errors);
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable(&new.at("handler"), &old.at("handler"));
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        row![class.name(), class.text("handler"), age_of(class, now)]
    }
}
