//! Pods, and the templates from which controllers make them.

use crate::document::{FieldErrors, Fields, Node};
use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    containers::{self, PodContext},
    metadata, names,
    pod_scheduling::{affinity, scheduling_gates, tolerations, topology_spread},
    pod_security::{operating_system, security},
    resources::{self, ResourceScope},
    volumes,
};

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
pub(crate) const SECONDS_MAX: i64 = i32::MAX as i64;
const NAMESERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_PATHS_BYTES_MAX: usize = 2048;
const HOSTNAME_BYTES_MAX: usize = 64;

/// Validates a pod, new or changed.
pub(crate) fn pod(pod: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let spec = pod.at("spec");
    pod_annotations(&pod.at("metadata.annotations"), &spec, errors);
    if old.is_some_and(|old| same_spec(pod, old)) {
        // The spec was validated when it was stored, with a name that cannot change. Only the changes of a binding were
        // not validated, and errors in them are no reason to reject another change.
        return;
    }
    pod_spec(&spec, Some(pod.at("metadata").text("name")), errors);
    if spec.text("serviceAccountName").is_empty() {
        no_tokens(&spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.items(list) {
            containers::image_has_no_spaces(&container, errors);
        }
    }
    if old.is_some() {
        return;
    }
    if spec.length("ephemeralContainers") > 0 {
        errors.forbidden(&spec.at("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && spec.length("schedulingGates") > 0 {
        errors.forbidden(&spec.at("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// Whether the spec of a pod is unchanged. Its generation counts the changes, and clients cannot set it; comparing the specs
/// takes longer.
pub(crate) fn same_spec(pod: &Node, old: &Node) -> bool {
    let generation = |pod: &Node| pod.at("metadata.generation").as_number();
    match generation(pod).zip(generation(old)) {
        Some((now, before)) => now == before,
        None => pod.at("spec").value == old.at("spec").value,
    }
}

/// Validates a template of pods.
pub(crate) fn template(template: &Node, errors: &mut FieldErrors) {
    metadata::labels(&template.at_as("metadata.labels", "labels"), errors);
    let annotations = template.at_as("metadata.annotations", "annotations");
    metadata::annotations(&annotations, errors);
    pod_annotations(&annotations, &template.at("spec"), errors);
    pod_spec(&template.at("spec"), None, errors);
    if template.at("spec").length("ephemeralContainers") > 0 {
        let at = template.at("spec.ephemeralContainers");
        errors.forbidden(&at, "ephemeral containers not allowed in pod template");
    }
}

fn no_tokens(spec: &Node, errors: &mut FieldErrors) {
    for volume in spec.items("volumes") {
        for source in
            volume.at("projected").items("sources").filter(|source| source.has("serviceAccountToken"))
        {
            let detail = "must not be specified when serviceAccountName is not set";
            errors.forbidden(&source.at("serviceAccountToken"), detail);
        }
    }
}

pub(super) fn all_containers<'d, 'q>(spec: &'q Node<'d, '_>) -> impl Iterator<Item = Node<'d, 'q>> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| spec.items(list))
}

fn pod_annotations(annotations: &Node, spec: &Node, errors: &mut FieldErrors) {
    for (key, annotation) in annotations.own_entries() {
        let value = annotation.as_text();
        match key {
            MIRROR if spec.text("nodeName").is_empty() => {
                let detail = "must set spec.nodeName if mirror pod annotation is set";
                errors.invalid(&annotation, value, detail);
            }
            DELETION_COST if !is_deletion_cost(value) => {
                errors.invalid(&annotation, value, "must be a 32bit integer");
            }
            _ => {}
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if !all_containers(spec).any(|container| container.text("name") == name) {
                errors.invalid(&annotation, name, "container not found");
            }
            let known =
                ["", "runtime/default", "unconfined"].contains(&value) || value.starts_with("localhost/");
            if !known {
                errors.invalid(&annotation, value, &format!("invalid AppArmor profile name: \"{value}\""));
            }
        }
    }
}

/// A number as `strconv.Atoi` parses it, except that a sign or leading zeros are rejected.
fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" || !digits.starts_with('0');
    plain && !text.starts_with('+') && text.parse::<i32>().is_ok()
}

/// Validates the spec of a pod. Outside a template the pod has a name.
fn pod_spec(spec: &Node, name: Option<&str>, errors: &mut FieldErrors) {
    let grace = spec.at("terminationGracePeriodSeconds");
    if !grace.exists() {
        errors.required(&grace, "");
    }
    let pod_context = PodContext {
        volumes: volumes::of_pod(spec, name, errors),
        claims: spec.items("resourceClaims").map(|claim| claim.text("name")).collect(),
        grace: grace.as_number(),
        restart: spec.text("restartPolicy"),
        host_users: spec.at("hostUsers").value != &Value::Bool(false),
    };
    resource_claims(spec, errors);
    containers::regular(spec, &pod_context, errors);
    containers::init(spec, &pod_context, errors);
    containers::ephemeral(spec, &pod_context, errors);
    pod_resources(spec, &pod_context.claims, errors);
    host_network_ports(spec, name.is_some(), errors);
    errors.one_of(&spec.at("restartPolicy"), &["Always", "OnFailure", "Never"]);
    errors.one_of(&spec.at("dnsPolicy"), &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    metadata::labels(&spec.at("nodeSelector"), errors);
    security(spec, errors);
    affinity(&spec.at("affinity"), errors);
    dns(spec, errors);
    for gate in spec.items("readinessGates") {
        let condition = gate.at("conditionType");
        errors.invalid_each(&condition, names::qualified(condition.as_text()));
    }
    scheduling_gates(spec, errors);
    topology_spread(spec, errors);
    if !pod_context.host_users {
        for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
        {
            if spec.flag(name) {
                errors.forbidden(&spec.at(shown), "when `pod.Spec.HostUsers` is false");
            }
        }
    }
    super::windows::host_processes(spec, errors);
    rest_of_spec(spec, errors);
    files_of_variables(spec, errors);
}

/// Variables can be read from files in volumes that the pod's containers fill.
fn files_of_variables(spec: &Node, errors: &mut FieldErrors) {
    for container in all_containers(spec) {
        for variable in container.items("env") {
            if !variable.has("valueFrom") || !variable.at("valueFrom").has("fileKeyRef") {
                continue;
            }
            let volume = variable.at("valueFrom.fileKeyRef.volumeName");
            match spec.items("volumes").filter(|other| other.text("name") == volume.as_text()).last() {
                None => errors.not_found(&volume, volume.as_text()),
                Some(found) if !found.has("emptyDir") => {
                    errors.invalid(&volume, volume.as_text(), "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}

fn rest_of_spec(spec: &Node, errors: &mut FieldErrors) {
    errors.valid_if_set(&spec.at("serviceAccountName"), names::subdomain);
    errors.valid_if_set(&spec.at("nodeName"), names::subdomain);
    errors.in_range(&spec.at("activeDeadlineSeconds"), 1, SECONDS_MAX);
    errors.valid_if_set(&spec.at("hostname"), names::label);
    errors.valid_if_set(&spec.at("subdomain"), names::label);
    hostname_override(spec, errors);
    tolerations(spec, errors);
    for alias in spec.items("hostAliases") {
        let ip = alias.at("ip");
        errors.invalid_each(&ip, names::ip(ip.as_text()));
        for hostname in alias.items("hostnames") {
            errors.invalid_each(&hostname, names::subdomain(hostname.as_text()));
        }
    }
    errors.valid_if_set(&spec.at("priorityClassName"), names::subdomain);
    if spec.has("runtimeClassName") {
        let class = spec.at("runtimeClassName");
        errors.invalid_each(&class, names::subdomain(class.as_text()));
    }
    preemption_policy(&spec.at("preemptionPolicy"), errors);
    let overhead = spec.at("overhead");
    for (name, amount) in spec.entries("overhead").map(|(name, _)| (name, overhead.entry("limits", name))) {
        resources::container_resource_name(name, &amount, errors);
        resources::amount_as(name, &spec.entry("overhead", name), &amount, errors);
    }
    operating_system(spec, errors);
}

/// Validates `hostnameOverride`, which excludes other fields that determine the host's name.
fn hostname_override(spec: &Node, errors: &mut FieldErrors) {
    let hostname = spec.at("hostnameOverride");
    if !hostname.exists() {
        return;
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(other) {
            errors.forbidden(&hostname, &format!("may not be specified when {other} is true"));
        }
    }
    if hostname.as_text().len() > HOSTNAME_BYTES_MAX {
        errors.too_long(&hostname, HOSTNAME_BYTES_MAX);
    }
    errors.invalid_each(&hostname, names::subdomain(hostname.as_text()));
}

/// Validates the preemption policy of a pod.
pub(crate) fn preemption_policy(policy: &Node, errors: &mut FieldErrors) {
    if policy.exists() {
        errors.one_of(policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn resource_claims(spec: &Node, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for claim in spec.items("resourceClaims") {
        let name = claim.at("name");
        if name.as_text().is_empty() {
            errors.required(&name, "");
        } else if taken.insert(name.as_text()) {
            errors.invalid_each(&name, names::label(name.as_text()));
        } else {
            errors.duplicate(&name, name.as_text());
        }
        let whole = claim.value;
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => errors.invalid(
                &claim,
                whole.clone(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => errors.invalid(
                &claim,
                whole.clone(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim.has(field) {
                errors.invalid_each(&claim.at(field), names::subdomain(claim.text(field)));
            }
        }
    }
}

fn pod_resources(spec: &Node, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let whole = spec.at("resources");
    if !whole.exists() {
        return;
    }
    if spec.at("os").text("name") == "windows" {
        return errors.forbidden(&whole, "may not be set for a windows pod");
    }
    if whole.has("claims") {
        errors.forbidden(&whole.at("claims"), "claims may not be set for Resources at pod-level");
    }
    resources::requirements(&whole, ResourceScope::Pod, claims, errors);
    for container in spec.items("containers") {
        let given = container.at("resources");
        for (name, limit) in given.entries("limits") {
            let allowed = whole.entry("limits", name);
            if let (Some(asked), Some(most)) = (resources::quantity(&limit), resources::quantity(&allowed))
                && asked > most
            {
                let detail = format!("must be less than or equal to pod limits of {}", allowed.as_text());
                errors.invalid(&limit, limit.as_text(), &detail);
            }
        }
    }
}

fn host_network_ports(spec: &Node, in_pod: bool, errors: &mut FieldErrors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for container in spec.items("containers") {
        for port in container.items("ports") {
            let host = port.number("hostPort");
            if (in_pod || host != 0) && host != port.number("containerPort") {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&port.at("hostPort"), host, detail);
            }
        }
    }
}

fn dns(spec: &Node, errors: &mut FieldErrors) {
    let config = spec.at("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        if !config.exists() {
            errors.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if config.length("nameservers") == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&config.at("nameservers"), detail);
            return;
        }
    }
    let (servers, searches) = (config.at("nameservers"), config.at("searches"));
    if config.length("nameservers") > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(&servers, servers.value.clone(), &detail);
    }
    for server in config.items("nameservers") {
        errors.invalid_each(&server, names::ip(server.as_text()));
    }
    if config.length("searches") > SEARCH_PATHS_MAX {
        let detail = format!("must not have more than {SEARCH_PATHS_MAX} search paths");
        errors.invalid(&searches, searches.value.clone(), &detail);
    }
    let bytes: usize = config.items("searches").map(|search| search.as_text().len() + 1).sum();
    if bytes.saturating_sub(1) > SEARCH_PATHS_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCH_PATHS_BYTES_MAX} characters (including spaces) in the search list"
        );
        errors.invalid(&searches, searches.value.clone(), &detail);
    }
    for search in config.items("searches").filter(|search| search.as_text() != ".") {
        let text = search.as_text().strip_suffix('.').unwrap_or(search.as_text());
        for error in names::underscored_subdomain(text) {
            errors.invalid(&search, text, &error);
        }
    }
    for option in config.items("options").filter(|option| option.text("name").is_empty()) {
        errors.required(&option, "must not be empty");
    }
}
