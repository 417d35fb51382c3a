//! Devices of nodes, and claims to them.

use super::fields::{Object, child, children, is_set, set_if_zero, text};
use crate::schema::{self, Timestamp};

/// A claim to devices.
pub(super) fn claim(object: &mut Object) {
    claim_spec(object);
    let allocation = child(object, "status").and_then(|status| child(status, "allocation"));
    if let Some(devices) = allocation.and_then(|allocation| child(allocation, "devices")) {
        children(devices, "results").for_each(fill_tolerations);
    }
}

/// A template of claims.
pub(super) fn claim_template(object: &mut Object) {
    if let Some(template) = child(object, "spec") {
        claim_spec(template);
    }
}

fn claim_spec(owner: &mut Object) {
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
    if text(request, "allocationMode") == "ExactCount" {
        set_if_zero(request, "count", 1);
    }
    fill_tolerations(request);
}

fn fill_tolerations(owner: &mut Object) {
    for toleration in children(owner, "tolerations") {
        set_if_zero(toleration, "operator", "Equal");
    }
}

/// The devices of a driver. A taint tells since when it is there; that is now if it is new.
pub(super) fn slice(object: &mut Object) {
    for device in child(object, "spec").into_iter().flat_map(|spec| children(spec, "devices")) {
        for taint in children(device, "taints") {
            if !is_set(taint, "timeAdded") {
                taint.insert("timeAdded".to_owned(), schema::time(Timestamp::now()).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        defaults::testing::{check, check_document},
        schema,
    };
    use serde_json::json;

    #[test]
    fn one_device_is_asked_for() {
        let given = json!({"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [{"key": "k"}, {"operator": "Exists"}]}},
            {"name": "b", "firstAvailable": [
                {"name": "x", "deviceClassName": "c"}, {"name": "y", "deviceClassName": "c", "count": 2},
            ]},
            {"name": "c", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        ]}});
        let wanted = json!({"devices": {"requests": [
            {"name": "a", "exactly": {
                "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
                "tolerations": [{"key": "k", "operator": "Equal"}, {"operator": "Exists"}],
            }},
            {"name": "b", "firstAvailable": [
                {"name": "x", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1},
                {"name": "y", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 2},
            ]},
            {"name": "c", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        ]}});
        check("resource.v1.ResourceClaim", json!({"spec": given}), "/spec", wanted.clone());
        check("resource.v1.ResourceClaimTemplate", json!({"spec": {"spec": given}}), "/spec/spec", wanted);
    }

    #[test]
    fn tolerations_of_what_was_allocated_are_filled() {
        check(
            "resource.v1.ResourceClaim",
            json!({"status": {"allocation": {"devices": {"results": [
                {"request": "r", "driver": "d", "pool": "p", "device": "v", "tolerations": [{"key": "k"}]},
            ]}}}}),
            "/status/allocation/devices/results/0/tolerations",
            json!([{"key": "k", "operator": "Equal"}]),
        );
    }

    #[test]
    fn a_new_taint_is_from_now_and_an_old_one_is_as_old_as_it_says() {
        let old = "2026-01-02T03:04:05Z";
        let slice = check_document(
            "resource.v1.ResourceSlice",
            json!({"spec": {"devices": [{"name": "d", "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": old}, {"key": "b", "effect": "NoExecute"},
            ]}]}}),
        );
        let added = |at: &str| slice.pointer(at).and_then(|time| schema::parse_time(time.as_str()?));
        assert_eq!(added("/spec/devices/0/taints/0/timeAdded"), schema::parse_time(old));
        assert!(added("/spec/devices/0/taints/1/timeAdded") > schema::parse_time(old));
    }
}
