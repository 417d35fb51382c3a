//! How a pod fares when its node runs short, by what it asked for.

use crate::{
    document::{Fields, Object},
    schema::Quantity,
};
use serde_json::Value;

/// What counts; other resources do not.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Of each resource that counts, the sum of what is asked for; absent where nothing is.
type Sums = [Option<Quantity>; RESOURCES.len()];

/// The class of a pod with that spec, once its defaults are filled in: `Guaranteed` if all that it asks for is limited to
/// just that, `BestEffort` if it asks for nothing, otherwise `Burstable`.
///
/// What the pod says as a whole counts before what its containers say. Ephemeral containers do not count.
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

/// The resources that count: of the pod, or of each of its containers; of one that says nothing, nothing.
fn counted_resources(pod_spec: &Value) -> Vec<Option<&Object>> {
    if let Some(resources) = pod_spec.get("resources").and_then(Value::as_object) {
        return vec![Some(resources)];
    }
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| pod_spec.get(list));
    let containers = containers.filter_map(Value::as_array).flatten();
    containers.map(|container| container.get("resources").and_then(Value::as_object)).collect()
}

/// Adds what is asked for, and says whether all resources were among it. Zero asks for nothing.
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
    fn what_the_pod_says_as_a_whole_counts_first() {
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
