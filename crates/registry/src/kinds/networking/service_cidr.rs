//! ServiceCIDR.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::{Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{age_of, joined},
    },
    validation::{CHANGE, Step, names},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.ServiceCIDR", "servicecidrs")
        .cluster_scoped()
        .subresources([Subresource::status()])
        .status_keeps_metadata()
        .strategy(ServiceCIDRStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("CIDRs", "The ranges that services get addresses from"), AGE];

struct ServiceCIDRStrategy;

impl Strategy for ServiceCIDRStrategy {
    fn update_order(&self) -> &'static [Step] {
        CHANGE
    }

    fn validate(&self, object: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = object.at("spec");
        let all = spec.at("cidrs");
        match spec.length("cidrs") {
            0 => errors.required(&all, "at least one CIDR required"),
            1 | 2 => {}
            _ => errors.invalid(&all, all.value.clone(), "may only hold up to 2 values"),
        }
        for range in spec.items("cidrs") {
            errors.invalid_each(&range, names::strict_cidr(range.as_text()));
        }
        let families: Vec<_> = spec
            .items("cidrs")
            .filter_map(|range| names::parse_cidr(range.as_text()))
            .map(|range| range.v6)
            .collect();
        if matches!(families[..], [one, other] if one == other) {
            let detail =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.invalid(&all, all.value.clone(), detail);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        let all = spec.at("cidrs");
        if spec.length("cidrs") < before.length("cidrs") {
            errors.invalid(&all, all.value.clone(), "field is immutable");
            return;
        }
        for (new, old) in spec.items("cidrs").zip(before.items("cidrs")) {
            errors.immutable(&new, &old);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, cidr: &Value, now: Timestamp) -> Vec<Value> {
        row![cidr.name(), joined(cidr.texts("spec.cidrs"), ","), age_of(cidr, now)]
    }
}
