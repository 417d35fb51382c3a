//! Devices: what the kinds of `resource.k8s.io` share.

use crate::validation::{
    document::{Faults, Node},
    names, volumes,
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

/// At most that many items, each checked by itself, and no two with the same key.
pub(crate) fn set<'d>(
    parent: &Node<'d, '_>,
    name: &str,
    items_max: usize,
    key: impl Fn(&Node<'d, '_>) -> &'d str,
    faults: &mut Faults,
    mut check: impl FnMut(&Node<'d, '_>, &mut Faults),
) {
    if !slice(parent, name, items_max, faults, &mut check) {
        return;
    }
    let mut seen = BTreeSet::new();
    for item in parent.items(name) {
        if !seen.insert(key(&item)) {
            faults.duplicate(&item, key(&item));
        }
    }
}

/// At most that many items, each checked by itself. Whether they are not too many.
pub(crate) fn slice<'d>(
    parent: &Node<'d, '_>,
    name: &str,
    items_max: usize,
    faults: &mut Faults,
    mut check: impl FnMut(&Node<'d, '_>, &mut Faults),
) -> bool {
    let count = parent.len_of(name);
    if count > items_max {
        faults.too_many(&parent.at(name), count, items_max);
        return false;
    }
    for item in parent.items(name) {
        check(&item, faults);
    }
    true
}

pub(crate) fn label(at: &Node, faults: &mut Faults) {
    faults.texts(at, names::label(at.text()));
}

pub(crate) fn device_selectors(owner: &Node, faults: &mut Faults) {
    slice(owner, "selectors", SELECTORS_MAX, faults, |selector, faults| {
        let cel = selector.at("cel");
        if !cel.exists() {
            faults.required(&cel, "");
        } else if cel.text_of("expression").len() > EXPRESSION_BYTES_MAX {
            faults.too_long(&cel.at("expression"), EXPRESSION_BYTES_MAX);
        }
    });
}

/// What a driver is told.
pub(crate) fn configuration(config: &Node, faults: &mut Faults) {
    let opaque = config.at("opaque");
    if !opaque.exists() {
        faults.required(&opaque, "");
        return;
    }
    volumes::driver_name(&opaque.at("driver"), faults);
    raw_object(&opaque.at("parameters"), faults);
}

pub(crate) fn raw_object(at: &Node, faults: &mut Faults) {
    if !at.exists() {
        faults.required(at, "");
    } else if at.value.to_string().len() > PARAMETERS_BYTES_MAX {
        faults.too_long(at, PARAMETERS_BYTES_MAX);
    } else if !at.value.is_object() {
        faults.invalid(at, "<value omitted>", "must be a valid JSON object");
    }
}

fn identifier(text: &str, at: &Node, faults: &mut Faults) {
    if text.len() > IDENTIFIER_BYTES_MAX {
        faults.too_long(at, IDENTIFIER_BYTES_MAX);
    }
    let fine = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !fine {
        faults.invalid(at, text, IDENTIFIER_RULE);
    }
}

/// The name of an attribute or a capacity, with or without a domain.
pub(crate) fn qualified_name(text: &str, at: &Node, faults: &mut Faults) {
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [name] => identifier(name, at, faults),
        [domain, name] => {
            if domain.is_empty() {
                faults.invalid(at, "", "the domain must not be empty");
            } else {
                volumes::driver_name_text(domain, at, faults);
            }
            if name.is_empty() {
                faults.invalid(at, "", "the name must not be empty");
            } else {
                identifier(name, at, faults);
            }
        }
        // Names with more slashes pass in the original too.
        _ => {}
    }
}

pub(crate) fn pool_name(at: &Node, faults: &mut Faults) {
    if at.text().is_empty() {
        faults.required(at, "");
        return;
    }
    if at.text().len() > POOL_NAME_BYTES_MAX {
        faults.too_long(at, POOL_NAME_BYTES_MAX);
    }
    for part in at.text().split('/') {
        for fault in names::subdomain(part) {
            faults.invalid(at, part, &fault);
        }
    }
}

/// What has to hold before a device can be used, and what means that it never will.
pub(crate) fn binding_conditions(of: &Node, faults: &mut Faults) {
    let (wanted, failed) = ("bindingConditions", "bindingFailureConditions");
    for name in [wanted, failed] {
        slice(of, name, BINDING_CONDITIONS_MAX, faults, |condition, faults| {
            faults.texts(condition, names::qualified(condition.text()));
        });
    }
    let all: BTreeSet<&str> = of.items(wanted).map(|condition| condition.text()).collect();
    for name in [wanted, failed] {
        let mut seen = BTreeSet::new();
        for condition in of.items(name) {
            if !seen.insert(condition.text()) {
                faults.duplicate(&condition, condition.text());
            }
            if name == failed && all.contains(condition.text()) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                faults.invalid(&condition, condition.text(), detail);
            }
        }
    }
    for (name, other) in [(wanted, failed), (failed, wanted)] {
        if of.len_of(name) == 0 && of.len_of(other) > 0 {
            let list = of.at(name);
            faults.invalid(&list, list.value.clone(), &format!("{name} are required to use {other}"));
        }
    }
}
