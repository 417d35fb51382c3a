use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{super::format::Format, super::node::Type, answers};

static RECORDED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("recorded.json")).expect("a program wrote it"));

fn cases(section: &str) -> &'static [Value] {
    RECORDED[section].as_array().unwrap()
}

/// The causes of an answer, each once, in the order in which they were recorded.
fn causes(answer: &Value) -> Vec<[&str; 3]> {
    let causes = answer["causes"].as_array().unwrap().iter();
    let mut causes: Vec<_> = causes
        .map(|cause| ["field", "reason", "message"].map(|name| cause[name].as_str().unwrap()))
        .collect();
    causes.sort_unstable();
    causes.dedup();
    causes
}

fn recorded(case: &Value) -> Vec<[&str; 3]> {
    let causes = case["causes"].as_array().unwrap().iter();
    causes.map(|cause| [0, 1, 2].map(|at| cause[at].as_str().unwrap())).collect()
}

fn object(value: &Value) -> Value {
    json!({"apiVersion": "t.io/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {"f": value}})
}

/// Whether an answer to a write is the one that was recorded.
fn check_write(name: &str, case: &Value, answer: &Value) {
    if case.get("error").is_some() {
        assert!(answer.get("error").is_some(), "{name}: {case} should be refused, not {answer}");
        return;
    }
    assert_eq!(causes(answer), recorded(case), "{name}: {case}");
    if case["causes"].as_array().unwrap().is_empty() {
        assert_eq!(answer["unknown"], case["unknown"], "{name}: {case}");
        assert!(
            same(&answer["object"]["spec"], &case["spec"]),
            "{name}: {case}, not {}",
            answer["object"]["spec"]
        );
    }
}

/// Whether two values are the same when they are written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn definitions_are_refused_as_kubernetes_refuses_them() {
    for case in cases("definitions") {
        let answer = answers::define(case);
        assert_eq!(causes(&answer), recorded(case), "{}", case["name"]);
    }
}

#[test]
fn strings_have_the_formats_that_kubernetes_finds_in_them() {
    for case in cases("formats") {
        let name = case["name"].as_str().unwrap();
        let format = Format::new(name, Type::String);
        for (section, fits) in [("fits", true), ("does_not_fit", false)] {
            for text in case[section].as_array().unwrap().iter().map(|text| text.as_str().unwrap()) {
                assert_eq!(!format.is_supported || format.kind.matches(text), fits, "{text:?} as {name}");
            }
        }
    }
}

#[test]
fn objects_are_taken_and_refused_as_kubernetes_does_it() {
    for case in cases("writes") {
        for value in case["values"].as_array().unwrap() {
            let answer =
                answers::write(&json!({"schema": case["schema"], "object": object(&value["value"])}));
            check_write(case["name"].as_str().unwrap(), value, &answer);
        }
    }
}

#[test]
fn what_did_not_change_is_forgiven_as_kubernetes_forgives_it() {
    for case in cases("updates") {
        for pair in case["pairs"].as_array().unwrap() {
            let (new, old) = (object(&pair["new"]), object(&pair["old"]));
            let answer = answers::write(&json!({"schema": case["schema"], "object": new, "old": old}));
            check_write(case["name"].as_str().unwrap(), pair, &answer);
        }
    }
}

#[test]
fn schemas_are_published_as_kubernetes_publishes_them() {
    for case in cases("published") {
        let answer = answers::publish(case);
        for version in ["v3", "v2"] {
            assert!(
                same(&answer[version], &case[version]),
                "{} {version}: {}",
                case["name"],
                answer[version]
            );
        }
    }
}
