//! The security context of a pod, and the fields that its operating system does not support.

use super::{pod::all_containers, volumes};
use crate::document::{FieldErrors, Fields, Node};
use std::collections::BTreeSet;

const CANNOT_BE_WINDOWS: &str = "cannot be set for a windows pod";

pub(super) fn security(spec: &Node, errors: &mut FieldErrors) {
    let context = spec.at("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        errors.in_range(&context.at(name), 0, i64::from(i32::MAX));
    }
    for group in context.items("supplementalGroups") {
        errors.in_range(&group, 0, i64::from(i32::MAX));
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&context.at("shareProcessNamespace"), true, detail);
    }
    sysctls(spec, &context, errors);
    errors.one_of_if_set(&context.at("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp(&context.at("seccompProfile"), errors);
    super::windows::options(&context.at("windowsOptions"), errors);
    app_armor(&context.at("appArmorProfile"), errors);
    errors.one_of_if_set(&context.at("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    // The feature gate for the mount option is off by default, but a stored object may have it.
    if context.text("seLinuxChangePolicy") != "MountOption" {
        errors.one_of_if_set(&context.at("seLinuxChangePolicy"), &["Recursive"]);
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

fn sysctls(spec: &Node, context: &Node, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.at("name");
        let text = name.as_text();
        if text.is_empty() {
            errors.required(&name, "");
        } else if !is_sysctl(text) {
            let detail = "must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&name, text, detail);
        } else if !taken.insert(text) {
            errors.duplicate(&name, text);
        }
        if spec.flag("hostNetwork") && text.starts_with("net.") {
            errors.invalid(&name, text, "may not be specified when 'hostNetwork' is true");
        } else if spec.flag("hostIPC")
            && (text.starts_with("kernel.shm")
                || text.starts_with("kernel.msg")
                || text == "kernel.sem"
                || text.starts_with("fs.mqueue."))
        {
            errors.invalid(&name, text, "may not be specified when 'hostIPC' is true");
        }
    }
}

/// Validates a seccomp profile.
pub(crate) fn seccomp(profile: &Node, errors: &mut FieldErrors) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    match kind.as_text() {
        "" => errors.required(&kind, "type is required when seccompProfile is set"),
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        other => errors.not_supported(&kind, other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    match (kind.as_text() == "Localhost", local.exists()) {
        (true, false) => errors.required(&local, "must be set when seccomp type is Localhost"),
        (true, true) => volumes::relative_path(&local, errors),
        (false, true) => {
            errors.invalid(&local, profile.value.clone(), "can only be set when seccomp type is Localhost");
        }
        (false, false) => {}
    }
}

/// Validates an AppArmor profile.
pub(crate) fn app_armor(profile: &Node, errors: &mut FieldErrors) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    match kind.as_text() {
        "Localhost" if local.as_text().trim().len() != local.as_text().len() => {
            errors.invalid(&local, local.as_text(), "must not be padded with whitespace");
        }
        "Localhost" if local.as_text().is_empty() => {
            errors.required(&local, "must be set when AppArmor type is Localhost");
        }
        "Localhost" if local.as_text().len() > 4095 => errors.too_long(&local, 4095),
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" if local.exists() => {
            errors.invalid(&local, local.as_text(), "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(&kind, "type is required when appArmorProfile is set"),
        other => errors.not_supported(&kind, other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

pub(super) fn operating_system(spec: &Node, errors: &mut FieldErrors) {
    let os = spec.at("os");
    if !os.exists() {
        return;
    }
    match os.text("name") {
        "" => errors.required(&os.at("name"), ""),
        "linux" => only_linux(spec, errors),
        "windows" => only_windows(spec, errors),
        other => errors.not_supported(&os, other, &["linux", "windows"]),
    }
}

fn only_linux(spec: &Node, errors: &mut FieldErrors) {
    let detail = "windows options cannot be set for a linux pod";
    if spec.at("securityContext").has("windowsOptions") {
        errors.forbidden(&spec.at("securityContext.windowsOptions"), detail);
    }
    for container in all_containers(spec) {
        if container.at("securityContext").has("windowsOptions") {
            errors.forbidden(&container.at("securityContext.windowsOptions"), detail);
        }
    }
}

fn only_windows(spec: &Node, errors: &mut FieldErrors) {
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
        errors.forbidden(&context.at(name), CANNOT_BE_WINDOWS);
    }
    for name in ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"] {
        if spec.has(name) {
            errors.forbidden(&spec.at(name), CANNOT_BE_WINDOWS);
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
            errors.forbidden(&context.at(name), CANNOT_BE_WINDOWS);
        }
    }
}
