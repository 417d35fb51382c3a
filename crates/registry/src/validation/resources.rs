//! Amounts of resources: their names, and requests in proportion to limits.

use crate::{
    document::{FieldErrors, Fields, Node},
    schema::Quantity,
};
use std::collections::BTreeSet;

use super::names;

const HUGE_PAGES: &str = "hugepages-";

const IN_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that are counted in whole numbers.
const COUNTS: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const REQUESTS_AND_LIMITS: [&str; 7] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.storage",
];

/// The owner of resources, which decides the allowed ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceScope {
    /// A container, or a pod's overhead.
    Container,
    /// A pod as a whole.
    Pod,
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether the name belongs to Kubernetes.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the name is that of a resource which a plugin provides.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn is_standard_for_quota(name: &str) -> bool {
    IN_CONTAINERS.contains(&name)
        || COUNTS.contains(&name)
        || REQUESTS_AND_LIMITS.contains(&name)
        || is_huge_page(name.strip_prefix("requests.").unwrap_or(name))
}

/// A resource in general.
pub(crate) fn resource_name(name: &str, at: &Node, errors: &mut FieldErrors) -> bool {
    let wrong = names::qualified(name);
    let fine = wrong.is_empty();
    for error in wrong {
        errors.invalid(at, name, &error);
    }
    if fine && !name.contains('/') && name != "storage" && !is_standard_for_quota(name) {
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
        return false;
    }
    fine
}

/// A resource that a container can have.
pub(crate) fn container_resource_name(name: &str, at: &Node, errors: &mut FieldErrors) {
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !IN_CONTAINERS.contains(&name) && !is_huge_page(name) {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource_name(name: &str, at: &Node, errors: &mut FieldErrors) {
    if resource_name(name, at, errors) && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.not_supported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// A resource that can be limited for a namespace.
pub(crate) fn quota_resource_name(name: &str, at: &Node, errors: &mut FieldErrors) {
    resource_name(name, at, errors);
    if !name.contains('/') && !is_standard_for_quota(name) {
        errors.invalid(at, name, "must be a standard resource for quota");
    }
}

/// The amount, if it is one; that it is one was checked when the document was decoded.
pub(crate) fn quantity(at: &Node) -> Option<Quantity> {
    at.as_text().parse().ok()
}

/// An amount of a resource: not negative, and whole where parts make no sense.
pub(crate) fn amount(name: &str, at: &Node, errors: &mut FieldErrors) {
    amount_as(name, at, at, errors);
}

/// The same, with the path of another value.
pub(crate) fn amount_as(name: &str, at: &Node, reported_at: &Node, errors: &mut FieldErrors) {
    let Some(quantity) = quantity(at) else { return };
    if quantity.is_negative() {
        errors.invalid(reported_at, at.as_text(), "must be greater than or equal to 0");
    }
    if (COUNTS.contains(&name) || is_extended(name)) && quantity.millis() % 1000 != 0 {
        errors.invalid(reported_at, at.as_text(), "must be an integer");
    }
}

/// An amount above zero.
pub(crate) fn positive_amount(at: &Node, errors: &mut FieldErrors) {
    if quantity(at).is_some_and(|quantity| quantity <= Quantity::ZERO) {
        errors.invalid(at, at.as_text(), "must be greater than zero");
    }
}

/// An amount that is not negative.
pub(crate) fn basic_amount(at: &Node, errors: &mut FieldErrors) {
    if let Some(quantity) = quantity(at).filter(|quantity| quantity.units() < 0) {
        errors.invalid(at, quantity.units(), "must be a valid resource quantity");
    }
}

/// Validates the requests, the limits and the claims.
pub(crate) fn requirements(
    at: &Node,
    scope: ResourceScope,
    claims: &BTreeSet<&str>,
    errors: &mut FieldErrors,
) {
    amounts(at, "limits", scope, errors);
    for (name, request) in at.entries("requests") {
        one_amount(name, &request, scope, errors);
        request_within_limit(at, name, &request, errors);
    }
    let any = |pick: fn(&str) -> bool| {
        at.entries("limits").chain(at.entries("requests")).any(|(name, _)| pick(name))
    };
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    claimed(at, claims, errors);
}

/// Validates amounts that have no requests to compare with.
pub(crate) fn amounts(at: &Node, name: &str, scope: ResourceScope, errors: &mut FieldErrors) {
    amounts_as(at, name, name, scope, errors);
}

/// The same, with another name in the path.
pub(crate) fn amounts_as(at: &Node, name: &str, shown: &str, scope: ResourceScope, errors: &mut FieldErrors) {
    for (resource, amount) in at.entries(name) {
        one_amount(resource, &at.entry(shown, resource).with(amount.value), scope, errors);
    }
}

fn one_amount(name: &str, at: &Node, scope: ResourceScope, errors: &mut FieldErrors) {
    match scope {
        ResourceScope::Container => container_resource_name(name, at, errors),
        ResourceScope::Pod => pod_resource_name(name, at, errors),
    }
    amount(name, at, errors);
    if let Some(page) = name.strip_prefix(HUGE_PAGES) {
        let page = page.parse::<Quantity>().map_or(0, |page| page.units());
        if page > 0 && quantity(at).is_some_and(|quantity| quantity.units() % page != 0) {
            errors.invalid(
                at,
                at.as_text(),
                &format!("{} is not positive integer multiple of {name}", at.as_text()),
            );
        }
    }
}

fn request_within_limit(at: &Node, name: &str, request: &Node, errors: &mut FieldErrors) {
    let limit = at.entry("limits", name);
    if !limit.exists() {
        if !allows_overcommit(name) {
            errors.required(&at.at("limits"), "Limit must be set for non overcommitable resources");
        }
        return;
    }
    let (Some(asked), Some(allowed)) = (quantity(request), quantity(&limit)) else { return };
    let relation = if asked != allowed && !allows_overcommit(name) {
        "equal to"
    } else if asked > allowed {
        "less than or equal to"
    } else {
        return;
    };
    let detail = format!("must be {relation} {name} limit of {}", limit.as_text());
    errors.invalid(&at.at("requests"), request.as_text(), &detail);
}

/// Claims name what the pod claims, each once.
fn claimed(at: &Node, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for claim in at.items("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.required(&claim, "");
            continue;
        }
        errors.valid_if_set(&claim.at("request"), names::label);
        let overlaps = if request.is_empty() {
            seen.iter().any(|(other, _)| *other == name)
        } else {
            seen.contains(&(name, "")) || seen.contains(&(name, request))
        };
        if overlaps {
            errors.duplicate(&claim, name);
        }
        seen.insert((name, request));
        if claims.is_empty() {
            errors.not_found_because(
                &claim,
                name,
                "must be one of the names in pod.spec.resourceClaims which is empty",
            );
        } else if !claims.contains(name) {
            let known: Vec<&str> = claims.iter().copied().collect();
            let detail = format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(","));
            errors.not_found_because(&claim, name, &detail);
        }
    }
}
