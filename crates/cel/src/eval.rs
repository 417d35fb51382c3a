//! Evaluation of checked expressions.
//!
//! `plan` turns a checked expression into a tree of nodes in which names are numbers, constants are
//! values and patterns are compiled. `run` evaluates that tree and counts the cost.

mod attribute;
mod plan;
mod run;

use std::borrow::Cow;
use std::fmt;

use crate::declarations::Failure;
use crate::limits;
use crate::stack::with_room_for;
use crate::value::Value;
use plan::Node;
pub(crate) use plan::plan;

/// The reason why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// An operation failed. `&&`, `||`, `all` and `exists` absorb it when another operand decides.
    Failed(Box<str>),
    /// An operation failed in a way that ends the evaluation.
    Internal(Cow<'static, str>),
    /// The evaluation cost more than it may.
    CostExceeded,
    /// The caller stopped the evaluation.
    Interrupted,
}

impl EvalError {
    /// Whether the evaluation ends here, regardless of other operands.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::Failed("no such overload".into())
    }
}

impl From<Failure> for EvalError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoSuchOverload | Failure::NoOperator => Self::no_such_overload(),
            Failure::Error(text) => Self::Failed(text.into()),
        }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) => f.write_str(text),
            Self::Internal(text) => write!(f, "internal error: {text}"),
            Self::CostExceeded => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Interrupted => f.write_str("operation interrupted"),
        }
    }
}

impl std::error::Error for EvalError {}

/// The variables' values of one evaluation, in the order in which the environment declares them.
#[derive(Default)]
pub struct Activation<'a> {
    values: Vec<Option<Value<'a>>>,
    interrupted: Option<&'a (dyn Fn() -> bool + 'a)>,
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activation").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<'a> Activation<'a> {
    /// Values of the variables in the order of their declaration; `None`: the variable has no value.
    pub fn new(values: Vec<Option<Value<'a>>>) -> Self {
        Self { values, interrupted: None }
    }

    /// Loops call `interrupted` now and then, and stop when it returns true.
    #[must_use]
    pub fn interrupted_by(mut self, interrupted: &'a (dyn Fn() -> bool + 'a)) -> Self {
        self.interrupted = Some(interrupted);
        self
    }
}

/// An expression that is ready to be evaluated. Shared by threads.
#[derive(Debug)]
pub struct Program {
    root: Node,
    /// The initial values of accumulators, by the number of the local variable.
    initial: Box<[Option<Node>]>,
    /// Names of the variables, for messages.
    variables: Box<[Box<str>]>,
    /// The nesting depth of its expression.
    depth: usize,
}

impl Program {
    /// The value or the error, and the cost of the evaluation. `cost_max`: the largest cost allowed.
    pub fn eval<'a>(
        &'a self,
        activation: &Activation<'a>,
        cost_max: u64,
    ) -> (Result<Value<'a>, EvalError>, u64) {
        limits::begin_evaluation();
        with_room_for(self.depth, || run::run(self, activation, cost_max))
    }
}
