//! The standard library: operators, conversions, sizes and tests of text.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{ONE, define, leaf, text};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Mismatch, Outcome};
use crate::limits;
use crate::schema::ListType;
use crate::value::{
    Duration, List, Map, MapValues, Object, Opaque, Text, Value, compare, contains, equal, same_keys,
};

const INTEGER_OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

/// The overloads of an ordering.
const ORDERINGS: &[(&str, CostRule)] = &[
    ("(bool, bool) -> bool", ONE),
    ("(int, int) -> bool", ONE),
    ("(int, double) -> bool", ONE),
    ("(int, uint) -> bool", ONE),
    ("(uint, uint) -> bool", ONE),
    ("(uint, double) -> bool", ONE),
    ("(uint, int) -> bool", ONE),
    ("(double, double) -> bool", ONE),
    ("(double, int) -> bool", ONE),
    ("(double, uint) -> bool", ONE),
    ("(string, string) -> bool", CostRule::Compare),
    ("(bytes, bytes) -> bool", CostRule::Compare),
    ("(timestamp, timestamp) -> bool", ONE),
    ("(duration, duration) -> bool", ONE),
];

pub(super) const FUNCTIONS: &[Definition] = &[
    // The evaluator has nodes of its own for these, because they do not evaluate all of their arguments.
    define("_?_:_", unplanned, &[("(bool, T, T) -> T", CostRule::Conditional)]),
    define("_&&_", unplanned, &[("(bool, bool) -> bool", CostRule::Logical)]),
    define("_||_", unplanned, &[("(bool, bool) -> bool", CostRule::Logical)]),
    define("@not_strictly_false", unplanned, &[("(bool) -> bool", ONE)]),
    define(
        "_[_]",
        unplanned,
        &[
            ("(list(A), int) -> A", CostRule::IndexList),
            ("(map(A, B), A) -> B", CostRule::IndexMap),
            ("(optional_type(list(V)), int) -> optional_type(V)", ONE),
            ("(optional_type(map(K, V)), K) -> optional_type(V)", ONE),
        ],
    ),
    define("_==_", equals, &[("(A, A) -> bool", CostRule::Equals)]),
    define("_!=_", not_equals, &[("(A, A) -> bool", CostRule::Compare)]),
    define("!_", not, &[("(bool) -> bool", ONE)]).mismatch(Mismatch::Plain),
    define("-_", negate, &[("(double) -> double", ONE), ("(int) -> int", ONE)]).mismatch(Mismatch::Plain),
    define(
        "_+_",
        add,
        &[
            ("(bytes, bytes) -> bytes", CostRule::AddText),
            ("(double, double) -> double", ONE),
            ("(duration, duration) -> duration", ONE),
            ("(duration, timestamp) -> timestamp", ONE),
            ("(timestamp, duration) -> timestamp", ONE),
            ("(int, int) -> int", ONE),
            ("(list(A), list(A)) -> list(A)", CostRule::AddList),
            ("(string, string) -> string", CostRule::AddText),
            ("(uint, uint) -> uint", ONE),
        ],
    )
    .mismatch(Mismatch::Plain),
    define(
        "_-_",
        subtract,
        &[
            ("(double, double) -> double", ONE),
            ("(duration, duration) -> duration", ONE),
            ("(int, int) -> int", ONE),
            ("(timestamp, duration) -> timestamp", ONE),
            ("(timestamp, timestamp) -> duration", ONE),
            ("(uint, uint) -> uint", ONE),
        ],
    )
    .mismatch(Mismatch::Plain),
    define(
        "_*_",
        multiply,
        &[("(double, double) -> double", ONE), ("(int, int) -> int", ONE), ("(uint, uint) -> uint", ONE)],
    )
    .mismatch(Mismatch::Plain),
    define(
        "_/_",
        divide,
        &[("(double, double) -> double", ONE), ("(int, int) -> int", ONE), ("(uint, uint) -> uint", ONE)],
    )
    .mismatch(Mismatch::Plain),
    define("_%_", modulo, &[("(int, int) -> int", ONE), ("(uint, uint) -> uint", ONE)])
        .mismatch(Mismatch::Plain),
    define("_<_", less, ORDERINGS).mismatch(Mismatch::Plain),
    define("_<=_", less_equals, ORDERINGS).mismatch(Mismatch::Plain),
    define("_>_", greater, ORDERINGS).mismatch(Mismatch::Plain),
    define("_>=_", greater_equals, ORDERINGS).mismatch(Mismatch::Plain),
    define("@in", is_in, &[("(A, list(A)) -> bool", CostRule::InList), ("(A, map(A, B)) -> bool", ONE)])
        .mismatch(Mismatch::Plain),
    define(
        "size",
        size,
        &[
            ("(bytes) -> int", ONE),
            ("bytes.() -> int", ONE),
            ("(list(A)) -> int", ONE),
            ("list(A).() -> int", ONE),
            ("(map(A, B)) -> int", ONE),
            ("map(A, B).() -> int", ONE),
            ("(string) -> int", ONE),
            ("string.() -> int", ONE),
        ],
    )
    .mismatch(Mismatch::Plain),
    define("type", type_of, &[("(A) -> type(A)", ONE)]),
    define("dyn", identity, &[("(A) -> dyn", ONE)]),
    define("bool", to_bool, &[("(bool) -> bool", ONE), ("(string) -> bool", ONE)]),
    define("bytes", to_bytes, &[("(bytes) -> bytes", ONE), ("(string) -> bytes", CostRule::StringToBytes)]),
    define(
        "double",
        to_double,
        &[
            ("(double) -> double", ONE),
            ("(int) -> double", ONE),
            ("(string) -> double", ONE),
            ("(uint) -> double", ONE),
        ],
    ),
    define(
        "duration",
        to_duration,
        &[("(duration) -> duration", ONE), ("(int) -> duration", ONE), ("(string) -> duration", ONE)],
    ),
    define(
        "int",
        to_int,
        &[
            ("(int) -> int", ONE),
            ("(double) -> int", ONE),
            ("(duration) -> int", ONE),
            ("(string) -> int", ONE),
            ("(timestamp) -> int", ONE),
            ("(uint) -> int", ONE),
        ],
    ),
    define(
        "string",
        to_string,
        &[
            ("(string) -> string", ONE),
            ("(bool) -> string", ONE),
            ("(bytes) -> string", CostRule::BytesToString),
            ("(double) -> string", ONE),
            ("(duration) -> string", ONE),
            ("(int) -> string", ONE),
            ("(timestamp) -> string", ONE),
            ("(uint) -> string", ONE),
            ("(net.IP) -> string", ONE),
            ("(net.CIDR) -> string", ONE),
        ],
    ),
    define(
        "timestamp",
        to_timestamp,
        &[("(timestamp) -> timestamp", ONE), ("(int) -> timestamp", ONE), ("(string) -> timestamp", ONE)],
    ),
    define(
        "uint",
        to_uint,
        &[
            ("(uint) -> uint", ONE),
            ("(double) -> uint", ONE),
            ("(int) -> uint", ONE),
            ("(string) -> uint", ONE),
        ],
    ),
    define("contains", text_contains, &[("string.(string) -> bool", CostRule::Contains)])
        .mismatch(Mismatch::Plain),
    define("startsWith", starts_with, &[("string.(string) -> bool", CostRule::Affix)])
        .mismatch(Mismatch::Plain),
    define("endsWith", ends_with, &[("string.(string) -> bool", CostRule::Affix)]).mismatch(Mismatch::Plain),
];

fn unplanned<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Err(Failure::NoSuchOverload)
}

fn equals<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    equal(left, right).map(Value::Bool)
}

/// Values that cannot be compared are not equal.
fn not_equals<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(!matches!(equal(left, right), Ok(true))))
}

fn not<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn negate<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(number)] => number.checked_neg().map(Value::Int).ok_or_else(|| INTEGER_OVERFLOW.into()),
        [Value::Double(number)] => Ok(Value::Double(-number)),
        [Value::Duration(span)] => checked_duration(span.nanos.checked_neg()),
        [Value::Bool(_)] => Err(Failure::NoSuchOverload),
        _ => Err(Failure::NoOperator),
    }
}

fn checked_int<'a>(result: Option<i64>) -> Outcome<'a> {
    result.map(Value::Int).ok_or_else(|| INTEGER_OVERFLOW.into())
}

fn checked_uint<'a>(result: Option<u64>) -> Outcome<'a> {
    result.map(Value::Uint).ok_or_else(|| UNSIGNED_OVERFLOW.into())
}

fn checked_duration<'a>(nanos: Option<i64>) -> Outcome<'a> {
    nanos.map(|nanos| Value::Duration(Duration { nanos })).ok_or_else(|| INTEGER_OVERFLOW.into())
}

/// The failure of an operator: of the whole operator if the left operand has none of the kind.
fn no_operand(known: bool) -> Failure {
    if known { Failure::NoSuchOverload } else { Failure::NoOperator }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

fn is_time(value: &Value<'_>) -> bool {
    matches!(value, Value::Timestamp(_) | Value::Duration(_))
}

pub(super) fn add<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => checked_int(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => checked_uint(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) => {
            let mut text = String::with_capacity(left.len() + right.len());
            text.push_str(left);
            text.push_str(right);
            Ok(Value::text(text))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            Ok(Value::Bytes([&left[..], &right[..]].concat().into()))
        }
        (Value::Duration(left), Value::Duration(right)) => {
            checked_duration(left.nanos.checked_add(right.nanos))
        }
        (Value::Timestamp(time), Value::Duration(span)) | (Value::Duration(span), Value::Timestamp(time)) => {
            Ok(Value::Timestamp(leaf::timestamp::add(*time, span.nanos)?))
        }
        (Value::List(left), Value::List(right)) => add_lists(left, right),
        (left, _) => Err(no_operand(
            is_number(left)
                || is_time(left)
                || matches!(left, Value::String(_) | Value::Bytes(_) | Value::List(_)),
        )),
    }
}

fn add_lists<'a>(left: &List<'a>, right: &List<'a>) -> Outcome<'a> {
    limits::list_may_have(left.len().saturating_add(right.len()))?;
    let mut values = left.values()?;
    match left.list_type() {
        ListType::Atomic => {
            for value in right.iter() {
                values.push(value?);
            }
        }
        ListType::Set => {
            for value in right.iter() {
                let value = value?;
                limits::visit(1)?;
                if !values.iter().any(|known| matches!(equal(known, &value), Ok(true))) {
                    values.push(value);
                }
            }
        }
        ListType::Map(keys) => {
            for value in right.iter() {
                let value = value?;
                limits::visit(values.len())?;
                match values.iter_mut().find(|known| matches!(same_keys(known, &value, keys), Ok(true))) {
                    Some(known) => *known = value,
                    None => values.push(value),
                }
            }
        }
    }
    Ok(Value::list(values))
}

fn subtract<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => checked_int(left.checked_sub(*right)),
        (Value::Uint(left), Value::Uint(right)) => checked_uint(left.checked_sub(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left - right)),
        (Value::Duration(left), Value::Duration(right)) => {
            checked_duration(left.nanos.checked_sub(right.nanos))
        }
        (Value::Timestamp(time), Value::Duration(span)) => {
            Ok(Value::Timestamp(leaf::timestamp::subtract(*time, span.nanos)?))
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            Ok(Value::Duration(Duration { nanos: leaf::timestamp::difference(*left, *right)? }))
        }
        (left, _) => Err(no_operand(is_number(left) || is_time(left))),
    }
}

fn multiply<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(left), Value::Int(right)] => checked_int(left.checked_mul(*right)),
        [Value::Uint(left), Value::Uint(right)] => checked_uint(left.checked_mul(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left * right)),
        [left, ..] => Err(no_operand(is_number(left))),
        [] => Err(Failure::NoSuchOverload),
    }
}

fn divide<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err("division by zero".into()),
        [Value::Int(left), Value::Int(right)] => checked_int(left.checked_div(*right)),
        [Value::Uint(left), Value::Uint(right)] => checked_uint(left.checked_div(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left / right)),
        [left, ..] => Err(no_operand(is_number(left))),
        [] => Err(Failure::NoSuchOverload),
    }
}

fn modulo<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err("modulus by zero".into()),
        [Value::Int(left), Value::Int(right)] => checked_int(left.checked_rem(*right)),
        [Value::Uint(left), Value::Uint(right)] => checked_uint(left.checked_rem(*right)),
        [left, ..] => Err(no_operand(matches!(left, Value::Int(_) | Value::Uint(_)))),
        [] => Err(Failure::NoSuchOverload),
    }
}

fn order<'a>(args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Outcome<'a> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    match compare(left, right) {
        Ok(ordering) => Ok(Value::Bool(holds(ordering))),
        Err(Failure::NoSuchOverload) => Err(no_operand(
            is_number(left)
                || is_time(left)
                || matches!(left, Value::String(_) | Value::Bytes(_) | Value::Bool(_)),
        )),
        Err(error) => Err(error),
    }
}

fn less<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    order(args, Ordering::is_lt)
}

fn less_equals<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    order(args, Ordering::is_le)
}

fn greater<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    order(args, Ordering::is_gt)
}

fn greater_equals<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    order(args, Ordering::is_ge)
}

fn is_in<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [value, container] = args else { return Err(Failure::NoSuchOverload) };
    contains(container, value).map(Value::Bool)
}

fn size<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [
            value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::Object(_)),
        ] => Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX))),
        _ => Err(Failure::NoOperator),
    }
}

fn type_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Type(Text::Borrowed(value.type_name())))
}

fn identity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    args.first().cloned().ok_or(Failure::NoSuchOverload)
}

/// The failure of a conversion.
fn not_convertible(from: &Value<'_>, to: &str) -> Failure {
    Failure::Error(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

fn to_bool<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [value @ Value::String(text)] => {
            leaf::number::parse_bool(text).map(Value::Bool).ok_or_else(|| not_convertible(value, "bool"))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

fn to_bytes<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn to_double<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Double(_)] => Ok(value.clone()),
        [Value::Int(number)] => Ok(Value::Double(*number as f64)),
        [Value::Uint(number)] => Ok(Value::Double(*number as f64)),
        [value @ Value::String(text)] => leaf::number::parse_double(text)
            .map(Value::Double)
            .ok_or_else(|| not_convertible(value, "double")),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn to_duration<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    const NAME: &str = "google.protobuf.Duration";
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [value @ Value::String(text)] => match leaf::duration::parse(text) {
            Some(nanos) => Ok(Value::Duration(Duration { nanos })),
            None => Err(not_convertible(value, NAME)),
        },
        [value @ Value::Int(_)] => Err(not_convertible(value, NAME)),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn to_int<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Int(_)] => Ok(value.clone()),
        [Value::Uint(number)] => checked_int(i64::try_from(*number).ok()),
        [Value::Double(number)] => Ok(Value::Int(leaf::number::double_to_int(*number)?)),
        [Value::Duration(span)] => Ok(Value::Int(span.nanos)),
        [Value::Timestamp(time)] => Ok(Value::Int(time.seconds)),
        [value @ Value::String(text)] => {
            leaf::number::parse_int(text).map(Value::Int).ok_or_else(|| not_convertible(value, "int"))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

pub(super) fn to_string<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [value @ Value::String(_)] => value.clone(),
        [Value::Bool(value)] => Value::text(value.to_string()),
        [Value::Int(number)] => Value::text(number.to_string()),
        [Value::Uint(number)] => Value::text(number.to_string()),
        [Value::Double(number)] => Value::text(leaf::number::double_text(*number)),
        [Value::Duration(span)] => Value::text(leaf::duration::text(span.nanos)),
        [Value::Timestamp(time)] => Value::text(leaf::timestamp::text(*time)),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => return Err("invalid UTF-8 in bytes, cannot convert to string".into()),
        },
        [Value::Opaque(Opaque::Ip(ip))] => Value::text(ip.to_string()),
        [Value::Opaque(Opaque::Cidr(cidr))] => Value::text(cidr.to_string()),
        _ => return Err(Failure::NoSuchOverload),
    })
}

fn to_timestamp<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => Ok(Value::Timestamp(leaf::timestamp::from_unix(*seconds)?)),
        [value @ Value::String(text)] => match leaf::timestamp::parse(text) {
            Some(time) => Ok(Value::Timestamp(time?)),
            None => Err(not_convertible(value, "google.protobuf.Timestamp")),
        },
        _ => Err(Failure::NoSuchOverload),
    }
}

fn to_uint<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Uint(_)] => Ok(value.clone()),
        [Value::Int(number)] => checked_uint(u64::try_from(*number).ok()),
        [Value::Double(number)] => Ok(Value::Uint(leaf::number::double_to_uint(*number)?)),
        [value @ Value::String(text)] => {
            leaf::number::parse_uint(text).map(Value::Uint).ok_or_else(|| not_convertible(value, "uint"))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

fn two_texts<'v>(args: &'v [Value<'_>]) -> Result<(&'v str, &'v str), Failure> {
    let [left, right] = args else { return Err(Failure::NoSuchOverload) };
    Ok((text(left)?, text(right)?))
}

fn text_contains<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part) = two_texts(args)?;
    Ok(Value::Bool(text.contains(part)))
}

fn starts_with<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, prefix) = two_texts(args)?;
    Ok(Value::Bool(text.starts_with(prefix)))
}

fn ends_with<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, suffix) = two_texts(args)?;
    Ok(Value::Bool(text.ends_with(suffix)))
}

/// Puts an entry into a map that a loop makes, or all entries of another map.
///
/// # Errors
///
/// There is an entry with an equal key.
pub(crate) fn map_insert<'a>(map: &mut MapValues<'a>, more: &[Value<'a>]) -> Result<(), Failure> {
    let mut insert = |key: Value<'a>, value: Value<'a>| {
        let text = key.message_text();
        if map.insert(key, value) {
            Ok(())
        } else {
            Err(Failure::Error(format!("insert failed: key {text} already exists")))
        }
    };
    match more {
        [key, value] => insert(key.clone(), value.clone()),
        [Value::Map(Map::Values(values))] => {
            values.entries().iter().try_for_each(|(key, value)| insert(key.clone(), value.clone()))
        }
        [Value::Map(map @ Map::Json { .. })] => map.keys().into_iter().try_for_each(|key| {
            let value = map.find(&key).unwrap_or(Err(Failure::NoSuchOverload))?;
            insert(key, value)
        }),
        [Value::Object(object @ Object::Json { .. })] => object.keys().into_iter().try_for_each(|key| {
            let name = text(&key)?.to_owned();
            match object.find(&name) {
                Some(value) => insert(key, value?),
                None => Ok(()),
            }
        }),
        _ => Err(Failure::NoSuchOverload),
    }
}
