//! Evaluates the rules of a schema for an object.

use super::{
    super::schema::{Node, Old, Path, joined, shown, type_name},
    compile::{Rules, Site, SiteRule},
};
use crate::strategy::{Evaluated, Interrupted};
use keepwatch_apimachinery::{go::Quoted, status::Cause};
use keepwatch_cel::{
    eval::EvalError,
    rules::{self, CALL_COST_MAX, Compiled, Place},
    value::Value as CelValue,
};
use serde_json::Value;

/// The largest cost of all rules for one object.
const OBJECT_COST_MAX: u64 = 10_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const OUT_OF_BUDGET_FOR_MESSAGE: &str = "messageExpression evaluation failed due to running out of cost budget, no further \
    validation rules will be run";

/// The errors and warnings of an object by its rules.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) causes: Vec<Cause>,
    /// Failures of values that an update did not change.
    pub(crate) warnings: Vec<String>,
}

impl Rules {
    /// Evaluates the rules for an object.
    pub(crate) fn evaluate(&self, root: &Node, objects: &Evaluated) -> Result<Outcome, Interrupted> {
        let past = Past { own: Old::at_root(root, objects.old), nearest: None, ratchets: true };
        let interrupted = objects.interrupted;
        let mut evaluation = Evaluation { outcome: Outcome::default(), budget: OBJECT_COST_MAX, interrupted };
        let subject = Subject { node: root, path: &Path::Root, new: objects.new, past };
        match evaluation.site(&self.root, &subject) {
            Err(Stopped::Interrupted) => Err(Interrupted),
            // The reason is among the causes.
            Ok(()) | Err(Stopped::TooCostly) => Ok(evaluation.outcome),
        }
    }

    /// Evaluates the rules for a default, which is also its own old value. The cost is taken off the budget.
    pub(super) fn evaluate_default(&self, node: &Node, default: &Value, budget: &mut u64) -> Vec<Cause> {
        let past = Past { own: Old::at_root(node, Some(default)), nearest: None, ratchets: false };
        let own = OBJECT_COST_MAX.min(*budget);
        let mut evaluation = Evaluation { outcome: Outcome::default(), budget: own, interrupted: &|| false };
        let subject = Subject { node, path: &Path::Root, new: default, past };
        // The reason is among the causes.
        let _ = evaluation.site(&self.root, &subject);
        *budget -= own - evaluation.budget;
        evaluation.outcome.causes
    }
}

/// The value before an update.
#[derive(Clone, Copy)]
struct Past<'v> {
    own: Old<'v>,
    /// The nearest value above whose old value is known, with that old value.
    nearest: Option<(&'v Value, Old<'v>)>,
    /// Whether failures of unchanged values are warnings.
    ratchets: bool,
}

/// A value, and the place of its schema.
struct Subject<'p, 'v> {
    node: &'v Node,
    path: &'p Path<'p>,
    new: &'v Value,
    past: Past<'v>,
}

impl<'v> Subject<'_, 'v> {
    /// The old value of a value inside this one.
    fn past_of(&self, own: Old<'v>) -> Past<'v> {
        let nearest =
            if self.past.own.is_known() { Some((self.new, self.past.own)) } else { self.past.nearest };
        Past { own, nearest, ratchets: self.past.ratchets }
    }

    /// Whether a failure is only a warning.
    fn is_forgiven(&self) -> bool {
        let past = &self.past;
        past.ratchets
            && if past.own.is_known() {
                past.own.is_same(self.new)
            } else {
                past.nearest.is_some_and(|(new, old)| old.is_same(new))
            }
    }

    /// An error that shows the type in place of the value.
    fn refused(&self, detail: &str) -> Cause {
        let ty = Quoted(type_name(self.node.ty));
        Cause::new("FieldValueInvalid", format!("Invalid value: {ty}: {detail}"), self.path.keyed())
    }

    /// The error of a broken rule.
    fn broken(&self, rule: &SiteRule, detail: &str) -> Cause {
        let own = self.path.keyed();
        let field = match &rule.field_path {
            Some(below) if self.path.is_root() => below.clone(),
            Some(below) => joined(&own, below),
            None => own,
        };
        let value = match self.new {
            Value::Object(_) | Value::Array(_) => None,
            scalar => Some(shown(scalar)),
        };
        match &*rule.reason {
            "FieldValueForbidden" => Cause::forbidden(field, detail),
            "FieldValueRequired" => Cause::required(field, detail),
            "FieldValueDuplicate" => {
                let message =
                    value.map_or("Duplicate value".to_owned(), |value| format!("Duplicate value: {value}"));
                Cause::new("FieldValueDuplicate", message, field)
            }
            _ => {
                let value = value.map_or(String::new(), |value| format!("{value}: "));
                Cause::new("FieldValueInvalid", format!("Invalid value: {value}{detail}"), field)
            }
        }
    }
}

/// The reason why the evaluation stopped.
enum Stopped {
    /// The budget is used up, or one expression cost too much.
    TooCostly,
    /// The caller interrupted the evaluation.
    Interrupted,
}

struct Evaluation<'i> {
    outcome: Outcome,
    budget: u64,
    interrupted: &'i dyn Fn() -> bool,
}

impl Evaluation<'_> {
    /// The rules of a place, then those below it.
    fn site(&mut self, site: &Site, subject: &Subject<'_, '_>) -> Result<(), Stopped> {
        if subject.new.is_null() {
            return Ok(());
        }
        for rule in &site.rules {
            self.rule(site.place.as_ref(), rule, subject)?;
        }
        match subject.new {
            Value::Object(_) => self.fields(site, subject),
            Value::Array(_) => self.items(site, subject),
            _ => Ok(()),
        }
    }

    fn fields(&mut self, site: &Site, subject: &Subject<'_, '_>) -> Result<(), Stopped> {
        let Some(fields) = subject.new.as_object() else { return Ok(()) };
        for (number, below) in &site.properties {
            let (name, node) = &subject.node.properties[*number];
            let Some(new) = fields.get(&**name) else { continue };
            let mut past = subject.past_of(subject.past.own.field(name).of(node));
            past.ratchets &= !(subject.path.is_root() && matches!(&**name, "apiVersion" | "kind"));
            self.site(below, &Subject { node, path: &Path::Field(subject.path, name), new, past })?;
        }
        let (Some(below), Some(node)) = (&site.additional, subject.node.additional_schema()) else {
            return Ok(());
        };
        for (name, new) in fields.iter().filter(|(name, _)| subject.node.property(name).is_none()) {
            let past = subject.past_of(subject.past.own.field(name).of(node));
            self.site(below, &Subject { node, path: &Path::Entry(subject.path, name), new, past })?;
        }
        Ok(())
    }

    fn items(&mut self, site: &Site, subject: &Subject<'_, '_>) -> Result<(), Stopped> {
        let (Some(below), Some(node), Some(items)) =
            (&site.items, subject.node.items.as_deref(), subject.new.as_array())
        else {
            return Ok(());
        };
        let old = subject.past.own.items(subject.node, items);
        for (at, new) in items.iter().enumerate() {
            let past = subject.past_of(old.at(node, at, new));
            self.site(below, &Subject { node, path: &Path::Item(subject.path, at), new, past })?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        place: Option<&Place>,
        rule: &SiteRule,
        subject: &Subject<'_, '_>,
    ) -> Result<(), Stopped> {
        let (place, compiled) = match (place, &rule.compiled) {
            (Some(place), Ok(compiled)) => (place, compiled),
            (_, Err(why)) => {
                self.outcome.causes.push(subject.refused(&format!("rule compile error: {why}")));
                return Ok(());
            }
            // A compiled rule always has a place.
            (None, Ok(_)) => return Ok(()),
        };
        let old = subject.past.own.value();
        if compiled.uses_old_self() && old.is_none() && !rule.optional_old_self {
            return Ok(());
        }
        let (result, cost) =
            run(self.interrupted, place, compiled, subject.new, old, rule.optional_old_self)?;
        self.charge(cost, OUT_OF_BUDGET, subject)?;
        match result {
            Ok(CelValue::Bool(true)) => Ok(()),
            Ok(_) => {
                let message = self.message(place, rule, subject)?;
                let cause = subject.broken(rule, message.as_deref().unwrap_or(&rule.message));
                if !compiled.uses_old_self() && subject.is_forgiven() {
                    self.outcome.warnings.push(cause.to_string());
                } else {
                    self.outcome.causes.push(cause);
                }
                Ok(())
            }
            Err(error) => {
                let detail = rules::evaluation_error(&error, &rule.shown);
                self.outcome.causes.push(subject.refused(&detail));
                match error {
                    EvalError::CostExceeded | EvalError::Interrupted => Err(Stopped::TooCostly),
                    EvalError::Failed(_) | EvalError::Internal(_) => Ok(()),
                }
            }
        }
    }

    /// The result of the message expression of a broken rule, if it is a message.
    fn message(
        &mut self,
        place: &Place,
        rule: &SiteRule,
        subject: &Subject<'_, '_>,
    ) -> Result<Option<String>, Stopped> {
        let Some((text, expression)) = &rule.message_expression else { return Ok(None) };
        // It sees the old value itself, even where the rule sees an optional one.
        let (result, cost) =
            run(self.interrupted, place, expression, subject.new, subject.past.own.value(), false)?;
        self.charge(cost, OUT_OF_BUDGET_FOR_MESSAGE, subject)?;
        match result {
            Ok(value) => Ok(rules::message(&value)),
            Err(EvalError::CostExceeded) => {
                let detail = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    Quoted(text)
                );
                self.outcome.causes.push(subject.refused(&detail));
                Err(Stopped::TooCostly)
            }
            Err(_) => Ok(None),
        }
    }

    fn charge(&mut self, cost: u64, out_of_budget: &str, subject: &Subject<'_, '_>) -> Result<(), Stopped> {
        match self.budget.checked_sub(cost) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                self.budget = 0;
                self.outcome.causes.push(subject.refused(out_of_budget));
                Err(Stopped::TooCostly)
            }
        }
    }
}

/// The value of an expression, and its cost.
fn run<'v>(
    interrupted: &'v dyn Fn() -> bool,
    place: &'v Place,
    expression: &'v Compiled,
    new: &'v Value,
    old: Option<&'v Value>,
    optional_old_self: bool,
) -> Result<(Result<CelValue<'v>, EvalError>, u64), Stopped> {
    if interrupted() {
        return Err(Stopped::Interrupted);
    }
    let activation = match place.activation(new, old, optional_old_self) {
        Ok(activation) => activation.interrupted_by(interrupted),
        Err(error) => return Ok((Err(error), 0)),
    };
    match expression.program().eval(&activation, CALL_COST_MAX) {
        (Err(EvalError::Interrupted), _) => Err(Stopped::Interrupted),
        evaluated => Ok(evaluated),
    }
}
