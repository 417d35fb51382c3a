//! Definitions of custom kinds: the one whose objects a server is loaded with, and many small ones.
//!
//! The first has about a hundred fields and five rules, like kinds of large operators; each of the others has thirty
//! fields. All are in groups of this run alone, with its label.

use serde_json::{Map, Value, json};

/// The path of the definitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The resource of the objects.
pub(crate) const RECORDS: &str = "records";
/// The number of fields of each simple type in a record.
const TEXTS: usize = 40;
const COUNTS: usize = 28;
const FLAGS: usize = 12;
const MODES: usize = 8;
/// The number of fields of each simple type in a small kind.
const FEW: usize = 9;

/// The group of a run's kinds.
pub(crate) fn group(run: &str) -> String {
    format!("{run}.bench.keepwatch.dev")
}

/// The definition of records.
pub(crate) fn definition_of_records(run: &str, labels: &Value) -> String {
    let mut fields = Map::new();
    let mut add = |name: &str, count: usize, schema: Value| {
        fields.extend((0..count).map(|number| (format!("{name}{number:02}"), schema.clone())));
    };
    add("text", TEXTS, json!({"type": "string", "maxLength": 60}));
    add("count", COUNTS, json!({"type": "integer", "minimum": 0, "maximum": 1_000_000}));
    add("flag", FLAGS, json!({"type": "boolean"}));
    add(
        "mode",
        MODES,
        json!({"type": "string", "enum": ["fast", "safe", "balanced"], "default": "balanced"}),
    );
    fields.extend([
        ("since".to_owned(), json!({"type": "string", "format": "date-time"})),
        ("address".to_owned(), json!({"type": "string", "pattern": "^[a-z0-9.-]+:[0-9]+$", "maxLength": 80})),
        ("payload".to_owned(), json!({"type": "string"})),
        (
            "limits".to_owned(),
            json!({"type": "object", "maxProperties": 10, "additionalProperties": {"x-kubernetes-int-or-string": true}}),
        ),
        ("users".to_owned(), users()),
        ("range".to_owned(), range()),
    ]);
    let spec = json!({"type": "object", "required": ["text00", "count00"], "properties": fields, "x-kubernetes-validations": [
        {"rule": "self.count00 <= self.count01", "message": "count00 is the smaller"},
        {"rule": "self.text00 != self.text01 || self.flag00", "message": "the texts differ"},
        {"rule": "self.text02 == oldSelf.text02", "message": "text02 stays"},
    ]});
    definition(run, "Record", RECORDS, labels, spec)
}

/// A list of objects with keys; its rule reads each.
fn users() -> Value {
    json!({
        "type": "array", "maxItems": 10,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-validations": [{"rule": "self.all(user, user.name != 'root' || user.role == 'admin')"}],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 20},
            "role": {"type": "string", "maxLength": 20, "default": "reader"},
        }},
    })
}

fn range() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.least <= self.most", "message": "a range begins before it ends"}],
        "properties": {"least": {"type": "integer", "default": 0}, "most": {"type": "integer", "default": 100}},
    })
}

/// The spec of a record. The padding makes it as large as it should be.
pub(crate) fn spec_of_record(number: usize, padding: &str) -> String {
    let mut fields = Map::new();
    for field in 0..TEXTS {
        fields.insert(format!("text{field:02}"), json!(format!("value {field} of {number}")));
    }
    for field in 0..COUNTS {
        fields.insert(format!("count{field:02}"), json!(1000 + field));
    }
    for field in 0..FLAGS {
        fields.insert(format!("flag{field:02}"), json!(field % 2 == 0));
    }
    for field in 0..MODES {
        fields.insert(format!("mode{field:02}"), json!(["fast", "safe", "balanced"][field % 3]));
    }
    fields.extend([
        ("since".to_owned(), json!("2026-01-02T03:04:05Z")),
        ("address".to_owned(), json!("db-0.databases.example.org:5432")),
        ("payload".to_owned(), json!(padding)),
        ("limits".to_owned(), json!({"cpu": 2, "memory": "1Gi", "storage": "20Gi"})),
        (
            "users".to_owned(),
            json!([{"name": "ann", "role": "admin"}, {"name": "bob", "role": "reader"}, {"name": "eve", "role": "writer"}]),
        ),
        ("range".to_owned(), json!({"least": 1, "most": 10})),
    ]);
    Value::Object(fields).to_string()
}

/// The resource of a small kind.
pub(crate) fn small(number: usize) -> String {
    format!("things{number}")
}

/// The definition of a small kind, of thirty fields.
pub(crate) fn small_definition(run: &str, number: usize, labels: &Value) -> String {
    let mut fields = Map::new();
    for field in 0..FEW {
        fields.insert(
            format!("text{field}"),
            json!({"type": "string", "maxLength": 60, "description": "A text that somebody set."}),
        );
        fields.insert(format!("count{field}"), json!({"type": "integer", "minimum": 0, "default": 1}));
        fields.insert(format!("flag{field}"), json!({"type": "boolean"}));
    }
    fields.insert("users".to_owned(), users());
    definition(
        run,
        &format!("Thing{number}"),
        &small(number),
        labels,
        json!({"type": "object", "properties": fields}),
    )
}

fn definition(run: &str, kind: &str, plural: &str, labels: &Value, spec: Value) -> String {
    let group = group(run);
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": labels},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"}],
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_hundred_fields_that_its_definition_has_too() {
        let definition: Value = serde_json::from_str(&definition_of_records("kwb-1", &json!({}))).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let record: Value = serde_json::from_str(&spec_of_record(7, "text")).unwrap();
        let (schema, record) = (schema["properties"].as_object().unwrap(), record.as_object().unwrap());
        assert!(record.keys().eq(schema.keys()));
        // Six fields of a user, three limits and the two ends of the range are the inner ones.
        assert!((95..=105).contains(&(record.len() + 6 + 3 + 2)), "{}", record.len());
        assert_eq!(definition["metadata"]["name"], format!("{RECORDS}.{}", group("kwb-1")));
    }

    #[test]
    fn a_small_kind_has_thirty_fields() {
        let definition: Value = serde_json::from_str(&small_definition("kwb-1", 7, &json!({}))).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        // And the two fields of a user.
        assert_eq!(schema["properties"].as_object().unwrap().len() + 2, 30);
    }
}
