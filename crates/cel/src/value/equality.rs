//! Equality of values, and whether a list or map contains a value.

use serde_json::{Map as JsonMap, Value as Json};

use super::{List, Map, Object, Opaque, Value, compare};
use crate::declarations::Failure;
use crate::limits;
use crate::schema::{Declared, ListType, unescape};

/// Whether two values are equal. Where the left value is of a document, its schema says how.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> Result<bool, Failure> {
    limits::visit(1)?;
    Ok(match (left, right) {
        (Value::Null, other) | (other, Value::Null) => {
            matches!(other, Value::Null) && matches!((left, right), (Value::Null, Value::Null))
        }
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::Uint(left), Value::Uint(right)) => left == right,
        (Value::Double(left), Value::Double(right)) => left == right,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare(left, right).is_ok_and(std::cmp::Ordering::is_eq),
        (Value::String(left), Value::String(right)) | (Value::Type(left), Value::Type(right)) => {
            left == right
        }
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            (left.seconds, left.nanos) == (right.seconds, right.nanos)
        }
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::List(left), Value::List(right)) => return lists(left, right),
        (Value::Map(Map::Values(left)), right) => return made_map(left.entries(), right),
        (Value::Map(Map::Json { entries, declared: None }), right) => return json_map(entries, None, right),
        (Value::Map(Map::Json { entries, declared }), right) => return json_map(entries, *declared, right),
        (Value::Object(left), right) => return object(left, right),
        (Value::Optional(left), Value::Optional(right)) => match (left, right) {
            (Some(left), Some(right)) => return equal(left, right),
            (left, right) => left.is_none() && right.is_none(),
        },
        (Value::Opaque(Opaque::Unreadable(text)), _) | (_, Value::Opaque(Opaque::Unreadable(text))) => {
            return Err(Failure::Error(text.to_string()));
        }
        (Value::Opaque(left), Value::Opaque(right)) if left.type_name() == right.type_name() => {
            return Opaque::equal(left, right);
        }
        (Value::Opaque(_), _) => return Err(Failure::NoSuchOverload),
        // A list of a document is compared with lists only.
        (Value::List(List::Json { declared: Some(_), .. }), _) => return Err(Failure::NoSuchOverload),
        _ => false,
    })
}

/// Whether a list or map contains a value.
pub(crate) fn contains(container: &Value<'_>, value: &Value<'_>) -> Result<bool, Failure> {
    match container {
        Value::List(list) => {
            let mut failure = None;
            for element in list.iter() {
                match element.and_then(|element| equal(&element, value)) {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            limits::visit(0)?;
            match failure {
                Some(error) if matches!(list, List::Json { declared: Some(_), .. }) => Err(error),
                _ => Ok(false),
            }
        }
        Value::Map(map) => match map.find(value) {
            Some(Err(error)) => Err(error),
            found => Ok(found.is_some()),
        },
        Value::Object(object) => match value {
            Value::String(name) => Ok(object.find(name).is_some()),
            _ => Err(Failure::NoSuchOverload),
        },
        _ => Err(Failure::NoSuchOverload),
    }
}

fn lists(left: &List<'_>, right: &List<'_>) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    match left.list_type() {
        ListType::Atomic => {
            let lenient = matches!(left, List::Values(_));
            for (left, right) in left.iter().zip(right.iter()) {
                let same = left.and_then(|left| equal(&left, &right?));
                match same {
                    Ok(true) => {}
                    // Lists that expressions make do not report errors of their elements.
                    Err(_) if lenient => {}
                    other => return other,
                }
            }
            limits::visit(0)?;
            Ok(true)
        }
        ListType::Set => {
            for element in right.iter() {
                if !contains(&Value::List(left.clone()), &element?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Map(keys) => {
            for element in right.iter() {
                let element = element?;
                let mut found = None;
                for candidate in left.iter() {
                    let candidate = candidate?;
                    if same_keys(&candidate, &element, keys)? {
                        found = Some(candidate);
                    }
                }
                match found {
                    Some(candidate) if equal(&candidate, &element)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

/// Whether two items of a list of type `map` have the same keys.
pub(crate) fn same_keys(left: &Value<'_>, right: &Value<'_>, keys: &[Box<str>]) -> Result<bool, Failure> {
    let (
        Value::Object(Object::Json { properties: left, .. }),
        Value::Object(Object::Json { properties: right, .. }),
    ) = (left, right)
    else {
        return Err(Failure::NoSuchOverload);
    };
    Ok(keys.iter().all(|key| left.get(&**key) == right.get(&**key)))
}

fn made_map(left: &[(Value<'_>, Value<'_>)], right: &Value<'_>) -> Result<bool, Failure> {
    let size = match right {
        Value::Map(map) => map.len(),
        Value::Object(object) => object.len(),
        _ => return Ok(false),
    };
    if left.len() != size {
        return Ok(false);
    }
    for (key, value) in left {
        let same = match find(right, key) {
            Some(found) => found.and_then(|found| equal(value, &found)),
            None => Ok(false),
        };
        if matches!(same, Ok(false)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn find<'a>(map: &Value<'a>, key: &Value<'_>) -> Option<Result<Value<'a>, Failure>> {
    match (map, key) {
        (Value::Map(map), key) => map.find(key),
        (Value::Object(object), Value::String(name)) => object.find(name),
        _ => None,
    }
}

fn json_map(
    entries: &JsonMap<String, Json>,
    declared: Option<&Declared>,
    right: &Value<'_>,
) -> Result<bool, Failure> {
    let Value::Map(right) = right else {
        return if declared.is_some() { Err(Failure::NoSuchOverload) } else { Ok(false) };
    };
    if entries.len() != right.len() {
        return Ok(false);
    }
    let left = Map::Json { entries, declared };
    for key in entries.keys() {
        let (Some(value), Some(other)) = (left.find_text(key), right.find_text(key)) else {
            return Ok(false);
        };
        if !equal(&value?, &other?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn object(left: &Object<'_>, right: &Value<'_>) -> Result<bool, Failure> {
    let (Object::Json { properties, declared }, Value::Object(other)) = (left, right) else {
        return match (left, right) {
            (Object::Json { properties, declared }, Value::Map(map)) => {
                object_and_map(properties, declared, left, map)
            }
            _ => Err(Failure::NoSuchOverload),
        };
    };
    if properties.len() != other.len() {
        return Ok(false);
    }
    let Object::Json { properties: others, declared: other_declared } = other else { return Ok(false) };
    for (name, value) in *properties {
        match declared.property(name) {
            Some(_) => {
                // Properties are looked up by names that are taken for escaped ones. What is none is not compared.
                let Some(name) = unescape(name) else { continue };
                let Some(field) = declared.property(&name) else { continue };
                let value = properties.get(&name).filter(|value| !value.is_null());
                let other = others.get(&name).filter(|value| !value.is_null());
                let other_field = other_declared.property(&name);
                match (value, other.zip(other_field)) {
                    (None, None) => {}
                    (Some(value), Some((other, other_field))) => {
                        let value = super::json::read(value, Some(&field.declared))?;
                        if !equal(&value, &super::json::read(other, Some(&other_field.declared))?)? {
                            return Ok(false);
                        }
                    }
                    _ => return Ok(false),
                }
            }
            // Properties that the schema does not declare are compared only where both objects have them.
            None => {
                if others.get(name).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// An object of a document and a map that an expression made.
fn object_and_map(
    properties: &JsonMap<String, Json>,
    declared: &Declared,
    left: &Object<'_>,
    right: &Map<'_>,
) -> Result<bool, Failure> {
    if properties.len() != right.len() {
        return Ok(false);
    }
    for name in properties.keys() {
        if declared.property(name).is_none() {
            return Err(Failure::NoSuchOverload);
        }
        match (left.find(name), right.find_text(name)) {
            (Some(value), Some(other)) => {
                if !equal(&value?, &other?)? {
                    return Ok(false);
                }
            }
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
