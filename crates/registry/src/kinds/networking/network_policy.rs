//! NetworkPolicy.

use crate::{
    defaults::fields::{Object, child_or_new, children, has_any, set_default},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{age_of, selector_or_none},
    },
    validation::{
        SPEC, Step,
        document::{Faults, Node},
        names, selectors,
    },
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
    /// A network policy, which is about what comes in, and about what goes out if it says anything of that.
    fn set_defaults(&self, object: &mut Object) {
        let spec = child_or_new(object, "spec");
        if !has_any(spec, "policyTypes") {
            let types =
                if has_any(spec, "egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".to_owned(), types);
        }
        for direction in ["ingress", "egress"] {
            for rule in children(spec, direction) {
                for port in children(rule, "ports") {
                    set_default(port, "protocol", "TCP");
                }
            }
        }
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, policy: &Node, old: Option<&Node>, faults: &mut Faults) {
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

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, policy: &Value, now: Timestamp) -> Vec<Value> {
        row![policy.name(), selector_or_none(policy, "spec.podSelector"), age_of(policy, now)]
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
