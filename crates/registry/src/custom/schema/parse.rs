//! Parses the JSON of a definition into a [`Schema`].
//!
//! Fields of the right type are read; fields of another type count as absent. Descriptions, examples and the like are
//! left out.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::{
    format::Format,
    node::{Additional, Below, Checks, Junctions, ListType, Node, Properties, Rule, Schema, Type},
    numbers,
    pattern::Pattern,
};

/// The largest depth of nested schemas. A document has no room for more: each takes two levels.
const LEVELS_MAX: usize = 128;

type Fields = Map<String, Value>;

impl Schema {
    /// Compiles the `openAPIV3Schema` of a version. The error is in Kubernetes' words.
    pub(crate) fn parse(schema: &Value) -> Result<Schema, String> {
        let parsing = Parsing { levels: LEVELS_MAX, is_stored: true };
        Ok(Schema { root: Arc::new(parsing.node(schema)?) })
    }

    /// Compiles the schema of a definition that was not stored yet, so that its numbers are as they were given.
    pub(super) fn parse_new(schema: &Value) -> Result<Schema, String> {
        let parsing = Parsing { levels: LEVELS_MAX, is_stored: false };
        Ok(Schema { root: Arc::new(parsing.node(schema)?) })
    }
}

/// The error for a schema that is not parsed at all.
pub(super) const TOO_DEEP: &str = "OpenAPIV3Schema is nested too deeply";

/// A part of a schema by itself.
pub(super) fn node_of(fields: &Fields) -> Result<Node, String> {
    Parsing { levels: LEVELS_MAX, is_stored: false }.node_in(fields)
}

/// The fields that a schema must not have, and their names in errors.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

fn unsupported(fields: &Fields) -> Option<String> {
    let given = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        other => !other.is_null(),
    };
    // For `additionalItems`, even an empty schema counts.
    let has = |name: &str| fields.get(name).is_some_and(|value| name == "additionalItems" || given(value));
    let (_, shown) = UNSUPPORTED.iter().find(|(name, _)| has(name))?;
    Some(format!("OpenAPIV3Schema '{shown}' is not supported"))
}

/// The options of parsing.
#[derive(Clone, Copy)]
struct Parsing {
    /// The number of levels that may still be nested.
    levels: usize,
    is_stored: bool,
}

impl Parsing {
    fn node(self, schema: &Value) -> Result<Node, String> {
        static NOTHING: LazyLock<Fields> = LazyLock::new(Map::new);
        self.node_in(schema.as_object().unwrap_or(&NOTHING))
    }

    fn node_in(self, fields: &Fields) -> Result<Node, String> {
        let inner = Parsing { levels: self.levels.checked_sub(1).ok_or(TOO_DEEP)?, ..self };
        if let Some(why) = unsupported(fields) {
            return Err(why);
        }
        let flag = |name: &str| fields.get(name) == Some(&Value::Bool(true));
        if fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            return Err(
                "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned()
            );
        }
        let mut own = Node {
            ty: ty(text(fields, "type")),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            below: Below::default(),
            properties: properties(fields, inner)?,
            additional: additional(fields, inner)?,
            items: items(fields, inner)?,
            list_type: list_type(fields).map(Box::new),
            default: fields
                .get("default")
                .filter(|value| !value.is_null())
                .map(|value| Box::new(self.value(value))),
            checks: checks(fields, inner)?.map(Box::new),
            rules: rules(fields),
        };
        own.below = below(&own);
        Ok(own)
    }

    /// A value as it is, or as it is once the definition was stored.
    fn value(self, value: &Value) -> Value {
        let mut value = value.clone();
        if self.is_stored {
            numbers::settle(&mut value);
        }
        numbers::read(&mut value);
        value
    }
}

fn below(node: &Node) -> Below {
    let mut all = Below {
        defaults: node.default.is_some(),
        rules: !node.rules.is_empty(),
        embedded: node.embedded,
        unique_lists: matches!(node.list_type.as_deref(), Some(ListType::Set | ListType::Map(_))),
    };
    let properties = node.properties.iter().map(|(_, property)| property);
    for child in properties.chain(node.items.as_deref()).chain(node.additional_schema()) {
        all.defaults |= child.below.defaults;
        all.rules |= child.below.rules;
        all.embedded |= child.below.embedded;
        all.unique_lists |= child.below.unique_lists;
    }
    all
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The type of a name.
pub(super) fn ty(name: &str) -> Type {
    match name {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Unset,
    }
}

fn properties(fields: &Fields, parsing: Parsing) -> Result<Properties, String> {
    let Some(Value::Object(properties)) = fields.get("properties") else { return Ok(Box::default()) };
    let mut all = Vec::with_capacity(properties.len());
    for (name, schema) in properties {
        all.push((name.as_str().into(), parsing.node(schema)?));
    }
    all.sort_by(|(a, _): &(Box<str>, Node), (b, _)| a.cmp(b));
    Ok(all.into_boxed_slice())
}

fn additional(fields: &Fields, parsing: Parsing) -> Result<Additional, String> {
    Ok(match fields.get("additionalProperties") {
        Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
        Some(schema @ Value::Object(_)) => Additional::Schema(Box::new(parsing.node(schema)?)),
        _ => Additional::Unset,
    })
}

fn items(fields: &Fields, parsing: Parsing) -> Result<Option<Box<Node>>, String> {
    match fields.get("items") {
        Some(Value::Array(schemas)) if !schemas.is_empty() => {
            Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned())
        }
        Some(schema @ Value::Object(_)) => Ok(Some(Box::new(parsing.node(schema)?))),
        _ => Ok(None),
    }
}

fn list_type(fields: &Fields) -> Option<ListType> {
    match text(fields, "x-kubernetes-list-type") {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map(texts(fields, "x-kubernetes-list-map-keys"))),
        _ => None,
    }
}

fn texts(fields: &Fields, name: &str) -> Box<[Box<str>]> {
    let items = fields.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(Box::from).collect()
}

fn checks(fields: &Fields, parsing: Parsing) -> Result<Option<Checks>, String> {
    let real = |name: &str| fields.get(name).and_then(Value::as_f64);
    let whole = |name: &str| fields.get(name).and_then(Value::as_i64);
    let flag = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    let given = |name: &str| Some(text(fields, name)).filter(|text| !text.is_empty());
    let of_type = (!flag("x-kubernetes-int-or-string")).then(|| ty(text(fields, "type")));
    let checks = Checks {
        format: given("format").map(|name| Format::new(name, of_type.unwrap_or_default())),
        maximum: real("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        minimum: real("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        multiple_of: real("multipleOf"),
        max_length: whole("maxLength"),
        min_length: whole("minLength"),
        pattern: given("pattern").map(Pattern::new),
        max_items: whole("maxItems"),
        min_items: whole("minItems"),
        max_properties: whole("maxProperties"),
        min_properties: whole("minProperties"),
        enumeration: fields
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|value| parsing.value(value))
            .collect(),
        required: texts(fields, "required"),
        junctions: junctions(fields, parsing)?.map(Box::new),
    };
    Ok(checks.has_any().then_some(checks))
}

impl Checks {
    fn has_any(&self) -> bool {
        let numbers = [self.maximum, self.minimum, self.multiple_of];
        let sizes = [self.max_length, self.min_length, self.max_items, self.min_items];
        let sizes = sizes.into_iter().chain([self.max_properties, self.min_properties]);
        self.format.is_some()
            || self.pattern.is_some()
            || self.junctions.is_some()
            || numbers.iter().any(Option::is_some)
            || sizes.flatten().next().is_some()
            || !self.enumeration.is_empty()
            || !self.required.is_empty()
    }
}

fn junctions(fields: &Fields, parsing: Parsing) -> Result<Option<Junctions>, String> {
    let list = |name: &str| -> Result<Box<[Node]>, String> {
        let schemas = fields.get(name).and_then(Value::as_array).into_iter().flatten();
        schemas.map(|schema| parsing.node(schema)).collect()
    };
    let not = fields.get("not").filter(|schema| schema.is_object());
    let all = Junctions {
        not: not.map(|schema| parsing.node(schema)).transpose()?,
        all_of: list("allOf")?,
        any_of: list("anyOf")?,
        one_of: list("oneOf")?,
    };
    let is_empty =
        all.not.is_none() && [&all.all_of, &all.any_of, &all.one_of].iter().all(|list| list.is_empty());
    Ok((!is_empty).then_some(all))
}

fn rules(fields: &Fields) -> Box<[Rule]> {
    let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    rules
        .filter_map(Value::as_object)
        .map(|rule| Rule {
            rule: text(rule, "rule").into(),
            message: text(rule, "message").into(),
            message_expression: text(rule, "messageExpression").into(),
            reason: text(rule, "reason").into(),
            field_path: text(rule, "fieldPath").into(),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        })
        .collect()
}
