//! ResourceClaim.

use crate::{
    defaults::fields::{self, Object, child, children, set_if_zero},
    kind::{Kind, Subresource},
    kinds::resource::devices::{
        CONFIGS_MAX, EFFECTS, binding_conditions, configuration, device_selectors, label, pool_name,
        qualified_name, raw_object, set, slice,
    },
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        self, Step,
        document::{Faults, Node},
        names, selectors,
        storage::spec_is_fixed,
        volumes,
    },
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
        let allocation = child(object, "status").and_then(|status| child(status, "allocation"));
        if let Some(devices) = allocation.and_then(|allocation| child(allocation, "devices")) {
            children(devices, "results").for_each(fill_tolerations);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        &[Step::Meta, Step::MetaChange, Step::Change]
    }

    fn validate(&self, claim: &Node, old: Option<&Node>, faults: &mut Faults) {
        // What cannot change was looked at when it was created.
        if old.is_none() {
            device_claim(&claim.at("spec.devices"), faults);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        spec_is_fixed(new, old, faults)
    }

    /// What was allocated to a claim and who uses it.
    fn validate_status(&self, new: &Node, old: &Node, faults: &mut Faults) {
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
            let had =
                |consumer: &Node| before.items("reservedFor").any(|other| other.value == consumer.value);
            if !allocation.exists() {
                faults.forbidden(&reserved, "may not be specified when `allocated` is not set");
            } else if new.at("metadata").has("deletionTimestamp")
                && status.items("reservedFor").any(|consumer| !had(&consumer))
            {
                let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
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

    fn columns(&self) -> &'static [Column] {
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

/// The requests of a claim, and the choices of those that have some.
type Requests<'d> = BTreeMap<&'d str, BTreeSet<&'d str>>;

fn request_names<'d>(devices: &Node<'d, '_>) -> Requests<'d> {
    let choices = |request: &Node<'d, '_>| {
        request.items("firstAvailable").map(|choice| choice.text_of("name")).collect()
    };
    devices.items("requests").map(|request| (request.text_of("name"), choices(&request))).collect()
}

pub(crate) fn device_claim(devices: &Node, faults: &mut Faults) {
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

fn full_name(at: &Node, faults: &mut Faults) {
    qualified_name(at.text(), at, faults);
    if !at.text().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        faults.invalid(at, at.text(), detail);
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
    validation::metadata::conditions(device, faults);
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

pub(crate) fn claim_spec(owner: &mut Object) {
    let Some(devices) = child(owner, "spec").and_then(|spec| child(spec, "devices")) else { return };
    for request in children(devices, "requests") {
        if let Some(exactly) = child(request, "exactly") {
            fill_request(exactly);
        }
        children(request, "firstAvailable").for_each(fill_request);
    }
}

fn fill_request(request: &mut Object) {
    set_if_zero(request, "allocationMode", "ExactCount");
    if fields::text(request, "allocationMode") == "ExactCount" {
        set_if_zero(request, "count", 1);
    }
    fill_tolerations(request);
}

fn fill_tolerations(owner: &mut Object) {
    for toleration in children(owner, "tolerations") {
        set_if_zero(toleration, "operator", "Equal");
    }
}

pub(crate) fn claim_state(claim: &Value) -> &'static str {
    let allocated = claim.set("status.allocation").is_some();
    let reserved = claim.length("status.reservedFor") > 0;
    match (claim.deleting(), allocated, reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}
