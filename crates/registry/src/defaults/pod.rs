//! Defaults of pods and of pod templates.
//!
//! A template gets fewer defaults than a pod: those that would make templates of older versions look changed are set
//! only when a pod is created from them.

use super::{image, pod_resources, volume};
use crate::{
    defaults::quantities::round_quantities,
    document::{Edit, Fields, Object},
};
use serde_json::{Map, Value, json};

const CONTAINERS: &[&str] = &["initContainers", "containers", "ephemeralContainers"];
const QUANTITIES: &[&str] = &["limits", "requests"];

/// Sets the defaults of a pod.
pub(crate) fn pod(pod: &mut Object) {
    let spec = pod.object_or_new("spec");
    only_in_pods(spec);
    pod_spec(spec);
    if let Some(status) = pod.object_mut("status") {
        pod_status(status);
    }
}

/// Sets the defaults of the template in the field of that name.
pub(crate) fn template(owner: &mut Object) {
    if let Some(template) = owner.object_mut("template") {
        pod_spec(template.object_or_new("spec"));
    }
}

fn only_in_pods(spec: &mut Object) {
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    // Ephemeral containers have neither resource requests nor ports.
    for list in ["containers", "initContainers"] {
        for container in spec.objects_mut(list) {
            if let Some(resources) = container.object_mut("resources") {
                resources.fill_from("requests", "limits");
            }
            if host_network {
                host_ports(container);
            }
        }
    }
    pod_resources::fill(spec);
    spec.set_default("enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|period| period < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
}

fn host_ports(container: &mut Object) {
    for port in container.objects_mut("ports") {
        if let Some(number) = port.get("containerPort").filter(|port| port.as_i64() != Some(0)).cloned() {
            port.set_if_zero("hostPort", number);
        }
    }
}

fn pod_spec(spec: &mut Object) {
    spec.set_if_zero("dnsPolicy", "ClusterFirst");
    spec.set_if_zero("restartPolicy", "Always");
    spec.set_default("securityContext", Map::new());
    spec.set_default("terminationGracePeriodSeconds", 30);
    spec.set_if_zero("schedulerName", "default-scheduler");
    same_service_account(spec);
    round_quantities(spec, &["overhead"]);
    if let Some(resources) = spec.object_mut("resources") {
        round_quantities(resources, QUANTITIES);
    }
    for volume in spec.objects_mut("volumes") {
        volume::volume(volume);
    }
    for list in CONTAINERS {
        for container in spec.objects_mut(list) {
            fill_container(container);
        }
    }
}

/// Sets both fields of the service account's name; a deprecated one is still accepted and always written.
fn same_service_account(spec: &mut Object) {
    let name = match (spec.text("serviceAccountName"), spec.text("serviceAccount")) {
        (new, old) if new == old => return,
        ("", old) => old.to_owned(),
        (new, _) => new.to_owned(),
    };
    spec.insert("serviceAccountName".to_owned(), name.clone().into());
    spec.insert("serviceAccount".to_owned(), name.into());
}

fn fill_container(container: &mut Object) {
    let pull_policy = image::pull_policy(container.text("image"));
    container.set_if_zero("imagePullPolicy", pull_policy);
    container.set_if_zero("terminationMessagePath", "/dev/termination-log");
    container.set_if_zero("terminationMessagePolicy", "File");
    for port in container.objects_mut("ports") {
        port.set_if_zero("protocol", "TCP");
    }
    for variable in container.objects_mut("env") {
        if let Some(source) = variable.object_mut("valueFrom") {
            volume::field_ref(source);
            if let Some(key) = source.object_mut("fileKeyRef") {
                key.set_default("optional", false);
            }
        }
    }
    if let Some(resources) = container.object_mut("resources") {
        round_quantities(resources, QUANTITIES);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.object_mut(name) {
            fill_probe(probe);
        }
    }
    if let Some(lifecycle) = container.object_mut("lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.object_mut(name) {
                http_get(handler);
            }
        }
    }
}

fn fill_probe(probe: &mut Object) {
    probe.set_if_zero("timeoutSeconds", 1);
    probe.set_if_zero("periodSeconds", 10);
    probe.set_if_zero("successThreshold", 1);
    probe.set_if_zero("failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = probe.object_mut("grpc") {
        grpc.set_default("service", "");
    }
}

fn http_get(handler: &mut Object) {
    if let Some(request) = handler.object_mut("httpGet") {
        request.set_if_zero("path", "/");
        request.set_if_zero("scheme", "HTTP");
    }
}

fn pod_status(status: &mut Object) {
    same_pod_ips(status);
    round_quantities(status, &["allocatedResources"]);
    if let Some(resources) = status.object_mut("resources") {
        round_quantities(resources, QUANTITIES);
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in status.objects_mut(list) {
            round_quantities(container, &["allocatedResources"]);
            if let Some(resources) = container.object_mut("resources") {
                round_quantities(resources, QUANTITIES);
            }
        }
    }
}

/// Sets the first address in the field for a single address and in the list. If they differ, the single one replaces
/// the list.
fn same_pod_ips(status: &mut Object) {
    let first = status.get("podIPs").and_then(|ips| ips.pointer("/0/ip")).and_then(Value::as_str);
    match (status.text("podIP"), first.unwrap_or_default()) {
        (single, first) if single == first => {}
        ("", first) => {
            let first = Value::from(first);
            status.insert("podIP".to_owned(), first);
        }
        (single, _) => {
            let all = json!([{"ip": single}]);
            status.insert("podIPs".to_owned(), all);
        }
    }
}

/// The labels of the template in a spec, for an owner that has none of its own.
pub(crate) fn template_labels(spec: &Object) -> Option<&Object> {
    let metadata = spec.object("template")?.object("metadata")?;
    metadata.is_filled("labels").then(|| metadata.object("labels"))?
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
    use serde_json::{Value, json};

    fn check_pod(spec: Value, at: &str, wanted: Value) {
        check("core.v1.Pod", json!({"spec": spec}), &format!("/spec{at}"), wanted);
    }

    fn check_container(mut container: Value, at: &str, wanted: Value) {
        container["name"] = json!("c");
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            check_pod(json!({list: [container]}), &format!("/{list}/0{at}"), wanted.clone());
        }
    }

    #[test]
    fn a_minimal_pod_is_filled_as_a_real_server_does() {
        check(
            "core.v1.Pod",
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]},
            }),
            "",
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {
                    "containers": [{
                        "name": "c",
                        "image": "registry.example/app:1",
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "imagePullPolicy": "IfNotPresent",
                    }],
                    "restartPolicy": "Always",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                    "enableServiceLinks": true,
                },
                "status": {},
            }),
        );
    }

    #[test]
    fn fields_that_a_pod_sets_keep_their_values() {
        let spec = json!({
            "containers": [{
                "name": "c", "image": "a:latest", "imagePullPolicy": "Never", "resources": {},
                "terminationMessagePath": "/x", "terminationMessagePolicy": "FallbackToLogsOnError",
            }],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "dnsPolicy": "Default",
            "securityContext": {"runAsUser": 1}, "schedulerName": "own", "enableServiceLinks": false,
        });
        check_pod(spec.clone(), "", spec);
    }

    #[test]
    fn a_template_gets_less_than_a_pod() {
        let spec = json!({
            "hostNetwork": true, "terminationGracePeriodSeconds": -1,
            "containers": [{
                "name": "c", "image": "a:1", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}],
            }],
        });
        check(
            "core.v1.PodTemplate",
            json!({"template": {"spec": spec}}),
            "/template/spec",
            json!({
                "hostNetwork": true, "terminationGracePeriodSeconds": -1,
                "containers": [{
                    "name": "c", "image": "a:1", "imagePullPolicy": "IfNotPresent",
                    "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {},
                "schedulerName": "default-scheduler",
            }),
        );
        check_pod(spec.clone(), "/terminationGracePeriodSeconds", json!(1));
        check_pod(
            spec.clone(),
            "/containers/0/ports",
            json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]),
        );
        check_pod(spec, "/containers/0/resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
    }

    #[test]
    fn a_request_that_is_missing_is_the_limit() {
        for (given, wanted) in [
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}),
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}),
            ),
            (json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1"}})),
            (json!({"limits": {"cpu": "100u"}}), json!({"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}})),
        ] {
            let container = json!([{"name": "c", "resources": given}]);
            check_pod(json!({"containers": container}), "/containers/0/resources", wanted.clone());
            check_pod(json!({"initContainers": container}), "/initContainers/0/resources", wanted);
        }
    }

    #[test]
    fn host_ports_stay_as_given() {
        let ports = json!([{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]);
        check_pod(
            json!({"hostNetwork": true, "containers": [{"name": "c", "ports": ports}]}),
            "/containers/0/ports",
            ports,
        );
    }

    #[test]
    fn probes_and_handlers_are_filled_in_every_kind_of_container() {
        let times =
            json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        let with_times = |mut handler: Value| {
            handler.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
            handler
        };
        for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
            for (given, wanted) in [
                (json!({"exec": {"command": ["x"]}}), json!({"exec": {"command": ["x"]}})),
                (json!({"grpc": {"port": 1}}), json!({"grpc": {"port": 1, "service": ""}})),
                (json!({"grpc": {"port": 1, "service": "s"}}), json!({"grpc": {"port": 1, "service": "s"}})),
                (
                    json!({"httpGet": {"port": "web"}}),
                    json!({"httpGet": {"port": "web", "path": "/", "scheme": "HTTP"}}),
                ),
            ] {
                check_container(json!({name: given}), &format!("/{name}"), with_times(wanted));
            }
            let given = json!({
                "httpGet": {"port": 1, "path": "/x", "scheme": "HTTPS"}, "timeoutSeconds": 2, "periodSeconds": 3,
                "successThreshold": 4, "failureThreshold": 5, "initialDelaySeconds": 6,
            });
            check_container(json!({name: given}), &format!("/{name}"), given);
        }
        check_container(
            json!({"lifecycle": {"postStart": {"httpGet": {"port": 1}}, "preStop": {"exec": {}}}}),
            "/lifecycle",
            json!({"postStart": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}}, "preStop": {"exec": {}}}),
        );
    }

    #[test]
    fn ports_variables_and_quantities_of_containers_are_filled() {
        check_container(json!({"ports": [{"containerPort": 1}]}), "/ports/0/protocol", json!("TCP"));
        check_container(
            json!({"env": [
                {"name": "a", "value": "1"},
                {"name": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "c", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
                {"name": "d", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ]}),
            "/env",
            json!([
                {"name": "a", "value": "1"},
                {"name": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
                {"name": "c", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k", "optional": false}}},
                {"name": "d", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ]),
        );
        check_container(
            json!({"resources": {"requests": {"cpu": "1n"}}}),
            "/resources",
            json!({"requests": {"cpu": "1m"}}),
        );
        check_pod(json!({"overhead": {"cpu": "1u"}}), "/overhead", json!({"cpu": "1m"}));
    }

    #[test]
    fn topology_spread_constraints_have_no_defaults() {
        let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
        check_pod(json!({"topologySpreadConstraints": spread}), "/topologySpreadConstraints", spread);
    }

    #[test]
    fn the_service_account_has_two_names_that_agree() {
        for (given, wanted) in [
            (json!({"serviceAccountName": "a"}), json!("a")),
            (json!({"serviceAccount": "a"}), json!("a")),
            (json!({"serviceAccountName": "a", "serviceAccount": "b"}), json!("a")),
            (json!({}), json!(null)),
        ] {
            check_pod(given.clone(), "/serviceAccountName", wanted.clone());
            check_pod(given, "/serviceAccount", wanted);
        }
    }

    #[test]
    fn the_first_address_of_a_pod_stands_in_both_fields() {
        for (given, wanted) in [
            (json!({"podIP": "1.2.3.4"}), json!({"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]})),
            (
                json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}),
                json!({"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}),
            ),
            (
                json!({"podIP": "5.6.7.8", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}),
                json!({"podIP": "5.6.7.8", "podIPs": [{"ip": "5.6.7.8"}]}),
            ),
            (json!({"phase": "Running"}), json!({"phase": "Running"})),
        ] {
            check("core.v1.Pod", json!({"status": given}), "/status", wanted);
        }
    }

    #[test]
    fn quantities_in_the_status_are_rounded() {
        let given = json!({"cpu": "1n"});
        let status = json!({
            "allocatedResources": given, "resources": {"limits": given},
            "containerStatuses": [{"name": "c", "allocatedResources": given, "resources": {"requests": given}}],
        });
        for at in [
            "/status/allocatedResources/cpu",
            "/status/resources/limits/cpu",
            "/status/containerStatuses/0/allocatedResources/cpu",
            "/status/containerStatuses/0/resources/requests/cpu",
        ] {
            check("core.v1.Pod", json!({"status": status}), at, json!("1m"));
        }
    }
}
