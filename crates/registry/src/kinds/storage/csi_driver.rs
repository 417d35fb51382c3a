//! CSIDriver.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, boolean, row, text,
        words::{NONE, UNSET, age_of, joined, or},
    },
    validation::{SPEC, Step, warnings::Warnings},
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
        let spec = object.object_or_new("spec");
        spec.set_default("attachRequired", true);
        for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            spec.set_default(name, false);
        }
        spec.set_default("fsGroupPolicy", "ReadWriteOnceWithFSType");
        spec.set_if_zero("volumeLifecycleModes", json!(["Persistent"]));
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        document.object_or_new("spec").remove("preventPodSchedulingIfMissing");
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, driver: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = driver.at("spec");
        for (name, shown) in [
            ("attachRequired", ATTACH),
            ("podInfoOnMount", "podInfoOnMount"),
            ("storageCapacity", "storageCapacity"),
        ] {
            if !spec.has(name) {
                errors.required(&spec.at(shown), "");
            }
        }
        errors.one_of_if_set(&spec.at("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
        let mut audiences = BTreeSet::new();
        for request in spec.items("tokenRequests") {
            if !audiences.insert(request.text("audience")) {
                errors.duplicate(&request.at("audience"), request.text("audience"));
                continue;
            }
            let seconds = request.at("expirationSeconds");
            match seconds.as_number() {
                Some(number) if number < 600 => {
                    errors.invalid(&seconds, number, "may not specify a duration less than 10 minutes");
                }
                Some(number) if number > 1 << 32 => {
                    errors.invalid(&seconds, number, "may not specify a duration larger than 2^32 seconds");
                }
                _ => {}
            }
        }
        for mode in spec.items("volumeLifecycleModes") {
            if !matches!(mode.as_text(), "Persistent" | "Ephemeral") {
                errors.not_supported(
                    &spec.at("volumeLifecycleModes"),
                    mode.as_text(),
                    &["Persistent", "Ephemeral"],
                );
            }
        }
        let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
        if let Some(seconds) = period.as_number().filter(|seconds| *seconds < 10) {
            errors.invalid(&period, seconds, "must be greater than or equal to 10 seconds");
        }
        let in_secrets = spec.at("serviceAccountTokenInSecrets");
        if in_secrets.exists() && spec.length("tokenRequests") == 0 {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.invalid(&in_secrets, in_secrets.value.clone(), detail);
        }
    }

    /// Rejects changes of `attachRequired` and of the lifecycle modes.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let spec = new.at("spec");
        errors.immutable(&spec.at_as("attachRequired", ATTACH), &old.at("spec.attachRequired"));
        errors.immutable(&spec.at("volumeLifecycleModes"), &old.at("spec.volumeLifecycleModes"));
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        let same = old
            .is_some_and(|old| object.at("spec.tokenRequests").value == old.at("spec.tokenRequests").value);
        if !same {
            driver_warnings(object, warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, driver: &Value, now: Timestamp) -> Vec<Value> {
        let tokens = match driver.list("spec.tokenRequests") {
            [] => UNSET.to_owned(),
            requests => joined(requests.iter().map(|request| request.text("audience")), ","),
        };
        row![
            driver.name(),
            driver.field("spec.attachRequired").and_then(Value::as_bool).unwrap_or(true),
            driver.flag("spec.podInfoOnMount"),
            driver.flag("spec.storageCapacity"),
            tokens,
            driver.flag("spec.requiresRepublish"),
            or(&joined(driver.texts("spec.volumeLifecycleModes"), ","), NONE),
            age_of(driver, now),
        ]
    }
}

/// The name of `attachRequired` in errors.
const ATTACH: &str = "attachedRequired";

/// Warns of token requests without `serviceAccountTokenInSecrets`, which keeps tokens out of logs.
fn driver_warnings(driver: &Node, warnings: &mut Warnings) {
    let spec = driver.at("spec");
    if spec.length("tokenRequests") > 0 && !spec.has("serviceAccountTokenInSecrets") {
        let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to \
             prevent possible logging of tokens in volume attributes";
        warnings.0.push(text.to_owned());
    }
}
