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
