//! The replicas of a scale in a custom object: reading, validation and updates.
//!
//! The texts are those of upstream's accessors of nested fields: a path ends at a null as if nothing were there, and cannot go
//! through anything else that has no fields.

use super::{ScalePaths, schema::Part};
use crate::{document::Edit, error::Error, kind::FieldPath};
use keepwatch_apimachinery::status::Cause;
use serde_json::{Map, Value};

/// The largest number of replicas.
const REPLICAS_MAX: i64 = i32::MAX as i64;

/// The scale of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// The desired number of replicas. None if the object does not set it.
    pub(crate) wanted: Option<i64>,
    pub(crate) current: i64,
    pub(crate) selector: String,
}

impl ScalePaths {
    /// The scale in a stored object. The error is that it has something else at one of the paths.
    pub(crate) fn read(&self, object: &Value) -> Result<Scale, Error> {
        let failed = |why: String| Error::Unexplained(why);
        let wanted = replicas_at(object, &self.spec_replicas).map_err(failed)?;
        let current = replicas_at(object, &self.status_replicas).map_err(failed)?;
        let selector = self.selector.as_ref().map(|path| selector_at(object, path).map_err(failed));
        // Upstream makes them 32 bits wide like this.
        let cut = |replicas: i64| i64::from(replicas as i32);
        Ok(Scale {
            wanted: wanted.map(cut),
            current: cut(current.unwrap_or(0)),
            selector: selector.transpose()?.flatten().unwrap_or_default().to_owned(),
        })
    }

    /// Sets the desired number of replicas. The error is that the path leads through a value without fields.
    pub(crate) fn set(&self, object: &mut Value, replicas: i64) -> Result<(), Error> {
        let Some((last, parents)) = self.spec_replicas.split_last() else { return Ok(()) };
        let mut fields = object.make_object();
        for (depth, name) in parents.iter().enumerate() {
            let inner = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let shown = || dotted(&parents[..=depth]);
            let not_a_map =
                || format!("value cannot be set because {} is not a map[string]interface{{}}", shown());
            fields = inner.as_object_mut().ok_or_else(|| Error::Unexplained(not_a_map()))?;
        }
        fields.insert(last.clone(), replicas.into());
        Ok(())
    }

    /// The errors of the scale of an object that is written.
    pub(super) fn faults(&self, object: &Value, part: Part) -> Vec<Cause> {
        let wanted = (part == Part::Whole).then(|| replicas_fault(object, &self.spec_replicas)).flatten();
        let current = replicas_fault(object, &self.status_replicas);
        let selector = self.selector.as_ref().and_then(|path| {
            let why = selector_at(object, path).err()?;
            Some(Cause::invalid(dotted(path), &"".into(), &why))
        });
        wanted.into_iter().chain(current).chain(selector).collect()
    }
}

/// The error of a number of replicas. An absent number has none.
fn replicas_fault(object: &Value, path: &FieldPath) -> Option<Cause> {
    let (replicas, why) = match replicas_at(object, path) {
        Ok(None | Some(0..=REPLICAS_MAX)) => return None,
        Ok(Some(replicas @ ..0)) => (replicas, "should be a non-negative integer".to_owned()),
        Ok(Some(replicas)) => (replicas, format!("should be less than or equal to {REPLICAS_MAX}")),
        Err(why) => (0, why),
    };
    Some(Cause::invalid(dotted(path), &replicas.into(), &why))
}

fn replicas_at(object: &Value, path: &FieldPath) -> Result<Option<i64>, String> {
    let found = value_at(object, path)?;
    found.map(|value| value.as_i64().ok_or_else(|| of_type(path, value, "int64"))).transpose()
}

fn selector_at<'v>(object: &'v Value, path: &FieldPath) -> Result<Option<&'v str>, String> {
    let found = value_at(object, path)?;
    found.map(|value| value.as_str().ok_or_else(|| of_type(path, value, "string"))).transpose()
}

fn value_at<'v>(object: &'v Value, path: &FieldPath) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    for (depth, name) in path.iter().enumerate() {
        let inner = match value {
            Value::Null => None,
            Value::Object(fields) => fields.get(name),
            other => return Err(of_type(&path[..=depth], other, "map[string]interface{}")),
        };
        match inner {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// The error of a value that does not have the expected type, in Go's words.
fn of_type(path: &[String], value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = crate::patch::GoFormat(value);
    format!("{} accessor error: {shown} is of the type {found}, expected {expected}", dotted(path))
}

/// A path as definitions write it.
pub(crate) fn dotted(path: &[String]) -> String {
    path.iter().map(|name| format!(".{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::path;
    use serde_json::json;

    fn paths() -> ScalePaths {
        ScalePaths {
            spec_replicas: path("spec.a.replicas"),
            status_replicas: path("status.replicas"),
            selector: Some(path("status.selector")),
        }
    }

    #[test]
    fn what_stands_where_fields_should_be_is_named_with_its_type() {
        for (object, why) in [
            (
                json!({"spec": 5}),
                ".spec.a accessor error: 5 is of the type int64, expected map[string]interface{}",
            ),
            (
                json!({"spec": {"a": [1]}}),
                ".spec.a.replicas accessor error: [1] is of the type []interface {}, expected map[string]interface{}",
            ),
            (
                json!({"spec": {"a": {"replicas": null}}}),
                ".spec.a.replicas accessor error: <nil> is of the type <nil>, expected int64",
            ),
            (
                json!({"status": {"selector": 7}}),
                ".status.selector accessor error: 7 is of the type int64, expected string",
            ),
        ] {
            let faults = paths().faults(&object, Part::Whole);
            assert_eq!(faults.len(), 1, "{object}");
            assert!(faults[0].message.ends_with(why), "{object}: {}", faults[0].message);
            assert_eq!(paths().read(&object).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_null_on_the_way_counts_as_no_number_but_cannot_be_given_one() {
        for (mut object, why) in [
            (json!({"spec": null}), "value cannot be set because .spec is not a map[string]interface{}"),
            (
                json!({"spec": {"a": null}}),
                "value cannot be set because .spec.a is not a map[string]interface{}",
            ),
        ] {
            assert_eq!(paths().faults(&object, Part::Whole), []);
            assert_eq!(paths().read(&object).unwrap().wanted, None);
            assert_eq!(paths().set(&mut object, 1).unwrap_err().to_string(), why);
        }
        let mut object = json!({});
        paths().set(&mut object, 2).unwrap();
        assert_eq!(object, json!({"spec": {"a": {"replicas": 2}}}));
    }
}
