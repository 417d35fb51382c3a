//! Who may talk to whom, how requests come in, and which addresses there are.

use serde_json::Value;

use super::{
    document::{Faults, Node},
    names, selectors,
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const CONTROLLER_BYTES_MAX: usize = 250;

/// A NetworkPolicy.
pub(super) fn network_policy(policy: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = policy.at("spec");
    selectors::label_selector(&spec.at("podSelector"), faults);
    let kept = old.map(ranges).unwrap_or_default();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(direction) {
            for port in rule.items("ports") {
                policy_port(&port, faults);
            }
            for peer in rule.items(peers) {
                policy_peer(&peer, &kept, faults);
            }
        }
    }
    let types = spec.at("policyTypes");
    if spec.len_of("policyTypes") > 2 {
        faults.invalid(&types, types.value.clone(), "may not specify more than two policyTypes");
        return;
    }
    for kind in spec.items("policyTypes") {
        if !matches!(kind.text(), "Ingress" | "Egress") {
            faults.not_supported(&kind, kind.text(), &["Ingress", "Egress"]);
        }
    }
}

/// The ranges of addresses that a policy names.
fn ranges<'d>(policy: &Node<'d, '_>) -> Vec<&'d str> {
    let mut found = Vec::new();
    let spec = policy.at("spec");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(direction) {
            for peer in rule.items(peers) {
                let block = peer.at("ipBlock");
                found.push(block.text_of("cidr"));
                found.extend(block.items("except").map(|range| range.text()));
            }
        }
    }
    found
}

fn policy_port(port: &Node, faults: &mut Faults) {
    faults.if_given_one_of(&port.at("protocol"), &["TCP", "UDP", "SCTP"]);
    let (first, last) = (port.at("port"), port.at("endPort"));
    match first.value {
        Value::Null => {
            if let Some(end) = last.number() {
                faults.invalid(&last, end, "may not be specified when `port` is not specified");
            }
        }
        Value::String(name) => {
            if let Some(end) = last.number() {
                faults.invalid(&last, end, "may not be specified when `port` is non-numeric");
            }
            faults.texts(&first, names::port_name(name));
        }
        _ => {
            faults.in_range(&first, 1, 65535);
            // What is shown is the port.
            if last.number().is_some_and(|end| Some(end) < first.number()) {
                faults.invalid(&last, first.value.clone(), "must be greater than or equal to `port`");
            }
            faults.in_range(&last, 1, 65535);
        }
    }
}

fn policy_peer(peer: &Node, kept: &[&str], faults: &mut Faults) {
    selectors::label_selector(&peer.at("podSelector"), faults);
    selectors::label_selector(&peer.at("namespaceSelector"), faults);
    let block = peer.at("ipBlock");
    if block.exists() {
        ip_block(&block, kept, faults);
    }
    let selects = peer.has("podSelector") || peer.has("namespaceSelector");
    match (selects, block.exists()) {
        (false, false) => faults.required(peer, "must specify a peer"),
        (true, true) => faults.forbidden(peer, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(block: &Node, kept: &[&str], faults: &mut Faults) {
    let range = block.at("cidr");
    if range.text().is_empty() {
        faults.required(&range, "");
        return;
    }
    if !kept.contains(&range.text()) {
        faults.texts(&range, names::cidr(range.text()));
    }
    let Some(outer) = names::parse_cidr(range.text()) else { return };
    for except in block.items("except") {
        if !kept.contains(&except.text()) {
            faults.texts(&except, names::cidr(except.text()));
        }
        if names::parse_cidr(except.text()).is_some_and(|inner| !outer.contains_smaller(&inner)) {
            faults.invalid(&except, except.text(), "must be a strict subset of `cidr`");
        }
    }
}

/// An Ingress.
pub(super) fn ingress(ingress: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = ingress.at("spec");
    let default = spec.at("defaultBackend");
    if spec.len_of("rules") == 0 && !default.exists() {
        faults.invalid(&spec, Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if default.exists() {
        backend(&default, faults);
    }
    for rule in spec.items("rules") {
        rule_host(&rule, faults);
        let http = rule.at("http");
        if http.exists() && http.len_of("paths") == 0 {
            faults.required(&http.at("paths"), "");
        }
        for path in http.items("paths") {
            ingress_path(&path, faults);
        }
    }
    for tls in spec.items("tls") {
        for host in tls.items("hosts") {
            faults.texts(&host, names::host(host.text()));
        }
        faults.if_given(&tls.at("secretName"), names::subdomain);
    }
    let class = spec.at("ingressClassName");
    if class.exists() {
        faults.texts(&class, names::subdomain(class.text()));
    }
    let annotation = ingress.at("metadata.annotations").value.get(CLASS_ANNOTATION).and_then(Value::as_str);
    if let Some(given) = annotation.filter(|given| old.is_none() && class.exists() && *given != class.text())
    {
        let at = format!("annotations.{CLASS_ANNOTATION}");
        faults.invalid(
            &ingress.at_as("metadata", &at),
            given,
            "must match `ingressClassName` when both are specified",
        );
    }
}

fn rule_host(rule: &Node, faults: &mut Faults) {
    let host = rule.at("host");
    if host.text().is_empty() {
        return;
    }
    if names::parse_ip(host.text()).is_some() {
        faults.invalid(&host, host.text(), "must be a DNS name, not an IP address");
    }
    faults.texts(&host, names::host(host.text()));
}

fn ingress_path(path: &Node, faults: &mut Faults) {
    let (kind, at) = (path.at("pathType"), path.at("path"));
    if !kind.exists() {
        faults.required(&kind, "pathType must be specified");
        return;
    }
    let text = at.text();
    match kind.text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                faults.invalid(&at, text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| text.contains(part)) {
                faults.invalid(&at, text, &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| text.ends_with(end)) {
                faults.invalid(&at, text, &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                faults.invalid(&at, text, "must be an absolute path");
            }
        }
        other => faults.not_supported(&kind, other, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&path.at("backend"), faults);
}

fn backend(backend: &Node, faults: &mut Faults) {
    let service = backend.at("service");
    match (backend.has("resource"), service.exists()) {
        (true, true) => faults.invalid(backend, "", "cannot set both resource and service backends"),
        (true, false) => reference(&backend.at("resource"), faults),
        (false, false) => faults.invalid(backend, "", "resource or service backend is required"),
        (false, true) => {
            faults.named(&service.at("name"), names::label);
            let port = service.at("port");
            match (port.text_of("name"), port.number_of("number")) {
                ("", 0) => faults.required(backend, "port name or number is required"),
                ("", _) => faults.in_range(&port.at("number"), 1, 65535),
                (name, 0) => faults.texts(&port.at("name"), names::port_name(name)),
                _ => faults.invalid(backend, "", "cannot set both port name & port number"),
            }
        }
    }
}

/// An object by its group, kind and name.
fn reference(reference: &Node, faults: &mut Faults) {
    if reference.has("apiGroup") {
        let group = reference.at("apiGroup");
        faults.texts(&group, names::subdomain(group.text()));
    }
    faults.named(&reference.at("kind"), names::path_segment);
    faults.named(&reference.at("name"), names::path_segment);
}

/// An IngressClass.
pub(super) fn ingress_class(class: &Node, _: Option<&Node>, faults: &mut Faults) {
    let controller = class.at("spec.controller");
    if controller.text().is_empty() {
        faults.required(&controller, "");
    } else {
        if controller.text().len() > CONTROLLER_BYTES_MAX {
            faults.too_long(&controller, CONTROLLER_BYTES_MAX);
        }
        for (blamed, fault) in names::domain_path(controller.text()) {
            faults.invalid(&controller, blamed, &fault);
        }
    }
    let parameters = class.at("spec.parameters");
    if !parameters.exists() {
        return;
    }
    reference(&parameters, faults);
    if parameters.has("scope") {
        faults.must_be_one_of(&parameters.at("scope"), &["Cluster", "Namespace"]);
    } else {
        faults.required(&parameters.at("scope"), "");
    }
    let namespace = parameters.at("namespace");
    match parameters.text_of("scope") {
        "Namespace" if !namespace.exists() => {
            faults.required(&namespace, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => faults.texts(&namespace, names::label(namespace.text())),
        "Cluster" if namespace.exists() => {
            faults.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
        }
        _ => {}
    }
}

/// A class keeps its controller.
pub(super) fn ingress_class_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.text_unchanged(&new.at("spec.controller"), &old.at("spec.controller"));
}

/// An address that is taken.
pub(super) fn ip_address(address: &Node, _: Option<&Node>, faults: &mut Faults) {
    let parent = address.at("spec.parentRef");
    if !parent.exists() {
        faults.required(&parent, "");
        return;
    }
    faults.if_given(&parent.at("group"), names::subdomain);
    faults.named(&parent.at("resource"), names::path_segment);
    faults.named(&parent.at("name"), names::path_segment);
    faults.if_given(&parent.at("namespace"), names::path_segment);
}

/// An address keeps its owner.
pub(super) fn ip_address_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("spec.parentRef"), &old.at("spec.parentRef"));
}

/// A range of addresses for services.
pub(super) fn service_cidr(object: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = object.at("spec");
    let all = spec.at("cidrs");
    match spec.len_of("cidrs") {
        0 => faults.required(&all, "at least one CIDR required"),
        1 | 2 => {}
        _ => faults.invalid(&all, all.value.clone(), "may only hold up to 2 values"),
    }
    for range in spec.items("cidrs") {
        faults.texts(&range, names::strict_cidr(range.text()));
    }
    let families: Vec<_> = spec
        .items("cidrs")
        .filter_map(|range| names::parse_cidr(range.text()))
        .map(|range| range.v6)
        .collect();
    if matches!(families[..], [one, other] if one == other) {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        faults.invalid(&all, all.value.clone(), detail);
    }
}

/// A range may get a second family.
pub(super) fn service_cidr_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let all = spec.at("cidrs");
    if spec.len_of("cidrs") < before.len_of("cidrs") {
        faults.invalid(&all, all.value.clone(), "field is immutable");
        return;
    }
    for (new, old) in spec.items("cidrs").zip(before.items("cidrs")) {
        faults.unchanged(&new, &old);
    }
}
