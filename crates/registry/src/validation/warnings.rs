//! What works but is old, ambiguous, or likely to be a mistake.

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{
    document::{Faults, Node},
    names, resources,
};

/// Labels that nodes once had, and what took their place.
const OLD_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
];

/// Sources of volumes that are no longer there.
const OLD_SOURCES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SURPRISING: &str = "which can result in surprising behavior; a DNS label is recommended";

/// The warnings for an object, collected as faults are, so that each knows where it belongs.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn tell(&mut self, at: &Node, text: &str) {
        // A fault without a detail has the path in the form that warnings need.
        let mut faults = Faults::default();
        faults.required(at, "");
        let path = faults.0.pop().map(|cause| cause.field).unwrap_or_default();
        self.0.push(format!("{path}: {text}"));
    }
}

/// The warnings for an object of that type.
pub(super) fn of(ty: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let object = Node::root(new);
    let generation = |value: &Value| value.pointer("/metadata/generation").and_then(Value::as_i64);
    let same_spec = old.is_some_and(|old| generation(old) == generation(new));
    match ty {
        // Pods change often, and seldom by people.
        "core.v1.Pod" if old.is_none() => {
            hostname(&object, "the Pod's hostname", &mut warnings);
            pod(&object.at("metadata"), &object.at("spec"), &mut warnings);
        }
        "apps.v1.Deployment"
        | "apps.v1.ReplicaSet"
        | "apps.v1.StatefulSet"
        | "apps.v1.DaemonSet"
        | "batch.v1.Job"
        | "core.v1.ReplicationController" => {
            // Pods of a daemon set are named after it too, but upstream has no warning for it.
            if old.is_none() && ty != "apps.v1.DaemonSet" {
                hostname(&object, "Pod names and hostnames", &mut warnings);
            }
            // An update of a replication controller goes without, as in the original.
            if !same_spec && (old.is_none() || ty != "core.v1.ReplicationController") {
                template(&object.at("spec.template"), &mut warnings);
                for claim in object.at("spec").items("volumeClaimTemplates") {
                    claimed(&claim.at_as("spec.resources", "resources"), &mut warnings);
                }
                let limit = object.at("spec.revisionHistoryLimit");
                if ty == "apps.v1.StatefulSet" && limit.number().is_some_and(|limit| limit < 0) {
                    let text =
                        "a negative value retains all historical revisions; a value >= 0 is recommended";
                    warnings.tell(&limit, text);
                }
            }
        }
        "batch.v1.CronJob" => {
            if old.is_none() {
                hostname(&object, "Pod names and hostnames", &mut warnings);
            }
            if !same_spec {
                template(&object.at("spec.jobTemplate.spec.template"), &mut warnings);
            }
        }
        "core.v1.PodTemplate" if !same_spec => template(&object.at("template"), &mut warnings),
        "core.v1.Service" => service(&object, &mut warnings),
        "storage.v1.CSIDriver" => {
            let requests = |document: &Value| document.pointer("/spec/tokenRequests").cloned();
            if old.is_none_or(|old| requests(old) != requests(new)) {
                csi_driver(&object, &mut warnings);
            }
        }
        "discovery.v1.EndpointSlice" if old.is_none() && object.text_of("addressType") == "FQDN" => {
            warnings.0.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        "core.v1.Secret" if object.text_of("type") == "kubernetes.io/tls" => {
            let data =
                |name: &str| BASE64_STANDARD.decode(object.entry("data", name).text()).unwrap_or_default();
            warnings.0.extend(key_pair(&data("tls.crt"), &data("tls.key")));
        }
        "core.v1.PersistentVolume" => volume(&object, &mut warnings),
        "core.v1.PersistentVolumeClaim" => {
            storage_class_annotation(&object, &mut warnings);
            claimed(&object.at("spec.resources"), &mut warnings);
        }
        "networking.v1.Ingress"
            if old.is_none() && object.at("metadata.annotations").has("kubernetes.io/ingress.class") =>
        {
            let text = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use \
                 'spec.ingressClassName' instead";
            warnings.0.push(text.to_owned());
        }
        "core.v1.Node" => {
            if object.at("spec").has("configSource") {
                warnings.0.push("spec.configSource: the feature is removed".to_owned());
            }
            if !object.at("spec").text_of("externalID").is_empty() {
                let text = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
                warnings.0.push(text.to_owned());
            }
        }
        _ => {}
    }
    warnings.0
}

fn hostname(object: &Node, where_used: &str, warnings: &mut Warnings) {
    let name = object.at("metadata.name");
    let wrong = names::label(name.text());
    if !name.text().is_empty() && !wrong.is_empty() {
        warnings.tell(&name, &format!("this is used in {where_used}, {SURPRISING}: [{}]", wrong.join(" ")));
    }
}

fn template(template: &Node, warnings: &mut Warnings) {
    pod(&template.at("metadata"), &template.at("spec"), warnings);
}

fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, text)| *text)
}

fn pod(meta: &Node, spec: &Node, warnings: &mut Warnings) {
    for (key, value) in spec.entries("nodeSelector") {
        if let Some(text) = old_label(key) {
            warnings.tell(&value, text);
        }
    }
    node_affinity(&spec.at("affinity.nodeAffinity"), warnings);
    let matches_nothing = "a null labelSelector results in matching no pod";
    for affinity in ["affinity.podAffinity", "affinity.podAntiAffinity"].map(|name| spec.at(name)) {
        for term in affinity.items("requiredDuringSchedulingIgnoredDuringExecution") {
            if !term.has("labelSelector") {
                warnings.tell(&term.at("labelSelector"), matches_nothing);
            }
        }
        for weighted in affinity.items("preferredDuringSchedulingIgnoredDuringExecution") {
            let term = weighted.at("podAffinityTerm");
            if !term.has("labelSelector") {
                warnings.tell(&term.at("labelSelector"), matches_nothing);
            }
        }
    }
    for constraint in spec.items("topologySpreadConstraints") {
        if let Some(text) = old_label(constraint.text_of("topologyKey")) {
            let key = constraint.at("topologyKey");
            warnings.tell(&key, &format!("{} is {text}", key.text()));
        }
        if !constraint.has("labelSelector") {
            warnings.tell(&constraint.at("labelSelector"), matches_nothing);
        }
    }
    annotations(meta, warnings);
    for volume in spec.items("volumes") {
        for (name, text) in OLD_SOURCES.iter().filter(|(name, _)| volume.has(name)) {
            let shown = if *name == "storageos" { "storageOS" } else { *name };
            warnings.tell(&volume.at_as(name, shown), text);
        }
        claimed(&volume.at("ephemeral.volumeClaimTemplate.spec.resources"), warnings);
        let has_nothing = |source: &Node| source.value.as_object().is_some_and(|all| all.is_empty());
        for _ in volume.at("projected").items("sources").filter(has_nothing) {
            let name = volume.text_of("name");
            warnings.0.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
    }
    repeated(spec, "hostAliases", "ip", warnings);
    repeated(spec, "imagePullSecrets", "name", warnings);
    for secret in spec.items("imagePullSecrets").filter(|secret| secret.text_of("name").is_empty()) {
        warnings.tell(&secret.at("name"), "invalid empty name \"\"");
    }
    for list in ["initContainers", "containers"] {
        for container in spec.items(list) {
            let resources = container.at("resources");
            for name in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    fractional(&resources.entry(list, name), warnings);
                }
            }
            hidden_variables(&container, warnings);
            repeated_ports(&container, warnings);
        }
    }
    if spec.number_of("terminationGracePeriodSeconds") < 0 {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.tell(&spec.at("terminationGracePeriodSeconds"), text);
    }
}

/// Bytes come as whole ones.
fn fractional(amount: &Node, warnings: &mut Warnings) {
    if let Some(quantity) = resources::quantity(amount).filter(|quantity| quantity.millis() % 1000 != 0) {
        let text = format!("fractional byte value \"{quantity}\" is invalid, must be an integer");
        warnings.tell(amount, &text);
    }
}

/// What a volume claim asks for.
fn claimed(resources: &Node, warnings: &mut Warnings) {
    for list in ["requests", "limits"] {
        fractional(&resources.entry(list, "storage"), warnings);
    }
}

fn node_affinity(affinity: &Node, warnings: &mut Warnings) {
    let mut term = |term: &Node| {
        for requirement in term.items("matchExpressions") {
            if let Some(text) = old_label(requirement.text_of("key")) {
                let key = requirement.at("key");
                warnings.tell(&key, &format!("{} is {text}", key.text()));
            }
        }
    };
    let required = affinity.at("requiredDuringSchedulingIgnoredDuringExecution");
    for selected in required.items("nodeSelectorTerms") {
        term(&selected);
    }
    for preferred in affinity.items("preferredDuringSchedulingIgnoredDuringExecution") {
        term(&preferred.at("preference"));
    }
}

fn annotations(meta: &Node, warnings: &mut Warnings) {
    for (key, annotation) in meta.entries("annotations") {
        let text = if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            "non-functional in v1.27+; use the \"seccompProfile\" field instead"
        } else if key.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            "deprecated since v1.30; use the \"appArmorProfile\" field instead"
        } else if key == "scheduler.alpha.kubernetes.io/critical-pod" {
            "non-functional in v1.16+; use the \"priorityClassName\" field instead"
        } else {
            continue;
        };
        warnings.tell(&annotation, text);
    }
}

fn repeated(spec: &Node, list: &str, field: &str, warnings: &mut Warnings) {
    let mut seen = HashSet::new();
    for item in spec.items(list) {
        let text = item.text_of(field);
        if !seen.insert(text) {
            warnings.tell(&item.at(field), &format!("duplicate {field} \"{text}\""));
        }
    }
}

fn hidden_variables(container: &Node, warnings: &mut Warnings) {
    let mut seen = HashSet::new();
    for variable in container.items("env") {
        let name = variable.text_of("name");
        if !seen.insert(name) {
            let text =
                format!("hides previous definition of \"{name}\", which may be dropped when using apply");
            warnings.tell(&variable, &text);
        }
    }
}

/// Ports of one number and protocol, each beside every one before it.
fn repeated_ports(container: &Node, warnings: &mut Warnings) {
    let ports: Vec<Node> = container.items("ports").collect();
    for (at, port) in ports.iter().enumerate() {
        if let Some(text) = address_without_port(port) {
            warnings.tell(port, &text);
        }
        for (earlier, other) in ports.iter().enumerate().take(at) {
            if let Some(how) = overlap(port, other) {
                let mut path = Warnings::default();
                path.tell(&container.item("ports", earlier), "");
                let path = path.0.pop().unwrap_or_default();
                let path = path.trim_end_matches(": ");
                warnings.tell(port, &format!("{how} port definition with {path}"));
            }
        }
    }
}

/// How a port comes in the way of another, if it does.
fn overlap(port: &Node, other: &Node) -> Option<&'static str> {
    let inside = |port: &Node| (port.number_of("containerPort"), port.text_of("protocol").to_owned());
    if inside(port) != inside(other) {
        return None;
    }
    let (own, its) = (port.number_of("hostPort"), other.number_of("hostPort"));
    let (own_address, its_address) = (port.text_of("hostIP"), other.text_of("hostIP"));
    match (own == its, own_address == its_address) {
        (true, true) => Some("duplicate"),
        (true, false) if own == 0 => Some("overlapping"),
        (true, false) => {
            (own_address.is_empty() || its_address.is_empty()).then_some("dangerously ambiguous")
        }
        (false, _) => (own == 0 || its == 0).then_some("overlapping"),
    }
}

fn address_without_port(port: &Node) -> Option<String> {
    let own = |name| port.text_of(name);
    (port.number_of("hostPort") == 0 && !own("hostIP").is_empty()).then(|| {
        format!(
            "hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{}}}",
            own("name"),
            port.number_of("containerPort"),
            own("protocol"),
            own("hostIP")
        )
    })
}

fn service(service: &Node, warnings: &mut Warnings) {
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

/// Why a certificate and its key cannot be used with each other, as far as their frames say it.
fn key_pair(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (of_certificate, of_key) = (pem_types(certificate), pem_types(key));
    let others =
        |types: &[String]| format!("after skipping PEM blocks of the following types: [{}]", types.join(" "));
    let is_key = |name: &String| name == "PRIVATE KEY" || name.ends_with(" PRIVATE KEY");
    if !of_certificate.iter().any(|name| name == "CERTIFICATE") {
        return Some(match of_certificate.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if one.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
                 may have been switched"
                    .to_owned()
            }
            types => {
                format!("tls: failed to find \"CERTIFICATE\" PEM block in certificate input {}", others(types))
            }
        });
    }
    if of_key.iter().any(is_key) {
        return None;
    }
    Some(match of_key.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        types => {
            format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input {}",
                others(types)
            )
        }
    })
}

/// The types of the PEM blocks of a text, each between a line that begins it and one that ends it.
fn pem_types(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut types = Vec::new();
    let mut open = None;
    for line in text.lines().map(str::trim_end) {
        let between = |start: &str| line.strip_prefix(start).and_then(|rest| rest.strip_suffix("-----"));
        if let Some(name) = between("-----BEGIN ") {
            open = Some(name.to_owned());
        } else if let Some(name) = between("-----END ") {
            types.extend(open.take().filter(|begun| begun == name));
        }
    }
    types
}

/// A driver that asks for tokens had better get them where they are not logged.
fn csi_driver(driver: &Node, warnings: &mut Warnings) {
    let spec = driver.at("spec");
    if spec.len_of("tokenRequests") > 0 && !spec.has("serviceAccountTokenInSecrets") {
        let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to \
             prevent possible logging of tokens in volume attributes";
        warnings.0.push(text.to_owned());
    }
}

fn storage_class_annotation(object: &Node, warnings: &mut Warnings) {
    let meta = object.at("metadata");
    let annotation = meta.entry("annotations", "volume.beta.kubernetes.io/storage-class");
    if annotation.exists() {
        warnings.tell(&annotation, "deprecated since v1.8; use \"storageClassName\" attribute instead");
    }
}

fn volume(volume: &Node, warnings: &mut Warnings) {
    storage_class_annotation(volume, warnings);
    let spec = volume.at("spec");
    if spec.text_of("persistentVolumeReclaimPolicy") == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
             provisioning.";
        warnings.tell(&spec.at("persistentVolumeReclaimPolicy"), text);
    }
    for (name, text) in OLD_SOURCES.iter().filter(|(name, _)| spec.has(name)) {
        warnings.tell(&spec.at(name), text);
    }
}
