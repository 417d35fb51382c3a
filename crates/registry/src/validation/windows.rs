//! The Windows options of containers: the user, and whether they are host processes.

use crate::document::{FieldErrors, Fields, Node};
use serde_json::Value;

use super::names;

const CREDENTIAL_SPEC_KIB_MAX: usize = 64;
/// A domain has fewer bytes than this.
const DOMAIN_BYTES: usize = 256;
const USER_BYTES_MAX: usize = 104;

/// The options of a pod or a container.
pub(crate) fn options(options: &Node, errors: &mut FieldErrors) {
    let name = options.at("gmsaCredentialSpecName");
    if name.exists() {
        errors.invalid_each(&name, names::subdomain(name.as_text()));
    }
    let spec = options.at("gmsaCredentialSpec");
    if spec.exists() && spec.as_text().is_empty() {
        errors.invalid(&spec, "", "gmsaCredentialSpec cannot be an empty string");
    } else if spec.as_text().len() > CREDENTIAL_SPEC_KIB_MAX << 10 {
        let detail = format!("gmsaCredentialSpec size must be under {CREDENTIAL_SPEC_KIB_MAX} KiB");
        errors.invalid(&spec, spec.as_text(), &detail);
    }
    let user = options.at("runAsUserName");
    if user.exists() {
        errors.invalid_each(&user, user_name(user.as_text()));
    }
}

/// The errors in a user name, which may have a domain before it: `DOMAIN\user`.
fn user_name(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('\\').collect();
    let (domain, user) = match parts[..] {
        _ if text.is_empty() => return vec!["runAsUserName cannot be an empty string".to_owned()],
        _ if text.bytes().any(|byte| byte.is_ascii_control()) => {
            return vec!["runAsUserName cannot contain control characters".to_owned()];
        }
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut details = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_BYTES) {
        details.push(format!("runAsUserName's Domain length must be under {DOMAIN_BYTES} characters"));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        details.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        details.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_BYTES_MAX {
        let detail =
            format!("runAsUserName's User length must not be longer than {USER_BYTES_MAX} characters");
        details.push(detail);
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        details.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        let detail = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        details.push(detail.to_owned());
    }
    details
}

fn is_net_bios(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=15).contains(&length) && !domain.starts_with('.') && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = domain.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// Validates host processes: if one container is one, all of its pod must be, and the pod must use the host's network.
pub(crate) fn host_processes(spec: &Node, errors: &mut FieldErrors) {
    let wanted =
        |at: &Node| at.at("securityContext.windowsOptions").value.get("hostProcess").and_then(Value::as_bool);
    let of_pod = wanted(spec);
    let (mut all, mut processes) = (0_usize, 0_usize);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items(list) {
            let own = wanted(&container);
            if let (Some(own), Some(of_pod)) =
                (own, of_pod.filter(|of_pod| own.is_some_and(|own| own != *of_pod)))
            {
                let detail =
                    format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                let at = container.at("securityContext.windowsOptions.hostProcess");
                errors.invalid(&at, own, &detail);
            }
            all += 1;
            processes += usize::from(own.or(of_pod).unwrap_or(false));
        }
    }
    if processes == 0 {
        return;
    }
    if processes != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(spec, "", detail);
    }
    if !spec.flag("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&spec.at("hostNetwork"), false, detail);
    }
}
