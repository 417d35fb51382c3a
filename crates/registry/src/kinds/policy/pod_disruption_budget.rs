//! PodDisruptionBudget.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::{Generation, Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, integer, row, text, words::age_of},
    validation::{
        self, OWN, Step, selectors,
        workloads::{at_most_all, number_or_percent},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("policy", "policy.v1.PodDisruptionBudget", "poddisruptionbudgets")
        .short_names(&["pdb"])
        .subresources([Subresource::status()])
        .requires_version()
        .generation(Generation::Spec)
        .validates_path_segments()
        .strategy(PodDisruptionBudgetStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Min Available", "How many pods must stay available"),
    text("Max Unavailable", "How many pods may be unavailable"),
    integer("Allowed Disruptions", "How many pods may be evicted now"),
    AGE,
];

struct PodDisruptionBudgetStrategy;

impl Strategy for PodDisruptionBudgetStrategy {
    fn update_order(&self) -> &'static [Step] {
        OWN
    }

    fn validate(&self, budget: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = budget.at("spec");
        if spec.has("minAvailable") && spec.has("maxUnavailable") {
            errors.invalid(&spec, spec.value.clone(), "minAvailable and maxUnavailable cannot be both set");
        }
        for name in ["minAvailable", "maxUnavailable"] {
            let limit = spec.at(name);
            number_or_percent(&limit, errors);
            at_most_all(&limit, errors);
        }
        selectors::label_selector(&spec.at("selector"), errors);
        errors.one_of_if_set(&spec.at("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
    }

    /// Validates the conditions and the numbers of pods.
    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        validation::metadata::conditions(&new.at("status"), errors);
        let status = new.at("status");
        for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.not_negative(&status.at(name));
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, budget: &Value, now: Timestamp) -> Vec<Value> {
        let amount = |path| match budget.field(path) {
            Some(Value::String(share)) => share.clone(),
            Some(Value::Number(count)) => count.to_string(),
            _ => "N/A".to_owned(),
        };
        row![
            budget.name(),
            amount("spec.minAvailable"),
            amount("spec.maxUnavailable"),
            budget.number("status.disruptionsAllowed"),
            age_of(budget, now),
        ]
    }
}
