//! Amounts of resources: which names they go by, and what is asked for beside what is allowed.

use std::collections::BTreeSet;

use super::{
    document::{Faults, Node},
    names,
};
use crate::schema::Quantity;

const HUGE_PAGES: &str = "hugepages-";

const IN_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Counted in whole numbers.
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

/// Who asks, which decides what may be asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
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
pub(crate) fn resource_name(name: &str, at: &Node, faults: &mut Faults) -> bool {
    let wrong = names::qualified(name);
    let fine = wrong.is_empty();
    for fault in wrong {
        faults.invalid(at, name, &fault);
    }
    if fine && !name.contains('/') && name != "storage" && !is_standard_for_quota(name) {
        faults.invalid(at, name, "must be a standard resource type or fully qualified");
        return false;
    }
    fine
}

/// A resource that a container can have.
pub(crate) fn container_resource_name(name: &str, at: &Node, faults: &mut Faults) {
    resource_name(name, at, faults);
    if !name.contains('/') {
        if !IN_CONTAINERS.contains(&name) && !is_huge_page(name) {
            faults.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource_name(name: &str, at: &Node, faults: &mut Faults) {
    if resource_name(name, at, faults) && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        faults.not_supported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// A resource that can be limited for a namespace.
pub(crate) fn quota_resource_name(name: &str, at: &Node, faults: &mut Faults) {
    resource_name(name, at, faults);
    if !name.contains('/') && !is_standard_for_quota(name) {
        faults.invalid(at, name, "must be a standard resource for quota");
    }
}

/// The amount, if it is one; whether it is was told when the document was read.
pub(crate) fn quantity(at: &Node) -> Option<Quantity> {
    at.text().parse().ok()
}

/// An amount of a resource: not negative, and whole where parts make no sense.
pub(crate) fn amount(name: &str, at: &Node, faults: &mut Faults) {
    amount_as(name, at, at, faults);
}

/// The same, blamed somewhere else.
pub(crate) fn amount_as(name: &str, at: &Node, blamed: &Node, faults: &mut Faults) {
    let Some(quantity) = quantity(at) else { return };
    if quantity.is_negative() {
        faults.invalid(blamed, at.text(), "must be greater than or equal to 0");
    }
    if (COUNTS.contains(&name) || is_extended(name)) && quantity.millis() % 1000 != 0 {
        faults.invalid(blamed, at.text(), "must be an integer");
    }
}

/// An amount above zero.
pub(crate) fn positive_amount(at: &Node, faults: &mut Faults) {
    if quantity(at).is_some_and(|quantity| quantity <= Quantity::ZERO) {
        faults.invalid(at, at.text(), "must be greater than zero");
    }
}

/// An amount that is not negative.
pub(crate) fn basic_amount(at: &Node, faults: &mut Faults) {
    if let Some(quantity) = quantity(at).filter(|quantity| quantity.units() < 0) {
        faults.invalid(at, quantity.units(), "must be a valid resource quantity");
    }
}

/// What is asked for, and what is allowed.
pub(crate) fn requirements(at: &Node, asker: Asker, claims: &BTreeSet<&str>, faults: &mut Faults) {
    amounts(at, "limits", asker, faults);
    for (name, request) in at.entries("requests") {
        one_amount(name, &request, asker, faults);
        request_within_limit(at, name, &request, faults);
    }
    let any = |pick: fn(&str) -> bool| {
        at.entries("limits").chain(at.entries("requests")).any(|(name, _)| pick(name))
    };
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        faults.forbidden(at, "HugePages require cpu or memory");
    }
    claimed(at, claims, faults);
}

/// Amounts that are allowed and that nothing is asked against.
pub(crate) fn amounts(at: &Node, name: &str, asker: Asker, faults: &mut Faults) {
    amounts_as(at, name, name, asker, faults);
}

/// The same, blamed under another name.
pub(crate) fn amounts_as(at: &Node, name: &str, shown: &str, asker: Asker, faults: &mut Faults) {
    for (resource, amount) in at.entries(name) {
        one_amount(resource, &at.entry(shown, resource).with(amount.value), asker, faults);
    }
}

fn one_amount(name: &str, at: &Node, asker: Asker, faults: &mut Faults) {
    match asker {
        Asker::Container => container_resource_name(name, at, faults),
        Asker::Pod => pod_resource_name(name, at, faults),
    }
    amount(name, at, faults);
    if let Some(page) = name.strip_prefix(HUGE_PAGES) {
        let page = page.parse::<Quantity>().map_or(0, |page| page.units());
        if page > 0 && quantity(at).is_some_and(|quantity| quantity.units() % page != 0) {
            faults.invalid(
                at,
                at.text(),
                &format!("{} is not positive integer multiple of {name}", at.text()),
            );
        }
    }
}

fn request_within_limit(at: &Node, name: &str, request: &Node, faults: &mut Faults) {
    let limit = at.entry("limits", name);
    if !limit.exists() {
        if !allows_overcommit(name) {
            faults.required(&at.at("limits"), "Limit must be set for non overcommitable resources");
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
    let detail = format!("must be {relation} {name} limit of {}", limit.text());
    faults.invalid(&at.at("requests"), request.text(), &detail);
}

/// Claims name what the pod claims, each once.
fn claimed(at: &Node, claims: &BTreeSet<&str>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for claim in at.items("claims") {
        let (name, request) = (claim.text_of("name"), claim.text_of("request"));
        if name.is_empty() {
            faults.required(&claim, "");
            continue;
        }
        faults.if_given(&claim.at("request"), names::label);
        let overlaps = if request.is_empty() {
            seen.iter().any(|(other, _)| *other == name)
        } else {
            seen.contains(&(name, "")) || seen.contains(&(name, request))
        };
        if overlaps {
            faults.duplicate(&claim, name);
        }
        seen.insert((name, request));
        if claims.is_empty() {
            faults.not_found_because(
                &claim,
                name,
                "must be one of the names in pod.spec.resourceClaims which is empty",
            );
        } else if !claims.contains(name) {
            let known: Vec<&str> = claims.iter().copied().collect();
            let detail = format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(","));
            faults.not_found_because(&claim, name, &detail);
        }
    }
}
