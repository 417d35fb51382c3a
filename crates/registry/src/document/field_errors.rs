//! Errors about fields, in Kubernetes' words.

use super::{Node, same};
use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

/// A label selector as messages have it, with its labels first. Absent if the value is none, or has only one of the two.
fn format_selector(value: &Value) -> Option<String> {
    let (labels, terms) = (value.get("matchLabels")?, value.get("matchExpressions")?.as_array()?);
    let term = |term: &Value| {
        let fields = ["key", "operator", "values"].iter().filter_map(|name| {
            let value = term.get(name)?;
            Some(format!("\"{name}\":{value}"))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    let terms: Vec<String> = terms.iter().map(term).collect();
    Some(format!("{{\"matchLabels\":{labels},\"matchExpressions\":[{}]}}", terms.join(",")))
}

/// The errors found so far, in the order of the rules.
#[derive(Default)]
pub(crate) struct FieldErrors(pub(crate) Vec<Cause>);

impl FieldErrors {
    /// A value is required. `detail` may be empty.
    pub(crate) fn required(&mut self, at: &Node, detail: &str) {
        self.0.push(Cause::required(at.path(), detail));
    }

    /// The value is invalid.
    pub(crate) fn invalid(&mut self, at: &Node, value: impl Into<Value>, detail: &str) {
        let value = value.into();
        let field = at.path();
        self.0.push(match format_selector(&value) {
            Some(shown) => {
                let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
                Cause::new("FieldValueInvalid", format!("Invalid value: {shown}{detail}"), field)
            }
            None => Cause::invalid(field, &value, detail),
        });
    }

    /// The value is invalid, and too long for the message.
    pub(crate) fn invalid_omit_value(&mut self, at: &Node, detail: &str) {
        let message = format!("Invalid value: {detail}");
        self.0.push(Cause::new("FieldValueInvalid", message, at.path()));
    }

    /// The text must be one of these; an empty one is not supported either.
    pub(crate) fn must_be_one_of(&mut self, at: &Node, supported: &[&str]) {
        if !supported.contains(&at.as_text()) {
            self.not_supported(at, at.as_text(), supported);
        }
    }

    /// The text is required and must be one of these, which both messages list.
    pub(crate) fn required_one_of(&mut self, at: &Node, supported: &[&str]) {
        match at.as_text() {
            "" => {
                let all: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
                self.required(at, &format!("valid values: [{}]", all.join(" ")));
            }
            text if supported.contains(&text) => {}
            text => self.not_supported(at, text, supported),
        }
    }

    /// The text is invalid for each of these reasons.
    pub(crate) fn invalid_each(&mut self, at: &Node, details: Vec<String>) {
        for detail in details {
            self.invalid(at, at.as_text(), &detail);
        }
    }

    /// The text is not one of the supported ones.
    pub(crate) fn not_supported(&mut self, at: &Node, value: &str, supported: &[&str]) {
        self.0.push(Cause::not_supported(at.path(), value, supported));
    }

    /// The value, which is formatted already, is not the supported one.
    pub(crate) fn not_supported_formatted(&mut self, at: &Node, shown: &str, supported: &str) {
        let message = format!("Unsupported value: {shown}: supported values: \"{supported}\"");
        self.0.push(Cause::new("FieldValueNotSupported", message, at.path()));
    }

    /// The value, which is formatted already, is not one of the supported ones.
    pub(crate) fn not_supported_formatted_one_of(&mut self, at: &Node, shown: &str, supported: &[&str]) {
        self.not_supported_formatted(at, shown, &supported.join("\", \""));
    }

    /// The text is a duplicate.
    pub(crate) fn duplicate(&mut self, at: &Node, value: &str) {
        self.0.push(Cause::duplicate(at.path(), value));
    }

    /// The value, which is formatted already, is a duplicate.
    pub(crate) fn duplicate_formatted(&mut self, at: &Node, shown: &str) {
        self.0.push(Cause::new("FieldValueDuplicate", format!("Duplicate value: {shown}"), at.path()));
    }

    /// The field must not be set.
    pub(crate) fn forbidden(&mut self, at: &Node, detail: &str) {
        self.0.push(Cause::forbidden(at.path(), detail));
    }

    /// The text refers to something that does not exist.
    pub(crate) fn not_found(&mut self, at: &Node, value: &str) {
        self.0.push(Cause::not_found(at.path(), value));
    }

    /// The same, with the reason.
    pub(crate) fn not_found_because(&mut self, at: &Node, value: &str, detail: &str) {
        let mut cause = Cause::not_found(at.path(), value);
        cause.message.push_str(": ");
        cause.message.push_str(detail);
        self.0.push(cause);
    }

    /// The text has too many bytes.
    pub(crate) fn too_long(&mut self, at: &Node, bytes_max: usize) {
        self.0.push(Cause::too_long(at.path(), bytes_max));
    }

    /// The list has too many items.
    pub(crate) fn too_many(&mut self, at: &Node, items: usize, items_max: usize) {
        self.0.push(Cause::too_many(at.path(), items, items_max));
    }

    /// The number, if it is set, must not be negative.
    pub(crate) fn not_negative(&mut self, at: &Node) {
        if let Some(number) = at.as_number().filter(|number| *number < 0) {
            self.invalid(at, number, "must be greater than or equal to 0");
        }
    }

    /// The number, if it is set, must be positive.
    pub(crate) fn positive(&mut self, at: &Node) {
        if let Some(number) = at.as_number().filter(|number| *number <= 0) {
            self.invalid(at, number, "must be greater than 0");
        }
    }

    /// The number, if it is set, must be in this range.
    pub(crate) fn in_range(&mut self, at: &Node, low: i64, high: i64) {
        if let Some(number) = at.as_number().filter(|number| !(low..=high).contains(number)) {
            self.invalid(at, number, &format!("must be between {low} and {high}, inclusive"));
        }
    }

    /// The text is required and must be one of these.
    pub(crate) fn one_of(&mut self, at: &Node, supported: &[&str]) {
        match at.as_text() {
            "" => self.required(at, ""),
            text if supported.contains(&text) => {}
            text => self.not_supported(at, text, supported),
        }
    }

    /// The text, if it is set, must be one of these.
    pub(crate) fn one_of_if_set(&mut self, at: &Node, supported: &[&str]) {
        if at.exists() && !supported.contains(&at.as_text()) {
            self.not_supported(at, at.as_text(), supported);
        }
    }

    /// The text is required.
    pub(crate) fn not_empty(&mut self, at: &Node) {
        if at.as_text().is_empty() {
            self.required(at, "");
        }
    }

    /// The text is required and must be valid by a rule.
    pub(crate) fn valid_name(&mut self, at: &Node, rule: fn(&str) -> Vec<String>) {
        if at.as_text().is_empty() {
            self.required(at, "");
        } else {
            self.invalid_each(at, rule(at.as_text()));
        }
    }

    /// The text, if it is not empty, must be valid by a rule.
    pub(crate) fn valid_if_set(&mut self, at: &Node, rule: fn(&str) -> Vec<String>) {
        if !at.as_text().is_empty() {
            self.invalid_each(at, rule(at.as_text()));
        }
    }

    /// The text is immutable; not set is the same as empty.
    pub(crate) fn immutable_text(&mut self, new: &Node, old: &Node) {
        if new.as_text() != old.as_text() {
            self.invalid(new, new.as_text(), "field is immutable");
        }
    }

    /// The value is immutable.
    pub(crate) fn immutable(&mut self, new: &Node, old: &Node) {
        if !same(new.value, old.value) {
            self.invalid(new, new.value.clone(), "field is immutable");
        }
    }
}
