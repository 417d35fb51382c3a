//! The options of a write: dry run, field manager, field validation, and how to delete.

use crate::{
    codec::{Body, decode_options},
    document::Fields,
    error::Error,
    schema::lookup,
};
use keepwatch_apimachinery::{meta::Qualified, status::Cause};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// No warning and no error.
    Ignore,
    /// Warn.
    #[default]
    Warn,
    /// An error.
    Strict,
}

/// The options of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Do everything but the write.
    pub dry_run: bool,
    /// The field manager.
    pub field_manager: String,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// After this time the client no longer waits for the write, and it is not begun.
    pub deadline: Option<Instant>,
    /// How long the rules of a custom resource may be evaluated before the write ends with [`Error::TakesLong`], because
    /// its thread has other work to do. None: until the deadline.
    pub rules_time_max: Option<Duration>,
}

/// The request that the options belong to, whose name errors contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Of a create.
    Create,
    /// Of an update.
    Update,
    /// Of a patch, and whether it is a server-side apply.
    Patch {
        /// Whether it is a server-side apply, which names its manager and may be forced.
        apply: bool,
    },
}

impl Writing {
    fn name(self) -> &'static str {
        match self {
            Writing::Create => "CreateOptions",
            Writing::Update => "UpdateOptions",
            Writing::Patch { .. } => "PatchOptions",
        }
    }
}

/// The maximum length of a field manager's name.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

impl WriteOptions {
    /// Reads decoded query parameters and rejects invalid ones.
    pub fn from_query(query: &[(&str, &str)], writing: Writing) -> Result<WriteOptions, Error> {
        let first = |name: &str| query.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let mut causes = Vec::new();
        let field_manager = first("fieldManager").unwrap_or_default();
        if let Writing::Patch { apply } = writing {
            if !apply && first("force").is_some_and(|value| !value.is_empty()) {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
            if apply && field_manager.is_empty() {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
        }
        causes.extend(field_manager_errors(field_manager));
        let dry_runs: Vec<&str> =
            query.iter().filter(|(key, _)| *key == "dryRun").map(|(_, value)| *value).collect();
        causes.extend(dry_run_error(&dry_runs));
        let field_validation = match first("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::not_supported(
                    "fieldValidation",
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        refuse(writing.name(), causes)?;
        let dry_run = !dry_runs.is_empty();
        let field_manager = field_manager.to_owned();
        Ok(WriteOptions { dry_run, field_manager, field_validation, deadline: None, rules_time_max: None })
    }

    /// Rejects a write whose deadline has passed.
    pub(crate) fn must_be_in_time(&self) -> Result<(), Error> {
        match self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            true => Err(Error::Late),
            false => Ok(()),
        }
    }
}

fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), Error> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(Qualified::new("meta.k8s.io", kind), "", causes))
}

fn field_manager_errors(manager: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        causes.push(Cause::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX));
    }
    if let Some((at, _)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!("invalid character at {at}: should only contain printable characters");
        causes.push(Cause::invalid("fieldManager", &manager.into(), &detail));
    }
    causes
}

fn dry_run_error(dry_runs: &[&str]) -> Option<Cause> {
    if dry_runs.iter().all(|value| *value == "All") {
        return None;
    }
    let given = Value::from(dry_runs);
    let message = format!("Unsupported value: {given}: supported values: \"All\"");
    Some(Cause::new("FieldValueNotSupported", message, "dryRun"))
}

/// The treatment of the objects that belong to a deleted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted first, and the object waits for them.
    Foreground,
    /// They are deleted afterwards.
    Background,
    /// They stay.
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Do everything but the write.
    pub dry_run: bool,
    /// The grace period.
    pub grace_period_seconds: Option<i64>,
    /// The treatment of the objects that belong to it.
    pub propagation: Option<Propagation>,
    /// The deprecated option for orphaning dependents. A client that sets it to false is answered with 202 while they
    /// are deleted.
    pub orphan_dependents: Option<bool>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The version that the object must have, as text.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads them from the body, or if there is none from decoded query parameters.
    pub fn read(body: Option<&Body<'_>>, query: &[(&str, &str)]) -> Result<DeleteOptions, Error> {
        let document = match body {
            Some(body) if !body.bytes.is_empty() => decode_options(
                body,
                "DeleteOptions",
                lookup("meta.v1.DeleteOptions").expect("the table of types has the options of a delete"),
            )?,
            _ => query_document(query)?,
        };
        DeleteOptions::from_document(&document)
    }

    /// Reads them from their document.
    pub fn from_document(document: &Value) -> Result<DeleteOptions, Error> {
        let dry_runs: Vec<&str> = document.list("dryRun").iter().filter_map(Value::as_str).collect();
        let mut causes = Vec::new();
        let given = document.field("propagationPolicy").filter(|policy| !policy.is_null());
        let policy = given.and_then(Value::as_str).unwrap_or_default();
        let orphan_dependents = document.field("orphanDependents").and_then(Value::as_bool);
        if orphan_dependents.is_some() && !policy.is_empty() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", &policy.into(), detail));
        }
        let propagation = match (policy, orphan_dependents) {
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Background", _) => Some(Propagation::Background),
            ("Orphan", _) => Some(Propagation::Orphan),
            ("", None) if given.is_none() => None,
            ("", Some(true)) => Some(Propagation::Orphan),
            ("", Some(false)) => Some(Propagation::Background),
            (other, _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        causes.extend(dry_run_error(&dry_runs));
        refuse("DeleteOptions", causes)?;
        let precondition =
            |name| document.field("preconditions").field(name).and_then(Value::as_str).map(str::to_owned);
        Ok(DeleteOptions {
            dry_run: !dry_runs.is_empty(),
            // A negative number stands for the minimum, one second.
            grace_period_seconds: document
                .number_if_set("gracePeriodSeconds")
                .map(|s| if s < 0 { 1 } else { s }),
            propagation,
            orphan_dependents,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }
}

fn query_document(query: &[(&str, &str)]) -> Result<Value, Error> {
    let mut document = serde_json::Map::new();
    for (name, value) in query.iter().rev() {
        match *name {
            "gracePeriodSeconds" => {
                let seconds = keepwatch_apimachinery::list_options::integer(value)
                    .map_err(|status| Error::BadRequest(status.message))?;
                document.insert((*name).to_owned(), seconds.into());
            }
            "propagationPolicy" if !value.is_empty() => {
                document.insert((*name).to_owned(), (*value).into());
            }
            "orphanDependents" => {
                let yes = keepwatch_apimachinery::list_options::is_true(value);
                document.insert((*name).to_owned(), yes.into());
            }
            _ => {}
        }
    }
    let dry_runs: Vec<Value> =
        query.iter().filter(|(name, _)| *name == "dryRun").map(|(_, value)| (*value).into()).collect();
    if !dry_runs.is_empty() {
        document.insert("dryRun".to_owned(), dry_runs.into());
    }
    Ok(Value::Object(document))
}
