//! Where the data of a volume comes from: exactly one source, which says enough.

use std::collections::BTreeSet;

use super::{
    document::{Faults, Node},
    names, resources, selectors, storage,
};

const QUOBYTE_TENANT_BYTES_MAX: usize = 64;
const ONE_SOURCE: &str = "may not specify more than 1 volume type";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const TOKEN_SECONDS_MIN: i64 = 10 * 60;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const DRIVER_NAME_BYTES_MAX: usize = 63;
const ISCSI_NAME_BYTES_MAX: usize = 64;

/// Where a volume's data can come from.
struct Source {
    /// The field that says so.
    name: &'static str,
    /// What the field is called when there is another source already.
    second: &'static str,
    /// What the field is called when something in it is wrong.
    shown: &'static str,
    /// Texts that have to be given in it.
    required: &'static [&'static str],
    /// What else has to hold.
    own: fn(&Node, &mut Faults),
}

const fn source(
    name: &'static str,
    required: &'static [&'static str],
    own: fn(&Node, &mut Faults),
) -> Source {
    Source { name, second: name, shown: name, required, own }
}

fn nothing_more(_: &Node, _: &mut Faults) {}

const HOST_PATH: Source = source("hostPath", &[], host_path);
const GCE: Source = Source { shown: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], partition) };
const AWS: Source = source("awsElasticBlockStore", &["volumeID"], partition);
const NFS: Source = source("nfs", &["server", "path"], absolute_path);
const FLOCKER: Source = source("flocker", &[], flocker);
const QUOBYTE: Source = source("quobyte", &[], quobyte);
const FC: Source = source("fc", &[], fibre_channel);
const FLEX: Source = source("flexVolume", &["driver"], flex_options);
const VSPHERE: Source = source("vsphereVolume", &["volumePath"], nothing_more);
const PHOTON: Source = source("photonPersistentDisk", &["pdID"], nothing_more);
const PORTWORX: Source = source("portworxVolume", &["volumeID"], nothing_more);
const AZURE_DISK: Source = source("azureDisk", &["diskName", "diskURI"], azure_disk);
const SCALE_IO: Source = source("scaleIO", &["gateway", "system", "volumeName"], nothing_more);
const GLUSTER: Source = source("glusterfs", &["endpoints", "path"], nothing_more);
const RBD: Source = source("rbd", &[], rbd);
const CEPH_FS: Source = Source { second: "cephFS", ..source("cephfs", &[], monitors) };
const AZURE_FILE: Source = source("azureFile", &["secretName", "shareName"], nothing_more);
const STORAGE_OS: Source = source("storageos", &["volumeName"], storage_os);

/// The sources of a pod's volume.
static OF_PODS: &[Source] = &[
    source("emptyDir", &[], empty_dir),
    HOST_PATH,
    source("gitRepo", &["repository"], |at, faults| relative_path(&at.at("directory"), faults)),
    GCE,
    AWS,
    source("secret", &["secretName"], keys_and_mode),
    NFS,
    source("iscsi", &["targetPortal", "iqn"], iscsi_in_pod),
    GLUSTER,
    FLOCKER,
    source("persistentVolumeClaim", &["claimName"], nothing_more),
    RBD,
    source("cinder", &["volumeID"], |at, faults| named_secret(at, false, faults)),
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
    source("image", &[], nothing_more),
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
    source("cinder", &["volumeID"], |at, faults| named_secret(at, true, faults)),
    FC,
    FLEX,
    AZURE_FILE,
    VSPHERE,
    PHOTON,
    PORTWORX,
    AZURE_DISK,
    SCALE_IO,
    source("local", &["path"], |at, faults| no_steps_back(&at.at("path"), faults)),
    source("storageos", &["volumeName"], |at, faults| {
        storage_os(at, faults);
        let secret = at.at("secretRef");
        if secret.exists() {
            faults.given(&secret.at("namespace"));
        }
    }),
    source("csi", &[], csi_volume),
];

fn one_of(at: &Node, sources: &[Source], faults: &mut Faults) {
    let mut found = false;
    for source in sources.iter().filter(|source| at.has(source.name)) {
        // Among persistent volumes, one of a plug-in is not counted.
        let is_counted = source.name != "flexVolume" || !std::ptr::eq(sources, OF_VOLUMES);
        if found && is_counted {
            faults.forbidden(&at.at(source.second), ONE_SOURCE);
            continue;
        }
        found = true;
        let given = at.at_as(source.name, source.shown);
        for field in source.required {
            faults.given(&given.at(field));
        }
        (source.own)(&given, faults);
        if source.name == "local" && !at.has("nodeAffinity") {
            faults.required(&at.at("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        faults.required(at, "must specify a volume type");
    }
}

/// The sources of a persistent volume, of which there is one.
pub(crate) fn persistent(spec: &Node, faults: &mut Faults) {
    one_of(spec, OF_VOLUMES, faults);
}

/// Whether the field of a persistent volume's spec says where its data comes from.
pub(crate) fn is_persistent_source(name: &str) -> bool {
    OF_VOLUMES.iter().any(|source| source.name == name)
}

/// The volumes of a pod. What comes back are those that mounts can name, and whether each is claimed.
pub(crate) fn of_pod<'d>(
    spec: &Node<'d, '_>,
    pod: Option<&str>,
    faults: &mut Faults,
) -> Vec<(&'d str, bool)> {
    let mut fine = Vec::new();
    for volume in spec.items("volumes") {
        let before = faults.0.len();
        one_of(&volume, OF_PODS, faults);
        pod_only(&volume, pod, faults);
        let name = volume.at("name");
        faults.named(&name, names::label);
        if fine.iter().any(|(other, _)| *other == name.text()) {
            faults.duplicate(&name, name.text());
        }
        if faults.0.len() == before {
            fine.push((name.text(), volume.has("persistentVolumeClaim") || volume.has("ephemeral")));
        }
        if let Some(pod) = pod {
            claim_is_not_created(spec, &volume, pod, faults);
        }
    }
    fine
}

/// What holds for a volume in a pod, though not in a template.
fn pod_only(volume: &Node, pod: Option<&str>, faults: &mut Faults) {
    let image = volume.at("image");
    let is_alone = || OF_PODS.iter().all(|source| source.name == "image" || !volume.has(source.name));
    if image.exists() && is_alone() {
        if pod.is_some() {
            faults.given(&image.at("reference"));
        }
        faults.one_of(&image.at("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
    }
    let (Some(pod), name) = (pod, volume.text_of("name")) else { return };
    if volume.has("ephemeral") && !pod.is_empty() && !name.is_empty() {
        let claim = format!("{pod}-{name}");
        for fault in names::subdomain(&claim) {
            faults.invalid(&volume.at("name"), name, &format!("PVC name \"{claim}\": {fault}"));
        }
    }
}

fn claim_is_not_created(spec: &Node, volume: &Node, pod: &str, faults: &mut Faults) {
    let claim = volume.at("persistentVolumeClaim.claimName");
    let created = |other: Node| {
        other.has("ephemeral")
            && claim.text().strip_prefix(pod).and_then(|rest| rest.strip_prefix('-'))
                == Some(other.text_of("name"))
    };
    if !claim.text().is_empty() && spec.items("volumes").any(created) {
        faults.invalid(
            &claim,
            claim.text(),
            "must not reference a PVC that gets created for an ephemeral volume",
        );
    }
}

fn empty_dir(at: &Node, faults: &mut Faults) {
    let limit = at.at("sizeLimit");
    if resources::quantity(&limit).is_some_and(|quantity| quantity.is_negative()) {
        faults.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
    }
}

fn host_path(at: &Node, faults: &mut Faults) {
    let path = at.at("path");
    if path.text().is_empty() {
        faults.required(&path, "");
        return;
    }
    no_steps_back(&path, faults);
    let kinds =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    faults.if_given_one_of(&at.at("type"), &kinds);
}

fn partition(at: &Node, faults: &mut Faults) {
    let partition = at.at("partition");
    if let Some(number) = partition.number().filter(|number| !(0..=255).contains(number)) {
        faults.invalid(&partition, number, "must be between 1 and 255, inclusive");
    }
}

fn absolute_path(at: &Node, faults: &mut Faults) {
    let path = at.at("path");
    if !path.text().starts_with('/') {
        faults.invalid(&path, path.text(), "must be an absolute path");
    }
}

/// A path that leads down from where it starts.
pub(crate) fn relative_path(path: &Node, faults: &mut Faults) {
    if path.text().starts_with('/') {
        faults.invalid(path, path.text(), "must be a relative path");
    }
    no_steps_back(path, faults);
}

/// A path without `..`.
pub(crate) fn no_steps_back(path: &Node, faults: &mut Faults) {
    if path.text().split('/').any(|part| part == "..") {
        faults.invalid(path, path.text(), "must not contain '..'");
    }
}

fn file_path(path: &Node, faults: &mut Faults) {
    relative_path(path, faults);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        faults.invalid(path, path.text(), "must not start with '..'");
    }
}

fn mode(mode: &Node, faults: &mut Faults) {
    if let Some(number) = mode.number().filter(|number| !(0..=0o777).contains(number)) {
        faults.invalid(mode, number, FILE_MODE);
    }
}

fn keys_and_mode(at: &Node, faults: &mut Faults) {
    mode(&at.at("defaultMode"), faults);
    for item in at.items("items") {
        key_to_path(&item, faults);
    }
}

fn key_to_path(item: &Node, faults: &mut Faults) {
    faults.given(&item.at("key"));
    faults.given(&item.at("path"));
    file_path(&item.at("path"), faults);
    mode(&item.at("mode"), faults);
}

fn named_secret(at: &Node, with_namespace: bool, faults: &mut Faults) {
    let secret = at.at("secretRef");
    if secret.exists() {
        faults.given(&secret.at("name"));
        if with_namespace {
            faults.given(&secret.at("namespace"));
        }
    }
}

fn monitors(at: &Node, faults: &mut Faults) {
    if at.len_of("monitors") == 0 {
        faults.required(&at.at("monitors"), "");
    }
}

fn rbd(at: &Node, faults: &mut Faults) {
    monitors(at, faults);
    faults.given(&at.at("image"));
}

fn quobyte(at: &Node, faults: &mut Faults) {
    let (registry, tenant) = (at.at("registry"), at.at("tenant"));
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if registry.text().is_empty() {
        faults.required(&registry, pairs);
    } else if tenant.text().len() > QUOBYTE_TENANT_BYTES_MAX {
        faults.required(&tenant, "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.text().split(',').filter(|pair| !pair.contains(':')) {
            faults.invalid(&registry, registry.text(), pairs);
        }
    }
    faults.given(&at.at("volume"));
}

fn flocker(at: &Node, faults: &mut Faults) {
    match (at.text_of("datasetName"), at.text_of("datasetUUID")) {
        ("", "") => faults.required(at, "one of datasetName and datasetUUID is required"),
        ("", _) | (_, "") => {}
        _ => {
            faults.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
        }
    }
}

fn iscsi_name(at: &Node, wrong_prefix: &str, faults: &mut Faults) {
    let text = at.text();
    if !["iqn", "eui", "naa"].iter().any(|prefix| text.starts_with(prefix)) {
        faults.invalid(at, text, wrong_prefix);
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
        faults.invalid(at, text, "must be valid format");
    }
}

/// In a pod, which is told more about names than a volume is.
fn iscsi_in_pod(at: &Node, faults: &mut Faults) {
    iscsi(at, "must be valid format starting with iqn, eui, or naa", faults);
}

fn iscsi_volume(at: &Node, faults: &mut Faults) {
    iscsi(at, "must be valid format", faults);
}

fn iscsi(at: &Node, wrong_prefix: &str, faults: &mut Faults) {
    if !at.text_of("iqn").is_empty() {
        iscsi_name(&at.at("iqn"), wrong_prefix, faults);
    }
    faults.in_range(&at.at("lun"), 0, 255);
    if (at.flag("chapAuthDiscovery") || at.flag("chapAuthSession")) && !at.has("secretRef") {
        faults.required(&at.at("secretRef"), "");
    }
    // Only a volume's secret has to be named.
    if wrong_prefix == "must be valid format" {
        named_secret(at, false, faults);
    }
    let initiator = at.at_as("initiatorName", "initiatorname");
    if initiator.exists() {
        iscsi_name(&initiator, wrong_prefix, faults);
        if at.text_of("targetPortal").len() >= ISCSI_NAME_BYTES_MAX {
            faults.invalid(
                &at.at_as("targetPortal", "targetportal"),
                at.text_of("targetPortal"),
                "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
            );
        }
    }
}

fn fibre_channel(at: &Node, faults: &mut Faults) {
    let names = at.at("targetWWNs");
    match (at.len_of("targetWWNs"), at.len_of("wwids")) {
        (0, 0) => faults.required(&names, "must specify either targetWWNs or wwids, but not both"),
        (0, _) | (_, 0) => {}
        _ => faults.invalid(
            &names,
            names.value.clone(),
            "targetWWNs and wwids can not be specified simultaneously",
        ),
    }
    if at.len_of("targetWWNs") > 0 {
        if !at.has("lun") {
            faults.required(&at.at("lun"), "lun is required if targetWWNs is specified");
        }
        faults.in_range(&at.at("lun"), 0, 255);
    }
}

fn flex_options(at: &Node, faults: &mut Faults) {
    for (key, option) in at.entries("options") {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_ascii_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            faults.invalid(&option, key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(at: &Node, faults: &mut Faults) {
    faults.if_given_one_of(&at.at("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    faults.if_given_one_of(&at.at("kind"), &["Dedicated", "Managed", "Shared"]);
    let (disk, uri) = (at.at("diskURI"), at.text_of("diskURI"));
    match at.text_of("kind") {
        _ if !at.has("kind") => {}
        "Managed" if !uri.starts_with("/subscriptions/") => faults.not_supported(
            &disk,
            uri,
            &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"],
        ),
        "Managed" => {}
        _ if !uri.starts_with("https://") => faults.not_supported(
            &disk,
            uri,
            &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
        ),
        _ => {}
    }
}

fn storage_os(at: &Node, faults: &mut Faults) {
    faults.if_given(&at.at("volumeName"), names::label);
    faults.if_given(&at.at("volumeNamespace"), names::label);
    named_secret(at, false, faults);
}

/// The name of a driver for storage.
pub(crate) fn driver_name(at: &Node, faults: &mut Faults) {
    faults.given(at);
    if !at.text().is_empty() {
        driver_name_text(at.text(), at, faults);
    }
}

/// The name of a driver that is part of another text.
pub(crate) fn driver_name_text(text: &str, at: &Node, faults: &mut Faults) {
    if text.len() > DRIVER_NAME_BYTES_MAX {
        faults.too_long(at, DRIVER_NAME_BYTES_MAX);
    }
    for fault in names::subdomain(&text.to_ascii_lowercase()) {
        faults.invalid(at, text, &fault);
    }
}

fn csi_in_pod(at: &Node, faults: &mut Faults) {
    driver_name(&at.at("driver"), faults);
    let secret = at.at("nodePublishSecretRef");
    if secret.exists() && secret.text_of("name").is_empty() {
        faults.required(&secret.at("name"), "");
    } else if secret.exists() {
        // The name is blamed without the field that it is in.
        for fault in names::subdomain(secret.text_of("name")) {
            faults.invalid(&at.at("name"), secret.text_of("name"), &fault);
        }
    }
}

fn csi_volume(at: &Node, faults: &mut Faults) {
    driver_name(&at.at("driver"), faults);
    faults.given(&at.at("volumeHandle"));
    let secrets = [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ];
    for name in secrets {
        let secret = at.at(name);
        if secret.exists() {
            faults.named(&secret.at("name"), names::subdomain);
            faults.named(&secret.at("namespace"), names::label);
        }
    }
}

fn ephemeral(at: &Node, faults: &mut Faults) {
    let template = at.at("volumeClaimTemplate");
    if template.exists() {
        storage::claim_template(&template, faults);
    } else {
        faults.required(&template, "");
    }
}

/// Files are blamed at their list: their paths have no index.
fn downward_api(at: &Node, faults: &mut Faults) {
    mode(&at.at("defaultMode"), faults);
    for file in at.items("items") {
        downward_file(&file, at, faults);
    }
}

/// Faults of a file are reported at the volume, without the file's place in the list, as upstream does.
fn downward_file(file: &Node, blamed: &Node, faults: &mut Faults) {
    let file = &blamed.with(file.value);
    faults.given(&file.at("path"));
    file_path(&file.at("path"), faults);
    let known =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, both) => {
            super::containers::field_reference(&file.at("fieldRef"), &known, faults);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                faults.invalid(blamed, "resource", detail);
            }
        }
        (false, true) => super::containers::resource_reference(&file.at("resourceFieldRef"), true, faults),
        (false, false) => faults.required(blamed, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(&file.at("mode"), faults);
}

fn projected(at: &Node, faults: &mut Faults) {
    mode(&at.at("defaultMode"), faults);
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
                faults.given(&listed.at("name"));
                for item in listed.items("items") {
                    key_to_path(&item, faults);
                    path_is_free(at, item.text_of("path"), listed.text_of("name"), &mut paths, faults);
                }
            }
        }
        let downward = part.at("downwardAPI");
        for file in downward.items("items") {
            downward_file(&file, &downward, faults);
            path_is_free(at, file.text_of("path"), file.text_of("path"), &mut paths, faults);
        }
        projected_token(&part.at("serviceAccountToken"), at, faults);
        trust_bundle(&part.at("clusterTrustBundle"), faults);
        if kinds.iter().filter(|kind| part.has(kind)).count() > 1 {
            faults.forbidden(&part, "may not specify more than 1 volume type per source");
        }
    }
}

fn path_is_free<'d>(
    at: &Node,
    path: &'d str,
    value: &str,
    paths: &mut BTreeSet<&'d str>,
    faults: &mut Faults,
) {
    if !path.is_empty() && !paths.insert(path) {
        faults.invalid(at, value, "conflicting duplicate paths");
    }
}

/// The path of a token is blamed at the volume, as upstream has it.
fn projected_token(token: &Node, volume: &Node, faults: &mut Faults) {
    if !token.exists() {
        return;
    }
    let seconds = token.at("expirationSeconds");
    match token.number_of("expirationSeconds") {
        number if number < TOKEN_SECONDS_MIN => {
            faults.invalid(&seconds, number, "may not specify a duration less than 10 minutes");
        }
        number if number > TOKEN_SECONDS_MAX => {
            faults.invalid(&seconds, number, "may not specify a duration larger than 2^32 seconds");
        }
        _ => {}
    }
    if token.text_of("path").is_empty() {
        faults.required(&volume.at("path"), "");
    } else {
        file_path(&token.at("path"), faults);
    }
}

fn trust_bundle(bundle: &Node, faults: &mut Faults) {
    if !bundle.exists() {
        return;
    }
    match (bundle.has("name"), bundle.has("signerName")) {
        (true, true) => {
            faults.invalid(bundle, bundle.value.clone(), "only one of name and signerName may be used")
        }
        (true, false) if bundle.has("labelSelector") => faults.invalid(
            &bundle.at("labelSelector"),
            bundle.at("labelSelector").value.clone(),
            "labelSelector must be unset if name is specified",
        ),
        (true, false) => {}
        (false, true) => selectors::label_selector(&bundle.at("labelSelector"), faults),
        (false, false) => faults.required(bundle, "either name or signerName must be specified"),
    }
    faults.given(&bundle.at("path"));
    file_path(&bundle.at("path"), faults);
}
