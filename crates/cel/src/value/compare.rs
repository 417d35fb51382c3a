//! The order of values.

use std::cmp::Ordering;

use super::Value;
use crate::declarations::Failure;

/// Compares two values. Numbers of different types compare by numeric value.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Failure> {
    Ok(match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Uint(left), Value::Uint(right)) => left.cmp(right),
        (Value::Int(left), Value::Uint(right)) => i128::from(*left).cmp(&i128::from(*right)),
        (Value::Uint(left), Value::Int(right)) => i128::from(*left).cmp(&i128::from(*right)),
        (Value::Double(left), Value::Double(right)) => ordered(left.partial_cmp(right))?,
        (Value::Double(left), Value::Int(right)) => int_and_double(*right, *left)?.reverse(),
        (Value::Double(left), Value::Uint(right)) => uint_and_double(*right, *left)?.reverse(),
        (Value::Int(left), Value::Double(right)) => int_and_double(*left, *right)?,
        (Value::Uint(left), Value::Double(right)) => uint_and_double(*left, *right)?,
        (Value::String(left), Value::String(right)) => (**left).cmp(&**right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            (left.seconds, left.nanos).cmp(&(right.seconds, right.nanos))
        }
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        _ => return Err(Failure::NoSuchOverload),
    })
}

fn ordered(ordering: Option<Ordering>) -> Result<Ordering, Failure> {
    ordering.ok_or_else(|| "NaN values cannot be ordered".into())
}

/// An integer compared with a double, as which it is taken if the double is in its range.
fn integer_and_double(integer: f64, least: f64, most: f64, double: f64) -> Result<Ordering, Failure> {
    if double < least {
        return Ok(Ordering::Greater);
    }
    if double > most {
        return Ok(Ordering::Less);
    }
    ordered(integer.partial_cmp(&double))
}

fn int_and_double(int: i64, double: f64) -> Result<Ordering, Failure> {
    integer_and_double(int as f64, i64::MIN as f64, i64::MAX as f64, double)
}

fn uint_and_double(uint: u64, double: f64) -> Result<Ordering, Failure> {
    integer_and_double(uint as f64, 0.0, u64::MAX as f64, double)
}
