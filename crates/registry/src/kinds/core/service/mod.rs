//! Service.

mod allocation;
mod claims;

pub(crate) use allocation::Addresses;
pub(crate) use claims::Reserved;

use crate::{
    defaults::fields::{Object, child, child_or_new, children, has_any, set_default, set_if_zero, text},
    error::Error,
    kind::{Kind, NameRule, SelectableField, Subresource, UnknownField},
    rest::{Registry, Target, document_of},
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{
        self, AGE, Column, NAME, SELECTOR,
        network::load_balancer,
        read::Read,
        row,
        words::{NONE, age_of, joined, labels, or},
    },
    validation::{
        CHANGE_THEN_OWN, Step,
        containers::port_or_name,
        document::{Faults, Node},
        metadata, names,
        service::{PROTOCOLS, app_protocol, balancer_status, is_of_type},
        warnings::Warnings,
    },
    value::{self, at, fields, integer, list, list_mut, set},
};
use async_trait::async_trait;
use keepwatch_storage as stored;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Service", "services")
        .short_names(&["svc"])
        .categories(&["all"])
        .subresources([
            Subresource::new("proxy", &["create", "delete", "get", "patch", "update"]).of(
                "",
                "v1",
                "ServiceProxyOptions",
            ),
            Subresource::status(),
        ])
        .stored_at("services/specs")
        .names(NameRule::Label)
        .depends_on_name()
        .creates_on_update()
        .returns_deleted()
        .selectable(
            [
                SelectableField::namespace(),
                SelectableField::new("spec.clusterIP"),
                SelectableField::new("spec.type"),
            ],
            UnknownField::NotSupported,
        )
        .strategy(ServiceStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    table::text("Type", "How it is reached"),
    table::text("Cluster-IP", "Its address inside the cluster"),
    table::text("External-IP", "Its addresses outside the cluster"),
    table::text("Port(s)", "Its ports, and those of the nodes that lead to them"),
    AGE,
    SELECTOR,
];

struct ServiceStrategy;

#[async_trait]
impl Strategy for ServiceStrategy {
    fn pretend(
        &self,
        registry: &Registry,
        service: &mut Value,
        current: Option<&stored::Object>,
    ) -> Result<(), Error> {
        let old = current.map(|object| document_of(&object.value, None)).unwrap_or_default();
        registry.addresses.pretend(service, &old)
    }

    async fn reserve(
        &self,
        registry: &Registry,
        target: Target<'_>,
        service: &mut Value,
        current: Option<&stored::Object>,
    ) -> Result<Reserved, Error> {
        registry.reserve_addresses(target, service, current).await
    }

    async fn after_deletion(&self, registry: &Registry, target: Target<'_>, last: &stored::Object) {
        registry.free_addresses(last).await;
        registry.delete_endpoints(target).await;
    }

    /// A service, but for its addresses and node ports.
    fn set_defaults(&self, object: &mut Object) {
        let spec = child_or_new(object, "spec");
        set_if_zero(spec, "type", "ClusterIP");
        default_session_affinity(spec);
        for port in children(spec, "ports") {
            set_if_zero(port, "protocol", "TCP");
            if let Some(number) = port.get("port").cloned() {
                set_if_zero(port, "targetPort", number);
            }
        }
        let ty = text(spec, "type");
        let balanced = ty == "LoadBalancer";
        let in_cluster = matches!(ty, "ClusterIP" | "NodePort" | "LoadBalancer");
        let from_outside =
            matches!(ty, "NodePort" | "LoadBalancer") || (ty == "ClusterIP" && has_any(spec, "externalIPs"));
        if from_outside {
            set_if_zero(spec, "externalTrafficPolicy", "Cluster");
        }
        if in_cluster {
            set_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if balanced {
            set_default(spec, "allocateLoadBalancerNodePorts", true);
            balancer_modes(object);
        }
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        list_the_address(document);
        drop_internal_traffic_of_names(document);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        drop_what_its_type_had(new, old);
        drop_internal_traffic_of_names(new);
        keep_service_addresses(new, old);
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_THEN_OWN
    }

    /// Addresses are looked at before anything else, because they are given out before. Whether something is wrong with them.
    fn validate_addresses(&self, service: &Node, old: Option<&Node>, faults: &mut Faults) -> bool {
        if !is_of_type(service, "ExternalName") {
            cluster_ips(service, &service.at("spec"), old, faults);
        }
        !faults.0.is_empty()
    }

    fn validate(&self, service: &Node, old: Option<&Node>, faults: &mut Faults) {
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
            let kept = old.is_some_and(|old| {
                old.at("spec").items("externalIPs").any(|old| old.text() == address.text())
            });
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

    /// What may change in a Service.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
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

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let ingresses = new.at("status.loadBalancer.ingress");
        if !is_of_type(new, "LoadBalancer") && new.at("status.loadBalancer").len_of("ingress") > 0 {
            faults.forbidden(&ingresses, "may only be used when `spec.type` is 'LoadBalancer'");
            return;
        }
        balancer_status(new, faults)
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        service_warnings(object, warnings);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, service: &Value, now: Timestamp) -> Vec<Value> {
        let address = service.texts("spec.clusterIPs").next().unwrap_or(service.text("spec.clusterIP"));
        row![
            service.name(),
            service.text("spec.type"),
            or(address, NONE),
            external_address(service),
            service_ports(service),
            age_of(service, now),
            labels(service.map("spec.selector")),
        ]
    }
}

const AFFINITY_SECONDS_MAX: i64 = 86400;

const FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

fn is_headless(service: &Node) -> bool {
    let spec = service.at("spec");
    spec.len_of("clusterIPs") == 1 && spec.item("clusterIPs", 0).text() == "None"
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

pub(crate) fn port_number(port: &Node, faults: &mut Faults) {
    let number = port.number_of("port");
    if !(1..=65535).contains(&number) {
        faults.invalid(&port.at("port"), number, "must be between 1 and 65535, inclusive");
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

const AFFINITY_SECONDS: i64 = 10_800;

fn default_session_affinity(spec: &mut Object) {
    set_if_zero(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = child_or_new(spec, "sessionAffinityConfig");
            set_default(child_or_new(config, "clientIP"), "timeoutSeconds", AFFINITY_SECONDS);
        }
        _ => {}
    }
}

fn balancer_modes(service: &mut Object) {
    let status = child(service, "status").and_then(|status| child(status, "loadBalancer"));
    for address in status.into_iter().flat_map(|balancer| children(balancer, "ingress")) {
        if !text(address, "ip").is_empty() {
            set_default(address, "ipMode", "VIP");
        }
    }
}

fn external_address(service: &Value) -> String {
    let fixed = joined(service.texts("spec.externalIPs"), ",");
    match service.text("spec.type") {
        "ClusterIP" | "NodePort" => or(&fixed, NONE).to_owned(),
        "LoadBalancer" => {
            let given = load_balancer(service);
            let both = joined([given.as_str(), &fixed].into_iter().filter(|some| !some.is_empty()), ",");
            or(&both, "<pending>").to_owned()
        }
        "ExternalName" => service.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = service.list("spec.ports").iter().map(|port| {
        let (number, protocol) = (port.number("port"), port.text("protocol"));
        match port.number("nodePort") {
            on_nodes @ 1.. => format!("{number}:{on_nodes}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), NONE).to_owned()
}

/// A client that knows one address only says that one; the list follows.
fn list_the_address(service: &mut Value) {
    let given = value::text(service, &["spec", "clusterIP"]).to_owned();
    if !given.is_empty() && list(service, &["spec", "clusterIPs"]).is_empty() {
        fields(service, &["spec"]).insert("clusterIPs".to_owned(), json!([given]));
    }
}

/// What a service had because of its type goes with the type, unless the client says otherwise: a patch of the type alone
/// carries it along.
fn drop_what_its_type_had(new: &mut Value, old: &Value) {
    fn is(service: &Value, types: &[&str]) -> bool {
        types.contains(&value::text(service, &["spec", "type"]))
    }
    let has_address = |service: &Value| !is(service, &["ExternalName"]);
    let has_node_ports = |service: &Value| is(service, &["NodePort", "LoadBalancer"]);
    let is_balanced = |service: &Value| is(service, &["LoadBalancer"]);
    let checks_health = |service: &Value| {
        is_balanced(service) && value::text(service, &["spec", "externalTrafficPolicy"]) == "Local"
    };
    let is_reachable = |service: &Value| {
        has_node_ports(service)
            || (is(service, &["ClusterIP"]) && !list(service, &["spec", "externalIPs"]).is_empty())
    };
    let no_longer = |needs: &dyn Fn(&Value) -> bool, new: &Value| needs(old) && !needs(new);
    let mut gone: Vec<&[&str]> = Vec::new();
    if no_longer(&has_address, new) {
        gone.extend([&["clusterIP", "clusterIPs"][..], &["ipFamilies"], &["ipFamilyPolicy"]]);
    }
    if no_longer(&checks_health, new) {
        gone.push(&["healthCheckNodePort"]);
    }
    if no_longer(&is_balanced, new) {
        gone.extend([&["allocateLoadBalancerNodePorts"][..], &["loadBalancerClass"]]);
    }
    if no_longer(&is_reachable, new) {
        gone.push(&["externalTrafficPolicy"]);
    }
    let ports_of = |service: &Value| -> Vec<i64> {
        list(service, &["spec", "ports"])
            .iter()
            .map(|port| integer(port, &["nodePort"]).unwrap_or_default())
            .collect()
    };
    let drops_node_ports =
        no_longer(&has_node_ports, new) && ports_of(new).iter().all(|port| ports_of(old).contains(port));
    if !is_balanced(new) {
        set(fields(new, &["status"]), "loadBalancer", Some(json!({})));
    }
    let spec = fields(new, &["spec"]);
    for together in gone {
        if together.iter().all(|name| spec.get(*name) == old["spec"].get(*name)) {
            spec.retain(|name, _| !together.contains(&name.as_str()));
        }
    }
    if drops_node_ports {
        for port in list_mut(new, "/spec/ports") {
            fields(port, &[]).remove("nodePort");
        }
    }
}

/// A service that is a mere name has no traffic within the cluster. What is no policy at all stays, and is refused later.
fn drop_internal_traffic_of_names(service: &mut Value) {
    let is_known = matches!(value::text(service, &["spec", "internalTrafficPolicy"]), "Cluster" | "Local");
    if is_known && value::text(service, &["spec", "type"]) == "ExternalName" {
        fields(service, &["spec"]).remove("internalTrafficPolicy");
    }
}

/// A service that does not speak of its addresses keeps them.
fn keep_service_addresses(new: &mut Value, old: &Value) {
    let needs_address = |service: &Value| value::text(service, &["spec", "type"]) != "ExternalName";
    if !needs_address(new) {
        // One that is asked for all the same is refused later.
        if value::text(new, &["spec", "clusterIP"]) != value::text(old, &["spec", "clusterIP"]) {
            list_the_address(new);
        }
        return;
    }
    if !needs_address(old) {
        list_the_address(new);
    } else {
        let given = value::text(new, &["spec", "clusterIP"]).to_owned();
        let several = list(new, &["spec", "clusterIPs"]).to_vec();
        let old_one = value::text(old, &["spec", "clusterIP"]);
        let spec = fields(new, &["spec"]);
        if given.is_empty() && several.is_empty() {
            for kept in ["clusterIP", "clusterIPs"] {
                set(spec, kept, at(old, &["spec", kept]).cloned());
            }
        } else if given.is_empty() && !several.is_empty() {
            spec.insert("clusterIP".to_owned(), several[0].clone());
        } else if given != old_one || several.is_empty() {
            // A client that knows one field only changes that one; the list follows.
            let unchanged = at(old, &["spec", "clusterIPs"]).and_then(Value::as_array) == Some(&several);
            if several.is_empty() || unchanged {
                spec.insert("clusterIPs".to_owned(), json!([given]));
            }
        }
        for kept in ["ipFamilies", "ipFamilyPolicy"] {
            if spec.get(kept).is_none_or(Value::is_null) {
                set(spec, kept, at(old, &["spec", kept]).cloned());
            }
        }
    }
    keep_node_ports(new, old);
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let has_node_ports =
        |service: &Value| matches!(value::text(service, &["spec", "type"]), "NodePort" | "LoadBalancer");
    if !has_node_ports(new) || !has_node_ports(old) {
        return;
    }
    let same = |a: &Value, b: &Value| {
        a.get("port") == b.get("port") && value::text(a, &["protocol"]) == value::text(b, &["protocol"])
    };
    let old_ports = list(old, &["spec", "ports"]).to_vec();
    let taken: Vec<i64> =
        list(new, &["spec", "ports"]).iter().filter_map(|port| integer(port, &["nodePort"])).collect();
    let ports = list_mut(new, "/spec/ports");
    for port in ports.filter(|port| integer(port, &["nodePort"]).unwrap_or(0) == 0) {
        let kept = old_ports.iter().find(|old| same(old, port)).and_then(|old| integer(old, &["nodePort"]));
        if let Some(kept) = kept.filter(|kept| !taken.contains(kept)) {
            port["nodePort"] = kept.into();
        }
    }
    let health = at(old, &["spec", "healthCheckNodePort"]).cloned();
    let spec = fields(new, &["spec"]);
    if spec.get("externalTrafficPolicy").and_then(Value::as_str) == Some("Local")
        && !spec.contains_key("healthCheckNodePort")
    {
        set(spec, "healthCheckNodePort", health);
    }
}

fn service_warnings(service: &Node, warnings: &mut Warnings) {
    let (meta, spec) = (service.at("metadata"), service.at("spec"));
    let hints = meta.entry("annotations", "service.kubernetes.io/topology-aware-hints");
    let mut warn = |text: &str| warnings.0.push(text.to_owned());
    if hints.exists() {
        warn(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        );
    }
    let kind = spec.text_of("type");
    let headless = kind == "ClusterIP" && spec.text_of("clusterIP") == "None";
    let has_external_ips = spec.len_of("externalIPs") > 0;
    if headless {
        if !spec.text_of("loadBalancerIP").is_empty() {
            warn("spec.loadBalancerIP is ignored for headless services");
        }
        if has_external_ips {
            warn("spec.externalIPs is ignored for headless services");
        }
        if spec.text_of("sessionAffinity") != "None" {
            warn("spec.SessionAffinity is ignored for headless services");
        }
    }
    match kind {
        "ExternalName" if has_external_ips => {
            warn("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
        }
        "ExternalName" => {}
        _ => {
            if has_external_ips && !headless {
                warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
            }
            if !spec.text_of("externalName").is_empty() {
                warn("spec.externalName is ignored when spec.type is not \"ExternalName\"");
            }
        }
    }
    if spec.text_of("trafficDistribution") == "PreferClose" {
        warn("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}
