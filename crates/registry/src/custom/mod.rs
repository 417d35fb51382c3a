//! Custom resources: kinds that users define.
//!
//! A definition is an object of `customresourcedefinitions`; its own rules are in [`rules`] and in that kind's file. A
//! definition whose names are accepted ([`names`]) becomes a [`Definition`], and each version that it serves becomes a
//! kind of the catalog ([`served`]), whose objects are handled like all others. They differ in this:
//!
//! - bodies are decoded by the schema of the definition and not by the table of types ([`decode`]),
//! - objects are stored in one version and shown in any ([`convert`]), converted by a webhook if the definition has
//!   one,
//! - their columns come from the definition ([`columns`]).
//!
//! [`controller`] watches the definitions, serves their resources, and deletes the objects of those that are deleted.

mod definition;
pub(crate) mod schema;
mod expressions;
mod json_path;
mod columns;
mod served;
mod scale;
mod object;
mod decode;
mod convert;
mod names;
pub(crate) mod rules;
mod controller;

pub use controller::Definitions;
pub(crate) use controller::mark_for_deletion;
pub use convert::{ConversionError, Converter};
pub(crate) use decode::{Refused, decode, finish_patch};
pub(crate) use definition::Definition;
pub use definition::{ScalePaths, Webhook, WebhookService};
pub(crate) use scale::{Scale, dotted};
pub use served::{OpenApiVersion, PublishedSchemas, kinds_of};
pub(crate) use served::{Served, TERMINATING_VERBS, kinds};
