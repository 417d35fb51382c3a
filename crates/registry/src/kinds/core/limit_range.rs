//! LimitRange.

use crate::{
    defaults::fields::{Object, child, children, fill_from, round_quantities, text},
    kind::Kind,
    schema::Quantity,
    strategy::{Creation, Strategy, new_uid},
    validation::{
        ITSELF, Step,
        document::{Faults, Node},
        names, resources,
    },
    value::{fields, name},
};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.LimitRange", "limitranges")
        .short_names(&["limits"])
        .creates_on_update()
        .strategy(LimitRangeStrategy)
        .not_enforced("quotas and limit ranges are kept but not enforced yet")
}

struct LimitRangeStrategy;

impl Strategy for LimitRangeStrategy {
    /// A range of limits. For containers, what is not said of defaults follows from the bounds.
    fn set_defaults(&self, object: &mut Object) {
        for item in child(object, "spec").into_iter().flat_map(|spec| children(spec, "limits")) {
            if text(item, "type") == "Container" {
                fill_from(item, "default", "max");
                fill_from(item, "defaultRequest", "default");
                fill_from(item, "defaultRequest", "min");
            }
            round_quantities(item, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
        }
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        if name(document).is_empty() {
            fields(document, &["metadata"]).insert("name".to_owned(), new_uid().into());
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    /// Limits for what is in a namespace.
    fn validate(&self, range: &Node, _: Option<&Node>, faults: &mut Faults) {
        let mut seen = BTreeSet::new();
        let spec = range.at("spec");
        for limit in spec.items("limits") {
            let kind = limit.at("type");
            let wrong = names::qualified(kind.text());
            if wrong.is_empty()
                && !kind.text().contains('/')
                && !matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim")
            {
                faults.invalid(&kind, kind.text(), "must be a standard limit type or fully qualified");
            }
            faults.texts(&kind, wrong);
            if !seen.insert(kind.text()) {
                faults.duplicate(&kind, kind.text());
            }
            limit_names(&limit, faults);
            limit_amounts(&limit, faults);
        }
    }
}

fn limit_names(limit: &Node, faults: &mut Faults) {
    let kind = limit.text_of("type");
    for map in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && map.starts_with("default") {
            if limit.len_of(map) > 0 {
                faults.forbidden(&limit.at(map), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, amount) in limit.entries(map) {
            if matches!(kind, "Pod" | "Container") {
                resources::container_resource_name(name, &amount, faults);
            } else {
                resources::resource_name(name, &amount, faults);
            }
        }
    }
    let has_storage = limit.at("min").has("storage") || limit.at("max").has("storage");
    if kind == "PersistentVolumeClaim" && !has_storage {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        faults.required(&limit.at("limits"), detail);
    }
}

fn limit_amounts(limit: &Node, faults: &mut Faults) {
    let maps = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let all: BTreeSet<_> = maps.iter().flat_map(|map| limit.entries(map).map(|(name, _)| name)).collect();
    for name in all {
        let (min, max) = (limit.entry("min", name), limit.entry("max", name));
        let (usual, asked) = (limit.entry("default", name), limit.entry("defaultRequest", name));
        let mut ordered =
            |low: &Node, low_name: &str, high: &Node, high_name: &str, blamed: &Node, value: &Node| {
                if let (Some(least), Some(most)) = (resources::quantity(low), resources::quantity(high))
                    && least > most
                {
                    let detail = format!(
                        "{low_name} value {} is greater than {high_name} value {}",
                        low.text(),
                        high.text()
                    );
                    faults.invalid(blamed, value.text(), &detail);
                }
            };
        ordered(&min, "min", &max, "max", &min, &min);
        ordered(&min, "min", &asked, "default request", &asked, &asked);
        ordered(&asked, "default request", &max, "max", &asked, &asked);
        ordered(&asked, "default request", &usual, "default limit", &asked, &asked);
        ordered(&min, "min", &usual, "default", &usual, &min);
        ordered(&usual, "default", &max, "max", &usual, &max);
        let ratio = limit.entry("maxLimitRequestRatio", name);
        if resources::quantity(&ratio).is_some_and(|ratio| ratio < Quantity::whole(1)) {
            faults.invalid(&ratio, ratio.text(), &format!("ratio {} is less than 1", ratio.text()));
        }
        let amounts = [&ratio, &min, &max].map(resources::quantity);
        if let [Some(most), Some(low), Some(high)] = amounts {
            let limit = high.millis() as f64 / low.millis() as f64;
            if most.millis() as f64 / 1000.0 > limit {
                let detail = format!("ratio {} is greater than max/min = {limit:.6}", ratio.text());
                faults.invalid(&ratio, ratio.text(), &detail);
            }
        }
    }
}
