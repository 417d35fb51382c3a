//! Values that may be absent.

use std::sync::Arc;

use super::{ONE, define};
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{List, Map, Value};

pub(super) const FUNCTIONS: &[Definition] = &[
    define("optional.of", of, &[("(V) -> optional_type(V)", ONE)]),
    define("optional.ofNonZeroValue", of_non_zero, &[("(V) -> optional_type(V)", ONE)]),
    define("optional.none", none, &[("() -> optional_type(V)", ONE)]),
    define("value", value, &[("optional_type(V).() -> V", ONE)]),
    define("hasValue", has_value, &[("optional_type(V).() -> bool", ONE)]),
    // These evaluate their second argument only without a first value; the evaluator does it.
    define("or", none, &[("optional_type(V).(optional_type(V)) -> optional_type(V)", ONE)]),
    define("orValue", none, &[("optional_type(V).(V) -> V", ONE)]),
    // So are these, which read a field or an element.
    define("_?._", none, &[("(dyn, string) -> optional_type(V)", ONE)]),
    define(
        "_[?_]",
        none,
        &[
            ("(list(V), int) -> optional_type(V)", ONE),
            ("(optional_type(list(V)), int) -> optional_type(V)", ONE),
            ("(map(K, V), K) -> optional_type(V)", ONE),
            ("(optional_type(map(K, V)), K) -> optional_type(V)", ONE),
        ],
    ),
    define("first", first, &[("list(V).() -> optional_type(V)", ONE)]),
    define("last", last, &[("list(V).() -> optional_type(V)", ONE)]),
    define("optional.unwrap", unwrap, &[("(list(optional_type(V))) -> list(V)", ONE)]),
    define("unwrapOpt", unwrap, &[("list(optional_type(V)).() -> list(V)", ONE)]),
];

fn of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    args.first().cloned().map(Value::some).ok_or(Failure::NoSuchOverload)
}

fn of_non_zero<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Failure::NoSuchOverload) };
    Ok(if is_zero(value) { Value::Optional(None) } else { Value::some(value.clone()) })
}

/// 0001-01-01T00:00:00Z in seconds since 1970.
const YEAR_ONE_SECONDS: i64 = -62_135_596_800;

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(span) => span.nanos == 0,
        // Those of a document are never taken for zero.
        Value::List(List::Json { declared: Some(_), .. })
        | Value::Map(Map::Json { declared: Some(_), .. }) => false,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        // The start of the year 1 is the zero of Go.
        Value::Timestamp(time) => (time.seconds, time.nanos) == (YEAR_ONE_SECONDS, 0),
        Value::Optional(_) | Value::Object(_) | Value::Type(_) | Value::Opaque(_) => false,
    }
}

fn none<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(None))
}

fn value<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(value))] => Value::clone(value).readable(),
        [Value::Optional(None)] => Err("optional.none() dereference".into()),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn has_value<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn element<'a>(args: &[Value<'a>], index: fn(&List<'a>) -> Option<usize>) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(Failure::NoSuchOverload) };
    match index(list).and_then(|index| list.get(index)) {
        Some(element) => Ok(Value::some(element?)),
        None => Ok(Value::Optional(None)),
    }
}

fn first<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    element(args, |_| Some(0))
}

fn last<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    element(args, |list| list.len().checked_sub(1))
}

fn unwrap<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(Failure::NoSuchOverload) };
    // Only the first element decides whether the list is one of optional values.
    if matches!(list.get(0), Some(Ok(first)) if !matches!(first, Value::Optional(_))) {
        return Err(Failure::NoSuchOverload);
    }
    let mut values = Vec::new();
    for element in list.iter() {
        match element? {
            Value::Optional(value) => values.extend(value.map(Arc::unwrap_or_clone)),
            other => return Err(Failure::Error(format!("value {} is not optional", other.message_text()))),
        }
    }
    Ok(Value::list(values))
}
