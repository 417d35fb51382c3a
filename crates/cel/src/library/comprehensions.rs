//! The function that the macros with two variables expand to.

use super::{ONE, define};
use crate::ast::operator;
use crate::declarations::{Definition, Failure, Outcome};
use crate::value::{Map, MapValues, Value};

pub(super) const FUNCTIONS: &[Definition] = &[define(
    operator::MAP_INSERT,
    insert,
    &[("(map(K, V), K, V) -> map(K, V)", ONE), ("(map(K, V), map(K, V)) -> map(K, V)", ONE)],
)];

/// The evaluator inserts in place; this is for maps that are not its accumulators.
fn insert<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Map(Map::Values(values)), more @ ..] = args else { return Err(Failure::NoSuchOverload) };
    let mut values: MapValues<'a> = (**values).clone();
    super::map_insert(&mut values, more)?;
    Ok(Value::Map(Map::Values(values.into())))
}
