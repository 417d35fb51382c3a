//! Selectors in objects: their text, and the labels that they select.

use crate::document::Fields;
use keepwatch_apimachinery::selector::{Operator, Requirement};
use serde_json::{Map, Value};

/// A selector as text: `a=b,c in (d,e)`. Selectors of replication controllers are plain maps.
pub(crate) fn selector_text(selector: Option<&Value>) -> String {
    let requirements = requirements(selector);
    requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn requirements(selector: Option<&Value>) -> Vec<Requirement> {
    let Some(selector) = selector.and_then(Value::as_object) else { return Vec::new() };
    let is_plain = selector.values().all(Value::is_string) && !selector.is_empty();
    let empty = Map::new();
    let labels =
        if is_plain { Some(selector) } else { selector.get("matchLabels").and_then(Value::as_object) };
    let equal = labels.unwrap_or(&empty).iter().map(|(key, value)| {
        (key.clone(), Operator::Equals, vec![value.as_str().unwrap_or_default().to_owned()])
    });
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    let others = expressions.map(|expression| {
        let operator = match expression.text("operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            _ => Operator::DoesNotExist,
        };
        let values = expression.list("values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        (expression.text("key").to_owned(), operator, values)
    });
    let mut all: Vec<Requirement> = equal
        .chain(others)
        .filter_map(|(key, operator, values)| Requirement::new(key, operator, values).ok())
        .collect();
    all.sort_by(|a, b| a.key().cmp(b.key()));
    all
}

/// Whether a selector of an object selects labels. None selects nothing, an empty one everything.
pub(crate) fn selects(selector: Option<&Value>, labels: &Value) -> bool {
    let Some(selector) = selector else { return false };
    let own: keepwatch_storage::Pairs = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .collect();
    requirements(Some(selector)).iter().all(|requirement| requirement.matches(&own))
}
