//! The sources of volumes: a volume has exactly one, with the fields that it requires.

use crate::document::{FieldErrors, Fields, Node};
use std::collections::BTreeSet;

use super::{names, resources, selectors, storage};

const QUOBYTE_TENANT_BYTES_MAX: usize = 64;
const ONE_SOURCE: &str = "may not specify more than 1 volume type";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const TOKEN_SECONDS_MIN: i64 = 10 * 60;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const DRIVER_NAME_BYTES_MAX: usize = 63;
const ISCSI_NAME_BYTES_MAX: usize = 64;

/// A source of a volume.
struct Source {
    /// Its field.
    name: &'static str,
    /// The name of the field in the error about a second source.
    second: &'static str,
    /// The name of the field in errors about its contents.
    shown: &'static str,
    /// Text fields that must not be empty.
    required: &'static [&'static str],
    /// The rules for this source alone.
    own: fn(&Node, &mut FieldErrors),
}

const fn source(
    name: &'static str,
    required: &'static [&'static str],
    own: fn(&Node, &mut FieldErrors),
) -> Source {
    Source { name, second: name, shown: name, required, own }
}

fn no_own_rules(_: &Node, _: &mut FieldErrors) {}

const HOST_PATH: Source = source("hostPath", &[], host_path);
const GCE: Source = Source { shown: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], partition) };
const AWS: Source = source("awsElasticBlockStore", &["volumeID"], partition);
const NFS: Source = source("nfs", &["server", "path"], absolute_path);
const FLOCKER: Source = source("flocker", &[], flocker);
const QUOBYTE: Source = source("quobyte", &[], quobyte);
const FC: Source = source("fc", &[], fibre_channel);
const FLEX: Source = source("flexVolume", &["driver"], flex_options);
const VSPHERE: Source = source("vsphereVolume", &["volumePath"], no_own_rules);
const PHOTON: Source = source("photonPersistentDisk", &["pdID"], no_own_rules);
const PORTWORX: Source = source("portworxVolume", &["volumeID"], no_own_rules);
const AZURE_DISK: Source = source("azureDisk", &["diskName", "diskURI"], azure_disk);
const SCALE_IO: Source = source("scaleIO", &["gateway", "system", "volumeName"], no_own_rules);
const GLUSTER: Source = source("glusterfs", &["endpoints", "path"], no_own_rules);
const RBD: Source = source("rbd", &[], rbd);
const CEPH_FS: Source = Source { second: "cephFS", ..source("cephfs", &[], monitors) };
const AZURE_FILE: Source = source("azureFile", &["secretName", "shareName"], no_own_rules);
const STORAGE_OS: Source = source("storageos", &["volumeName"], storage_os);

/// The sources of a pod's volume.
static OF_PODS: &[Source] = &[
    source("emptyDir", &[], empty_dir),
    HOST_PATH,
    source("gitRepo", &["repository"], |at, errors| relative_path(&at.at("directory"), errors)),
    GCE,
    AWS,
    source("secret", &["secretName"], keys_and_mode),
    NFS,
    source("iscsi", &["targetPortal", "iqn"], iscsi_in_pod),
    GLUSTER,
    FLOCKER,
    source("persistentVolumeClaim", &["claimName"], no_own_rules),
    RBD,
    source("cinder", &["volumeID"], |at, errors| named_secret(at, false, errors)),
    CEPH_FS,
    QUOBYTE,
    Source { second: "downwarAPI", ..source("downwardAPI", &[], downward_api) },
    FC,
    FLEX,
    source("configMap", &["name"], keys_and_mode),
    AZURE_FILE,
    VSPHERE,
    PHOTON,
    PORTWORX,
    AZURE_DISK,
    STORAGE_OS,
    source("projected", &[], projected),
    SCALE_IO,
    source("csi", &[], csi_in_pod),
    source("ephemeral", &[], ephemeral),
    source("image", &[], no_own_rules),
];

/// The sources of a persistent volume.
static OF_VOLUMES: &[Source] = &[
    HOST_PATH,
    GCE,
    AWS,
    GLUSTER,
    FLOCKER,
    NFS,
    RBD,
    QUOBYTE,
    CEPH_FS,
    source("iscsi", &["targetPortal", "iqn"], iscsi_volume),
    source("cinder", &["volumeID"], |at, errors| named_secret(at, true, errors)),
    FC,
    FLEX,
    AZURE_FILE,
    VSPHERE,
    PHOTON,
    PORTWORX,
    AZURE_DISK,
    SCALE_IO,
    source("local", &["path"], |at, errors| no_parent_segments(&at.at("path"), errors)),
    source("storageos", &["volumeName"], |at, errors| {
        storage_os(at, errors);
        let secret = at.at("secretRef");
        if secret.exists() {
            errors.not_empty(&secret.at("namespace"));
        }
    }),
    source("csi", &[], csi_volume),
];

fn one_of(at: &Node, sources: &[Source], errors: &mut FieldErrors) {
    let mut found = false;
    for source in sources.iter().filter(|source| at.has(source.name)) {
        // Among persistent volumes, one of a plug-in is not counted.
        let is_counted = source.name != "flexVolume" || !std::ptr::eq(sources, OF_VOLUMES);
        if found && is_counted {
            errors.forbidden(&at.at(source.second), ONE_SOURCE);
            continue;
        }
        found = true;
        let given = at.at_as(source.name, source.shown);
        for field in source.required {
            errors.not_empty(&given.at(field));
        }
        (source.own)(&given, errors);
        if source.name == "local" && !at.has("nodeAffinity") {
            errors.required(&at.at("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errors.required(at, "must specify a volume type");
    }
}

/// The sources of a persistent volume, of which there is one.
pub(crate) fn persistent(spec: &Node, errors: &mut FieldErrors) {
    one_of(spec, OF_VOLUMES, errors);
}

/// Whether a field of a persistent volume's spec is a source.
pub(crate) fn is_persistent_source(name: &str) -> bool {
    OF_VOLUMES.iter().any(|source| source.name == name)
}

/// Validates the volumes of a pod. Returns the valid ones, which mounts can refer to, and whether each is a claim.
pub(crate) fn of_pod<'d>(
    spec: &Node<'d, '_>,
    pod: Option<&str>,
    errors: &mut FieldErrors,
) -> Vec<(&'d str, bool)> {
    let mut fine = Vec::new();
    for volume in spec.items("volumes") {
        let before = errors.0.len();
        one_of(&volume, OF_PODS, errors);
        pod_only(&volume, pod, errors);
        let name = volume.at("name");
        errors.valid_name(&name, names::label);
        if fine.iter().any(|(other, _)| *other == name.as_text()) {
            errors.duplicate(&name, name.as_text());
        }
        if errors.0.len() == before {
            fine.push((name.as_text(), volume.has("persistentVolumeClaim") || volume.has("ephemeral")));
        }
        if let Some(pod) = pod {
            claim_is_not_created(spec, &volume, pod, errors);
        }
    }
    fine
}

/// Validates what applies to a volume in a pod but not in a template.
fn pod_only(volume: &Node, pod: Option<&str>, errors: &mut FieldErrors) {
    let image = volume.at("image");
    let is_alone = || OF_PODS.iter().all(|source| source.name == "image" || !volume.has(source.name));
    if image.exists() && is_alone() {
        if pod.is_some() {
            errors.not_empty(&image.at("reference"));
        }
        errors.one_of(&image.at("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
    }
    let (Some(pod), name) = (pod, volume.text("name")) else { return };
    if volume.has("ephemeral") && !pod.is_empty() && !name.is_empty() {
        let claim = format!("{pod}-{name}");
        for error in names::subdomain(&claim) {
            errors.invalid(&volume.at("name"), name, &format!("PVC name \"{claim}\": {error}"));
        }
    }
}

fn claim_is_not_created(spec: &Node, volume: &Node, pod: &str, errors: &mut FieldErrors) {
    let claim = volume.at("persistentVolumeClaim.claimName");
    let created = |other: Node| {
        other.has("ephemeral")
            && claim.as_text().strip_prefix(pod).and_then(|rest| rest.strip_prefix('-'))
                == Some(other.text("name"))
    };
    if !claim.as_text().is_empty() && spec.items("volumes").any(created) {
        errors.invalid(
            &claim,
            claim.as_text(),
            "must not reference a PVC that gets created for an ephemeral volume",
        );
    }
}

fn empty_dir(at: &Node, errors: &mut FieldErrors) {
    let limit = at.at("sizeLimit");
    if resources::quantity(&limit).is_some_and(|quantity| quantity.is_negative()) {
        errors.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
    }
}

fn host_path(at: &Node, errors: &mut FieldErrors) {
    let path = at.at("path");
    if path.as_text().is_empty() {
        errors.required(&path, "");
        return;
    }
    no_parent_segments(&path, errors);
    let kinds =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    errors.one_of_if_set(&at.at("type"), &kinds);
}

fn partition(at: &Node, errors: &mut FieldErrors) {
    let partition = at.at("partition");
    if let Some(number) = partition.as_number().filter(|number| !(0..=255).contains(number)) {
        errors.invalid(&partition, number, "must be between 1 and 255, inclusive");
    }
}

fn absolute_path(at: &Node, errors: &mut FieldErrors) {
    let path = at.at("path");
    if !path.as_text().starts_with('/') {
        errors.invalid(&path, path.as_text(), "must be an absolute path");
    }
}

/// Validates a relative path without `..`.
pub(crate) fn relative_path(path: &Node, errors: &mut FieldErrors) {
    if path.as_text().starts_with('/') {
        errors.invalid(path, path.as_text(), "must be a relative path");
    }
    no_parent_segments(path, errors);
}

/// A path without `..`.
pub(crate) fn no_parent_segments(path: &Node, errors: &mut FieldErrors) {
    if path.as_text().split('/').any(|part| part == "..") {
        errors.invalid(path, path.as_text(), "must not contain '..'");
    }
}

fn file_path(path: &Node, errors: &mut FieldErrors) {
    relative_path(path, errors);
    if path.as_text().starts_with("..") && !path.as_text().starts_with("../") {
        errors.invalid(path, path.as_text(), "must not start with '..'");
    }
}

fn mode(mode: &Node, errors: &mut FieldErrors) {
    if let Some(number) = mode.as_number().filter(|number| !(0..=0o777).contains(number)) {
        errors.invalid(mode, number, FILE_MODE);
    }
}

fn keys_and_mode(at: &Node, errors: &mut FieldErrors) {
    mode(&at.at("defaultMode"), errors);
    for item in at.items("items") {
        key_to_path(&item, errors);
    }
}

fn key_to_path(item: &Node, errors: &mut FieldErrors) {
    errors.not_empty(&item.at("key"));
    errors.not_empty(&item.at("path"));
    file_path(&item.at("path"), errors);
    mode(&item.at("mode"), errors);
}

fn named_secret(at: &Node, with_namespace: bool, errors: &mut FieldErrors) {
    let secret = at.at("secretRef");
    if secret.exists() {
        errors.not_empty(&secret.at("name"));
        if with_namespace {
            errors.not_empty(&secret.at("namespace"));
        }
    }
}

fn monitors(at: &Node, errors: &mut FieldErrors) {
    if at.length("monitors") == 0 {
        errors.required(&at.at("monitors"), "");
    }
}

fn rbd(at: &Node, errors: &mut FieldErrors) {
    monitors(at, errors);
    errors.not_empty(&at.at("image"));
}

fn quobyte(at: &Node, errors: &mut FieldErrors) {
    let (registry, tenant) = (at.at("registry"), at.at("tenant"));
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if registry.as_text().is_empty() {
        errors.required(&registry, pairs);
    } else if tenant.as_text().len() > QUOBYTE_TENANT_BYTES_MAX {
        errors.required(&tenant, "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.as_text().split(',').filter(|pair| !pair.contains(':')) {
            errors.invalid(&registry, registry.as_text(), pairs);
        }
    }
    errors.not_empty(&at.at("volume"));
}

fn flocker(at: &Node, errors: &mut FieldErrors) {
    match (at.text("datasetName"), at.text("datasetUUID")) {
        ("", "") => errors.required(at, "one of datasetName and datasetUUID is required"),
        ("", _) | (_, "") => {}
        _ => {
            errors.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
        }
    }
}

fn iscsi_name(at: &Node, wrong_prefix: &str, errors: &mut FieldErrors) {
    let text = at.as_text();
    if !["iqn", "eui", "naa"].iter().any(|prefix| text.starts_with(prefix)) {
        errors.invalid(at, text, wrong_prefix);
        return;
    }
    let hex =
        |length: usize| text.len() == 4 + length && text[4..].bytes().all(|b| b.is_ascii_alphanumeric());
    let fine = match &text[..3] {
        "iqn" => {
            text.split_once(':').is_some_and(|(name, rest)| name.split('.').count() > 2 && !rest.is_empty())
        }
        "eui" => text.is_ascii() && hex(16),
        _ => text.is_ascii() && hex(32),
    };
    if !fine {
        errors.invalid(at, text, "must be valid format");
    }
}

/// An iSCSI source in a pod, whose error messages differ from those of a volume.
fn iscsi_in_pod(at: &Node, errors: &mut FieldErrors) {
    iscsi(at, "must be valid format starting with iqn, eui, or naa", errors);
}

fn iscsi_volume(at: &Node, errors: &mut FieldErrors) {
    iscsi(at, "must be valid format", errors);
}

fn iscsi(at: &Node, wrong_prefix: &str, errors: &mut FieldErrors) {
    if !at.text("iqn").is_empty() {
        iscsi_name(&at.at("iqn"), wrong_prefix, errors);
    }
    errors.in_range(&at.at("lun"), 0, 255);
    if (at.flag("chapAuthDiscovery") || at.flag("chapAuthSession")) && !at.has("secretRef") {
        errors.required(&at.at("secretRef"), "");
    }
    // Only a volume's secret has to be named.
    if wrong_prefix == "must be valid format" {
        named_secret(at, false, errors);
    }
    let initiator = at.at_as("initiatorName", "initiatorname");
    if initiator.exists() {
        iscsi_name(&initiator, wrong_prefix, errors);
        if at.text("targetPortal").len() >= ISCSI_NAME_BYTES_MAX {
            errors.invalid(
                &at.at_as("targetPortal", "targetportal"),
                at.text("targetPortal"),
                "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
            );
        }
    }
}

fn fibre_channel(at: &Node, errors: &mut FieldErrors) {
    let names = at.at("targetWWNs");
    match (at.length("targetWWNs"), at.length("wwids")) {
        (0, 0) => errors.required(&names, "must specify either targetWWNs or wwids, but not both"),
        (0, _) | (_, 0) => {}
        _ => errors.invalid(
            &names,
            names.value.clone(),
            "targetWWNs and wwids can not be specified simultaneously",
        ),
    }
    if at.length("targetWWNs") > 0 {
        if !at.has("lun") {
            errors.required(&at.at("lun"), "lun is required if targetWWNs is specified");
        }
        errors.in_range(&at.at("lun"), 0, 255);
    }
}

fn flex_options(at: &Node, errors: &mut FieldErrors) {
    for (key, option) in at.entries("options") {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_ascii_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid(&option, key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(at: &Node, errors: &mut FieldErrors) {
    errors.one_of_if_set(&at.at("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    errors.one_of_if_set(&at.at("kind"), &["Dedicated", "Managed", "Shared"]);
    let (disk, uri) = (at.at("diskURI"), at.text("diskURI"));
    match at.text("kind") {
        _ if !at.has("kind") => {}
        "Managed" if !uri.starts_with("/subscriptions/") => errors.not_supported(
            &disk,
            uri,
            &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"],
        ),
        "Managed" => {}
        _ if !uri.starts_with("https://") => errors.not_supported(
            &disk,
            uri,
            &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
        ),
        _ => {}
    }
}

fn storage_os(at: &Node, errors: &mut FieldErrors) {
    errors.valid_if_set(&at.at("volumeName"), names::label);
    errors.valid_if_set(&at.at("volumeNamespace"), names::label);
    named_secret(at, false, errors);
}

/// The name of a driver for storage.
pub(crate) fn driver_name(at: &Node, errors: &mut FieldErrors) {
    errors.not_empty(at);
    if !at.as_text().is_empty() {
        driver_name_text(at.as_text(), at, errors);
    }
}

/// The name of a driver that is part of another text.
pub(crate) fn driver_name_text(text: &str, at: &Node, errors: &mut FieldErrors) {
    if text.len() > DRIVER_NAME_BYTES_MAX {
        errors.too_long(at, DRIVER_NAME_BYTES_MAX);
    }
    for error in names::subdomain(&text.to_ascii_lowercase()) {
        errors.invalid(at, text, &error);
    }
}

fn csi_in_pod(at: &Node, errors: &mut FieldErrors) {
    driver_name(&at.at("driver"), errors);
    let secret = at.at("nodePublishSecretRef");
    if secret.exists() && secret.text("name").is_empty() {
        errors.required(&secret.at("name"), "");
    } else if secret.exists() {
        // The path of the error lacks the field that has the name.
        for error in names::subdomain(secret.text("name")) {
            errors.invalid(&at.at("name"), secret.text("name"), &error);
        }
    }
}

fn csi_volume(at: &Node, errors: &mut FieldErrors) {
    driver_name(&at.at("driver"), errors);
    errors.not_empty(&at.at("volumeHandle"));
    let secrets = [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ];
    for name in secrets {
        let secret = at.at(name);
        if secret.exists() {
            errors.valid_name(&secret.at("name"), names::subdomain);
            errors.valid_name(&secret.at("namespace"), names::label);
        }
    }
}

fn ephemeral(at: &Node, errors: &mut FieldErrors) {
    let template = at.at("volumeClaimTemplate");
    if template.exists() {
        storage::claim_template(&template, errors);
    } else {
        errors.required(&template, "");
    }
}

/// Files of a downward API volume. The paths of errors have no index.
fn downward_api(at: &Node, errors: &mut FieldErrors) {
    mode(&at.at("defaultMode"), errors);
    for file in at.items("items") {
        downward_file(&file, at, errors);
    }
}

/// Errors of a file are reported at the volume, without the index of the file in the list, as in Kubernetes.
fn downward_file(file: &Node, reported_at: &Node, errors: &mut FieldErrors) {
    let file = &reported_at.with(file.value);
    errors.not_empty(&file.at("path"));
    file_path(&file.at("path"), errors);
    let known =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, both) => {
            super::containers::field_reference(&file.at("fieldRef"), &known, errors);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(reported_at, "resource", detail);
            }
        }
        (false, true) => super::containers::resource_reference(&file.at("resourceFieldRef"), true, errors),
        (false, false) => errors.required(reported_at, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(&file.at("mode"), errors);
}

fn projected(at: &Node, errors: &mut FieldErrors) {
    mode(&at.at("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for part in at.items("sources") {
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        for name in ["secret", "configMap"] {
            let listed = part.at(name);
            if listed.exists() {
                errors.not_empty(&listed.at("name"));
                for item in listed.items("items") {
                    key_to_path(&item, errors);
                    path_is_free(at, item.text("path"), listed.text("name"), &mut paths, errors);
                }
            }
        }
        let downward = part.at("downwardAPI");
        for file in downward.items("items") {
            downward_file(&file, &downward, errors);
            path_is_free(at, file.text("path"), file.text("path"), &mut paths, errors);
        }
        projected_token(&part.at("serviceAccountToken"), at, errors);
        trust_bundle(&part.at("clusterTrustBundle"), errors);
        if kinds.iter().filter(|kind| part.has(kind)).count() > 1 {
            errors.forbidden(&part, "may not specify more than 1 volume type per source");
        }
    }
}

fn path_is_free<'d>(
    at: &Node,
    path: &'d str,
    value: &str,
    paths: &mut BTreeSet<&'d str>,
    errors: &mut FieldErrors,
) {
    if !path.is_empty() && !paths.insert(path) {
        errors.invalid(at, value, "conflicting duplicate paths");
    }
}

/// A projected token. An error of its path has the path of the volume, as in Kubernetes.
fn projected_token(token: &Node, volume: &Node, errors: &mut FieldErrors) {
    if !token.exists() {
        return;
    }
    let seconds = token.at("expirationSeconds");
    match token.number("expirationSeconds") {
        number if number < TOKEN_SECONDS_MIN => {
            errors.invalid(&seconds, number, "may not specify a duration less than 10 minutes");
        }
        number if number > TOKEN_SECONDS_MAX => {
            errors.invalid(&seconds, number, "may not specify a duration larger than 2^32 seconds");
        }
        _ => {}
    }
    if token.text("path").is_empty() {
        errors.required(&volume.at("path"), "");
    } else {
        file_path(&token.at("path"), errors);
    }
}

fn trust_bundle(bundle: &Node, errors: &mut FieldErrors) {
    if !bundle.exists() {
        return;
    }
    match (bundle.has("name"), bundle.has("signerName")) {
        (true, true) => {
            errors.invalid(bundle, bundle.value.clone(), "only one of name and signerName may be used")
        }
        (true, false) if bundle.has("labelSelector") => errors.invalid(
            &bundle.at("labelSelector"),
            bundle.at("labelSelector").value.clone(),
            "labelSelector must be unset if name is specified",
        ),
        (true, false) => {}
        (false, true) => selectors::label_selector(&bundle.at("labelSelector"), errors),
        (false, false) => errors.required(bundle, "either name or signerName must be specified"),
    }
    errors.not_empty(&bundle.at("path"));
    file_path(&bundle.at("path"), errors);
}
