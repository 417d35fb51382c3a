//! IngressClass.

use crate::{
    defaults::fields::{Object, child, set_default},
    kind::{Generation, Kind},
    kinds::networking::ingress::reference,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{NONE, age_of},
    },
    validation::{
        CHANGE_FIRST, Step,
        document::{Faults, Node},
        names,
    },
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
        if let Some(parameters) = child(object, "spec").and_then(|spec| child(spec, "parameters")) {
            set_default(parameters, "scope", "Cluster");
        }
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_FIRST
    }

    fn validate(&self, class: &Node, _: Option<&Node>, faults: &mut Faults) {
        let controller = class.at("spec.controller");
        if controller.text().is_empty() {
            faults.required(&controller, "");
        } else {
            if controller.text().len() > CONTROLLER_BYTES_MAX {
                faults.too_long(&controller, CONTROLLER_BYTES_MAX);
            }
            for (blamed, fault) in names::domain_path(controller.text()) {
                faults.invalid(&controller, blamed, &fault);
            }
        }
        let parameters = class.at("spec.parameters");
        if !parameters.exists() {
            return;
        }
        reference(&parameters, faults);
        if parameters.has("scope") {
            faults.must_be_one_of(&parameters.at("scope"), &["Cluster", "Namespace"]);
        } else {
            faults.required(&parameters.at("scope"), "");
        }
        let namespace = parameters.at("namespace");
        match parameters.text_of("scope") {
            "Namespace" if !namespace.exists() => {
                faults.required(&namespace, "`parameters.scope` is set to 'Namespace'");
            }
            "Namespace" => faults.texts(&namespace, names::label(namespace.text())),
            "Cluster" if namespace.exists() => {
                faults.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
            }
            _ => {}
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        faults.text_unchanged(&new.at("spec.controller"), &old.at("spec.controller"));
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Vec<Value> {
        let parameters = class.set("spec.parameters").map_or_else(
            || NONE.to_owned(),
            |reference| {
                let group = reference.set("apiGroup").and_then(Value::as_str);
                let group = group.map_or_else(String::new, |group| format!(".{group}"));
                format!("{}{group}/{}", reference.text("kind"), reference.text("name"))
            },
        );
        row![class.name(), class.text("spec.controller"), parameters, age_of(class, now)]
    }
}

const CONTROLLER_BYTES_MAX: usize = 250;
