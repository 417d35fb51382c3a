//! The status of an object in one word, for any kind.

use super::session::StoredObject;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The conditions that summarise the state of an object, the most important first.
const SUMMARY_CONDITIONS: [&str; 5] = ["Ready", "Available", "Complete", "Established", "Accepted"];

/// The status of an object in a word; empty if it has none.
pub(super) fn status(object: &StoredObject) -> String {
    if object.field(&["metadata", "deletionTimestamp"]).is_some() {
        return "Terminating".to_owned();
    }
    if let Some(phase) = object.field(&["status", "phase"]) {
        return phase.into_owned();
    }
    replicas(object).or_else(|| conditions(object)).unwrap_or_default()
}

/// The creation time of an object.
pub(super) fn created(object: &StoredObject) -> Option<Timestamp> {
    object.field(&["metadata", "creationTimestamp"])?.parse().ok()
}

/// As `2/3`.
fn replicas(object: &StoredObject) -> Option<String> {
    for (wanted, ready) in [
        (["spec", "replicas"], ["status", "readyReplicas"]),
        (["status", "desiredNumberScheduled"], ["status", "numberReady"]),
    ] {
        if let Some(wanted) = object.field(&wanted) {
            return Some(format!("{}/{wanted}", object.field(&ready).as_deref().unwrap_or("0")));
        }
    }
    None
}

fn conditions(object: &StoredObject) -> Option<String> {
    #[derive(Deserialize)]
    struct Conditioned {
        #[serde(default)]
        status: Value,
    }
    let Conditioned { status } = object.view().ok()?;
    let state = |name: &str| {
        let conditions = status["conditions"].as_array()?;
        conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
    };
    if state("Failed") == Some("True") {
        return Some("Failed".to_owned());
    }
    let (name, state) = SUMMARY_CONDITIONS.iter().find_map(|name| Some((name, state(name)?)))?;
    Some(if state == "True" { (*name).to_owned() } else { format!("Not{name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rest: &str, expected: &str) {
        let json = format!(r#"{{"kind":"Any","apiVersion":"v1","metadata":{{"name":"a"}}{rest}}}"#);
        assert_eq!(status(&StoredObject::new(json.as_bytes()).unwrap()), expected, "{rest}");
    }

    #[test]
    fn the_most_specific_field_is_the_status() {
        check("", "");
        check(r#","status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}"#, "Running");
        check(r#","spec":{"replicas":3},"status":{"readyReplicas":2}"#, "2/3");
        check(r#","spec":{"replicas":3}"#, "0/3");
        check(r#","status":{"desiredNumberScheduled":4,"numberReady":4}"#, "4/4");
        check(
            r#","status":{"conditions":[{"type":"Other","status":"True"},{"type":"Ready","status":"True"}]}"#,
            "Ready",
        );
        check(r#","status":{"conditions":[{"type":"Ready","status":"Unknown"}]}"#, "NotReady");
        check(
            r#","status":{"conditions":[{"type":"Complete","status":"False"},{"type":"Failed","status":"True"}]}"#,
            "Failed",
        );
    }

    #[test]
    fn objects_with_a_deletion_timestamp_are_terminating() {
        let json = br#"{"metadata":{"name":"a","deletionTimestamp":"2026-11-16T10:00:00Z"},"status":{"phase":"Running"}}"#;
        assert_eq!(status(&StoredObject::new(json).unwrap()), "Terminating");
    }

    #[test]
    fn a_status_of_any_shape_is_accepted() {
        for rest in [
            r#","status":"fine""#,
            r#","status":null"#,
            r#","status":[1]"#,
            r#","status":{"phase":{"a":1}}"#,
            r#","status":{"conditions":{"type":"Ready"}}"#,
            r#","status":{"conditions":[1,null,{"type":"Ready"}]}"#,
        ] {
            check(rest, "");
        }
        assert_eq!(
            created(&StoredObject::new(br#"{"metadata":{"creationTimestamp":"soon"}}"#).unwrap()),
            None
        );
    }
}
