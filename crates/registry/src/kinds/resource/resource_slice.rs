//! ResourceSlice.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, SelectableField, UnknownField},
    kinds::resource::devices::{EFFECTS, binding_conditions, label, pool_name, qualified_name, set, slice},
    schema::{self, Quantity, Timestamp},
    strategy::Strategy,
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{SPEC, Step, names, resources, selectors, volumes},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.ResourceSlice", "resourceslices")
        .cluster_scoped()
        .returns_deleted()
        .generation(Generation::Spec)
        .selectable(
            [SelectableField::new("spec.nodeName"), SelectableField::new("spec.driver")],
            UnknownField::NotSupportedForKind,
        )
        .strategy(ResourceSliceStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Node", "The node that has the devices"),
    text("Driver", "Who offers the devices"),
    text("Pool", "The pool that the devices are of"),
    AGE,
];

struct ResourceSliceStrategy;

impl Strategy for ResourceSliceStrategy {
    /// The devices of a driver. A new taint gets the current time.
    fn set_defaults(&self, object: &mut Object) {
        for device in object.object_mut("spec").into_iter().flat_map(|spec| spec.objects_mut("devices")) {
            for taint in device.objects_mut("taints") {
                if !taint.has("timeAdded") {
                    taint.insert("timeAdded".to_owned(), schema::time(Timestamp::now()).into());
                }
            }
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        for device in document.list_mut("spec.devices") {
            device.make_object().remove("nodeAllocatableResourceMappings");
            let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
            for (_, attribute) in attributes.into_iter().flatten() {
                if let Some(attribute) = attribute.as_object_mut() {
                    attribute
                        .retain(|name, _| !["bools", "ints", "strings", "versions"].contains(&name.as_str()));
                }
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, object: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let spec = object.at("spec");
        volumes::driver_name(&spec.at("driver"), errors);
        let pool = spec.at("pool");
        pool_name(&pool.at("name"), errors);
        let count = pool.number("resourceSliceCount");
        if count <= 0 {
            errors.invalid(&pool.at("resourceSliceCount"), count, "must be greater than zero");
        }
        let generation = pool.number("generation");
        if generation < 0 {
            errors.invalid(&pool.at("generation"), generation, "must be greater than or equal to zero");
        }
        if let Some(old) = old {
            for name in ["pool.name", "driver"] {
                errors.immutable_text(&spec.at(name), &old.at("spec").at(name));
            }
            errors.immutable(&spec.at("nodeName"), &old.at("spec").at("nodeName"));
        }
        let mut chosen =
            node_fields(&spec, "must be either unset or set to a non-empty string", true, errors);
        let per_device = spec.at("perDeviceNodeSelection");
        match per_device.value.as_bool() {
            Some(true) => chosen.push("`perDeviceNodeSelection`"),
            Some(false) => errors.invalid(&per_device, false, "must be either unset or set to true"),
            None => {}
        }
        let detail =
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        match chosen.len() {
            0 => errors.required(&spec, detail),
            1 => {}
            _ => {
                let detail = format!("{detail}, but multiple fields are set");
                errors.invalid(&spec, format!("{{{}}}", chosen.join(", ")), &detail);
            }
        }
        if spec.has("sharedCounters") && spec.has("devices") {
            errors.invalid(&spec, "", "only one of `sharedCounters` or `devices` is allowed");
        }
        let is_advanced = |device: Node| {
            let is_list = |name: &&str| matches!(*name, "bools" | "ints" | "strings" | "versions");
            device.length("taints") > 0
                || device.length("consumesCounters") > 0
                || device.entries("attributes").any(|(_, attribute)| {
                    attribute.own_entries().any(|(name, value)| is_list(&name) && value.exists())
                })
        };
        let devices_max =
            if spec.items("devices").any(is_advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
        let per_device = spec.flag("perDeviceNodeSelection");
        let before = old.map(|old| old.at("spec"));
        set(
            &spec,
            "devices",
            devices_max,
            |device| device.text("name"),
            errors,
            |found, errors| {
                let name = found.text("name");
                let before = before
                    .as_ref()
                    .and_then(|spec| spec.items("devices").find(|old| old.text("name") == name));
                device(found, before.map(|old| old.at("taints").value), per_device, errors);
            },
        );
        set(
            &spec,
            "sharedCounters",
            COUNTER_SETS_MAX,
            |set| set.text("name"),
            errors,
            |set, errors| {
                counters(set, "name", errors);
            },
        );
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, slice: &Value, now: Timestamp) -> Vec<Value> {
        row![
            slice.name(),
            slice.text("spec.nodeName"),
            slice.text("spec.driver"),
            slice.text("spec.pool.name"),
            age_of(slice, now),
        ]
    }
}

const DEVICES_MAX: usize = 128;

/// The maximum number of devices if any of them has taints, consumes counters or has lists as attributes.
const ADVANCED_DEVICES_MAX: usize = 64;

const ATTRIBUTES_AND_CAPACITIES_MAX: usize = 32;

const ATTRIBUTE_VALUES_MAX: usize = 48;

const ATTRIBUTE_BYTES_MAX: usize = 64;

const TAINTS_MAX: usize = 16;

const COUNTER_SETS_MAX: usize = 8;

const COUNTERS_MAX: usize = 32;

const CONSUMPTIONS_MAX: usize = 2;

const VALID_VALUES_MAX: usize = 10;

/// Validates the node fields of a slice or a device, and returns those that are set.
fn node_fields(of: &Node, empty: &str, one_term: bool, errors: &mut FieldErrors) -> Vec<&'static str> {
    let mut chosen = Vec::new();
    let node = of.at("nodeName");
    if node.exists() && node.as_text().is_empty() {
        errors.invalid(&node, "", empty);
    } else if node.exists() {
        chosen.push("`nodeName`");
        errors.invalid_each(&node, names::subdomain(node.as_text()));
    }
    let selector = of.at("nodeSelector");
    if selector.exists() {
        chosen.push("`nodeSelector`");
        selectors::node_selector(&selector, errors);
        if one_term && selector.length("nodeSelectorTerms") != 1 {
            let terms = selector.at("nodeSelectorTerms");
            errors.invalid(&terms, terms.value.clone(), "must have exactly one node selector term");
        }
    }
    match of.at("allNodes").value.as_bool() {
        Some(true) => chosen.push("`allNodes`"),
        Some(false) => errors.invalid(&of.at("allNodes"), false, "must be either unset or set to true"),
        None => {}
    }
    chosen
}

fn counters(owner: &Node, name: &str, errors: &mut FieldErrors) {
    errors.valid_name(&owner.at(name), names::label);
    let counters = owner.at("counters");
    match owner.length("counters") {
        0 => errors.required(&counters, ""),
        count if count > COUNTERS_MAX => errors.too_many(&counters, count, COUNTERS_MAX),
        _ => {
            for (name, _) in owner.entries("counters") {
                for error in names::label(name) {
                    errors.invalid(&counters, name, &error);
                }
            }
        }
    }
}

fn device(device: &Node, old_taints: Option<&Value>, per_device: bool, errors: &mut FieldErrors) {
    label(&device.at("name"), errors);
    let count = device.length("attributes") + device.length("capacity");
    if count > ATTRIBUTES_AND_CAPACITIES_MAX {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}"
        );
        errors.invalid(device, count, &detail);
    }
    let values = |(_, attribute): (&str, Node)| {
        let listed = ["bools", "ints", "strings", "versions"].map(|name| attribute.length(name));
        listed.iter().sum::<usize>().max(1)
    };
    let count: usize = device.entries("attributes").map(values).sum();
    if count > ATTRIBUTE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        errors.invalid(device, count, &detail);
    }
    for (name, value) in device.entries("attributes") {
        qualified_name(name, &device.at("attributes"), errors);
        attribute(&value, errors);
    }
    for (name, capacity) in device.entries("capacity") {
        qualified_name(name, &device.at("capacity"), errors);
        let policy = capacity.at("requestPolicy");
        if !policy.exists() {
            continue;
        }
        if device.flag("allowMultipleAllocations") {
            request_policy(
                &policy,
                resources::quantity(&capacity.at("value")).unwrap_or(Quantity::ZERO),
                errors,
            );
        } else {
            errors.forbidden(&policy, "allowMultipleAllocations must be true");
        }
    }
    if old_taints != Some(device.at("taints").value) {
        slice(device, "taints", TAINTS_MAX, errors, |taint, errors| {
            errors.invalid_each(&taint.at("key"), names::qualified(taint.text("key")));
            errors.valid_if_set(&taint.at("value"), names::label_value);
            errors.one_of(&taint.at("effect"), &EFFECTS);
        });
    }
    set(
        device,
        "consumesCounters",
        CONSUMPTIONS_MAX,
        |set| set.text("counterSet"),
        errors,
        |set, errors| {
            counters(set, "counterSet", errors);
        },
    );
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set \
         to true in the ResourceSlice spec";
    if per_device {
        let chosen = node_fields(device, "must not be empty", false, errors);
        match chosen.len() {
            0 => errors.required(device, rule),
            1 => {}
            _ => errors.invalid(device, format!("{{{}}}", chosen.join(", ")), rule),
        }
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| device.has(name)) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
             in the ResourceSlice spec";
        errors.invalid(device, Value::Null, detail);
    }
    binding_conditions(device, errors);
}

fn attribute(attribute: &Node, errors: &mut FieldErrors) {
    let text = |at: &Node, errors: &mut FieldErrors| {
        if at.as_text().len() > ATTRIBUTE_BYTES_MAX {
            errors.too_long(at, ATTRIBUTE_BYTES_MAX);
        }
    };
    let version = |at: &Node, errors: &mut FieldErrors| {
        if !is_version(at.as_text()) {
            errors.invalid(at, at.as_text(), "must be a string compatible with semver.org spec 2.0.0");
        }
        text(at, errors);
    };
    if attribute.has("string") {
        text(&attribute.at("string"), errors);
    }
    if attribute.has("version") {
        version(&attribute.at("version"), errors);
    }
    for name in ["bools", "ints", "strings", "versions"] {
        if attribute.has(name) && attribute.length(name) == 0 {
            errors.invalid(&attribute.at(name), json!([]), "must not be empty if specified");
        }
        for item in attribute.items(name) {
            match name {
                "strings" => text(&item, errors),
                "versions" => version(&item, errors),
                _ => {}
            }
        }
    }
    match attribute.own_entries().filter(|(_, value)| value.exists()).count() {
        0 => errors.invalid(attribute, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(attribute, attribute.value.clone(), "exactly one value must be specified"),
    }
}

/// Whether the text is a version as semver.org has them.
fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        part == "0"
            || (!part.starts_with('0') && !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let released = |part: &str| number(part) || (word(part) && part.bytes().any(|b| !b.is_ascii_digit()));
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (numbers, release) =
        text.split_once('-').map_or((text, None), |(text, release)| (text, Some(release)));
    numbers.split('.').count() == 3
        && numbers.split('.').all(number)
        && release.is_none_or(|release| release.split('.').all(released))
        && build.is_none_or(|build| build.split('.').all(word))
}

/// Validates the policy for requests of a capacity.
fn request_policy(policy: &Node, capacity: Quantity, errors: &mut FieldErrors) {
    let range = policy.at("validRange");
    let (has_values, default) = (policy.length("validValues") > 0, policy.at("default"));
    let amount = resources::quantity(&default);
    match (has_values, range.exists(), amount) {
        (true, true, _) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                 same time";
            errors.forbidden(policy, detail);
        }
        (true, false, None) => errors.required(&default, "required when validValues is defined"),
        (false, true, None) => errors.required(&default, "required when validRange is defined"),
        (true, false, Some(amount)) => valid_values(policy, amount, capacity, errors),
        (false, true, Some(amount)) => valid_range(&range, amount, capacity, errors),
        (false, false, _) => {}
    }
}

fn valid_values(policy: &Node, default: Quantity, capacity: Quantity, errors: &mut FieldErrors) {
    let values = policy.at("validValues");
    let amounts: Vec<_> = policy
        .items("validValues")
        .map(|value| (value, resources::quantity(&value).unwrap_or(Quantity::ZERO)))
        .collect();
    for pair in amounts.windows(2).filter(|pair| pair[0].1 > pair[1].1) {
        errors.invalid(&pair[1].0, pair[1].0.as_text(), "values must be sorted in ascending order");
    }
    if amounts.len() > VALID_VALUES_MAX {
        errors.too_many(&values, amounts.len(), VALID_VALUES_MAX);
    } else {
        for (value, _) in amounts.iter().filter(|(_, amount)| *amount > capacity) {
            let detail = format!("option is larger than capacity value: {capacity}");
            errors.invalid(value, value.as_text(), &detail);
        }
        let mut seen = BTreeSet::new();
        for (value, amount) in &amounts {
            if !seen.insert(amount.units()) {
                errors.duplicate(value, &amount.units().to_string());
            }
        }
    }
    if amounts.len() > VALID_VALUES_MAX || !amounts.iter().any(|(_, amount)| *amount == default) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.invalid(&values, default.to_string(), detail);
    }
}

fn valid_range(range: &Node, default: Quantity, capacity: Quantity, errors: &mut FieldErrors) {
    let amount = |name| resources::quantity(&range.at(name));
    let Some(min) = amount("min") else {
        errors.required(&range.at("min"), "required when validRange is defined");
        return;
    };
    let mut check = |wrong: bool, name: &str, shown: Quantity, detail: String| {
        if wrong {
            errors.invalid(&range.at(name), shown.to_string(), &detail);
        }
    };
    check(min > capacity, "min", min, format!("min is larger than capacity value: {capacity}"));
    check(default < min, "min", default, format!("default is less than min: {min}"));
    let max = amount("max");
    if let Some(max) = max {
        check(min > max, "max", min, format!("min is larger than max: {max}"));
        check(max > capacity, "max", max, format!("max is larger than capacity value: {capacity}"));
        check(default > max, "max", default, format!("default is more than max: {max}"));
    }
    if let Some(step) = amount("step") {
        let first = min + step;
        let detail = format!("one step {first} is larger than capacity value: {capacity}");
        check(first > capacity, "step", step, detail);
        for value in [Some(default), max].into_iter().flatten() {
            // Kubernetes divides by zero here.
            let rest = (value.units() - min.units()).checked_rem(step.units());
            let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
            check(rest != Some(0), "step", value, detail);
        }
    }
}
