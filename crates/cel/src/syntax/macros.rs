//! Macros: calls that the parser turns into loops, tests and conditionals.
//!
//! New nodes stand where the call's parenthesis stands.

use std::sync::Arc;

use super::parser::Parser;
use crate::ast::{
    ACCUMULATOR, ACCUMULATOR_IN_SOURCE, Call, Comprehension, Expr, Kind, ListLiteral, Literal, MapEntry,
    Select, StructField, StructLiteral, operator,
};

/// The loop variable of loops that never run.
const UNUSED: &str = "#unused";
/// The variable that holds the list that `sortBy` sorts.
const SORT_BY_INPUT: &str = "@__sortBy_input__";

/// A call without a receiver, or the expansion of the macro of that name.
pub(super) fn global_call(
    parser: &mut Parser<'_>,
    offset: usize,
    function: &str,
    mut args: Vec<Expr>,
) -> Expr {
    if function == "has" && args.len() == 1 {
        let argument = args.remove(0);
        return match argument.kind {
            Kind::Select(select) => {
                parser.new_node(offset, Kind::Select(Select { test_only: true, ..select }))
            }
            _ => error(parser, &argument, "invalid argument to has() macro"),
        };
    }
    let call = Call { function: Arc::from(function), target: None, args };
    parser.new_node(offset, Kind::Call(call))
}

/// A call with a receiver, or the expansion of the macro of that name.
pub(super) fn receiver_call(
    parser: &mut Parser<'_>,
    offset: usize,
    function: &str,
    target: Expr,
    args: Vec<Expr>,
) -> Expr {
    let mut expand = Expand { parser, offset };
    match (function, args.len()) {
        ("all", 2) => expand.quantifier(Quantifier::All, target, args),
        ("exists", 2) => expand.quantifier(Quantifier::Exists, target, args),
        ("exists_one", 2) => expand.quantifier(Quantifier::ExistsOne, target, args),
        ("map", 2 | 3) => expand.map(target, args),
        ("filter", 2) => expand.filter(target, args),
        ("all", 3) => expand.quantifier(Quantifier::All, target, args),
        ("exists", 3) => expand.quantifier(Quantifier::Exists, target, args),
        ("exists_one" | "existsOne", 3) => expand.quantifier(Quantifier::ExistsOne, target, args),
        ("transformList", 3 | 4) => expand.transform(Transform::List, target, args),
        ("transformMap", 3 | 4) => expand.transform(Transform::Map, target, args),
        ("transformMapEntry", 3 | 4) => expand.transform(Transform::MapEntry, target, args),
        ("optMap", 2) => expand.optional_map(true, target, args),
        ("optFlatMap", 2) => expand.optional_map(false, target, args),
        ("sortBy", 2) => expand.sort_by(target, args),
        _ => {
            let call = Call { function: Arc::from(function), target: Some(Box::new(target)), args };
            parser.new_node(offset, Kind::Call(call))
        }
    }
}

/// Reports an error at a node, and returns a node that takes its place.
fn error(parser: &mut Parser<'_>, at: &Expr, message: impl Into<String>) -> Expr {
    parser.report_at_node(at, message.into());
    let offset = parser.position(at.id);
    parser.new_node(offset, Kind::Unspecified)
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

#[derive(Clone, Copy)]
enum Transform {
    List,
    Map,
    MapEntry,
}

/// The names of a loop's variables.
struct Variables {
    first: Arc<str>,
    second: Option<Arc<str>>,
}

/// The accumulation of a loop's result.
struct Accumulation {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// The parser that a macro is expanded with, and the position of the new nodes.
struct Expand<'p, 's> {
    parser: &'p mut Parser<'s>,
    offset: usize,
}

impl Expand<'_, '_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.parser.new_node(self.offset, kind)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Kind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(Arc::from(name)))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call(Call { function: Arc::from(function), target: None, args }))
    }

    fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call(Call { function: Arc::from(function), target: Some(Box::new(target)), args }))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        let optional = vec![false; elements.len()];
        self.node(Kind::List(ListLiteral { elements, optional }))
    }

    fn comprehension(&mut self, range: Expr, variables: Variables, accumulation: Accumulation) -> Expr {
        let Accumulation { init, condition, step, result } = accumulation;
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: variables.first,
            variable2: variables.second,
            accumulator: Arc::from(ACCUMULATOR),
            init,
            condition,
            step,
            result,
        })))
    }

    /// Takes the loop's variables from the front of the arguments.
    fn variables(&mut self, args: &[Expr], two: bool, not_a_name: &str) -> Result<Variables, Expr> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(2);
        for argument in args.iter().take(if two { 2 } else { 1 }) {
            match &argument.kind {
                Kind::Ident(name) => names.push(Arc::clone(name)),
                _ => return Err(error(self.parser, argument, not_a_name)),
            }
        }
        if two && names[0] == names[1] {
            return Err(error(self.parser, &args[1], format!("duplicate variable name: {}", names[0])));
        }
        for (name, argument) in names.iter().zip(args) {
            if matches!(&**name, ACCUMULATOR | ACCUMULATOR_IN_SOURCE) {
                let message = "iteration variable overwrites accumulator variable";
                return Err(error(self.parser, argument, message));
            }
        }
        let mut names = names.into_iter();
        let first = names.next().unwrap_or_else(|| Arc::from(UNUSED));
        Ok(Variables { first, second: names.next() })
    }

    fn quantifier(&mut self, quantifier: Quantifier, target: Expr, mut args: Vec<Expr>) -> Expr {
        let variables = match self.variables(&args, args.len() == 3, "argument must be a simple name") {
            Ok(variables) => variables,
            Err(error) => return error,
        };
        let Some(predicate) = args.pop() else { return target };
        let accumulation = match quantifier {
            Quantifier::All => {
                let init = self.literal(Literal::Bool(true));
                let accumulator = self.accumulator();
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![accumulator]);
                let accumulator = self.accumulator();
                let step = self.call(operator::LOGICAL_AND, vec![accumulator, predicate]);
                Accumulation { init, condition, step, result: self.accumulator() }
            }
            Quantifier::Exists => {
                let init = self.literal(Literal::Bool(false));
                let accumulator = self.accumulator();
                let not = self.call(operator::LOGICAL_NOT, vec![accumulator]);
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![not]);
                let accumulator = self.accumulator();
                let step = self.call(operator::LOGICAL_OR, vec![accumulator, predicate]);
                Accumulation { init, condition, step, result: self.accumulator() }
            }
            Quantifier::ExistsOne => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let more = self.call(operator::ADD, vec![accumulator, one]);
                let same = self.accumulator();
                let step = self.call(operator::CONDITIONAL, vec![predicate, more, same]);
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let result = self.call(operator::EQUALS, vec![accumulator, one]);
                Accumulation { init, condition, step, result }
            }
        };
        self.comprehension(target, variables, accumulation)
    }

    /// A loop that changes its accumulator by `step`, for all elements or those that the filter takes.
    fn accumulate(
        &mut self,
        target: Expr,
        variables: Variables,
        init: Expr,
        filter: Option<Expr>,
        mut step: Expr,
    ) -> Expr {
        let condition = self.literal(Literal::Bool(true));
        if let Some(filter) = filter {
            let same = self.accumulator();
            step = self.call(operator::CONDITIONAL, vec![filter, step, same]);
        }
        let result = self.accumulator();
        self.comprehension(target, variables, Accumulation { init, condition, step, result })
    }

    /// `accumulator + [element]`.
    fn append(&mut self, element: Expr) -> Expr {
        let accumulator = self.accumulator();
        let list = self.list(vec![element]);
        self.call(operator::ADD, vec![accumulator, list])
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> Expr {
        let variables = match self.variables(&args, false, "argument is not an identifier") {
            Ok(variables) => variables,
            Err(error) => return error,
        };
        let Some(transform) = args.pop() else { return target };
        let filter = if args.len() == 2 { args.pop() } else { None };
        let init = self.list(Vec::new());
        let step = self.append(transform);
        self.accumulate(target, variables, init, filter, step)
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> Expr {
        let variables = match self.variables(&args, false, "argument is not an identifier") {
            Ok(variables) => variables,
            Err(error) => return error,
        };
        let filter = args.pop();
        let Some(variable) = args.pop() else { return target };
        let init = self.list(Vec::new());
        let step = self.append(variable);
        self.accumulate(target, variables, init, filter, step)
    }

    fn transform(&mut self, transform: Transform, target: Expr, mut args: Vec<Expr>) -> Expr {
        let variables = match self.variables(&args, true, "argument must be a simple name") {
            Ok(variables) => variables,
            Err(error) => return error,
        };
        let Some(value) = args.pop() else { return target };
        let filter = if args.len() == 3 { args.pop() } else { None };
        let (init, step) = match transform {
            Transform::List => (self.list(Vec::new()), self.append(value)),
            Transform::Map => {
                let key = self.ident(&Arc::clone(&variables.first));
                let accumulator = self.accumulator();
                let step = self.call(operator::MAP_INSERT, vec![accumulator, key, value]);
                (self.node(Kind::Map(Vec::new())), step)
            }
            Transform::MapEntry => {
                let accumulator = self.accumulator();
                let step = self.call(operator::MAP_INSERT, vec![accumulator, value]);
                (self.node(Kind::Map(Vec::new())), step)
            }
        };
        self.accumulate(target, variables, init, filter, step)
    }

    /// A variable with a value: a loop that never runs.
    fn bind(&mut self, variable: &Arc<str>, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(variable);
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: Arc::from(UNUSED),
            variable2: None,
            accumulator: Arc::clone(variable),
            init: value,
            condition,
            step,
            result,
        })))
    }

    fn optional_map(&mut self, wrap: bool, target: Expr, mut args: Vec<Expr>) -> Expr {
        let name = if wrap { "optMap" } else { "optFlatMap" };
        let Kind::Ident(variable) = &args[0].kind else {
            let message = format!("{name}() variable name must be a simple identifier");
            return error(self.parser, &args[0], message);
        };
        let variable = Arc::clone(variable);
        let Some(transform) = args.pop() else { return target };
        let again = self.copy(&target);
        let test = self.member_call("hasValue", target, Vec::new());
        let value = self.member_call("value", again, Vec::new());
        let bound = self.bind(&variable, value, transform);
        let some = if wrap { self.call("optional.of", vec![bound]) } else { bound };
        let none = self.call("optional.none", Vec::new());
        self.call(operator::CONDITIONAL, vec![test, some, none])
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expr {
        let sortable = matches!(
            target.kind,
            Kind::List(_) | Kind::Select(_) | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call(_)
        );
        if !sortable {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return error(self.parser, &target, message);
        }
        let input: Arc<str> = Arc::from(SORT_BY_INPUT);
        let range = self.ident(&input);
        let keys = self.map(range, args);
        if matches!(keys.kind, Kind::Unspecified) {
            return keys;
        }
        let list = self.ident(&input);
        let sorted = self.member_call(operator::SORT_BY_KEYS, list, vec![keys]);
        self.bind(&input, target, sorted)
    }

    /// The same tree with nodes of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut all = |exprs: &[Expr]| exprs.iter().map(|expr| self.copy(expr)).collect::<Vec<_>>();
        let kind = match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => expr.kind.clone(),
            Kind::Select(select) => {
                Kind::Select(Select { operand: Box::new(self.copy(&select.operand)), ..select.clone() })
            }
            Kind::Call(call) => {
                let args = all(&call.args);
                let target = call.target.as_ref().map(|target| Box::new(self.copy(target)));
                Kind::Call(Call { function: Arc::clone(&call.function), target, args })
            }
            Kind::List(list) => {
                Kind::List(ListLiteral { elements: all(&list.elements), optional: list.optional.clone() })
            }
            Kind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|entry| MapEntry {
                        key: self.copy(&entry.key),
                        value: self.copy(&entry.value),
                        optional: entry.optional,
                    })
                    .collect(),
            ),
            Kind::Struct(message) => Kind::Struct(StructLiteral {
                name: Arc::clone(&message.name),
                fields: message
                    .fields
                    .iter()
                    .map(|field| {
                        let offset = self.parser.position(field.id);
                        StructField {
                            id: self.parser.new_id(offset),
                            name: Arc::clone(&field.name),
                            value: self.copy(&field.value),
                            optional: field.optional,
                        }
                    })
                    .collect(),
            }),
            Kind::Comprehension(of) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&of.range),
                variable: Arc::clone(&of.variable),
                variable2: of.variable2.clone(),
                accumulator: Arc::clone(&of.accumulator),
                init: self.copy(&of.init),
                condition: self.copy(&of.condition),
                step: self.copy(&of.step),
                result: self.copy(&of.result),
            })),
        };
        let offset = self.parser.position(expr.id);
        self.parser.new_node(offset, kind)
    }
}
