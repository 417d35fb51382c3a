//! Rules of schemas: the errors of a rule that is refused, that has no value, or that costs too much.

use std::sync::Arc;

use keepwatch_cel::eval::EvalError;
use keepwatch_cel::rules::cost::{Cardinality, RULE_COST_MAX, exceeded, of_rule};
use keepwatch_cel::rules::{CALL_COST_MAX, Place, evaluation_error, message};
use keepwatch_cel::schema::Declared;
use keepwatch_cel::value::Value;
use serde_json::{Value as Json, json};

fn place(schema: Json) -> Place {
    Place::new(Declared::from_schema(&schema, false).expect("the schema declares a type"))
}

/// The verdict of a rule, or the detail of its error.
fn verdict(schema: Json, rule: &str, new: Json, old: Option<Json>, optional: bool) -> Result<bool, String> {
    let place = place(schema);
    let compiled = place.rule(rule, optional).map_err(|error| error.to_string())?;
    let activation = place.activation(&new, old.as_ref(), optional).map_err(|error| error.to_string())?;
    match compiled.program().eval(&activation, CALL_COST_MAX).0 {
        Ok(value) => Ok(matches!(value, Value::Bool(true))),
        Err(error) => Err(evaluation_error(&error, rule)),
    }
}

#[test]
fn a_rule_must_be_a_condition_and_a_message_must_be_text() {
    let int = || place(json!({"type": "integer"}));
    let refused =
        |error: Result<_, keepwatch_cel::rules::RuleError>| error.map(|_| ()).unwrap_err().to_string();
    assert_eq!(refused(int().rule("self + 1", false)), "cel expression must evaluate to a bool");
    assert_eq!(
        refused(place(json!({"x-kubernetes-int-or-string": true})).rule("self", false)),
        "cel expression must evaluate to a bool"
    );
    assert_eq!(
        refused(int().rule("self == int('x')", false)),
        "program instantiation failed: type conversion error from 'string' to 'int'"
    );
    assert_eq!(
        refused(int().message_expression("self", false)),
        "messageExpression must evaluate to a string"
    );
    assert!(
        refused(int().message_expression("self + 'a'", false))
            .starts_with("messageExpression compilation failed: ERROR: <input>:1:6:")
    );
    assert_eq!(
        refused(int().message_expression("string(timestamp('x'))", false)),
        "messageExpression compilation failed: ERROR: <input>:1:18: invalid timestamp argument\n | string(timestamp('x'))\n | .................^"
    );
}

#[test]
fn a_rule_without_a_value_says_why() {
    for (schema, rule, document, detail) in [
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
            "self.a > 0",
            json!({}),
            "no such key: a evaluating rule: self.a > 0",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            "self > 5",
            json!("5%"),
            "'no such overload': call arguments did not match a supported operator, function or macro signature for \
             rule: self > 5",
        ),
        (
            json!({"type": "integer"}),
            "1/0 == self",
            json!(1),
            "division by zero evaluating rule: 1/0 == self",
        ),
        (
            json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"}}),
            "self.all(x, self.all(y, x != y || x == y))",
            Json::Array((0..1000).map(Json::from).collect()),
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
             cost exceeds limit for rule: self.all(x, self.all(y, x != y || x == y))",
        ),
    ] {
        assert_eq!(verdict(schema, rule, document, None, false), Err(detail.to_owned()), "{rule}");
    }
}

#[test]
fn the_old_value_is_bare_or_optional() {
    let int = json!({"type": "integer"});
    let uses =
        |rule: &str, optional| place(int.clone()).rule(rule, optional).expect("it compiles").uses_old_self();
    assert!(uses("self == oldSelf", false));
    assert!(uses("oldSelf.hasValue() || self == 1", true));
    assert!(!uses("self == 1", false));
    assert_eq!(verdict(int.clone(), "self == oldSelf", json!(2), Some(json!(1)), false), Ok(false));
    let optional = "oldSelf.hasValue() || self == 1";
    assert_eq!(verdict(int.clone(), optional, json!(2), None, true), Ok(false));
    assert_eq!(verdict(int.clone(), optional, json!(1), None, true), Ok(true));
    assert_eq!(verdict(int, "oldSelf.orValue(0) < self", json!(2), Some(json!(1)), true), Ok(true));
}

#[test]
fn a_loop_variable_of_the_old_values_name_makes_a_transition_rule_where_it_is_mentioned() {
    let list = json!({"type": "array", "maxItems": 5, "items": {"type": "integer"}});
    for (rule, uses) in [
        ("self.all(oldSelf, oldSelf == 1)", true),
        ("self.all(oldSelf, true)", false),
        ("has({'a': {'oldSelf': 1}}.a.oldSelf)", false),
    ] {
        let compiled = place(list.clone()).rule(rule, false).expect("it compiles");
        assert_eq!(compiled.uses_old_self(), uses, "{rule}");
    }
}

#[test]
fn only_one_line_of_text_is_a_message() {
    for (text, shown) in
        [("got 1", Some("got 1")), ("  got 1\n", Some("got 1")), ("a\nb", None), ("   ", None), ("", None)]
    {
        assert_eq!(message(&Value::String(text.into())).as_deref(), shown, "{text:?}");
    }
    let long = "x".repeat(5121);
    assert_eq!(message(&Value::String(long.as_str().into())), None);
    assert_eq!(message(&Value::Int(1)), None);
}

#[test]
fn a_rule_that_can_run_too_often_costs_too_much() {
    let schema = json!({"type": "string"});
    let declared = Declared::from_schema(&schema, false).expect("a string is a type");
    let place = Place::new(Arc::clone(&declared));
    let compiled = place.rule("self.matches('^[a-z]{3}$')", false).expect("it compiles");
    assert_eq!(compiled.estimate().max, 943_720);
    let unbounded = of_rule(compiled.estimate().max, Cardinality::ROOT.of_elements(None), &declared);
    assert_eq!(
        exceeded("estimated rule cost", unbounded, RULE_COST_MAX),
        "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    );
    let bounded = of_rule(compiled.estimate().max, Cardinality::ROOT.of_elements(Some(10)), &declared);
    assert!(bounded < RULE_COST_MAX);
}

#[test]
fn an_evaluation_stops_at_its_budget() {
    let place = place(json!({"type": "array", "items": {"type": "integer"}}));
    let compiled = place.rule("self.all(x, x > 0)", false).expect("it compiles");
    let document = json!([1, 2, 3]);
    let activation = place.activation(&document, None, false).expect("it is a list");
    let (value, cost) = compiled.program().eval(&activation, 10);
    assert_eq!(value.map(|_| ()), Err(EvalError::CostExceeded));
    assert_eq!(cost, 11);
}

#[test]
fn programs_are_shared_by_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<keepwatch_cel::eval::Program>();
    is_shared::<keepwatch_cel::rules::Compiled>();
}
