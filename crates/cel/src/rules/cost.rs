//! Whether rules cost too much to be written into a schema.

use crate::schema::Declared;

/// The cost limit of a rule, or of a message expression, for one object.
pub const RULE_COST_MAX: u64 = 10_000_000;
/// The cost limit of all rules of a schema for one object.
pub const SCHEMA_COST_MAX: u64 = 100_000_000;
/// A rule that costs so much is named when all rules of a schema cost too much.
pub const NAMED_RULE_COST_MIN: u64 = 1_000_000;
/// The largest number of rules that are named when all rules of a schema cost too much.
pub const NAMED_RULES_MAX: usize = 4;
/// The largest request.
const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The number of times that a place in a schema can occur in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// At most so often.
    Bounded(u64),
    /// As often as it fits into a request.
    Unbounded,
}

impl Cardinality {
    /// Of the root of a schema, which occurs once.
    pub const ROOT: Self = Self::Bounded(1);

    /// Of the items of an array, or of the values of a map, that has at most so many; `None`: it has no limit.
    #[must_use]
    pub fn of_elements(self, elements_max: Option<u64>) -> Self {
        match (self, elements_max) {
            (Self::Bounded(times), Some(max)) => Self::Bounded(times.saturating_mul(max)),
            _ => Self::Unbounded,
        }
    }
}

/// The cost of a rule for a whole object, if one evaluation costs at most `estimate`.
pub fn of_rule(estimate: u64, cardinality: Cardinality, declared: &Declared) -> u64 {
    estimate.saturating_mul(match cardinality {
        Cardinality::Bounded(times) => times,
        Cardinality::Unbounded => REQUEST_BYTES_MAX / (declared.min_serialized_size + 1),
    })
}

/// The error of something that costs too much. `what`: its name, such as `estimated rule cost`.
pub fn exceeded(what: &str, cost: u64, cost_max: u64) -> String {
    let factor = cost as f64 / cost_max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // With one digit it would be a factor of 1.0.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_shown_as_a_factor_of_what_is_allowed() {
        for (cost, factor) in [
            (12_000_000, "1.200000x"),
            (15_000_000, "1.5x"),
            (1_000_000_000, "100.0x"),
            (1_000_000_001, "more than 100x"),
            (u64::MAX, "more than 100x"),
        ] {
            let text = exceeded("estimated rule cost", cost, RULE_COST_MAX);
            assert!(
                text.starts_with(&format!("estimated rule cost exceeds budget by factor of {factor} (")),
                "{text}"
            );
        }
    }

    #[test]
    fn one_array_without_a_limit_makes_the_whole_place_unbounded() {
        let bounded = Cardinality::ROOT.of_elements(Some(10)).of_elements(Some(4));
        assert_eq!(bounded, Cardinality::Bounded(40));
        assert_eq!(bounded.of_elements(None).of_elements(Some(2)), Cardinality::Unbounded);
        let declared = Declared::from_schema(&serde_json::json!({"type": "integer"}), false).unwrap();
        assert_eq!(of_rule(3, bounded, &declared), 120);
        assert_eq!(of_rule(3, Cardinality::Unbounded, &declared), 3 * 1_572_864);
        assert_eq!(of_rule(u64::MAX, bounded, &declared), u64::MAX);
    }
}
