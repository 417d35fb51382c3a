//! Services and the endpoints behind them.

use std::collections::BTreeSet;

use super::{
    containers::port_or_name,
    document::{Faults, Node},
    metadata, names,
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const AFFINITY_SECONDS_MAX: i64 = 86400;
const SLICE_ENDPOINTS_MAX: usize = 1000;
const SLICE_ADDRESSES_MAX: usize = 100;
const SLICE_PORTS_MAX: usize = 20000;
const SLICE_HINTS_MAX: usize = 8;
const FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

fn is_headless(service: &Node) -> bool {
    let spec = service.at("spec");
    spec.len_of("clusterIPs") == 1 && spec.item("clusterIPs", 0).text() == "None"
}

fn is_of_type(service: &Node, kind: &str) -> bool {
    service.at("spec").text_of("type") == kind
}

/// A Service.
pub(super) fn service(service: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = service.at("spec");
    let kind = spec.text_of("type");
    let headless = is_headless(service);
    if spec.len_of("ports") == 0 && !headless && kind != "ExternalName" {
        faults.required(&spec.at("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            faults.invalid(&spec.item("clusterIPs", 0), "None", &detail);
        }
        "ExternalName" => external_name(&spec, faults),
        _ => {}
    }
    ports(&spec, faults);
    metadata::labels(&spec.at("selector"), faults);
    session_affinity(&spec, faults);
    if kind != "ExternalName" {
        cluster_ips(service, &spec, old, faults);
    }
    for address in spec.items("externalIPs") {
        let kept = old
            .is_some_and(|old| old.at("spec").items("externalIPs").any(|old| old.text() == address.text()));
        let wrong = if kept { Vec::new() } else { names::ip(address.text()) };
        if wrong.is_empty() {
            faults.texts(&address, names::ordinary_ip(address.text()));
        }
        faults.texts(&address, wrong);
    }
    faults.one_of(&spec.at("type"), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    port_numbers(&spec, faults);
    source_ranges(service, &spec, faults);
    balancer(&spec, faults);
    traffic(&spec, faults);
}

/// Addresses are looked at before anything else, because they are given out before. Whether something is wrong with them.
pub(super) fn addresses_asked_first(service: &Node, old: Option<&Node>, faults: &mut Faults) -> bool {
    if !is_of_type(service, "ExternalName") {
        cluster_ips(service, &service.at("spec"), old, faults);
    }
    !faults.0.is_empty()
}

fn external_name(spec: &Node, faults: &mut Faults) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.has(name) {
            faults.forbidden(&spec.at(name), "may not be set for ExternalName services");
        }
    }
    let name = spec.at("externalName");
    let text = name.text().strip_suffix('.').unwrap_or(name.text());
    if text.is_empty() {
        faults.required(&name, "");
    }
    for fault in names::subdomain(text).into_iter().filter(|_| !text.is_empty()) {
        faults.invalid(&name, text, &fault);
    }
}

fn ports(spec: &Node, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for port in spec.items("ports") {
        let name = port.at("name");
        if name.text().is_empty() {
            if spec.len_of("ports") > 1 {
                faults.required(&name, "");
            }
        } else {
            faults.texts(&name, names::label(name.text()));
            if !taken.insert(name.text()) {
                faults.duplicate(&name, name.text());
            }
        }
        port_number(&port, faults);
        faults.one_of(&port.at("protocol"), &PROTOCOLS);
        port_or_name(&port.at("targetPort"), faults);
        app_protocol(&port, faults);
    }
}

fn port_number(port: &Node, faults: &mut Faults) {
    let number = port.number_of("port");
    if !(1..=65535).contains(&number) {
        faults.invalid(&port.at("port"), number, "must be between 1 and 65535, inclusive");
    }
}

fn app_protocol(port: &Node, faults: &mut Faults) {
    if port.has("appProtocol") {
        let protocol = port.at("appProtocol");
        faults.texts(&protocol, names::qualified(protocol.text()));
    }
}

fn session_affinity(spec: &Node, faults: &mut Faults) {
    faults.one_of(&spec.at("sessionAffinity"), &["ClientIP", "None"]);
    let config = spec.at("sessionAffinityConfig");
    match spec.text_of("sessionAffinity") {
        "ClientIP" => {
            let seconds = config.at("clientIP.timeoutSeconds");
            match seconds.number() {
                None => faults.required(&seconds, "when session affinity type is ClientIP"),
                Some(number) if !(1..=AFFINITY_SECONDS_MAX).contains(&number) => {
                    let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                    faults.invalid(&seconds, number, &detail);
                }
                Some(_) => {}
            }
        }
        "None" if config.exists() => {
            faults.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn cluster_ips(service: &Node, spec: &Node, old: Option<&Node>, faults: &mut Faults) {
    let all = spec.at("clusterIPs");
    let count = spec.len_of("clusterIPs");
    match (spec.text_of("clusterIP"), count) {
        ("", 0) => {}
        ("", _) => {
            faults.invalid(&all, all.value.clone(), "must be empty when `clusterIP` is not specified");
        }
        (_, 0) => faults.required(&all, ""),
        (first, _) if spec.item("clusterIPs", 0).text() != first => {
            faults.invalid(&all, all.value.clone(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for family in spec.items("ipFamilies") {
        faults.if_given_one_of(&family, &["IPv4", "IPv6"]);
        if !seen.insert(family.text()) {
            faults.duplicate(&family, family.text());
        }
    }
    faults
        .if_given_one_of(&spec.at("ipFamilyPolicy"), &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    let before = faults.0.len();
    for (at, address) in spec.items("clusterIPs").enumerate() {
        if at == 0 && address.text() == "None" {
            if count > 1 {
                faults.invalid(&all, all.value.clone(), "'None' must be the first and only value");
            }
            continue;
        }
        let kept =
            old.is_some_and(|old| old.at("spec").items("clusterIPs").any(|old| old.text() == address.text()));
        if !kept {
            faults.texts(&address, names::ip(address.text()));
        }
    }
    let all_fine = faults.0.len() == before;
    if count > 2 {
        faults.invalid(&all, all.value.clone(), "may only hold up to 2 values");
    }
    if all_fine {
        families_fit(service, spec, faults);
    }
}

fn families_fit(service: &Node, spec: &Node, faults: &mut Faults) {
    let all = spec.at("clusterIPs");
    let sixes = spec.items("clusterIPs").filter(|address| address.text().contains(':')).count();
    if spec.len_of("clusterIPs") > 1 && (sixes != 1 || spec.len_of("clusterIPs") != 2) {
        faults.invalid(&all, all.value.clone(), "may specify no more than one IP for each IP family");
    }
    if is_headless(service) {
        return;
    }
    for (at, (address, family)) in spec.items("clusterIPs").zip(spec.items("ipFamilies")).enumerate() {
        let is_six = address.text().contains(':');
        if matches!(family.text(), "IPv4" | "IPv6") && is_six != (family.text() == "IPv6") {
            let detail = format!("expected an {} value as indicated by `ipFamilies[{at}]`", family.text());
            faults.invalid(&address, address.text(), &detail);
        }
    }
}

/// Ports that are used twice.
fn port_numbers(spec: &Node, faults: &mut Faults) {
    let (mut nodes, mut taken) = (BTreeSet::new(), BTreeSet::new());
    if spec.text_of("type") == "ClusterIP" {
        for port in spec.items("ports").filter(|port| port.number_of("nodePort") != 0) {
            faults.forbidden(&port.at("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    for port in spec.items("ports").filter(|port| port.number_of("nodePort") != 0) {
        if !nodes.insert((port.text_of("protocol"), port.number_of("nodePort"))) {
            faults.duplicate_shown(&port.at("nodePort"), &port.number_of("nodePort").to_string());
        }
    }
    for port in spec.items("ports") {
        let (protocol, number) = (port.text_of("protocol"), port.number_of("port"));
        if !taken.insert((protocol, number)) {
            // The pair is told as the port would be that has nothing else.
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            faults.duplicate_shown(&port, &shown);
        }
    }
}

fn source_ranges(service: &Node, spec: &Node, faults: &mut Faults) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let meta = service.at("metadata");
    let annotation = meta.entry("annotations", ANNOTATION);
    let balances = spec.text_of("type") == "LoadBalancer";
    if spec.len_of("loadBalancerSourceRanges") > 0 {
        if !balances {
            faults.forbidden(&spec.at("LoadBalancerSourceRanges"), FOR_BALANCERS);
        }
        // The field is blamed under the name that it has in Go.
        for (at, range) in spec.items("loadBalancerSourceRanges").enumerate() {
            for fault in names::cidr(range.text().trim()) {
                faults.invalid(&spec.item("LoadBalancerSourceRanges", at), range.text().trim(), &fault);
            }
        }
    } else if annotation.exists() {
        if !balances {
            faults.forbidden(&annotation, FOR_BALANCERS);
        }
        for range in
            annotation.text().split(',').map(str::trim).filter(|_| !annotation.text().trim().is_empty())
        {
            for fault in names::cidr(range) {
                faults.invalid(&annotation, range, &fault);
            }
        }
    }
}

fn balancer(spec: &Node, faults: &mut Faults) {
    let balances = spec.text_of("type") == "LoadBalancer";
    let (node_ports, class) = (spec.at("allocateLoadBalancerNodePorts"), spec.at("loadBalancerClass"));
    match (balances, node_ports.exists()) {
        (false, true) => faults.forbidden(&node_ports, FOR_BALANCERS),
        (true, false) => faults.required(&node_ports, ""),
        _ => {}
    }
    if class.exists() {
        if balances {
            faults.texts(&class, names::qualified(class.text()));
        } else {
            faults.forbidden(&class, FOR_BALANCERS);
        }
    }
}

fn needs_health_check(spec: &Node) -> bool {
    spec.text_of("type") == "LoadBalancer" && spec.text_of("externalTrafficPolicy") == "Local"
}

fn traffic(spec: &Node, faults: &mut Faults) {
    let kind = spec.text_of("type");
    let external = spec.at("externalTrafficPolicy");
    let reachable = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && spec.len_of("externalIPs") > 0);
    if reachable {
        faults.one_of(&external, &["Cluster", "Local"]);
    } else if !external.text().is_empty() {
        let detail = "may only be set for externally-accessible services";
        faults.invalid(&external, external.text(), detail);
    }
    let health = spec.number_of("healthCheckNodePort");
    if !needs_health_check(spec) && health != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.invalid(&spec.at("healthCheckNodePort"), health, detail);
    }
    let internal = spec.at("internalTrafficPolicy");
    if !internal.exists() && matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        faults.required(&internal, "");
    }
    faults.if_given_one_of(&internal, &["Cluster", "Local"]);
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    faults.if_given_one_of(&spec.at("trafficDistribution"), &known);
}

/// What may change in a Service.
pub(super) fn service_change(new: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let external = is_of_type(new, "ExternalName") || is_of_type(old, "ExternalName");
    if !external {
        address_change(new, old, faults);
        if !is_headless(new) && !is_headless(old) {
            family_change(&spec, &before, faults);
        }
    }
    if is_of_type(new, "LoadBalancer") && is_of_type(old, "LoadBalancer") {
        let class = spec.at("loadBalancerClass");
        if class.value != before.at("loadBalancerClass").value {
            faults.invalid(&class, class.value.clone(), "may not change once set");
        }
    }
    let class = spec.at("loadBalancerClass");
    if is_of_type(new, "LoadBalancer") && class.exists() {
        faults.texts(&class, names::qualified(class.text()));
    } else if class.exists() {
        faults.forbidden(&class, "may only be used when `type` is 'LoadBalancer'");
    }
    let health = "healthCheckNodePort";
    if needs_health_check(&spec)
        && needs_health_check(&before)
        && spec.number_of(health) != before.number_of(health)
    {
        faults.forbidden(&spec.at(health), "field is immutable");
    }
}

fn address_change(new: &Node, old: &Node, faults: &mut Faults) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let all = spec.at("clusterIPs");
    let (now, was) = (spec.len_of("clusterIPs"), before.len_of("clusterIPs"));
    let changed = |at: usize| spec.item("clusterIPs", at).text() != before.item("clusterIPs", at).text();
    if now == was {
        for at in (0..was).filter(|at| changed(*at)) {
            faults.invalid(&spec.item("clusterIPs", at), all.value.clone(), "may not change once set");
        }
        return;
    }
    let first = spec.item("clusterIPs", 0);
    if now == 0 {
        faults.invalid(&first, all.value.clone(), "primary clusterIP can not be unset");
    } else if was > 0 && changed(0) {
        faults.invalid(&first, all.value.clone(), "may not change once set");
    }
    if now == 1 && was > 1 {
        single_stack(&spec, "clusterIP", faults);
    }
}

fn single_stack(spec: &Node, what: &str, faults: &mut Faults) {
    let policy = spec.at("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        faults.invalid(&policy, policy.value.clone(), &detail);
    }
}

fn family_change(spec: &Node, before: &Node, faults: &mut Faults) {
    let all = spec.at("ipFamilies");
    let (now, was) = (spec.len_of("ipFamilies"), before.len_of("ipFamilies"));
    let first = spec.item("ipFamilies", 0);
    let pairs = || spec.items("ipFamilies").zip(before.items("ipFamilies"));
    if now == was {
        for _ in pairs().filter(|(new, old)| new.text() != old.text()) {
            faults.invalid(&first, all.value.clone(), "may not change once set");
        }
        return;
    }
    if pairs().take(1).any(|(new, old)| new.text() != old.text()) {
        faults.invalid(&first, spec.at("clusterIPs").value.clone(), "may not change once set");
    }
    if now == 1 && was > 1 {
        single_stack(spec, "ipFamily", faults);
    }
}

/// What balancers of load tell about a Service or an Ingress.
pub(super) fn balancer_status(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status.loadBalancer");
    let ingresses = status.at("ingress");
    if new.text_of("kind") == "Service" && !is_of_type(new, "LoadBalancer") && status.len_of("ingress") > 0 {
        faults.forbidden(&ingresses, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for ingress in status.items("ingress") {
        faults.if_given(&ingress.at("ip"), names::ip);
        let mode = ingress.at("ipMode");
        if mode.exists() && ingress.text_of("ip").is_empty() {
            faults.forbidden(&mode, "may not be specified when `ip` is not set");
        } else {
            faults.if_given_one_of(&mode, &["Proxy", "VIP"]);
        }
        let host = ingress.at("hostname");
        faults.if_given(&host, names::subdomain);
        if names::parse_ip(host.text()).is_some() {
            faults.invalid(&host, host.text(), "must be a DNS name, not an IP address");
        }
    }
}

/// Endpoints.
pub(super) fn endpoints(object: &Node, _: Option<&Node>, faults: &mut Faults) {
    for subset in object.items("subsets") {
        if subset.len_of("addresses") + subset.len_of("notReadyAddresses") == 0 {
            faults.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in subset.items("addresses").chain(subset.items("notReadyAddresses")) {
            endpoint_address(&address, faults);
        }
        for port in subset.items("ports") {
            let name = port.at("name");
            if subset.len_of("ports") > 1 {
                faults.given(&name);
            }
            faults.if_given(&name, names::label);
            port_number(&port, faults);
            faults.one_of(&port.at("protocol"), &PROTOCOLS);
            app_protocol(&port, faults);
        }
    }
}

fn endpoint_address(address: &Node, faults: &mut Faults) {
    let ip = address.at("ip");
    let wrong = names::ip(ip.text());
    faults.texts(&ip, wrong);
    faults.if_given(&address.at("hostname"), names::label);
    if address.has("nodeName") {
        let node = address.at("nodeName");
        faults.texts(&node, names::subdomain(node.text()));
    }
    if names::parse_ip(ip.text()).is_none() {
        faults.invalid(&ip, ip.text(), "must be a valid IP address");
    } else {
        faults.texts(&ip, names::ordinary_ip(ip.text()));
    }
}

/// A slice of endpoints.
pub(super) fn endpoint_slice(slice: &Node, old: Option<&Node>, faults: &mut Faults) {
    faults.one_of(&slice.at("addressType"), &["FQDN", "IPv4", "IPv6"]);
    slice_ports(slice, faults);
    // Endpoints that were stored are not looked at again unless they change.
    if old.is_none_or(|old| old.at("endpoints").value != slice.at("endpoints").value) {
        slice_endpoints(slice, faults);
    }
}

fn slice_ports(slice: &Node, faults: &mut Faults) {
    let count = slice.len_of("ports");
    if count > SLICE_PORTS_MAX {
        faults.too_many(&slice.at("ports"), count, SLICE_PORTS_MAX);
        return;
    }
    let mut taken = BTreeSet::new();
    for port in slice.items("ports") {
        let name = port.at("name");
        faults.if_given(&name, names::label);
        if !taken.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
        faults.if_given_one_of(&port.at("protocol"), &PROTOCOLS);
        app_protocol(&port, faults);
    }
}

fn slice_endpoints(slice: &Node, faults: &mut Faults) {
    let count = slice.len_of("endpoints");
    if count > SLICE_ENDPOINTS_MAX {
        faults.too_many(&slice.at("endpoints"), count, SLICE_ENDPOINTS_MAX);
        return;
    }
    for endpoint in slice.items("endpoints") {
        match endpoint.len_of("addresses") {
            0 => faults.required(&endpoint.at("addresses"), "must contain at least 1 address"),
            count if count > SLICE_ADDRESSES_MAX => {
                faults.too_many(&endpoint.at("addresses"), count, SLICE_ADDRESSES_MAX);
            }
            _ => {}
        }
        for address in endpoint.items("addresses") {
            slice_address(&endpoint, &address, slice.text_of("addressType"), faults);
        }
        if endpoint.has("nodeName") {
            let node = endpoint.at("nodeName");
            faults.texts(&node, names::subdomain(node.text()));
        }
        if endpoint.has("hostname") {
            let host = endpoint.at("hostname");
            faults.texts(&host, names::label(host.text()));
        }
        slice_hints(&endpoint.at("hints"), faults);
    }
}

/// For which zones and nodes an endpoint is meant.
fn slice_hints(hints: &Node, faults: &mut Faults) {
    for list in ["forZones", "forNodes"] {
        let count = hints.len_of(list);
        if count > SLICE_HINTS_MAX {
            faults.too_many(&hints.at(list), count, SLICE_HINTS_MAX);
            return;
        }
        let mut taken = BTreeSet::new();
        for hint in hints.items(list) {
            let name = hint.at("name");
            if !taken.insert(name.text()) {
                faults.duplicate(&name, name.text());
            }
            let wrong = match list {
                "forZones" => names::label_value(name.text()),
                _ => names::subdomain(name.text()),
            };
            faults.texts(&name, wrong);
        }
    }
}

fn slice_address(endpoint: &Node, address: &Node, kind: &str, faults: &mut Faults) {
    let text = address.text();
    match kind {
        "IPv4" | "IPv6" => {
            let wrong = names::ip(text);
            if !wrong.is_empty() {
                faults.texts(address, wrong);
                return;
            }
            if text.contains(':') != (kind == "IPv6") {
                faults.invalid(&endpoint.at("addresses"), text, &format!("must be an {kind} address"));
            }
            faults.texts(address, names::ordinary_ip(text));
        }
        "FQDN" => {
            let text = text.strip_suffix('.').unwrap_or(text);
            let wrong = names::subdomain(text);
            if text.is_empty() {
                faults.required(address, "");
            } else if !wrong.is_empty() {
                faults.invalid(address, text, &wrong.join(","));
            } else if !text.contains('.') {
                let detail = "should be a domain with at least two segments separated by dots";
                faults.invalid(address, text, detail);
            }
        }
        _ => {}
    }
}

/// A slice keeps its type of addresses.
pub(super) fn endpoint_slice_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("addressType"), &old.at("addressType"));
}
