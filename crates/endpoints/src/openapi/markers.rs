//! Defaults and unions of a few fields, which only the documents declare beside the fields' types.
//!
//! Each row names a type of the table and its fields; a test looks them all up.

use serde_json::{Map, Value, json};

/// The defaults of fields where they do not follow from the type: types, field, default.
const DEFAULTS: &[(&[&str], &str, Plain)] = &[
    (&["autoscaling.v1.ScaleSpec"], "replicas", Plain::Number(0)),
    (&["core.v1.AzureDiskVolumeSource"], "cachingMode", Plain::Text("ReadWrite")),
    (&["core.v1.AzureDiskVolumeSource"], "fsType", Plain::Text("ext4")),
    (&["core.v1.AzureDiskVolumeSource"], "kind", Plain::Text("Shared")),
    (&["core.v1.AzureDiskVolumeSource"], "readOnly", Plain::No),
    (&["core.v1.ContainerPort", "core.v1.ServicePort"], "protocol", Plain::Text("TCP")),
    (&["core.v1.FileKeySelector"], "optional", Plain::No),
    (&["core.v1.GRPCAction"], "service", Plain::Text("")),
    (ISCSI, "iscsiInterface", Plain::Text("default")),
    (LOCAL_REFERENCES, "name", Plain::Text("")),
    (RBD, "keyring", Plain::Text("/etc/ceph/keyring")),
    (RBD, "pool", Plain::Text("rbd")),
    (RBD, "user", Plain::Text("admin")),
    (&["core.v1.ReplicationControllerSpec"], "minReadySeconds", Plain::Number(0)),
    (&["core.v1.ReplicationControllerSpec"], "replicas", Plain::Number(1)),
    (&["resource.v1.DeviceToleration"], "operator", Plain::Text("Equal")),
    (SCALE_IO, "fsType", Plain::Text("xfs")),
    (SCALE_IO, "storageMode", Plain::Text("ThinProvisioned")),
];

const ISCSI: &[&str] = &["core.v1.ISCSIPersistentVolumeSource", "core.v1.ISCSIVolumeSource"];
const RBD: &[&str] = &["core.v1.RBDPersistentVolumeSource", "core.v1.RBDVolumeSource"];
const SCALE_IO: &[&str] = &["core.v1.ScaleIOPersistentVolumeSource", "core.v1.ScaleIOVolumeSource"];
/// The types that refer to an object of the same namespace by its name alone.
const LOCAL_REFERENCES: &[&str] = &[
    "core.v1.ConfigMapEnvSource",
    "core.v1.ConfigMapKeySelector",
    "core.v1.ConfigMapProjection",
    "core.v1.ConfigMapVolumeSource",
    "core.v1.LocalObjectReference",
    "core.v1.SecretEnvSource",
    "core.v1.SecretKeySelector",
    "core.v1.SecretProjection",
];

enum Plain {
    Text(&'static str),
    Number(i32),
    No,
}

/// Types of which only one of some fields is set, and the field that says which, if there is one. A field is chosen by its
/// name with a capital letter.
const UNIONS: &[(&str, Option<&str>, &[&str])] = &[
    ("core.v1.AppArmorProfile", Some("type"), &["localhostProfile"]),
    ("core.v1.PodSchedulingGroup", None, &["podGroupName"]),
    ("core.v1.SeccompProfile", Some("type"), &["localhostProfile"]),
    ("flowcontrol.v1.LimitResponse", Some("type"), &["queuing"]),
    ("flowcontrol.v1.PriorityLevelConfigurationSpec", Some("type"), &["exempt", "limited"]),
    ("flowcontrol.v1.Subject", Some("kind"), &["group", "serviceAccount", "user"]),
];

/// The merging of fields by server-side apply, where it is declared although it is the default.
const TOPOLOGIES: &[(&str, &str, &str, &str)] = &[
    ("apiregistration.v1.APIServiceSpec", "caBundle", "x-kubernetes-list-type", "atomic"),
    ("core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses", "x-kubernetes-map-type", "granular"),
    ("core.v1.PersistentVolumeSpec", "claimRef", "x-kubernetes-map-type", "granular"),
];

/// The default of a field.
pub(super) fn default_of(ty: &str, field: &str) -> Option<Value> {
    let (_, _, default) = DEFAULTS.iter().find(|(types, name, _)| *name == field && types.contains(&ty))?;
    Some(match default {
        Plain::Text(text) => (*text).into(),
        Plain::Number(number) => (*number).into(),
        Plain::No => false.into(),
    })
}

/// The extension that says which fields of the type exclude each other.
pub(super) fn unions_of(ty: &str) -> Option<Value> {
    let (_, discriminator, fields) = UNIONS.iter().find(|(name, ..)| *name == ty)?;
    let chosen_by: Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), super::paths::capitalized(field).into())).collect();
    let mut union = json!({ "fields-to-discriminateBy": chosen_by });
    if let Some(discriminator) = discriminator {
        union["discriminator"] = (*discriminator).into();
    }
    Some(json!([union]))
}

/// The extension that says how server-side apply takes the field.
pub(super) fn topology_of(ty: &str, field: &str) -> Option<(String, Value)> {
    let (_, _, extension, value) =
        TOPOLOGIES.iter().find(|(owner, name, ..)| (*owner, *name) == (ty, field))?;
    Some(((*extension).to_owned(), (*value).into()))
}

#[cfg(test)]
mod tests {
    use keepwatch_registry::schema;

    use super::*;

    #[test]
    fn every_field_that_is_named_is_one_of_the_table() {
        let defaults =
            DEFAULTS.iter().flat_map(|(types, field, _)| types.iter().map(move |ty| (*ty, *field)));
        let unions = UNIONS.iter().flat_map(|(ty, discriminator, fields)| {
            discriminator.iter().chain(fields.iter()).map(move |field| (*ty, *field))
        });
        let topologies = TOPOLOGIES.iter().map(|(ty, field, ..)| (*ty, *field));
        for (ty, field) in defaults.chain(unions).chain(topologies) {
            let known = schema::lookup(ty).and_then(|ty| ty.json_field(field));
            assert!(known.is_some(), "{ty} {field}");
        }
    }
}
