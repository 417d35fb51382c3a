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

/// What the server answers to a definition with this schema.
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

/// What it answers to an object of such a kind.
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

/// What it publishes.
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

#[test]
#[ignore = "answers the requests in the file QUESTIONS, one in a line, in the file ANSWERS"]
fn answer_questions() {
    let questions = fs::read_to_string(env::var("QUESTIONS").unwrap()).unwrap();
    let answer = |line: &str| {
        let request: Value = serde_json::from_str(line).unwrap();
        let answer = match request["do"].as_str() {
            Some("define") => define(&request),
            Some("publish") => publish(&request),
            _ => write(&request),
        };
        format!("{answer}\n")
    };
    fs::write(env::var("ANSWERS").unwrap(), questions.lines().map(answer).collect::<String>()).unwrap();
}
