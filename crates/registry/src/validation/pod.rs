//! Pods, and the templates from which controllers make them.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::{
    containers::{self, Around},
    document::{Faults, Node},
    metadata, names,
    resources::{self, Asker},
    selectors, volumes,
};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECONDS_MAX: i64 = i32::MAX as i64;
const NAMESERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_PATHS_BYTES_MAX: usize = 2048;
const HOSTNAME_BYTES_MAX: usize = 64;
const CANNOT_BE_WINDOWS: &str = "cannot be set for a windows pod";

/// A pod, new or changed.
pub(super) fn pod(pod: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = pod.at("spec");
    pod_annotations(&pod.at("metadata.annotations"), &spec, faults);
    if old.is_some_and(|old| same_spec(pod, old)) {
        // It was looked at when it was stored, with a name that cannot change. Only what a binding has made of it was
        // not, and that is no fault of who changes something else.
        return;
    }
    pod_spec(&spec, Some(pod.at("metadata").text_of("name")), Vec::new(), faults);
    if spec.text_of("serviceAccountName").is_empty() {
        no_tokens(&spec, faults);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.items(list) {
            containers::image_has_no_spaces(&container, faults);
        }
    }
    if old.is_some() {
        return;
    }
    if spec.len_of("ephemeralContainers") > 0 {
        faults.forbidden(&spec.at("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text_of("nodeName").is_empty() && spec.len_of("schedulingGates") > 0 {
        faults.forbidden(&spec.at("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// Whether a pod is to be what it was. Its generation tells, which counts the changes of that and which clients cannot
/// set; looking through all of it takes longer.
fn same_spec(pod: &Node, old: &Node) -> bool {
    let generation = |pod: &Node| pod.at("metadata.generation").number();
    match generation(pod).zip(generation(old)) {
        Some((now, before)) => now == before,
        None => pod.at("spec").value == old.at("spec").value,
    }
}

/// A template of pods.
pub(super) fn template(template: &Node, faults: &mut Faults) {
    template_with(template, Vec::new(), faults);
}

/// A template of pods that are given volumes of these names.
pub(super) fn template_with(template: &Node, claims: Vec<&str>, faults: &mut Faults) {
    metadata::labels(&template.at_as("metadata.labels", "labels"), faults);
    let annotations = template.at_as("metadata.annotations", "annotations");
    metadata::annotations(&annotations, faults);
    pod_annotations(&annotations, &template.at("spec"), faults);
    pod_spec(&template.at("spec"), None, claims, faults);
    if template.at("spec").len_of("ephemeralContainers") > 0 {
        let at = template.at("spec.ephemeralContainers");
        faults.forbidden(&at, "ephemeral containers not allowed in pod template");
    }
}

fn no_tokens(spec: &Node, faults: &mut Faults) {
    for volume in spec.items("volumes") {
        for source in
            volume.at("projected").items("sources").filter(|source| source.has("serviceAccountToken"))
        {
            let detail = "must not be specified when serviceAccountName is not set";
            faults.forbidden(&source.at("serviceAccountToken"), detail);
        }
    }
}

fn all_containers<'d, 'q>(spec: &'q Node<'d, '_>) -> impl Iterator<Item = Node<'d, 'q>> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| spec.items(list))
}

fn pod_annotations(annotations: &Node, spec: &Node, faults: &mut Faults) {
    for (key, annotation) in annotations.own_entries() {
        let value = annotation.text();
        match key {
            MIRROR if spec.text_of("nodeName").is_empty() => {
                let detail = "must set spec.nodeName if mirror pod annotation is set";
                faults.invalid(&annotation, value, detail);
            }
            DELETION_COST if !is_deletion_cost(value) => {
                faults.invalid(&annotation, value, "must be a 32bit integer");
            }
            _ => {}
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if !all_containers(spec).any(|container| container.text_of("name") == name) {
                faults.invalid(&annotation, name, "container not found");
            }
            let known =
                ["", "runtime/default", "unconfined"].contains(&value) || value.starts_with("localhost/");
            if !known {
                faults.invalid(&annotation, value, &format!("invalid AppArmor profile name: \"{value}\""));
            }
        }
    }
}

/// A number as `strconv.Atoi` reads it, except that a sign or zeros in front are not taken.
fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" || !digits.starts_with('0');
    plain && !text.starts_with('+') && text.parse::<i32>().is_ok()
}

/// What a pod is to be. Outside a template it has a name.
fn pod_spec(spec: &Node, name: Option<&str>, claims: Vec<&str>, faults: &mut Faults) {
    let grace = spec.at("terminationGracePeriodSeconds");
    if !grace.exists() {
        faults.required(&grace, "");
    }
    let mut volumes = volumes::of_pod(spec, name, faults);
    volumes.extend(claims.into_iter().map(|name| (name, true)));
    let around = Around {
        volumes,
        claims: spec.items("resourceClaims").map(|claim| claim.text_of("name")).collect(),
        grace: grace.number(),
        restart: spec.text_of("restartPolicy"),
        host_users: spec.at("hostUsers").value != &Value::Bool(false),
    };
    resource_claims(spec, faults);
    containers::regular(spec, &around, faults);
    containers::init(spec, &around, faults);
    containers::ephemeral(spec, &around, faults);
    pod_resources(spec, &around.claims, faults);
    host_network_ports(spec, name.is_some(), faults);
    faults.one_of(&spec.at("restartPolicy"), &["Always", "OnFailure", "Never"]);
    faults.one_of(&spec.at("dnsPolicy"), &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    metadata::labels(&spec.at("nodeSelector"), faults);
    security(spec, faults);
    affinity(&spec.at("affinity"), faults);
    dns(spec, faults);
    for gate in spec.items("readinessGates") {
        let condition = gate.at("conditionType");
        faults.texts(&condition, names::qualified(condition.text()));
    }
    scheduling_gates(spec, faults);
    topology_spread(spec, faults);
    if !around.host_users {
        for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
        {
            if spec.flag(name) {
                faults.forbidden(&spec.at(shown), "when `pod.Spec.HostUsers` is false");
            }
        }
    }
    rest_of_spec(spec, faults);
}

fn rest_of_spec(spec: &Node, faults: &mut Faults) {
    faults.if_given(&spec.at("serviceAccountName"), names::subdomain);
    faults.if_given(&spec.at("nodeName"), names::subdomain);
    faults.in_range(&spec.at("activeDeadlineSeconds"), 1, SECONDS_MAX);
    faults.if_given(&spec.at("hostname"), names::label);
    faults.if_given(&spec.at("subdomain"), names::label);
    let hostname = spec.at("hostnameOverride");
    faults.if_given(&hostname, names::subdomain);
    if hostname.text().len() > HOSTNAME_BYTES_MAX {
        faults.too_long(&hostname, HOSTNAME_BYTES_MAX);
    }
    tolerations(spec, faults);
    for alias in spec.items("hostAliases") {
        let ip = alias.at("ip");
        faults.texts(&ip, names::ip(ip.text()));
        for hostname in alias.items("hostnames") {
            faults.texts(&hostname, names::subdomain(hostname.text()));
        }
    }
    faults.if_given(&spec.at("priorityClassName"), names::subdomain);
    if spec.has("runtimeClassName") {
        let class = spec.at("runtimeClassName");
        faults.texts(&class, names::subdomain(class.text()));
    }
    preemption_policy(&spec.at("preemptionPolicy"), faults);
    let overhead = spec.at("overhead");
    for (name, amount) in spec.entries("overhead").map(|(name, _)| (name, overhead.entry("limits", name))) {
        resources::container_resource_name(name, &amount, faults);
        resources::amount(name, &spec.entry("overhead", name), faults);
    }
    operating_system(spec, faults);
}

/// Whether a pod may push others out.
pub(super) fn preemption_policy(policy: &Node, faults: &mut Faults) {
    if policy.exists() {
        faults.one_of(policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn resource_claims(spec: &Node, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for claim in spec.items("resourceClaims") {
        let name = claim.at("name");
        if name.text().is_empty() {
            faults.required(&name, "");
        } else if taken.insert(name.text()) {
            faults.texts(&name, names::label(name.text()));
        } else {
            faults.duplicate(&name, name.text());
        }
        let whole = claim.value;
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => faults.invalid(
                &claim,
                whole.clone(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => faults.invalid(
                &claim,
                whole.clone(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim.has(field) {
                faults.texts(&claim.at(field), names::subdomain(claim.text_of(field)));
            }
        }
    }
}

fn pod_resources(spec: &Node, claims: &BTreeSet<&str>, faults: &mut Faults) {
    let whole = spec.at("resources");
    if !whole.exists() {
        return;
    }
    if whole.has("claims") {
        faults.forbidden(&whole.at("claims"), "claims cannot be set for Resources at pod-level");
    }
    resources::requirements(&whole, Asker::Pod, claims, faults);
    for container in spec.items("containers") {
        let given = container.at("resources");
        for (name, limit) in given.entries("limits") {
            let allowed = whole.entry("limits", name);
            if let (Some(asked), Some(most)) = (resources::quantity(&limit), resources::quantity(&allowed))
                && asked > most
            {
                let detail = format!("must be less than or equal to pod limits of {}", allowed.text());
                faults.invalid(&limit, limit.text(), &detail);
            }
        }
    }
}

fn host_network_ports(spec: &Node, in_pod: bool, faults: &mut Faults) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for container in spec.items("containers") {
        for port in container.items("ports") {
            let host = port.number_of("hostPort");
            if (in_pod || host != 0) && host != port.number_of("containerPort") {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                faults.invalid(&port.at("hostPort"), host, detail);
            }
        }
    }
}

fn security(spec: &Node, faults: &mut Faults) {
    let context = spec.at("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        faults.in_range(&context.at(name), 0, i64::from(i32::MAX));
    }
    for group in context.items("supplementalGroups") {
        faults.in_range(&group, 0, i64::from(i32::MAX));
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        faults.invalid(&context.at("shareProcessNamespace"), true, detail);
    }
    sysctls(spec, &context, faults);
    faults.if_given_one_of(&context.at("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp(&context.at("seccompProfile"), faults);
    app_armor(&context.at("appArmorProfile"), faults);
    faults.if_given_one_of(&context.at("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    faults.if_given_one_of(&context.at("seLinuxChangePolicy"), &["MountOption", "Recursive"]);
}

fn is_sysctl(name: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(plain)
                && bytes.last().is_some_and(plain)
                && bytes.iter().all(|b| plain(b) || matches!(b, b'-' | b'_'))
        })
}

fn sysctls(spec: &Node, context: &Node, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.at("name");
        let text = name.text();
        if text.is_empty() {
            faults.required(&name, "");
        } else if !is_sysctl(text) {
            let detail = "must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            faults.invalid(&name, text, detail);
        } else if !taken.insert(text) {
            faults.duplicate(&name, text);
        }
        if spec.flag("hostNetwork") && text.starts_with("net.") {
            faults.invalid(&name, text, "may not be specified when 'hostNetwork' is true");
        } else if spec.flag("hostIPC")
            && (text.starts_with("kernel.shm")
                || text.starts_with("kernel.msg")
                || text == "kernel.sem"
                || text.starts_with("fs.mqueue."))
        {
            faults.invalid(&name, text, "may not be specified when 'hostIPC' is true");
        }
    }
}

/// Which system calls there are.
pub(super) fn seccomp(profile: &Node, faults: &mut Faults) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    match kind.text() {
        "" => faults.required(&kind, "type is required when seccompProfile is set"),
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        other => faults.not_supported(&kind, other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    match (kind.text() == "Localhost", local.exists()) {
        (true, false) => faults.required(&local, "must be set when seccomp type is Localhost"),
        (true, true) => volumes::relative_path(&local, faults),
        (false, true) => {
            faults.invalid(&local, profile.value.clone(), "can only be set when seccomp type is Localhost");
        }
        (false, false) => {}
    }
}

/// What AppArmor lets a container do.
pub(super) fn app_armor(profile: &Node, faults: &mut Faults) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    match kind.text() {
        "Localhost" if local.text().trim().len() != local.text().len() => {
            faults.invalid(&local, local.text(), "must not be padded with whitespace");
        }
        "Localhost" if local.text().is_empty() => {
            faults.required(&local, "must be set when AppArmor type is Localhost");
        }
        "Localhost" if local.text().len() > 4095 => faults.too_long(&local, 4095),
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" if local.exists() => {
            faults.invalid(&local, local.text(), "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => faults.required(&kind, "type is required when appArmorProfile is set"),
        other => faults.not_supported(&kind, other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

fn affinity(affinity: &Node, faults: &mut Faults) {
    let node = affinity.at("nodeAffinity");
    let required = node.at("requiredDuringSchedulingIgnoredDuringExecution");
    if required.exists() {
        selectors::node_selector(&required, faults);
    }
    for term in node.items("preferredDuringSchedulingIgnoredDuringExecution") {
        weight(&term, faults);
        selectors::node_selector_term(&term.at("preference"), false, faults);
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let side = affinity.at(side);
        for term in side.items("requiredDuringSchedulingIgnoredDuringExecution") {
            affinity_term(&term, faults);
        }
        for term in side.items("preferredDuringSchedulingIgnoredDuringExecution") {
            weight(&term, faults);
            affinity_term(&term.at("podAffinityTerm"), faults);
        }
    }
}

fn weight(term: &Node, faults: &mut Faults) {
    let weight = term.number_of("weight");
    if !(1..=100).contains(&weight) {
        faults.invalid(&term.at("weight"), weight, "must be in the range 1-100");
    }
}

fn affinity_term(term: &Node, faults: &mut Faults) {
    selectors::label_selector(&term.at("labelSelector"), faults);
    selectors::label_selector(&term.at("namespaceSelector"), faults);
    for namespace in term.items("namespaces") {
        for fault in names::label(namespace.text()) {
            faults.invalid(&term.at("namespace"), namespace.text(), &fault);
        }
    }
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.len_of(list) > 0 && !term.has("labelSelector") {
            faults.forbidden(&term.at(list), "must not be specified when labelSelector is not set");
            continue;
        }
        for key in term.items(list) {
            faults.texts(&key, names::qualified(key.text()));
        }
    }
    let mismatched: HashSet<&str> = term.items("mismatchLabelKeys").map(|key| key.text()).collect();
    for key in term.items("matchLabelKeys") {
        if mismatched.contains(key.text()) {
            faults.invalid(&key, key.text(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    let topology = term.at("topologyKey");
    if topology.text().is_empty() {
        faults.required(&topology, "can not be empty");
    }
    faults.texts(&topology, names::qualified(topology.text()));
}

fn dns(spec: &Node, faults: &mut Faults) {
    let config = spec.at("dnsConfig");
    if spec.text_of("dnsPolicy") == "None" {
        if !config.exists() {
            faults.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if config.len_of("nameservers") == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            faults.required(&config.at("nameservers"), detail);
            return;
        }
    }
    let (servers, searches) = (config.at("nameservers"), config.at("searches"));
    if config.len_of("nameservers") > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        faults.invalid(&servers, servers.value.clone(), &detail);
    }
    for server in config.items("nameservers") {
        faults.texts(&server, names::ip(server.text()));
    }
    if config.len_of("searches") > SEARCH_PATHS_MAX {
        let detail = format!("must not have more than {SEARCH_PATHS_MAX} search paths");
        faults.invalid(&searches, searches.value.clone(), &detail);
    }
    let bytes: usize = config.items("searches").map(|search| search.text().len() + 1).sum();
    if bytes.saturating_sub(1) > SEARCH_PATHS_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCH_PATHS_BYTES_MAX} characters (including spaces) in the search list"
        );
        faults.invalid(&searches, searches.value.clone(), &detail);
    }
    for search in config.items("searches").filter(|search| search.text() != ".") {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        for fault in names::underscored_subdomain(text) {
            faults.invalid(&search, text, &fault);
        }
    }
    for option in config.items("options").filter(|option| option.text_of("name").is_empty()) {
        faults.required(&option, "must not be empty");
    }
}

fn scheduling_gates(spec: &Node, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.text_of("name");
        for fault in names::qualified(name) {
            faults.invalid(&gate, name, &fault);
        }
        if !taken.insert(name) {
            faults.duplicate(&gate, name);
        }
    }
}

/// What no two constraints may have in common.
fn topology_pair<'d>(constraint: &Node<'d, '_>) -> (&'d str, &'d str) {
    (constraint.text_of("topologyKey"), constraint.text_of("whenUnsatisfiable"))
}

fn topology_spread(spec: &Node, faults: &mut Faults) {
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in spec.items("topologySpreadConstraints") {
        *left.entry(topology_pair(&constraint)).or_default() += 1;
    }
    for constraint in spec.items("topologySpreadConstraints") {
        let skew = constraint.number_of("maxSkew");
        if skew <= 0 {
            faults.invalid(&constraint.at("maxSkew"), skew, "must be greater than zero");
        }
        if constraint.text_of("topologyKey").is_empty() {
            faults.required(&constraint.at("topologyKey"), "can not be empty");
        }
        let action = constraint.at("whenUnsatisfiable");
        if !matches!(action.text(), "DoNotSchedule" | "ScheduleAnyway") {
            faults.not_supported(&action, action.text(), &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let own = topology_pair(&constraint);
        let left = left.entry(own).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let shown = format!("{{{}, {}}}", own.0, own.1);
            faults.duplicate(&constraint.at("{topologyKey, whenUnsatisfiable}"), &shown);
        }
        min_domains(&constraint, faults);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            faults.if_given_one_of(&constraint.at(policy), &["Honor", "Ignore"]);
        }
        if constraint.len_of("matchLabelKeys") > 0 && !constraint.has("labelSelector") {
            let detail = "must not be specified when labelSelector is not set";
            faults.forbidden(&constraint.at("matchLabelKeys"), detail);
        }
        for key in constraint.items("matchLabelKeys") {
            faults.texts(&key, names::qualified(key.text()));
        }
        selectors::label_selector(&constraint.at("labelSelector"), faults);
    }
}

fn min_domains(constraint: &Node, faults: &mut Faults) {
    let domains = constraint.at("minDomains");
    let Some(number) = domains.number() else { return };
    if number <= 0 {
        faults.invalid(&domains, number, "must be greater than zero");
    }
    let action = constraint.text_of("whenUnsatisfiable");
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        faults.invalid(&domains, number, &detail);
    }
}

fn tolerations(spec: &Node, faults: &mut Faults) {
    for toleration in spec.items("tolerations") {
        let (key, operator, effect) =
            (toleration.at("key"), toleration.at("operator"), toleration.at("effect"));
        let value = toleration.text_of("value");
        faults.if_given(&key, names::qualified);
        if key.text().is_empty() && operator.text() != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.invalid(&operator, operator.text(), detail);
        }
        if toleration.has("tolerationSeconds") && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.invalid(&effect, effect.text(), detail);
        }
        match operator.text() {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    faults.invalid(&operator, value, &wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                faults.invalid(&operator, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            other => faults.not_supported(&operator, other, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            taint_effect(&effect, faults);
        }
    }
}

/// What a taint does to those who do not tolerate it.
pub(super) fn taint_effect(effect: &Node, faults: &mut Faults) {
    faults.one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

fn operating_system(spec: &Node, faults: &mut Faults) {
    let os = spec.at("os");
    if !os.exists() {
        return;
    }
    match os.text_of("name") {
        "" => faults.required(&os.at("name"), "cannot be empty"),
        "linux" => only_linux(spec, faults),
        "windows" => only_windows(spec, faults),
        other => faults.not_supported(&os, other, &["linux", "windows"]),
    }
}

fn only_linux(spec: &Node, faults: &mut Faults) {
    let detail = "windows options cannot be set for a linux pod";
    if spec.at("securityContext").has("windowsOptions") {
        faults.forbidden(&spec.at("securityContext.windowsOptions"), detail);
    }
    for container in all_containers(spec) {
        if container.at("securityContext").has("windowsOptions") {
            faults.forbidden(&container.at("securityContext.windowsOptions"), detail);
        }
    }
}

fn only_windows(spec: &Node, faults: &mut Faults) {
    let context = spec.at("securityContext");
    let of_pod = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    for name in of_pod.into_iter().filter(|name| context.has(name)) {
        faults.forbidden(&context.at(name), CANNOT_BE_WINDOWS);
    }
    for name in ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"] {
        if spec.has(name) {
            faults.forbidden(&spec.at(name), CANNOT_BE_WINDOWS);
        }
    }
    let of_container = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    for container in all_containers(spec) {
        let context = container.at("securityContext");
        for name in of_container.into_iter().filter(|name| context.has(name)) {
            faults.forbidden(&context.at(name), CANNOT_BE_WINDOWS);
        }
    }
}

const CHANGEABLE: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
     additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
     previously negative)";

/// What may change in a pod.
pub(super) fn pod_change(pod: &Node, old: &Node, faults: &mut Faults) {
    annotation_changes(pod, old, faults);
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    if same_spec(pod, old) {
        return;
    }
    for list in ["containers", "initContainers"] {
        if spec.len_of(list) != before.len_of(list) {
            faults.forbidden(&spec.at(list), "pod updates may not add or remove containers");
            return;
        }
        for container in spec.items(list) {
            faults.given(&container.at("image"));
            containers::image_has_no_spaces(&container, faults);
        }
    }
    if !deadline_change(&spec, &before, faults) {
        return;
    }
    toleration_changes(&spec, &before, faults);
    gate_changes(&spec, &before, faults);
    let gated = before.len_of("schedulingGates") > 0;
    if gated {
        gated_changes(&spec, &before, faults);
    }
    if !rest_is_same(&spec, &before, gated) {
        faults.forbidden(&spec, CHANGEABLE);
    }
}

/// Whether a pod only shows one that its node runs by itself.
pub(super) fn is_mirror(pod: &Node) -> bool {
    pod.at("metadata.annotations").has(MIRROR)
}

/// What may change among the containers that were added to a running pod: more may come, in any order.
pub(super) fn ephemeral_change(pod: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    for was in before.items("ephemeralContainers") {
        let name = was.text_of("name");
        let now = spec.items("ephemeralContainers").filter(|now| now.text_of("name") == name).last();
        let done = match now {
            None => "removed\n",
            Some(now) if now.value != was.value => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers \"{name}\" may not be {done}");
        faults.forbidden(&spec.at("ephemeralContainers"), &detail);
    }
}

fn annotation_changes(pod: &Node, old: &Node, faults: &mut Faults) {
    let (annotations, before) = (pod.at("metadata.annotations"), old.at("metadata.annotations"));
    let guarded = |key: &str| -> Option<&str> {
        if key.starts_with(APP_ARMOR) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in before.own_entries() {
        let is_same = annotations.value.get(key) == Some(value.value);
        if let Some(what) = guarded(key).filter(|_| !is_same) {
            faults.forbidden(&value, &format!("may not remove or update {what}"));
        }
    }
    for (key, value) in annotations.own_entries().filter(|(key, _)| before.value.get(*key).is_none()) {
        if let Some(what) = guarded(key) {
            faults.forbidden(&value, &format!("may not add {what}"));
        }
    }
}

/// Whether a change of the deadline leaves more to be looked at.
fn deadline_change(spec: &Node, before: &Node, faults: &mut Faults) -> bool {
    let deadline = spec.at("activeDeadlineSeconds");
    match (deadline.number(), before.at("activeDeadlineSeconds").number()) {
        (Some(now), _) if !(0..=SECONDS_MAX).contains(&now) => {
            faults.invalid(&deadline, now, &format!("must be between 0 and {SECONDS_MAX}, inclusive"));
            false
        }
        (Some(now), Some(was)) if was < now => {
            faults.invalid(&deadline, now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            faults.invalid(&deadline, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

/// Whether two values are the same but for these fields; what is null is not there.
pub(super) fn same_but(a: &Value, b: &Value, except: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let mut keys = a.keys().chain(b.keys()).filter(|key| !except.contains(&key.as_str()));
    keys.all(|key| a.get(key).filter(|value| !value.is_null()) == b.get(key).filter(|value| !value.is_null()))
}

fn toleration_changes(spec: &Node, before: &Node, faults: &mut Faults) {
    let kept = |old: Node| {
        spec.items("tolerations").any(|new| same_but(new.value, old.value, &["tolerationSeconds"]))
    };
    if !before.items("tolerations").all(kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden(&spec.at("tolerations"), detail);
        return;
    }
    tolerations(spec, faults);
}

fn gate_changes(spec: &Node, before: &Node, faults: &mut Faults) {
    for gate in spec.items("schedulingGates") {
        let name = gate.text_of("name");
        if !before.items("schedulingGates").any(|old| old.text_of("name") == name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.forbidden(&gate.at("name"), &detail);
        }
    }
}

/// Before a pod can be scheduled, the choice of its node may be narrowed.
fn gated_changes(spec: &Node, before: &Node, faults: &mut Faults) {
    let selector = spec.at("nodeSelector");
    if !before.entries("nodeSelector").all(|(key, value)| selector.value.get(key) == Some(value.value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.invalid(&selector, selector.value.clone(), detail);
    }
    let (required, was) = (
        spec.at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        before.at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
    );
    let count = was.len_of("nodeSelectorTerms");
    let terms = required.at("nodeSelectorTerms");
    if count > 0 && count != required.len_of("nodeSelectorTerms") {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        faults.invalid(&terms, terms.value.clone(), detail);
        return;
    }
    for (new, old) in required.items("nodeSelectorTerms").zip(was.items("nodeSelectorTerms")) {
        if !only_adds(&new, &old) {
            faults.invalid(&new, new.value.clone(), "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn only_adds(new: &Node, old: &Node) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Node| lists.iter().all(|list| term.len_of(list) == 0);
    if is_empty(old) {
        return is_empty(new);
    }
    lists.iter().all(|list| {
        new.len_of(list) >= old.len_of(list)
            && new.items(list).zip(old.items(list)).all(|(new, old)| new.value == old.value)
    })
}

fn rest_is_same(spec: &Node, before: &Node, gated: bool) -> bool {
    let grace = |spec: &Node| spec.number_of("terminationGracePeriodSeconds");
    let mut except =
        vec!["containers", "initContainers", "activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if grace(before) < 0 && grace(spec) == 1 {
        except.push("terminationGracePeriodSeconds");
    }
    if gated {
        except.extend(["nodeSelector", "affinity"]);
        let (affinity, was) = (spec.at("affinity"), before.at("affinity"));
        let sides = ["podAffinity", "podAntiAffinity"];
        if !sides.iter().all(|side| affinity.at(side).value == was.at(side).value) {
            return false;
        }
    }
    let same_containers = |list: &str| {
        spec.items(list).zip(before.items(list)).all(|(new, old)| same_but(new.value, old.value, &["image"]))
    };
    same_but(spec.value, before.value, &except)
        && same_containers("containers")
        && same_containers("initContainers")
}

/// What may change in a pod's status.
pub(super) fn pod_status(pod: &Node, old: &Node, faults: &mut Faults) {
    annotation_changes(pod, old, faults);
    let (status, before) = (pod.at("status"), old.at("status"));
    for condition in status.items("conditions") {
        let kind = condition.at_as("type", "Type");
        faults.texts(&kind, names::qualified(kind.text()));
    }
    if pod.at("spec").text_of("nodeName") != old.at("spec").text_of("nodeName") {
        faults.forbidden(&status.at("nodeName"), "may not be changed directly");
    }
    let nominated = status.at("nominatedNodeName");
    if nominated.text() != before.text_of("nominatedNodeName") {
        faults.if_given(&nominated, names::subdomain);
    }
    faults.unchanged(&status.at("qosClass"), &before.at("qosClass"));
    let restart = old.at("spec").text_of("restartPolicy");
    no_resurrection(&status, &before, "containerStatuses", restart, faults);
    let spec = old.at("spec");
    if !spec.items("initContainers").any(|container| container.text_of("restartPolicy") == "Always") {
        no_resurrection(&status, &before, "initContainerStatuses", restart, faults);
    }
    no_resurrection(&status, &before, "ephemeralContainerStatuses", "Never", faults);
    addresses(&status, "podIPs", faults);
    if status.len_of("hostIPs") > 0 {
        let first = status.item("hostIPs", 0);
        if first.text_of("ip") != status.text_of("hostIP") {
            faults.invalid(&first.at("ip"), first.text_of("ip"), "must be equal to `hostIP`");
        }
        addresses(&status, "hostIPs", faults);
    }
}

/// A container that ended for good does not run again.
fn no_resurrection(status: &Node, before: &Node, list: &str, restart: &str, faults: &mut Faults) {
    if restart == "Always" {
        return;
    }
    for (at, old) in before.items(list).enumerate() {
        let ended = old.at("state.terminated");
        if !ended.exists() || (restart == "OnFailure" && ended.number_of("exitCode") != 0) {
            continue;
        }
        for new in status.items(list).filter(|new| new.text_of("name") == old.text_of("name")) {
            if !new.at("state").has("terminated") {
                let detail = "may not be transitioned to non-terminated state";
                faults.forbidden(&status.item(list, at).at("state"), detail);
            }
        }
    }
}

fn addresses(status: &Node, list: &str, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for address in status.items(list) {
        for fault in names::ip(address.text_of("ip")) {
            faults.invalid(&address, address.text_of("ip"), &fault);
        }
        if !seen.insert(address.text_of("ip")) {
            faults.duplicate_shown(&address, &address.value.to_string());
        }
    }
    let sixes = status.items(list).filter(|address| address.text_of("ip").contains(':')).count();
    let fours = status.len_of(list) - sixes;
    if sixes > 1 || fours > 1 {
        let all = status.at(list);
        faults.invalid(&all, all.value.clone(), "may specify no more than one IP for each IP family");
    }
}
