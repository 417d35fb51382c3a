//! The outcomes of an expression, here and in the oracle, and their differences.

use keepwatch_cel::env::CompileError;
use keepwatch_cel::library::leaf;
use keepwatch_cel::rules;
use keepwatch_cel::schema::{Declared, Kind};
use keepwatch_cel::value::{List, Map, Object, Value};
use serde_json::Value as Json;

use super::process::Question;

/// The outcome of an expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// It does not compile.
    pub(crate) issues: Option<String>,
    pub(crate) static_type: Option<String>,
    pub(crate) estimate: Option<String>,
    /// A constant part has no value.
    pub(crate) program_error: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) value: Option<Shown>,
    pub(crate) cost: Option<u64>,
}

/// A value as the oracle prints it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    Text(String),
    /// The oracle prints Go's representation of the value; only its beginning is compared.
    Prefix(String),
    /// Not compared.
    Any,
}

/// The names of the differences, and how they are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// Only the text of a syntax error, which a generated parser writes.
    SyntaxText,
    Issues,
    Type,
    Estimate,
    ProgramError,
    Error,
    Value,
    Cost,
}

/// Evaluates here.
pub(crate) fn ours(question: &Question) -> Outcome {
    let mut outcome = Outcome::default();
    let Some(declared) = Declared::from_schema(&question.schema, question.resource_root) else {
        outcome.issues = Some("nil decltype".to_owned());
        return outcome;
    };
    let env = rules::environment(&declared, question.optional_old_self);
    let checked = match env.check(&question.expression) {
        Ok(checked) => checked,
        Err(issues) => {
            outcome.issues = Some(issues.to_string());
            return outcome;
        }
    };
    outcome.static_type = Some(checked.result_type().long_name());
    outcome.estimate = Some(checked.estimate().to_string());
    let program = match env.compile(&question.expression) {
        Ok((_, program)) => program,
        Err(CompileError::Instantiation(text)) => {
            outcome.program_error = Some(text);
            return outcome;
        }
        Err(CompileError::Issues(issues)) => {
            outcome.issues = Some(issues.to_string());
            return outcome;
        }
    };
    let activation =
        rules::activation(&declared, &question.new, question.old.as_ref(), question.optional_old_self);
    let activation = match activation {
        Ok(activation) => activation,
        Err(error) => {
            outcome.error = Some(error.to_string());
            return outcome;
        }
    };
    let (result, cost) = program.eval(&activation, rules::CALL_COST_MAX);
    outcome.cost = Some(cost);
    match result {
        Ok(value) => outcome.value = Some(shown(&value)),
        Err(error) => outcome.error = Some(error.to_string()),
    }
    outcome
}

/// The oracle's answer. `None`: it has no answer to compare with.
pub(crate) fn theirs(answer: &Json) -> Option<Outcome> {
    let text = |name: &str| answer.get(name).and_then(Json::as_str).map(str::to_owned);
    if answer.get("schemaerr").is_some() {
        return Some(Outcome { issues: text("schemaerr"), ..Outcome::default() });
    }
    let panicked = answer.get("panic").is_some();
    if panicked && answer.get("type").is_none() {
        // The checker of the server failed.
        return None;
    }
    Some(Outcome {
        issues: text("issues"),
        static_type: text("type"),
        estimate: text("est"),
        // Making the program failed inside of Go.
        program_error: text("progerr").or_else(|| text("panic").filter(|_| answer.get("cost").is_none())),
        error: text("err"),
        value: if panicked && answer.get("cost").is_some() {
            Some(Shown::Any)
        } else {
            text("val").map(Shown::Text)
        },
        cost: answer.get("cost").and_then(Json::as_u64),
    })
}

/// The first difference between the outcome here and the oracle's.
pub(crate) fn difference(ours: &Outcome, theirs: &Outcome) -> Option<Difference> {
    if ours.issues.as_deref().map(anonymous) != theirs.issues.as_deref().map(anonymous) {
        let is_syntax =
            |outcome: &Outcome| outcome.issues.as_deref().is_some_and(|text| text.contains("Syntax error"));
        return Some(if is_syntax(ours) && is_syntax(theirs) {
            Difference::SyntaxText
        } else {
            Difference::Issues
        });
    }
    if ours.static_type.as_deref().map(anonymous) != theirs.static_type.as_deref().map(anonymous) {
        return Some(Difference::Type);
    }
    if ours.estimate != theirs.estimate {
        return Some(Difference::Estimate);
    }
    if ours.program_error != theirs.program_error {
        return Some(Difference::ProgramError);
    }
    if ours.error.as_deref().map(comparable) != theirs.error.as_deref().map(comparable) {
        return Some(Difference::Error);
    }
    let same_value = match (&ours.value, &theirs.value) {
        (None, None) | (Some(Shown::Any), Some(_)) | (Some(_), Some(Shown::Any)) => true,
        // Lists and maps that Go prints in its own way.
        (Some(_), Some(Shown::Text(text))) if text.starts_with("list(") || text.starts_with("map(") => true,
        (Some(Shown::Prefix(start)), Some(Shown::Text(text))) => text.starts_with(start.as_str()),
        (ours, theirs) => ours == theirs,
    };
    if !same_value {
        return Some(Difference::Value);
    }
    (ours.cost != theirs.cost).then_some(Difference::Cost)
}

/// The text without what only Go knows: how it spells a quantity, which list has been added to another, and addresses.
fn comparable(text: &str) -> String {
    let text = text.split_once("(*resource.Quantity)").map_or(text, |(start, _)| start);
    let text = match text.find("{").filter(|_| text.contains(" 0xc")) {
        Some(start) => &text[..start],
        None => text,
    };
    text.replace("*types.concatList", "*types.baseList").replace("kubernetes.NamedFormat", "")
}

/// The text without the numbers of root types, and of type variables, which are random in the server.
pub(crate) fn anonymous(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(end) =
        ["selfType", "_var"].iter().filter_map(|name| Some(rest.find(name)? + name.len())).min()
    {
        out.push_str(&rest[..end]);
        rest = rest[end..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

fn shown(value: &Value<'_>) -> Shown {
    match value {
        // Printed as Go prints its own values.
        Value::Optional(_) | Value::Opaque(_) => Shown::Prefix(format!("{}(", value.type_name())),
        value => match print(value, false) {
            Some(text) => Shown::Text(text),
            None => Shown::Any,
        },
    }
}

/// As `%s` prints it; `None` when it cannot.
fn print(value: &Value<'_>, nested: bool) -> Option<String> {
    let quoted = |text: &str| keepwatch_apimachinery::Quoted(text).to_string();
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) if nested => leaf::format::nested_double(*value),
        Value::Double(value) => leaf::number::double_text(*value),
        Value::String(text) if nested => quoted(text),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes).ok()?;
            if nested { format!("b{}", quoted(text)) } else { text.to_owned() }
        }
        Value::Timestamp(time) if nested => format!("timestamp({})", quoted(&leaf::timestamp::text(*time))),
        Value::Timestamp(time) => leaf::timestamp::text(*time),
        Value::Duration(span) if nested => format!("duration({})", quoted(&leaf::duration::text(span.nanos))),
        Value::Duration(span) => leaf::duration::text(span.nanos),
        Value::Type(name) => name.to_string(),
        Value::List(list) => {
            let items: Option<Vec<String>> =
                list_values(list)?.iter().map(|item| print(item, true)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => print_entries(map_entries(map)?)?,
        Value::Object(object) => print_entries(object_entries(object)?)?,
        Value::Optional(_) | Value::Opaque(_) => return None,
    })
}

type Entries<'a> = Vec<(Value<'a>, Value<'a>)>;

fn print_entries(entries: Entries<'_>) -> Option<String> {
    let entry = |(key, value): &(Value<'_>, Value<'_>)| {
        let key = match key {
            Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => print(key, true)?,
            _ => return None,
        };
        Some((key, print(value, true)?))
    };
    let mut entries: Vec<(String, String)> = entries.iter().map(entry).collect::<Option<_>>()?;
    entries.sort();
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Some(format!("{{{}}}", entries.join(", ")))
}

fn read<'a>(json: &'a Json, declared: Option<&'a Declared>) -> Option<Value<'a>> {
    match declared {
        Some(declared) => Value::from_declared(json, declared).ok(),
        None => Some(Value::from_json(json)),
    }
}

fn list_values<'a>(list: &List<'a>) -> Option<Vec<Value<'a>>> {
    match list {
        List::Values(values) => Some(values.to_vec()),
        List::Json { items, declared } => {
            let declared = match declared.map(|declared| &declared.kind) {
                Some(Kind::List { items, .. }) => Some(&**items),
                _ => None,
            };
            items.iter().map(|item| read(item, declared)).collect()
        }
    }
}

fn map_entries<'a>(map: &Map<'a>) -> Option<Entries<'a>> {
    match map {
        Map::Values(values) => Some(values.entries().to_vec()),
        Map::Json { entries, declared } => {
            let declared = match declared.map(|declared| &declared.kind) {
                Some(Kind::Map { values }) => Some(&**values),
                _ => None,
            };
            let entry = |(key, value): (&'a String, &'a Json)| {
                Some((Value::String(key.as_str().into()), read(value, declared)?))
            };
            entries.iter().map(entry).collect()
        }
    }
}

/// `None` when a property is not declared: the oracle cannot print those.
fn object_entries<'a>(object: &Object<'a>) -> Option<Entries<'a>> {
    let Object::Json { properties, declared } = object else { return None };
    let Kind::Object { fields } = &declared.kind else { return None };
    let entry = |(name, value): (&'a String, &'a Json)| {
        let (escaped, field) = fields.iter().find(|(_, field)| *field.property == **name)?;
        if value.is_null() {
            return None;
        }
        Some((Value::String((&**escaped).into()), read(value, Some(&field.declared))?))
    };
    properties.iter().map(entry).collect()
}
