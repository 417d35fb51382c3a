//! The answer of a server that is not an object: most often why a request failed.
//!
//! Clients decide by reason first, then by code; the message is for people, and compared all the same.

mod answers;
mod cause;
mod reason;

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

pub use cause::Cause;
pub use reason::Reason;

use crate::meta::Qualified;

/// Whether what was asked for was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Success,
    /// It was not.
    #[default]
    Failure,
}

/// A `v1` Status, written to JSON as on the wire.
///
/// ```
/// use keepwatch_apimachinery::{meta::Qualified, status::Status};
///
/// let status = Status::not_found(Qualified::core("pods"), "web-0");
/// assert_eq!(status.to_string(), r#"pods "web-0" not found"#);
/// assert_eq!(status.code, 404);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Empty but for an expired list.
    pub metadata: StatusMeta,
    /// Whether what was asked for was done.
    pub status: Outcome,
    /// For people.
    pub message: String,
    /// For programs; absent on success and on unexpected failures.
    pub reason: Option<Reason>,
    /// The subject of the failure.
    pub details: Option<Box<Details>>,
    /// The HTTP status code; zero where upstream writes none.
    pub code: u16,
}

/// The metadata of a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusMeta {
    /// The token with which a list may go on at a newer version, as the version of its first page is no longer kept.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// The subject of a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of `kind`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`); the kind (`Pod`) where the object itself is at fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Each single fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The time after which a client tries again, if it should.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Details {
    fn about(what: Qualified<'_>, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: what.group.to_owned(),
            kind: what.kind.to_owned(),
            ..Details::default()
        }
    }

    fn retry_after(seconds: u32) -> Details {
        Details { retry_after_seconds: seconds, ..Details::default() }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Status", 8)?;
        out.serialize_field("kind", "Status")?;
        out.serialize_field("apiVersion", "v1")?;
        out.serialize_field("metadata", &self.metadata)?;
        out.serialize_field("status", &self.status)?;
        if !self.message.is_empty() {
            out.serialize_field("message", &self.message)?;
        }
        if let Some(reason) = &self.reason {
            out.serialize_field("reason", reason)?;
        }
        if let Some(details) = &self.details {
            out.serialize_field("details", details)?;
        }
        if self.code != 0 {
            out.serialize_field("code", &self.code)?;
        }
        out.end()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
