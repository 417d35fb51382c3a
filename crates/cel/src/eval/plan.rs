//! From a checked expression to nodes that are evaluated.
//!
//! Everything that can be known before is computed here: literals of constants, conversions of constants, and
//! patterns. An error in one of them is an error of the program, wherever it stands in the expression.

use std::sync::Arc;

use super::{EvalError, Program};
use crate::ast::{
    Call, Comprehension, Expr, Kind, ListLiteral, Literal, MapEntry, Select, StructLiteral, operator,
};
use crate::checker::{Reference, Typed};
use crate::cost::rule::CostRule;
use crate::declarations::{Failure, Function, Mismatch, Operation, Overload};
use crate::library::messages::Message;
use crate::library::{PatternOperation, leaf, sum_of, with_pattern};
use crate::schema::Declared;
use crate::types::Type;
use crate::value::{List, Map, MapValues, Opaque, Text, Value};
use leaf::regex::Pattern;

/// A node of a program.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Value<'static>),
    /// A variable, or a value read from one.
    Attribute(Box<Attribute>),
    /// Whether the last thing that an attribute reads is there.
    Presence(Box<Attribute>),
    /// `a && b` with `false`, `a || b` with `true`: the value that decides without the other operand.
    Logical(bool, Box<(Node, Node)>),
    /// `==`, or `!=` with `false`.
    Equality(bool, Box<(Node, Node)>),
    NotStrictlyFalse(Box<Node>),
    Call(Box<CallNode>),
    PatternCall(Box<PatternCall>),
    /// `x in [constants]`.
    InConstants(Box<(Node, MapValues<'static>)>),
    /// `a.or(b)`, or `a.orValue(b)` with true.
    Or(bool, Box<(Node, Node)>),
    List(Box<ListNode>),
    Map(Box<MapNode>),
    Message(Box<MessageNode>),
    Loop(Box<LoopNode>),
    /// `accumulator + [elements]`, in place.
    Append(usize, Box<ListNode>),
    /// `cel.@mapInsert(accumulator, …)`, in place.
    Insert(usize, Box<[Node]>),
}

/// A base value, and the qualifiers that are read from it.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) base: Base,
    pub(super) qualifiers: Vec<Qualifier>,
}

#[derive(Debug)]
pub(super) enum Base {
    Variable(usize),
    Local(usize),
    Node(Node),
    /// A condition and its branches.
    Conditional(Box<(Node, Attribute, Attribute)>),
}

/// A field, key or index.
#[derive(Debug)]
pub(super) struct Qualifier {
    pub(super) key: Key,
    /// Whether it is written with a question mark.
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) enum Key {
    Field(Box<FieldKey>),
    Constant(Value<'static>),
    Computed(Attribute),
}

/// A name that is read from an object or a map.
#[derive(Debug)]
pub(super) struct FieldKey {
    pub(super) name: Box<str>,
    /// The declaration of the field, if the checker found one.
    pub(super) declared: Option<DeclaredField>,
}

/// A field of a declared object.
#[derive(Debug)]
pub(super) struct DeclaredField {
    pub(super) object: Arc<Declared>,
    pub(super) property: Box<str>,
    pub(super) field: Arc<Declared>,
}

#[derive(Debug)]
pub(super) struct CallNode {
    pub(super) name: &'static str,
    pub(super) operation: Operation,
    pub(super) mismatch: Mismatch,
    pub(super) cost: CostRule,
    pub(super) args: Box<[Node]>,
    /// Whether arguments behind a failed one are not evaluated.
    pub(super) stops_at_error: bool,
}

/// A call with a compiled pattern, which is still the second argument.
#[derive(Debug)]
pub(super) struct PatternCall {
    pub(super) pattern: Pattern,
    pub(super) operation: PatternOperation,
    pub(super) cost: CostRule,
    pub(super) args: Box<[Node]>,
}

#[derive(Debug)]
pub(super) struct ListNode {
    pub(super) elements: Box<[Node]>,
    pub(super) optional: Box<[bool]>,
}

#[derive(Debug)]
pub(super) struct MapNode {
    /// Key, value, and whether the value is optional.
    pub(super) entries: Box<[(Node, Node, bool)]>,
}

#[derive(Debug)]
pub(super) struct MessageNode {
    pub(super) message: Message,
    /// Name, value, and whether the value is optional.
    pub(super) fields: Box<[(Arc<str>, Node, bool)]>,
}

#[derive(Debug)]
pub(super) struct LoopNode {
    pub(super) range: Node,
    pub(super) accumulator: usize,
    pub(super) variable: usize,
    pub(super) variable2: Option<usize>,
    /// `None`: the loop takes all elements.
    pub(super) condition: Option<Node>,
    pub(super) step: Node,
    pub(super) result: Node,
}

/// A program for a checked expression.
///
/// # Errors
///
/// The text of the first error in a constant.
pub(crate) fn plan(typed: &Typed, variables: &[Box<str>]) -> Result<Program, String> {
    let mut initial = Vec::new();
    initial.resize_with(typed.locals.len(), || None);
    let mut planner = Planner { typed, initial, depth: 0, depth_max: 0 };
    let root = planner.plan(&typed.expr)?;
    let Planner { initial, depth_max, .. } = planner;
    Ok(Program { root, initial: initial.into(), variables: variables.into(), depth: depth_max })
}

struct Planner<'t> {
    typed: &'t Typed,
    initial: Vec<Option<Node>>,
    /// The nesting depth of the expression that is being planned.
    depth: usize,
    depth_max: usize,
}

type Planned = Result<Node, String>;

impl Attribute {
    fn of(base: Base) -> Self {
        Self { base, qualifiers: Vec::new() }
    }
}

/// A node as something to read from.
fn into_attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => *attribute,
        other => Attribute::of(Base::Node(other)),
    }
}

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned {
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
        let planned = self.plan_kind(expr);
        self.depth -= 1;
        planned
    }

    fn plan_kind(&mut self, expr: &Expr) -> Planned {
        match &expr.kind {
            Kind::Unspecified => Err("expression does not parse".into()),
            Kind::Literal(literal) => Ok(Node::Constant(constant(literal))),
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select(select) => self.select(select),
            Kind::Call(call) => self.call(expr, call),
            Kind::List(list) => self.list(list),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct(message) => self.message(message),
            Kind::Comprehension(of) => self.comprehension(expr, of),
        }
    }

    fn plan_all(&mut self, exprs: &[Expr]) -> Result<Vec<Node>, String> {
        exprs.iter().map(|expr| self.plan(expr)).collect()
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Planned {
        let reference = self.typed.reference(expr);
        if !matches!(reference, Some(Reference::Type(_))) && matches!(self.typed.type_of(expr), Type::Type(_))
        {
            return Err(format!("reference to undefined type: {name}"));
        }
        let base = match reference {
            Some(Reference::Local(number)) => Base::Local(*number),
            Some(Reference::Variable(number)) => Base::Variable(*number),
            Some(Reference::Constant(number)) => return Ok(Node::Constant(Value::Int(*number))),
            Some(Reference::Type(_)) if Message::by_name(name).is_some_and(Message::is_only_made) => {
                return Err(format!("reference to undefined type: {name}"));
            }
            Some(Reference::Type(named)) => {
                return Ok(Node::Constant(Value::Type(Text::Borrowed(runtime_name(named)))));
            }
            _ => return Err("reference to undefined name".into()),
        };
        Ok(Node::Attribute(Box::new(Attribute::of(base))))
    }

    fn select(&mut self, select: &Select) -> Planned {
        let operand = self.plan(&select.operand)?;
        let key = self.field_key(&select.operand, &select.field);
        let mut attribute = Box::new(into_attribute(operand));
        attribute.qualifiers.push(Qualifier { key, optional: false });
        Ok(if select.test_only { Node::Presence(attribute) } else { Node::Attribute(attribute) })
    }

    fn field_key(&self, operand: &Expr, name: &str) -> Key {
        let of = match self.typed.type_of(operand) {
            Type::Optional(inner) => inner,
            other => other,
        };
        let declared = match of {
            Type::Object(object) => object.declared.field(name).map(|field| DeclaredField {
                object: Arc::clone(&object.declared),
                property: field.property.clone(),
                field: Arc::clone(&field.declared),
            }),
            _ => None,
        };
        Key::Field(Box::new(FieldKey { name: Box::from(name), declared }))
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Planned {
        let Some(Reference::Function(function, overloads)) = self.typed.reference(expr) else {
            return Err(format!("no such overload: {}()", call.function));
        };
        let mut args = Vec::with_capacity(call.args.len() + 1);
        if let Some(target) = &call.target {
            args.push(self.plan(target)?);
        }
        args.extend(self.plan_all(&call.args)?);
        match (function.name, args.len()) {
            (operator::LOGICAL_AND, 2) => Ok(Node::Logical(false, pair(args)?)),
            (operator::LOGICAL_OR, 2) => Ok(Node::Logical(true, pair(args)?)),
            (operator::EQUALS, 2) => Ok(Node::Equality(true, pair(args)?)),
            (operator::NOT_EQUALS, 2) => Ok(Node::Equality(false, pair(args)?)),
            ("or", 2) => Ok(Node::Or(false, pair(args)?)),
            ("orValue", 2) => Ok(Node::Or(true, pair(args)?)),
            (operator::NOT_STRICTLY_FALSE, 1) => Ok(Node::NotStrictlyFalse(Box::new(args.remove(0)))),
            (operator::CONDITIONAL, 3) => conditional(args),
            (operator::INDEX, 2) => index(args, false),
            (operator::OPTIONAL_INDEX, 2) => index(args, true),
            (operator::OPTIONAL_SELECT, 2) => {
                let Some(Node::Constant(Value::String(field))) = args.pop() else {
                    return Err("invalid qualifier type".into());
                };
                let key = self.field_key(&call.args[0], &field);
                let mut attribute = into_attribute(args.remove(0));
                attribute.qualifiers.push(Qualifier { key, optional: true });
                Ok(Node::Attribute(Box::new(attribute)))
            }
            _ => self.plain_call(function, overloads, args),
        }
    }

    fn plain_call(
        &self,
        function: &'static Function,
        overloads: &[&'static Overload],
        args: Vec<Node>,
    ) -> Planned {
        let only = match overloads {
            [only] => Some(only),
            _ => None,
        };
        let cost = only.map_or(function.ambiguous_cost, |overload| overload.cost);
        let args = match in_place(function.name, cost, args) {
            Ok(node) => return Ok(node),
            Err(args) => args,
        };
        if let ("@in", CostRule::InList, [_, Node::Constant(Value::List(list))]) =
            (function.name, cost, &args[..])
            && let Some(constants) = constant_set(list)
        {
            return in_constants(args, constants);
        }
        if is_conversion(function.name)
            && let [Node::Constant(_)] = &args[..]
        {
            return convert_constant(function, args);
        }
        if let (Some(operation), [_, Node::Constant(Value::String(pattern)), ..]) =
            (with_pattern(function.name), &args[..])
        {
            let pattern = Pattern::new(pattern)?;
            return Ok(Node::PatternCall(Box::new(PatternCall {
                pattern,
                operation,
                cost,
                args: args.into(),
            })));
        }
        let operation = match (function.name, only) {
            ("sum", Some(overload)) => sum_of(&overload.result),
            _ => function.operation,
        };
        Ok(Node::Call(Box::new(CallNode {
            name: function.name,
            operation,
            mismatch: function.mismatch,
            cost,
            stops_at_error: args.len() > 2
                || function.name == "format"
                || (only.is_none() && function.mismatch == Mismatch::Signature),
            args: args.into(),
        })))
    }

    fn list(&mut self, list: &ListLiteral) -> Planned {
        let elements = self.plan_all(&list.elements)?;
        if !list.optional.contains(&true) {
            let constants: Option<Vec<Value<'static>>> = elements.iter().map(as_constant).collect();
            if let Some(constants) = constants {
                return Ok(Node::Constant(Value::list(constants)));
            }
        }
        Ok(Node::List(Box::new(ListNode {
            elements: elements.into(),
            optional: list.optional.clone().into(),
        })))
    }

    fn map(&mut self, entries: &[MapEntry]) -> Planned {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.plan(&entry.key)?, self.plan(&entry.value)?, entry.optional));
        }
        let constants: Option<Vec<_>> = planned
            .iter()
            .map(|(key, value, optional)| {
                (!optional).then(|| as_constant(key).zip(as_constant(value))).flatten()
            })
            .collect();
        Ok(match constants {
            Some(constants) => {
                if let Some(text) = constants.iter().find_map(|(key, _)| unhashable(key)) {
                    return Err(text.to_owned());
                }
                let mut map = MapValues::default();
                constants.into_iter().for_each(|(key, value)| map.put(key, value));
                Node::Constant(Value::Map(Map::Values(Arc::new(map))))
            }
            None => Node::Map(Box::new(MapNode { entries: planned.into() })),
        })
    }

    fn message(&mut self, message: &StructLiteral) -> Planned {
        let mut fields = Vec::with_capacity(message.fields.len());
        for field in &message.fields {
            fields.push((Arc::clone(&field.name), self.plan(&field.value)?, field.optional));
        }
        let message = Message::by_name(&message.name).ok_or("message of an unknown type")?;
        Ok(Node::Message(Box::new(MessageNode { message, fields: fields.into() })))
    }

    fn comprehension(&mut self, expr: &Expr, of: &Comprehension) -> Planned {
        let Some(Reference::Loop { accumulator, variable, variable2 }) = self.typed.reference(expr) else {
            return Err("loop without variables".into());
        };
        let (accumulator, variable, variable2) = (*accumulator, *variable, *variable2);
        let initial = self.plan(&of.init)?;
        self.initial[accumulator] = Some(initial);
        let range = self.plan(&of.range)?;
        let condition = match self.plan(&of.condition)? {
            Node::Constant(Value::Bool(true)) => None,
            condition => Some(condition),
        };
        let step = self.plan(&of.step)?;
        let result = self.plan(&of.result)?;
        let planned = LoopNode { range, accumulator, variable, variable2, condition, step, result };
        Ok(Node::Loop(Box::new(planned)))
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::String(Text::Made(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}

fn as_constant(node: &Node) -> Option<Value<'static>> {
    match node {
        Node::Constant(value) => Some(value.clone()),
        _ => None,
    }
}

fn pair(args: Vec<Node>) -> Result<Box<(Node, Node)>, String> {
    let [left, right] = <[Node; 2]>::try_from(args).map_err(|_| "wrong number of operands")?;
    Ok(Box::new((left, right)))
}

fn conditional(args: Vec<Node>) -> Planned {
    let [condition, accepted, otherwise] =
        <[Node; 3]>::try_from(args).map_err(|_| "wrong number of operands")?;
    let branches = Box::new((condition, into_attribute(accepted), into_attribute(otherwise)));
    Ok(Node::Attribute(Box::new(Attribute::of(Base::Conditional(branches)))))
}

fn index(args: Vec<Node>, optional: bool) -> Planned {
    let (operand, index) = *pair(args)?;
    let mut attribute = into_attribute(operand);
    let key = match index {
        Node::Constant(
            value @ (Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)),
        ) => Key::Constant(value),
        Node::Constant(other) => {
            return Err(format!("invalid qualifier type: {}", other.implementation_name()));
        }
        other => Key::Computed(into_attribute(other)),
    };
    attribute.qualifiers.push(Qualifier { key, optional });
    Ok(Node::Attribute(Box::new(attribute)))
}

/// A call that changes an accumulator in place, or the arguments back.
fn in_place(name: &str, cost: CostRule, mut args: Vec<Node>) -> Result<Node, Vec<Node>> {
    let accumulator = match args.first() {
        Some(Node::Attribute(attribute)) if attribute.qualifiers.is_empty() => match attribute.base {
            Base::Local(number) => number,
            _ => return Err(args),
        },
        _ => return Err(args),
    };
    match (name, &args[1..]) {
        (operator::ADD, [Node::List(_)]) if cost == CostRule::AddList => match args.pop() {
            Some(Node::List(list)) => Ok(Node::Append(accumulator, list)),
            _ => Err(args),
        },
        (operator::MAP_INSERT, _) => {
            args.remove(0);
            Ok(Node::Insert(accumulator, args.into()))
        }
        _ => Err(args),
    }
}

/// The elements of a constant list, if they can be looked up.
fn constant_set(list: &List<'static>) -> Option<MapValues<'static>> {
    let List::Values(values) = list else { return None };
    let mut set = MapValues::default();
    for value in values.iter() {
        match value {
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_) => {
                set.put(value.clone(), Value::Null);
                // A double that is a whole number stands for the integers as well.
                for number in whole_numbers(value) {
                    set.put(number, Value::Null);
                }
            }
            _ => return None,
        }
    }
    Some(set)
}

/// The integers that a double is equal to.
fn whole_numbers(value: &Value<'_>) -> impl Iterator<Item = Value<'static>> {
    let number = match value {
        Value::Double(number) if number.trunc() == *number => Some(*number),
        _ => None,
    };
    let int = number.filter(|number| number.abs() < INT_END).map(|number| Value::Int(number as i64));
    let uint = number
        .filter(|number| (0.0..2.0 * INT_END).contains(number))
        .map(|number| Value::Uint(number as u64));
    int.into_iter().chain(uint)
}

/// The end of the range of integers.
const INT_END: f64 = 9_223_372_036_854_775_808.0;

fn in_constants(mut args: Vec<Node>, constants: MapValues<'static>) -> Planned {
    if constants.is_empty() {
        return Ok(Node::Constant(Value::Bool(false)));
    }
    Ok(Node::InConstants(Box::new((args.remove(0), constants))))
}

fn is_conversion(name: &str) -> bool {
    matches!(
        name,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

fn convert_constant(function: &'static Function, args: Vec<Node>) -> Planned {
    let values: Vec<Value<'static>> = args.iter().filter_map(as_constant).collect();
    match (function.operation)(&values) {
        Ok(value) => Ok(Node::Constant(value)),
        Err(failure) => Err(explain(function.name, function.mismatch, failure, &values).to_string()),
    }
}

/// Go's error for a key that it cannot hash.
pub(super) fn unhashable(key: &Value<'_>) -> Option<&'static str> {
    Some(match key {
        Value::Bytes(_) => "runtime error: hash of unhashable type types.Bytes",
        Value::Opaque(Opaque::Semver(_)) => "runtime error: hash of unhashable type cel.Semver",
        Value::Opaque(Opaque::Format(_)) => "runtime error: hash of unhashable type cel.Format",
        _ => return None,
    })
}

/// The error of a call that failed.
pub(super) fn explain(name: &str, mismatch: Mismatch, failure: Failure, args: &[Value<'_>]) -> EvalError {
    match (failure, mismatch) {
        // In cel-go, these types are receivers of such a call, and the error of a receiver names no function.
        (Failure::NoOperator, _)
            if matches!(args.first(), Some(Value::String(_) | Value::Timestamp(_) | Value::Duration(_))) =>
        {
            EvalError::no_such_overload()
        }
        (Failure::NoOperator, _) => EvalError::Failed(format!("no such overload: {name}").into()),
        (Failure::NoSuchOverload, Mismatch::Signature) => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            EvalError::Failed(format!("no such overload: {name}({})", types.join(", ")).into())
        }
        (failure, _) => failure.into(),
    }
}

/// The name that values have for a type.
fn runtime_name(named: &Type) -> &'static str {
    match named {
        Type::Bool => "bool",
        Type::Bytes => "bytes",
        Type::Double => "double",
        Type::Int => "int",
        Type::List(_) => "list",
        Type::Map(..) | Type::Object(_) => "map",
        Type::Null => "null_type",
        Type::String => "string",
        Type::Uint => "uint",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Duration => "google.protobuf.Duration",
        Type::Optional(_) => "optional_type",
        Type::Opaque(name) => name,
        _ => "type",
    }
}
