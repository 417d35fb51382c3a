//! IngressClass.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind},
    kinds::networking::ingress::reference,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, age_of},
    },
    validation::{CHANGE_FIRST, Step, names},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.IngressClass", "ingressclasses")
        .cluster_scoped()
        .generation(Generation::Spec)
        .strategy(IngressClassStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Controller", "Who implements its ingresses"),
    text("Parameters", "The object with further settings"),
    AGE,
];

struct IngressClassStrategy;

impl Strategy for IngressClassStrategy {
    fn set_defaults(&self, object: &mut Object) {
        if let Some(parameters) = object.object_mut("spec").and_then(|spec| spec.object_mut("parameters")) {
            parameters.set_default("scope", "Cluster");
        }
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_FIRST
    }

    fn validate(&self, class: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let controller = class.at("spec.controller");
        if controller.as_text().is_empty() {
            errors.required(&controller, "");
        } else {
            if controller.as_text().len() > CONTROLLER_BYTES_MAX {
                errors.too_long(&controller, CONTROLLER_BYTES_MAX);
            }
            for (reported_at, error) in names::domain_path(controller.as_text()) {
                errors.invalid(&controller, reported_at, &error);
            }
        }
        let parameters = class.at("spec.parameters");
        if !parameters.exists() {
            return;
        }
        reference(&parameters, errors);
        if parameters.has("scope") {
            errors.must_be_one_of(&parameters.at("scope"), &["Cluster", "Namespace"]);
        } else {
            errors.required(&parameters.at("scope"), "");
        }
        let namespace = parameters.at("namespace");
        match parameters.text("scope") {
            "Namespace" if !namespace.exists() => {
                errors.required(&namespace, "`parameters.scope` is set to 'Namespace'");
            }
            "Namespace" => errors.invalid_each(&namespace, names::label(namespace.as_text())),
            "Cluster" if namespace.exists() => {
                errors.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
            }
            _ => {}
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable_text(&new.at("spec.controller"), &old.at("spec.controller"));
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        let parameters = class.field("spec.parameters").map_or_else(
            || NONE.to_owned(),
            |reference| {
                let group = reference.field("apiGroup").and_then(Value::as_str);
                let group = group.map_or_else(String::new, |group| format!(".{group}"));
                format!("{}{group}/{}", reference.text("kind"), reference.text("name"))
            },
        );
        row![class.name(), class.text("spec.controller"), parameters, age_of(class, now)]
    }
}

const CONTROLLER_BYTES_MAX: usize = 250;
