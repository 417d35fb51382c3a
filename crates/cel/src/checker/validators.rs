//! Checks of constants in a checked expression: arguments that can never be right, and literals of
//! elements with different types.

use crate::ast::{Call, Expr, Kind, Literal};
use crate::checker::Typed;
use crate::library::leaf::{self, format::Clause};
use crate::library::{check_format, takes};
use crate::syntax::source::Errors;
use crate::types::Type;

/// Reports the errors in the constants of an expression.
pub(super) fn validate(typed: &Typed, positions: &[u32], errors: &mut Errors) {
    let mut validator = Validator { typed, positions, errors, formats: Vec::new() };
    validator.visit(&typed.expr, false);
    // At the same position, errors of formats come last.
    for (position, message) in std::mem::take(&mut validator.formats) {
        validator.errors.report_at(position, message);
    }
}

struct Validator<'v> {
    typed: &'v Typed,
    positions: &'v [u32],
    errors: &'v mut Errors,
    /// The errors of formats, with their positions.
    formats: Vec<(usize, String)>,
}

impl Validator<'_> {
    fn report(&mut self, at: &Expr, message: String) {
        self.errors.report_at(self.positions[at.id as usize] as usize, message);
    }

    /// `in_format`: literals are arguments of `format`, which takes elements of any types.
    fn visit(&mut self, expr: &Expr, in_format: bool) {
        match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select(select) => self.visit(&select.operand, in_format),
            Kind::Call(call) => {
                let in_format = in_format || &*call.function == "format";
                if let Some(target) = &call.target {
                    self.visit(target, in_format);
                }
                for arg in &call.args {
                    self.visit(arg, in_format);
                }
                self.call(expr, call);
            }
            Kind::List(list) => {
                for element in &list.elements {
                    self.visit(element, in_format);
                }
                if !in_format {
                    let elements = list.elements.iter().zip(list.optional.iter().copied());
                    self.same_types(elements, true);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    self.visit(&entry.key, in_format);
                    self.visit(&entry.value, in_format);
                }
                if !in_format {
                    self.same_types(entries.iter().map(|entry| (&entry.key, false)), false);
                    self.same_types(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
                }
            }
            Kind::Struct(message) => {
                for field in &message.fields {
                    self.visit(&field.value, in_format);
                }
            }
            Kind::Comprehension(of) => {
                for part in [&of.range, &of.init, &of.condition, &of.step, &of.result] {
                    self.visit(part, in_format);
                }
            }
        }
    }

    /// `once`: only the first difference is reported.
    fn same_types<'e>(&mut self, exprs: impl Iterator<Item = (&'e Expr, bool)>, once: bool) {
        let mut first: Option<Type> = None;
        for (expr, optional) in exprs {
            let found = match self.typed.type_of(expr) {
                Type::Optional(inner) if optional => (**inner).clone(),
                found => found.clone(),
            };
            match &first {
                None => first = Some(found),
                Some(first) if first.is_exactly(&found) => {}
                Some(first) => {
                    self.report(expr, format!("expected type '{first}' but found '{found}'"));
                    if once {
                        return;
                    }
                }
            }
        }
    }

    fn call(&mut self, expr: &Expr, call: &Call) {
        let argument = call.args.first();
        let literal = match argument.map(|argument| &argument.kind) {
            Some(Kind::Literal(literal)) => literal,
            _ => {
                if &*call.function == "format" {
                    self.format(expr, call);
                }
                return;
            }
        };
        let good = match (&*call.function, literal) {
            ("duration", Literal::String(text)) => leaf::duration::parse(text).is_some(),
            ("duration", _) => false,
            ("timestamp", Literal::String(text)) => matches!(leaf::timestamp::parse(text), Some(Ok(_))),
            ("timestamp", Literal::Int(seconds)) => leaf::timestamp::from_unix(*seconds).is_ok(),
            ("timestamp", _) => false,
            ("matches", Literal::String(pattern)) => leaf::regex::Pattern::new(pattern).is_ok(),
            _ => true,
        };
        if let Some(argument) = argument.filter(|_| !good) {
            self.report(argument, format!("invalid {} argument", call.function));
        }
    }

    fn report_format(&mut self, at: &Expr, message: String) {
        self.formats.push((self.positions[at.id as usize] as usize, message));
    }

    fn format(&mut self, expr: &Expr, call: &Call) {
        let (Some(target), [arguments]) = (&call.target, &call.args[..]) else { return };
        let (Kind::Literal(Literal::String(text)), Kind::List(list)) = (&target.kind, &arguments.kind) else {
            return;
        };
        let mut at = None;
        let checked = check_format(text, list.elements.len(), |index, clause| {
            at = self.refused(&list.elements[index], clause);
            at.map(|at| self.typed.type_of(at))
        });
        let given = list.elements.len();
        match checked {
            Err(message) => self.report_format(at.unwrap_or(expr), message),
            Ok(used) if used < given => {
                let message =
                    format!("too many arguments supplied to string.format (expected {used}, got {given})");
                self.report_format(expr, message);
            }
            Ok(_) => {}
        }
    }

    /// The expression that a clause does not accept: the argument, or a part of the literal that it is.
    fn refused<'e>(&self, argument: &'e Expr, clause: Clause) -> Option<&'e Expr> {
        if !takes(clause, self.typed.type_of(argument)) {
            return Some(argument);
        }
        match (&argument.kind, clause) {
            (Kind::List(list), Clause::String) => {
                list.elements.iter().find_map(|element| self.refused(element, clause))
            }
            (Kind::Map(entries), Clause::String) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .find_map(|part| self.refused(part, clause)),
            _ => None,
        }
    }
}
