//! `recorded.json` has the responses of a real kube-apiserver to the cases in `tests/golden/custom_schema_cases.py`.

mod answers;
mod limits;
mod recorded;

use keepwatch_apimachinery::status::Cause;
use serde_json::{Value, json};

use super::{
    Node,
    definition::{RuleChecker, RuleSite},
};
use crate::schema::{Problems, lookup, normalize};

/// All rules are fine.
struct NoRules;

impl RuleChecker for NoRules {
    fn check(&mut self, _: &RuleSite<'_>) -> Vec<Cause> {
        Vec::new()
    }
    fn check_default(&mut self, _: &str, _: &Node, _: &Value) -> Vec<Cause> {
        Vec::new()
    }
    fn finish(&mut self, _: &str) -> Vec<Cause> {
        Vec::new()
    }
}

/// A schema as a definition is stored with it.
fn normalized(schema: &Value) -> Value {
    let ty = lookup("apiextensions.v1.JSONSchemaProps").unwrap();
    normalize(schema.clone(), ty, &mut Problems::default()).unwrap_or_else(|error| json!({"error": error.0}))
}
