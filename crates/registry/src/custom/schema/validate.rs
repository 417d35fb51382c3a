//! Validation of values by their schemas.
//!
//! Kubernetes leaves this to a library for OpenAPI, so the rules have its quirks: a limit on numbers that are no integers
//! is cut for integers, a list passes where a string of some format is wanted, and so on. Texts and order are its own; where
//! it takes properties in no order, they come in the order of their names.
//!
//! Nothing is allocated for a value that is fine.

use std::collections::HashSet;

use keepwatch_apimachinery::{go::Quoted, status::Cause};
use serde_json::{Map, Number, Value};

use super::{
    format::Format,
    node::{Additional, Checks, Node, Part, Schema, Type},
    path::Path,
    ratchet::Old,
    shown,
};

mod junctions;
mod number;

/// The largest number of errors that are found in one object. Kubernetes finds all, but reports no more.
const FAULTS_MAX: usize = 1000;
/// The number of bytes of their texts after which no more are looked for. An error of an enum lists all its values.
const FAULT_BYTES_MAX: usize = 256 << 10;

impl Schema {
    /// The errors of the values, except for the metadata of the object itself. In an update, unchanged values have
    /// none.
    pub(crate) fn check_values(&self, new: &Value, old: Option<&Value>, part: Part) -> Vec<Cause> {
        let root = self.root();
        match part {
            Part::Whole => check(root, new, Old::at_root(root, old), None, Use::Object),
            Part::Status => {
                let (Some(node), Some(status)) = (root.property("status"), new.get("status")) else {
                    return Vec::new();
                };
                let old = old.and_then(|old| old.get("status"));
                check(node, status, Old::at_root(node, old), Some("status"), Use::Object)
            }
        }
    }
}

/// The use of a value that is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// To be stored in an object.
    Object,
    /// To be a default in a definition, where formats that are not known count too.
    Default,
}

/// The errors of a value; `prefix` is its path.
pub(super) fn check(
    node: &Node,
    value: &Value,
    old: Old<'_>,
    prefix: Option<&str>,
    purpose: Use,
) -> Vec<Cause> {
    let mut check = Check { faults: Faults::default(), prefix, purpose };
    check.value(node, value, &Path::Root, old);
    check.faults.list.into_iter().map(|fault| fault.cause).collect()
}

/// An error, and the text by which duplicates are recognised.
struct Fault {
    text: String,
    cause: Cause,
}

/// Each error once, in the order in which they were found.
#[derive(Default)]
struct Faults {
    list: Vec<Fault>,
    /// The bytes of all their texts.
    bytes: usize,
    /// The texts of a longer list.
    texts: HashSet<String>,
}

/// The largest number of errors that are compared one by one.
const COMPARED_MAX: usize = 16;

impl Faults {
    fn is_full(&self) -> bool {
        self.list.len() >= FAULTS_MAX || self.bytes >= FAULT_BYTES_MAX
    }

    fn push(&mut self, fault: Fault) {
        if self.is_full() || self.has(&fault.text) {
            return;
        }
        if self.list.len() > COMPARED_MAX {
            self.texts.insert(fault.text.clone());
        }
        self.bytes += fault.text.len();
        self.list.push(fault);
    }

    fn has(&self, text: &str) -> bool {
        self.list.iter().take(COMPARED_MAX + 1).any(|fault| fault.text == text) || self.texts.contains(text)
    }

    fn truncate(&mut self, length: usize) {
        for dropped in self.list.drain(length..) {
            self.texts.remove(&dropped.text);
            self.bytes -= dropped.text.len();
        }
    }
}

struct Check<'a> {
    faults: Faults,
    prefix: Option<&'a str>,
    purpose: Use,
}

/// The number of rules that a value satisfied. If it matches none of several schemas, the errors of the closest one are
/// reported.
type Matches = u32;

impl Check<'_> {
    /// The field of an error: the prefix and the path from there.
    fn field(&self, path: &Path<'_>) -> String {
        let name = path.to_string();
        let name = name.strip_prefix('.').unwrap_or(&name);
        match (self.prefix, name) {
            (None, "") => "<nil>".to_owned(),
            (None, name) => name.to_owned(),
            (Some(prefix), "") => prefix.to_owned(),
            (Some(prefix), name) => format!("{prefix}.{name}"),
        }
    }

    fn invalid(&mut self, path: &Path<'_>, value: &Value, detail: &str) {
        let text = format!("{path} in body {detail}");
        let cause = shown::invalid(self.field(path), value, &text);
        self.faults.push(Fault { text, cause });
    }

    /// An error of the whole object, which the library reports without a path.
    fn of_whole(&mut self, text: String) {
        let cause = shown::invalid(self.prefix.unwrap_or("<nil>"), &Value::String(String::new()), &text);
        self.faults.push(Fault { text, cause });
    }

    fn type_invalid(&mut self, path: &Path<'_>, wanted: &str, found: &str) {
        let found = Quoted(found);
        let text = format!("{path} in body must be of type {wanted}: {found}");
        let cause =
            Cause::new("FieldValueTypeInvalid", format!("Invalid value: {found}: {text}"), self.field(path));
        self.faults.push(Fault { text, cause });
    }

    fn value(&mut self, node: &Node, value: &Value, path: &Path<'_>, old: Old<'_>) -> Matches {
        if self.faults.is_full() {
            return 0;
        }
        let found = self.faults.list.len();
        let matches =
            if value.is_null() { self.null(node, path) } else { self.present(node, value, path, old) };
        if self.faults.list.len() > found && old.is_same(value) {
            self.faults.truncate(found);
        }
        matches
    }

    fn null(&mut self, node: &Node, path: &Path<'_>) -> Matches {
        let matches = match self.types(node) {
            Types(&[]) => 1,
            _ if node.nullable => 1,
            types => {
                self.type_invalid(path, types.name(), "null");
                0
            }
        };
        if let Some(checks) = &node.checks {
            self.enumeration(checks, &Value::Null, path);
        }
        matches
    }

    fn present(&mut self, node: &Node, value: &Value, path: &Path<'_>, old: Old<'_>) -> Matches {
        let mut matches = self.ty(node, value, path);
        let checks = node.checks.as_deref();
        if let Some(junctions) = checks.and_then(|checks| checks.junctions.as_deref()) {
            matches += self.junctions(junctions, value, path);
        }
        // For the schemas beside this one, even if there are none, and for the rules of all values.
        matches += 4;
        match value {
            Value::String(text) => {
                matches += 1;
                if let Some(checks) = checks {
                    matches += self.string(checks, text, path);
                }
            }
            Value::Number(number) => {
                matches += 2;
                self.number(node, number, path);
            }
            Value::Array(items) => {
                matches += 2;
                matches += self.items(node, items, path, old);
            }
            _ => {}
        }
        if let Some(checks) = checks {
            self.enumeration(checks, value, path);
        }
        if let Value::Object(fields) = value {
            matches += 1;
            matches += self.object(node, fields, path, old);
        }
        matches
    }

    /// The types that a value is checked for.
    fn types(&self, node: &Node) -> Types {
        match node.ty {
            _ if node.int_or_string && self.purpose == Use::Object => Types(&[Type::Integer, Type::String]),
            Type::Unset => Types(&[]),
            Type::Object => Types(&[Type::Object]),
            Type::Array => Types(&[Type::Array]),
            Type::String => Types(&[Type::String]),
            Type::Integer => Types(&[Type::Integer]),
            Type::Number => Types(&[Type::Number]),
            Type::Boolean => Types(&[Type::Boolean]),
        }
    }

    /// The name of the format that counts here, if there is one.
    fn format<'n>(&self, node: &'n Node) -> Option<&'n str> {
        let format = node.checks.as_ref()?.format.as_ref()?;
        (format.is_supported || self.purpose == Use::Default).then_some(&*format.name)
    }

    fn ty(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> Matches {
        let (types, format) = (self.types(node), self.format(node));
        if types.0.is_empty() && format.is_none() {
            return 0;
        }
        let (found, width) = type_of(value);
        let fits = types.0.contains(&found)
            || match (found, value) {
                (Type::Integer, _) => types.0.contains(&Type::Number),
                (Type::Number, Value::Number(number)) => {
                    types.0.contains(&Type::Integer) && number.as_f64().is_some_and(number::is_whole)
                }
                _ => false,
            };
        let is_textual = matches!(value, Value::String(_) | Value::Array(_));
        let numeric = types.0.iter().any(|ty| matches!(ty, Type::Number | Type::Integer));
        match format {
            Some(format) if !is_textual && !fits && width != format => {
                self.type_invalid(path, format, width);
                1
            }
            // The format of a string is checked elsewhere. A list passes, as in the library.
            Some(_) if is_textual && !numeric => 2,
            _ if fits => 2,
            _ => {
                self.type_invalid(path, types.name(), name_of(found));
                1
            }
        }
    }

    fn string(&mut self, checks: &Checks, text: &str, path: &Path<'_>) -> Matches {
        self.length_and_pattern(checks, text, path);
        let is_asked = |format: &&Format| {
            format.kind.is_of_strings() && (format.is_supported || self.purpose == Use::Default)
        };
        let Some(format) = checks.format.as_ref().filter(is_asked) else { return 0 };
        if !format.kind.matches(text) {
            self.type_invalid(path, &format.name, text);
        }
        1
    }

    /// Only the first of these errors is reported.
    fn length_and_pattern(&mut self, checks: &Checks, text: &str, path: &Path<'_>) {
        if checks.max_length.is_some() || checks.min_length.is_some() {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            if let Some(most) = checks.max_length.filter(|most| length > *most) {
                let detail = match most {
                    1 => "may not be more than 1 byte".to_owned(),
                    0.. => format!("may not be more than {most} bytes"),
                    _ => "value is too long".to_owned(),
                };
                let text = format!("{path} in body should be at most {most} chars long");
                let cause = Cause::new("FieldValueTooLong", format!("Too long: {detail}"), self.field(path));
                self.faults.push(Fault { text, cause });
                return;
            }
            if let Some(least) = checks.min_length.filter(|least| length < *least) {
                self.invalid(path, &text.into(), &format!("should be at least {least} chars long"));
                return;
            }
        }
        let Some(pattern) = &checks.pattern else { return };
        match pattern.matches(text) {
            Ok(true) => {}
            Ok(false) => self.invalid(path, &text.into(), &format!("should match '{}'", pattern.text())),
            Err(why) => {
                let detail = format!("should match '{}, but pattern is invalid: {why}'", pattern.text());
                self.invalid(path, &text.into(), &detail);
            }
        }
    }

    fn number(&mut self, node: &Node, number: &Number, path: &Path<'_>) {
        let ty = match self.types(node) {
            Types(&[ty]) => ty,
            _ => Type::Unset,
        };
        let checks = node.checks.as_deref();
        if checks.is_none() && ty != Type::Integer {
            return;
        }
        let format = match (ty, self.format(node)) {
            (Type::Integer, Some(format @ ("int32" | "int64")))
            | (Type::Number, Some(format @ ("float" | "double"))) => format,
            _ => "",
        };
        for fault in number::faults(number, ty, format, checks) {
            match fault {
                number::Fault::Range(what) => self.of_whole(format!("{what} in {path}")),
                number::Fault::Rule(number, detail) => self.invalid(path, &number, &detail),
                number::Fault::Factor(factor) => {
                    let shown = shown::number_shown(&factor);
                    let text = format!("factor MultipleOf declared for {path} must be positive: {shown}");
                    let cause = shown::invalid(self.field(path), &Value::Number(factor), &text);
                    self.faults.push(Fault { text, cause });
                }
            }
        }
    }

    fn items(&mut self, node: &Node, items: &[Value], path: &Path<'_>, old: Old<'_>) -> Matches {
        let mut matches = 0;
        if let Some(schema) = node.items.as_deref() {
            let old = old.items(node, items);
            for (at, item) in items.iter().enumerate() {
                matches += self.value(schema, item, &Path::Item(path, at), old.at(schema, at, item));
            }
        }
        let Some(checks) = &node.checks else { return matches };
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(least) = checks.min_items.filter(|least| count < *least) {
            self.invalid(path, &count.into(), &format!("should have at least {least} items"));
        }
        if let Some(most) = checks.max_items.filter(|most| count > *most) {
            self.too_many(path, count, most, "items");
        }
        matches
    }

    fn too_many(&mut self, path: &Path<'_>, count: i64, most: i64, what: &str) {
        let detail = match most {
            1 => "must have at most 1 item".to_owned(),
            0.. => format!("must have at most {most} items"),
            _ => "has too many items".to_owned(),
        };
        let text = format!("{path} in body should have at most {most} {what}");
        let cause = Cause::new("FieldValueTooMany", format!("Too many: {count}: {detail}"), self.field(path));
        self.faults.push(Fault { text, cause });
    }

    fn enumeration(&mut self, checks: &Checks, value: &Value, path: &Path<'_>) {
        let allowed = &checks.enumeration;
        if allowed.is_empty() || allowed.iter().any(|allowed| number::is_same_as(value, allowed)) {
            return;
        }
        let names = allowed.iter().map(|allowed| match allowed {
            Value::String(text) => Quoted(text).to_string(),
            other => Quoted(&shown::json(other)).to_string(),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let text = format!("{path} in body should be one of [{names}]");
        let message = format!("Unsupported value: {}: supported values: {names}", shown::shown(value));
        let cause = Cause::new("FieldValueNotSupported", message, self.field(path));
        self.faults.push(Fault { text, cause });
    }

    fn object(&mut self, node: &Node, fields: &Map<String, Value>, path: &Path<'_>, old: Old<'_>) -> Matches {
        let checks = node.checks.as_deref();
        if let Some(checks) = checks {
            self.property_counts(checks, fields, path);
        }
        let mut matches = 0;
        let is_new = |name: &str| node.property(name).is_none();
        match &node.additional {
            Additional::Allowed(false) => {
                for name in fields.keys().filter(|name| is_new(name)) {
                    let text = format!("{path}.{name} in body is a forbidden property");
                    let cause = shown::invalid(self.field(path), &name.as_str().into(), &text);
                    self.faults.push(Fault { text, cause });
                }
            }
            Additional::Schema(schema) => {
                for (name, value) in fields.iter().filter(|(name, _)| is_new(name)) {
                    let old = old.field(name);
                    matches += self.value(schema, value, &Path::Entry(path, name), old.of(schema));
                }
            }
            Additional::Unset | Additional::Allowed(true) => {}
        }
        if !node.properties.is_empty() {
            for (name, value) in fields {
                let Some(schema) = node.property(name) else { continue };
                // The type of an object has no old value, because the old object may be read from another version.
                let is_type_meta = path.is_root() && matches!(name.as_str(), "kind" | "apiVersion");
                let old = if is_type_meta { Old::default() } else { old.field(name).of(schema) };
                matches += self.value(schema, value, &Path::Field(path, name), old);
            }
        }
        for name in checks.map_or(&[][..], |checks| &checks.required) {
            if !fields.contains_key(&**name) {
                let path = &Path::Entry(path, name);
                let text = format!("{path} in body is required");
                let cause = Cause::required(self.field(path), "");
                self.faults.push(Fault { text, cause });
            }
        }
        matches
    }

    fn property_counts(&mut self, checks: &Checks, fields: &Map<String, Value>, path: &Path<'_>) {
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(least) = checks.min_properties.filter(|least| count < *least) {
            self.invalid(path, &count.into(), &format!("should have at least {least} properties"));
        }
        if let Some(most) = checks.max_properties.filter(|most| count > *most) {
            self.too_many(path, count, most, "properties");
        }
    }
}

/// The types that a value may have; any if there are none.
#[derive(Clone, Copy)]
struct Types(&'static [Type]);

impl Types {
    fn name(self) -> &'static str {
        match self.0 {
            [Type::Integer, Type::String] => "integer,string",
            [ty, ..] => name_of(*ty),
            [] => "",
        }
    }
}

fn name_of(ty: Type) -> &'static str {
    match ty {
        Type::Unset => "",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}

/// The type of a value, and how wide Go reads it if it is a number.
fn type_of(value: &Value) -> (Type, &'static str) {
    match value {
        Value::Null => (Type::Unset, ""),
        Value::Bool(_) => (Type::Boolean, ""),
        Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
    }
}

/// The type by its name in a schema.
pub(crate) fn type_name(ty: Type) -> &'static str {
    name_of(ty)
}

/// Whether an error makes rules meaningless: a value that is missing, too long, or of another type.
pub(crate) fn blocks_rules(cause: &Cause) -> bool {
    let blocking = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    blocking.contains(&cause.reason.as_str())
}

impl Schema {
    /// Whether there are rules to be evaluated. If `causes` has errors that make them meaningless, one more cause is
    /// added.
    pub(crate) fn may_evaluate_rules(&self, causes: &mut Vec<Cause>) -> bool {
        if !self.has_rules() {
            return false;
        }
        if causes.iter().any(blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
                to complete validation";
            causes.push(shown::invalid("<nil>", &Value::Null, why));
            return false;
        }
        true
    }
}
