//! Types of expressions: every node gets one, or the expression is refused.

mod inference;
mod validators;

use std::sync::Arc;

use crate::ast::{
    Call, Comprehension, Expr, Id, Kind, ListLiteral, Literal, MapEntry, StructLiteral, operator,
};
use crate::declarations::{Function, Overload, function, type_by_name};
use crate::env::Env;
use crate::library::messages::{Message, NULL_VALUE};
use crate::syntax::Parsed;
use crate::syntax::source::Errors;
use crate::types::Type;
use inference::Inference;

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    /// The type of each node, by the node's number.
    pub(crate) types: Vec<Type>,
    /// The references of names and calls, by the node's number.
    pub(crate) references: Vec<Option<Reference>>,
    /// The names of the loop variables and accumulators, by their numbers.
    pub(crate) locals: Vec<Arc<str>>,
}

impl Typed {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        &self.types[expr.id as usize]
    }

    pub(crate) fn reference(&self, expr: &Expr) -> Option<&Reference> {
        self.references[expr.id as usize].as_ref()
    }
}

/// The reference of a name or a call.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A loop variable or an accumulator, by its number. No two have the same.
    Local(usize),
    /// The numbers of a loop's variables.
    Loop { accumulator: usize, variable: usize, variable2: Option<usize> },
    /// A variable of the environment, by its position.
    Variable(usize),
    /// A type by its name.
    Type(Type),
    /// A constant of an enumeration.
    Constant(i64),
    /// A function, and those of its overloads that fit the types of the arguments.
    Function(&'static Function, Vec<&'static Overload>),
}

/// Checks an expression against an environment.
pub(crate) fn check(parsed: Parsed, env: &Env) -> Result<Typed, Errors> {
    let Parsed { mut expr, positions, errors } = parsed;
    let mut checker = Checker {
        env,
        inference: Inference::default(),
        types: vec![Type::Error; positions.len()],
        references: vec![None; positions.len()],
        scope: Vec::new(),
        locals: Vec::new(),
        positions,
        errors,
    };
    checker.check(&mut expr);
    let Checker { inference, types, references, locals, positions, mut errors, .. } = checker;
    let types = types.iter().map(|found| inference.substitute(found, true)).collect();
    let typed = Typed { expr, types, references, locals };
    if errors.is_empty() {
        validators::validate(&typed, &positions, &mut errors);
    }
    if errors.is_empty() {
        return Ok(typed);
    }
    errors.sort();
    Err(errors)
}

/// A loop variable or an accumulator.
struct Local {
    name: Arc<str>,
    local_type: Type,
    number: usize,
}

struct Checker<'e> {
    env: &'e Env,
    inference: Inference,
    types: Vec<Type>,
    references: Vec<Option<Reference>>,
    /// Loop variables and accumulators in scope, the innermost last.
    scope: Vec<Local>,
    /// The names of all loop variables and accumulators.
    locals: Vec<Arc<str>>,
    positions: Vec<u32>,
    errors: Errors,
}

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.errors.report_at(self.positions[id as usize] as usize, message);
    }

    fn set(&mut self, id: Id, found: Type) {
        self.types[id as usize] = found;
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.kind {
            Kind::Unspecified => {}
            Kind::Literal(literal) => {
                let found = type_of_literal(literal);
                self.set(id, found);
            }
            Kind::Ident(name) => {
                let name = Arc::clone(name);
                self.ident(id, &name);
            }
            Kind::Select(_) => self.select(expr),
            Kind::Call(call) => self.call(id, call),
            Kind::List(list) => self.list(id, list),
            Kind::Map(entries) => self.map(id, entries),
            Kind::Struct(message) => self.message(id, message),
            Kind::Comprehension(comprehension) => self.comprehension(id, comprehension),
        }
    }

    /// The reference of a name, and its type.
    fn lookup(&self, name: &str) -> Option<(Reference, Type)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(local) = self.scope.iter().rfind(|local| &*local.name == name) {
            return Some((Reference::Local(local.number), local.local_type.clone()));
        }
        if let Some((position, variable)) = self.env.variable(name) {
            return Some((Reference::Variable(position), variable.variable_type.clone()));
        }
        if name == NULL_VALUE {
            return Some((Reference::Constant(0), Type::Int));
        }
        let named = type_by_name(name)?;
        Some((Reference::Type(named.clone()), Type::type_of(named)))
    }

    fn refer(&mut self, id: Id, (reference, found): (Reference, Type)) {
        self.references[id as usize] = Some(reference);
        self.set(id, found);
    }

    fn ident(&mut self, id: Id, name: &str) {
        match self.lookup(name) {
            Some(found) => self.refer(id, found),
            None => self.undeclared(id, name),
        }
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.set(id, Type::Error);
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        if let Some(name) = expr.qualified_name()
            && let Some(found) = self.lookup(&name)
        {
            self.refer(id, found);
            expr.kind = Kind::Ident(name.into());
            return;
        }
        let Kind::Select(select) = &mut expr.kind else { return };
        self.check(&mut select.operand);
        let found = self.field(id, &select.operand, &select.field, false);
        let found = if select.test_only { Type::Bool } else { self.inference.substitute(&found, false) };
        self.set(id, found);
    }

    /// The type of a field of a checked operand.
    fn field(&mut self, id: Id, operand: &Expr, field: &str, optional: bool) -> Type {
        let operand = self.inference.substitute(&self.type_of(operand), false);
        let (of, was_optional) = match &operand {
            Type::Optional(inner) => ((**inner).clone(), true),
            _ => (operand, false),
        };
        let found = match &of {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.declared.named_field(field) {
                Some((name, found)) => found.declared.cel_type(&format!("{}.{name}", object.name)),
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Variable(_) => {
                self.inference.assignable(&Type::Dyn, &of);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                self.report(id, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            _ => {
                self.report(id, format!("type '{of}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, id: Id, call: &mut Call) {
        if &*call.function == operator::OPTIONAL_SELECT {
            return self.optional_select(id, call);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        let Some(target) = &mut call.target else {
            return match function(&call.function) {
                Some(function) => self.resolve(id, function, None, &call.args),
                None => {
                    let name = Arc::clone(&call.function);
                    self.undeclared(id, &name);
                }
            };
        };
        if let Some(prefix) = target.qualified_name() {
            let name = format!("{prefix}.{}", call.function);
            if let Some(function) = function(&name) {
                call.target = None;
                call.function = name.into();
                return self.resolve(id, function, None, &call.args);
            }
        }
        self.check(target);
        match function(&call.function) {
            Some(function) => self.resolve(id, function, Some(target), &call.args),
            None => {
                let name = Arc::clone(&call.function);
                self.undeclared(id, &name);
            }
        }
    }

    fn optional_select(&mut self, id: Id, call: &mut Call) {
        let [operand, field] = &mut call.args[..] else { return };
        let Kind::Literal(Literal::String(field)) = &field.kind else { return };
        let field = Arc::clone(field);
        self.check(operand);
        let found = self.field(id, operand, &field, true);
        let found = self.inference.substitute(&found, false);
        self.set(id, found);
        if let Some(function) = function(operator::OPTIONAL_SELECT) {
            let overloads = function.overloads.iter().collect();
            self.references[id as usize] = Some(Reference::Function(function, overloads));
        }
    }

    /// Finds the overloads that take the arguments.
    fn resolve(&mut self, id: Id, function: &'static Function, target: Option<&Expr>, args: &[Expr]) {
        let arg_types: Vec<Type> = target.into_iter().chain(args).map(|arg| self.type_of(arg)).collect();
        if matches!(function.name, operator::LOGICAL_AND | operator::LOGICAL_OR) {
            return self.resolve_logical(id, function, args, &arg_types);
        }
        let mut result: Option<Type> = None;
        let mut overloads = Vec::new();
        for overload in &function.overloads {
            if overload.member != target.is_some() || overload.args.len() != arg_types.len() {
                continue;
            }
            let mut parameters = Vec::new();
            let candidate: Vec<Type> =
                overload.args.iter().map(|arg| self.inference.instantiate(arg, &mut parameters)).collect();
            let overload_result = self.inference.instantiate(&overload.result, &mut parameters);
            if !self.inference.all_assignable(&arg_types, &candidate) {
                continue;
            }
            overloads.push(overload);
            let found = self.inference.substitute(&overload_result, false);
            result = Some(match result {
                None => found,
                Some(Type::Dyn) => Type::Dyn,
                Some(first) if first == found => first,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(result) => {
                self.set(id, result);
                self.references[id as usize] = Some(Reference::Function(function, overloads));
            }
            None => self.no_overload(id, function, &arg_types, target.is_some()),
        }
    }

    fn resolve_logical(&mut self, id: Id, function: &'static Function, args: &[Expr], arg_types: &[Type]) {
        let mut good = true;
        for (arg, found) in args.iter().zip(arg_types) {
            if !self.inference.assignable(found, &Type::Bool) {
                self.report(arg.id, format!("expected type 'bool' but found '{found}'"));
                good = false;
            }
        }
        if good {
            self.set(id, Type::Bool);
            let overloads = function.overloads.iter().collect();
            self.references[id as usize] = Some(Reference::Function(function, overloads));
        }
    }

    fn no_overload(&mut self, id: Id, function: &Function, arg_types: &[Type], member: bool) {
        let types: Vec<String> =
            arg_types.iter().map(|found| self.inference.substitute(found, true).to_string()).collect();
        let (receiver, types) =
            if member { (format!("{}.", types[0]), &types[1..]) } else { (String::new(), &types[..]) };
        let message = format!(
            "found no matching overload for '{}' applied to '{receiver}({})'",
            function.name,
            types.join(", ")
        );
        self.report(id, message);
    }

    /// The type that two elements of a literal have in common.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.inference.assignable(&previous, &current) => {
                inference::most_general(previous, current)
            }
            Some(_) => Type::Dyn,
        }
    }

    /// The type of an element that is written `?element`.
    fn unwrap_optional(&mut self, expr: &Expr, found: Type) -> Type {
        match found {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.report(expr.id, message);
                other
            }
        }
    }

    fn list(&mut self, id: Id, list: &mut ListLiteral) {
        let mut elements = None;
        for (element, optional) in list.elements.iter_mut().zip(&list.optional) {
            self.check(element);
            let mut found = self.type_of(element);
            if *optional {
                found = self.unwrap_optional(element, found);
            }
            elements = Some(self.join(elements, found));
        }
        let elements = elements.unwrap_or_else(|| self.inference.new_variable());
        self.set(id, Type::list(elements));
    }

    fn map(&mut self, id: Id, entries: &mut [MapEntry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.type_of(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let mut value = self.type_of(&entry.value);
            if entry.optional {
                value = self.unwrap_optional(&entry.value, value);
            }
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.inference.new_variable());
        let values = values.unwrap_or_else(|| self.inference.new_variable());
        self.set(id, Type::map(keys, values));
    }

    fn message(&mut self, id: Id, message: &mut StructLiteral) {
        let Some((reference, found)) = self.lookup(&message.name) else {
            let name = Arc::clone(&message.name);
            return self.undeclared(id, &name);
        };
        let result = match found {
            Type::Type(of) if Message::by_name(&message.name).is_some() => (*of).clone(),
            Type::Type(of) => {
                self.report(id, format!("'{of}' is not a message type"));
                Type::Error
            }
            other => {
                self.report(id, format!("'{other}' is not a type"));
                Type::Error
            }
        };
        self.references[id as usize] = Some(reference);
        let made = Message::by_name(&message.name).filter(|_| result != Type::Error);
        self.set(id, result);
        for field in &mut message.fields {
            self.check(&mut field.value);
            let mut value = self.type_of(&field.value);
            let expected = match made.and_then(|made| made.field(&field.name)) {
                Some(expected) => expected,
                None => {
                    if made.is_some() {
                        self.report(field.id, format!("undefined field '{}'", field.name));
                    }
                    Type::Error
                }
            };
            if field.optional {
                value = self.unwrap_optional(&field.value, value);
            }
            if !self.inference.assignable(&expected, &value) {
                let name = &field.name;
                let message =
                    format!("expected type of field '{name}' is '{expected}' but provided type is '{value}'");
                self.report(field.id, message);
            }
        }
    }

    fn comprehension(&mut self, id: Id, of: &mut Comprehension) {
        self.check(&mut of.range);
        self.check(&mut of.init);
        let range = self.inference.substitute(&self.type_of(&of.range), false);
        let accumulator = self.type_of(&of.init);
        let two = of.variable2.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.inference.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(of.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let accumulator_number = self.declare(&of.accumulator, accumulator.clone());
        let in_scope = self.scope.len();
        let variable = self.declare(&of.variable, first);
        let variable2 = of.variable2.as_ref().map(|variable2| self.declare(variable2, second));
        self.references[id as usize] =
            Some(Reference::Loop { accumulator: accumulator_number, variable, variable2 });
        self.check(&mut of.condition);
        self.assert_type(&of.condition, &Type::Bool);
        self.check(&mut of.step);
        self.assert_type(&of.step, &accumulator);
        self.scope.truncate(in_scope);
        self.check(&mut of.result);
        self.scope.pop();
        let result = self.inference.substitute(&self.type_of(&of.result), false);
        self.set(id, result);
    }

    /// Puts a loop variable or an accumulator in scope.
    fn declare(&mut self, name: &Arc<str>, local_type: Type) -> usize {
        let number = self.locals.len();
        self.locals.push(Arc::clone(name));
        self.scope.push(Local { name: Arc::clone(name), local_type, number });
        number
    }

    fn assert_type(&mut self, expr: &Expr, expected: &Type) {
        let found = self.type_of(expr);
        if !self.inference.assignable(expected, &found) {
            self.report(expr.id, format!("expected type '{expected}' but found '{found}'"));
        }
    }
}

fn type_of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
