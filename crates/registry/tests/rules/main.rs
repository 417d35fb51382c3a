//! The operations on objects, rule by rule, as clients see them: the registry over a store in memory, and for some
//! rules over a watch cache in front of it.
//!
//! `world` calls the registry; everything else is requests and the expected answers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;
mod documents;
mod metadata;
mod create;
mod update;
mod patch;
mod limits;
mod definitions;
mod delete;
mod read;
mod every_kind;
mod dry_run;
mod namespaces;
mod services;
mod scale;
mod pods;
mod tokens;
mod versions;
mod races;
mod lagging_cache;
mod server_objects;
