//! The containers of a pod: regular, init and ephemeral ones.

use crate::document::{FieldErrors, Fields, Node};
use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    names,
    resources::{self, ResourceScope},
    volumes,
};

/// The parts of the pod that the rules for containers depend on.
pub(crate) struct PodContext<'d> {
    /// The names of its volumes, and whether each is a claim.
    pub(crate) volumes: Vec<(&'d str, bool)>,
    /// The names of its resource claims.
    pub(crate) claims: BTreeSet<&'d str>,
    /// Its termination grace period.
    pub(crate) grace: Option<i64>,
    /// Its restart policy.
    pub(crate) restart: &'d str,
    /// Whether it uses the user namespace of the host.
    pub(crate) host_users: bool,
}

const INIT_ONLY: &str = "may not be set for init containers without restartPolicy=Always";
const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// Validates the regular containers.
pub(crate) fn regular(spec: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    if spec.length("containers") == 0 {
        errors.required(&spec.at("containers"), "");
        return;
    }
    let mut taken = BTreeSet::new();
    for container in spec.items("containers") {
        common(&container, pod_context, errors);
        if !taken.insert(container.text("name")) {
            errors.duplicate(&container.at("name"), container.text("name"));
        }
        hooks_and_probes(&container, pod_context, errors);
        restart_policy(&container, errors);
    }
    let mut ports = BTreeSet::new();
    for container in spec.items("containers") {
        host_ports(&container, &mut ports, errors);
    }
}

/// Validates the init containers.
pub(crate) fn init(spec: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let mut taken: BTreeSet<_> = spec.items("containers").map(|container| container.text("name")).collect();
    for container in spec.items("initContainers") {
        common(&container, pod_context, errors);
        init_restart_policy(&container, errors);
        let name = container.text("name");
        if !name.is_empty() && !taken.insert(name) {
            errors.duplicate(&container.at("name"), name);
        }
        host_ports(&container, &mut BTreeSet::new(), errors);
        if container.text("restartPolicy") == "Always" {
            hooks_and_probes(&container, pod_context, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.has(field) {
                errors.forbidden(&container.at(field), INIT_ONLY);
            }
        }
    }
}

/// Validates the ephemeral containers.
pub(crate) fn ephemeral(spec: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let others: BTreeSet<_> = spec
        .items("containers")
        .chain(spec.items("initContainers"))
        .map(|container| container.text("name"))
        .collect();
    let mut taken = others.clone();
    for container in spec.items("ephemeralContainers") {
        common(&container, pod_context, errors);
        image_has_no_spaces(&container, errors);
        if !taken.insert(container.text("name")) {
            errors.duplicate(&container.at("name"), container.text("name"));
        }
        let target = container.at("targetContainerName");
        if !target.as_text().is_empty() && !others.contains(target.as_text()) {
            errors.not_found(&target, target.as_text());
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let given = container.at(field);
            // Resources are always there, though they may be empty.
            let is_empty = field == "resources" && given.value.as_object().is_some_and(|all| all.is_empty());
            if given.exists() && !is_empty {
                errors.forbidden(&given, EPHEMERAL);
            }
        }
        for mount in container.items("volumeMounts") {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    errors.forbidden(&mount.at(field), EPHEMERAL);
                }
            }
        }
    }
}

/// Validates that a pod's image has no blanks around it; a template's may.
pub(crate) fn image_has_no_spaces(container: &Node, errors: &mut FieldErrors) {
    let image = container.at("image");
    if image.as_text().trim().len() != image.as_text().len() {
        errors.invalid(&image, image.as_text(), "must not have leading or trailing whitespace");
    }
}

fn common(container: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    errors.valid_name(&container.at("name"), names::label);
    errors.not_empty(&container.at("image"));
    errors.one_of(&container.at("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    ports(container, errors);
    variables(container, errors);
    variable_sources(container, errors);
    mounts(container, pod_context, errors);
    devices(container, pod_context, errors);
    errors.one_of(&container.at("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources::requirements(
        &container.at("resources"),
        ResourceScope::Container,
        &pod_context.claims,
        errors,
    );
    resize_policy(container, pod_context, errors);
    security(&container.at("securityContext"), pod_context, errors);
}

fn ports(container: &Node, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for port in container.items("ports") {
        let name = port.at("name");
        if !name.as_text().is_empty() {
            let wrong = names::port_name(name.as_text());
            if wrong.is_empty() && !taken.insert(name.as_text()) {
                errors.duplicate(&name, name.as_text());
            }
            errors.invalid_each(&name, wrong);
        }
        if port.number("containerPort") == 0 {
            errors.required(&port.at("containerPort"), "");
        } else {
            errors.in_range(&port.at("containerPort"), 1, 65535);
        }
        if port.number("hostPort") != 0 {
            errors.in_range(&port.at("hostPort"), 1, 65535);
        }
        errors.one_of(&port.at("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_ports(container: &Node, taken: &mut BTreeSet<String>, errors: &mut FieldErrors) {
    for port in container.items("ports").filter(|port| port.number("hostPort") != 0) {
        let key = format!("{}/{}/{}", port.text("protocol"), port.text("hostIP"), port.number("hostPort"));
        if taken.contains(&key) {
            errors.duplicate(&port.at("hostPort"), &key);
        }
        taken.insert(key);
    }
}

fn variables(container: &Node, errors: &mut FieldErrors) {
    for variable in container.items("env") {
        errors.valid_name(&variable.at("name"), names::variable);
        value_from(&variable, errors);
    }
}

const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn value_from(variable: &Node, errors: &mut FieldErrors) {
    let from = variable.at("valueFrom");
    if !from.exists() {
        return;
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    if from.has("fieldRef") {
        field_reference(&from.at("fieldRef"), &VARIABLE_FIELDS, errors);
    }
    if from.has("resourceFieldRef") {
        resource_reference(&from.at("resourceFieldRef"), false, errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let key = from.at(name);
        if key.exists() {
            errors.invalid_each(&key.at("name"), names::subdomain(key.text("name")));
            errors.valid_name(&key.at("key"), names::config_key);
        }
    }
    let file = from.at("fileKeyRef");
    if file.exists() {
        errors.valid_name(&file.at("key"), names::variable);
        errors.valid_name(&file.at("volumeName"), names::label);
        errors.not_empty(&file.at("path"));
        volumes::relative_path(&file.at("path"), errors);
    }
    match sources.iter().filter(|name| from.has(name)).count() {
        0 => errors.invalid(
            &from,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !variable.text("value").is_empty() => {
            errors.invalid(&from, "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => errors.invalid(&from, "", "may not have more than one field specified at a time"),
    }
}

/// Validates a reference to a field of the pod, which must be one of the known ones.
pub(crate) fn field_reference(reference: &Node, known: &[&str], errors: &mut FieldErrors) {
    for name in ["apiVersion", "fieldPath"] {
        if reference.text(name).is_empty() {
            errors.required(&reference.at(name), "");
            return;
        }
    }
    let path = reference.at("fieldPath");
    let version = reference.text("apiVersion");
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(&path, path.as_text(), &detail);
    }
    let subscripted = path.as_text().strip_suffix("']").and_then(|start| start.split_once("['"));
    match subscripted {
        Some(("metadata.annotations", key)) => {
            for error in names::qualified(&key.to_ascii_lowercase()) {
                errors.invalid(reference, key.to_ascii_lowercase(), &error);
            }
        }
        Some(("metadata.labels", key)) => {
            for error in names::qualified(key) {
                errors.invalid(reference, key, &error);
            }
        }
        Some((start, _)) => {
            let detail =
                format!("error converting fieldPath: field label does not support subscript: {start}");
            errors.invalid(&path, path.as_text(), &detail);
        }
        None if known.contains(&path.as_text()) => {}
        None if is_convertible(path.as_text()) => errors.not_supported(&path, path.as_text(), known),
        None => {
            let detail = format!("error converting fieldPath: field label not supported: {}", path.as_text());
            errors.invalid(&path, path.as_text(), &detail);
        }
    }
}

fn is_convertible(path: &str) -> bool {
    VARIABLE_FIELDS.contains(&path)
        || matches!(path, "metadata.annotations" | "metadata.labels" | "spec.restartPolicy" | "status.phase")
}

const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A resource of a container, which in a volume has to be named.
pub(crate) fn resource_reference(reference: &Node, in_volume: bool, errors: &mut FieldErrors) {
    let resource = reference.at("resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| resource.as_text().starts_with(prefix));
    if in_volume && reference.text("containerName").is_empty() {
        errors.required(&reference.at("containerName"), "");
    } else if resource.as_text().is_empty() {
        errors.required(&resource, "");
    } else if !RESOURCE_FIELDS.contains(&resource.as_text()) && !huge {
        errors.not_supported(&resource, resource.as_text(), &RESOURCE_FIELDS);
    }
    let divisor = reference.at("divisor");
    if resources::quantity(&divisor).is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let what = match resource.as_text() {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(divisor.as_text(), "1m" | "1") {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(&divisor, resource.as_text(), detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    let units = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if divisor.as_text().strip_prefix('1').is_none_or(|unit| !units.contains(&unit)) {
        let detail = format!(
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {what} resource"
        );
        errors.invalid(&divisor, resource.as_text(), &detail);
    }
}

/// Validates that each variable has one source. The path of the error has no index.
fn variable_sources(container: &Node, errors: &mut FieldErrors) {
    let reported_at = container.at("envFrom");
    for source in container.items("envFrom") {
        errors.valid_if_set(&source.at("prefix"), names::variable);
        for name in ["configMapRef", "secretRef"] {
            if source.has(name) {
                errors.valid_name(&source.at(name).at("name"), names::subdomain);
            }
        }
        match (source.has("configMapRef"), source.has("secretRef")) {
            (false, false) => {
                errors.invalid(&reported_at, "", "must specify one of: `configMapRef` or `secretRef`")
            }
            (true, true) => {
                errors.invalid(&reported_at, "", "may not have more than one field specified at a time")
            }
            _ => {}
        }
    }
}

fn mounts(container: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let reported_at = container.at("volumeMounts");
    let mut paths = BTreeSet::new();
    for mount in container.items("volumeMounts") {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        errors.not_empty(&name);
        let volume = pod_context.volumes.iter().find(|(other, _)| *other == name.as_text());
        if volume.is_none() {
            errors.not_found(&name, name.as_text());
        }
        errors.not_empty(&path);
        if !paths.insert(path.as_text()) {
            errors.invalid(&path, path.as_text(), "must be unique");
        }
        if container.items("volumeDevices").any(|device| device.text("name") == name.as_text()) {
            errors.invalid(&name, name.as_text(), "must not already exist in volumeDevices");
        }
        if container.items("volumeDevices").any(|device| device.text("devicePath") == path.as_text()) {
            errors.invalid(&path, path.as_text(), "must not already exist as a path in volumeDevices");
        }
        let (below, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
        volumes::relative_path(&mount.at("subPath"), errors);
        if !expression.as_text().is_empty() {
            if !below.as_text().is_empty() {
                errors.invalid(
                    &expression,
                    expression.as_text(),
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            volumes::relative_path(&expression, errors);
        }
        propagation(container, &mount, &reported_at, errors);
        recursive_read_only(&mount, &reported_at, errors);
    }
}

fn propagation(container: &Node, mount: &Node, reported_at: &Node, errors: &mut FieldErrors) {
    let given = mount.at("mountPropagation");
    if !given.exists() {
        return;
    }
    let reported_at = reported_at.at("mountPropagation");
    let known = ["Bidirectional", "HostToContainer", "None"];
    if !known.contains(&given.as_text()) {
        errors.not_supported(&reported_at, given.as_text(), &known);
    }
    if given.as_text() == "Bidirectional" && !container.at("securityContext").flag("privileged") {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(&reported_at, detail);
    }
}

fn recursive_read_only(mount: &Node, reported_at: &Node, errors: &mut FieldErrors) {
    let given = mount.at("recursiveReadOnly");
    let reported_at = reported_at.at("recursiveReadOnly");
    match given.as_text() {
        _ if !given.exists() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.forbidden(&reported_at, "may only be specified when readOnly is true");
            }
            if !matches!(mount.text("mountPropagation"), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&reported_at, detail);
            }
        }
        other => errors.not_supported(&reported_at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(container: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let (mut taken, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.items("volumeDevices") {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        errors.not_empty(&name);
        if !name.as_text().is_empty() && !taken.insert(name.as_text()) {
            errors.invalid(&name, name.as_text(), "must be unique");
        }
        let volume = pod_context.volumes.iter().find(|(other, _)| *other == name.as_text());
        match volume {
            None => errors.not_found(&name, name.as_text()),
            Some((_, false)) => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name, name.as_text(), detail);
            }
            Some(_) => {}
        }
        errors.not_empty(&path);
        if path.as_text().split('/').any(|part| part == "..") {
            errors.invalid(&path, path.as_text(), "can not contain backsteps ('..')");
        } else if !paths.insert(path.as_text()) {
            errors.invalid(&path, path.as_text(), "must be unique");
        }
        if container.items("volumeMounts").any(|mount| mount.text("name") == name.as_text()) {
            errors.invalid(&name, name.as_text(), "must not already exist in volumeMounts");
        }
        if container.items("volumeMounts").any(|mount| mount.text("mountPath") == path.as_text()) {
            errors.invalid(&path, path.as_text(), "must not already exist as a path in volumeMounts");
        }
    }
}

fn resize_policy(container: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let reported_at = container.at("resizePolicy");
    let mut taken = BTreeSet::new();
    for policy in container.items("resizePolicy") {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !taken.insert(resource) {
            errors.duplicate(&policy, resource);
        }
        for (value, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            match value {
                "" => errors.required(&reported_at, ""),
                _ if known.contains(&value) => {}
                _ => errors.not_supported(&reported_at, value, &known),
            }
        }
        if pod_context.restart == "Never" && restart != "NotRequired" {
            errors.invalid(
                &reported_at,
                restart,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            );
        }
    }
}

/// Validates the restart rules of an init container, if it has a restart policy.
fn init_restart_policy(container: &Node, errors: &mut FieldErrors) {
    if container.has("restartPolicy") {
        restart_policy(container, errors);
    } else if container.length("restartPolicyRules") > 0 {
        errors.required(&container.at("restartPolicy"), RULES_NEED_POLICY);
    }
}

fn restart_policy(container: &Node, errors: &mut FieldErrors) {
    errors.one_of_if_set(&container.at("restartPolicy"), &["Always", "Never", "OnFailure"]);
    if container.length("restartPolicyRules") > 0 && !container.has("restartPolicy") {
        errors.required(&container.at("restartPolicy"), RULES_NEED_POLICY);
    }
    let rules = container.length("restartPolicyRules");
    if rules > RULES_MAX {
        errors.too_many(&container.at("restartPolicyRules"), rules, RULES_MAX);
    }
    for rule in container.items("restartPolicyRules") {
        errors.must_be_one_of(&rule.at("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if codes.exists() {
            errors.must_be_one_of(&codes.at("operator"), &["In", "NotIn"]);
            if codes.length("values") > EXIT_CODES_MAX {
                errors.too_many(&codes.at("values"), codes.length("values"), EXIT_CODES_MAX);
            }
        } else {
            errors.required(&codes, "must be specified");
        }
    }
}

fn hooks_and_probes(container: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let hooks = container.at("lifecycle");
    for hook in ["postStart", "preStop"].into_iter().filter(|hook| hooks.has(hook)) {
        handler(&hooks.at(hook), pod_context, errors);
    }
    let liveness = container.at("livenessProbe");
    probe(&liveness, pod_context, errors);
    succeeds_once(&liveness, errors);
    let readiness = container.at("readinessProbe");
    probe(&readiness, pod_context, errors);
    if let Some(seconds) = readiness.at("terminationGracePeriodSeconds").as_number() {
        let grace = readiness.at("terminationGracePeriodSeconds");
        errors.invalid(&grace, seconds, "must not be set for readinessProbes");
    }
    let startup = container.at("startupProbe");
    probe(&startup, pod_context, errors);
    succeeds_once(&startup, errors);
}

fn succeeds_once(probe: &Node, errors: &mut FieldErrors) {
    let threshold = probe.number("successThreshold");
    if probe.exists() && threshold != 1 {
        errors.invalid(&probe.at("successThreshold"), threshold, "must be 1");
    }
}

fn probe(probe: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    if !probe.exists() {
        return;
    }
    handler(probe, pod_context, errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.not_negative(&probe.at(name));
    }
    errors.positive(&probe.at("terminationGracePeriodSeconds"));
}

/// The rules of one kind of handler.
type Handler = fn(&Node, &PodContext, &mut FieldErrors);

fn handler(at: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let kinds: [(&str, Handler); 5] = [
        ("exec", |exec, _, errors| {
            if exec.length("command") == 0 {
                errors.required(&exec.at("command"), "");
            }
        }),
        ("httpGet", |get, _, errors| http_get(get, errors)),
        ("tcpSocket", |socket, _, errors| port_or_name(&socket.at("port"), errors)),
        ("grpc", |grpc, _, errors| port_or_name(&grpc.at("port"), errors)),
        ("sleep", sleep),
    ];
    let mut found = false;
    for (name, check) in kinds.into_iter().filter(|(name, _)| at.has(name)) {
        if found {
            errors.forbidden(&at.at(name), "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        check(&at.at(name), pod_context, errors);
    }
    if !found {
        errors.required(at, "must specify a handler type");
    }
}

fn http_get(get: &Node, errors: &mut FieldErrors) {
    errors.not_empty(&get.at("path"));
    port_or_name(&get.at("port"), errors);
    let scheme = get.at("scheme");
    if !matches!(scheme.as_text(), "HTTP" | "HTTPS") {
        errors.not_supported(&scheme, scheme.as_text(), &["HTTP", "HTTPS"]);
    }
    for header in get.items("httpHeaders") {
        for error in names::header(header.text("name")) {
            errors.invalid(&get.at("httpHeaders"), header.text("name"), &error);
        }
    }
}

fn sleep(sleep: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    let seconds = sleep.number("seconds");
    if let Some(grace) = pod_context.grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(sleep, seconds, &detail);
    }
}

/// A port by its number or by its name.
pub(crate) fn port_or_name(port: &Node, errors: &mut FieldErrors) {
    match port.value {
        Value::String(name) => errors.invalid_each(port, names::port_name(name)),
        _ => {
            let number = port.as_number().unwrap_or_default();
            if !(1..=65535).contains(&number) {
                errors.invalid(port, number, "must be between 1 and 65535, inclusive");
            }
        }
    }
}

fn security(context: &Node, pod_context: &PodContext, errors: &mut FieldErrors) {
    if !context.exists() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        errors.in_range(&context.at(name), 0, i64::from(i32::MAX));
    }
    let mount = context.at("procMount");
    errors.one_of_if_set(&mount, &["Default", "Unmasked"]);
    if pod_context.host_users && mount.as_text() == "Unmasked" {
        errors.invalid(&mount, mount.as_text(), "`hostUsers` must be false to use `Unmasked`");
    }
    super::pod_security::seccomp(&context.at("seccompProfile"), errors);
    if context.at("allowPrivilegeEscalation").value == &Value::Bool(false) {
        let whole = || context.value.clone();
        if context.flag("privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(context, whole(), detail);
        }
        if context.at("capabilities").items("add").any(|capability| capability.as_text() == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(context, whole(), detail);
        }
    }
    super::windows::options(&context.at("windowsOptions"), errors);
    super::pod_security::app_armor(&context.at("appArmorProfile"), errors);
}
