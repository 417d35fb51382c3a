//! Resources of a pod as a whole, completed from those of its containers.

use crate::{
    document::{Edit, Fields, Object},
    schema::Quantity,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Amounts by the name of the resource.
type Amounts = BTreeMap<String, Quantity>;

/// Completes the resources of a pod that sets some of them. Those of its containers are complete already.
pub(crate) fn fill(spec: &mut Object) {
    let is_said = spec
        .object("resources")
        .is_some_and(|resources| resources.is_filled("limits") || resources.is_filled("requests"));
    if !is_said {
        return;
    }
    let limits = maximum_of_phases(spec, "limits");
    let requests = maximum_of_phases(spec, "requests");
    let resources = spec.object_or_new("resources");
    fill_huge_page_limits(resources, limits);
    if resources.is_filled("limits") {
        fill_requests(resources, requests);
    }
}

/// Sets the missing limits of huge pages, which cannot be overcommitted, to the sum of the containers'.
fn fill_huge_page_limits(resources: &mut Object, of_containers: Amounts) {
    for (name, amount) in of_containers {
        let is_requested =
            resources.object("requests").is_some_and(|requests| requests.contains_key(name.as_str()));
        if is_huge_page(&name) && !is_requested {
            resources.object_or_new("limits").entry(name).or_insert_with(|| amount.to_string().into());
        }
    }
}

/// Sets each missing request of the pod: to the sum that its containers request, or else to the pod's limit.
fn fill_requests(resources: &mut Object, of_containers: Amounts) {
    let limits = resources.object("limits").cloned().unwrap_or_default();
    let of_containers = of_containers
        .into_iter()
        .filter(|(name, _)| can_be_shared(name))
        .map(|(name, amount)| (name, Value::from(amount.to_string())));
    let of_limits = limits.into_iter().filter(|(name, _)| can_be_shared(name) || is_huge_page(name));
    let candidates: Vec<(String, Value)> = of_containers.chain(of_limits).collect();
    if !candidates.is_empty() {
        let requests = resources.object_or_new("requests");
        for (name, amount) in candidates {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn can_be_shared(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory")
}

fn is_huge_page(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// The most that the containers use at one time, by their limits or by their requests: either the regular containers
/// and all sidecars, or one init container and the sidecars that were started before it.
fn maximum_of_phases(spec: &Object, map: &str) -> Amounts {
    let mut running = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut running, container, map);
    }
    let mut sidecars = Amounts::new();
    let mut initializing = Amounts::new();
    for container in list(spec, "initContainers") {
        let mut now = sidecars.clone();
        add(&mut now, container, map);
        if container.text("restartPolicy") == "Always" {
            add(&mut running, container, map);
            sidecars.clone_from(&now);
        }
        raise(&mut initializing, now);
    }
    raise(&mut running, initializing);
    running
}

fn list<'a>(spec: &'a Object, name: &str) -> impl Iterator<Item = &'a Object> {
    spec.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn add(sum: &mut Amounts, container: &Object, map: &str) {
    let amounts = container.object("resources").object(map);
    for (name, amount) in amounts.into_iter().flatten() {
        let Some(amount) = amount.as_str().and_then(|text| text.parse::<Quantity>().ok()) else { continue };
        let sum = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *sum = *sum + amount;
    }
}

fn raise(all: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        let known = all.entry(name).or_insert(amount);
        if *known < amount {
            *known = amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
    use serde_json::{Value, json};

    fn check_resources(containers: Value, init_containers: Value, given: Value, wanted: Value) {
        let named = |resources: &Value| {
            let containers = resources.as_array().unwrap().iter();
            containers
                .map(|resources| match resources.get("stays") {
                    Some(resources) => {
                        json!({"name": "c", "restartPolicy": "Always", "resources": resources})
                    }
                    None => json!({"name": "c", "resources": resources}),
                })
                .collect::<Value>()
        };
        let spec = json!({
            "containers": named(&containers), "initContainers": named(&init_containers), "resources": given,
        });
        check("core.v1.Pod", json!({"spec": spec}), "/spec/resources", wanted);
    }

    fn requests(cpu: &str) -> Value {
        json!({"requests": {"cpu": cpu}})
    }

    #[test]
    fn a_pod_requests_what_its_containers_do_and_else_its_limit() {
        check_resources(
            json!([requests("1"), requests("500m")]),
            json!([]),
            json!({"limits": {"cpu": "4", "memory": "1Gi"}}),
            json!({"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "1500m", "memory": "1Gi"}}),
        );
        check_resources(
            json!([requests("1")]),
            json!([]),
            json!({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}),
            json!({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}),
        );
    }

    #[test]
    fn a_pod_without_limits_gets_no_requests() {
        check_resources(
            json!([{"requests": {"cpu": "1", "memory": "1Gi"}}]),
            json!([]),
            json!({"requests": {"cpu": "2"}}),
            json!({"requests": {"cpu": "2"}}),
        );
        check_resources(json!([requests("1")]), json!([]), json!({}), json!({}));
        check("core.v1.Pod", json!({"spec": {"containers": []}}), "/spec/resources", Value::Null);
    }

    #[test]
    fn the_requests_of_a_pod_are_those_of_its_costliest_phase() {
        let limits = json!({"limits": {"cpu": "9"}});
        for (containers, init_containers, wanted) in [
            (json!([requests("1")]), json!([requests("3"), requests("2")]), "3"),
            (json!([requests("4")]), json!([requests("3")]), "4"),
            (json!([requests("1")]), json!([{"stays": requests("1")}, requests("2")]), "3"),
            (json!([requests("2")]), json!([requests("2"), {"stays": requests("1")}]), "3"),
        ] {
            check_resources(
                containers,
                init_containers,
                limits.clone(),
                json!({"limits": {"cpu": "9"}, "requests": {"cpu": wanted}}),
            );
        }
    }

    #[test]
    fn huge_pages_of_containers_are_limits_of_the_pod_unless_it_requests_them() {
        let container = json!([{"limits": {"hugepages-2Mi": "4Mi"}}]);
        check_resources(
            container.clone(),
            json!([]),
            json!({"requests": {"cpu": "1"}}),
            json!({"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}}),
        );
        check_resources(
            container,
            json!([]),
            json!({"requests": {"hugepages-2Mi": "8Mi"}}),
            json!({"requests": {"hugepages-2Mi": "8Mi"}}),
        );
    }

    #[test]
    fn other_resources_are_of_containers_only() {
        check_resources(
            json!([{"limits": {"example.com/gpu": "1"}}]),
            json!([]),
            json!({"limits": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
        );
    }
}
