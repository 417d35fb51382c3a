//! Admission policies and their bindings: rules that the validating and the mutating kinds share.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kinds::admissionregistration::match_rules::{conditions, fill_match, operations_rule},
    schema::Timestamp,
    table::{
        AGE, Column, NAME, row, text,
        words::{UNSET, age_of, or, selector_or_none},
    },
    validation::{names, selectors},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// An admission policy of either kind.
pub(crate) fn policy(policy: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
    let spec = policy.at("spec");
    errors.one_of_if_set(&spec.at("failurePolicy"), &["Fail", "Ignore"]);
    let kind = spec.at("paramKind");
    if kind.exists() {
        param_kind(&kind, errors);
    }
    let constraints = spec.at("matchConstraints");
    if constraints.exists() {
        match_resources(&constraints, true, errors);
    } else {
        errors.required(&constraints, "");
    }
    conditions(&spec, errors);
    for variable in spec.items("variables") {
        variable_of(&variable, errors);
    }
    if policy.text("kind") == "MutatingAdmissionPolicy" {
        mutating_operations(&constraints, errors);
        if spec.length("mutations") == 0 {
            errors.required(&spec.at("mutations"), "mutations must contain at least one item");
        }
        for mutation in spec.items("mutations") {
            mutation_of(&mutation, errors);
        }
        errors.one_of(&spec.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        return;
    }
    if spec.length("validations") == 0 && spec.length("auditAnnotations") == 0 {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&spec.at("validations"), detail);
        errors.required(&spec.at("auditAnnotations"), detail);
    }
    for validation in spec.items("validations") {
        if validation.text("expression").trim().is_empty() {
            errors.required(&validation.at("expression"), "expression is not specified");
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        errors.one_of_if_set(&validation.at("reason"), &reasons);
    }
    for annotation in spec.items("auditAnnotations") {
        let key = annotation.at("key");
        let qualified = format!("{}/{}", policy.at("metadata").text("name"), key.as_text());
        for error in names::qualified(&qualified) {
            errors.invalid(&key, qualified.as_str(), &error);
        }
        let expression = annotation.at("valueExpression");
        if expression.as_text().trim().is_empty() {
            errors.required(&expression, "valueExpression is not specified");
        }
    }
}

/// Validates a variable: an expression with a name.
fn variable_of(variable: &Node, errors: &mut FieldErrors) {
    for name in ["name", "expression"] {
        if variable.text(name).trim().is_empty() {
            errors.required(&variable.at(name), &format!("{name} is not specified"));
        }
    }
}

/// Validates a mutation: it has exactly the field that its `patchType` requires.
fn mutation_of(mutation: &Node, errors: &mut FieldErrors) {
    let kind = mutation.at("patchType");
    let (wanted, other) = match kind.as_text() {
        "" => return errors.required(&kind, ""),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => return errors.must_be_one_of(&kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    let field = mutation.at(wanted);
    if !field.exists() {
        errors.required(&field, &format!("must be specified when patchType is {}", kind.as_text()));
    } else if field.text("expression").trim().is_empty() {
        errors.required(&field.at("expression"), "");
    }
    if mutation.has(other) {
        let detail = format!("must not be specified when patchType is {}", kind.as_text());
        errors.invalid(&mutation.at(other), format!("{{{other}}}"), &detail);
    }
}

/// The kind of a policy's parameters.
fn param_kind(kind: &Node, errors: &mut FieldErrors) {
    let version = kind.at("apiVersion");
    match version.as_text().split('/').collect::<Vec<_>>().as_slice() {
        [""] => errors.required(&version, ""),
        [.., ""] => errors.invalid(&version, version.as_text(), "version must be specified"),
        [parts @ .., bare] if parts.len() < 2 => {
            let group = parts.first().copied().unwrap_or_default();
            let wrong = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
            for (part, wrong) in [(group, wrong), (bare, names::label_1035(bare))] {
                if !wrong.is_empty() {
                    errors.invalid(&version, part, &wrong.join(","));
                }
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {}", version.as_text());
            errors.invalid(&version, version.as_text(), &detail);
        }
    }
    let name = kind.at("kind");
    let wrong = names::label_1035(&name.as_text().to_ascii_lowercase());
    if name.as_text().is_empty() {
        errors.required(&name, "");
    } else if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.invalid(&name, name.as_text(), &detail);
    }
}

fn match_resources(resources: &Node, need_rules: bool, errors: &mut FieldErrors) {
    selectors::label_selector(&resources.at("namespaceSelector"), errors);
    selectors::label_selector(&resources.at("objectSelector"), errors);
    if need_rules && resources.length("resourceRules") == 0 {
        errors.required(&resources.at("resourceRules"), "");
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.items(name) {
            let mut seen = BTreeSet::new();
            for object in rule.items("resourceNames") {
                errors.invalid_each(&object, names::path_segment(object.as_text()));
                if !seen.insert(object.as_text()) {
                    errors.duplicate(&object, object.as_text());
                }
            }
            operations_rule(&rule, errors);
        }
    }
    errors.one_of_if_set(&resources.at("matchPolicy"), &["Equivalent", "Exact"]);
}

/// Mutation is for operations that create or change objects. The path of the error is that of all rules.
fn mutating_operations(resources: &Node, errors: &mut FieldErrors) {
    let (rules, known) = (resources.at("resourceRules"), ["*", "CONNECT", "CREATE", "UPDATE"]);
    for rule in resources.items("resourceRules") {
        for operation in rule.items("operations").filter(|operation| !known.contains(&operation.as_text())) {
            errors.not_supported(&rules.at("operations"), operation.as_text(), &known);
        }
    }
}

/// Validates the binding of an admission policy.
pub(crate) fn policy_binding(binding: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
    let spec = binding.at("spec");
    errors.valid_name(&spec.at("policyName"), names::subdomain);
    let parameters = spec.at("paramRef");
    if parameters.exists() {
        param_ref(&parameters, errors);
    }
    match_resources(&spec.at("matchResources"), false, errors);
    if binding.text("kind") == "MutatingAdmissionPolicyBinding" {
        mutating_operations(&spec.at("matchResources"), errors);
        return;
    }
    let mut seen = BTreeSet::new();
    for action in spec.items("validationActions") {
        errors.must_be_one_of(&action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.as_text()) {
            errors.duplicate(&action, action.as_text());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let actions = spec.at("validationActions");
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
             API response and headers serves no purpose)";
        errors.invalid(&actions, actions.value.clone(), detail);
    }
    if seen.is_empty() {
        errors.required(&spec.at("validationActions"), "at least one validation action is required");
    }
}

/// Validates the reference to the objects that a policy receives as its parameters.
fn param_ref(parameters: &Node, errors: &mut FieldErrors) {
    let (name, selector) = (parameters.at("name"), parameters.at("selector"));
    let named = !name.as_text().is_empty();
    let detail = "name and selector are mutually exclusive";
    if named {
        errors.invalid_each(&name, names::path_segment(name.as_text()));
        if selector.exists() {
            errors.forbidden(&name, detail);
        }
    }
    if selector.exists() {
        selectors::label_selector(&selector, errors);
        if named {
            errors.forbidden(&selector, detail);
        }
    }
    if !named && !selector.exists() {
        errors.required(parameters, "one of name or selector must be specified");
    }
    errors.one_of(&parameters.at("parameterNotFoundAction"), &["Deny", "Allow"]);
}

const POLICY_RULES: &[&str] = &["resourceRules", "excludeResourceRules"];

/// Sets the defaults of an admission policy of either kind.
pub(crate) fn default_admission_policy(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_default("failurePolicy", "Fail");
    if let Some(constraints) = spec.object_mut("matchConstraints") {
        fill_match(constraints, POLICY_RULES);
    }
}

/// Sets the defaults of the binding of an admission policy.
pub(crate) fn admission_policy_binding(object: &mut Object) {
    if let Some(resources) = object.object_mut("spec").and_then(|spec| spec.object_mut("matchResources")) {
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
    let params = policy.field("spec.paramKind").map_or_else(
        || UNSET.to_owned(),
        |kind| format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    );
    row![policy.name(), policy.length(rules), params, age_of(policy, now)]
}

pub(crate) fn row_policy_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let params = match (binding.text("spec.paramRef.name"), binding.text("spec.paramRef.namespace")) {
        ("", _) if binding.field("spec.paramRef.selector").is_some() => {
            selector_or_none(binding, "spec.paramRef.selector")
        }
        ("", _) => UNSET.to_owned(),
        // Whether the object has a namespace is not known here.
        (name, namespace) => format!("{}/{name}", or(namespace, "*")),
    };
    row![binding.name(), binding.text("spec.policyName"), params, age_of(binding, now)]
}
