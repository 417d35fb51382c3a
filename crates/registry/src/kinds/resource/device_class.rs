//! DeviceClass.

use crate::{
    document::{FieldErrors, Node},
    kind::{Generation, Kind},
    kinds::resource::devices::{CONFIGS_MAX, configuration, device_selectors, slice},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, cluster::name_and_age},
    validation::{Step, resources},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.DeviceClass", "deviceclasses")
        .cluster_scoped()
        .returns_deleted()
        .generation(Generation::Spec)
        .strategy(DeviceClassStrategy)
}

const COLUMNS: &[Column] = &[NAME, AGE];

struct DeviceClassStrategy;

impl Strategy for DeviceClassStrategy {
    fn update_order(&self) -> &'static [Step] {
        &[Step::Meta, Step::MetaChange, Step::Own]
    }

    fn validate(&self, class: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = class.at("spec");
        device_selectors(&spec, errors);
        slice(&spec, "config", CONFIGS_MAX, errors, configuration);
        let name = spec.at("extendedResourceName");
        if name.exists() && !resources::is_extended(name.as_text()) {
            errors.invalid(&name, name.as_text(), "must be a valid extended resource name");
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        name_and_age(document, now)
    }
}
