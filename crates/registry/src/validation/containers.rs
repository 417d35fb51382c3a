//! The containers of a pod, whether they start it, make it up, or look into it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    document::{Faults, Node},
    names,
    resources::{self, Asker},
    volumes,
};

/// What the rules for containers have to know about the pod around them.
pub(crate) struct Around<'d> {
    /// The names of its volumes, and whether each is claimed.
    pub(crate) volumes: Vec<(&'d str, bool)>,
    /// The names of what it claims.
    pub(crate) claims: BTreeSet<&'d str>,
    /// How long it may take to end.
    pub(crate) grace: Option<i64>,
    /// What happens when a container ends.
    pub(crate) restart: &'d str,
    /// Whether its users are the host's.
    pub(crate) host_users: bool,
}

const INIT_ONLY: &str = "may not be set for init containers without restartPolicy=Always";
const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// The containers that make up the pod.
pub(crate) fn regular(spec: &Node, around: &Around, faults: &mut Faults) {
    if spec.len_of("containers") == 0 {
        faults.required(&spec.at("containers"), "");
        return;
    }
    let mut taken = BTreeSet::new();
    for container in spec.items("containers") {
        common(&container, around, faults);
        if !taken.insert(container.text_of("name")) {
            faults.duplicate(&container.at("name"), container.text_of("name"));
        }
        hooks_and_probes(&container, around, faults);
        restart_policy(&container, faults);
    }
    let mut ports = BTreeSet::new();
    for container in spec.items("containers") {
        host_ports(&container, &mut ports, faults);
    }
}

/// The containers that run before the others.
pub(crate) fn init(spec: &Node, around: &Around, faults: &mut Faults) {
    let mut taken: BTreeSet<_> =
        spec.items("containers").map(|container| container.text_of("name")).collect();
    for container in spec.items("initContainers") {
        common(&container, around, faults);
        init_restart_policy(&container, faults);
        let name = container.text_of("name");
        if !name.is_empty() && !taken.insert(name) {
            faults.duplicate(&container.at("name"), name);
        }
        host_ports(&container, &mut BTreeSet::new(), faults);
        if container.text_of("restartPolicy") == "Always" {
            hooks_and_probes(&container, around, faults);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.has(field) {
                faults.forbidden(&container.at(field), INIT_ONLY);
            }
        }
    }
}

/// The containers that were put in to look at the others.
pub(crate) fn ephemeral(spec: &Node, around: &Around, faults: &mut Faults) {
    let others: BTreeSet<_> = spec
        .items("containers")
        .chain(spec.items("initContainers"))
        .map(|container| container.text_of("name"))
        .collect();
    let mut taken = others.clone();
    for container in spec.items("ephemeralContainers") {
        common(&container, around, faults);
        image_has_no_spaces(&container, faults);
        if !taken.insert(container.text_of("name")) {
            faults.duplicate(&container.at("name"), container.text_of("name"));
        }
        let target = container.at("targetContainerName");
        if !target.text().is_empty() && !others.contains(target.text()) {
            faults.not_found(&target, target.text());
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
                faults.forbidden(&given, EPHEMERAL);
            }
        }
        for mount in container.items("volumeMounts") {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text_of(field).is_empty() {
                    faults.forbidden(&mount.at(field), EPHEMERAL);
                }
            }
        }
    }
}

/// A pod's image has no blanks around it; a template's may.
pub(crate) fn image_has_no_spaces(container: &Node, faults: &mut Faults) {
    let image = container.at("image");
    if image.text().trim().len() != image.text().len() {
        faults.invalid(&image, image.text(), "must not have leading or trailing whitespace");
    }
}

fn common(container: &Node, around: &Around, faults: &mut Faults) {
    faults.named(&container.at("name"), names::label);
    faults.given(&container.at("image"));
    faults.one_of(&container.at("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    ports(container, faults);
    variables(container, faults);
    variable_sources(container, faults);
    mounts(container, around, faults);
    devices(container, around, faults);
    faults.one_of(&container.at("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources::requirements(&container.at("resources"), Asker::Container, &around.claims, faults);
    resize_policy(container, around, faults);
    security(&container.at("securityContext"), around, faults);
}

fn ports(container: &Node, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for port in container.items("ports") {
        let name = port.at("name");
        if !name.text().is_empty() {
            let wrong = names::port_name(name.text());
            if wrong.is_empty() && !taken.insert(name.text()) {
                faults.duplicate(&name, name.text());
            }
            faults.texts(&name, wrong);
        }
        if port.number_of("containerPort") == 0 {
            faults.required(&port.at("containerPort"), "");
        } else {
            faults.in_range(&port.at("containerPort"), 1, 65535);
        }
        if port.number_of("hostPort") != 0 {
            faults.in_range(&port.at("hostPort"), 1, 65535);
        }
        faults.one_of(&port.at("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_ports(container: &Node, taken: &mut BTreeSet<String>, faults: &mut Faults) {
    for port in container.items("ports").filter(|port| port.number_of("hostPort") != 0) {
        let key =
            format!("{}/{}/{}", port.text_of("protocol"), port.text_of("hostIP"), port.number_of("hostPort"));
        if taken.contains(&key) {
            faults.duplicate(&port.at("hostPort"), &key);
        }
        taken.insert(key);
    }
}

fn variables(container: &Node, faults: &mut Faults) {
    for variable in container.items("env") {
        faults.named(&variable.at("name"), names::variable);
        value_from(&variable, faults);
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

fn value_from(variable: &Node, faults: &mut Faults) {
    let from = variable.at("valueFrom");
    if !from.exists() {
        return;
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    if from.has("fieldRef") {
        field_reference(&from.at("fieldRef"), &VARIABLE_FIELDS, faults);
    }
    if from.has("resourceFieldRef") {
        resource_reference(&from.at("resourceFieldRef"), false, faults);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let key = from.at(name);
        if key.exists() {
            faults.texts(&key.at("name"), names::subdomain(key.text_of("name")));
            faults.named(&key.at("key"), names::config_key);
        }
    }
    let file = from.at("fileKeyRef");
    if file.exists() {
        faults.named(&file.at("key"), names::variable);
        faults.named(&file.at("volumeName"), names::label);
        faults.given(&file.at("path"));
        volumes::relative_path(&file.at("path"), faults);
    }
    match sources.iter().filter(|name| from.has(name)).count() {
        0 => faults.invalid(
            &from,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !variable.text_of("value").is_empty() => {
            faults.invalid(&from, "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => faults.invalid(&from, "", "may not have more than one field specified at a time"),
    }
}

/// A field of the pod, among those that can be shown.
pub(crate) fn field_reference(reference: &Node, known: &[&str], faults: &mut Faults) {
    for name in ["apiVersion", "fieldPath"] {
        if reference.text_of(name).is_empty() {
            faults.required(&reference.at(name), "");
            return;
        }
    }
    let path = reference.at("fieldPath");
    let version = reference.text_of("apiVersion");
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return faults.invalid(&path, path.text(), &detail);
    }
    let subscripted = path.text().strip_suffix("']").and_then(|start| start.split_once("['"));
    match subscripted {
        Some(("metadata.annotations", key)) => {
            for fault in names::qualified(&key.to_ascii_lowercase()) {
                faults.invalid(reference, key.to_ascii_lowercase(), &fault);
            }
        }
        Some(("metadata.labels", key)) => {
            for fault in names::qualified(key) {
                faults.invalid(reference, key, &fault);
            }
        }
        Some((start, _)) => {
            let detail =
                format!("error converting fieldPath: field label does not support subscript: {start}");
            faults.invalid(&path, path.text(), &detail);
        }
        None if known.contains(&path.text()) => {}
        None if is_convertible(path.text()) => faults.not_supported(&path, path.text(), known),
        None => {
            let detail = format!("error converting fieldPath: field label not supported: {}", path.text());
            faults.invalid(&path, path.text(), &detail);
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
pub(crate) fn resource_reference(reference: &Node, in_volume: bool, faults: &mut Faults) {
    let resource = reference.at("resource");
    let huge =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.text().starts_with(prefix));
    if in_volume && reference.text_of("containerName").is_empty() {
        faults.required(&reference.at("containerName"), "");
    } else if resource.text().is_empty() {
        faults.required(&resource, "");
    } else if !RESOURCE_FIELDS.contains(&resource.text()) && !huge {
        faults.not_supported(&resource, resource.text(), &RESOURCE_FIELDS);
    }
    let divisor = reference.at("divisor");
    if resources::quantity(&divisor).is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let what = match resource.text() {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(divisor.text(), "1m" | "1") {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                faults.invalid(&divisor, resource.text(), detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    let units = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if divisor.text().strip_prefix('1').is_none_or(|unit| !units.contains(&unit)) {
        let detail = format!(
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {what} resource"
        );
        faults.invalid(&divisor, resource.text(), &detail);
    }
}

/// That there is one source is blamed at the list: its path has no index.
fn variable_sources(container: &Node, faults: &mut Faults) {
    let blamed = container.at("envFrom");
    for source in container.items("envFrom") {
        faults.if_given(&source.at("prefix"), names::variable);
        for name in ["configMapRef", "secretRef"] {
            if source.has(name) {
                faults.named(&source.at(name).at("name"), names::subdomain);
            }
        }
        match (source.has("configMapRef"), source.has("secretRef")) {
            (false, false) => {
                faults.invalid(&blamed, "", "must specify one of: `configMapRef` or `secretRef`")
            }
            (true, true) => {
                faults.invalid(&blamed, "", "may not have more than one field specified at a time")
            }
            _ => {}
        }
    }
}

fn mounts(container: &Node, around: &Around, faults: &mut Faults) {
    let blamed = container.at("volumeMounts");
    let mut paths = BTreeSet::new();
    for mount in container.items("volumeMounts") {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        faults.given(&name);
        let volume = around.volumes.iter().find(|(other, _)| *other == name.text());
        if volume.is_none() {
            faults.not_found(&name, name.text());
        }
        faults.given(&path);
        if !paths.insert(path.text()) {
            faults.invalid(&path, path.text(), "must be unique");
        }
        if container.items("volumeDevices").any(|device| device.text_of("name") == name.text()) {
            faults.invalid(&name, name.text(), "must not already exist in volumeDevices");
        }
        if container.items("volumeDevices").any(|device| device.text_of("devicePath") == path.text()) {
            faults.invalid(&path, path.text(), "must not already exist as a path in volumeDevices");
        }
        let (below, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
        volumes::relative_path(&mount.at("subPath"), faults);
        if !expression.text().is_empty() {
            if !below.text().is_empty() {
                faults.invalid(
                    &expression,
                    expression.text(),
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            volumes::relative_path(&expression, faults);
        }
        propagation(container, &mount, &blamed, faults);
        recursive_read_only(&mount, &blamed, faults);
    }
}

fn propagation(container: &Node, mount: &Node, blamed: &Node, faults: &mut Faults) {
    let given = mount.at("mountPropagation");
    if !given.exists() {
        return;
    }
    let blamed = blamed.at("mountPropagation");
    let known = ["Bidirectional", "HostToContainer", "None"];
    if !known.contains(&given.text()) {
        faults.not_supported(&blamed, given.text(), &known);
    }
    if given.text() == "Bidirectional" && !container.at("securityContext").flag("privileged") {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        faults.forbidden(&blamed, detail);
    }
}

fn recursive_read_only(mount: &Node, blamed: &Node, faults: &mut Faults) {
    let given = mount.at("recursiveReadOnly");
    let blamed = blamed.at("recursiveReadOnly");
    match given.text() {
        _ if !given.exists() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                faults.forbidden(&blamed, "may only be specified when readOnly is true");
            }
            if !matches!(mount.text_of("mountPropagation"), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                faults.forbidden(&blamed, detail);
            }
        }
        other => faults.not_supported(&blamed, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(container: &Node, around: &Around, faults: &mut Faults) {
    let (mut taken, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.items("volumeDevices") {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        faults.given(&name);
        if !name.text().is_empty() && !taken.insert(name.text()) {
            faults.invalid(&name, name.text(), "must be unique");
        }
        let volume = around.volumes.iter().find(|(other, _)| *other == name.text());
        match volume {
            None => faults.not_found(&name, name.text()),
            Some((_, false)) => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                faults.invalid(&name, name.text(), detail);
            }
            Some(_) => {}
        }
        faults.given(&path);
        if path.text().split('/').any(|part| part == "..") {
            faults.invalid(&path, path.text(), "can not contain backsteps ('..')");
        } else if !paths.insert(path.text()) {
            faults.invalid(&path, path.text(), "must be unique");
        }
        if container.items("volumeMounts").any(|mount| mount.text_of("name") == name.text()) {
            faults.invalid(&name, name.text(), "must not already exist in volumeMounts");
        }
        if container.items("volumeMounts").any(|mount| mount.text_of("mountPath") == path.text()) {
            faults.invalid(&path, path.text(), "must not already exist as a path in volumeMounts");
        }
    }
}

fn resize_policy(container: &Node, around: &Around, faults: &mut Faults) {
    let blamed = container.at("resizePolicy");
    let mut taken = BTreeSet::new();
    for policy in container.items("resizePolicy") {
        let (resource, restart) = (policy.text_of("resourceName"), policy.text_of("restartPolicy"));
        if !taken.insert(resource) {
            faults.duplicate(&policy, resource);
        }
        for (value, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            match value {
                "" => faults.required(&blamed, ""),
                _ if known.contains(&value) => {}
                _ => faults.not_supported(&blamed, value, &known),
            }
        }
        if around.restart == "Never" && restart != "NotRequired" {
            faults.invalid(&blamed, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// The rules of an init container are looked at only if it has a policy.
fn init_restart_policy(container: &Node, faults: &mut Faults) {
    if container.has("restartPolicy") {
        restart_policy(container, faults);
    } else if container.len_of("restartPolicyRules") > 0 {
        faults.required(&container.at("restartPolicy"), RULES_NEED_POLICY);
    }
}

fn restart_policy(container: &Node, faults: &mut Faults) {
    faults.if_given_one_of(&container.at("restartPolicy"), &["Always", "Never", "OnFailure"]);
    if container.len_of("restartPolicyRules") > 0 && !container.has("restartPolicy") {
        faults.required(&container.at("restartPolicy"), RULES_NEED_POLICY);
    }
    let rules = container.len_of("restartPolicyRules");
    if rules > RULES_MAX {
        faults.too_many(&container.at("restartPolicyRules"), rules, RULES_MAX);
    }
    for rule in container.items("restartPolicyRules") {
        faults.must_be_one_of(&rule.at("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if codes.exists() {
            faults.must_be_one_of(&codes.at("operator"), &["In", "NotIn"]);
            if codes.len_of("values") > EXIT_CODES_MAX {
                faults.too_many(&codes.at("values"), codes.len_of("values"), EXIT_CODES_MAX);
            }
        } else {
            faults.required(&codes, "must be specified");
        }
    }
}

fn hooks_and_probes(container: &Node, around: &Around, faults: &mut Faults) {
    let hooks = container.at("lifecycle");
    for hook in ["postStart", "preStop"].into_iter().filter(|hook| hooks.has(hook)) {
        handler(&hooks.at(hook), around, faults);
    }
    let liveness = container.at("livenessProbe");
    probe(&liveness, around, faults);
    succeeds_once(&liveness, faults);
    let readiness = container.at("readinessProbe");
    probe(&readiness, around, faults);
    if let Some(seconds) = readiness.at("terminationGracePeriodSeconds").number() {
        let grace = readiness.at("terminationGracePeriodSeconds");
        faults.invalid(&grace, seconds, "must not be set for readinessProbes");
    }
    let startup = container.at("startupProbe");
    probe(&startup, around, faults);
    succeeds_once(&startup, faults);
}

fn succeeds_once(probe: &Node, faults: &mut Faults) {
    let threshold = probe.number_of("successThreshold");
    if probe.exists() && threshold != 1 {
        faults.invalid(&probe.at("successThreshold"), threshold, "must be 1");
    }
}

fn probe(probe: &Node, around: &Around, faults: &mut Faults) {
    if !probe.exists() {
        return;
    }
    handler(probe, around, faults);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        faults.not_negative(&probe.at(name));
    }
    faults.positive(&probe.at("terminationGracePeriodSeconds"));
}

/// The rules of one way to ask or to tell a container something.
type Handler = fn(&Node, &Around, &mut Faults);

fn handler(at: &Node, around: &Around, faults: &mut Faults) {
    let kinds: [(&str, Handler); 5] = [
        ("exec", |exec, _, faults| {
            if exec.len_of("command") == 0 {
                faults.required(&exec.at("command"), "");
            }
        }),
        ("httpGet", |get, _, faults| http_get(get, faults)),
        ("tcpSocket", |socket, _, faults| port_or_name(&socket.at("port"), faults)),
        ("grpc", |grpc, _, faults| port_or_name(&grpc.at("port"), faults)),
        ("sleep", sleep),
    ];
    let mut found = false;
    for (name, check) in kinds.into_iter().filter(|(name, _)| at.has(name)) {
        if found {
            faults.forbidden(&at.at(name), "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        check(&at.at(name), around, faults);
    }
    if !found {
        faults.required(at, "must specify a handler type");
    }
}

fn http_get(get: &Node, faults: &mut Faults) {
    faults.given(&get.at("path"));
    port_or_name(&get.at("port"), faults);
    let scheme = get.at("scheme");
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        faults.not_supported(&scheme, scheme.text(), &["HTTP", "HTTPS"]);
    }
    for header in get.items("httpHeaders") {
        for fault in names::header(header.text_of("name")) {
            faults.invalid(&get.at("httpHeaders"), header.text_of("name"), &fault);
        }
    }
}

fn sleep(sleep: &Node, around: &Around, faults: &mut Faults) {
    let seconds = sleep.number_of("seconds");
    if let Some(grace) = around.grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        faults.invalid(sleep, seconds, &detail);
    }
}

/// A port by its number or by its name.
pub(crate) fn port_or_name(port: &Node, faults: &mut Faults) {
    match port.value {
        Value::String(name) => faults.texts(port, names::port_name(name)),
        _ => {
            let number = port.number().unwrap_or_default();
            if !(1..=65535).contains(&number) {
                faults.invalid(port, number, "must be between 1 and 65535, inclusive");
            }
        }
    }
}

fn security(context: &Node, around: &Around, faults: &mut Faults) {
    if !context.exists() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        faults.in_range(&context.at(name), 0, i64::from(i32::MAX));
    }
    let mount = context.at("procMount");
    faults.if_given_one_of(&mount, &["Default", "Unmasked"]);
    if around.host_users && mount.text() == "Unmasked" {
        faults.invalid(&mount, mount.text(), "`hostUsers` must be false to use `Unmasked`");
    }
    super::pod::seccomp(&context.at("seccompProfile"), faults);
    if context.at("allowPrivilegeEscalation").value == &Value::Bool(false) {
        let whole = || context.value.clone();
        if context.flag("privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            faults.invalid(context, whole(), detail);
        }
        if context.at("capabilities").items("add").any(|capability| capability.text() == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            faults.invalid(context, whole(), detail);
        }
    }
    super::windows::options(&context.at("windowsOptions"), faults);
    super::pod::app_armor(&context.at("appArmorProfile"), faults);
}
