//! The objects that are written: pods like those of a deployment, and small config maps.

use std::fmt::Write;

/// The size of a stored pod.
pub(crate) const POD_BYTES: usize = 4400;
/// The size of a stored config map.
pub(crate) const CONFIG_BYTES: usize = 1000;

/// A pod as a controller would create it. The server adds its own fields, some 930 bytes.
pub(crate) fn pod(number: usize) -> String {
    const ADDED_BY_SERVER: usize = 930;
    let name = pod_name(number);
    let mut json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","generateName":"web-7d4b9c6f5-","labels":{{"app":"app-{}","pod-template-hash":"7d4b9c6f5","tier":"{}","version":"v{}"}},"annotations":{{"turn":"000000"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5","uid":"{:08x}-1111-4222-8333-444455556666","controller":true,"blockOwnerDeletion":true}}]}},"spec":{{"nodeName":"{}","volumes":[{{"name":"config","configMap":{{"name":"app-config"}}}},{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}]}}}}],"containers":[{{"name":"main","image":"registry.example.com/team/app:v{}","ports":[{{"containerPort":8080}}],"resources":{{"limits":{{"cpu":"1","memory":"512Mi"}},"requests":{{"cpu":"250m","memory":"256Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/app"}},{{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080}},"initialDelaySeconds":10}},"env":["#,
        number % 1000,
        ["backend", "frontend", "batch"][number % 3],
        number % 7,
        number,
        node_name(number),
        number % 7,
    );
    let rest = "]}],\"serviceAccountName\":\"default\"}}";
    // Environment fills it up, the last variable to the byte.
    let whole = POD_BYTES - ADDED_BY_SERVER;
    for variable in 0.. {
        const VARIABLE: usize = r#"{"name":"SETTING_00","value":""},"#.len();
        const TEXT: usize = 32;
        let missing = whole.saturating_sub(json.len() + rest.len());
        let last = missing < 2 * VARIABLE + TEXT;
        let text = if last { missing.saturating_sub(VARIABLE) } else { TEXT };
        let value: String =
            (0..text).map(|at| char::from(b'a' + ((at * 7 + variable * 3 + number) % 26) as u8)).collect();
        write!(json, r#"{{"name":"SETTING_{variable:02}","value":"{value}"}},"#).expect("memory takes it");
        if last {
            break;
        }
    }
    json.pop();
    json.push_str(rest);
    json
}

/// Asserts that a stored object has about the intended size.
pub(crate) fn must_be_about(bytes: usize, stored: &[u8]) {
    let found = stored.len();
    assert!(found.abs_diff(bytes) < bytes / 20, "{found} bytes: {}", String::from_utf8_lossy(stored));
}

pub(crate) fn pod_name(number: usize) -> String {
    format!("web-7d4b9c6f5-{number:06}")
}

/// Every pod is on a node of its own, up to 5,000 of them.
pub(crate) fn node_name(number: usize) -> String {
    format!("node-{:04}", number % 5000)
}

/// A config map.
pub(crate) fn config(name: &str, turn: usize) -> String {
    const ADDED_BY_SERVER: usize = 158;
    let head = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"web"}}"#
    );
    let data = format!(r#"}},"data":{{"turn":"{turn:06}","text":""#);
    let text = CONFIG_BYTES.saturating_sub(ADDED_BY_SERVER + head.len() + data.len() + 3);
    format!("{head}{data}{}\"}}}}", "x".repeat(text))
}
