//! PriorityClass.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, boolean, integer, row, text, words::age_of},
    validation::{CHANGE, Step, pod::preemption_policy},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("scheduling.k8s.io", "scheduling.v1.PriorityClass", "priorityclasses")
        .cluster_scoped()
        .short_names(&["pc"])
        .generation(Generation::Once)
        .strategy(PriorityClassStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    integer("Value", "The priority of its pods"),
    boolean("Global-Default", "Whether pods are of it that name no class"),
    AGE,
    text("PreemptionPolicy", "Whether its pods may take the place of others"),
];

struct PriorityClassStrategy;

impl Strategy for PriorityClassStrategy {
    fn set_defaults(&self, object: &mut Object) {
        object.set_default("preemptionPolicy", "PreemptLowerPriority");
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE
    }

    fn validate(&self, class: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let (name, value) = (class.at("metadata.name"), class.number("value"));
        if name.as_text().starts_with("system-") {
            if let Some(wrong) = not_of_the_system(name.as_text(), value, class.flag("globalDefault")) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
                );
                errors.forbidden(&name, &detail);
            }
        } else if value > USER_PRIORITY_MAX {
            let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
            errors.forbidden(&class.at("value"), &detail);
        }
        preemption_policy(&class.at("preemptionPolicy"), errors);
    }

    /// Rejects changes of the value and of the preemption policy.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        if new.number("value") != old.number("value") {
            errors.forbidden(&new.at("value"), "may not be changed in an update.");
        }
        errors.immutable(&new.at("preemptionPolicy"), &old.at("preemptionPolicy"));
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        row![
            class.name(),
            class.number("value"),
            class.flag("globalDefault"),
            age_of(class, now),
            class.text("preemptionPolicy"),
        ]
    }
}

const USER_PRIORITY_MAX: i64 = 1_000_000_000;

const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn not_of_the_system(name: &str, value: i64, default: bool) -> Option<String> {
    match SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, expected)) if *expected != value => {
            Some(format!("value of {name} PriorityClass must be {expected}"))
        }
        Some(_) if default => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
    }
}
