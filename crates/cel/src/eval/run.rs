//! Evaluates the nodes of a program, and counts the cost.

use std::sync::Arc;

use super::plan::{
    CallNode, ListNode, LoopNode, MapNode, MessageNode, Node, PatternCall, explain, unhashable,
};
use super::{Activation, EvalError, Program};
use crate::cost::rule::{CostRule, LIST_COST, MAP_COST, MESSAGE_COST};
use crate::cost::track;
use crate::declarations::{Failure, Mismatch};
use crate::library::map_insert;
use crate::value::{List, Map, MapValues, Object, Value, equal};

/// The number of rounds of loops between two checks whether to stop.
const INTERRUPT_CHECK_ROUNDS: u64 = 16;

/// The API server counts the elements of a list that is compared with itself even if it is none, which ends its
/// evaluation. `None`: there is no value at all.
fn no_list_to_count(found: Option<&Value<'_>>) -> EvalError {
    let (name, method) = match found {
        None => ("*types.Err", "Add"),
        Some(
            value @ (Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)),
        ) => (value.implementation_name(), "Contains"),
        Some(value) => (value.implementation_name(), "Add"),
    };
    let text = format!("interface conversion: {name} is not traits.Lister: missing method {method}");
    EvalError::Internal(text.into())
}

type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// One evaluation.
pub(super) struct Context<'a, 'c> {
    program: &'a Program,
    activation: &'c Activation<'a>,
    /// Values of loop variables and accumulators; `None`: not yet known.
    locals: Vec<Option<Evaluated<'a>>>,
    cost: u64,
    cost_max: u64,
    rounds: u64,
}

pub(super) fn run<'a>(
    program: &'a Program,
    activation: &Activation<'a>,
    cost_max: u64,
) -> (Evaluated<'a>, u64) {
    let mut locals = Vec::new();
    locals.resize_with(program.initial.len(), || None);
    let mut context = Context { program, activation, locals, cost: 0, cost_max, rounds: 0 };
    let value = context.eval(&program.root);
    (value, context.cost)
}

/// Values that cannot be keys of a map of Go end the evaluation of the API server.
fn key_can_be_hashed(key: &Value<'_>) -> Result<(), EvalError> {
    match unhashable(key) {
        Some(text) => Err(EvalError::Internal(text.into())),
        None => Ok(()),
    }
}

impl<'a> Context<'a, '_> {
    /// Adds a cost, and stops when there is too much of it.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        // As in the API server, a cost below zero, which wraps, takes something off.
        self.cost = self.cost.wrapping_add(cost);
        if self.cost > self.cost_max { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// Takes a cost back. As in the API server, nothing less nothing is more than anything.
    pub(super) fn refund(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.wrapping_sub(cost);
        if self.cost > self.cost_max { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// Adds a cost that is looked at when the next one is charged.
    pub(super) fn add_cost(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
    }

    pub(super) fn variable(&mut self, number: usize) -> Evaluated<'a> {
        match self.activation.values.get(number) {
            Some(Some(value)) => Ok(value.clone()),
            _ => {
                let name = &self.program.variables[number];
                Err(EvalError::Failed(format!("no such attribute(s): {name}").into()))
            }
        }
    }

    /// A loop variable or an accumulator. An accumulator gets its first value when it is first read.
    pub(super) fn local(&mut self, number: usize) -> Evaluated<'a> {
        if self.locals[number].is_none() {
            let initial = match &self.program.initial[number] {
                Some(initial) => self.eval(initial),
                None => Err(EvalError::Failed("no such attribute(s): loop variable".into())),
            };
            self.locals[number] = Some(initial);
        }
        match &self.locals[number] {
            Some(value) => value.clone(),
            None => Err(EvalError::no_such_overload()),
        }
    }

    pub(super) fn eval(&mut self, node: &'a Node) -> Evaluated<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Presence(attribute) => self.presence(attribute),
            Node::Logical(decides, operands) => self.logical(*decides, &operands.0, &operands.1),
            Node::Equality(wanted, operands) => self.equality(*wanted, &operands.0, &operands.1),
            Node::NotStrictlyFalse(operand) => self.not_strictly_false(operand),
            Node::Call(call) => self.call(call),
            Node::PatternCall(call) => self.pattern_call(call),
            Node::InConstants(parts) => {
                let value = self.eval(&parts.0)?;
                key_can_be_hashed(&value)?;
                Ok(Value::Bool(parts.1.get(&value).is_some()))
            }
            Node::Or(unwraps, operands) => match self.eval(&operands.0)? {
                Value::Optional(None) => self.eval(&operands.1),
                Value::Optional(Some(value)) if *unwraps => Ok(Value::clone(&value).readable()?),
                other => Ok(other),
            },
            Node::List(list) => self.list(list).map(Value::list),
            Node::Map(map) => self.map(map),
            Node::Message(message) => self.message(message),
            Node::Loop(of) => self.run_loop(of),
            Node::Append(accumulator, list) => self.append(*accumulator, list),
            Node::Insert(accumulator, more) => self.insert(*accumulator, more),
        }
    }

    /// `&&` and `||`: an operand that decides makes up for an error of the other.
    fn logical(&mut self, decides: bool, left: &'a Node, right: &'a Node) -> Evaluated<'a> {
        let mut error = None;
        for operand in [left, right] {
            match self.eval(operand) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(EvalError::no_such_overload())),
                Err(found) if found.is_final() => return Err(found),
                Err(found) => error = error.or(Some(found)),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decides)),
        }
    }

    fn not_strictly_false(&mut self, operand: &'a Node) -> Evaluated<'a> {
        let value = match self.eval(operand) {
            Ok(Value::Bool(value)) => value,
            Err(error) if error.is_final() => return Err(error),
            _ => true,
        };
        self.charge(1)?;
        Ok(Value::Bool(value))
    }

    fn equality(&mut self, wanted: bool, left: &'a Node, right: &'a Node) -> Evaluated<'a> {
        let rule = if wanted { CostRule::Equals } else { CostRule::Compare };
        let [left, right] = self.both(left, right, rule)?;
        let same = match equal(&left, &right) {
            // Values that cannot be compared are not equal.
            Err(_) if !wanted => Ok(false),
            other => other,
        };
        self.charge(track::call(rule, &[left, right], None))?;
        Ok(Value::Bool(same? == wanted))
    }

    /// Evaluates two operands, both of them even if the first has no value.
    fn both(&mut self, left: &'a Node, right: &'a Node, rule: CostRule) -> Result<[Value<'a>; 2], EvalError> {
        let left = self.eval(left);
        if let Err(error) = &left
            && error.is_final()
        {
            return Err(error.clone());
        }
        let right = self.eval(right);
        match (left, right) {
            (Ok(left), Ok(right)) => Ok([left, right]),
            (_, Err(error)) if error.is_final() => Err(error),
            (left, right) => {
                let error = match (&left, &right) {
                    (Err(error), _) | (_, Err(error)) => error.clone(),
                    _ => EvalError::no_such_overload(),
                };
                if right.is_err() && matches!(rule, CostRule::SortBy { .. }) {
                    return Err(no_list_to_count(None));
                }
                // An operand without a value counts as one of size 1.
                let placeholders = [left.unwrap_or(Value::Null), right.unwrap_or(Value::Null)];
                self.charge(track::call(rule, &placeholders, None))?;
                Err(error)
            }
        }
    }

    fn call(&mut self, call: &'a CallNode) -> Evaluated<'a> {
        match &call.args[..] {
            [] => self.apply(call, &[]),
            [only] => match self.eval(only) {
                Ok(value) => self.apply(call, &[value]),
                Err(error) if error.is_final() => Err(error),
                Err(_) if matches!(call.cost, CostRule::Distinct | CostRule::Sort { .. }) => {
                    Err(no_list_to_count(None))
                }
                Err(error) => {
                    self.charge(track::call(call.cost, &[Value::Null], None))?;
                    Err(error)
                }
            },
            [left, right] if !call.stops_at_error => {
                let args = self.both(left, right, call.cost)?;
                self.apply(call, &args)
            }
            args => {
                let args = self.args(args, call.cost)?;
                self.apply(call, &args)
            }
        }
    }

    /// Evaluates arguments up to the first that has no value. The call is charged only if that is the last.
    fn args(&mut self, args: &'a [Node], rule: CostRule) -> Result<Vec<Value<'a>>, EvalError> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            match self.eval(arg) {
                Ok(value) => values.push(value),
                Err(error) => {
                    if !error.is_final() && values.len() + 1 == args.len() {
                        values.push(Value::Null);
                        self.charge(track::call(rule, &values, None))?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(values)
    }

    fn apply(&mut self, call: &'a CallNode, args: &[Value<'a>]) -> Evaluated<'a> {
        let known = track::before_call(call.cost, args);
        if self.cost.saturating_add(known) > self.cost_max {
            return Err(self.charge(known).err().unwrap_or(EvalError::CostExceeded));
        }
        let result = (call.operation)(args);
        if let (CostRule::Distinct | CostRule::Sort { .. }, Some(found)) = (call.cost, args.first())
            && !matches!(found, Value::List(_))
        {
            return Err(no_list_to_count(Some(found)));
        }
        self.charge(track::call(call.cost, args, result.as_ref().ok()))?;
        result.map_err(|failure| explain(call.name, call.mismatch, failure, args))
    }

    fn pattern_call(&mut self, call: &'a PatternCall) -> Evaluated<'a> {
        let args = self.args(&call.args, call.cost)?;
        let result = (call.operation)(&call.pattern, &args);
        self.charge(track::call(call.cost, &args, result.as_ref().ok()))?;
        result.map_err(|failure| explain("", Mismatch::Plain, failure, &args))
    }

    /// The elements of a list literal.
    fn list(&mut self, list: &'a ListNode) -> Result<Vec<Value<'a>>, EvalError> {
        let mut values = Vec::with_capacity(list.elements.len());
        let mut error = None;
        for (element, optional) in list.elements.iter().zip(&list.optional) {
            match (self.eval(element), optional) {
                (Ok(value), false) => values.push(value),
                (Ok(Value::Optional(value)), true) => values.extend(value.map(Arc::unwrap_or_clone)),
                (Ok(value), true) => {
                    let text = value.message_text();
                    let message =
                        format!("cannot initialize optional list element from non-optional value {text}");
                    error = Some(EvalError::Failed(message.into()));
                }
                (Err(found), _) => error = Some(found),
            }
            if error.is_some() {
                break;
            }
        }
        self.finish(LIST_COST, error)?;
        Ok(values)
    }

    /// Charges for making something, whether or not it could be made.
    fn finish(&mut self, cost: u64, error: Option<EvalError>) -> Result<(), EvalError> {
        match error {
            Some(error) if error.is_final() => Err(error),
            error => {
                self.charge(cost)?;
                error.map_or(Ok(()), Err)
            }
        }
    }

    fn map(&mut self, map: &'a MapNode) -> Evaluated<'a> {
        let mut values = MapValues::default();
        let error = self.map_entries(map, &mut values).err();
        self.finish(MAP_COST, error)?;
        Ok(Value::Map(Map::Values(Arc::new(values))))
    }

    fn map_entries(&mut self, map: &'a MapNode, values: &mut MapValues<'a>) -> Result<(), EvalError> {
        for (key, value, optional) in &map.entries {
            let key = self.eval(key)?;
            let value = self.eval(value)?;
            key_can_be_hashed(&key)?;
            match (value, optional) {
                (value, false) => values.put(key, value),
                (Value::Optional(Some(value)), true) => values.put(key, Value::clone(&value)),
                (Value::Optional(None), true) => values.remove(&key),
                (value, true) => {
                    let (key, value) = (key.message_text(), value.message_text());
                    let message =
                        format!("cannot initialize optional entry '{key}' from non-optional value {value}");
                    return Err(EvalError::Failed(message.into()));
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &'a MessageNode) -> Evaluated<'a> {
        match self.message_fields(message) {
            Ok(fields) => {
                self.charge(MESSAGE_COST)?;
                message.message.make(&fields).map_err(EvalError::from)
            }
            Err(error) => {
                self.finish(MESSAGE_COST, Some(error.clone()))?;
                Err(error)
            }
        }
    }

    fn message_fields(&mut self, message: &'a MessageNode) -> Result<Vec<(&'a str, Value<'a>)>, EvalError> {
        let mut fields = Vec::with_capacity(message.fields.len());
        for (name, value, optional) in &message.fields {
            let value = match (self.eval(value)?, optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(value)), true) => Value::clone(&value),
                (value, _) => value,
            };
            fields.push((&**name, value));
        }
        Ok(fields)
    }

    fn run_loop(&mut self, of: &'a LoopNode) -> Evaluated<'a> {
        let range = self.eval(&of.range)?;
        self.locals[of.accumulator] = None;
        match (&range, of.variable2) {
            (Value::List(list), None) => self.rounds_of_list(of, list)?,
            (Value::List(list), Some(second)) => {
                for index in 0..list.len() {
                    let element = list.get(index).unwrap_or(Err(Failure::NoSuchOverload));
                    self.locals[second] = Some(element.map_err(EvalError::from));
                    let index = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    if !self.round(of, Ok(index))? {
                        break;
                    }
                }
            }
            (Value::Map(_) | Value::Object(_), second) => self.rounds_of_map(of, &range, second)?,
            (other, second) => {
                let name = other.implementation_name();
                let message = match second {
                    None => format!("got '{name}', expected iterable type"),
                    Some(_) => format!("unsupported comprehension range type: {name}"),
                };
                return Err(EvalError::Failed(message.into()));
            }
        }
        self.eval(&of.result)
    }

    fn rounds_of_list(&mut self, of: &'a LoopNode, list: &List<'a>) -> Result<(), EvalError> {
        for index in 0..list.len() {
            let element = list.get(index).unwrap_or(Err(Failure::NoSuchOverload));
            if !self.round(of, element.map_err(EvalError::from))? {
                break;
            }
        }
        Ok(())
    }

    fn rounds_of_map(
        &mut self,
        of: &'a LoopNode,
        range: &Value<'a>,
        second: Option<usize>,
    ) -> Result<(), EvalError> {
        let keys = match range {
            Value::Map(map) => map.keys(),
            Value::Object(object) => object.keys(),
            _ => Vec::new(),
        };
        for key in keys {
            if let Some(second) = second {
                let value = match (range, &key) {
                    (Value::Map(map), key) => map.find(key),
                    (Value::Object(object @ Object::Json { .. }), Value::String(name)) => object.find(name),
                    _ => None,
                };
                let value = value.unwrap_or(Ok(Value::Null));
                self.locals[second] = Some(value.map_err(EvalError::from));
            }
            if !self.round(of, Ok(key))? {
                break;
            }
        }
        Ok(())
    }

    /// One round of a loop. False: it was the last.
    fn round(&mut self, of: &'a LoopNode, element: Evaluated<'a>) -> Result<bool, EvalError> {
        self.locals[of.variable] = Some(element);
        if let Some(condition) = &of.condition {
            match self.eval(condition) {
                Ok(Value::Bool(false)) => return Ok(false),
                Err(error) if error.is_final() => return Err(error),
                _ => {}
            }
        }
        let value = self.eval(&of.step);
        if let Err(error) = &value
            && error.is_final()
        {
            return Err(error.clone());
        }
        self.locals[of.accumulator] = Some(value);
        self.rounds += 1;
        if self.rounds.is_multiple_of(INTERRUPT_CHECK_ROUNDS)
            && self.activation.interrupted.is_some_and(|interrupted| interrupted())
        {
            return Err(EvalError::Interrupted);
        }
        Ok(true)
    }

    /// Takes an accumulator's value away, so that it can be changed without a copy.
    fn take(&mut self, accumulator: usize) -> Result<Evaluated<'a>, EvalError> {
        let value = match self.locals[accumulator].take() {
            Some(value) => value,
            None => {
                let value = self.local(accumulator);
                self.locals[accumulator] = None;
                value
            }
        };
        self.charge(1)?;
        match value {
            Err(error) if error.is_final() => Err(error),
            other => Ok(other),
        }
    }

    fn append(&mut self, accumulator: usize, list: &'a ListNode) -> Evaluated<'a> {
        let value = self.take(accumulator)?;
        let elements = self.list(list);
        if let Err(error) = &elements
            && error.is_final()
        {
            return Err(error.clone());
        }
        self.charge(1)?;
        match (value?, elements?) {
            (Value::List(List::Values(mut values)), elements) => {
                Arc::make_mut(&mut values).extend(elements);
                Ok(Value::List(List::Values(values)))
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn insert(&mut self, accumulator: usize, more: &'a [Node]) -> Evaluated<'a> {
        let value = self.take(accumulator)?;
        // With a key and a value, an error ends the call before it is charged.
        let stops = more.len() > 1;
        if stops && let Err(error) = value {
            return Err(error);
        }
        let args = self.args(more, CostRule::Fixed(1));
        match &args {
            Err(error) if error.is_final() => return Err(error.clone()),
            Err(_) => {}
            Ok(_) => self.charge(1)?,
        }
        // The error of the accumulator comes first.
        match (value?, args?) {
            (Value::Map(Map::Values(mut values)), args) => {
                map_insert(Arc::make_mut(&mut values), &args)?;
                Ok(Value::Map(Map::Values(values)))
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }
}
