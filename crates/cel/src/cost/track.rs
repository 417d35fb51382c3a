//! The cost of a call whose arguments are at hand.

use super::CostEstimate;
use super::rule::{
    CALL_COST, COMPARISON_FACTOR, CostRule, LIST_COST, REGEX_FACTOR, REQUIREMENT_COST,
    REQUIREMENTS_PER_CHARACTER, TRAVERSAL_FACTOR,
};
use super::times_factor;
use crate::limits;
use crate::value::{Opaque, Value};

/// The cost of a call. `result`: its result, unless it failed.
pub(crate) fn call(rule: CostRule, args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    let size = |index: usize| match args.get(index) {
        // Only the functions of the language look into optional values.
        Some(Value::Optional(_)) if !is_of_language(rule) => 1,
        Some(value) => value.size(),
        None => 1,
    };
    let traversal = |size: u64| times_factor(size, TRAVERSAL_FACTOR);
    let result_size = || result.map_or(1, Value::size);
    match rule {
        CostRule::Fixed(cost) => cost,
        CostRule::Equals if has_fixed_equality(args.first()) => 1,
        CostRule::Equals | CostRule::Compare => traversal(size(0).min(size(1))),
        CostRule::Logical | CostRule::Conditional => 0,
        CostRule::IndexList | CostRule::IndexMap | CostRule::AddList => 1,
        CostRule::InList => size(1),
        CostRule::AddText => traversal(size(0).saturating_add(size(1))),
        CostRule::StringToBytes
        | CostRule::BytesToString
        | CostRule::Affix
        | CostRule::Quote
        | CostRule::Format
        | CostRule::Transform
        | CostRule::Parse => traversal(size(0)),
        CostRule::ParseTwice | CostRule::Replace | CostRule::Split => {
            times_factor(size(0), 2.0 * TRAVERSAL_FACTOR)
        }
        CostRule::Join => times_factor(result_size(), 2.0 * TRAVERSAL_FACTOR),
        CostRule::Contains => traversal(size(0)).saturating_mul(traversal(size(1))),
        CostRule::Matches | CostRule::Find => {
            traversal(size(0).saturating_add(1)).saturating_mul(times_factor(size(1), REGEX_FACTOR))
        }
        CostRule::Scan => args.first().map_or(0, traversal_of),
        CostRule::ContainsIp { parses } => {
            times_factor(size(0), 2.0 * TRAVERSAL_FACTOR) + if parses { traversal(size(1)) } else { 0 }
        }
        CostRule::ContainsCidr { parses } => {
            let parsing = if parses { traversal(size(1)) } else { 0 };
            times_factor(size(0), 2.0 * TRAVERSAL_FACTOR) + traversal(size(0)) + 1 + parsing
        }
        CostRule::Validate => match args.first() {
            Some(Value::Opaque(Opaque::Format(format))) => traversal(size(1).saturating_add(1))
                .saturating_mul(times_factor(format.regex_length(), REGEX_FACTOR)),
            _ => 1,
        },
        CostRule::Selector => selector(CostEstimate::fixed(size(1))).max,
        CostRule::Sets(times) => {
            CALL_COST.saturating_add(size(0).saturating_mul(size(1)).saturating_mul(times))
        }
        CostRule::Slice | CostRule::Range | CostRule::Reverse => list_call(1.0, result_size()),
        CostRule::Flatten => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => *depth as f64,
                _ => 1.0,
            };
            // Negative depths, which are errors, take something off.
            go_uint(size(0) as f64 * depth).wrapping_add(CALL_COST + LIST_COST)
        }
        CostRule::Distinct | CostRule::Sort { .. } => self_comparison(args.first()),
        CostRule::SortBy { .. } => self_comparison(args.get(1)),
    }
}

/// The part of the cost of a call that is known before it is made. It is less than the whole only where the call is
/// little work.
pub(crate) fn before_call(rule: CostRule, args: &[Value<'_>]) -> u64 {
    match (rule, args) {
        (CostRule::Distinct | CostRule::Sets(_), [Value::List(_), ..]) => call(rule, args, None),
        (CostRule::Range, [Value::Int(end)]) => u64::try_from(*end).unwrap_or_default(),
        _ => 0,
    }
}

/// Whether the function belongs to the language and not to one of Kubernetes' libraries.
fn is_of_language(rule: CostRule) -> bool {
    matches!(
        rule,
        CostRule::Equals
            | CostRule::Compare
            | CostRule::InList
            | CostRule::AddText
            | CostRule::StringToBytes
            | CostRule::BytesToString
            | CostRule::Affix
            | CostRule::Quote
            | CostRule::Format
            | CostRule::Contains
            | CostRule::Matches
    )
}

/// A double as an unsigned integer, as the API server's processors convert one that is out of range.
fn go_uint(number: f64) -> u64 {
    const SIGNED_END: f64 = 9_223_372_036_854_775_808.0;
    const OUT_OF_RANGE: u64 = 1 << 63;
    if (-SIGNED_END..SIGNED_END).contains(&number) {
        (number as i64).cast_unsigned()
    } else if (SIGNED_END..2.0 * SIGNED_END).contains(&number) {
        number as u64
    } else {
        OUT_OF_RANGE
    }
}

/// The cost of a selector of so many characters.
pub(super) fn selector(size: CostEstimate) -> CostEstimate {
    let requirements = size.by(REQUIREMENTS_PER_CHARACTER).by(REQUIREMENT_COST);
    CostEstimate::fixed(LIST_COST).plus(size.by(TRAVERSAL_FACTOR)).plus(requirements)
}

/// Whether `==` of a value has a fixed cost, regardless of the value.
fn has_fixed_equality(value: Option<&Value<'_>>) -> bool {
    matches!(value, Some(Value::Opaque(_)))
}

/// The cost of a call of the list library that makes a list.
fn list_call(factor: f64, size: u64) -> u64 {
    // Casts of doubles saturate.
    ((size as f64 * factor) as u64).saturating_add(CALL_COST + LIST_COST)
}

/// The cost of comparing every element of a list with every other.
fn self_comparison(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(list)) = list else { return list_call(COMPARISON_FACTOR, 1) };
    let size = list.len() as u64;
    let is_text = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let factor = if is_text { COMPARISON_FACTOR + TRAVERSAL_FACTOR } else { COMPARISON_FACTOR };
    list_call(factor, size.saturating_mul(size))
}

/// The cost of traversing a value once; `u64::MAX`, more than any limit, if that is too much to count.
fn traversal_of(value: &Value<'_>) -> u64 {
    if limits::visit(1).is_err() {
        return u64::MAX;
    }
    let bytes = |count: usize| (count as f64 * TRAVERSAL_FACTOR) as u64;
    match value {
        Value::String(text) => bytes(text.len()),
        Value::Bytes(content) => bytes(content.len()),
        Value::List(list) => {
            let elements = list.iter().map(|element| element.as_ref().map_or(1, traversal_of));
            elements.fold(0, u64::saturating_add)
        }
        Value::Map(map) => {
            let entries = map.keys().into_iter().map(|key| {
                let value = map.find(&key);
                let value = value.map_or(1, |value| value.as_ref().map_or(1, traversal_of));
                traversal_of(&key).saturating_add(value)
            });
            entries.fold(0, u64::saturating_add)
        }
        Value::Object(object) => {
            let fields = object.keys().into_iter().map(|key| {
                let Value::String(name) = &key else { return 1 };
                let value = object.find(name);
                let value = value.map_or(1, |value| value.as_ref().map_or(1, traversal_of));
                traversal_of(&key).saturating_add(value)
            });
            fields.fold(0, u64::saturating_add)
        }
        _ => 1,
    }
}
