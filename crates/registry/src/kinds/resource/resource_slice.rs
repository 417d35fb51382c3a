//! ResourceSlice.

use crate::{
    defaults::fields::{Object, child, children, is_set},
    kind::{Generation, Kind, SelectableField, UnknownField},
    kinds::resource::devices::{EFFECTS, binding_conditions, label, pool_name, qualified_name, set, slice},
    schema::{self, Quantity, Timestamp},
    strategy::Strategy,
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        SPEC, Step,
        document::{Faults, Node},
        names, resources, selectors, volumes,
    },
    value::{fields, list_mut},
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
    /// The devices of a driver. A taint tells since when it is there; that is now if it is new.
    fn set_defaults(&self, object: &mut Object) {
        for device in child(object, "spec").into_iter().flat_map(|spec| children(spec, "devices")) {
            for taint in children(device, "taints") {
                if !is_set(taint, "timeAdded") {
                    taint.insert("timeAdded".to_owned(), schema::time(Timestamp::now()).into());
                }
            }
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        for device in list_mut(document, "/spec/devices") {
            fields(device, &[]).remove("nodeAllocatableResourceMappings");
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

    fn validate(&self, object: &Node, old: Option<&Node>, faults: &mut Faults) {
        let spec = object.at("spec");
        volumes::driver_name(&spec.at("driver"), faults);
        let pool = spec.at("pool");
        pool_name(&pool.at("name"), faults);
        let count = pool.number_of("resourceSliceCount");
        if count <= 0 {
            faults.invalid(&pool.at("resourceSliceCount"), count, "must be greater than zero");
        }
        let generation = pool.number_of("generation");
        if generation < 0 {
            faults.invalid(&pool.at("generation"), generation, "must be greater than or equal to zero");
        }
        if let Some(old) = old {
            for name in ["pool.name", "driver"] {
                faults.text_unchanged(&spec.at(name), &old.at("spec").at(name));
            }
            faults.unchanged(&spec.at("nodeName"), &old.at("spec").at("nodeName"));
        }
        let mut chosen = places(&spec, "must be either unset or set to a non-empty string", true, faults);
        let per_device = spec.at("perDeviceNodeSelection");
        match per_device.value.as_bool() {
            Some(true) => chosen.push("`perDeviceNodeSelection`"),
            Some(false) => faults.invalid(&per_device, false, "must be either unset or set to true"),
            None => {}
        }
        let detail =
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        match chosen.len() {
            0 => faults.required(&spec, detail),
            1 => {}
            _ => {
                let detail = format!("{detail}, but multiple fields are set");
                faults.invalid(&spec, format!("{{{}}}", chosen.join(", ")), &detail);
            }
        }
        if spec.has("sharedCounters") && spec.has("devices") {
            faults.invalid(&spec, "", "only one of `sharedCounters` or `devices` is allowed");
        }
        let is_advanced = |device: Node| {
            let is_list = |name: &&str| matches!(*name, "bools" | "ints" | "strings" | "versions");
            device.len_of("taints") > 0
                || device.len_of("consumesCounters") > 0
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
            |device| device.text_of("name"),
            faults,
            |found, faults| {
                let name = found.text_of("name");
                let before = before
                    .as_ref()
                    .and_then(|spec| spec.items("devices").find(|old| old.text_of("name") == name));
                device(found, before.map(|old| old.at("taints").value), per_device, faults);
            },
        );
        set(
            &spec,
            "sharedCounters",
            COUNTER_SETS_MAX,
            |set| set.text_of("name"),
            faults,
            |set, faults| {
                counters(set, "name", faults);
            },
        );
    }

    fn columns(&self) -> &'static [Column] {
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

/// If any of them has taints, consumes counters or has lists as attributes.
const ADVANCED_DEVICES_MAX: usize = 64;

const ATTRIBUTES_AND_CAPACITIES_MAX: usize = 32;

const ATTRIBUTE_VALUES_MAX: usize = 48;

const ATTRIBUTE_BYTES_MAX: usize = 64;

const TAINTS_MAX: usize = 16;

const COUNTER_SETS_MAX: usize = 8;

const COUNTERS_MAX: usize = 32;

const CONSUMPTIONS_MAX: usize = 2;

const VALID_VALUES_MAX: usize = 10;

/// Where a slice or a device is, and what of it was chosen.
fn places(of: &Node, empty: &str, one_term: bool, faults: &mut Faults) -> Vec<&'static str> {
    let mut chosen = Vec::new();
    let node = of.at("nodeName");
    if node.exists() && node.text().is_empty() {
        faults.invalid(&node, "", empty);
    } else if node.exists() {
        chosen.push("`nodeName`");
        faults.texts(&node, names::subdomain(node.text()));
    }
    let selector = of.at("nodeSelector");
    if selector.exists() {
        chosen.push("`nodeSelector`");
        selectors::node_selector(&selector, faults);
        if one_term && selector.len_of("nodeSelectorTerms") != 1 {
            let terms = selector.at("nodeSelectorTerms");
            faults.invalid(&terms, terms.value.clone(), "must have exactly one node selector term");
        }
    }
    match of.at("allNodes").value.as_bool() {
        Some(true) => chosen.push("`allNodes`"),
        Some(false) => faults.invalid(&of.at("allNodes"), false, "must be either unset or set to true"),
        None => {}
    }
    chosen
}

fn counters(owner: &Node, name: &str, faults: &mut Faults) {
    faults.named(&owner.at(name), names::label);
    let counters = owner.at("counters");
    match owner.len_of("counters") {
        0 => faults.required(&counters, ""),
        count if count > COUNTERS_MAX => faults.too_many(&counters, count, COUNTERS_MAX),
        _ => {
            for (name, _) in owner.entries("counters") {
                for fault in names::label(name) {
                    faults.invalid(&counters, name, &fault);
                }
            }
        }
    }
}

fn device(device: &Node, old_taints: Option<&Value>, per_device: bool, faults: &mut Faults) {
    label(&device.at("name"), faults);
    let count = device.len_of("attributes") + device.len_of("capacity");
    if count > ATTRIBUTES_AND_CAPACITIES_MAX {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}"
        );
        faults.invalid(device, count, &detail);
    }
    let values = |(_, attribute): (&str, Node)| {
        let listed = ["bools", "ints", "strings", "versions"].map(|name| attribute.len_of(name));
        listed.iter().sum::<usize>().max(1)
    };
    let count: usize = device.entries("attributes").map(values).sum();
    if count > ATTRIBUTE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        faults.invalid(device, count, &detail);
    }
    for (name, value) in device.entries("attributes") {
        qualified_name(name, &device.at("attributes"), faults);
        attribute(&value, faults);
    }
    for (name, capacity) in device.entries("capacity") {
        qualified_name(name, &device.at("capacity"), faults);
        let policy = capacity.at("requestPolicy");
        if !policy.exists() {
            continue;
        }
        if device.flag("allowMultipleAllocations") {
            request_policy(
                &policy,
                resources::quantity(&capacity.at("value")).unwrap_or(Quantity::ZERO),
                faults,
            );
        } else {
            faults.forbidden(&policy, "allowMultipleAllocations must be true");
        }
    }
    if old_taints != Some(device.at("taints").value) {
        slice(device, "taints", TAINTS_MAX, faults, |taint, faults| {
            faults.texts(&taint.at("key"), names::qualified(taint.text_of("key")));
            faults.if_given(&taint.at("value"), names::label_value);
            faults.one_of(&taint.at("effect"), &EFFECTS);
        });
    }
    set(
        device,
        "consumesCounters",
        CONSUMPTIONS_MAX,
        |set| set.text_of("counterSet"),
        faults,
        |set, faults| {
            counters(set, "counterSet", faults);
        },
    );
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set \
         to true in the ResourceSlice spec";
    if per_device {
        let chosen = places(device, "must not be empty", false, faults);
        match chosen.len() {
            0 => faults.required(device, rule),
            1 => {}
            _ => faults.invalid(device, format!("{{{}}}", chosen.join(", ")), rule),
        }
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| device.has(name)) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
             in the ResourceSlice spec";
        faults.invalid(device, Value::Null, detail);
    }
    binding_conditions(device, faults);
}

fn attribute(attribute: &Node, faults: &mut Faults) {
    let text = |at: &Node, faults: &mut Faults| {
        if at.text().len() > ATTRIBUTE_BYTES_MAX {
            faults.too_long(at, ATTRIBUTE_BYTES_MAX);
        }
    };
    let version = |at: &Node, faults: &mut Faults| {
        if !is_version(at.text()) {
            faults.invalid(at, at.text(), "must be a string compatible with semver.org spec 2.0.0");
        }
        text(at, faults);
    };
    if attribute.has("string") {
        text(&attribute.at("string"), faults);
    }
    if attribute.has("version") {
        version(&attribute.at("version"), faults);
    }
    for name in ["bools", "ints", "strings", "versions"] {
        if attribute.has(name) && attribute.len_of(name) == 0 {
            faults.invalid(&attribute.at(name), json!([]), "must not be empty if specified");
        }
        for item in attribute.items(name) {
            match name {
                "strings" => text(&item, faults),
                "versions" => version(&item, faults),
                _ => {}
            }
        }
    }
    match attribute.own_entries().filter(|(_, value)| value.exists()).count() {
        0 => faults.invalid(attribute, "", "exactly one value must be specified"),
        1 => {}
        _ => faults.invalid(attribute, attribute.value.clone(), "exactly one value must be specified"),
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

/// How much of a capacity may be asked for.
fn request_policy(policy: &Node, capacity: Quantity, faults: &mut Faults) {
    let range = policy.at("validRange");
    let (has_values, default) = (policy.len_of("validValues") > 0, policy.at("default"));
    let amount = resources::quantity(&default);
    match (has_values, range.exists(), amount) {
        (true, true, _) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                 same time";
            faults.forbidden(policy, detail);
        }
        (true, false, None) => faults.required(&default, "required when validValues is defined"),
        (false, true, None) => faults.required(&default, "required when validRange is defined"),
        (true, false, Some(amount)) => valid_values(policy, amount, capacity, faults),
        (false, true, Some(amount)) => valid_range(&range, amount, capacity, faults),
        (false, false, _) => {}
    }
}

fn valid_values(policy: &Node, default: Quantity, capacity: Quantity, faults: &mut Faults) {
    let values = policy.at("validValues");
    let amounts: Vec<_> = policy
        .items("validValues")
        .map(|value| (value, resources::quantity(&value).unwrap_or(Quantity::ZERO)))
        .collect();
    for pair in amounts.windows(2).filter(|pair| pair[0].1 > pair[1].1) {
        faults.invalid(&pair[1].0, pair[1].0.text(), "values must be sorted in ascending order");
    }
    if amounts.len() > VALID_VALUES_MAX {
        faults.too_many(&values, amounts.len(), VALID_VALUES_MAX);
    } else {
        for (value, _) in amounts.iter().filter(|(_, amount)| *amount > capacity) {
            let detail = format!("option is larger than capacity value: {capacity}");
            faults.invalid(value, value.text(), &detail);
        }
        let mut seen = BTreeSet::new();
        for (value, amount) in &amounts {
            if !seen.insert(amount.units()) {
                faults.duplicate(value, &amount.units().to_string());
            }
        }
    }
    if amounts.len() > VALID_VALUES_MAX || !amounts.iter().any(|(_, amount)| *amount == default) {
        let detail = "default value is not valid according to the requestPolicy";
        faults.invalid(&values, default.to_string(), detail);
    }
}

fn valid_range(range: &Node, default: Quantity, capacity: Quantity, faults: &mut Faults) {
    let amount = |name| resources::quantity(&range.at(name));
    let Some(min) = amount("min") else {
        faults.required(&range.at("min"), "required when validRange is defined");
        return;
    };
    let mut tell = |wrong: bool, name: &str, shown: Quantity, detail: String| {
        if wrong {
            faults.invalid(&range.at(name), shown.to_string(), &detail);
        }
    };
    tell(min > capacity, "min", min, format!("min is larger than capacity value: {capacity}"));
    tell(default < min, "min", default, format!("default is less than min: {min}"));
    let max = amount("max");
    if let Some(max) = max {
        tell(min > max, "max", min, format!("min is larger than max: {max}"));
        tell(max > capacity, "max", max, format!("max is larger than capacity value: {capacity}"));
        tell(default > max, "max", default, format!("default is more than max: {max}"));
    }
    if let Some(step) = amount("step") {
        let first = min + step;
        let detail = format!("one step {first} is larger than capacity value: {capacity}");
        tell(first > capacity, "step", step, detail);
        for value in [Some(default), max].into_iter().flatten() {
            // The original divides by zero here.
            let rest = (value.units() - min.units()).checked_rem(step.units());
            let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
            tell(rest != Some(0), "step", value, detail);
        }
    }
}
