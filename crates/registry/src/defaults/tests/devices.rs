//! Devices of nodes, and claims to them.

use crate::{
    defaults::tests::{check, check_document},
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
fn a_new_taint_has_the_current_time_and_a_stored_one_keeps_its_time() {
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
