//! Environments: which variables and functions an expression may use.

use std::fmt;
use std::sync::Arc;

use crate::checker::{Reference, Typed, check};
use crate::cost::{CostEstimate, estimate};
use crate::eval::{Program, plan};
use crate::schema::Declared;
use crate::stack::with_room;
use crate::syntax::parse;
use crate::syntax::source::Errors;
use crate::types::Type;

/// The variables and functions that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<Variable>,
    sizes: Option<Arc<Declared>>,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name, which may have dots in it.
    pub name: Box<str>,
    /// Its type.
    pub variable_type: Type,
}

impl Env {
    /// The functions and macros of Kubernetes v1.36, without variables.
    pub fn kubernetes() -> Self {
        Self::default()
    }

    /// One variable more. Activations give their values in the order of declaration.
    #[must_use]
    pub fn with_variable(mut self, name: &str, variable_type: Type) -> Self {
        self.variables.push(Variable { name: Box::from(name), variable_type });
        self
    }

    /// Cost estimates take the sizes of variables from this schema: all of them are as large as it says.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Arc<Declared>) -> Self {
        self.sizes = Some(sizes);
        self
    }

    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Variable)> {
        self.variables.iter().enumerate().find(|(_, variable)| *variable.name == *name)
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    ///
    /// The errors of the parser or the checker.
    pub fn check(&self, expression: &str) -> Result<Checked, Issues> {
        let typed = with_room(|| check(parse(expression)?, self)).map_err(Issues)?;
        let variables = self.variables.iter().map(|variable| variable.name.clone()).collect();
        Ok(Checked { typed, variables, sizes: self.sizes.clone() })
    }

    /// Parses, checks and plans an expression.
    ///
    /// # Errors
    ///
    /// The errors of the parser or the checker, or the error of a constant part that has no value.
    pub fn compile(&self, expression: &str) -> Result<(Checked, Program), CompileError> {
        let checked = self.check(expression).map_err(CompileError::Issues)?;
        let program = checked.program().map_err(CompileError::Instantiation)?;
        Ok((checked, program))
    }
}

/// An expression with its types.
#[derive(Debug)]
pub struct Checked {
    typed: Typed,
    variables: Box<[Box<str>]>,
    sizes: Option<Arc<Declared>>,
}

impl Checked {
    /// The type of its value.
    pub fn result_type(&self) -> &Type {
        self.typed.type_of(&self.typed.expr)
    }

    /// Whether it mentions a variable of that name. The variable of a loop counts too, if the loop mentions it: Kubernetes
    /// looks at names only.
    pub fn mentions(&self, name: &str) -> bool {
        self.typed.references.iter().flatten().any(|reference| match reference {
            Reference::Variable(at) => *self.variables[*at] == *name,
            Reference::Local(number) => *self.typed.locals[*number] == *name,
            _ => false,
        })
    }

    /// The least and the largest cost of an evaluation.
    pub fn estimate(&self) -> CostEstimate {
        with_room(|| estimate(&self.typed, self.sizes.as_deref()))
    }

    /// A program that evaluates it.
    ///
    /// # Errors
    ///
    /// A constant part of it has no value.
    pub fn program(&self) -> Result<Program, String> {
        with_room(|| plan(&self.typed, &self.variables))
    }
}

/// The errors of an expression, as the compiler prints them.
#[derive(Clone, Debug)]
pub struct Issues(Errors);

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Issues {}

/// The reason why there is no program.
#[derive(Clone, Debug)]
pub enum CompileError {
    /// It does not parse or does not check.
    Issues(Issues),
    /// A constant part of it has no value.
    Instantiation(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issues(issues) => write!(f, "compilation failed: {issues}"),
            Self::Instantiation(text) => write!(f, "program instantiation failed: {text}"),
        }
    }
}

impl std::error::Error for CompileError {}
