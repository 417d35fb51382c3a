//! Answers for `tests/golden/custom_schemas.py`, which compares them with those of a real server.

use std::{env, fs};

use serde_json::{Value, json};

use super::{
    super::{
        Part, Schema, Source,
        definition::{self, Definition, Tolerated},
        openapi, settle_numbers,
    },
    NoRules, normalized,
};

/// The server's answer to a definition with this schema.
pub(super) fn define(request: &Value) -> Value {
    let schema = normalized(&request["schema"]);
    let definition = Definition {
        schema: &schema,
        path: "spec.validation.openAPIV3Schema",
        has_status: request["status"] == true,
        tolerated: Tolerated::default(),
    };
    json!({"causes": definition::validate(&definition, &mut NoRules)})
}

/// Its answer to an object of such a kind.
pub(super) fn write(request: &Value) -> Value {
    let schema = match Schema::parse(&normalized(&request["schema"])) {
        Ok(schema) => schema,
        Err(error) => return json!({"error": error}),
    };
    let mut new = request["object"].clone();
    let unknown = match schema.decode(&mut new, Source::Client) {
        Ok(unknown) => unknown,
        Err(error) => return json!({"error": error, "causes": []}),
    };
    if schema.fill_defaults(&mut new).is_err() {
        return json!({"error": "too many defaults"});
    }
    let old = request.get("old").map(|old| {
        let mut old = old.clone();
        settle_numbers(&mut old);
        schema.decode(&mut old, Source::Storage).unwrap();
        schema.fill_defaults(&mut old).unwrap();
        old
    });
    let mut causes = schema.check_values(&new, old.as_ref(), Part::Whole);
    causes.extend(schema.check_embedded(&new));
    causes.extend(schema.check_lists(&new, old.as_ref()));
    schema.may_evaluate_rules(&mut causes);
    settle_numbers(&mut new);
    json!({"unknown": unknown, "causes": causes, "object": new})
}

/// The schemas that it publishes.
pub(super) fn publish(request: &Value) -> Value {
    let kind = openapi::Published {
        group: "t.io",
        version: "v1",
        kind: request["kind"].as_str().unwrap(),
        selectable_fields: &Value::Null,
    };
    let schema = normalized(&request["schema"]);
    json!({"v3": openapi::v3(&schema, &kind), "v2": openapi::v2(&schema, &kind)})
}

/// The answers to questions that are JSON, one in a line.
fn answers(questions: &str) -> String {
    let answer = |line: &str| {
        let request: Value = serde_json::from_str(line).unwrap();
        let answer = match request["do"].as_str() {
            Some("define") => define(&request),
            Some("publish") => publish(&request),
            _ => write(&request),
        };
        format!("{answer}\n")
    };
    questions.lines().map(answer).collect()
}

/// With the variables QUESTIONS and ANSWERS it does so for the script, from one file into the other.
#[test]
fn questions_of_the_script_are_answered_line_by_line() {
    let asked = r#"{"do": "define", "schema": {"type": "string"}}
{"do": "write", "schema": {"type": "object"}, "object": {"a": 1}}"#;
    let answered = answers(asked);
    let answered: Vec<Value> = answered.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answered.len(), 2);
    assert_eq!(answered[0]["causes"][0]["field"], "spec.validation.openAPIV3Schema.type");
    assert_eq!(answered[1]["unknown"], json!(["a"]));
    if let (Ok(questions), Ok(file)) = (env::var("QUESTIONS"), env::var("ANSWERS")) {
        fs::write(file, answers(&fs::read_to_string(questions).unwrap())).unwrap();
    }
}
