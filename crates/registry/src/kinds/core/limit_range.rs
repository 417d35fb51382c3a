//! LimitRange.

use crate::{
    defaults::quantities::round_quantities,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::Kind,
    schema::Quantity,
    strategy::{Creation, Strategy, new_uid},
    validation::{ITSELF, Step, names, resources},
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
    /// Sets the defaults of containers from the bounds.
    fn set_defaults(&self, object: &mut Object) {
        for item in object.object_mut("spec").into_iter().flat_map(|spec| spec.objects_mut("limits")) {
            if item.text("type") == "Container" {
                item.fill_from("default", "max");
                item.fill_from("defaultRequest", "default");
                item.fill_from("defaultRequest", "min");
            }
            round_quantities(item, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
        }
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        if document.name().is_empty() {
            document.object_or_new("metadata").insert("name".to_owned(), new_uid().into());
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    /// Validates the limits for the objects of a namespace.
    fn validate(&self, range: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let mut seen = BTreeSet::new();
        let spec = range.at("spec");
        for limit in spec.items("limits") {
            let kind = limit.at("type");
            let wrong = names::qualified(kind.as_text());
            if wrong.is_empty()
                && !kind.as_text().contains('/')
                && !matches!(kind.as_text(), "Pod" | "Container" | "PersistentVolumeClaim")
            {
                errors.invalid(&kind, kind.as_text(), "must be a standard limit type or fully qualified");
            }
            errors.invalid_each(&kind, wrong);
            if !seen.insert(kind.as_text()) {
                errors.duplicate(&kind, kind.as_text());
            }
            limit_names(&limit, errors);
            limit_amounts(&limit, errors);
        }
    }
}

fn limit_names(limit: &Node, errors: &mut FieldErrors) {
    let kind = limit.text("type");
    for map in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && map.starts_with("default") {
            if limit.length(map) > 0 {
                errors.forbidden(&limit.at(map), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, amount) in limit.entries(map) {
            if matches!(kind, "Pod" | "Container") {
                resources::container_resource_name(name, &amount, errors);
            } else {
                resources::resource_name(name, &amount, errors);
            }
        }
    }
    let has_storage = limit.at("min").has("storage") || limit.at("max").has("storage");
    if kind == "PersistentVolumeClaim" && !has_storage {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&limit.at("limits"), detail);
    }
}

fn limit_amounts(limit: &Node, errors: &mut FieldErrors) {
    let maps = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let all: BTreeSet<_> = maps.iter().flat_map(|map| limit.entries(map).map(|(name, _)| name)).collect();
    for name in all {
        let (min, max) = (limit.entry("min", name), limit.entry("max", name));
        let (usual, asked) = (limit.entry("default", name), limit.entry("defaultRequest", name));
        let mut ordered =
            |low: &Node, low_name: &str, high: &Node, high_name: &str, reported_at: &Node, value: &Node| {
                if let (Some(least), Some(most)) = (resources::quantity(low), resources::quantity(high))
                    && least > most
                {
                    let detail = format!(
                        "{low_name} value {} is greater than {high_name} value {}",
                        low.as_text(),
                        high.as_text()
                    );
                    errors.invalid(reported_at, value.as_text(), &detail);
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
            errors.invalid(&ratio, ratio.as_text(), &format!("ratio {} is less than 1", ratio.as_text()));
        }
        let amounts = [&ratio, &min, &max].map(resources::quantity);
        if let [Some(most), Some(low), Some(high)] = amounts {
            let limit = high.millis() as f64 / low.millis() as f64;
            if most.millis() as f64 / 1000.0 > limit {
                let detail = format!("ratio {} is greater than max/min = {limit:.6}", ratio.as_text());
                errors.invalid(&ratio, ratio.as_text(), &detail);
            }
        }
    }
}
