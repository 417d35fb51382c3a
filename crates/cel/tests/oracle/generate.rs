//! Random expressions over a schema: mostly of the right type, sometimes not.

use rand::prelude::*;
use serde_json::Value as Json;

use super::process::Question;
use super::templates::TEMPLATES;
use super::types::{Binding, Type, pick};
use super::{schemas, texts};

/// The largest depth of an expression.
const DEPTH_MAX: u32 = 4;
/// The largest number of fields and elements in a path.
const PATH_DEPTH_MAX: u32 = 4;

/// An expression: text, and parts that are expressions themselves.
#[derive(Clone, Debug)]
pub(crate) struct Expression(pub(crate) Vec<Piece>);

/// A piece of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Part(Expression),
}

impl Expression {
    fn text(text: impl Into<String>) -> Expression {
        Expression(vec![Piece::Text(text.into())])
    }

    pub(crate) fn source(&self) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Part(part) => part.source(),
            })
            .collect()
    }
}

/// One question with a schema, documents, and an expression.
pub(crate) fn question(random: &mut StdRng) -> (Question, Expression) {
    let resource_root = random.random_bool(0.1);
    let schema = if resource_root { resource(random) } else { schemas::schema(random, 3) };
    // The order of a map's entries is random, so either maps are small or nothing iterates over them.
    let maps_are_large = random.random_bool(0.3);
    let entries_max = if maps_are_large { 4 } else { 1 };
    let mut new = schemas::document(&schema, entries_max, random);
    if new.is_null() {
        // Rules do not run for null.
        new = schemas::document(&without_null(&schema), entries_max, random);
    }
    if resource_root {
        new["apiVersion"] = "example.com/v1".into();
        new["kind"] = "Thing".into();
        new["metadata"] = serde_json::json!({ "name": "thing", "labels": { "a": "b" } });
    }
    let old = random.random_bool(0.4).then(|| schemas::changed(&new, random));
    let optional_old_self = random.random_bool(0.2);
    let mut generator = Generator { random, paths: Vec::new(), locals: Vec::new(), maps_are_large };
    if let Some(root) = schemas::value_type(&schema, "") {
        generator.add_paths("self", &schema, &root, PATH_DEPTH_MAX);
        if optional_old_self {
            generator.paths.push(("oldSelf".to_owned(), Type::Optional(Box::new(root))));
        } else if old.is_some() {
            generator.add_paths("oldSelf", &schema, &root, 1);
        }
    }
    let wanted = Type::any(generator.random);
    let depth = generator.random.random_range(1..=DEPTH_MAX);
    let expression = generator.expression(&wanted, depth);
    let source = expression.source();
    (Question { expression: source, schema, new, old, optional_old_self, resource_root }, expression)
}

fn resource(random: &mut StdRng) -> Json {
    let mut schema = serde_json::json!({ "type": "object", "properties": {} });
    schema["properties"]["spec"] = schemas::object(random, 2);
    if random.random_bool(0.5) {
        schema["properties"]["metadata"] = serde_json::json!({ "type": "object" });
    }
    schema
}

fn without_null(schema: &Json) -> Json {
    let mut schema = schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("nullable");
    }
    schema
}

struct Generator<'r> {
    random: &'r mut StdRng,
    /// Expressions that read a document, with their types.
    paths: Vec<(String, Type)>,
    /// Variables of the macros around.
    locals: Vec<(String, Type)>,
    maps_are_large: bool,
}

impl Generator<'_> {
    /// Adds a path and the paths below it.
    fn add_paths(&mut self, path: &str, schema: &Json, path_type: &Type, depth: u32) {
        self.paths.push((path.to_owned(), path_type.clone()));
        if depth == 0 {
            return;
        }
        match path_type {
            Type::Object(place) => {
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let Some(name_of_field) = keepwatch_cel::schema::escape(name) else { continue };
                    let Some(field_type) = schemas::value_type(property, &format!("{place}/{name}")) else {
                        continue;
                    };
                    let dot = if self.random.random_bool(0.1) { ".?" } else { "." };
                    let field_type =
                        if dot == ".?" { Type::Optional(Box::new(field_type)) } else { field_type };
                    self.add_paths(&format!("{path}{dot}{name_of_field}"), property, &field_type, depth - 1);
                    self.paths.push((format!("has({path}.{name_of_field})"), Type::Bool));
                }
            }
            Type::List(element) => {
                let element = (**element).clone();
                self.add_paths(&format!("{path}[0]"), &schema["items"], &element, depth - 1);
                self.paths.push((format!("{path}[?1]"), Type::Optional(Box::new(element))));
            }
            Type::Map(_, value) => {
                let value = (**value).clone();
                let key = pick(&["['a']", "['a-b']", ".a", ".b"], self.random);
                self.add_paths(&format!("{path}{key}"), &schema["additionalProperties"], &value, depth - 1);
                self.paths.push((format!("{path}[?'k']"), Type::Optional(Box::new(value))));
            }
            _ => {}
        }
    }

    /// An expression of this type, most of the time.
    fn expression(&mut self, wanted: &Type, depth: u32) -> Expression {
        if self.random.random_bool(0.01) {
            let other = Type::any(self.random);
            return self.well_typed(&other, depth);
        }
        if self.random.random_bool(0.003) {
            return Expression::text(pick(
                &["nope", "self.nope", "foo(1)", "math.abs(1)", "1 +", "for", "'a", "a.b.c"],
                self.random,
            ));
        }
        self.well_typed(wanted, depth)
    }

    fn well_typed(&mut self, wanted: &Type, depth: u32) -> Expression {
        let known: Vec<&(String, Type)> =
            self.paths.iter().chain(&self.locals).filter(|(_, known)| known == wanted).collect();
        if !known.is_empty() && self.random.random_bool(if depth == 0 { 0.7 } else { 0.35 }) {
            // Local variables are more interesting than the root's fields.
            let local = self.locals.iter().rev().find(|(_, known)| known == wanted);
            let chosen = match local {
                Some(local) if self.random.random_bool(0.6) => local,
                _ => known.choose(self.random).expect("there are some"),
            };
            return Expression::text(chosen.0.clone());
        }
        if let Type::Special(letter) = wanted {
            return self.special(*letter, depth);
        }
        if depth == 0 || self.random.random_bool(0.15) {
            return self.literal(wanted, depth);
        }
        self.call(wanted, depth).unwrap_or_else(|| self.literal(wanted, depth))
    }

    /// Text that means something, or any text.
    fn special(&mut self, letter: char, depth: u32) -> Expression {
        match texts::special(letter) {
            // A server runs out of memory when it makes a list of any number of elements.
            None if letter == 'h' => Expression::text(texts::small_int(self.random)),
            Some(words) if self.random.random_bool(0.85) => {
                let text = pick(words, self.random);
                Expression::text(texts::quoted(text, self.random))
            }
            Some(_) => self.expression(&Type::String, depth.saturating_sub(1)),
            None if self.random.random_bool(0.85) => Expression::text(texts::small_int(self.random)),
            None => self.expression(&Type::Int, depth.saturating_sub(1)),
        }
    }

    fn literal(&mut self, wanted: &Type, depth: u32) -> Expression {
        let call = |function: &str, letter: char, random: &mut StdRng| {
            let text = pick(texts::special(letter).unwrap_or(&["1"]), random);
            Expression::text(format!("{function}({})", texts::quoted(text, random)))
        };
        let random = &mut *self.random;
        match wanted {
            Type::Bool => Expression::text(pick(&["true", "false"], random)),
            Type::Int => Expression::text(texts::int(random)),
            Type::Uint => Expression::text(texts::uint(random)),
            Type::Double => Expression::text(texts::double(random)),
            Type::String => Expression::text(texts::string(random)),
            Type::Bytes => Expression::text(texts::bytes(random)),
            Type::Null => Expression::text("null"),
            Type::Timestamp => call("timestamp", 'Z', random),
            Type::Duration => call("duration", 'R', random),
            Type::Ip => call("ip", 'I', random),
            Type::Cidr => call("cidr", 'K', random),
            Type::Url => call("url", 'U', random),
            Type::Quantity => call("quantity", 'Q', random),
            Type::Semver => call("semver", 'V', random),
            Type::Format => Expression::text("format.uuid()"),
            Type::Dyn => {
                let inner =
                    if random.random_bool(0.6) { Type::comparable(random) } else { Type::any(random) };
                self.wrapped("dyn(", &inner, ")", depth)
            }
            Type::Optional(inner) => self.wrapped("optional.of(", inner, ")", depth),
            Type::List(element) => {
                let count = random.random_range(0..4);
                let mut pieces = vec![Piece::Text("[".to_owned())];
                for index in 0..count {
                    if index > 0 {
                        pieces.push(Piece::Text(", ".to_owned()));
                    }
                    pieces.push(Piece::Part(self.expression(element, depth.saturating_sub(1))));
                }
                pieces.push(Piece::Text("]".to_owned()));
                Expression(pieces)
            }
            Type::Map(key, value) => {
                let mut pieces = vec![Piece::Text("{".to_owned())];
                if random.random_bool(0.8) {
                    let key = if **key == Type::String && random.random_bool(0.8) {
                        Expression::text("'a'")
                    } else {
                        self.expression(key, 0)
                    };
                    pieces.push(Piece::Part(key));
                    pieces.push(Piece::Text(": ".to_owned()));
                    pieces.push(Piece::Part(self.expression(value, depth.saturating_sub(1))));
                }
                pieces.push(Piece::Text("}".to_owned()));
                Expression(pieces)
            }
            Type::Object(_) => Expression::text("self"),
            Type::Special(letter) => self.special(*letter, 0),
        }
    }

    fn wrapped(&mut self, before: &str, inner: &Type, after: &str, depth: u32) -> Expression {
        let part = self.expression(inner, depth.saturating_sub(1));
        Expression(vec![Piece::Text(before.to_owned()), Piece::Part(part), Piece::Text(after.to_owned())])
    }

    /// Two parts of the documents that have the same type, compared as a whole.
    fn comparison(&mut self) -> Option<Expression> {
        let is_large = |known: &Type| matches!(known, Type::Object(_) | Type::List(_) | Type::Map(..));
        let (left, known) = self.paths.iter().filter(|(_, known)| is_large(known)).choose(self.random)?;
        let same = self.paths.iter().filter(|(_, other)| other == known);
        let (right, _) = same.choose(self.random)?;
        let forms: &[&str] = match known {
            Type::List(_) => &["==", "!=", "+", "=="],
            _ => &["==", "!="],
        };
        let operator = forms.choose(self.random)?;
        Some(Expression::text(match *operator {
            "+" => format!("({left} + {right}) == {left}"),
            operator => format!("{left} {operator} {right}"),
        }))
    }

    /// A function, operator or macro that returns this type.
    fn call(&mut self, wanted: &Type, depth: u32) -> Option<Expression> {
        if *wanted == Type::Bool
            && self.random.random_bool(0.1)
            && let Some(comparison) = self.comparison()
        {
            return Some(comparison);
        }
        let fitting: Vec<(&str, Binding)> = TEMPLATES
            .iter()
            .filter(|(_, template)| {
                !(self.maps_are_large && template.starts_with("‹M") && template.contains(":"))
            })
            .filter_map(|(result, template)| Some((*template, wanted.matches(result)?)))
            .collect();
        let (template, binding) = fitting.choose(self.random)?.clone();
        Some(self.fill(template, binding, depth))
    }

    fn fill(&mut self, template: &str, mut binding: Binding, depth: u32) -> Expression {
        let locals = self.locals.len();
        let mut pieces = Vec::new();
        let mut rest = template;
        // Parts of an operator, and receivers, are set apart by parentheses.
        let is_call = |before: &str, after: &str| {
            let opened =
                before.is_empty() || before.ends_with(['(', '[', '{', '?']) || before.ends_with(", ");
            opened && (after.starts_with([')', ',', ']', '}']) || after.is_empty())
        };
        let mut names: Vec<String> = Vec::new();
        while let Some(start) = rest.find('‹') {
            let end = rest.find('›').expect("holes are closed");
            let (before, hole, after) =
                (&rest[..start], &rest[start + '‹'.len_utf8()..end], &rest[end + '›'.len_utf8()..]);
            pieces.push(Piece::Text(before.to_owned()));
            match hole.split_once(':') {
                Some((_, code)) => {
                    let name = format!("v{}", self.locals.len());
                    let variable = Type::parse(code, &mut binding, self.random);
                    pieces.push(Piece::Text(name.clone()));
                    names.push(name.clone());
                    self.locals.push((name, variable));
                }
                None => {
                    // Inner types may differ from the element type of the range.
                    let wanted = if names.is_empty() || hole != "C" {
                        Type::parse(hole, &mut binding, self.random)
                    } else {
                        Type::comparable(self.random)
                    };
                    let part = self.expression(&wanted, depth - 1);
                    let source = part.source();
                    let simple = source.chars().all(|c| c.is_ascii_alphanumeric() || "_.[]'".contains(c))
                        && !source.starts_with('-');
                    if simple || is_call(before, after) || self.random.random_bool(0.05) {
                        pieces.push(Piece::Part(part));
                    } else {
                        pieces.push(Piece::Text("(".to_owned()));
                        pieces.push(Piece::Part(part));
                        pieces.push(Piece::Text(")".to_owned()));
                    }
                }
            }
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        self.locals.truncate(locals);
        Expression(pieces)
    }
}
