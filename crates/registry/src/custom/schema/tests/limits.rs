use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{
        Part, Schema, Source, TooManyDefaults,
        definition::{self, Definition, Tolerated},
        format::Format,
        node::Type,
    },
    NoRules,
};

const FORMATS: [&str; 25] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "date",
    "duration",
    "date-time",
    "k8s-short-name",
    "k8s-long-name",
];

proptest! {
    #[test]
    fn any_text_has_a_format_or_has_not(text in r#"[-0-9a-fA-Z.:/@\[\]()%,;=# \t\n\\"<>TtZzXu\pL\pS]{0,40}"#) {
        for name in FORMATS {
            Format::new(name, Type::String).kind.matches(&text);
        }
    }
}

fn faults(schema: &Value) -> usize {
    let definition = Definition {
        schema,
        path: "spec.validation.openAPIV3Schema",
        has_status: true,
        tolerated: Tolerated::default(),
    };
    definition::validate(&definition, &mut NoRules).len()
}

#[test]
fn a_schema_that_is_too_deep_is_refused() {
    for name in ["items", "not", "additionalProperties"] {
        let mut schema = json!({"type": "string"});
        for _ in 0..200 {
            schema = json!({"type": "object", name: schema});
        }
        assert!(Schema::parse(&schema).is_err());
        assert_eq!(faults(&schema), 1);
    }
}

#[test]
fn defaults_inside_of_defaults_make_no_more_than_a_document_may_have() {
    let mut schema = json!({"type": "string", "default": "x"});
    for _ in 0..8 {
        let items = json!({"type": "object", "properties": {"a": schema}});
        schema = json!({"type": "array", "items": items, "default": vec![json!({}); 20]});
    }
    let root = json!({"type": "object", "properties": {"a": schema}});
    let mut document = json!({});
    assert_eq!(Schema::parse(&root).unwrap().fill_defaults(&mut document), Err(TooManyDefaults));
}

#[test]
fn a_large_object_does_not_have_more_faults_than_are_reported() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string"}},
        "s": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
    }});
    let schema = Schema::parse(&schema).unwrap();
    let mut object = json!({"a": (0..100_000).collect::<Vec<_>>(), "s": vec![1; 100_000]});
    schema.decode(&mut object, Source::Client).unwrap();
    assert_eq!(schema.check_values(&object, None, Part::Whole).len(), 1000);
    assert_eq!(schema.check_lists(&object, None).len(), 1);
}

/// Each error of an enum lists all of its values: 450 of them made an answer of a gigabyte.
#[test]
fn the_errors_of_a_large_enum_have_a_limit_in_bytes() {
    let values: Vec<String> = (0..5000).map(|number| format!("value-{number}")).collect();
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string", "enum": values}},
    }});
    let items: Vec<String> = (0..450).map(|number| format!("other-{number}")).collect();
    let causes = Schema::parse(&schema).unwrap().check_values(&json!({"list": items}), None, Part::Whole);
    let bytes: usize = causes.iter().map(|cause| cause.message.len()).sum();
    assert!((1..20).contains(&causes.len()) && bytes < 1 << 20, "{} errors, {bytes} bytes", causes.len());
}

#[test]
fn many_items_of_a_map_are_found_again_wherever_they_moved() {
    let items = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "integer"}, "v": {"type": "string", "maxLength": 1},
    }});
    let schema = json!({"type": "object", "properties": {"l": {
        "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    }}});
    let schema = Schema::parse(&schema).unwrap();
    let list = |numbers: &mut dyn Iterator<Item = i64>| json!({"l": numbers.map(|k| json!({"k": k, "v": "xx"})).collect::<Vec<_>>()});
    let (old, new) = (list(&mut (0..20_000)), list(&mut (0..20_000).rev()));
    assert_eq!(schema.check_values(&new, Some(&old), Part::Whole), []);
    let longer = list(&mut (-1..20_000).rev());
    let faults = schema.check_values(&longer, Some(&old), Part::Whole);
    assert_eq!(faults.iter().map(|fault| fault.field.as_str()).collect::<Vec<_>>(), ["l[20000].v"]);
}

#[test]
fn the_status_is_checked_alone_when_it_is_written() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "string"}, "status": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]},
    }});
    let schema = Schema::parse(&schema).unwrap();
    let object = json!({"spec": 5, "status": {"a": "x"}});
    let shown = |old: Option<&Value>| {
        let faults = schema.check_values(&object, old, Part::Status);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(None),
        [
            "status.a: Invalid value: \"string\": a in body must be of type integer: \"string\"",
            "status.b: Required value"
        ]
    );
    assert_eq!(shown(Some(&object)), [""; 0]);
}

#[test]
fn what_comes_from_storage_loses_metadata_of_another_form() {
    let schema = json!({"type": "object", "properties": {
        "r": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }});
    let schema = Schema::parse(&schema).unwrap();
    let given = json!({
        "metadata": {"name": "a", "labels": {"a": 1}, "foo": 1}, "x": 1,
        "r": {"kind": 5, "apiVersion": "v1", "metadata": {"name": 5, "namespace": "n"}},
    });
    let mut stored = given.clone();
    assert_eq!(schema.decode(&mut stored, Source::Storage), Ok(vec![]));
    assert_eq!(
        stored,
        json!({"metadata": {"name": "a", "generation": 1}, "r": {"apiVersion": "v1", "metadata": {"namespace": "n"}}})
    );
    let why = schema.decode(&mut given.clone(), Source::Client).unwrap_err();
    assert_eq!(why, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string");
}

#[test]
fn a_number_with_a_point_is_the_same_key_as_one_without_only_inside_of_objects() {
    let number = json!({"type": "number"});
    let item = json!({"type": "object", "properties": {"x": number, "y": number}});
    let list = |keys: Value| json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    let schema = json!({"type": "object", "properties": {
        "one": list(json!(["x"])),
        "two": list(json!(["x", "y"])),
        "set": {"type": "array", "items": number, "x-kubernetes-list-type": "set"},
        "objects": {"type": "array", "items": item, "x-kubernetes-list-type": "set"},
    }});
    let schema = Schema::parse(&schema).unwrap();
    let repeated = |field: &str, items: Value| schema.check_lists(&json!({field: items}), None).len();
    assert_eq!(repeated("one", json!([{"x": 1}, {"x": 1.0}])), 0);
    assert_eq!(repeated("two", json!([{"x": 1, "y": 2}, {"x": 1.0, "y": 2}])), 1);
    assert_eq!(repeated("set", json!([1, 1.0])), 0);
    assert_eq!(repeated("objects", json!([{"x": 1}, {"x": 1.0}])), 1);
}
