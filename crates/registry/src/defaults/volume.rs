//! Defaults of volume sources, most of which pods and persistent volumes share.

use super::{image, storage};
use crate::document::{Edit, Fields, Object};
use serde_json::{Map, Value};

/// Permissions of files that the server's objects become: `rw-r--r--`.
const FILE_MODE: i64 = 0o644;
const TOKEN_LIFETIME_SECONDS: i64 = 3600;

/// A volume of a pod.
pub(crate) fn volume(volume: &mut Object) {
    if volume.iter().all(|(name, source)| name == "name" || source.is_null()) {
        volume.insert("emptyDir".to_owned(), Map::new().into());
    }
    sources(volume);
}

/// Sets the defaults of the volume sources among these fields.
pub(crate) fn sources(fields: &mut Object) {
    for (name, value) in fields {
        if let Some(source) = value.as_object_mut() {
            fill_source(name, source);
        }
    }
}

fn fill_source(name: &str, source: &mut Object) {
    match name {
        "hostPath" => source.set_default("type", ""),
        "secret" | "configMap" => source.set_default("defaultMode", FILE_MODE),
        "downwardAPI" => {
            source.set_default("defaultMode", FILE_MODE);
            downward_items(source);
        }
        "projected" => {
            source.set_default("defaultMode", FILE_MODE);
            for projection in source.objects_mut("sources") {
                fill_projection(projection);
            }
        }
        "image" => {
            let policy = image::pull_policy(source.text("reference"));
            source.set_if_zero("pullPolicy", policy);
        }
        "ephemeral" => {
            if let Some(template) = source.object_mut("volumeClaimTemplate") {
                storage::claim_spec(template);
            }
        }
        "iscsi" => source.set_if_zero("iscsiInterface", "default"),
        "rbd" => {
            source.set_if_zero("pool", "rbd");
            source.set_if_zero("user", "admin");
            source.set_if_zero("keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            source.set_default("cachingMode", "ReadWrite");
            source.set_default("fsType", "ext4");
            source.set_default("readOnly", false);
            source.set_default("kind", "Shared");
        }
        "scaleIO" => {
            source.set_if_zero("storageMode", "ThinProvisioned");
            source.set_if_zero("fsType", "xfs");
        }
        _ => {}
    }
}

fn fill_projection(projection: &mut Object) {
    if let Some(fields) = projection.object_mut("downwardAPI") {
        downward_items(fields);
    }
    if let Some(token) = projection.object_mut("serviceAccountToken") {
        token.set_default("expirationSeconds", TOKEN_LIFETIME_SECONDS);
    }
}

fn downward_items(source: &mut Object) {
    source.objects_mut("items").for_each(field_ref);
}

/// A reference to a field of the pod itself.
pub(crate) fn field_ref(owner: &mut Object) {
    if let Some(reference) = owner.object_mut("fieldRef") {
        reference.set_if_zero("apiVersion", Value::from("v1"));
    }
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
    use serde_json::{Value, json};

    fn check_volume(mut given: Value, mut wanted: Value) {
        given["name"] = json!("v");
        wanted["name"] = json!("v");
        check("core.v1.Pod", json!({"spec": {"volumes": [given]}}), "/spec/volumes/0", wanted.clone());
        check(
            "core.v1.PodTemplate",
            json!({"template": {"spec": {"volumes": [given]}}}),
            "/template/spec/volumes/0",
            wanted,
        );
    }

    #[test]
    fn a_volume_without_a_source_is_an_empty_directory() {
        check_volume(json!({}), json!({"emptyDir": {}}));
        check_volume(json!({"emptyDir": {"medium": "Memory"}}), json!({"emptyDir": {"medium": "Memory"}}));
        check_volume(
            json!({"nfs": {"server": "s", "path": "p"}}),
            json!({"nfs": {"server": "s", "path": "p"}}),
        );
    }

    #[test]
    fn files_made_of_objects_can_be_read_by_all() {
        for (source, item) in [("secret", json!({"secretName": "s"})), ("configMap", json!({"name": "c"}))] {
            let mut wanted = item.clone();
            wanted["defaultMode"] = json!(420);
            check_volume(json!({source: item}), json!({source: wanted}));
            check_volume(json!({source: {"defaultMode": 0}}), json!({source: {"defaultMode": 0}}));
        }
        check_volume(
            json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
            json!({"downwardAPI": {
                "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}],
                "defaultMode": 420,
            }}),
        );
        check_volume(
            json!({"projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                {"configMap": {"name": "c"}},
            ]}}),
            json!({"projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}]}},
                {"configMap": {"name": "c"}},
            ], "defaultMode": 420}}),
        );
    }

    #[test]
    fn other_sources_have_defaults_of_their_own() {
        check_volume(json!({"hostPath": {"path": "/p"}}), json!({"hostPath": {"path": "/p", "type": ""}}));
        check_volume(
            json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}),
            json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0, "iscsiInterface": "default"}}),
        );
        check_volume(
            json!({"rbd": {"monitors": ["m"], "image": "i", "user": "u"}}),
            json!({"rbd": {"monitors": ["m"], "image": "i", "pool": "rbd", "user": "u", "keyring": "/etc/ceph/keyring"}}),
        );
        check_volume(
            json!({"azureDisk": {"diskName": "d", "diskURI": "u", "readOnly": true}}),
            json!({"azureDisk": {"diskName": "d", "diskURI": "u", "readOnly": true, "cachingMode": "ReadWrite",
                "fsType": "ext4", "kind": "Shared"}}),
        );
        check_volume(
            json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": null}}),
            json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": null, "storageMode": "ThinProvisioned",
                "fsType": "xfs"}}),
        );
        check_volume(
            json!({"image": {"reference": "a"}}),
            json!({"image": {"reference": "a", "pullPolicy": "Always"}}),
        );
        check_volume(
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1u"}}}}}}),
            json!({"ephemeral": {"volumeClaimTemplate": {
                "metadata": {},
                "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1m"}}},
            }}}),
        );
    }
}
