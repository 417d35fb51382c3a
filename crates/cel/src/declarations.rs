//! Functions: their names, signatures, costs and operations.
//!
//! One table drives the checker, the cost estimator, the cost tracker and the evaluator. It is written
//! in the notation in which error messages print types: `string.(int) -> string` is a member of strings
//! that takes an integer. Single upper-case letters are type parameters.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::cost::rule::CostRule;
use crate::library::{self, messages::Message};
use crate::types::Type;
use crate::value::Value;

/// The reason why a function has no value.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It takes no arguments of these types.
    NoSuchOverload,
    /// It is an operator, and its first operand has no such operator.
    NoOperator,
    /// The text of the error.
    Error(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Error(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Error(text.to_owned())
    }
}

/// The result of a function.
pub(crate) type Outcome<'a> = Result<Value<'a>, Failure>;

/// The operation of a function. The receiver, if there is one, is the first argument.
pub(crate) type Operation = for<'a> fn(&[Value<'a>]) -> Outcome<'a>;

/// A function as the tables of `library` write it.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    /// The cost of a call that several overloads fit.
    pub(crate) ambiguous_cost: CostRule,
    /// The overloads in the order in which the checker tries them.
    pub(crate) overloads: &'static [(&'static str, CostRule)],
    /// The form of the error of a call without a matching overload.
    pub(crate) mismatch: Mismatch,
}

/// The form of the error of a call without a matching overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// `no such overload`
    Plain,
    /// `no such overload: string(null_type)`
    Signature,
}

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    /// The cost of a call that several overloads fit.
    pub(crate) ambiguous_cost: CostRule,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) mismatch: Mismatch,
}

/// One of the ways to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Whether it is called on a receiver.
    pub(crate) member: bool,
    /// The types it takes, the receiver first.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) cost: CostRule,
}

/// The function of a name.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    static FUNCTIONS: OnceLock<HashMap<&'static str, Function>> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(|| {
        let definitions = library::definitions();
        definitions.map(|definition| (definition.name, Function::new(definition))).collect()
    });
    functions.get(name.strip_prefix('.').unwrap_or(name))
}

/// The type that a name stands for, if it is one.
pub(crate) fn type_by_name(name: &str) -> Option<Type> {
    Some(match name.strip_prefix('.').unwrap_or(name) {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "list" => Type::list(Type::Param("A")),
        "map" => Type::map(Type::Param("A"), Type::Param("B")),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Opaque("type"),
        "uint" => Type::Uint,
        "optional_type" => Type::Opaque("optional_type"),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        name => return Some(Message::by_name(name)?.cel_type()),
    })
}

impl Function {
    fn new(definition: &Definition) -> Self {
        let overloads = definition.overloads.iter().map(|(signature, cost)| Overload::new(signature, *cost));
        Self {
            name: definition.name,
            operation: definition.operation,
            ambiguous_cost: definition.ambiguous_cost,
            overloads: overloads.collect(),
            mismatch: definition.mismatch,
        }
    }
}

impl Overload {
    fn new(signature: &'static str, cost: CostRule) -> Self {
        let mut reader = Signature { rest: signature };
        let mut args = Vec::new();
        let member = !reader.take("(");
        if member {
            args.push(reader.read());
            reader.take(".(");
        }
        while !reader.take(")") {
            args.push(reader.read());
            reader.take(", ");
        }
        reader.take(" -> ");
        Self { member, args, result: reader.read(), cost }
    }
}

/// Reads the types of a signature. Signatures are ours; a wrong one is found by the first test that runs.
struct Signature {
    rest: &'static str,
}

impl Signature {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn read(&mut self) -> Type {
        let is_end = |char: char| matches!(char, '(' | ')' | ',' | ' ');
        let mut end = self.rest.find(is_end).unwrap_or(self.rest.len());
        // The dot behind a receiver.
        if self.rest[..end].ends_with('.') {
            end -= 1;
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name {
            "list" => Type::list(self.parameter()),
            "optional_type" => Type::optional(self.parameter()),
            "type" => Type::type_of(self.parameter()),
            "map" => {
                self.take("(");
                let key = self.read();
                self.take(", ");
                let value = self.read();
                self.take(")");
                Type::map(key, value)
            }
            "dyn" => Type::Dyn,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            parameter if parameter.len() == 1 => Type::Param(parameter),
            opaque => Type::Opaque(opaque),
        }
    }

    fn parameter(&mut self) -> Type {
        self.take("(");
        let parameter = self.read();
        self.take(")");
        parameter
    }
}
