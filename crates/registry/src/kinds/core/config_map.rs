//! ConfigMap.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{CHANGE_FIRST, Step, names},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ConfigMap", "configmaps").short_names(&["cm"]).strategy(ConfigMapStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("Data", "How many entries it has"), AGE];

struct ConfigMapStrategy;

impl Strategy for ConfigMapStrategy {
    fn update_order(&self) -> &'static [Step] {
        CHANGE_FIRST
    }

    fn validate(&self, map: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let bytes = keys(map, "data", str::len, errors) + keys(map, "binaryData", decoded_len, errors);
        if bytes > DATA_BYTES_MAX {
            errors.too_long(&map.at("[]"), DATA_BYTES_MAX);
        }
    }

    /// Rejects changes of the data of an immutable ConfigMap.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        frozen(new, old, &["data", "binaryData"], errors);
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, map: &Value, now: Timestamp) -> Vec<Value> {
        row![map.name(), entries(map, "data") + entries(map, "binaryData"), age_of(map, now)]
    }
}

pub(crate) const DATA_BYTES_MAX: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

/// The number of bytes that a base64 text decodes to.
pub(crate) fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2).min(text.len() / 4 * 3)
}

pub(crate) fn keys(object: &Node, name: &str, size: fn(&str) -> usize, errors: &mut FieldErrors) -> usize {
    let mut bytes = 0;
    for (key, value) in object.entries(name) {
        for error in names::config_key(key) {
            errors.invalid(&value, key, &error);
        }
        if name == "data" && object.entry("binaryData", key).exists() {
            errors.invalid(&value, key, "duplicate of key present in binaryData");
        }
        bytes += size(value.as_text());
    }
    bytes
}

pub(crate) fn frozen(new: &Node, old: &Node, fields: &[&str], errors: &mut FieldErrors) {
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        errors.forbidden(&new.at("immutable"), FROZEN);
    }
    for name in fields.iter().filter(|name| new.at(name).value != old.at(name).value) {
        errors.forbidden(&new.at(name), FROZEN);
    }
}

/// The number of entries in a map.
pub(crate) fn entries(document: &Value, path: &str) -> usize {
    document.length(path)
}
