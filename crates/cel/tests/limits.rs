//! Expressions that are as deep as the parser takes them, on the stack of an ordinary thread, and lists without end.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use keepwatch_cel::{rules::Place, schema::Declared};
use serde_json::json;

fn place() -> Place {
    Place::new(Declared::from_schema(&json!({"type": "integer"}), false).unwrap())
}

fn nested(open: &str, middle: &str, close: &str, depth: usize) -> String {
    [&open.repeat(depth), middle, &close.repeat(depth)].concat()
}

#[test]
fn expressions_of_any_depth_are_answered() {
    for depth in [60, 80, 120, 200, 240, 300, 2000, 20_000] {
        for expression in [
            nested("[{1:", "1", "}]", depth) + " != []",
            nested("has(self[", "", "].a)", depth),
            nested("int(", "self", ")", depth) + " > 0",
            nested("[1].all(x, ", "true", ")", depth),
            nested("[", "1", "]", depth) + " != []",
            nested("{1:", "1", "}", depth) + " != {}",
            nested("(self > 0 ? ", "true", " : false)", depth),
            nested("[0][0", "", "]", depth) + " == 0",
            vec!["1"; depth].join(" + ") + " > 0",
        ] {
            let place = place();
            if let Ok(rule) = place.rule(&expression, false) {
                let one = json!(1);
                let activation = place.activation(&one, None, false).unwrap();
                let _ = rule.program().eval(&activation, 1_000_000);
            }
        }
    }
}

#[test]
fn a_rule_that_doubles_a_list_again_and_again_fails() {
    let place = place();
    let rule = place.rule(&format!("[[1, 1]]{}.size() >= 0", ".map(a, a + a)".repeat(40)), false).unwrap();
    let one = json!(1);
    let activation = place.activation(&one, None, false).unwrap();
    let (value, _) = rule.program().eval(&activation, 1_000_000);
    assert_eq!(value.unwrap_err().to_string(), "list has more than 262144 elements");
}

/// The error of a rule whose evaluation would take minutes or gigabytes without limits.
fn error(expression: &str) -> String {
    let place = place();
    let rule = place.rule(expression, false).unwrap();
    let one = json!(1);
    let activation = place.activation(&one, None, false).unwrap();
    let (value, _) = rule.program().eval(&activation, 1_000_000);
    value.unwrap_err().to_string()
}

#[test]
fn a_rule_that_walks_over_a_value_of_shared_parts_fails() {
    // 2 to the power of 40 ones, which are all the same.
    let shared = format!("[[1]]{}", ".map(a, [a, a])".repeat(40));
    let visited = "more than 4194304 values are compared or made";
    for walk in [
        format!("{shared} == {shared}"),
        format!("'%s'.format([{shared}]) == ''"),
        format!("dyn({shared}).flatten(50).size() == 1"),
    ] {
        let error = error(&walk);
        assert!(error.ends_with(visited) || error.contains("cost limit exceeded"), "{walk}: {error}");
    }
}

#[test]
fn a_rule_that_compares_all_elements_of_a_long_list_with_each_other_costs_too_much() {
    let exceeded = "operation cancelled: actual cost limit exceeded";
    assert_eq!(error("lists.range(200000).distinct().size() == 1"), exceeded);
    assert_eq!(error("sets.equivalent(lists.range(100000), lists.range(100000))"), exceeded);
    assert_eq!(error("lists.range(1000000000).size() == 1"), exceeded);
}

#[test]
fn a_rule_that_makes_a_long_text_fails() {
    let visited = "more than 4194304 values are compared or made";
    let longer = ".replace('a', 'aaaaaaaaaa')";
    assert_eq!(error(&format!("'a'{}.size() == 1", longer.repeat(12))), visited);
    let text = format!("'a'{}", longer.repeat(5));
    assert_eq!(error(&format!("lists.range(100).map(x, {text}).join() == ''")), visited);
}

/// The compilation of patterns that come from the object costs nothing, so they may not be large.
#[test]
fn a_pattern_that_comes_from_the_object_may_not_be_large() {
    let place = Place::new(Declared::from_schema(&json!({"type": "string"}), false).unwrap());
    let rule = place.rule("'a'.matches(self)", false).unwrap();
    for (pattern, expected) in [("^[a-z]+$", Ok(true)), (r"((\pL{20}){10}){5}", Err("expression too large"))]
    {
        let object = json!(pattern);
        let activation = place.activation(&object, None, false).unwrap();
        let (value, _) = rule.program().eval(&activation, 1_000_000);
        match (value, expected) {
            (Ok(value), Ok(_)) => assert_eq!(format!("{value:?}"), "Bool(true)"),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (value, _) => panic!("{pattern}: {value:?}"),
        }
    }
}
