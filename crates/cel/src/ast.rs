//! Expressions as trees.
//!
//! Every node has a number of its own. Types, references and positions are kept beside the tree, by number.

use std::sync::Arc;

/// The number of a node.
pub(crate) type Id = u32;

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

/// The kind of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Something that did not parse; its error is reported.
    Unspecified,
    Literal(Literal),
    Ident(Arc<str>),
    Select(Select),
    Call(Call),
    List(ListLiteral),
    Map(Vec<MapEntry>),
    Struct(StructLiteral),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// `operand.field`, or `has(operand.field)`.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Box<Expr>,
    pub(crate) field: Arc<str>,
    pub(crate) test_only: bool,
}

/// `function(args)` or `target.function(args)`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Box<Expr>>,
    pub(crate) args: Vec<Expr>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ListLiteral {
    pub(crate) elements: Vec<Expr>,
    /// For each of `elements`, whether it is `?element`.
    pub(crate) optional: Vec<bool>,
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// `Name{field: value}`.
#[derive(Clone, Debug)]
pub(crate) struct StructLiteral {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Vec<StructField>,
}

#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub(crate) id: Id,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop: the expansion of a macro.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    /// The element of a list or the key of a map; with two variables, the index or the key.
    pub(crate) variable: Arc<str>,
    /// The element or value.
    pub(crate) variable2: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Comprehension {
    /// Whether the loop never runs and only gives the accumulator a value: `optMap`, `optFlatMap`, `sortBy`.
    pub(crate) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, Kind::List(list) if list.elements.is_empty())
            && matches!(self.condition.kind, Kind::Literal(Literal::Bool(false)))
            && &*self.accumulator != ACCUMULATOR_IN_SOURCE
    }
}

/// The accumulator of the macros; no identifier in an expression can have this name.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The accumulator's name of earlier versions, which loop variables must not have.
pub(crate) const ACCUMULATOR_IN_SOURCE: &str = "__result__";

/// Names of operators' functions, as error messages print them.
pub(crate) mod operator {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const LOGICAL_AND: &str = "_&&_";
    pub(crate) const LOGICAL_OR: &str = "_||_";
    pub(crate) const LOGICAL_NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPTIONAL_INDEX: &str = "_[?_]";
    pub(crate) const OPTIONAL_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
}

impl Expr {
    /// The dotted name that the expression spells, if it is one: `a.b.c`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select(select) if !select.test_only => {
                let mut name = select.operand.qualified_name()?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }
}
