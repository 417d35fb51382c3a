//! `'…'.format([…])`, and the check of its arguments where they are written down.

use super::{leaf, text};
use crate::declarations::{Failure, Outcome};
use crate::limits;
use crate::types::Type;
use crate::value::{List, Value};
use keepwatch_apimachinery::Quoted;
use leaf::format::Clause;

pub(super) fn format<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [format, Value::List(arguments)] = args else { return Err(Failure::NoSuchOverload) };
    Ok(Value::text(leaf::format::format(text(format)?, arguments.len(), |index, clause| {
        let argument = arguments.get(index).unwrap_or(Err(Failure::NoSuchOverload)).map_err(message)?;
        write(&argument, clause)
    })?))
}

/// A failure as text.
fn message(failure: Failure) -> String {
    match failure {
        Failure::Error(text) => text,
        Failure::NoSuchOverload | Failure::NoOperator => "no such overload".into(),
    }
}

fn write(argument: &Value<'_>, clause: Clause) -> Result<String, String> {
    Ok(match (clause, argument) {
        (Clause::String, argument) => return string(argument),
        (Clause::Decimal, Value::Int(number)) => number.to_string(),
        (Clause::Decimal, Value::Uint(number)) => number.to_string(),
        (Clause::Fixed(precision), argument) if double(argument).is_some() => {
            leaf::format::fixed(double(argument).unwrap_or_default(), precision)
        }
        (Clause::Scientific(precision), argument) if double(argument).is_some() => {
            leaf::format::scientific(double(argument).unwrap_or_default(), precision)
        }
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::HexLower | Clause::HexUpper, Value::String(text)) => {
            leaf::format::hex_of_bytes(text.as_bytes(), clause == Clause::HexUpper)
        }
        (Clause::HexLower | Clause::HexUpper, Value::Bytes(bytes)) => {
            leaf::format::hex_of_bytes(bytes, clause == Clause::HexUpper)
        }
        (Clause::Binary | Clause::Octal | Clause::HexLower | Clause::HexUpper, Value::Int(number)) => {
            leaf::format::integer(i128::from(*number), clause)
        }
        (Clause::Binary | Clause::Octal | Clause::HexLower | Clause::HexUpper, Value::Uint(number)) => {
            leaf::format::integer(i128::from(*number), clause)
        }
        _ => return Err(clause.type_error(argument.type_name())),
    })
}

/// A double, or the text of one that is not finite.
fn double(argument: &Value<'_>) -> Option<f64> {
    match argument {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// `%s`.
pub(super) fn string(argument: &Value<'_>) -> Result<String, String> {
    let bytes = match argument {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 1,
    };
    limits::visit(bytes).map_err(message)?;
    Ok(match argument {
        Value::Null => "null".into(),
        Value::List(elements) => list(elements)?,
        Value::Map(_) | Value::Object(_) => map(argument)?,
        Value::Type(name) => name.to_string(),
        Value::Optional(_) | Value::Opaque(_) => return Err(Clause::String.type_error(argument.type_name())),
        scalar => match super::standard::to_string(std::slice::from_ref(scalar)) {
            Ok(Value::String(text)) => text.to_string(),
            Ok(_) | Err(_) => {
                let why = "invalid UTF-8 in bytes, cannot convert to string";
                return Err(format!("could not convert argument {why:?} to string"));
            }
        },
    })
}

fn list(elements: &List<'_>) -> Result<String, String> {
    let texts: Result<Vec<_>, _> =
        elements.iter().map(|element| nested(&element.map_err(message)?)).collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

fn map(of: &Value<'_>) -> Result<String, String> {
    let keys = match of {
        Value::Map(map) => map.keys(),
        Value::Object(object) => object.keys(),
        _ => Vec::new(),
    };
    let mut pairs = Vec::with_capacity(keys.len());
    for key in keys {
        let written = match &key {
            Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => nested(&key)?,
            other => {
                return Err(format!("no formatting function for map key of type {}", other.type_name()));
            }
        };
        let value = match (of, &key) {
            (Value::Map(map), key) => map.find(key),
            (Value::Object(object), Value::String(name)) => object.find(name),
            _ => None,
        };
        let Some(value) = value else {
            return Err(format!("could not find key: {:?}", key.message_text()));
        };
        pairs.push((written, nested(&value.map_err(message)?)?));
    }
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", pairs.join(", ")))
}

fn go_quoted(text: &str) -> String {
    Quoted(text).to_string()
}

/// A value inside a list or a map.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => {
            limits::visit(text.len()).map_err(message)?;
            go_quoted(text)
        }
        Value::Bytes(_) => format!("b{}", go_quoted(&string(value)?)),
        Value::Double(number) => leaf::format::nested_double(*number),
        Value::Timestamp(_) => format!("timestamp({})", go_quoted(&string(value)?)),
        Value::Duration(_) => format!("duration({})", go_quoted(&string(value)?)),
        Value::Optional(_) | Value::Opaque(_) => {
            return Err(format!("no formatting function for {}", value.type_name()));
        }
        other => string(other)?,
    })
}

/// Checks a literal format and returns the number of arguments that it uses. `refused` gives the type that a clause
/// does not accept, of an argument or of something in it.
///
/// # Errors
///
/// The text of the first thing that is wrong.
pub(crate) fn check_format<'t>(
    format: &str,
    arguments: usize,
    mut refused: impl FnMut(usize, Clause) -> Option<&'t Type>,
) -> Result<usize, String> {
    let mut used = 0;
    leaf::format::check(format, arguments, |index, clause| {
        used = index + 1;
        match refused(index, clause) {
            None => Ok(()),
            Some(found) => Err(clause.type_error(&type_name(found))),
        }
    })?;
    Ok(used)
}

fn type_name(of: &Type) -> String {
    match of.unwrapped() {
        Type::List(_) => "list".into(),
        Type::Map(..) => "map".into(),
        Type::Optional(_) => "optional_type".into(),
        Type::Type(_) => "type".into(),
        other => other.long_name(),
    }
}

/// Whether a clause takes values of a type.
pub(crate) fn takes(clause: Clause, argument: &Type) -> bool {
    let argument = argument.unwrapped();
    match clause {
        _ if *argument == Type::Dyn => true,
        Clause::String => !matches!(argument, Type::Object(_) | Type::Opaque(_) | Type::Optional(_)),
        Clause::Decimal | Clause::Octal => matches!(argument, Type::Int | Type::Uint),
        Clause::Fixed(_) | Clause::Scientific(_) => matches!(argument, Type::Double | Type::String),
        Clause::Binary => matches!(argument, Type::Int | Type::Uint | Type::Bool),
        Clause::HexLower | Clause::HexUpper => {
            matches!(argument, Type::Int | Type::Uint | Type::String | Type::Bytes)
        }
    }
}
