//! The least and the largest cost of an expression, from the bounds that its schema declares.
//!
//! The size of a value comes from the first of these that has one: the rule of the call that returns it, the
//! literal, the schema at the path by which the value was read, and the type. A path begins at the schema's root,
//! regardless of the variable that it begins with.

use super::CostEstimate;
use super::rule::{
    CALL_COST, COMPARISON_FACTOR, CostRule, FORMAT_REGEX_SIZE, FORMAT_SIZE, LIST_COST, MAP_COST,
    MESSAGE_COST, REGEX_FACTOR, SELECT_COST, TRAVERSAL_FACTOR,
};
use super::track::selector;
use crate::ast::{Call, Comprehension, Expr, Kind, ListLiteral, Literal, MapEntry, Select};
use crate::checker::{Reference, Typed};
use crate::schema::{Declared, Kind as DeclaredKind};
use crate::types::Type;

/// The least and the most characters, bytes or elements of a value.
type Size = CostEstimate;

/// The estimated cost of an expression. `sizes`: the schema that gives the sizes of every variable.
pub(crate) fn estimate(typed: &Typed, sizes: Option<&Declared>) -> CostEstimate {
    let nodes = typed.types.len();
    let mut estimator = Estimator {
        typed,
        root: sizes,
        sizes: vec![None; nodes],
        entries: vec![None; nodes],
        paths: vec![Path::None; nodes],
        locals: vec![None; typed.locals.len()],
    };
    estimator.cost(&typed.expr)
}

/// The place in the schema at which a value was read.
#[derive(Clone, Copy, Debug)]
enum Path<'e> {
    /// It was not read from a variable.
    None,
    At(&'e Declared),
    /// At the key of a map.
    Key,
    /// At a place that the schema does not declare.
    Unknown,
}

/// A step of a path.
enum Step<'s> {
    Field(&'s str),
    Values,
    Keys,
    Indices,
}

/// The sizes of the entries of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn union(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (first, second) = first.zip(second)?;
        Some(Self {
            is_list: first.is_list,
            key: first.key.union(second.key),
            value: first.value.union(second.value),
        })
    }
}

/// The path and the sizes of a loop variable or an accumulator, as far as they are known.
#[derive(Clone, Copy, Debug)]
struct Local<'e> {
    path: Path<'e>,
    size: Option<Size>,
    entries: Option<Entries>,
}

struct Estimator<'e> {
    typed: &'e Typed,
    root: Option<&'e Declared>,
    sizes: Vec<Option<Size>>,
    entries: Vec<Option<Entries>>,
    paths: Vec<Path<'e>>,
    locals: Vec<Option<Local<'e>>>,
}

/// A call's operands as cost rules see them: the receiver is among them.
struct Operands<'o> {
    exprs: Vec<&'o Expr>,
    costs: Vec<CostEstimate>,
}

impl<'e> Estimator<'e> {
    fn cost(&mut self, expr: &'e Expr) -> CostEstimate {
        match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) => CostEstimate::fixed(0),
            Kind::Ident(_) => {
                let path = match self.local(expr) {
                    Some(local) => local.path,
                    None => self.step(Path::None, &Step::Indices),
                };
                self.paths[expr.id as usize] = path;
                CostEstimate::fixed(SELECT_COST)
            }
            Kind::Select(select) => self.select(expr, select),
            Kind::Call(call) => self.call(expr, call),
            Kind::List(list) => self.list(expr, list),
            Kind::Map(entries) => self.map(expr, entries),
            Kind::Struct(message) => {
                let fields = message.fields.iter();
                let cost =
                    fields.fold(CostEstimate::fixed(0), |sum, field| sum.plus(self.cost(&field.value)));
                cost.plus(CostEstimate::fixed(MESSAGE_COST))
            }
            Kind::Comprehension(of) if of.is_bind() => self.bind(expr, of),
            Kind::Comprehension(of) => self.comprehension(expr, of),
        }
    }

    // Paths.

    fn local(&self, expr: &Expr) -> Option<Local<'e>> {
        match self.typed.reference(expr) {
            Some(Reference::Local(number)) => self.locals[*number],
            _ => None,
        }
    }

    fn path(&self, expr: &Expr) -> Path<'e> {
        match self.local(expr) {
            Some(local) => local.path,
            None => self.paths[expr.id as usize],
        }
    }

    /// The path with one step more. The first step leads to the root of the schema, whichever it is.
    fn step(&self, path: Path<'e>, step: &Step<'_>) -> Path<'e> {
        let at = match path {
            Path::None => return self.root.map_or(Path::Unknown, Path::At),
            Path::At(at) => at,
            Path::Key | Path::Unknown => return Path::Unknown,
        };
        let next = match (step, &at.kind) {
            (Step::Field(name), DeclaredKind::Object { fields }) => {
                fields.get(*name).map(|field| &*field.declared)
            }
            (Step::Values, DeclaredKind::List { items, .. }) => Some(&**items),
            (Step::Values, DeclaredKind::Map { values }) => Some(&**values),
            (Step::Keys, DeclaredKind::Map { .. }) => return Path::Key,
            _ => None,
        };
        next.map_or(Path::Unknown, Path::At)
    }

    /// The size that the schema declares for a path. It declares no lengths of keys, which count as 0.
    fn size_of_path(path: Path<'_>) -> Option<Size> {
        match path {
            Path::At(at) => Some(Size { min: 0, max: at.max_elements }),
            Path::Key => Some(Size::fixed(0)),
            Path::None | Path::Unknown => None,
        }
    }

    // Sizes.

    fn size(&mut self, expr: &Expr) -> Option<Size> {
        if let Some(size) = self.sizes[expr.id as usize] {
            return Some(size);
        }
        if let Some(size) = size_of_literal(expr) {
            return Some(size);
        }
        if let Some(size) = Self::size_of_path(self.path(expr)) {
            self.sizes[expr.id as usize] = Some(size);
            return Some(size);
        }
        if is_scalar(self.typed.type_of(expr)) {
            return Some(Size::fixed(1));
        }
        self.local(expr).and_then(|local| local.size)
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    fn entries(&self, expr: &Expr) -> Option<Entries> {
        match self.entries[expr.id as usize] {
            None => self.local(expr).and_then(|local| local.entries),
            found => found,
        }
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Size>) {
        if size.is_some() {
            self.sizes[expr.id as usize] = size;
        }
    }

    fn set_entries(&mut self, expr: &Expr, entries: Option<Entries>) {
        if entries.is_some() {
            self.entries[expr.id as usize] = entries;
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        self.set_entries(to, self.entries(from));
    }

    // Nodes.

    fn select(&mut self, expr: &'e Expr, select: &'e Select) -> CostEstimate {
        let mut cost = self.cost(&select.operand);
        if select.test_only {
            return cost;
        }
        if matches!(self.typed.type_of(&select.operand), Type::Map(..) | Type::Object(_)) {
            cost = cost.plus(CostEstimate::fixed(SELECT_COST));
        }
        let path = self.path(&select.operand);
        self.paths[expr.id as usize] = self.step(path, &Step::Field(&select.field));
        cost
    }

    fn list(&mut self, expr: &'e Expr, list: &'e ListLiteral) -> CostEstimate {
        let mut cost = CostEstimate::fixed(LIST_COST);
        let mut sizes = None;
        for element in &list.elements {
            cost = cost.plus(self.cost(element));
            let size = self.size_or_unknown(element);
            sizes = Some(sizes.map_or(size, |sizes: Size| sizes.union(size)));
        }
        let value = sizes.unwrap_or(Size::fixed(0));
        self.set_entries(expr, Some(Entries { is_list: true, key: Size::fixed(1), value }));
        cost
    }

    fn map(&mut self, expr: &'e Expr, entries: &'e [MapEntry]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(MAP_COST);
        let mut sizes: Option<(Size, Size)> = None;
        for entry in entries {
            cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
            let found = (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
            sizes = Some(sizes.map_or(found, |(key, value)| (key.union(found.0), value.union(found.1))));
        }
        let (key, value) = sizes.unwrap_or((Size::fixed(0), Size::fixed(0)));
        self.set_entries(expr, Some(Entries { is_list: false, key, value }));
        cost
    }

    fn call(&mut self, expr: &'e Expr, call: &'e Call) -> CostEstimate {
        if let ("dyn", [arg]) = (&*call.function, &call.args[..]) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.plus(CostEstimate::fixed(1));
        }
        let arg_costs: Vec<CostEstimate> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let Some(Reference::Function(_, overloads)) = self.typed.reference(expr) else {
            return CostEstimate::fixed(0);
        };
        let target_cost = match &call.target {
            Some(target) => self.cost(target),
            None => CostEstimate::fixed(0),
        };
        let operands = Operands {
            exprs: call.target.as_deref().into_iter().chain(&call.args).collect(),
            costs: arg_costs,
        };
        let mut cost: Option<CostEstimate> = None;
        let mut result = None;
        for overload in overloads {
            let (found, size) = self.rule(expr, overload.cost, &operands);
            cost = Some(cost.map_or(found, |cost| cost.union(found)));
            result = match (result, size) {
                (Some(result), Some(size)) => Some(Size::union(result, size)),
                (result, size) => result.or(size),
            };
            if matches!(overload.cost, CostRule::IndexList | CostRule::IndexMap) {
                let container = operands.exprs[0];
                result = self.entries(container).map(|entries| entries.value);
                let path = self.path(container);
                self.paths[expr.id as usize] = self.step(path, &Step::Values);
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        self.set_size(expr, result);
        target_cost.plus(cost.unwrap_or_default())
    }

    fn bind(&mut self, expr: &'e Expr, of: &'e Comprehension) -> CostEstimate {
        let mut cost = self.cost(&of.range).plus(self.cost(&of.init));
        self.declare_accumulator(expr, of);
        cost = cost.plus(self.cost(&of.result));
        self.copy_sizes(expr, &of.result);
        cost
    }

    fn declare_accumulator(&mut self, expr: &Expr, of: &'e Comprehension) {
        if let Some(Reference::Loop { accumulator, .. }) = self.typed.reference(expr) {
            let local = Local {
                path: self.path(&of.init),
                size: self.size(&of.init),
                entries: self.entries(&of.init),
            };
            self.locals[*accumulator] = Some(local);
        }
    }

    fn comprehension(&mut self, expr: &'e Expr, of: &'e Comprehension) -> CostEstimate {
        let mut cost = self.cost(&of.range).plus(self.cost(&of.init));
        self.declare_accumulator(expr, of);
        if let Some(Reference::Loop { variable, variable2, .. }) = self.typed.reference(expr) {
            self.declare_variables(&of.range, *variable, *variable2);
        }
        let condition = self.cost(&of.condition);
        let round = condition.plus(self.cost(&of.step));
        cost = cost.plus(self.cost(&of.result));
        let rounds = self.size_or_unknown(&of.range);
        cost = cost.plus(rounds.times(round));
        match &of.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&of.init);
                self.set_size(expr, size);
            }
            Kind::List(_) | Kind::Map(_) => {
                self.set_size(expr, Some(rounds));
                self.set_entries(expr, self.entries(&of.step));
            }
            _ => {}
        }
        cost
    }

    fn declare_variables(&mut self, range: &'e Expr, first: usize, second: Option<usize>) {
        let entries = self.entries(range);
        let is_list =
            entries.map_or(matches!(self.typed.type_of(range), Type::List(_)), |entries| entries.is_list);
        let path = self.path(range);
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        let (first_step, first_size) = match (second, is_list) {
            (Some(_), true) => (Step::Indices, key),
            (None, true) => (Step::Values, value),
            (_, false) => (Step::Keys, key),
        };
        let first_path = self.step(path, &first_step);
        self.locals[first] = Some(Local { path: first_path, size: first_size, entries: None });
        if let Some(second) = second {
            let path = self.step(path, &Step::Values);
            self.locals[second] = Some(Local { path, size: value, entries: None });
        }
    }

    // Rules.

    /// The cost of a call by a rule, with its arguments, and the size of its result.
    fn rule(&mut self, expr: &Expr, rule: CostRule, operands: &Operands<'_>) -> (CostEstimate, Option<Size>) {
        let costs = &operands.costs;
        let (cost, size) = match (rule, &costs[..]) {
            (CostRule::Logical, [left, right]) => {
                return (CostEstimate { min: left.min, max: left.plus(*right).max }, None);
            }
            (CostRule::Conditional, [condition, accepted, otherwise]) => {
                let [_, accepted_expr, otherwise_expr] = operands.exprs[..] else {
                    return (*condition, None);
                };
                let entries = Entries::union(self.entries(accepted_expr), self.entries(otherwise_expr));
                self.set_entries(expr, entries);
                let size = self.size_or_unknown(accepted_expr).union(self.size_or_unknown(otherwise_expr));
                return (condition.plus(accepted.union(*otherwise)), Some(size));
            }
            _ => self.call_rule(expr, rule, &operands.exprs),
        };
        let args = costs.iter().fold(CostEstimate::fixed(0), |sum, cost| sum.plus(*cost));
        (cost.plus(args), size)
    }

    fn call_rule(&mut self, expr: &Expr, rule: CostRule, exprs: &[&Expr]) -> (CostEstimate, Option<Size>) {
        let one = CostEstimate::fixed(1);
        let mut of = |index: usize| exprs.get(index).map_or(Size::UNKNOWN, |expr| self.size_or_unknown(expr));
        match rule {
            CostRule::Fixed(cost) => (CostEstimate::fixed(cost), None),
            CostRule::Logical | CostRule::Conditional | CostRule::IndexList | CostRule::IndexMap => {
                (one, None)
            }
            CostRule::Equals => (self.equality(exprs), None),
            CostRule::Compare => (comparison(of(0), of(1)), None),
            CostRule::InList => (of(1).by(1.0), None),
            CostRule::AddText => {
                let size = of(0).plus(of(1));
                self.add_entries(expr, exprs);
                (size.by(TRAVERSAL_FACTOR), Some(size))
            }
            CostRule::AddList => {
                let size = of(0).plus(of(1));
                self.add_entries(expr, exprs);
                (one, Some(size))
            }
            CostRule::StringToBytes => {
                let size = of(0);
                let bytes = Size { min: size.min, max: size.max.wrapping_mul(4) };
                (size.by(TRAVERSAL_FACTOR), Some(bytes))
            }
            CostRule::BytesToString => {
                let size = of(0);
                (size.by(TRAVERSAL_FACTOR), Some(Size { min: size.min / 4, max: size.max }))
            }
            CostRule::Quote => {
                let size = of(0);
                let quoted =
                    Size { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                (size.by(TRAVERSAL_FACTOR), Some(quoted))
            }
            CostRule::Format | CostRule::Parse => (of(0).by(TRAVERSAL_FACTOR), None),
            CostRule::Transform => {
                let size = of(0);
                (size.by(TRAVERSAL_FACTOR), Some(size))
            }
            CostRule::ParseTwice => (of(0).by(2.0 * TRAVERSAL_FACTOR), None),
            CostRule::Affix => (of(1).by(TRAVERSAL_FACTOR), None),
            CostRule::Contains => (of(0).by(TRAVERSAL_FACTOR).times(of(1).by(TRAVERSAL_FACTOR)), None),
            CostRule::Matches => (regex(of(0), of(1)), None),
            CostRule::Find => {
                let size = of(0);
                (regex(size, of(1)), Some(Size { min: 0, max: size.max }))
            }
            CostRule::Replace => {
                let size = of(0);
                let result = replaced(size, of(1), of(2));
                (size.by(2.0 * TRAVERSAL_FACTOR), Some(result))
            }
            CostRule::Split => {
                let size = of(0);
                let limit = exprs.get(2).and_then(|limit| int_literal(limit)).map(i64::cast_unsigned);
                (size.by(2.0 * TRAVERSAL_FACTOR), Some(Size { min: 0, max: limit.unwrap_or(size.max) }))
            }
            CostRule::Join => {
                let size = self.joined(exprs);
                (size.by(TRAVERSAL_FACTOR), Some(size))
            }
            CostRule::Scan => (self.scan(exprs), None),
            CostRule::ContainsIp { parses } => {
                let compared = Size { min: 8, max: 32 }.by(TRAVERSAL_FACTOR);
                (if parses { compared.plus(of(1).by(TRAVERSAL_FACTOR)) } else { compared }, None)
            }
            CostRule::ContainsCidr { parses } => {
                let compared = Size { min: 8, max: 32 }.by(TRAVERSAL_FACTOR);
                let masked = compared.plus(Size { min: 4, max: 16 }.by(TRAVERSAL_FACTOR)).plus(one);
                (if parses { masked.plus(of(1).by(TRAVERSAL_FACTOR)) } else { masked }, None)
            }
            CostRule::Validate => (of(1).by(TRAVERSAL_FACTOR).by(FORMAT_REGEX_SIZE * REGEX_FACTOR), None),
            CostRule::Selector => (selector(of(1)), None),
            CostRule::Sets(times) => {
                (of(0).times(of(1)).by(times as f64).plus(CostEstimate::fixed(CALL_COST)), None)
            }
            CostRule::Slice => {
                let start = exprs.get(1).map_or(0, |start| int_or(start, 0));
                let end = exprs.get(2).map_or(0, |end| int_or(end, of(0).max));
                list_call(1.0, Size::fixed(end.wrapping_sub(start)))
            }
            CostRule::Range => {
                list_call(1.0, Size::fixed(exprs.first().map_or(0, |end| int_or(end, u64::MAX))))
            }
            CostRule::Reverse => list_call(1.0, of(0)),
            CostRule::Flatten => {
                let depth = exprs.get(1).map_or(1, |depth| int_or(depth, u64::MAX));
                list_call(depth as f64, of(0))
            }
            CostRule::Distinct => self_comparison(of(0), false),
            CostRule::Sort { text } => self_comparison(of(0), text),
            CostRule::SortBy { text } => self_comparison(of(1), text),
        }
    }

    fn add_entries(&mut self, expr: &Expr, exprs: &[&Expr]) {
        if let [left, right] = exprs {
            let entries = Entries::union(self.entries(left), self.entries(right));
            self.set_entries(expr, entries);
        }
    }

    fn equality(&mut self, exprs: &[&Expr]) -> CostEstimate {
        let [left, right] = exprs else { return CostEstimate::fixed(1) };
        let of = self.typed.type_of(left);
        if of == self.typed.type_of(right)
            && let Type::Opaque(name) = of
        {
            match *name {
                "kubernetes.URL" => {
                    let max = self.size(right).map_or(1, |size| size.max);
                    return Size { min: 1, max }.by(TRAVERSAL_FACTOR);
                }
                "kubernetes.NamedFormat" => return Size { min: 1, max: FORMAT_SIZE }.by(TRAVERSAL_FACTOR),
                _ => return CostEstimate::fixed(1),
            }
        }
        comparison(self.size_or_unknown(left), self.size_or_unknown(right))
    }

    /// The size of the elements of a list, and whether they are traversed. `None`: it is no list.
    fn elements(&mut self, list: &Expr) -> Option<(Size, bool)> {
        let of = match self.typed.type_of(list) {
            Type::List(element) | Type::Optional(element) => element,
            Type::Map(key, _) => key,
            _ => return None,
        };
        let size = match self.path(list) {
            Path::None => None,
            path => Self::size_of_path(self.step(path, &Step::Values)),
        };
        Some((size.unwrap_or(Size::UNKNOWN), matches!(of.unwrapped(), Type::String | Type::Bytes)))
    }

    fn scan(&mut self, exprs: &[&Expr]) -> CostEstimate {
        let Some(target) = exprs.first() else { return CostEstimate::fixed(1) };
        let size = self.size_or_unknown(target);
        match self.elements(target) {
            None => size.by(TRAVERSAL_FACTOR),
            Some((element, is_text)) => {
                let each = if is_text { element.by(TRAVERSAL_FACTOR) } else { CostEstimate::fixed(0) };
                size.times(each.plus(CostEstimate::fixed(1)))
            }
        }
    }

    fn joined(&mut self, exprs: &[&Expr]) -> Size {
        let Some(list) = exprs.first() else { return Size::UNKNOWN };
        let count = self.size_or_unknown(list);
        let elements = self.elements(list).map_or(Size::fixed(0), |(element, _)| count.times(element));
        match exprs.get(1) {
            None => elements,
            Some(separator) => {
                let separators = Size { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
                elements.plus(self.size_or_unknown(separator).times(separators))
            }
        }
    }
}

fn size_of_literal(expr: &Expr) -> Option<Size> {
    let size = match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List(list) => list.elements.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Size::fixed(size as u64))
}

fn is_scalar(of: &Type) -> bool {
    match of.unwrapped() {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

fn int_literal(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        Kind::Literal(Literal::Int(number)) => Some(*number),
        _ => None,
    }
}

/// The value of an integer literal, negative ones as 0, or `otherwise` for any other expression.
fn int_or(expr: &Expr, otherwise: u64) -> u64 {
    int_literal(expr).map_or(otherwise, |number| u64::try_from(number).unwrap_or(0))
}

/// Comparing two values: as much as the smaller of them is traversed.
fn comparison(left: Size, right: Size) -> CostEstimate {
    let max = left.max.min(right.max);
    Size { min: u64::from(max > 0), max }.by(TRAVERSAL_FACTOR)
}

fn regex(text: Size, pattern: Size) -> CostEstimate {
    text.plus(Size::fixed(1)).by(TRAVERSAL_FACTOR).times(pattern.by(REGEX_FACTOR))
}

/// The size of a text in which one text was replaced by another.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    /// So many parts of this size fit into the text.
    fn parts(text: u64, part: u64) -> u64 {
        (text as f64 / part as f64).ceil() as u64
    }
    let (max_count, max_rest) = if old.min == 0 {
        // The new text comes around every character.
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (parts(text.max, old.min), 0)
    };
    let (min_count, min_rest) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (parts(text.min, old.max), 0)
    };
    Size { min: min_count, max: max_count }.times(new).plus(Size { min: min_rest, max: max_rest })
}

/// A call of the list library that makes a list.
fn list_call(factor: f64, size: Size) -> (CostEstimate, Option<Size>) {
    (size.by(factor).plus(CostEstimate::fixed(CALL_COST + LIST_COST)), Some(size))
}

fn self_comparison(size: Size, text: bool) -> (CostEstimate, Option<Size>) {
    let factor = if text { COMPARISON_FACTOR + TRAVERSAL_FACTOR } else { COMPARISON_FACTOR };
    list_call(factor, size.times(size))
}
