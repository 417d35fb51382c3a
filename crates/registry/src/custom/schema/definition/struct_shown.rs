//! A schema as Kubernetes shows it in errors: all fields that it could have, by the names that they have in memory.

use serde_json::{Value, json};

use super::{
    super::{Rule, shown},
    Props,
};

/// The type of a field.
#[derive(Clone, Copy)]
enum Holds {
    Text,
    Flag,
    /// Null unless it is given.
    Given,
    Schema,
    Schemas,
    Keyed,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrTexts,
    Docs,
    Rules,
}

use Holds::{
    Docs, Flag, Given, Keyed, Rules, Schema, SchemaOrArray, SchemaOrBool, SchemaOrTexts, Schemas, Text,
};

const FIELDS: [(&str, &str, Holds); 44] = [
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Given),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", Flag),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Given),
    ("Maximum", "maximum", Given),
    ("ExclusiveMaximum", "exclusiveMaximum", Flag),
    ("Minimum", "minimum", Given),
    ("ExclusiveMinimum", "exclusiveMinimum", Flag),
    ("MaxLength", "maxLength", Given),
    ("MinLength", "minLength", Given),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Given),
    ("MinItems", "minItems", Given),
    ("UniqueItems", "uniqueItems", Flag),
    ("MultipleOf", "multipleOf", Given),
    ("Enum", "enum", Given),
    ("MaxProperties", "maxProperties", Given),
    ("MinProperties", "minProperties", Given),
    ("Required", "required", Given),
    ("Items", "items", SchemaOrArray),
    ("AllOf", "allOf", Schemas),
    ("OneOf", "oneOf", Schemas),
    ("AnyOf", "anyOf", Schemas),
    ("Not", "not", Schema),
    ("Properties", "properties", Keyed),
    ("AdditionalProperties", "additionalProperties", SchemaOrBool),
    ("PatternProperties", "patternProperties", Keyed),
    ("Dependencies", "dependencies", SchemaOrTexts),
    ("AdditionalItems", "additionalItems", SchemaOrBool),
    ("Definitions", "definitions", Keyed),
    ("ExternalDocs", "externalDocs", Docs),
    ("Example", "example", Given),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Given),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Given),
    ("XListType", "x-kubernetes-list-type", Given),
    ("XMapType", "x-kubernetes-map-type", Given),
    ("XValidations", "x-kubernetes-validations", Rules),
];

const RULE_FIELDS: [(&str, &str, Holds); 6] = [
    ("Rule", "rule", Text),
    ("Message", "message", Text),
    ("MessageExpression", "messageExpression", Text),
    ("Reason", "reason", Given),
    ("FieldPath", "fieldPath", Text),
    ("OptionalOldSelf", "optionalOldSelf", Given),
];

const DOCS_FIELDS: [(&str, &str, Holds); 2] = [("Description", "description", Text), ("URL", "url", Text)];

/// The names of all fields, in the order in which they are shown.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(_, name, _)| *name)
}

/// A schema with all its fields.
pub(super) fn schema(props: Props<'_>) -> String {
    object(props, &FIELDS)
}

/// A rule with all its fields, as an error shows it.
pub(crate) fn rule(rule: &Rule) -> String {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    object(
        Props::of(&json!({
            "rule": &*rule.rule, "message": &*rule.message, "messageExpression": &*rule.message_expression,
            "reason": given(&rule.reason), "fieldPath": &*rule.field_path, "optionalOldSelf": rule.optional_old_self,
        })),
        &RULE_FIELDS,
    )
}

/// A schema of a definition with all its fields.
pub(in crate::custom) fn schema_of_definition(value: &Value) -> String {
    schema(Props::of(value))
}

/// The value of `items`.
pub(super) fn items(value: &Value) -> String {
    field(Some(value), SchemaOrArray)
}

fn object(props: Props<'_>, fields: &[(&str, &str, Holds)]) -> String {
    let shown =
        fields.iter().map(|(shown, name, holds)| format!("\"{shown}\":{}", field(props.get(name), *holds)));
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

fn field(value: Option<&Value>, holds: Holds) -> String {
    let schema_of = |value: &Value| schema(Props::of(value));
    let rule_of = |value: &Value| object(Props::of(value), &RULE_FIELDS);
    let schemas =
        |items: &[Value]| format!("[{}]", items.iter().map(schema_of).collect::<Vec<_>>().join(","));
    let Some(value) = value else {
        return match holds {
            Text => "\"\"",
            Flag => "false",
            _ => "null",
        }
        .to_owned();
    };
    match (holds, value) {
        (Schema, value) => schema_of(value),
        (Schemas, Value::Array(items)) => schemas(items),
        (Keyed, Value::Object(entries)) => keyed(entries.iter().map(|(key, value)| (key, schema_of(value)))),
        (SchemaOrArray, Value::Array(items)) => {
            format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", schemas(items))
        }
        (SchemaOrArray, value) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema_of(value)),
        (SchemaOrBool, Value::Bool(allows)) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        (SchemaOrBool, value) => format!("{{\"Allows\":true,\"Schema\":{}}}", schema_of(value)),
        (SchemaOrTexts, Value::Object(entries)) => keyed(entries.iter().map(|(key, value)| {
            let shown = match value {
                Value::Array(_) => format!("{{\"Schema\":null,\"Property\":{}}}", shown::json(value)),
                value => format!("{{\"Schema\":{},\"Property\":null}}", schema_of(value)),
            };
            (key, shown)
        })),
        (Docs, value) => object(Props::of(value), &DOCS_FIELDS),
        (Rules, Value::Array(rules)) => {
            format!("[{}]", rules.iter().map(rule_of).collect::<Vec<_>>().join(","))
        }
        (_, value) => shown::json(value),
    }
}

fn keyed<'a>(entries: impl Iterator<Item = (&'a String, String)>) -> String {
    let entries = entries.map(|(key, value)| format!("{}:{value}", shown::json(&key.as_str().into())));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}
