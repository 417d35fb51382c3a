//! The functions of the language and of Kubernetes' libraries: one file per library, each a table of
//! declarations and the operations of the functions.

mod authz;
mod comprehensions;
mod format;
mod lists;
pub(crate) mod messages;
mod named_formats;
mod network;
mod optionals;
mod quantity;
mod regex;
mod semver;
mod sets;
mod standard;
mod strings;
mod time;
mod url;

pub mod leaf;

pub(crate) use format::{check_format, takes};
pub(crate) use lists::sum_of;
pub(crate) use regex::{PatternOperation, with_pattern};
pub(crate) use standard::map_insert;

use crate::cost::rule::CostRule;
use crate::declarations::{Definition, Failure, Mismatch, Operation};
use crate::value::{Text, Value};

/// All functions.
pub(crate) fn definitions() -> impl Iterator<Item = &'static Definition> {
    [
        standard::FUNCTIONS,
        time::FUNCTIONS,
        optionals::FUNCTIONS,
        comprehensions::FUNCTIONS,
        strings::FUNCTIONS,
        lists::FUNCTIONS,
        sets::FUNCTIONS,
        regex::FUNCTIONS,
        url::FUNCTIONS,
        quantity::FUNCTIONS,
        network::FUNCTIONS,
        semver::FUNCTIONS,
        named_formats::FUNCTIONS,
        authz::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// The cost of calls that have no cost of their own.
const ONE: CostRule = CostRule::Fixed(1);

/// A function whose overloads all cost the same.
const fn define(
    name: &'static str,
    operation: Operation,
    overloads: &'static [(&'static str, CostRule)],
) -> Definition {
    Definition { name, operation, ambiguous_cost: ONE, overloads, mismatch: Mismatch::Signature }
}

impl Definition {
    /// Sets the cost of a call that several overloads fit.
    const fn ambiguous(mut self, cost: CostRule) -> Self {
        self.ambiguous_cost = cost;
        self
    }

    /// Sets the form of the error of a call without a matching overload.
    const fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self
    }
}

/// The text of an argument.
fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Failure> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Failure::NoSuchOverload),
    }
}

/// An integer argument.
fn int(value: &Value<'_>) -> Result<i64, Failure> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(Failure::NoSuchOverload),
    }
}

/// A list of texts.
fn texts<'a, T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Value<'a> {
    Value::list(texts.into_iter().map(|text| Value::String(Text::from(text.into()))).collect())
}

/// A value as `%s` of `format` shows it; `None` for values that it does not take.
pub fn show(value: &Value<'_>) -> Option<String> {
    format::string(value).ok()
}
