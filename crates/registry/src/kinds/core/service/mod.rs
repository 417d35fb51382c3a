//! Service.

mod allocation;
mod claims;
mod update;
pub(crate) mod validation;

pub(crate) use allocation::Addresses;
pub(crate) use claims::Reserved;

use self::{
    update::{
        drop_fields_of_old_type, drop_internal_traffic_of_names, fill_cluster_ips, keep_service_addresses,
    },
    validation::{
        address_change, balancer, cluster_ips, external_name, family_change, is_headless, needs_health_check,
        port_numbers, ports, session_affinity, source_ranges, traffic,
    },
};
use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    error::Error,
    kind::{Kind, NameRule, SelectableField, Subresource, UnknownField},
    rest::{Registry, Target, document_of},
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{
        self, AGE, Column, NAME, SELECTOR,
        network::load_balancer,
        row,
        words::{NONE, age_of, joined, labels, or},
    },
    validation::{
        CHANGE_THEN_OWN, Step, metadata, names,
        service::{balancer_status, is_of_type},
        warnings::Warnings,
    },
};
use async_trait::async_trait;
use keepwatch_storage as stored;
use serde_json::Value;

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
    fn reserve_dry_run(
        &self,
        registry: &Registry,
        service: &mut Value,
        current: Option<&stored::Object>,
    ) -> Result<(), Error> {
        let old = current.map(|object| document_of(&object.value, None)).unwrap_or_default();
        registry.addresses.reserve_dry_run(service, &old)
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

    /// Sets the defaults of a service, without its addresses and node ports.
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_if_zero("type", "ClusterIP");
        default_session_affinity(spec);
        for port in spec.objects_mut("ports") {
            port.set_if_zero("protocol", "TCP");
            if let Some(number) = port.get("port").cloned() {
                port.set_if_zero("targetPort", number);
            }
        }
        let ty = spec.text("type");
        let balanced = ty == "LoadBalancer";
        let in_cluster = matches!(ty, "ClusterIP" | "NodePort" | "LoadBalancer");
        let from_outside =
            matches!(ty, "NodePort" | "LoadBalancer") || (ty == "ClusterIP" && spec.is_filled("externalIPs"));
        if from_outside {
            spec.set_if_zero("externalTrafficPolicy", "Cluster");
        }
        if in_cluster {
            spec.set_default("internalTrafficPolicy", "Cluster");
        }
        if balanced {
            spec.set_default("allocateLoadBalancerNodePorts", true);
            balancer_modes(object);
        }
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        fill_cluster_ips(document);
        drop_internal_traffic_of_names(document);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        drop_fields_of_old_type(new, old);
        drop_internal_traffic_of_names(new);
        keep_service_addresses(new, old);
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_THEN_OWN
    }

    /// Validates the addresses before anything else, because they are allocated before. Returns whether there are
    /// errors.
    fn validate_first(&self, service: &Node, old: Option<&Node>, errors: &mut FieldErrors) -> bool {
        if !is_of_type(service, "ExternalName") {
            cluster_ips(service, &service.at("spec"), old, errors);
        }
        !errors.0.is_empty()
    }

    fn validate(&self, service: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let spec = service.at("spec");
        let kind = spec.text("type");
        let headless = is_headless(service);
        if spec.length("ports") == 0 && !headless && kind != "ExternalName" {
            errors.required(&spec.at("ports"), "");
        }
        match kind {
            "LoadBalancer" | "NodePort" if headless => {
                let detail = format!("may not be set to 'None' for {kind} services");
                errors.invalid(&spec.item("clusterIPs", 0), "None", &detail);
            }
            "ExternalName" => external_name(&spec, errors),
            _ => {}
        }
        ports(&spec, errors);
        metadata::labels(&spec.at("selector"), errors);
        session_affinity(&spec, errors);
        if kind != "ExternalName" {
            cluster_ips(service, &spec, old, errors);
        }
        for address in spec.items("externalIPs") {
            let kept = old.is_some_and(|old| {
                old.at("spec").items("externalIPs").any(|old| old.as_text() == address.as_text())
            });
            let wrong = if kept { Vec::new() } else { names::ip(address.as_text()) };
            if wrong.is_empty() {
                errors.invalid_each(&address, names::ordinary_ip(address.as_text()));
            }
            errors.invalid_each(&address, wrong);
        }
        errors.one_of(&spec.at("type"), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
        port_numbers(&spec, errors);
        source_ranges(service, &spec, errors);
        balancer(&spec, errors);
        traffic(&spec, errors);
    }

    /// Validates a change of a Service.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        let external = is_of_type(new, "ExternalName") || is_of_type(old, "ExternalName");
        if !external {
            address_change(new, old, errors);
            if !is_headless(new) && !is_headless(old) {
                family_change(&spec, &before, errors);
            }
        }
        if is_of_type(new, "LoadBalancer") && is_of_type(old, "LoadBalancer") {
            let class = spec.at("loadBalancerClass");
            if class.value != before.at("loadBalancerClass").value {
                errors.invalid(&class, class.value.clone(), "may not change once set");
            }
        }
        let class = spec.at("loadBalancerClass");
        if is_of_type(new, "LoadBalancer") && class.exists() {
            errors.invalid_each(&class, names::qualified(class.as_text()));
        } else if class.exists() {
            errors.forbidden(&class, "may only be used when `type` is 'LoadBalancer'");
        }
        let health = "healthCheckNodePort";
        if needs_health_check(&spec)
            && needs_health_check(&before)
            && spec.number(health) != before.number(health)
        {
            errors.forbidden(&spec.at(health), "field is immutable");
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let ingresses = new.at("status.loadBalancer.ingress");
        if !is_of_type(new, "LoadBalancer") && new.at("status.loadBalancer").length("ingress") > 0 {
            errors.forbidden(&ingresses, "may only be used when `spec.type` is 'LoadBalancer'");
            return;
        }
        balancer_status(new, errors)
    }

    fn warn(&self, object: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        service_warnings(object, warnings);
    }

    fn columns(&self) -> &[Column] {
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
            labels(service.object("spec.selector")),
        ]
    }
}

const AFFINITY_SECONDS: i64 = 10_800;

fn default_session_affinity(spec: &mut Object) {
    spec.set_if_zero("sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.object_or_new("sessionAffinityConfig");
            config.object_or_new("clientIP").set_default("timeoutSeconds", AFFINITY_SECONDS);
        }
        _ => {}
    }
}

fn balancer_modes(service: &mut Object) {
    let status = service.object_mut("status").and_then(|status| status.object_mut("loadBalancer"));
    for address in status.into_iter().flat_map(|balancer| balancer.objects_mut("ingress")) {
        if !address.text("ip").is_empty() {
            address.set_default("ipMode", "VIP");
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
    let kind = spec.text("type");
    let headless = kind == "ClusterIP" && spec.text("clusterIP") == "None";
    let has_external_ips = spec.length("externalIPs") > 0;
    if headless {
        if !spec.text("loadBalancerIP").is_empty() {
            warn("spec.loadBalancerIP is ignored for headless services");
        }
        if has_external_ips {
            warn("spec.externalIPs is ignored for headless services");
        }
        if spec.text("sessionAffinity") != "None" {
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
            if !spec.text("externalName").is_empty() {
                warn("spec.externalName is ignored when spec.type is not \"ExternalName\"");
            }
        }
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        warn("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}
