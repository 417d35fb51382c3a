//! Amounts such as `1.5Gi` or `200m`.

use std::sync::Arc;

use super::{ONE, define, leaf, text};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Opaque, Value};
use leaf::quantity::Quantity;

pub(super) const FUNCTIONS: &[Definition] = &[
    define("quantity", quantity, &[("(string) -> kubernetes.Quantity", CostRule::Parse)])
        .ambiguous(CostRule::Parse),
    define("isQuantity", is_quantity, &[("(string) -> bool", CostRule::Parse)]).ambiguous(CostRule::Parse),
    define("sign", sign, &[("(kubernetes.Quantity) -> int", ONE)]),
    define("asInteger", as_integer, &[("kubernetes.Quantity.() -> int", ONE)]),
    define("isInteger", is_integer, &[("kubernetes.Quantity.() -> bool", ONE)]),
    define("asApproximateFloat", as_float, &[("kubernetes.Quantity.() -> double", ONE)]),
    define(
        "add",
        add,
        &[
            ("kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity", ONE),
            ("kubernetes.Quantity.(int) -> kubernetes.Quantity", ONE),
        ],
    ),
    define(
        "sub",
        sub,
        &[
            ("kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity", ONE),
            ("kubernetes.Quantity.(int) -> kubernetes.Quantity", ONE),
        ],
    ),
    // Amounts and versions are compared by functions of the same names.
    define(
        "compareTo",
        compare_to,
        &[
            ("kubernetes.Quantity.(kubernetes.Quantity) -> int", ONE),
            ("kubernetes.Semver.(kubernetes.Semver) -> int", ONE),
        ],
    ),
    define(
        "isGreaterThan",
        is_greater,
        &[
            ("kubernetes.Quantity.(kubernetes.Quantity) -> bool", ONE),
            ("kubernetes.Semver.(kubernetes.Semver) -> bool", ONE),
        ],
    ),
    define(
        "isLessThan",
        is_less,
        &[
            ("kubernetes.Quantity.(kubernetes.Quantity) -> bool", ONE),
            ("kubernetes.Semver.(kubernetes.Semver) -> bool", ONE),
        ],
    ),
];

fn receiver<'v>(args: &'v [Value<'_>]) -> Result<&'v Quantity, Failure> {
    match args {
        [Value::Opaque(Opaque::Quantity(quantity)), ..] => Ok(quantity),
        _ => Err(Failure::NoSuchOverload),
    }
}

fn made<'a>(quantity: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(Arc::new(quantity)))
}

fn quantity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(made(Quantity::parse(text(of)?)?))
}

fn is_quantity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(Quantity::parse(text(of)?).is_ok()))
}

fn sign<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(receiver(args)?.sign()))
}

fn as_integer<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(receiver(args)?.as_integer()?))
}

fn is_integer<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(receiver(args)?.is_integer()))
}

fn as_float<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(receiver(args)?.as_approximate_float()))
}

fn arithmetic<'a>(
    args: &[Value<'a>],
    operation: fn(&Quantity, &Quantity) -> Result<Quantity, String>,
) -> Outcome<'a> {
    let left = receiver(args)?;
    Ok(made(match &args[1..] {
        [Value::Opaque(Opaque::Quantity(right))] => operation(left, right)?,
        [Value::Int(right)] => operation(left, &Quantity::from_int(*right))?,
        _ => return Err(Failure::NoSuchOverload),
    }))
}

fn add<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    arithmetic(args, Quantity::add)
}

fn sub<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    arithmetic(args, Quantity::sub)
}

fn compared(args: &[Value<'_>]) -> Result<std::cmp::Ordering, Failure> {
    match args {
        [Value::Opaque(Opaque::Quantity(left)), Value::Opaque(Opaque::Quantity(right))] => {
            Ok(left.compare(right))
        }
        [Value::Opaque(Opaque::Semver(left)), Value::Opaque(Opaque::Semver(right))] => {
            Ok(left.compare(right))
        }
        _ => Err(Failure::NoSuchOverload),
    }
}

fn compare_to<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(compared(args)? as i64))
}

fn is_greater<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(compared(args)?.is_gt()))
}

fn is_less<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(compared(args)?.is_lt()))
}
