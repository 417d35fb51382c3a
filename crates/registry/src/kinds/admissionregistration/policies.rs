//! Admission policies and their bindings: what the kinds for validation and for mutation share.

use crate::{
    defaults::fields::{Object, child, child_or_new, set_default},
    kinds::admissionregistration::match_rules::{conditions, fill_match, operations_rule},
    schema::Timestamp,
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{UNSET, age_of, or, selector_or_none},
    },
    validation::{
        document::{Faults, Node},
        names, selectors,
    },
};
use serde_json::Value;
use std::collections::BTreeSet;

/// A policy of admission, of either kind.
pub(crate) fn policy(policy: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = policy.at("spec");
    faults.if_given_one_of(&spec.at("failurePolicy"), &["Fail", "Ignore"]);
    let kind = spec.at("paramKind");
    if kind.exists() {
        param_kind(&kind, faults);
    }
    let constraints = spec.at("matchConstraints");
    if constraints.exists() {
        match_resources(&constraints, true, faults);
    } else {
        faults.required(&constraints, "");
    }
    conditions(&spec, faults);
    for variable in spec.items("variables") {
        variable_of(&variable, faults);
    }
    if policy.text_of("kind") == "MutatingAdmissionPolicy" {
        mutating_operations(&constraints, faults);
        if spec.len_of("mutations") == 0 {
            faults.required(&spec.at("mutations"), "mutations must contain at least one item");
        }
        for mutation in spec.items("mutations") {
            mutation_of(&mutation, faults);
        }
        faults.one_of(&spec.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        return;
    }
    if spec.len_of("validations") == 0 && spec.len_of("auditAnnotations") == 0 {
        let detail = "validations or auditAnnotations must contain at least one item";
        faults.required(&spec.at("validations"), detail);
        faults.required(&spec.at("auditAnnotations"), detail);
    }
    for validation in spec.items("validations") {
        if validation.text_of("expression").trim().is_empty() {
            faults.required(&validation.at("expression"), "expression is not specified");
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        faults.if_given_one_of(&validation.at("reason"), &reasons);
    }
    for annotation in spec.items("auditAnnotations") {
        let key = annotation.at("key");
        let qualified = format!("{}/{}", policy.at("metadata").text_of("name"), key.text());
        for fault in names::qualified(&qualified) {
            faults.invalid(&key, qualified.as_str(), &fault);
        }
        let expression = annotation.at("valueExpression");
        if expression.text().trim().is_empty() {
            faults.required(&expression, "valueExpression is not specified");
        }
    }
}

/// An expression with a name, for others to use.
fn variable_of(variable: &Node, faults: &mut Faults) {
    for name in ["name", "expression"] {
        if variable.text_of(name).trim().is_empty() {
            faults.required(&variable.at(name), &format!("{name} is not specified"));
        }
    }
}

/// How an object is changed: in the one way that the type says.
fn mutation_of(mutation: &Node, faults: &mut Faults) {
    let kind = mutation.at("patchType");
    let (wanted, other) = match kind.text() {
        "" => return faults.required(&kind, ""),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => return faults.must_be_one_of(&kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    let way = mutation.at(wanted);
    if !way.exists() {
        faults.required(&way, &format!("must be specified when patchType is {}", kind.text()));
    } else if way.text_of("expression").trim().is_empty() {
        faults.required(&way.at("expression"), "");
    }
    if mutation.has(other) {
        let detail = format!("must not be specified when patchType is {}", kind.text());
        faults.invalid(&mutation.at(other), format!("{{{other}}}"), &detail);
    }
}

/// The kind of a policy's parameters.
fn param_kind(kind: &Node, faults: &mut Faults) {
    let version = kind.at("apiVersion");
    match version.text().split('/').collect::<Vec<_>>().as_slice() {
        [""] => faults.required(&version, ""),
        [.., ""] => faults.invalid(&version, version.text(), "version must be specified"),
        [parts @ .., bare] if parts.len() < 2 => {
            let group = parts.first().copied().unwrap_or_default();
            let wrong = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
            for (part, wrong) in [(group, wrong), (bare, names::label_1035(bare))] {
                if !wrong.is_empty() {
                    faults.invalid(&version, part, &wrong.join(","));
                }
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {}", version.text());
            faults.invalid(&version, version.text(), &detail);
        }
    }
    let name = kind.at("kind");
    let wrong = names::label_1035(&name.text().to_ascii_lowercase());
    if name.text().is_empty() {
        faults.required(&name, "");
    } else if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        faults.invalid(&name, name.text(), &detail);
    }
}

fn match_resources(resources: &Node, need_rules: bool, faults: &mut Faults) {
    selectors::label_selector(&resources.at("namespaceSelector"), faults);
    selectors::label_selector(&resources.at("objectSelector"), faults);
    if need_rules && resources.len_of("resourceRules") == 0 {
        faults.required(&resources.at("resourceRules"), "");
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.items(name) {
            let mut seen = BTreeSet::new();
            for object in rule.items("resourceNames") {
                faults.texts(&object, names::path_segment(object.text()));
                if !seen.insert(object.text()) {
                    faults.duplicate(&object, object.text());
                }
            }
            operations_rule(&rule, faults);
        }
    }
    faults.if_given_one_of(&resources.at("matchPolicy"), &["Equivalent", "Exact"]);
}

/// Only what creates or changes objects can be changed on its way. The rules are blamed together.
fn mutating_operations(resources: &Node, faults: &mut Faults) {
    let (rules, known) = (resources.at("resourceRules"), ["*", "CONNECT", "CREATE", "UPDATE"]);
    for rule in resources.items("resourceRules") {
        for operation in rule.items("operations").filter(|operation| !known.contains(&operation.text())) {
            faults.not_supported(&rules.at("operations"), operation.text(), &known);
        }
    }
}

/// Where a policy of admission holds.
pub(crate) fn policy_binding(binding: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = binding.at("spec");
    faults.named(&spec.at("policyName"), names::subdomain);
    let parameters = spec.at("paramRef");
    if parameters.exists() {
        param_ref(&parameters, faults);
    }
    match_resources(&spec.at("matchResources"), false, faults);
    if binding.text_of("kind") == "MutatingAdmissionPolicyBinding" {
        mutating_operations(&spec.at("matchResources"), faults);
        return;
    }
    let mut seen = BTreeSet::new();
    for action in spec.items("validationActions") {
        faults.must_be_one_of(&action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.text()) {
            faults.duplicate(&action, action.text());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let actions = spec.at("validationActions");
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
             API response and headers serves no purpose)";
        faults.invalid(&actions, actions.value.clone(), detail);
    }
    if seen.is_empty() {
        faults.required(&spec.at("validationActions"), "at least one validation action is required");
    }
}

/// Which objects a policy gets as its parameters.
fn param_ref(parameters: &Node, faults: &mut Faults) {
    let (name, selector) = (parameters.at("name"), parameters.at("selector"));
    let named = !name.text().is_empty();
    let detail = "name and selector are mutually exclusive";
    if named {
        faults.texts(&name, names::path_segment(name.text()));
        if selector.exists() {
            faults.forbidden(&name, detail);
        }
    }
    if selector.exists() {
        selectors::label_selector(&selector, faults);
        if named {
            faults.forbidden(&selector, detail);
        }
    }
    if !named && !selector.exists() {
        faults.required(parameters, "one of name or selector must be specified");
    }
    faults.one_of(&parameters.at("parameterNotFoundAction"), &["Deny", "Allow"]);
}

const POLICY_RULES: &[&str] = &["resourceRules", "excludeResourceRules"];

/// A policy that checks or changes.
pub(crate) fn default_admission_policy(object: &mut Object) {
    let spec = child_or_new(object, "spec");
    set_default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = child(spec, "matchConstraints") {
        fill_match(constraints, POLICY_RULES);
    }
}

/// Where a policy holds.
pub(crate) fn admission_policy_binding(object: &mut Object) {
    if let Some(resources) = child(object, "spec").and_then(|spec| child(spec, "matchResources")) {
        fill_match(resources, POLICY_RULES);
    }
}

pub(crate) const PARAM_KIND: Column = text("ParamKind", "The kind of the objects with its settings");

pub(crate) const POLICY_BINDING: &[Column] = &[
    NAME,
    text("PolicyName", "The policy that it puts to work"),
    text("ParamRef", "The object with the settings"),
    AGE,
];

pub(crate) fn row_admission_policy(policy: &Value, rules: &str, now: Timestamp) -> Vec<Value> {
    let params = policy.set("spec.paramKind").map_or_else(
        || UNSET.to_owned(),
        |kind| format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    );
    row![policy.name(), policy.length(rules), params, age_of(policy, now)]
}

pub(crate) fn row_policy_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let params = match (binding.text("spec.paramRef.name"), binding.text("spec.paramRef.namespace")) {
        ("", _) if binding.set("spec.paramRef.selector").is_some() => {
            selector_or_none(binding, "spec.paramRef.selector")
        }
        ("", _) => UNSET.to_owned(),
        // Whether the object is in a namespace at all cannot be told from here.
        (name, namespace) => format!("{}/{name}", or(namespace, "*")),
    };
    row![binding.name(), binding.text("spec.policyName"), params, age_of(binding, now)]
}
