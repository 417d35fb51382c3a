//! CSIDriver.

use crate::{
    defaults::fields::{Object, child_or_new, set_default, set_if_zero},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, boolean,
        read::Read,
        row, text,
        words::{NONE, UNSET, age_of, joined, or},
    },
    validation::{
        SPEC, Step,
        document::{Faults, Node},
        warnings::Warnings,
    },
    value::fields,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.CSIDriver", "csidrivers")
        .cluster_scoped()
        .requires_version()
        .returns_deleted()
        .generation(Generation::SpecOnceCreated)
        .strategy(CSIDriverStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    boolean("AttachRequired", "Whether volumes are attached before they are mounted"),
    boolean("PodInfoOnMount", "Whether it is told of the pod that mounts a volume"),
    boolean("StorageCapacity", "Whether pods are placed by the capacity that it reports"),
    text("TokenRequests", "Who the tokens are for that it gets"),
    boolean("RequiresRepublish", "Whether it is asked to mount again from time to time"),
    text("Modes", "The lifecycles of volumes that it supports"),
    AGE,
];

struct CSIDriverStrategy;

impl Strategy for CSIDriverStrategy {
    fn set_defaults(&self, object: &mut Object) {
        let spec = child_or_new(object, "spec");
        set_default(spec, "attachRequired", true);
        for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            set_default(spec, name, false);
        }
        set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        set_if_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        fields(document, &["spec"]).remove("preventPodSchedulingIfMissing");
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, driver: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = driver.at("spec");
        for (name, shown) in [
            ("attachRequired", ATTACH),
            ("podInfoOnMount", "podInfoOnMount"),
            ("storageCapacity", "storageCapacity"),
        ] {
            if !spec.has(name) {
                faults.required(&spec.at(shown), "");
            }
        }
        faults.if_given_one_of(&spec.at("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
        let mut audiences = BTreeSet::new();
        for request in spec.items("tokenRequests") {
            if !audiences.insert(request.text_of("audience")) {
                faults.duplicate(&request.at("audience"), request.text_of("audience"));
                continue;
            }
            let seconds = request.at("expirationSeconds");
            match seconds.number() {
                Some(number) if number < 600 => {
                    faults.invalid(&seconds, number, "may not specify a duration less than 10 minutes");
                }
                Some(number) if number > 1 << 32 => {
                    faults.invalid(&seconds, number, "may not specify a duration larger than 2^32 seconds");
                }
                _ => {}
            }
        }
        for mode in spec.items("volumeLifecycleModes") {
            if !matches!(mode.text(), "Persistent" | "Ephemeral") {
                faults.not_supported(
                    &spec.at("volumeLifecycleModes"),
                    mode.text(),
                    &["Persistent", "Ephemeral"],
                );
            }
        }
        let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
        if let Some(seconds) = period.number().filter(|seconds| *seconds < 10) {
            faults.invalid(&period, seconds, "must be greater than or equal to 10 seconds");
        }
        let in_secrets = spec.at("serviceAccountTokenInSecrets");
        if in_secrets.exists() && spec.len_of("tokenRequests") == 0 {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            faults.invalid(&in_secrets, in_secrets.value.clone(), detail);
        }
    }

    /// What may change in a driver for storage.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        let spec = new.at("spec");
        faults.unchanged(&spec.at_as("attachRequired", ATTACH), &old.at("spec.attachRequired"));
        faults.unchanged(&spec.at("volumeLifecycleModes"), &old.at("spec.volumeLifecycleModes"));
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        let same = old
            .is_some_and(|old| object.at("spec.tokenRequests").value == old.at("spec.tokenRequests").value);
        if !same {
            driver_warnings(object, warnings);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, driver: &Value, now: Timestamp) -> Vec<Value> {
        let tokens = match driver.list("spec.tokenRequests") {
            [] => UNSET.to_owned(),
            requests => joined(requests.iter().map(|request| request.text("audience")), ","),
        };
        row![
            driver.name(),
            driver.set("spec.attachRequired").and_then(Value::as_bool).unwrap_or(true),
            driver.flag("spec.podInfoOnMount"),
            driver.flag("spec.storageCapacity"),
            tokens,
            driver.flag("spec.requiresRepublish"),
            or(&joined(driver.texts("spec.volumeLifecycleModes"), ","), NONE),
            age_of(driver, now),
        ]
    }
}

/// What `attachRequired` is called when it is blamed.
const ATTACH: &str = "attachedRequired";

/// A driver that asks for tokens had better get them where they are not logged.
fn driver_warnings(driver: &Node, warnings: &mut Warnings) {
    let spec = driver.at("spec");
    if spec.len_of("tokenRequests") > 0 && !spec.has("serviceAccountTokenInSecrets") {
        let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to \
             prevent possible logging of tokens in volume attributes";
        warnings.0.push(text.to_owned());
    }
}
