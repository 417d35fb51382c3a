//! RuntimeClass.

use crate::{
    defaults::fields::{Object, child, round_quantities},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        self, LATE, Step,
        document::{Faults, Node},
        names,
        resources::{self, Asker},
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
        if let Some(overhead) = child(object, "overhead") {
            round_quantities(overhead, &["podFixed"]);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, class: &Node, _: Option<&Node>, faults: &mut Faults) {
        faults.named(&class.at("handler"), names::label);
        resources::amounts_as(&class.at("overhead"), "podFixed", "limits", Asker::Container, faults);
        validation::metadata::labels(&class.at("scheduling.nodeSelector"), faults);
        validation::pod::tolerations(&class.at("scheduling"), faults);
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        faults.unchanged(&new.at("handler"), &old.at("handler"));
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        row![class.name(), class.text("handler"), age_of(class, now)]
    }
}
