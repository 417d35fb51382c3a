//! Validation rules of schemas (`x-kubernetes-validations`): the parts that belong to the language.
//!
//! A [`Place`] is a place in a schema at which rules stand. It compiles them; [`cost`] says whether they
//! cost too much. Not here: which rules apply to a request, and how and at which fields their errors are reported.

pub mod cost;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::cost::CostEstimate;
use crate::env::{Checked, Env, Issues};
use crate::eval::{Activation, EvalError, Program};
use crate::schema::Declared;
use crate::types::Type;
use crate::value::Value;

/// The cost limit of a single evaluation of a rule or message expression.
pub const CALL_COST_MAX: u64 = 1_000_000;
/// The longest message that a message expression can give, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 5120;

/// The name of the variable that holds the old value.
const OLD_SELF: &str = "oldSelf";

/// A place in a schema at which rules stand.
#[derive(Debug)]
pub struct Place {
    declared: Arc<Declared>,
    env: OnceLock<Env>,
    env_with_optional: OnceLock<Env>,
}

impl Place {
    /// The place with this schema.
    pub fn new(declared: Arc<Declared>) -> Self {
        Self { declared, env: OnceLock::new(), env_with_optional: OnceLock::new() }
    }

    /// The declarations of the schema.
    pub fn declared(&self) -> &Arc<Declared> {
        &self.declared
    }

    fn env(&self, optional_old_self: bool) -> &Env {
        let env = if optional_old_self { &self.env_with_optional } else { &self.env };
        env.get_or_init(|| environment(&self.declared, optional_old_self))
    }

    /// Compiles a rule. `optional_old_self`: whether the rule runs also without an old value.
    ///
    /// # Errors
    ///
    /// It does not compile, or is no condition.
    pub fn rule(&self, rule: &str, optional_old_self: bool) -> Result<Compiled, RuleError> {
        self.compile(rule, optional_old_self, Purpose::Rule)
    }

    /// Compiles a message expression.
    ///
    /// # Errors
    ///
    /// It does not compile, or gives no text.
    pub fn message_expression(
        &self,
        expression: &str,
        optional_old_self: bool,
    ) -> Result<Compiled, RuleError> {
        self.compile(expression, optional_old_self, Purpose::Message)
    }

    fn compile(&self, text: &str, optional_old_self: bool, purpose: Purpose) -> Result<Compiled, RuleError> {
        let refuse = |fault| RuleError { purpose, fault };
        let checked =
            self.env(optional_old_self).check(text).map_err(|issues| refuse(Fault::Issues(issues)))?;
        let expected = match purpose {
            Purpose::Rule => Type::Bool,
            Purpose::Message => Type::String,
        };
        if *checked.result_type() != expected {
            return Err(refuse(Fault::ResultType));
        }
        let program = checked.program().map_err(|error| refuse(Fault::Instantiation(error)))?;
        Ok(Compiled::new(&checked, program))
    }

    /// The values of `self` and `oldSelf`. With `optional_old_self`, `oldSelf` is an optional value, none
    /// without an old one.
    ///
    /// # Errors
    ///
    /// A value is not of the declared type.
    pub fn activation<'a>(
        &'a self,
        new: &'a Json,
        old: Option<&'a Json>,
        optional_old_self: bool,
    ) -> Result<Activation<'a>, EvalError> {
        activation(&self.declared, new, old, optional_old_self)
    }
}

/// A compiled rule or message expression.
#[derive(Debug)]
pub struct Compiled {
    program: Program,
    uses_old_self: bool,
    estimate: CostEstimate,
}

impl Compiled {
    fn new(checked: &Checked, program: Program) -> Self {
        Self { program, uses_old_self: checked.mentions(OLD_SELF), estimate: checked.estimate() }
    }

    /// Whether it mentions `oldSelf`, if only as the variable of a loop: a rule that does runs on transitions only.
    pub fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// The least and the largest cost of one evaluation.
    pub fn estimate(&self) -> CostEstimate {
        self.estimate
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// The purpose of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Rule,
    Message,
}

/// The reason why a rule or message expression is refused. Displays as the detail of the field's error.
#[derive(Clone, Debug)]
pub struct RuleError {
    purpose: Purpose,
    fault: Fault,
}

#[derive(Clone, Debug)]
enum Fault {
    Issues(Issues),
    ResultType,
    Instantiation(String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.purpose, &self.fault) {
            (Purpose::Rule, Fault::Issues(issues)) => write!(f, "compilation failed: {issues}"),
            (Purpose::Rule, Fault::ResultType) => f.write_str("cel expression must evaluate to a bool"),
            (Purpose::Rule, Fault::Instantiation(error)) => {
                write!(f, "program instantiation failed: {error}")
            }
            (Purpose::Message, Fault::Issues(issues)) => {
                write!(f, "messageExpression compilation failed: {issues}")
            }
            (Purpose::Message, Fault::ResultType) => {
                f.write_str("messageExpression must evaluate to a string")
            }
            (Purpose::Message, Fault::Instantiation(error)) => {
                write!(f, "messageExpression instantiation failed: {error}")
            }
        }
    }
}

impl std::error::Error for RuleError {}

/// The detail of the error of a rule that had no value. `shown`: the rule's message, or the rule.
pub fn evaluation_error(error: &EvalError, shown: &str) -> String {
    match error {
        EvalError::CostExceeded => format!(
            "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
        ),
        EvalError::Failed(text) if text.starts_with("no such overload") => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature \
             for rule: {shown}"
        ),
        _ => format!("{error} evaluating rule: {shown}"),
    }
}

/// The message that a message expression gave. `None`: it is not fit to be one.
pub fn message(value: &Value<'_>) -> Option<String> {
    let Value::String(text) = value else { return None };
    let text = text.trim();
    let is_fit = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
    is_fit.then(|| text.to_owned())
}

/// The environment of the rules at a place in a schema: `self`, and `oldSelf`, as an optional value if
/// the rule says `optionalOldSelf: true`.
pub fn environment(declared: &Arc<Declared>, optional_old_self: bool) -> Env {
    let self_type = declared.cel_type("selfType");
    let old_self_type = if optional_old_self { Type::optional(self_type.clone()) } else { self_type.clone() };
    Env::kubernetes()
        .with_variable("self", self_type)
        .with_variable(OLD_SELF, old_self_type)
        .with_sizes(Arc::clone(declared))
}

/// The values of `self` and `oldSelf`. With `optional_old_self`, `oldSelf` is an optional value, none
/// without an old one.
///
/// # Errors
///
/// A value is not of the declared type.
pub fn activation<'a>(
    declared: &'a Declared,
    new: &'a Json,
    old: Option<&'a Json>,
    optional_old_self: bool,
) -> Result<Activation<'a>, EvalError> {
    let new = Value::from_declared(new, declared)?;
    let old = old.map(|old| Value::from_declared(old, declared)).transpose()?;
    let old = if optional_old_self { Some(Value::Optional(old.map(Arc::new))) } else { old };
    Ok(Activation::new(vec![Some(new), old]))
}
