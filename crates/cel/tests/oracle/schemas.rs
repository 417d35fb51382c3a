//! Random schemas, and documents of them.

use rand::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::types::{Type, pick};

/// Names of properties: plain ones, and those that expressions must escape.
const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "x",
    "name",
    "a-b",
    "c.d",
    "e/f",
    "in",
    "namespace",
    "__x__",
    "a__b",
    "if",
    "type",
    "self",
    "x_y",
    "1a",
    "size",
    "é",
];
const KEYS: &[&str] = &["a", "b", "a-b", "k", "é"];

/// A schema.
pub(crate) fn schema(random: &mut StdRng, depth: u32) -> Json {
    let mut schema = match random.random_range(0..if depth == 0 { 10 } else { 20 }) {
        0 | 1 => json!({ "type": "integer" }),
        2 => json!({ "type": "number" }),
        3 => json!({ "type": "boolean" }),
        4..=6 => string(random),
        7 => {
            json!({ "type": "string", "format": pick(&["byte", "date", "date-time", "duration", "uuid", "date-time"], random) })
        }
        8 => json!({ "x-kubernetes-int-or-string": true }),
        9 => {
            json!({ "type": "string", "enum": pick(&[json!(["a"]), json!(["True", "False", "Unknown"]), json!(["é"])], random) })
        }
        10..=13 => list(random, depth),
        14 | 15 => map(random, depth),
        _ => object(random, depth),
    };
    if random.random_bool(0.1) {
        schema["nullable"] = true.into();
    }
    schema
}

fn limit(schema: &mut Json, name: &str, random: &mut StdRng) {
    if random.random_bool(0.6) {
        schema[name] = pick(&[0, 1, 2, 3, 5, 7, 10, 20, 63, 100, 1000, 10_000], random).into();
    }
}

fn string(random: &mut StdRng) -> Json {
    let mut schema = json!({ "type": "string" });
    limit(&mut schema, "maxLength", random);
    schema
}

fn list(random: &mut StdRng, depth: u32) -> Json {
    let mut schema = json!({ "type": "array" });
    match random.random_range(0..10) {
        0 | 1 => {
            schema["items"] = pick(
                &[
                    json!({"type": "string"}),
                    json!({"type": "integer"}),
                    json!({"type": "string", "maxLength": 5}),
                ],
                random,
            );
            schema["x-kubernetes-list-type"] = "set".into();
        }
        2 | 3 => {
            let mut item = object(random, depth.saturating_sub(1));
            item["properties"]["k"] = json!({ "type": "string", "maxLength": 10 });
            item["required"] = json!(["k"]);
            schema["items"] = item;
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] = json!(["k"]);
        }
        4 => {
            schema["items"] = self::schema(random, depth - 1);
            schema["x-kubernetes-list-type"] = "atomic".into();
        }
        _ => schema["items"] = self::schema(random, depth - 1),
    }
    limit(&mut schema, "maxItems", random);
    schema
}

fn map(random: &mut StdRng, depth: u32) -> Json {
    let mut schema = json!({ "type": "object", "additionalProperties": self::schema(random, depth - 1) });
    limit(&mut schema, "maxProperties", random);
    schema
}

/// An object schema.
pub(crate) fn object(random: &mut StdRng, depth: u32) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for _ in 0..random.random_range(1..6) {
        let name =
            if random.random_bool(0.6) { NAMES[random.random_range(0..7)] } else { pick(NAMES, random) };
        properties.insert(name.to_owned(), self::schema(random, depth.saturating_sub(1)));
        if random.random_bool(0.2) {
            required.push(name);
        }
    }
    if random.random_bool(0.1) {
        properties.insert("any".to_owned(), json!({ "x-kubernetes-preserve-unknown-fields": true }));
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if random.random_bool(0.1) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schema
}

/// A document of the schema. Maps have no more than `entries_max` entries.
pub(crate) fn document(schema: &Json, entries_max: usize, random: &mut StdRng) -> Json {
    if schema["nullable"] == true && random.random_bool(0.3) {
        return Json::Null;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return pick(&[json!(1), json!(5), json!("50%"), json!("a"), json!("")], random);
    }
    match schema["type"].as_str() {
        Some("integer") => {
            pick(&[json!(0), json!(1), json!(-3), json!(7), json!(100), json!(i64::MAX)], random)
        }
        Some("number") => pick(&[json!(0), json!(1.5), json!(2), json!(-0.5), json!(1e100)], random),
        Some("boolean") => random.random_bool(0.5).into(),
        Some("string") => string_value(schema, random),
        Some("array") => list_value(schema, entries_max, random),
        Some("object") => object_value(schema, entries_max, random),
        _ => pick(&[json!(1), json!("x"), json!({ "a": 1 }), json!([1, "a"]), json!(true)], random),
    }
}

fn string_value(schema: &Json, random: &mut StdRng) -> Json {
    if let Some(values) = schema["enum"].as_array() {
        return pick(values, random);
    }
    let texts: &[&str] = match schema["format"].as_str() {
        Some("byte") => &["aGk=", "", "YWJjZGVm", "_w=="],
        Some("date") => &["2023-01-01", "2024-02-29", "1970-01-01"],
        Some("date-time") => &["2023-01-01T00:00:00Z", "2024-02-29T12:30:00.5+01:00", "1970-01-01T00:00:00Z"],
        Some("duration") => &["1h", "90s", "1h30m", "500ms", "0s"],
        _ => &[
            "",
            "a",
            "b",
            "ab",
            "hello",
            "x,y",
            "é😀",
            "10.0.0.0/8",
            "1.2.3",
            "1Gi",
            "my-name",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ],
    };
    let text = pick(texts, random);
    let length_max = schema["maxLength"].as_u64().unwrap_or(u64::MAX) as usize;
    if schema.get("format").is_none() {
        text.chars().take(length_max).collect::<String>().into()
    } else {
        text.into()
    }
}

fn list_value(schema: &Json, entries_max: usize, random: &mut StdRng) -> Json {
    let most = schema["maxItems"].as_u64().unwrap_or(4).min(4) as usize;
    let mut items: Vec<Json> =
        (0..random.random_range(0..=most)).map(|_| document(&schema["items"], entries_max, random)).collect();
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => {
            let mut seen = Vec::new();
            items.retain(|item| {
                !seen.contains(item) && {
                    seen.push(item.clone());
                    true
                }
            });
        }
        Some("map") => {
            items.retain(Json::is_object);
            for (index, item) in items.iter_mut().enumerate() {
                item["k"] = ["a", "b", "c", "d"][index].into();
            }
        }
        _ => {}
    }
    items.into()
}

fn object_value(schema: &Json, entries_max: usize, random: &mut StdRng) -> Json {
    let mut entries = Map::new();
    if let Some(values) = schema.get("additionalProperties") {
        for _ in 0..random.random_range(0..=entries_max) {
            entries.insert(pick(KEYS, random).to_owned(), document(values, entries_max, random));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let required = schema["required"].as_array().is_some_and(|required| required.contains(&json!(name)));
        if required || random.random_bool(0.75) {
            entries.insert(name.clone(), document(property, entries_max, random));
        }
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true && random.random_bool(0.5) {
        entries.insert("unknown".to_owned(), pick(&[json!(1), json!("a"), json!({ "b": [1] })], random));
    }
    entries.into()
}

/// The old document of an update: mostly like the new one.
pub(crate) fn changed(document: &Json, random: &mut StdRng) -> Json {
    match document {
        Json::Array(items) => {
            let mut items: Vec<Json> = items.iter().map(|item| changed(item, random)).collect();
            if random.random_bool(0.3) {
                items.reverse();
            }
            if random.random_bool(0.2) {
                items.pop();
            }
            items.into()
        }
        Json::Object(entries) => entries
            .iter()
            .filter(|_| !random.random_bool(0.1))
            .map(|(name, value)| (name.clone(), value))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(name, value)| (name, changed(value, random)))
            .collect::<Map<String, Json>>()
            .into(),
        Json::Number(number) if number.is_i64() && random.random_bool(0.2) => json!(2),
        other => other.clone(),
    }
}

/// The type of values of a schema, as far as expressions can be generated for it. `path` is where it stands.
pub(crate) fn value_type(schema: &Json, path: &str) -> Option<Type> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(Type::Dyn);
    }
    Some(match schema["type"].as_str()? {
        "integer" => Type::Int,
        "number" => Type::Double,
        "boolean" => Type::Bool,
        "string" => match schema["format"].as_str() {
            Some("byte") => Type::Bytes,
            Some("date" | "date-time") => Type::Timestamp,
            Some("duration") => Type::Duration,
            _ => Type::String,
        },
        "array" => Type::list(value_type(schema.get("items")?, &format!("{path}/items"))?),
        "object" => match schema.get("additionalProperties") {
            Some(values) => {
                Type::Map(Box::new(Type::String), Box::new(value_type(values, &format!("{path}/values"))?))
            }
            None => Type::Object(path.to_owned()),
        },
        _ => return None,
    })
}
