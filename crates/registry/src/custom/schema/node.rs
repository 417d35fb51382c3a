//! Schemas in memory.
//!
//! Kept true by [`parse`](super::parse) alone: properties are sorted by name; attributes that few nodes have are behind
//! one pointer, so that a field takes some hundred bytes.

use std::sync::Arc;

use serde_json::Value;

use super::{format::Format, pattern::Pattern};

/// The schema of one version of a kind. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(super) root: Arc<Node>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    /// No type is specified: `x-kubernetes-int-or-string`, or any value.
    #[default]
    Unset,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The schema of the entries of an object that are not among its properties.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Nothing: they are dropped.
    #[default]
    Unset,
    /// Whether there may be any.
    Allowed(bool),
    /// The schema of each entry.
    Schema(Box<Node>),
}

/// The merge strategy of a list.
#[derive(Debug)]
pub(crate) enum ListType {
    Atomic,
    Set,
    /// By these fields of the items.
    Map(Box<[Box<str>]>),
}

/// A validation rule in CEL, as the definition has it. Absent fields are empty.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) rule: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) message_expression: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) field_path: Box<str>,
    pub(crate) optional_old_self: Option<bool>,
}

/// The schemas of the fields of an object, sorted by name.
pub(crate) type Properties = Box<[(Box<str>, Node)]>;

/// The schema of one value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) ty: Type,
    pub(crate) nullable: bool,
    /// `x-kubernetes-int-or-string`
    pub(crate) int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub(crate) preserves_unknown: bool,
    /// `x-kubernetes-embedded-resource`
    pub(crate) embedded: bool,
    pub(super) below: Below,
    pub(crate) properties: Properties,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) list_type: Option<Box<ListType>>,
    pub(crate) default: Option<Box<Value>>,
    pub(crate) checks: Option<Box<Checks>>,
    pub(crate) rules: Box<[Rule]>,
}

/// The features used by a node or the nodes below it, so that a walk can skip the rest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Below {
    pub(super) defaults: bool,
    pub(super) rules: bool,
    pub(super) embedded: bool,
    pub(super) unique_lists: bool,
}

/// The restrictions on a value besides its type.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) format: Option<Format>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) enumeration: Box<[Value]>,
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) junctions: Option<Box<Junctions>>,
}

/// Schemas that a value is validated by besides its own.
#[derive(Debug, Default)]
pub(crate) struct Junctions {
    pub(crate) all_of: Box<[Node]>,
    pub(crate) any_of: Box<[Node]>,
    pub(crate) one_of: Box<[Node]>,
    pub(crate) not: Option<Node>,
}

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status if that is a subresource.
    Whole,
    /// The status alone.
    Status,
}

impl Schema {
    /// The whole object; where a walk begins.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Whether there are rules anywhere.
    pub(crate) fn has_rules(&self) -> bool {
        self.root.below.rules
    }
}

impl Node {
    /// The property of that name.
    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        let at = self.properties.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// The schema of the entries that are not among the properties, if there is one.
    pub(crate) fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Additional::Schema(node) => Some(node),
            Additional::Unset | Additional::Allowed(_) => None,
        }
    }

    /// The schema of the value under a name: that of the property, or else that of additional properties.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// Whether there are rules here or below.
    pub(crate) fn has_rules(&self) -> bool {
        self.below.rules
    }

    /// The fields that every such object has.
    pub(crate) fn required(&self) -> &[Box<str>] {
        self.checks.as_ref().map_or(&[], |checks| &checks.required)
    }

    /// The fields in which the items of a list differ, if the list is a map.
    pub(crate) fn map_keys(&self) -> Option<&[Box<str>]> {
        match self.list_type.as_deref() {
            Some(ListType::Map(keys)) => Some(keys),
            _ => None,
        }
    }
}
