//! Warnings about fields that are valid but deprecated, ambiguous, or likely to be a mistake.

use super::{names, resources};
use crate::document::{FieldErrors, Fields, Node};
use std::collections::HashSet;

/// Deprecated labels of nodes, and their replacements.
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

/// Sources of volumes that are deprecated or removed.
pub(crate) const OLD_SOURCES: [(&str, &str); 9] = [
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

/// The warnings for an object, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Warnings(pub(crate) Vec<String>);

impl Warnings {
    /// Adds a warning about that field.
    pub(crate) fn add(&mut self, at: &Node, text: &str) {
        // An error without a detail has the path in the form that warnings need.
        let mut errors = FieldErrors::default();
        errors.required(at, "");
        let path = errors.0.pop().map(|cause| cause.field).unwrap_or_default();
        self.0.push(format!("{path}: {text}"));
    }

    /// Adds a warning as it is.
    pub(crate) fn push(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

/// Whether an update leaves the generation of an object unchanged, and so all fields that have warnings.
pub(crate) fn same_generation(object: &Node, old: Option<&Node>) -> bool {
    let generation = |object: &Node| object.at("metadata.generation").as_number();
    old.is_some_and(|old| generation(old) == generation(object))
}

pub(crate) fn hostname(object: &Node, where_used: &str, warnings: &mut Warnings) {
    let name = object.at("metadata.name");
    let wrong = names::label(name.as_text());
    if !name.as_text().is_empty() && !wrong.is_empty() {
        warnings.add(&name, &format!("this is used in {where_used}, {SURPRISING}: [{}]", wrong.join(" ")));
    }
}

pub(crate) fn template(template: &Node, warnings: &mut Warnings) {
    pod(&template.at("metadata"), &template.at("spec"), warnings);
}

fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, text)| *text)
}

pub(crate) fn pod(meta: &Node, spec: &Node, warnings: &mut Warnings) {
    for (key, value) in spec.entries("nodeSelector") {
        if let Some(text) = old_label(key) {
            warnings.add(&value, text);
        }
    }
    node_affinity(&spec.at("affinity.nodeAffinity"), warnings);
    let matches_nothing = "a null labelSelector results in matching no pod";
    for affinity in ["affinity.podAffinity", "affinity.podAntiAffinity"].map(|name| spec.at(name)) {
        for term in affinity.items("requiredDuringSchedulingIgnoredDuringExecution") {
            if !term.has("labelSelector") {
                warnings.add(&term.at("labelSelector"), matches_nothing);
            }
        }
        for weighted in affinity.items("preferredDuringSchedulingIgnoredDuringExecution") {
            let term = weighted.at("podAffinityTerm");
            if !term.has("labelSelector") {
                warnings.add(&term.at("labelSelector"), matches_nothing);
            }
        }
    }
    for constraint in spec.items("topologySpreadConstraints") {
        if let Some(text) = old_label(constraint.text("topologyKey")) {
            let key = constraint.at("topologyKey");
            warnings.add(&key, &format!("{} is {text}", key.as_text()));
        }
        if !constraint.has("labelSelector") {
            warnings.add(&constraint.at("labelSelector"), matches_nothing);
        }
    }
    annotations(meta, warnings);
    for volume in spec.items("volumes") {
        for (name, text) in OLD_SOURCES.iter().filter(|(name, _)| volume.has(name)) {
            let shown = if *name == "storageos" { "storageOS" } else { *name };
            warnings.add(&volume.at_as(name, shown), text);
        }
        claimed(&volume.at("ephemeral.volumeClaimTemplate.spec.resources"), warnings);
        let has_nothing = |source: &Node| source.value.as_object().is_some_and(|all| all.is_empty());
        for _ in volume.at("projected").items("sources").filter(has_nothing) {
            let name = volume.text("name");
            warnings.0.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
    }
    repeated(spec, "hostAliases", "ip", warnings);
    repeated(spec, "imagePullSecrets", "name", warnings);
    for secret in spec.items("imagePullSecrets").filter(|secret| secret.text("name").is_empty()) {
        warnings.add(&secret.at("name"), "invalid empty name \"\"");
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
    if spec.number("terminationGracePeriodSeconds") < 0 {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.add(&spec.at("terminationGracePeriodSeconds"), text);
    }
}

/// Warns of an amount that is not a whole number of bytes.
fn fractional(amount: &Node, warnings: &mut Warnings) {
    if let Some(quantity) = resources::quantity(amount).filter(|quantity| quantity.millis() % 1000 != 0) {
        let text = format!("fractional byte value \"{quantity}\" is invalid, must be an integer");
        warnings.add(amount, &text);
    }
}

/// Warns of the amounts in a volume claim.
pub(crate) fn claimed(resources: &Node, warnings: &mut Warnings) {
    for list in ["requests", "limits"] {
        fractional(&resources.entry(list, "storage"), warnings);
    }
}

fn node_affinity(affinity: &Node, warnings: &mut Warnings) {
    let mut term = |term: &Node| {
        for requirement in term.items("matchExpressions") {
            if let Some(text) = old_label(requirement.text("key")) {
                let key = requirement.at("key");
                warnings.add(&key, &format!("{} is {text}", key.as_text()));
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
        warnings.add(&annotation, text);
    }
}

fn repeated(spec: &Node, list: &str, field: &str, warnings: &mut Warnings) {
    let mut seen = HashSet::new();
    for item in spec.items(list) {
        let text = item.text(field);
        if !seen.insert(text) {
            warnings.add(&item.at(field), &format!("duplicate {field} \"{text}\""));
        }
    }
}

fn hidden_variables(container: &Node, warnings: &mut Warnings) {
    let mut seen = HashSet::new();
    for variable in container.items("env") {
        let name = variable.text("name");
        if !seen.insert(name) {
            let text =
                format!("hides previous definition of \"{name}\", which may be dropped when using apply");
            warnings.add(&variable, &text);
        }
    }
}

/// Warns of conflicting ports, each compared with all before it.
fn repeated_ports(container: &Node, warnings: &mut Warnings) {
    let ports: Vec<Node> = container.items("ports").collect();
    for (at, port) in ports.iter().enumerate() {
        if let Some(text) = address_without_port(port) {
            warnings.add(port, &text);
        }
        for (earlier, other) in ports.iter().enumerate().take(at) {
            if let Some(how) = overlap(port, other) {
                let mut path = Warnings::default();
                path.add(&container.item("ports", earlier), "");
                let path = path.0.pop().unwrap_or_default();
                let path = path.trim_end_matches(": ");
                warnings.add(port, &format!("{how} port definition with {path}"));
            }
        }
    }
}

pub(crate) fn storage_class_annotation(object: &Node, warnings: &mut Warnings) {
    let meta = object.at("metadata");
    let annotation = meta.entry("annotations", "volume.beta.kubernetes.io/storage-class");
    if annotation.exists() {
        warnings.add(&annotation, "deprecated since v1.8; use \"storageClassName\" attribute instead");
    }
}

/// The word for the conflict between two ports, if there is one.
fn overlap(port: &Node, other: &Node) -> Option<&'static str> {
    let inside = |port: &Node| (port.number("containerPort"), port.text("protocol").to_owned());
    if inside(port) != inside(other) {
        return None;
    }
    let (own, its) = (port.number("hostPort"), other.number("hostPort"));
    let (own_address, its_address) = (port.text("hostIP"), other.text("hostIP"));
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
    let own = |name| port.text(name);
    (port.number("hostPort") == 0 && !own("hostIP").is_empty()).then(|| {
        format!(
            "hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{}}}",
            own("name"),
            port.number("containerPort"),
            own("protocol"),
            own("hostIP")
        )
    })
}
