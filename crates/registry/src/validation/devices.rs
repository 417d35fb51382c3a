//! Devices of nodes, classes of them, and claims to them. Expressions of selectors are not compiled.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    document::{Faults, Node},
    names, resources, selectors, volumes, workloads,
};
use crate::schema::Quantity;

const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const CONFIGS_MAX: usize = 32;
const CHOICES_MAX: usize = 8;
const SELECTORS_MAX: usize = 32;
const RESULTS_MAX: usize = 32;
const CONSUMERS_MAX: usize = 256;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;
const POOL_NAME_BYTES_MAX: usize = 253;
const DEVICES_MAX: usize = 128;
/// If any of them has taints, consumes counters or has lists as attributes.
const ADVANCED_DEVICES_MAX: usize = 64;
const ATTRIBUTES_AND_CAPACITIES_MAX: usize = 32;
const ATTRIBUTE_VALUES_MAX: usize = 48;
const ATTRIBUTE_BYTES_MAX: usize = 64;
const IDENTIFIER_BYTES_MAX: usize = 32;
const TAINTS_MAX: usize = 16;
const BINDING_CONDITIONS_MAX: usize = 4;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMPTIONS_MAX: usize = 2;
const VALID_VALUES_MAX: usize = 10;
const DEVICE_CONDITIONS_MAX: usize = 8;
const INTERFACE_NAME_BYTES_MAX: usize = 256;
const HARDWARE_ADDRESS_BYTES_MAX: usize = 128;
const INTERFACE_ADDRESSES_MAX: usize = 16;

const IDENTIFIER_RULE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string \
     of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
     '[A-Za-z_][A-Za-z0-9_]*')";
const REQUEST_RULE: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
     separated by '/'";
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The requests of a claim, and the choices of those that have some.
type Requests<'d> = BTreeMap<&'d str, BTreeSet<&'d str>>;

/// A claim to devices.
pub(super) fn claim(claim: &Node, old: Option<&Node>, faults: &mut Faults) {
    // What cannot change was looked at when it was created.
    if old.is_none() {
        device_claim(&claim.at("spec.devices"), faults);
    }
}

/// A template of claims to devices.
pub(super) fn claim_template(template: &Node, _: Option<&Node>, faults: &mut Faults) {
    workloads::template_metadata(&template.at("spec.metadata"), faults);
    device_claim(&template.at("spec.spec.devices"), faults);
}

/// At most that many items, each checked by itself, and no two with the same key.
fn set<'d>(
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
fn slice<'d>(
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

fn request_names<'d>(devices: &Node<'d, '_>) -> Requests<'d> {
    let choices = |request: &Node<'d, '_>| {
        request.items("firstAvailable").map(|choice| choice.text_of("name")).collect()
    };
    devices.items("requests").map(|request| (request.text_of("name"), choices(&request))).collect()
}

fn label(at: &Node, faults: &mut Faults) {
    faults.texts(at, names::label(at.text()));
}

fn device_claim(devices: &Node, faults: &mut Faults) {
    let requests = request_names(devices);
    set(devices, "requests", REQUESTS_MAX, |request| request.text_of("name"), faults, request);
    slice(devices, "constraints", CONSTRAINTS_MAX, faults, |constraint, faults| {
        references(constraint, &requests, faults);
        if constraint.has("matchAttribute") {
            full_name(&constraint.at("matchAttribute"), faults);
        } else if constraint.has("distinctAttribute") {
            full_name(&constraint.at("distinctAttribute"), faults);
        } else {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields \
                 are set";
            faults.required(constraint, detail);
        }
    });
    slice(devices, "config", CONFIGS_MAX, faults, |config, faults| {
        references(config, &requests, faults);
        configuration(config, faults);
    });
}

fn request(request: &Node, faults: &mut Faults) {
    label(&request.at("name"), faults);
    let exactly = request.at("exactly");
    match (exactly.exists(), request.len_of("firstAvailable") > 0) {
        (true, true) => faults.invalid(
            request,
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (false, false) => {
            faults.required(request, "exactly one of `exactly` or `firstAvailable` is required");
        }
        (true, false) => what_is_asked(&exactly, faults),
        (false, true) => {
            set(
                request,
                "firstAvailable",
                CHOICES_MAX,
                |choice| choice.text_of("name"),
                faults,
                |choice, faults| {
                    label(&choice.at("name"), faults);
                    what_is_asked(choice, faults);
                },
            );
        }
    }
}

fn what_is_asked(request: &Node, faults: &mut Faults) {
    faults.named(&request.at("deviceClassName"), names::subdomain);
    device_selectors(request, faults);
    let (mode, count) = (request.at("allocationMode"), request.number_of("count"));
    match mode.text() {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            faults.invalid(&request.at("count"), count, detail);
        }
        "ExactCount" if count <= 0 => {
            faults.invalid(&request.at("count"), count, "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        text => faults.not_supported(&mode, text, &["All", "ExactCount"]),
    }
    for toleration in request.items("tolerations") {
        tolerates(&toleration, faults);
    }
}

fn tolerates(toleration: &Node, faults: &mut Faults) {
    faults.if_given(&toleration.at("key"), names::qualified);
    let value = toleration.at("value");
    match toleration.text_of("operator") {
        "Exists" if !value.text().is_empty() => {
            faults.invalid(&value, value.text(), "must be empty for operator `Exists`");
        }
        "Equal" => faults.texts(&value, names::label_value(value.text())),
        _ => faults.one_of(&toleration.at("operator"), &["Equal", "Exists"]),
    }
    if !toleration.text_of("effect").is_empty() {
        faults.one_of(&toleration.at("effect"), &EFFECTS);
    }
}

fn device_selectors(owner: &Node, faults: &mut Faults) {
    slice(owner, "selectors", SELECTORS_MAX, faults, |selector, faults| {
        let cel = selector.at("cel");
        if !cel.exists() {
            faults.required(&cel, "");
        } else if cel.text_of("expression").len() > EXPRESSION_BYTES_MAX {
            faults.too_long(&cel.at("expression"), EXPRESSION_BYTES_MAX);
        }
    });
}

/// Which requests of a claim are meant.
fn references(owner: &Node, requests: &Requests, faults: &mut Faults) {
    set(
        owner,
        "requests",
        REQUESTS_MAX,
        |name| name.text(),
        faults,
        |name, faults| {
            reference(name, requests, faults);
        },
    );
}

fn reference(at: &Node, requests: &Requests, faults: &mut Faults) {
    let parts: Vec<&str> = at.text().split('/').collect();
    if parts.len() <= 2 {
        for part in &parts {
            for fault in names::label(part) {
                faults.invalid(at, *part, &fault);
            }
        }
    }
    let known = match parts.as_slice() {
        [request] => requests.contains_key(request),
        [request, choice] => requests.get(request).is_some_and(|choices| choices.contains(choice)),
        _ => false,
    };
    if !known {
        faults.invalid(at, at.text(), REQUEST_RULE);
    }
}

/// What a driver is told.
fn configuration(config: &Node, faults: &mut Faults) {
    let opaque = config.at("opaque");
    if !opaque.exists() {
        faults.required(&opaque, "");
        return;
    }
    volumes::driver_name(&opaque.at("driver"), faults);
    raw_object(&opaque.at("parameters"), faults);
}

fn raw_object(at: &Node, faults: &mut Faults) {
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
fn qualified_name(text: &str, at: &Node, faults: &mut Faults) {
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

fn full_name(at: &Node, faults: &mut Faults) {
    qualified_name(at.text(), at, faults);
    if !at.text().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        faults.invalid(at, at.text(), detail);
    }
}

fn pool_name(at: &Node, faults: &mut Faults) {
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

fn uid(at: &Node, faults: &mut Faults) {
    let text = at.text();
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let dashed = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| hex(part))
    };
    let fault = match text.len() {
        36 => (!dashed(text)).then(|| "invalid UUID format".to_owned()),
        45 if !text.to_ascii_lowercase().starts_with("urn:uuid:") => {
            Some(format!("invalid urn prefix: {:?}", text.get(..9).unwrap_or_default()))
        }
        45 => (!text.get(9..).is_some_and(dashed)).then(|| "invalid UUID format".to_owned()),
        38 if !(text.starts_with('{') && text.ends_with('}')) => {
            Some("invalid bracketed UUID format".to_owned())
        }
        38 => (!dashed(&text[1..37])).then(|| "invalid UUID format".to_owned()),
        32 => (!hex(text)).then(|| "invalid UUID format".to_owned()),
        bytes => Some(format!("invalid UUID length: {bytes}")),
    };
    if let Some(fault) = fault {
        faults.invalid(at, text, &format!("error validating uid: {fault}"));
    } else if text.len() != 36 || text.bytes().any(|b| b.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
             hexadecimal characters";
        faults.invalid(at, text, detail);
    }
}

/// Which device it is, as the original shows it.
fn device_id(of: &Node) -> Value {
    let text = |name| of.text_of(name);
    json!({"Driver": text("driver"), "Pool": text("pool"), "Device": text("device"), "ShareID": text("shareID")})
}

/// What was allocated to a claim and who uses it.
pub(super) fn claim_status(new: &Node, old: &Node, faults: &mut Faults) {
    let requests = request_names(&new.at("spec.devices"));
    let (status, before) = (new.at("status"), old.at("status"));
    set(
        &status,
        "reservedFor",
        CONSUMERS_MAX,
        |consumer| consumer.text_of("uid"),
        faults,
        |consumer, faults| {
            for name in ["resource", "name", "uid"] {
                faults.given(&consumer.at(name));
            }
        },
    );
    let allocation = status.at("allocation");
    let results = allocation.at("devices");
    let allocated: Vec<Value> = results.items("results").map(|result| device_id(&result)).collect();
    for device in status.items("devices") {
        device_status(&device, &allocated, faults);
    }
    let mut seen = Vec::new();
    for device in status.items("devices") {
        let id = device_id(&device);
        if seen.contains(&id) {
            faults.duplicate_shown(&device, &shown_id(&id));
        }
        seen.push(id);
    }
    if status.len_of("reservedFor") > 0 {
        let reserved = status.at("reservedFor");
        let had = |consumer: &Node| before.items("reservedFor").any(|other| other.value == consumer.value);
        if !allocation.exists() {
            faults.forbidden(&reserved, "may not be specified when `allocated` is not set");
        } else if new.at("metadata").has("deletionTimestamp")
            && status.items("reservedFor").any(|consumer| !had(&consumer))
        {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            faults.forbidden(&reserved, detail);
        }
    }
    if before.has("allocation") && allocation.exists() {
        faults.unchanged(&allocation, &before.at("allocation"));
    } else if allocation.exists() {
        allocated_devices(&results, &requests, faults);
        if allocation.has("nodeSelector") {
            selectors::node_selector(&allocation.at("nodeSelector"), faults);
        }
    }
}

fn allocated_devices(devices: &Node, requests: &Requests, faults: &mut Faults) {
    slice(devices, "results", RESULTS_MAX, faults, |result, faults| {
        reference(&result.at("request"), requests, faults);
        volumes::driver_name(&result.at("driver"), faults);
        pool_name(&result.at("pool"), faults);
        label(&result.at("device"), faults);
        binding_conditions(result, faults);
        if result.has("shareID") {
            uid(&result.at("shareID"), faults);
        }
    });
    slice(devices, "config", 2 * CONFIGS_MAX, faults, |config, faults| {
        faults.one_of(&config.at("source"), &["FromClaim", "FromClass"]);
        references(config, requests, faults);
        configuration(config, faults);
    });
}

/// The fields in the order of the original; a map of ours has them in that of their names.
fn shown_id(id: &Value) -> String {
    let fields = ["Driver", "Pool", "Device", "ShareID"].map(|name| format!("\"{name}\":{}", id[name]));
    format!("{{{}}}", fields.join(","))
}

fn device_status(device: &Node, allocated: &[Value], faults: &mut Faults) {
    volumes::driver_name(&device.at("driver"), faults);
    pool_name(&device.at("pool"), faults);
    label(&device.at("device"), faults);
    if device.has("shareID") {
        uid(&device.at("shareID"), faults);
    }
    let id = device_id(device);
    if !allocated.contains(&id) {
        let detail = format!("{}: must be an allocated device in the claim", shown_id(&id));
        faults.invalid_unshown(device, &detail);
    }
    let count = device.len_of("conditions");
    if count > DEVICE_CONDITIONS_MAX {
        faults.too_many(&device.at("conditions"), count, DEVICE_CONDITIONS_MAX);
    }
    super::metadata::conditions(device, faults);
    if device.has("data") {
        raw_object(&device.at("data"), faults);
    }
    let network = device.at("networkData");
    for (name, bytes_max) in
        [("interfaceName", INTERFACE_NAME_BYTES_MAX), ("hardwareAddress", HARDWARE_ADDRESS_BYTES_MAX)]
    {
        if network.text_of(name).len() > bytes_max {
            faults.too_long(&network.at(name), bytes_max);
        }
    }
    set(
        &network,
        "ips",
        INTERFACE_ADDRESSES_MAX,
        |address| address.text(),
        faults,
        |address, faults| {
            if names::parse_cidr(address.text()).is_none() {
                let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                faults.invalid(address, address.text(), detail);
            }
        },
    );
}

/// A class of devices.
pub(super) fn class(class: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = class.at("spec");
    device_selectors(&spec, faults);
    slice(&spec, "config", CONFIGS_MAX, faults, configuration);
    let name = spec.at("extendedResourceName");
    if name.exists() && !resources::is_extended(name.text()) {
        faults.invalid(&name, name.text(), "must be a valid extended resource name");
    }
}

/// The devices of a node.
pub(super) fn resource_slice(object: &Node, old: Option<&Node>, faults: &mut Faults) {
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
    let devices_max = if spec.items("devices").any(is_advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
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

/// What has to hold before a device can be used, and what means that it never will.
fn binding_conditions(of: &Node, faults: &mut Faults) {
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
