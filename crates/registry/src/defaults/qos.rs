//! The quality of service class of a pod, which decides the order of eviction when its node runs out of resources.

use crate::{
    document::{Fields, Object},
    schema::Quantity,
};
use serde_json::Value;

/// The resources that the class depends on.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The sum of the requests or limits for each resource that the class depends on; absent where there are none.
type Sums = [Option<Quantity>; RESOURCES.len()];

/// The QoS class of a pod with that spec, after its defaults are set: `Guaranteed` if all containers limit CPU and
/// memory and the requests equal the limits, `BestEffort` if there are neither, otherwise `Burstable`.
///
/// Resources of the pod itself replace those of its containers. Ephemeral containers are ignored.
///
/// ```
/// use keepwatch_registry::defaults::qos::qos_class;
/// let spec = |resources| serde_json::json!({"containers": [{"resources": resources}]});
/// assert_eq!(qos_class(&spec(serde_json::json!({}))), "BestEffort");
/// assert_eq!(qos_class(&spec(serde_json::json!({"requests": {"cpu": "1"}}))), "Burstable");
/// ```
pub fn qos_class(pod_spec: &Value) -> &'static str {
    let mut requests = Sums::default();
    let mut limits = Sums::default();
    let mut all_are_limited = true;
    for resources in counted_resources(pod_spec) {
        add(&mut requests, resources, "requests");
        all_are_limited &= add(&mut limits, resources, "limits");
    }
    if requests.iter().chain(&limits).all(Option::is_none) {
        "BestEffort"
    } else if all_are_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The resources that the class depends on: those of the pod, or else those of each container, where none is absent.
fn counted_resources(pod_spec: &Value) -> Vec<Option<&Object>> {
    if let Some(resources) = pod_spec.get("resources").and_then(Value::as_object) {
        return vec![Some(resources)];
    }
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| pod_spec.get(list));
    let containers = containers.filter_map(Value::as_array).flatten();
    containers.map(|container| container.get("resources").and_then(Value::as_object)).collect()
}

/// Adds requests or limits to the sums, and returns whether all of [`RESOURCES`] were set. Zero counts as not set.
fn add(sums: &mut Sums, resources: Option<&Object>, map: &str) -> bool {
    let amounts = resources.and_then(|resources| resources.object(map));
    let mut all = true;
    for (sum, name) in sums.iter_mut().zip(RESOURCES) {
        let amount = amounts.and_then(|amounts| amounts.get(name)).and_then(Value::as_str);
        let amount = amount.and_then(|text| text.parse::<Quantity>().ok());
        match amount.filter(|amount| *amount > Quantity::ZERO) {
            Some(amount) => *sum = Some(sum.unwrap_or(Quantity::ZERO) + amount),
            None => all = false,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let both = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}});
        let more =
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}});
        let cpu = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        let limits = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        let none = json!({});
        let zero = json!({"requests": {"cpu": "0"}, "limits": {"memory": "0"}});
        let other = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
        let containers =
            |all: &[&Value]| -> Value { all.iter().map(|one| json!({"resources": one})).collect() };
        for (of_containers, of_init_containers, class) in [
            (containers(&[&none]), json!(null), "BestEffort"),
            (containers(&[&zero, &other]), containers(&[&none]), "BestEffort"),
            (json!([{}]), json!([]), "BestEffort"),
            (json!(null), json!(null), "BestEffort"),
            (containers(&[&both]), json!(null), "Guaranteed"),
            (containers(&[&both, &both]), containers(&[&both]), "Guaranteed"),
            (containers(&[&both]), containers(&[&none]), "Burstable"),
            (containers(&[&both, &more]), json!(null), "Burstable"),
            (containers(&[&cpu]), json!(null), "Burstable"),
            (containers(&[&limits]), json!(null), "Burstable"),
            (containers(&[&none]), containers(&[&cpu]), "Burstable"),
        ] {
            let spec = json!({"containers": of_containers, "initContainers": of_init_containers});
            assert_eq!(qos_class(&spec), class, "{spec}");
        }
    }

    #[test]
    fn resources_of_the_pod_replace_those_of_its_containers() {
        for (resources, class) in [
            (
                json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
                "Guaranteed",
            ),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), "Burstable"),
        ] {
            let spec =
                json!({"resources": resources, "containers": [{"resources": {"requests": {"cpu": "1"}}}]});
            assert_eq!(qos_class(&spec), class, "{spec}");
        }
    }
}
