//! Devices: rules that the kinds of `resource.k8s.io` share.

use crate::{
    document::{FieldErrors, Fields, Node},
    validation::{names, volumes},
};
use std::collections::BTreeSet;

pub(crate) const CONFIGS_MAX: usize = 32;

const SELECTORS_MAX: usize = 32;

const EXPRESSION_BYTES_MAX: usize = 10 * 1024;

const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

const POOL_NAME_BYTES_MAX: usize = 253;

const IDENTIFIER_BYTES_MAX: usize = 32;

const BINDING_CONDITIONS_MAX: usize = 4;

const IDENTIFIER_RULE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string \
     of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
     '[A-Za-z_][A-Za-z0-9_]*')";

pub(crate) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates a list with at most that many items, each by itself, and no two with the same key.
pub(crate) fn set<'d>(
    parent: &Node<'d, '_>,
    name: &str,
    items_max: usize,
    key: impl Fn(&Node<'d, '_>) -> &'d str,
    errors: &mut FieldErrors,
    mut check: impl FnMut(&Node<'d, '_>, &mut FieldErrors),
) {
    if !slice(parent, name, items_max, errors, &mut check) {
        return;
    }
    let mut seen = BTreeSet::new();
    for item in parent.items(name) {
        if !seen.insert(key(&item)) {
            errors.duplicate(&item, key(&item));
        }
    }
}

/// Validates a list with at most that many items, each by itself. Returns whether there are not too many.
pub(crate) fn slice<'d>(
    parent: &Node<'d, '_>,
    name: &str,
    items_max: usize,
    errors: &mut FieldErrors,
    mut check: impl FnMut(&Node<'d, '_>, &mut FieldErrors),
) -> bool {
    let count = parent.length(name);
    if count > items_max {
        errors.too_many(&parent.at(name), count, items_max);
        return false;
    }
    for item in parent.items(name) {
        check(&item, errors);
    }
    true
}

pub(crate) fn label(at: &Node, errors: &mut FieldErrors) {
    errors.invalid_each(at, names::label(at.as_text()));
}

pub(crate) fn device_selectors(owner: &Node, errors: &mut FieldErrors) {
    slice(owner, "selectors", SELECTORS_MAX, errors, |selector, errors| {
        let cel = selector.at("cel");
        if !cel.exists() {
            errors.required(&cel, "");
        } else if cel.text("expression").len() > EXPRESSION_BYTES_MAX {
            errors.too_long(&cel.at("expression"), EXPRESSION_BYTES_MAX);
        }
    });
}

/// The configuration for a driver.
pub(crate) fn configuration(config: &Node, errors: &mut FieldErrors) {
    let opaque = config.at("opaque");
    if !opaque.exists() {
        errors.required(&opaque, "");
        return;
    }
    volumes::driver_name(&opaque.at("driver"), errors);
    raw_object(&opaque.at("parameters"), errors);
}

pub(crate) fn raw_object(at: &Node, errors: &mut FieldErrors) {
    if !at.exists() {
        errors.required(at, "");
    } else if at.value.to_string().len() > PARAMETERS_BYTES_MAX {
        errors.too_long(at, PARAMETERS_BYTES_MAX);
    } else if !at.value.is_object() {
        errors.invalid(at, "<value omitted>", "must be a valid JSON object");
    }
}

fn identifier(text: &str, at: &Node, errors: &mut FieldErrors) {
    if text.len() > IDENTIFIER_BYTES_MAX {
        errors.too_long(at, IDENTIFIER_BYTES_MAX);
    }
    let fine = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !fine {
        errors.invalid(at, text, IDENTIFIER_RULE);
    }
}

/// The name of an attribute or a capacity, with or without a domain.
pub(crate) fn qualified_name(text: &str, at: &Node, errors: &mut FieldErrors) {
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [name] => identifier(name, at, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(at, "", "the domain must not be empty");
            } else {
                volumes::driver_name_text(domain, at, errors);
            }
            if name.is_empty() {
                errors.invalid(at, "", "the name must not be empty");
            } else {
                identifier(name, at, errors);
            }
        }
        // Kubernetes accepts names with more slashes too.
        _ => {}
    }
}

pub(crate) fn pool_name(at: &Node, errors: &mut FieldErrors) {
    if at.as_text().is_empty() {
        errors.required(at, "");
        return;
    }
    if at.as_text().len() > POOL_NAME_BYTES_MAX {
        errors.too_long(at, POOL_NAME_BYTES_MAX);
    }
    for part in at.as_text().split('/') {
        for error in names::subdomain(part) {
            errors.invalid(at, part, &error);
        }
    }
}

/// Validates the conditions that a device must have before it is used, and those that mean that it never can be.
pub(crate) fn binding_conditions(of: &Node, errors: &mut FieldErrors) {
    let (wanted, failed) = ("bindingConditions", "bindingFailureConditions");
    for name in [wanted, failed] {
        slice(of, name, BINDING_CONDITIONS_MAX, errors, |condition, errors| {
            errors.invalid_each(condition, names::qualified(condition.as_text()));
        });
    }
    let all: BTreeSet<&str> = of.items(wanted).map(|condition| condition.as_text()).collect();
    for name in [wanted, failed] {
        let mut seen = BTreeSet::new();
        for condition in of.items(name) {
            if !seen.insert(condition.as_text()) {
                errors.duplicate(&condition, condition.as_text());
            }
            if name == failed && all.contains(condition.as_text()) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&condition, condition.as_text(), detail);
            }
        }
    }
    for (name, other) in [(wanted, failed), (failed, wanted)] {
        if of.length(name) == 0 && of.length(other) > 0 {
            let list = of.at(name);
            errors.invalid(&list, list.value.clone(), &format!("{name} are required to use {other}"));
        }
    }
}
