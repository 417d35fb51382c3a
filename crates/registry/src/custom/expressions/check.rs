//! Checks the rules of a definition before it is stored.

use super::{
    super::schema::{
        Node, Rule,
        definition::{RuleChecker, RuleSite, rule_shown},
        joined,
    },
    compile::Rules,
};
use keepwatch_apimachinery::status::Cause;
use keepwatch_cel::{
    rules::{
        Place, RuleError,
        cost::{self, Cardinality, NAMED_RULE_COST_MIN, NAMED_RULES_MAX, RULE_COST_MAX, SCHEMA_COST_MAX},
    },
    schema::Declared,
};
use serde_json::Value;

/// The largest cost of the rules for all defaults of a schema.
const DEFAULTS_COST_MAX: u64 = 100_000_000;

/// Checks the rules of one schema.
#[derive(Debug)]
pub(crate) struct Checker {
    /// Whether the schema is stored already, so that the cost of single rules was checked when it was written.
    is_unchanged: bool,
    /// The cost of all rules together for one object.
    total: u64,
    /// The most expensive rules and their paths, the most expensive first.
    dearest: Vec<(u64, String)>,
    /// The remaining cost budget for defaults.
    defaults_budget: u64,
}

impl Checker {
    /// For a schema that is new, or for one that is stored already.
    pub(crate) fn new(is_unchanged: bool) -> Checker {
        Checker { is_unchanged, total: 0, dearest: Vec::new(), defaults_budget: DEFAULTS_COST_MAX }
    }

    /// Adds the cost of an expression.
    fn count(&mut self, path: String, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= NAMED_RULE_COST_MIN {
            let at = self.dearest.partition_point(|(other, _)| *other >= cost);
            self.dearest.insert(at, (cost, path));
            self.dearest.truncate(NAMED_RULES_MAX);
        }
    }

    fn cost_of(&mut self, what: &str, path: String, cost: u64, causes: &mut Vec<Cause>) {
        if cost > RULE_COST_MAX && !self.is_unchanged {
            let why = cost::exceeded(&format!("estimated {what} cost"), cost, RULE_COST_MAX);
            causes.push(Cause::forbidden(&path, &why));
        }
        self.count(path, cost);
    }

    fn rule(
        &mut self,
        checked: &Checked<'_>,
        site: &RuleSite<'_>,
        rule: &Rule,
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        let at = |field: &str| format!("{path}.{field}");
        let optional_old_self = rule.optional_old_self == Some(true);
        let compiled = checked.place.rule(&rule.rule, optional_old_self);
        let mut uses_old_self = false;
        match &compiled {
            Ok(compiled) => {
                uses_old_self = compiled.uses_old_self();
                let cost =
                    cost::of_rule(compiled.estimate().max, checked.cardinality, checked.place.declared());
                self.cost_of("rule", at("rule"), cost, causes);
            }
            Err(error) => causes.push(refused(at("rule"), rule, error)),
        }
        if compiled.is_ok() && !rule.message_expression.is_empty() {
            match checked.place.message_expression(&rule.message_expression, optional_old_self) {
                Ok(expression) => {
                    self.cost_of(
                        "messageExpression",
                        at("messageExpression"),
                        expression.estimate().max,
                        causes,
                    );
                }
                Err(error) => causes.push(refused(at("messageExpression"), rule, &error)),
            }
        }
        match (uses_old_self, site.uncorrelatable, rule.optional_old_self) {
            (true, Some(above), _) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
                );
                causes.push(Cause::invalid(at("rule"), &Value::from(&*rule.rule), &why));
            }
            (false, _, Some(given)) => {
                let why = "may not be set if oldSelf is not used in rule";
                causes.push(Cause::invalid(at("optionalOldSelf"), &given.into(), why));
            }
            _ => {}
        }
    }
}

/// A place whose rules are checked.
struct Checked<'a> {
    place: &'a Place,
    cardinality: Cardinality,
}

impl RuleChecker for Checker {
    fn check(&mut self, site: &RuleSite<'_>) -> Vec<Cause> {
        let Some((node, above)) = site.way.split_last() else { return Vec::new() };
        let rules = format!("{}.x-kubernetes-validations", site.path);
        let Some(declared) = Declared::from_schema(*node, above.is_empty()) else {
            let why = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: \
                unable to convert structural schema to CEL declarations";
            return vec![Cause::new("InternalError", why, rules)];
        };
        let place = Place::new(declared);
        let checked = Checked { place: &place, cardinality: cardinality(site.way) };
        let mut causes = Vec::new();
        for (number, rule) in node.rules.iter().enumerate() {
            self.rule(&checked, site, rule, &format!("{rules}[{number}]"), &mut causes);
        }
        causes
    }

    fn check_default(&mut self, path: &str, node: &Node, default: &Value) -> Vec<Cause> {
        let mut causes = Rules::at(node).evaluate_default(node, default, &mut self.defaults_budget);
        for cause in &mut causes {
            cause.field = joined(path, &cause.field);
        }
        causes
    }

    fn finish(&mut self, path: &str) -> Vec<Cause> {
        if self.total <= SCHEMA_COST_MAX {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let named = self.dearest.iter().map(|(_, path)| Cause::forbidden(path, why));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let total = Cause::forbidden(path, &cost::exceeded(what, self.total, SCHEMA_COST_MAX));
        named.chain([total]).collect()
    }
}

/// The number of times that a value can occur in an object: the product of the limits of the lists and maps above.
fn cardinality(way: &[&Node]) -> Cardinality {
    way.windows(2).fold(Cardinality::ROOT, |times, step| {
        let (above, below) = (step[0], step[1]);
        let is = |node: Option<&Node>| node.is_some_and(|node| std::ptr::eq(node, below));
        let checks = above.checks.as_deref();
        let limit = |max: Option<i64>| max.and_then(|max| u64::try_from(max).ok());
        if is(above.items.as_deref()) {
            times.of_elements(limit(checks.and_then(|checks| checks.max_items)))
        } else if is(above.additional_schema()) {
            times.of_elements(limit(checks.and_then(|checks| checks.max_properties)))
        } else {
            times
        }
    })
}

/// The error of a rule that does not compile, with the whole rule as its value.
fn refused(path: String, rule: &Rule, error: &RuleError) -> Cause {
    Cause::new("FieldValueInvalid", format!("Invalid value: {}: {error}", rule_shown(rule)), path)
}
