//! Structural schemas of the versions of a custom resource: decoding, defaults, validation and OpenAPI.
//!
//! A definition is checked by [`definition::validate`] before it is stored. [`Schema::parse`] then makes of its
//! `openAPIV3Schema` a small tree of [`Node`]s, which all requests share. With it a document goes through the
//! same steps as in Kubernetes:
//!
//! 1. [`Schema::decode`]: metadata gets the form of its type, unknown fields are dropped and reported, and nulls
//!    that are not allowed are dropped. The same is done to documents from storage, and after a conversion between
//!    versions.
//! 2. [`Schema::fill_defaults`]: absent fields that have a default are set; on reads too.
//! 3. [`Schema::check_values`], [`Schema::check_embedded`], [`Schema::check_lists`] find its errors. In an update,
//!    errors of unchanged values do not count.
//! 4. [`Schema::may_evaluate_rules`]: rules are evaluated last, unless errors of the values make them meaningless.
//! 5. [`settle_numbers`]: whole numbers lose their point, as they do in Kubernetes' storage.
//!
//! [`openapi`] makes the schemas of OpenAPI from the stored JSON. Nothing here is kept for that: descriptions are
//! most of a definition.
//!
//! Everything here is plain data and functions on it: no storage, no HTTP, no waiting.

mod node;
mod numbers;
mod parse;
mod path;
mod shown;
mod format;
mod pattern;
mod prune;
mod embedded;
mod defaults;
mod ratchet;
mod validate;
mod lists;
pub(crate) mod definition;
pub(crate) mod openapi;

pub(crate) use defaults::TooManyDefaults;
pub(in crate::custom) use definition::joined;
pub(crate) use embedded::Source;
pub(in crate::custom) use format::unrecognized_formats;
pub(crate) use node::{Additional, ListType, Node, Part, Rule, Schema, Type};
pub(crate) use numbers::settle as settle_numbers;
pub(in crate::custom) use path::Path;
pub(in crate::custom) use ratchet::Old;
pub(in crate::custom) use shown::{json, shown};
pub(crate) use validate::type_name;

#[cfg(test)]
mod tests;
