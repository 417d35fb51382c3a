//! The answers of the API server's own libraries to expressions: value or error, type, compile errors,
//! estimated and tracked cost. One case per line of the files in `spec`.

use keepwatch_cel::library::show;
use keepwatch_cel::rules;
use keepwatch_cel::schema::Declared;
use serde_json::{Value as Json, json};

/// The answer to a case, in the words of the files.
fn answer(case: &Json) -> Json {
    let flag = |name: &str| case.get(name).and_then(Json::as_bool).unwrap_or(false);
    let object = json!({});
    let any_object = json!({"type": "object"});
    let schema = case.get("schema").unwrap_or(&any_object);
    let document = case.get("self").unwrap_or(&object);
    let expression = case["expr"].as_str().expect("a case has an expression");
    let declared = Declared::from_schema(schema, flag("root")).expect("the schema of a case declares a type");
    let env = rules::environment(&declared, flag("opt"));
    let checked = match env.check(expression) {
        Ok(checked) => checked,
        Err(issues) => return json!({"compile": issues.to_string()}),
    };
    let mut answer = json!({
        "type": checked.result_type().long_name(),
        "estimate": checked.estimate().to_string(),
    });
    let program = match checked.program() {
        Ok(program) => program,
        Err(error) => {
            answer["program"] = error.into();
            return answer;
        }
    };
    let activation = rules::activation(&declared, document, case.get("old"), flag("opt"))
        .expect("the document of a case is of the declared type");
    let (value, cost) = program.eval(&activation, rules::CALL_COST_MAX);
    answer["run"] = cost.into();
    match value {
        Ok(value) => answer["value"] = show(&value).into(),
        Err(error) => answer["error"] = error.to_string().into(),
    }
    answer
}

fn check(file: &str) {
    let cases: Vec<Json> = serde_json::from_str(file).expect("a file of cases is an array");
    let mut wrong = Vec::new();
    for case in &cases {
        let answer = answer(case);
        let answers = answer.as_object().expect("an answer is an object");
        let outcomes = ["compile", "program", "error", "value", "type", "estimate", "run"];
        if outcomes.iter().any(|name| answers.get(*name) != case.get(*name)) {
            wrong.push(format!("{}: {}\n  answered {answer}\n  expected {case}", case["id"], case["expr"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn literals_and_operators_are_evaluated() {
    check(include_str!("spec/literals_and_operators.json"));
}

#[test]
fn times_are_read_and_compared() {
    check(include_str!("spec/time.json"));
}

#[test]
fn macros_are_expanded() {
    check(include_str!("spec/macros.json"));
}

#[test]
fn optional_values_are_unwrapped() {
    check(include_str!("spec/optionals.json"));
}

#[test]
fn functions_of_strings_give_what_they_say() {
    check(include_str!("spec/strings.json"));
}

#[test]
fn functions_of_lists_and_sets_give_what_they_say() {
    check(include_str!("spec/lists_and_sets.json"));
}

#[test]
fn patterns_urls_and_networks_are_read() {
    check(include_str!("spec/regex_url_network.json"));
}

#[test]
fn quantities_versions_and_formats_are_read() {
    check(include_str!("spec/quantity_semver_format.json"));
}

#[test]
fn documents_are_read_as_their_schema_declares() {
    check(include_str!("spec/typed_values.json"));
}

#[test]
fn messages_are_the_values_in_them() {
    check(include_str!("spec/messages.json"));
}

#[test]
fn costs_are_those_of_the_api_server() {
    check(include_str!("spec/costs.json"));
}

#[test]
fn corner_cases_are_answered_alike() {
    check(include_str!("spec/corner_cases.json"));
}

#[test]
fn compile_errors_have_the_texts_of_the_api_server() {
    check(include_str!("spec/compile_errors.json"));
}
