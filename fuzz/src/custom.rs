//! Expressions, schemas and definitions made of a fuzzer's bytes, and objects for such schemas.

use crate::{any, text};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use serde_json::{Map, Value, json};

/// The maximum depth of a schema or an object of it.
const DEPTH_MAX: u32 = 5;
/// The maximum number of pieces of an expression.
const PIECES_MAX: usize = 24;

/// The pieces of expressions.
const PIECES: [&str; 96] = [
    "self", "oldSelf", "x", "y", ".a", ".b", ".c", ".items", "[0]", "['a']", "[?0]", ".?a", "(", ")", "[", "]", "{", "}", ",", ":", "?",
    "==", "!=", "<", ">=", "+", "-", "*", "/", "%", "!", "&&", "||", " in ", "true", "false", "null", "0", "1", "-9223372036854775808",
    "9223372036854775807", "1u", "1.5", "1e309", "''", "'a'", "\"a\\u00e9\\n\"", "b'\\xff'", "r'\\d'", "'1h'", "'2024-01-02T03:04:05Z'",
    "'(a+)+$'", "'10.0.0.0/8'", "'1Gi'", "'https://a/b?c=d'", "has(self.a)", "size(", ".size()", ".all(x, ", ".exists(x, ",
    ".exists_one(x, ", ".map(x, ", ".filter(x, ", ".matches(", ".contains(", ".startsWith(", ".split(", ".replace(", ".join(",
    ".substring(", ".format([", "])", ".indexOf(", ".isSorted()", ".sum()", ".min()", ".reverse()", ".find(", ".findAll(", "int(",
    "uint(", "double(", "string(", "bytes(", "timestamp(", "duration(", "type(", "dyn(", "quantity(", "ip(", "cidr(", "url(",
    "optional.of(", ".orValue(", ".hasValue()", "sets.contains(",
];

/// Whole expressions, which random pieces seldom form.
const EXPRESSIONS: [&str; 14] = [
    "self == oldSelf",
    "self.a > 0 && self.b != ''",
    "self.all(x, x.a != x.b)",
    "self.all(x, self.all(y, x == y || x != y))",
    "self.exists(x, x.startsWith('a'))",
    "self.map(x, x + x).filter(x, size(x) > 1).size() < 5",
    "!has(self.a) || self.a.matches('(a+)+$')",
    "self.a in ['a', 'b'] ? self.b : true",
    "quantity(self.a).isGreaterThan(quantity('1'))",
    "ip(self.a).family() == 4",
    "duration(self.a) < duration('1h')",
    "self.?a.orValue('').size() == 0",
    "oldSelf.hasValue() || self.a == 1",
    "self.items.all(x, x.name.split('-').join('') != x.name)",
];

const NAMES: [&str; 8] = ["a", "b", "c", "items", "name", "metadata", "apiVersion", "x-y"];
const PATTERNS: [&str; 12] = [
    "^a$", "[", "(a+)+$", "(a|aa)+", "a{1000}", "((a{0,30}){0,30}){0,30}", "(?i)é", "\\p{Greek}+", "(?=a)", "^[a-z]([-a-z0-9]*[a-z0-9])?$", "",
    "\\",
];
const FORMATS: [&str; 12] =
    ["date-time", "date", "duration", "byte", "int32", "int64", "ipv4", "cidr", "uuid", "email", "hostname", "bogus"];
const TYPES: [&str; 7] = ["object", "object", "array", "string", "integer", "number", "boolean"];

/// An expression, or something like one.
pub fn expression(bytes: &mut Unstructured<'_>) -> Result<String> {
    Ok(match bytes.int_in_range(0..=3)? {
        0 => bytes.choose(&EXPRESSIONS)?.to_string(),
        1 => text(bytes)?,
        _ => {
            let mut text = String::new();
            for _ in 0..bytes.int_in_range(1..=PIECES_MAX)? {
                text.push_str(bytes.choose(&PIECES)?);
            }
            text
        }
    })
}

/// A definition of one version with a schema of this kind, as it is stored when its names were accepted.
pub fn definition(schema: &Value) -> Value {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": names,
            "conversion": {"strategy": "None"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
        "status": {
            "acceptedNames": names,
            "conditions": [{"type": "Established", "status": "True"}],
            "storedVersions": ["v1"],
        },
    })
}

/// A schema of a whole object.
pub fn root_schema(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut root = schema(bytes, 0)?;
    // Most are rejected otherwise.
    if bytes.ratio(9, 10)? {
        root["type"] = "object".into();
        root["properties"]["spec"] = schema(bytes, 1)?;
    }
    Ok(root)
}

/// A schema, mostly a structural one.
fn schema(bytes: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    let mut own = Map::new();
    let ty = *bytes.choose(&TYPES)?;
    let is_deep = depth >= DEPTH_MAX;
    match ty {
        "object" if is_deep => _ = own.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into()),
        "object" if bytes.ratio(1, 4)? => {
            own.insert("additionalProperties".to_owned(), schema(bytes, depth + 1)?);
        }
        "object" => {
            let mut properties = Map::new();
            for _ in 0..bytes.int_in_range(0..=4)? {
                properties.insert(bytes.choose(&NAMES)?.to_string(), schema(bytes, depth + 1)?);
            }
            own.insert("properties".to_owned(), properties.into());
        }
        "array" => {
            let items = if is_deep { json!({"type": "string"}) } else { schema(bytes, depth + 1)? };
            own.insert("items".to_owned(), items);
        }
        _ => {}
    }
    own.insert("type".to_owned(), ty.into());
    for _ in 0..bytes.int_in_range(0..=3)? {
        let (name, value) = keyword(bytes, depth)?;
        own.insert(name.to_owned(), value);
    }
    if bytes.ratio(1, 30)? {
        own.remove("type");
    }
    Ok(own.into())
}

/// A keyword of a schema, not always where it has a meaning.
fn keyword(bytes: &mut Unstructured<'_>, depth: u32) -> Result<(&'static str, Value)> {
    let small = bytes.int_in_range(-1..=5)?;
    Ok(match bytes.int_in_range(0..=27)? {
        0 => ("nullable", true.into()),
        1 => ("default", any(bytes, DEPTH_MAX)?),
        2 => ("enum", Value::Array(vec![any(bytes, DEPTH_MAX)?, text(bytes)?.into()])),
        3 => ("pattern", bytes.choose(&PATTERNS)?.to_string().into()),
        4 => ("format", bytes.choose(&FORMATS)?.to_string().into()),
        5 => ("minimum", small.into()),
        6 => ("maximum", json!(f64::from(small as i32) + 0.5)),
        7 => ("exclusiveMaximum", true.into()),
        8 => ("multipleOf", json!(f64::from(small as i32) / 4.0)),
        9 => ("maxLength", small.into()),
        10 => ("minLength", small.into()),
        11 => ("maxItems", small.into()),
        12 => ("minItems", small.into()),
        13 => ("maxProperties", small.into()),
        14 => ("required", Value::Array(vec![bytes.choose(&NAMES)?.to_string().into()])),
        15 => ("x-kubernetes-int-or-string", true.into()),
        16 => ("x-kubernetes-preserve-unknown-fields", true.into()),
        17 => ("x-kubernetes-embedded-resource", true.into()),
        18 => ("x-kubernetes-list-type", bytes.choose(&["map", "set", "atomic"])?.to_string().into()),
        19 => ("x-kubernetes-list-map-keys", json!([bytes.choose(&NAMES)?])),
        20 => ("x-kubernetes-map-type", bytes.choose(&["granular", "atomic"])?.to_string().into()),
        21 if depth < DEPTH_MAX => ("allOf", Value::Array(vec![schema(bytes, depth + 2)?])),
        22 if depth < DEPTH_MAX => ("not", json!({"required": [bytes.choose(&NAMES)?]})),
        23 => ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
        24 => ("uniqueItems", bytes.arbitrary::<bool>()?.into()),
        _ => ("x-kubernetes-validations", rules(bytes)?),
    })
}

fn rules(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let count = bytes.int_in_range(1..=2)?;
    (0..count).map(|_| rule(bytes)).collect::<Result<Vec<_>>>().map(Value::Array)
}

fn rule(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut rule = json!({"rule": expression(bytes)?});
    if bytes.ratio(1, 4)? {
        rule["messageExpression"] = expression(bytes)?.into();
    }
    if bytes.ratio(1, 6)? {
        rule["optionalOldSelf"] = true.into();
    }
    if bytes.ratio(1, 6)? {
        rule["fieldPath"] = format!(".{}", bytes.choose(&NAMES)?).into();
    }
    Ok(rule)
}

/// An object for a schema.
pub fn object(bytes: &mut Unstructured<'_>, schema: &Value) -> Result<Value> {
    let mut object = value(bytes, schema, 0)?;
    if !object.is_object() {
        object = json!({});
    }
    object["apiVersion"] = "example.org/v1".into();
    object["kind"] = "Thing".into();
    object["metadata"] = json!({"name": "a"});
    Ok(object)
}

fn value(bytes: &mut Unstructured<'_>, schema: &Value, depth: u32) -> Result<Value> {
    if bytes.ratio(1, 15)? || depth > DEPTH_MAX + 2 {
        return any(bytes, DEPTH_MAX);
    }
    Ok(match schema["type"].as_str() {
        Some("object") => {
            let mut own = Map::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if bytes.ratio(3, 4)? {
                    own.insert(name.clone(), value(bytes, property, depth + 1)?);
                }
            }
            if let additional @ Value::Object(_) = &schema["additionalProperties"] {
                own.insert(text(bytes)?, value(bytes, additional, depth + 1)?);
            }
            if bytes.ratio(1, 8)? {
                own.insert(text(bytes)?, any(bytes, DEPTH_MAX)?);
            }
            own.into()
        }
        Some("array") => {
            let count = bytes.int_in_range(0..=4)?;
            (0..count).map(|_| value(bytes, &schema["items"], depth + 1)).collect::<Result<_>>()?
        }
        Some("string") => text(bytes)?.into(),
        Some("integer") => bytes.arbitrary::<i8>()?.into(),
        Some("number") => json!(f64::from(bytes.arbitrary::<i8>()?) / 2.0),
        Some("boolean") => bytes.arbitrary::<bool>()?.into(),
        _ => any(bytes, DEPTH_MAX)?,
    })
}
