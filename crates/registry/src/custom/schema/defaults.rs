//! Sets absent fields that have a default.

use std::fmt;

use serde_json::{Map, Value};

use super::node::{Node, Schema};
use crate::schema::{VALUES_MAX, count_values};

/// Defaults would make more values than a document may have, or more bytes. The author of the definition makes them smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyDefaults;

impl fmt::Display for TooManyDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "too many values: the defaults of the kind would add more than the {VALUES_MAX} of a document"
        )
    }
}

impl std::error::Error for TooManyDefaults {}

impl Schema {
    /// Sets absent fields that have a default, and replaces nulls that are not allowed. After an error the document is
    /// unfit for use.
    pub(crate) fn fill_defaults(&self, document: &mut Value) -> Result<(), TooManyDefaults> {
        Filling { left: VALUES_MAX, bytes_left: DEFAULT_BYTES_MAX }.value(self.root(), document)
    }
}

struct Filling {
    /// The number of values that may still be added.
    left: usize,
    /// The number of bytes of text that may still be added.
    bytes_left: usize,
}

/// The number of bytes of text that defaults may add to an object: as many as an object may have.
const DEFAULT_BYTES_MAX: usize = crate::rest::OBJECT_BYTES_MAX;

/// The bytes of all texts and names in a value.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + text_bytes(value)).sum(),
        _ => 0,
    }
}

type Filled = Result<(), TooManyDefaults>;

impl Filling {
    fn value(&mut self, node: &Node, value: &mut Value) -> Filled {
        if !node.below.defaults {
            return Ok(());
        }
        match value {
            Value::Object(fields) => self.object(node, fields),
            Value::Array(items) => {
                let Some(schema) = node.items.as_deref() else { return Ok(()) };
                items.iter_mut().try_for_each(|item| self.element(schema, item))
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, node: &Node, fields: &mut Map<String, Value>) -> Filled {
        for (name, property) in &node.properties {
            if !property.below.defaults {
                continue;
            }
            match (fields.get_mut(&**name), &property.default) {
                (Some(value), _) => self.element(property, value)?,
                (None, Some(default)) => {
                    let mut value = self.copy(default)?;
                    self.value(property, &mut value)?;
                    fields.insert((**name).to_owned(), value);
                }
                (None, None) => {}
            }
        }
        if let Some(schema) = node.additional_schema().filter(|schema| schema.below.defaults) {
            for (name, value) in fields.iter_mut() {
                if node.property(name).is_none() {
                    self.element(schema, value)?;
                }
            }
        }
        Ok(())
    }

    /// Fills in a value that is present, though it may be null.
    fn element(&mut self, node: &Node, value: &mut Value) -> Filled {
        if let Some(default) = node.default.as_ref().filter(|_| value.is_null() && !node.nullable) {
            *value = self.copy(default)?;
        }
        self.value(node, value)
    }

    fn copy(&mut self, default: &Value) -> Result<Value, TooManyDefaults> {
        self.left = self.left.checked_sub(count_values(default)).ok_or(TooManyDefaults)?;
        self.bytes_left = self.bytes_left.checked_sub(text_bytes(default)).ok_or(TooManyDefaults)?;
        Ok(default.clone())
    }
}
