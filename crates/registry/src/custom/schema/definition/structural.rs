//! Whether a schema is structural: it specifies the type of every value, and the schemas in `allOf` and the like only
//! restrict values and add no structure.

use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

use super::{
    super::{pattern, shown},
    At, Props,
};

/// The reasons why a schema is not structural, in the order of their texts.
pub(super) fn faults(root: Props<'_>, path: &At<'_>) -> Vec<Cause> {
    let mut causes = Causes(Vec::new());
    causes.schema(root, Level::Root, path);
    causes.complete(root, Some(root), path, path);
    // Kubernetes has them in this order too.
    causes.0.sort_by_cached_key(Cause::to_string);
    causes.0
}

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Causes(Vec<Cause>);

/// The fields that must not be set in `allOf` and the like, and the messages.
const NESTED_FORBIDDEN: [(&str, &str); 13] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// Whether `anyOf` specifies an integer or a string, which is allowed there.
fn says_either(props: Props<'_>) -> bool {
    let types = props.schemas("anyOf").map(|schema| {
        // `additionalProperties: false` is ignored.
        let says = |(name, value): &(&String, &Value)| {
            *name != "additionalProperties" || **value != Value::Bool(false)
        };
        let mut said = schema.0.iter().filter(says);
        match (said.next(), said.next()) {
            (Some((name, Value::String(ty))), None) if name == "type" => ty.as_str(),
            _ => "",
        }
    });
    types.eq(["integer", "string"])
}

impl Causes {
    fn forbidden(&mut self, at: At<'_>, why: &str) {
        self.0.push(Cause::forbidden(at.to_string(), why));
    }

    fn required(&mut self, at: At<'_>, why: &str) {
        self.0.push(Cause::required(at.to_string(), why));
    }

    fn invalid(&mut self, at: At<'_>, value: impl Into<Value>, why: &str) {
        self.0.push(shown::invalid(at.to_string(), &value.into(), why));
    }

    fn schema(&mut self, props: Props<'_>, level: Level, at: &At<'_>) {
        let items = props.schema("items");
        if props.text("type") == "array" && items.is_none() {
            self.required(at.child("items"), "must be specified");
        }
        if let Some(items) = items {
            self.schema(items, Level::Item, &at.child("items"));
        }
        for (name, property) in props.keyed("properties") {
            self.schema(property, Level::Field, &at.key("properties", name));
        }
        let additional = props.get("additionalProperties");
        if additional.is_some() && level == Level::Root {
            self.forbidden(at.child("additionalProperties"), "must not be used at the root");
        }
        if let Some(additional) = props.schema("additionalProperties") {
            self.schema(additional, Level::Field, &at.child("additionalProperties"));
        }
        let first = props.schemas("allOf").next();
        self.junctions(props, says_either(props), first.is_some_and(says_either), at);
        self.extensions(props, at);
        self.ty(props, level, at);
        self.type_meta(props, level, at);
    }

    fn extensions(&mut self, props: Props<'_>, at: &At<'_>) {
        if props.flag("x-kubernetes-int-or-string") {
            for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if props.flag(name) {
                    let why = "must be false if x-kubernetes-int-or-string is true";
                    self.invalid(at.child(name), true, why);
                }
            }
        }
        if !props.flag("x-kubernetes-embedded-resource") {
            return;
        }
        if props.has("additionalProperties") {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbidden(at.child("additionalProperties"), why);
        }
        let has_properties = props.map("properties").is_some_and(|properties| !properties.is_empty());
        if !props.flag("x-kubernetes-preserve-unknown-fields") && !has_properties {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                x-kubernetes-preserve-unknown-fields";
            self.required(at.child("properties"), why);
        }
    }

    fn ty(&mut self, props: Props<'_>, level: Level, at: &At<'_>) {
        let ty = props.text("type");
        let may_be_empty =
            props.flag("x-kubernetes-int-or-string") || props.flag("x-kubernetes-preserve-unknown-fields");
        if props.flag("x-kubernetes-embedded-resource") && ty != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            match ty {
                "" => self.required(at.child("type"), why),
                ty => self.invalid(at.child("type"), ty, why),
            }
        } else if ty.is_empty() && !may_be_empty {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.required(at.child("type"), why);
        }
        if level == Level::Root && !matches!(ty, "" | "object") {
            self.invalid(at.child("type"), ty, "must be object at the root");
        }
    }

    /// The kind, the API version and the metadata of an object have fixed types. Only names can be restricted.
    fn type_meta(&mut self, props: Props<'_>, level: Level, at: &At<'_>) {
        let is_object = level == Level::Root || props.flag("x-kubernetes-embedded-resource");
        for name in ["kind", "apiVersion"] {
            let Some(property) = props.property(name).filter(|_| is_object) else { continue };
            if property.text("type") != "string" {
                self.invalid(
                    at.key("properties", name).child("type"),
                    property.text("type"),
                    "must be string",
                );
            }
        }
        let Some(metadata) = props.property("metadata") else { return };
        let at = at.key("properties", "metadata");
        if is_object && metadata.text("type") != "object" {
            self.invalid(at.child("type"), metadata.text("type"), "must be object");
        }
        if level != Level::Root {
            return;
        }
        let is_name = |name: &str| matches!(name, "name" | "generateName");
        let says_more = |(name, value): (&String, &Value)| match name.as_str() {
            "type" | "default" => false,
            "properties" => !metadata.keyed("properties").all(|(name, _)| is_name(name)),
            _ => !value.is_null(),
        };
        if metadata.0.iter().any(says_more) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbidden(at, why);
        }
    }

    fn junctions(&mut self, props: Props<'_>, skip_any_of: bool, skip_first_any_of: bool, at: &At<'_>) {
        if !skip_any_of {
            for (number, nested) in props.schemas("anyOf").enumerate() {
                self.nested(nested, false, &at.index("anyOf", number));
            }
        }
        for (number, nested) in props.schemas("allOf").enumerate() {
            self.nested(nested, skip_first_any_of && number == 0, &at.index("allOf", number));
        }
        for (number, nested) in props.schemas("oneOf").enumerate() {
            self.nested(nested, false, &at.index("oneOf", number));
        }
        if let Some(not) = props.schema("not") {
            self.nested(not, false, &at.child("not"));
        }
        let pattern = props.text("pattern");
        if !pattern.is_empty()
            && let Err(why) = pattern::compile(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {why}");
            self.invalid(at.child("pattern"), pattern, &why);
        }
    }

    fn nested(&mut self, props: Props<'_>, skip_any_of: bool, at: &At<'_>) {
        self.junctions(props, skip_any_of, false, at);
        if let Some(items) = props.schema("items") {
            self.nested(items, false, &at.child("items"));
        }
        for (name, property) in props.keyed("properties") {
            self.nested(property, false, &at.key("properties", name));
        }
        for (name, why) in NESTED_FORBIDDEN {
            // A value equal to an absent field is allowed, except for a default.
            let is_said = props.get(name).is_some_and(|value| match value {
                _ if name == "default" => true,
                Value::Bool(flag) => *flag,
                Value::String(text) => !text.is_empty() || name.ends_with("-type"),
                Value::Array(items) => !items.is_empty(),
                _ => true,
            });
            if is_said {
                self.forbidden(at.child(name), why);
            }
        }
        if props.property("metadata").is_some() {
            self.forbidden(at.key("properties", "metadata"), "must not be specified in a nested context");
        }
    }

    /// Every field and list of a nested schema has to be in the structure too: `own` is the structure at `at`, and
    /// `props` is the nested schema at `nested`.
    fn complete(&mut self, props: Props<'_>, own: Option<Props<'_>>, at: &At<'_>, nested: &At<'_>) {
        if let Some(not) = props.schema("not") {
            self.nested_complete(not, own, at, &nested.child("not"));
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            for (number, schema) in props.schemas(name).enumerate() {
                self.nested_complete(schema, own, at, &nested.index(name, number));
            }
        }
    }

    fn nested_complete(&mut self, props: Props<'_>, own: Option<Props<'_>>, at: &At<'_>, nested: &At<'_>) {
        let Some(structure) = own else {
            self.required(*at, &format!("because it is defined in {nested}"));
            return;
        };
        self.complete(props, own, at, nested);
        if let Some(items) = props.schema("items") {
            self.nested_complete(
                items,
                structure.schema("items"),
                &at.child("items"),
                &nested.child("items"),
            );
        }
        for (name, property) in props.keyed("properties") {
            let (at, nested) = (at.key("properties", name), nested.key("properties", name));
            self.nested_complete(property, structure.property(name), &at, &nested);
        }
    }
}
