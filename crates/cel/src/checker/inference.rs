//! Assignability of types, and the inference of type variables.
//!
//! A failed comparison leaves no trace: its bindings of variables are undone.

use std::sync::Arc;

use crate::types::Type;

/// The bindings of type variables.
#[derive(Debug, Default)]
pub(super) struct Inference {
    /// The type that each variable stands for, by its number; `None`: not yet known.
    found: Vec<Option<Type>>,
    /// The variables that the current comparison has bound, with their previous types.
    undo: Vec<(u32, Option<Type>)>,
}

impl Inference {
    /// A type that is to be found out.
    pub(super) fn new_variable(&mut self) -> Type {
        self.found.push(None);
        Type::Variable(u32::try_from(self.found.len() - 1).unwrap_or(u32::MAX))
    }

    /// A declared type with variables in place of its parameters.
    pub(super) fn instantiate(
        &mut self,
        declared: &Type,
        parameters: &mut Vec<(&'static str, Type)>,
    ) -> Type {
        match declared {
            Type::Param(name) => {
                if let Some((_, variable)) = parameters.iter().find(|(parameter, _)| parameter == name) {
                    return variable.clone();
                }
                let variable = self.new_variable();
                parameters.push((name, variable.clone()));
                variable
            }
            other => map_parameters(other, |inner| self.instantiate(inner, parameters)),
        }
    }

    /// A type with everything that is known about its variables. Unknown ones stay, or become `dyn`.
    pub(super) fn substitute(&self, of: &Type, unknown_to_dyn: bool) -> Type {
        match of {
            Type::Variable(number) => match &self.found[*number as usize] {
                Some(found) => self.substitute(found, unknown_to_dyn),
                None if unknown_to_dyn => Type::Dyn,
                None => of.clone(),
            },
            // Of the names `list` and `map`.
            Type::Param(_) if unknown_to_dyn => Type::Dyn,
            other => map_parameters(other, |inner| self.substitute(inner, unknown_to_dyn)),
        }
    }

    /// Whether values of one type can stand where the other is expected.
    pub(super) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.undo.clear();
        let assignable = self.is_assignable(from, to);
        self.settle(assignable)
    }

    /// Whether the types are assignable one by one.
    pub(super) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.undo.clear();
        let assignable =
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.is_assignable(from, to));
        self.settle(assignable)
    }

    /// Keeps the new bindings, or undoes them.
    fn settle(&mut self, keep: bool) -> bool {
        if !keep {
            for (variable, before) in self.undo.drain(..).rev() {
                self.found[variable as usize] = before;
            }
        }
        keep
    }

    fn bind(&mut self, variable: u32, to: Type) {
        let before = self.found[variable as usize].replace(to);
        self.undo.push((variable, before));
    }

    fn is_assignable(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Variable(variable) = to {
            let known = self.found[*variable as usize].is_some() || from == to;
            if self.stands_for(*variable, from) {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Variable(variable) = from {
            return self.stands_for(*variable, to);
        }
        match (from, to) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Wrapper(_), _) | (_, Type::Wrapper(_)) => from.is_exactly(to),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(from), Type::List(to)) | (Type::Optional(from), Type::Optional(to)) => {
                self.is_assignable(from, to)
            }
            (Type::Map(from_key, from_value), Type::Map(to_key, to_value)) => {
                self.is_assignable(from_key, to_key) && self.is_assignable(from_value, to_value)
            }
            _ => from == to,
        }
    }

    /// Whether a variable can stand for a type; if so, it does from now on.
    fn stands_for(&mut self, variable: u32, other: &Type) -> bool {
        if *other == Type::Variable(variable) {
            return true;
        }
        let Some(known) = self.found[variable as usize].clone() else {
            if self.occurs_in(variable, other) {
                return false;
            }
            self.bind(variable, other.clone());
            return true;
        };
        if other.is_exactly(&known) {
            return true;
        }
        if !self.is_assignable(other, &known) {
            return false;
        }
        let general = most_general(other.clone(), known);
        if !self.occurs_in(variable, &general) {
            self.bind(variable, general);
        }
        true
    }

    fn occurs_in(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Variable(number) if *number == variable => true,
            Type::Variable(number) => {
                self.found[*number as usize].as_ref().is_some_and(|found| self.occurs_in(variable, found))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.occurs_in(variable, inner),
            Type::Map(key, value) => self.occurs_in(variable, key) || self.occurs_in(variable, value),
            _ => false,
        }
    }
}

/// The more general of two types of which one is assignable to the other.
pub(super) fn most_general(first: Type, second: Type) -> Type {
    if is_less_specific(&first, &second) { first } else { second }
}

fn is_less_specific(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(first), Type::List(second)) | (Type::Optional(first), Type::Optional(second)) => {
            is_less_specific(first, second)
        }
        (Type::Map(first_key, first_value), Type::Map(second_key, second_value)) => {
            is_less_specific(first_key, second_key) && is_less_specific(first_value, second_value)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => first.is_exactly(second),
    }
}

/// Whether values of a type are comparable with `null`.
fn is_nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Null
            | Type::Object(_)
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Timestamp
            | Type::Duration
            | Type::Wrapper(_)
    )
}

fn map_parameters(of: &Type, mut inner: impl FnMut(&Type) -> Type) -> Type {
    match of {
        Type::List(element) => Type::List(Arc::new(inner(element))),
        Type::Map(key, value) => Type::Map(Arc::new(inner(key)), Arc::new(inner(value))),
        Type::Optional(of) => Type::Optional(Arc::new(inner(of))),
        Type::Type(of) => Type::Type(Arc::new(inner(of))),
        other => other.clone(),
    }
}
