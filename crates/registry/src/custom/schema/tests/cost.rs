//! What a kind costs, for whoever changes how it is kept or checked.

use std::{hint::black_box, mem::size_of, time::Instant};

use serde_json::{Map, Value, json};

use super::super::{Checks, Node, Part, Schema, Source};

const TIMES: u32 = 2000;

/// A schema of so many fields, a third of them with further rules, and an object of it.
fn sample(fields: usize) -> (Value, Value) {
    let (mut properties, mut values) = (Map::new(), Map::new());
    for number in 0..fields {
        let (schema, value) = match number % 6 {
            0 => (
                json!({"type": "string", "maxLength": 64, "description": "what it is called, in some words"}),
                json!("some text of a field"),
            ),
            1 => (json!({"type": "integer", "minimum": 0, "format": "int32"}), json!(12)),
            2 => (
                json!({"type": "string", "enum": ["Always", "Never", "Sometimes"], "default": "Never"}),
                json!("Sometimes"),
            ),
            3 => {
                (json!({"type": "array", "items": {"type": "string"}, "maxItems": 10}), json!(["one", "two"]))
            }
            4 => (
                json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "number"}}}),
                json!({"a": true, "b": 1.5}),
            ),
            _ => (
                json!({"type": "string", "pattern": format!("^[a-z0-9]([-a-z0-9]{{0,{}}}[a-z0-9])?$", 20 + number % 3)}),
                json!("a-name"),
            ),
        };
        properties.insert(format!("field{number:03}"), schema);
        values.insert(format!("field{number:03}"), value);
    }
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let object = json!({"apiVersion": "t.io/v1", "kind": "W", "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": values});
    (schema, object)
}

fn report(what: &str, mut once: impl FnMut()) {
    once();
    let began = Instant::now();
    (0..TIMES).for_each(|_| once());
    println!("{what}: {:.2} µs", began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES));
}

#[test]
#[ignore = "prints sizes"]
fn what_a_kind_takes() {
    println!("a field: {} bytes, with rules {} more", size_of::<(Box<str>, Node)>(), size_of::<Checks>());
    let resident = || {
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        sizes.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
    };
    let (schema, object) = sample(30);
    let before = resident();
    let kinds: Vec<Schema> = (0..1000).map(|_| Schema::parse(&schema).unwrap()).collect();
    println!("a kind of 30 fields: {} bytes", (resident() - before) / kinds.len());
    kinds[0].check_values(&object, None, Part::Whole);
    let before = resident();
    for number in 0..200 {
        let schema = json!({"type": "object", "properties": {"a": {
            "type": "string", "pattern": format!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?x{number}$"),
        }}});
        Schema::parse(&schema).unwrap().check_values(&json!({"a": "abc-def"}), None, Part::Whole);
    }
    println!("a compiled pattern: {} bytes", (resident() - before) / 200);
}

#[test]
#[ignore = "prints times"]
fn what_a_write_costs() {
    let (schema, object) = sample(75);
    println!("object: {} bytes", object.to_string().len());
    let (small, _) = sample(30);
    report("parse 30 fields", || drop(black_box(Schema::parse(&small).unwrap())));
    let schema = Schema::parse(&schema).unwrap();
    report("copy the object", || drop(black_box(object.clone())));
    let mut decoded = object.clone();
    report("decode", || drop(black_box(schema.decode(&mut decoded, Source::Client).unwrap())));
    report("fill defaults", || schema.fill_defaults(&mut decoded).unwrap());
    report("check values", || drop(black_box(schema.check_values(&decoded, None, Part::Whole))));
    report("check values of an update", || {
        drop(black_box(schema.check_values(&decoded, Some(&object), Part::Whole)));
    });
    report("check lists and embedded resources", || {
        drop(black_box((schema.check_lists(&decoded, None), schema.check_embedded(&decoded))));
    });
    assert_eq!(schema.check_values(&decoded, None, Part::Whole), []);
}
