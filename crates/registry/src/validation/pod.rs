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

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
pub(crate) const SECONDS_MAX: i64 = i32::MAX as i64;
const NAMESERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_PATHS_BYTES_MAX: usize = 2048;
const HOSTNAME_BYTES_MAX: usize = 64;
const CANNOT_BE_WINDOWS: &str = "cannot be set for a windows pod";

/// A pod, new or changed.
pub(crate) fn pod(pod: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = pod.at("spec");
    pod_annotations(&pod.at("metadata.annotations"), &spec, faults);
    if old.is_some_and(|old| same_spec(pod, old)) {
        // It was looked at when it was stored, with a name that cannot change. Only what a binding has made of it was
        // not, and that is no fault of who changes something else.
        return;
    }
    pod_spec(&spec, Some(pod.at("metadata").text_of("name")), faults);
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
pub(crate) fn same_spec(pod: &Node, old: &Node) -> bool {
    let generation = |pod: &Node| pod.at("metadata.generation").number();
    match generation(pod).zip(generation(old)) {
        Some((now, before)) => now == before,
        None => pod.at("spec").value == old.at("spec").value,
    }
}

/// A template of pods.
pub(crate) fn template(template: &Node, faults: &mut Faults) {
    metadata::labels(&template.at_as("metadata.labels", "labels"), faults);
    let annotations = template.at_as("metadata.annotations", "annotations");
    metadata::annotations(&annotations, faults);
    pod_annotations(&annotations, &template.at("spec"), faults);
    pod_spec(&template.at("spec"), None, faults);
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
fn pod_spec(spec: &Node, name: Option<&str>, faults: &mut Faults) {
    let grace = spec.at("terminationGracePeriodSeconds");
    if !grace.exists() {
        faults.required(&grace, "");
    }
    let around = Around {
        volumes: volumes::of_pod(spec, name, faults),
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
    super::windows::host_processes(spec, faults);
    rest_of_spec(spec, faults);
    files_of_variables(spec, faults);
}

/// Variables can be read from files in volumes that the pod's containers fill.
fn files_of_variables(spec: &Node, faults: &mut Faults) {
    for container in all_containers(spec) {
        for variable in container.items("env") {
            if !variable.has("valueFrom") || !variable.at("valueFrom").has("fileKeyRef") {
                continue;
            }
            let volume = variable.at("valueFrom.fileKeyRef.volumeName");
            match spec.items("volumes").filter(|other| other.text_of("name") == volume.text()).last() {
                None => faults.not_found(&volume, volume.text()),
                Some(found) if !found.has("emptyDir") => {
                    faults.invalid(&volume, volume.text(), "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}

fn rest_of_spec(spec: &Node, faults: &mut Faults) {
    faults.if_given(&spec.at("serviceAccountName"), names::subdomain);
    faults.if_given(&spec.at("nodeName"), names::subdomain);
    faults.in_range(&spec.at("activeDeadlineSeconds"), 1, SECONDS_MAX);
    faults.if_given(&spec.at("hostname"), names::label);
    faults.if_given(&spec.at("subdomain"), names::label);
    hostname_override(spec, faults);
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
        resources::amount_as(name, &spec.entry("overhead", name), &amount, faults);
    }
    operating_system(spec, faults);
}

/// The one name of a pod's host, which neither its domain nor its node may have a say in.
fn hostname_override(spec: &Node, faults: &mut Faults) {
    let hostname = spec.at("hostnameOverride");
    if !hostname.exists() {
        return;
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(other) {
            faults.forbidden(&hostname, &format!("may not be specified when {other} is true"));
        }
    }
    if hostname.text().len() > HOSTNAME_BYTES_MAX {
        faults.too_long(&hostname, HOSTNAME_BYTES_MAX);
    }
    faults.texts(&hostname, names::subdomain(hostname.text()));
}

/// Whether a pod may push others out.
pub(crate) fn preemption_policy(policy: &Node, faults: &mut Faults) {
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
    if spec.at("os").text_of("name") == "windows" {
        return faults.forbidden(&whole, "may not be set for a windows pod");
    }
    if whole.has("claims") {
        faults.forbidden(&whole.at("claims"), "claims may not be set for Resources at pod-level");
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
    super::windows::options(&context.at("windowsOptions"), faults);
    app_armor(&context.at("appArmorProfile"), faults);
    faults.if_given_one_of(&context.at("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    // Mounting with a label is not enabled, though an object may have it.
    if context.text_of("seLinuxChangePolicy") != "MountOption" {
        faults.if_given_one_of(&context.at("seLinuxChangePolicy"), &["Recursive"]);
    }
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
pub(crate) fn seccomp(profile: &Node, faults: &mut Faults) {
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
pub(crate) fn app_armor(profile: &Node, faults: &mut Faults) {
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
        } else {
            for key in constraint.items("matchLabelKeys") {
                faults.texts(&key, names::qualified(key.text()));
            }
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

pub(crate) fn tolerations(spec: &Node, faults: &mut Faults) {
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
            // The two are named only to those who know them.
            other @ ("Lt" | "Gt") => faults.not_supported(&operator, other, &["Equal", "Exists", "Lt", "Gt"]),
            other => faults.not_supported(&operator, other, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            taint_effect(&effect, faults);
        }
    }
}

/// What a taint does to those who do not tolerate it.
pub(crate) fn taint_effect(effect: &Node, faults: &mut Faults) {
    faults.one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

fn operating_system(spec: &Node, faults: &mut Faults) {
    let os = spec.at("os");
    if !os.exists() {
        return;
    }
    match os.text_of("name") {
        "" => faults.required(&os.at("name"), ""),
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
