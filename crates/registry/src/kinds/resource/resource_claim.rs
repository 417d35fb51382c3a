//! ResourceClaim.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, Subresource},
    kinds::resource::devices::{
        CONFIGS_MAX, EFFECTS, binding_conditions, configuration, device_selectors, label, pool_name,
        qualified_name, raw_object, set, slice,
    },
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{self, Step, names, selectors, storage::spec_is_fixed, volumes},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.ResourceClaim", "resourceclaims")
        .subresources([Subresource::status()])
        .returns_deleted()
        .status_keeps_metadata()
        .strategy(ResourceClaimStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("State", "Whether devices are allocated, and for someone"), AGE];

struct ResourceClaimStrategy;

impl Strategy for ResourceClaimStrategy {
    fn set_defaults(&self, object: &mut Object) {
        claim_spec(object);
        let allocation = object.object_mut("status").and_then(|status| status.object_mut("allocation"));
        if let Some(devices) = allocation.and_then(|allocation| allocation.object_mut("devices")) {
            devices.objects_mut("results").for_each(fill_tolerations);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        &[Step::Meta, Step::MetaChange, Step::Change]
    }

    fn validate(&self, claim: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        // The spec cannot change, so it is validated at creation only.
        if old.is_none() {
            device_claim(&claim.at("spec.devices"), errors);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        spec_is_fixed(new, old, errors)
    }

    /// Validates the allocation, the consumers and the devices of a claim.
    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let requests = request_names(&new.at("spec.devices"));
        let (status, before) = (new.at("status"), old.at("status"));
        set(
            &status,
            "reservedFor",
            CONSUMERS_MAX,
            |consumer| consumer.text("uid"),
            errors,
            |consumer, errors| {
                for name in ["resource", "name", "uid"] {
                    errors.not_empty(&consumer.at(name));
                }
            },
        );
        let allocation = status.at("allocation");
        let results = allocation.at("devices");
        let allocated: Vec<Value> = results.items("results").map(|result| device_id(&result)).collect();
        for device in status.items("devices") {
            device_status(&device, &allocated, errors);
        }
        let mut seen = Vec::new();
        for device in status.items("devices") {
            let id = device_id(&device);
            if seen.contains(&id) {
                errors.duplicate_formatted(&device, &shown_id(&id));
            }
            seen.push(id);
        }
        if status.length("reservedFor") > 0 {
            let reserved = status.at("reservedFor");
            let had =
                |consumer: &Node| before.items("reservedFor").any(|other| other.value == consumer.value);
            if !allocation.exists() {
                errors.forbidden(&reserved, "may not be specified when `allocated` is not set");
            } else if new.at("metadata").has("deletionTimestamp")
                && status.items("reservedFor").any(|consumer| !had(&consumer))
            {
                let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
                errors.forbidden(&reserved, detail);
            }
        }
        if before.has("allocation") && allocation.exists() {
            errors.immutable(&allocation, &before.at("allocation"));
        } else if allocation.exists() {
            allocated_devices(&results, &requests, errors);
            if allocation.has("nodeSelector") {
                selectors::node_selector(&allocation.at("nodeSelector"), errors);
            }
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, claim: &Value, now: Timestamp) -> Vec<Value> {
        row![claim.name(), claim_state(claim), age_of(claim, now)]
    }
}

const REQUESTS_MAX: usize = 32;

const CONSTRAINTS_MAX: usize = 32;

const CHOICES_MAX: usize = 8;

const RESULTS_MAX: usize = 32;

const CONSUMERS_MAX: usize = 256;

const DEVICE_CONDITIONS_MAX: usize = 8;

const INTERFACE_NAME_BYTES_MAX: usize = 256;

const HARDWARE_ADDRESS_BYTES_MAX: usize = 128;

const INTERFACE_ADDRESSES_MAX: usize = 16;

const REQUEST_RULE: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
     separated by '/'";

/// The names of a claim's requests, and of the alternatives of those that have some.
type Requests<'d> = BTreeMap<&'d str, BTreeSet<&'d str>>;

fn request_names<'d>(devices: &Node<'d, '_>) -> Requests<'d> {
    let choices =
        |request: &Node<'d, '_>| request.items("firstAvailable").map(|choice| choice.text("name")).collect();
    devices.items("requests").map(|request| (request.text("name"), choices(&request))).collect()
}

pub(crate) fn device_claim(devices: &Node, errors: &mut FieldErrors) {
    let requests = request_names(devices);
    set(devices, "requests", REQUESTS_MAX, |request| request.text("name"), errors, request);
    slice(devices, "constraints", CONSTRAINTS_MAX, errors, |constraint, errors| {
        references(constraint, &requests, errors);
        if constraint.has("matchAttribute") {
            full_name(&constraint.at("matchAttribute"), errors);
        } else if constraint.has("distinctAttribute") {
            full_name(&constraint.at("distinctAttribute"), errors);
        } else {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields \
                 are set";
            errors.required(constraint, detail);
        }
    });
    slice(devices, "config", CONFIGS_MAX, errors, |config, errors| {
        references(config, &requests, errors);
        configuration(config, errors);
    });
}

fn request(request: &Node, errors: &mut FieldErrors) {
    label(&request.at("name"), errors);
    let exactly = request.at("exactly");
    match (exactly.exists(), request.length("firstAvailable") > 0) {
        (true, true) => errors.invalid(
            request,
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (false, false) => {
            errors.required(request, "exactly one of `exactly` or `firstAvailable` is required");
        }
        (true, false) => device_request_fields(&exactly, errors),
        (false, true) => {
            set(
                request,
                "firstAvailable",
                CHOICES_MAX,
                |choice| choice.text("name"),
                errors,
                |choice, errors| {
                    label(&choice.at("name"), errors);
                    device_request_fields(choice, errors);
                },
            );
        }
    }
}

fn device_request_fields(request: &Node, errors: &mut FieldErrors) {
    errors.valid_name(&request.at("deviceClassName"), names::subdomain);
    device_selectors(request, errors);
    let (mode, count) = (request.at("allocationMode"), request.number("count"));
    match mode.as_text() {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.invalid(&request.at("count"), count, detail);
        }
        "ExactCount" if count <= 0 => {
            errors.invalid(&request.at("count"), count, "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        text => errors.not_supported(&mode, text, &["All", "ExactCount"]),
    }
    for toleration in request.items("tolerations") {
        tolerates(&toleration, errors);
    }
}

fn tolerates(toleration: &Node, errors: &mut FieldErrors) {
    errors.valid_if_set(&toleration.at("key"), names::qualified);
    let value = toleration.at("value");
    match toleration.text("operator") {
        "Exists" if !value.as_text().is_empty() => {
            errors.invalid(&value, value.as_text(), "must be empty for operator `Exists`");
        }
        "Equal" => errors.invalid_each(&value, names::label_value(value.as_text())),
        _ => errors.one_of(&toleration.at("operator"), &["Equal", "Exists"]),
    }
    if !toleration.text("effect").is_empty() {
        errors.one_of(&toleration.at("effect"), &EFFECTS);
    }
}

/// Validates the references to requests of the claim.
fn references(owner: &Node, requests: &Requests, errors: &mut FieldErrors) {
    set(
        owner,
        "requests",
        REQUESTS_MAX,
        |name| name.as_text(),
        errors,
        |name, errors| {
            reference(name, requests, errors);
        },
    );
}

fn reference(at: &Node, requests: &Requests, errors: &mut FieldErrors) {
    let parts: Vec<&str> = at.as_text().split('/').collect();
    if parts.len() <= 2 {
        for part in &parts {
            for error in names::label(part) {
                errors.invalid(at, *part, &error);
            }
        }
    }
    let known = match parts.as_slice() {
        [request] => requests.contains_key(request),
        [request, choice] => requests.get(request).is_some_and(|choices| choices.contains(choice)),
        _ => false,
    };
    if !known {
        errors.invalid(at, at.as_text(), REQUEST_RULE);
    }
}

fn full_name(at: &Node, errors: &mut FieldErrors) {
    qualified_name(at.as_text(), at, errors);
    if !at.as_text().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(at, at.as_text(), detail);
    }
}

fn uid(at: &Node, errors: &mut FieldErrors) {
    let text = at.as_text();
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let dashed = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| hex(part))
    };
    let error = match text.len() {
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
    if let Some(error) = error {
        errors.invalid(at, text, &format!("error validating uid: {error}"));
    } else if text.len() != 36 || text.bytes().any(|b| b.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
             hexadecimal characters";
        errors.invalid(at, text, detail);
    }
}

/// A device's identity, in the form of Kubernetes' error messages.
fn device_id(of: &Node) -> Value {
    let text = |name| of.text(name);
    json!({"Driver": text("driver"), "Pool": text("pool"), "Device": text("device"), "ShareID": text("shareID")})
}

fn allocated_devices(devices: &Node, requests: &Requests, errors: &mut FieldErrors) {
    slice(devices, "results", RESULTS_MAX, errors, |result, errors| {
        reference(&result.at("request"), requests, errors);
        volumes::driver_name(&result.at("driver"), errors);
        pool_name(&result.at("pool"), errors);
        label(&result.at("device"), errors);
        binding_conditions(result, errors);
        if result.has("shareID") {
            uid(&result.at("shareID"), errors);
        }
    });
    slice(devices, "config", 2 * CONFIGS_MAX, errors, |config, errors| {
        errors.one_of(&config.at("source"), &["FromClaim", "FromClass"]);
        references(config, requests, errors);
        configuration(config, errors);
    });
}

/// The fields in Kubernetes' order; a map here is sorted by name.
fn shown_id(id: &Value) -> String {
    let fields = ["Driver", "Pool", "Device", "ShareID"].map(|name| format!("\"{name}\":{}", id[name]));
    format!("{{{}}}", fields.join(","))
}

fn device_status(device: &Node, allocated: &[Value], errors: &mut FieldErrors) {
    volumes::driver_name(&device.at("driver"), errors);
    pool_name(&device.at("pool"), errors);
    label(&device.at("device"), errors);
    if device.has("shareID") {
        uid(&device.at("shareID"), errors);
    }
    let id = device_id(device);
    if !allocated.contains(&id) {
        let detail = format!("{}: must be an allocated device in the claim", shown_id(&id));
        errors.invalid_omit_value(device, &detail);
    }
    let count = device.length("conditions");
    if count > DEVICE_CONDITIONS_MAX {
        errors.too_many(&device.at("conditions"), count, DEVICE_CONDITIONS_MAX);
    }
    validation::metadata::conditions(device, errors);
    if device.has("data") {
        raw_object(&device.at("data"), errors);
    }
    let network = device.at("networkData");
    for (name, bytes_max) in
        [("interfaceName", INTERFACE_NAME_BYTES_MAX), ("hardwareAddress", HARDWARE_ADDRESS_BYTES_MAX)]
    {
        if network.text(name).len() > bytes_max {
            errors.too_long(&network.at(name), bytes_max);
        }
    }
    set(
        &network,
        "ips",
        INTERFACE_ADDRESSES_MAX,
        |address| address.as_text(),
        errors,
        |address, errors| {
            if names::parse_cidr(address.as_text()).is_none() {
                let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                errors.invalid(address, address.as_text(), detail);
            }
        },
    );
}

pub(crate) fn claim_spec(owner: &mut Object) {
    let Some(devices) = owner.object_mut("spec").and_then(|spec| spec.object_mut("devices")) else { return };
    for request in devices.objects_mut("requests") {
        if let Some(exactly) = request.object_mut("exactly") {
            fill_request(exactly);
        }
        request.objects_mut("firstAvailable").for_each(fill_request);
    }
}

fn fill_request(request: &mut Object) {
    request.set_if_zero("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" {
        request.set_if_zero("count", 1);
    }
    fill_tolerations(request);
}

fn fill_tolerations(owner: &mut Object) {
    for toleration in owner.objects_mut("tolerations") {
        toleration.set_if_zero("operator", "Equal");
    }
}

pub(crate) fn claim_state(claim: &Value) -> &'static str {
    let allocated = claim.field("status.allocation").is_some();
    let reserved = claim.length("status.reservedFor") > 0;
    match (claim.is_deleting(), allocated, reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}
