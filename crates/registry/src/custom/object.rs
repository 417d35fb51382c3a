//! What is special about custom resources when they are written and shown.

use super::{Served, schema};
use crate::{
    document::{FieldErrors, Fields, Node},
    error::Error,
    kind::FieldPath,
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::{Creation, Evaluated, Interrupted, Strategy},
    table::Column,
    validation::{SPEC, Step, warnings::Warnings},
};
use async_trait::async_trait;
use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

/// The objects of one version of a definition.
pub(super) struct CustomObject(Served);

impl CustomObject {
    pub(super) fn new(served: Served) -> CustomObject {
        CustomObject(served)
    }

    /// Whether an object says another kind or version than its path. Then nothing else about it means anything.
    fn has_other_type(&self, object: &Node, errors: &mut FieldErrors) -> bool {
        let before = errors.0.len();
        let api_version = self.0.definition.api_version(self.0.version);
        for (field, wanted) in [("kind", &self.0.definition.names.kind), ("apiVersion", &api_version)] {
            if object.text(field) != *wanted {
                errors.invalid(&object.at(field), object.text(field), &format!("must be {wanted}"));
            }
        }
        errors.0.len() > before
    }

    /// The numbers of its scale, if it has one.
    fn check_scale(&self, object: &Value, part: schema::Part, errors: &mut FieldErrors) {
        let Some(scale) = &self.0.version().scale else { return };
        if part == schema::Part::Whole {
            errors.0.extend(replicas_fault(object, &scale.spec_replicas));
        }
        errors.0.extend(replicas_fault(object, &scale.status_replicas));
        errors.0.extend(scale.selector.as_ref().and_then(|path| selector_fault(object, path)));
    }
}

#[async_trait]
impl Strategy for CustomObject {
    async fn admit(
        &self,
        _: &Registry,
        target: Target<'_>,
        document: &mut Value,
    ) -> Result<Option<Error>, Error> {
        if !self.0.is_terminating() {
            return Ok(None);
        }
        let why = "create not allowed while custom resource definition is terminating";
        Err(Error::forbidden(target.qualified(), document.name(), why))
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        if self.0.version().has_status {
            // What the request said of the status is gone by now. That defaults are not too many was checked before.
            let _ = self.0.definition.fill_defaults(self.0.version, document);
        }
    }

    fn finish(&self, document: &mut Value) {
        schema::settle_numbers(document);
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate_first(&self, new: &Node, _: Option<&Node>, errors: &mut FieldErrors) -> bool {
        self.has_other_type(new, errors)
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let before = old.map(|old| old.value);
        let Some(schema) = self.0.schema() else {
            return self.check_scale(new.value, schema::Part::Whole, errors);
        };
        errors.0.extend(schema.check_values(new.value, before, schema::Part::Whole));
        self.check_scale(new.value, schema::Part::Whole, errors);
        errors.0.extend(schema.check_embedded(new.value));
        errors.0.extend(schema.check_lists(new.value, before));
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        if self.has_other_type(new, errors) {
            return;
        }
        let Some(schema) = self.0.schema() else {
            return self.check_scale(new.value, schema::Part::Status, errors);
        };
        errors.0.extend(schema.check_values(new.value, Some(old.value), schema::Part::Status));
        self.check_scale(new.value, schema::Part::Status, errors);
        errors.0.extend(schema.check_lists(new.value, Some(old.value)));
    }

    fn evaluate_rules(
        &self,
        objects: &Evaluated,
        errors: &mut FieldErrors,
    ) -> Result<Vec<String>, Interrupted> {
        let Some(schema) = self.0.schema() else { return Ok(Vec::new()) };
        let has_other_type = self.has_other_type(&Node::root(objects.new), &mut FieldErrors::default());
        if has_other_type || !schema.may_evaluate_rules(&mut errors.0) {
            return Ok(Vec::new());
        }
        let Some(rules) = self.0.definition.rules(self.0.version) else { return Ok(Vec::new()) };
        let outcome = rules.evaluate(schema.root(), objects)?;
        errors.0.extend(outcome.causes);
        Ok(outcome.warnings)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        let had = |name: &Value| old.is_some_and(|old| old.value.finalizers().contains(name));
        let new = object.value.finalizers().iter().filter(|name| !had(name)).filter_map(Value::as_str);
        for name in new.filter(|name| !name.contains('/')) {
            warnings.push(&format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name including a path (/) to avoid \
                 accidental conflicts with other finalizer writers"
            ));
        }
    }

    fn columns(&self) -> &[Column] {
        self.0.version().columns.columns()
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        self.0.version().columns.cells(document, now)
    }
}

/// The largest number of replicas.
const REPLICAS_MAX: i64 = i32::MAX as i64;

/// What is wrong with a number of replicas. One that is not there is fine.
fn replicas_fault(object: &Value, path: &FieldPath) -> Option<Cause> {
    let shown = dotted(path);
    let replicas = match found(object, path) {
        Ok(value) => match value? {
            Value::Number(number) if number.is_i64() => number.as_i64()?,
            other => return Some(Cause::invalid(&shown, &0.into(), &of_type(&shown, other, "int64"))),
        },
        Err(why) => return Some(Cause::invalid(&shown, &0.into(), &why)),
    };
    let why = match replicas {
        ..0 => "should be a non-negative integer".to_owned(),
        0..=REPLICAS_MAX => return None,
        _ => format!("should be less than or equal to {REPLICAS_MAX}"),
    };
    Some(Cause::invalid(&shown, &replicas.into(), &why))
}

fn selector_fault(object: &Value, path: &FieldPath) -> Option<Cause> {
    let shown = dotted(path);
    let why = match found(object, path) {
        Ok(value) => match value? {
            Value::String(_) => return None,
            other => of_type(&shown, other, "string"),
        },
        Err(why) => why,
    };
    Some(Cause::invalid(&shown, &"".into(), &why))
}

/// What is at a path; the error says where it leads through something that has no fields.
fn found<'v>(object: &'v Value, path: &FieldPath) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    for (depth, name) in path.iter().enumerate() {
        let Some(fields) = value.as_object() else {
            return Err(of_type(&dotted(&path[..depth]), value, "map[string]interface {}"));
        };
        match fields.get(name) {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// That there is something else at a path than was expected, in Go's words.
fn of_type(path: &str, value: &Value, expected: &str) -> String {
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
    format!("{path} accessor error: {shown} is of the type {found}, expected {expected}")
}

fn dotted(path: &[String]) -> String {
    path.iter().map(|name| format!(".{name}")).collect()
}
