//! Regular expressions. Constant ones are compiled once, with the program.

use super::{ONE, define, leaf, text, texts};
use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Mismatch, Outcome};
use crate::value::Value;
use leaf::regex::Pattern;

pub(super) const FUNCTIONS: &[Definition] = &[
    define(
        "matches",
        matches,
        &[("(string, string) -> bool", ONE), ("string.(string) -> bool", CostRule::Matches)],
    )
    .mismatch(Mismatch::Plain),
    define("find", find, &[("string.(string) -> string", CostRule::Find)]).ambiguous(CostRule::Find),
    define(
        "findAll",
        find_all,
        &[
            ("string.(string) -> list(string)", CostRule::Find),
            ("string.(string, int) -> list(string)", CostRule::Find),
        ],
    )
    .ambiguous(CostRule::Find),
];

/// The operation of a function on a compiled pattern. The pattern is still the second argument.
pub(crate) type PatternOperation = for<'a> fn(&Pattern, &[Value<'a>]) -> Outcome<'a>;

/// The operation of a function that takes a pattern as its second argument.
pub(crate) fn with_pattern(function: &str) -> Option<PatternOperation> {
    Some(match function {
        "matches" => matches_pattern,
        "find" => find_pattern,
        "findAll" => find_all_pattern,
        _ => return None,
    })
}

fn matches<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [of, pattern] = args else { return Err(Failure::NoSuchOverload) };
    // Text is the only type that has the function.
    let of = text(of).map_err(|_| Failure::NoOperator)?;
    Ok(Value::Bool(Pattern::at_run_time(text(pattern)?)?.is_match(of)))
}

fn matches_pattern<'a>(pattern: &Pattern, args: &[Value<'a>]) -> Outcome<'a> {
    let [of, _] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::Bool(pattern.is_match(text(of)?)))
}

fn compile(pattern: &Value<'_>) -> Result<Pattern, Failure> {
    Pattern::at_run_time(text(pattern)?).map_err(|error| Failure::Error(format!("Illegal regex: {error}")))
}

fn find<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [_, pattern] = args else { return Err(Failure::NoSuchOverload) };
    find_pattern(&compile(pattern)?, args)
}

fn find_pattern<'a>(pattern: &Pattern, args: &[Value<'a>]) -> Outcome<'a> {
    let [of, _] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(pattern.find(text(of)?)))
}

fn find_all<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [_, pattern, ..] = args else { return Err(Failure::NoSuchOverload) };
    find_all_pattern(&compile(pattern)?, args)
}

fn find_all_pattern<'a>(pattern: &Pattern, args: &[Value<'a>]) -> Outcome<'a> {
    let [of, _, count @ ..] = args else { return Err(Failure::NoSuchOverload) };
    let count = count.first().map_or(Ok(-1), super::int)?;
    Ok(texts(pattern.find_all(text(of)?, count)))
}
