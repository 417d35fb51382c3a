//! Functions of lists.

use super::{define, int};
use crate::ast::operator;
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Mismatch, Operation, Outcome};
use crate::limits;
use crate::types::Type;
use crate::value::{Duration, List, Value, compare, equal};

const SORT: CostRule = CostRule::Sort { text: false };
const SORT_TEXT: CostRule = CostRule::Sort { text: true };
const SORT_BY: CostRule = CostRule::SortBy { text: false };
const SORT_BY_TEXT: CostRule = CostRule::SortBy { text: true };

/// The overloads of a function that gives an element.
const OF_COMPARABLE: &[(&str, CostRule)] = &[
    ("list(int).() -> int", CostRule::Scan),
    ("list(uint).() -> uint", CostRule::Scan),
    ("list(double).() -> double", CostRule::Scan),
    ("list(bool).() -> bool", CostRule::Scan),
    ("list(duration).() -> duration", CostRule::Scan),
    ("list(timestamp).() -> timestamp", CostRule::Scan),
    ("list(string).() -> string", CostRule::Scan),
    ("list(bytes).() -> bytes", CostRule::Scan),
];

pub(super) const FUNCTIONS: &[Definition] = &[
    define(
        "isSorted",
        is_sorted,
        &[
            ("list(int).() -> bool", CostRule::Scan),
            ("list(uint).() -> bool", CostRule::Scan),
            ("list(double).() -> bool", CostRule::Scan),
            ("list(bool).() -> bool", CostRule::Scan),
            ("list(duration).() -> bool", CostRule::Scan),
            ("list(timestamp).() -> bool", CostRule::Scan),
            ("list(string).() -> bool", CostRule::Scan),
            ("list(bytes).() -> bool", CostRule::Scan),
        ],
    )
    .ambiguous(CostRule::Scan),
    define(
        "sum",
        sum_of_ints,
        &[
            ("list(int).() -> int", CostRule::Scan),
            ("list(uint).() -> uint", CostRule::Scan),
            ("list(double).() -> double", CostRule::Scan),
            ("list(duration).() -> duration", CostRule::Scan),
        ],
    )
    .ambiguous(CostRule::Scan),
    define("min", min, OF_COMPARABLE).ambiguous(CostRule::Scan),
    define("max", max, OF_COMPARABLE).ambiguous(CostRule::Scan),
    define(
        "indexOf",
        index_of,
        &[
            ("list(A).(A) -> int", CostRule::Scan),
            ("string.(string) -> int", CostRule::Scan),
            ("string.(string, int) -> int", CostRule::Scan),
        ],
    )
    .ambiguous(CostRule::Scan),
    define(
        "lastIndexOf",
        last_index_of,
        &[
            ("list(A).(A) -> int", CostRule::Scan),
            ("string.(string) -> int", CostRule::Scan),
            ("string.(string, int) -> int", CostRule::Scan),
        ],
    )
    .ambiguous(CostRule::Scan),
    define("slice", slice, &[("list(T).(int, int) -> list(T)", CostRule::Slice)]),
    define(
        "flatten",
        flatten,
        &[
            ("list(list(T)).() -> list(T)", CostRule::Flatten),
            ("list(dyn).(int) -> list(dyn)", CostRule::Flatten),
        ],
    ),
    define(
        "sort",
        sort,
        &[
            ("list(int).() -> list(int)", SORT),
            ("list(uint).() -> list(uint)", SORT),
            ("list(double).() -> list(double)", SORT),
            ("list(bool).() -> list(bool)", SORT),
            ("list(duration).() -> list(duration)", SORT),
            ("list(timestamp).() -> list(timestamp)", SORT),
            ("list(string).() -> list(string)", SORT_TEXT),
            ("list(bytes).() -> list(bytes)", SORT_TEXT),
        ],
    )
    .mismatch(Mismatch::Plain),
    define(
        operator::SORT_BY_KEYS,
        sort_by_keys,
        &[
            ("list(T).(list(int)) -> list(T)", SORT_BY),
            ("list(T).(list(uint)) -> list(T)", SORT_BY),
            ("list(T).(list(double)) -> list(T)", SORT_BY),
            ("list(T).(list(bool)) -> list(T)", SORT_BY),
            ("list(T).(list(duration)) -> list(T)", SORT_BY),
            ("list(T).(list(timestamp)) -> list(T)", SORT_BY),
            ("list(T).(list(string)) -> list(T)", SORT_BY_TEXT),
            ("list(T).(list(bytes)) -> list(T)", SORT_BY_TEXT),
        ],
    )
    .mismatch(Mismatch::Plain),
    define("lists.range", range, &[("(int) -> list(int)", CostRule::Range)]),
    define("reverse", reverse, &[("list(T).() -> list(T)", CostRule::Reverse)]),
    define("distinct", distinct, &[("list(T).() -> list(T)", CostRule::Distinct)]),
];

fn list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v List<'a>, Failure> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn only_list<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>, Failure> {
    match args {
        [only] => list(only),
        _ => Err(Failure::NoSuchOverload),
    }
}

/// Fails for values without an order.
fn assert_comparable(value: &Value<'_>) -> Result<(), Failure> {
    match compare(value, value) {
        Err(Failure::NoSuchOverload) => Err(Failure::NoSuchOverload),
        _ => Ok(()),
    }
}

fn is_sorted<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let values = only_list(args)?.values()?;
    values.first().map_or(Ok(()), assert_comparable)?;
    for pair in values.windows(2) {
        match compare(&pair[0], &pair[1]) {
            Ok(ordering) if ordering.is_gt() => return Ok(Value::Bool(false)),
            // Values that cannot be ordered are not out of order.
            _ => {}
        }
    }
    Ok(Value::Bool(true))
}

/// The operation of `sum` for a type of elements: it has a zero of that type.
pub(crate) fn sum_of(elements: &Type) -> Operation {
    match elements.unwrapped() {
        Type::Uint => sum_of_uints,
        Type::Double => sum_of_doubles,
        Type::Duration => sum_of_durations,
        _ => sum_of_ints,
    }
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>) -> Outcome<'a> {
    let mut total = None;
    for element in only_list(args)?.iter() {
        total = Some(match total {
            None => match element? {
                // Added to zero.
                Value::Double(first) => Value::Double(0.0 + first),
                first @ (Value::Int(_) | Value::Uint(_) | Value::Duration(_)) => first,
                _ => return Err(Failure::NoSuchOverload),
            },
            // Only the type of the first element is one of the list's.
            Some(total) => super::standard::add(&[total, element?]).map_err(|failure| match failure {
                Failure::NoSuchOverload | Failure::NoOperator => "no such overload".into(),
                failure => failure,
            })?,
        });
    }
    Ok(total.unwrap_or(zero))
}

fn sum_of_ints<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Int(0))
}

fn sum_of_uints<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Uint(0))
}

fn sum_of_doubles<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Double(0.0))
}

fn sum_of_durations<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sum(args, Value::Duration(Duration { nanos: 0 }))
}

/// The element that is ahead of all others.
fn extreme<'a>(args: &[Value<'a>], name: &str, is_ahead: fn(std::cmp::Ordering) -> bool) -> Outcome<'a> {
    let mut best: Option<Value<'a>> = None;
    for element in only_list(args)?.iter() {
        let element = element?;
        match &best {
            None => {
                assert_comparable(&element)?;
                best = Some(element);
            }
            Some(known) => match compare(&element, known) {
                Ok(ordering) if is_ahead(ordering) => best = Some(element),
                // An element that cannot be compared is not ahead.
                _ => {}
            },
        }
    }
    best.ok_or_else(|| Failure::Error(format!("{name} called on empty list")))
}

fn min<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "min", std::cmp::Ordering::is_lt)
}

fn max<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(args, "max", std::cmp::Ordering::is_gt)
}

fn position<'a>(index: Option<usize>) -> Outcome<'a> {
    Ok(Value::Int(index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1)))
}

fn index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(of), Value::String(part)] => Ok(Value::Int(super::leaf::strings::index_of(of, part))),
        [Value::String(of), Value::String(part), from] => {
            Ok(Value::Int(super::leaf::strings::index_of_from(of, part, int(from)?)?))
        }
        [Value::List(list), wanted] => {
            let is_wanted = |value: &Value<'_>| matches!(equal(value, wanted), Ok(true));
            position(list.values()?.iter().position(is_wanted))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

fn last_index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(of), Value::String(part)] => {
            Ok(Value::Int(super::leaf::strings::last_index_of(of, part)))
        }
        [Value::String(of), Value::String(part), to] => {
            Ok(Value::Int(super::leaf::strings::last_index_of_to(of, part, int(to)?)?))
        }
        [Value::List(list), wanted] => {
            let is_wanted = |value: &Value<'_>| matches!(equal(value, wanted), Ok(true));
            position(list.values()?.iter().rposition(is_wanted))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

fn slice<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, from, to] = args else { return Err(Failure::NoSuchOverload) };
    let (of, from, to) = (list(of)?, int(from)?, int(to)?);
    let length = of.len();
    let refuse = |why: &str| Err(Failure::Error(format!("cannot slice({from}, {to}), {why}")));
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return refuse("negative indexes not supported");
    };
    if start > end {
        return refuse("start index must be less than or equal to end index");
    }
    if length < end {
        return refuse(&format!("list is length {length}"));
    }
    let values: Result<Vec<_>, _> = (start..end).filter_map(|index| of.get(index)).collect();
    Ok(Value::list(values?))
}

fn flatten<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (of, depth) = match args {
        [Value::List(of)] => (of, 1),
        [Value::List(of), Value::Int(depth)] => (of, *depth),
        [of, depth @ ..] => {
            let depth: Vec<&str> = depth.iter().map(Value::type_name).collect();
            return Err(Failure::Error(format!(
                "no such overload: {}.flatten({})",
                of.type_name(),
                depth.join(", ")
            )));
        }
        [] => return Err(Failure::NoSuchOverload),
    };
    if depth < 0 {
        return Err("level must be non-negative".into());
    }
    let mut flat = Vec::new();
    flatten_into(&mut flat, of, depth)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(flat: &mut Vec<Value<'a>>, of: &List<'a>, depth: i64) -> Result<(), Failure> {
    for element in of.iter() {
        limits::visit(1)?;
        match element? {
            Value::List(inner) if depth > 0 => flatten_into(flat, &inner, depth - 1)?,
            other => flat.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let values = only_list(args).map_err(|_| Failure::NoOperator)?.values()?;
    sorted(values.clone(), values)
}

fn sort_by_keys<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, keys] = args else { return Err(Failure::NoSuchOverload) };
    let values = list(of).map_err(|_| Failure::NoOperator)?;
    sorted(values.values()?, list(keys)?.values()?)
}

/// The values in the order of their keys.
fn sorted<'a>(values: Vec<Value<'a>>, keys: Vec<Value<'a>>) -> Outcome<'a> {
    if values.len() != keys.len() {
        return Err(Failure::Error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and \
             {} elements respectively",
            values.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else { return Ok(Value::list(values)) };
    if matches!(compare(first, first), Err(Failure::NoSuchOverload)) {
        return Err("list elements must be comparable".into());
    }
    if keys.len() > 1 && keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err("list elements must have the same type".into());
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    // Numbers that cannot be ordered go behind all others, so that the order is one.
    let is_nan = |key: &Value<'_>| matches!(key, Value::Double(number) if number.is_nan());
    order.sort_by(|left, right| {
        let (left, right) = (&keys[*left], &keys[*right]);
        compare(left, right).unwrap_or_else(|_| is_nan(left).cmp(&is_nan(right)))
    });
    Ok(Value::list(order.into_iter().map(|index| values[index].clone()).collect()))
}

/// A range has at most so many elements. The API server stops at the cost of making them, which is as large.
const RANGE_ELEMENTS_MAX: i64 = 10_000_000;

fn range<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [end] = args else { return Err(Failure::NoSuchOverload) };
    let end = int(end)?.min(RANGE_ELEMENTS_MAX);
    Ok(Value::list((0..end).map(Value::Int).collect()))
}

fn reverse<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut values = only_list(args)?.values()?;
    values.reverse();
    Ok(Value::list(values))
}

fn distinct<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut seen: Vec<Value<'a>> = Vec::new();
    for element in only_list(args)?.iter() {
        let element = element?;
        if !seen.iter().any(|known| matches!(equal(&element, known), Ok(true))) {
            seen.push(element);
        }
    }
    Ok(Value::list(seen))
}
