//! ConfigMap.

use crate::{
    kind::Kind,
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        CHANGE_FIRST, Step,
        document::{Faults, Node},
        names,
    },
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

    fn validate(&self, map: &Node, _: Option<&Node>, faults: &mut Faults) {
        let bytes = keys(map, "data", str::len, faults) + keys(map, "binaryData", decoded_len, faults);
        if bytes > DATA_BYTES_MAX {
            faults.too_long(&map.at("[]"), DATA_BYTES_MAX);
        }
    }

    /// What may change in a ConfigMap.
    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        frozen(new, old, &["data", "binaryData"], faults);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, map: &Value, now: Timestamp) -> Vec<Value> {
        row![map.name(), entries(map, "data") + entries(map, "binaryData"), age_of(map, now)]
    }
}

pub(crate) const DATA_BYTES_MAX: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

/// How many bytes the text stands for.
pub(crate) fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2).min(text.len() / 4 * 3)
}

pub(crate) fn keys(object: &Node, name: &str, size: fn(&str) -> usize, faults: &mut Faults) -> usize {
    let mut bytes = 0;
    for (key, value) in object.entries(name) {
        for fault in names::config_key(key) {
            faults.invalid(&value, key, &fault);
        }
        if name == "data" && object.at("binaryData").has(key) {
            faults.invalid(&value, key, "duplicate of key present in binaryData");
        }
        bytes += size(value.text());
    }
    bytes
}

pub(crate) fn frozen(new: &Node, old: &Node, fields: &[&str], faults: &mut Faults) {
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        faults.forbidden(&new.at("immutable"), FROZEN);
    }
    for name in fields.iter().filter(|name| new.at(name).value != old.at(name).value) {
        faults.forbidden(&new.at(name), FROZEN);
    }
}

/// How many entries a map has.
pub(crate) fn entries(document: &Value, path: &str) -> usize {
    document.map(path).map_or(0, |map| map.len())
}
