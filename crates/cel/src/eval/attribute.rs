//! Reading fields, keys and indices.

use super::EvalError;
use super::plan::{Attribute, Base, FieldKey, Key, Node, Qualifier};
use super::run::Context;
use crate::cost::rule::SELECT_COST;
use crate::declarations::{Failure, Outcome};
use crate::value::{List, Object, Text, Value};

type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// The result of reading a field, a key or an index.
enum Found<'a> {
    Value(Value<'a>),
    /// There is no such field, key or index.
    Missing(Missing),
}

enum Missing {
    Key,
    Index,
    /// The value that was to be read from has no fields at all.
    Container,
}

impl<'a> Context<'a, '_> {
    /// The value of an attribute as an expression of its own.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Evaluated<'a> {
        let value = self.resolve(attribute, &[], false);
        match &value {
            Err(error) if error.is_final() => {}
            _ if matches!(attribute.base, Base::Conditional(_)) => {}
            _ => self.charge(SELECT_COST)?,
        }
        value
    }

    /// Whether the last qualifier of an attribute is there. The test itself is free.
    pub(super) fn presence(&mut self, attribute: &'a Attribute) -> Evaluated<'a> {
        let value = self.resolve(attribute, &[], true);
        match &value {
            Err(error) if error.is_final() => {}
            // A condition costs nothing to read, but the API server refunds the cost of the read.
            _ if matches!(attribute.base, Base::Conditional(_)) => self.refund(SELECT_COST)?,
            _ => {}
        }
        value
    }

    /// The value of an attribute, without the cost of reading the base. `behind`: the qualifiers that follow its own.
    fn resolve(
        &mut self,
        attribute: &'a Attribute,
        behind: &[&'a Qualifier],
        test_only: bool,
    ) -> Evaluated<'a> {
        let base = match &attribute.base {
            Base::Variable(number) => self.variable(*number)?,
            Base::Local(number) => self.local(*number)?,
            Base::Node(node) => self.eval(node)?,
            Base::Conditional(parts) => {
                let (condition, accepted, otherwise) = &**parts;
                let branch = match self.eval(condition)? {
                    Value::Bool(true) => accepted,
                    Value::Bool(false) => otherwise,
                    _ => return Err(EvalError::no_such_overload()),
                };
                // If has() is a branch, the condition that it tests costs as much as it would elsewhere.
                if let (Base::Node(Node::Presence(tested)), []) = (&branch.base, &branch.qualifiers[..]) {
                    return self.resolve(tested, &[], true);
                }
                // Qualifiers of a condition are those of the branch.
                let behind: Vec<&Qualifier> =
                    attribute.qualifiers.iter().chain(behind.iter().copied()).collect();
                return self.resolve(branch, &behind, test_only);
            }
        };
        let absent = if test_only { Value::Bool(false) } else { Value::Optional(None) };
        let (mut value, mut optional) = match base {
            Value::Optional(None) => return Ok(absent),
            Value::Optional(Some(inner)) => (inner.as_read_from_optional(), true),
            other => (other, false),
        };
        let mut left = attribute.qualifiers.len() + behind.len();
        if left > 0 {
            value = value.readable()?;
        }
        for qualifier in attribute.qualifiers.iter().chain(behind.iter().copied()) {
            left -= 1;
            optional |= qualifier.optional;
            let tests = test_only && left == 0;
            match self.qualify(&value, qualifier, optional || tests, tests && !optional)? {
                Some(_) if tests => return Ok(Value::Bool(true)),
                Some(found) => value = found,
                None => return Ok(absent),
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Reads one qualifier. `None`: it is not there, which is no error if `tests`.
    fn qualify(
        &mut self,
        value: &Value<'a>,
        qualifier: &'a Qualifier,
        tests: bool,
        presence_only: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match &qualifier.key {
            Key::Field(key) => {
                let found = self.field(value, key);
                let name = Value::String(Text::Borrowed(&key.name));
                self.settle(found, &name, tests, presence_only)
            }
            Key::Constant(key) => self.settle(element(value, key), key, tests, presence_only),
            Key::Computed(attribute) => match self.resolve(attribute, &[], false).and_then(key_value) {
                Ok(key) => self.settle(element(value, &key), &key, tests, presence_only),
                Err(error) => {
                    if !error.is_final() && (!tests || presence_only) {
                        self.charge(SELECT_COST)?;
                    }
                    Err(error)
                }
            },
        }
    }

    /// Charges for the read, and returns its value or its error.
    fn settle(
        &mut self,
        found: Result<Found<'a>, Failure>,
        key: &Value<'_>,
        tests: bool,
        presence_only: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        // A test that finds nothing is free, unless it is that of has() and nothing in its argument is optional.
        if !tests || presence_only || matches!(found, Ok(Found::Value(_))) {
            self.charge(SELECT_COST)?;
        }
        match found {
            Ok(Found::Value(value)) => Ok(Some(value)),
            Ok(Found::Missing(_)) if tests => Ok(None),
            Ok(Found::Missing(Missing::Index)) => {
                Err(EvalError::Failed(format!("index out of bounds: {}", key.message_text()).into()))
            }
            Ok(Found::Missing(Missing::Key | Missing::Container)) => {
                Err(EvalError::Failed(format!("no such key: {}", key.message_text()).into()))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn field(&mut self, value: &Value<'a>, key: &'a FieldKey) -> Result<Found<'a>, Failure> {
        match value {
            Value::Object(Object::Json { properties, declared }) => {
                let found = match &key.declared {
                    // The object has the type that the checker inferred.
                    Some(expected) if std::ptr::eq(*declared, &*expected.object) => properties
                        .get(&*expected.property)
                        .filter(|value| !value.is_null())
                        .map(|value| crate::value::read(value, Some(&expected.field))),
                    _ => Object::Json { properties, declared }.find(&key.name),
                };
                found_key(found)
            }
            Value::Object(Object::Lazy(fields)) => match fields.field(&key.name) {
                Some((found, cost)) => {
                    self.add_cost(cost);
                    found.map(Found::Value).map_err(|error| Failure::Error(error.to_string()))
                }
                None => Ok(Found::Missing(Missing::Key)),
            },
            Value::Map(map) => found_key(map.find_text(&key.name)),
            other => element(other, &Value::String(Text::Borrowed(&key.name))),
        }
    }
}

/// A value as a key. Only scalars can be one.
fn key_value(value: Value<'_>) -> Evaluated<'_> {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_) => Ok(value),
        other => {
            let name = other.implementation_name();
            Err(EvalError::Failed(format!("invalid qualifier type: {name}").into()))
        }
    }
}

fn found_key(found: Option<Outcome<'_>>) -> Result<Found<'_>, Failure> {
    match found {
        Some(value) => value.map(Found::Value),
        None => Ok(Found::Missing(Missing::Key)),
    }
}

/// The element of a list, map or object.
fn element<'a>(container: &Value<'a>, key: &Value<'_>) -> Result<Found<'a>, Failure> {
    match (container, key) {
        (Value::Map(map), key) => found_key(map.find(key)),
        (Value::Object(object), Value::String(name)) => found_key(object.find(name)),
        (Value::Object(_), _) => Err(Failure::NoSuchOverload),
        (Value::List(list), key) => match list.get(index(list, key)?) {
            Some(value) => value.map(Found::Value),
            None => Ok(Found::Missing(Missing::Index)),
        },
        _ => Ok(Found::Missing(Missing::Container)),
    }
}

/// A key as the index of a list. What cannot be one is out of its bounds.
fn index(list: &List<'_>, key: &Value<'_>) -> Result<usize, Failure> {
    let index = match key {
        Value::Int(index) => Some(*index),
        Value::Uint(index) => i64::try_from(*index).ok(),
        // Exact: integral doubles in the range of integers.
        Value::Double(index) if index.trunc() == *index && index.abs() < 9.2e18 => Some(*index as i64),
        Value::Double(_) => None,
        other => {
            return Err(Failure::Error(format!("unsupported index type '{}' in list", other.type_name())));
        }
    };
    let Some(index) = index else {
        return Err(Failure::Error(format!("unsupported index value {} in list", key.message_text())));
    };
    let found = usize::try_from(index).ok().filter(|index| *index < list.len());
    match (found, list, key) {
        // A list of a document takes integers only.
        (Some(_), List::Json { declared: Some(_), .. }, Value::Uint(_) | Value::Double(_)) => {
            Err(Failure::Error(format!("unsupported index: {}", key.message_text())))
        }
        (found, ..) => Ok(found.unwrap_or(usize::MAX)),
    }
}
