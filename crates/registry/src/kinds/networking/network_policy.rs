//! NetworkPolicy.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{age_of, selector_or_none},
    },
    validation::{SPEC, Step, names, selectors},
};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.NetworkPolicy", "networkpolicies")
        .short_names(&["netpol"])
        .generation(Generation::Spec)
        .strategy(NetworkPolicyStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("Pod-Selector", "The labels of the pods that it is for"), AGE];

struct NetworkPolicyStrategy;

impl Strategy for NetworkPolicyStrategy {
    /// Sets the default policy types (`Ingress`, and `Egress` if there are egress rules) and protocols.
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        if !spec.is_filled("policyTypes") {
            let types =
                if spec.is_filled("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".to_owned(), types);
        }
        for direction in ["ingress", "egress"] {
            for rule in spec.objects_mut(direction) {
                for port in rule.objects_mut("ports") {
                    port.set_default("protocol", "TCP");
                }
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, policy: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let spec = policy.at("spec");
        selectors::label_selector(&spec.at("podSelector"), errors);
        let kept = old.map(ranges).unwrap_or_default();
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.items(direction) {
                for port in rule.items("ports") {
                    policy_port(&port, errors);
                }
                for peer in rule.items(peers) {
                    policy_peer(&peer, &kept, errors);
                }
            }
        }
        let types = spec.at("policyTypes");
        if spec.length("policyTypes") > 2 {
            errors.invalid(&types, types.value.clone(), "may not specify more than two policyTypes");
            return;
        }
        for kind in spec.items("policyTypes") {
            if !matches!(kind.as_text(), "Ingress" | "Egress") {
                errors.not_supported(&kind, kind.as_text(), &["Ingress", "Egress"]);
            }
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, policy: &Value, now: Timestamp) -> Vec<Value> {
        row![policy.name(), selector_or_none(policy, "spec.podSelector"), age_of(policy, now)]
    }
}

/// The IP blocks of a policy.
fn ranges<'d>(policy: &Node<'d, '_>) -> Vec<&'d str> {
    let mut found = Vec::new();
    let spec = policy.at("spec");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(direction) {
            for peer in rule.items(peers) {
                let block = peer.at("ipBlock");
                found.push(block.text("cidr"));
                found.extend(block.items("except").map(|range| range.as_text()));
            }
        }
    }
    found
}

fn policy_port(port: &Node, errors: &mut FieldErrors) {
    errors.one_of_if_set(&port.at("protocol"), &["TCP", "UDP", "SCTP"]);
    let (first, last) = (port.at("port"), port.at("endPort"));
    match first.value {
        Value::Null => {
            if let Some(end) = last.as_number() {
                errors.invalid(&last, end, "may not be specified when `port` is not specified");
            }
        }
        Value::String(name) => {
            if let Some(end) = last.as_number() {
                errors.invalid(&last, end, "may not be specified when `port` is non-numeric");
            }
            errors.invalid_each(&first, names::port_name(name));
        }
        _ => {
            errors.in_range(&first, 1, 65535);
            // Kubernetes' error contains the port, not the end port.
            if last.as_number().is_some_and(|end| Some(end) < first.as_number()) {
                errors.invalid(&last, first.value.clone(), "must be greater than or equal to `port`");
            }
            errors.in_range(&last, 1, 65535);
        }
    }
}

fn policy_peer(peer: &Node, kept: &[&str], errors: &mut FieldErrors) {
    selectors::label_selector(&peer.at("podSelector"), errors);
    selectors::label_selector(&peer.at("namespaceSelector"), errors);
    let block = peer.at("ipBlock");
    if block.exists() {
        ip_block(&block, kept, errors);
    }
    let selects = peer.has("podSelector") || peer.has("namespaceSelector");
    match (selects, block.exists()) {
        (false, false) => errors.required(peer, "must specify a peer"),
        (true, true) => errors.forbidden(peer, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(block: &Node, kept: &[&str], errors: &mut FieldErrors) {
    let range = block.at("cidr");
    if range.as_text().is_empty() {
        errors.required(&range, "");
        return;
    }
    if !kept.contains(&range.as_text()) {
        errors.invalid_each(&range, names::cidr(range.as_text()));
    }
    let Some(outer) = names::parse_cidr(range.as_text()) else { return };
    for except in block.items("except") {
        if !kept.contains(&except.as_text()) {
            errors.invalid_each(&except, names::cidr(except.as_text()));
        }
        if names::parse_cidr(except.as_text()).is_some_and(|inner| !outer.contains_smaller(&inner)) {
            errors.invalid(&except, except.as_text(), "must be a strict subset of `cidr`");
        }
    }
}
