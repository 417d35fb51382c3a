//! The strategy of custom resources for writes and reads.

use super::{Served, schema};
use crate::{
    document::{FieldErrors, Fields, Node},
    error::Error,
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::{Creation, Evaluated, Interrupted, Strategy},
    table::Column,
    validation::{SPEC, Step, warnings::Warnings},
};
use async_trait::async_trait;
use serde_json::Value;

/// The finalizers of Kubernetes itself, which have no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The objects of one version of a definition.
pub(super) struct CustomObject(Served);

impl CustomObject {
    pub(super) fn new(served: Served) -> CustomObject {
        CustomObject(served)
    }

    /// Whether the kind or the API version of an object differs from that of its path. If so, its other fields mean
    /// nothing.
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

    /// Checks the numbers of its scale, if it has one.
    fn check_scale(&self, object: &Value, part: schema::Part, errors: &mut FieldErrors) {
        let Some(scale) = &self.0.version().scale else { return };
        errors.0.extend(scale.faults(object, part));
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
            // The status of the request is dropped before this. The number of defaults was checked before.
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
        for name in new.filter(|name| !name.contains('/') && !STANDARD_FINALIZERS.contains(name)) {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warnings.push(&format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts \
                 with other finalizer writers"
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
