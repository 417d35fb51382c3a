//! The part of OpenAPI that Kubernetes accepts, and the extensions that it adds.
//!
//! The errors of validation rules come after all others. A rule is checked only if its schema and those below have no
//! other errors.

use std::collections::HashSet;

use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

use super::{
    super::{Node, node::Additional, shown},
    At, Props, RuleChecker, RuleSite, Tolerated, field_path, struct_shown,
};

/// The errors of a schema besides those of its structure. `compiled` is the parsed root, present if the rules are to be
/// checked.
pub(super) fn faults(
    root: Props<'_>,
    path: &At<'_>,
    compiled: Option<&Node>,
    tolerated: Tolerated,
    rules: &mut dyn RuleChecker,
) -> Vec<Cause> {
    let mut asked = Asked {
        causes: Vec::new(),
        of_rules: Vec::new(),
        tolerated,
        found: Tolerated::default(),
        rules: Some(rules),
    };
    asked.schema(root, path, Context { is_root: true, ..Context::default() }, compiled, &mut Vec::new());
    asked.causes.append(&mut asked.of_rules);
    asked.causes
}

/// The errors of a stored schema that its successor may have too.
pub(super) fn tolerated(root: Props<'_>, path: &At<'_>) -> Tolerated {
    let mut asked = Asked {
        causes: Vec::new(),
        of_rules: Vec::new(),
        tolerated: Tolerated::default(),
        found: Tolerated::default(),
        rules: None,
    };
    asked.schema(root, path, Context { is_root: true, ..Context::default() }, None, &mut Vec::new());
    asked.found
}

/// The context of a schema, which follows from its position.
#[derive(Clone, Default)]
struct Context {
    is_root: bool,
    in_meta: bool,
    /// The reason why a default is forbidden, if it is.
    no_default: Option<String>,
    /// The path of the list or map above whose items have no old value.
    uncorrelatable: Option<String>,
}

struct Asked<'r> {
    causes: Vec<Cause>,
    of_rules: Vec<Cause>,
    tolerated: Tolerated,
    found: Tolerated,
    rules: Option<&'r mut dyn RuleChecker>,
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const RULES: &str = "x-kubernetes-validations";
const ATOMIC_ITEM: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";

impl Asked<'_> {
    fn forbidden(&mut self, at: At<'_>, why: &str) {
        self.causes.push(Cause::forbidden(at.to_string(), why));
    }

    fn required(&mut self, at: At<'_>, why: &str) {
        self.causes.push(Cause::required(at.to_string(), why));
    }

    fn invalid(&mut self, at: At<'_>, value: impl Into<Value>, why: &str) {
        self.causes.push(shown::invalid(at.to_string(), &value.into(), why));
    }

    fn not_supported(&mut self, at: At<'_>, value: &str, supported: &[&str]) {
        self.causes.push(Cause::not_supported(at.to_string(), value, supported));
    }

    /// `way` are the compiled schemas above, `node` is this one; there is none in `allOf` and the like.
    fn schema<'n>(
        &mut self,
        props: Props<'_>,
        at: &At<'_>,
        context: Context,
        node: Option<&'n Node>,
        way: &mut Vec<&'n Node>,
    ) {
        let before = self.causes.len();
        way.extend(node);
        self.unsupported(props, at, &context);
        self.children(props, at, &context, node, way);
        self.extensions(props, at);
        self.list_type(props, at);
        self.map_keys(props, at);
        self.rules(props, at, node);
        if let Some(node) = node {
            if self.causes.len() == before
                && !node.rules.is_empty()
                && let Some(rules) = &mut self.rules
            {
                let (path, uncorrelatable) = (at.to_string(), context.uncorrelatable.as_deref());
                self.of_rules.extend(rules.check(&RuleSite { path: &path, way, uncorrelatable }));
            }
            way.pop();
        }
    }

    fn unsupported(&mut self, props: Props<'_>, at: &At<'_>, context: &Context) {
        let ty = props.text("type");
        if !ty.is_empty() && !TYPES.contains(&ty) {
            self.found.unknown_types = true;
            if !self.tolerated.unknown_types {
                self.not_supported(at.child("type"), ty, &TYPES);
            }
        }
        if let Some(why) = context.no_default.as_ref().filter(|_| props.has("default")) {
            self.forbidden(at.child("default"), &format!("must not be set {why}"));
        }
        let is_given = |name: &str| match (name, props.get(name)) {
            ("id", Some(Value::String(text))) => !text.is_empty(),
            ("patternProperties" | "definitions", Some(Value::Object(entries))) => !entries.is_empty(),
            (_, value) => value.is_some(),
        };
        for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if is_given(name) {
                self.forbidden(at.child(name), &format!("{name} is not supported"));
            }
        }
        if ty == "null" {
            self.forbidden(at.child("type"), "type cannot be set to null, use nullable as an alternative");
        }
        if !props.list("items").is_empty() {
            self.forbidden(at.child("items"), "items must be a schema object and not an array");
        }
        if context.in_meta && props.flag("x-kubernetes-embedded-resource") {
            let why = "must not be used inside of resource meta";
            self.forbidden(at.child("x-kubernetes-embedded-resource"), why);
        }
        if props.flag("uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbidden(at.child("uniqueItems"), why);
        }
    }

    fn children<'n>(
        &mut self,
        props: Props<'_>,
        at: &At<'_>,
        context: &Context,
        node: Option<&'n Node>,
        way: &mut Vec<&'n Node>,
    ) {
        let below = Context { is_root: false, ..context.clone() };
        self.additional(props, at, &below, node, way);
        let is_resource = context.is_root || props.flag("x-kubernetes-embedded-resource");
        let correlates = !matches!(props.given(MAP_TYPE), Some(ty) if ty != "atomic" && ty != "granular");
        for (name, property) in props.keyed("properties") {
            let mut below = below.clone();
            if !correlates {
                below.uncorrelatable.get_or_insert_with(|| at.to_string());
            }
            if is_resource && matches!(name, "metadata" | "kind" | "apiVersion") {
                below.in_meta = true;
                if context.is_root {
                    below.no_default = Some(format!("in top-level {name}"));
                }
            }
            let node = node.and_then(|node| node.property(name));
            self.schema(property, &at.key("properties", name), below, node, way);
        }
        if let Some(not) = props.schema("not") {
            self.schema(not, &at.child("not"), below.clone(), None, way);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (number, schema) in props.schemas(name).enumerate() {
                self.schema(schema, &at.index(name, number), below.clone(), None, way);
            }
        }
        for (name, schema) in props.keyed("definitions") {
            self.schema(schema, &at.key("definitions", name), below.clone(), None, way);
        }
        self.items(props, at, &below, node, way);
        for (name, dependency) in props.map("dependencies").into_iter().flatten() {
            if dependency.is_object() {
                self.schema(Props::of(dependency), &at.key("dependencies", name), below.clone(), None, way);
            }
        }
    }

    fn additional<'n>(
        &mut self,
        props: Props<'_>,
        at: &At<'_>,
        below: &Context,
        node: Option<&'n Node>,
        way: &mut Vec<&'n Node>,
    ) {
        let Some(additional) = props.get("additionalProperties") else { return };
        let has_properties = props.map("properties").is_some_and(|properties| !properties.is_empty());
        if has_properties && *additional != Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            self.forbidden(at.child("additionalProperties"), why);
        }
        let Some(schema) = props.schema("additionalProperties") else { return };
        let mut below = below.clone();
        if below.in_meta {
            below.no_default = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        let node = node.and_then(|node| match &node.additional {
            Additional::Schema(schema) => Some(&**schema),
            Additional::Unset | Additional::Allowed(_) => None,
        });
        self.schema(schema, &at.child("additionalProperties"), below, node, way);
    }

    fn items<'n>(
        &mut self,
        props: Props<'_>,
        at: &At<'_>,
        below: &Context,
        node: Option<&'n Node>,
        way: &mut Vec<&'n Node>,
    ) {
        let Some(items) = props.get("items") else { return };
        let mut below = below.clone();
        if props.given(LIST_TYPE) != Some("map") {
            below.uncorrelatable.get_or_insert_with(|| at.to_string());
        }
        match items {
            Value::Array(schemas) => {
                for (number, schema) in schemas.iter().enumerate() {
                    self.schema(Props::of(schema), &at.index("items", number), below.clone(), None, way);
                }
            }
            schema => {
                let node = node.and_then(|node| node.items.as_deref());
                self.schema(Props::of(schema), &at.child("items"), below, node, way);
            }
        }
    }

    fn extensions(&mut self, props: Props<'_>, at: &At<'_>) {
        let name = "x-kubernetes-preserve-unknown-fields";
        if props.get(name) == Some(&Value::Bool(false)) {
            self.invalid(at.child(name), false, "must be true or undefined");
        }
        let Some(map_type) = props.given(MAP_TYPE) else { return };
        self.must_be_of("object", MAP_TYPE, props, at);
        if !matches!(map_type, "atomic" | "granular") {
            self.not_supported(at.child(MAP_TYPE), map_type, &["atomic", "granular"]);
        }
    }

    /// Reports a type that does not suit the field `said`.
    fn must_be_of(&mut self, wanted: &str, said: &str, props: Props<'_>, at: &At<'_>) {
        let why = format!("must be {wanted} if {said} is specified");
        match props.text("type") {
            "" => self.required(at.child("type"), &why),
            ty if ty != wanted => self.invalid(at.child("type"), ty, &why),
            _ => {}
        }
    }

    fn list_type(&mut self, props: Props<'_>, at: &At<'_>) {
        let list_type = props.given(LIST_TYPE);
        if let Some(list_type) = list_type {
            if props.text("type") != "array" {
                self.must_be_of("array", LIST_TYPE, props, at);
            } else if let (true, Some(items)) = (list_type == "set", props.schema("items")) {
                self.set_items(items, at);
            }
            if !matches!(list_type, "atomic" | "set" | "map") {
                self.not_supported(at.child(LIST_TYPE), list_type, &["atomic", "set", "map"]);
            }
        }
        if props.list(MAP_KEYS).is_empty() {
            return;
        }
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => self.required(at.child(LIST_TYPE), why),
            Some("map") => {}
            Some(other) => self.invalid(at.child(LIST_TYPE), other, why),
        }
    }

    /// The items of a set are compared as a whole.
    fn set_items(&mut self, items: Props<'_>, at: &At<'_>) {
        let list_type = items.given(LIST_TYPE);
        let name = match items.text("type") {
            "array" if list_type.is_some_and(|ty| ty != "atomic") => LIST_TYPE,
            "object" if items.given(MAP_TYPE) != Some("atomic") => MAP_TYPE,
            _ => return,
        };
        self.found.sets_of_granular = true;
        if !self.tolerated.sets_of_granular {
            // The error shows the list type, even if the map type is the wrong one.
            self.invalid(
                at.child("items").child(name),
                list_type.map_or(Value::Null, Value::from),
                ATOMIC_ITEM,
            );
        }
    }

    fn map_keys(&mut self, props: Props<'_>, at: &At<'_>) {
        let keys = || props.texts(MAP_KEYS);
        let items = props.schema("items");
        if props.given(LIST_TYPE) == Some("map") {
            if keys().next().is_none() {
                self.required(at.child(MAP_KEYS), "must not be empty if x-kubernetes-list-type is map");
            }
            match (props.get("items"), items) {
                (None, _) => {
                    self.required(at.child("items"), "must have a schema if x-kubernetes-list-type is map");
                }
                (Some(several), None) => {
                    let shown = struct_shown::items(several);
                    let message = format!(
                        "Invalid value: {shown}: must only have a single schema if x-kubernetes-list-type is map"
                    );
                    self.causes.push(Cause::new("FieldValueInvalid", message, at.child("items").to_string()));
                }
                (Some(_), Some(items)) if items.text("type") != "object" => {
                    let why = "must be object if parent array's x-kubernetes-list-type is map";
                    self.invalid(at.child("items").child("type"), items.text("type"), why);
                }
                (Some(_), Some(items)) => self.keys_of_objects(props, items, at),
            }
        }
        if let (Some(list_type @ ("set" | "map")), Some(items)) = (props.given(LIST_TYPE), items) {
            self.keys_are_given(list_type, keys(), items, at);
        }
    }

    fn keys_of_objects(&mut self, props: Props<'_>, items: Props<'_>, at: &At<'_>) {
        let mut seen = HashSet::new();
        let shown = || props.get(MAP_KEYS).cloned().unwrap_or_default();
        for key in props.texts(MAP_KEYS) {
            match items.property(key) {
                Some(property) => {
                    if matches!(property.text("type"), "array" | "object") {
                        let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                        let (item, ty) = (at.child("items"), items.text("type"));
                        self.invalid(item.key("properties", key).child("type"), ty, why);
                    }
                }
                None => {
                    self.invalid(at.child(MAP_KEYS), shown(), "entries must all be names of item properties")
                }
            }
            if !seen.insert(key) {
                self.invalid(at.child(MAP_KEYS), shown(), "must not contain duplicate entries");
            }
        }
    }

    /// Items are never null, and their keys are never absent.
    fn keys_are_given<'k>(
        &mut self,
        list_type: &str,
        keys: impl Iterator<Item = &'k str>,
        items: Props<'_>,
        at: &At<'_>,
    ) {
        let found = self.causes.len();
        let item = at.child("items");
        if items.flag("nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbidden(item.child("nullable"), &why);
        }
        for key in keys.filter(|_| list_type == "map") {
            let Some(property) = items.property(key) else { continue };
            let of_key = item.key("properties", key);
            let is_required = items.texts("required").any(|required| required == key);
            if !is_required && !property.has("default") {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                    property";
                self.required(of_key.child("default"), why);
            }
            if property.flag("nullable") {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbidden(of_key.child("nullable"), why);
            }
        }
        self.found.loose_map_keys |= self.causes.len() > found;
        if self.tolerated.loose_map_keys {
            self.causes.truncate(found);
        }
    }

    /// Checks the fields of the rules. Their expressions are checked by [`RuleChecker`].
    fn rules(&mut self, props: Props<'_>, at: &At<'_>, node: Option<&Node>) {
        for (number, rule) in props.schemas(RULES).enumerate() {
            let at = at.index(RULES, number);
            let (text, message) = (rule.text("rule"), rule.text("message"));
            let breaks = |text: &str| text.contains(['\n', '\r']);
            if text.trim().is_empty() {
                self.required(at.child("rule"), "rule is not specified");
            } else if !message.is_empty() && message.trim().is_empty() {
                self.invalid(at.child("message"), message, "must be non-empty if specified");
            } else if breaks(message.trim()) {
                self.invalid(at.child("message"), message, "must not contain line breaks");
            } else if breaks(text.trim()) && message.trim().is_empty() {
                self.required(at.child("message"), "message must be specified if rule contains line breaks");
            }
            let expression = rule.text("messageExpression");
            if !expression.is_empty() && expression.trim().is_empty() {
                let why = "messageExpression must be non-empty if specified";
                self.required(at.child("messageExpression"), why);
            }
            if let Some(reason) = rule.given("reason").filter(|reason| !REASONS.contains(reason)) {
                self.not_supported(at.child("reason"), reason, &REASONS);
            }
            self.rule_field(rule.text("fieldPath"), props, &at, node);
        }
    }

    fn rule_field(&mut self, path: &str, props: Props<'_>, at: &At<'_>, node: Option<&Node>) {
        if path.is_empty() {
            return;
        }
        let at = at.child("fieldPath");
        if path.trim().is_empty() {
            self.invalid(at, path, "must be non-empty if specified");
        }
        if path.contains(['\n', '\r']) {
            self.invalid(at, path, "must not contain line breaks");
        }
        let is_known = match node {
            Some(node) => field_path::resolve(node, path).is_some(),
            None => super::super::parse::node_of(props.0)
                .map_or(true, |node| field_path::resolve(&node, path).is_some()),
        };
        if !is_known {
            self.invalid(at, path, "must be a valid path");
        }
    }
}
