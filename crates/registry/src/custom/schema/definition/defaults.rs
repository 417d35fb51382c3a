//! Validation of the defaults of a schema.

use keepwatch_apimachinery::status::Cause;
use serde_json::{Map, Value, json};

use super::{
    super::{
        Node,
        embedded::{self, Source},
        prune,
        ratchet::Old,
        shown,
        validate::{self, Use},
    },
    RuleChecker,
};

/// The errors of the defaults in a schema, which is that of a whole object.
pub(super) fn faults(root: &Node, path: &str, are_pruned: bool, rules: &mut dyn RuleChecker) -> Vec<Cause> {
    let mut asked = Asked { causes: Vec::new(), are_pruned, rules };
    asked.node(
        &Place { node: root, path: path.to_owned(), resource: root, way: Vec::new(), in_meta: false },
        true,
    );
    asked.causes
}

/// Whether a default has fields that its schema does not have.
pub(super) fn has_unpruned(node: &Node) -> bool {
    let own = node.default.as_deref().is_some_and(|default| is_unpruned(node, default, node.embedded));
    let properties = node.properties.iter().map(|(_, property)| property);
    let mut children = properties.chain(node.items.as_deref()).chain(node.additional_schema());
    node.below.defaults && (own || children.any(has_unpruned))
}

fn is_unpruned(node: &Node, default: &Value, is_resource: bool) -> bool {
    let mut pruned = default.clone();
    prune::default(node, &mut pruned, is_resource);
    pruned != *default
}

/// A schema, and its position.
struct Place<'a> {
    node: &'a Node,
    path: String,
    /// The schema of the Kubernetes object that it is in.
    resource: &'a Node,
    /// The path to this schema from that object.
    way: Vec<Step<'a>>,
    /// Whether it is in the kind, the version or the metadata of that object.
    in_meta: bool,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

struct Asked<'r> {
    causes: Vec<Cause>,
    are_pruned: bool,
    rules: &'r mut dyn RuleChecker,
}

impl Asked<'_> {
    fn node(&mut self, place: &Place<'_>, is_root: bool) {
        let node = place.node;
        if !node.below.defaults {
            return;
        }
        let is_resource = is_root || node.embedded;
        if let Some(default) = &node.default {
            let path = format!("{}.default", place.path);
            if place.in_meta && !is_resource {
                self.default_in_meta(place, default, &path);
            } else {
                self.default(node, is_resource, default, &path);
            }
        }
        let inside = |child, path, step| {
            let (resource, mut way, in_meta) = match is_resource {
                true => (node, Vec::new(), false),
                false => (place.resource, place.way.clone(), place.in_meta),
            };
            way.push(step);
            Place { node: child, path, resource, way, in_meta }
        };
        // Not `additionalProperties`: the keys that would get the defaults are not known.
        if let Some(items) = node.items.as_deref() {
            self.node(&inside(items, format!("{}.items", place.path), Step::Item), false);
        }
        for (name, property) in &node.properties {
            let path = format!("{}.properties[{name}]", place.path);
            let mut place = inside(property, path, Step::Field(name));
            place.in_meta |= is_resource && matches!(&**name, "metadata" | "apiVersion" | "kind");
            self.node(&place, false);
        }
    }

    fn default(&mut self, node: &Node, is_resource: bool, default: &Value, path: &str) {
        if self.are_pruned && is_unpruned(node, default, is_resource) {
            self.causes.push(shown::invalid(path, default, "must not have unknown fields"));
        }
        let mut coerced = default.clone();
        if let Err(mut cause) = embedded::coerce(node, &mut coerced, is_resource, Source::Client) {
            cause.field = joined(path, &cause.field);
            self.causes.push(cause);
            return;
        }
        let mut causes = Vec::new();
        embedded::check(node, &coerced, is_resource, path, &mut causes);
        self.values_and_rules(node, &coerced, path, causes);
    }

    /// A default in metadata, which makes sense only in a whole object.
    fn default_in_meta(&mut self, place: &Place<'_>, default: &Value, path: &str) {
        let mut object = around(default, &place.way);
        if let Value::Object(fields) = &mut object {
            let mut set = |name: &str, value: &str| {
                fields.entry(name).or_insert_with(|| json!(value));
            };
            set("kind", "Validation");
            set("apiVersion", "validation/v1");
        }
        let why = match embedded::coerce(place.resource, &mut object, true, Source::Client) {
            Err(cause) => Some(cause.to_string()),
            Ok(()) => {
                let mut causes = Vec::new();
                embedded::check(place.resource, &object, true, "", &mut causes);
                aggregate(&causes)
            }
        };
        match why {
            Some(why) => {
                let why = format!("must result in valid metadata: {why}");
                self.causes.push(shown::invalid(path, default, &why));
            }
            None => self.values_and_rules(place.node, default, path, Vec::new()),
        }
    }

    fn values_and_rules(&mut self, node: &Node, default: &Value, path: &str, mut causes: Vec<Cause>) {
        if causes.is_empty() {
            causes = validate::check(node, default, Old::default(), Some(path), Use::Default);
        }
        if causes.is_empty() && node.has_rules() {
            causes = self.rules.check_default(path, node, default);
        }
        self.causes.append(&mut causes);
    }
}

/// An object that has only the value, at the end of the path.
fn around(value: &Value, way: &[Step<'_>]) -> Value {
    way.iter().rev().fold(value.clone(), |inner, step| match step {
        Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), inner)])),
        Step::Item => Value::Array(vec![inner]),
    })
}

/// Several errors in one text, each once. None if there are none.
fn aggregate(causes: &[Cause]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in causes.iter().map(Cause::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

pub(in crate::custom) fn joined(prefix: &str, field: &str) -> String {
    match field {
        "<nil>" => prefix.to_owned(),
        field if field.starts_with('[') => format!("{prefix}{field}"),
        field => format!("{prefix}.{field}"),
    }
}
