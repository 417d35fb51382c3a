//! Lists as sets.

use super::define;
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Value, contains};

pub(super) const FUNCTIONS: &[Definition] = &[
    define("sets.contains", contains_all, &[("(list(T), list(T)) -> bool", CostRule::Sets(1))]),
    define("sets.equivalent", equivalent, &[("(list(T), list(T)) -> bool", CostRule::Sets(2))]),
    define("sets.intersects", intersects, &[("(list(T), list(T)) -> bool", CostRule::Sets(1))]),
];

/// Whether a list has every element of another.
fn has_all(of: &Value<'_>, part: &Value<'_>) -> Result<bool, Failure> {
    let (Value::List(_), Value::List(part)) = (of, part) else { return Err(Failure::NoSuchOverload) };
    for element in part.iter() {
        if !contains(of, &element?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains_all<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, part] = args else { return Err(Failure::NoSuchOverload) };
    has_all(of, part).map(Value::Bool)
}

fn equivalent<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(has_all(left, right)? && has_all(right, left)?))
}

fn intersects<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [left @ Value::List(_), Value::List(right)] = args else { return Err(Failure::NoSuchOverload) };
    for element in right.iter() {
        if contains(left, &element?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
