//! Validation of a Service.

use crate::{
    document::{FieldErrors, Fields, Node},
    validation::{
        containers::port_or_name,
        names,
        service::{PROTOCOLS, app_protocol},
    },
};
use std::collections::BTreeSet;

const AFFINITY_SECONDS_MAX: i64 = 86400;

const FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn is_headless(service: &Node) -> bool {
    let spec = service.at("spec");
    spec.length("clusterIPs") == 1 && spec.item("clusterIPs", 0).as_text() == "None"
}

pub(super) fn external_name(spec: &Node, errors: &mut FieldErrors) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.has(name) {
            errors.forbidden(&spec.at(name), "may not be set for ExternalName services");
        }
    }
    let name = spec.at("externalName");
    let text = name.as_text().strip_suffix('.').unwrap_or(name.as_text());
    if text.is_empty() {
        errors.required(&name, "");
    }
    for error in names::subdomain(text).into_iter().filter(|_| !text.is_empty()) {
        errors.invalid(&name, text, &error);
    }
}

pub(super) fn ports(spec: &Node, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for port in spec.items("ports") {
        let name = port.at("name");
        if name.as_text().is_empty() {
            if spec.length("ports") > 1 {
                errors.required(&name, "");
            }
        } else {
            errors.invalid_each(&name, names::label(name.as_text()));
            if !taken.insert(name.as_text()) {
                errors.duplicate(&name, name.as_text());
            }
        }
        port_number(&port, errors);
        errors.one_of(&port.at("protocol"), &PROTOCOLS);
        port_or_name(&port.at("targetPort"), errors);
        app_protocol(&port, errors);
    }
}

pub(crate) fn port_number(port: &Node, errors: &mut FieldErrors) {
    let number = port.number("port");
    if !(1..=65535).contains(&number) {
        errors.invalid(&port.at("port"), number, "must be between 1 and 65535, inclusive");
    }
}

pub(super) fn session_affinity(spec: &Node, errors: &mut FieldErrors) {
    errors.one_of(&spec.at("sessionAffinity"), &["ClientIP", "None"]);
    let config = spec.at("sessionAffinityConfig");
    match spec.text("sessionAffinity") {
        "ClientIP" => {
            let seconds = config.at("clientIP.timeoutSeconds");
            match seconds.as_number() {
                None => errors.required(&seconds, "when session affinity type is ClientIP"),
                Some(number) if !(1..=AFFINITY_SECONDS_MAX).contains(&number) => {
                    let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                    errors.invalid(&seconds, number, &detail);
                }
                Some(_) => {}
            }
        }
        "None" if config.exists() => {
            errors.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

pub(super) fn cluster_ips(service: &Node, spec: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let all = spec.at("clusterIPs");
    let count = spec.length("clusterIPs");
    match (spec.text("clusterIP"), count) {
        ("", 0) => {}
        ("", _) => {
            errors.invalid(&all, all.value.clone(), "must be empty when `clusterIP` is not specified");
        }
        (_, 0) => errors.required(&all, ""),
        (first, _) if spec.item("clusterIPs", 0).as_text() != first => {
            errors.invalid(&all, all.value.clone(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for family in spec.items("ipFamilies") {
        errors.one_of_if_set(&family, &["IPv4", "IPv6"]);
        if !seen.insert(family.as_text()) {
            errors.duplicate(&family, family.as_text());
        }
    }
    errors.one_of_if_set(&spec.at("ipFamilyPolicy"), &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    let before = errors.0.len();
    for (at, address) in spec.items("clusterIPs").enumerate() {
        if at == 0 && address.as_text() == "None" {
            if count > 1 {
                errors.invalid(&all, all.value.clone(), "'None' must be the first and only value");
            }
            continue;
        }
        let kept = old.is_some_and(|old| {
            old.at("spec").items("clusterIPs").any(|old| old.as_text() == address.as_text())
        });
        if !kept {
            errors.invalid_each(&address, names::ip(address.as_text()));
        }
    }
    let all_fine = errors.0.len() == before;
    if count > 2 {
        errors.invalid(&all, all.value.clone(), "may only hold up to 2 values");
    }
    if all_fine {
        families_fit(service, spec, errors);
    }
}

pub(super) fn families_fit(service: &Node, spec: &Node, errors: &mut FieldErrors) {
    let all = spec.at("clusterIPs");
    let sixes = spec.items("clusterIPs").filter(|address| address.as_text().contains(':')).count();
    if spec.length("clusterIPs") > 1 && (sixes != 1 || spec.length("clusterIPs") != 2) {
        errors.invalid(&all, all.value.clone(), "may specify no more than one IP for each IP family");
    }
    if is_headless(service) {
        return;
    }
    for (at, (address, family)) in spec.items("clusterIPs").zip(spec.items("ipFamilies")).enumerate() {
        let is_six = address.as_text().contains(':');
        if matches!(family.as_text(), "IPv4" | "IPv6") && is_six != (family.as_text() == "IPv6") {
            let detail = format!("expected an {} value as indicated by `ipFamilies[{at}]`", family.as_text());
            errors.invalid(&address, address.as_text(), &detail);
        }
    }
}

/// Validates that no node port and no port is used twice for one protocol.
pub(super) fn port_numbers(spec: &Node, errors: &mut FieldErrors) {
    let (mut nodes, mut taken) = (BTreeSet::new(), BTreeSet::new());
    if spec.text("type") == "ClusterIP" {
        for port in spec.items("ports").filter(|port| port.number("nodePort") != 0) {
            errors.forbidden(&port.at("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    for port in spec.items("ports").filter(|port| port.number("nodePort") != 0) {
        if !nodes.insert((port.text("protocol"), port.number("nodePort"))) {
            errors.duplicate_formatted(&port.at("nodePort"), &port.number("nodePort").to_string());
        }
    }
    for port in spec.items("ports") {
        let (protocol, number) = (port.text("protocol"), port.number("port"));
        if !taken.insert((protocol, number)) {
            // The error contains a port with these two fields only.
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            errors.duplicate_formatted(&port, &shown);
        }
    }
}

pub(super) fn source_ranges(service: &Node, spec: &Node, errors: &mut FieldErrors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let meta = service.at("metadata");
    let annotation = meta.entry("annotations", ANNOTATION);
    let balances = spec.text("type") == "LoadBalancer";
    if spec.length("loadBalancerSourceRanges") > 0 {
        if !balances {
            errors.forbidden(&spec.at("LoadBalancerSourceRanges"), FOR_BALANCERS);
        }
        // The path of the error has the name of the field in Go.
        for (at, range) in spec.items("loadBalancerSourceRanges").enumerate() {
            for error in names::cidr(range.as_text().trim()) {
                errors.invalid(&spec.item("LoadBalancerSourceRanges", at), range.as_text().trim(), &error);
            }
        }
    } else if annotation.exists() {
        if !balances {
            errors.forbidden(&annotation, FOR_BALANCERS);
        }
        for range in
            annotation.as_text().split(',').map(str::trim).filter(|_| !annotation.as_text().trim().is_empty())
        {
            for error in names::cidr(range) {
                errors.invalid(&annotation, range, &error);
            }
        }
    }
}

pub(super) fn balancer(spec: &Node, errors: &mut FieldErrors) {
    let balances = spec.text("type") == "LoadBalancer";
    let (node_ports, class) = (spec.at("allocateLoadBalancerNodePorts"), spec.at("loadBalancerClass"));
    match (balances, node_ports.exists()) {
        (false, true) => errors.forbidden(&node_ports, FOR_BALANCERS),
        (true, false) => errors.required(&node_ports, ""),
        _ => {}
    }
    if class.exists() {
        if balances {
            errors.invalid_each(&class, names::qualified(class.as_text()));
        } else {
            errors.forbidden(&class, FOR_BALANCERS);
        }
    }
}

pub(super) fn needs_health_check(spec: &Node) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

pub(super) fn traffic(spec: &Node, errors: &mut FieldErrors) {
    let kind = spec.text("type");
    let external = spec.at("externalTrafficPolicy");
    let reachable = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && spec.length("externalIPs") > 0);
    if reachable {
        errors.one_of(&external, &["Cluster", "Local"]);
    } else if !external.as_text().is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.invalid(&external, external.as_text(), detail);
    }
    let health = spec.number("healthCheckNodePort");
    if !needs_health_check(spec) && health != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&spec.at("healthCheckNodePort"), health, detail);
    }
    let internal = spec.at("internalTrafficPolicy");
    if !internal.exists() && matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.required(&internal, "");
    }
    errors.one_of_if_set(&internal, &["Cluster", "Local"]);
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    errors.one_of_if_set(&spec.at("trafficDistribution"), &known);
}

pub(super) fn address_change(new: &Node, old: &Node, errors: &mut FieldErrors) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let all = spec.at("clusterIPs");
    let (now, was) = (spec.length("clusterIPs"), before.length("clusterIPs"));
    let changed =
        |at: usize| spec.item("clusterIPs", at).as_text() != before.item("clusterIPs", at).as_text();
    if now == was {
        for at in (0..was).filter(|at| changed(*at)) {
            errors.invalid(&spec.item("clusterIPs", at), all.value.clone(), "may not change once set");
        }
        return;
    }
    let first = spec.item("clusterIPs", 0);
    if now == 0 {
        errors.invalid(&first, all.value.clone(), "primary clusterIP can not be unset");
    } else if was > 0 && changed(0) {
        errors.invalid(&first, all.value.clone(), "may not change once set");
    }
    if now == 1 && was > 1 {
        single_stack(&spec, "clusterIP", errors);
    }
}

fn single_stack(spec: &Node, what: &str, errors: &mut FieldErrors) {
    let policy = spec.at("ipFamilyPolicy");
    if policy.as_text() != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.invalid(&policy, policy.value.clone(), &detail);
    }
}

pub(super) fn family_change(spec: &Node, before: &Node, errors: &mut FieldErrors) {
    let all = spec.at("ipFamilies");
    let (now, was) = (spec.length("ipFamilies"), before.length("ipFamilies"));
    let first = spec.item("ipFamilies", 0);
    let pairs = || spec.items("ipFamilies").zip(before.items("ipFamilies"));
    if now == was {
        for _ in pairs().filter(|(new, old)| new.as_text() != old.as_text()) {
            errors.invalid(&first, all.value.clone(), "may not change once set");
        }
        return;
    }
    if pairs().take(1).any(|(new, old)| new.as_text() != old.as_text()) {
        errors.invalid(&first, spec.at("clusterIPs").value.clone(), "may not change once set");
    }
    if now == 1 && was > 1 {
        single_stack(spec, "ipFamily", errors);
    }
}
